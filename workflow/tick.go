package workflow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"edged/agent"
)

// A Tick runs a tree the classic way: it goes through all of it again and
// again, until the root is not running any more. A tree that is only driven by
// events needs no ticks and costs nothing while nothing happens; this one asks
// its conditions in each tick. Checkpoints and effects don't count in here.
type Tick struct {
	node
	every time.Duration
}

var _ agent.Agent = (*Tick)(nil)

// NewTick makes a ticking tree; every 0 is 50 ms.
func NewTick(name string, o Options, every time.Duration, tree agent.Agent) *Tick {
	if every <= 0 {
		every = 50 * time.Millisecond
	}
	return &Tick{node{name: named(name, "tick", tree.Name()), kind: "tick", opt: o, children: []agent.Agent{tree}, detail: "every " + every.String()}, every}
}

// Run ticks the tree until its root has ended.
func (b *Tick) Run(ctx context.Context, t agent.Task) (agent.Result, error) { return run(ctx, b, t) }

func (b *Tick) body(ctx context.Context, f *frame, t agent.Task) (agent.Result, error) {
	// A leaf's place is in the ticking tree; what it runs in turn is its own.
	work, cancel := context.WithCancel(ctx)
	defer cancel()
	tree := NewTicking(work, b.children[0], t)
	beat := time.NewTicker(b.every)
	defer beat.Stop()
	for {
		switch tree.Tick() {
		case Success:
			return agent.Result{By: b.children[0].Name()}, nil
		case Failure:
			return agent.Result{By: b.children[0].Name()}, b.failed(tree.Err())
		}
		select {
		case <-beat.C:
		case <-ctx.Done():
		}
		if err := ctx.Err(); err != nil {
			tree.Halt()
			return agent.Result{}, err
		}
	}
}

// failed makes the outcome of a root that failed: a limit or a guard of the
// root's own is what it is anywhere else.
func (b *Tick) failed(err error) error {
	root := nodeOf(b.children[0])
	var g *GuardError
	switch {
	case err == nil:
		return fmt.Errorf("%w: %s", agent.ErrFailed, b.children[0].Name())
	case errors.As(err, &g) && root != nil && root.opt.Guard == g.of:
		return err
	case root != nil && root.kind == "timeout" && agent.StatusOf(err) == agent.Timeout:
		return err
	case agent.StatusOf(err) == agent.Failed:
		return err
	}
	return fmt.Errorf("%w: %w", agent.ErrFailed, noStatus{err})
}
