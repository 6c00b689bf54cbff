package background

import (
	"context"
	"fmt"
	"sync"
	"time"

	"edged/bus"
	"edged/bus/timer"
)

// An Edge says which end of a burst of events fires.
type Edge uint8

// The edges.
const (
	Leading  Edge = iota // the first event, then at most one per interval
	Trailing             // the latest event, after a quiet interval
	Both                 // the first at once, the latest of the others after a quiet interval
)

// ParseEdge reads an edge by its name.
func ParseEdge(s string) (Edge, error) {
	switch s {
	case "leading":
		return Leading, nil
	case "trailing":
		return Trailing, nil
	case "both":
		return Both, nil
	}
	return 0, fmt.Errorf("background: edge %q: it must be leading, trailing or both", s)
}

// DebounceOptions say how a burst is thinned out; the zero value fires on the
// leading edge, all events sharing one window.
type DebounceOptions struct {
	Edge    Edge
	Key     KeyFunc       // nil: one window for all
	MaxWait time.Duration // the longest a burst delays its trailing event; 0 = no limit
	MaxKeys int           // windows remembered; 4,096. Beyond that the one least recently used ends early
}

// Debounce thins out what a trigger fires. Only what the inner trigger fires
// counts: an event that it ignores does not use up the window.
//
// Leading: an event fires if none has in the interval before it. Trailing: the
// latest event fires when the interval has passed without another, at latest
// MaxWait after the first that waits. Both: an event fires at once if nothing
// waits and nothing has fired in the interval before it; any other waits as
// for trailing.
func Debounce(inner Trigger, interval time.Duration, o DebounceOptions) (Trigger, error) {
	if interval <= 0 {
		return nil, fmt.Errorf("background: debounce: the interval is %v, it must be more than 0", interval)
	}
	if o.MaxWait < 0 {
		return nil, fmt.Errorf("background: debounce: max_wait is %v, it must not be negative", o.MaxWait)
	}
	if o.MaxWait > 0 && o.Edge == Leading {
		return nil, fmt.Errorf("background: debounce: max_wait has no meaning for the leading edge")
	}
	return &debounce{inner, interval, o, false}, nil
}

// ThrottleOptions say how a stream is thinned out; the zero value is one
// window for all events, and keeps the last one.
type ThrottleOptions struct {
	Key      KeyFunc // nil: one window for all
	DropLast bool    // what comes inside the interval is lost instead of its latest fired at the end
	MaxKeys  int     // windows remembered; 4,096
}

// Throttle fires at most once per interval: the first event at once, then the
// latest of those that came since when the interval is over.
func Throttle(inner Trigger, interval time.Duration, o ThrottleOptions) (Trigger, error) {
	if interval <= 0 {
		return nil, fmt.Errorf("background: throttle: the interval is %v, it must be more than 0", interval)
	}
	d := DebounceOptions{Edge: Both, Key: o.Key, MaxKeys: o.MaxKeys}
	if o.DropLast {
		d.Edge = Leading
	}
	return &debounce{inner, interval, d, true}, nil
}

// debounce is both: a throttle is a debounce whose waiting event fires one
// interval after the firing before, however many come meanwhile.
type debounce struct {
	inner    Trigger
	interval time.Duration
	o        DebounceOptions
	throttle bool
}

// burst is the window of one key.
type burst struct {
	fired    time.Time // zero: never
	waiting  bool
	event    bus.Event
	task     any
	first    time.Time // the first event that waits came then
	deadline time.Time
	timer    *timer.Timer
}

// gate is an opened debounce.
type gate struct {
	*debounce
	out Outlet

	mu      sync.Mutex // guards everything below; not held while emitting
	keys    *keyed[*burst]
	stopped bool
}

// firing is something to emit once the lock is released.
type firing struct {
	event bus.Event
	task  any
}

