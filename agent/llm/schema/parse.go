package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
)

const (
	maxDepth      = 16
	maxProperties = 128
	maxEnum       = 1024
	maxText       = 256 << 10
)

// Parse reads a schema and refuses what is not checked here; the error names
// the path.
func Parse(text []byte) (*Schema, error) { return read(text, false) }

// ParseLoose reads a foreign schema: keywords that are not known here are
// dropped, and where nothing is left any value is taken.
func ParseLoose(text []byte) (*Schema, error) { return read(text, true) }

func read(text []byte, loose bool) (*Schema, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("schema: %d bytes, at most %d are read", len(text), maxText)
	}
	if !json.Valid(text) {
		return nil, errors.New("schema: not JSON")
	}
	p := parser{loose}
	s, err := p.node(text, "", 0)
	if err != nil {
		return nil, err
	}
	return s, s.Check()
}

// Check makes a schema that was built by hand ready for use: patterns are
// compiled, and defaults must fit.
func (s *Schema) Check() error { return s.check("") }

func (s *Schema) check(path string) error {
	if s.Pattern != "" && s.pattern == nil {
		re, err := regexp.Compile(s.Pattern)
		if err != nil {
			return at(path, "pattern: %v", err)
		}
		s.pattern = re
	}
	if s.Minimum != nil && s.Maximum != nil && *s.Minimum > *s.Maximum {
		return at(path, "minimum %v is above maximum %v", *s.Minimum, *s.Maximum)
	}
	if s.MaxLength != nil && *s.MaxLength < s.MinLength {
		return at(path, "minLength %d is above maxLength %d", s.MinLength, *s.MaxLength)
	}
	if s.MaxItems != nil && *s.MaxItems < s.MinItems {
		return at(path, "minItems %d is above maxItems %d", s.MinItems, *s.MaxItems)
	}
	for i, p := range s.Properties {
		if slices.ContainsFunc(s.Properties[:i], func(q Property) bool { return q.Name == p.Name }) {
			return at(path, "property %q is there twice", p.Name)
		}
		if err := p.Schema.check(join(path, p.Name)); err != nil {
			return err
		}
	}
	if s.Items != nil {
		if err := s.Items.check(path + "[]"); err != nil {
			return err
		}
	}
	if s.HasDefault {
		if err := s.Validate(s.Default); err != nil {
			return at(path, "default: %v", err)
		}
	}
	return nil
}

func at(path, format string, args ...any) error {
	if path == "" {
		return fmt.Errorf("schema: "+format, args...)
	}
	return fmt.Errorf("schema: at "+path+": "+format, args...)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

type parser struct{ loose bool }

// member is a key of a JSON object with its value, as written.
type member struct {
	key string
	raw json.RawMessage
}

// members reads an object's keys in order.
func members(text []byte) ([]member, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	t, err := d.Token()
	if err != nil || t != json.Delim('{') {
		return nil, errors.New("not an object")
	}
	var list []member
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		m := member{key: t.(string)}
		if err := d.Decode(&m.raw); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(list, func(o member) bool { return o.key == m.key }) {
			return nil, fmt.Errorf("%q is there twice", m.key)
		}
		if len(list) > maxEnum {
			return nil, errors.New("too many keys")
		}
		list = append(list, m)
	}
	return list, nil
}

func (p parser) node(text []byte, path string, depth int) (*Schema, error) {
	if depth > maxDepth {
		return nil, at(path, "deeper than %d", maxDepth)
	}
	text = bytes.TrimSpace(text)
	if p.loose && (string(text) == "true" || string(text) == "false") {
		return &Schema{}, nil
	}
	list, err := members(text)
	if err != nil {
		return nil, at(path, "%v", err)
	}
	s := &Schema{Open: true}
	var required []string
	for _, m := range list {
		if err := p.keyword(s, m, &required, path, depth); err != nil {
			return nil, err
		}
	}
	for _, name := range required {
		if q := s.Property(name); q != nil {
			q.Required = true
		} else if !p.loose {
			return nil, at(path, "required %q is not a property", name)
		} else {
			s.Properties = append(s.Properties, Property{Name: name, Schema: &Schema{}, Required: true})
		}
	}
	s.infer()
	if s.Kind == Any && s.Enum == nil && !p.loose {
		return nil, at(path, "says no type")
	}
	if s.Kind != Object {
		s.Open = false
	}
	if len(s.Properties) > maxProperties {
		return nil, at(path, "%d properties, at most %d", len(s.Properties), maxProperties)
	}
	if !p.loose {
		return s, nil
	}
	if s.HasDefault && s.Validate(s.Default) != nil { // foreign defaults that don't fit their own schema exist
		s.Default, s.HasDefault = nil, false
	}
	return s, nil
}

// infer finds the kind where the keywords leave one.
func (s *Schema) infer() {
	switch {
	case s.Kind != Any:
	case s.Properties != nil:
		s.Kind = Object
	case s.Items != nil:
		s.Kind = Array
	}
}

