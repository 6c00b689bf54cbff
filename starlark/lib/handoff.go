package lib

import (
	"context"
	"fmt"

	"go.starlark.net/starlark"

	"edged/agent"
	"edged/agent/llm"
	"edged/agent/llm/recall"
	"edged/background"
	"edged/blackboard"
	"edged/bus"
	"edged/bus/origin"
	"edged/starlark/value"
)

var delegateRows = []row{
	{value.Func{
		Name: "Handoff", Doc: "What a tool's function returns to give the rest of the run to another agent, which sees the dialogue so far. It is done after all other calls of the same answer; its outcome is the run's.",
		Example: "def to_cook(dish):\n    \"\"\"Hand over to the cook.\"\"\"\n    return Handoff(cook, state_update = {\"guard/dish\": dish})",
		Params: []value.Param{
			{Name: "target", Type: agentKind.Type(), Required: true, Positional: true, Doc: "Who goes on."},
			{Name: "state_update", Type: value.Dict, Doc: "Keys of the blackboard that are set before."},
			{Name: "parallel_targets", Type: value.ListOf(agentKind.Type()), Doc: "Agents that do the same task beside it."}},
		Returns: "a value to return",
	}, (*Behaviour).handoffTo},
	{value.Func{
		Name: "spawn", Doc: "Lets a helper of an agent's making do a task: the same model, role and limits, no memory of its own, and only the tools given here.", Blocks: true,
		Example: "r = spawn(butler, \"which lamps are on?\", tools = [list_lamps])",
		Params: []value.Param{
			{Name: "agent", Type: agentKind.Type(), Required: true, Positional: true, Doc: "An agent with a model."},
			{Name: "task", Type: value.Data, Required: true, Positional: true, Doc: "Text, or a JSON value."},
			{Name: "tools", Type: value.List, Doc: "What it may call; nothing if missing."}},
		Returns: "a result",
	}, (*Behaviour).spawnHelper},
	{value.Func{
		Name: "find_agent", Doc: "Finds the agent that a text asks for, or nobody: by exact capabilities, then by the vectors of a model, else by words, compared with names, roles and example tasks.", Blocks: true,
		Example: "a = find_agent(ev[\"text\"])\nif a != None:\n    robot.say(a.run(ev[\"text\"]).reply)",
		Params: []value.Param{
			{Name: "text", Type: value.String, Default: "", Positional: true, Doc: "The task."},
			{Name: "agents", Type: value.ListOf(agentKind.Type()), Doc: "Among whom; all that the folder made if missing."},
			{Name: "capabilities", Type: value.ListOf(value.String), Doc: "All of which are needed."},
			{Name: "model", Type: modelType, Doc: "Whose vectors: \"ollama:nomic-embed-text\". Words are compared without, or while it is down."},
			{Name: "threshold", Type: value.Between(value.Float, 0, 1), Doc: "How near is near enough; 0.5 for words, 0.6 for vectors if missing."}},
		Returns: "an agent, or None",
	}, (*Behaviour).findAgent},
}

