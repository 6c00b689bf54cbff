package lib

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"go.starlark.net/starlark"

	"edged/agent"
	"edged/agent/llm"
	"edged/agent/llm/memory"
	"edged/agent/llm/schema"
	"edged/starlark/value"
)

var points = []string{"on_run_start", "before_model", "after_model", "before_tool", "after_tool", "on_run_end"}

func pointParams() []value.Param {
	list := []value.Param{{Name: "name", Type: value.String, Default: "hook", Positional: true, Doc: "What messages call it."}}
	docs := []string{
		"Before anything else; step.task may be replaced.",
		"Before each request to the model.",
		"After each answer; step.answer may be replaced.",
		"Before a tool runs; step.args may be replaced, and with a result it isn't run.",
		"After a tool; what the model is given may be replaced.",
		"At the end; step.reply may be replaced.",
	}
	for i, p := range points {
		list = append(list, value.Param{Name: p, Type: value.Callable, Doc: docs[i]})
	}
	return append(list,
		value.Param{Name: "priority", Type: value.Int, Default: 0, Doc: "The highest is called first: 100 safety, 50 repair, 0 observation."},
		value.Param{Name: "safety", Type: value.Bool, Default: false, Doc: "If it fails, the run ends as blocked; any other is reported and left out."},
	)
}

var hookFormRows = []row{
	{value.Func{
		Name: "Hook", Doc: "Makes a hook of functions that are called with a step at points of an agent's runs. One lets pass by returning None, replaces by step.replace(…), and ends the run by step.end(…) or Declined(reason).",
		Example: "def calm(step):\n    if \"!\" in step.answer:\n        return step.replace(answer = step.answer.replace(\"!\", \".\"))\n\nbutler = Agent(\"butler\", model = \"qwen2.5:1.5b\", hooks = [Hook(after_model = calm)])",
		Params:  pointParams(), Returns: "a hook",
	}, (*Behaviour).hook},
}

var hookRows = []row{
	{value.Func{
		Name: "hook.input_guardrail", Doc: "Blocks tasks.", Example: "hook.input_guardrail([\"password\"], reply = \"I keep no passwords.\")",
		Params: guardParams("task"), Returns: "a hook",
	}, (*Behaviour).inputGuardrail},
	{value.Func{
		Name: "hook.output_guardrail", Doc: "Blocks answers before they are said.", Example: "hook.output_guardrail([\"guarantee\"], reply = \"I can't promise that.\")",
		Params: guardParams("text"), Returns: "a hook",
	}, (*Behaviour).outputGuardrail},
	{value.Func{
		Name: "hook.plan_mode", Doc: "Asks before tools run; without approval they aren't, and the model is told.", Example: "hook.plan_mode(tools = [\"open_door\"])",
		Params: []value.Param{
			{Name: "tools", Type: value.ListOf(value.String), Positional: true, Doc: "Which; all with effect write if missing."},
			{Name: "approve", Type: value.Callable, Doc: "Decides; called with the tool's name and a dict of its arguments. A person if missing."}},
		Returns: "a hook",
	}, (*Behaviour).planMode},
	intHook("token_budget", "tokens", 4000, "Ends a run as failed, token_budget, before a request that would take it beyond so many tokens, asked and answered. The first request is always made.", llm.TokenBudget),
	intHook("truncate_results", "bytes", 2000, "Cuts what tools give the model.", llm.TruncateResults),
	intHook("compaction", "tokens", 2000, "Cuts the history of requests, the oldest turns first.", llm.Compaction),
	intHook("tool_error_budget", "times", 2, "Tells the model to try something else after a tool failed so often.", llm.ToolErrorBudget),
	intHook("max_length", "bytes", 600, "Cuts answers after the last sentence that fits.", llm.MaxLength),
	plainHook("no_personal_data", "Takes e-mail addresses, telephone, card and account numbers out of answers.", llm.NoPersonalData),
	plainHook("loop_detector", "Answers a repeated call by a hint and ends the run at the third. Always there.", llm.LoopDetector),
	plainHook("echoed_payload", "Puts a tool's result that is read out into words. Always there.", llm.EchoedPayload),
	plainHook("schema_retry", "Tells the real parameters after arguments of the wrong shape. Always there.", llm.SchemaRetry),
	{value.Func{
		Name: "hook.schema_check", Doc: "Fails runs whose answer has not a form.", Example: "hook.schema_check({\"ok\": \"bool\"})",
		Params: []value.Param{{Name: "output", Type: outputType, Required: true, Positional: true, Doc: "The form, as for Agent."}}, Returns: "a hook",
	}, func(_ *Behaviour, c *value.Call) (starlark.Value, error) {
		s, err := outputSchema(c, "output")
		if err != nil {
			return nil, err
		}
		return hookKind.Wrap(llm.SchemaCheck(s)), nil
	}},
	{value.Func{
		Name: "hook.memory_injection", Doc: "Tells the model what is remembered about the task.", Example: "hook.memory_injection(scope = \"home\")",
		Params: []value.Param{
			{Name: "scope", Type: value.String, Doc: "Whose facts; the folder's own if missing."},
			{Name: "recall", Type: value.Callable, Doc: "In place of the memory: called with the task, gives the text."}},
		Returns: "a hook",
	}, (*Behaviour).injection},
	{value.Func{
		Name: "hook.episode_log", Doc: "Keeps every run as an episode: see memory.episodes.", Example: "hook.episode_log()",
		Params:  []value.Param{{Name: "write", Type: value.Callable, Positional: true, Doc: "In place of the memory: called with a dict of agent, task, origin, status, reply, reason, tools, took."}},
		Returns: "a hook",
	}, (*Behaviour).episodeLog},
	{value.Func{
		Name: "hook.audit_log", Doc: "Writes every call to the robot's audit, which has a hash chain. It is always there where the robot keeps one.", Example: "hook.audit_log()", Returns: "a hook",
	}, func(b *Behaviour, c *value.Call) (starlark.Value, error) {
		if b.host.Audit == nil {
			return nil, errors.New("this robot keeps no audit")
		}
		return hookKind.Wrap(llm.Hook{Name: "audit_log"}), nil // it is there already
	}},
	{value.Func{
		Name: "hook.timing", Doc: "Publishes where a run's time went: edged/agent/<name>/timing with total, model and tools in seconds.", Example: "hook.timing()", Returns: "a hook",
	}, func(b *Behaviour, c *value.Call) (starlark.Value, error) {
		return hookKind.Wrap(llm.Timing(func(ctx context.Context, name string, t llm.Timings) {
			b.tell(ctx, "agent:"+name, "edged/agent/"+name+"/timing", map[string]any{"total": t.Total.Seconds(), "model": t.Model.Seconds(), "tools": t.Tools.Seconds()})
		})), nil
	}},
}

