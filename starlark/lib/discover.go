package lib

import (
	"context"
	"slices"
	"sync"

	"edged/agent"
	"edged/agent/llm/recall"
	"edged/workflow"
	"edged/workflow/graph"
)

// registry is what a graph can discover: what the behaviour knows at the moment
// it looks.
type registry struct {
	b   *Behaviour
	not string // the graph itself

	mu   sync.Mutex // guards the rest
	seen [3]int     // how many tools, agents and trees there were
	all  *graph.Capabilities
}

var _ graph.Registry = (*registry)(nil)

// Find implements graph.Registry.
func (r *registry) Find(ctx context.Context, d graph.Discovery) ([]recall.Match, error) {
	return r.known().Find(ctx, d)
}

// Lookup implements graph.Registry.
func (r *registry) Lookup(name string) (graph.Capability, bool) { return r.known().Lookup(name) }

// known gives the capabilities, which are gathered again when there are more.
func (r *registry) known() *graph.Capabilities {
	trees := r.b.flows.trees()
	r.b.mu.Lock()
	tools, agents := slices.Clone(r.b.tools), slices.Clone(r.b.made)
	r.b.mu.Unlock()
	seen := [3]int{len(tools), len(agents), len(trees)}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all != nil && seen == r.seen {
		return r.all
	}
	r.seen, r.all = seen, graph.NewCapabilities(recall.Options{})
	add := func(item recall.Item, kind graph.Kind, a agent.Agent) {
		if _, taken := r.all.Lookup(item.Name); taken {
			item.Name = string(kind) + ":" + item.Name
		}
		r.all.Add(graph.Capability{Item: item, Kind: kind, Agent: a})
	}
	for _, f := range trees {
		if !holds(workflow.Describe(f), r.not) {
			add(recall.Item{Name: f.Name(), Doc: roleOf(f)}, graph.SkillKind, f.node)
		}
	}
	for _, a := range agents {
		id := aboutAgent(a)
		add(recall.Item{Name: a.Name(), Tags: id.capabilities, Doc: roleOf(a), Examples: id.examples}, graph.Extension, &member{r.b, a})
	}
	for _, t := range tools {
		add(recall.Item{Name: t.Name, Doc: t.Doc, Examples: slices.Concat(t.sentences, t.examples)}, graph.ToolKind, t.asNode())
	}
	return r.all
}

// holds reports whether a tree has a node of a name: what leads to a graph is
// not run by it.
func holds(o workflow.Outline, name string) bool {
	return o.Name == name || slices.ContainsFunc(o.Children, func(c workflow.Outline) bool { return holds(c, name) })
}

var (
	_ agent.Agent       = (*toolNode)(nil)
	_ workflow.Effector = (*toolNode)(nil)
)
