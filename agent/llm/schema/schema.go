// Package schema reads the bounded part of JSON schema that models can be held
// to, and holds them to it: it parses, checks, gently coerces and explains.
//
// Its one rule: a schema either says what is checked or is refused. A keyword
// that nobody here checks is an error of [Parse], so that an author never
// believes in a limit that isn't there; [ParseLoose], for schemas of foreign
// tools, drops such keywords instead.
//
//	s, _ := schema.Parse([]byte(`{"type": "object", "additionalProperties": false,
//		"properties": {"speed": {"type": "number", "minimum": 0, "maximum": 1, "default": 0.3}}}`))
//	v, text, err := s.Accept([]byte(`{"speed": "0.5"}`))
//	// map[speed:0.5] {"speed":0.5} <nil>
//
// What it knows: object (properties, required, additionalProperties), string
// (enum, pattern, minLength, maxLength), integer and number (minimum, maximum),
// boolean, array (items, minItems, maxItems), null, const, oneOf of const,
// default and description. const and oneOf are read as enum.
//
// Values are JSON trees: nil, bool, int64, float64, string, []any,
// map[string]any; [Decode] makes them.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
)

// Kind is what a value must be. The empty kind takes any value.
type Kind string

// The kinds, as JSON schema names them.
const (
	Any     Kind = ""
	Object  Kind = "object"
	String  Kind = "string"
	Integer Kind = "integer"
	Number  Kind = "number"
	Boolean Kind = "boolean"
	Array   Kind = "array"
	Null    Kind = "null"
)

// A Schema says what a value may be. It is read-only once parsed, and may then
// be used concurrently. A schema built by hand must go through [Schema.Check].
type Schema struct {
	Kind       Kind
	Doc        string     // description
	Properties []Property // of an object, in the order they were written
	Open       bool       // an object may have properties that are not listed
	Enum       []any      // the values allowed; nil = no such list
	Pattern    string     // RE2, as in JSON schema not anchored by itself
	MinLength  int        // in characters
	MaxLength  *int
	Minimum    *float64
	Maximum    *float64
	Items      *Schema
	MinItems   int
	MaxItems   *int
	Default    any // meaningful only if HasDefault
	HasDefault bool

	pattern *regexp.Regexp
}

// A Property is one named part of an object.
type Property struct {
	Name     string
	Schema   *Schema
	Required bool
}

// Property gives the property of that name, or nil.
func (s *Schema) Property(name string) *Property {
	for i := range s.Properties {
		if s.Properties[i].Name == name {
			return &s.Properties[i]
		}
	}
	return nil
}

// Decode reads one JSON text into a tree; a number without fraction and
// exponent that fits is an int64, any other is a float64.
func Decode(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("schema: not JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("schema: not JSON: more than one value")
	}
	if key, ok := twice(text); ok {
		return nil, fmt.Errorf("schema: not JSON: the key %q is there twice", clip(key, 40))
	}
	return tree(v)
}

// twice finds a key that an object of a valid JSON text has more than once.
// Decoders take the last one and say nothing; who wrote it may have meant
// another.
func twice(text []byte) (string, bool) {
	type object struct {
		keys  map[string]bool // nil: it is an array
		value bool            // a key was read, its value comes next
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var open []object
	for {
		t, err := d.Token()
		if err != nil {
			return "", false
		}
		if key, ok := t.(string); ok && len(open) > 0 {
			if in := &open[len(open)-1]; in.keys != nil && !in.value {
				if in.keys[key] {
					return key, true
				}
				in.keys[key], in.value = true, true
				continue
			}
		}
		switch t {
		case json.Delim('{'):
			open = append(open, object{keys: map[string]bool{}})
			continue
		case json.Delim('['):
			open = append(open, object{})
			continue
		case json.Delim('}'), json.Delim(']'):
			open = open[:len(open)-1]
		}
		if len(open) > 0 {
			open[len(open)-1].value = false
		}
	}
}

// tree turns json.Number into int64 and float64, in place.
func tree(v any) (any, error) {
	var err error
	switch v := v.(type) {
	case json.Number:
		return number(string(v))
	case []any:
		for i := range v {
			if v[i], err = tree(v[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for k, x := range v {
			if v[k], err = tree(x); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

func number(s string) (any, error) {
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return i, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return nil, fmt.Errorf("schema: number %.40s is out of range", s)
	}
	return f, nil
}

// Encode writes a tree as JSON: keys sorted, no needless escapes, so that
// equal trees give equal texts.
func Encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("schema: encode: %w", err)
	}
	return json.RawMessage(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}

// Accept reads JSON text that somebody wrote to this schema: it is decoded,
// coerced, completed with defaults and validated. It gives the tree and its
// canonical text. An error of shape is [Problems].
func (s *Schema) Accept(text []byte) (any, json.RawMessage, error) {
	v, err := Decode(text)
	if err != nil {
		return nil, nil, err
	}
	v = s.Coerce(v)
	if err := s.Validate(v); err != nil {
		return nil, nil, err
	}
	out, err := Encode(v)
	return v, out, err
}

// equal compares trees, numbers by value. A bool is never a number.
func equal(a, b any) bool {
	if x, ok := asFloat(a); ok {
		y, ok := asFloat(b)
		return ok && x == y
	}
	switch a := a.(type) {
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !equal(a[i], b[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k, x := range a {
			if y, ok := b[k]; !ok || !equal(x, y) {
				return false
			}
		}
		return true
	case nil, bool, string:
		return a == b
	}
	return false
}

func asFloat(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case int:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}
