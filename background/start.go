package background

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// This file runs on the control goroutine, see control.go.

// startAll starts the children in order, all or none.
func (s *Supervisor) startAll(l *life) error {
	if l.over() {
		return fmt.Errorf("background: start %s: %w", s.name, ErrStopped)
	}
	s.change(func() {
		s.children = slices.DeleteFunc(s.children, func(c *child) bool { return c.forgotten() })
		for _, c := range s.children {
			*c = child{Child: c.Child, state: Stopped, added: c.added, old: c.old}
		}
	})
	for _, c := range s.children {
		if err := s.launch(l, c); err != nil {
			l.up = nil // the supervisor above learns it from begin
			failed := &StartError{s.name, c.Name, err}
			s.end(l, failed, "stop")
			return failed
		}
	}
	s.change(func() { l.state = Running })
	return nil
}

// launch starts one child and returns when it is started.
func (s *Supervisor) launch(l *life, c *child) error {
	if c.old != nil {
		select {
		case <-c.old.done:
			s.change(func() { c.old = nil })
		default:
			s.change(func() { c.state, c.lastErr = Failed, errLingers })
			return errLingers
		}
	}
	select {
	case <-l.quit:
		return ErrStopped
	default:
	}
	r := &run{s: s, l: l, c: c, done: make(chan struct{})}
	s.change(func() { c.state, c.gone, c.began, c.run = Starting, false, time.Now(), r })
	if err := r.start(); err != nil {
		if errors.Is(err, ErrStopped) && r.ready != nil {
			s.stopChild(c, "stop")
			return err
		}
		s.change(func() { c.state, c.run, c.lastErr = Failed, nil, err })
		if e := downSince(err); e != nil { // for others it is there and gave up, as in the process before
			s.say(l, c.Name, "gave_up", map[string]any{"error": e.Error(), "since": e.Since.Format(time.RFC3339)})
			return nil
		}
		return err
	}
	s.change(func() { c.state = Running })
	s.say(l, c.Name, "start", map[string]any{"restarts": int64(c.restarts)})
	return nil
}
