package lib

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"go.starlark.net/starlark"

	"edged/agent"
	"edged/agent/llm"
	"edged/agent/llm/builtin"
	"edged/agent/llm/openai"
	"edged/agent/llm/replay"
	"edged/bus"
	"edged/bus/origin"
	"edged/starlark/script"
	"edged/starlark/value"
)

// Models are named when a script loads and asked for when they are first
// needed: loading and checking a folder talks to no server.

// modelType is a model's name, Model, Intents, or a list of them.
var modelType = value.OneOrMany(value.Either(value.String, intentsKind.Type(), keyedKind.Type()))

// keyed is a model of a server that wants a key.
type keyed struct{ name, key string }

var keyedKind = &value.Kind[*keyed]{
	Name: "model", Doc: "A model of a server that wants a key, see Model.",
	Attrs:  []value.Attr[*keyed]{{Name: "name", Doc: "Its name.", Type: value.String, Get: func(k *keyed) (any, error) { return k.name, nil }}},
	String: func(k *keyed) string { return fmt.Sprintf("<model %s>", k.name) },
}

var modelRows = []row{
	{value.Func{
		Name: "model.ask", Doc: "Asks a model once, without agent, tools and memory. It fails with what is wrong and what to try.", Blocks: true,
		Example: "mood = model.ask(\"The door slammed and nobody answers.\", model = \"qwen2.5:1.5b\", output = {\"mood\": \"one of calm, tense\"})[\"mood\"]",
		Params: []value.Param{
			{Name: "text", Type: value.String, Required: true, Positional: true, Doc: "What is asked."},
			{Name: "model", Type: modelType, Required: true, Doc: "Whom, as for Agent."},
			{Name: "system", Type: value.String, Default: "", Doc: "What it is told before."},
			{Name: "output", Type: outputType, Doc: "The form of the answer, as for Agent."},
			{Name: "temperature", Type: value.Between(value.Number, 0, 2), Doc: "How freely it answers."},
			{Name: "seed", Type: value.Int, Doc: "Makes a free answer repeatable."},
			{Name: "max_tokens", Type: value.Between(value.Int, 1, 1_000_000), Doc: "How long the answer may be."},
			{Name: "timeout", Type: value.Duration, Default: "60s", Doc: "How long to wait, in the queue too."},
		},
		Returns: "text, or what output asks for",
	}, (*Behaviour).askModel},
	{value.Func{
		Name: "model.embed", Doc: "Turns texts into vectors, by which they can be compared.", Blocks: true,
		Example: "v = model.embed([\"the cup\", \"a mug\"], model = \"ollama:nomic-embed-text\")",
		Params: []value.Param{
			{Name: "texts", Type: value.OneOrMany(value.String), Required: true, Positional: true, Doc: "One text or several."},
			{Name: "model", Type: modelType, Required: true, Doc: "Whose vectors."},
			{Name: "timeout", Type: value.Duration, Default: "60s", Doc: "How long to wait."}},
		Returns: "a list of vectors, one a text",
	}, (*Behaviour).embed},
	{value.Func{
		Name: "model.info", Doc: "Tells what a model is and can do: name, tools, thinking, schema, embed, context, warm.", Blocks: true,
		Example: "if not model.info(\"qwen2.5:1.5b\")[\"tools\"]:\n    log.warn(\"it is held to forms\")",
		Params:  []value.Param{{Name: "model", Type: modelType, Required: true, Positional: true, Doc: "Which."}},
		Returns: "a dict",
	}, (*Behaviour).modelInfo},
}

// modelFormRows are the calls that have no module in front.
var modelFormRows = []row{
	{value.Func{
		Name: "Model", Doc: "A model of a server that wants a key, for wherever a model is named. The key goes to that server alone, and nowhere the server sends on to.",
		Example: "clerk = Agent(\"clerk\", model = [Model(\"openai:gpt-5@https://api.example.com/v1\", key = secret(\"api\")), \"qwen2.5:1.5b\"])",
		Params: []value.Param{
			{Name: "name", Type: value.String, Required: true, Positional: true, Doc: "\"openai:NAME@URL\"."},
			{Name: "key", Type: secretKind.Type(), Required: true, Doc: "What the server asks for."}},
		Returns: "a model",
	}, (*Behaviour).keyedModel},
}

