package intent

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A template that is drawn together with one sentence of it.
type drawn struct {
	t        *rapid.T
	lists    map[string]List
	slots    map[string]any
	literals []string
	numbered bool
}

func (d *drawn) pick(label string, n int) int { return rapid.IntRange(0, n-1).Draw(d.t, label) }

// draw gives a template and, if said, words of a sentence and its slots.
func (d *drawn) draw(depth int, said bool) (template, sentence string) {
	n := 1 + d.pick("items", 3)
	for i := range n {
		tpl, sen := d.item(depth, said)
		if i > 0 {
			template += " "
		}
		template += tpl
		sentence += " " + sen
	}
	return template, sentence
}

func (d *drawn) item(depth int, said bool) (string, string) {
	kind := d.pick("kind", 8)
	if depth <= 0 && kind < 4 {
		kind = 7
	}
	switch kind {
	case 0: // optional
		in := d.pick("in", 2) == 0
		tpl, sen := d.draw(depth-1, said && in)
		if !in {
			sen = ""
		}
		return "[" + tpl + "]", sen
	case 1, 2: // one of, any order
		n := 2 + d.pick("branches", 2)
		chosen := d.pick("branch", n)
		var tpls, sens []string
		for i := range n {
			tpl, sen := d.draw(depth-1, said && (kind == 2 || i == chosen))
			tpls, sens = append(tpls, tpl), append(sens, sen)
		}
		if kind == 1 {
			return "(" + strings.Join(tpls, "|") + ")", sens[chosen]
		}
		order := rapid.Permutation(sens).Draw(d.t, "order")
		return "(" + strings.Join(tpls, ";") + ")", strings.Join(order, " ")
	case 3: // endings
		w := d.word()
		if d.pick("plural", 2) == 0 {
			return w + "[s]", w + "s"
		}
		return w + "[s]", w
	case 4, 5:
		name := fmt.Sprintf("list%d", len(d.lists))
		slot := "slot" + name
		values := Words(name+" uno", name+" dos", name+" dos tres", name)
		for i := range values.Values {
			values.Values[i].Out = fmt.Sprint(name, i)
		}
		d.lists[name] = values
		v := values.Values[d.pick("value", 4)]
		if said {
			d.slots[slot] = v.Out
		}
		return "{" + name + ":" + slot + "}", v.In
	case 6:
		if d.numbered {
			break
		}
		d.numbered = true
		step := rapid.SampledFrom([]float64{0, 5, 0.5}).Draw(d.t, "step")
		d.lists["number"] = List{Range: &Range{From: -20, To: 1000, Step: step}}
		if step == 0 {
			step = 1
		}
		v := -20 + step*float64(d.pick("number", int(1020/step)+1))
		if said {
			d.slots["number"] = v
			if v == math.Trunc(v) {
				d.slots["number"] = int64(v)
			}
		}
		if v == math.Trunc(v) && d.pick("spelt", 2) == 0 {
			return "{number}", spell(int(v))
		}
		return "{number}", fmt.Sprint(v)
	}
	w := d.word()
	return w, w
}

func (d *drawn) word() string {
	return rapid.SampledFrom([]string{"turn", "lamp", "Küche", "don't", "été", "x", "go-to", "l'eau"}).Draw(d.t, "word")
}

// spell says a whole number in English.
func spell(n int) string {
	l, _ := languageOf("en")
	name := func(v int) string {
		for w, num := range l.numbers {
			if num.value == float64(v) && (num.class == units || num.class == tens) && w != "fourty" {
				return w
			}
		}
		panic(v)
	}
	switch {
	case n < 0:
		return "minus " + spell(-n)
	case n < 20:
		return name(n)
	case n < 100 && n%10 == 0:
		return name(n)
	case n < 100:
		return name(n-n%10) + "-" + name(n%10)
	case n < 1000 && n%100 == 0:
		return name(n/100) + " hundred"
	case n < 1000:
		return name(n/100) + " hundred and " + spell(n%100)
	case n == 1000:
		return "a thousand"
	}
	panic(n)
}

