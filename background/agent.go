package background

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"edged/agent"
	"edged/bus"
)

// OnCrash says what becomes of the task that an agent crashed on.
type OnCrash uint8

// The choices. Retry offers it again, at most 3 times, before anything else.
const (
	DropTask OnCrash = iota
	RetryTask
)

const maxTries = 3

// ParseOnCrash reads a choice by its name.
func ParseOnCrash(s string) (OnCrash, error) {
	switch s {
	case "drop":
		return DropTask, nil
	case "retry":
		return RetryTask, nil
	}
	return 0, fmt.Errorf("background: on_crash %q: it must be drop or retry", s)
}

// AgentOptions of a background agent; Agent and Bus are needed, and something
// to wake up for: SubscribeTo, Watch, or a trigger that fires by itself.
type AgentOptions struct {
	Name  string // the agent's own name if empty
	Agent agent.Agent
	Bus   *bus.Bus
	// SubscribeTo are topic filters, Watch are blackboard keys, or prefixes
	// that end in *. An event that several of them match is heard once.
	SubscribeTo, Watch []string
	Trigger            Trigger // Always if nil
	// SelfEvents lets the agent hear what its own runs have caused, directly
	// or through others, and what is said about it.
	SelfEvents bool

	MaxQueue int // tasks that wait; 32
	Overflow Overflow
	OnCrash  OnCrash

	Restart       Restart       // Transient if zero
	MaxRestarts   int           // within RestartWindow: 5 if zero, none if negative
	RestartWindow time.Duration // 60 s
	Backoff       time.Duration // 200 ms; negative for none
	MaxBackoff    time.Duration // 30 s
	DependsOn     []string      // agents of the same pool or tree that must be there
	Shutdown      time.Duration // 5 s

	Memory Memory // of the window and of giving up, if it runs alone; see [Options]

	KeepSession bool // all runs share one conversation; else each has its own
}

// An Agent runs an [agent.Agent] by itself when events say so. The trigger is
// asked before the queue, on the publisher's goroutine; runs come one at a
// time. An idle one costs neither goroutine nor timer. All methods may be
// called concurrently.
//
// It is used in one of two ways: alone (Start and Stop, or Tree inside a
// larger tree), with a restart window of its own; or as a [Child] of a
// supervisor whose strategy and window then rule.
type Agent struct {
	o    AgentOptions
	name string
	tree *Supervisor
	// watch is AgentOptions.Watch as it is written in topics.
	watch []string

	mu      sync.Mutex // guards everything below
	at      *run       // the incarnation, nil while down
	last    *run       // at, or the one before
	ears    *ears      // nil while not listening
	leaving bool       // the incarnation ends as soon as the worker sees it
	exit    error      // with this
	exits   bool       // the trigger said exit while the agent was down
	working bool       // there is a worker goroutine
	cancel  context.CancelFunc
	queue   queue
	log     runLog
}

var _ Service = (*Agent)(nil)

// NewAgent makes a background agent; it does nothing until it is started.
func NewAgent(o AgentOptions) (*Agent, error) {
	if o.Agent == nil || o.Bus == nil {
		return nil, errors.New("background: agent: it needs an agent and a bus")
	}
	if o.Name == "" {
		o.Name = o.Agent.Name()
	}
	fail := func(err error) (*Agent, error) { return nil, fmt.Errorf("background: agent %q: %w", o.Name, err) }
	for _, f := range o.SubscribeTo {
		if err := bus.ValidFilter(f); err != nil {
			return fail(err)
		}
	}
	for _, w := range o.Watch {
		if err := bus.ValidFilter(watchFilter(w)); err != nil || w == "" {
			return fail(fmt.Errorf("watch %q: it must be a key, a prefix ending in *, or *", w))
		}
	}
	if len(o.SubscribeTo)+len(o.Watch) == 0 && o.Trigger == nil {
		return fail(errors.New("nothing can wake it: it has no subscribe_to, watch or trigger"))
	}
	if o.Trigger == nil {
		o.Trigger = Always()
	}
	if o.MaxQueue <= 0 {
		o.MaxQueue = 32
	}
	if o.Restart == DefaultRestart {
		o.Restart = Transient
	}
	if o.Backoff == 0 {
		o.Backoff = 200 * time.Millisecond
	}
	if o.MaxBackoff <= 0 {
		o.MaxBackoff = 30 * time.Second
	}
	a := &Agent{o: o, name: o.Name, queue: queue{limit: o.MaxQueue, overflow: o.Overflow}}
	for _, w := range o.Watch {
		a.watch = append(a.watch, boardLevel(w))
	}
	alone := a.Child()
	alone.DependsOn = nil
	alone.Significant = o.Restart != Permanent
	a.tree = NewSupervisor(a.name, Options{
		MaxRestarts: o.MaxRestarts, Window: o.RestartWindow, AutoShutdown: AnySignificant, Bus: o.Bus, Memory: o.Memory,
	}, alone)
	if err := a.tree.bad; err != nil {
		return nil, err
	}
	return a, nil
}

// Name is the agent's name; it is part of its topics.
func (a *Agent) Name() string { return a.name }

