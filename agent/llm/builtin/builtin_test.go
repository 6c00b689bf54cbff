package builtin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"edged/agent/llm"
	"edged/agent/llm/builtin"
	"edged/agent/llm/builtin/engine"
	"edged/agent/llm/builtin/train"
	"edged/agent/llm/llmtest"
)

func model(t testing.TB) *builtin.Model {
	t.Helper()
	m, err := builtin.New(builtin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func ask(text string) llm.Request {
	return llm.Request{Messages: []llm.Message{{Role: llm.System, Text: "You are a robot."}, {Role: llm.User, Text: text}}, Tools: train.Offer(train.Demo())}
}

// TestCommands are those that everybody tries first.
func TestCommands(t *testing.T) {
	m := model(t)
	for text, want := range map[string]string{
		"turn left ninety degrees":       `turn{"degrees":90,"direction":"left"}`,
		"Turn left.":                     `turn{"degrees":90,"direction":"left"}`,
		"go to the kitchen":              `go_to{"place":"kitchen"}`,
		"Please drive to the bedroom.":   `go_to{"place":"bedroom"}`,
		"go to the living room":          `go_to{"place":"living"}`,
		"go forward 2.5 meters":          `move{"direction":"forward","meters":2.5}`,
		"move back fifty centimeters":    `move{"direction":"backward","meters":0.5}`,
		"stop":                           `stop{}`,
		"what is the battery level":      `read_sensor{"name":"battery"}`,
		"turn on the light in the hall":  `set_light{"on":true,"room":"hall"}`,
		"say Hello, Anna!":               `say{"text":"Hello, Anna"}`,
		"say do not enter":               `say{"text":"do not enter"}`,
		"pick up the red cup":            `pick_up{"object":"red cup"}`,
		"put it down":                    `put_down{}`,
		"what is the capital of France":  "declined",
		"don't stop":                     "declined",
		"don't go to the kitchen":        "declined",
		"did you go to the kitchen":      "declined",
		"go to the kitchen when I call":  "declined",
		"turn left five hundred degrees": "declined",
		"":                               "declined",
		// What leaves open where to, or how far.
		"go away":                     "declined",
		"come back":                   "declined",
		"go on":                       "declined",
		"Robot, move over, please":    "declined",
		"drive away":                  "declined",
		"move on to the next one":     "declined",
		"turn a bit to the left":      "declined",
		"turn a little to the right":  "declined",
		"turn slightly left":          "declined",
		"turn left 10 degrees, a bit": `turn{"degrees":10,"direction":"left"}`,
		"drive on":                    `move{"direction":"forward","meters":1}`, // its phrases tell how far
		"back up a bit":               `move{"direction":"backward","meters":1}`,
		"turn around":                 `turn{"degrees":180,"direction":"left"}`,
		"go over to the kitchen":      `go_to{"place":"kitchen"}`,
	} {
		a, err := m.Chat(t.Context(), ask(text), nil)
		got := "declined"
		switch {
		case err == nil:
			got = a.Calls[0].Name + string(a.Calls[0].Args)
			if a.Finish != llm.FinishCall || a.Role != llm.Assistant || a.Calls[0].ID == "" || a.Usage.OutputTokens == 0 {
				t.Errorf("%q: an odd answer: %+v", text, a)
			}
		case !errors.Is(err, llm.ErrNoMatch):
			t.Errorf("%q: %v", text, err)
		}
		if got != want {
			t.Errorf("%q: got %s, want %s (%v)", text, got, want, err)
		}
	}
}

// TestLastWordsOnly: what was said before does not matter.
func TestLastWordsOnly(t *testing.T) {
	m := model(t)
	r := ask("turn left")
	r.Messages = append([]llm.Message{{Role: llm.User, Text: "go to the kitchen"}, {Role: llm.Assistant, Calls: []llm.Call{{ID: "builtin-1", Name: "go_to"}}}, {Role: llm.ToolRole, Text: "ok"}}, r.Messages...)
	a, err := m.Chat(t.Context(), r, nil)
	if err != nil || a.Calls[0].Name != "turn" || a.Calls[0].ID != "builtin-2" {
		t.Errorf("got %+v, %v", a, err)
	}
}

func TestToolResult(t *testing.T) {
	m := model(t)
	r := ask("turn left")
	r.Messages = append(r.Messages, llm.Message{Role: llm.Assistant, Calls: []llm.Call{{ID: "builtin-1", Name: "turn"}}}, llm.Message{Role: llm.ToolRole, CallID: "builtin-1", Text: "87 %"})
	var heard strings.Builder
	a, err := m.Chat(t.Context(), r, func(s string) error { heard.WriteString(s); return nil })
	if err != nil || a.Text != "It reads 87 %." || heard.String() != a.Text || a.Finish != llm.FinishStop {
		t.Errorf("got %+v, %v; streamed %q", a, err, heard.String())
	}
}

// TestOfferedToolsOnly: it calls none that it is not offered, and says what it
// knows when it knows none of them.
func TestOfferedToolsOnly(t *testing.T) {
	m := model(t)
	r := ask("turn left")
	r.Tools = []llm.Tool{{Name: "stop"}, {Name: "make_coffee"}}
	if a, err := m.Chat(t.Context(), r, nil); !errors.Is(err, llm.ErrNoMatch) {
		t.Errorf("got %+v, %v", a, err)
	}
	r.Tools = r.Tools[1:]
	_, err := m.Chat(t.Context(), r, nil)
	if !errors.Is(err, llm.ErrNoMatch) || !strings.Contains(err.Error(), "no tool that it knows (only make_coffee)") || !strings.Contains(err.Error(), "go_to") {
		t.Errorf("got %v", err)
	}
	r.Tools = []llm.Tool{{Name: "decline"}}
	if _, err := m.Chat(t.Context(), r, nil); !errors.Is(err, llm.ErrNoMatch) || strings.Contains(err.Error(), "decline") {
		t.Errorf("an agent without tools: got %v", err)
	}
	r.Tools = []llm.Tool{{Name: "stop", Params: json.RawMessage(`{"type":"integer","minimum":2,"maximum":1}`)}}
	if _, err := m.Chat(t.Context(), r, nil); !errors.Is(err, llm.ErrBadSchema) {
		t.Errorf("got %v", err)
	}
}

// TestNarrowerSchema: the offered schema holds, not the one of the training.
func TestNarrowerSchema(t *testing.T) {
	m := model(t)
	r := ask("go to the kitchen")
	r.Tools = []llm.Tool{{Name: "go_to", Params: json.RawMessage(`{"type":"object","properties":{"place":{"enum":["kitchen","dock"]}},"required":["place"]}`)}}
	a, err := m.Chat(t.Context(), r, nil)
	if err != nil || string(a.Calls[0].Args) != `{"place":"kitchen"}` {
		t.Errorf("got %+v, %v", a, err)
	}
	r.Messages[1].Text = "go to the garden"
	if a, err := m.Chat(t.Context(), r, nil); !errors.Is(err, llm.ErrNoMatch) {
		t.Errorf("the garden is none of two places: got %+v, %v", a, err)
	}
}

func TestSchemaAnswer(t *testing.T) {
	m := model(t)
	r := ask("turn left ninety degrees")
	r.Tools = nil
	r.Schema = json.RawMessage(`{"type":"object","properties":{"name":{"enum":["turn","stop"]},"why":{"type":"string","maxLength":30},"degrees":{"type":"integer","minimum":0,"maximum":360}},"required":["name","why","degrees"]}`)
	var streamed strings.Builder
	a, err := m.Chat(t.Context(), r, func(s string) error { streamed.WriteString(s); return nil })
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Name, Why string
		Degrees   int
	}
	if err := json.Unmarshal([]byte(a.Text), &v); err != nil || v.Name == "" || v.Degrees > 360 || len(v.Why) > 30 {
		t.Errorf("got %s, %v", a.Text, err)
	}
	if streamed.String() != a.Text {
		t.Errorf("streamed %q, answered %q", streamed.String(), a.Text)
	}
	r.MaxTokens = 3
	if _, err := m.Chat(t.Context(), r, nil); !errors.Is(err, llm.ErrCutOff) {
		t.Errorf("three tokens: got %v", err)
	}
	r.MaxTokens, r.Schema = 0, json.RawMessage(`{"type":"integer","minimum":2,"maximum":1}`)
	if _, err := m.Chat(t.Context(), r, nil); !errors.Is(err, llm.ErrBadSchema) {
		t.Errorf("a schema of nothing: got %v", err)
	}
}

// TestCancel: cancelled in the middle of an answer, it ends there.
func TestCancel(t *testing.T) {
	m := model(t)
	r := ask("turn left")
	r.Tools, r.Schema = nil, json.RawMessage(`{"type":"array","items":{"enum":["left","right"]},"minItems":8,"maxItems":8}`)
	ctx, cancel := context.WithCancel(t.Context())
	pieces := 0
	_, err := m.Chat(ctx, r, func(string) error {
		if pieces++; pieces == 3 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || pieces != 3 {
		t.Errorf("%d pieces and %v", pieces, err)
	}
	full := errors.New("the listener has heard enough")
	if _, err := m.Chat(t.Context(), r, func(string) error { return full }); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
	if _, err := m.Chat(ctx, ask("turn left"), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestConcurrent(t *testing.T) {
	m := model(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			way := []string{"left", "right"}[i%2]
			a, err := m.Chat(t.Context(), ask("turn "+way), nil)
			if err != nil || !strings.Contains(string(a.Calls[0].Args), way) {
				t.Errorf("%s: got %+v, %v", way, a, err)
			}
		})
	}
	wg.Wait()
}

func TestDescribe(t *testing.T) {
	info, err := model(t).Describe(t.Context())
	if err != nil || info.Name != "builtin" || !info.Tools || !info.Schema || info.Embed || info.Context == 0 {
		t.Errorf("got %+v, %v", info, err)
	}
	if _, err := builtin.New(builtin.Options{Data: []byte("no model")}); !errors.Is(err, engine.ErrFile) {
		t.Errorf("got %v", err)
	}
}

// TestBar: what is promised of the embedded model.
func TestBar(t *testing.T) {
	m := model(t)
	n, still := 400, quiet(t)
	if raced {
		n, still = 30, still[:150]
	}
	r, err := train.Evaluate(t.Context(), m, train.Demo(), n, 5, still)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", r)
	if s := r.Quiet.Share(r.Quiet.Motion); s > 2 || r.Quiet.Asked < 150 {
		t.Errorf("%.1f %% wrong motion of %d; at most 2 of at least 150 are promised", s, r.Quiet.Asked)
	}
	if raced {
		return // too few to tell; make test runs it again without the detector
	}
	if s := r.Seen.Share(r.Seen.Exact); s < 97 {
		t.Errorf("%.1f %% of phrasings seen; 97 are promised", s)
	}
	if s := r.Held.Share(r.Held.Exact); s < 80 {
		t.Errorf("%.1f %% of phrasings held out; 80 are promised", s)
	}
}

// TestModel: the contract of all models.
func TestModel(t *testing.T) {
	closing := ask("turn left")
	closing.Messages = append(closing.Messages, llm.Message{Role: llm.Assistant, Calls: []llm.Call{{ID: "builtin-1", Name: "turn"}}}, llm.Message{Role: llm.ToolRole, CallID: "builtin-1", Text: "87 %"})
	m := model(t)
	llmtest.Run(t, func(*testing.T) llm.Model { return m }, llmtest.Traits{
		Chat: closing, Pieces: true, Call: ask("turn left ninety degrees"), Refuses: llm.ErrNoMatch, Empty: llm.ErrNoMatch,
		Form: llmtest.Under(llmtest.Ask("turn left"), `{"type":"object","properties":{"way":{"type":"string","enum":["left","right"]},"degrees":{"type":"integer","minimum":0,"maximum":360}},"required":["way","degrees"],"additionalProperties":false}`),
		Fails: []llmtest.Failure{
			{Name: "small talk", Request: ask("how are you today"), Want: llm.ErrNoMatch},
			{Name: "no tools", Request: llmtest.Ask("turn left"), Want: llm.ErrNoMatch},
			{Name: "no bound", Request: llmtest.Under(llmtest.Ask("turn left"), `{"type":"integer","minimum":2,"maximum":1}`), Want: llm.ErrBadSchema},
		},
	})
}

// TestFailedTool: a run whose tool failed is no success.
func TestFailedTool(t *testing.T) {
	r := ask("turn left")
	r.Messages = append(r.Messages, llm.Message{Role: llm.ToolRole, CallID: "builtin-1"})
	for _, text := range []string{"error: the door is closed", `{"error":"the door is closed"}`, `"error: the door is closed"`} {
		r.Messages[len(r.Messages)-1].Text = text
		_, err := model(t).Chat(t.Context(), r, nil)
		var end *llm.End
		if !errors.As(err, &end) || err.Error() != "failed: the door is closed" || end.Reply != "That did not work: the door is closed." {
			t.Errorf("%s: got %v", text, err)
		}
	}
}

func Example() {
	m, err := builtin.New(builtin.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	r := llm.Request{
		Messages: []llm.Message{{Role: llm.User, Text: "Turn left ninety degrees!"}},
		Tools:    train.Offer(train.Demo()),
	}
	answer, err := m.Chat(context.Background(), r, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s %s\n", answer.Calls[0].Name, answer.Calls[0].Args)
	r.Messages[0].Text = "What is the capital of France?"
	_, err = m.Chat(context.Background(), r, nil)
	fmt.Println(err)
	// Output:
	// turn {"degrees":90,"direction":"left"}
	// builtin: nothing that this model knows fits: no tool fits what was said
}
