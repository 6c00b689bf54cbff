package recall

import (
	"slices"
	"strings"
	"unicode"
)

// word is a word of a text in the form in which it is compared.
type word struct {
	text   string
	grams  []uint64 // three letters each, with the word's ends, sorted
	weight float64  // how much it says what a text is about: 0.1 to 1
}

// words splits a text into words, in lower case, names of tools too.
func words(s string) []word {
	var out []word
	for _, w := range strings.FieldsFunc(spaced(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		w = strings.ToLower(w)
		out = append(out, word{w, grams(w), weight(w)})
	}
	return out
}

// spaced parts namesLikeThis.
func spaced(s string) string {
	var b strings.Builder
	last := ' '
	for _, r := range s {
		if r == '\'' || r == '’' { // don't is one word
			continue
		}
		if unicode.IsUpper(r) && unicode.IsLower(last) {
			b.WriteByte(' ')
		}
		b.WriteRune(r)
		last = r
	}
	return b.String()
}

func grams(w string) []uint64 {
	r := []rune("^" + w + "$")
	out := make([]uint64, 0, len(r))
	for i := 0; i+3 <= len(r); i++ {
		out = append(out, uint64(r[i])<<42|uint64(r[i+1])<<21|uint64(r[i+2]))
	}
	slices.Sort(out)
	return out
}

// weight is small for words that say nothing of what is wanted, and for
// numbers, which are values.
func weight(w string) float64 {
	if r := []rune(w)[0]; unicode.IsDigit(r) {
		return 0.3
	}
	switch w {
	case "a", "an", "the", "this", "that", "these", "those", "it", "its", "is", "are", "was", "be", "been", "am", "do", "does", "did", "to", "of", "in", "on",
		"at", "for", "with", "from", "by", "into", "as", "and", "or", "but", "if", "so", "i", "me", "my", "you", "your", "we", "us", "our", "he", "she", "they",
		"them", "can", "could", "would", "will", "shall", "should", "may", "might", "must", "please", "just", "now", "there", "here", "some", "any", "one",
		"what", "whats", "who", "which", "when", "where", "why", "how", "have", "has", "had", "not", "no", "yes", "ok", "hey", "um", "uh", "well", "then", "too":
		return 0.1
	case "go", "come", "get", "make", "take", "turn", "set", "put", "let", "give", "tell", "want", "need", "like", "off", "up", "down", "out", "back", "over":
		return 0.4
	}
	return 1
}

// alike compares two words: 1 for the same, less for one with another ending
// or a slip, 0 for others.
func alike(a, b *word) float64 {
	if a.text == b.text {
		return 1
	}
	if len(a.text) < 3 || len(b.text) < 3 {
		return 0
	}
	short, long := a.text, b.text
	if len(short) > len(long) {
		short, long = long, short
	}
	if len(short) >= 3 && strings.HasPrefix(long, short) && len(long)-len(short) <= 3 {
		return 0.9 // lamp, lamps; clean, cleaning
	}
	both, i, j := 0, 0, 0
	for i < len(a.grams) && j < len(b.grams) {
		switch x, y := a.grams[i], b.grams[j]; {
		case x == y:
			both++
			i++
			j++
		case x < y:
			i++
		default:
			j++
		}
	}
	if d := 2 * float64(both) / float64(len(a.grams)+len(b.grams)); d >= 0.5 {
		return 0.9 * d
	}
	return 0
}

// covered is how much of a text's meaning another one has: for each word its
// likest in the other, by weight.
func covered(a, b []word, weigh func(*word) float64) float64 {
	var sum, got float64
	for i := range a {
		w := weigh(&a[i])
		best := 0.0
		for j := range b {
			if best = max(best, alike(&a[i], &b[j])); best == 1 {
				break
			}
		}
		sum += w
		got += w * best
	}
	if sum == 0 {
		return 0
	}
	return got / sum
}

// likeness of a query and a text, 0 to 1. That the text has what the query
// asks for counts more than that it has more.
func likeness(query, text []word, weigh func(*word) float64) float64 {
	if len(query) == 0 || len(text) == 0 {
		return 0
	}
	return 0.7*covered(query, text, weigh) + 0.3*covered(text, query, weigh)
}