// candidates are who a task may be for.
func (b *Behaviour) candidates(c *value.Call) ([]agent.Agent, error) {
	if !c.Has("agents") {
		return b.Agents(), nil
	}
	var list []agent.Agent
	for _, v := range c.List("agents") {
		a, err := agentKind.Unwrap(v)
		if err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	return list, nil
}

func (b *Behaviour) findAgent(c *value.Call) (starlark.Value, error) {
	if err := acts(c); err != nil {
		return nil, err
	}
	all, err := b.candidates(c)
	if err != nil {
		return nil, err
	}
	o := recall.Options{Words: c.Float("threshold"), Vector: c.Float("threshold")}
	if c.Has("model") {
		ch, err := b.modelChoice(c)
		if err != nil {
			return nil, err
		}
		m, err := b.models(ch, nil, nil)
		if err != nil {
			return nil, err
		}
		o.Embedder, _ = m.(llm.Embedder)
		o.Fell = func(ctx context.Context, err error) { b.report(ctx, b.source(c), err, bus.Event{}) }
	}
	var items []recall.Item
	for _, a := range all {
		id := aboutAgent(a)
		items = append(items, recall.Item{Name: a.Name(), Tags: id.capabilities, Doc: roleOf(a), Examples: id.examples})
	}
	m, ok, err := recall.New(o, items...).Find(c.Context(), recall.Query{Text: c.String("text"), Tags: c.Strings("capabilities")})
	if err != nil || !ok {
		return nil, err
	}
	for _, a := range all {
		if a.Name() == m.Name {
			return agentKind.Wrap(a), nil
		}
	}
	return nil, nil
}

var handoffKind = &value.Kind[*llm.Handoff]{
	Name: "handoff", Doc: "A wish to give the run to another agent, see Handoff.",
	Attrs: []value.Attr[*llm.Handoff]{
		{Name: "target", Doc: "The name of who goes on.", Type: value.String, Get: func(h *llm.Handoff) (any, error) { return h.Target.Name(), nil }},
	},
	String: func(h *llm.Handoff) string { return fmt.Sprintf("<handoff to %s>", h.Target.Name()) },
}

func (b *Behaviour) handoffTo(c *value.Call) (starlark.Value, error) {
	h := &llm.Handoff{Target: b.traced(agentKind.Arg(c, "target"), true)}
	for _, v := range c.List("parallel_targets") {
		a, err := agentKind.Unwrap(v)
		if err != nil {
			return nil, err
		}
		h.Parallel = append(h.Parallel, b.traced(a, true))
	}
	var err error
	if h.State, err = c.Dict("state_update"); err != nil {
		return nil, err
	}
	for key := range h.State {
		if err := b.mayChange(c, "bb", key); err != nil {
			return nil, err
		}
	}
	return handoffKind.Wrap(h), nil
}

// updateState writes what a handoff brings along.
func (b *Behaviour) updateState(ctx context.Context, state map[string]any) error {
	source := "agent"
	if r := runOf(ctx); r != nil {
		source = r.source
	}
	return b.host.Board.Update(ctx, source, state, blackboard.SetOptions{})
}

// agentTool makes a tool of an agent.
func (b *Behaviour) agentTool(a agent.Agent, name, doc string) *tool {
	return &tool{b: b, Tool: llm.AsTool(b.traced(a, false), name, doc)}
}

// homeOf is the behaviour that an agent belongs to.
func homeOf(c *value.Call, a agent.Agent) (*Behaviour, error) {
	if f, ok := a.(*flow); ok {
		return f.b, nil
	}
	if b := aboutAgent(a).b; b != nil {
		return b, nil
	}
	if r := runOf(c.Context()); r != nil {
		return r.b, nil
	}
	return nil, fmt.Errorf("%s belongs to nobody", a.Name())
}

func agentAsTool(c *value.Call, a agent.Agent) (starlark.Value, error) {
	b, err := homeOf(c, a)
	if err != nil {
		return nil, err
	}
	return toolKind.Wrap(b.agentTool(a, c.String("name"), c.String("doc"))), nil
}

func (b *Behaviour) spawnHelper(c *value.Call) (starlark.Value, error) {
	if err := acts(c); err != nil {
		return nil, err
	}
	a, ok := agentKind.Arg(c, "agent").(*modelAgent)
	if !ok {
		return nil, c.Errorf("agent", "argument \"agent\": %s has no model", agentKind.Arg(c, "agent").Name())
	}
	task, err := c.Tree("task")
	if err != nil {
		return nil, err
	}
	tools, sets, err := b.toolsOf(c, "tools")
	if err != nil {
		return nil, err
	}
	t := agent.Task{Input: task}
	if r := runOf(c.Context()); r != nil {
		t.Origin = origin.From(c.Context())
	}
	name := a.name + ".sub"
	helper := agent.Func(name, func(ctx context.Context, t agent.Task) (agent.Result, error) {
		m, err := a.get(ctx)
		if err != nil {
			return agent.Result{}, err
		}
		var list []llm.Tool
		for _, x := range tools {
			list = append(list, x.Tool)
		}
		for _, s := range sets {
			more, err := s.tools(ctx, b)
			if err != nil {
				return agent.Result{}, err
			}
			list = append(list, more...)
		}
		ctx, over := b.turn(llm.WithHooks(ctx, limits(name, tools)))
		defer over()
		return llm.Spawn(ctx, m, t, list)
	})
	res, err := background.Perform(c.Context(), b.host.Bus, helper, t)
	origin.Raise(c.Context(), res.Origin)
	return performed(res, err), nil
}
