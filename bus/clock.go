package bus

import (
	"sync/atomic"
	"time"
)

// Reading a clock costs as much as delivering an event, and nobody needs two
// events of a flood to differ by nanoseconds. After some readings in a row
// that are close together, one reading serves for all events of the next
// millisecond; a timer ends it, so that a slow trickle is stamped exactly.
const (
	flood  = 64                   // readings in a row …
	nearby = 4 * time.Microsecond // … this close together
	spread = time.Millisecond     // how long one reading serves
)

// A clock tells the time to whoever asks. All methods may be called
// concurrently.
type clock struct {
	base  time.Time
	last  atomic.Int64 // when it was read, in nanoseconds after base
	wall  atomic.Int64 // Unix nanoseconds of base, as the wall clock has it now
	seen  atomic.Int64 // when wall was looked at
	near  atomic.Int32 // readings in a row that were close together
	kept  atomic.Int64 // the reading that serves for now, or 0
	timer *time.Timer
}

func (c *clock) start() {
	c.base = time.Now()
	c.wall.Store(c.base.UnixNano())
	c.timer = time.AfterFunc(time.Hour, func() { c.kept.Store(0) })
	c.timer.Stop()
}

func (c *clock) stop() { c.timer.Stop() }

// now is the time in Unix nanoseconds. Reading the monotonic clock costs half
// of reading both, so the wall clock is looked at once a second; a step of it
// shows after that.
func (c *clock) now() int64 {
	if at := c.kept.Load(); at != 0 {
		return at
	}
	mono := int64(time.Since(c.base))
	if mono-c.seen.Load() > int64(time.Second) {
		c.seen.Store(mono)
		c.wall.Store(time.Now().UnixNano() - mono)
	}
	at := c.wall.Load() + mono
	if mono-c.last.Swap(mono) > int64(nearby) {
		c.near.Store(0)
	} else if c.near.Add(1) == flood {
		c.near.Store(0)
		c.kept.Store(at)
		c.timer.Reset(spread)
	}
	return at
}

// Now is the time that events are stamped with, in Unix nanoseconds; in a
// flood of events it may be a millisecond old.
func (b *Bus) Now() int64 { return b.clock.now() }

// stamp gives the event its time, once, when somebody keeps it.
func (b *Bus) stamp(e *Event) {
	if e.at == 0 {
		e.at = b.clock.now()
	}
}
