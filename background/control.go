package background

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"edged/bus"
)

// A supervisor has at most one control goroutine, and none while nothing
// happens. It alone writes the state of the tree, under mu; so it may read it
// without. All of start.go, restart.go and stop.go runs on it.

// post leaves work to the control goroutine.
func (s *Supervisor) post(f func()) {
	s.mu.Lock()
	s.inbox = append(s.inbox, f)
	start := !s.busy
	s.busy = true
	s.mu.Unlock()
	if start {
		go s.control()
	}
}

func (s *Supervisor) control() {
	for {
		s.mu.Lock()
		if len(s.inbox) == 0 {
			s.inbox, s.busy = nil, false
			s.mu.Unlock()
			return
		}
		f := s.inbox[0]
		s.inbox = s.inbox[1:]
		s.mu.Unlock()
		f()
	}
}

// call has the control goroutine do something and waits for it, or for ctx.
func (s *Supervisor) call(ctx context.Context, f func() error) error {
	errc := make(chan error, 1)
	s.post(func() { errc <- f() })
	select {
	case err := <-errc:
		return err
	case <-ctx.Done():
		return fmt.Errorf("background: %s: %w", s.name, context.Cause(ctx))
	}
}

func (s *Supervisor) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *Supervisor) current() *life {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.life
}

// open begins a life; a supervisor has one at a time.
func (s *Supervisor) open(ctx context.Context, up *run) (*life, error) {
	s.mu.Lock()
	bad, runs := s.bad, s.life != nil && !s.life.over()
	s.mu.Unlock()
	running := fmt.Errorf("background: start %s: %w", s.name, ErrRunning)
	switch {
	case bad != nil:
		return nil, bad
	case runs:
		return nil, running
	}
	past := s.recall()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life != nil && !s.life.over() {
		return nil, running
	}
	l := &life{
		bus: s.opt.Bus, up: up, state: Starting, since: time.Now(),
		// The children's context must outlive ctx, since they are stopped one
		// after the other, and must not name a cause for all they ever do.
		ctx:    bus.WithCause(context.WithoutCancel(ctx), bus.Event{}),
		window: window{max: s.opt.MaxRestarts, span: s.opt.Window},
		quit:   make(chan struct{}), done: make(chan struct{}),
	}
	if up != nil && l.bus == nil {
		l.bus = up.l.bus
	}
	s.life = l
	return l, l.restore(s, past)
}

// startup has the children started and returns when they are.
func (s *Supervisor) startup(l *life) error {
	errc := make(chan error, 1)
	s.post(func() { errc <- s.startAll(l) })
	return <-errc
}

// quit tells a life to end. It doesn't wait.
func (s *Supervisor) quit(l *life) {
	s.mu.Lock()
	first := !l.quitting
	l.quitting = true
	s.mu.Unlock()
	if first {
		close(l.quit)
		s.post(func() { s.end(l, nil, "stop") })
	}
}

// begin makes a supervisor a child without a goroutine of its own.
func (s *Supervisor) begin(r *run) error {
	l, err := s.open(r.l.ctx, r)
	if err != nil {
		return err
	}
	errc := make(chan error, 1)
	s.post(func() { errc <- s.startAll(l) })
	select {
	case err = <-errc:
	case <-r.l.quit:
		s.quit(l)
		err = <-errc
	}
	return err
}

func (s *Supervisor) halt() { s.Quit() }

// over reports whether the tree is down. Only the control goroutine may ask
// without holding mu.
func (l *life) over() bool { return l.state == Stopped || l.state == Failed }

// active reports whether children may be started.
func (s *Supervisor) active() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.life != nil && s.life.state == Running && !s.life.quitting
}

// crashed publishes a crash with all that the error knows: backtrace, script, line.
func (s *Supervisor) crashed(l *life, c *child, err error) {
	m := map[string]any{}
	var f interface{ Fields() map[string]any }
	if errors.As(err, &f) {
		maps.Copy(m, f.Fields())
	}
	m["error"], m["restarts"] = err.Error(), int64(c.restarts)
	s.say(l, c.Name, "crash", m)
}

// say publishes something that happened to a child.
func (s *Supervisor) say(l *life, name, what string, payload map[string]any) {
	if l == nil || l.bus == nil {
		return
	}
	if s.name != name {
		payload["supervisor"] = s.name
	}
	ctx := bus.WithRun(l.ctx, runName(name))
	// A closed bus has nobody who could be told.
	_, _ = l.bus.Publish(ctx, runName(name), topicOf(name, what), payload)
}
