package ollama

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"sync"
	"testing"

	"edged/agent/llm"
	"edged/agent/llm/ollama"
)

func ask(words ...string) llm.Request {
	var r llm.Request
	for _, w := range words {
		r.Messages = append(r.Messages, llm.Message{Role: llm.User, Text: w})
	}
	return r
}

// drawn sets how an answer is drawn.
func drawn(r llm.Request, temperature float64, seed int64, tokens int) llm.Request {
	r.Temperature, r.Seed, r.MaxTokens = &temperature, &seed, tokens
	return r
}

// bounded is a schema that even a model of random weights fits.
const bounded = `{"type":"object","properties":{
	"action":{"enum":["move","turn","stop"]},"speed":{"type":"integer","minimum":0,"maximum":100},"ok":{"type":"boolean"}},
	"required":["action","speed","ok"]}`

func under(r llm.Request, schema string) llm.Request { r.Schema = json.RawMessage(schema); return r }

// tools are two of those that the trained model knows.
func tools() []llm.Tool {
	return []llm.Tool{
		{Name: "move", Doc: "Drive straight.", Params: json.RawMessage(`{"type":"object","properties":{
			"direction":{"type":"string","enum":["forward","backward"]},
			"meters":{"type":"number","minimum":0,"maximum":10,"default":1}},"required":["direction","meters"]}`)},
		{Name: "turn", Doc: "Turn on the spot.", Params: json.RawMessage(`{"type":"object","properties":{
			"direction":{"type":"string","enum":["left","right"]},
			"degrees":{"type":"integer","minimum":0,"maximum":360}},"required":["direction","degrees"]}`)},
		{Name: "stop", Doc: "Stop at once."},
	}
}

// meaning skips a test that needs a model that understands.
func meaning(t *testing.T) {
	if trained() == "" {
		t.Skip("SKIPPED: there is no trained model in agent/llm/builtin")
	}
}

func is(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want one that wraps %q", err, want)
	}
	var trouble *llm.Trouble
	if !errors.As(err, &trouble) || trouble.Remedy == "" {
		t.Errorf("%v has no remedy", err)
	}
	if strings.ContainsAny(err.Error(), "\n\r") {
		t.Errorf("the error has several lines: %q", err)
	}
}

func TestStreaming(t *testing.T) {
	m := up(t).client(t, ollama.Options{}).Model("tiny")
	var said []string
	_, err := m.Chat(t.Context(), drawn(ask("hello"), 1, 7, 40), func(s string) error { said = append(said, s); return nil })
	is(t, err, llm.ErrCutOff) // random words have no end
	if len(said) < 5 {
		t.Errorf("said %q, want words one by one", said)
	}
}

// TestBoundedSchema: with bounds, every model fits.
func TestBoundedSchema(t *testing.T) {
	m := up(t).client(t, ollama.Options{}).Model("tiny")
	for _, temperature := range []float64{0, 1} {
		for seed := range int64(4) {
			a, err := m.Chat(t.Context(), under(drawn(ask("hello"), temperature, seed, 400), bounded), nil)
			if err != nil {
				t.Errorf("temperature %v, seed %d: %v", temperature, seed, err)
				continue
			}
			var v struct {
				Action string
				Speed  *int
				OK     *bool
			}
			if err := json.Unmarshal([]byte(a.Text), &v); err != nil || !strings.Contains("move turn stop", v.Action) ||
				v.Speed == nil || *v.Speed < 0 || *v.Speed > 100 || v.OK == nil {
				t.Errorf("temperature %v, seed %d: got %q", temperature, seed, a.Text)
			}
			if a.Finish != llm.FinishStop || a.Usage.OutputTokens == 0 || a.Usage.PromptTokens == 0 {
				t.Errorf("got finish %q, usage %+v", a.Finish, a.Usage)
			}
		}
	}
}

