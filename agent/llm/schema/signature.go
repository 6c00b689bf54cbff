package schema

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A Param is one parameter of a function that becomes a tool.
type Param struct {
	Name       string
	Default    any // a JSON tree; nil with HasDefault: may be left out, and nothing is filled in
	HasDefault bool
}

// textLength is the limit of a text parameter that states none.
const textLength = 300

// FromSignature makes a tool's description and the schema of its arguments
// from a function's parameters and its docstring:
//
//	Switch a lamp.
//
//	Args:
//	  room: one of kitchen, hall, dock
//	  on (bool): desired state
//	  brightness (int, 0..100): percent
//
// In parentheses stand a type (bool, int, float, str, list, dict, "list of
// int"), then a range low..high (of a number, of a text's length, of a list's
// length), a pattern between slashes, or "one of …". What is not said is taken
// from the default; a parameter of which nothing is known is text. The
// description is what stands before "Args:". Errors name the parameter.
func FromSignature(params []Param, docstring string) (doc string, s *Schema, err error) {
	doc, lines, err := splitDoc(docstring)
	if err != nil {
		return "", nil, err
	}
	s = &Schema{Kind: Object, Properties: []Property{}}
	for _, p := range params {
		child := &Schema{}
		if line, ok := lines[p.Name]; ok {
			delete(lines, p.Name)
			if err := child.annotate(line); err != nil {
				return "", nil, fmt.Errorf("schema: parameter %s: %w", p.Name, err)
			}
		}
		child.fromDefault(p)
		s.Properties = append(s.Properties, Property{Name: p.Name, Schema: child, Required: !p.HasDefault})
	}
	for name := range lines {
		return "", nil, fmt.Errorf("schema: Args tells of %q, which is not a parameter", name)
	}
	return doc, s, s.Check()
}

// fromDefault settles what the docstring left open.
func (s *Schema) fromDefault(p Param) {
	if s.Kind == Any && s.Enum == nil {
		switch d := p.Default.(type) {
		case bool:
			s.Kind = Boolean
		case int64:
			s.Kind = Integer
		case float64:
			s.Kind = Number
		case []any:
			s.Kind = Array
		case map[string]any:
			s.Kind, s.Open = Object, true
		default:
			_ = d
			s.Kind = String
		}
	}
	if s.Kind == String && s.MaxLength == nil && s.Pattern == "" && s.Enum == nil {
		n := textLength
		if text, ok := p.Default.(string); ok {
			n = max(n, len(text))
		}
		s.MaxLength = &n
	}
	if p.HasDefault && p.Default != nil {
		s.Default, s.HasDefault = s.Coerce(p.Default), true
	}
}

type argLine struct{ spec, text string }

// splitDoc parts a docstring into description and the lines under Args.
func splitDoc(docstring string) (string, map[string]argLine, error) {
	argHead := regexp.MustCompile(`^(\*{0,2}[A-Za-z_]\w*)\s*(?:\((.*?)\))?\s*:\s*(.*)$`)
	lines := map[string]argLine{}
	var doc []string
	inArgs, last, depth := false, "", 0
	for line := range strings.Lines(docstring) {
		t := strings.TrimSpace(line)
		indent := len(line) - len(strings.TrimLeft(line, " \t"))
		switch {
		case t == "Args:":
			inArgs, depth = true, indent
		case !inArgs:
			doc = append(doc, t)
		case t == "":
		case indent <= depth: // another section ends the arguments
			return strings.TrimSpace(strings.Join(doc, "\n")), lines, nil
		default:
			m := argHead.FindStringSubmatch(t)
			if m == nil && last == "" {
				return "", nil, fmt.Errorf("schema: Args: can't read %q; write NAME (TYPE): text", t)
			}
			if m == nil {
				l := lines[last]
				l.text += " " + t
				lines[last] = l
				continue
			}
			last = m[1]
			if _, twice := lines[last]; twice {
				return "", nil, fmt.Errorf("schema: Args tells of %q twice", last)
			}
			lines[last] = argLine{m[2], m[3]}
		}
	}
	return strings.TrimSpace(strings.Join(doc, "\n")), lines, nil
}

