package society

import (
	"strings"
	"unicode"
)

// Reasons of a judge go back to those who compete when nobody was picked, and
// the judge has read all that is sealed. So each of them gets the reasons
// without the words of others: a word that is in somebody else's submission is
// left out, unless the task, the criteria or its own submission has it, too.
// What a judge says in words of its own can't be told from what it may say.

// leftOut stands for words that are not for who reads.
const leftOut = "…"

// reasonsFor gives the judge's reasons as a member may read them.
func (r *run) reasonsFor(who string) string {
	known, foreign := words{}, words{}
	known.add(r.task.Text())
	if j, ok := plain(resolverOf(r.rel)).(JudgePicks); ok {
		known.add(strings.Join(j.Criteria, " "))
	}
	for _, s := range r.judged {
		if s.Agent == who {
			known.add(render(s.Output))
			continue
		}
		foreign.add(render(s.Output))
		foreign[strings.ToLower(s.Label)] = true
	}
	var b strings.Builder
	text := []rune(r.reasons)
	skipped := false
	for i := 0; i < len(text); {
		end := wordEnd(text, i)
		if end == i { // between words
			end++
			if !skipped || !unicode.IsSpace(text[i]) || end < len(text) && !foreign.tells(word(text, end), known) {
				b.WriteRune(text[i])
			}
		} else if foreign.tells(string(text[i:end]), known) {
			if !skipped {
				b.WriteString(leftOut)
			}
			skipped = true
		} else {
			b.WriteString(string(text[i:end]))
			skipped = false
		}
		i = end
	}
	return strings.TrimSpace(b.String())
}

// words are those of texts, in lower case: compound ones, and their parts.
type words map[string]bool

func (w words) add(s string) {
	text := []rune(s)
	for i := 0; i < len(text); {
		end := wordEnd(text, i)
		if end > i {
			one := strings.ToLower(string(text[i:end]))
			w[one] = true
			for _, part := range parts(one) {
				w[part] = true
			}
		}
		i = max(end, i+1)
	}
}

// longWord is how long a word is that is told by a piece of it, too.
const longWord = 4

// tells reports whether a word is one of these, a piece of one or around one,
// and not known anyway.
func (w words) tells(one string, known words) bool {
	one = strings.ToLower(one)
	if w[one] {
		return !known[one]
	}
	for _, part := range parts(one) {
		if w[part] && !known[part] {
			return true
		}
	}
	if known[one] || len(one) < longWord {
		return false
	}
	for other := range w {
		if len(other) >= longWord && !known[other] && (strings.Contains(other, one) || strings.Contains(one, other)) {
			return true
		}
	}
	return false
}

// parts are the pieces of a compound word; of a plain one there are none.
func parts(one string) []string {
	if list := strings.FieldsFunc(one, joins); len(list) > 1 {
		return list
	}
	return nil
}

func joins(c rune) bool { return strings.ContainsRune("-_.:/@+", c) }

func letter(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) || unicode.IsMark(c) }

// wordEnd is where the word ends that begins at i; i if none does.
func wordEnd(text []rune, i int) int {
	for i < len(text) {
		switch {
		case letter(text[i]):
			i++
		case joins(text[i]) && i > 0 && letter(text[i-1]) && i+1 < len(text) && letter(text[i+1]):
			i++
		default:
			return i
		}
	}
	return i
}

// word is the one that begins at i; "" if none does.
func word(text []rune, i int) string { return string(text[i:wordEnd(text, i)]) }
