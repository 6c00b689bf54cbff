package lib

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"edged/agent"
	"edged/bus"
	"edged/bus/origin"
	"edged/workflow"
)

// flows are the workflows of a behaviour.
type flows struct {
	rt workflow.Runtime

	mu      sync.Mutex // guards the rest
	made    []*flow    // at top level, in order
	nested  map[*flow]bool
	durable map[string]*flow // that can be resumed, by name
	live    *workflow.Live
}

func (s *flows) init(h *Host) {
	s.nested, s.durable = make(map[*flow]bool), make(map[string]*flow)
	if s.live = h.Live; s.live == nil {
		s.live = workflow.NewLive()
	}
	on := workflow.OnBus(h.Bus)
	s.rt = workflow.Runtime{Trace: workflow.Traces(on, s.live), Watcher: on, Runs: h.Runs}
	if s.rt.Runs == nil {
		s.rt.Runs = workflow.NewRuns(h.Board.Records("runs"), workflow.RunsOptions{})
	}
}

// add notes a node; those that are made while the robot runs are not kept, but
// for durable ones, which must be found again.
func (s *flows) add(f *flow, loading bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if loading {
		f.kept = true
		s.made = append(s.made, f)
	}
	if !f.durable {
		return nil
	}
	if other := s.durable[f.Name()]; other != nil && other.at != f.at && (other.kept || !strings.HasPrefix(f.at.File, "prompt[")) {
		return fmt.Errorf("the name %q is taken by the workflow with a checkpoint at %v: runs are resumed by name", f.Name(), other.at)
	}
	s.durable[f.Name()] = f
	return nil
}

// nest notes that a node stands in another one.
func (s *flows) nest(f *flow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.kept {
		s.nested[f] = true
	}
}

// declared lists all nodes that are made at top level.
func (s *flows) declared() []*flow {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*flow(nil), s.made...)
}

func (s *flows) trees() (list []*flow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.made {
		if !s.nested[f] {
			list = append(list, f)
		}
	}
	return list
}

// Workflows gives the trees that the folder's scripts declare, with the state
// of the latest run of each: for the page, edged graph and edged why.
func (b *Behaviour) Workflows() []workflow.Outline {
	list := []workflow.Outline{}
	for _, f := range b.flows.trees() {
		list = append(list, b.flows.live.Outline(f))
	}
	return list
}

// Runs are the durable runs of workflows, also of those that no script declares
// any more.
func (b *Behaviour) Runs() *workflow.Runs { return b.flows.rt.Runs }

// ResumeRun goes on with a durable run that was interrupted, and returns at
// once; ended is closed when the run has ended, or waits again.
func (b *Behaviour) ResumeRun(id string) (ended <-chan struct{}, err error) {
	info, err := b.Runs().Get(id)
	if err != nil {
		return nil, err
	}
	switch {
	case info.State == workflow.StateRunning:
		return nil, fmt.Errorf("%w: %s", workflow.ErrLive, id)
	case !info.Ended.IsZero():
		return nil, fmt.Errorf("%w: %s: %s", workflow.ErrOver, id, info.State)
	}
	b.flows.mu.Lock()
	f := b.flows.durable[info.Workflow]
	b.flows.mu.Unlock()
	if f == nil {
		return nil, &stuckError{id, fmt.Sprintf("no script has a workflow or graph %s with a checkpoint any more", info.Workflow), nil}
	}
	if err := b.Runs().Resumable(id, f.node); errors.Is(err, workflow.ErrChanged) {
		return nil, &stuckError{id, info.Workflow + " has changed since the run began", err}
	} else if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	if !b.spawn(func() { defer close(done); b.resumeRun(f, id) }) {
		return nil, errors.New("the behaviour is ending")
	}
	return done, nil
}

// A stuckError says that the scripts have nothing any more that a run could go
// on with.
type stuckError struct {
	run, why string
	err      error // may be nil
}

func (e *stuckError) Error() string { return "run " + e.run + ": " + e.reason() }
func (e *stuckError) Unwrap() error { return e.err }

// reason says what to do, too: it is all that is known of the run where no
// script is loaded.
func (e *stuckError) reason() string {
	return e.why + ": put it back as it was, or end the run: edged runs cancel " + e.run
}

func (b *Behaviour) resumeRun(f *flow, id string) {
	ctx, over := b.turn(workflow.WithRuntime(b.life, b.flows.rt))
	defer over()
	r, err := followed(func(ctx context.Context) (agent.Result, error) { return b.Runs().Resume(ctx, id, f.node) })(ctx)
	if err != nil && (r.RunID == "" || r.Status == agent.Failed) {
		b.report(b.life, "workflow:"+f.Name(), err, bus.Event{})
	}
	if info, err := b.Runs().Get(id); f.resumed == nil || err != nil || info.Ended.IsZero() {
		return // it waits, or can be resumed once more
	}
	ctx = b.anew(ctx, "workflow:"+f.Name(), origin.Merge(r.Origin, f.made))
	_, err = b.do(b.nodeRun(ctx, f.Name(), workflow.View{}), f.resumed, performed(r, nil))
	b.report(b.life, "workflow:"+f.Name(), err, bus.Event{})
}

// resumeRuns goes on with what the end of a process, or of a version of the
// scripts, has interrupted. Runs that wait for an answer ask again. Those that
// wait for a decision go on waiting, and so do those that a stop of the robot
// ended: what somebody stopped does not move again by itself. Why another one
// does not go on is noted in its record.
func (b *Behaviour) resumeRuns() {
	for _, r := range b.Runs().List() {
		waits := r.State == workflow.StateWaiting && b.host.Ask != nil // it can be asked again
		if r.State != workflow.StateInterrupted && !waits || r.Reason == RobotStopped {
			continue
		}
		_, err := b.ResumeRun(r.ID)
		var stuck *stuckError
		if errors.As(err, &stuck) {
			err = errors.Join(err, b.Runs().Hinder(b.life, r.ID, stuck.reason()))
		}
		if err != nil {
			b.report(b.life, "workflow:"+r.Workflow, err, bus.Event{})
		}
	}
}
