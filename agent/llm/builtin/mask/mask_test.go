package mask

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// Pieces as a tokenizer has them: all bytes and some longer ones.
func pieces() [][]byte {
	var out [][]byte
	for b := range 256 {
		out = append(out, []byte{byte(b)})
	}
	for _, s := range []string{`":`, `","`, `{"`, `"}`, `}}`, "tr", "true", "false", "10", "00", "0.5", ".5", `":"`, ` t`, "the", " kitchen", `["`, `],"`, "-1", "null", "ab", "ba"} {
		out = append(out, []byte(s))
	}
	return out
}

// write writes with a model that knows nothing: any allowed piece.
func write(t *rapid.T, m *Mask) string {
	all := pieces()
	s := m.Start()
	var out []byte
	for !m.Done(&s) {
		var can []int
		for i, p := range all {
			if _, ok := m.Try(s, p); ok {
				can = append(can, i)
			}
		}
		stop := m.Whole(&s)
		if len(can) == 0 && !stop {
			t.Fatalf("stuck after %q", out)
		}
		if stop && (len(can) == 0 || rapid.Bool().Draw(t, "stop")) {
			break
		}
		p := all[can[rapid.IntRange(0, len(can)-1).Draw(t, "piece")]]
		s, _ = m.Try(s, p)
		out = append(out, p...)
		if len(out) > 100_000 {
			t.Fatalf("no end after %q…", out[:200])
		}
	}
	return string(out)
}

// draw draws a schema as a JSON tree.
func draw(t *rapid.T, depth int) map[string]any {
	kinds := []string{"enum", "const", "boolean", "integer", "number", "string", "pattern"}
	if depth < 3 {
		kinds = append(kinds, "object", "object", "array")
	}
	switch kind := rapid.SampledFrom(kinds).Draw(t, "kind"); kind {
	case "enum":
		return map[string]any{"enum": rapid.SliceOfN(rapid.SampledFrom([]any{"a", "ab", "abc", "with \"quote\"", "ü", 1, 12, 123, -1.5, true, nil, ""}), 1, 6).Draw(t, "enum")}
	case "const":
		return map[string]any{"const": rapid.SampledFrom([]any{"x", 7, false}).Draw(t, "const")}
	case "boolean":
		return map[string]any{"type": "boolean"}
	case "integer", "number":
		out := map[string]any{"type": kind}
		lo := rapid.OneOf(rapid.Float64Range(-1000, 1000), rapid.SampledFrom([]float64{0, 1, -1, 0.05, 99.99, 1e6, -1e6})).Draw(t, "lo")
		width := rapid.OneOf(rapid.Float64Range(0, 1000), rapid.SampledFrom([]float64{0, 1, 0.001, 360})).Draw(t, "width")
		if kind == "integer" {
			lo, width = math.Floor(lo), math.Floor(width)
		}
		if rapid.Bool().Draw(t, "has minimum") {
			out["minimum"] = lo
		}
		if rapid.Bool().Draw(t, "has maximum") {
			out["maximum"] = max(lo+width, -1e8)
		}
		return out
	case "string":
		return map[string]any{"type": "string", "maxLength": rapid.IntRange(4, 40).Draw(t, "maxLength"), "minLength": rapid.IntRange(0, 3).Draw(t, "minLength")}
	case "pattern":
		return map[string]any{"type": "string", "pattern": "^[a-z ]+$", "maxLength": 30}
	case "array":
		n := rapid.IntRange(0, 2).Draw(t, "minItems")
		return map[string]any{"type": "array", "items": draw(t, depth+1), "minItems": n, "maxItems": n + rapid.IntRange(0, 2).Draw(t, "more")}
	}
	props, required := map[string]any{}, []string{}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "ab", "abc", "on", "once", "é", "with space", `q"q`}), 0, 5, rapid.ID[string]).Draw(t, "names") {
		props[name] = draw(t, depth+1)
		if rapid.Bool().Draw(t, "required") {
			required = append(required, name)
		}
	}
	return map[string]any{"type": "object", "properties": props, "required": required}
}

