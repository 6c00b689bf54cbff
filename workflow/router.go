package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"edged/agent"
	"edged/agent/llm"
)

// RouterOptions of a [Router]. It asks Choose, then Intents, then Lead: the
// first that is there and names a route decides.
type RouterOptions struct {
	Options
	// Choose picks a route by its name; "" leaves it to the others.
	Choose func(ctx context.Context, v View) (string, error)
	// Intents picks a route by what was said, without a model.
	Intents func(ctx context.Context, said string) (route string, ok bool)
	// Lead is a model that can only answer with the name of a route.
	Lead         Decider
	Instructions string
	// History gives the dialogue so far, for the lead.
	History func(ctx context.Context, t agent.Task) []llm.Message
	// Default is where the task goes when nothing of this names a route.
	Default agent.Agent
}

// A Router gives its task to exactly one child, in the same conversation.
// Winner is the name of the route.
type Router struct {
	node
	opt    RouterOptions
	routes []Route
}

var _ agent.Agent = (*Router)(nil)

// NewRouter makes a router.
func NewRouter(name string, o RouterOptions, routes ...Route) *Router {
	n := node{name: name, kind: "router", opt: o.Options}
	n.children, n.labels = branches(routes, o.Default)
	return &Router{n, o, routes}
}

// Run picks a route and runs it.
func (b *Router) Run(ctx context.Context, t agent.Task) (agent.Result, error) { return run(ctx, b, t) }

func (b *Router) body(ctx context.Context, f *frame, t agent.Task) (agent.Result, error) {
	if len(b.children) == 0 {
		return agent.Result{}, b.empty()
	}
	var used agent.Usage
	var why error
	name, err := decide(f, "route", func() (string, error) {
		name, err := b.choose(ctx, t, &used)
		if err == nil && b.find(name) >= 0 || ctx.Err() != nil {
			return name, err
		}
		if b.opt.Default == nil {
			return "", errors.Join(errNoRoute, err)
		}
		why = err
		return "", nil
	})
	if err != nil {
		if ctx.Err() != nil {
			return agent.Result{Usage: used}, ctx.Err()
		}
		return agent.Result{Usage: used}, fmt.Errorf("%w: %w", agent.ErrFailed, noStatus{err})
	}
	i, label := b.find(name), name
	if i < 0 {
		if i, label = len(b.routes), DefaultRoute; b.opt.Default == nil {
			return agent.Result{Usage: used}, fmt.Errorf("%w: %w", agent.ErrFailed, noStatus{errNoRoute})
		}
	}
	r, err := f.step(ctx, i, 0, b.children[i], t)
	child := r
	add(&used, r)
	r.Children, r.Winner, r.Usage = []agent.Result{child}, label, used
	if err != nil && why != nil && ctx.Err() == nil { // the default did not help, so say why it had to
		return r, fmt.Errorf("%w (%s: %w)", err, DefaultRoute, noStatus{why})
	}
	return r, err
}

var errNoRoute = errors.New("no route")

func (b *Router) find(name string) int {
	return slices.IndexFunc(b.routes, func(r Route) bool { return r.Name == name })
}

// choose gives a name, which need not be one of a route, or why there is none.
func (b *Router) choose(ctx context.Context, t agent.Task, used *agent.Usage) (string, error) {
	var no error
	if b.opt.Choose != nil {
		name, err := b.opt.Choose(ctx, View{Task: t})
		switch {
		case err != nil:
			return "", fmt.Errorf("choose: %w", err)
		case b.find(name) >= 0:
			return name, nil
		case name != "":
			no = fmt.Errorf("choose gave %q", name)
		}
	}
	if b.opt.Intents != nil && no == nil {
		if name, ok := b.opt.Intents(ctx, t.Text()); ok && b.find(name) >= 0 {
			return name, nil
		}
		no = errors.New("no intent fits")
	}
	if b.opt.Lead == nil || len(b.routes) == 0 {
		return "", no
	}
	list, names := menu(b.routes)
	system := "Pick the one that fits what the person says.\n" + list
	if b.opt.Instructions != "" {
		system = b.opt.Instructions + "\n\n" + system
	}
	q := Question{Node: b.name, System: system, Task: t.Text(), Origin: t.Origin, Schema: object("reason", text(120), "route", enum(names))}
	if b.opt.History != nil {
		q.History = b.opt.History(ctx, t)
	}
	return consult(ctx, b.opt.Lead, q, used, func(answer json.RawMessage) (string, error) {
		var v struct{ Route string }
		if err := readJSON(answer, &v); err != nil {
			return "", err
		}
		if b.find(v.Route) < 0 {
			return "", fmt.Errorf("%q is none of %q", v.Route, names)
		}
		return v.Route, nil
	})
}
