package schema

import (
	"math"
	"strings"
)

const maxExact = 1 << 53 // whole numbers up to here survive as float64

// Coerce gently makes a value fit where there is no doubt what was meant, and
// fills in defaults. It gives a new tree; what does not fit is left as it is,
// for [Schema.Validate] to name. "0.3" becomes 0.3, 3.0 becomes 3, "Kitchen"
// the enum's "kitchen", "true" true, text that holds a list or an object that
// list or object, and null for what may be left out is left out. A bool never
// becomes a number nor a number a bool.
func (s *Schema) Coerce(v any) any {
	if s.Enum != nil {
		v = s.pick(v)
	}
	switch s.Kind {
	case Integer:
		return toInteger(v)
	case Number:
		if text, ok := v.(string); ok {
			return toNumber(text)
		}
	case Boolean:
		if text, ok := v.(string); ok {
			switch strings.ToLower(strings.TrimSpace(text)) {
			case "true":
				return true
			case "false":
				return false
			}
		}
	case Array:
		a, ok := unwrap(v, '[').([]any)
		if !ok {
			return v
		}
		out := make([]any, len(a))
		for i, x := range a {
			out[i] = x
			if s.Items != nil {
				out[i] = s.Items.Coerce(x)
			}
		}
		return out
	case Object:
		m, ok := unwrap(v, '{').(map[string]any)
		if !ok {
			return v
		}
		return s.coerceObject(m)
	}
	return v
}

func (s *Schema) coerceObject(m map[string]any) any {
	out := make(map[string]any, len(m)+len(s.Properties))
	for k, x := range m {
		p := s.Property(k)
		switch {
		case p == nil:
			out[k] = x
		case x == nil && !p.Required && p.Schema.Kind != Null && p.Schema.Kind != Any:
			// null says "nothing": as if left out.
		default:
			out[k] = p.Schema.Coerce(x)
		}
	}
	for i := range s.Properties {
		p := &s.Properties[i]
		if _, ok := out[p.Name]; !ok && p.Schema.HasDefault {
			out[p.Name] = copyTree(p.Schema.Default)
		}
	}
	return out
}

// pick finds the listed value that was meant: equal but for case, blanks, or a
// number's quotes.
func (s *Schema) pick(v any) any {
	var found any
	n := 0
	for _, e := range s.Enum {
		if equal(e, v) {
			return v
		}
		text, ok := v.(string)
		if !ok {
			continue
		}
		text = strings.TrimSpace(text)
		same := false
		switch e := e.(type) {
		case string:
			same = strings.EqualFold(e, text)
		case int64, float64:
			same = equal(e, toNumber(text))
		}
		if same {
			found = e
			n++
		}
	}
	if n == 1 {
		return found
	}
	return v
}

func toInteger(v any) any {
	if text, ok := v.(string); ok {
		n := toNumber(text)
		if _, still := n.(string); still {
			return v
		}
		if i, ok := toInteger(n).(int64); ok {
			return i
		}
		return v
	}
	if f, ok := v.(float64); ok && f == math.Trunc(f) && math.Abs(f) <= maxExact {
		return int64(f)
	}
	return v
}

// toNumber reads text that is a JSON number and nothing else.
func toNumber(text string) any {
	t := strings.TrimSpace(text)
	if t == "" || len(t) > 40 || t[0] != '-' && (t[0] < '0' || t[0] > '9') {
		return text
	}
	v, err := Decode([]byte(t))
	if err != nil {
		return text
	}
	if _, ok := asFloat(v); !ok {
		return text
	}
	return v
}

// unwrap reads a list or an object that was written as text.
func unwrap(v any, first byte) any {
	text, ok := v.(string)
	if !ok {
		return v
	}
	t := strings.TrimSpace(text)
	if t == "" || t[0] != first {
		return v
	}
	if inner, err := Decode([]byte(t)); err == nil {
		return inner
	}
	return v
}

func copyTree(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = copyTree(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = copyTree(v[k])
		}
		return out
	}
	return v
}