// DependsOn names the agents that must be there before this one.
func (a *Agent) DependsOn() []string { return slices.Clone(a.o.DependsOn) }

// Child makes the agent a child of a supervisor that is not its own.
func (a *Agent) Child() Child {
	return Child{
		Name: a.name, Service: a, Restart: a.o.Restart, Shutdown: a.o.Shutdown,
		Backoff: a.o.Backoff, MaxBackoff: a.o.MaxBackoff, DependsOn: a.o.DependsOn,
	}
}

// Tree is the agent's own supervisor, the tree with one child that Start
// starts. As a child of another supervisor, make it [Transient]: an agent that
// gave up stays down.
func (a *Agent) Tree() *Supervisor { return a.tree }

// Start starts the agent alone: it hears everything from now on, until ctx
// ends, Stop, a clean exit, or too many crashes. A second start is [ErrRunning].
func (a *Agent) Start(ctx context.Context) error { return a.tree.Start(ctx) }

// Stop cancels the run in progress, drops the backlog, and returns when no
// goroutine of the agent is left, or with ctx's error. A run that ignores its
// context longer than the shutdown time is abandoned. Stop undoes Start, it
// does not take the agent out of another tree. A run that stops its own agent
// must do it with its own context, else it waits for itself.
func (a *Agent) Stop(ctx context.Context) error { return a.tree.Stop(ctx) }

// Serve runs the agent until ctx ends or it has exited or crashed: once,
// without restarts. Supervisors have a cheaper way.
func (a *Agent) Serve(ctx context.Context) error {
	s := NewSupervisor(a.name, Options{MaxRestarts: NoRestarts, AutoShutdown: AnySignificant, Bus: a.o.Bus},
		Child{Name: a.name, Service: a, Restart: Transient, Significant: true, Shutdown: a.o.Shutdown})
	err := s.Serve(ctx)
	if e := (*GaveUpError)(nil); errors.As(err, &e) {
		return e.Cause
	}
	return nil
}

// begin is a start, or a restart after a crash: then the agent has listened
// all the time and its queue is kept.
func (a *Agent) begin(r *run) error {
	a.mu.Lock()
	if a.at != nil {
		a.mu.Unlock()
		return ErrRunning
	}
	a.at, a.last, a.leaving = r, r, false
	e := a.ears
	a.mu.Unlock()
	if e == nil {
		var err error
		if e, err = a.listen(r.l.ctx); err != nil {
			a.mu.Lock()
			a.at = nil
			a.mu.Unlock()
			return err
		}
	}
	a.mu.Lock()
	a.ears = e
	e.deaf.Store(false)
	exits := a.exits
	a.exits = false
	a.wake()
	a.mu.Unlock()
	if exits {
		a.leave(agent.ErrExit)
	}
	return nil
}

// halt ends the incarnation: no more events, no backlog, no run.
func (a *Agent) halt() {
	a.mu.Lock()
	r := a.at
	if r == nil {
		a.mu.Unlock()
		return
	}
	a.leaving = true
	if a.cancel != nil {
		a.cancel()
	}
	a.mu.Unlock()
	a.release("stop")
	a.mu.Lock()
	idle := a.at == r && !a.working
	if idle {
		a.at, a.leaving = nil, false
	}
	a.mu.Unlock()
	if idle {
		r.finish(nil)
	}
}

// release ends the listening and drops the backlog. Whatever the trigger still
// emits is ignored.
func (a *Agent) release(cause string) {
	a.mu.Lock()
	e := a.ears
	a.ears, a.exits = nil, false
	n := a.queue.clear()
	a.count(cause, n)
	a.mu.Unlock()
	if e != nil {
		e.close()
	}
	if n > 0 {
		a.sayDrops(cause)
	}
}

// leave ends the incarnation from inside: a crash or a clean exit of the
// trigger. A crash ends the run in progress too, as the death of a process
// would; an exit lets it finish.
func (a *Agent) leave(err error) {
	exit := clean(err)
	dropped := 0
	a.mu.Lock()
	if exit {
		dropped = a.queue.clear()
		a.count("exit", dropped)
		if a.ears != nil {
			a.ears.deaf.Store(true)
		}
	}
	r := a.at
	switch {
	case r == nil && exit:
		a.exits = true
	case r == nil:
		a.count("trigger", 1)
	}
	if r == nil || a.leaving {
		a.mu.Unlock()
		return
	}
	a.leaving, a.exit = true, err
	if !exit && a.cancel != nil {
		a.cancel()
	}
	idle := !a.working
	if idle {
		a.at, a.leaving, a.exit = nil, false, nil
	}
	a.mu.Unlock()
	if dropped > 0 {
		a.sayDrops("exit")
	}
	if idle {
		r.finish(err)
	}
}

// watchFilter is the topic filter of a blackboard pattern.
func watchFilter(pattern string) string {
	if strings.HasSuffix(pattern, "*") {
		return "board/#"
	}
	return "board/" + boardLevel(pattern)
}

// boardLevel writes a key as the blackboard does in its topics: what MQTT does
// not allow in a name is written as in a URL.
func boardLevel(key string) string {
	return strings.NewReplacer("%", "%25", "+", "%2B", "#", "%23", "\x00", "%00").Replace(key)
}
