package bus_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"edged/bus"
)

// slowJSON is what encoding/json says, with whole numbers as int64.
func slowJSON(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if !json.Valid(text) {
		return nil, errors.New("not JSON")
	}
	return numbers(v)
}

func numbers(v any) (any, error) {
	var err error
	switch x := v.(type) {
	case json.Number:
		if i, err := x.Int64(); err == nil && !strings.ContainsAny(string(x), ".eE") {
			return i, nil
		}
		return x.Float64()
	case []any:
		for i := range x {
			if x[i], err = numbers(x[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for k := range x {
			if x[k], err = numbers(x[k]); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

var texts = []string{
	`{"t": 31.5, "n": 7, "ok": true, "x": null, "l": [1, "a", {}], "m": {"a": {"b": -0.5e3}}}`,
	`"plain"`, `"esc \\ \" \u00e9 \ud83d\ude00 \ud83d"`, "\"\xff\"", `"é"`, "\"\u007f\"", "\"a\nb\"",
	`9223372036854775807`, `9223372036854775808`, `-9223372036854775808`, `1e400`, `-0`, `01`, `1.`, `.5`, `1e`, `+1`, `-`,
	``, ` `, `nul`, `null null`, `[1,]`, `{"a"}`, `{"a":1,"a":2}`, `[`, `{`, `"`, `"\`, `{"a":1 "b":2}`, "\x00", `[[[[]]]]`, ` [1 , 2] `, `tru`, `truex`,
}

func checkJSON(t *testing.T, text []byte) {
	t.Helper()
	got, err := bus.DecodeJSON(text)
	want, wantErr := slowJSON(text)
	if (err == nil) != (wantErr == nil) {
		if err != nil && strings.Contains(err.Error(), "levels deep") {
			return
		}
		t.Fatalf("%q: error %v, encoding/json says %v", text, err, wantErr)
	}
	if err == nil && !reflect.DeepEqual(got, want) {
		if f, ok := got.(float64); ok && math.IsNaN(f) {
			return
		}
		t.Fatalf("%q: got %#v, want %#v", text, got, want)
	}
	if err == nil {
		checkEncoded(t, got)
	}
}

func checkEncoded(t *testing.T, tree any) {
	t.Helper()
	got, err := bus.EncodeJSON(tree)
	want, wantErr := json.Marshal(tree)
	if (err == nil) != (wantErr == nil) || err == nil && !bytes.Equal(got, want) {
		t.Fatalf("%#v: got %s (%v), want %s (%v)", tree, got, err, want, wantErr)
	}
}

func TestEncodeJSON(t *testing.T) {
	var many []any
	for i := range 20 {
		many = append(many, map[string]any{strings.Repeat("k", 20-i): i})
	}
	for _, tree := range []any{
		nil, true, int64(math.MinInt64), 0.0, math.Copysign(0, -1), 1e-7, 1e-6, 1e21, 9.9e20, -31.5, math.MaxFloat64, math.Inf(1), math.NaN(),
		"", "<b> & \"q\" \\ \n \x7f \u2028 é \xff", []byte("bytes"), []any(nil), []any{}, map[string]any(nil), map[string]any{}, many,
		map[string]any{"b": int64(1), "a": []any{nil, "x", map[string]any{"<": 1.5}}, "é": false}, []any{math.NaN()}, map[string]any{"a": make(chan int)},
	} {
		checkEncoded(t, tree)
	}
}

func TestDecodeJSON(t *testing.T) {
	for _, text := range texts {
		checkJSON(t, []byte(text))
	}
	if _, err := bus.DecodeJSON([]byte(strings.Repeat("[", 1e6))); err == nil {
		t.Error("a million levels are let through")
	}
}

func FuzzDecodeJSON(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) { checkJSON(t, text) })
}

func BenchmarkEncodeJSON(b *testing.B) {
	tree := map[string]any{"topic": "home/kitchen/temp", "t": 31.5, "ts": int64(1700000000), "unit": "C"}
	b.Run("limit", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = json.Marshal(tree)
		}
	})
	b.Run("edged", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = bus.EncodeJSON(tree)
		}
	})
}

func BenchmarkDecodeJSON(b *testing.B) {
	text := []byte(`{"topic":"home/kitchen/temp","t":31.5,"ts":1700000000,"unit":"C"}`)
	b.Run("limit", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var v any
			_ = json.Unmarshal(text, &v)
		}
	})
	b.Run("edged", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = bus.DecodeJSON(text)
		}
	})
}
