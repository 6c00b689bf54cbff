package lib

import (
	"encoding/json"
	"time"
)

// An Ask is a question to people: of a Human node of a graph, or of a turn
// that HUMAN has in a society. Nobody but a person answers it.
type Ask struct {
	By      string // who asks: "graph:request", "society:home"
	Run     string // id of the run; with Path it is the same question after a restart
	Path    string // of the step in it
	Prompt  string
	Options []string        // what can be answered; nil is any words
	Form    json.RawMessage // the answer is JSON of this schema; nil: it is words
	Asked   time.Time
	Until   time.Time // when the answer comes too late; zero is never
	Default string    // what is taken then; empty is nothing
}
