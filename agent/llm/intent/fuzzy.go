package intent

import (
	"strings"
	"unicode/utf8"
)

// This file bends sentences a little, for what recognisers get wrong: a word
// that sounds or is spelt nearly the same, a lost "the", an "um". It never
// bends a word that can turn a sentence around, never guesses the verb's form,
// and never leaves out a word it does not know.

// guess prepares what each piece may have been; false: no guess can help.
func (s *search) guess() bool {
	for len(s.others) < len(s.pieces) {
		s.others = append(s.others, nil)
	}
	s.free = s.free[:0]
	lang := s.m.lang
	for i := range s.pieces {
		p := &s.pieces[i]
		s.others[i] = s.others[i][:0]
		w := string(p.text)
		s.free = append(s.free, lang.filler[w])
		if lang.block[w] || p.number {
			continue
		}
		for _, like := range lang.like[w] {
			if id, ok := s.m.vocab[like]; ok {
				s.others[i] = append(s.others[i], id)
			}
		}
		if s.ids[i] < 0 {
			s.others[i] = s.neighbours(s.others[i], w)
		}
	}
	return true
}

// neighbours appends the words of the vocabulary that w may be a misspelling
// of: same first letter, one letter different, two in long words.
func (s *search) neighbours(out []int32, w string) []int32 {
	n := utf8.RuneCountInString(w)
	if n < 5 || n > 40 {
		return out
	}
	limit := 1
	if n >= 8 {
		limit = 2
	}
	var ab, bb [48]rune
	a := runes(ab[:0], w)
	for d := -limit; d <= limit; d++ {
		for _, id := range s.m.near[nearKey{a[0], int32(n + d)}] {
			to := s.m.words[id].text
			if distance(a, runes(bb[:0], to), limit+1) <= limit && !inflected(w, to) {
				out = append(out, id)
			}
		}
	}
	return out
}

func runes(out []rune, w string) []rune {
	for _, r := range w {
		out = append(out, r)
	}
	return out
}

// inflected reports whether w is to in the past or the one who does it: a
// tale, not a command.
func inflected(w, to string) bool {
	end, ok := strings.CutPrefix(w, to)
	return ok && (end == "d" || end == "ed" || end == "r" || end == "er" || end == "ly")
}

// mayBe reports whether a guess is allowed in a place: the first word of a
// sentence, its verb, does not lose or gain an s ("the robot turns").
func (s *search) mayBe(st *state, pos int, id int32) bool {
	if st != &s.m.states[s.m.root] {
		return true
	}
	w, to := string(s.pieces[pos].text), s.m.words[id].text
	return !(w == to+"s" || w == to+"es" || to == w+"s")
}

// bend tries what may be missing or too much here.
func (s *search) bend(at int32, st *state, pos int, cost float32, literal, wild int32) bool {
	ok := false
	if cost+costLost <= s.budget {
		for _, e := range st.drops {
			ok = s.from(e.to, pos, cost+costLost, literal, wild) || ok
		}
	}
	if pos == len(s.pieces) || cost+costFiller > s.budget {
		return ok
	}
	if s.free[pos] {
		ok = s.from(at, pos+1, cost+costFiller, literal, wild) || ok
	}
	if at != s.m.root {
		return ok
	}
	for _, phrase := range s.m.lang.polite {
		n := 0
		for n < len(phrase) && pos+n < len(s.pieces) && string(s.pieces[pos+n].text) == phrase[n] {
			n++
		}
		if n == len(phrase) {
			ok = s.from(at, pos+n, cost+costFiller, literal, wild) || ok
		}
	}
	return ok
}

// score is how sure the best match is.
func (s *search) score() float64 {
	return 1 - float64(s.cost)/float64(len(s.pieces)+1)
}

// distance is the number of letters to add, drop, change or swap between two
// words, at most limit.
func distance(a, b []rune, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit || len(b) > 47 {
		return limit
	}
	var rows [3][48]int
	before, last, row := &rows[0], &rows[1], &rows[2]
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := range a {
		row[0] = i + 1
		least := row[0]
		for j := range b {
			d := last[j]
			if a[i] != b[j] {
				d++
			}
			d = min(d, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				d = min(d, before[j-1]+1)
			}
			row[j+1] = d
			least = min(least, d)
		}
		if least >= limit {
			return limit
		}
		before, last, row = last, row, before
	}
	return min(last[len(b)], limit)
}
