package intent

import (
	"unicode/utf8"

	"edged/agent/llm/intent/fold"
)

// This file cuts texts and templates into words in one and the same way: a
// word is letters, a number, a symbol such as %, or one letter of a script
// without spaces. Everything else, hyphens too, only separates.

// A piece is one word of a text.
type piece struct {
	text       []byte // folded
	start, end int    // where it is in the text
	number     bool
	value      float64
	negative   bool // a minus sign stands before it
}

// isSymbol reports whether r is a word by itself that carries meaning.
func isSymbol(r rune) bool {
	switch r {
	case '%', '°', '+', '&', '€', '$', '£', '=', '#', '@', '*', '<', '>':
		return true
	}
	return false
}

// cut appends the words of text. The folded letters are kept in buf, which is
// returned too.
func cut(out []piece, buf []byte, text string) ([]piece, []byte) {
	if need := 4*len(text) + 16; cap(buf) < need {
		buf = make([]byte, 0, need) // never grown below, pieces point into it
	}
	buf = buf[:0]
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		f := fold.Rune(r)
		switch {
		case isDigit(f):
			var p piece
			p, i = cutNumber(text, i, &buf)
			out = append(out, p)
		case isSymbol(f) || fold.Own(f):
			at := len(buf)
			buf = utf8.AppendRune(buf, f)
			out = append(out, piece{text: buf[at:len(buf):len(buf)], start: i, end: i + n})
			i += n
		case f != 0 && fold.Letter(f):
			at, from := len(buf), i
			i = cutLetters(text, i, &buf)
			out = append(out, piece{text: buf[at:len(buf):len(buf)], start: from, end: i})
		default:
			i += n
		}
	}
	return out, buf
}

// cutLetters reads letters from text at i. An apostrophe belongs to the word
// and is left out ("what's" is "whats"), but ends an elided one ("l'eau").
func cutLetters(text string, i int, buf *[]byte) int {
	at := len(*buf)
	for i < len(text) {
		r, n := utf8.DecodeRuneInString(text[i:])
		f := fold.Rune(r)
		switch {
		case f == 0:
		case f == '\'':
			next, _ := utf8.DecodeRuneInString(text[i+n:])
			if g := fold.Rune(next); g == 0 || !fold.Letter(g) || elided((*buf)[at:]) {
				return i + n
			}
		case fold.Letter(f) && !fold.Own(f):
			*buf = utf8.AppendRune(*buf, f)
		default:
			return i
		}
		i += n
	}
	return i
}

// elided reports whether w before an apostrophe is a word of its own, as in
// French and Italian.
func elided(w []byte) bool {
	switch string(w) {
	case "l", "d", "j", "c", "s", "n", "m", "t", "qu", "un", "dell", "all", "nell", "sull", "dall", "coll", "quest":
		return true
	}
	return false
}

func isDigit(r rune) bool { return '0' <= r && r <= '9' }

// cutNumber reads "21", "2.5", "2,5" and "1,000" from text at i.
func cutNumber(text string, i int, buf *[]byte) (piece, int) {
	at, from := len(*buf), i
	digits := func() (v float64, count int) {
		for i < len(text) {
			r, n := utf8.DecodeRuneInString(text[i:])
			f := fold.Rune(r)
			if !isDigit(f) {
				break
			}
			*buf = append(*buf, byte(f))
			v, count, i = v*10+float64(f-'0'), count+1, i+n
		}
		return v, count
	}
	p := piece{start: from, number: true}
	p.value, _ = digits()
	for i+1 < len(text) && (text[i] == '.' || text[i] == ',') && isDigit(rune(text[i+1])) {
		comma := text[i] == ','
		i++
		mark := len(*buf)
		v, count := digits()
		if comma && count == 3 {
			p.value = p.value*1000 + v
			continue
		}
		for range count {
			v /= 10
		}
		p.value += v
		tail := append([]byte(nil), (*buf)[mark:]...)
		*buf = append(append((*buf)[:mark], '.'), tail...)
		break
	}
	if from > 0 {
		r, n := utf8.DecodeLastRuneInString(text[:from])
		p.negative = fold.Rune(r) == '-' && (from == n || text[from-n-1] == ' ')
	}
	p.text, p.end = (*buf)[at:len(*buf):len(*buf)], i
	return p, i
}
