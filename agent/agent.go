// Package agent says what an agent is: something with a name that runs a task
// and gives a result with one of eight outcomes.
//
// Its one rule: a failure is a value. An agent never takes its caller down;
// [Run] turns errors, panics and cancelled contexts into a [Result].
//
//	greet := agent.Func("greet", func(ctx context.Context, t agent.Task) (agent.Result, error) {
//		return agent.Result{Reply: "hello " + t.Text()}, nil
//	})
//	r := agent.Run(ctx, greet, agent.Task{Input: "kitchen"})
//	fmt.Println(r.Status, r.Reply) // done hello kitchen
package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"time"

	"edged/bus/origin"
)

// An Agent runs tasks. Run may be called concurrently; it returns when the
// task is over or ctx ends, and reports failure as an error that wraps one of
// the sentinels of this package (anything else counts as [ErrFailed]).
type Agent interface {
	Name() string
	Run(ctx context.Context, t Task) (Result, error)
}

// A Task is what an agent is asked to do.
type Task struct {
	Input        any          // text, or a JSON tree: nil, bool, int64, float64, string, []any, map[string]any
	Origin       origin.Label // whose words it is: "script:main.star", "mqtt", "cli,hw:lidar"; "" = nobody said
	Conversation string       // tasks with the same id share a session; empty is a fresh one
}

// Text returns the task as words: text as it is, anything else as JSON.
func (t Task) Text() string {
	switch v := t.Input.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	b, err := json.Marshal(t.Input)
	if err != nil {
		return fmt.Sprint(t.Input)
	}
	return string(b)
}

// Func makes an agent of a function.
func Func(name string, run func(ctx context.Context, t Task) (Result, error)) Agent {
	return &funcAgent{name, run}
}

type funcAgent struct {
	name string
	run  func(context.Context, Task) (Result, error)
}

func (f *funcAgent) Name() string                                    { return f.name }
func (f *funcAgent) Run(ctx context.Context, t Task) (Result, error) { return f.run(ctx, t) }

// Run runs a task and always gives a complete result: Status, Reason and
// Elapsed are filled in, and a panic is a failure that carries its stack. The
// run has a label of its own, which begins with the task's (see package origin);
// the result's Origin is what that came to, unless the agent says it. The error
// is nil exactly when the result is [Done]; otherwise it wraps the
// sentinel of its status and, where there was one, the agent's own error.
func Run(ctx context.Context, a Agent, t Task) (r Result, err error) {
	start := time.Since(epoch)
	if t.Origin == "" {
		t.Origin = origin.From(ctx)
	}
	ctx = origin.With(ctx, t.Origin)
	defer func() {
		if p := recover(); p != nil {
			r, err = Result{}, &Panic{Value: p, Stack: debug.Stack()}
		}
		r.Elapsed = time.Since(epoch) - start
		if r.By == "" {
			r.By = a.Name()
		}
		if r.Origin == "" {
			r.Origin = origin.From(ctx)
		}
		r, err = settle(ctx, r, err)
	}()
	if cause := ctx.Err(); cause != nil {
		return Result{}, cause
	}
	return a.Run(ctx, t)
}

// epoch is what Run counts from: to read the one clock that time.Since needs is
// half of time.Now.
var epoch = time.Now()

// settle makes the status and the error agree.
func settle(ctx context.Context, r Result, err error) (Result, error) {
	switch {
	case err != nil:
		r.Status = StatusOf(err)
		if r.Status == Failed && ctx.Err() != nil {
			r.Status = StatusOf(ctx.Err())
		}
		if r.Reason == "" {
			r.Reason = reason(err)
		}
	case r.Status == "" || r.Status == Done:
		r.Status = Done
		return r, nil
	}
	if r.Status == Done { // a clean exit
		return r, err
	}
	s := sentinels[r.Status]
	switch {
	case s == nil:
		r.Reason = fmt.Sprintf("unknown status %q", r.Status)
		r.Status = Failed
		return r, fmt.Errorf("%w: %s", ErrFailed, r.Reason)
	case err == nil:
		return r, fmt.Errorf("%w: %s", s, r.Reason)
	case StatusOf(err) == r.Status:
		return r, err
	}
	return r, fmt.Errorf("%w: %w", s, err)
}
