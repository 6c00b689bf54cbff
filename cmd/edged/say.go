package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"edged/background"
	"edged/cmd/edged/internal/control"
	"edged/starlark/value"
)

// How things are said to people.

// print writes facts: as one JSON value with --json, else by the given
// function.
func (c *cli) print(v any, plain func(w io.Writer)) error {
	if !c.json {
		plain(c.out)
		return nil
	}
	e := json.NewEncoder(c.out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// text is an error as people read it: the long form of a script's error, with
// the line of code, else one line.
func text(err error) string {
	var long interface{ Text() string }
	var asked *control.Error
	var gaveUp *background.GaveUpError
	switch {
	case errors.As(err, &gaveUp) && errors.As(err, &long):
		return "edged: " + err.Error() + "\n" + long.Text()
	case errors.As(err, &long):
		return long.Text()
	case errors.As(err, &asked) && asked.Text != "":
		return asked.Text
	}
	return "edged: " + err.Error()
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func compact(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// perhaps is the end of a message about a name that nothing has.
func perhaps(name string, known []string) string {
	if n := value.Nearest(name, known); n != "" {
		return fmt.Sprintf("; did you mean %q?", n)
	}
	return ""
}

// fill breaks text into lines of at most so many characters.
func fill(text string, width int) string {
	var b strings.Builder
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			b.WriteByte('\n')
		}
		n := 0
		for j, word := range strings.Fields(line) {
			size := len([]rune(word))
			switch {
			case j == 0:
			case n+1+size > width:
				b.WriteByte('\n')
				n = 0
			default:
				b.WriteByte(' ')
				n++
			}
			b.WriteString(word)
			n += size
		}
	}
	return b.String()
}
