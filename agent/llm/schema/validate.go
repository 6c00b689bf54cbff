package schema

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// A Problem is one way in which a value does not fit.
type Problem struct {
	Path   string // "stops[2].room"; empty at the top
	Reason string // "must be one of kitchen, hall"
}

func (p Problem) Error() string {
	if p.Path == "" {
		return p.Reason
	}
	return p.Path + " " + p.Reason
}

// Problems is the error of a value that does not fit: all that was found wrong,
// in one line of prose.
type Problems []Problem

func (p Problems) Error() string {
	words := make([]string, 0, len(p))
	for _, one := range p {
		words = append(words, one.Error())
	}
	return strings.Join(words, "; ")
}

const maxProblems = 4

// Validate checks a tree; the error is [Problems].
func (s *Schema) Validate(v any) error {
	var list Problems
	s.validate(v, "", &list)
	if len(list) == 0 {
		return nil
	}
	return list
}

func (s *Schema) validate(v any, path string, list *Problems) {
	if len(*list) >= maxProblems {
		return
	}
	bad := func(format string, args ...any) {
		*list = append(*list, Problem{path, fmt.Sprintf(format, args...)})
	}
	if s.Enum != nil && !slices.ContainsFunc(s.Enum, func(e any) bool { return equal(e, v) }) {
		bad("must be %s", s.choicesInWords())
		return
	}
	switch s.Kind {
	case Object:
		m, ok := v.(map[string]any)
		if !ok {
			bad("must be an object")
			return
		}
		s.validateObject(m, path, list)
	case Array:
		a, ok := v.([]any)
		if !ok {
			bad("must be a list")
			return
		}
		if len(a) < s.MinItems {
			bad("must have at least %d items", s.MinItems)
		}
		if s.MaxItems != nil && len(a) > *s.MaxItems {
			bad("must have at most %d items", *s.MaxItems)
			return
		}
		if s.Items != nil {
			for i, x := range a {
				s.Items.validate(x, fmt.Sprintf("%s[%d]", path, i), list)
			}
		}
	case String:
		if text, ok := v.(string); !ok {
			bad("must be text")
		} else if why := s.textProblem(text); why != "" {
			bad("%s", why)
		}
	case Integer, Number:
		if why := s.numberProblem(v); why != "" {
			bad("%s", why)
		}
	case Boolean:
		if _, ok := v.(bool); !ok {
			bad("must be true or false")
		}
	case Null:
		if v != nil {
			bad("must be null")
		}
	}
}

func (s *Schema) validateObject(m map[string]any, path string, list *Problems) {
	for i := range s.Properties {
		p := &s.Properties[i]
		if v, ok := m[p.Name]; ok {
			p.Schema.validate(v, join(path, p.Name), list)
		} else if p.Required {
			*list = append(*list, Problem{join(path, p.Name), "is missing"})
		}
	}
	if s.Open || len(m) == 0 {
		return
	}
	var unknown []string
	for k := range m {
		if s.Property(k) == nil {
			unknown = append(unknown, k)
		}
	}
	slices.Sort(unknown)
	for _, k := range unknown {
		if len(*list) < maxProblems {
			*list = append(*list, Problem{path, fmt.Sprintf("%q is not known", clip(k, 40))})
		}
	}
}

func (s *Schema) textProblem(text string) string {
	n := utf8.RuneCountInString(text)
	switch {
	case n < s.MinLength:
		return fmt.Sprintf("must have at least %d characters", s.MinLength)
	case s.MaxLength != nil && n > *s.MaxLength:
		return fmt.Sprintf("must have at most %d characters", *s.MaxLength)
	case s.pattern != nil && !s.pattern.MatchString(text):
		return "must match " + s.Pattern
	}
	return ""
}

func (s *Schema) numberProblem(v any) string {
	f, ok := asFloat(v)
	whole := s.Kind == Integer
	switch {
	case !ok && whole:
		return "must be a whole number"
	case !ok || math.IsNaN(f) || math.IsInf(f, 0):
		return "must be a number"
	case whole && f != math.Trunc(f):
		return "must be a whole number"
	case s.Minimum != nil && f < *s.Minimum, s.Maximum != nil && f > *s.Maximum:
		return "must be " + strings.TrimSpace(s.rangeInWords())
	}
	return ""
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
