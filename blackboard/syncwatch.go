package blackboard

import (
	"context"
	"sync"
	"time"

	"edged/bus"
)

// Sync watches run on the goroutine of whoever sets. Each has a queue in the
// order of the commits; the first setter to come works it off, others wait
// until theirs is done. A handler that sets a key it watches itself only
// queues: the round it is part of goes on with it.

// syncWait is how long a setter waits for another one to finish a handler.
const syncWait = 2 * time.Second

type syncQueue struct {
	mu      sync.Mutex // guards everything below
	items   []told
	head    int
	queued  uint64
	done    uint64
	running bool
	moved   chan struct{} // closed when done grows and somebody waits
}

// told is one call of a handler.
type told struct {
	ctx context.Context
	ev  bus.Event
	n   *note
	r   *Request
}

// heard is a change with the sync watches that are to be told of it.
type heard struct {
	note
	ctx   syncCtx
	one   [1]wait
	waits []wait
}

type wait struct {
	w  *Watch
	at uint64
}

// syncCtx marks work that is done inside a sync watch's handler.
type syncCtx struct {
	context.Context
	w *Watch
}

type syncKey struct{}

func (c *syncCtx) Value(key any) any {
	if _, ok := key.(syncKey); ok {
		return c
	}
	return c.Context.Value(key)
}

// inside reports whether ctx belongs to a handler of w, directly or further up.
func inside(ctx context.Context, w *Watch) bool {
	for {
		c, _ := ctx.Value(syncKey{}).(*syncCtx)
		if c == nil {
			return false
		}
		if c.w == w {
			return true
		}
		ctx = c.Context
	}
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

// tell queues a change for its sync watches; the caller holds mu.
func (h *heard) tell(ctx context.Context, ws []*Watch, ev bus.Event) {
	h.waits = h.one[:0]
	for _, w := range ws {
		if !w.hears(&h.note) {
			continue
		}
		c := &h.ctx
		if c.w != nil {
			c = new(syncCtx)
		}
		c.Context, c.w = ctx, w
		h.waits = append(h.waits, wait{w, w.queue.push(told{ctx: c, ev: ev, n: &h.note})})
	}
}

func (q *syncQueue) push(t told) uint64 {
	q.mu.Lock()
	q.items = append(q.items, t)
	q.queued++
	at := q.queued
	q.mu.Unlock()
	return at
}

// runSync sees to it that the handlers have run before the setter goes on.
func (b *Board) runSync(ctx context.Context, waits []wait) {
	for _, x := range waits {
		x.w.run(ctx, x.at)
	}
}

func (w *Watch) run(ctx context.Context, at uint64) {
	q := &w.queue
	q.mu.Lock()
	var patience <-chan time.Time
	for q.done < at {
		if !q.running {
			w.work()
			continue
		}
		if inside(ctx, w) {
			break
		}
		if q.moved == nil {
			q.moved = make(chan struct{})
		}
		moved := q.moved
		q.mu.Unlock()
		if patience == nil {
			t := time.NewTimer(syncWait)
			defer t.Stop()
			patience = t.C
		}
		select {
		case <-moved:
		case <-patience:
			w.b.count.late.Add(1)
			return
		case <-ctx.Done():
			return
		}
		q.mu.Lock()
	}
	q.mu.Unlock()
}

// work calls the handler for all that is queued; the caller holds q.mu.
func (w *Watch) work() {
	q := &w.queue
	q.running = true
	for q.head < len(q.items) {
		t := q.items[q.head]
		q.items[q.head] = told{}
		if q.head++; q.head == len(q.items) {
			q.items, q.head = q.items[:0], 0
		}
		q.mu.Unlock()
		if !w.closed.Load() {
			w.call(t)
		}
		q.mu.Lock()
		q.done++
		if q.moved != nil {
			close(q.moved)
			q.moved = nil
		}
	}
	q.running = false
}

func (w *Watch) call(t told) {
	ctx := bus.WithCause(t.ctx, t.ev)
	defer func() {
		if p := recover(); p != nil {
			w.b.bus.Report(ctx, w.o.Name, recovered(p), t.ev)
		}
	}()
	var c Change
	if t.r != nil {
		c = t.r.change()
	} else {
		c = t.n.change()
	}
	if err := w.h(ctx, c); err != nil {
		w.b.bus.Report(ctx, w.o.Name, err, t.ev)
	}
}
