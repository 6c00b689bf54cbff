package lib

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.starlark.net/starlark"

	"edged/agent"
	"edged/agent/llm"
	"edged/starlark/value"
	"edged/workflow"
	"edged/workflow/graph"
)

// What graphs can be told: nodes and edges while they are built, runs after.

var (
	srcParam    = value.Param{Name: "source", Type: value.String, Required: true, Positional: true, Doc: "The node it leaves, or START."}
	nodeIDParam = value.Param{Name: "name", Type: value.String, Required: true, Positional: true, Doc: "Its name in this graph."}
)

var graphKind = &value.Kind[agent.Agent]{
	Name: "graph", Is: agentKind,
	Doc:     "An agent made of nodes and edges, see Graph. It has all that an agent has, and goes where one can.",
	Methods: graphMethods,
	String:  agentKind.String, Key: agentKind.Key,
}

var graphMethods = []value.Method[agent.Agent]{
	{
		Func: value.Func{
			Name: "node", Doc: "Adds a node. What it puts out is written to the key of its name, or to the keys in writes; what a function returns that is a dict is an update of the state.",
			Example: "g.node(\"plan\", planner, writes = [\"plan\"], timeout = \"3m\", retry = Retry(2, backoff = \"2s\", on = [\"timeout\"]))",
			Params: []value.Param{nodeIDParam,
				{Name: "agent", Type: value.Either(agentKind.Type(), toolKind.Type(), humanKind.Type(), value.Callable), Required: true, Positional: true, Doc: "An agent, a workflow, an interaction, a graph, a tool, Human(…), or a function of the state."},
				{Name: "writes", Type: value.ListOf(value.String), Doc: "The keys it writes: one gets the whole of what it puts out, several get its entries, and one that is missing fails the node; none at all with []."},
				{Name: "effect", Type: value.OneOf("pure", "read", "write"), Doc: "What it does to the world; \"write\" moves or sends something, and is not run again by itself if it was interrupted."},
				{Name: "retry", Type: retryKind.Type(), Doc: "Retry(n, …): how often it is tried."},
				{Name: "timeout", Type: value.Duration, Doc: "Cancels an attempt that takes longer."},
				{Name: "join", Type: value.OneOf("any", "all"), Default: "any", Doc: "any runs it each time an edge to it fires; all once, when none of the branches that were started can still come."},
				guardrailsParam,
				{Name: "input", Type: value.Either(value.String, value.Callable), Doc: "Its task: a key of the state, \"input\" is the run's own task; or a function that makes it of the state. Missing: what the node before put out."}},
		},
		Do: addNode,
	},
	{
		Func: value.Func{
			Name: "edge", Doc: "Leads from one node to another, always. Two edges from one node start two branches, side by side.",
			Example: "g.edge(\"plan\", \"drive\", guardrails = [rail])",
			Params:  []value.Param{srcParam, {Name: "target", Type: value.String, Required: true, Positional: true, Doc: "The node it leads to, or END."}, guardrailsParam},
		},
		Do: func(a agent.Agent, c *value.Call) (starlark.Value, error) {
			return connect(a, c, func(g *scriptGraph, rails []workflow.Guardrail) error {
				g.Edge(c.String("source"), c.String("target"), rails...)
				return nil
			})
		},
	},
	{
		Func: value.Func{
			Name: "branch", Doc: "Leads where a function of the state says. Anything it returns that is not in to fails the run, and so does an error.",
			Example: "g.branch(\"ask\", lambda state: \"drive\" if state[\"ask\"] == \"yes\" else END, to = [\"drive\", END])",
			Params: []value.Param{srcParam,
				{Name: "fn", Type: value.Callable, Required: true, Positional: true, Doc: "Called with the state and ctx; returns the name of a node, or END."},
				{Name: "to", Type: value.ListOf(value.String), Required: true, Doc: "All the nodes it may lead to."}, guardrailsParam},
		},
		Do: addBranch,
	},
	{
		Func: value.Func{
			Name: "discover", Doc: "Looks among the tools, workflows, agents and peers that there are, by their tags and by how alike they are to the query; what is found runs, then the node named then. Without anything found and without a fallback the run fails, unresolved.",
			Example: "g.discover(\"drive\", query = \"tell the user it is done\", kind = \"tool\", fallback = \"answer\", then = END)",
			Params: []value.Param{srcParam,
				{Name: "query", Type: value.String, Required: true, Positional: true, Doc: "What is looked for, in words."},
				{Name: "kind", Type: value.OneOf("tool", "skill", "extension", "any"), Default: "any", Doc: "tool: Tool(…), functions that agents have as tools, and what the servers of mcp(…) have then; skill: workflows and graphs; extension: agents, here and elsewhere."},
				{Name: "fallback", Type: value.String, Doc: "The node for when nothing is found."},
				{Name: "then", Type: value.String, Doc: "Where to go when what was found has run; END if missing."},
				{Name: "min_score", Type: value.Between(value.Float, 0, 1), Default: 0.3, Doc: "How alike it must be; 1 is the best."},
				{Name: "tags", Type: value.ListOf(value.String), Doc: "Capabilities that it must have, all of them."}, guardrailsParam},
		},
		Do: func(a agent.Agent, c *value.Call) (starlark.Value, error) {
			return connect(a, c, func(g *scriptGraph, rails []workflow.Guardrail) error {
				d := graph.Discovery{
					Query: c.String("query"), Tags: c.Strings("tags"), Kind: graph.Kind(c.String("kind")),
					Fallback: c.String("fallback"), Then: c.String("then"), MinScore: c.Float("min_score"),
				}
				if d.MinScore == 0 {
					d.MinScore = 1e-9 // 0 would be the default
				}
				g.Discover(c.String("source"), d, rails...)
				return nil
			})
		},
	},
	{
		Func: value.Func{
			Name: "personality", Doc: "Leads by a trait or the mood of an agent, as it is when the edge is reached: at the threshold and above it to above, else to below. A trait that the agent does not have stops the load.",
			Example: "g.personality(\"weigh\", agent = body, trait = \"conscientiousness\", threshold = 0.6, above = \"plan\", below = \"quick\")",
			Params: []value.Param{srcParam,
				{Name: "agent", Type: agentKind.Type(), Required: true, Positional: true, Doc: "Whose character."},
				{Name: "trait", Type: value.String, Required: true, Positional: true, Doc: "honesty emotionality extraversion agreeableness conscientiousness openness, from 0 to 1, or valence arousal dominance, from -1 to 1."},
				{Name: "threshold", Type: value.Number, Required: true, Positional: true, Doc: "The border."},
				{Name: "above", Type: value.String, Required: true, Positional: true, Doc: "The node for the threshold and more, or END."},
				{Name: "below", Type: value.String, Required: true, Positional: true, Doc: "The node for less, or END."}, guardrailsParam},
		},
		Do: func(a agent.Agent, c *value.Call) (starlark.Value, error) {
			return connect(a, c, func(g *scriptGraph, rails []workflow.Guardrail) error {
				who := agentKind.Arg(c, "agent")
				of := aboutAgent(who).character
				if of == nil {
					return c.Errorf("agent", "argument \"agent\": %s has no character: traits and mood are of Agent(…)", who.Name())
				}
				g.Personality(c.String("source"), graph.Personality{Of: of, Trait: c.String("trait"), Threshold: c.Float("threshold"), Above: c.String("above"), Below: c.String("below")}, rails...)
				return nil
			})
		},
	},
	{
		Func: value.Func{
			Name: "check", Doc: "Finishes the graph and fails with all that is wrong with it. Graphs made at top level are checked at the end of the load in any case.",
			Example: "g.check()",
		},
		Do: func(a agent.Agent, _ *value.Call) (starlark.Value, error) { return nil, graphOf(a).wrong() },
	},
	{
		Func: value.Func{
			Name: "resume", Doc: "Goes on with a run that was interrupted, stopped or waits for a person, and waits for the result, which is escalated if the run waits with another question. Nodes that have ended do not run again. Only a person answers a question: with answer it is called in a handler of what a person said, over MQTT or in a test.",
			Example: "on(\"guard/answer\", lambda ev: g.resume(bb.get(\"guard/waits\"), answer = ev[\"text\"]))",
			Params: []value.Param{
				{Name: "run_id", Type: value.String, Required: true, Positional: true, Doc: "The run, as result.run_id names it."},
				{Name: "answer", Type: value.String, Default: "", Doc: "The answer to the question that it waits with."},
				{Name: "at", Type: value.String, Default: "", Doc: "The node whose question is answered, where several wait; or the path of its step."}},
			Returns: "a result", Blocks: true,
		},
		Do: resumeGraph,
	},
	{
		Func: value.Func{
			Name: "fork", Doc: "Runs a copy of a run again from a step, and leaves the run itself as it is. What had ended before the step is not run again.",
			Example: "r = g.fork(run_id, at = \"plan\", patch = {\"speed\": 0.2})",
			Params: []value.Param{
				{Name: "run_id", Type: value.String, Required: true, Positional: true, Doc: "The run, as result.run_id names it."},
				{Name: "at", Type: value.Either(value.Int, value.String), Required: true, Doc: "The step: its number in the run, from 1, the name of a node, whose first run is meant, or its path."},
				{Name: "patch", Type: value.Dict, Doc: "What is changed in the state that the step begins with."}},
			Returns: "a result", Blocks: true,
		},
		Do: forkGraph,
	},
}

