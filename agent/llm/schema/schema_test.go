package schema_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"edged/agent/llm/schema"
)

const light = `{"type":"object","properties":{
	"room":{"type":"string","enum":["kitchen","hall","dock"]},
	"on":{"type":"boolean","description":"desired state"},
	"brightness":{"type":"integer","minimum":0,"maximum":100,"default":100},
	"fade":{"type":"number","minimum":0,"maximum":2.5}},
	"required":["room","on"],"additionalProperties":false}`

func parse(t *testing.T, text string) *schema.Schema {
	t.Helper()
	s, err := schema.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAccept(t *testing.T) {
	for _, c := range []struct{ in, want, problem string }{
		{`{"room":"hall","on":true}`, `{"brightness":100,"on":true,"room":"hall"}`, ""},
		{`{"room":" Kitchen","on":"true","brightness":"30","fade":"0.3"}`, `{"brightness":30,"fade":0.3,"on":true,"room":"kitchen"}`, ""},
		{`{"room":"hall","on":true,"brightness":3.0,"fade":1}`, `{"brightness":3,"fade":1,"on":true,"room":"hall"}`, ""},
		{`{"room":"hall","on":true,"brightness":null}`, `{"brightness":100,"on":true,"room":"hall"}`, ""},
		{`"{\"room\":\"hall\",\"on\":false}"`, `{"brightness":100,"on":false,"room":"hall"}`, ""},
		{`{"room":"hall","on":1}`, "", "on must be true or false"},
		{`{"room":"hall","on":true,"brightness":true}`, "", "brightness must be a whole number"},
		{`{"room":"hall","on":true,"brightness":"true"}`, "", "brightness must be a whole number"},
		{`{"room":"hall","on":true,"brightness":3.5}`, "", "brightness must be a whole number"},
		{`{"room":"hall","on":true,"brightness":"0x10"}`, "", "brightness must be a whole number"},
		{`{"room":"hall","on":true,"brightness":101}`, "", "brightness must be from 0 to 100"},
		{`{"room":"hall","on":true,"fade":1e400}`, "", "number 1e400 is out of range"},
		{`{"room":"attic","on":true}`, "", "room must be one of kitchen, hall, dock"},
		{`{"place":"hall"}`, "", `room is missing; on is missing; "place" is not known`},
		{`[1]`, "", "must be an object"},
		{`{"room":"hall","on":true,"on":false}`, "", `the key "on" is there twice`},
		{`{"room":"hall","on":true,"fade":{"a":[{"b":1,"c":"b","b":2}]}}`, "", `the key "b" is there twice`},
		{`"{\"room\":\"hall\",\"room\":\"dock\",\"on\":true}"`, "", "must be an object"},
		{`{"room":"hall","on":true,"fade":[{"a":1},{"a":1},"a","a"]}`, "", "fade must be a number"},
		{`{"room":"hall","on":true} and more`, "", "not JSON"},
		{``, "", "not JSON"},
	} {
		_, got, err := parse(t, light).Accept([]byte(c.in))
		if string(got) != c.want {
			t.Errorf("%s: got %s, want %s (%v)", c.in, got, c.want, err)
		}
		if (err == nil) != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) {
			t.Errorf("%s: got error %v, want %q", c.in, err, c.problem)
		}
	}
}

