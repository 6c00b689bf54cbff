package lib

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.starlark.net/starlark"

	"edged/agent/llm"
	"edged/agent/llm/schema"
	"edged/bus"
	"edged/starlark/script"
	"edged/starlark/value"
)

var toolRows = []row{
	{value.Func{
		Name: "Tool", Doc: "Makes a tool that models can call of a function. What the model is told, and what arguments are let through, comes from the function's parameters, defaults and docstring; a bare function in tools = […] is wrapped likewise. Without effect = \"write\" it can't move a device or publish beyond the folder's own topics.",
		Example: `def set_light(room, on, brightness = 100):
    """Switch a lamp.

    Args:
      room: one of kitchen, hall, dock
      on (bool): desired state
      brightness (int, 0..100): percent
    """
    hw.device("lamp_" + room).do(on = on, brightness = brightness)

light = Tool(set_light, effect = "write", limits = {"brightness": (0, 80)}, sentences = ["[switch] {on} the {room} light"])`,
		Params: []value.Param{
			{Name: "fn", Type: value.Callable, Required: true, Positional: true, Doc: "Called with the arguments by name, and with ctx if it has such a parameter. What it returns goes to the model; a goal or future is waited for; Declined(reason) and Handoff(…) say what they say."},
			{Name: "name", Type: value.String, Default: "", Doc: "What the model calls it; the function's name if missing."},
			{Name: "doc", Type: value.String, Default: "", Also: []string{"description"}, Doc: "What the model is told; the docstring's beginning if missing."},
			{Name: "params", Type: value.Dict, Also: []string{"parameters", "schema", "args", "args_schema"}, Doc: "The parameters, as {\"room\": \"one of hall, dock\"}, where the function doesn't tell them."},
			{Name: "effect", Type: value.OneOf("read", "write"), Default: "read", Doc: "write: it moves or sends something. Then it passes the gate: the stop, what the agent may, whose words led to it."},
			{Name: "parallel", Type: value.Bool, Default: false, Doc: "It may run beside others of the same answer, if all of them say so."},
			{Name: "confirm", Type: value.Either(value.Bool, value.Callable), Also: []string{"approve", "requires_approval", "needs_approval"}, Doc: "True asks a person first, who has 30 s. A function decides by itself: called with a dict of the arguments; False or Declined(reason) is no."},
			{Name: "timeout", Type: value.Duration, Doc: "Ends it when it takes longer."},
			{Name: "limits", Type: value.Either(value.Dict, value.Callable), Doc: "What is let through beyond the schema: {\"speed\": (0, 0.4)}, (0, 0.4, 0.1) where it may also change by no more than that a second, {\"place\": is_inside}, or a function of a dict of all arguments. False or Declined(reason) is no."},
			{Name: "min_interval", Type: value.Duration, Doc: "The least time from one call to the next."},
			{Name: "sentences", Type: value.ListOf(value.String), Doc: "How people ask for it, for model \"intent\" and for training: (one|of these), [optional], {parameter}."},
			{Name: "response", Type: value.String, Default: "", Doc: "What model \"intent\" answers then: \"{room} is {result}\"."},
			{Name: "examples", Type: value.ListOf(value.String), Doc: "More ways to ask for it, for training alone."},
			{Name: "moves", Type: value.Bool, Default: false, Doc: "It moves the robot: a trained model must be surer of it."},
		},
		Returns: "a tool",
	}, (*Behaviour).tool},
	{value.Func{
		Name: "mcp", Doc: "The tools of a Model Context Protocol server, for tools = […], and for the discoveries of graphs. The server is asked at the first run. Its results are data, never orders.",
		Example: "clerk = Agent(\"clerk\", model = \"qwen2.5:1.5b\", tools = [mcp(\"stdio:calendar-server\", only = [\"list_events\"])])",
		Params: []value.Param{
			{Name: "address", Type: value.String, Required: true, Positional: true, Doc: "\"stdio:COMMAND …\" or \"http://…\"."},
			{Name: "only", Type: value.ListOf(value.String), Doc: "The tools that are wanted; all if missing."},
			{Name: "read", Type: value.ListOf(value.String), Doc: "Those that change nothing; all others pass the gate."},
			{Name: "prefix", Type: value.String, Default: "", Doc: "In front of their names, where two servers have the same."},
			{Name: "headers", Type: value.Dict, Doc: "What an http server is sent with every request, text or secrets: {\"Authorization\": secret(\"calendar\")}."},
			{Name: "env", Type: value.Dict, Doc: "More of the environment of a program, text or secrets: {\"API_KEY\": secret(\"calendar\")}. Of the robot's own it has PATH, HOME, the language and the time zone."}},
		Returns: "tools",
	}, (*Behaviour).mcp},
}