// unfinished gives the graph of a call that changes it.
func unfinished(a agent.Agent) (*scriptGraph, error) {
	g := graphOf(a)
	if g.Fixed() {
		return nil, &value.Error{Msg: fmt.Sprintf("graph %s is finished: it was checked, run, or made a part of another tree", g.Name()), Hint: "add its nodes and edges right after Graph(…)"}
	}
	return g, nil
}

// note remembers where a node or an edge is declared.
func (g *scriptGraph) note(c *value.Call, what string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.places[what] = where(c)
}

// connect adds an edge.
func connect(a agent.Agent, c *value.Call, add func(g *scriptGraph, rails []workflow.Guardrail) error) (starlark.Value, error) {
	g, err := unfinished(a)
	if err != nil {
		return nil, err
	}
	rails, err := g.b.guardrails(c, ofGraph)
	if err != nil {
		return nil, err
	}
	if err := add(g, rails); err != nil {
		return nil, err
	}
	g.edges++
	g.note(c, fmt.Sprintf("e%d", g.edges))
	return nil, nil
}

func addBranch(a agent.Agent, c *value.Call) (starlark.Value, error) {
	return connect(a, c, func(g *scriptGraph, rails []workflow.Guardrail) error {
		cb, err := newCallback(c, "fn", "state")
		if err != nil {
			return err
		}
		to := c.Strings("to")
		choose := func(ctx context.Context, s graph.State) (string, error) {
			v, err := g.call(ctx, cb, g.Name(), s)
			if err != nil {
				return "", err
			}
			if name, ok := starlark.AsString(v); ok {
				return name, nil
			}
			return "", fmt.Errorf("%s returned %s: want one of %q", g.b.fnName(cb), shown(v), to)
		}
		g.Branch(c.String("source"), choose, to, rails...)
		return nil
	})
}

