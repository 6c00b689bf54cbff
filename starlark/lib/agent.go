package lib

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.starlark.net/starlark"

	"edged/agent"
	"edged/agent/llm"
	"edged/background"
	"edged/bus/origin"
	"edged/starlark/script"
	"edged/starlark/value"
	"edged/workflow/graph"
)

var agentParams = []value.Param{
	{Name: "name", Type: value.String, Required: true, Positional: true, Doc: "Its name, one topic level."},
	{Name: "role", Type: value.String, Default: "", Also: []string{"description", "doc", "goal", "backstory"}, Doc: "What it is, in one line: for people, and for agents that may hand over to it."},
	{Name: "instructions", Type: value.String, Default: "", Also: []string{"prompt", "system", "system_prompt", "system_message"}, Doc: "What its model is told."},
	{Name: "model", Type: modelType, Also: []string{"llm", "models", "model_client", "client"}, Doc: "Who thinks: \"intent\", \"builtin\", \"ollama:NAME\" or a bare NAME, \"openai:NAME@URL\", \"replay:FILE\", Intents(…), or a list of them: the first that is healthy and able answers."},
	{Name: "fn", Type: value.Either(value.Callable, value.Dict), Also: []string{"function", "run", "func", "handler", "callback"}, Doc: "In place of a model: called with the task, the state, in a society the turn, and with ctx, as far as it takes them. Text it returns is the reply, anything else the output; Declined(reason) and EXIT say what they say. For turns in societies it may be a dict of functions by kind of turn: work, bid, submit, review, accept, agree, judge, vote, merge, escalate."},
	{Name: "topic", Type: value.String, Doc: "In place of a model: where a peer, on this robot or another, takes tasks; see agent.serve."},
	{Name: "tools", Type: value.List, Also: []string{"functions", "skills", "actions"}, Doc: "What its model can call: functions, Tool(…), agents, mcp(…). More than 6 confuse small models."},
	{Name: "output", Type: outputType, Also: []string{"schema", "response_format", "response_model", "output_type", "output_schema", "result_type"}, Doc: "The form of its answer: a JSON schema, a dict {\"room\": \"one of hall, dock\", \"score\": \"(int, 0..10)\"}, an Artifact(…) that has one, or a function with such parameters."},
	{Name: "handoffs", Type: value.ListOf(agentKind.Type()), Also: []string{"agents", "sub_agents", "delegates"}, Doc: "Agents that may go on in its place; they see the dialogue so far."},
	{Name: "traits", Type: value.Dict, Doc: "Its character, HEXACO, each from 0 to 1: honesty emotionality extraversion agreeableness conscientiousness openness."},
	{Name: "mood", Type: value.Dict, Doc: "Its mood to begin with, each from -1 to 1: valence arousal dominance."},
	{Name: "mood_half_life", Type: value.Duration, Doc: "The time in which half of a change of mood is gone; if missing it stays."},
	{Name: "capabilities", Type: value.ListOf(value.String), Doc: "What it can be asked for with pool.request."},
	{Name: "examples", Type: value.ListOf(value.String), Doc: "Three to five tasks for it, in the words people use: find_agent goes by them."},
	{Name: "allow", Type: value.ListOf(value.String), Doc: "The tools that it and whoever it delegates to may use: names, or prefixes that end in *. All if missing."},
	{Name: "trust", Type: value.ListOf(value.String), Doc: "Whose words are orders for it, besides people's and scripts': origins such as \"mqtt\" or \"hw:*\"."},
	{Name: "max_tool_hops", Type: value.Between(value.Int, 0, 50), Default: 3, Also: []string{"max_turns", "max_iterations", "max_iter", "max_steps"}, Doc: "Rounds of tool calls in one run."},
	{Name: "tool_choice", Type: value.OneOf("auto", "required_first", "required"), Default: "auto", Doc: "When its model must call a tool."},
	{Name: "temperature", Type: value.Between(value.Number, 0, 2), Doc: "How freely it answers; 0 is always the likeliest. The model's own if missing."},
	{Name: "seed", Type: value.Int, Doc: "Makes a free answer repeatable."},
	{Name: "memory", Type: memoryType, Doc: "True, a scope, or Memory(…): it is told what it knows about the task, and gets remember, recall and forget as tools."},
	{Name: "hooks", Type: value.List, Also: []string{"guardrails", "callbacks", "middleware"}, Doc: "What looks into its runs: Hook(…), hook.token_budget(…), or names of those that need no settings."},
	{Name: "session", Type: value.OneOf("keep", "fresh"), Default: "keep", Doc: "Whether it remembers the conversation."},
	{Name: "timeout", Type: value.Duration, Doc: "Ends a run that takes longer, waiting for the model included, with status timeout. A peer has a minute if nothing is said."},
	{Name: "bare", Type: value.Bool, Default: false, Doc: "Leave out the hooks that small models need."},
	{Name: "fuzzy", Type: value.Between(value.Float, 0, 1), Doc: "How sure a sentence must be that is not word for word, for model \"intent\"; 0.8 if missing."},
}

