package workflow

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"edged/agent"
)

// An Invert is done where its child is failed, and failed where it is done. A
// crash is no answer: it stays a failure. So do timeouts and all the others.
type Invert struct{ node }

var _ agent.Agent = (*Invert)(nil)

// NewInvert inverts a child; an empty name is "not <child>".
func NewInvert(name string, o Options, child agent.Agent) *Invert {
	return &Invert{node{name: named(name, "not", child.Name()), kind: "invert", opt: o, children: []agent.Agent{child}}}
}

// Run runs the child.
func (b *Invert) Run(ctx context.Context, t agent.Task) (agent.Result, error) { return run(ctx, b, t) }

func (b *Invert) body(ctx context.Context, f *frame, t agent.Task) (agent.Result, error) {
	r, err := f.step(ctx, 0, 0, b.children[0], t)
	out := agent.Result{Reply: r.Reply, Output: r.Output, Usage: r.Usage, Children: []agent.Result{r}}
	switch {
	case final(ctx, r, err) || r.Status == agent.Failed && crashed(err):
	case r.OK():
		return out, fmt.Errorf("%w: %s is done", agent.ErrFailed, b.children[0].Name())
	case r.Status == agent.Failed:
		return out, nil
	}
	r.Children = out.Children
	return r, err
}

// A Delay waits, then runs its child, if it has one.
type Delay struct {
	node
	d time.Duration
}

var _ agent.Agent = (*Delay)(nil)

// NewDelay makes a delay; child may be nil. An empty name is "delay". In a
// durable run the wait goes on where it was, also while the process was gone.
func NewDelay(name string, o Options, d time.Duration, child agent.Agent) *Delay {
	n := node{name: name, kind: "delay", opt: o, detail: d.String()}
	if name == "" {
		n.name = "delay"
	}
	if child != nil {
		n.children = []agent.Agent{child}
	}
	return &Delay{n, d}
}

// Run waits and runs the child.
func (b *Delay) Run(ctx context.Context, t agent.Task) (agent.Result, error) { return run(ctx, b, t) }

func (b *Delay) body(ctx context.Context, f *frame, t agent.Task) (agent.Result, error) {
	wait := b.d
	if f.run.journal != nil {
		until, err := decide(f, "until", func() (time.Time, error) { return time.Now().Add(b.d), nil })
		if err != nil {
			return agent.Result{}, err
		}
		wait = min(time.Until(until), b.d) // a clock set back does not prolong it
	}
	if err := sleep(ctx, wait); err != nil {
		return agent.Result{}, err
	}
	if len(b.children) == 0 {
		return agent.Result{}, nil
	}
	return f.step(ctx, 0, 0, b.children[0], t)
}

// TimeoutOptions of a [Timeout].
type TimeoutOptions struct {
	Options
	// Grace is how long a child may take to end when its time is over; 0 is
	// 200 ms. When the timeout itself is cancelled it is 40 ms at most.
	Grace time.Duration
}

const (
	defaultGrace = 200 * time.Millisecond
	stopGrace    = 40 * time.Millisecond // of the 50 ms that a stop may take
	maxLeft      = 8                     // children left behind that still run
)

// A Timeout cancels its child, and nothing else, when it takes longer than a
// limit. It returns at the limit plus the grace in any case: a child that
// ignores its cancellation is left behind, counted, and its result thrown
// away. With eight of them still running it does not start another one.
type Timeout struct {
	node
	limit, grace time.Duration
	left         atomic.Int32
	all          atomic.Uint64
}

var _ agent.Agent = (*Timeout)(nil)

// NewTimeout gives a child a limit; an empty name is "timeout <child>".
func NewTimeout(name string, o TimeoutOptions, limit time.Duration, child agent.Agent) *Timeout {
	if o.Grace <= 0 {
		o.Grace = defaultGrace
	}
	n := node{name: named(name, "timeout", child.Name()), kind: "timeout", opt: o.Options, children: []agent.Agent{child}, detail: limit.String()}
	return &Timeout{node: n, limit: limit, grace: o.Grace}
}

// LeftBehind gives how many children were ever left behind, and how many of
// them still run.
func (b *Timeout) LeftBehind() (ever uint64, now int) { return b.all.Load(), int(b.left.Load()) }

// Run runs the child.
func (b *Timeout) Run(ctx context.Context, t agent.Task) (agent.Result, error) { return run(ctx, b, t) }

type outcome struct {
	i   int
	r   agent.Result
	err error
}

func (b *Timeout) body(ctx context.Context, f *frame, t agent.Task) (agent.Result, error) {
	child := b.children[0]
	if n := b.left.Load(); n >= maxLeft {
		return agent.Result{}, fmt.Errorf("%w: %d runs of %s were left behind and still run", agent.ErrFailed, n, child.Name())
	}
	work, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	w := newWorkers(f, 1)
	w.start(work, outcome{i: 0}, child, t)
	var end outcome
	select {
	case end = <-w.ended:
	case <-work.Done():
		var ok bool
		if end, ok = w.await(ctx, b.grace); !ok {
			w.leave(b.note)
			w.tellLeft(0, child)
			end.r = agent.Result{By: child.Name(), Status: agent.StatusOf(work.Err()), Reason: leftBehind}
			end.err = work.Err()
		}
	}
	if end.err == nil || work.Err() == nil || ctx.Err() != nil {
		return end.r, end.err
	}
	why := ""
	if end.r.Reason == leftBehind {
		why = " and was left behind"
	}
	return agent.Result{Children: []agent.Result{end.r}, Usage: end.r.Usage},
		fmt.Errorf("%w: %s took longer than %v%s", agent.ErrTimeout, child.Name(), b.limit, why)
}

const leftBehind = "left behind"

func (b *Timeout) note(n int) {
	b.left.Add(int32(n))
	if n > 0 {
		b.all.Add(uint64(n))
	}
}
