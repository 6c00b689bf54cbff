package script_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"

	"edged/starlark/script"
)

// FuzzSource gives arbitrary text to everything that reads scripts: the parser
// with its habits, the checker, the loader and, on what goes wrong, the printer
// of errors. Nothing may panic, and every error has its parts in order.
func FuzzSource(f *testing.F) {
	if b, err := os.ReadFile("testdata/messages.txt"); err == nil {
		for _, part := range strings.Split(string(b), "\n----\n") {
			src, _, _ := strings.Cut(part, "\n=>\n")
			f.Add(src + "\n")
		}
	}
	for _, s := range []string{"", "\x00", "x = '\xff'", "\tx\r\n", "f(\"é\", tïmeot = 1)", "drive_to(" + strings.Repeat("x,", 300) + "timeot=1)", "load(\"\", \"\")", "a\n\n\n  b"} {
		f.Add(s)
	}
	e := script.New(script.Options{Limits: script.Limits{Steps: 2000}})
	f.Fuzz(func(t *testing.T, src string) {
		if len(src) > 1<<14 {
			return // the size of a file is bounded elsewhere
		}
		for _, w := range script.Lint("main.star", src, predeclared()) {
			check(t, src, w)
		}
		if strings.ContainsAny(src, "*%") {
			return // one operation may take all memory: that is what isolation is for
		}
		_, err := e.Load(context.Background(), script.Source{FS: fstest.MapFS{"main.star": {Data: []byte(src)}}, Predeclared: predeclared()})
		if err == nil {
			return
		}
		var list script.Errors
		var one *script.Error
		switch {
		case errors.As(err, &list):
			for _, e := range list {
				check(t, src, e)
			}
		case errors.As(err, &one):
			check(t, src, one)
		default:
			t.Fatalf("got %T %v, want an Error", err, err)
		}
	})
}

func check(t *testing.T, src string, e *script.Error) {
	text := e.Text()
	if e.Msg == "" || !strings.HasPrefix(text, e.Position.String()) && e.File != "" {
		t.Fatalf("got %q", text)
	}
	if e.Line < 0 || e.Line > strings.Count(src, "\n")+strings.Count(src, "\r")+2 {
		t.Fatalf("line %d of a source of %d", e.Line, strings.Count(src, "\n")+1)
	}
	if utf8.ValidString(src) && !utf8.ValidString(text) {
		t.Fatalf("not UTF-8: %q", text)
	}
	_ = e.Fields()
}
