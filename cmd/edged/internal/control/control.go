// Package control is how the verbs of the command line talk to a robot that is
// running: a Unix socket that only its owner can open, JSON lines both ways.
//
// Its one rule: one request a line, in order. An answer is any number of data
// lines and one last line that says done or what went wrong. Closing the
// connection ends what it asked for.
//
//	→ {"do":"bb","with":{"op":"get","key":"home/battery"}}
//	← {"data":72.5}
//	← {"done":true}
//
// Stop doesn't wait behind anything: every connection has a goroutine of its
// own, and the handler of "stop" goes straight to the rig.
package control

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Verbs that a running robot answers.
const (
	Stop   = "stop"
	Resume = "resume"
	Status = "status"
)

// MaxLine is the length of the longest request or reply.
const MaxLine = 8 << 20

// request is one line from a client.
type request struct {
	Do   string          `json:"do"`
	With json.RawMessage `json:"with,omitempty"`
}

// reply is one line to a client.
type reply struct {
	Data  json.RawMessage `json:"data,omitempty"`
	Error *Error          `json:"error,omitempty"`
	Done  bool            `json:"done,omitempty"`
}

// A Line is an event as it goes over the socket, to the page and into --json
// output.
type Line struct {
	Time     time.Time       `json:"time"`
	Seq      uint64          `json:"seq"`
	Cause    uint64          `json:"cause,omitempty"`
	Source   string          `json:"source"`
	Topic    string          `json:"topic"`
	Payload  json.RawMessage `json:"payload,omitempty"`
	Retained bool            `json:"retained,omitempty"`
	Queued   bool            `json:"queued,omitempty"` // it waited somewhere, or is too old to be an order
	Cut      int             `json:"cut,omitempty"`    // bytes of a payload that is too long for the page
}

// An Error is what the robot answered instead of a result.
type Error struct {
	Msg   string `json:"msg"`
	Text  string `json:"text,omitempty"`  // the long form, several lines, where there is one
	Usage bool   `json:"usage,omitempty"` // the request itself was wrong
}

func (e *Error) Error() string { return e.Msg }

// Usagef makes the error for a request that is wrong in itself.
func Usagef(format string, args ...any) error {
	return &Error{Msg: fmt.Sprintf(format, args...), Usage: true}
}

type fromKey struct{}

// From says who asks, for the record: "page", say.
func From(ctx context.Context, who string) context.Context {
	return context.WithValue(ctx, fromKey{}, who)
}

// Who asks; the command line if nobody else does.
func Who(ctx context.Context) string {
	if who, ok := ctx.Value(fromKey{}).(string); ok {
		return who
	}
	return "cli"
}
