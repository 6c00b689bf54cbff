package lib

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"go.starlark.net/starlark"

	"edged/agent"
	"edged/agent/llm"
	"edged/agent/llm/intent"
	"edged/bus/origin"
	"edged/starlark/value"
	"edged/workflow"
)

var instructionsParam = value.Param{Name: "instructions", Type: value.String, Default: "", Doc: "What the model that decides is told first."}

var leadRows = []row{
	flowRow(value.Func{
		Name: "Router", Doc: "Gives its task to exactly one of several children: the one that choose names, else the one whose sentences fit, else the one that a model picks, which can answer with nothing but their names. .winner names it. It remembers the conversation, and the child sees it.",
		Example: "butler = Router(\"butler\", routes = {\"light\": lights, \"drive\": driver}, intents = {\"light\": [\"[some] light[s] (on|off)\"]}, default = lambda task: Declined(\"nobody knows\"))",
		Params: []value.Param{nodeName,
			{Name: "routes", Type: value.Dict, Required: true, Positional: true, Doc: "A child for each name. What a child is for, its role or its first line of documentation, is told to the model."},
			{Name: "choose", Type: value.Callable, Doc: "Called with the task and ctx; returns a name, or None to leave it to the others."},
			{Name: "intents", Type: value.Either(intentsKind.Type(), value.Dict), Doc: "A list of sentences for each name, or Intents(…) with intents of these names."},
			{Name: "model", Type: leadType, Doc: "A model, or an agent, that picks where the others do not."},
			instructionsParam,
			{Name: "default", Type: childType, Doc: "The child where nobody picks one; missing: failed."}},
	}, routerNode),
	flowRow(value.Func{
		Name: "Supervisor", Doc: "Lets a model lead: it gives tasks to agents, one at a time, sees what they answer, and then answers itself. It can't answer before it has given out a task.",
		Example: "boss = Supervisor(\"boss\", lead = \"ollama:qwen2.5:1.5b\", agents = [scout, cook], max_tasks = 3)",
		Params: []value.Param{nodeName,
			{Name: "lead", Type: leadType, Required: true, Positional: true, Doc: "A model, or an agent: one with a model lends it, with its instructions; a function gets {node, system, task, schema, repair} and returns an answer of that schema."},
			{Name: "agents", Type: value.Either(value.Dict, value.ListOf(childType)), Required: true, Positional: true, Doc: "Who works: a list, or a dict by name."},
			{Name: "max_tasks", Type: value.Between(value.Int, 1, 100), Default: 4, Doc: "How many tasks it may give out."},
			instructionsParam},
	}, supervisorNode),
	flowRow(value.Func{
		Name: "Orchestrator", Doc: "Lets a model plan subtasks, has each done by an agent with only the tools that the plan names, side by side as far as the model's queue allows, and makes one answer of theirs. Subtasks with tools that write go one after the other.",
		Example: "chef = Orchestrator(\"chef\", lead = \"ollama:qwen2.5:1.5b\", tools = [weather, shopping], synth = writer)",
		Params: []value.Param{nodeName,
			{Name: "lead", Type: leadType, Required: true, Positional: true, Doc: "Who plans: see Supervisor."},
			{Name: "synth", Type: childType, Positional: true, Doc: "Who makes one answer of several; missing: they are joined, a line each."},
			{Name: "tools", Type: value.List, Doc: "What there is to plan with: functions, Tool(…), agents."},
			{Name: "worker", Type: modelType, Doc: "The model that does the subtasks; missing: the lead's."},
			{Name: "max_subtasks", Type: value.Between(value.Int, 1, 20), Default: 4, Doc: "How many parts a plan may have."},
			{Name: "max_concurrency", Type: value.Between(value.Int, 1, 20), Doc: "How many subtasks run at a time; all if missing."},
			instructionsParam},
	}, orchestratorNode),
}

// leadType takes what can decide.
var leadType = value.Either(agentKind.Type(), value.Callable, modelType)

// lead makes a decider of an argument, and its model if it has one; nil if the
// argument was not given.
func (b *Behaviour) lead(c *value.Call, arg, name string) (workflow.Decider, llm.Model, error) {
	if !c.Has(arg) {
		return nil, nil, nil
	}
	v := c.Value(arg)
	if _, named := v.(starlark.Tuple); named {
		ch, err := b.choiceOf(c, arg)
		if err != nil {
			return nil, nil, err
		}
		m, err := b.models(ch, nil, b.skips("workflow:"+name))
		return workflow.Ask(m, "", llm.Sampling{}), m, err
	}
	if a, err := agentKind.Unwrap(v); err == nil {
		if x, ok := a.(*modelAgent); ok {
			return workflow.Ask(x.o.Model, x.instructions, x.o.Sampling), x.o.Model, nil
		}
	}
	a, err := b.branch(c, arg, v)
	return &agentLead{a}, nil, err
}