func guardParams(what string) []value.Param {
	return []value.Param{
		{Name: "check", Type: value.Either(value.Callable, value.ListOf(value.String)), Required: true, Positional: true,
			Doc: "Words and phrases that are not for it, or a function of the " + what + ": False or Declined(reason) blocks."},
		{Name: "reply", Type: value.String, Default: "", Doc: "What is said then."},
	}
}

func plainHook(name, doc string, make func() llm.Hook) row {
	return row{value.Func{Name: "hook." + name, Doc: doc, Example: "hook." + name + "()", Returns: "a hook"},
		func(*Behaviour, *value.Call) (starlark.Value, error) { return hookKind.Wrap(make()), nil }}
}

func intHook(name, param string, usual int, doc string, make func(int) llm.Hook) row {
	return row{value.Func{
		Name: "hook." + name, Doc: doc, Example: fmt.Sprintf("hook.%s(%d)", name, usual),
		Params:  []value.Param{{Name: param, Type: value.Between(value.Int, 1, 1e9), Default: usual, Positional: true, Doc: "How many."}},
		Returns: "a hook",
	}, func(_ *Behaviour, c *value.Call) (starlark.Value, error) {
		return hookKind.Wrap(make(c.Int(param))), nil
	}}
}

var hookKind = &value.Kind[llm.Hook]{
	Name: "hook", Doc: "Something that looks into an agent's runs, see Hook.",
	Attrs:  []value.Attr[llm.Hook]{{Name: "name", Doc: "What messages call it.", Type: value.String, Get: func(h llm.Hook) (any, error) { return h.Name, nil }}},
	String: func(h llm.Hook) string { return fmt.Sprintf("<hook %s>", h.Name) },
}