// modelName is a model's name with its kind in front; the error says what is
// wrong with it.
func modelName(name string) (string, error) {
	kind, rest, has := strings.Cut(name, ":")
	switch {
	case name == "":
		return "", errors.New("a model needs a name")
	case name == "intent", name == "builtin":
		return name, nil
	case kind == "ollama" && rest == "", kind == "replay" && rest == "", kind == "builtin" && has && rest == "":
		return "", fmt.Errorf("%q: there is nothing after the colon", name)
	case kind == "ollama", kind == "replay", kind == "builtin":
		return name, nil
	case kind == "openai":
		_, err := openai.Parse(rest)
		return name, err
	}
	return "ollama:" + name, nil
}

// onServer reports whether a model is somewhere else, and wants a grant.
func onServer(name string) bool {
	return strings.HasPrefix(name, "ollama:") || strings.HasPrefix(name, "openai:")
}

// choice is what a script names as model.
type choice struct {
	names []string   // canonical; of Intents "intent"
	lists []*intents // beside names; nil but for Intents
	keys  []string   // beside names; "" but for Model
}

func (b *Behaviour) keyedModel(c *value.Call) (starlark.Value, error) {
	name, err := modelName(c.String("name"))
	if err != nil {
		return nil, c.Errorf("name", "argument \"name\": %v", err)
	}
	if !strings.HasPrefix(name, "openai:") {
		return nil, c.Errorf("name", "argument \"name\": want \"openai:NAME@URL\": %s takes no key", name)
	}
	if err := b.may(c, "llm", name); err != nil {
		return nil, err
	}
	k := &keyed{name, secretKind.Arg(c, "key").text}
	if strings.ContainsFunc(k.key, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return nil, c.Errorf("key", "argument \"key\": the secret is more than one line")
	}
	if b.host.Models != nil { // who only looks whether the model is there needs its key, too
		if _, err := b.host.Models(k.name, k.key); err != nil {
			return nil, err
		}
	}
	return keyedKind.Wrap(k), nil
}

// modelChoice reads the argument model, and checks that the folder may use it.
func (b *Behaviour) modelChoice(c *value.Call) (choice, error) { return b.choiceOf(c, "model") }

// choiceOf is modelChoice for an argument of another name.
func (b *Behaviour) choiceOf(c *value.Call, arg string) (choice, error) {
	var ch choice
	list := c.List(arg)
	if len(list) == 0 {
		return ch, c.Errorf(arg, "argument %q: the list is empty", arg)
	}
	for _, v := range list {
		if i, err := intentsKind.Unwrap(v); err == nil {
			ch.names, ch.lists, ch.keys = append(ch.names, "intent"), append(ch.lists, i), append(ch.keys, "")
			continue
		}
		k, ok := keyedKind.As(v)
		if !ok {
			k = &keyed{name: string(v.(starlark.String))}
		}
		name, err := modelName(k.name)
		if err != nil {
			return ch, c.Errorf(arg, "argument %q: %v", arg, err)
		}
		if onServer(name) {
			if err := b.may(c, "llm", name); err != nil {
				return ch, err
			}
		}
		if kind, file, has := strings.Cut(name, ":"); has && (kind == "replay" || kind == "builtin") {
			if _, err := fs.Stat(b.dir, path.Clean(file)); err != nil {
				return ch, c.Errorf(arg, "argument %q: %s: there is no file %s in the robot's folder", arg, name, file)
			}
		}
		b.mu.Lock()
		if onServer(name) {
			b.served[name] = true
		}
		b.mu.Unlock()
		ch.names, ch.lists, ch.keys = append(ch.names, name), append(ch.lists, nil), append(ch.keys, k.key)
	}
	return ch, nil
}

// Models are the names of the server models that scripts named, sorted: for
// warming them, and for looking whether they are there.
func (b *Behaviour) Models() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.served))
}

// models makes one model of a choice. The tools' own sentences are what
// "intent" knows; who is passed over is told by skipped.
func (b *Behaviour) models(ch choice, sentences llm.Model, skipped func(context.Context, llm.Skip)) (llm.Model, error) {
	links := make([]llm.Link, len(ch.names))
	for i, name := range ch.names {
		var m llm.Model = &lazy{b: b, name: name, key: ch.keys[i]}
		switch {
		case ch.lists[i] != nil:
			m = ch.lists[i].model
		case name == "intent" && sentences == nil:
			return nil, &value.Error{Arg: "model", Msg: "model \"intent\" has no sentences", Hint: "give tools sentences: Tool(fn, sentences = [\"(go|drive) to [the] {place}\"]), or use Intents(…)"}
		case name == "intent":
			m = sentences
		}
		links[i] = llm.Link{Name: name, Model: m}
	}
	if len(links) == 1 {
		return links[0].Model, nil
	}
	return llm.NewChain(llm.ChainOptions{Skipped: skipped}, links...), nil
}

