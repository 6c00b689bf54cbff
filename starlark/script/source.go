package script

import (
	"strings"
	"unicode/utf8"

	"edged/starlark/value"
)

// source is the text of a script as it was loaded, kept for messages.
type source struct {
	name string // as messages show it
	text string
}

// lines makes every end of a line a newline. To the parser a carriage return
// alone ends one too, so all who count lines must read the same text.
func lines(text string) string {
	if !strings.Contains(text, "\r") {
		return text
	}
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
}

// source returns the latest text loaded under a name, nil if there is none.
func (e *Engine) source(name string) *source {
	s, ok := e.sources.Load(name)
	if !ok {
		return nil
	}
	return s.(*source)
}

// line returns a line, counted from 1, without its end.
func (s *source) line(n int) string {
	if s == nil || n <= 0 {
		return ""
	}
	rest := s.text
	for ; n > 1; n-- {
		i := strings.IndexByte(rest, '\n')
		if i < 0 {
			return ""
		}
		rest = rest[i+1:]
	}
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSuffix(line, "\r")
}

// offset is where a place is in the text, -1 if it is not in it.
func (s *source) offset(p Position) int {
	at := 0
	for n := p.Line; n > 1; n-- {
		i := strings.IndexByte(s.text[at:], '\n')
		if i < 0 {
			return -1
		}
		at += i + 1
	}
	for c := p.Col; c > 1; c-- {
		if at >= len(s.text) {
			return -1
		}
		_, n := utf8.DecodeRuneInString(s.text[at:])
		at += n
	}
	return at
}

// place is the inverse of offset.
func (s *source) place(at int) Position {
	before := s.text[:at]
	last := strings.LastIndexByte(before, '\n') + 1
	return Position{s.name, strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[last:]) + 1}
}

// argument finds the argument an error is about. The place of a call is its
// opening parenthesis; the text after it is read as far as the closing one.
func (s *source) argument(call Position, e *value.Error) (Position, bool) {
	if s == nil || e.Arg == "" && e.Pos == 0 {
		return call, false
	}
	at := s.offset(call)
	if at < 0 || at >= len(s.text) {
		return call, false
	}
	if s.text[at] == '.' { // an attribute: its name
		return s.place(skipSpace(s.text, at+1)), true
	}
	if s.text[at] != '(' {
		return call, false
	}
	depth, n := 1, 1
	start := skipSpace(s.text, at+1)
	for i := at + 1; i < len(s.text); {
		if depth == 1 && i == start && matches(s.text[i:], n, e) {
			return s.place(i), true
		}
		switch c := s.text[i]; c {
		case '"', '\'':
			i = skipString(s.text, i)
			continue
		case '#':
			for i < len(s.text) && s.text[i] != '\n' {
				i++
			}
			continue
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			if depth--; depth == 0 {
				return call, false
			}
		case ',':
			if depth == 1 {
				n++
				start = skipSpace(s.text, i+1)
			}
		}
		i++
	}
	return call, false
}

// matches reports whether the argument that starts the text is the one the
// error is about; n is its number in the call, from 1.
func matches(text string, n int, e *value.Error) bool {
	if e.Pos > 0 {
		return n == e.Pos
	}
	rest, ok := strings.CutPrefix(text, e.Arg)
	if !ok {
		return false
	}
	rest = strings.TrimLeft(rest, " \t")
	return strings.HasPrefix(rest, "=") && !strings.HasPrefix(rest, "==")
}

// skipSpace returns where the next thing that is not space or comment begins.
func skipSpace(s string, at int) int {
	for at < len(s) {
		switch s[at] {
		case ' ', '\t', '\n', '\r', '\\':
			at++
		case '#':
			for at < len(s) && s[at] != '\n' {
				at++
			}
		default:
			return at
		}
	}
	return at
}

// skipString returns where the string literal that begins at a quote ends.
func skipString(s string, at int) int {
	q := s[at]
	triple := strings.Repeat(string(q), 3)
	if strings.HasPrefix(s[at:], triple) {
		for i := at + 3; i < len(s); i++ {
			if s[i] == '\\' {
				i++
			} else if strings.HasPrefix(s[i:], triple) {
				return i + 3
			}
		}
		return len(s)
	}
	for i := at + 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case q:
			return i + 1
		case '\n':
			return i
		}
	}
	return len(s)
}

// mask returns the text with the insides of strings and comments blanked, so
// that what is left is code, byte for byte in its place.
func mask(s string) string {
	b := []byte(s)
	blank := func(from, to int) {
		for i := from; i < to; i++ {
			if b[i] != '\n' {
				b[i] = ' '
			}
		}
	}
	for i := 0; i < len(s); {
		switch s[i] {
		case '#':
			end := i
			for end < len(s) && s[end] != '\n' {
				end++
			}
			blank(i, end)
			i = end
		case '"', '\'':
			end := skipString(s, i)
			if end-i >= 2 {
				blank(i+1, end-1)
			}
			i = max(end, i+1)
		default:
			i++
		}
	}
	return string(b)
}
