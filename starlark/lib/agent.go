package lib

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.starlark.net/starlark"

	"edged/agent"
	"edged/background"
	"edged/starlark/script"
	"edged/starlark/value"
)

var agentParams = []value.Param{
	{Name: "name", Type: value.String, Required: true, Positional: true, Doc: "Its name, one topic level."},
	{Name: "fn", Type: value.Callable, Doc: "What it does: called with the task and with ctx, as far as it takes them. Text it returns is the reply, anything else the output; Declined(reason) and EXIT say what they say."},
	{Name: "model", Type: value.String, Doc: "Not yet: models come with the agents part."},
	{Name: "instructions", Type: value.String, Default: "", Doc: "What a model is told; kept as description."},
	{Name: "role", Type: value.String, Default: "", Doc: "What it is, for people."},
	{Name: "capabilities", Type: value.ListOf(value.String), Doc: "What it can be asked for with pool.request."},
	{Name: "timeout", Type: value.Duration, Doc: "Ends a run that takes longer, with status timeout."},
}

const agentDoc = "Makes an agent: something with a name that runs a task and gives a result. A failure is a result, too; it never takes the caller down."

var agentRows = []row{
	{value.Func{
		Name: "Agent", Doc: agentDoc, Params: agentParams, Returns: "an agent",
		Example: "greet = Agent(\"greet\", fn = lambda task: \"hello \" + task)\n\ndef on_door(ev):\n    log.info(greet.run(\"kitchen\").reply)",
	}, (*Behaviour).agent},
	{value.Func{Name: "LLMAgent", Doc: "The same as Agent.", Params: agentParams, Returns: "an agent"}, (*Behaviour).agent},
	{value.Func{
		Name: "Declined", Doc: "What an agent or a volunteer returns that cannot do its task and says so.",
		Example: "def fetch(task):\n    if task != \"cup\":\n        return Declined(\"I only fetch cups\")\n    return \"here it is\"",
		Params:  []value.Param{{Name: "reason", Type: value.String, Required: true, Positional: true, Doc: "Why."}},
		Returns: "a value to return",
	}, func(_ *Behaviour, c *value.Call) (starlark.Value, error) {
		return declinedKind.Wrap(declined(c.String("reason"))), nil
	}},
}

// declined is what Declined(…) makes.
type declined string

var declinedKind = &value.Kind[declined]{
	Name: "declined", Doc: "A refusal with its reason, see Declined.",
	Attrs: []value.Attr[declined]{{Name: "reason", Doc: "Why.", Type: value.String, Get: func(d declined) (any, error) { return string(d), nil }}},
	Truth: func(declined) bool { return false },
}

// verdict is a word that scripts return: EXIT, PASS.
type verdict string

var verdictKind = &value.Kind[verdict]{
	Name: "verdict", Doc: "A word that a function returns: EXIT, PASS.",
	String: func(v verdict) string { return string(v) },
	Key:    func(v verdict) string { return string(v) },
}

var (
	exitValue = verdictKind.Wrap("EXIT")
	passValue = verdictKind.Wrap("PASS")
)

// scriptAgent is an agent made of a script function.
type scriptAgent struct {
	b            *Behaviour
	name         string
	cb           *callback
	at           script.Position
	timeout      time.Duration
	capabilities []string
}

var _ agent.Agent = (*scriptAgent)(nil)

func (b *Behaviour) agent(c *value.Call) (starlark.Value, error) {
	a := &scriptAgent{b: b, name: c.String("name"), at: where(c), timeout: c.Duration("timeout"), capabilities: c.Strings("capabilities")}
	if c.Has("model") {
		return nil, &value.Error{Arg: "model", Msg: "models come with the agents part, which is not in this build", Hint: "give the agent a function: fn = …"}
	}
	if !c.Has("fn") {
		return nil, &value.Error{Msg: "an agent needs a function: fn = …", Hint: "models come with the agents part, which is not in this build"}
	}
	if err := validName(a.name); err != nil {
		return nil, c.Errorf("name", "argument \"name\": %v", err)
	}
	var err error
	if a.cb, err = newCallback(c, "fn", "task"); err != nil {
		return nil, err
	}
	b.noteInbox(a.name)
	b.noteAgent(a.name)
	return agentKind.Wrap(a), nil
}

