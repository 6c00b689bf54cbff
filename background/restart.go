package background

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// This file runs on the control goroutine, see control.go.

// exited deals with the end of an incarnation.
func (s *Supervisor) exited(r *run) {
	c, l := r.c, r.l
	if c.old == r {
		s.change(func() { c.old = nil })
	}
	if c.run != r || l != s.current() {
		return // it was stopped, or it never got to run
	}
	err := r.err
	ok := clean(err)
	var gaveUp *GaveUpError
	s.change(func() {
		c.run, c.state = nil, Stopped
		if !ok || errors.As(err, &gaveUp) {
			c.state, c.lastErr = Failed, err
		}
	})
	if !ok {
		s.crashed(l, c, err)
	}
	switch {
	case !s.active():
		s.retire(c, "stop")
	case c.Restart == Permanent, c.Restart == Transient && !ok:
		s.again(l, c, err)
	default:
		cause := "exit"
		if !ok {
			cause = "gave_up"
		}
		s.retire(c, cause)
		if c.Restart == Temporary {
			s.bury(c)
		}
		if c.Significant && s.lastSignificant() {
			reason := fmt.Errorf("background: %s: %w: significant child %s ended", s.name, ErrShutdown, c.Name)
			s.end(l, reason, cause)
		}
	}
}

func (s *Supervisor) lastSignificant() bool {
	switch s.opt.AutoShutdown {
	case AnySignificant:
		return true
	case AllSignificant:
		return !slices.ContainsFunc(s.children, func(c *child) bool { return c.Significant && (c.run != nil || c.pending != nil) })
	}
	return false
}

// again restarts a child, and whom the strategy adds, or gives up.
func (s *Supervisor) again(l *life, c *child, err error) {
	now := time.Now()
	var allowed bool
	s.change(func() { allowed = l.window.allow(now) }) // Status counts what is left
	if !allowed {
		s.giveUp(l, c, err)
		return
	}
	s.keep(l, now, "")
	if now.Sub(c.began) >= l.window.span {
		c.attempt = 0
	}
	delay := backoff(c.Backoff, c.MaxBackoff, c.attempt)
	at := slices.Index(s.children, c)
	var set []*child
	switch s.opt.Strategy {
	case OneForOne:
		set = []*child{c}
	case OneForAll:
		set = slices.Clone(s.children)
	case RestForOne:
		set = slices.Clone(s.children[at:])
	}
	for _, m := range slices.Backward(set) {
		if m != c {
			s.stopChild(m, "stop")
			if m.Restart == Temporary {
				s.bury(m)
			}
		}
	}
	set = slices.DeleteFunc(set, func(m *child) bool { return !m.wanted() })
	g := &group{members: set, at: now.Add(delay)}
	s.change(func() {
		c.attempt++
		c.restarts++
		l.restarts++
		for _, m := range set {
			m.leave()
			m.pending, m.state = g, BackingOff
		}
	})
	s.say(l, c.Name, "restart", map[string]any{"restarts": int64(c.restarts), "delay": delay.Seconds(), "strategy": s.opt.Strategy.String()})
	if delay == 0 {
		s.post(func() { s.startGroup(l, g) })
		return
	}
	s.change(func() { g.timer = time.AfterFunc(delay, func() { s.post(func() { s.startGroup(l, g) }) }) })
}

// startGroup starts what is left of a group. A start that fails counts as a
// crash of that child.
func (s *Supervisor) startGroup(l *life, g *group) {
	for len(g.members) > 0 && !l.over() && s.active() {
		c := g.members[0]
		s.change(c.leave)
		if err := s.launch(l, c); err != nil && s.active() {
			s.crashed(l, c, err)
			s.again(l, c, err)
			return
		}
	}
}

// giveUp ends the tree because of one crash too many.
func (s *Supervisor) giveUp(l *life, c *child, err error) {
	e := &GaveUpError{Name: s.name, Child: c.Name, MaxRestarts: l.window.max, Window: l.window.span, Cause: err}
	if err == nil {
		e.Cause = errors.New("it ended")
	}
	s.say(l, s.name, "gave_up", map[string]any{"error": e.Error(), "child": c.Name, "restarts": int64(l.restarts), "backtrace": backtrace(err)})
	if s.opt.OnGiveUp != nil {
		s.opt.OnGiveUp(e)
	}
	s.keep(l, time.Now(), e.Cause.Error())
	s.change(func() { c.state = Failed })
	s.end(l, e, "gave_up")
}
