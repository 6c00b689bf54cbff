package llmtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"edged/agent/llm"
)

func (c checks) offered(t *testing.T, m llm.Model) {
	if len(c.Call.Tools) == 0 {
		t.Skip("no tools")
	}
	ctx, cancel := c.context(t)
	defer cancel()
	var l listen
	a, err := m.Chat(ctx, c.Call, l.say)
	if err != nil {
		t.Fatalf("got error %v, want a call", err)
	}
	if len(a.Calls) == 0 {
		t.Fatalf("got %+v, want a call", a)
	}
	wellFormed(t, a)
	same(t, l, a)
	ids := map[string]bool{}
	for _, call := range a.Calls {
		if call.ID == "" || ids[call.ID] {
			t.Errorf("the id %q of the call of %s is empty or not its own", call.ID, call.Name)
		}
		ids[call.ID] = true
		var tool *llm.Tool
		for i := range c.Call.Tools {
			if c.Call.Tools[i].Name == call.Name {
				tool = &c.Call.Tools[i]
			}
		}
		if tool == nil {
			t.Errorf("calls %q, which was not offered", call.Name)
			continue
		}
		var args map[string]any
		if err := json.Unmarshal(call.Args, &args); err != nil || args == nil {
			t.Errorf("the arguments of %s are %s, want a JSON object", call.Name, call.Args)
		}
	}
}

// notOffered asks the same without the tools.
func (c checks) notOffered(t *testing.T, m llm.Model) {
	if len(c.Call.Tools) == 0 {
		t.Skip("no tools")
	}
	r := c.Call
	r.Tools, r.Choice = nil, ""
	c.noCall(t, m, r)
}

// forbidden shows the tools but allows none.
func (c checks) forbidden(t *testing.T, m llm.Model) {
	if len(c.Call.Tools) == 0 {
		t.Skip("no tools")
	}
	r := c.Call
	r.Choice = llm.ChoiceNone
	c.noCall(t, m, r)
}

func (c checks) noCall(t *testing.T, m llm.Model, r llm.Request) {
	ctx, cancel := c.context(t)
	defer cancel()
	a, err := m.Chat(ctx, r, nil)
	if len(a.Calls) > 0 {
		t.Errorf("got calls %+v, want none", a.Calls)
	}
	switch {
	case err == nil:
		wellFormed(t, a)
	case c.Refuses == nil || !errors.Is(err, c.Refuses):
		t.Errorf("got error %v, want words or %v", err, c.Refuses)
	}
}

func (c checks) form(t *testing.T, m llm.Model) {
	if len(c.Form.Schema) == 0 {
		t.Skip("no schemas")
	}
	ctx, cancel := c.context(t)
	defer cancel()
	var l listen
	a, err := m.Chat(ctx, c.Form, l.say)
	if err != nil {
		t.Fatalf("got error %v, want an answer", err)
	}
	wellFormed(t, a)
	same(t, l, a)
	fits := c.Fits
	if fits == nil {
		fits = func(text string) error { return valid(c.Form.Schema, []byte(text)) }
	}
	if err := fits(a.Text); err != nil {
		t.Errorf("the answer %q does not fit: %v", a.Text, err)
	}
}

// rule is the part of a JSON schema that is checked here. It is not taken from
// the packages that models use, so that a mistake there is seen.
type rule struct {
	Type       string
	Properties map[string]*rule
	Required   []string
	Extra      *bool `json:"additionalProperties"`
	Enum       []any
	Minimum    *float64
	Maximum    *float64
	MaxLength  *int
	MaxItems   *int
	Items      *rule
}

// valid checks a JSON text against a schema.
func valid(schema, text []byte) error {
	var r rule
	if err := json.Unmarshal(schema, &r); err != nil {
		return fmt.Errorf("the schema itself: %w", err)
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return err
	}
	return r.check("answer", v)
}

func (r *rule) check(at string, v any) error {
	if len(r.Enum) > 0 {
		for _, e := range r.Enum {
			if reflect.DeepEqual(e, v) {
				return nil
			}
		}
		return fmt.Errorf("%s is %v, want one of %v", at, v, r.Enum)
	}
	ok := true
	switch x := v.(type) {
	case map[string]any:
		ok = r.Type == "object" || r.Type == ""
		for _, k := range r.Required {
			if _, has := x[k]; !has {
				return fmt.Errorf("%s has no %s", at, k)
			}
		}
		for k, e := range x {
			p := r.Properties[k]
			if p == nil {
				if r.Extra != nil && !*r.Extra {
					return fmt.Errorf("%s has %s, which is not in the schema", at, k)
				}
				continue
			}
			if err := p.check(at+"."+k, e); err != nil {
				return err
			}
		}
	case []any:
		ok = r.Type == "array" && (r.MaxItems == nil || len(x) <= *r.MaxItems)
		for i, e := range x {
			if r.Items == nil {
				break
			}
			if err := r.Items.check(fmt.Sprintf("%s[%d]", at, i), e); err != nil {
				return err
			}
		}
	case float64:
		ok = (r.Type == "number" || r.Type == "integer" && x == math.Trunc(x)) &&
			(r.Minimum == nil || x >= *r.Minimum) && (r.Maximum == nil || x <= *r.Maximum)
	case string:
		ok = r.Type == "string" && (r.MaxLength == nil || len([]rune(x)) <= *r.MaxLength)
	case bool:
		ok = r.Type == "boolean"
	case nil:
		ok = r.Type == "null"
	}
	if !ok {
		return fmt.Errorf("%s is %v, which its schema does not allow", at, v)
	}
	return nil
}

func (c checks) embeds(t *testing.T, m llm.Model) {
	e, ok := m.(llm.Embedder)
	if !c.Embeds {
		if !ok {
			t.Skip("no embeddings")
		}
		if _, err := e.Embed(t.Context(), []string{"kitchen"}); !errors.Is(err, llm.ErrNoEmbedding) && !known(err) {
			t.Errorf("got error %v, want one that wraps %q", err, llm.ErrNoEmbedding)
		}
		return
	}
	if !ok {
		t.Fatalf("%T is no llm.Embedder", m)
	}
	ctx, cancel := c.context(t)
	defer cancel()
	texts := []string{"drive to the kitchen", "what time is it", "drive to the kitchen"}
	v, err := e.Embed(ctx, texts)
	if err != nil || len(v) != len(texts) {
		t.Fatalf("got %d vectors and error %v, want %d", len(v), err, len(texts))
	}
	for i := range v {
		if len(v[i]) == 0 || len(v[i]) != len(v[0]) {
			t.Errorf("vector %d has %d numbers, the first %d", i, len(v[i]), len(v[0]))
		}
	}
	if got := cosine(v[0], v[2]); got < 0.999 {
		t.Errorf("the same text twice is %.4f alike, want 1", got)
	}
	if got := cosine(v[0], v[1]); got > 0.9999 {
		t.Errorf("two texts are %.4f alike, want less than 1", got)
	}
	ended, stop := context.WithCancel(ctx)
	stop()
	if _, err := e.Embed(ended, []string{strings.Repeat("new ", 3)}); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v after the end, want one that wraps %v", err, context.Canceled)
	}
}

func cosine(a, b []float32) float64 {
	var ab, aa, bb float64
	for i := range min(len(a), len(b)) {
		ab += float64(a[i]) * float64(b[i])
		aa += float64(a[i]) * float64(a[i])
		bb += float64(b[i]) * float64(b[i])
	}
	return ab / math.Sqrt(aa*bb)
}
