package background

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// This file runs on the control goroutine, see control.go.

// end stops everything and closes the life. cause is what the queues of agents
// count their backlog under.
func (s *Supervisor) end(l *life, reason error, cause string) {
	if l.over() {
		return
	}
	s.change(func() { l.state = Stopping })
	for _, c := range slices.Backward(slices.Clone(s.children)) {
		failed := c.state == Failed
		s.stopChild(c, cause)
		if failed {
			s.change(func() { c.state = Failed })
		}
	}
	s.change(func() {
		if l.unwatch != nil {
			l.unwatch()
		}
		l.state, l.reason = Stopped, reason
		if reason != nil && (!clean(reason) || isGaveUp(reason)) {
			l.state = Failed
		}
	})
	close(l.done)
	if l.up != nil {
		l.up.finish(reason)
	}
}

func isGaveUp(err error) bool {
	var e *GaveUpError
	return errors.As(err, &e)
}

// stopChild stops a child and returns when it is down, or abandoned.
func (s *Supervisor) stopChild(c *child, cause string) {
	s.change(c.leave)
	r := c.run
	if r == nil {
		s.change(func() { c.state = Stopped })
		s.retire(c, cause)
		return
	}
	s.change(func() { c.state = Stopping })
	if r.cancel != nil {
		r.cancel()
	}
	patience := time.NewTimer(c.shutdown())
	defer patience.Stop()
	select {
	case <-r.done:
		s.change(func() { c.run, c.state = nil, Stopped })
	case <-patience.C:
		s.abandon(c, r)
	}
	s.retire(c, cause)
}

func (s *Supervisor) abandon(c *child, r *run) {
	s.change(func() {
		c.run, c.old, c.state = nil, r, Stopped
		s.abandoned++
	})
	if v, ok := c.Service.(Revoker); ok {
		v.Revoke()
	}
	err := fmt.Errorf("background: stop %s/%s: it ignored its context for %v and was abandoned", s.name, c.Name, c.shutdown())
	s.change(func() { c.lastErr = err })
	s.say(r.l, c.Name, "abandoned", map[string]any{"error": err.Error()})
}

// retire tells a child's service that it is not started again by itself.
func (s *Supervisor) retire(c *child, cause string) {
	if rel, ok := c.Service.(releaser); ok {
		rel.release(cause)
	}
}

// bury takes a temporary child that has ended off the list.
func (s *Supervisor) bury(c *child) {
	s.change(func() { c.gone = true })
	if c.added {
		s.expel(c)
	}
}

func (s *Supervisor) expel(c *child) {
	s.change(func() {
		s.children = slices.DeleteFunc(slices.Clone(s.children), func(k *child) bool { return k == c })
	})
}