// hooksOf reads a list of hooks and of names of those that need no settings.
func (b *Behaviour) hooksOf(c *value.Call, arg string) ([]llm.Hook, error) {
	var list []llm.Hook
	for i, v := range c.List(arg) {
		if h, err := hookKind.Unwrap(v); err == nil {
			list = append(list, h)
			continue
		}
		name, ok := starlark.AsString(v)
		if !ok {
			return nil, c.Errorf(arg, "argument %q: element %d: want a hook or its name, got %s", arg, i, v.Type())
		}
		made, err := b.hookNamed(c, name)
		var e *value.Error
		if errors.As(err, &e) {
			return nil, &value.Error{Func: c.Name(), Arg: arg, Msg: e.Msg, Hint: e.Hint}
		}
		if err != nil {
			return nil, c.Errorf(arg, "argument %q: %v", arg, err)
		}
		list = append(list, made)
	}
	return list, nil
}

func (b *Behaviour) hookNamed(c *value.Call, name string) (h llm.Hook, err error) {
	module, ok := b.predeclared["hook"].(*value.Module)
	if !ok {
		return h, errors.New("there are no hooks")
	}
	make, err := module.Attr(name)
	if err != nil {
		var e *value.Error
		if errors.As(err, &e) {
			return h, &value.Error{Msg: fmt.Sprintf("there is no hook %q", name), Hint: e.Hint}
		}
		return h, err
	}
	v, err := c.Run(make.(starlark.Callable))
	if err != nil {
		return h, err
	}
	return hookKind.Unwrap(v)
}

// withHooks adds the hooks of one run.
func (b *Behaviour) withHooks(c *value.Call, ctx context.Context) (context.Context, error) {
	if !c.Declares("hooks") || !c.Has("hooks") {
		return ctx, nil
	}
	list, err := b.hooksOf(c, "hooks")
	if err != nil {
		return nil, err
	}
	return llm.WithHooks(ctx, list...), nil
}

// hook is Hook(…).
func (b *Behaviour) hook(c *value.Call) (starlark.Value, error) {
	h := llm.Hook{Name: c.String("name"), Priority: c.Int("priority"), Safety: c.Bool("safety")}
	at := []*func(context.Context, *llm.Step) error{&h.OnRunStart, &h.BeforeModel, &h.AfterModel, &h.BeforeTool, &h.AfterTool, &h.OnRunEnd}
	some := false
	for i, p := range points {
		cb, err := newCallback(c, p, "step")
		if err != nil {
			return nil, err
		}
		if cb == nil {
			continue
		}
		some = true
		*at[i] = func(ctx context.Context, s *llm.Step) error { return b.look(ctx, cb, s) }
	}
	if !some {
		return nil, &value.Error{Msg: "a hook needs a function for one of the points", Hint: "as in Hook(before_tool = fn)"}
	}
	h.Whole = h.AfterModel != nil || h.OnRunEnd != nil
	return hookKind.Wrap(h), nil
}

// look calls a script's function at a point and does what it says.
func (b *Behaviour) look(ctx context.Context, cb *callback, s *llm.Step) error {
	r := b.runFor(ctx, s.Turn.Agent)
	v, err := b.do(r, cb, stepKind.Wrap(s))
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return ofDecline(err)
	}
	if d, err := declinedKind.Unwrap(v); err == nil {
		return &llm.End{Err: agent.Declined(string(d))}
	}
	if end, err := endKind.Unwrap(v); err == nil {
		return end
	}
	if more, err := changeKind.Unwrap(v); err == nil {
		return more.apply(s)
	}
	if v != starlark.None {
		return fmt.Errorf("hook %s returned a %s: want None, step.replace(…) or step.end(…)", cb.name, v.Type())
	}
	return nil
}

// runFor is a run of script code on behalf of an agent's run.
func (b *Behaviour) runFor(ctx context.Context, name string) *run {
	r := &run{Context: ctx, b: b, source: "agent:" + name, more: &more{name: name, tool: true}}
	if outer := runOf(ctx); outer != nil && outer.more != nil {
		r.task = outer.task
	}
	return r
}

// verdictOf asks a function that decides.
func (b *Behaviour) verdictOf(ctx context.Context, cb *callback, about ...any) error {
	var args []starlark.Value
	for _, a := range about {
		v, err := value.FromGo(a)
		if err != nil {
			return err
		}
		args = append(args, v)
	}
	name := ""
	if r := runOf(ctx); r != nil {
		name = r.agent()
	}
	v, err := b.do(b.runFor(ctx, name), cb, args...)
	if err != nil {
		var no *refusal
		if errors.As(err, &no) {
			return errors.New(no.reason)
		}
		return err
	}
	if d, err := declinedKind.Unwrap(v); err == nil {
		return errors.New(string(d))
	}
	if v != starlark.None && !v.Truth() {
		return errNo
	}
	return nil
}

