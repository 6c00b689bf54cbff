package society

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sort"
	"strings"
	"unicode/utf8"

	"edged/agent/llm"
	"edged/agent/llm/schema"
)

// A Form is what an answer must be: a bounded schema, read once.
type Form struct {
	s      *schema.Schema
	text   json.RawMessage
	prose  string
	tokens int // that a model may write; 0 = not said
	caps   []limit
}

// A limit is how long a property may be, or a part of it.
type limit struct {
	property, part string
	tokens         int // 0 = not said
}

// tokenLength is how many characters a token is taken to have.
const tokenLength = 4

// within looks at the limits of an answer that fits: of text its characters
// count, of anything else those of its JSON.
func (f *Form) within(answer map[string]any) error {
	for _, c := range f.caps {
		v := answer[c.property]
		if m, ok := v.(map[string]any); ok && c.part != "" {
			v = m[c.part]
		}
		if v == nil || c.tokens == 0 {
			continue
		}
		text, ok := v.(string)
		if !ok {
			text = render(v)
		}
		if n := utf8.RuneCountInString(text); n > tokenLength*c.tokens {
			return fmt.Errorf("%w: %s is longer than %d tokens: it has %d characters, and may have %d", ErrMalformed, cmp.Or(c.part, c.property), c.tokens, n, tokenLength*c.tokens)
		}
	}
	return nil
}

func newForm(s *schema.Schema) (*Form, error) {
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("society: form: %w", err)
	}
	text, err := schema.Encode(s)
	if err != nil {
		return nil, fmt.Errorf("society: form: %w", err)
	}
	return &Form{s: s, text: text, prose: llm.Line(s.Prose())}, nil
}

// Schema is the form as models are held to it; read-only. It is nil if any
// answer will do.
func (f *Form) Schema() json.RawMessage {
	if f == nil {
		return nil
	}
	return f.text
}

// Prose is the form in one line of words.
func (f *Form) Prose() string { return f.prose }

func (f *Form) fits(text string) bool {
	_, _, err := f.s.Accept([]byte(strings.TrimSpace(text)))
	return err == nil
}

// read gives the object that an answer is. A function may give the only
// property of a form as it is.
func (f *Form) read(a Answer) (map[string]any, error) {
	if a.Value == nil {
		text := strings.TrimSpace(a.Text)
		if text == "" {
			return nil, fmt.Errorf("%w: it is empty", ErrMalformed)
		}
		return f.accept([]byte(text))
	}
	v := f.filled(a.Value)
	if m, ok := v.(map[string]any); !ok || f.lone() && m[f.s.Properties[0].Name] == nil {
		if !f.lone() {
			return nil, fmt.Errorf("%w: it is no object of %s", ErrMalformed, f.prose)
		}
		v = map[string]any{f.s.Properties[0].Name: v}
	}
	text, err := schema.Encode(v)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return f.accept(text)
}

func (f *Form) accept(text []byte) (map[string]any, error) {
	v, _, err := f.s.Accept(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	m := v.(map[string]any)
	return m, f.within(m)
}

// filled lets a function leave out the reasons, call a decision one, and say it
// alone.
func (f *Form) filled(v any) any {
	decision := f.s.Property("verdict")
	if decision == nil {
		decision = f.s.Property("winner")
	}
	if decision == nil {
		return v
	}
	if word, ok := v.(string); ok {
		v = map[string]any{decision.Name: word}
	}
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := maps.Clone(m)
	if out[decision.Name] == nil && f.s.Property("decision") == nil && out["decision"] != nil {
		out[decision.Name] = out["decision"]
		delete(out, "decision")
	}
	for _, p := range f.s.Properties {
		if p.Required && out[p.Name] == nil && (p.Name == "because" || p.Name == "comments") {
			out[p.Name] = ""
		}
	}
	return out
}

// lone reports whether a form has one property that must be there.
func (f *Form) lone() bool {
	return len(f.s.Properties) == 1 || len(f.s.Properties) > 1 && f.required() == 1 && f.s.Properties[0].Required
}

func (f *Form) required() (n int) {
	for _, p := range f.s.Properties {
		if p.Required {
			n++
		}
	}
	return n
}

// The lengths of words in forms, in characters.
const (
	wordsLength = 240  // reasons and comments
	draftLength = 2000 // a draft of which nothing is said
)

func textOf(n int) *schema.Schema { return &schema.Schema{Kind: schema.String, MaxLength: &n} }

func oneOf(words ...string) *schema.Schema {
	s := &schema.Schema{Kind: schema.String}
	for _, w := range words {
		s.Enum = append(s.Enum, w)
	}
	return s
}

// field is a property of a form in the making.
type field struct {
	name     string
	schema   *schema.Schema
	optional bool
	tokens   int // that a model may write; 0 = not said
	caps     []limit
}

// makeForm puts a form together, properties in alphabetical order: some servers
// sort them, and the reasons must come before the decision all the same.
func makeForm(fields ...field) (*Form, error) {
	sort.Slice(fields, func(i, j int) bool { return fields[i].name < fields[j].name })
	s := &schema.Schema{Kind: schema.Object}
	for _, f := range fields {
		s.Properties = append(s.Properties, schema.Property{Name: f.name, Schema: f.schema, Required: !f.optional})
	}
	form, err := newForm(s)
	if err != nil {
		return nil, err
	}
	for _, f := range fields {
		form.caps = append(form.caps, f.caps...)
		if f.tokens > 0 { // and what stands around it
			form.tokens = f.tokens + 32*len(fields)
		}
	}
	return form, nil
}

// An Artifact is a work product with a name. Those of an edge lie on the
// society's shelf: what an interaction made is read by the next.
type Artifact struct {
	Name   string
	Schema json.RawMessage // what has no limit gets one; nil = text
	// MaxTokens is how long a draft may be, as text or else as JSON, with four
	// characters for a token; a model stops a little after it. 0 = what Schema
	// allows, or about 500 for text.
	MaxTokens int
}

// draft is a draft of it, in a form.
func (a Artifact) draft() (field, error) {
	s, err := a.schema()
	return field{name: "draft", schema: s, tokens: a.MaxTokens, caps: []limit{{"draft", "", a.MaxTokens}}}, err
}

// schema is what a draft of it must be.
func (a Artifact) schema() (*schema.Schema, error) {
	if a.Name == "" {
		return nil, errors.New("society: an artifact needs a name")
	}
	if a.MaxTokens < 0 {
		return nil, fmt.Errorf("society: artifact %s: max_tokens is %d", a.Name, a.MaxTokens)
	}
	if a.Schema == nil {
		n := draftLength
		if a.MaxTokens > 0 {
			n = tokenLength * a.MaxTokens
		}
		return textOf(n), nil
	}
	s, err := schema.Parse(a.Schema)
	if err != nil {
		return nil, fmt.Errorf("society: artifact %s: %w", a.Name, err)
	}
	if s.Bounded() != nil {
		s = s.Bound()
	}
	return s, nil
}
