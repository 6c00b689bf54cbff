package blackboard

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"edged/bus"
)

// Sync watches run on the goroutine of whoever sets. Each watch has one turn:
// who holds it calls the handler, for its own change and for those that others
// queued meanwhile, in the order of the commits; the others wait until theirs
// is done. A handler that sets a key whose watch is taken, by itself say, only
// queues: who has the turn goes on with it.

// syncWait is how long a setter waits for another one to finish a handler.
const syncWait = 2 * time.Second

type syncQueue struct {
	turn    atomic.Bool   // somebody calls the handler
	length  atomic.Int32  // of items
	waiters atomic.Int32  // setters that wait for moved
	done    atomic.Uint64 // queued changes that were told

	mu     sync.Mutex // guards everything below
	items  []told
	queued uint64
	moved  chan struct{} // closed when the turn or done changed
}

// told is what a handler is to be told: of a change or of a request. It is the
// handler's context too, so that a call costs no further allocation.
type told struct {
	*toldCtx
	n *note
	r *Request
}

// toldCtx names the event as the cause, and marks work inside a handler.
type toldCtx struct {
	bus.Caused
	w *Watch
}

type syncKey struct{}

func (c *toldCtx) Value(key any) any {
	if _, ok := key.(syncKey); ok {
		return c
	}
	return c.Caused.Value(key)
}

// telling is how one change or request gets to the sync watches.
type telling struct {
	ctx  toldCtx // of the first watch
	at   uint64  // place in its queue, 0 = the setter has its turn
	more *[]wait // further watches, seldom any
}

// heard is a change that sync watches are to be told of.
type heard struct {
	note
	telling
}

type wait struct {
	w  *Watch
	at uint64
}

// listeners gives the sync watches of an entry; the caller holds mu.
func (b *Board) listeners(e *entry) []*Watch {
	if len(b.watches.sync) == 0 {
		return nil
	}
	if e.syncGen != b.watches.gen {
		e.syncs, e.syncGen = b.watches.matching(e.key), b.watches.gen
	}
	return e.syncs
}

// add takes the turn of the first watch or queues what is to be told, and
// queues it for all others. If here is false no turn is taken: the goroutine
// that will see to it is not known yet. The caller holds mu.
func (l *telling) add(ctx context.Context, w *Watch, ev bus.Event, n *note, r *Request, here bool) {
	if l.ctx.w != nil {
		if l.more == nil {
			l.more = new([]wait)
		}
		*l.more = append(*l.more, wait{w, w.queue.push(told{&toldCtx{bus.CausedBy(ctx, ev), w}, n, r})})
		return
	}
	l.ctx.Caused, l.ctx.w = bus.CausedBy(ctx, ev), w
	if q := &w.queue; !here || q.length.Load() > 0 || !q.turn.CompareAndSwap(false, true) {
		l.at = q.push(told{&l.ctx, n, r})
	}
}

// run sees to it that the handlers have run before the setter goes on. If add
// took a turn, run must be called.
func (l *telling) run(ctx context.Context, n *note, r *Request) {
	if w := l.ctx.w; w != nil {
		if l.at == 0 {
			w.call(told{&l.ctx, n, r})
			w.yield()
		} else {
			w.await(ctx, l.at)
		}
	}
	if l.more != nil {
		for _, x := range *l.more {
			x.w.await(ctx, x.at)
		}
	}
}

func (h *heard) run(ctx context.Context) { h.telling.run(ctx, &h.note, nil) }

// push queues a change; the caller holds Board.mu, which keeps the order.
func (q *syncQueue) push(t told) uint64 {
	q.mu.Lock()
	q.items = append(q.items, t)
	q.queued++
	at := q.queued
	q.length.Store(int32(len(q.items)))
	q.mu.Unlock()
	return at
}

// await returns when the queue has come to a place.
func (w *Watch) await(ctx context.Context, at uint64) {
	q := &w.queue
	if q.done.Load() >= at {
		return
	}
	var patience *time.Timer
	for q.done.Load() < at {
		if q.turn.CompareAndSwap(false, true) {
			w.yield()
			continue
		}
		if patience == nil {
			if ctx.Value(syncKey{}) != nil {
				return // in a handler: waiting for another one could go in a circle
			}
			patience = time.NewTimer(syncWait)
			defer patience.Stop()
		}
		q.waiters.Add(1)
		q.mu.Lock()
		if q.moved == nil {
			q.moved = make(chan struct{})
		}
		moved := q.moved
		q.mu.Unlock()
		if q.turn.Load() && q.done.Load() < at {
			select {
			case <-moved:
			case <-patience.C:
				w.b.count.late.Add(1)
				at = 0
			case <-ctx.Done():
				at = 0
			}
		}
		q.waiters.Add(-1)
	}
}

// yield works off what is queued and gives the turn back.
func (w *Watch) yield() {
	q := &w.queue
	for {
		for q.length.Load() > 0 {
			q.mu.Lock()
			items := q.items
			q.items = nil
			q.length.Store(0)
			q.mu.Unlock()
			for _, t := range items {
				w.call(t)
				q.done.Add(1)
				q.stir()
			}
		}
		q.turn.Store(false)
		q.stir()
		if q.length.Load() == 0 || !q.turn.CompareAndSwap(false, true) {
			return
		}
	}
}

// stir wakes those who wait.
func (q *syncQueue) stir() {
	if q.waiters.Load() == 0 {
		return
	}
	q.mu.Lock()
	if q.moved != nil {
		close(q.moved)
		q.moved = nil
	}
	q.mu.Unlock()
}

func (w *Watch) call(t told) {
	if w.closed.Load() {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			w.b.bus.Report(t.toldCtx, w.o.Name, recovered(p), t.Event())
		}
	}()
	var c Change
	if t.r != nil {
		c = t.r.change()
	} else {
		c = t.n.change()
	}
	if err := w.h(t.toldCtx, c); err != nil {
		w.b.bus.Report(t.toldCtx, w.o.Name, err, t.Event())
	}
}