// valid is a checker of its own, from JSON schema's words.
func valid(s map[string]any, v any) error {
	if list, ok := s["enum"].([]any); ok {
		for _, e := range list {
			if equal(e, v) {
				return nil
			}
		}
		return fmt.Errorf("%v is none of %v", v, list)
	}
	if c, ok := s["const"]; ok {
		if !equal(c, v) {
			return fmt.Errorf("%v is not %v", v, c)
		}
		return nil
	}
	switch s["type"] {
	case "boolean":
		if _, ok := v.(bool); !ok {
			return fmt.Errorf("%v is no boolean", v)
		}
	case "integer", "number":
		n, ok := v.(float64)
		if lo, has := s["minimum"].(float64); has && n < lo {
			return fmt.Errorf("%v is below %v", n, lo)
		}
		if hi, has := s["maximum"].(float64); has && n > hi {
			return fmt.Errorf("%v is above %v", n, hi)
		}
		if !ok || s["type"] == "integer" && n != math.Trunc(n) {
			return fmt.Errorf("%v is no %v", v, s["type"])
		}
	case "string":
		t, ok := v.(string)
		n := utf8.RuneCountInString(t)
		least, _ := s["minLength"].(int)
		if !ok || n > s["maxLength"].(int) || n < least || s["pattern"] != nil && strings.Trim(t, "abcdefghijklmnopqrstuvwxyz ") != "" {
			return fmt.Errorf("%q does not fit %v", v, s)
		}
	case "array":
		l, ok := v.([]any)
		if !ok || len(l) < s["minItems"].(int) || len(l) > s["maxItems"].(int) {
			return fmt.Errorf("%v does not fit %v", v, s)
		}
		for _, x := range l {
			if err := valid(s["items"].(map[string]any), x); err != nil {
				return err
			}
		}
	case "object":
		o, ok := v.(map[string]any)
		if !ok {
			return fmt.Errorf("%v is no object", v)
		}
		for _, name := range s["required"].([]string) {
			if _, has := o[name]; !has {
				return fmt.Errorf("%s is missing in %v", name, o)
			}
		}
		for name, x := range o {
			p, has := s["properties"].(map[string]any)[name].(map[string]any)
			if !has {
				return fmt.Errorf("%s is not described", name)
			}
			if err := valid(p, x); err != nil {
				return err
			}
		}
	}
	return nil
}

func equal(a, b any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

// TestAlwaysValid: whatever the schema and however a model picks, the text is
// JSON that fits.
func TestAlwaysValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := draw(t, 0)
		text, err := json.Marshal(tree)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Read(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		heard := rapid.SampledFrom([]string{"", "go to the kitchen", "sage zweimal grüß gott bitte", "set 2.5 to 10 cm", `a "quote" and \ that`}).Draw(t, "heard")
		m, err := Answer(s, heard)
		if errors.Is(err, ErrImpossible) {
			return // it says so; nothing wrong comes out
		}
		if err != nil {
			t.Fatal(err)
		}
		out := write(t, m)
		var v any
		if err := json.Unmarshal([]byte(out), &v); err != nil {
			t.Fatalf("%s\n%q: %v", text, out, err)
		}
		if err := valid(tree, v); err != nil {
			t.Fatalf("%s\n%q: %v", text, out, err)
		}
	})
}

