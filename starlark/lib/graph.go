package lib

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"go.starlark.net/starlark"

	"edged/agent"
	"edged/starlark/script"
	"edged/starlark/value"
	"edged/workflow"
	"edged/workflow/graph"
)

// scriptGraph is a graph that a script builds. It is built by the goroutine
// that made it, and finished when it is checked, run or a part of another tree.
type scriptGraph struct {
	*graph.Graph
	b     *Behaviour
	at    script.Position
	edges int

	mu     sync.Mutex                 // guards places
	places map[string]script.Position // of nodes by name, of edges by id
}

var _ workflow.Wrapper = (*scriptGraph)(nil)

// graphOf is the graph behind a value of graphKind.
func graphOf(a agent.Agent) *scriptGraph { return a.(*flow).node.(*scriptGraph) }

// Graphs are those that the folder's scripts declare, in that order, also those
// that are parts of others.
func (b *Behaviour) Graphs() []*graph.Graph {
	list := []*graph.Graph{}
	for _, g := range b.graphs() {
		list = append(list, g.Graph)
	}
	return list
}

func (b *Behaviour) graphs() (list []*scriptGraph) {
	b.flows.mu.Lock()
	defer b.flows.mu.Unlock()
	for _, f := range b.flows.made {
		if g, ok := f.node.(*scriptGraph); ok {
			list = append(list, g)
		}
	}
	return list
}

var graphRows = []row{
	{value.Func{
		Name: "Graph", Doc: "Makes an agent of nodes and edges: an edge says which agent, function or person comes next. A node runs when an edge to it fires, and never else. Add nodes and edges to it; wrong graphs stop the load.",
		Example: `def kind(state):
    return "drive" if state["ears"] == "move" else "answer"

g = Graph("request", state = {"notes": "append"})
g.node("ears", lambda state: "move" if "go" in state["text"] else "ask")
g.node("drive", lambda state: "driving", effect = "write")
g.node("answer", lambda state: "I don't know")
g.edge(START, "ears")
g.branch("ears", kind, to = ["drive", "answer"])
g.edge("drive", END)
g.edge("answer", END)
g.check()

on("voice/utterance", lambda ev: robot.say(g.run({"text": ev["text"]}).reply))`,
		Params: []value.Param{
			{Name: "name", Type: value.String, Required: true, Positional: true, Doc: "Its name, one topic level."},
			{Name: "state", Type: value.Dict, Doc: "How what several branches write to a key is folded: \"last\", \"first\", \"append\", \"merge\", \"sum\", \"max\", \"min\", or a function of what is there, None at first, and what was written."},
			{Name: "checkpoint", Type: value.OneOf("node", "none"), Default: "node", Doc: "node stores the outcome of each node as it ends: after the end of the process the run goes on, and can be resumed and forked."},
			{Name: "max_steps", Type: value.Between(value.Int, 1, 1_000_000), Default: 50, Doc: "How many nodes one run may run: it bounds cycles."},
			nodeParams[0], nodeParams[1], nodeParams[4], nodeParams[5]},
		Returns: "a graph",
	}, (*Behaviour).graph},
	{value.Func{
		Name: "goto", Doc: "What a function of a node returns that chooses the next node itself, among those that its edges lead to.",
		Example: "def weigh(state):\n    if state[\"kg\"] > 2:\n        return goto(\"refuse\", {\"why\": \"too heavy\"})\n    return goto(\"grasp\")",
		Params: []value.Param{
			{Name: "target", Type: value.String, Required: true, Positional: true, Doc: "The name of a node, or END."},
			{Name: "updates", Type: value.Dict, Positional: true, Doc: "What is written to the state."}},
		Returns: "a value to return",
	}, func(_ *Behaviour, c *value.Call) (starlark.Value, error) {
		set, err := c.Dict("updates")
		if err != nil {
			return nil, err
		}
		return gotoKind.Wrap(&graph.Goto{To: c.String("target"), Set: set}), nil
	}},
}

