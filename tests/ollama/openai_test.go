package ollama

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"edged/agent/llm"
	"edged/agent/llm/openai"
)

// v1 makes the OpenAI client's model of the server's /v1.
func v1(t *testing.T, name string) *openai.Model {
	o, err := openai.Parse(name + "@http://" + up(t).host + "/v1")
	if err != nil {
		t.Fatal(err)
	}
	o.Key = "a key that nobody asked for"
	return openai.New(o)
}

func TestV1Words(t *testing.T) {
	var said strings.Builder
	pieces := 0
	a, err := v1(t, "tiny").Chat(t.Context(), drawn(ask("hello"), 1, 7, 40), func(s string) error {
		pieces++
		said.WriteString(s)
		return nil
	})
	is(t, err, llm.ErrCutOff)
	if pieces < 5 || a.Text != "" || a.Usage.OutputTokens != 40 || a.Usage.PromptTokens == 0 {
		t.Errorf("got %+v, %d pieces: %q", a, pieces, said.String())
	}
}

func TestV1Schema(t *testing.T) {
	m := v1(t, "tiny")
	for seed := range int64(3) {
		a, err := m.Chat(t.Context(), under(drawn(ask("hello"), 1, seed, 400), bounded), nil)
		var v map[string]any
		if err != nil || json.Unmarshal([]byte(a.Text), &v) != nil || len(v) != 3 {
			t.Errorf("seed %d: got %+v, %v", seed, a, err)
		}
	}
	_, err := m.Chat(t.Context(), under(drawn(ask("hello"), 0, 1, 6), bounded), nil)
	is(t, err, llm.ErrCutOff)
}

func TestV1MissingDone(t *testing.T) {
	free := `{"type":"object","properties":{"s":{"type":"string"}},"required":["s"]}`
	_, err := v1(t, "stuck").Chat(t.Context(), under(drawn(ask("hello"), 0, 1, 1000), free), nil)
	is(t, err, llm.ErrNoDone)
}

func TestV1Tools(t *testing.T) {
	meaning(t)
	m := v1(t, "robot")
	r := drawn(ask("turn left ninety degrees"), 0, 1, 60)
	r.Tools = tools()
	a, err := m.Chat(t.Context(), r, nil)
	if err != nil || a.Finish != llm.FinishCall || len(a.Calls) != 1 || a.Calls[0].Name != "turn" || a.Calls[0].ID == "" {
		t.Fatalf("got %+v, %v", a, err)
	}
	var got any
	json.Unmarshal(a.Calls[0].Args, &got)
	if want := map[string]any{"direction": "left", "degrees": 90.0}; !reflect.DeepEqual(got, want) {
		t.Errorf("got arguments %s", a.Calls[0].Args)
	}
	r.Messages = append(r.Messages, a, llm.Message{Role: llm.ToolRole, Name: "turn", CallID: a.Calls[0].ID, Text: "ok"})
	if b, err := m.Chat(t.Context(), r, nil); err != nil {
		t.Errorf("after the result: %+v, %v", b, err)
	}
	r = drawn(ask("turn left ninety degrees"), 0, 1, 60)
	r.Tools = []llm.Tool{{Name: "sing", Doc: "Sing."}}
	_, err = m.Chat(t.Context(), r, nil)
	is(t, err, llm.ErrEmpty)
	r.Tools, r.Choice = tools(), llm.ChoiceNone
	if a, _ := m.Chat(t.Context(), r, nil); len(a.Calls) > 0 {
		t.Errorf("none: got %+v", a)
	}
}

func TestV1Refusals(t *testing.T) {
	withTools := ask("hello")
	withTools.Tools = tools()
	for _, row := range []struct {
		model string
		ask   llm.Request
		want  error
	}{
		{"plain", withTools, llm.ErrNoTools},
		{"nope", ask("hello"), llm.ErrUnknownModel},
		{"tiny", under(ask("hello"), `{"type":"objectx"}`), llm.ErrBadSchema},
		{"tiny", under(ask("hello"), `{"type":`), llm.ErrBadSchema},
	} {
		m := v1(t, row.model)
		_, err := m.Chat(t.Context(), row.ask, nil)
		is(t, err, row.want)
		if i, _ := m.Describe(t.Context()); errors.Is(row.want, llm.ErrNoTools) && i.Tools {
			t.Error("it still believes in tools after they were refused")
		}
	}
}

func TestV1Models(t *testing.T) {
	m := v1(t, "tiny")
	list, err := m.List(t.Context())
	if err != nil || len(list) < 3 {
		t.Errorf("got %v, %v", list, err)
	}
	if i, err := m.Describe(t.Context()); err != nil || !i.Tools || !i.Schema || i.Embed {
		t.Errorf("got %+v, %v", i, err)
	}
	_, err = v1(t, "nope").Describe(t.Context())
	is(t, err, llm.ErrUnknownModel)
	_, err = openai.New(openai.Options{Name: "tiny", URL: "http://" + up(t).host}).Describe(t.Context()) // no /v1
	is(t, err, llm.ErrServer)
}

func TestV1Embed(t *testing.T) {
	m := v1(t, "tiny")
	v, err := m.Embed(t.Context(), []string{"kitchen", "a dock"})
	if err != nil || len(v) != 2 || len(v[0]) != 64 || len(v[1]) != 64 {
		t.Fatalf("got %d vectors, %v", len(v), err)
	}
	if i, err := m.Describe(t.Context()); err != nil || !i.Embed {
		t.Errorf("after it worked: %+v, %v", i, err)
	}
}