// tool is something models can call.
type tool struct {
	llm.Tool
	b      *Behaviour
	fn     starlark.Callable // nil: Do is Go's own
	params *schema.Schema
	names  []string // of the parameters, in the order of the function
	ctx    bool     // it takes one
	at     script.Position

	limits map[string]*callback
	slews  map[string]*slew
	whole  *callback // of all arguments; nil is none
	every  time.Duration

	sentences, examples []string
	response            string
	moves               bool
	bare                bool // made of a bare function

	mu   sync.Mutex // guards last and slews
	last time.Time
}

var toolKind = &value.Kind[*tool]{
	Name: "tool", Doc: "Something that models can call.",
	Attrs: []value.Attr[*tool]{
		{Name: "name", Doc: "What models call it.", Type: value.String, Get: func(t *tool) (any, error) { return t.Name, nil }},
		{Name: "doc", Doc: "What models are told.", Type: value.String, Get: func(t *tool) (any, error) { return t.Doc, nil }},
		{Name: "effect", Doc: "read or write.", Type: value.String, Get: func(t *tool) (any, error) { return string(t.Effect), nil }},
		{Name: "schema", Doc: "The JSON schema of its arguments.", Get: func(t *tool) (any, error) { return decoded(t.Params), nil }},
	},
	Methods: []value.Method[*tool]{{
		Func: value.Func{
			Name: "call", Doc: "Calls the tool as a model does, for tests: arguments are checked, coerced and held to the limits.", Blocks: true,
			Example: "assert.fails(lambda: light.call(room = \"garden\", on = True), contains = \"room\")",
			Named:   "args", Returns: "what it gives the model",
		},
		Do: (*tool).callByScript,
	}, {
		Func: value.Func{
			Name: "start", Doc: "Begins the tool as a long action, checked as call does it, and returns its goal: it is cancelled by its owner and by every stop. The function tells how far it is by ctx.feedback(…).", Blocks: true,
			Example: "goal = patrol.start(rounds = 3)\nsleep(\"10s\")\nlog.info(\"rounds\", left = goal.feedback)\ngoal.cancel()",
			Named:   "args", Returns: "a goal",
		},
		Do: (*tool).start,
	}},
	String: func(t *tool) string { return fmt.Sprintf("<tool %s>", t.Name) },
}

func (b *Behaviour) tool(c *value.Call) (starlark.Value, error) {
	t, err := b.newTool(c, c.Kept("fn"))
	if err != nil {
		return nil, err
	}
	t.Timeout, t.Parallel = c.Duration("timeout"), c.Bool("parallel")
	t.Effect = llm.Effect(c.String("effect"))
	t.every = c.Duration("min_interval")
	t.sentences, t.examples, t.response, t.moves = c.Strings("sentences"), c.Strings("examples"), c.String("response"), c.Bool("moves")
	if err := t.limit(c); err != nil {
		return nil, err
	}
	switch v := c.Value("confirm").(type) {
	case starlark.Bool:
		if v {
			t.Confirm = t.askPerson
		}
	case starlark.Callable:
		cb, err := newCallback(c, "confirm", "args")
		if err != nil {
			return nil, err
		}
		t.Confirm = func(ctx context.Context, call llm.Call) error { return t.decides(ctx, cb, decoded(call.Args)) }
	}
	b.noteTool(c, t)
	return toolKind.Wrap(t), nil
}

