package lib

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"go.starlark.net/starlark"

	"edged/agent/llm"
	"edged/agent/llm/builtin"
	"edged/agent/llm/replay"
	"edged/bus/origin"
	"edged/starlark/script"
	"edged/starlark/value"
)

// In tests every model of a server says what the test lets it say, and keeps
// what it was asked. Intents, the builtin model and replays are the real ones.

var answerParams = []value.Param{
	{Name: "when", Type: value.String, Default: "", Doc: "Only if the newest words of a user hold this."},
	{Name: "always", Type: value.Bool, Default: false, Doc: "As often as it fits, after those that are given once."},
	{Name: "delay", Type: value.Duration, Default: 0, Doc: "How long the answer takes; a request that is cancelled ends at once."},
	{Name: "model", Type: value.String, Default: "", Doc: "Whose answer; any model's if empty."},
}

var modelErrors = []string{"down", "unknown", "no_tools", "no_thinking", "cut_off", "no_done", "empty", "context", "queue_full", "memory", "server"}

func modelError(name string) error {
	return []error{llm.ErrDown, llm.ErrUnknownModel, llm.ErrNoTools, llm.ErrNoThinking, llm.ErrCutOff, llm.ErrNoDone, llm.ErrEmpty,
		llm.ErrContext, llm.ErrQueueFull, llm.ErrMemory, llm.ErrServer}[slices.Index(modelErrors, name)]
}

