package lib

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"go.starlark.net/starlark"

	"edged/agent/llm"
	"edged/bus/origin"
	"edged/hw"
	"edged/starlark/value"
)

// Tools in the hands of scripts: called as a model does it, or begun as long
// actions.

// admit holds a script's call to all that a model's is held to, and gives its
// arguments.
func (t *tool) admit(c *value.Call) (json.RawMessage, error) {
	if err := acts(c); err != nil {
		return nil, err
	}
	args, err := c.NamedTree()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	if t.params != nil {
		if _, text, err = t.params.Accept(text); err != nil {
			return nil, err
		}
	}
	return text, t.allowed(c.Context(), llm.Call{Name: t.Name, Args: text})
}

// allowed asks limits, the person and the gate about a call.
func (t *tool) allowed(ctx context.Context, call llm.Call) error {
	if r := runOf(ctx); r != nil && r.reads && t.Effect == llm.Write {
		return r.readsOnly("calls " + t.Name)
	}
	if err := t.check(ctx, call); err != nil {
		return err
	}
	if t.Confirm != nil {
		if err := t.Confirm(ctx, call); err != nil {
			return fmt.Errorf("not confirmed: %w", err)
		}
	}
	if t.Effect == llm.Write {
		return t.b.gate(ctx, t.Tool, call)
	}
	return nil
}

// callByScript is tool.call.
func (t *tool) callByScript(c *value.Call) (starlark.Value, error) {
	text, err := t.admit(c)
	if err != nil {
		return nil, err
	}
	out, err := t.Do(c.Context(), text)
	if err != nil {
		return nil, err
	}
	if t.Origin != "" {
		origin.Raise(c.Context(), t.Origin)
	}
	return c.Return(decoded(out))
}

// start is tool.start.
func (t *tool) start(c *value.Call) (starlark.Value, error) {
	b := t.b
	if b.host.Rig == nil {
		return nil, errNoDevices
	}
	text, err := t.admit(c)
	if err != nil {
		return nil, err
	}
	source := b.source(c)
	g, err := b.host.Rig.NewGoal(c.Context(), source, t.Name)
	if err != nil {
		return nil, err
	}
	r := &run{Context: g.Context(), b: b, source: source, more: &more{goal: g}}
	if outer := runOf(c.Context()); outer != nil && outer.more != nil {
		r.name, r.task = outer.name, outer.task
	}
	if !b.spawn(func() { t.pursue(r, g, text) }) {
		g.Cancel(errStopped.Error())
		return nil, errStopped
	}
	return goalKind.Wrap(&goal{g, b}), nil
}

// pursue runs the tool until the goal is over.
func (t *tool) pursue(r *run, g *hw.Goal, text json.RawMessage) {
	forget := context.AfterFunc(t.b.life, func() { g.Cancel(errStopped.Error()) })
	defer forget()
	out, err := t.Do(r, text)
	var no *refusal
	switch {
	case err == nil:
		g.Succeed(decoded(out))
	case errors.As(err, &no):
		g.Fail(no.reason)
	default:
		g.Fail(err.Error())
	}
}

// feedback is ctx.feedback: it tells how far the innermost long action is.
func (r *run) feedback(c *value.Call) (starlark.Value, error) {
	v, err := c.Tree("value")
	if err != nil {
		return nil, err
	}
	if r.more != nil && r.goal != nil {
		r.goal.Feedback(v)
	}
	return nil, nil
}
