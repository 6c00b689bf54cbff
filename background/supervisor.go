package background

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"edged/bus"
)

// A Strategy says who is restarted along with a child that crashed.
type Strategy uint8

// The strategies of OTP.
const (
	OneForOne  Strategy = iota // only the child
	OneForAll                  // every child: all are stopped in reverse order, then started in order
	RestForOne                 // the child and those that were started after it
)

func (s Strategy) String() string {
	return [...]string{"one_for_one", "one_for_all", "rest_for_one"}[s]
}

// ParseStrategy reads a strategy by its name.
func ParseStrategy(s string) (Strategy, error) {
	for st := OneForOne; st <= RestForOne; st++ {
		if st.String() == s {
			return st, nil
		}
	}
	return 0, fmt.Errorf("background: strategy %q: it must be one_for_one, one_for_all or rest_for_one", s)
}

// AutoShutdown says when the end of significant children ends the supervisor,
// with an error that wraps [ErrShutdown].
type AutoShutdown uint8

// The kinds of automatic shutdown of OTP.
const (
	NoAutoShutdown AutoShutdown = iota
	AnySignificant              // when the first of them has ended by itself
	AllSignificant              // when the last of them has
)

// NoRestarts as MaxRestarts means that the first crash is one too many.
const NoRestarts = -1

// Options of a supervisor; the zero value works.
type Options struct {
	Strategy     Strategy
	MaxRestarts  int           // within Window: 5 if zero, none if negative
	Window       time.Duration // 60 s if zero
	AutoShutdown AutoShutdown
	// Bus is where starts, crashes, restarts and giving up are published as
	// edged/background/<name>/…; a supervisor inside another has that one's
	// if this is nil.
	Bus *bus.Bus
	// OnGiveUp is called when the supervisor gives up, before its children are
	// stopped. At the root of the tree it brings the robot into its safe state.
	OnGiveUp func(*GaveUpError)
	// Memory keeps the window and a give-up beyond the process; nil keeps them
	// in memory.
	Memory Memory
}

// A Supervisor starts children in order, restarts them by their policies, and
// stops them in reverse order, one after the other. It is a [Service] itself,
// so trees are made of it; it costs no goroutine while nothing happens. All
// methods may be called concurrently.
type Supervisor struct {
	name string
	opt  Options

	mu        sync.Mutex // guards everything below
	inbox     []func()   // for the control goroutine
	busy      bool       // there is a control goroutine
	bad       error      // what is wrong with the children given to NewSupervisor
	children  []*child   // in start order
	life      *life      // nil before the first start
	abandoned int
	recalled  bool
	past      Past // without Restarts and GaveUp, which are of the life
}

// life is one run of the tree, from start to end.
type life struct {
	ctx      context.Context // of the children; ends with them, not before
	bus      *bus.Bus
	window   window
	quit     chan struct{} // closed when it is told to stop
	quitting bool
	done     chan struct{} // closed when everything has been stopped
	state    State
	since    time.Time
	restarts int
	reason   error
	up       *run        // the incarnation in the supervisor above
	unwatch  func() bool // of the starter's context; nil in another tree
}

var _ Service = (*Supervisor)(nil)

// NewSupervisor makes a supervisor of children, in start order as far as their
// DependsOn allows. What is wrong with them is told by Start.
func NewSupervisor(name string, o Options, children ...Child) *Supervisor {
	switch {
	case o.MaxRestarts == 0:
		o.MaxRestarts = 5
	case o.MaxRestarts < 0:
		o.MaxRestarts = 0
	}
	if o.Window <= 0 {
		o.Window = time.Minute
	}
	s := &Supervisor{name: name, opt: o}
	for _, c := range children {
		if err := s.admit(c, false); err != nil && s.bad == nil {
			s.bad = err
		}
	}
	if s.bad == nil {
		s.bad = s.sort()
	}
	return s
}

// Name is the supervisor's name.
func (s *Supervisor) Name() string { return s.name }

// Check tells what is wrong with the children given to NewSupervisor, as Start
// would: names, policies, dependencies.
func (s *Supervisor) Check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bad
}

// Start starts the children in order and returns when all are started. If one
// fails, those before it are stopped in reverse order and Start returns a
// [StartError]. The tree is stopped when ctx ends or by Stop.
func (s *Supervisor) Start(ctx context.Context) error {
	if ctx.Err() != nil {
		return fmt.Errorf("background: start %s: %w", s.name, context.Cause(ctx))
	}
	l, err := s.open(ctx, nil)
	if err != nil {
		return err
	}
	s.change(func() { l.unwatch = context.AfterFunc(ctx, func() { s.quit(l) }) })
	return s.startup(l)
}

// Serve starts the tree and returns when it has been stopped: nil because ctx
// ended, a [GaveUpError], an automatic shutdown, or an error of the start.
func (s *Supervisor) Serve(ctx context.Context) error {
	if err := s.Start(ctx); err != nil {
		return err
	}
	return s.Wait()
}

// Wait returns when the tree is down, with the reason: nil if it was told to stop.
func (s *Supervisor) Wait() error {
	l := s.current()
	if l == nil {
		return nil
	}
	<-l.done
	return l.reason
}