// lazy is a model that is made when it is first asked.
type lazy struct {
	b         *Behaviour
	name, key string

	mu sync.Mutex // guards m
	m  llm.Model
}

var (
	_ llm.Model     = (*lazy)(nil)
	_ llm.Describer = (*lazy)(nil)
	_ llm.Embedder  = (*lazy)(nil)
)

func (l *lazy) get() (llm.Model, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.m == nil {
		m, err := l.b.model(l.name, l.key)
		if err != nil {
			return nil, err
		}
		l.m = m
	}
	return l.m, nil
}

func (l *lazy) Chat(ctx context.Context, r llm.Request, say func(string) error) (llm.Message, error) {
	m, err := l.get()
	if err != nil {
		return llm.Message{}, err
	}
	return m.Chat(ctx, r, say)
}

func (l *lazy) Describe(ctx context.Context) (llm.Info, error) {
	m, err := l.get()
	if err != nil {
		return llm.Info{}, err
	}
	return llm.Describe(ctx, m)
}

func (l *lazy) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	m, err := l.get()
	if err != nil {
		return nil, err
	}
	e, ok := m.(llm.Embedder)
	if !ok {
		return nil, &llm.Trouble{Err: llm.ErrNoEmbedding, Model: l.name, Remedy: "ask one that is made for it: ollama:nomic-embed-text"}
	}
	return e.Embed(ctx, texts)
}

// model finds a model by its canonical name and its key.
func (b *Behaviour) model(name, key string) (llm.Model, error) {
	id := keyed{name, key}
	b.mu.Lock()
	m := b.known[id]
	b.mu.Unlock()
	if m != nil {
		return m, nil
	}
	m, err := b.makeModel(name, key)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if other := b.known[id]; other != nil {
		return other, nil
	}
	b.known[id] = m
	return m, nil
}

func (b *Behaviour) makeModel(name, key string) (llm.Model, error) {
	kind, rest, _ := strings.Cut(name, ":")
	trouble := func(err error, remedy string) error { return &llm.Trouble{Err: err, Model: name, Remedy: remedy} }
	switch {
	case kind == "replay", kind == "builtin" && rest != "":
		text, err := fs.ReadFile(b.dir, path.Clean(rest))
		if err != nil {
			return nil, trouble(fmt.Errorf("%w: %w", llm.ErrUnknownModel, err), "the file is looked for in the robot's folder")
		}
		if kind == "replay" {
			return replay.Read(bytes.NewReader(text), rest)
		}
		return builtin.New(builtin.Options{Name: name, Data: text})
	case b.host.Models != nil:
		return b.host.Models(name, key)
	case name == "builtin":
		return builtin.New(builtin.Options{})
	}
	return nil, trouble(fmt.Errorf("%w: this robot asks no model servers", llm.ErrUnknownModel), "name \"intent\" or \"builtin\" as well")
}

func (b *Behaviour) askModel(c *value.Call) (starlark.Value, error) {
	if err := acts(c); err != nil {
		return nil, err
	}
	ch, err := b.modelChoice(c)
	if err != nil {
		return nil, err
	}
	m, err := b.models(ch, nil, b.skips(b.source(c)))
	if err != nil {
		return nil, err
	}
	r := llm.Request{Messages: []llm.Message{{Role: llm.User, Text: c.String("text"), Origin: origin.From(c.Context())}}, Sampling: sampling(c)}
	r.MaxTokens = c.Int("max_tokens")
	if s := c.String("system"); s != "" {
		r.Messages = append([]llm.Message{{Role: llm.System, Text: s}}, r.Messages...)
	}
	out, err := outputSchema(c, "output")
	if err != nil {
		return nil, err
	}
	if out != nil {
		if r.Schema, err = json.Marshal(out); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(withPriority(c.Context(), runOf(c.Context()), ""), c.Duration("timeout"))
	defer cancel()
	answer, err := m.Chat(ctx, r, nil)
	switch {
	case err != nil && c.Context().Err() == nil && errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("timeout: no answer after %v", c.Duration("timeout"))
	case err != nil:
		return nil, err
	case out == nil:
		return starlark.String(answer.Text), nil
	}
	v, _, err := out.Accept([]byte(answer.Text))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", llm.ErrSchema, err)
	}
	return c.Return(v)
}