// TestMissingDone: a model that repeats itself makes the server give up in the
// middle of a free string; it has said 200 and just ends.
func TestMissingDone(t *testing.T) {
	m := up(t).client(t, ollama.Options{}).Model("stuck")
	free := `{"type":"object","properties":{"s":{"type":"string"}},"required":["s"]}`
	said := 0
	_, err := m.Chat(t.Context(), under(drawn(ask("hello"), 0, 1, 1000), free), func(string) error { said++; return nil })
	is(t, err, llm.ErrNoDone)
	if said == 0 {
		t.Error("nothing was said before the end")
	}
}

// TestCutOff: what was cut is not handed on, least of all half a JSON.
func TestCutOff(t *testing.T) {
	m := up(t).client(t, ollama.Options{}).Model("tiny")
	a, err := m.Chat(t.Context(), under(drawn(ask("hello"), 0, 1, 6), bounded), nil)
	is(t, err, llm.ErrCutOff)
	if a.Text != "" || a.Usage.OutputTokens != 6 {
		t.Errorf("got %+v, want no words and 6 tokens", a)
	}
}

func TestToolCall(t *testing.T) {
	meaning(t)
	m := up(t).client(t, ollama.Options{}).Model("robot")
	for _, row := range []struct{ say, tool, args string }{
		{"turn left ninety degrees", "turn", `{"direction":"left","degrees":90}`},
		{"go forward 2.5 meters", "move", `{"direction":"forward","meters":2.5}`},
		{"stop", "stop", `{}`},
	} {
		r := drawn(ask(row.say), 0, 1, 60)
		r.Tools = tools()
		var said strings.Builder
		a, err := m.Chat(t.Context(), r, func(s string) error { said.WriteString(s); return nil })
		if err != nil || a.Finish != llm.FinishCall || len(a.Calls) != 1 || a.Calls[0].Name != row.tool || a.Calls[0].ID == "" {
			t.Errorf("%q: got %+v, %v, want a call of %s", row.say, a, err, row.tool)
			continue
		}
		var got, want any // the order of keys differs from run to run
		json.Unmarshal(a.Calls[0].Args, &got)
		json.Unmarshal([]byte(row.args), &want)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got arguments %s, want %s", row.say, a.Calls[0].Args, row.args)
		}
		if said.Len() > 0 || a.Text != "" {
			t.Errorf("%q: said %q beside the call", row.say, said.String())
		}
		// The result goes back, and the dialogue is accepted.
		r.Messages = append(r.Messages, a, llm.Message{Role: llm.ToolRole, Name: row.tool, CallID: a.Calls[0].ID, Text: "ok"})
		if b, err := m.Chat(t.Context(), r, nil); err != nil {
			t.Errorf("%q: after the result: %+v, %v", row.say, b, err)
		} else {
			t.Logf("%q → %s%s → %q", row.say, row.tool, a.Calls[0].Args, b.Text)
		}
	}
}

// TestCallNotOffered: Ollama hides a call of a tool it doesn't know; what is
// left is an answer of many tokens and no words.
func TestCallNotOffered(t *testing.T) {
	meaning(t)
	m := up(t).client(t, ollama.Options{}).Model("robot")
	r := drawn(ask("turn left ninety degrees"), 0, 1, 60)
	r.Tools = []llm.Tool{{Name: "sing", Doc: "Sing."}}
	a, err := m.Chat(t.Context(), r, nil)
	is(t, err, llm.ErrEmpty)
	if a.Usage.OutputTokens < 2 {
		t.Errorf("usage is %+v, want the tokens that were spent", a.Usage)
	}
}

// TestChoice: "must call" is kept even by a model of random weights, and "must
// not" by one that would.
func TestChoice(t *testing.T) {
	c := up(t).client(t, ollama.Options{})
	r := drawn(ask("hello"), 0, 1, 400)
	r.Tools, r.Choice = tools(), llm.ChoiceRequired
	a, err := c.Model("tiny").Chat(t.Context(), r, nil)
	if err != nil || a.Finish != llm.FinishCall || len(a.Calls) != 1 || !json.Valid(a.Calls[0].Args) {
		t.Errorf("required: got %+v, %v, want a call", a, err)
	}
	meaning(t)
	r = drawn(ask("turn left ninety degrees"), 0, 1, 60)
	r.Tools, r.Choice = tools(), llm.ChoiceNone
	if a, err := c.Model("robot").Chat(t.Context(), r, nil); len(a.Calls) > 0 {
		t.Errorf("none: got %+v, %v, want no call", a, err)
	}
}