var modelTestRows = []testRow{
	{value.Func{
		Name: "model.says", Doc: "Lets a model answer in words. Answers are given in order, each once; a request for which there is none fails.",
		Example: "model.says(\"It is in the hall.\", when = \"cup\")",
		Params:  append([]value.Param{{Name: "text", Type: value.String, Required: true, Positional: true, Doc: "The words; thoughts in <think> as models give them."}}, answerParams...),
	}, func(t *testRobot, c *value.Call) (starlark.Value, error) {
		return t.models.add(c, replay.Say(c.String("text")))
	}},
	{value.Func{
		Name: "model.calls", Doc: "Lets a model call a tool, or several in one answer.",
		Example: "model.calls(\"go_to\", {\"place\": \"kitchen\"})",
		Params: append([]value.Param{
			{Name: "tool", Type: value.String, Required: true, Positional: true, Doc: "Its name; handoff_to_NAME hands over, decline declines."},
			{Name: "args", Type: value.Dict, Positional: true, Doc: "Its arguments, right or wrong."},
			{Name: "more", Type: value.List, Doc: "Further calls of the same answer: (name, args)."},
			{Name: "text", Type: value.String, Default: "", Doc: "Words beside the calls."}}, answerParams...),
	}, (*testRobot).modelCalls},
	{value.Func{
		Name: "model.fails", Doc: "Lets a model fail as servers do.", Example: "model.fails(\"down\", model = \"ollama:qwen2.5:1.5b\")",
		Params: append([]value.Param{{Name: "error", Type: value.OneOf(modelErrors...), Required: true, Positional: true, Doc: "What is wrong."}}, answerParams...),
	}, func(t *testRobot, c *value.Call) (starlark.Value, error) {
		return t.models.add(c, replay.Fail(modelError(c.String("error"))))
	}},
	{value.Func{
		Name: "model.answers", Doc: "Lets a function answer, as often as it fits: called with the prompt, it returns text, or (tool, args).",
		Example: "model.answers(lambda p: \"yes\" if \"cup\" in p.user else \"no\")",
		Params:  append([]value.Param{{Name: "fn", Type: value.Callable, Required: true, Positional: true, Doc: "Who answers."}}, answerParams...),
	}, (*testRobot).modelAnswers},
	{value.Func{
		Name: "model.replays", Doc: "Lets models answer from a recording beside the test, exactly, until it is asked something else.",
		Example: "model.replays(\"testdata/evening.jsonl\")",
		Params: []value.Param{
			{Name: "file", Type: value.String, Required: true, Positional: true, Doc: "Made by edged record."},
			{Name: "model", Type: value.String, Default: "", Doc: "Whose; any model's if empty."}},
	}, (*testRobot).modelReplays},
	{value.Func{
		Name: "model.can", Doc: "Sets what a model says it can do; else it can do all but embed.", Example: "model.can(tools = False)",
		Params: []value.Param{
			{Name: "tools", Type: value.Bool, Default: true, Doc: "It calls tools; without, it is held to forms."},
			{Name: "schema", Type: value.Bool, Default: true, Doc: "It can be held to a schema."},
			{Name: "thinking", Type: value.Bool, Default: true, Doc: "It can think."},
			{Name: "context", Type: value.Int, Default: 0, Doc: "Tokens; 0 is unknown."},
			{Name: "model", Type: value.String, Default: "", Doc: "Which; any if empty."}},
	}, func(t *testRobot, c *value.Call) (starlark.Value, error) {
		s, err := t.models.script(c)
		if err != nil {
			return nil, err
		}
		s.Is(llm.Info{Name: "script", Tools: c.Bool("tools"), Schema: c.Bool("schema"), Thinking: c.Bool("thinking"), Context: c.Int("context"), Warm: true})
		return nil, nil
	}},
	{value.Func{
		Name: "model.prompts", Doc: "Returns what models were asked, in order.", Example: "assert.contains(model.prompts()[-1].user, \"cup\")",
		Params:  []value.Param{{Name: "model", Type: value.String, Default: "", Positional: true, Doc: "Only what this one was asked."}},
		Returns: "a list of prompts",
	}, func(t *testRobot, c *value.Call) (starlark.Value, error) { return t.models.prompts(c.String("model")) }},
	{value.Func{
		Name: "model.left", Doc: "Returns how many answers nobody asked for.", Example: "assert.eq(model.left(), 0)", Returns: "a number",
	}, func(t *testRobot, c *value.Call) (starlark.Value, error) { return c.Return(int64(t.models.left())) }},
	{value.Func{
		Name: "serve_mcp", Doc: "Puts functions or tools behind an address that mcp(…) names.",
		Example: "serve_mcp(\"stdio:calendar\", tools = [list_events])",
		Params: []value.Param{
			{Name: "address", Type: value.String, Required: true, Positional: true, Doc: "As mcp(…) has it."},
			{Name: "tools", Type: value.List, Required: true, Doc: "What the server offers."}},
	}, (*testRobot).serveMCP},
	{value.Func{
		Name: "person.answers", Doc: "Lets the person answer: True or False the next question of a tool with confirm = True, which without an answer lapses after 30 s; text the next question of Human(…) or HUMAN, or the one that waits.",
		Example: "person.answers(True)\nperson.answers(\"yes\", delay = \"5s\")",
		Params: []value.Param{
			{Name: "answer", Type: value.Either(value.Bool, value.String), Required: true, Positional: true, Doc: "What the person says."},
			{Name: "delay", Type: value.Duration, Default: 0, Doc: "How long the person thinks."}},
	}, func(t *testRobot, c *value.Call) (starlark.Value, error) {
		t.person.add(c)
		t.settle(c)
		return nil, nil
	}},
	{value.Func{
		Name: "person.asked", Doc: "Returns what the person was asked.", Example: "assert.eq(person.asked()[0][\"args\"], {\"door\": \"front\"})", Returns: "a list of dicts: of a tool agent, tool, text, args, origin; else by, run, prompt, options, default",
	}, func(t *testRobot, c *value.Call) (starlark.Value, error) { return t.person.asked(c) }},
}

// asked is what a model was asked.
type asked struct {
	model string
	llm.Request
}

