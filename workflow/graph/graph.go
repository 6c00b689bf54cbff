// Package graph makes an agent of nodes and edges: an edge says which agent,
// function or person comes next.
//
// Its one rule: a node runs when an edge to it fires, and never else. Arms
// that were not chosen do not run, nor does what comes after them; cycles are
// edges like all others, and bounded by the number of steps.
//
//	g := graph.New("request", graph.Options{})
//	g.Node("ears", ears, graph.NodeOptions{})
//	g.Node("plan", planner, graph.NodeOptions{})
//	g.Node("answer", talker, graph.NodeOptions{})
//	g.Edge(graph.Start, "ears")
//	g.Branch("ears", func(_ context.Context, s graph.State) (string, error) {
//		return s["ears"].(string), nil // "plan" or "answer"
//	}, []string{"plan", "answer"})
//	g.Edge("plan", graph.End)
//	g.Edge("answer", graph.End)
//	r, err := agent.Run(ctx, g, agent.Task{Input: "tidy up"})
//
// Where edges part, each branch goes on with a state of its own; where they
// join, and at the end, what the branches wrote is folded in the order in
// which the edges were declared: what a graph gives does not depend on which
// branch was quicker.
package graph

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"edged/agent"
	"edged/agent/llm"
	"edged/workflow"
)

// The sentinels: where edges begin and end.
const (
	Start = "START"
	End   = "END"
)

// Checkpoint says what of a run is stored.
type Checkpoint string

// The checkpoints; empty is None. A graph with None inside a durable run is
// recorded with it all the same.
const (
	None      Checkpoint = "none"
	AfterNode Checkpoint = "node" // the outcome of each node, as it ends
)

// Options of a [Graph]; the zero value works.
type Options struct {
	workflow.Options
	State      map[string]Reducer // how what is written to a key is folded; a key without: replaced
	Checkpoint Checkpoint
	MaxSteps   int           // node runs in a run; 0 = 50, negative = no bound
	Asker      Asker         // who asks people; nil = the run waits for an answer, if it is durable
	Registry   Registry      // what can be discovered
	Grace      time.Duration // for nodes to end after another one failed; 0 = 200 ms. After a stop it is 40 ms at most
}

// A Graph is an agent: it runs its nodes along its edges. It is built first,
// by one goroutine; from its first Check, Run or drawing on it is fixed, and
// may be used concurrently.
type Graph struct {
	name  string
	opt   Options
	nodes []*node // the first is Start
	index map[string]int
	edges []*edge
	bad   []Problem // found while it was built

	once     sync.Once
	problems []Problem
	fatal    error
	custom   *workflow.Custom
	reach    []bits // per node: the nodes that it leads to
	fixed    atomic.Bool
	left     atomic.Int32
	ever     atomic.Uint64
}

var (
	_ agent.Agent      = (*Graph)(nil)
	_ workflow.Wrapper = (*Graph)(nil)
)

// New begins a graph.
func New(name string, o Options) *Graph {
	if o.MaxSteps == 0 {
		o.MaxSteps = 50
	}
	if o.Grace <= 0 {
		o.Grace = 200 * time.Millisecond
	}
	g := &Graph{name: name, opt: o, index: map[string]int{Start: 0}}
	g.nodes = []*node{{id: Start}}
	if o.Checkpoint != "" && o.Checkpoint != None && o.Checkpoint != AfterNode {
		g.wrong(Problem{Code: "checkpoint", Text: fmt.Sprintf("checkpoint %q is none of %q and %q", o.Checkpoint, None, AfterNode)})
	}
	return g
}

// Name is the graph's name.
func (g *Graph) Name() string { return g.name }

// Node adds an agent, a workflow or another graph.
func (g *Graph) Node(id string, a agent.Agent, o NodeOptions) {
	n := &node{id: id, agent: a, opt: o}
	if a == nil {
		g.wrong(Problem{Code: "empty node", Node: id, Text: fmt.Sprintf("node %s has no agent", id)})
		return
	}
	g.add(n)
}

// Func adds a function of the state. What it gives is an update of the state
// if it is a map, a choice of the next node and an update if it is a [Goto],
// and else what the node is said to have put out.
func (g *Graph) Func(id string, fn func(ctx context.Context, s State) (any, error), o NodeOptions) {
	g.add(&node{id: id, agent: &function{id, fn}, opt: o, function: true})
}

// Tool adds a tool; its arguments are the node's input, which must be a map.
func (g *Graph) Tool(id string, t llm.Tool, o NodeOptions) {
	g.add(&node{id: id, agent: ToolAgent(t), opt: o})
}

// Human adds a question to a person.
func (g *Graph) Human(id string, h Human, o NodeOptions) {
	if len(h.Options) == 0 && h.Timeout > 0 && h.OnTimeout == "" {
		g.wrong(Problem{Code: "human", Node: id, Text: fmt.Sprintf("node %s asks with a timeout and has no answer for it", id)})
	}
	if h.OnTimeout != "" && len(h.Options) > 0 && !slices.Contains(h.Options, h.OnTimeout) {
		g.wrong(Problem{Code: "human", Node: id, Text: fmt.Sprintf("node %s: on_timeout %q is none of its options %q", id, h.OnTimeout, h.Options)})
	}
	g.add(&node{id: id, agent: &person{id: id, h: h, g: g}, opt: o})
}

