// Package llm makes agents of models: a loop that asks a model, runs the tools
// it calls one after the other, and stops with a typed outcome.
//
// Its one rule: what a model says is a proposal. A call happens only if the
// model's server delivered it as a call, its tool was offered, its arguments
// fit the tool's schema, and every hook let it pass; prose never acts.
//
//	butler, err := llm.New(llm.Options{Name: "butler", Model: model, Tools: []llm.Tool{light}})
//	r, err := agent.Run(ctx, butler, agent.Task{Input: "some light in the hall"})
//	fmt.Println(r.Reply, r.Did("light")) // The hall is lit. true
//
// The models themselves are in the folders below: ollama and openai talk to a
// server, intent and builtin need none, replay answers from a file.
package llm

import (
	"context"
	"encoding/json"
	"time"

	"edged/agent"
	"edged/bus/origin"
)

// A Model answers one request. Chat may be called concurrently. It returns
// when the answer is whole, or soon after ctx ends, and then nothing more is
// said. If say is not nil it is called with pieces of the answer's text in
// order, on the caller's goroutine; its error ends the answer. Errors wrap one
// of the sentinels of this package, or ctx's error.
type Model interface {
	Chat(ctx context.Context, r Request, say func(text string) error) (Message, error)
}

// A Describer knows what a model can do. Models that don't are taken to do all.
type Describer interface {
	Describe(ctx context.Context) (Info, error)
}

// Info is what a model is and can do.
type Info struct {
	Name     string `json:"name"` // as scripts write it: "ollama:qwen2.5:1.5b"
	Tools    bool   `json:"tools"`
	Thinking bool   `json:"thinking"`
	Schema   bool   `json:"schema"`  // output can be constrained by a JSON schema
	Embed    bool   `json:"embed"`   // it is an Embedder that works
	Context  int    `json:"context"` // tokens, 0 = unknown
	Warm     bool   `json:"warm"`    // in memory already
}

// An Embedder turns texts into vectors of one length, one per text, in order.
type Embedder interface {
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

// A Warmer loads its model ahead of the first request.
type Warmer interface {
	Warm(ctx context.Context) error
}

// A Request is what a model is asked.
type Request struct {
	Messages []Message       // the system's first, then the dialogue
	Tools    []Tool          // offered; a model reads Name, Doc and Params
	Choice   Choice          // whether it must call one
	Schema   json.RawMessage // the answer's text must be JSON of this bounded schema; no Tools then
	Sampling
}

// Sampling is how an answer is drawn; the zero value is the model's default.
type Sampling struct {
	Temperature *float64 // nil: the model's default; 0 is greedy
	Seed        *int64
	MaxTokens   int // 0: the model's default
	Think       bool
}

// Choice says whether a model may, must or must not call a tool.
type Choice string

// The choices; empty is ChoiceAuto.
const (
	ChoiceAuto     Choice = "auto"
	ChoiceRequired Choice = "required"
	ChoiceNone     Choice = "none"
)

// Role is whose message it is.
type Role string

// The roles.
const (
	System    Role = "system"
	User      Role = "user"
	Assistant Role = "assistant"
	ToolRole  Role = "tool"
)

// A Message is one turn of a dialogue.
type Message struct {
	Role     Role         `json:"role"`
	Text     string       `json:"text,omitempty"`
	Notes    string       `json:"notes,omitempty"`    // what the turn needs to know besides the words; see Prompt
	Thinking string       `json:"thinking,omitempty"` // never spoken, never sent back
	Calls    []Call       `json:"calls,omitempty"`    // of an assistant
	CallID   string       `json:"call_id,omitempty"`  // of a tool's result: the call it answers
	Name     string       `json:"name,omitempty"`     // of a tool's result: the tool; of an assistant: the agent
	Origin   origin.Label `json:"origin,omitempty"`   // whose words it is, as in agent.Task
	Finish   Finish       `json:"finish,omitempty"`   // why an answer ended
	Usage    agent.Usage  `json:"usage,omitzero"`
}

// Prompt is the text as a model that converses reads it: notes first, then the
// words. Models that match sentences read Text alone.
func (m Message) Prompt() string {
	if m.Notes == "" {
		return m.Text
	}
	return m.Notes + "\n\n" + m.Text
}

// Finish is why an answer ended.
type Finish string

// The ways an answer ends well. A cut-off answer is an error, ErrCutOff.
const (
	FinishStop Finish = "stop"
	FinishCall Finish = "call"
)

// A Call is a model's wish to run a tool.
type Call struct {
	ID   string          `json:"id"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"` // a JSON object
}

// Effect says what a tool does to the world.
type Effect string

// The effects; empty is Read.
const (
	Read  Effect = "read"
	Write Effect = "write" // moves or sends something: it goes through the gate
)

// A Tool is something an agent can do.
type Tool struct {
	Name   string
	Doc    string          // what the model is told, one line first
	Params json.RawMessage // JSON schema of the arguments, an object; nil = no arguments
	Effect Effect
	// Do runs the tool with arguments that fit Params and gives its result as
	// JSON. An error goes to the model in one line.
	Do       func(ctx context.Context, args json.RawMessage) (json.RawMessage, error)
	Parallel bool          // may run beside other parallel tools of the same answer
	Timeout  time.Duration // 0 = the agent's
	// Origin is whose words its description is and what it gives; "" = the
	// author's, and what it gives is of whatever it reads. Whoever sets it has
	// quoted Doc and Params; results are quoted here.
	Origin origin.Label
	// Confirm asks a person or decides by code; nil = no question. The answer
	// holds for exactly these arguments.
	Confirm func(ctx context.Context, c Call) error
}

// Priority orders requests that wait for the same model server.
type Priority int

// The priorities, from the last served to the first.
const (
	Background Priority = iota
	Workflow
	Person
	Safety
)

type priorityKey struct{}

// WithPriority returns a context whose requests have a priority.
func WithPriority(ctx context.Context, p Priority) context.Context {
	return context.WithValue(ctx, priorityKey{}, p)
}

// PriorityOf gives a context's priority; Workflow if none was set.
func PriorityOf(ctx context.Context) Priority {
	if p, ok := ctx.Value(priorityKey{}).(Priority); ok {
		return p
	}
	return Workflow
}