func TestProblemsNamePaths(t *testing.T) {
	s := parse(t, `{"type":"object","properties":{"stops":{"type":"array","maxItems":3,"items":{
		"type":"object","properties":{"room":{"type":"string","maxLength":4}},"required":["room"]}}}}`)
	err := s.Validate(map[string]any{"stops": []any{map[string]any{"room": "hall"}, map[string]any{"room": "cellar"}, map[string]any{}}})
	want := "stops[1].room must have at most 4 characters; stops[2].room is missing"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	var p schema.Problems
	if !errors.As(err, &p) || p[0].Path != "stops[1].room" {
		t.Errorf("got %#v, want Problems with paths", err)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"type":"object","properties":{"a":{"type":"string","format":"date"}}}`, "at a: format: is not checked here"},
		{`{"type":"object","properties":{"a":{"anyOf":[]}}}`, "at a: anyOf: is not checked here"},
		{`{"type":"number","exclusiveMinimum":0}`, "exclusiveMinimum"},
		{`{"type":["string","null"]}`, "type: wants one name"},
		{`{"type":"strnig"}`, `type: "strnig" is none of`},
		{`{}`, "says no type"},
		{`{"type":"object","required":["x"]}`, `required "x" is not a property`},
		{`{"type":"integer","minimum":3,"maximum":1}`, "minimum 3 is above maximum 1"},
		{`{"type":"integer","maximum":3,"default":4}`, "default: must be of at most 3"},
		{`{"type":"string","pattern":"("}`, "pattern: error parsing"},
		{`{"oneOf":[{"type":"string"}]}`, "only a choice of const"},
		{`{"type":"object","properties":{"a":{"type":"null"},"a":{"type":"null"}}}`, `"a" is there twice`},
		{`{"type":"string","maxLength":-1}`, "maxLength: wants a whole number"},
		{`[]`, "not an object"},
		{`{`, "not JSON"},
		{strings.Repeat(`{"type":"array","items":`, 20) + `{"type":"null"}` + strings.Repeat("}", 20), "deeper than 16"},
	} {
		_, err := schema.Parse([]byte(c.in))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.in, err, c.want)
		}
	}
}

func TestParseLoose(t *testing.T) {
	s, err := schema.ParseLoose([]byte(`{"$schema":"x","type":"object","properties":{
		"a":{"type":["integer","null"],"format":"int32"},"b":{"anyOf":[{"type":"string"}]},"c":true,
		"d":{"type":"string","pattern":"(?<=x)y","default":7}},"required":["a","zz"]}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, out, err := s.Accept([]byte(`{"a":"4","b":[1],"c":null,"zz":0,"more":1}`)); string(out) != `{"a":4,"b":[1],"c":null,"more":1,"zz":0}` {
		t.Errorf("got %s %v", out, err)
	}
	if err := s.Bounded(); err == nil {
		t.Error("a loose schema passes for bounded")
	}
	if err := s.Bound().Bounded(); err != nil {
		t.Errorf("Bound is not bounded: %v", err)
	}
}

func TestBounded(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"type":"string"}`, "a string without end"},
		{`{"type":"string","pattern":"^a{1,3}(b|cc)?$"}`, ""},
		{`{"type":"string","pattern":"^a+$"}`, "a string without end"},
		{`{"type":"string","pattern":"abc"}`, "a string without end"},
		{`{"type":"integer","minimum":0}`, "a number without limits"},
		{`{"type":"array","items":{"type":"null"}}`, "a list without end"},
		{`{"type":"array","maxItems":3}`, "a list of anything"},
		{`{"type":"object","properties":{"a":{"type":"array","maxItems":2,"items":{"type":"string"}}},"additionalProperties":false}`, "at a[]: a string without end"},
		{`{"type":"object","properties":{}}`, `an object with any properties`},
		{`{"const":"x"}`, ""},
		{`{"oneOf":[{"const":1},{"const":"x"}]}`, ""},
		{light, ""},
	} {
		err := parse(t, c.in).Bounded()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.in, err, c.want)
		}
	}
}

func TestProse(t *testing.T) {
	got := parse(t, light).Prose()
	want := "room (one of kitchen, hall, dock), on (true or false), optional brightness (whole number from 0 to 100, default 100), optional fade (number from 0 to 2.5)"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	b, _ := json.Marshal(parse(t, light).Explained())
	if want := `"description":"(whole number from 0 to 100, default 100)"`; !strings.Contains(string(b), want) {
		t.Errorf("got %s, want %s in it", b, want)
	}
}

func TestFromSignature(t *testing.T) {
	doc, s, err := schema.FromSignature([]schema.Param{{Name: "room"}, {Name: "on"}, {Name: "brightness", Default: int64(100), HasDefault: true},
		{Name: "note", Default: nil, HasDefault: true}, {Name: "code"}, {Name: "stops"}},
		`Switch a lamp.

    It hums.

    Args:
      room: one of kitchen, hall or dock; where it is
      on (bool): desired
        state
      brightness (int, 0..100): percent
      code (/^[a-z]{2,4}$/): of the lamp
      stops (list of int, ..3):
    Returns:
      nothing`)
	if err != nil {
		t.Fatal(err)
	}
	if doc != "Switch a lamp.\n\nIt hums." {
		t.Errorf("got doc %q", doc)
	}
	b, _ := json.Marshal(s)
	want := `{"type":"object","properties":{"room":{"type":"string","description":"where it is","enum":["kitchen","hall","dock"]},` +
		`"on":{"type":"boolean","description":"desired state"},"brightness":{"type":"integer","description":"percent","minimum":0,"maximum":100,"default":100},` +
		`"note":{"type":"string","maxLength":300},"code":{"type":"string","description":"of the lamp","pattern":"^[a-z]{2,4}$"},` +
		`"stops":{"type":"array","items":{"type":"integer"},"maxItems":3}},"required":["room","on","code","stops"],"additionalProperties":false}`
	if string(b) != want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
	narrow, err := s.Limited("brightness", -5, 100)
	if err != nil || *narrow.Property("brightness").Schema.Minimum != 0 {
		t.Errorf("got %v %v, want limits that only narrow", narrow, err)
	}
	if _, err := s.Limited("brightness", 0, 80); err == nil || !strings.Contains(err.Error(), "default") {
		t.Errorf("got %v, want: the default is out of the limits", err)
	}
	for _, bad := range []string{"Args:\n  x (flaot): speed", "Args:\n  y: no such", "Args:\n  x (int, a..b): n", "Args:\n  x (bool, 0..1): n"} {
		if _, _, err := schema.FromSignature([]schema.Param{{Name: "x"}}, bad); err == nil {
			t.Errorf("%q: got no error", bad)
		}
	}
}

// schemas draws bounded schemas with a value that fits.
func schemas(depth int) *rapid.Generator[[2]any] {
	return rapid.Custom(func(t *rapid.T) [2]any {
		kinds := []string{"string", "integer", "number", "boolean", "null", "enum"}
		if depth > 0 {
			kinds = append(kinds, "array", "object")
		}
		switch rapid.SampledFrom(kinds).Draw(t, "kind") {
		case "string":
			text := rapid.StringN(0, 8, -1).Draw(t, "text")
			return [2]any{map[string]any{"type": "string", "maxLength": 8}, text}
		case "integer":
			n := rapid.Int64Range(-50, 50).Draw(t, "n")
			return [2]any{map[string]any{"type": "integer", "minimum": -50, "maximum": 50}, n}
		case "number":
			return [2]any{map[string]any{"type": "number", "minimum": -1, "maximum": 1}, rapid.Float64Range(-1, 1).Draw(t, "f")}
		case "boolean":
			return [2]any{map[string]any{"type": "boolean"}, rapid.Bool().Draw(t, "b")}
		case "null":
			return [2]any{map[string]any{"type": "null"}, nil}
		case "enum":
			return [2]any{map[string]any{"enum": []any{"a", "B", 3}}, rapid.SampledFrom([]any{"a", "B", int64(3)}).Draw(t, "e")}
		case "array":
			one := schemas(depth-1).Draw(t, "items")
			list := make([]any, rapid.IntRange(0, 3).Draw(t, "len"))
			for i := range list {
				list[i] = one[1]
			}
			return [2]any{map[string]any{"type": "array", "items": one[0], "maxItems": 3}, list}
		}
		props, v, req := map[string]any{}, map[string]any{}, []any{}
		for i := range rapid.IntRange(0, 3).Draw(t, "props") {
			one := schemas(depth-1).Draw(t, "prop")
			name := string(rune('a' + i))
			props[name], v[name] = one[0], one[1]
			req = append(req, name)
		}
		return [2]any{map[string]any{"type": "object", "properties": props, "required": req, "additionalProperties": false}, v}
	})
}

func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one := schemas(2).Draw(t, "schema")
		text, _ := json.Marshal(one[0])
		s, err := schema.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if err := s.Bounded(); err != nil {
			t.Fatalf("%s is not bounded: %v", text, err)
		}
		if err := s.Validate(one[1]); err != nil {
			t.Fatalf("%s: %v does not fit: %v", text, one[1], err)
		}
		if got := s.Coerce(one[1]); !reflect.DeepEqual(norm(got), norm(one[1])) {
			t.Fatalf("coerce changed what fits: %#v to %#v", one[1], got)
		}
		again, _ := json.Marshal(s)
		s2, err := schema.Parse(again)
		if err != nil {
			t.Fatalf("written schema can't be read: %s: %v", again, err)
		}
		if third, _ := json.Marshal(s2); string(third) != string(again) {
			t.Fatalf("got %s, want %s", third, again)
		}
	})
}

// norm makes whole floats and ints alike.
func norm(v any) any {
	b, _ := schema.Encode(v)
	d, _ := schema.Decode(b)
	return d
}

// TestBoolIsNeverANumber: whatever is asked for, a bool stays one, and no
// number turns into one.
func TestBoolIsNeverANumber(t *testing.T) {
	for _, kind := range []string{"integer", "number", "string", "null", "array", "object"} {
		s := parse(t, `{"type":"`+kind+`"}`)
		for _, b := range []bool{true, false} {
			if got := s.Coerce(b); got != b {
				t.Errorf("%s: got %v of %v", kind, got, b)
			}
			if s.Validate(b) == nil {
				t.Errorf("%s takes %v", kind, b)
			}
		}
	}
	s := parse(t, `{"type":"boolean"}`)
	for _, n := range []any{int64(0), int64(1), 1.0, "1", "0", "yes"} {
		if _, ok := s.Coerce(n).(bool); ok {
			t.Errorf("%v became a bool", n)
		}
	}
	if e := parse(t, `{"enum":[1,0]}`); e.Validate(true) == nil {
		t.Error("true passes for 1")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(light), []byte(`{"room":"hall","on":"true","brightness":"3.0"}`))
	f.Add([]byte(`{"type":"array","items":{"const":1}}`), []byte(`["1",1.0]`))
	f.Add([]byte(`{"type":"number"}`), []byte(`"-1e5"`))
	f.Fuzz(func(t *testing.T, text, value []byte) {
		s, err := schema.Parse(text)
		if err != nil {
			if s, err = schema.ParseLoose(text); err != nil {
				return
			}
		}
		_ = s.Prose()
		if err := s.Bound().Bounded(); err != nil {
			t.Fatalf("%s: Bound is not bounded: %v", text, err)
		}
		written, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		s2, err := schema.ParseLoose(written)
		if err != nil {
			t.Fatalf("%s: written as %s: %v", text, written, err)
		}
		v, out, err := s.Accept(value)
		if err != nil {
			return
		}
		if f, ok := v.(float64); ok && math.IsInf(f, 0) {
			t.Fatal("infinity passed")
		}
		if _, again, err := s2.Accept(out); err != nil || string(again) != string(out) {
			t.Fatalf("%s: accepted %s as %s, then %s %v", text, value, out, again, err)
		}
	})
}

func ExampleSchema_Accept() {
	s, _ := schema.Parse([]byte(`{"type": "object", "additionalProperties": false,
		"properties": {"speed": {"type": "number", "minimum": 0, "maximum": 1, "default": 0.3}}}`))
	v, text, err := s.Accept([]byte(`{"speed": "0.5"}`))
	fmt.Println(v, string(text), err)
	_, _, err = s.Accept([]byte(`{"sped": 5}`))
	fmt.Println(err)
	fmt.Println(s.Prose())
	// Output:
	// map[speed:0.5] {"speed":0.5} <nil>
	// "sped" is not known
	// optional speed (number from 0 to 1, default 0.3)
}
