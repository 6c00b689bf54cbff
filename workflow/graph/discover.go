package graph

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"edged/agent"
	"edged/agent/llm"
	"edged/agent/llm/recall"
	"edged/agent/llm/schema"
	"edged/bus"
	"edged/bus/origin"
	"edged/workflow"
)

// Kind is what sort of thing can be discovered.
type Kind string

// The kinds; an extension is an agent, here or on another robot.
const (
	ToolKind  Kind = "tool"
	SkillKind Kind = "skill"
	Extension Kind = "extension"
	AnyKind   Kind = "any" // only asked for
)

// A Discovery says what is looked for.
type Discovery struct {
	Query    string
	Tags     []string // capabilities that it must have
	Kind     Kind     // "" = any
	Fallback string   // the node for when nothing is found; "" = the run fails, unresolved
	Then     string   // where to go when what was found has run; "" = the end
	MinScore float64  // 0 = 0.3
}

// A Capability is something that can be found and run.
type Capability struct {
	recall.Item
	Kind  Kind
	Agent agent.Agent
}

// A Registry knows the capabilities that there are now.
type Registry interface {
	// Find gives those that fit, the best first, and may give others after.
	// With an *UnheardError it has not heard of all; any other error is that
	// nothing was found.
	Find(ctx context.Context, d Discovery) ([]recall.Match, error)
	// Lookup gives one by its name.
	Lookup(ctx context.Context, name string) (Capability, bool)
}

// An UnheardError says who may have capabilities and did not answer.
type UnheardError struct{ Who []Unheard }

// Unheard is one of them.
type Unheard struct{ From, Reason string }

func (e *UnheardError) Error() string {
	var list []string
	for _, u := range e.Who {
		list = append(list, u.From+": "+u.Reason)
	}
	return "not all could be asked: " + strings.Join(list, "; ")
}

// Capabilities are a [Registry] in memory. They may be used concurrently.
type Capabilities struct {
	opt recall.Options

	mu      sync.Mutex // guards the rest
	list    []Capability
	finders map[Kind]*recall.Finder // made when they are needed
}

var _ Registry = (*Capabilities)(nil)

// NewCapabilities makes a registry; o.Words and o.Vector do not count, each
// discovery has its own least score.
func NewCapabilities(o recall.Options, list ...Capability) *Capabilities {
	o.Words, o.Vector = 1e-6, 1e-6
	c := &Capabilities{opt: o, finders: map[Kind]*recall.Finder{}}
	for _, x := range list {
		c.Add(x)
	}
	return c
}

// Add registers a capability, or replaces the one of that name.
func (c *Capabilities) Add(x Capability) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(x.Name)
	c.list = append(c.list, x)
}

func (c *Capabilities) drop(name string) {
	c.list = slices.DeleteFunc(c.list, func(x Capability) bool { return x.Name == name })
	clear(c.finders)
}

// Lookup gives a capability by its name.
func (c *Capabilities) Lookup(_ context.Context, name string) (Capability, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.list, func(x Capability) bool { return x.Name == name })
	if i < 0 {
		return Capability{}, false
	}
	return c.list[i], true
}

// Find ranks the capabilities of the kind by tags and by how alike they are to
// the query.
func (c *Capabilities) Find(ctx context.Context, d Discovery) ([]recall.Match, error) {
	return c.finder(d.Kind).Rank(ctx, recall.Query{Text: d.Query, Tags: d.Tags})
}