func TestRefusals(t *testing.T) {
	c := up(t).client(t, ollama.Options{})
	withTools, thinking := ask("hello"), ask("hello")
	withTools.Tools = tools()
	thinking.Think = true
	for _, row := range []struct {
		name, model string
		ask         llm.Request
		want        error
		words       string
	}{
		{"no tools", "plain", withTools, llm.ErrNoTools, "without, calls are asked for in a schema"},
		{"no thinking", "plain", thinking, llm.ErrNoThinking, "leave think away"},
		{"unknown model", "nope", ask("hello"), llm.ErrUnknownModel, "edged model pull nope"},
		{"no model", "", ask("hello"), llm.ErrUnknownModel, ""},
		{"bad name", "no such:model:at all", ask("hello"), llm.ErrUnknownModel, ""},
		{"schema of no type", "tiny", under(ask("hello"), `{"type":"objectx"}`), llm.ErrBadSchema, ""},
		{"schema of no object", "tiny", under(ask("hello"), `"yaml"`), llm.ErrBadSchema, ""},
		{"schema that is no JSON", "tiny", under(ask("hello"), `{"type":`), llm.ErrBadSchema, ""},
		{"too long", "tiny", ask(strings.Repeat("kitchen ", 3000)), llm.ErrContext, "num_ctx"},
	} {
		t.Run(row.name, func(t *testing.T) {
			a, err := c.Model(row.model).Chat(t.Context(), row.ask, nil)
			is(t, err, row.want)
			if !strings.Contains(err.Error(), row.words) {
				t.Errorf("%v does not say %q", err, row.words)
			}
			if a.Text != "" || a.Calls != nil {
				t.Errorf("got %+v beside the error", a)
			}
		})
	}
	for l := range strings.Lines(shared.log.String()) {
		if strings.Contains(l, "[GIN] ") && strings.Contains(l, "/api/pull") {
			t.Errorf("something was pulled: %s", l)
		}
	}
}

// TestDescribe: what a model can do is read once; whether it is there, always.
func TestDescribe(t *testing.T) {
	c := up(t).client(t, ollama.Options{Context: 1024})
	for _, row := range []struct {
		model string
		tools bool
	}{{"tiny", true}, {"plain", false}} {
		i, err := c.Model(row.model).Describe(t.Context())
		if err != nil || i.Tools != row.tools || i.Thinking || !i.Schema || i.Context != 1024 || i.Name != "ollama:"+row.model {
			t.Errorf("%s: got %+v, %v", row.model, i, err)
		}
	}
	_, err := c.Model("nope").Describe(t.Context())
	is(t, err, llm.ErrUnknownModel)
}

func TestEmbed(t *testing.T) {
	s := up(t)
	m := s.client(t, ollama.Options{}).Model("tiny")
	v, err := m.Embed(t.Context(), []string{"kitchen", "a dock", "kitchen"})
	if err != nil || len(v) != 3 || len(v[0]) != 64 {
		t.Fatalf("got %d vectors, %v", len(v), err)
	}
	norm, dot := 0.0, 0.0
	for i := range v[0] {
		norm += float64(v[0][i] * v[0][i])
		dot += float64(v[0][i] * v[2][i])
	}
	if math.Abs(norm-1) > 1e-3 || math.Abs(dot-1) > 1e-3 {
		t.Errorf("norm %v and likeness of the same text %v, want 1", norm, dot)
	}
	if i, err := m.Describe(t.Context()); err != nil || !i.Embed {
		t.Errorf("after it worked: %+v, %v", i, err)
	}
}

func TestParallel(t *testing.T) {
	m := up(t).client(t, ollama.Options{}).Model("tiny")
	var wg sync.WaitGroup
	for seed := range int64(6) {
		wg.Go(func() {
			if _, err := m.Chat(t.Context(), under(drawn(ask("hello"), 1, seed, 400), bounded), nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}
