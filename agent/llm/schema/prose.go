package schema

import (
	"fmt"
	"strconv"
	"strings"
)

// Prose lists an object's properties in one line, as a person would tell them:
// "room (one of kitchen, hall), on (true or false), optional brightness (whole
// number from 0 to 100, default 100)". Of any other schema it tells what it is.
func (s *Schema) Prose() string {
	if s.Kind != Object {
		return s.words()
	}
	if len(s.Properties) == 0 {
		return "no parameters"
	}
	var must, may []string
	for _, p := range s.Properties {
		line := p.Name + " (" + p.Schema.words() + ")"
		if p.Required {
			must = append(must, line)
		} else {
			may = append(may, "optional "+line)
		}
	}
	return strings.Join(append(must, may...), ", ")
}

// words says what a value must be.
func (s *Schema) words() string {
	var w string
	switch {
	case s.Enum != nil:
		w = s.choicesInWords()
	case s.Kind == String:
		w = "text"
		if s.MaxLength != nil {
			w += fmt.Sprintf(" of at most %d characters", *s.MaxLength)
		}
		if s.Pattern != "" {
			w += " like " + s.Pattern
		}
	case s.Kind == Integer:
		w = "whole number" + s.rangeInWords()
	case s.Kind == Number:
		w = "number" + s.rangeInWords()
	case s.Kind == Boolean:
		w = "true or false"
	case s.Kind == Array:
		w = "list"
		if s.MaxItems != nil {
			w += fmt.Sprintf(" of at most %d", *s.MaxItems)
		}
		if s.Items != nil {
			w += ", each " + s.Items.words()
		}
	case s.Kind == Object:
		w = "object"
		if len(s.Properties) > 0 {
			w += " with " + s.Prose()
		}
	case s.Kind == Null:
		w = "null"
	default:
		w = "anything"
	}
	if s.HasDefault {
		w += ", default " + plain(s.Default)
	}
	return w
}

func (s *Schema) choicesInWords() string {
	const most = 12
	var list []string
	for i, e := range s.Enum {
		if i == most {
			list = append(list, fmt.Sprintf("and %d more", len(s.Enum)-most))
			break
		}
		list = append(list, plain(e))
	}
	if len(list) == 1 {
		return list[0]
	}
	return "one of " + strings.Join(list, ", ")
}

func (s *Schema) rangeInWords() string {
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		return " from " + short(*s.Minimum) + " to " + short(*s.Maximum)
	case s.Minimum != nil:
		return " of at least " + short(*s.Minimum)
	case s.Maximum != nil:
		return " of at most " + short(*s.Maximum)
	}
	return ""
}

func short(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// plain writes a value as one says it: text without quotes.
func plain(v any) string {
	if s, ok := v.(string); ok && s != "" {
		return s
	}
	text, err := Encode(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

// Explained gives a copy in which the limits of every property also stand in
// its description: some servers hand on nothing else to the model.
func (s *Schema) Explained() *Schema {
	c := *s
	c.Properties = make([]Property, len(s.Properties))
	for i, p := range s.Properties {
		child := p.Schema.Explained()
		if limits := p.Schema.limits(); limits != "" && !strings.Contains(child.Doc, limits) {
			child.Doc = strings.TrimSpace(child.Doc + " (" + limits + ")")
		}
		c.Properties[i] = Property{p.Name, child, p.Required}
	}
	if s.Properties == nil {
		c.Properties = nil
	}
	if s.Items != nil {
		c.Items = s.Items.Explained()
	}
	return &c
}

func (s *Schema) limits() string {
	limited := s.Minimum != nil || s.Maximum != nil || s.Pattern != "" || s.HasDefault || s.MaxItems != nil
	if !limited {
		return ""
	}
	return s.words()
}
