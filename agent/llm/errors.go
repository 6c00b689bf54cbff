package llm

import (
	"errors"
	"fmt"
)

// What goes wrong with models, each seen on a real server. Callers decide on
// these; [Trouble] adds what to try.
var (
	ErrDown         = errors.New("model server is down")
	ErrUnknownModel = errors.New("unknown model")
	ErrNoTools      = errors.New("model has no tools")
	ErrNoThinking   = errors.New("model has no thinking")
	ErrCutOff       = errors.New("answer was cut off")                      // token limit reached
	ErrNoDone       = errors.New("stream ended without a last word")        // although the server said 200
	ErrEmpty        = errors.New("empty answer after spent tokens")         // it called a tool that was not offered
	ErrSchema       = errors.New("answer does not fit the schema")          //
	ErrBadSchema    = errors.New("schema can't be used")                    // not bounded, or not understood
	ErrContext      = errors.New("context is too long")                     //
	ErrQueueFull    = errors.New("too many requests wait for the model")    //
	ErrMemory       = errors.New("model does not fit into memory")          //
	ErrServer       = errors.New("model server failed")                     // anything else it says
	ErrNoMatch      = errors.New("nothing that this model knows fits")      // intent and builtin models decline
	ErrDiffers      = errors.New("recording has no answer to this request") // replay
)

// Trouble is an error of a model with a remedy for the person who reads it.
type Trouble struct {
	Err    error  // wraps a sentinel of this package
	Model  string // as scripts write it
	Remedy string // one line: what to try
}

func (t *Trouble) Error() string {
	s := t.Err.Error()
	if t.Model != "" {
		s = t.Model + ": " + s
	}
	if t.Remedy != "" {
		s += fmt.Sprintf(" (%s)", t.Remedy)
	}
	return s
}

func (t *Trouble) Unwrap() error { return t.Err }
