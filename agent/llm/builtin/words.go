package builtin

import (
	"slices"
	"strconv"
	"strings"
)

// Content gives the words of a text that tell what it is about. Small words
// tell nothing, and "go", "come" or "take" only together with the word that
// follows: of "could you go back two meters" it gives "go back" and "meters".
func Content(text string) []string {
	var out []string
	w := strings.Fields(text)
	for i, x := range w {
		switch {
		case small(x):
		case light(x):
			if i+1 == len(w) {
				continue
			}
			next := w[i+1]
			if number(next) {
				next = "_"
			}
			out = append(out, x+" "+next)
		default:
			out = append(out, x)
		}
	}
	return out
}

// light tells whether a word may stand for nearly anything.
func light(w string) bool {
	return slices.Contains(strings.Fields("go come get take make do put set let have be keep give back"), w)
}

func number(w string) bool {
	_, err := strconv.ParseFloat(w, 64)
	return err == nil || w == "_"
}

// small tells whether a word is a number, or one that stands in every sentence.
func small(w string) bool {
	return number(w) || slices.Contains(fillers(), w) || slices.Contains(strings.Fields("a an the to of in on at by for with from it that this them me you your my i is are "+
		"can could would will want need away here there over along up down out off around too just again"), w)
}

// about tells whether a sentence has a word in it that the tool's phrases know,
// or a name that a call copies. "Here" is no name: "come over here" is about
// nothing.
func (k *KnownTool) about(h Heard, args map[string]any) bool {
	if len(k.Words) == 0 { // a file that tells no words
		return true
	}
	named := false
	for name, a := range args {
		s, ok := a.(string)
		if !ok || !k.Motion || slices.Contains(k.Tails, name) || slices.Contains(k.Values[name], `"`+s+`"`) || !strings.Contains(" "+h.Text+" ", " "+s+" ") {
			continue
		}
		empty := func(w string) bool { return small(w) || light(w) }
		if !slices.ContainsFunc(strings.Fields(s), func(w string) bool { return !empty(w) }) {
			return false
		}
		named = true
	}
	return named || slices.ContainsFunc(Content(h.Text), func(w string) bool { return slices.Contains(k.Words, w) })
}

// foreign tells whether most words are none that the model has ever read. The
// names and the texts that a call copies are not counted: they may be anything.
func (k *Known) foreign(h Heard, args map[string]any) bool {
	if len(k.Words) == 0 {
		return false
	}
	text := " " + h.Text + " "
	for _, a := range args {
		if s, ok := a.(string); ok {
			text = strings.Replace(text, " "+s+" ", " ", 1)
		}
	}
	words, unknown := strings.Fields(text), 0
	for _, w := range words {
		if !small(w) && !slices.Contains(k.Words, w) {
			unknown++
		}
	}
	return 2*unknown > len(words)
}
