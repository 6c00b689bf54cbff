package intent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"edged/agent"
	"edged/agent/llm"
)

func say(role llm.Role, text string) llm.Message { return llm.Message{Role: role, Text: text} }

func TestChat(t *testing.T) {
	m := robot(t)
	ctx := t.Context()
	tools := []llm.Tool{{Name: "go_to"}, {Name: "turn"}}
	dialogue := []llm.Message{say(llm.System, "you are a robot"), say(llm.User, "hello"), say(llm.Assistant, "hi"), say(llm.User, "Go to the Kitchen, please")}
	a, err := m.Chat(ctx, llm.Request{Messages: dialogue, Tools: tools}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if a.Finish != llm.FinishCall || len(a.Calls) != 1 || a.Calls[0].Name != "go_to" || string(a.Calls[0].Args) != `{"place":"kitchen"}` || a.Calls[0].ID == "" {
		t.Fatalf("got %+v", a)
	}
	var heard string
	dialogue = append(dialogue, a, llm.Message{Role: llm.ToolRole, CallID: a.Calls[0].ID, Name: "go_to", Text: `{"arrived": true}`})
	a, err = m.Chat(ctx, llm.Request{Messages: dialogue, Tools: tools}, func(s string) error { heard += s; return nil })
	if err != nil || a.Text != "Going to the kitchen." || heard != a.Text || a.Finish != llm.FinishStop || len(a.Calls) != 0 {
		t.Fatalf("got %+v %v, heard %q", a, err, heard)
	}
	for _, trouble := range []string{`{"error": "the door is closed"}`, "error: the door is closed"} {
		dialogue[len(dialogue)-1].Text = trouble
		if a, err = m.Chat(ctx, llm.Request{Messages: dialogue, Tools: tools}, nil); !errors.Is(err, agent.ErrFailed) || err.Error() != "failed: the door is closed" {
			t.Errorf("a failed tool was answered %q, %v", a.Text, err)
		}
	}
}

func TestChatDeclines(t *testing.T) {
	m := robot(t)
	tools := []llm.Tool{{Name: "go_to"}}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name string
		ctx  context.Context
		r    llm.Request
		want error
	}{
		{"no sentence", t.Context(), llm.Request{Messages: []llm.Message{say(llm.User, "what is the capital of France")}, Tools: tools}, llm.ErrNoMatch},
		{"tool not offered", t.Context(), llm.Request{Messages: []llm.Message{say(llm.User, "turn left 90 degrees")}, Tools: tools}, llm.ErrNoMatch},
		{"no tool wanted", t.Context(), llm.Request{Messages: []llm.Message{say(llm.User, "go to the hall")}, Tools: tools, Choice: llm.ChoiceNone}, llm.ErrNoMatch},
		{"a schema", t.Context(), llm.Request{Messages: []llm.Message{say(llm.User, "go to the hall")}, Schema: []byte(`{}`)}, llm.ErrNoMatch},
		{"nothing said", t.Context(), llm.Request{}, llm.ErrNoMatch},
		{"assistant last", t.Context(), llm.Request{Messages: []llm.Message{say(llm.Assistant, "go to the hall")}, Tools: tools}, llm.ErrNoMatch},
		{"foreign result", t.Context(), llm.Request{Messages: []llm.Message{say(llm.User, "go to the hall"), {Role: llm.ToolRole, Name: "turn"}}, Tools: tools}, llm.ErrNoMatch},
		{"cancelled", ended, llm.Request{Messages: []llm.Message{say(llm.User, "go to the hall")}, Tools: tools}, context.Canceled},
	} {
		a, err := m.Chat(c.ctx, c.r, func(string) error { t.Errorf("%s: something was said", c.name); return nil })
		if !errors.Is(err, c.want) || len(a.Calls) > 0 {
			t.Errorf("%s: got %+v, %v", c.name, a, err)
		}
	}
}

func TestAnswers(t *testing.T) {
	lists := map[string]List{"room": {Values: []Value{{In: "kitchen", Out: "area.kitchen"}, {In: "(bath|bathing) room", Out: 7}}}, "n": {Range: &Range{To: 10}}}
	m := compile(t, Options{Lists: lists}, Intent{Tool: "temp", Sentences: []string{"how warm is [the] {room} [in {n} hours]"}, Slots: map[string]any{"unit": "C"},
		Response: "In the {room} ({room.value}) it is {result.now.celsius} °{unit} {n}."})
	for _, c := range []struct{ say, result, want string }{
		{"how warm is the kitchen", `{"now":{"celsius":21.5}}`, "In the kitchen (area.kitchen) it is 21.5 °C."},
		{"how warm is Bathing Room in two hours", `{"now":{"celsius":20}}`, "In the Bathing Room (7) it is 20 °C two."},
		{"how warm is the kitchen", `nonsense`, "In the kitchen (area.kitchen) it is °C."},
	} {
		got, ok := m.Match(c.say)
		if text := got.Answer(json.RawMessage(c.result)); !ok || text != c.want {
			t.Errorf("%q: got %v %q, want %q", c.say, ok, text, c.want)
		}
	}
	if text := (Match{}).Answer(json.RawMessage(`"done it"`)); text != "done it" {
		t.Errorf("without a template: %q", text)
	}
}

