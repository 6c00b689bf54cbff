package lib

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/starlark"

	"edged/agent/llm"
	"edged/agent/llm/intent"
	"edged/agent/llm/schema"
	"edged/starlark/value"
)

// Sentences stand with the tool they ask for, Tool(fn, sentences = […]), and
// model "intent" knows those of an agent's tools; or they stand by themselves
// in Intents(…), which is a model too.

var listsDoc = "What {slots} may hold: {\"place\": [\"kitchen\", \"hall\"], \"room\": {\"living room\": \"living_room\"}, \"percent\": (0, 100), \"text\": \"*\"}. Where a slot is a tool's parameter, its docstring tells it already."

var intentRows = []row{
	{value.Func{
		Name: "Intent", Doc: "Something people say in several ways, and what to do then: for Intents(…). Templates are those of Home Assistant: (one|of these), [optional], {slot}, {list:slot}, <rule>.",
		Example: "status = Intent([\"how are you\", \"what is your (status|state)\"], response = \"I am fine.\")",
		Params: []value.Param{
			{Name: "sentences", Type: value.OneOrMany(value.String), Required: true, Positional: true, Doc: "Templates."},
			{Name: "tool", Type: value.Either(value.String, toolKind.Type(), value.Callable), Doc: "What is called with the slots: a tool, its function or its name. If missing, response is all there is."},
			{Name: "name", Type: value.String, Default: "", Doc: "For people and traces; the tool's name, or the first sentence, if missing."},
			{Name: "slots", Type: value.Dict, Doc: "Fixed arguments, unless the sentence says otherwise."},
			{Name: "response", Type: value.String, Default: "", Doc: "The answer: \"{place}\" as it was said, \"{place.value}\", \"{result}\", \"{result.key}\"."},
			{Name: "lists", Type: value.Dict, Doc: listsDoc},
			{Name: "requires", Type: value.Dict, Doc: "Context that it needs."},
			{Name: "excludes", Type: value.Dict, Doc: "Context in which it does not apply."}},
		Returns: "an intent",
	}, (*Behaviour).intent},
	{value.Func{
		Name: "Intents", Doc: "Sentences as a model: it understands what is listed at once, without a server, and declines all else, so that the next model of the list is asked.",
		Example: "home = Intents([status, Intent(\"(stop|end) the music\", tool = \"stop_music\")], skip_words = [\"please\"])\nbutler = Agent(\"butler\", model = [home, \"qwen2.5:1.5b\"], tools = [stop_music])",
		Params: []value.Param{
			{Name: "intents", Type: value.ListOf(intentKind.Type()), Required: true, Positional: true, Doc: "What is understood."},
			{Name: "lists", Type: value.Dict, Doc: listsDoc},
			{Name: "rules", Type: value.Dict, Doc: "What <rules> in sentences stand for."},
			{Name: "language", Type: value.String, Default: "en", Doc: "Whose number words, fillers, negations and questions."},
			{Name: "skip_words", Type: value.ListOf(value.String), Doc: "Words and phrases that may be said anywhere."},
			{Name: "fuzzy", Type: value.Between(value.Float, 0, 1), Default: 0.8, Doc: "How sure a match must be that is not word for word; 1 allows no difference."}},
		Returns: "a model",
	}, (*Behaviour).intents},
}

// sentence is one Intent(…).
type sentence struct {
	intent.Intent
	tool *tool // if it is known
}

var intentKind = &value.Kind[*sentence]{
	Name: "intent", Doc: "Something people say in several ways, see Intent.",
	Attrs: []value.Attr[*sentence]{
		{Name: "name", Doc: "Its name.", Type: value.String, Get: func(s *sentence) (any, error) { return s.Name, nil }},
		{Name: "sentences", Doc: "The templates.", Get: func(s *sentence) (any, error) { return s.Sentences, nil }},
	},
}

// intents is what Intents(…) makes.
type intents struct{ model *intent.Model }

