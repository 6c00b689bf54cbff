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

// A clock gives events their times. Only who delivers reads it.
type clock struct {
	base  time.Time
	mono  time.Duration // when it was read last
	wall  int64         // Unix nanoseconds of base, as the wall clock has it now
	seen  time.Duration // when wall was looked at
	near  int           // readings in a row that were close together
	kept  atomic.Int64  // the reading that serves for now, or 0
	timer *time.Timer
}

func (c *clock) start() {
	c.base = time.Now()
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
	mono := time.Since(c.base)
	if c.wall == 0 || mono-c.seen > time.Second {
		c.seen, c.wall = mono, time.Now().UnixNano()-int64(mono)
	}
	at := c.wall + int64(mono)
	if c.near++; mono-c.mono > nearby {
		c.near = 0
	}
	if c.mono = mono; c.near == flood {
		c.near = 0
		c.kept.Store(at)
		c.timer.Reset(spread)
	}
	return at
}

// stamp gives the event its time, once, when somebody keeps it.
func (b *Bus) stamp(e *Event) {
	if e.at == 0 {
		e.at = b.clock.now()
	}
}
