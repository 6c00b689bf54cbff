package lib

import (
	"context"
	"strings"
	"time"

	"edged/bus/origin"

	"go.starlark.net/starlark"

	"edged/starlark/value"
	"edged/workflow"
)

// guard reads the argument guard.
func (b *Behaviour) guard(c *value.Call, name string) (*workflow.Guard, error) {
	cb, err := newCallback(c, "guard", "context")
	if err != nil || cb == nil {
		return nil, err
	}
	return &workflow.Guard{Name: b.fnName(cb), Check: b.check(cb, name)}, nil
}

// check makes a question of a script function: it looks and decides, and what
// it looks at is noted.
func (b *Behaviour) check(cb *callback, name string) func(context.Context) (bool, error) {
	source := "workflow:" + name
	return func(ctx context.Context) (bool, error) {
		ctx = origin.With(ctx, origin.From(ctx)) // what it decides by goes nowhere
		r := &run{Context: ctx, b: b, source: source, pure: inGuard, more: &more{name: name}}
		v, err := b.ask(r, cb, b.contextValue(r))
		if err != nil {
			return false, err
		}
		return bool(v.Truth()), nil
	}
}

// reads notes what a guard looks at: topics, or filters of them.
func reads(c *value.Call, topic string) {
	if r := runOf(c.Context()); r != nil && r.pure == inGuard {
		workflow.Read(r, topic)
	}
}

// readsKeys is reads for all keys with a prefix.
func readsKeys(c *value.Call, prefix string) {
	reads(c, "board/"+prefix[:strings.LastIndex(prefix, "/")+1]+"#")
}

// onHalt reads the argument on_halt.
func (b *Behaviour) onHalt(c *value.Call, name string) (func(context.Context, string) error, error) {
	cb, err := newCallback(c, "on_halt", "context")
	if err != nil || cb == nil {
		return nil, err
	}
	return func(ctx context.Context, why string) error {
		r := b.nodeRun(ctx, name, workflow.View{})
		r.why = why
		_, err := b.do(r, cb, b.contextValue(r))
		return err
	}, nil
}

// onInDoubt reads the argument on_in_doubt.
func (b *Behaviour) onInDoubt(c *value.Call, name string) (func(context.Context, workflow.Doubt) (workflow.Decision, error), error) {
	if word, ok := starlark.AsString(c.Value("on_in_doubt")); ok {
		return func(context.Context, workflow.Doubt) (workflow.Decision, error) { return workflow.Decision(word), nil }, nil
	}
	cb, err := newCallback(c, "on_in_doubt", "step")
	if err != nil || cb == nil {
		return nil, err
	}
	return func(ctx context.Context, d workflow.Doubt) (workflow.Decision, error) {
		step, err := value.FromGo(map[string]any{
			"run": d.Run, "path": d.Path, "name": d.Name, "task": d.Task.Input, "since": d.Since.Format(time.RFC3339Nano),
		})
		if err != nil {
			return "", err
		}
		v, err := b.do(b.nodeRun(ctx, name, workflow.View{Task: d.Task}), cb, step)
		if err != nil {
			return "", err
		}
		word, _ := starlark.AsString(v)
		switch verdict := workflow.Decision(word); verdict {
		case workflow.RunAgain, workflow.TakeAsDone, workflow.TakeAsFault:
			return verdict, nil
		}
		return workflow.AskPerson, nil
	}, nil
}

// firstTask is ctx.task.
func (r *run) firstTask() (any, error) {
	if t, inside := workflow.TaskOf(r.Context); inside {
		return t.Input, nil
	}
	return r.extra().task, nil
}

// lastResult is ctx.last.
func (r *run) lastResult() (any, error) {
	if v := r.extra().view; v != nil && v.Count > 0 {
		return wrapResult(v.Last), nil
	}
	return nil, nil
}

// countEnded is ctx.count.
func (r *run) countEnded() (any, error) {
	if v := r.extra().view; v != nil {
		return int64(v.Count), nil
	}
	return int64(0), nil
}
