package script

import (
	"context"

	"go.starlark.net/starlark"
)

// A Pin calls one function with the same arguments again and again, on a thread
// of its own: for leaves of trees that are ticked, where a call may cost no
// more than the interpreter takes. The limits are those of [Engine.Call]. It
// belongs to one goroutine at a time.
type Pin struct {
	e      *Engine
	r      *runner
	ctx    context.Context
	fn     starlark.Value
	args   starlark.Tuple
	kwargs []starlark.Tuple
	limits Limits
	under  bool // a call did not come back: its thread is not used again
}

// Pin prepares calls of a function. ctx is that of all calls.
func (e *Engine) Pin(ctx context.Context, fn starlark.Value, args starlark.Tuple, kwargs []starlark.Tuple, l Limits) *Pin {
	return &Pin{e: e, ctx: ctx, fn: fn, args: args, kwargs: kwargs, limits: l.or(e.limits)}
}

// Call calls the function once. A panic of the interpreter goes through to the
// caller.
func (p *Pin) Call() (starlark.Value, error) {
	if p.r == nil || p.under {
		p.r = p.e.newRunner()
		p.r.pinned = true
		p.r.lend(p.ctx, p.limits)
	}
	r := p.r
	r.first, r.prints = r.thread.Steps, 0
	r.thread.SetMaxExecutionSteps(r.first + min(checkEvery, p.limits.Steps))
	p.under = true
	v, err := starlark.Call(r.thread, p.fn, p.args, p.kwargs)
	p.under = false
	if r.active {
		r.end()
		r.lend(p.ctx, p.limits)
	}
	if err != nil {
		killed := r.killed
		if killed != nil {
			p.r = nil
		}
		return nil, p.e.explain(p.ctx, p.fn, err, killed)
	}
	return v, nil
}

// lend gives a pinned runner what its calls have in common.
func (r *runner) lend(ctx context.Context, l Limits) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ctx, r.limits = ctx, l
}

// wake lets the watch look after a call of a pinned runner: it has taken more
// steps than a leaf should.
func (r *runner) wake() {
	r.mu.Lock()
	r.active = true
	r.mu.Unlock()
	r.e.arm()
}
