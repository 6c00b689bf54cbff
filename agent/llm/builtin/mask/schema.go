package mask

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"unicode/utf8"
)

// Kind is what a schema's values are.
type Kind int

// The kinds.
const (
	Choice  Kind = iota + 1 // enum, const, or oneOf of const
	Boolean                 //
	Integer                 //
	Number                  //
	String                  //
	Array                   //
	Object                  //
)

// Schema is a bounded JSON schema, read. It is read only.
type Schema struct {
	Kind                 Kind
	Choices              []string // JSON texts, for Choice
	Min, Max             float64  // for Integer and Number
	MinLength, MaxLength int      // in runes, for String
	Pattern              *regexp.Regexp
	Items                *Schema // for Array
	MinItems, MaxItems   int
	Props                []Prop // for Object, in the schema's order
	Default              json.RawMessage
}

// Prop is one property of an object.
type Prop struct {
	Name     string
	Required bool
	*Schema
}

// What a schema that sets no bound gets.
const (
	mostNumber = 1e9
	mostLength = 200
	mostItems  = 8
	mostProps  = 64
	mostDepth  = 8
)

// Read reads the bounded subset of JSON schema that tools and answers use. No
// text at all is an object without properties.
func Read(text json.RawMessage) (*Schema, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return &Schema{Kind: Object}, nil
	}
	s, err := readSchema(text, 0)
	if err != nil {
		return nil, fmt.Errorf("mask: schema: %w", err)
	}
	return s, nil
}

type raw struct {
	Type       json.RawMessage
	Enum       []json.RawMessage
	Const      json.RawMessage
	OneOf      []json.RawMessage
	AnyOf      []json.RawMessage
	Minimum    *float64
	Maximum    *float64
	MinLength  *int
	MaxLength  *int
	Pattern    string
	Items      json.RawMessage
	MinItems   *int
	MaxItems   *int
	Properties json.RawMessage
	Required   []string
	Default    json.RawMessage
}

func readSchema(text json.RawMessage, depth int) (*Schema, error) {
	var r raw
	if depth > mostDepth {
		return nil, fmt.Errorf("deeper than %d", mostDepth)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, err
	}
	s := &Schema{Default: r.Default}
	if r.Enum != nil || r.Const != nil || r.OneOf != nil || r.AnyOf != nil {
		return s, s.readChoices(r)
	}
	var kind string
	if r.Type == nil && r.Properties != nil {
		kind = "object"
	} else if json.Unmarshal(r.Type, &kind) != nil {
		return nil, fmt.Errorf("a schema without one type: %.60s", text)
	}
	switch kind {
	case "boolean":
		s.Kind = Boolean
	case "null":
		s.Kind, s.Choices = Choice, []string{"null"}
	case "integer", "number":
		s.Kind = Number
		if kind == "integer" {
			s.Kind = Integer
		}
		s.Min, s.Max = or(r.Minimum, -mostNumber), or(r.Maximum, mostNumber)
		if s.Min > s.Max {
			return nil, fmt.Errorf("minimum %v is above maximum %v", s.Min, s.Max)
		}
		s.Min, s.Max = max(s.Min, -1e15), min(s.Max, 1e15)
	case "string":
		s.Kind, s.MinLength, s.MaxLength = String, or(r.MinLength, 0), or(r.MaxLength, mostLength)
		if r.Pattern != "" {
			re, err := regexp.Compile(r.Pattern)
			if err != nil {
				return nil, err
			}
			s.Pattern = re
		}
	case "array":
		return s, s.readArray(r, depth)
	case "object":
		return s, s.readObject(r, depth)
	default:
		return nil, fmt.Errorf("type %q", kind)
	}
	return s, nil
}

func or[T any](p *T, d T) T {
	if p == nil {
		return d
	}
	return *p
}

func (s *Schema) readChoices(r raw) error {
	s.Kind = Choice
	list := r.Enum
	if r.Const != nil {
		list = []json.RawMessage{r.Const}
	}
	for _, one := range append(r.OneOf, r.AnyOf...) {
		var c raw
		if err := json.Unmarshal(one, &c); err != nil {
			return err
		}
		if c.Const != nil {
			list = append(list, c.Const)
		}
		list = append(list, c.Enum...)
		if c.Const == nil && c.Enum == nil {
			return fmt.Errorf("oneOf holds more than const and enum: %.60s", one)
		}
	}
	if len(list) == 0 {
		return fmt.Errorf("nothing to choose from")
	}
	for _, v := range list {
		var b bytes.Buffer
		if err := json.Compact(&b, v); err != nil {
			return err
		}
		s.Choices = append(s.Choices, b.String())
	}
	return nil
}

func (s *Schema) readArray(r raw, depth int) error {
	if r.Items == nil {
		return fmt.Errorf("an array of anything")
	}
	items, err := readSchema(r.Items, depth+1)
	if err != nil {
		return fmt.Errorf("items: %w", err)
	}
	s.Kind, s.Items = Array, items
	s.MinItems = or(r.MinItems, 0)
	s.MaxItems = or(r.MaxItems, max(mostItems, s.MinItems))
	if s.MaxItems > 1000 {
		return fmt.Errorf("arrays of up to %d", s.MaxItems)
	}
	if s.MinItems > s.MaxItems {
		return fmt.Errorf("minItems %d is above maxItems %d", s.MinItems, s.MaxItems)
	}
	return nil
}

func (s *Schema) readObject(r raw, depth int) error {
	s.Kind = Object
	if len(r.Properties) > 0 {
		d := json.NewDecoder(bytes.NewReader(r.Properties))
		if t, err := d.Token(); err != nil || t != json.Delim('{') {
			return fmt.Errorf("properties are no object")
		}
		for d.More() {
			t, err := d.Token()
			if err != nil {
				return err
			}
			name, _ := t.(string)
			var v json.RawMessage
			if err := d.Decode(&v); err != nil {
				return err
			}
			p, err := readSchema(v, depth+1)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			s.Props = append(s.Props, Prop{Name: name, Schema: p})
		}
	}
	if len(s.Props) > mostProps {
		return fmt.Errorf("%d properties; at most %d", len(s.Props), mostProps)
	}
	for _, name := range r.Required {
		p := s.Prop(name)
		if p == nil {
			return fmt.Errorf("required property %q is not described", name)
		}
		p.Required = true
	}
	return nil
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