// annotate reads "(int, 0..100): percent".
func (s *Schema) annotate(l argLine) error {
	s.Doc = strings.TrimSpace(l.text)
	rest := strings.TrimSpace(l.spec)
	for rest != "" {
		var part string
		switch {
		case strings.HasPrefix(rest, "one of "):
			part, rest = rest, ""
		case strings.HasPrefix(rest, "/"):
			end := strings.LastIndex(rest, "/")
			if end == 0 {
				return fmt.Errorf("pattern %q has no closing slash", rest)
			}
			part, rest = rest[:end+1], strings.TrimPrefix(strings.TrimSpace(rest[end+1:]), ",")
		default:
			part, rest, _ = strings.Cut(rest, ",")
		}
		rest = strings.TrimSpace(rest)
		if err := s.part(strings.TrimSpace(part)); err != nil {
			return err
		}
	}
	if s.Enum == nil && (s.Kind == Any || s.Kind == String) {
		if after, ok := strings.CutPrefix(s.Doc, "one of "); ok {
			list, more, _ := strings.Cut(strings.TrimSuffix(after, "."), ";")
			s.Kind, s.Enum = String, choices(list)
			s.Doc = strings.TrimSpace(more)
		}
	}
	return nil
}

func (s *Schema) part(part string) error {
	if after, ok := strings.CutPrefix(part, "one of "); ok {
		s.Enum = choices(after)
		if s.Kind == Integer || s.Kind == Number {
			for i, e := range s.Enum {
				s.Enum[i] = toNumber(e.(string))
			}
		} else {
			s.Kind = String
		}
		return nil
	}
	if strings.HasPrefix(part, "/") {
		s.Kind, s.Pattern = String, part[1:len(part)-1]
		return nil
	}
	if low, high, ok := strings.Cut(part, ".."); ok {
		return s.limit(strings.TrimSpace(low), strings.TrimSpace(high))
	}
	if of, ok := strings.CutPrefix(part, "list of "); ok {
		s.Kind = Array
		s.Items = &Schema{}
		if err := s.Items.part(of); err != nil {
			return err
		}
		if s.Items.Kind == String && s.Items.MaxLength == nil {
			n := textLength
			s.Items.MaxLength = &n
		}
		return nil
	}
	switch part {
	case "bool", "boolean":
		s.Kind = Boolean
	case "int", "integer":
		s.Kind = Integer
	case "float", "number":
		s.Kind = Number
	case "str", "string", "text":
		s.Kind = String
	case "list":
		s.Kind = Array
	case "dict", "object":
		s.Kind, s.Open = Object, true
	default:
		return fmt.Errorf("%q is neither a type (bool, int, float, str, list, dict, list of …) nor a range low..high, a /pattern/ or \"one of …\"", part)
	}
	return nil
}

// limit reads a range; either end may be empty.
func (s *Schema) limit(low, high string) error {
	ends := [2]*float64{}
	for i, text := range []string{low, high} {
		if text == "" {
			continue
		}
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return fmt.Errorf("range %s..%s: %q is not a number", low, high, text)
		}
		ends[i] = &f
	}
	switch s.Kind {
	case String:
		s.MinLength, s.MaxLength = whole(ends[0]), wholePtr(ends[1])
	case Array:
		s.MinItems, s.MaxItems = whole(ends[0]), wholePtr(ends[1])
	case Integer, Number:
		s.Minimum, s.Maximum = ends[0], ends[1]
	case Any: // a range alone is of a number
		s.Kind, s.Minimum, s.Maximum = Number, ends[0], ends[1]
	default:
		return fmt.Errorf("range %s..%s: %s has no range", low, high, s.Kind)
	}
	return nil
}

func whole(f *float64) int {
	if f == nil {
		return 0
	}
	return max(0, int(*f))
}

func wholePtr(f *float64) *int {
	if f == nil {
		return nil
	}
	n := whole(f)
	return &n
}

// choices parts "a, b or c".
func choices(list string) []any {
	var out []any
	for part := range strings.SplitSeq(strings.ReplaceAll(list, " or ", ", "), ",") {
		if part = strings.Trim(strings.TrimSpace(part), `"'`); part != "" {
			out = append(out, part)
		}
	}
	return out
}

// Limited gives a copy in which a number property is held to a narrower range;
// a wider one changes nothing.
func (s *Schema) Limited(name string, low, high float64) (*Schema, error) {
	p := s.Property(name)
	if p == nil {
		return nil, fmt.Errorf("schema: limits: there is no parameter %q", name)
	}
	if k := p.Schema.Kind; k != Integer && k != Number {
		return nil, fmt.Errorf("schema: limits: %s is not a number", name)
	}
	child := *p.Schema
	if child.Minimum == nil || low > *child.Minimum {
		child.Minimum = &low
	}
	if child.Maximum == nil || high < *child.Maximum {
		child.Maximum = &high
	}
	c := *s
	c.Properties = append([]Property(nil), s.Properties...)
	for i := range c.Properties {
		if c.Properties[i].Name == name {
			c.Properties[i].Schema = &child
		}
	}
	return &c, c.Check()
}
