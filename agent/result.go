package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"edged/bus/origin"
)

// A Status is the outcome of a run of anything: agent, workflow, society, graph.
type Status string

// The eight outcomes.
const (
	Done      Status = "done"
	Failed    Status = "failed"
	Timeout   Status = "timeout"
	Cancelled Status = "cancelled"
	Blocked   Status = "blocked" // a guardrail said no
	Rejected  Status = "rejected"
	Deadlock  Status = "deadlock"
	Escalated Status = "escalated"
)

// One sentinel per outcome that is not Done; errors.Is tells them apart.
var (
	ErrFailed    = errors.New("failed")
	ErrTimeout   = errors.New("timeout")
	ErrCancelled = errors.New("cancelled")
	ErrBlocked   = errors.New("blocked")
	ErrRejected  = errors.New("rejected")
	ErrDeadlock  = errors.New("deadlock")
	ErrEscalated = errors.New("escalated")
)

// ErrExit is returned by a background agent or its trigger that is finished
// for good: a clean exit (scripts say EXIT).
var ErrExit = errors.New("exit")

var sentinels = map[Status]error{
	Failed: ErrFailed, Timeout: ErrTimeout, Cancelled: ErrCancelled, Blocked: ErrBlocked,
	Rejected: ErrRejected, Deadlock: ErrDeadlock, Escalated: ErrEscalated,
}

// A Result is what a run gave.
type Result struct {
	Status   Status
	Reply    string        // words, for people and for the next agent
	Output   any           // structured output, a JSON tree
	Reason   string        // why it is not done
	Winner   string        // who was picked, where somebody was
	By       string        // the agent that did it
	Elapsed  time.Duration // wall clock
	Usage    Usage
	RunID    string
	Children []Result // one per child that ran, in order
	Receipts []Receipt
	// Origin says whose words went into it: whoever makes a task of it, says
	// that it is theirs.
	Origin origin.Label
	// Proceedings are how it came about, of an interaction of a society; else
	// nil. Read-only.
	Proceedings *Proceedings
}

// Proceedings are how an interaction of a society came to its result.
type Proceedings struct {
	Verdict  string   `json:"verdict,omitempty"` // of whoever decided last; where somebody was picked, who
	Ranking  []string `json:"ranking,omitempty"` // who was picked, and who is next if that one fails
	Rounds   int      `json:"rounds"`
	Turns    []Turn   `json:"turns,omitempty"`    // in the order in which they were asked
	Degraded bool     `json:"degraded,omitempty"` // it is done with less than it was to have: somebody was missing, or somebody else decided
}

// A Turn says what became of one turn of an agent.
type Turn struct {
	N       int    `json:"n"`
	Round   int    `json:"round"`
	Speaker string `json:"speaker"`
	Kind    string `json:"kind"`
	State   string `json:"state"`
	Verdict string `json:"verdict,omitempty"`
	Why     string `json:"why,omitempty"`
	Asked   int    `json:"asked"` // how often: 2 after a repair
}

// A Receipt says that a tool really ran in this run, and what came of it. What
// a reply claims beyond the receipts did not happen.
type Receipt struct {
	Tool   string
	Args   json.RawMessage // as it was run with
	Result json.RawMessage // nil if it failed
	Err    error           // a panic carries its stack
}

// MarshalJSON writes the error as its text.
func (r Receipt) MarshalJSON() ([]byte, error) {
	out := receipt{Tool: r.Tool, Args: r.Args, Result: r.Result}
	if r.Err != nil {
		out.Err = r.Err.Error()
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (r *Receipt) UnmarshalJSON(text []byte) error {
	var in receipt
	if err := json.Unmarshal(text, &in); err != nil {
		return err
	}
	*r = Receipt{Tool: in.Tool, Args: in.Args, Result: in.Result}
	if in.Err != "" {
		r.Err = errors.New(in.Err)
	}
	return nil
}

type receipt struct {
	Tool   string          `json:"tool"`
	Args   json.RawMessage `json:"args,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Err    string          `json:"err,omitempty"`
}

// Usage counts what a run spent on models.
type Usage struct{ Calls, PromptTokens, OutputTokens int }

// OK reports whether the run is done.
func (r Result) OK() bool { return r.Status == Done }

// Did reports whether a tool ran in this run, or in one that it was handed over
// to, and did not fail.
func (r Result) Did(tool string) bool {
	for _, one := range r.Receipts {
		if one.Tool == tool && one.Err == nil {
			return true
		}
	}
	return false
}

// Declined is the error of an agent that cannot do its task and says so.
func Declined(reason string) error { return fmt.Errorf("%w: declined: %s", ErrFailed, reason) }

// StatusOf gives the outcome an error stands for; nil is Done, an ended
// context is Timeout or Cancelled, an unknown error is Failed.
func StatusOf(err error) Status {
	switch {
	case err == nil, errors.Is(err, ErrExit):
		return Done
	case errors.Is(err, ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return Timeout
	case errors.Is(err, ErrCancelled), errors.Is(err, context.Canceled):
		return Cancelled
	case errors.Is(err, ErrBlocked):
		return Blocked
	case errors.Is(err, ErrRejected):
		return Rejected
	case errors.Is(err, ErrDeadlock):
		return Deadlock
	case errors.Is(err, ErrEscalated):
		return Escalated
	}
	return Failed
}

// reason is the error's text without the sentinel's word in front.
func reason(err error) string {
	s := err.Error()
	if w := sentinels[StatusOf(err)]; w != nil {
		if rest, ok := strings.CutPrefix(s, w.Error()+": "); ok {
			return rest
		}
	}
	return s
}

// A Panic is the error of an agent that panicked.
type Panic struct {
	Value any
	Stack []byte // of the goroutine that panicked
}

func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

// Unwrap lets a panic with an error value be recognised by it.
func (p *Panic) Unwrap() error {
	if err, ok := p.Value.(error); ok {
		return err
	}
	return nil
}

// Fields gives the stack to whoever reports the error as an event.
func (p *Panic) Fields() map[string]any { return map[string]any{"backtrace": string(p.Stack)} }