// Name implements agent.Agent.
func (a *scriptAgent) Name() string { return a.name }

// Capabilities are what the agent can be asked for.
func (a *scriptAgent) Capabilities() []string { return a.capabilities }

// Run implements agent.Agent.
func (a *scriptAgent) Run(ctx context.Context, t agent.Task) (agent.Result, error) {
	ctx, over := a.b.turn(ctx)
	defer over()
	if a.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, a.timeout)
		defer cancel()
	}
	task, err := value.FromGo(t.Input)
	if err != nil {
		return agent.Result{}, err
	}
	r := &run{Context: script.WithRole(ctx, fmt.Sprintf("agent %q", a.name)), b: a.b, source: "agent:" + a.name, more: &more{name: a.name, task: t.Input}}
	v, err := a.b.do(r, a.cb, task)
	if err != nil {
		return agent.Result{}, err
	}
	return resultOf(v)
}

// resultOf makes a result of what a function returned.
func resultOf(v starlark.Value) (agent.Result, error) {
	switch {
	case v == starlark.None:
		return agent.Result{}, nil
	case v == exitValue:
		return agent.Result{}, agent.ErrExit
	}
	if d, err := declinedKind.Unwrap(v); err == nil {
		return agent.Result{}, agent.Declined(string(d))
	}
	if r, err := resultKind.Unwrap(v); err == nil {
		return r.Result, r.err
	}
	tree, err := value.ToGo(v)
	if err != nil {
		return agent.Result{}, err
	}
	r := agent.Result{Reply: agent.Task{Input: tree}.Text()}
	if _, text := tree.(string); !text {
		r.Output = tree
	}
	return r, nil
}

var agentKind = &value.Kind[agent.Agent]{
	Name: "agent",
	Doc:  "Something with a name that runs tasks: an agent, or a workflow made of agents.",
	Attrs: []value.Attr[agent.Agent]{
		{Name: "name", Doc: "Its name.", Type: value.String, Get: func(a agent.Agent) (any, error) { return a.Name(), nil }},
	},
	Methods: []value.Method[agent.Agent]{{
		Func: value.Func{
			Name: "run", Doc: "Runs a task and waits for the result. It never fails: look at .ok.",
			Example: "r = planner.run({\"goal\": \"pick cup\"})\nif not r.ok:\n    log.warn(r.reason)",
			Params:  runParams, Returns: "a result", Blocks: true,
		},
		Do: func(a agent.Agent, c *value.Call) (starlark.Value, error) { return runAgent(c, a) },
	}},
	String: func(a agent.Agent) string { return fmt.Sprintf("<agent %s>", a.Name()) },
	Key:    func(a agent.Agent) string { return fmt.Sprintf("%s %p", a.Name(), a) },
}

var runParams = []value.Param{
	{Name: "task", Type: value.Data, Positional: true, Doc: "Text, or a JSON value."},
	{Name: "ctx", Positional: true, Doc: "May be left out: a run inherits the context it is called in."},
	{Name: "conversation", Type: value.String, Default: "", Doc: "Tasks with the same id share a session."},
}

// runAgent runs an agent for a script that waits for it.
func runAgent(c *value.Call, a agent.Agent) (starlark.Value, error) {
	if script.Loading(c.Thread) {
		return nil, &value.Error{Msg: "the top level declares, it does not act", Hint: "run agents in a handler, or with after(\"0s\", …)"}
	}
	if err := effect(c); err != nil {
		return nil, err
	}
	task, err := c.Tree("task")
	if err != nil {
		return nil, err
	}
	source := ""
	if r := runOf(c.Context()); r != nil {
		source = r.source
		return performed(background.Perform(c.Context(), r.b.host.Bus, a, agent.Task{Input: task, Origin: source, Conversation: c.String("conversation")})), nil
	}
	return performed(agent.Run(c.Context(), a, agent.Task{Input: task, Conversation: c.String("conversation")})), nil
}