const agentDoc = "Makes an agent: something with a name that runs a task and gives a result. It thinks with a model, or is a function, or a peer elsewhere. A failure is a result, too; it never takes the caller down."

const agentExample = `def go_to(place):
    """Drive to a room.

    Args:
      place: one of kitchen, hall, dock
    """
    return hw.device("base").drive_to(place)

butler = Agent(
    "butler",
    role = "drives about the flat",
    model = ["intent", "ollama:qwen2.5:1.5b"],
    tools = [Tool(go_to, effect = "write", sentences = ["(go|drive) to [the] {place}"], response = "Off to the {place}.")],
)
on("voice/utterance", lambda ev: robot.say(butler.run(ev["text"], conversation = "voice").reply))`

var agentRows = []row{
	{value.Func{Name: "Agent", Doc: agentDoc, Params: agentParams, Returns: "an agent", Example: agentExample}, (*Behaviour).agent},
	{value.Func{Name: "LLMAgent", Doc: "The same as Agent.", Params: agentParams, Returns: "an agent"}, (*Behaviour).agent},
	{value.Func{
		Name: "Declined", Doc: "What an agent, a tool or a volunteer returns that cannot do its task and says so.",
		Example: "def fetch(task):\n    if task != \"cup\":\n        return Declined(\"I only fetch cups\")\n    return \"here it is\"",
		Params:  []value.Param{{Name: "reason", Type: value.String, Required: true, Positional: true, Doc: "Why."}},
		Returns: "a value to return",
	}, func(_ *Behaviour, c *value.Call) (starlark.Value, error) {
		return declinedKind.Wrap(declined(c.String("reason"))), nil
	}},
	{value.Func{
		Name: "decline", Doc: "Ends the run of the agent or tool it is called in: it cannot do its task. The same as to return Declined(reason), from anywhere.",
		Example: "def need(key):\n    if not bb.has(key):\n        decline(\"I don't know \" + key)\n    return bb.get(key)",
		Params:  []value.Param{{Name: "reason", Type: value.String, Required: true, Positional: true, Doc: "Why."}},
	}, func(_ *Behaviour, c *value.Call) (starlark.Value, error) {
		return nil, &refusal{c.String("reason")}
	}},
}

// refusal is the error of decline.
type refusal struct{ reason string }

func (r *refusal) Error() string { return "declined: " + r.reason }

// ofDecline gives the outcome of a run that called decline; other errors are
// as they are.
func ofDecline(err error) error {
	var r *refusal
	if errors.As(err, &r) {
		return agent.Declined(r.reason)
	}
	return err
}

// declined is what Declined(…) makes.
type declined string

var declinedKind = &value.Kind[declined]{
	Name: "declined", Fixed: true, Doc: "A refusal with its reason, see Declined.",
	Attrs: []value.Attr[declined]{{Name: "reason", Doc: "Why.", Type: value.String, Get: func(d declined) (any, error) { return string(d), nil }}},
	Truth: func(declined) bool { return false },
}

// verdict is a word that scripts return: EXIT, PASS.
type verdict string

var verdictKind = &value.Kind[verdict]{
	Name: "verdict", Fixed: true, Doc: "A word that a function returns: EXIT, PASS.",
	String: func(v verdict) string { return string(v) },
	Key:    func(v verdict) string { return string(v) },
}

var (
	exitValue = verdictKind.Wrap("EXIT")
	passValue = verdictKind.Wrap("PASS")
)

// identity is what is known of an agent of any kind.
type identity struct {
	b            *Behaviour
	name         string
	role         string
	instructions string
	at           script.Position
	timeout      time.Duration
	capabilities []string
	examples     []string
	traits, mood map[string]any
	character    *graph.Character
}

// Name implements agent.Agent.
func (a *identity) Name() string { return a.name }

// Role is what the agent is, in one line.
func (a *identity) Role() string { return a.role }

// Capabilities are what the agent can be asked for.
func (a *identity) Capabilities() []string { return a.capabilities }

func (a *identity) about() *identity { return a }

// aboutAgent gives what is known of an agent; of one that says nothing, its name.
func aboutAgent(a agent.Agent) *identity {
	if known, ok := a.(interface{ about() *identity }); ok {
		return known.about()
	}
	return &identity{name: a.Name()}
}