var gotoKind = &value.Kind[*graph.Goto]{
	Name: "goto", Doc: "A choice of the next node, see goto.",
	Attrs: []value.Attr[*graph.Goto]{
		{Name: "target", Doc: "Where to.", Type: value.String, Get: func(g *graph.Goto) (any, error) { return g.To, nil }},
		{Name: "updates", Doc: "What is written to the state.", Get: func(g *graph.Goto) (any, error) { return maps.Clone(g.Set), nil }},
	},
	String: func(g *graph.Goto) string { return fmt.Sprintf("goto(%q)", g.To) },
}

func (b *Behaviour) graph(c *value.Call) (starlark.Value, error) {
	name := c.String("name")
	if err := validName(name); err != nil {
		return nil, c.Errorf("name", "argument \"name\": %v", err)
	}
	o := graph.Options{Checkpoint: graph.Checkpoint(c.String("checkpoint")), MaxSteps: c.Int("max_steps"), Asker: asker{b}}
	var err error
	if o.State, err = b.reducers(c, name); err != nil {
		return nil, err
	}
	if o.Guard, err = b.guard(c, name); err != nil {
		return nil, err
	}
	if o.OnHalt, err = b.onHalt(c, name); err != nil {
		return nil, err
	}
	if o.OnInDoubt, err = b.onInDoubt(c, name); err != nil {
		return nil, err
	}
	o.Registry = &registry{b: b, not: name}
	g := &scriptGraph{Graph: graph.New(name, o), b: b, at: where(c), places: map[string]script.Position{}}
	f := &flow{b: b, node: g, at: g.at, durable: o.Checkpoint == graph.AfterNode}
	if err := f.hears(c); err != nil {
		return nil, err
	}
	if err := b.flows.add(f, script.Loading(c.Thread)); err != nil {
		return nil, err
	}
	return graphKind.Wrap(f), nil
}

// reducers reads the argument state.
func (b *Behaviour) reducers(c *value.Call, name string) (map[string]graph.Reducer, error) {
	if !c.Has("state") {
		return nil, nil
	}
	known := graph.Reducers()
	out := map[string]graph.Reducer{}
	for _, kv := range c.Value("state").(starlark.IterableMapping).Items() {
		key, _ := starlark.AsString(kv[0])
		if word, ok := starlark.AsString(kv[1]); ok {
			r, ok := known[word]
			if !ok {
				e := &value.Error{Arg: "state", Msg: fmt.Sprintf("state key %s: no reducer %q", key, word), Hint: "there are " + strings.Join(slices.Sorted(maps.Keys(known)), ", ") + ", or a function (old, written)"}
				if near := value.Nearest(word, slices.Sorted(maps.Keys(known))); near != "" {
					e.Hint = fmt.Sprintf("did you mean %q?", near)
				}
				return nil, e
			}
			out[key] = r
			continue
		}
		fn, ok := kv[1].(starlark.Callable)
		if !ok {
			return nil, c.Errorf("state", "state key %s: want the name of a reducer or a function, got %s", key, kv[1].Type())
		}
		keep(c, fn)
		cb, missing := makeCallback(fn, "old", "written")
		if missing != "" {
			return nil, c.Errorf("state", "state key %s: %s needs an argument %q, but it is called with (old, written)", key, fn.Name(), missing)
		}
		out[key] = graph.Reducer{Name: b.fnName(cb), Fold: b.folds(cb, name)}
	}
	return out, nil
}

// folds is a reducer of a script function: it looks and decides.
func (b *Behaviour) folds(cb *callback, name string) func(old, written any) (any, error) {
	return func(old, written any) (any, error) {
		x, err := value.FromGo(old)
		if err != nil {
			return nil, err
		}
		y, err := value.FromGo(written)
		if err != nil {
			return nil, err
		}
		r := &run{Context: b.life, b: b, source: "graph:" + name, pure: inGuard, more: &more{name: name}}
		v, err := b.ask(r, cb, x, y)
		if err != nil {
			return nil, err
		}
		return value.ToGo(v)
	}
}
