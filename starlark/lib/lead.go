package lib

import (
	"context"
	"encoding/json"
	"fmt"

	"go.starlark.net/starlark"

	"edged/agent"
	"edged/agent/llm"
	"edged/agent/llm/intent"
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
			{Name: "intents", Type: value.Dict, Doc: "Sentences for each name, as in Intents."},
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
}

// leadType takes what can decide.
var leadType = value.Either(agentKind.Type(), value.Callable)

// lead makes a decider of an argument, nil if it was not given.
func (b *Behaviour) lead(c *value.Call, arg string) (workflow.Decider, error) {
	if !c.Has(arg) {
		return nil, nil
	}
	v := c.Value(arg)
	a, err := b.branch(c, arg, v)
	if err != nil {
		return nil, err
	}
	return &agentLead{a}, nil
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
	r, err := agent.Run(ctx, l.a, agent.Task{Input: task, Origin: "workflow:" + q.Node})
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
	r := workflow.RouterOptions{Options: o, Instructions: c.String("instructions"), History: history}
	if r.Default, err = b.only(c, "default"); err != nil {
		return nil, err
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
	if r.Lead, err = b.lead(c, "model"); err != nil {
		return nil, err
	}
	if r.Choose == nil && r.Intents == nil && r.Lead == nil {
		return nil, &value.Error{Msg: "nobody picks a route", Hint: "give it choose, intents or model"}
	}
	return workflow.NewRouter(name, r, routes...), nil
}

// history is the dialogue that came along.
func history(ctx context.Context, _ agent.Task) []llm.Message { return llm.Dialogue(ctx) }

// routeIntents compiles the sentences of a router.
func routeIntents(c *value.Call, routes []workflow.Route) (func(context.Context, string) (string, bool), error) {
	m, err := c.Dict("intents")
	if err != nil || m == nil {
		return nil, err
	}
	var list []intent.Intent
	for _, r := range routes {
		one := intent.Intent{Name: r.Name}
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
	return func(_ context.Context, said string) (string, bool) {
		match, ok := model.Match(said)
		return match.Intent, ok
	}, nil
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
	if s.Lead, err = b.lead(c, "lead"); err != nil {
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