// TestEverySentence: what a template can say, it understands, with its slots;
// however it is written.
func TestEverySentence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := &drawn{t: t, lists: map[string]List{}, slots: map[string]any{}}
		tpl, sen := d.draw(3, true)
		tpl, sen = "anchor "+tpl, "anchor "+sen
		if ps, _ := cut(nil, nil, sen); len(ps) > maxPieces {
			t.Skip("a speech")
		}
		m, err := Compile([]Intent{{Tool: "x", Sentences: []string{tpl}}}, Options{Lists: d.lists, Fuzzy: 1})
		if err != nil {
			t.Fatalf("%s: %v", tpl, err)
		}
		for _, say := range []string{sen, strings.ToUpper(sen), "  " + strings.ReplaceAll(sen, " ", ", ") + "!?"} {
			if strings.Contains(say, ",") && (d.numbered || strings.Contains(sen, "-")) {
				continue // commas are part of numbers
			}
			got, ok := m.Match(say)
			if !ok || !reflect.DeepEqual(got.Slots, d.slots) {
				t.Fatalf("template %s\nsaid %q\ngot  %v %v\nwant %v", tpl, say, ok, got.Slots, d.slots)
			}
		}
	})
}

// TestNegatedNeverActs: no negation put anywhere into a command is a command.
func TestNegatedNeverActs(t *testing.T) {
	m := robot(t)
	commands := []string{
		"go to the kitchen", "turn left ninety degrees", "drive forward two meters", "turn on the lights in the hall", "turn off the lights",
		"um could you please set a timer for five minutes", "dim the lights to forty percent", "move to the living room", "go two the kitchin", "turn write 20 degrees",
	}
	for _, c := range commands {
		if _, ok := m.Match(c); !ok {
			t.Errorf("%q is not understood", c)
		}
		ws := strings.Fields(c)
		for _, not := range []string{"not", "do not", "don't", "dont", "DON’T", "never", "no", "please do not", "you shouldn't", "without", "cannot", "can't"} {
			for i := range len(ws) + 1 {
				say := strings.Join(ws[:i], " ") + " " + not + " " + strings.Join(ws[i:], " ")
				if got, ok := m.Match(say); ok {
					t.Errorf("%q became %s %v", say, got.Intent, got.Slots)
				}
			}
		}
	}
}

// A wildcard in front may not swallow a negation.
func TestNegationInWildcard(t *testing.T) {
	m := compile(t, Options{Lists: map[string]List{"anything": {Wildcard: true}}},
		Intent{Tool: "go", Sentences: []string{"[{anything}] go home"}}, Intent{Tool: "note", Sentences: []string{"note {anything}"}})
	if _, ok := m.Match("do not go home"); ok {
		t.Error("a wildcard swallowed the negation")
	}
	if _, ok := m.Match("now really go home"); !ok {
		t.Error("a wildcard in front matches nothing")
	}
	if got, ok := m.Match("note do not go home"); !ok || got.Slots["anything"] != "do not go home" {
		t.Errorf("a note: %v %v", ok, got)
	}
}

func FuzzCompile(f *testing.F) {
	for _, s := range []string{"go to [the] {place}", "(a;b;[c]) <r>s", `x\(y`, "{n:m}% mp{n} l'{place}s", "[a|b|]c", "((((", "|", ";", "a'b''c"} {
		f.Add(s, "go to the kitchen")
	}
	o := Options{Lists: map[string]List{"place": Words("kitchen", "hall way"), "n": {Range: &Range{To: 10, Step: 0.5}}, "w": {Wildcard: true}}, Rules: map[string]string{"r": "[x] {place}"}}
	f.Fuzz(func(t *testing.T, template, text string) {
		m, err := Compile([]Intent{{Tool: "x", Sentences: []string{template}}}, o)
		if err != nil {
			return
		}
		m.Match(text)
		if plainText(template) {
			if _, ok := m.Match(template); !ok {
				t.Errorf("%q does not understand itself", template)
			}
		}
	})
}

func FuzzMatch(f *testing.F) {
	for _, s := range strings.Split(nothing, "\n") {
		f.Add(s)
	}
	f.Add("turn one hundred and a half and point five million minus")
	m := robot(f)
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := m.Match(text)
		if ok && (got.Score < 0.8 || got.Score > 1) {
			t.Errorf("%q: score %g", text, got.Score)
		}
		if ok && got.Tool != "remind" {
			for _, w := range strings.Fields(strings.ToLower(text)) {
				if w == "not" || w == "don't" || w == "never" {
					t.Errorf("%q became %s", text, got.Intent)
				}
			}
		}
	})
}
