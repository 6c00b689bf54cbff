package train

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"edged/agent/llm/builtin"
	"edged/agent/llm/builtin/mask"
)

// voice makes up what people say. It is not for concurrent use.
type voice struct {
	*rand.Rand
	plan  *plan
	words lexicon
}

func pick[T any](r *rand.Rand, s []T) T { return s[r.IntN(len(s))] }

// said is one filled phrase.
type said struct {
	text string
	args map[string]string // JSON texts by parameter
	verb bool              // it starts with a verb: "could you" may stand before it
}

// fill makes a phrase of a template.
func (v *voice) fill(t *tool, tm template, noisy bool) said {
	out := said{args: map[string]string{}}
	for k, a := range tm.args {
		b, _ := json.Marshal(a)
		out.args[k] = string(b)
	}
	out.text = strings.Join(v.walk(t, tm.parts, noisy, out.args), " ")
	first, _, _ := strings.Cut(out.text, " ")
	_, out.verb = v.words.verbs[first]
	return out
}

func (v *voice) walk(t *tool, parts []part, noisy bool, args map[string]string) []string {
	var w []string
	for _, p := range parts {
		switch {
		case p.slot != "":
			text, value := v.slot(t, t.schema.Prop(p.slot))
			w = append(w, text)
			args[p.slot] = value
		case p.any != nil:
			w = append(w, v.walk(t, pick(v.Rand, p.any), noisy, args)...)
		default:
			text := p.words
			if noisy {
				text = v.noise(text)
			}
			if text != "" {
				w = append(w, text)
			}
		}
	}
	return w
}

