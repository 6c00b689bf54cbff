// Package timer keeps many deadlines on one wheel, so that ten thousand
// debounces, leases and time-outs cost no goroutine and one runtime timer.
//
// Its one rule: a callback runs on the wheel's goroutine and must not block.
package timer

import (
	"container/heap"
	"sync"
	"time"
)

// A Wheel holds deadlines. The zero value is not usable; call [New]. All
// methods may be called concurrently and from callbacks.
type Wheel struct {
	mu     sync.Mutex // guards everything below
	due    timers
	base   time.Time
	alarm  *time.Timer
	closed bool
}

// A Timer is one deadline on a wheel.
type Timer struct {
	w     *Wheel
	at    time.Duration // since the wheel's base
	f     func()
	index int // in due, -1 when not waiting
}

// New makes an empty wheel. It costs nothing until something waits on it.
func New() *Wheel { return &Wheel{base: time.Now()} }

// After calls f once, not earlier than d from now.
func (w *Wheel) After(d time.Duration, f func()) *Timer {
	t := &Timer{w: w, f: f, index: -1}
	t.Reset(d)
	return t
}

// Reset makes the timer wait for d from now, whether it is waiting or not.
func (t *Timer) Reset(d time.Duration) {
	w := t.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	t.at = time.Since(w.base) + d
	if t.index >= 0 {
		heap.Fix(&w.due, t.index)
	} else {
		heap.Push(&w.due, t)
	}
	w.arm()
}

// Stop forgets the deadline. It reports whether the callback was kept from running.
func (t *Timer) Stop() bool {
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	if t.index < 0 {
		return false
	}
	heap.Remove(&t.w.due, t.index)
	return true
}

// Len is the number of waiting deadlines.
func (w *Wheel) Len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.due)
}

// Close forgets every deadline; later ones are ignored.
func (w *Wheel) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for _, t := range w.due {
		t.index = -1
	}
	w.due = nil
	if w.alarm != nil {
		w.alarm.Stop()
	}
}

func (w *Wheel) arm() {
	if len(w.due) == 0 {
		return
	}
	d := max(0, w.due[0].at-time.Since(w.base))
	if w.alarm == nil {
		w.alarm = time.AfterFunc(d, w.ring)
	} else {
		w.alarm.Reset(d)
	}
}

func (w *Wheel) ring() {
	w.mu.Lock()
	for len(w.due) > 0 && w.due[0].at <= time.Since(w.base) {
		t := heap.Pop(&w.due).(*Timer)
		w.mu.Unlock()
		t.f()
		w.mu.Lock()
	}
	w.arm()
	w.mu.Unlock()
}

type timers []*Timer

func (h timers) Len() int           { return len(h) }
func (h timers) Less(i, j int) bool { return h[i].at < h[j].at }
func (h timers) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].index, h[j].index = i, j }
func (h *timers) Push(x any)        { t := x.(*Timer); t.index = len(*h); *h = append(*h, t) }
func (h *timers) Pop() any {
	t := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	t.index = -1
	return t
}