func TestCheck(t *testing.T) {
	m := compile(t, Options{}, Intent{Tool: "go_to", Sentences: []string{"go to {place}"}, Lists: map[string]List{"place": Words("hall")}})
	params := json.RawMessage(`{"type":"object","properties":{"place":{"type":"string"}}}`)
	if err := m.Check([]llm.Tool{{Name: "go_to", Params: params}}); err != nil {
		t.Error(err)
	}
	if err := m.Check([]llm.Tool{{Name: "goto", Params: params}}); err == nil || !strings.Contains(err.Error(), "did you mean goto?") {
		t.Errorf("a wrong tool: %v", err)
	}
	if err := m.Check([]llm.Tool{{Name: "go_to", Params: json.RawMessage(`{"properties":{"plce":{}}}`)}}); err == nil || !strings.Contains(err.Error(), "did you mean plce?") {
		t.Errorf("a wrong slot: %v", err)
	}
}

// Other languages count and negate, too.
func TestLanguages(t *testing.T) {
	angle := map[string]List{"n": {Range: &Range{To: 2000, Step: 0.5}}, "ort": Words("küche", "flur")}
	for _, c := range []struct {
		lang, sentence string
		yes            map[string]any
		no             []string
	}{
		{"de", "dreh dich [um] {n} Grad [nach] links", map[string]any{"dreh dich um einundzwanzig Grad nach links": int64(21), "Dreh dich hundertzwanzig Grad links": nil, "bitte dreh dich um zwei komma fünf grad links": 2.5, "kannst du dich": nil},
			[]string{"dreh dich nicht um 90 Grad links", "nie dreh dich 90 grad links"}},
		{"fr", "tourne [à] gauche de {n} degrés", map[string]any{"tourne à gauche de vingt et un degrés": int64(21), "Tourne à gauche de quarante-cinq degrés": int64(45), "tourne a gauche de 90 degres s'il te plaît": nil},
			[]string{"ne tourne pas à gauche de 90 degrés", "tourne pas à gauche de 90 degrés"}},
		{"es", "gira {n} grados", map[string]any{"gira cuarenta y cinco grados": int64(45), "por favor gira noventa grados": int64(90)}, []string{"no gira 90 grados", "no gires 90 grados"}},
		{"it", "gira di {n} gradi", map[string]any{"gira di novanta gradi": int64(90)}, []string{"non gira di 90 gradi"}},
		{"nl", "draai {n} graden", map[string]any{"draai vijfenveertig graden": int64(45)}, []string{"draai niet 45 graden"}},
		{"en-GB", "turn {n} degrees", map[string]any{"turn two hundred and five degrees": int64(205)}, nil},
	} {
		m := compile(t, Options{Language: c.lang, Lists: angle}, Intent{Tool: "turn", Sentences: []string{c.sentence}})
		for text, want := range c.yes {
			if got, ok := m.Match(text); got.Slots["n"] != want {
				t.Errorf("%s %q: got %v %v, want %v", c.lang, text, ok, got.Slots, want)
			}
		}
		for _, text := range c.no {
			if got, ok := m.Match(text); ok {
				t.Errorf("%s %q became %v", c.lang, text, got.Slots)
			}
		}
	}
}

func TestConcurrent(t *testing.T) {
	m := robot(t)
	done := make(chan error, 8)
	for range 8 {
		go func() {
			for i := range 200 {
				if got, ok := m.Match(fmt.Sprintf("turn left %d degrees", i%359+1)); !ok || got.Slots["angle"] != int64(i%359+1) {
					done <- fmt.Errorf("%d: %v %v", i, ok, got.Slots)
					return
				}
			}
			done <- nil
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// Wildcards next to each other must not take for ever.
func TestManyWildcards(t *testing.T) {
	w := map[string]List{"a": {Wildcard: true}, "b": {Wildcard: true}, "c": {Wildcard: true}, "d": {Wildcard: true}}
	m := compile(t, Options{Lists: w}, Intent{Tool: "x", Sentences: []string{"{a} {b} {c} {d} end", "{a} by {b} by {c} by {d}"}})
	if got, ok := m.Match("by by by by by by by"); !ok || got.Slots["a"] != "by" {
		t.Errorf("got %v %v", ok, got.Slots)
	}
	m.Match(strings.Repeat("by ", 99))
}

func ExampleCompile() {
	m, err := Compile([]Intent{{
		Tool:      "turn",
		Sentences: []string{"turn {side} [by] {angle} [degree[s]|°]", "turn {angle} [degrees] [to the] {side}"},
		Lists:     map[string]List{"side": Words("left", "right"), "angle": {Range: &Range{From: 1, To: 360}}},
		Response:  "Turning {side}.",
	}}, Options{SkipWords: []string{"please"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	match, ok := m.Match("Please turn ninety degrees to the left!")
	fmt.Println(ok, match.Tool, match.Slots["side"], match.Slots["angle"], match.Answer(nil))
	_, ok = m.Match("please don't turn left ninety degrees")
	fmt.Println(ok)
	// Output:
	// true turn left 90 Turning left.
	// false
}