// Stop stops the children, last one first, each within its shutdown time, and
// returns when that is over. If ctx ends before, it returns ctx's error and
// the stopping goes on. Stopping what isn't running is no error.
func (s *Supervisor) Stop(ctx context.Context) error {
	l := s.current()
	if l == nil {
		return nil
	}
	s.quit(l)
	select {
	case <-l.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("background: stop %s: %w", s.name, context.Cause(ctx))
	}
}

// Quit tells the tree to stop and doesn't wait for it.
func (s *Supervisor) Quit() {
	if l := s.current(); l != nil {
		s.quit(l)
	}
}

// Add takes in a child and, if the supervisor runs, starts it. A child that
// can't be started is not taken in.
func (s *Supervisor) Add(ctx context.Context, c Child) error {
	return s.call(ctx, func() error {
		if err := s.admit(c, true); err != nil {
			return err
		}
		if !s.active() {
			return nil
		}
		k := s.children[len(s.children)-1]
		if err := s.launch(s.current(), k); err != nil {
			s.expel(k)
			return &StartError{s.name, c.Name, err}
		}
		return nil
	})
}

// Remove stops a child and forgets it.
func (s *Supervisor) Remove(ctx context.Context, name string) error {
	return s.withChild(ctx, "remove", name, func(c *child) error {
		s.stopChild(c, "stop")
		s.expel(c)
		return nil
	})
}

// StopChild stops a child; it stays down until StartChild, or the next start
// of the tree. A temporary child is forgotten.
func (s *Supervisor) StopChild(ctx context.Context, name string) error {
	return s.withChild(ctx, "stop", name, func(c *child) error {
		s.change(func() { c.manual = true })
		s.stopChild(c, "stop")
		if c.Restart == Temporary {
			s.bury(c)
		}
		return nil
	})
}

// StartChild starts a child that is down, at once if it waits for its restart.
func (s *Supervisor) StartChild(ctx context.Context, name string) error {
	return s.withChild(ctx, "start", name, func(c *child) error {
		switch {
		case !s.active():
			return fmt.Errorf("background: start %s/%s: %w", s.name, name, ErrStopped)
		case c.run != nil:
			return fmt.Errorf("background: start %s/%s: %w", s.name, name, ErrRunning)
		}
		s.change(func() { c.leave(); c.manual, c.attempt = false, 0 })
		if err := s.launch(s.current(), c); err != nil {
			return &StartError{s.name, name, err}
		}
		return nil
	})
}

func (s *Supervisor) withChild(ctx context.Context, what, name string, f func(*child) error) error {
	return s.call(ctx, func() error {
		for _, c := range s.children {
			if c.Name == name && !c.gone {
				return f(c)
			}
		}
		return fmt.Errorf("background: %s %s/%s: %w", what, s.name, name, ErrUnknown)
	})
}

// admit checks a child and puts it at the end of the list.
func (s *Supervisor) admit(c Child, added bool) error {
	fail := func(format string, a ...any) error {
		return fmt.Errorf("background: %s: child %q: "+format, append([]any{s.name, c.Name}, a...)...)
	}
	if _, ok := c.Service.(*Supervisor); c.Restart == DefaultRestart && ok {
		c.Restart = Permanent
	} else if c.Restart == DefaultRestart {
		c.Restart = Transient
	}
	switch {
	case c.Service == nil:
		return fail("it has no service")
	case bus.ValidTopic(topicOf(c.Name, "")) != nil || c.Name == "":
		return fail("a name must not be empty or hold wildcards")
	case c.Significant && c.Restart == Permanent:
		return fail("a permanent child never ends, so it can't be significant")
	case c.Restart > Temporary:
		return fail("unknown restart policy %d", c.Restart)
	case slices.ContainsFunc(s.children, func(k *child) bool { return k.Name == c.Name && !k.forgotten() }):
		return fail("the name is taken")
	}
	if added {
		for _, d := range c.DependsOn {
			if !slices.ContainsFunc(s.children, func(k *child) bool { return k.Name == d && !k.gone }) {
				return fail("it depends on %q, which is not there", d)
			}
		}
	}
	s.change(func() {
		s.children = slices.DeleteFunc(s.children, func(k *child) bool { return k.forgotten() })
		s.children = append(s.children, &child{Child: c, state: Stopped, added: added})
	})
	return nil
}

// forgotten reports whether the child will never come back.
func (c *child) forgotten() bool { return c.gone && c.added }

// sort puts children behind what they depend on and else leaves their order.
func (s *Supervisor) sort() error {
	var out []*child
	placed := map[string]bool{}
	rest := slices.Clone(s.children)
	for len(rest) > 0 {
		i := slices.IndexFunc(rest, func(c *child) bool {
			return !slices.ContainsFunc(c.DependsOn, func(d string) bool { return !placed[d] })
		})
		if i < 0 {
			c := rest[0]
			return fmt.Errorf("background: %s: child %q depends on %q: one of them is not there, or they depend on each other", s.name, c.Name, c.DependsOn)
		}
		placed[rest[i].Name] = true
		out = append(out, rest[i])
		rest = slices.Delete(rest, i, i+1)
	}
	s.children = out
	return nil
}

// topicOf is the topic of something that happened to a child.
func topicOf(name, what string) string { return "edged/background/" + name + "/" + what }

// runName marks what a child does and what is said about it, so that an agent
// doesn't answer itself.
func runName(name string) string { return "background:" + name }