func read(t testing.TB, text string) *Schema {
	t.Helper()
	s, err := Read(json.RawMessage(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func tools(t testing.TB) []Tool {
	return []Tool{
		{Name: "turn", Params: read(t, `{"type":"object","properties":{"direction":{"enum":["left","right"]},"degrees":{"type":"number","minimum":1,"maximum":360}},"required":["direction","degrees"]}`),
			Values: map[string][]string{"degrees": {"90", "180"}}},
		{Name: "go_to", Params: read(t, `{"type":"object","properties":{"place":{"type":"string","maxLength":40,"minLength":1}},"required":["place"]}`),
			Values: map[string][]string{"place": {`"dock"`}}},
		{Name: "stop", Params: read(t, ``)},
	}
}

func accepts(m *Mask, text string) bool {
	s := m.Start()
	return m.Advance(&s, []byte(text)) && m.Done(&s)
}

// TestCalls: names and numbers are only what was heard or is implied.
func TestCalls(t *testing.T) {
	turn := func(d string) string {
		return `{"name":"turn","arguments":{"direction":"left","degrees":` + d + `}}`
	}
	place := func(p string) string { return `{"name":"go_to","arguments":{"place":"` + p + `"}}` }
	for _, c := range []struct {
		heard, text string
		want        bool
	}{
		{"turn left", turn("90"), true},
		{"turn left", turn("45"), false},
		{"turn left 45 degrees", turn("45"), true},
		{"turn left 45 degrees", turn("90"), false},
		{"turn left 45 degrees", turn("4"), false},
		{"turn left 500 degrees", turn("90"), false},
		{"turn left", `{"name":"turn","arguments":{"degrees":90,"direction":"left"}}`, true},
		{"turn left", `{"name":"turn","arguments":{"direction":"left"}}`, false},
		{"turn left", `{"name":"turn","arguments":{"direction":"up","degrees":90}}`, false},
		{"go to the living room", place("living room"), true},
		{"go to the living room", place("living"), true},
		{"go to the living room", place("liv"), false},
		{"go to the living room", place("kitchen"), false},
		{"go to the living room", place("dock"), true},
		{"stop", `{"name":"stop","arguments":{}}`, true},
		{"stop", `{"name":"fly","arguments":{}}`, false},
		{"stop", `{"name":"stop","arguments":{},"x":1}`, false},
	} {
		m, err := Calls(tools(t), c.heard)
		if err != nil {
			t.Fatal(err)
		}
		if got := accepts(m, c.text); got != c.want {
			t.Errorf("heard %q: %s: got %v, want %v", c.heard, c.text, got, c.want)
		}
	}
	m, err := Calls(tools(t)[:1], "turn left 500 degrees")
	if !errors.Is(err, ErrImpossible) {
		t.Errorf("500 degrees of 360: got %v, %v", m, err)
	}
}

// TestTails: what runs to the end of the sentence is not cut short.
func TestTails(t *testing.T) {
	say := Tool{Name: "say", Params: read(t, `{"type":"object","properties":{"text":{"type":"string","maxLength":200}},"required":["text"]}`), Tails: []string{"text"}}
	m, err := Calls([]Tool{say}, "say good morning anna")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"good morning anna": true, "anna": true, "good morning": false, "say": false} {
		if got := accepts(m, `{"name":"say","arguments":{"text":"`+text+`"}}`); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`{"type":"integer","minimum":3,"maximum":2}`:               "above",
		`{"type":"array","items":{"type":"null"},"maxItems":5000}`: "at most 1000",
		`nonsense`: "not JSON",
		strings.Repeat(`{"type":"array","items":`, 12) + `{"type":"boolean"}` + strings.Repeat("}", 12): "deep",
	} {
		if _, err := Read(json.RawMessage(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

func TestHeardNumbers(t *testing.T) {
	if got, want := heardNumbers("move 50 cm then 2.5 or 3 minutes"), []float64{50, 0.5, 2.5, 3, 180}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestTryAllocatesNothing(t *testing.T) {
	m, err := Calls(tools(t), "turn left 45 degrees")
	if err != nil {
		t.Fatal(err)
	}
	s := m.Start()
	m.Advance(&s, []byte(`{"name":"turn","arguments":{"direction":`))
	piece := []byte(`"le`)
	if n := testing.AllocsPerRun(100, func() { m.Try(s, piece) }); n != 0 {
		t.Errorf("%v allocations a piece", n)
	}
}
