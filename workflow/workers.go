package workflow

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"edged/agent"
)

// workers run children on goroutines of their own, for the nodes that may have
// to leave one behind. Whoever starts one takes its outcome from ended, or
// calls leave once and is through with all that still run.
type workers struct {
	f     *frame
	ended chan outcome // as large as the number of children: nobody blocks
	lost  atomic.Bool  // the node is not over: how those end that it cancels now is no outcome

	mu   sync.Mutex  // guards the rest
	busy int         // children that run
	note func(n int) // set when the rest is left behind
}

func newWorkers(f *frame, n int) *workers { return &workers{f: f, ended: make(chan outcome, n)} }

var errGoexit = errors.New("the goroutine was ended")

func (w *workers) start(ctx context.Context, o outcome, c agent.Agent, t agent.Task) {
	w.mu.Lock()
	w.busy++
	w.mu.Unlock()
	go func() {
		o.r, o.err = agent.Result{By: c.Name(), Status: agent.Failed, Reason: errGoexit.Error()}, errGoexit
		defer func() { w.done(o, c) }() // also when runtime.Goexit ends it
		o.r, o.err = w.step(ctx, o.i, c, t)
	}()
}

func (w *workers) step(ctx context.Context, at int, c agent.Agent, t agent.Task) (agent.Result, error) {
	j := w.f.run.journal
	if j == nil {
		return w.f.step(ctx, at, 0, c, t)
	}
	cf := &frame{Context: ctx, up: w.f, run: w.f.run, agent: c, at: int32(at), lost: w.lost.Load}
	return j.step(cf, c, t)
}

func (w *workers) done(o outcome, c agent.Agent) {
	w.mu.Lock()
	w.busy--
	note := w.note
	w.mu.Unlock()
	if note != nil {
		note(-1)
		w.tell(Back, o.i, c)
	}
	w.ended <- o
}

// await waits for one outcome, as long as the grace allows: shorter where it
// is stop, the node's own context, that is over.
func (w *workers) await(stop context.Context, grace time.Duration) (outcome, bool) {
	if stop.Err() != nil {
		grace = min(grace, stopGrace)
	}
	t := time.NewTimer(grace)
	defer t.Stop()
	over := stop.Done()
	for {
		select {
		case o := <-w.ended:
			return o, true
		case <-t.C:
			select {
			case o := <-w.ended:
				return o, true
			default:
				return outcome{}, false
			}
		case <-over:
			over = nil
			t.Reset(min(grace, stopGrace))
		}
	}
}

// leave gives up on the children that still run.
func (w *workers) leave(note func(n int)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note = note
	note(w.busy)
}

func (w *workers) tellLeft(i int, c agent.Agent) { w.tell(Left, i, c) }

func (w *workers) tell(p Phase, i int, c agent.Agent) {
	at := &frame{Context: w.f, up: w.f, run: w.f.run, agent: c, at: int32(i)}
	kind := "agent"
	if n := nodeOf(c); n != nil {
		kind = n.kind
	}
	at.tell(at, Moment{Phase: p, Name: c.Name(), Kind: kind})
}