// newTool reads a function. c may be of another builtin than Tool.
func (b *Behaviour) newTool(c *value.Call, fn starlark.Callable) (*tool, error) {
	t := &tool{b: b, fn: fn, at: where(c)}
	t.Name, t.Effect = fn.Name(), llm.Read
	var docs starlark.Value
	if c.Name() == "Tool" {
		if n := c.String("name"); n != "" {
			t.Name = n
		}
		t.Doc = c.String("doc")
		if c.Has("params") {
			docs = c.Value("params")
		}
	}
	if t.Name == "lambda" {
		return nil, &value.Error{Func: c.Name(), Msg: "a tool needs a name", Hint: "use def, or Tool(fn, name = …)"}
	}
	doc, err := t.signature(docs)
	if err != nil {
		return nil, &value.Error{Func: c.Name(), Msg: fmt.Sprintf("tool %s: %s", t.Name, strings.TrimPrefix(err.Error(), "schema: ")), Err: err}
	}
	if t.Doc == "" {
		t.Doc = doc
	}
	if t.Doc == "" {
		t.Doc = strings.ReplaceAll(t.Name, "_", " ")
	}
	t.Do = t.do
	return t, t.encode()
}

func (t *tool) encode() (err error) {
	t.Params, err = schema.Encode(t.params)
	return err
}

// signature reads the function's parameters; docs, if not nil, tells of them
// what the function doesn't.
func (t *tool) signature(docs starlark.Value) (doc string, err error) {
	f, ok := script.SignatureOf(t.fn)
	if !ok || docs != nil {
		if docs == nil {
			return "", fmt.Errorf("the parameters of %s can't be seen: give Tool(fn, params = {…})", t.fn.Name())
		}
		if t.params, err = schemaOfDict(docs); err != nil {
			return "", err
		}
		for _, p := range t.params.Properties {
			t.names = append(t.names, p.Name)
		}
		if ok {
			doc, _, _ = strings.Cut(f.Doc(), "Args:")
		}
		return strings.TrimSpace(doc), nil
	}
	if f.HasVarargs() || f.HasKwargs() {
		return "", errors.New("a tool's parameters have names: *args and **kwargs can't be told to a model")
	}
	var params []schema.Param
	for i := range f.NumParams() {
		name, _ := f.Param(i)
		if name == "ctx" {
			t.ctx = true
			continue
		}
		p := schema.Param{Name: name}
		if d := f.ParamDefault(i); d != nil {
			p.HasDefault = true
			if p.Default, err = value.ToGo(d); err != nil {
				return "", fmt.Errorf("default of %s: %w", name, err)
			}
		}
		params, t.names = append(params, p), append(t.names, name)
	}
	doc, t.params, err = schema.FromSignature(params, f.Doc())
	return doc, err
}

// limit reads the argument limits of Tool.
func (t *tool) limit(c *value.Call) error {
	if !c.Has("limits") {
		return nil
	}
	if _, ok := c.Value("limits").(starlark.Callable); ok {
		var err error
		t.whole, err = newCallback(c, "limits", "args")
		return err
	}
	t.limits, t.slews = make(map[string]*callback), make(map[string]*slew)
	for _, item := range c.Value("limits").(starlark.IterableMapping).Items() {
		name, ok := starlark.AsString(item[0])
		if !ok || t.params.Property(name) == nil {
			hint := "there are " + strings.Join(t.names, ", ")
			if near := value.Nearest(name, t.names); near != "" {
				hint = fmt.Sprintf("did you mean %q?", near)
			}
			return &value.Error{Func: c.Name(), Arg: "limits", Msg: fmt.Sprintf("limits: no parameter %s", item[0]), Hint: hint}
		}
		if fn, ok := item[1].(starlark.Callable); ok {
			keep(c, fn)
			cb, missing := makeCallback(fn, "value")
			if missing != "" {
				return c.Errorf("limits", "limits: %s needs an argument %q, but it is called with the value", fn.Name(), missing)
			}
			t.limits[name] = cb
			continue
		}
		most, slews := third(item[1])
		low, high, ok := pair(item[1])
		if slews {
			t.slews[name] = &slew{most: most}
			low, high, ok = pair(item[1].(starlark.Sliceable).Slice(0, 2, 1))
		}
		if !ok {
			return c.Errorf("limits", "limits: %s: want (low, high), (low, high, most change a second) or a function, got %s", name, item[1])
		}
		s, err := within(t.params, name, low, high).Limited(name, low, high)
		if err != nil {
			return c.Errorf("limits", "%s", strings.TrimPrefix(err.Error(), "schema: "))
		}
		t.params = s
	}
	return t.encode()
}

