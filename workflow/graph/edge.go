package graph

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"edged/agent"
	"edged/workflow"
)

// A Route says where to go when a node has ended: the name of a node, or
// [End]. The state is in ctx ([StateOf]). An error, or a name that the edge
// does not list, fails the run.
type Route interface {
	To(ctx context.Context, last agent.Result) (target string, err error)
}

// The types of edges.
const (
	TypeStatic      = "static"
	TypeConditional = "conditional"
	TypeDiscovery   = "discovery"
	TypePersonality = "personality"
)

// edge is what connects a node with others.
type edge struct {
	id          string
	index       int
	source      string
	kind        string
	to          []string // what route may give
	route       Route
	guards      []workflow.Guardrail
	discovery   *Discovery
	personality *Personality

	from, slot int // indices of nodes: the source, and where found capabilities run
}

type static string

func (s static) To(context.Context, agent.Result) (string, error) { return string(s), nil }

type conditional func(ctx context.Context, s State) (string, error)

func (c conditional) To(ctx context.Context, _ agent.Result) (string, error) {
	return c(ctx, StateOf(ctx))
}

// A Personality routes by a trait or the mood of somebody, read when the edge
// is reached.
type Personality struct {
	Of        *Character
	Trait     string
	Threshold float64
	Above     string // taken at the threshold, too
	Below     string
}

// To gives Above or Below.
func (p *Personality) To(context.Context, agent.Result) (string, error) {
	to, _, err := p.leads()
	return to, err
}

// leads says where to, and why.
func (p *Personality) leads() (to, reason string, err error) {
	v, err := p.Of.Value(p.Trait)
	if err != nil {
		return "", "", err
	}
	reason = fmt.Sprintf("%s of %s is %.3g, threshold %v", p.Trait, p.Of.Name(), v, p.Threshold)
	if v >= p.Threshold {
		return p.Above, reason, nil
	}
	return p.Below, reason, nil
}

// Goto is what a function gives to choose the next node itself, among those
// that an edge of its node leads to, and to update the state.
type Goto struct {
	To  string
	Set map[string]any
}

// crossing is an edge that fired.
type crossing struct {
	edge     int
	to       string // a node, End, or foundPrefix and the name of a capability
	payload  any    // what a guardrail made of what crosses
	replaced bool
	reason   string
}

// target is where it leads, as it is told.
func (c *crossing) target() string { return strings.TrimPrefix(c.to, foundPrefix) }

// foundPrefix is in front of what discovery found.
const foundPrefix = "found:"

// cross asks an edge where to go, and its guardrails whether to let it.
func (v *visit) cross(ctx context.Context, e *edge, target, reason string, payload any, last agent.Result) (crossing, error) {
	c := crossing{edge: e.index, to: target, payload: payload, reason: reason}
	if target == "" {
		var err error
		if c.to, c.reason, err = v.ask(ctx, e, last); err != nil {
			return c, err
		}
		switch found, ok := strings.CutPrefix(c.to, foundPrefix); {
		case ok:
			c.reason = "found " + found
		case e.kind == TypeDiscovery:
			c.reason = "fallback"
		}
	}
	to, after, changed, err := v.guard(ctx, e.guards, v.Name()+" → "+c.target(), payload, last)
	if err != nil {
		return c, err
	}
	if to != "" {
		c.to, c.reason = to, "rerouted"
	}
	c.payload, c.replaced = after, changed
	v.crossed(ctx, e, c)
	return c, nil
}

// crossed tells that an edge fired, and why.
func (v *visit) crossed(ctx context.Context, e *edge, c crossing) {
	if !workflow.Telling(ctx) {
		return
	}
	why := c.reason
	switch {
	case why != "":
	case e.kind == TypeStatic:
		why = "always"
	default:
		why = "chosen"
	}
	v.g.tell(ctx, "crossing", map[string]any{"edge": e.id, "type": e.kind, "source": v.Name(), "target": c.target(), "reason": why})
}

func (v *visit) ask(ctx context.Context, e *edge, last agent.Result) (to, reason string, err error) {
	err = safely(func() (err error) {
		if e.personality != nil {
			to, reason, err = e.personality.leads()
			return err
		}
		to, err = e.route.To(ctx, last)
		return err
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return "", "", ctx.Err()
	case err != nil && agent.StatusOf(err) == agent.Failed && !errors.Is(err, agent.ErrFailed):
		return "", "", fmt.Errorf("%w: edge %s from %s: %w", agent.ErrFailed, e.id, e.source, err)
	case err != nil:
		return "", "", err
	case e.kind == TypeDiscovery && strings.HasPrefix(to, foundPrefix):
		return to, reason, nil
	case !slices.Contains(e.to, to):
		return "", "", fmt.Errorf("%w: edge %s from %s gave %q, which is none of %q", agent.ErrFailed, e.id, e.source, to, e.to)
	}
	return to, reason, nil
}

// routes fires the edges that leave a node.
func (v *visit) routes(ctx context.Context, jump *Goto, payload any, last agent.Result) (list []crossing, err error) {
	if jump != nil {
		for _, e := range v.n.out {
			if slices.Contains(e.to, jump.To) {
				c, err := v.cross(ctx, e, jump.To, "goto", payload, last)
				return []crossing{c}, err
			}
		}
		return nil, fmt.Errorf("%w: %s goes to %q, where no edge of it leads", agent.ErrFailed, v.n.id, jump.To)
	}
	for _, e := range v.n.out {
		target := ""
		if e.kind == TypeStatic {
			target = e.to[0]
		}
		c, err := v.cross(ctx, e, target, "", payload, last)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

func (g *Graph) tell(ctx context.Context, what string, m map[string]any) {
	workflow.Tell(ctx, "graph", g.name, what, m)
}