func (c *Capabilities) finder(k Kind) *recall.Finder {
	if k == "" {
		k = AnyKind
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.finders[k]; f != nil {
		return f
	}
	var items []recall.Item
	for _, x := range c.list {
		if k == AnyKind || x.Kind == k {
			items = append(items, x.Item)
		}
	}
	f := recall.New(c.opt, items...)
	c.finders[k] = f
	return f
}

// discoveryRoute finds what an edge leads to.
type discoveryRoute struct {
	g *Graph
	e *edge
}

// To gives what was found, or the fallback.
func (d *discoveryRoute) To(ctx context.Context, _ agent.Result) (string, error) {
	q := *d.e.discovery
	var list []recall.Match
	var err error
	if d.g.opt.Registry != nil {
		err = safely(func() (err error) { list, err = d.g.opt.Registry.Find(ctx, q); return err })
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	var unheard *UnheardError
	if errors.As(err, &unheard) {
		err = nil
	}
	found := ""
	if len(list) > 0 && list[0].Score >= q.MinScore && err == nil {
		found = list[0].Name
	}
	if workflow.Telling(ctx) {
		seen := []any{}
		for _, m := range list[:min(len(list), 8)] {
			seen = append(seen, map[string]any{"name": m.Name, "score": m.Score, "how": string(m.How)})
		}
		m := map[string]any{"query": q.Query, "candidates": seen, "found": found}
		if err != nil {
			m["error"] = err.Error()
		}
		if unheard != nil {
			silent := []any{}
			for _, u := range unheard.Who {
				silent = append(silent, map[string]any{"from": u.From, "reason": u.Reason})
			}
			m["unheard"] = silent
		}
		d.g.tell(ctx, "discovery", m)
	}
	switch {
	case found != "":
		return foundPrefix + found, nil
	case q.Fallback != "":
		return q.Fallback, nil
	}
	switch {
	case err == nil && unheard != nil:
		err = fmt.Errorf("%w; %w", errNothing, unheard)
	case err == nil:
		err = errNothing
	}
	return "", fmt.Errorf("%w: unresolved: %q: %w", agent.ErrFailed, q.Query, err)
}

var errNothing = errors.New("nothing fits")

// lookup gives what was found as it is now.
func (g *Graph) lookup(ctx context.Context, name string, e *edge) (agent.Agent, error) {
	if g.opt.Registry == nil {
		return nil, errNothing
	}
	var c Capability
	var ok bool
	if err := safely(func() error { c, ok = g.opt.Registry.Lookup(ctx, name); return nil }); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if !ok || c.Agent == nil {
		return nil, fmt.Errorf("%q: %s was found and is gone", e.discovery.Query, name)
	}
	return c.Agent, nil
}

// ToolAgent makes an agent of a tool: the input is its arguments, if that is a
// map. A tool of one argument, or of none, takes anything.
func ToolAgent(t llm.Tool) agent.Agent { return &toolAgent{t} }

type toolAgent struct{ t llm.Tool }

// Name is the tool's.
func (a *toolAgent) Name() string { return a.t.Name }

// Effect is the tool's.
func (a *toolAgent) Effect() llm.Effect { return a.t.Effect }

// Run calls the tool.
func (a *toolAgent) Run(ctx context.Context, t agent.Task) (agent.Result, error) {
	text, err := a.args(t.Input)
	if err != nil {
		return agent.Result{}, err
	}
	if a.t.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, a.t.Timeout)
		defer cancel()
	}
	out, err := a.t.Do(ctx, text)
	rec := agent.Receipt{Tool: a.t.Name, Args: text, Result: out, Err: err}
	r := agent.Result{Receipts: []agent.Receipt{rec}, Origin: origin.Merge(origin.From(ctx), a.t.Origin)}
	if err != nil {
		return r, fmt.Errorf("%w: tool %s: %w", agent.ErrFailed, a.t.Name, err)
	}
	if len(out) > 0 {
		if r.Output, err = bus.DecodeJSON(out); err != nil {
			return r, fmt.Errorf("%w: tool %s: result: %w", agent.ErrFailed, a.t.Name, err)
		}
	}
	if s, ok := r.Output.(string); ok {
		r.Reply = s
	}
	return r, nil
}

// args makes the arguments of an input.
func (a *toolAgent) args(input any) (json.RawMessage, error) {
	if a.t.Params == nil {
		return json.RawMessage("{}"), nil
	}
	s, err := schema.Parse(a.t.Params)
	if err != nil { // a foreign tool's: what we can't check its owner does
		if s, err = schema.ParseLoose(a.t.Params); err != nil {
			return nil, fmt.Errorf("%w: tool %s: %w", agent.ErrFailed, a.t.Name, err)
		}
	}
	m, isMap := input.(map[string]any)
	switch {
	case len(s.Properties) == 0 && !s.Open:
		m = map[string]any{}
	case !isMap && len(s.Properties) == 1:
		m = map[string]any{s.Properties[0].Name: input}
	case !isMap:
		return nil, fmt.Errorf("%w: tool %s: its input is %s, no map of arguments", agent.ErrFailed, a.t.Name, kindOf(input))
	}
	text, err := schema.Encode(m)
	if err == nil {
		_, text, err = s.Accept(text)
	}
	if err != nil {
		return nil, &llm.ArgsError{Tool: a.t.Name, Params: s, Err: err}
	}
	return text, nil
}