// scriptAgent is an agent made of a script function.
type scriptAgent struct {
	identity
	cb    *callback            // for tasks
	kinds map[string]*callback // of turns in societies; nil: cb is for all
}

var _ agent.Agent = (*scriptAgent)(nil)

func (b *Behaviour) agent(c *value.Call) (starlark.Value, error) {
	id := identity{
		b: b, name: c.String("name"), role: c.String("role"), instructions: c.String("instructions"), at: where(c),
		timeout: c.Duration("timeout"), capabilities: c.Strings("capabilities"), examples: c.Strings("examples"),
	}
	if err := validName(id.name); err != nil {
		return nil, c.Errorf("name", "argument \"name\": %v", err)
	}
	given := 0
	for _, kind := range []string{"fn", "model", "topic"} {
		if c.Has(kind) {
			given++
		}
	}
	if given != 1 {
		return nil, &value.Error{Msg: "an agent is made of one of fn, model and topic", Hint: "a function: fn = …; a model: model = \"ollama:qwen2.5:1.5b\"; a peer: topic = \"fleet/scout/tasks\""}
	}
	var err error
	if id.traits, err = scale(c, "traits", 0, "honesty", "emotionality", "extraversion", "agreeableness", "conscientiousness", "openness"); err != nil {
		return nil, err
	}
	if id.mood, err = scale(c, "mood", -1, "valence", "arousal", "dominance"); err != nil {
		return nil, err
	}
	if err = character(c, &id); err != nil {
		return nil, err
	}
	var a agent.Agent
	switch {
	case c.Has("fn"):
		a, err = newScriptAgent(c, id)
	case c.Has("topic"):
		a, err = newPeer(c, id)
	default:
		a, err = newModelAgent(c, id)
	}
	if err != nil {
		return nil, err
	}
	b.noteInbox(id.name)
	b.noteAgent(id.name)
	if script.Loading(c.Thread) {
		b.noteMade(a)
	}
	return agentKind.Wrap(a), nil
}

// modelOnly are the arguments that mean something only with a model.
var modelOnly = []string{"tools", "output", "handoffs", "memory", "hooks", "temperature", "seed", "allow", "trust", "fuzzy"}

func withoutModel(c *value.Call) error {
	for _, name := range modelOnly {
		if c.Has(name) {
			return c.Errorf(name, "argument %q is for agents with a model", name)
		}
	}
	return nil
}

func newScriptAgent(c *value.Call, id identity) (agent.Agent, error) {
	if err := withoutModel(c); err != nil {
		return nil, err
	}
	if m, is := c.Value("fn").(starlark.IterableMapping); is {
		return newKindedAgent(c, id, m)
	}
	cb, err := turnCallback(c, "fn", c.Callable("fn"))
	if err != nil {
		return nil, err
	}
	return &scriptAgent{id, cb, nil}, nil
}

// scale reads numbers by name from lo to 1.
func scale(c *value.Call, arg string, lo float64, known ...string) (map[string]any, error) {
	m, err := c.Dict(arg)
	if err != nil {
		return nil, err
	}
	for k, v := range m {
		f, ok := v.(float64)
		if i, whole := v.(int64); whole {
			f, ok = float64(i), true
		}
		if !slices.Contains(known, k) {
			hint := "there are " + strings.Join(known, ", ")
			if near := value.Nearest(k, known); near != "" {
				hint = fmt.Sprintf("did you mean %q?", near)
			}
			return nil, &value.Error{Func: c.Name(), Arg: arg, Msg: fmt.Sprintf("argument %q: unknown %q", arg, k), Hint: hint}
		}
		if !ok || f < lo || f > 1 {
			return nil, c.Errorf(arg, "argument %q: %s is a number from %v to 1, got %v", arg, k, lo, v)
		}
		m[k] = f
	}
	return m, nil
}

// Run implements agent.Agent.
func (a *scriptAgent) Run(ctx context.Context, t agent.Task) (agent.Result, error) {
	ctx, over := a.b.turn(ctx)
	defer over()
	caller := ctx
	if a.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, a.timeout)
		defer cancel()
	}
	task, err := value.FromGo(t.Input)
	if err != nil {
		return agent.Result{}, err
	}
	r := a.run(script.WithRole(ctx, fmt.Sprintf("agent %q", a.name)), t)
	if a.cb == nil {
		return agent.Result{}, agent.Declined(fmt.Sprintf("%s has no function \"work\" for tasks", a.name))
	}
	v, err := a.b.do(r, a.cb, task, a.b.worldFor(r, a.cb, 1), starlark.None)
	if agent.StatusOf(err) == agent.Timeout && caller.Err() == nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: no answer within %v", agent.ErrTimeout, a.timeout)
	}
	if err != nil {
		return agent.Result{Origin: origin.From(r)}, ofDecline(err)
	}
	return saidBy(r, v)
}

