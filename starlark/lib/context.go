package lib

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.starlark.net/starlark"

	"edged/bus"
	"edged/bus/origin"
	"edged/starlark/value"
	"edged/workflow/society"
)

var contextKind = &value.Kind[*run]{
	Name:    "ctx",
	Doc:     "The run a function is called in. A parameter called ctx gets it.",
	Example: "def on_bell(ev, ctx):\n    robot.say(\"who is there?\")\n    answer = ctx.wait_for(\"guard/answer\", timeout = \"10s\")\n    if answer == None:\n        robot.say(\"nobody\")",
	Attrs: []value.Attr[*run]{
		{Name: "task", Doc: "What an agent was asked to do, in a workflow what the whole of it was; None in a handler.", Get: (*run).firstTask},
		{Name: "last", Doc: "In a function of a workflow's node, the result of the child that ended last; else None.", Get: (*run).lastResult},
		{Name: "count", Doc: "In a function of a workflow's node, how many runs of children have ended.", Type: value.Int, Get: (*run).countEnded},
		{Name: "revision", Doc: "In a graph's node whose work a guardrail sent back: a dict of comment, draft and round, from 1; else None.", Get: (*run).revision},
		{Name: "why", Doc: "In on_halt, what the node was cancelled for.", Type: value.String, Get: func(r *run) (any, error) { return r.extra().why, nil }},
		{Name: "event", Doc: "The event that is handled; None where there is none.", Get: func(r *run) (any, error) {
			if !r.handler {
				return nil, nil
			}
			return r.args[0], nil
		}},
		{Name: "cause", Doc: "The seq of the event that brought this run about, 0 if none.", Type: value.Int, Get: func(r *run) (any, error) {
			seq, _ := bus.CauseOf(r)
			return int64(seq), nil
		}},
		{Name: "name", Doc: "The name of the agent that runs, or empty.", Type: value.String, Get: func(r *run) (any, error) { return r.agent(), nil }},
		{Name: "state", Doc: "A dict for this run alone.", Get: func(r *run) (any, error) {
			x := r.extra()
			if x.state == nil {
				x.state = new(starlark.Dict)
			}
			return x.state, nil
		}},
		{Name: "cancelled", Doc: "Whether the run is to end.", Type: value.Bool, Get: func(r *run) (any, error) { return r.Err() != nil, nil }},
		{Name: "resumed", Doc: "Whether the run was taken up again after a restart, see wait_for.", Type: value.Bool, Get: func(r *run) (any, error) {
			return r.durable != nil && r.durable.resumed, nil
		}},
		{Name: "bus", Doc: "The module bus.", Get: func(r *run) (any, error) { return r.b.predeclared["bus"], nil }},
		{Name: "blackboard", Doc: "The module bb.", Get: func(r *run) (any, error) { return r.b.predeclared["bb"], nil }},
	},
	Methods: []value.Method[*run]{
		{
			Func: value.Func{
				Name: "sleep", Doc: "Waits; it ends with the run.", Blocks: true,
				Params: []value.Param{
					{Name: "duration", Type: value.Duration, Required: true, Positional: true, Doc: "How long."},
					{Name: "durable", Type: value.Bool, Default: false, Doc: "Wait on after a restart, see wait_for."},
					{Name: "policy", Type: policies, Default: "resume", Doc: "What a restart does to it, see wait_for."},
				},
			},
			Do: func(r *run, c *value.Call) (starlark.Value, error) {
				if err := effect(c); err != nil {
					return nil, err
				}
				if !c.Bool("durable") {
					return nil, sleep(c.Context(), c.Duration("duration"))
				}
				_, err := r.wait(c, "", c.Duration("duration"), nil)
				return nil, err
			},
		},
		{
			Func: value.Func{
				Name: "wait_for", Blocks: true, Returns: "the event, or None if it did not come in time",
				Doc: "Waits for an event. A durable wait survives a restart: then the handler is called again from its beginning with the same event, what it had waited for returns at once, and the wait goes on. What the handler does before a durable wait is done again, so let it be harmless, or look at ctx.resumed.",
				Params: []value.Param{
					{Name: "filter", Type: value.String, Required: true, Positional: true, Doc: "An MQTT topic filter."},
					{Name: "timeout", Type: value.Duration, Doc: "When to give up; never if missing."},
					{Name: "where", Type: value.Callable, Doc: "Asked with each event; it must be quick."},
					{Name: "durable", Type: value.Bool, Default: false, Doc: "Survive a restart. The handler must be a global function."},
					{Name: "policy", Type: policies, Default: "resume", Doc: "What a restart does to a durable wait: it goes on for the rest of its time (resume), it is forgotten (drop), or it ends at once as if its time were over (fire)."},
				},
			},
			Do: (*run).waitFor,
		},
		{
			Func: value.Func{
				Name: "emit", Doc: "In a turn of a society: sends an event to the other members, who see it as they see this one's work log. An event that the edge does not list is refused.",
				Params: []value.Param{
					{Name: "event", Type: value.String, Required: true, Positional: true, Doc: "Its name: one of the edge's type, or of events = […]."},
					{Name: "payload", Type: value.Data, Positional: true, Doc: "What it says."}},
			},
			Do: func(_ *run, c *value.Call) (starlark.Value, error) {
				if err := effect(c); err != nil {
					return nil, err
				}
				tree, err := c.Tree("payload")
				if err == nil {
					err = society.Emit(c.Context(), c.String("event"), tree)
				}
				return nil, plainSociety(err)
			},
		},
		{
			Func: value.Func{
				Name: "feedback", Doc: "Tells how far a long action is, see tool.start. Elsewhere it does nothing.",
				Params: []value.Param{{Name: "value", Type: value.Data, Required: true, Positional: true, Doc: "A number, or a dict such as {\"left\": 1.2}."}},
			},
			Do: (*run).feedback,
		},
	},
}