func addNode(a agent.Agent, c *value.Call) (starlark.Value, error) {
	g, err := unfinished(a)
	if err != nil {
		return nil, err
	}
	id := c.String("name")
	o := graph.NodeOptions{
		Effect: llm.Effect(c.String("effect")), Timeout: c.Duration("timeout"), Join: graph.Join(c.String("join")),
		Retry: retryKind.Arg(c, "retry"),
	}
	if c.Has("writes") {
		o.Writes = append([]string{}, c.Strings("writes")...)
	}
	if o.Guardrails, err = g.b.guardrails(c, ofGraph); err != nil {
		return nil, err
	}
	if o.Input, err = g.input(c, id); err != nil {
		return nil, err
	}
	if err := g.put(c, id, o); err != nil {
		return nil, err
	}
	g.note(c, id)
	return nil, nil
}

// input reads what a node's task is made of.
func (g *scriptGraph) input(c *value.Call, node string) (func(ctx context.Context, s graph.State) (any, error), error) {
	if key, ok := starlark.AsString(c.Value("input")); ok {
		return func(_ context.Context, s graph.State) (any, error) {
			v, ok := s[key]
			if !ok {
				return nil, fmt.Errorf("the state has no %q, only %s", key, strings.Join(slices.Sorted(maps.Keys(s)), ", "))
			}
			return v, nil
		}, nil
	}
	cb, err := newCallback(c, "input", "state")
	if err != nil || cb == nil {
		return nil, err
	}
	return func(ctx context.Context, s graph.State) (any, error) {
		v, err := g.call(ctx, cb, node, s)
		if err != nil {
			return nil, err
		}
		return value.ToGo(v)
	}, nil
}
