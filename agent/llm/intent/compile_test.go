package intent

import (
	"errors"
	"strings"
	"testing"
)

func TestCompileErrors(t *testing.T) {
	lists := map[string]List{
		"place": Words("kitchen"), "empty": {}, "both": {Wildcard: true, Range: &Range{To: 1}}, "down": {Range: &Range{From: 2, To: 1}},
		"never": {Range: &Range{To: 1, NoDigits: true, NoWords: true}}, "step": {Range: &Range{To: 1, Step: -1}}, "bad": Words("a", "(b"), "slotted": Words("a {place}"), "nothing": Words("[a]"),
	}
	rules := map[string]string{"the": "[the]", "a": "x <b>", "b": "<a>", "broken": "x ]"}
	for _, c := range []struct{ sentence, want string }{
		{"go to {plce}", `did you mean {place}?`},
		{"go to {xyz}", "give it in Lists"},
		{"go to <teh> x", "did you mean <the>?"},
		{"go (to", `this '(' is never closed with ')'`},
		{"go [to", `this '[' is never closed with ']'`},
		{"go {place", `this '{' is never closed with '}'`},
		{"go to) x", `')' closes nothing here; write \)`},
		{"go {} x", "the name in \"{}\" is missing"},
		{"go {place:} x", "is missing"},
		{"go {a(b} x", "in the name"},
		{"go (a|b;c)", "in one group"},
		{"[go]", "fits when nothing is said"},
		{"", "fits when nothing is said"},
		{"...", "fits when nothing is said"},
		{"go (a;b;c;d;e;f;g)", "6 at most"},
		{"go {empty}", "is empty"},
		{"go {both}", "several things"},
		{"go {down}", "from is the smaller one"},
		{"go {never}", "neither digits nor words"},
		{"go {step}", "more than 0"},
		{"go {bad}", "list {bad}: this '(' is never closed"},
		{"go {slotted}", "a value of a list has no slots"},
		{"go {nothing}", "fits when nothing is said"},
		{"go <a>", "rule <a> contains itself: a → b → a"},
		{"go <broken>", "closes nothing here"},
		{"go \xff", "not UTF-8"},
		{"go " + strings.Repeat("(", 40) + "x" + strings.Repeat(")", 40), "deeper than 32"},
		{"go " + strings.Repeat("(a|b|c)", 20), "too many"},
		{strings.Repeat("x", 5000), "longer than"},
	} {
		_, err := Compile([]Intent{{Tool: "go", Sentences: []string{c.sentence}}}, Options{Lists: lists, Rules: rules})
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60s: got %v, want %q", c.sentence, err, c.want)
		}
	}
	for _, c := range []struct {
		in   Intent
		o    Options
		want string
	}{
		{Intent{}, Options{}, "has no name"},
		{Intent{Tool: "x"}, Options{}, "no sentences"},
		{Intent{Name: "x", Sentences: []string{"x"}}, Options{}, "would do nothing"},
		{Intent{Tool: "x", Sentences: []string{"x"}, Response: "to {place}"}, Options{}, "which no sentence has"},
		{Intent{Tool: "x", Sentences: []string{"x"}, Response: "to {place"}, Options{}, "never closed"},
		{Intent{Name: "x", Sentences: []string{"x"}, Response: "{result}"}, Options{}, "calls no tool"},
		{Intent{Tool: "x", Sentences: []string{"x {place}"}, Response: "{place.vale}"}, Options{Lists: lists}, "only .value"},
		{Intent{Tool: "x", Sentences: []string{"x"}}, Options{Fuzzy: 2}, "between 0 and 1"},
		{Intent{Tool: "x", Sentences: []string{"x"}}, Options{Language: "tlh"}, "only those of de, en, es"},
		{Intent{Tool: "x", Sentences: []string{"x"}}, Options{SkipWords: []string{"please", "do not"}}, "it can't be skipped"},
		{Intent{Tool: "x", Sentences: []string{"x"}}, Options{SkipWords: []string{"(a|b)"}}, "plain words"},
	} {
		if _, err := Compile([]Intent{c.in}, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %q", c.in, err, c.want)
		}
	}
	_, err := Compile([]Intent{{Tool: "go", Sentences: []string{"gehe in die küche {plce}"}}}, Options{Lists: lists})
	if want := "intent: go: no list {plce}: did you mean {place}?\n    gehe in die küche {plce}\n                      ^"; err.Error() != want {
		t.Errorf("got\n%s\nwant\n%s", err, want)
	}
}