// acts is effect for what nothing at top level may do either.
func acts(c *value.Call) error {
	if script.Loading(c.Thread) {
		return &value.Error{Msg: "the top level declares, it does not act", Hint: "do it in a handler, or with after(\"0s\", …)"}
	}
	return effect(c)
}

// sampling reads how an answer is drawn.
func sampling(c *value.Call) llm.Sampling {
	var s llm.Sampling
	if c.Has("temperature") {
		t := c.Float("temperature")
		s.Temperature = &t
	}
	if c.Has("seed") {
		n := c.Int64("seed")
		s.Seed = &n
	}
	return s
}

// skips tells who was passed over, and why.
func (b *Behaviour) skips(source string) func(context.Context, llm.Skip) {
	topic := "edged/agent/" + strings.TrimPrefix(source, "agent:") + "/model"
	if !strings.HasPrefix(source, "agent:") {
		topic = "edged/model"
	}
	return func(ctx context.Context, s llm.Skip) {
		if errors.Is(s.Err, llm.ErrNoMatch) && !s.Asked {
			return
		}
		b.tell(ctx, source, topic, map[string]any{"skipped": s.Model, "reason": s.Err.Error()})
	}
}

// tell publishes what happened in an agent's run. Nobody is there to hear that
// the bus is closed.
func (b *Behaviour) tell(ctx context.Context, source, topic string, payload map[string]any) {
	_, _ = b.host.Bus.Publish(ctx, source, topic, payload)
}

func (b *Behaviour) embed(c *value.Call) (starlark.Value, error) {
	if err := acts(c); err != nil {
		return nil, err
	}
	ch, err := b.modelChoice(c)
	if err != nil {
		return nil, err
	}
	m, err := b.models(ch, nil, nil)
	if err != nil {
		return nil, err
	}
	e, ok := m.(llm.Embedder)
	if !ok {
		return nil, llm.ErrNoEmbedding
	}
	ctx, cancel := context.WithTimeout(c.Context(), c.Duration("timeout"))
	defer cancel()
	vectors, err := e.Embed(ctx, c.Strings("texts"))
	if err != nil {
		return nil, err
	}
	list := make([]any, len(vectors))
	for i, v := range vectors {
		row := make([]any, len(v))
		for j, x := range v {
			row[j] = float64(x)
		}
		list[i] = row
	}
	return c.Return(list)
}

func (b *Behaviour) modelInfo(c *value.Call) (starlark.Value, error) {
	if err := acts(c); err != nil {
		return nil, err
	}
	ch, err := b.modelChoice(c)
	if err != nil {
		return nil, err
	}
	m, err := b.models(ch, nil, nil)
	if err != nil {
		return nil, err
	}
	info, err := llm.Describe(c.Context(), m)
	if err != nil {
		return nil, err
	}
	t, err := tree(info)
	if err != nil {
		return nil, err
	}
	return c.Return(t)
}

// trusted reports whether words of an origin are orders.
func (b *Behaviour) trusted(who string) bool {
	switch {
	case b.isolated && who == isolatedKind+b.folder: // its own words may lead to its own tools
		return true
	case b.host.Trusted != nil:
		return b.host.Trusted(who)
	}
	return llm.Trusted(who)
}

// receipts are what tools really did, as data.
func receipts(list []agent.Receipt) []any {
	out := []any{}
	for _, r := range list {
		m := map[string]any{"tool": r.Tool, "args": decoded(r.Args)}
		if r.Err != nil {
			m["error"] = r.Err.Error()
		} else {
			m["result"] = decoded(r.Result)
		}
		out = append(out, m)
	}
	return out
}

// decoded is JSON text as a tree; what is none stays text.
func decoded(text json.RawMessage) any {
	if len(text) == 0 {
		return nil
	}
	v, err := bus.DecodeJSON(text)
	if err != nil {
		return string(text)
	}
	return v
}
