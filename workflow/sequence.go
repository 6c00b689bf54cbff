package workflow

import (
	"context"
	"sync"

	"edged/agent"
)

// SequenceOptions of a [Sequence]; the zero value hands each reply on.
type SequenceOptions struct {
	Options
	// PassTask gives every child the sequence's own task. Without it a child
	// gets the reply of the one before (its output if it said nothing);
	// [TaskOf] still gives the first task.
	PassTask bool
	// Reactive goes on watching the conditions of children that are done: the
	// guards, and what a [Condition] asks. If one turns false the running
	// child is cancelled and the sequence ends as that child would.
	Reactive bool
}

// A Sequence runs its children one after the other. It stops at the first that
// is not done and has its outcome, else the last one's.
type Sequence struct {
	node
	opt SequenceOptions
}

var _ agent.Agent = (*Sequence)(nil)

// NewSequence makes a sequence of the children.
func NewSequence(name string, o SequenceOptions, children ...agent.Agent) *Sequence {
	return &Sequence{node{name: name, kind: "sequence", opt: o.Options, children: children, detail: reactive(o.Reactive)}, o}
}

func reactive(yes bool) string {
	if yes {
		return "reactive"
	}
	return ""
}

// Run runs the children.
func (s *Sequence) Run(ctx context.Context, t agent.Task) (agent.Result, error) {
	return run(ctx, s, t)
}

func (s *Sequence) body(ctx context.Context, f *frame, t agent.Task) (agent.Result, error) {
	if len(s.children) == 0 {
		return agent.Result{}, s.empty()
	}
	var rx *recheck
	if s.opt.Reactive {
		rx = newRecheck(ctx, f)
		defer rx.close()
		ctx = rx.ctx
	}
	quiet := ctx
	if len(s.children) > 1 {
		quiet = mute(ctx)
	}
	list := make([]agent.Result, 0, len(s.children))
	var used agent.Usage
	for i, c := range s.children {
		last := i == len(s.children)-1
		of := quiet
		if last {
			of = ctx
		}
		var r agent.Result
		var err error
		if rx == nil {
			r, err = f.step(of, i, 0, c, t)
		} else {
			r, err = f.turn(of, i, false, c, t)
		}
		add(&used, r)
		list = append(list, r)
		if rx != nil && err == nil && !last {
			rx.hold(c)
		}
		if rx != nil && rx.broken() != nil && f.Err() == nil {
			return agent.Result{Children: list, Usage: used}, rx.broken()
		}
		if err != nil || last {
			r.Children, r.Usage = list, used
			return r, err
		}
		if !s.opt.PassTask {
			t = next(t, r)
		}
	}
	return agent.Result{}, nil // not reached
}

// recheck watches the conditions of children that are done.
type recheck struct {
	f       *frame
	ctx     context.Context
	cancel  context.CancelCauseFunc
	watches []*watch

	mu  sync.Mutex // guards err
	err error      // of the first condition that no longer holds
}

func newRecheck(ctx context.Context, f *frame) *recheck {
	r := &recheck{f: f}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	return r
}

func (r *recheck) hold(c agent.Agent) {
	g, is := conditionOf(c)
	if g == nil {
		return
	}
	tell := func(ok bool, err error) {
		if err == nil && !ok {
			err = is(g)
		}
		if err == nil {
			return
		}
		r.mu.Lock()
		if r.err == nil {
			r.err = err
		}
		r.mu.Unlock()
		r.cancel(err)
	}
	w := newWatch(r.f, g, tell)
	r.watches = append(r.watches, w)
	tell(w.start(false))
}

func (r *recheck) broken() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

func (r *recheck) close() {
	for _, w := range r.watches {
		w.close()
	}
	r.cancel(nil)
}
