package workflow

import (
	"context"
	"fmt"
	"slices"

	"edged/agent"
)

// A Route is a child with a name of its own in its node.
type Route struct {
	Name  string
	Doc   string // what it is for, for models
	Agent agent.Agent
}

// DefaultRoute is the label of a node's default child in outlines.
const DefaultRoute = "default"

// SwitchOptions of a [Switch].
type SwitchOptions struct {
	Options
	// Value is what the cases are compared with: a key of the blackboard or a
	// function of the author's.
	Value   func(ctx context.Context, v View) (string, error)
	Default agent.Agent // where no case fits; nil is failed
}

// A Switch runs the one child whose case is the value; Winner names the case.
type Switch struct {
	node
	opt   SwitchOptions
	cases []Route
}

var _ agent.Agent = (*Switch)(nil)

// NewSwitch makes a switch of the cases.
func NewSwitch(name string, o SwitchOptions, cases ...Route) *Switch {
	n := node{name: name, kind: "switch", opt: o.Options}
	n.children, n.labels = branches(cases, o.Default)
	return &Switch{n, o, cases}
}

func branches(routes []Route, other agent.Agent) (children []agent.Agent, labels []string) {
	for _, r := range routes {
		children, labels = append(children, r.Agent), append(labels, r.Name)
	}
	if other != nil {
		children, labels = append(children, other), append(labels, DefaultRoute)
	}
	return children, labels
}

// Run asks for the value and runs its case.
func (s *Switch) Run(ctx context.Context, t agent.Task) (agent.Result, error) { return run(ctx, s, t) }

func (s *Switch) body(ctx context.Context, f *frame, t agent.Task) (agent.Result, error) {
	if s.opt.Value == nil {
		return agent.Result{}, fmt.Errorf("%w: %s has nothing to switch on", agent.ErrFailed, s.name)
	}
	v, err := decide(f, "value", func() (string, error) { return s.opt.Value(ctx, View{Task: t}) })
	if err != nil {
		return agent.Result{}, fmt.Errorf("%w: value: %w", agent.ErrFailed, noStatus{err})
	}
	i, label := slices.IndexFunc(s.cases, func(r Route) bool { return r.Name == v }), v
	if i < 0 {
		if s.opt.Default == nil {
			return agent.Result{}, fmt.Errorf("%w: no case for %q", agent.ErrFailed, v)
		}
		i, label = len(s.cases), DefaultRoute
	}
	r, err := f.step(ctx, i, 0, s.children[i], t)
	r.Children, r.Winner = []agent.Result{r}, label
	return r, err
}