var promptKind = &value.Kind[*asked]{
	Name: "prompt", Fixed: true, Doc: "In tests: what a model was asked.",
	Attrs: []value.Attr[*asked]{
		{Name: "model", Doc: "Which model.", Type: value.String, Get: func(p *asked) (any, error) { return p.model, nil }},
		{Name: "system", Doc: "What stands before all.", Type: value.String, Get: func(p *asked) (any, error) { return p.newest(llm.System), nil }},
		{Name: "user", Doc: "The newest words of a user, with the notes beside them.", Type: value.String, Get: func(p *asked) (any, error) { return p.newest(llm.User), nil }},
		{Name: "result", Doc: "The newest result of a tool.", Type: value.String, Get: func(p *asked) (any, error) { return p.newest(llm.ToolRole), nil }},
		{Name: "messages", Doc: "All of it: dicts of role, text, and calls or name.", Get: func(p *asked) (any, error) { return messageDicts(p.Messages), nil }},
		{Name: "text", Doc: "All of it in one text.", Type: value.String, Get: func(p *asked) (any, error) { return p.all(), nil }},
		{Name: "tools", Doc: "The names of the tools that were offered.", Get: func(p *asked) (any, error) {
			names := []string{}
			for _, t := range p.Tools {
				names = append(names, t.Name)
			}
			return names, nil
		}},
		{Name: "schema", Doc: "The form that was asked for, or None.", Get: func(p *asked) (any, error) { return decoded(p.Schema), nil }},
		{Name: "choice", Doc: "auto, required or none.", Type: value.String, Get: func(p *asked) (any, error) { return string(p.Choice), nil }},
		{Name: "temperature", Doc: "How freely, or None.", Get: func(p *asked) (any, error) {
			if p.Temperature == nil {
				return nil, nil
			}
			return *p.Temperature, nil
		}},
	},
	Methods: []value.Method[*asked]{{
		Func: value.Func{Name: "tool", Doc: "What the model was told of a tool.", Returns: "a dict of name, doc, schema",
			Params: []value.Param{{Name: "name", Type: value.String, Required: true, Positional: true, Doc: "Which."}}},
		Do: func(p *asked, c *value.Call) (starlark.Value, error) {
			for _, t := range p.Tools {
				if t.Name == c.String("name") {
					return c.Return(map[string]any{"name": t.Name, "doc": t.Doc, "schema": decoded(t.Params)})
				}
			}
			return nil, fmt.Errorf("no tool %q was offered", c.String("name"))
		},
	}},
	String: func(p *asked) string { return p.all() },
}

func (p *asked) newest(role llm.Role) string {
	for _, m := range slices.Backward(p.Messages) {
		if m.Role == role {
			return m.Prompt()
		}
	}
	return ""
}

func (p *asked) all() string {
	var out strings.Builder
	for _, m := range p.Messages {
		fmt.Fprintf(&out, "%s: %s\n", m.Role, m.Prompt())
		for _, c := range m.Calls {
			fmt.Fprintf(&out, "  calls %s %s\n", c.Name, c.Args)
		}
	}
	return out.String()
}

// testModels are the models of a test.
type testModels struct {
	mu      sync.Mutex // guards the rest
	any     *replay.Script
	named   map[string]*replay.Script
	replays map[string]*replay.Model
	seen    []*asked
	served  map[string][]llm.Tool // by address, of foreign servers
}

func newTestModels() *testModels {
	return &testModels{any: replay.NewScript(), named: make(map[string]*replay.Script), replays: make(map[string]*replay.Model), served: make(map[string][]llm.Tool)}
}

// get is Host.Models.
func (m *testModels) get(name, _ string) (llm.Model, error) {
	if name == "builtin" {
		return builtin.New(builtin.Options{})
	}
	return &testModel{m, name}, nil
}