// judge reads the argument check.
func (b *Behaviour) judge(c *value.Call, offered string) (func(ctx context.Context, text string) error, error) {
	if _, ok := c.Value("check").(starlark.Callable); !ok {
		return llm.NoneOf(c.Strings("check")...), nil
	}
	cb, err := newCallback(c, "check", offered)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, text string) error { return b.verdictOf(ctx, cb, text) }, nil
}

func (b *Behaviour) inputGuardrail(c *value.Call) (starlark.Value, error) {
	check, err := b.judge(c, "task")
	if err != nil {
		return nil, err
	}
	return hookKind.Wrap(llm.InputGuardrail(c.String("reply"), func(ctx context.Context, t agent.Task) error { return check(ctx, t.Text()) })), nil
}

func (b *Behaviour) outputGuardrail(c *value.Call) (starlark.Value, error) {
	check, err := b.judge(c, "text")
	if err != nil {
		return nil, err
	}
	return hookKind.Wrap(llm.OutputGuardrail(c.String("reply"), check)), nil
}

func (b *Behaviour) planMode(c *value.Call) (starlark.Value, error) {
	cb, err := newCallback(c, "approve", "tool", "args")
	if err != nil {
		return nil, err
	}
	approve := func(ctx context.Context, t llm.Tool, args json.RawMessage) error {
		if cb != nil {
			return b.verdictOf(ctx, cb, t.Name, decoded(args))
		}
		return (&tool{b: b, Tool: t}).askPerson(ctx, llm.Call{Name: t.Name, Args: args})
	}
	return hookKind.Wrap(llm.PlanMode(approve, c.Strings("tools")...)), nil
}

func (b *Behaviour) injection(c *value.Call) (starlark.Value, error) {
	cb, err := newCallback(c, "recall", "task")
	if err != nil {
		return nil, err
	}
	if cb == nil {
		scope, err := b.scope(c, "scope")
		if err != nil {
			return nil, err
		}
		return hookKind.Wrap(llm.MemoryInjection(func(ctx context.Context, t agent.Task) (string, error) {
			return b.known0(ctx, scope, t.Text(), injected, b.trusted)
		})), nil
	}
	return hookKind.Wrap(llm.MemoryInjection(func(ctx context.Context, t agent.Task) (string, error) {
		task, err := value.FromGo(t.Input)
		if err != nil {
			return "", err
		}
		v, err := b.do(b.runFor(ctx, "memory"), cb, task)
		if err != nil || v == starlark.None {
			return "", err
		}
		text, ok := starlark.AsString(v)
		if !ok {
			return "", fmt.Errorf("%s returned a %s, want text", cb.name, v.Type())
		}
		return text, nil
	})), nil
}

func (b *Behaviour) episodeLog(c *value.Call) (starlark.Value, error) {
	cb, err := newCallback(c, "write", "episode")
	if err != nil {
		return nil, err
	}
	return hookKind.Wrap(llm.EpisodeLog(func(ctx context.Context, e llm.Episode) error {
		if cb == nil {
			return b.happened(ctx, e)
		}
		m := map[string]any{"agent": e.Agent, "task": e.Task, "origin": string(e.Origin), "status": string(e.Status), "reply": e.Reply, "reason": e.Reason, "tools": e.Tools, "took": e.Took}
		v, err := value.FromGo(m)
		if err != nil {
			return err
		}
		_, err = b.do(b.runFor(ctx, e.Agent), cb, v)
		return err
	})), nil
}

func (b *Behaviour) happened(ctx context.Context, e llm.Episode) error {
	if b.host.Memory == nil {
		return errNoMemory
	}
	_, err := b.host.Memory.Happened(ctx, memory.Episode{Agent: e.Agent, Task: e.Task, Outcome: string(e.Status), Reply: e.Reply, Tags: e.Tools})
	return err
}

// change is what step.replace makes.
type change struct {
	task, result, reply any
	answer              string
	args                any
	err                 string
	has                 map[string]bool
}

var changeKind = &value.Kind[*change]{Name: "change", Doc: "What a hook replaces, see step.replace."}

var endKind = &value.Kind[*llm.End]{Name: "end", Doc: "The end of a run that a hook wants, see step.end."}

