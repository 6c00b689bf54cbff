package lib

import (
	"context"
	"errors"
	"fmt"

	"go.starlark.net/starlark"

	"edged/bus"
	"edged/bus/origin"
	"edged/starlark/value"
)

// future is a bus.Future as scripts see it.
type future struct {
	*bus.Future
	b    *Behaviour
	what string // "request \"plan\""
}

func (b *Behaviour) future(f *bus.Future, what string) starlark.Value {
	return futureKind.Wrap(&future{f, b, what})
}

var futureKind = &value.Kind[*future]{
	Name:    "future",
	Doc:     "An answer that is still to come.",
	Example: "fut = bb.post_request(\"guard/plan\", {\"goal\": \"pick cup\"}, timeout = \"5s\")\nplan = fut.result()",
	Methods: []value.Method[*future]{
		{
			Func: value.Func{
				Name: "result", Doc: "Waits for the answer and returns it. It fails if there is none in time, or if whoever was asked gave up.",
				Params:  []value.Param{{Name: "timeout", Type: value.Duration, Positional: true, Doc: "How long to wait now; the request's own time if missing."}},
				Returns: "the answer", Blocks: true,
			},
			Do: (*future).result,
		},
		{
			Func: value.Func{Name: "done", Doc: "Reports whether the answer is there, or that there will be none.", Returns: "True or False"},
			Do:   func(f *future, c *value.Call) (starlark.Value, error) { return starlark.Bool(f.Done()), nil },
		},
		{
			Func: value.Func{Name: "cancel", Doc: "Gives up waiting and withdraws the request."},
			Do: func(f *future, c *value.Call) (starlark.Value, error) {
				f.Cancel()
				return nil, nil
			},
		},
		{
			Func: value.Func{
				Name: "on_done", Doc: "Calls a function when the future is done, at once if it is: with the answer and None, or with None and the error's text.",
				Params: []value.Param{{Name: "fn", Type: value.Callable, Required: true, Positional: true, Doc: "Called with value and error, as far as it takes them."}},
			},
			Do: (*future).onDone,
		},
	},
	String: func(f *future) string { return fmt.Sprintf("<future of %s>", f.what) },
}

func (f *future) result(c *value.Call) (starlark.Value, error) {
	if err := effect(c); err != nil && !f.Done() {
		return nil, err
	}
	ctx := c.Context()
	if c.Has("timeout") {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Duration("timeout"))
		defer cancel()
	}
	v, err := f.Result(ctx)
	if whose := f.Origin(); whose != "" && (err != nil || !origin.Wordless(v)) {
		origin.Raise(c.Context(), whose)
	}
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil && c.Context().Err() == nil {
			return nil, fmt.Errorf("timeout: no %s after %v", f.what, c.Duration("timeout"))
		}
		return nil, err
	}
	return c.Return(v)
}

func (f *future) onDone(c *value.Call) (starlark.Value, error) {
	cb, err := newCallback(c, "fn", "value", "error")
	if err != nil {
		return nil, err
	}
	b := f.b
	source := b.source(c)
	cause, made := context.WithoutCancel(c.Context()), origin.From(c.Context())
	f.OnDone(func(v any, failed error) {
		b.spawn(func() {
			r := &run{Context: origin.With(cause, origin.Merge(made, f.Origin())), life: b.life, b: b, source: source}
			got, err := value.FromGo(v)
			if err != nil && failed == nil {
				failed = err
			}
			text := starlark.Value(starlark.None)
			if failed != nil {
				got, text = starlark.None, starlark.String(failed.Error())
			}
			_, err = b.do(r, cb, got, text)
			b.report(r, source+":"+cb.name, err, bus.Event{})
		})
	})
	return nil, nil
}
