package script

import (
	"runtime/metrics"
	"sync"
	"time"
	"weak"
)

// The watch looks at calls that are inside one long operation, where the
// thread's own check does not get a turn. It is a timer, not a goroutine, and
// it is set only while calls run: an idle process is never woken. Nothing in
// this file blocks.

const (
	watchFirst = 20 * time.Millisecond // from the start of a call to the first look
	watchNext  = 5 * time.Millisecond  // between looks while the same call goes on
)

type watch struct {
	mu      sync.Mutex // guards the rest
	timer   *time.Timer
	runners []weak.Pointer[runner]
	sample  [1]metrics.Sample
}

func (w *watch) add(r weak.Pointer[runner]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runners = append(w.runners, r)
}

// arm sets the timer unless it is set. On the way of every call it is one load.
func (e *Engine) arm() {
	if e.armed.Load() || !e.armed.CompareAndSwap(false, true) {
		return
	}
	w := &e.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer == nil {
		w.timer = time.AfterFunc(watchFirst, e.tick)
	} else {
		w.timer.Reset(watchFirst)
	}
}

// tick looks at every call that is computing and sets the timer again only if
// there is one.
func (e *Engine) tick() {
	e.armed.Store(false) // before looking: a call that begins now sets it again
	w := &e.watch
	w.mu.Lock()
	kept := w.runners[:0]
	var live []*runner
	for _, p := range w.runners {
		if r := p.Value(); r != nil {
			kept = append(kept, p)
			live = append(live, r)
		}
	}
	clear(w.runners[len(kept):])
	w.runners = kept
	w.mu.Unlock()

	now := time.Now()
	running := false
	for _, r := range live {
		if r.observe(now) {
			running = true
		}
	}
	if running && e.armed.CompareAndSwap(false, true) {
		w.mu.Lock()
		w.timer.Reset(watchNext)
		w.mu.Unlock()
	}
}

// observe reports whether a call is computing on the runner, and ends it if it
// is over a limit.
func (r *runner) observe(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.active || r.paused > 0 || r.killed != nil {
		return false
	}
	first := r.heapAt == 0
	heap := r.e.watch.heap()
	r.look(now)
	switch {
	case first:
		r.heapAt = heap
	case heap > r.heapAt && heap-r.heapAt > r.e.heap:
		r.kill(&LimitError{Limit: "memory", Heap: r.e.heap})
	}
	return r.killed == nil
}

// heap returns the bytes of objects on the heap, dead ones that the collector
// has not found yet included.
func (w *watch) heap() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sample[0].Name = "/memory/classes/heap/objects:bytes"
	metrics.Read(w.sample[:])
	return w.sample[0].Value.Uint64()
}
