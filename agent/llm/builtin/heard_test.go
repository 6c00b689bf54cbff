package builtin

import (
	"testing"

	"pgregory.net/rapid"
)

func TestHear(t *testing.T) {
	for said, want := range map[string]string{
		"Turn left, ninety degrees!":           "turn left 90 degrees",
		"go forward two hundred and seventy m": "go forward 270 m",
		"one hundred five":                     "105",
		"three thousand and twelve steps":      "3012 steps",
		"two point five meters":                "2.5 meters",
		"move 2.5m":                            "move 2.5 m",
		"half a meter back":                    "0.5 meter back",
		"one and a half meters":                "1.5 meters",
		"a meter and a half":                   "1.5 meter",
		"2 meters and a half":                  "2.5 meters",
		"a meter":                              "1 meter",
		"the red one":                          "the red one",
		"one meter":                            "1 meter",
		"a hundred degrees":                    "100 degrees",
		"a cup":                                "a cup",
		"set it to 30%":                        "set it to 30 percent",
		"90° left":                             "90 degrees left",
		"Don’t stop.":                          "don't stop",
		"zero":                                 "0",
		"twenty one and three":                 "21 and 3",
		"-5":                                   "-5",
		"twenty-five":                          "25",
		"":                                     "",
		"...!?":                                "",
		"Grüß Gott":                            "grüß gott",
	} {
		if got := Hear(said).Text; got != want {
			t.Errorf("%q: heard %q, want %q", said, got, want)
		}
	}
}

func TestOriginal(t *testing.T) {
	h := Hear(`Say "Hello, Anna! It's ten o'clock."`)
	for heard, want := range map[string]string{
		"hello anna it's 10 o'clock": `Hello, Anna! It's ten o'clock`,
		"anna":                       "Anna",
		"10":                         "ten",
	} {
		if got, ok := h.Original(heard); !ok || got != want {
			t.Errorf("%q: got %q, %v; want %q", heard, got, ok, want)
		}
	}
	for _, s := range []string{"ann", "nna", "peter", ""} {
		if got, ok := h.Original(s); ok {
			t.Errorf("%q is no run of words, but gave %q", s, got)
		}
	}
}

// What is heard of what was heard is the same.
func TestHearSettles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.StringMatching(`((one|two|twenty|half|a|and|hundred|point|meters|left|3|2\.5) ?){0,9}`)).Draw(t, "said")
		h := Hear(s)
		for i := range h.words {
			if h.words[i].from > h.words[i].to || h.words[i].to > len(s) {
				t.Fatalf("%q: word %d is from %d to %d", s, i, h.words[i].from, h.words[i].to)
			}
		}
		if h.Text != "" {
			if _, ok := h.Original(h.Text); !ok {
				t.Fatalf("%q: the whole of %q has no original", s, h.Text)
			}
		}
	})
}

func TestRules(t *testing.T) {
	for _, c := range []struct {
		said            string
		neg, conditions int
	}{
		{"don't stop", 1, 0},
		{"Do not move", 1, 0},
		{"no, go to the kitchen", 0, 0},
		{"no need to go to the kitchen", 1, 0},
		{"I can’t see you", 1, 0},
		{"dont go and never turn", 2, 0},
		{"go to the kitchen", 0, 0},
		{"go to the kitchen when I call", 0, 1},
		{"go to the kitchen if you can", 0, 0},
		{"if it rains, go home tomorrow", 0, 2},
		{"the next room", 0, 0},
		{"next week go home", 0, 1},
	} {
		h := Hear(c.said)
		if n, k := negated(h), conditional(h); n != c.neg || k != c.conditions {
			t.Errorf("%q: %d negations, %d conditions; want %d, %d", c.said, n, k, c.neg, c.conditions)
		}
	}
}

func TestStatement(t *testing.T) {
	for said, want := range map[string]string{
		"turn left":                     "",
		"Robot, could you turn left?":   "",
		"I want you to turn left":       "",
		"I'd like you to turn left":     "",
		"I need the cup":                "",
		"do a u turn":                   "",
		"your next stop is the kitchen": "",
		"will you come here":            "",
		"I want to go to the kitchen":   "i",
		"I need to go to the kitchen":   "i",
		"I'll go to the kitchen":        "i'll",
		"Hey, did you turn left?":       "did",
		"do you like to turn left":      "do",
		"can dogs turn left":            "can",
		"ok so she turned left":         "she",
		"what would you do":             "what",
		"that was ninety degrees":       "that",
		"ok robot":                      "",
		"":                              "",
	} {
		if got := statement(Hear(said)); got != want {
			t.Errorf("%q: got %q, want %q", said, got, want)
		}
	}
}

func TestSentences(t *testing.T) {
	var r Replies
	for result, want := range map[string]string{
		"":                            "Done.",
		"null":                        "Done.",
		"true":                        "Done.",
		`"ok"`:                        "Done.",
		"ok":                          "Done.",
		"in the dock":                 "In the dock.",
		`"driven."`:                   "Driven.",
		"hello!":                      "Hello!",
		`"ölt"`:                       "Ölt.",
		"false":                       "That did not work.",
		"21.50":                       "It reads 21.50.",
		"87 %":                        "It reads 87 %.",
		`{"value":21.5,"unit":"C"}`:   "It reads 21.5 C.",
		`{"room":"kitchen"}`:          "Done.",
		`{"error":"no path."}`:        "That did not work: no path.",
		"error: blocked":              "That did not work: blocked.",
		`"error: the door is closed"`: "That did not work: the door is closed.",
	} {
		if got := r.Sentence(result); got != want {
			t.Errorf("%s: got %q, want %q", result, got, want)
		}
	}
	de := Replies{Done: "Fertig.", Failed: "Das ging nicht: %s.", Value: "Es sind %s."}
	if got := de.Sentence("error: blockiert"); got != "Das ging nicht: blockiert." {
		t.Errorf("got %q", got)
	}
}
