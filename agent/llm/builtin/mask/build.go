package mask

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// builder makes nodes of schemas.
type builder struct {
	nodes   []node
	heard   string
	numbers []float64 // said in the text, also in other units
	tails   []string  // properties that take the text to its end
}

func (b *builder) add(n node) int16 {
	b.nodes = append(b.nodes, n)
	return int16(len(b.nodes) - 1)
}

func (b *builder) literal(texts []string) int16 {
	n := node{kind: literal}
	slices.Sort(texts)
	for _, t := range slices.Compact(texts) {
		n.entries = append(n.entries, entry{text: t})
	}
	return b.add(n)
}

// value makes the node of a schema. values are per property; grounded numbers
// must have been heard.
func (b *builder) value(s *Schema, values map[string][]string, grounded bool) (int16, error) {
	switch s.Kind {
	case Choice:
		return b.literal(slices.Clone(s.Choices)), nil
	case Boolean:
		return b.literal([]string{"false", "true"}), nil
	case Integer, Number:
		return b.number(s)
	case String:
		return b.text(s, nil, false)
	case Array:
		item, err := b.value(s.Items, nil, false)
		n := node{kind: array, least: int16(s.MinItems), most: int16(min(s.MaxItems, 1000)), sub: []int16{item}}
		if err != nil {
			if s.MinItems > 0 {
				return 0, err
			}
			n.most, n.sub = 0, nil // nothing fits into it: it stays empty
		}
		return b.add(n), nil
	case Object:
		return b.object(s, values, grounded)
	}
	return 0, fmt.Errorf("a schema of no kind")
}

func (b *builder) object(s *Schema, values map[string][]string, grounded bool) (int16, error) {
	n := node{kind: object}
	for _, p := range s.Props {
		var sub int16
		var err error
		switch {
		case p.Kind == String:
			sub, err = b.text(p.Schema, values[p.Name], slices.Contains(b.tails, p.Name))
		case grounded && (p.Kind == Number || p.Kind == Integer):
			sub, err = b.heardNumber(p.Schema, values[p.Name])
		default:
			sub, err = b.value(p.Schema, nil, false)
		}
		if err != nil {
			if p.Required {
				return 0, fmt.Errorf("%s: %w", p.Name, err)
			}
			continue // it is left out
		}
		key, err := json.Marshal(p.Name)
		if err != nil {
			return 0, err
		}
		if p.Required {
			n.need |= 1 << len(n.entries)
		}
		n.entries = append(n.entries, entry{text: string(key[1:])})
		n.sub = append(n.sub, sub)
	}
	n.sort()
	return b.add(n), nil
}

// number makes the node of any number in a range.
func (b *builder) number(s *Schema) (int16, error) {
	n := node{kind: numeral}
	lo, hi := max(s.Min, -1e12), min(s.Max, 1e12)
	if s.Kind == Number {
		n.scale = 4
		for hi > lo && math.Pow10(-int(n.scale)) > hi-lo && n.scale < 9 {
			n.scale++
		}
		if hi == lo {
			return b.literal([]string{jsonNumber(lo)}), nil
		}
	}
	unit := math.Pow10(int(n.scale))
	first, last := math.Round(lo*unit), math.Round(hi*unit)
	if first/unit < lo { // the quotient is the number that a reader of it gets
		first++
	}
	if last/unit > hi {
		last--
	}
	n.lo, n.hi = int64(first), int64(last)
	if n.lo > n.hi {
		return 0, fmt.Errorf("%w: no number from %v to %v", ErrImpossible, s.Min, s.Max)
	}
	return b.add(n), nil
}

func jsonNumber(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// heardNumber makes the node of a number that was said, or, if none was, of one
// that the words imply.
func (b *builder) heardNumber(s *Schema, values []string) (int16, error) {
	var texts []string
	take := func(t string, v float64) {
		if v >= s.Min && v <= s.Max && (s.Kind == Number || v == math.Trunc(v)) {
			texts = append(texts, t)
		}
	}
	for _, v := range b.numbers {
		take(jsonNumber(v), v)
	}
	if len(b.numbers) == 0 {
		for _, t := range values {
			if v, err := strconv.ParseFloat(t, 64); err == nil {
				take(t, v)
			}
		}
		if len(values) == 0 {
			return b.number(s)
		}
	}
	if len(texts) == 0 {
		return 0, fmt.Errorf("%w: no number from %v to %v was said", ErrImpossible, s.Min, s.Max)
	}
	return b.literal(texts), nil
}

// heardNumbers finds the numbers of a text, and what they are in other units if
// their unit is named.
func heardNumbers(heard string) []float64 {
	var out []float64
	words := strings.Fields(heard)
	for i, w := range words {
		v, err := strconv.ParseFloat(w, 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		out = append(out, v)
		if i+1 < len(words) {
			if k := factor(words[i+1]); k != 0 {
				out = append(out, math.Round(v*k*1e6)/1e6)
			}
		}
	}
	return out
}

// factor is what a unit is in metres or seconds.
func factor(unit string) float64 {
	switch strings.TrimSuffix(unit, "s") {
	case "cm", "centimeter", "centimetre":
		return 0.01
	case "mm", "millimeter", "millimetre":
		return 0.001
	case "km", "kilometer", "kilometre":
		return 1000
	case "minute", "min":
		return 60
	case "hour":
		return 3600
	}
	return 0
}

// longest is how many words of a text a string with a pattern may take.
const longest = 8

// text makes the node of a string: a run of heard words, to the end if it is a
// tail, or one of values.
func (b *builder) text(s *Schema, values []string, tail bool) (int16, error) {
	n := node{kind: text}
	n.empty = s.Fits("")
	for _, v := range values {
		var t string
		if json.Unmarshal([]byte(v), &t) == nil && t != "" && s.Fits(t) {
			n.entries = append(n.entries, entry{text: strings.Trim(v, `"`)})
		}
	}
	words := strings.Fields(b.heard)
	for i := range words {
		if s.Pattern != nil || s.MinLength > 1 {
			for j := i + 1; j <= min(i+longest, len(words)); j++ {
				if t := strings.Join(words[i:j], " "); s.Fits(t) && plain(t) {
					n.entries = append(n.entries, entry{text: t})
				}
			}
			continue
		}
		t, runes := "", 0
		for j := i; j < len(words) && plain(words[j]); j++ {
			if runes += utf8.RuneCountInString(words[j]); runes > s.MaxLength {
				break
			}
			if j > i {
				t += " "
			}
			t, runes = t+words[j], runes+1
		}
		if t != "" {
			n.entries = append(n.entries, entry{text: t, words: !tail})
		}
	}
	if len(n.entries) == 0 && !n.empty {
		return 0, fmt.Errorf("%w: nothing in the text can be its value", ErrImpossible)
	}
	if len(n.entries) > math.MaxInt16 {
		n.entries = n.entries[:math.MaxInt16]
	}
	n.sort()
	return b.add(n), nil
}

// plain tells whether a text stands in JSON as it is.
func plain(t string) bool {
	return utf8.ValidString(t) && !strings.ContainsFunc(t, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' })
}