var intentsKind = &value.Kind[*intents]{
	Name: "intents", Doc: "Sentences that are understood without a model server, see Intents.",
	Methods: []value.Method[*intents]{{
		Func: value.Func{
			Name: "match", Doc: "Tells what a text is understood as.", Example: "assert.eq(home.match(\"stop the music\")[\"tool\"], \"stop_music\")",
			Params: []value.Param{
				{Name: "text", Type: value.String, Required: true, Positional: true, Doc: "What is said."},
				{Name: "context", Type: value.Dict, Doc: "What is known beyond the words."}},
			Returns: "a dict of intent, tool, slots, sentence and score, or None",
		},
		Do: func(i *intents, c *value.Call) (starlark.Value, error) {
			about, err := c.Dict("context")
			if err != nil {
				return nil, err
			}
			m, ok := i.model.MatchIn(c.String("text"), about)
			if !ok {
				return nil, nil
			}
			return c.Return(map[string]any{"intent": m.Intent, "tool": m.Tool, "slots": m.Slots, "sentence": m.Sentence, "score": m.Score})
		},
	}},
}

func (b *Behaviour) intent(c *value.Call) (starlark.Value, error) {
	s := &sentence{Intent: intent.Intent{Name: c.String("name"), Sentences: c.Strings("sentences"), Response: c.String("response")}}
	if len(s.Sentences) == 0 {
		return nil, c.Errorf("sentences", "argument \"sentences\": the list is empty")
	}
	var err error
	for arg, to := range map[string]*map[string]any{"slots": &s.Slots, "requires": &s.Requires, "excludes": &s.Excludes} {
		if *to, err = c.Dict(arg); err != nil {
			return nil, err
		}
	}
	if s.Lists, err = listsOf(c); err != nil {
		return nil, err
	}
	switch v := c.Value("tool").(type) {
	case starlark.String:
		s.Tool = string(v)
	case starlark.Callable:
		if s.tool, err = b.wrapped(c, v); err != nil {
			return nil, err
		}
	default:
		s.tool = toolKind.Arg(c, "tool")
	}
	if s.tool != nil {
		s.Tool = s.tool.Name
		s.Lists = withLists(s.Lists, s.tool.params)
	}
	if s.Name == "" && s.Tool == "" {
		s.Name = s.Sentences[0]
	}
	return intentKind.Wrap(s), nil
}

func (b *Behaviour) intents(c *value.Call) (starlark.Value, error) {
	o := intent.Options{Language: c.String("language"), SkipWords: c.Strings("skip_words"), Fuzzy: c.Float("fuzzy"), Rules: map[string]string{}}
	var err error
	if o.Lists, err = listsOf(c); err != nil {
		return nil, err
	}
	rules, err := c.Dict("rules")
	if err != nil {
		return nil, err
	}
	for name, v := range rules {
		text, ok := v.(string)
		if !ok {
			return nil, c.Errorf("rules", "argument \"rules\": %s is text, got %v", name, v)
		}
		o.Rules[name] = text
	}
	var list []intent.Intent
	for _, v := range c.List("intents") {
		s, err := intentKind.Unwrap(v)
		if err != nil {
			return nil, err
		}
		list = append(list, s.Intent)
	}
	m, err := intent.Compile(list, o)
	if err != nil {
		return nil, sentenceError(c, err)
	}
	return intentsKind.Wrap(&intents{m}), nil
}

// sentenceError is a mistake in a sentence as an error of the script.
func sentenceError(c *value.Call, err error) error {
	return &value.Error{Func: c.Name(), Msg: strings.TrimPrefix(err.Error(), "intent: "), Err: err}
}

// listsOf reads the argument lists.
func listsOf(c *value.Call) (map[string]intent.List, error) {
	if !c.Has("lists") {
		return nil, nil
	}
	out := map[string]intent.List{}
	for _, item := range c.Value("lists").(starlark.IterableMapping).Items() {
		name, ok := starlark.AsString(item[0])
		if !ok {
			return nil, c.Errorf("lists", "argument \"lists\": the names are text, got %s", item[0])
		}
		l, err := listOf(item[1])
		if err != nil {
			return nil, c.Errorf("lists", "argument \"lists\": %s: %v", name, err)
		}
		out[name] = l
	}
	return out, nil
}

