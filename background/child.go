package background

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"edged/agent"
)

// Restart says when a child that has ended is started again.
type Restart uint8

// The restart policies of OTP. The zero value is Permanent for a supervisor
// and Transient for anything else.
const (
	DefaultRestart Restart = iota
	Permanent              // always
	Transient              // after a crash
	Temporary              // never; it leaves the tree when it ends
)

func (r Restart) String() string {
	return [...]string{"default", "permanent", "transient", "temporary"}[r]
}

// ParseRestart reads a policy by its name.
func ParseRestart(s string) (Restart, error) {
	for r := Permanent; r <= Temporary; r++ {
		if r.String() == s {
			return r, nil
		}
	}
	return 0, fmt.Errorf("background: restart %q: it must be permanent, transient or temporary", s)
}

// A Child is what a supervisor starts and how it deals with it.
type Child struct {
	Name    string // unique in its supervisor; part of a topic
	Service Service
	Restart Restart
	// Shutdown is how long the child may take to stop before it is abandoned:
	// 5 s if zero. A supervisor takes as long as its children may.
	Shutdown time.Duration
	// Significant children can end their supervisor, see [AutoShutdown].
	Significant bool
	// Backoff is the wait before a restart, doubled each time up to MaxBackoff
	// (no limit if zero), shortened at random by up to a fifth. A run as long
	// as the supervisor's window makes it start over.
	Backoff, MaxBackoff time.Duration
	// DependsOn names children of the same supervisor that are started before
	// this one and stopped after it.
	DependsOn []string
}

const defaultShutdown = 5 * time.Second

// resident is a service that needs no goroutine while nothing happens: begin
// returns as soon as it is started, and r.finish is called exactly once when
// it has ended and no goroutine of it is left. It may be called before begin
// returns nil, never when begin returns an error.
type resident interface {
	begin(r *run) error
	halt() // end soon; must not block
}

// releaser is told when its child will not be started again by itself.
type releaser interface{ release(cause string) }

// child is a Child in its supervisor. Only the control goroutine writes it,
// with Supervisor.mu held.
type child struct {
	Child
	state    State
	run      *run // the incarnation that runs, nil when down
	old      *run // one that was abandoned and is still there
	pending  *group
	manual   bool // stopped by hand: no group restart brings it back
	gone     bool // a temporary child that has ended
	added    bool // by Add: gone for good when it ends as temporary
	attempt  int  // restarts without a long run in between
	restarts int
	began    time.Time
	lastErr  error
}

func (c *child) shutdown() time.Duration {
	switch _, ok := c.Service.(*Supervisor); {
	case ok:
		return 1<<63 - 1
	case c.Shutdown <= 0:
		return defaultShutdown
	}
	return c.Shutdown
}

// wanted reports whether a group restart starts the child again.
func (c *child) wanted() bool { return !c.manual && !c.gone && c.Restart != Temporary }

// run is one incarnation of a child.
type run struct {
	s      *Supervisor
	l      *life
	c      *child
	cancel context.CancelFunc
	ready  chan struct{} // closed when it is started; nil for a resident
	done   chan struct{} // closed when it has ended
	err    error         // before done is closed
}

// start begins an incarnation and returns when it is started or has failed.
func (r *run) start() error {
	if res, ok := r.c.Service.(resident); ok {
		r.cancel = res.halt
		return r.begin(res)
	}
	ctx, cancel := context.WithCancel(r.l.ctx)
	r.cancel, r.ready = cancel, make(chan struct{})
	go r.serve(ctx, r.c.Service)
	select {
	case <-r.ready:
		return nil
	case <-r.done:
	case <-r.l.quit:
		return ErrStopped
	}
	select {
	case <-r.ready: // started and ended at once: the exit is on its way
		return nil
	default:
		return r.err
	}
}

func (r *run) begin(res resident) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &agent.Panic{Value: p, Stack: debug.Stack()}
		}
	}()
	return res.begin(r)
}

func (r *run) serve(ctx context.Context, svc Service) {
	err := ErrGoexit
	defer func() {
		if p := recover(); p != nil {
			err = &agent.Panic{Value: p, Stack: debug.Stack()}
		}
		r.cancel()
		r.finish(err)
	}()
	if st, ok := svc.(Starter); ok {
		if e := st.Start(ctx); e != nil {
			err = e
			return
		}
		if ctx.Err() != nil { // told to stop before it was started
			err = ctx.Err()
			return
		}
	}
	close(r.ready)
	err = svc.Serve(ctx)
}

// finish says that nothing of the incarnation is left.
func (r *run) finish(err error) {
	r.err = err
	close(r.done)
	r.s.post(func() { r.s.exited(r) })
}

// group is a set of children that are started together, in order, at one time.
type group struct {
	members []*child
	at      time.Time
	timer   *time.Timer
}

// leave takes a child out of its group.
func (c *child) leave() {
	g := c.pending
	if g == nil {
		return
	}
	c.pending = nil
	g.members = slices.DeleteFunc(g.members, func(m *child) bool { return m == c })
	if len(g.members) == 0 && g.timer != nil {
		g.timer.Stop()
	}
}