func (d *debounce) Open(o Outlet) (func(context.Context, bus.Event), func()) {
	g := &gate{debounce: d, out: o, keys: newKeyed[*burst](d.o.MaxKeys)}
	inside := o
	inside.Emit = g.take
	hear, stop := d.inner.Open(inside)
	return hear, func() {
		stop()
		g.mu.Lock()
		defer g.mu.Unlock()
		g.stopped = true
		for el := g.keys.order.Front(); el != nil; el = el.Next() {
			if b := el.Value.(*entry[*burst]).value; b.timer != nil {
				b.timer.Stop()
			}
		}
	}
}

// take is what the inner trigger emits to.
func (g *gate) take(e bus.Event, task any) {
	key := ""
	if g.o.Key != nil {
		var err error
		if key, err = g.o.Key(e); err != nil {
			g.out.Fail(fmt.Errorf("background: key of a trigger: %w", err))
			return
		}
	}
	now := time.Now()
	g.mu.Lock()
	var room [4]firing
	out := g.window(key, now, firing{e, task}, room[:0])
	g.mu.Unlock()
	for _, f := range out {
		g.out.Emit(f.event, f.task)
	}
}

// window applies the rule of the edge. The caller holds mu.
func (g *gate) window(key string, now time.Time, f firing, out []firing) []firing {
	if g.stopped {
		return out
	}
	g.sweep(now)
	b, lost := g.burst(key)
	if lost != nil && lost.waiting { // better early than never
		lost.timer.Stop()
		lost.waiting = false
		out = append(out, firing{lost.event, lost.task})
	}
	if b.waiting && !now.Before(b.deadline) { // the wheel is about to
		out = append(out, b.flush(now))
	}
	quiet := b.fired.IsZero() || now.Sub(b.fired) >= g.interval
	if g.o.Edge != Trailing && !b.waiting && quiet {
		b.fired = now
		return append(out, f)
	}
	if g.o.Edge == Leading {
		return out
	}
	g.hold(key, b, now, f)
	return out
}

// hold makes f the event that waits.
func (g *gate) hold(key string, b *burst, now time.Time, f firing) {
	if !b.waiting {
		b.waiting, b.first = true, now
	}
	b.event, b.task = f.event, f.task
	b.deadline = now.Add(g.interval)
	if g.throttle {
		b.deadline = b.fired.Add(g.interval)
	} else if latest := b.first.Add(g.o.MaxWait); g.o.MaxWait > 0 && latest.Before(b.deadline) {
		b.deadline = latest
	}
	switch {
	case b.timer == nil:
		b.timer = g.out.Timers.After(b.deadline.Sub(now), func() { g.ring(key, b) })
	case b.first.Equal(now):
		b.timer.Reset(b.deadline.Sub(now))
	}
	// Else the timer is on its way; when it rings early, it waits on.
}

// ring is the wheel's call: fire if the deadline is still this one.
func (g *gate) ring(key string, b *burst) {
	now := time.Now()
	g.mu.Lock()
	if !b.waiting || g.stopped {
		g.mu.Unlock()
		return
	}
	if now.Before(b.deadline) {
		b.timer.Reset(b.deadline.Sub(now))
		g.mu.Unlock()
		return
	}
	f := b.flush(now)
	if g.o.Edge == Trailing {
		g.keys.remove(key)
	}
	g.mu.Unlock()
	g.out.Emit(f.event, f.task)
}

func (b *burst) flush(now time.Time) firing {
	f := firing{b.event, b.task}
	b.waiting, b.event, b.task, b.fired = false, bus.Event{}, nil, now
	return f
}

// burst finds the window of a key, or makes one.
func (g *gate) burst(key string) (b, lost *burst) {
	if at := g.keys.get(key); at != nil {
		return *at, nil
	}
	b = &burst{}
	if _, old := g.keys.add(key, b); old != nil {
		lost = *old
	}
	return b, lost
}

// sweep forgets windows that are over; they behave like new ones.
func (g *gate) sweep(now time.Time) {
	for range 2 {
		key, at := g.keys.oldest()
		if at == nil || (*at).waiting || now.Sub((*at).fired) <= g.interval {
			return
		}
		g.keys.remove(key)
	}
}