// script gives the model that a call speaks of.
func (m *testModels) script(c *value.Call) (*replay.Script, error) {
	name := c.String("model")
	if name == "" {
		return m.any, nil
	}
	name, err := modelName(name)
	if err != nil {
		return nil, c.Errorf("model", "argument \"model\": %v", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.named[name]
	if s == nil {
		s = replay.NewScript()
		m.named[name] = s
	}
	return s, nil
}

func (m *testModels) add(c *value.Call, a replay.Answer) (starlark.Value, error) {
	a.When, a.Always, a.Delay = c.String("when"), a.Always || c.Bool("always"), c.Duration("delay")
	s, err := m.script(c)
	if err == nil {
		s.Add(a)
	}
	return nil, err
}

func (m *testModels) prompts(name string) (starlark.Value, error) {
	if name != "" {
		var err error
		if name, err = modelName(name); err != nil {
			return nil, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	list := []starlark.Value{}
	for _, p := range m.seen {
		if name == "" || p.model == name {
			list = append(list, promptKind.Wrap(p))
		}
	}
	return starlark.NewList(list), nil
}

func (m *testModels) left() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.any.Left()
	for _, s := range m.named {
		n += s.Left()
	}
	for _, r := range m.replays {
		n += r.Left()
	}
	return n
}

// testModel is one model of a server in a test.
type testModel struct {
	m    *testModels
	name string
}

// who answers for it.
func (t *testModel) who() interface {
	llm.Model
	llm.Describer
} {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	if s := t.m.named[t.name]; s != nil {
		return s
	}
	for _, name := range []string{t.name, ""} {
		if r := t.m.replays[name]; r != nil {
			return r
		}
	}
	return t.m.any
}

func (t *testModel) Chat(ctx context.Context, r llm.Request, say func(string) error) (llm.Message, error) {
	p := &asked{t.name, r}
	p.Messages, p.Tools = slices.Clone(r.Messages), slices.Clone(r.Tools)
	t.m.mu.Lock()
	t.m.seen = append(t.m.seen, p)
	t.m.mu.Unlock()
	answer, err := t.who().Chat(ctx, r, say)
	if errors.Is(err, llm.ErrDiffers) {
		return answer, &llm.Trouble{Err: err, Model: t.name, Remedy: "tell it in the test with model.says or model.calls"}
	}
	return answer, err
}

func (t *testModel) Describe(ctx context.Context) (llm.Info, error) {
	i, err := t.who().Describe(ctx)
	i.Name = t.name
	return i, err
}

func (t *testRobot) modelCalls(c *value.Call) (starlark.Value, error) {
	args, err := c.Tree("args")
	if err != nil {
		return nil, err
	}
	if args == nil {
		args = map[string]any{}
	}
	a := replay.Call(c.String("tool"), args)
	a.Text = c.String("text")
	for i, v := range c.List("more") {
		pair, ok := v.(starlark.Tuple)
		if !ok || len(pair) != 2 {
			return nil, c.Errorf("more", "argument \"more\": element %d: want (name, args)", i)
		}
		name, ok := starlark.AsString(pair[0])
		more, err := value.ToGo(pair[1])
		if err != nil || !ok {
			return nil, c.Errorf("more", "argument \"more\": element %d: want (name, args)", i)
		}
		a.Calls = append(a.Calls, replay.Call(name, more).Calls...)
	}
	return t.models.add(c, a)
}

func (t *testRobot) modelAnswers(c *value.Call) (starlark.Value, error) {
	cb, err := newCallback(c, "fn", "prompt")
	if err != nil {
		return nil, err
	}
	do := func(ctx context.Context, r llm.Request) (llm.Message, error) {
		v, err := t.b.engine.Call(&run{Context: ctx, b: t.b, source: "test"}, cb.fn, starlark.Tuple{promptKind.Wrap(&asked{"", r})}, nil, script.Limits{})
		if err != nil {
			return llm.Message{}, err
		}
		if text, ok := starlark.AsString(v); ok {
			return llm.Message{Text: text}, nil
		}
		pair, ok := v.(starlark.Tuple)
		if !ok || len(pair) != 2 {
			return llm.Message{}, fmt.Errorf("%s returned a %s: want text, or (tool, args)", cb.name, v.Type())
		}
		name, _ := starlark.AsString(pair[0])
		args, err := value.ToGo(pair[1])
		if err != nil {
			return llm.Message{}, err
		}
		return llm.Message{Calls: replay.Call(name, args).Calls}, nil
	}
	return t.models.add(c, replay.Answer{Do: do, Always: true})
}

func (t *testRobot) modelReplays(c *value.Call) (starlark.Value, error) {
	text, err := fs.ReadFile(t.o.Folder, c.String("file"))
	if err != nil {
		return nil, c.Errorf("file", "%v", err)
	}
	m, err := replay.Read(bytes.NewReader(text), c.String("file"))
	if err != nil {
		return nil, err
	}
	name := c.String("model")
	if name != "" {
		if name, err = modelName(name); err != nil {
			return nil, err
		}
	}
	t.models.mu.Lock()
	defer t.models.mu.Unlock()
	t.models.replays[name] = m
	return nil, nil
}

func (t *testRobot) serveMCP(c *value.Call) (starlark.Value, error) {
	tools, _, err := t.b.toolsOf(c, "tools")
	if err != nil {
		return nil, err
	}
	var list []llm.Tool
	for _, x := range tools {
		x.Tool.Origin, x.Tool.Effect = origin.Of("mcp:"+c.String("address")), llm.Write
		list = append(list, x.Tool)
	}
	t.models.mu.Lock()
	defer t.models.mu.Unlock()
	t.models.served[c.String("address")] = list
	return nil, nil
}

// tools is Host.MCP.
func (m *testModels) tools(_ context.Context, s ToolServer) ([]llm.Tool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	list, ok := m.served[s.Address]
	if !ok {
		return nil, fmt.Errorf("nobody is there; in a test, serve_mcp(%q, tools = […]) puts somebody there", s.Address)
	}
	return list, nil
}