// saidBy makes a result of what a function returned: it is of all that the run
// has read.
func saidBy(r *run, v starlark.Value) (agent.Result, error) {
	res, err := resultOf(v)
	res.Origin = origin.Merge(res.Origin, origin.From(r))
	return res, err
}

// run is a run of the agent. What runs for a tool that only reads does, too.
func (a *identity) run(ctx context.Context, t agent.Task) *run {
	r := &run{Context: ctx, b: a.b, source: "agent:" + a.name, more: &more{name: a.name, task: t.Input}}
	if outer := runOf(ctx); outer != nil {
		r.reads = outer.reads
	}
	return r
}

// resultOf makes a result of what a function returned.
func resultOf(v starlark.Value) (agent.Result, error) {
	switch {
	case v == starlark.None:
		return agent.Result{}, nil
	case v == exitValue:
		return agent.Result{}, agent.ErrExit
	}
	if s, ok := v.(starlark.String); ok {
		return agent.Result{Reply: string(s)}, nil
	}
	if d, ok := declinedKind.As(v); ok {
		return agent.Result{}, agent.Declined(string(d))
	}
	if r, ok := resultKind.As(v); ok {
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
		{Name: "role", Doc: "What it is, in one line.", Type: value.String, Get: func(a agent.Agent) (any, error) { return aboutAgent(a).role, nil }},
		{Name: "instructions", Doc: "What its model is told.", Type: value.String, Get: func(a agent.Agent) (any, error) { return aboutAgent(a).instructions, nil }},
		{Name: "capabilities", Doc: "What it can be asked for.", Get: func(a agent.Agent) (any, error) { return aboutAgent(a).capabilities, nil }},
		{Name: "traits", Doc: "Its character, as it was declared.", Get: func(a agent.Agent) (any, error) { return aboutAgent(a).traits, nil }},
		{Name: "mood", Doc: "Its mood as it is now.", Get: func(a agent.Agent) (any, error) { return moodNow(a), nil }},
		{Name: "tools", Doc: "The names of its tools.", Get: func(a agent.Agent) (any, error) {
			names := []string{}
			if m, ok := a.(*modelAgent); ok {
				names = m.toolNames()
			}
			return names, nil
		}},
	},
	Methods: agentMethods,
	String:  func(a agent.Agent) string { return fmt.Sprintf("<agent %s>", a.Name()) },
	Key:     func(a agent.Agent) string { return fmt.Sprintf("%s %p", a.Name(), a) },
}

var agentMethods = []value.Method[agent.Agent]{
	{
		Func: value.Func{
			Name: "run", Doc: "Runs a task and waits for the result. It never fails: look at .ok.",
			Example: "r = planner.run({\"goal\": \"pick cup\"})\nif not r.ok:\n    log.warn(r.reason)",
			Params:  runParams, Returns: "a result", Blocks: true,
		},
		Do: func(a agent.Agent, c *value.Call) (starlark.Value, error) { return runAgent(c, a) },
	},
	{
		Func: value.Func{
			Name: "stream", Doc: "Runs a task and yields its answer while it comes, sentence by sentence. Leaving the loop early ends the run.",
			Example: "s = butler.stream(\"tell me about the kitchen\")\nfor sentence in s:\n    robot.say(sentence)\nlog.info(s.result().status)",
			Params:  runParams, Returns: "a stream",
		},
		Do: func(a agent.Agent, c *value.Call) (starlark.Value, error) { return streamAgent(c, a) },
	},
	{
		Func: value.Func{
			Name: "as_tool", Doc: "Makes a tool of the agent: it gets one task in words and gives its reply. It is limited like the agent that calls it, and starts without its dialogue.",
			Example: "boss = Agent(\"boss\", model = \"qwen2.5:1.5b\", tools = [cook.as_tool()])",
			Params: []value.Param{
				{Name: "name", Type: value.String, Default: "", Doc: "What the model calls it; the agent's name if missing."},
				{Name: "doc", Type: value.String, Default: "", Doc: "What the model is told; made of the agent's role if missing."}},
			Returns: "a tool",
		},
		Do: func(a agent.Agent, c *value.Call) (starlark.Value, error) { return agentAsTool(c, a) },
	},
	{
		Func: value.Func{
			Name: "serve", Doc: "Lets others, on this robot or another, give it tasks and turns of their societies: they say Agent(…, topic = …). What comes from elsewhere is data to a model, and leads to no tool that acts unless the agent trusts its origin.",
			Example: "Agent(\"scout\", fn = lambda task: \"seen: \" + task).serve(\"guard/scout\")",
			Params:  []value.Param{{Name: "topic", Type: value.String, Required: true, Positional: true, Doc: "Where the tasks come in."}},
		},
		Do: func(a agent.Agent, c *value.Call) (starlark.Value, error) { return serveAgent(c, a) },
	},
	moodMethods[0], moodMethods[1],
}

