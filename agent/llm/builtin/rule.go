package builtin

import (
	"fmt"
	"slices"
	"strings"

	"edged/agent/llm/builtin/mask"
)

// Rules stand before and behind the model: a model of a million weights is too
// small to be trusted with the word not.

// negated counts the words that turn a command into its opposite.
func negated(h Heard) int {
	n := 0
	for i, w := range h.words {
		next := ""
		if i+1 < len(h.words) {
			next = h.words[i+1].text
		}
		switch w.text {
		case "not", "dont", "never", "without", "neither", "nor", "cannot", "nobody", "refrain", "avoid", "forbidden", "wont", "cant", "mustnt", "shouldnt", "didnt", "doesnt", "isnt", "wasnt":
			n++
		case "no":
			if slices.Contains([]string{"need", "reason", "longer", "more", "way", "one", "chance", "point", "going", "moving", "turning", "driving"}, next) {
				n++
			}
		default:
			if strings.HasSuffix(w.text, "n't") {
				n++
			}
		}
	}
	return n
}

// conditional counts the words that bind a command to a condition or a time.
// No call can say that, and doing it at once would be wrong.
func conditional(h Heard) int {
	n := 0
	for i, w := range h.words {
		next := ""
		if i+1 < len(h.words) {
			next = h.words[i+1].text
		}
		switch w.text {
		case "if":
			if !slices.Contains([]string{"you", "possible"}, next) { // "if you can" is politeness
				n++
			}
		case "when", "whenever", "unless", "until", "till", "tomorrow", "yesterday", "tonight", "later", "ago", "because", "while", "after", "before":
			n++
		case "next", "last", "every":
			if slices.Contains([]string{"time", "week", "month", "year", "day", "night", "morning", "hour", "minute", "evening", "summer", "winter"}, next) {
				n++
			}
		}
	}
	return n
}

// statement gives the word by which a sentence is a question or a statement:
// one that begins with an asking word, with somebody else, or with what I do.
// It gives nothing for "could you", "i want you to" and the like.
func statement(h Heard) string {
	w := make([]string, 0, len(h.words))
	for _, x := range h.words {
		w = append(w, x.text)
	}
	for len(w) > 0 && slices.Contains(fillers(), w[0]) {
		w = w[1:]
	}
	if len(w) == 0 {
		return ""
	}
	next := ""
	if len(w) > 1 {
		next = w[1]
	}
	switch w[0] {
	case "can", "could", "would", "will", "won't":
		if next == "you" {
			return ""
		}
		return w[0]
	case "do":
		if slices.Contains([]string{"you", "i", "we", "they", "people", "dogs", "cats"}, next) {
			return w[0]
		}
		return ""
	case "i", "i'd":
		if slices.Contains(w[:min(len(w), 5)], "you") || next == "need" && !slices.Contains(w[:min(len(w), 4)], "to") {
			return ""
		}
		return w[0]
	}
	const never = "who whose who's what what's which where where's why how is are am was were does did has have had should shall may might must " +
		"he she they it it's he's she's they're we we're we'll we've i'm i'll i've somebody someone everybody everyone nobody anybody there there's " +
		"that that's this these those my his her their our"
	if slices.Contains(strings.Fields(never), w[0]) {
		return w[0]
	}
	return ""
}

// loose tells whether a command to move leaves open where to or how far, so that
// a call would make it up: "move on", "drive away", and "turn a bit to the left"
// where no phrase of the tool tells how much a bit is.
func (all *Known) loose(h Heard, k *KnownTool, args map[string]any) bool {
	w := opened(strings.Fields(h.Text))
	for len(w) > 0 && slices.Contains(fillers(), w[len(w)-1]) {
		w = w[:len(w)-1]
	}
	known := spoken(w, args)
	if len(w) < 2 || len(args) == known {
		return false
	}
	if known == 0 && slices.Contains([]string{"move", "drive", "go", "come", "turn", "step", "walk", "run"}, w[0]) {
		on := w[1] == "on" && w[0] != "drive"
		if on && len(w) > 2 && slices.Contains([]string{"to", "with", "from"}, w[2]) {
			return true
		}
		if len(w) == 2 && (on || slices.Contains([]string{"away", "over", "by", "under", "along", "off", "up", "down", "in", "out"}, w[1])) {
			return true
		}
	}
	if slices.ContainsFunc(w, number) {
		return false
	}
	// What begins like another tool takes no measure from this one: "turn a
	// little to the right" is no move of a meter.
	other := !slices.Contains(k.Begins, w[0]) && slices.ContainsFunc(all.Tools, func(t KnownTool) bool { return t.Motion && slices.Contains(t.Begins, w[0]) })
	return slices.ContainsFunc(w, func(x string) bool {
		return slices.Contains([]string{"bit", "little", "slightly", "tad", "hair", "somewhat"}, x) && (other || !slices.Contains(k.Words, x))
	})
}

// spoken counts the arguments of a call whose value is among the words.
func spoken(w []string, args map[string]any) int {
	n := 0
	for _, a := range args {
		if strings.Contains(" "+strings.Join(w, " ")+" ", " "+fmt.Sprint(a)+" ") {
			n++
		}
	}
	return n
}

// carries tells whether a tool takes free text along, so that a word in it is
// only to be passed on.
func carries(s *mask.Schema) bool {
	return slices.ContainsFunc(s.Props, func(p mask.Prop) bool { return p.Kind == mask.String })
}

// carried counts words within a call's free text.
func carried(args map[string]any, count func(Heard) int) int {
	n := 0
	for _, a := range args {
		if s, ok := a.(string); ok {
			n += count(Hear(s))
		}
	}
	return n
}

// restore gives free text back the way it was written: "Say Hello, Anna!".
func (h Heard) restore(t mask.Tool, args map[string]any) {
	for name, a := range args {
		s, ok := a.(string)
		p := t.Params.Prop(name)
		if !ok || p == nil || p.Kind != mask.String || slices.Contains(t.Values[name], `"`+s+`"`) {
			continue
		}
		if was, ok := h.Original(s); ok && p.Fits(was) {
			args[name] = was
		}
	}
}