func (g *Graph) add(n *node) {
	g.building()
	switch _, twice := g.index[n.id]; {
	case n.id == "" || n.id == Start || n.id == End:
		g.wrong(Problem{Code: "reserved id", Node: n.id, Text: fmt.Sprintf("%q can't be the name of a node", n.id)})
		return
	case twice:
		g.wrong(Problem{Code: "duplicate node", Node: n.id, Text: fmt.Sprintf("there are two nodes %s", n.id)})
		return
	}
	g.index[n.id] = len(g.nodes)
	g.nodes = append(g.nodes, n)
}

// Edge leads from src to dst, always.
func (g *Graph) Edge(src, dst string, guards ...workflow.Guardrail) {
	g.connect(&edge{source: src, kind: TypeStatic, to: []string{dst}, route: static(dst), guards: guards})
}

// Branch asks fn where to go from src; it gives one of to, anything else is a
// failure that names it.
func (g *Graph) Branch(src string, fn func(ctx context.Context, s State) (string, error), to []string, guards ...workflow.Guardrail) {
	g.connect(&edge{source: src, kind: TypeConditional, to: to, route: conditional(fn), guards: guards})
}

// Route goes from src where a route says, which must be one of to.
func (g *Graph) Route(src string, r Route, to []string, guards ...workflow.Guardrail) {
	g.connect(&edge{source: src, kind: TypeConditional, to: to, route: r, guards: guards})
}

// Discover looks among the registered capabilities for what the query asks
// for, runs what it finds, and goes on to o.Then.
func (g *Graph) Discover(src string, o Discovery, guards ...workflow.Guardrail) {
	if o.Then == "" {
		o.Then = End
	}
	if o.MinScore == 0 {
		o.MinScore = 0.3
	}
	e := &edge{source: src, kind: TypeDiscovery, to: []string{o.Then}, discovery: &o, guards: guards}
	if o.Fallback != "" {
		e.to = append(e.to, o.Fallback)
	}
	e.route = &discoveryRoute{g, e}
	g.connect(e)
}

// Personality goes from src by a trait or the mood of somebody: at or above
// the threshold to above, else to below.
func (g *Graph) Personality(src string, o Personality, guards ...workflow.Guardrail) {
	g.connect(&edge{source: src, kind: TypePersonality, to: []string{o.Above, o.Below}, route: &o, personality: &o, guards: guards})
}

func (g *Graph) connect(e *edge) {
	g.building()
	e.id = fmt.Sprintf("e%d", len(g.edges)+1)
	e.index = len(g.edges)
	g.edges = append(g.edges, e)
}

func (g *Graph) building() {
	if g.fixed.Load() {
		panic("graph: " + g.name + " is changed after it was checked")
	}
}

// Fixed reports whether the graph is built: it can't be changed any more.
func (g *Graph) Fixed() bool { return g.fixed.Load() }

func (g *Graph) wrong(p Problem) {
	p.Severity = Error
	g.bad = append(g.bad, p)
}

// Unwrap gives the node that workflows know the graph by.
func (g *Graph) Unwrap() agent.Agent {
	g.fix()
	return g.custom
}

// Run runs the graph. Its reply is that of the node before the end, its output
// the state, its children are the runs of its nodes. A graph that has errors
// fails with them.
func (g *Graph) Run(ctx context.Context, t agent.Task) (agent.Result, error) {
	g.fix()
	return g.custom.Run(ctx, t)
}

// LeftBehind gives how many nodes were ever left behind because they ignored
// that they were stopped, and how many of them still run.
func (g *Graph) LeftBehind() (ever uint64, now int) { return g.ever.Load(), int(g.left.Load()) }

// fix ends the building.
func (g *Graph) fix() {
	g.once.Do(func() {
		g.fixed.Store(true)
		g.resolve()
		g.problems = g.check()
		g.fatal = fatal(g.name, g.problems)
		o := workflow.CustomOptions{Options: g.opt.Options, Kind: "graph",
			Detail: fmt.Sprintf("%d nodes, %d edges", len(g.nodes)-1, len(g.edges))}
		o.Checkpoint = o.Checkpoint || g.opt.Checkpoint == AfterNode
		for _, n := range g.nodes {
			o.Children = append(o.Children, &visit{g: g, n: n})
			o.Labels = append(o.Labels, g.label(n))
		}
		g.custom = workflow.NewCustom(g.name, o, g.body)
	})
}

func (g *Graph) body(ctx context.Context, p *workflow.Place, t agent.Task) (agent.Result, error) {
	if g.fatal != nil {
		return agent.Result{}, g.fatal
	}
	if n := g.left.Load(); n >= maxLeft {
		return agent.Result{}, fmt.Errorf("%w: %d nodes of %s were left behind and still run", agent.ErrFailed, n, g.name)
	}
	deep, _ := ctx.Value(deepKey{}).(int)
	if deep >= maxDeep {
		return agent.Result{}, fmt.Errorf("%w: max_steps: graphs run one another %d deep, %s the last", agent.ErrFailed, deep, g.name)
	}
	return newRun(context.WithValue(ctx, deepKey{}, deep+1), g, p, t).all()
}

// deepKey leads to how many graphs a run is in: nothing else bounds a graph
// that a node of it runs again.
type deepKey struct{}

const maxDeep = 32
