package lib

import (
	"maps"
	"sync"
	"time"

	"edged/bus"
	"edged/bus/timer"
)

// The one rule of time that lasts longer than the process: it is counted, not
// looked up on the clock on the wall. While the robot runs the monotonic clock
// counts, whatever is done to the wall clock. While it is off only the wall
// clock can tell how long that was, and it is believed if it can be: what was
// left, and when that was, are in the record, and a clock that went back, or
// forward by years, was not set at one of the two moments. Then nothing is
// taken off, until it is set: a step forward after the start counts as the time
// that the robot was off, if that was not known, or soon after the start.

const (
	longestOff = 10 * 365 * 24 * time.Hour // what is more is a clock that was not set
	syncing    = 10 * time.Minute          // after the start, in which a clock may be set
	aStep      = 2 * time.Second           // of the wall clock; what is less is slewing
	clockLook  = time.Minute               // between looks at the wall clock, while something is counted
	noteEvery  = 10 * time.Minute          // between notes of what is left
)

// due is a time to come, as a record keeps it: what was left of it when the
// record was written.
type due struct {
	Left time.Duration `json:"left,omitempty"`
	At   time.Time     `json:"at,omitzero"` // by the wall clock
	// Deadline is how records of before said it.
	Deadline time.Time `json:"deadline,omitzero"`
}

// set reports whether there is a time at all; a wait may have none.
func (d due) set() bool { return !d.At.IsZero() || !d.Deadline.IsZero() }

// wall is the wall clock.
func (b *Behaviour) wall() time.Time {
	if b.host.Wall != nil {
		return b.host.Wall().Round(0)
	}
	return time.Now().Round(0)
}

func (b *Behaviour) dueIn(left time.Duration) due { return due{Left: left, At: b.wall()} }

// countdown is a time that is being counted. The behaviour looks at the wall
// clock for all of them together.
type countdown struct {
	b    *Behaviour
	note func(due) // writes the record anew
	fire func()

	mu      sync.Mutex // guards the rest
	from    time.Time  // when it was taken up, monotonic
	total   time.Duration
	off     time.Duration // of total, that the robot was off
	known   bool          // how long it was off
	since   time.Time     // when it went off, by the wall clock; zero: it was not
	timer   *timer.Timer
	stopped bool
}

// count begins to count what is due and calls fire when it is over, on the
// goroutine of the timers. What a record says is due is less by what has passed
// since; after a restart that is the time that the robot was off.
func (b *Behaviour) count(d due, restart bool, note func(due), fire func()) *countdown {
	if d.At.IsZero() { // a record of before
		d = b.dueIn(max(d.Deadline.Sub(b.wall()), 0))
	}
	k := &countdown{b: b, note: note, fire: fire, from: time.Now(), total: d.Left}
	k.off, k.known = offFor(b.wall().Sub(d.At))
	if restart {
		k.since = d.At
	}
	b.clock.add(b, k)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.timer = b.host.Bus.Timers().After(k.left(), k.over)
	return k
}

// offFor is how long the robot was off, if that can be believed.
func offFor(d time.Duration) (time.Duration, bool) {
	if d < 0 || d > longestOff {
		return 0, false
	}
	return d, true
}

// left is what is left; the caller holds mu.
func (k *countdown) left() time.Duration {
	return max(k.total-k.off-time.Since(k.from), 0)
}

// due is what is left, as a record has it.
func (k *countdown) due() due {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.b.dueIn(k.left())
}

func (k *countdown) over() {
	k.mu.Lock()
	stopped := k.stopped
	k.mu.Unlock()
	if !stopped {
		k.stop()
		k.fire()
	}
}

func (k *countdown) stop() {
	k.mu.Lock()
	k.stopped = true
	t := k.timer
	k.mu.Unlock()
	if t != nil {
		t.Stop()
	}
	k.b.clock.remove(k)
}

// stepped is told that the wall clock was set, forward or back, and is now.
func (k *countdown) stepped(forward bool, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	up := time.Since(k.from)
	if !forward || k.stopped || k.since.IsZero() || k.known && up > syncing {
		return
	}
	off, ok := offFor(now.Sub(k.since) - up)
	if !ok {
		return
	}
	k.off, k.known = max(off, k.off), true
	k.timer.Reset(k.left())
}

// wallClock looks at the wall clock while something is counted.
type wallClock struct {
	mu    sync.Mutex // guards the rest
	all   map[*countdown]bool
	timer *timer.Timer
	wall  time.Time // at the last look
	mono  time.Time
	noted time.Time
}

func (w *wallClock) add(b *Behaviour, k *countdown) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = make(map[*countdown]bool)
	}
	w.all[k] = true
	if len(w.all) > 1 {
		return
	}
	w.wall, w.mono = b.wall(), time.Now()
	w.noted = w.mono
	look := func() { w.look(b) }
	if w.timer == nil {
		w.timer = b.host.Bus.Timers().After(clockLook, look)
	} else {
		w.timer.Reset(clockLook)
	}
}

func (w *wallClock) remove(k *countdown) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.all, k)
	if len(w.all) == 0 && w.timer != nil {
		w.timer.Stop()
	}
}

// look tells all countdowns of a step, and has what is left written down: after
// a step, for the records have the clock of before, and now and then, for a
// clock that is never set leaves nothing else to count from.
func (w *wallClock) look(b *Behaviour) {
	now, mono := b.wall(), time.Now()
	w.mu.Lock()
	step := now.Sub(w.wall) - mono.Sub(w.mono)
	w.wall, w.mono = now, mono
	stepped := step.Abs() > aStep
	note := stepped || mono.Sub(w.noted) >= noteEvery
	if note {
		w.noted = mono
	}
	var all []*countdown
	for k := range w.all {
		all = append(all, k)
	}
	if len(all) > 0 {
		w.timer.Reset(clockLook)
	}
	w.mu.Unlock()
	for _, k := range all {
		if stepped {
			k.stepped(step > 0, now)
		}
	}
	if note && len(all) > 0 {
		// The timers' goroutine waits for no disk.
		b.spawn(w.note)
	}
}

// note has all that is counted written down, for who goes on with it.
func (w *wallClock) note() {
	w.mu.Lock()
	all := maps.Clone(w.all)
	w.mu.Unlock()
	for k := range all {
		k.note(k.due())
	}
}

// noted reports what went wrong with a note.
func (b *Behaviour) noted(err error) { b.report(b.life, "script:"+b.folder, err, bus.Event{}) }
