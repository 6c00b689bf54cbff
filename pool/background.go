package pool

import (
	"context"
	"errors"
	"fmt"

	"edged/background"
)

// StartBackground has an agent run by itself. The pool fills in the agent, its
// name and the bus; see [background.AgentOptions] for the rest. DependsOn
// names agents that must run in the background already. An agent that runs, or
// waits for its restart, is not started again; one that has stopped, exited or
// given up is, with a fresh window and an empty queue.
func (p *Pool) StartBackground(ctx context.Context, name string, o background.AgentOptions) error {
	fail := func(err error) error { return fmt.Errorf("pool: start %q: %w", name, err) }
	m, err := p.seize(name)
	if err != nil {
		return fail(err)
	}
	defer p.release(m)
	if m.declared && (m.background.Status().State.Alive() || !p.tree.State().Alive()) {
		return fail(ErrRunning)
	}
	o.Agent, o.Name, o.Bus = m.agent, name, p.o.Bus
	a, err := background.NewAgent(o)
	if err != nil {
		return err
	}
	if err := p.discard(ctx, name); err != nil {
		return fail(err)
	}
	err = p.tree.Add(ctx, background.Child{
		Name: name, Service: a.Tree(), Restart: background.Transient, DependsOn: a.DependsOn(),
	})
	if err != nil {
		return fail(err)
	}
	p.mu.Lock()
	m.background, m.declared = a, true
	p.mu.Unlock()
	return nil
}

// StopBackground stops an agent that runs in the background: its run is
// cancelled, its backlog dropped, and nothing of it is left when it returns.
func (p *Pool) StopBackground(ctx context.Context, name string) error {
	fail := func(err error) error { return fmt.Errorf("pool: stop %q: %w", name, err) }
	m, err := p.seize(name)
	if err != nil {
		return fail(err)
	}
	defer p.release(m)
	if !m.declared {
		return fail(ErrStopped)
	}
	if err := p.stop(ctx, name, m); err != nil {
		return fail(err)
	}
	return nil
}

// stop ends the background life of an agent that the caller has seized.
func (p *Pool) stop(ctx context.Context, name string, m *member) error {
	if err := m.background.Stop(ctx); err != nil {
		return err
	}
	if err := p.discard(ctx, name); err != nil {
		return err
	}
	p.mu.Lock()
	m.declared = false
	p.mu.Unlock()
	return nil
}

// StopAll stops every background agent, run and answer at the same time, and
// returns when nothing runs any more, or with ctx's error and the names of
// what still does. The agents stay registered.
func (p *Pool) StopAll(ctx context.Context) error {
	p.mu.Lock()
	w := p.works
	p.works = newWorks()
	var names []string
	for _, n := range p.order {
		if p.members[n].declared {
			names = append(names, n)
			p.members[n].background.Tree().Quit()
		}
	}
	p.mu.Unlock()
	w.stop()
	var errs []error
	for _, n := range names {
		if err := p.StopBackground(ctx, n); err != nil && !errors.Is(err, ErrStopped) && !errors.Is(err, ErrUnknown) {
			errs = append(errs, err)
		}
	}
	select {
	case <-w.idle:
	case <-ctx.Done():
		errs = append(errs, fmt.Errorf("runs ignore their context: %w", context.Cause(ctx)))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("pool: stop all: %w", err)
	}
	return nil
}

// Close stops everything, also the answering of requests. The pool is of no
// use afterwards.
func (p *Pool) Close(ctx context.Context) error {
	err := p.StopAll(ctx)
	for _, n := range p.Names() {
		p.forget(n)
	}
	if p.own {
		err = errors.Join(err, p.tree.Stop(ctx))
	}
	return err
}

// discard takes an agent that is down out of the tree.
func (p *Pool) discard(ctx context.Context, name string) error {
	err := p.tree.Remove(ctx, name)
	if errors.Is(err, background.ErrUnknown) {
		return nil
	}
	return err
}

// seize gives an agent to the one caller who starts or stops it.
func (p *Pool) seize(name string) (*member, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.members[name]
	switch {
	case m == nil:
		return nil, ErrUnknown
	case m.busy:
		return nil, errors.New("it is being started or stopped")
	}
	m.busy = true
	return m, nil
}

func (p *Pool) release(m *member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.busy = false
}
