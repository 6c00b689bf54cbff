package background

import (
	"errors"
	"slices"
	"time"
)

// A Past is what a supervisor has to know again when it is started in another
// process: the restarts that its window still counts, and that it gave up.
type Past struct {
	Restarts   []time.Duration // how long ago each was, oldest first
	GiveUps    int             // ever
	LastGiveUp time.Time       // by the wall clock
	GaveUp     string          // why, if it is down since
}

// A Memory keeps the past of one supervisor beyond the process. Both methods
// must not wait for a disk: a supervisor that waits restarts and stops nobody.
type Memory interface {
	// Recall is asked at the first start. A supervisor that gave up, and was not
	// started again since, is not started: its state is failed, and the error is
	// a [GaveUpError] with the time in Since. The next start is a new one.
	Recall() Past
	// Keep is called when the past has become another: after a restart, when it
	// gave up, and when it is started anew.
	Keep(Past)
}

// recall gives the past of before the process, at the first start; at a later
// one the window begins empty, and that is kept.
func (s *Supervisor) recall() (p Past) {
	m := s.opt.Memory
	if m == nil {
		return p
	}
	var first bool
	s.change(func() { first, s.recalled = !s.recalled, true })
	if first {
		p = m.Recall()
		s.change(func() { s.past = Past{GiveUps: p.GiveUps, LastGiveUp: p.LastGiveUp} })
		return p
	}
	s.change(func() { p = s.past })
	m.Keep(p)
	return p
}

// keep has the restarts of a life kept, and why it gave up if it did.
func (s *Supervisor) keep(l *life, now time.Time, gaveUp string) {
	var p Past
	s.change(func() {
		if gaveUp != "" {
			s.past.GiveUps++
			s.past.LastGiveUp = now.Round(0)
		}
		p = s.past
		for _, t := range l.window.times {
			p.Restarts = append(p.Restarts, now.Sub(t))
		}
	})
	p.GaveUp = gaveUp
	if s.opt.Memory != nil {
		s.opt.Memory.Keep(p)
	}
}

// restore takes up what an earlier process left. The caller holds mu.
func (l *life) restore(s *Supervisor, p Past) error {
	if p.GaveUp != "" {
		e := &GaveUpError{
			Name: s.name, MaxRestarts: l.window.max, Window: l.window.span,
			Since: p.LastGiveUp, Cause: errors.New(p.GaveUp),
		}
		l.state, l.reason = Failed, e
		close(l.done)
		return e
	}
	ages := slices.Clone(p.Restarts)
	if more := len(ages) - l.window.max; more > 0 {
		ages = ages[more:]
	}
	for _, age := range ages {
		l.window.times = append(l.window.times, l.since.Add(-age))
	}
	return nil
}

// downSince gives the error of a start that was none, since the supervisor gave
// up before.
func downSince(err error) *GaveUpError {
	if e := (*GaveUpError)(nil); errors.As(err, &e) && !e.Since.IsZero() {
		return e
	}
	return nil
}