func (p parser) keyword(s *Schema, m member, required *[]string, path string, depth int) error {
	bad := func(what string) error {
		if p.loose {
			return nil
		}
		return at(path, "%s: %s", m.key, what)
	}
	get := func(v any, what string) error {
		if json.Unmarshal(m.raw, v) != nil {
			return bad("wants " + what)
		}
		return nil
	}
	switch m.key {
	case "type":
		return p.kind(s, m.raw, path)
	case "description":
		return get(&s.Doc, "text")
	case "title", "examples", "$schema", "$id", "$comment", "deprecated":
		return nil
	case "properties":
		return p.properties(s, m.raw, path, depth)
	case "required":
		return get(required, "a list of names")
	case "additionalProperties":
		var open bool
		if json.Unmarshal(m.raw, &open) != nil {
			return bad("wants true or false")
		}
		s.Open = open
		return nil
	case "enum", "const", "oneOf":
		return p.choices(s, m, path)
	case "pattern":
		if err := get(&s.Pattern, "text"); err != nil {
			return err
		}
		if _, err := regexp.Compile(s.Pattern); err != nil && p.loose {
			s.Pattern = ""
		}
		return nil
	case "minLength", "maxLength", "minItems", "maxItems":
		return p.count(s, m, path)
	case "minimum", "maximum":
		var f *float64
		if json.Unmarshal(m.raw, &f) != nil || f == nil || math.IsInf(*f, 0) {
			return bad("wants a number")
		}
		if m.key == "minimum" {
			s.Minimum = f
		} else {
			s.Maximum = f
		}
		return nil
	case "items":
		items, err := p.node(m.raw, path+"[]", depth+1)
		s.Items = items
		return err
	case "default":
		v, err := Decode(m.raw)
		s.Default, s.HasDefault = v, err == nil
		return err
	}
	return bad("is not checked here, so it can't be used")
}

func (p parser) kind(s *Schema, raw json.RawMessage, path string) error {
	var one string
	if json.Unmarshal(raw, &one) != nil {
		var many []string
		if !p.loose || json.Unmarshal(raw, &many) != nil {
			return at(path, "type: wants one name")
		}
		many = slices.DeleteFunc(many, func(k string) bool { return k == string(Null) })
		if len(many) != 1 {
			return nil
		}
		one = many[0]
	}
	switch k := Kind(one); k {
	case Object, String, Integer, Number, Boolean, Array, Null:
		s.Kind = k
		return nil
	}
	return at(path, "type: %q is none of object, string, integer, number, boolean, array, null", one)
}

func (p parser) properties(s *Schema, raw json.RawMessage, path string, depth int) error {
	list, err := members(raw)
	if err != nil {
		return at(path, "properties: %v", err)
	}
	s.Properties = []Property{}
	for _, m := range list {
		child, err := p.node(m.raw, join(path, m.key), depth+1)
		if err != nil {
			return err
		}
		s.Properties = append(s.Properties, Property{Name: m.key, Schema: child})
	}
	return nil
}

func (p parser) count(s *Schema, m member, path string) error {
	var n *int
	if json.Unmarshal(m.raw, &n) != nil || n == nil || *n < 0 {
		if p.loose {
			return nil
		}
		return at(path, "%s: wants a whole number from 0", m.key)
	}
	switch m.key {
	case "minLength":
		s.MinLength = *n
	case "maxLength":
		s.MaxLength = n
	case "minItems":
		s.MinItems = *n
	case "maxItems":
		s.MaxItems = n
	}
	return nil
}

// choices reads enum, const and oneOf of const as one list.
func (p parser) choices(s *Schema, m member, path string) error {
	v, err := Decode(m.raw)
	if err != nil {
		return err
	}
	list, isList := v.([]any)
	switch {
	case m.key == "const":
		list = []any{v}
	case !isList || len(list) == 0:
		if p.loose {
			return nil
		}
		return at(path, "%s: wants a list that is not empty", m.key)
	case m.key == "oneOf":
		for i, x := range list {
			one, _ := x.(map[string]any)
			c, ok := one["const"]
			if !ok {
				if p.loose {
					return nil
				}
				return at(path, "oneOf: only a choice of const is checked here")
			}
			list[i] = c
		}
	}
	if len(list) > maxEnum {
		return at(path, "%s: %d values, at most %d", m.key, len(list), maxEnum)
	}
	if s.Enum != nil {
		return at(path, "%s: one of enum, const and oneOf is enough", m.key)
	}
	s.Enum = list
	return nil
}

// MarshalJSON writes the schema, properties in their order.
func (s *Schema) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	put := func(key string, v any) error {
		text, err := Encode(v)
		if err != nil {
			return err
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q:%s", key, text)
		return nil
	}
	err := s.fields(put)
	b.WriteByte('}')
	return b.Bytes(), err
}

func (s *Schema) fields(put func(key string, v any) error) error {
	var err error
	add := func(write bool, key string, v any) {
		if write && err == nil {
			err = put(key, v)
		}
	}
	add(s.Kind != Any, "type", s.Kind)
	add(s.Doc != "", "description", s.Doc)
	if s.Kind == Object {
		props, perr := s.properties()
		err = perr
		add(s.Properties != nil, "properties", props)
		var required []string
		for _, p := range s.Properties {
			if p.Required {
				required = append(required, p.Name)
			}
		}
		add(required != nil, "required", required)
		add(!s.Open, "additionalProperties", false)
	}
	add(s.Enum != nil, "enum", s.Enum)
	add(s.Pattern != "", "pattern", s.Pattern)
	add(s.MinLength > 0, "minLength", s.MinLength)
	add(s.MaxLength != nil, "maxLength", s.MaxLength)
	add(s.Minimum != nil, "minimum", s.Minimum)
	add(s.Maximum != nil, "maximum", s.Maximum)
	add(s.Items != nil, "items", s.Items)
	add(s.MinItems > 0, "minItems", s.MinItems)
	add(s.MaxItems != nil, "maxItems", s.MaxItems)
	add(s.HasDefault, "default", s.Default)
	return err
}

func (s *Schema) properties() (json.RawMessage, error) {
	var b strings.Builder
	for i, p := range s.Properties {
		name, err := Encode(p.Name)
		if err != nil {
			return nil, err
		}
		text, err := p.Schema.MarshalJSON()
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%s:%s", name, text)
	}
	return json.RawMessage("{" + b.String() + "}"), nil
}