func listOf(v starlark.Value) (intent.List, error) {
	var l intent.List
	if _, tuple := v.(starlark.Tuple); tuple {
		low, high, ok := pair(v)
		if !ok {
			return l, fmt.Errorf("want (low, high), got %s", v)
		}
		return intent.List{Range: &intent.Range{From: low, To: high}}, nil
	}
	switch v := v.(type) {
	case starlark.String:
		if v != "*" {
			return l, fmt.Errorf("want \"*\" for any words, got %s", v)
		}
		return intent.List{Wildcard: true}, nil
	case starlark.IterableMapping:
		for _, item := range v.Items() {
			said, ok := starlark.AsString(item[0])
			if !ok {
				return l, fmt.Errorf("what is said is text, got %s", item[0])
			}
			out, err := value.ToGo(item[1])
			if err != nil {
				return l, err
			}
			l.Values = append(l.Values, intent.Value{In: said, Out: out})
		}
		return l, nil
	case *starlark.List:
		for e := range starlark.Elements(v) {
			said, ok := starlark.AsString(e)
			if !ok {
				return l, fmt.Errorf("what is said is text, got %s", e)
			}
			l.Values = append(l.Values, intent.Value{In: said})
		}
		return l, nil
	}
	return l, errors.New("want a list of words, a dict of what is said and meant, (low, high), or \"*\"")
}

// withLists adds what a tool's parameters say that their slots may hold.
func withLists(lists map[string]intent.List, params *schema.Schema) map[string]intent.List {
	if params == nil {
		return lists
	}
	out := map[string]intent.List{}
	for _, p := range params.Properties {
		if l, ok := listOfParam(p.Schema); ok {
			out[p.Name] = l
		}
	}
	for name, l := range lists {
		out[name] = l
	}
	return out
}

func listOfParam(s *schema.Schema) (l intent.List, ok bool) {
	switch {
	case len(s.Enum) > 0:
		for _, e := range s.Enum {
			said := strings.ReplaceAll(fmt.Sprint(e), "_", " ")
			l.Values = append(l.Values, intent.Value{In: said, Out: e})
		}
		return l, true
	case s.Kind == schema.Boolean:
		return intent.List{Values: []intent.Value{{In: "(on|yes)", Out: true}, {In: "(off|no)", Out: false}}}, true
	case s.Kind == schema.Integer || s.Kind == schema.Number:
		r := &intent.Range{From: 0, To: 1000}
		if s.Minimum != nil {
			r.From = *s.Minimum
		}
		if s.Maximum != nil {
			r.To = *s.Maximum
		}
		if s.Kind == schema.Number && r.To-r.From <= 10 {
			r.Step = 0.5
		}
		return intent.List{Range: r}, true
	case s.Kind == schema.String:
		return intent.List{Wildcard: true}, true
	}
	return l, false
}

// sentences compiles what the agent's tools say people ask for them; nil if
// they say nothing.
func (a *modelAgent) sentences(c *value.Call) (llm.Model, error) {
	var tools []llm.Tool
	for _, t := range a.tools {
		tools = append(tools, t.Tool)
	}
	for _, l := range a.choice.lists {
		if l != nil {
			if err := l.model.Check(tools); err != nil {
				return nil, sentenceError(c, err)
			}
		}
	}
	if !slices.Contains(a.choice.names, "intent") {
		return nil, nil
	}
	var list []intent.Intent
	for _, t := range a.tools {
		if len(t.sentences) > 0 {
			list = append(list, intent.Intent{Name: t.Name, Tool: t.Name, Sentences: t.sentences, Response: t.response, Lists: withLists(nil, t.params)})
		}
	}
	if list == nil {
		return nil, nil
	}
	m, err := intent.Compile(list, intent.Options{Fuzzy: c.Float("fuzzy")})
	if err != nil {
		return nil, sentenceError(c, err)
	}
	return m, nil
}