// within gives a copy in which a parameter's default is not beyond its limits.
func within(s *schema.Schema, name string, low, high float64) *schema.Schema {
	c := *s
	c.Properties = slices.Clone(s.Properties)
	p := c.Property(name)
	var f float64
	switch d := p.Schema.Default.(type) {
	case int64:
		f = float64(d)
	case float64:
		f = d
	default:
		return s
	}
	child := *p.Schema
	child.Default = child.Coerce(min(max(f, low), high))
	p.Schema = &child
	return &c
}

// pair reads (low, high).
func pair(v starlark.Value) (low, high float64, ok bool) {
	s, is := v.(starlark.Indexable)
	if !is || s.Len() != 2 {
		return 0, 0, false
	}
	low, ok = starlark.AsFloat(s.Index(0))
	high, ok2 := starlark.AsFloat(s.Index(1))
	return low, high, ok && ok2 && low <= high
}

// third reads the slew of (low, high, slew).
func third(v starlark.Value) (most float64, ok bool) {
	s, is := v.(starlark.Sliceable)
	if !is || s.Len() != 3 {
		return 0, false
	}
	most, ok = starlark.AsFloat(s.Index(2))
	return most, ok && most > 0
}

// run is a run for a call of the tool.
func (t *tool) run(ctx context.Context) *run {
	name := ""
	if r := runOf(ctx); r != nil {
		name = r.agent()
	}
	what := "tool"
	source := t.b.scriptSource(t.at.File)
	if name != "" {
		what, source = fmt.Sprintf("tool of agent %q", name), "agent:"+name
	}
	m := &more{name: name, tool: true}
	if r := runOf(ctx); r != nil && r.more != nil {
		m.task, m.goal = r.task, r.goal
	}
	return &run{Context: script.WithRole(ctx, what), b: t.b, source: source, more: m, reads: t.Effect != llm.Write}
}

// do is the function of a tool made by a script.
func (t *tool) do(ctx context.Context, text json.RawMessage) (json.RawMessage, error) {
	r := t.run(ctx)
	args, kwargs, err := t.arguments(r, text)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	t.b.into(r, "")
	v, err := t.b.engine.Call(r, t.fn, args, kwargs, script.Limits{})
	if err != nil {
		if t.b.stopping(ctx, began) {
			return nil, context.Cause(ctx)
		}
		return nil, t.short(ctx, err)
	}
	return t.result(ctx, v, began)
}

func (t *tool) arguments(r *run, text json.RawMessage) (args starlark.Tuple, kwargs []starlark.Tuple, err error) {
	m, _ := decoded(text).(map[string]any)
	for _, name := range t.names {
		x, given := m[name]
		if !given {
			continue
		}
		v, err := value.FromGo(x)
		if err != nil {
			return nil, nil, err
		}
		kwargs = append(kwargs, starlark.Tuple{starlark.String(name), v})
	}
	if t.ctx {
		kwargs = append(kwargs, starlark.Tuple{starlark.String("ctx"), t.b.contextValue(r)})
	}
	return args, kwargs, nil
}

// shortError is what a model reads of an error of a script; the whole of it is
// in the trace.
type shortError struct {
	text string
	err  error
}

func (e *shortError) Error() string { return e.text }
func (e *shortError) Unwrap() error { return e.err }