// agentLead has an agent decide.
type agentLead struct{ a agent.Agent }

// Decide implements workflow.Decider: the question is the task, the answer is
// the agent's output, or its reply.
func (l *agentLead) Decide(ctx context.Context, q workflow.Question) (json.RawMessage, error) {
	var form any
	if err := json.Unmarshal(q.Schema, &form); err != nil {
		return nil, err
	}
	task := map[string]any{"node": q.Node, "system": q.System, "task": q.Task, "schema": form, "repair": q.Repair}
	r, err := agent.Run(ctx, l.a, agent.Task{Input: task, Origin: q.Origin})
	origin.Raise(ctx, r.Origin)
	if err != nil {
		return nil, err
	}
	if r.Output == nil {
		return json.RawMessage(r.Reply), nil
	}
	return value.EncodeJSON(r.Output)
}

func routerNode(b *Behaviour, c *value.Call, name string, o workflow.Options) (agent.Agent, error) {
	routes, err := b.routes(c, "routes")
	if err != nil {
		return nil, err
	}
	past := b.sessions().Of(name)
	r := workflow.RouterOptions{Options: o, Instructions: c.String("instructions"), History: func(ctx context.Context, t agent.Task) []llm.Message {
		return dialogue(ctx, past, t)
	}}
	if r.Default, err = b.only(c, "default"); err != nil {
		return nil, err
	}
	for i := range routes {
		routes[i].Agent = &routed{routes[i].Agent, past}
	}
	if r.Default != nil {
		r.Default = &routed{r.Default, past}
	}
	choose, err := newCallback(c, "choose", "task")
	if err != nil {
		return nil, err
	}
	if choose != nil {
		r.Choose = func(ctx context.Context, v workflow.View) (string, error) {
			x, err := b.decide(ctx, choose, name, v, true)
			if err != nil || x == starlark.None {
				return "", err
			}
			return caseOf(x), nil
		}
	}
	if r.Intents, err = routeIntents(c, routes); err != nil {
		return nil, err
	}
	if r.Lead, _, err = b.lead(c, "model", name); err != nil {
		return nil, err
	}
	if r.Choose == nil && r.Intents == nil && r.Lead == nil {
		return nil, &value.Error{Msg: "nobody picks a route", Hint: "give it choose, intents or model"}
	}
	return workflow.NewRouter(name, r, routes...), nil
}

// history is the dialogue that came along.
func history(ctx context.Context, _ agent.Task) []llm.Message { return llm.Dialogue(ctx) }

// dialogue is what was said before a task: what came along, and what the node
// itself remembers of the conversation.
func dialogue(ctx context.Context, past *llm.Sessions, t agent.Task) []llm.Message {
	came := llm.Dialogue(ctx)
	if t.Conversation == "" {
		return came
	}
	return append(slices.Clip(came), past.Messages(t.Conversation)...)
}

// routed is a child that goes on with the conversation of its router.
type routed struct {
	agent.Agent
	past *llm.Sessions
}

var _ workflow.Wrapper = (*routed)(nil)

// Unwrap implements workflow.Wrapper.
func (r *routed) Unwrap() agent.Agent { return r.Agent }

// Run implements agent.Agent.
func (r *routed) Run(ctx context.Context, t agent.Task) (agent.Result, error) {
	if t.Conversation == "" {
		return r.Agent.Run(ctx, t)
	}
	res, err := r.Agent.Run(llm.WithDialogue(ctx, dialogue(ctx, r.past, t)), t)
	if err == nil && res.Reply != "" && t.Text() != "" {
		words := t.Text()
		if !t.Origin.Trusted(llm.Trusted) {
			words = llm.Quote(string(t.Origin.Untrusted(llm.Trusted)), words)
		}
		turn := []llm.Message{{Role: llm.User, Text: words, Origin: t.Origin}, {Role: llm.Assistant, Text: res.Reply, Name: res.By, Origin: res.Origin}}
		_ = r.past.Add(ctx, t.Conversation, turn) // it is well-formed, and nobody sums up
	}
	return res, err
}