// call is the compact JSON of a call, parameters in the schema's order.
func (s said) call(t *tool) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"name":"%s","arguments":{`, t.Name)
	sep := ""
	for _, p := range t.schema.Props {
		if a, ok := s.args[p.Name]; ok {
			fmt.Fprintf(&b, `%s"%s":%s`, sep, p.Name, a)
			sep = ","
		}
	}
	b.WriteString("}}")
	return b.String()
}

// slot makes up a value of a parameter: how it is said, and its JSON.
func (v *voice) slot(t *tool, p *mask.Prop) (text, value string) {
	spoken := t.Spoken[p.Name]
	quote := func(s string) string { return strconv.Quote(s) }
	switch p.Kind {
	case mask.Choice:
		c := pick(v.Rand, p.Choices)
		var s string
		if json.Unmarshal([]byte(c), &s) != nil {
			s = c
		}
		if w := spoken[s]; len(w) > 0 {
			return pick(v.Rand, w), c
		}
		return strings.ReplaceAll(s, "_", " "), c
	case mask.Boolean:
		b := v.IntN(2) == 0
		if w := spoken[strconv.FormatBool(b)]; len(w) > 0 {
			return pick(v.Rand, w), strconv.FormatBool(b)
		}
		return map[bool]string{true: "on", false: "off"}[b], strconv.FormatBool(b)
	case mask.Integer, mask.Number:
		return v.quantity(p)
	}
	if len(spoken) > 0 && v.IntN(9) < 5 {
		key := pick(v.Rand, sortedKeys(spoken))
		if w := spoken[key]; len(w) > 0 {
			return pick(v.Rand, w), quote(key)
		}
		return key, quote(key)
	}
	if p.MaxLength > longName {
		s := builtin.Hear(v.sentence(t)).Text // said and heard alike
		return s, quote(s)
	}
	s := v.name()
	return s, quote(s)
}

// name makes up the name of a thing or a place.
func (v *voice) name() string {
	var w []string
	if v.IntN(3) == 0 {
		w = append(w, pick(v.Rand, v.words.adjectives))
	}
	if v.IntN(5) < 2 {
		w = append(w, v.invent())
	} else {
		w = append(w, pick(v.Rand, v.words.nouns))
	}
	if v.IntN(6) == 0 {
		w = append(w, pick(v.Rand, v.words.nouns))
	}
	return strings.Join(w, " ")
}

// sentence makes up words to be said aloud. Some sound like commands: they are
// to be said, not done.
func (v *voice) sentence(t *tool) string {
	switch v.IntN(6) {
	case 0:
		if o := &v.plan.tools[v.IntN(len(v.plan.tools))]; o.Name != t.Name && len(o.say) > 0 {
			s := v.fill(o, pick(v.Rand, o.say), false)
			return pick(v.Rand, []string{"", "", "do not ", "please ", "you should "}) + s.text
		}
	case 1:
		return pick(v.Rand, v.words.lines)
	}
	return v.babble(1 + v.IntN(6))
}

func (v *voice) babble(n int) string {
	var w []string
	for range n {
		switch v.IntN(6) {
		case 0:
			w = append(w, v.invent())
		case 1:
			w = append(w, pick(v.Rand, v.words.nouns))
		default:
			w = append(w, pick(v.Rand, v.words.plain))
		}
	}
	return strings.Join(w, " ")
}

// invent makes up a word, so that the model learns to copy instead of to
// remember.
func (v *voice) invent() string {
	var sb strings.Builder
	for range 2 + v.IntN(2) {
		sb.WriteByte("bcdfghjklmnprstvwz"[v.IntN(18)])
		sb.WriteByte("aeiou"[v.IntN(5)])
		if v.IntN(3) == 0 {
			sb.WriteByte("nrstlmk"[v.IntN(7)])
		}
	}
	return sb.String()
}

// quantity makes up a number, with a unit if the parameter's name is one.
func (v *voice) quantity(p *mask.Prop) (text, value string) {
	units := v.words.units[p.Name]
	if len(units) == 0 {
		n := v.number(p)
		return v.spell(n), number(n)
	}
	if p.Name == "meters" {
		return v.metres(p)
	}
	n := v.number(p)
	return v.spell(n) + " " + pick(v.Rand, units), number(n)
}

// number draws from a range; what people say is mostly round.
func (v *voice) number(p *mask.Prop) float64 {
	lo, hi := max(p.Min, -1000), min(p.Max, 1000)
	round := 1.0
	switch span := hi - lo; {
	case p.Kind == mask.Number && (span <= 5 || span <= 100 && v.IntN(3) == 0):
		round = 0.1
	case span > 50 && v.IntN(2) == 0:
		round = pick(v.Rand, []float64{5, 10, 15, 30, 45, 90})
	}
	top := hi
	if v.IntN(3) > 0 {
		top = lo + (hi-lo)/5
	}
	n := math.Round((lo+v.Float64()*(top-lo))/round) * round
	n = math.Round(n*10) / 10
	if n < p.Min || n > p.Max {
		n = math.Ceil(p.Min)
	}
	return n
}

func (v *voice) metres(p *mask.Prop) (text, value string) {
	unit := pick(v.Rand, v.words.units["meters"])
	n, text := 0.0, ""
	switch v.IntN(7) {
	case 0:
		n, text = 0.5, "half a "+pick(v.Rand, []string{"meter", "metre"})
	case 1:
		c := 5 * (1 + v.IntN(30))
		n, text = float64(c)/100, v.spell(float64(c))+" "+pick(v.Rand, []string{"centimeters", "cm", "centimetres"})
	case 2:
		n = float64(v.IntN(10)) + float64(1+v.IntN(9))/10
		text = v.spell(n) + " " + unit
	case 3:
		n, text = 1, "a "+pick(v.Rand, []string{"meter", "metre"})
	case 4:
		w := 1 + v.IntN(5)
		n, text = float64(w)+0.5, pick(v.Rand, []string{v.spell(float64(w)) + " and a half " + unit, inWords(w) + " and a half meters"})
	default:
		n = float64(1 + v.IntN(20))
		text = v.spell(n) + " " + unit
	}
	if n < p.Min || n > p.Max {
		n = math.Max(math.Ceil(p.Min*10)/10, math.Min(1, math.Floor(p.Max*10)/10))
		text = v.spell(n) + " " + unit
	}
	return text, number(n)
}

// spell says a number in words or digits.
func (v *voice) spell(n float64) string {
	s := number(n)
	if v.IntN(2) == 0 || n < 0 || n > 999 {
		return s
	}
	whole, frac, _ := strings.Cut(s, ".")
	w, _ := strconv.Atoi(whole)
	out := inWords(w)
	if frac != "" {
		out += " point"
		for _, d := range frac {
			out += " " + inWords(int(d-'0'))
		}
	}
	return out
}

// inWords says a number below a thousand.
func inWords(n int) string {
	ones := strings.Fields("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen")
	tens := strings.Fields("zero ten twenty thirty forty fifty sixty seventy eighty ninety")
	switch {
	case n < 20:
		return ones[n]
	case n < 100:
		if n%10 == 0 {
			return tens[n/10]
		}
		return tens[n/10] + " " + ones[n%10]
	}
	s := ones[n/100] + " hundred"
	if n%100 > 0 {
		if n%2 == 0 {
			s += " and"
		}
		s += " " + inWords(n%100)
	}
	return s
}

// noise does to words what a speech recogniser does: drops small ones, writes
// what sounds alike, hears one twice.
func (v *voice) noise(s string) string {
	if v.IntN(5) > 0 {
		return s
	}
	var out []string
	for _, w := range strings.Fields(s) {
		switch {
		case v.IntN(4) == 0 && v.words.small[w]:
			continue
		case v.IntN(3) == 0 && v.words.alike[w] != "":
			w = v.words.alike[w]
		case v.IntN(20) == 0:
			out = append(out, w)
		case v.IntN(20) == 0:
			out = append(out, pick(v.Rand, []string{"um", "uh"}))
		}
		out = append(out, w)
	}
	return strings.Join(out, " ")
}