// short makes the model's form of a script's error, and reports it.
func (t *tool) short(ctx context.Context, err error) error {
	var no *refusal
	if errors.As(err, &no) {
		return no
	}
	text := err.Error()
	var e *script.Error
	if errors.As(err, &e) {
		text = e.Msg
	}
	t.b.report(ctx, t.run(ctx).source+":"+t.Name, err, bus.Event{})
	return &shortError{text, err}
}

// result makes what a model reads of what the function returned.
func (t *tool) result(ctx context.Context, v starlark.Value, began time.Time) (json.RawMessage, error) {
	if v == starlark.None {
		if t.Effect == llm.Write {
			return json.RawMessage(`"done"`), nil
		}
		return json.RawMessage(`"nothing"`), nil
	}
	if d, err := declinedKind.Unwrap(v); err == nil {
		return nil, &refusal{string(d)}
	}
	if h, err := handoffKind.Unwrap(v); err == nil {
		return nil, h
	}
	if g, err := goalKind.Unwrap(v); err == nil {
		x, err := g.Result(ctx)
		if err != nil && t.b.stopping(ctx, began) {
			g.Goal.Cancel("the turn that waits for it was cancelled")
			return nil, context.Cause(ctx)
		}
		if err != nil {
			return nil, err
		}
		if x == nil {
			return json.RawMessage(`"done"`), nil
		}
		return json.Marshal(x)
	}
	if f, err := futureKind.Unwrap(v); err == nil {
		x, err := f.Result(ctx)
		if err != nil {
			return nil, err
		}
		return json.Marshal(x)
	}
	if r, err := resultKind.Unwrap(v); err == nil {
		switch {
		case r.err != nil:
			return nil, r.err
		case r.Output != nil:
			return json.Marshal(r.Output)
		}
		return json.Marshal(r.Reply)
	}
	x, err := value.ToGo(v)
	if err != nil {
		return nil, fmt.Errorf("%s gave what a model can't read: %w", t.Name, err)
	}
	return json.Marshal(x)
}

// stopping reports whether the run is over. A stop since it began refuses
// devices and cancels goals first, and runs a moment later: that is waited for.
func (b *Behaviour) stopping(ctx context.Context, began time.Time) bool {
	if b.host.Rig != nil {
		if s, stopped := b.host.Rig.Stopped(); stopped && !s.Time.Before(began) {
			t := time.NewTimer(time.Second)
			defer t.Stop()
			select {
			case <-ctx.Done():
			case <-t.C:
			}
		}
	}
	return ctx.Err() != nil
}

// check holds a call to the limits that a schema can't tell.
func (t *tool) check(ctx context.Context, call llm.Call) error {
	m, _ := decoded(call.Args).(map[string]any)
	for _, name := range t.names {
		if cb := t.limits[name]; cb != nil && m[name] != nil {
			if err := t.decides(ctx, cb, m[name]); err != nil {
				return fmt.Errorf("%s = %v is not allowed: %w", name, m[name], err)
			}
		}
	}
	if t.whole != nil {
		if err := t.decides(ctx, t.whole, decoded(call.Args)); err != nil {
			return fmt.Errorf("not allowed: %w", err)
		}
	}
	if t.every <= 0 && len(t.slews) == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if wait := t.every - time.Since(t.last); !t.last.IsZero() && wait > 0 {
		return fmt.Errorf("%s was called less than %v ago", t.Name, t.every)
	}
	if err := t.steps(m, false); err != nil {
		return err
	}
	t.last = time.Now()
	return t.steps(m, true)
}

// errNo is the answer of a function that decides.
var errNo = errors.New("it says no")

// decides asks a function whether something may be.
func (t *tool) decides(ctx context.Context, cb *callback, about any) error {
	v, err := value.FromGo(about)
	if err != nil {
		return err
	}
	r := t.run(ctx)
	r.reads = true
	answer, err := t.b.do(r, cb, v)
	if err != nil {
		return t.short(ctx, err)
	}
	if d, err := declinedKind.Unwrap(answer); err == nil {
		return errors.New(string(d))
	}
	if answer.Truth() {
		return nil
	}
	return errNo
}
