package mask

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"unicode/utf8"

	"edged/agent/llm/schema"
)

// Kind is what a schema's values are.
type Kind int

// The kinds.
const (
	Choice Kind = iota + 1 // one of some JSON texts
	Boolean
	Integer
	Number
	String
	Array
	Object
)

// Schema is a bounded JSON schema as a mask needs it. It is read only.
type Schema struct {
	Kind                 Kind
	Choices              []string // JSON texts, for Choice
	Min, Max             float64  // for Integer and Number
	MinLength, MaxLength int      // in characters, for String
	Pattern              *regexp.Regexp
	Items                *Schema // for Array
	MinItems, MaxItems   int
	Props                []Prop // for Object, in the schema's order
}

// Prop is one property of an object.
type Prop struct {
	Name     string
	Required bool
	*Schema
}

// What an automaton can hold.
const (
	mostItems   = 1000
	mostProps   = 64
	mostDepth   = 8
	mostChoices = math.MaxInt16
)

// Read reads a JSON schema; what it does not bound is bounded. No text at all
// is an object without properties.
func Read(text json.RawMessage) (*Schema, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return &Schema{Kind: Object}, nil
	}
	s, err := schema.ParseLoose(text)
	if err != nil {
		return nil, fmt.Errorf("mask: %w", err)
	}
	out, err := from(s.Bound(), 0)
	if err != nil {
		return nil, fmt.Errorf("mask: schema: %w", err)
	}
	return out, nil
}

func from(s *schema.Schema, depth int) (*Schema, error) {
	if depth > mostDepth {
		return nil, fmt.Errorf("deeper than %d", mostDepth)
	}
	if s.Enum != nil {
		return choices(s.Enum)
	}
	out := &Schema{}
	switch s.Kind {
	case schema.Null:
		return choices([]any{nil})
	case schema.Boolean:
		out.Kind = Boolean
	case schema.Integer, schema.Number:
		out.Kind, out.Min, out.Max = Number, *s.Minimum, *s.Maximum
		if s.Kind == schema.Integer {
			out.Kind = Integer
		}
	case schema.String:
		out.Kind, out.MinLength, out.MaxLength = String, s.MinLength, math.MaxInt16
		if s.MaxLength != nil {
			out.MaxLength = *s.MaxLength
		}
		if s.Pattern != "" {
			re, err := regexp.Compile(s.Pattern)
			if err != nil {
				return nil, err
			}
			out.Pattern = re
		}
	case schema.Array:
		out.Kind, out.MinItems, out.MaxItems = Array, s.MinItems, *s.MaxItems
		if out.MaxItems > mostItems {
			return nil, fmt.Errorf("lists of up to %d; at most %d", out.MaxItems, mostItems)
		}
		items, err := from(s.Items, depth+1)
		if err != nil {
			return nil, fmt.Errorf("items: %w", err)
		}
		out.Items = items
	case schema.Object:
		out.Kind = Object
		if len(s.Properties) > mostProps {
			return nil, fmt.Errorf("%d properties; at most %d", len(s.Properties), mostProps)
		}
		for _, p := range s.Properties {
			one, err := from(p.Schema, depth+1)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.Name, err)
			}
			out.Props = append(out.Props, Prop{p.Name, p.Required, one})
		}
	default:
		return nil, fmt.Errorf("values of kind %q", s.Kind)
	}
	return out, nil
}

func choices(list []any) (*Schema, error) {
	s := &Schema{Kind: Choice}
	for _, v := range list {
		b, err := schema.Encode(v)
		if err != nil {
			return nil, err
		}
		s.Choices = append(s.Choices, string(b))
	}
	if n := len(s.Choices); n == 0 || n > mostChoices {
		return nil, fmt.Errorf("%d values to choose from", n)
	}
	return s, nil
}

// Prop finds a property; nil if there is none.
func (s *Schema) Prop(name string) *Prop {
	for i := range s.Props {
		if s.Props[i].Name == name {
			return &s.Props[i]
		}
	}
	return nil
}

// Fits tells whether a text is a string of this schema.
func (s *Schema) Fits(t string) bool {
	l := utf8.RuneCountInString(t)
	return l >= s.MinLength && l <= s.MaxLength && (s.Pattern == nil || s.Pattern.MatchString(t))
}