// runParams are what a run takes; from the third on they are also what
// pool.make_ctx keeps for several runs.
var runParams = []value.Param{
	{Name: "task", Type: value.Data, Positional: true, Doc: "Text, or a JSON value."},
	{Name: "ctx", Type: value.Either(poolContextKind.Type(), contextKind.Type()), Positional: true, Doc: "What pool.make_ctx(…) gave: what is not said here is as it says. A run inherits the context it is called in, so the ctx of a function may be left out."},
	{Name: "conversation", Type: value.String, Default: "", Doc: "Tasks with the same id share a session."},
	{Name: "origin", Type: value.String, Default: "", Doc: "Whose words the task is, besides those that the run has read: \"mqtt\", \"http:example.org\"."},
	{Name: "priority", Type: value.OneOf("background", "workflow", "person"), Doc: "How urgent it is where requests wait for a model. If missing: a person's if it was spoken, background in a background agent."},
	{Name: "hooks", Type: value.List, Doc: "Hooks of this run alone, after the agent's own."},
}

// runAgent runs an agent for a script that waits for it.
func runAgent(c *value.Call, a agent.Agent) (starlark.Value, error) {
	ctx, t, err := taskOf(c)
	if err != nil {
		return nil, err
	}
	var res agent.Result
	if _, ok := a.(*flow); ok { // which tells of itself
		res, err = agent.Run(ctx, a, t)
	} else if r := runOf(ctx); r != nil {
		res, err = background.Perform(ctx, r.b.host.Bus, a, t)
	} else {
		res, err = agent.Run(ctx, a, t)
	}
	origin.Raise(ctx, res.Origin)
	return performed(res, err), nil
}

// taskOf reads the arguments of a run.
func taskOf(c *value.Call) (context.Context, agent.Task, error) {
	var t agent.Task
	if err := acts(c); err != nil {
		return nil, t, err
	}
	input, err := c.Tree("task")
	if err != nil {
		return nil, t, err
	}
	var shared poolContext
	if x, err := poolContextKind.Unwrap(c.Value("ctx")); err == nil {
		shared = *x
	}
	t = agent.Task{Input: input, Conversation: cmp.Or(c.String("conversation"), shared.conversation), Origin: origin.From(c.Context())}
	for _, more := range []string{c.String("origin"), shared.origin} {
		if more != "" {
			t.Origin = origin.Merge(t.Origin, origin.Parse(more))
		}
	}
	ctx := c.Context()
	r := runOf(ctx)
	if r != nil {
		if len(shared.hooks) > 0 {
			ctx = llm.WithHooks(ctx, shared.hooks...)
		}
		if ctx, err = r.b.withHooks(c, ctx); err != nil {
			return nil, t, err
		}
	}
	return withPriority(ctx, r, cmp.Or(c.String("priority"), shared.priority)), t, nil
}

// handled is the event of a handler.
func (r *run) handled() *event {
	if !r.handler {
		return nil
	}
	e, err := eventKind.Unwrap(r.args[0])
	if err != nil {
		return nil
	}
	return e
}

// withPriority says how urgent the requests are that a run makes.
func withPriority(ctx context.Context, r *run, asked string) context.Context {
	switch asked {
	case "background":
		return llm.WithPriority(ctx, llm.Background)
	case "workflow":
		return llm.WithPriority(ctx, llm.Workflow)
	case "person":
		return llm.WithPriority(ctx, llm.Person)
	}
	if r != nil {
		if e := r.handled(); e != nil && strings.HasPrefix(e.Topic, "voice/") {
			return llm.WithPriority(ctx, llm.Person)
		}
	}
	return ctx
}

// behind is an agent whose requests let all others pass.
func behind(a agent.Agent) agent.Agent { return &lowly{a} }

type lowly struct{ agent.Agent }

func (l *lowly) Run(ctx context.Context, t agent.Task) (agent.Result, error) {
	return l.Agent.Run(llm.WithPriority(ctx, llm.Background), t)
}
