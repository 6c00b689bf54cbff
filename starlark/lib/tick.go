package lib

import (
	"context"

	"go.starlark.net/starlark"

	"edged/agent"
	"edged/bus/origin"
	"edged/starlark/script"
	"edged/workflow"
)

// The law of this file: a leaf of a ticking tree costs what its function costs.
// Its context and its arguments are made once per tree, so ctx.state lasts from
// one tick to the next.

// tickedCondition is a condition of a script.
type tickedCondition struct {
	*workflow.Condition
	b  *Behaviour
	cb *callback
}

var (
	_ workflow.Ticked  = (*tickedCondition)(nil)
	_ workflow.Wrapper = (*tickedCondition)(nil)
	_ workflow.Ticked  = (*tickedAction)(nil)
	_ workflow.Wrapper = (*tickedAction)(nil)
)

// Unwrap implements workflow.Wrapper.
func (c *tickedCondition) Unwrap() agent.Agent { return c.Condition }

// Ticks implements workflow.Ticked.
func (c *tickedCondition) Ticks(ctx context.Context) func() (workflow.TickStatus, error) {
	pin := c.b.pin(ctx, c.cb, c.Name(), inGuard)
	return func() (workflow.TickStatus, error) {
		v, err := pin.Call()
		switch {
		case err != nil:
			return workflow.Failure, err
		case bool(v.Truth()):
			return workflow.Success, nil
		}
		return workflow.Failure, nil
	}
}

// tickedAction is an action of a script.
type tickedAction struct {
	*workflow.Action
	b  *Behaviour
	cb *callback
}

// Unwrap implements workflow.Wrapper.
func (a *tickedAction) Unwrap() agent.Agent { return a.Action }

// Ticks implements workflow.Ticked.
func (a *tickedAction) Ticks(ctx context.Context) func() (workflow.TickStatus, error) {
	pin := a.b.pin(ctx, a.cb, a.Name(), impure)
	name := a.Name()
	return func() (workflow.TickStatus, error) {
		v, err := pin.Call()
		if err != nil {
			return workflow.Failure, err
		}
		return statusOf(name, v)
	}
}

// pin prepares a leaf's function.
func (b *Behaviour) pin(ctx context.Context, cb *callback, name string, p pure) *script.Pin {
	ctx = origin.With(ctx, origin.Merge(origin.From(ctx), b.globals))
	r := &run{Context: ctx, b: b, source: "workflow:" + name, pure: p, more: &more{name: name}}
	args, kwargs := cb.args(r, []starlark.Value{b.contextValue(r)})
	l := script.Limits{}
	if p == inGuard {
		l = inline
	}
	return b.engine.Pin(r, cb.fn, args, kwargs, l)
}
