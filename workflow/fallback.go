package workflow

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"edged/agent"
)

// FallbackOptions of a [Fallback].
type FallbackOptions struct {
	Options
	// Reactive lets an earlier child preempt a running later one as soon as
	// its guard, or what a [Condition] asks, turns true.
	Reactive bool
}

// A Fallback gives the same task to one child after the other until one is
// done; By and Winner name it. A failure, a timeout, a panic, a rejection or a
// guard that is not true means the next one; anything else that cancels, and a
// step in doubt, ends the whole node.
type Fallback struct {
	node
	opt FallbackOptions
}

var _ agent.Agent = (*Fallback)(nil)

// NewFallback makes a fallback of the children, the best first.
func NewFallback(name string, o FallbackOptions, children ...agent.Agent) *Fallback {
	return &Fallback{node{name: name, kind: "fallback", opt: o.Options, children: children, detail: reactive(o.Reactive)}, o}
}

// Run tries the children.
func (b *Fallback) Run(ctx context.Context, t agent.Task) (agent.Result, error) {
	return run(ctx, b, t)
}

func (b *Fallback) body(ctx context.Context, f *frame, t agent.Task) (agent.Result, error) {
	if len(b.children) == 0 {
		return agent.Result{}, b.empty()
	}
	if b.opt.Reactive {
		return b.react(ctx, f, t)
	}
	list := make([]agent.Result, 0, 1)
	var used agent.Usage
	for i, c := range b.children {
		r, err := f.step(ctx, i, 0, c, t)
		add(&used, r)
		list = append(list, r)
		if r.OK() || final(ctx, r, err) {
			return b.of(c, r, list, used), err
		}
	}
	return b.lost(list, used)
}

// of makes the outcome of a child that of the node.
func (b *Fallback) of(c agent.Agent, r agent.Result, list []agent.Result, used agent.Usage) agent.Result {
	if r.OK() {
		r.By, r.Winner = c.Name(), c.Name()
	}
	r.Children, r.Usage = list, used
	return r
}

func (b *Fallback) lost(list []agent.Result, used agent.Usage) (agent.Result, error) {
	why := make([]string, len(list))
	for i, r := range list {
		why[i] = r.By + ": " + r.Reason
	}
	return agent.Result{Children: list, Usage: used, By: b.name},
		fmt.Errorf("%w: none of %d is done; %s", agent.ErrFailed, len(b.children), strings.Join(why, "; "))
}

// preempted is why a lower child was cancelled.
type preempted struct{ by string }

func (p *preempted) Error() string { return "preempted by " + p.by }

// react is body for a reactive fallback.
func (b *Fallback) react(ctx context.Context, f *frame, t agent.Task) (agent.Result, error) {
	p := &preempt{f: f, at: -1, watches: make([]*watch, len(b.children))}
	defer func() { p.closeFrom(0) }()
	ran := make([]*agent.Result, len(b.children))
	var used agent.Usage
	collect := func() (list []agent.Result) {
		for _, r := range ran {
			if r != nil {
				list = append(list, *r)
			}
		}
		return list
	}
	for i := 0; i < len(b.children); {
		c := b.children[i]
		work, cancel := context.WithCancelCause(ctx)
		p.arm(cancel)
		r, err := f.turn(work, i, ran[i] != nil, c, t)
		j := p.disarm()
		add(&used, r)
		ran[i] = &r
		cancel(nil)
		switch {
		case r.OK(), ctx.Err() != nil:
			return b.of(c, r, collect(), used), err
		case j >= 0:
			p.closeFrom(j)
			i = j
		case final(ctx, r, err):
			return b.of(c, r, collect(), used), err
		default:
			p.watch(i, c, err)
			i++
			if j := p.take(); j >= 0 {
				p.closeFrom(j)
				i = j
			}
		}
	}
	return b.lost(collect(), used)
}

// preempt watches what the children before the running one wait for.
type preempt struct {
	f       *frame
	watches []*watch // by child

	mu     sync.Mutex // guards the rest
	cancel context.CancelCauseFunc
	at     int // the best child that wants to run, -1 for none
	by     string
}

// watch lets child i, which ended with err, come back when its condition turns
// true: not while it is what it was when the child failed.
func (p *preempt) watch(i int, c agent.Agent, err error) {
	g, _ := conditionOf(c)
	if g == nil || p.watches[i] != nil {
		return
	}
	var no *GuardError
	was := nodeOf(c) != nil && !(errors.As(err, &no) && (no.of == g || no.of == nil && no.Name == g.Name))
	tell := func(ok bool, err error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		turned := ok && !was && err == nil
		was = ok && err == nil
		if !turned || p.at >= 0 && p.at <= i {
			return
		}
		p.at, p.by = i, c.Name()
		if p.cancel != nil {
			p.cancel(&preempted{p.by})
		}
	}
	w := newWatch(p.f, g, tell)
	p.watches[i] = w
	tell(w.start(true))
}

// arm says how to cancel the child that runs from now on.
func (p *preempt) arm(cancel context.CancelCauseFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cancel = cancel
	if p.at >= 0 {
		cancel(&preempted{p.by})
	}
}

// disarm gives the child that wants to run instead, or -1.
func (p *preempt) disarm() int {
	p.mu.Lock()
	p.cancel = nil
	p.mu.Unlock()
	return p.take()
}

func (p *preempt) take() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.at
	p.at = -1
	return at
}

// closeFrom ends the watches of child i and of all after it.
func (p *preempt) closeFrom(i int) {
	for k := i; k < len(p.watches); k++ {
		if p.watches[k] != nil {
			p.watches[k].close()
			p.watches[k] = nil
		}
	}
}
