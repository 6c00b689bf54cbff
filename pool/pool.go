// Package pool is the robot as its agents see it: agents by name and by
// capability, on one bus and one blackboard, under one supervision tree.
//
// Its one rule: a name means one agent. Registering or starting it twice is an
// error, never a replacement.
//
//	p, err := pool.New(pool.Options{Bus: b, Board: board})
//	err = p.Register(planner)
//	err = p.StartBackground(ctx, "planner", background.AgentOptions{SubscribeTo: []string{"goal/#"}})
//	r, err := p.Run(ctx, "planner", agent.Task{Input: "fetch the cup"})
//	err = p.StopAll(ctx)
package pool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"edged/agent"
	"edged/background"
	"edged/blackboard"
	"edged/bus"
)

// Errors that callers decide on.
var (
	ErrTaken   = errors.New("the name is taken")
	ErrUnknown = errors.New("no such agent")
	ErrRunning = errors.New("already runs in the background")
	ErrStopped = errors.New("does not run in the background")
	ErrNoBoard = errors.New("the pool has no blackboard")
)

// Board is what the pool needs of the blackboard for requests by capability.
type Board interface {
	Post(ctx context.Context, writer, key string, task any, o blackboard.PostOptions) (*bus.Future, error)
	Volunteer(key string, o blackboard.VolunteerOptions, h func(ctx context.Context, r *blackboard.Request) (any, error)) (*blackboard.Volunteer, error)
}

var _ Board = (*blackboard.Board)(nil)

// Capable is an agent that declares what it can do. It then answers requests
// for each of these words.
type Capable interface {
	Capabilities() []string
}

// Options of a pool. Bus is needed.
type Options struct {
	Bus   *bus.Bus
	Board Board // nil: no requests by capability
	// Tree is the supervisor that background agents become children of; they
	// start when it does. If nil the pool has a tree of its own.
	Tree *background.Supervisor
	// Lease is how long an agent may work on a request before it is offered
	// to others as well; 5 minutes.
	Lease time.Duration
}

// A Pool owns agents that share a bus and a blackboard. All methods may be
// called concurrently.
type Pool struct {
	o    Options
	tree *background.Supervisor
	own  bool // the tree is the pool's

	mu      sync.Mutex // guards everything below
	members map[string]*member
	order   []string
	works   *works
}

// member is a registered agent.
type member struct {
	agent        agent.Agent
	capabilities []string
	volunteers   []*blackboard.Volunteer
	background   *background.Agent // nil if it was never started
	declared     bool              // started and not stopped since
	busy         bool              // is being started or stopped
}

// New makes an empty pool.
func New(o Options) (*Pool, error) {
	if o.Bus == nil {
		return nil, errors.New("pool: it needs a bus")
	}
	if o.Lease <= 0 {
		o.Lease = 5 * time.Minute
	}
	p := &Pool{o: o, tree: o.Tree, members: map[string]*member{}, works: newWorks()}
	if p.tree == nil {
		p.tree, p.own = background.NewSupervisor("pool", background.Options{Bus: o.Bus}), true
		if err := p.tree.Start(context.Background()); err != nil {
			return nil, fmt.Errorf("pool: %w", err)
		}
	}
	return p, nil
}

// Register takes in an agent under its name. One that is [Capable] volunteers
// for requests from now on.
func (p *Pool) Register(a agent.Agent) error {
	name := a.Name()
	if name == "" {
		return errors.New("pool: register: an agent must have a name")
	}
	m := &member{agent: a}
	if c, ok := a.(Capable); ok {
		m.capabilities = slices.Clone(c.Capabilities())
	}
	p.mu.Lock()
	_, taken := p.members[name]
	if !taken {
		p.members[name] = m
		p.order = append(p.order, name)
	}
	p.mu.Unlock()
	if taken {
		return fmt.Errorf("pool: register %q: %w", name, ErrTaken)
	}
	if err := p.volunteer(m); err != nil {
		p.forget(name)
		return fmt.Errorf("pool: register %q: %w", name, err)
	}
	return nil
}

func (p *Pool) forget(name string) {
	p.mu.Lock()
	m := p.members[name]
	delete(p.members, name)
	p.order = slices.DeleteFunc(p.order, func(n string) bool { return n == name })
	p.mu.Unlock()
	if m != nil {
		m.resign()
	}
}

// Get finds an agent.
func (p *Pool) Get(name string) (agent.Agent, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.members[name]
	if m == nil {
		return nil, false
	}
	return m.agent, true
}

// Names lists the agents in the order they were registered.
func (p *Pool) Names() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.order)
}

// Run gives a task to an agent and waits for it. The result is complete
// whatever happens; the error is [ErrUnknown], or the crash of an agent that
// crashed. An outcome that is not done is no error.
func (p *Pool) Run(ctx context.Context, name string, t agent.Task) (agent.Result, error) {
	a, ok := p.Get(name)
	if !ok {
		return agent.Result{Status: agent.Failed, Reason: ErrUnknown.Error(), By: name}, fmt.Errorf("pool: run %q: %w", name, ErrUnknown)
	}
	r, err := p.perform(ctx, a, t)
	if err != nil {
		return r, fmt.Errorf("pool: run %q: %w", name, err)
	}
	return r, nil
}

// perform runs an agent as something that StopAll knows of.
func (p *Pool) perform(ctx context.Context, a agent.Agent, t agent.Task) (agent.Result, error) {
	p.mu.Lock()
	w := p.works
	w.add()
	p.mu.Unlock()
	defer w.done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(w.ctx, func() { cancel(context.Cause(w.ctx)) })()
	r, err := background.Perform(ctx, p.o.Bus, a, t)
	if errors.Is(err, agent.ErrExit) {
		return r, nil
	}
	return r, err
}
