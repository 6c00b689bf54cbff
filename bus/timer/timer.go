// Package timer keeps many deadlines on one wheel, so that ten thousand
// debounces, leases and time-outs cost no goroutine and one runtime timer.
//
// Its one rule: a callback runs on the wheel's goroutine and must not block;
// while it runs, every other deadline waits.
//
//	w := timer.New()
//	t := w.After(200*time.Millisecond, func() { fmt.Println("quiet") })
//	t.Reset(200 * time.Millisecond) // something happened: wait again
//	t.Stop()
//
// Deadlines have a resolution of one millisecond and are never early.
// Callbacks run one after the other, in the order of their deadlines and, for
// the same millisecond, in the order in which they were set.
package timer

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// resolution is the length of a tick.
const resolution = time.Millisecond

// A Wheel holds deadlines. The zero value is not usable; call [New]. All
// methods may be called concurrently and, but for Close, from callbacks.
type Wheel struct {
	base time.Time // tick 0

	mu      sync.Mutex // guards everything below
	ring    rings
	n       int // waiting: in the rings or in batch
	order   uint64
	alarm   *time.Timer // the one runtime timer, made by the first deadline
	armed   int64       // the tick alarm is set for, never when it is not
	running bool        // a goroutine is in run
	idle    sync.Cond   // running became false
	batch   []*Timer    // due now, in order
	closed  bool
}

// A Timer is one deadline on a wheel.
type Timer struct {
	w          *Wheel
	f          func()
	due        int64 // tick
	order      uint64
	next, prev *Timer
	level      uint8
	slot       uint8
	state      state
}

type state uint8

const (
	resting state = iota // fired, stopped or of a closed wheel
	waiting              // in a ring
	ready                // in the batch that is being run
)

// New makes an empty wheel. It costs nothing until something waits on it.
func New() *Wheel {
	w := &Wheel{base: time.Now(), armed: never}
	w.idle.L = &w.mu
	return w
}

// After calls f once, not earlier than d from now. On a closed wheel it gives
// a timer that never fires.
func (w *Wheel) After(d time.Duration, f func()) *Timer {
	t := &Timer{w: w, f: f}
	w.mu.Lock()
	w.set(t, d)
	w.mu.Unlock()
	return t
}

// Reset makes the timer wait for d from now, whether it is waiting or not.
func (t *Timer) Reset(d time.Duration) {
	t.w.mu.Lock()
	t.w.forget(t)
	t.w.set(t, d)
	t.w.mu.Unlock()
}

// Stop forgets the deadline. It reports whether the callback was kept from
// running; if not, it has run, is running, or was never set.
func (t *Timer) Stop() bool {
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	return t.w.forget(t)
}

// Left is how long the timer still waits, 0 if it doesn't.
func (t *Timer) Left() time.Duration {
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	if t.state == resting {
		return 0
	}
	return max(time.Duration(t.due)*resolution-time.Since(t.w.base), 0)
}

// Len is the number of waiting deadlines.
func (w *Wheel) Len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.n
}

// Close forgets every deadline and waits for the callback that is running;
// later deadlines are ignored. It must not be called from a callback.
func (w *Wheel) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.ring.clear()
	for _, t := range w.batch {
		if t != nil && t.state == ready {
			t.state = resting
		}
	}
	w.n = 0
	if w.alarm != nil {
		w.alarm.Stop()
	}
	for w.running {
		w.idle.Wait()
	}
}

// set puts a resting timer into the rings. The caller holds mu.
func (w *Wheel) set(t *Timer, d time.Duration) {
	if w.closed {
		return
	}
	now := time.Since(w.base)
	t.due = ceil(now, d)
	w.order++
	t.order = w.order
	if w.n == 0 && !w.running {
		w.ring.now = int64(now / resolution) // nothing waits: the rings may jump ahead
	}
	w.ring.add(t)
	w.n++
	// A running wheel arms itself when it is through.
	if !w.running && t.due < w.armed {
		w.arm(t.due, now)
	}
}

// forget takes a timer out, in whatever state. The caller holds mu. The alarm
// stays as it is: one wake-up for nothing is cheaper than a runtime timer
// stopped and started for each of a million requests that are answered in time.
func (w *Wheel) forget(t *Timer) bool {
	switch t.state {
	case resting:
		return false
	case waiting:
		w.ring.remove(t)
	}
	t.state = resting
	w.n--
	return true
}

// arm sets the runtime timer, never to 0: inside a synctest bubble the race
// runtime of Go 1.26.8 does not survive that. The caller holds mu.
func (w *Wheel) arm(due int64, now time.Duration) {
	w.armed = due
	d := max(1, time.Duration(due)*resolution-now)
	if w.alarm == nil {
		w.alarm = time.AfterFunc(d, w.run)
		return
	}
	w.alarm.Reset(d)
}

// run calls what is due, then arms the runtime timer for what comes next, if
// anything does.
func (w *Wheel) run() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running || w.closed {
		return
	}
	w.running, w.armed = true, never
	defer func() {
		w.running = false
		w.idle.Broadcast()
	}()
	for !w.closed {
		now := time.Since(w.base)
		w.batch = w.ring.advance(int64(now/resolution), w.batch[:0])
		if len(w.batch) == 0 {
			if due := w.ring.earliest(); due != never {
				w.arm(due, now)
			}
			return
		}
		slices.SortFunc(w.batch, func(a, b *Timer) int {
			return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.order, b.order))
		})
		w.fire()
	}
}

// fire calls the batch, with mu released around each callback.
func (w *Wheel) fire() {
	for i, t := range w.batch {
		w.batch[i] = nil
		if t.state != ready {
			continue // stopped or set anew by an earlier callback
		}
		t.state = resting
		w.n--
		w.call(t.f)
	}
	if cap(w.batch) > 1024 {
		w.batch = nil
	}
}

// call lets go of mu while f runs; a panic of f is not caught.
func (w *Wheel) call(f func()) {
	w.mu.Unlock()
	defer w.mu.Lock()
	f()
}

// ceil gives the first tick that is not before now+d.
func ceil(now, d time.Duration) int64 {
	d = max(d, 0)
	if d > farthest {
		d = farthest
	}
	return int64((now + d + resolution - 1) / resolution)
}
