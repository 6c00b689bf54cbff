package background

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"edged/bus"
)

// Everything in this file but post, open, quit, call and current runs on the
// control goroutine. There is at most one per supervisor, and none while
// nothing happens. It alone writes the state of the tree, under mu; so it may
// read it without.

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
	defer s.mu.Unlock()
	if s.bad != nil {
		return nil, s.bad
	}
	if s.life != nil && !s.life.over() {
		return nil, fmt.Errorf("background: start %s: %w", s.name, ErrRunning)
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
	return l, nil
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
		return err
	}
	s.change(func() { c.state = Running })
	s.say(l, c.Name, "start", map[string]any{"restarts": int64(c.restarts)})
	return nil
}

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
			cause = "crash"
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
	if !l.window.allow(now) {
		s.giveUp(l, c, err)
		return
	}
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
	s.change(func() { c.state = Failed })
	s.end(l, e, "gave_up")
}

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

func (s *Supervisor) crashed(l *life, c *child, err error) {
	m := map[string]any{"error": err.Error(), "restarts": int64(c.restarts)}
	if b := backtrace(err); b != "" {
		m["backtrace"] = b
	}
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
