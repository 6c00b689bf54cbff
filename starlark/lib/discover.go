package lib

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"edged/agent"
	"edged/agent/llm"
	"edged/agent/llm/recall"
	"edged/workflow"
	"edged/workflow/graph"
)

// registry is what a graph can discover: what the behaviour knows at the moment
// it looks, and what the servers of mcp(…) say that they have.
type registry struct {
	b   *Behaviour
	not string // the graph itself

	mu   sync.Mutex // guards the rest
	seen [3]int     // how many tools, agents and trees there were
	sets []foreign  // what servers said
	all  *graph.Capabilities
}

var _ graph.Registry = (*registry)(nil)

// Find implements graph.Registry.
func (r *registry) Find(ctx context.Context, d graph.Discovery) ([]recall.Match, error) {
	known, unheard := r.known(ctx, d.Kind != graph.SkillKind && d.Kind != graph.Extension)
	list, err := known.Find(ctx, d)
	if err == nil && unheard != nil {
		err = &graph.UnheardError{Who: unheard}
	}
	return list, err
}

// Lookup implements graph.Registry. Servers are asked if what was found is not
// known, as after a restart.
func (r *registry) Lookup(ctx context.Context, name string) (graph.Capability, bool) {
	for _, ask := range []bool{false, true} {
		known, _ := r.known(ctx, ask)
		if c, ok := known.Lookup(ctx, name); ok {
			return c, true
		}
	}
	return graph.Capability{}, false
}

// known gives the capabilities, which are gathered again when there are others;
// with ask the servers are asked first.
func (r *registry) known(ctx context.Context, ask bool) (*graph.Capabilities, []graph.Unheard) {
	trees := r.b.flows.trees()
	r.b.mu.Lock()
	tools, agents := slices.Clone(r.b.tools), slices.Clone(r.b.made)
	r.b.mu.Unlock()
	seen := [3]int{len(tools), len(agents), len(trees)}
	var sets []foreign
	var unheard []graph.Unheard
	if ask {
		sets, unheard = r.b.servers(ctx)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !ask {
		sets = r.sets
	}
	if r.all != nil && seen == r.seen && slices.EqualFunc(sets, r.sets, foreign.same) {
		return r.all, unheard
	}
	r.seen, r.sets, r.all = seen, sets, graph.NewCapabilities(recall.Options{})
	add := func(item recall.Item, kind graph.Kind, from string, a agent.Agent) {
		for _, name := range []string{item.Name, string(kind) + ":" + item.Name, string(kind) + ":" + item.Name + "@" + from} {
			item.Name = name
			if _, taken := r.all.Lookup(ctx, name); !taken {
				break
			}
		}
		r.all.Add(graph.Capability{Item: item, Kind: kind, Agent: a})
	}
	for _, f := range trees {
		if !holds(workflow.Describe(f), r.not) {
			add(recall.Item{Name: f.Name(), Doc: roleOf(f)}, graph.SkillKind, "", f.node)
		}
	}
	for _, a := range agents {
		id := aboutAgent(a)
		add(recall.Item{Name: a.Name(), Tags: id.capabilities, Doc: roleOf(a), Examples: id.examples}, graph.Extension, "", &member{r.b, a})
	}
	for _, t := range tools {
		add(recall.Item{Name: t.Name, Doc: t.Doc, Examples: slices.Concat(t.sentences, t.examples)}, graph.ToolKind, "", t.asNode(r.not))
	}
	for _, f := range sets {
		for _, t := range f.tools {
			add(recall.Item{Name: t.Name, Doc: t.Doc}, graph.ToolKind, f.from, (&tool{Tool: t, b: r.b}).asNode(r.not))
		}
	}
	return r.all, unheard
}

// askTime is how long a discovery waits for servers.
const askTime = 2 * time.Second

// foreign is what one server has.
type foreign struct {
	from  string // its address
	tools []llm.Tool
}

func (f foreign) same(o foreign) bool {
	return f.from == o.from && slices.EqualFunc(f.tools, o.tools, func(x, y llm.Tool) bool {
		return x.Name == y.Name && x.Doc == y.Doc && bytes.Equal(x.Params, y.Params) && x.Effect == y.Effect
	})
}

// askedSet is a question what tools a server has. It goes on when nobody waits
// for it any more, and so is not asked twice.
type askedSet struct {
	began time.Time
	done  chan struct{} // closed when tools and err are set
	tools []llm.Tool
	err   error
}

// servers asks all the servers that scripts name, side by side, for askTime at
// most. Whoever knows its list keeps it until the server says that it changed.
func (b *Behaviour) servers(ctx context.Context) (list []foreign, unheard []graph.Unheard) {
	b.mu.Lock()
	sets := slices.Clone(b.toolsets)
	b.mu.Unlock()
	var asked []*askedSet
	for _, t := range sets {
		asked = append(asked, t.ask(b))
	}
	for i, a := range asked {
		err := a.wait(ctx)
		if err == nil {
			err = a.err
		}
		if err != nil {
			unheard = append(unheard, graph.Unheard{From: sets[i].Address, Reason: err.Error()})
			continue
		}
		list = append(list, foreign{sets[i].Address, a.tools})
	}
	return list, unheard
}

// ask begins to ask, or gives the question that waits for its answer.
func (t *toolset) ask(b *Behaviour) *askedSet {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.asking != nil {
		select {
		case <-t.asking.done:
		default:
			return t.asking
		}
	}
	a := &askedSet{began: time.Now(), done: make(chan struct{})}
	t.asking = a
	if !b.spawn(func() { defer close(a.done); a.tools, a.err = t.tools(b.life, b) }) {
		a.err = errStopped
		close(a.done)
	}
	return a
}

// wait waits for the answer; a question that is older than askTime is not
// waited for.
func (a *askedSet) wait(ctx context.Context) error {
	late := time.NewTimer(max(askTime-time.Since(a.began), 0))
	defer late.Stop()
	select {
	case <-a.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-late.C:
	}
	select {
	case <-a.done:
		return nil
	default:
		return fmt.Errorf("it has not answered for %v", askTime)
	}
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