func (r *run) waitFor(c *value.Call) (starlark.Value, error) {
	filter := c.String("filter")
	if err := effect(c); err != nil {
		return nil, err
	}
	if err := r.b.mayHear(c, filter); err != nil {
		return nil, err
	}
	cb, err := newCallback(c, "where", "event")
	if err != nil {
		return nil, err
	}
	var accept func(bus.Event) bool
	if cb != nil {
		accept = func(e bus.Event) bool {
			q := &run{Context: r, b: r.b, source: r.source, pure: inWhere}
			v, err := r.b.ask(q, cb, eventValue(e))
			if err != nil {
				r.b.report(q, r.source+":"+cb.name, err, e)
				return false
			}
			return bool(v.Truth())
		}
	}
	timeout := time.Duration(-1)
	if c.Has("timeout") {
		timeout = c.Duration("timeout")
	}
	if c.Bool("durable") {
		return r.wait(c, filter, timeout, accept)
	}
	e, ok, err := r.b.next(c.Context(), filter, timeout, accept)
	if err != nil || !ok {
		return nil, err
	}
	origin.Raise(c.Context(), e.Origin())
	r.heed(e.Old())
	return eventValue(e), nil
}

// next waits for the next event of a filter, at most timeout if that is not
// negative; ok is false if none came in time.
func (b *Behaviour) next(ctx context.Context, filter string, timeout time.Duration, accept func(bus.Event) bool) (e bus.Event, ok bool, err error) {
	return b.nextOf(ctx, nil, filter, timeout, accept)
}

// nextOf is next with a subscription that may have been made beforehand.
func (b *Behaviour) nextOf(ctx context.Context, sub *bus.Subscription, filter string, timeout time.Duration, accept func(bus.Event) bool) (e bus.Event, ok bool, err error) {
	early := sub != nil // then what is queued has not been asked about
	if sub == nil {
		sub, err = b.host.Bus.Subscribe(filter, bus.Queue{Limit: 1, Overflow: bus.DropNew, Where: accept, Name: b.folder + ": wait_for"})
		if err != nil {
			return e, false, err
		}
	}
	defer sub.Close()
	inner := ctx
	if timeout >= 0 {
		var cancel context.CancelFunc
		inner, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	e, err = sub.Next(inner)
	for early && err == nil && accept != nil && !accept(e) {
		e, err = sub.Next(inner)
	}
	switch {
	case err == nil:
		return e, true, nil
	case ctx.Err() != nil:
		return e, false, context.Cause(ctx)
	case errors.Is(err, context.DeadlineExceeded):
		return e, false, nil
	}
	return e, false, fmt.Errorf("wait for %s: %w", filter, err)
}