// outcome is a result as scripts see it.
type outcome struct {
	agent.Result
	err  error
	wrap func(agent.Result) starlark.Value // of children
}

// performed makes a script's result of a run, and of a crash a failed one.
func performed(r agent.Result, err error) starlark.Value {
	if err != nil && !errors.Is(err, agent.ErrExit) {
		if r.Status == "" || r.Status == agent.Done {
			r.Status = agent.StatusOf(err)
		}
		if r.Reason == "" {
			r.Reason = err.Error()
		}
	}
	return wrapResult(r)
}

func wrapResult(r agent.Result) starlark.Value {
	o := &outcome{Result: r, wrap: wrapResult}
	if r.Status != agent.Done && r.Status != "" {
		o.err = fmt.Errorf("%w: %s", sentinelOf(r.Status), r.Reason)
	}
	return resultKind.Wrap(o)
}

func sentinelOf(s agent.Status) error {
	for _, err := range []error{agent.ErrTimeout, agent.ErrCancelled, agent.ErrBlocked, agent.ErrRejected, agent.ErrDeadlock, agent.ErrEscalated} {
		if agent.StatusOf(err) == s {
			return err
		}
	}
	return agent.ErrFailed
}

var resultKind = &value.Kind[*outcome]{
	Name: "result",
	Doc:  "What a run gave. It is true if the run is done.",
	Attrs: []value.Attr[*outcome]{
		{Name: "status", Doc: "done, failed, timeout, cancelled, blocked, rejected, deadlock or escalated.", Type: value.String, Get: func(r *outcome) (any, error) { return string(r.Status), nil }},
		{Name: "ok", Doc: "Whether the status is done.", Type: value.Bool, Get: func(r *outcome) (any, error) { return r.OK(), nil }},
		{Name: "reply", Doc: "Words, for people and for the next agent.", Type: value.String, Get: func(r *outcome) (any, error) { return r.Reply, nil }},
		{Name: "output", Doc: "What it gave that is not text, else None.", Get: func(r *outcome) (any, error) { return r.Output, nil }},
		{Name: "reason", Doc: "Why it is not done.", Type: value.String, Get: func(r *outcome) (any, error) { return r.Reason, nil }},
		{Name: "winner", Doc: "Who was picked, where somebody was.", Type: value.String, Get: func(r *outcome) (any, error) { return r.Winner, nil }},
		{Name: "by", Doc: "The agent that did it.", Type: value.String, Get: func(r *outcome) (any, error) { return r.By, nil }},
		{Name: "elapsed", Doc: "How long it took.", Type: value.Duration, Get: func(r *outcome) (any, error) { return r.Elapsed, nil }},
		{Name: "usage", Doc: "What it spent on models: calls, prompt_tokens, output_tokens.", Get: func(r *outcome) (any, error) {
			return map[string]any{"calls": int64(r.Usage.Calls), "prompt_tokens": int64(r.Usage.PromptTokens), "output_tokens": int64(r.Usage.OutputTokens)}, nil
		}},
		{Name: "run_id", Doc: "The run's id in the trace.", Type: value.String, Get: func(r *outcome) (any, error) { return r.RunID, nil }},
		{Name: "children", Doc: "The results of the parts, in order.", Get: func(r *outcome) (any, error) {
			list := make([]starlark.Value, len(r.Children))
			for i, c := range r.Children {
				list[i] = r.wrap(c)
			}
			return starlark.NewList(list), nil
		}},
	},
	Truth: func(r *outcome) bool { return r.OK() },
	String: func(r *outcome) string {
		if r.OK() {
			return fmt.Sprintf("result(%s, reply = %q)", r.Status, r.Reply)
		}
		return fmt.Sprintf("result(%s, reason = %q)", r.Status, r.Reason)
	},
	Tree: func(r *outcome) (any, error) {
		return map[string]any{"status": string(r.Status), "reply": r.Reply, "output": r.Output, "reason": r.Reason, "by": r.By, "elapsed": r.Elapsed.Seconds()}, nil
	},
}