// apply changes a step as far as its point allows.
func (x *change) apply(s *llm.Step) error {
	allowed := map[string]bool{}
	switch s.Point {
	case llm.OnRunStart:
		allowed["task"] = true
	case llm.AfterModel:
		allowed["answer"] = true
	case llm.BeforeTool:
		allowed["args"], allowed["result"], allowed["error"] = true, true, true
	case llm.AfterTool:
		allowed["result"], allowed["error"] = true, true
	case llm.OnRunEnd:
		allowed["reply"] = true
	}
	for name := range x.has {
		if !allowed[name] {
			return fmt.Errorf("%s can't be replaced at %s", name, s.Point)
		}
	}
	var err error
	if x.has["task"] {
		s.Task.Input = x.task
	}
	if x.has["answer"] {
		s.Answer.Text = x.answer
	}
	if x.has["args"] {
		s.Call.Args, err = schema.Encode(x.args)
	}
	if x.has["result"] && err == nil {
		s.Err = nil
		s.Result, err = schema.Encode(x.result)
	}
	if x.has["error"] {
		s.Result, s.Err = nil, errors.New(x.err)
	}
	if x.has["reply"] {
		s.Final.Reply = agent.Task{Input: x.reply}.Text()
	}
	return err
}

var stepKind = &value.Kind[*llm.Step]{
	Name: "step", Doc: "What a hook sees of a run; what is not of its point is None. It is valid until the hook returns.",
	Attrs: []value.Attr[*llm.Step]{
		{Name: "point", Doc: "on_run_start … on_run_end.", Type: value.String, Get: func(s *llm.Step) (any, error) { return s.Point.String(), nil }},
		{Name: "agent", Doc: "Whose run it is.", Type: value.String, Get: func(s *llm.Step) (any, error) { return s.Turn.Agent, nil }},
		{Name: "task", Doc: "What is to be done.", Get: func(s *llm.Step) (any, error) {
			if s.Point == llm.OnRunStart {
				return s.Task.Input, nil
			}
			return s.Turn.Task.Input, nil
		}},
		{Name: "origin", Doc: "Whose words the task is.", Type: value.String, Get: func(s *llm.Step) (any, error) { return string(s.Turn.Origin()), nil }},
		{Name: "conversation", Doc: "Its id.", Type: value.String, Get: func(s *llm.Step) (any, error) { return s.Turn.Task.Conversation, nil }},
		{Name: "tainted", Doc: "Whether there are words in the prompt that are not to be obeyed.", Type: value.Bool, Get: func(s *llm.Step) (any, error) { return s.Turn.Tainted(), nil }},
		{Name: "hop", Doc: "Requests to the model so far.", Type: value.Int, Get: func(s *llm.Step) (any, error) { return int64(s.Turn.Hop), nil }},
		{Name: "messages", Doc: "The prompt: dicts of role, text, calls.", Get: func(s *llm.Step) (any, error) { return messageDicts(s.Request.Messages), nil }},
		{Name: "answer", Doc: "What the model said.", Get: func(s *llm.Step) (any, error) { return only(s, s.Answer.Text, llm.AfterModel), nil }},
		{Name: "calls", Doc: "What it wants to call: dicts of name, args.", Get: func(s *llm.Step) (any, error) { return callDicts(s.Answer.Calls), nil }},
		{Name: "tool", Doc: "The name of the tool that is called.", Get: func(s *llm.Step) (any, error) { return only(s, s.Call.Name, llm.BeforeTool, llm.AfterTool), nil }},
		{Name: "effect", Doc: "read or write.", Get: func(s *llm.Step) (any, error) {
			return only(s, string(s.Tool.Effect), llm.BeforeTool, llm.AfterTool), nil
		}},
		{Name: "args", Doc: "The call's arguments, a dict.", Get: func(s *llm.Step) (any, error) { return decoded(s.Call.Args), nil }},
		{Name: "result", Doc: "What the tool gave.", Get: func(s *llm.Step) (any, error) { return decoded(s.Result), nil }},
		{Name: "error", Doc: "What is wrong: with the tool, or at the end with the run.", Get: func(s *llm.Step) (any, error) {
			switch {
			case s.Err != nil:
				return s.Err.Error(), nil
			case s.Failure != nil:
				return s.Failure.Error(), nil
			}
			return nil, nil
		}},
		{Name: "ran", Doc: "Whether the tool was really run.", Type: value.Bool, Get: func(s *llm.Step) (any, error) { return s.Ran, nil }},
		{Name: "reply", Doc: "What the run says at its end.", Get: func(s *llm.Step) (any, error) { return only(s, s.Final.Reply, llm.OnRunEnd), nil }},
		{Name: "status", Doc: "How it ended.", Get: func(s *llm.Step) (any, error) {
			return only(s, string(agent.StatusOf(s.Failure)), llm.OnRunEnd), nil
		}},
		{Name: "receipts", Doc: "The tools that ran so far.", Get: func(s *llm.Step) (any, error) { return receipts(s.Turn.Receipts), nil }},
	},
	Methods: []value.Method[*llm.Step]{
		{
			Func: value.Func{
				Name: "replace", Doc: "Makes what a hook returns to change something.", Returns: "a value to return",
				Params: []value.Param{
					{Name: "task", Type: value.Data, Doc: "At on_run_start."},
					{Name: "answer", Type: value.String, Doc: "At after_model: the words."},
					{Name: "args", Type: value.Dict, Doc: "At before_tool; they are checked again."},
					{Name: "result", Type: value.Data, Doc: "At before_tool, in place of running it, and at after_tool."},
					{Name: "error", Type: value.String, Doc: "Likewise, an error."},
					{Name: "reply", Type: value.String, Doc: "At on_run_end."}},
			},
			Do: func(s *llm.Step, c *value.Call) (starlark.Value, error) {
				x := &change{has: map[string]bool{}, answer: c.String("answer"), err: c.String("error"), reply: c.String("reply")}
				for _, name := range []string{"task", "answer", "args", "result", "error", "reply"} {
					x.has[name] = c.Has(name)
				}
				for name, has := range x.has {
					if !has {
						delete(x.has, name)
					}
				}
				var err error
				for name, to := range map[string]*any{"task": &x.task, "args": &x.args, "result": &x.result} {
					if x.has[name] && err == nil {
						*to, err = c.Tree(name)
					}
				}
				return changeKind.Wrap(x), err
			},
		},
		{
			Func: value.Func{
				Name: "end", Doc: "Makes what a hook returns to end the run.", Returns: "a value to return",
				Params: []value.Param{
					{Name: "reply", Type: value.String, Default: "", Positional: true, Doc: "What is said."},
					{Name: "status", Type: value.OneOf("done", "failed", "blocked", "rejected", "escalated"), Default: "done", Doc: "How it ends."},
					{Name: "reason", Type: value.String, Default: "", Doc: "Why, if it is not done."}},
			},
			Do: func(s *llm.Step, c *value.Call) (starlark.Value, error) {
				e := &llm.End{Reply: c.String("reply")}
				if status := agent.Status(c.String("status")); status != agent.Done {
					e.Err = fmt.Errorf("%w: %s", sentinelOf(status), c.String("reason"))
				}
				return endKind.Wrap(e), nil
			},
		},
		{
			Func: value.Func{
				Name: "note", Doc: "At on_run_start: tells the model something beside the words of the task.",
				Params: []value.Param{{Name: "text", Type: value.String, Required: true, Positional: true, Doc: "What it should know."}},
			},
			Do: func(s *llm.Step, c *value.Call) (starlark.Value, error) {
				if s.Point != llm.OnRunStart {
					return nil, fmt.Errorf("notes are taken at on_run_start, this is %s", s.Point)
				}
				text := c.String("text")
				if s.Turn.Tainted() { // it may be made of what others said
					text = llm.Quote("note", text)
				}
				s.Turn.Notes = append(s.Turn.Notes, text)
				return nil, nil
			},
		},
	},
	String: func(s *llm.Step) string { return fmt.Sprintf("<step %s of %s>", s.Point, s.Turn.Agent) },
}

// only is a value at some points, nil at others.
func only(s *llm.Step, v any, at ...llm.Point) any {
	for _, p := range at {
		if p == s.Point {
			return v
		}
	}
	return nil
}

func messageDicts(list []llm.Message) []any {
	out := []any{}
	for _, m := range list {
		d := map[string]any{"role": string(m.Role), "text": m.Prompt()}
		if len(m.Calls) > 0 {
			d["calls"] = callDicts(m.Calls)
		}
		if m.Name != "" {
			d["name"] = m.Name
		}
		out = append(out, d)
	}
	return out
}

func callDicts(list []llm.Call) []any {
	out := []any{}
	for _, c := range list {
		out = append(out, map[string]any{"name": c.Name, "args": decoded(c.Args)})
	}
	return out
}
