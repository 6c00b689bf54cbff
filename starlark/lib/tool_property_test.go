package lib_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"edged/agent/llm/schema"
)

// TestToolArguments: what fits a tool's schema arrives in its function as it
// was, and what the function returns comes back as it is.
func TestToolArguments(t *testing.T) {
	r := newRig(t)
	defer r.close()
	b := r.load(`
def f(text, n, x, yes, words, more = "m", anything = None):
    """F.

    Args:
      text (str, 0..500): text
      n (int): whole
      x (float, -1e6..1e6): number
      yes (bool): whether
      words (list of str, 0..9): words
    """
    return {"text": text, "n": n, "x": x, "yes": yes, "words": words, "more": more}

a = Agent("a", model = "builtin", tools = [f])
`)
	tool := b.Tools()[0]
	s, err := schema.Parse(tool.Params)
	if err != nil {
		t.Fatal(err)
	}
	text := rapid.StringN(0, 40, 200)
	rapid.Check(t, func(t *rapid.T) {
		args := map[string]any{
			"text":  text.Draw(t, "text"),
			"n":     rapid.Int64().Draw(t, "n"),
			"x":     rapid.Float64Range(-1e6, 1e6).Draw(t, "x"),
			"yes":   rapid.Bool().Draw(t, "yes"),
			"words": rapid.SliceOfN(text, 0, 9).Draw(t, "words"),
		}
		if rapid.Bool().Draw(t, "given") {
			args["more"] = text.Draw(t, "more")
		}
		in, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		want, accepted, err := s.Accept(in)
		if err != nil {
			t.Fatalf("%s: %v", in, err)
		}
		out, err := tool.Do(t.Context(), accepted)
		if err != nil {
			t.Fatalf("%s: %v", in, err)
		}
		got, err := schema.Decode(out)
		if err != nil {
			t.Fatal(err)
		}
		m := got.(map[string]any)
		if f, ok := m["x"].(int64); ok { // 1.0 is written as 1
			m["x"] = float64(f)
		}
		w := want.(map[string]any)
		if f, ok := w["x"].(int64); ok {
			w["x"] = float64(f)
		}
		if !reflect.DeepEqual(m, w) {
			t.Errorf("got  %v\nwant %v", m, w)
		}
	})
}
