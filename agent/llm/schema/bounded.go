package schema

import (
	"regexp/syntax"
	"slices"
)

// Bounded says whether every text of this schema has a limit; the error names
// the place that has none, and what to write there. A model held to a schema
// without limits can write for ever.
func (s *Schema) Bounded() error { return s.bounded("") }

func (s *Schema) bounded(path string) error {
	if s.Enum != nil {
		return nil
	}
	switch s.Kind {
	case Boolean, Null:
		return nil
	case String:
		if s.MaxLength == nil && (s.Pattern == "" || patternLimit(s.Pattern) < 0) {
			return at(path, "a string without end; give it maxLength or enum")
		}
	case Integer, Number:
		if s.Minimum == nil || s.Maximum == nil {
			return at(path, "a number without limits; give it minimum and maximum")
		}
	case Array:
		if s.MaxItems == nil {
			return at(path, "a list without end; give it maxItems")
		}
		if s.Items == nil {
			return at(path, "a list of anything; give it items")
		}
		return s.Items.bounded(path + "[]")
	case Object:
		if s.Open {
			return at(path, "an object with any properties; give it \"additionalProperties\": false")
		}
		for _, p := range s.Properties {
			if err := p.Schema.bounded(join(path, p.Name)); err != nil {
				return err
			}
		}
	default:
		return at(path, "anything at all; give it a type")
	}
	return nil
}

// Limits that [Schema.Bound] writes where a schema has none.
const (
	boundLength = 300
	boundItems  = 16
	boundNumber = 1e9
)

// Bound gives a bounded copy of the schema, for holding a model to it: limits
// where there are none, objects closed, and text for what may be anything.
func (s *Schema) Bound() *Schema {
	c := *s
	length, items, low, high := boundLength, boundItems, -boundNumber, boundNumber
	if c.Enum != nil {
		return &c
	}
	switch c.Kind {
	case Any:
		c = Schema{Kind: String, Doc: s.Doc, MaxLength: &length}
	case String:
		if c.MaxLength == nil && (c.Pattern == "" || patternLimit(c.Pattern) < 0) {
			length = max(length, c.MinLength)
			c.MaxLength = &length
		}
	case Integer, Number:
		if c.Minimum == nil {
			if c.Maximum != nil {
				low = min(low, *c.Maximum)
			}
			c.Minimum = &low
		}
		if c.Maximum == nil {
			high = max(high, *c.Minimum)
			c.Maximum = &high
		}
	case Array:
		if c.MaxItems == nil {
			items = max(items, c.MinItems)
			c.MaxItems = &items
		}
		if c.Items == nil {
			c.Items = &Schema{}
		}
		c.Items = c.Items.Bound()
	case Object:
		c.Open = false
		c.Properties = slices.Clone(c.Properties)
		for i := range c.Properties {
			c.Properties[i].Schema = c.Properties[i].Schema.Bound()
		}
	}
	return &c
}

// Bare gives a copy without what its author says in words: descriptions,
// choices, defaults and patterns that are not single plain words, and
// properties whose names are not.
func (s *Schema) Bare() *Schema {
	c := *s
	c.Doc = ""
	if slices.ContainsFunc(c.Enum, func(v any) bool { return !word(v) }) {
		c.Enum = nil
	}
	if c.HasDefault && !word(c.Default) {
		c.HasDefault, c.Default = false, nil
	}
	c.Pattern, c.pattern = "", nil
	if c.Items != nil {
		c.Items = c.Items.Bare()
	}
	c.Properties = nil
	for _, p := range s.Properties {
		if word(p.Name) {
			p.Schema = p.Schema.Bare()
			c.Properties = append(c.Properties, p)
		}
	}
	return c.Bound()
}

// word reports whether a value is a number, or a name of one word.
func word(v any) bool {
	switch v := v.(type) {
	case nil, bool, int64, float64:
		return true
	case string:
		for _, r := range v {
			if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-' && r != '.' {
				return false
			}
		}
		return len(v) <= 40
	}
	return false
}

// patternLimit gives the longest text a whole-text pattern takes, in
// characters, or -1 if there is no limit.
func patternLimit(pattern string) int {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return -1
	}
	re = re.Simplify()
	if re.Op != syntax.OpConcat || len(re.Sub) < 2 ||
		re.Sub[0].Op != syntax.OpBeginText || re.Sub[len(re.Sub)-1].Op != syntax.OpEndText {
		return -1
	}
	return longest(re)
}

func longest(re *syntax.Regexp) int {
	sum := 0
	switch re.Op {
	case syntax.OpLiteral:
		return len(re.Rune)
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return 1
	case syntax.OpStar, syntax.OpPlus:
		return -1
	case syntax.OpQuest, syntax.OpCapture:
		return longest(re.Sub[0])
	case syntax.OpRepeat:
		n := longest(re.Sub[0])
		if n < 0 || re.Max < 0 {
			return -1
		}
		return n * re.Max
	case syntax.OpConcat, syntax.OpAlternate:
		for _, sub := range re.Sub {
			n := longest(sub)
			if n < 0 {
				return -1
			}
			if re.Op == syntax.OpConcat {
				sum += n
			} else {
				sum = max(sum, n)
			}
		}
	}
	return sum
}
