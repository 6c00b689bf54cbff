package workflow

import (
	"context"
	"fmt"

	"edged/agent"
)

// A Condition is a leaf that is done if something is so, and failed if not. In
// a reactive node it is asked again when something changes that it read.
type Condition struct{ g Guard }

var _ agent.Agent = (*Condition)(nil)

// NewCondition makes a condition; the rules of [Guard] hold for check.
func NewCondition(name string, check func(ctx context.Context) (bool, error)) *Condition {
	return &Condition{Guard{name, check}}
}

// Name is the condition's name.
func (c *Condition) Name() string { return c.g.Name }

// Run asks the condition.
func (c *Condition) Run(ctx context.Context, _ agent.Task) (agent.Result, error) {
	ok, err := c.g.Check(ctx)
	if err == nil && !ok {
		err = isFalse(&c.g)
	}
	return agent.Result{}, err
}

func isFalse(g *Guard) error    { return fmt.Errorf("%w: %s is false", agent.ErrFailed, g.Name) }
func guardFalse(g *Guard) error { return &GuardError{g.Name, g} }

// conditionOf gives what a child's being done, or its turn, depends on, and
// the error it ends with where that is false.
func conditionOf(a agent.Agent) (*Guard, func(*Guard) error) {
	for a != nil {
		if c, ok := a.(*Condition); ok {
			return &c.g, isFalse
		}
		w, ok := a.(Wrapper)
		if !ok {
			break
		}
		a = w.Unwrap()
	}
	if n := nodeOf(a); n != nil && n.opt.Guard != nil {
		return n.opt.Guard, guardFalse
	}
	return nil, nil
}

// A Step is any agent with the options of a node.
type Step struct{ node }

var _ agent.Agent = (*Step)(nil)

// NewStep gives an agent a guard, an effect, a function for when it is halted.
// It keeps its name.
func NewStep(a agent.Agent, o Options) *Step {
	return &Step{node{name: a.Name(), kind: "step", opt: o, children: []agent.Agent{a}}}
}

// Run runs the agent.
func (s *Step) Run(ctx context.Context, t agent.Task) (agent.Result, error) { return run(ctx, s, t) }

func (s *Step) body(ctx context.Context, f *frame, t agent.Task) (agent.Result, error) {
	// In a durable run the step and its agent are one.
	cf := &frame{Context: ctx, up: f, run: f.run, agent: s.children[0]}
	return cf.do(s.children[0], t)
}