// routeIntents compiles the sentences of a router.
func routeIntents(c *value.Call, routes []workflow.Route) (func(context.Context, string) (string, bool), error) {
	if set, err := intentsKind.Unwrap(c.Value("intents")); err == nil {
		return said(set.model), nil
	}
	m, err := c.Dict("intents")
	if err != nil || m == nil {
		return nil, err
	}
	var list []intent.Intent
	for _, r := range routes {
		one := intent.Intent{Name: r.Name, Tool: r.Name}
		all, _ := m[r.Name].([]any)
		for _, s := range all {
			text, _ := s.(string)
			one.Sentences = append(one.Sentences, text)
		}
		if m[r.Name] != nil && len(one.Sentences) == 0 {
			return nil, c.Errorf("intents", "argument \"intents\": %s: want a list of sentences", r.Name)
		}
		delete(m, r.Name)
		if len(one.Sentences) > 0 {
			list = append(list, one)
		}
	}
	for name := range m {
		return nil, c.Errorf("intents", "argument \"intents\": there is no route %q", name)
	}
	model, err := intent.Compile(list, intent.Options{})
	if err != nil {
		return nil, c.Errorf("intents", "argument \"intents\": %v", err)
	}
	return said(model), nil
}

// said picks a route by a sentence.
func said(m *intent.Model) func(context.Context, string) (string, bool) {
	return func(_ context.Context, text string) (string, bool) {
		match, ok := m.Match(text)
		return match.Intent, ok
	}
}

// workers are the children of a node that leads.
func (b *Behaviour) workers(c *value.Call) ([]workflow.Route, error) {
	if _, dict := c.Value("agents").(starlark.IterableMapping); dict {
		return b.routes(c, "agents")
	}
	list, err := b.children(c)
	if err != nil {
		return nil, err
	}
	var routes []workflow.Route
	for _, a := range list {
		routes = append(routes, workflow.Route{Name: a.Name(), Doc: roleOf(a), Agent: a})
	}
	return routes, nil
}

func supervisorNode(b *Behaviour, c *value.Call, name string, o workflow.Options) (agent.Agent, error) {
	workers, err := b.workers(c)
	if err != nil {
		return nil, err
	}
	s := workflow.SupervisorOptions{Options: o, Instructions: c.String("instructions"), MaxDispatches: c.Int("max_tasks"), History: history}
	if s.Lead, _, err = b.lead(c, "lead", name); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, w := range workers {
		if seen[w.Name] || w.Name == "finish" {
			return nil, c.Errorf("agents", "argument \"agents\": %s", fmt.Sprintf("the name %q can't be used twice, nor \"finish\" at all", w.Name))
		}
		seen[w.Name] = true
	}
	return workflow.NewSupervisor(name, s, workers...), nil
}

func orchestratorNode(b *Behaviour, c *value.Call, name string, o workflow.Options) (agent.Agent, error) {
	r := workflow.OrchestratorOptions{
		Options: o, Instructions: c.String("instructions"), MaxSubtasks: c.Int("max_subtasks"),
		MaxConcurrency: c.Int("max_concurrency"), History: history,
	}
	var m llm.Model
	var err error
	if r.Lead, m, err = b.lead(c, "lead", name); err != nil {
		return nil, err
	}
	if c.Has("worker") {
		ch, err := b.choiceOf(c, "worker")
		if err != nil {
			return nil, err
		}
		if m, err = b.models(ch, nil, b.skips("workflow:"+name)); err != nil {
			return nil, err
		}
	}
	if m == nil {
		return nil, &value.Error{Arg: "worker", Msg: "the lead has no model that could do the subtasks", Hint: "name one: worker = \"ollama:qwen2.5:1.5b\""}
	}
	tools, sets, err := b.toolsOf(c, "tools")
	if err != nil {
		return nil, err
	}
	if len(sets) > 0 {
		return nil, c.Errorf("tools", "argument \"tools\": a plan is made of tools by name, which mcp(…) does not tell beforehand; give it to an agent and that one to the plan")
	}
	for _, t := range tools {
		r.Tools = append(r.Tools, t.Tool)
	}
	if r.Synth, err = b.only(c, "synth"); err != nil {
		return nil, err
	}
	r.Worker = func(name string, some []llm.Tool) agent.Agent { return b.subtask(name, m, tools, some) }
	return workflow.NewOrchestrator(name, r), nil
}

// subtask makes the agent of a subtask: it has these tools and no others.
func (b *Behaviour) subtask(name string, m llm.Model, all []*tool, some []llm.Tool) agent.Agent {
	a := &modelAgent{identity: identity{b: b, name: name}}
	for _, t := range all {
		if slices.ContainsFunc(some, func(s llm.Tool) bool { return s.Name == t.Name }) {
			a.tools = append(a.tools, t)
		}
	}
	a.o = llm.Options{
		Name: name, Model: m, Tools: some, Session: llm.Fresh, Gate: b.gate, Trusted: b.truster(nil),
		TaintedWrites: b.host.TaintedWrites, Together: sideBySide, Update: b.updateState, Report: a.report,
		Hooks: []llm.Hook{limits(name, a.tools), a.trace()},
	}
	a.o.Audit = b.host.Audit
	return &member{b, a}
}
