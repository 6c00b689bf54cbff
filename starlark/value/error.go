package value

import (
	"fmt"
	"strings"

	"github.com/agext/levenshtein"
	"go.starlark.net/starlark"
)

// Error is what went wrong in the call of a builtin. Msg says what, Hint what
// to write instead, and Arg names the argument it is about, so that a printer
// that has the source can point at it.
type Error struct {
	Func string // the builtin as scripts name it, "bb.set"
	Arg  string // the argument, or empty
	Pos  int    // the argument's position counted from 1 when it was given by position
	Msg  string
	Hint string
	Err  error // what the builtin returned, or nil
}

func (e *Error) Error() string {
	s := e.Msg
	if e.Func != "" && !strings.HasPrefix(s, e.Func+":") {
		s = e.Func + ": " + s
	}
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

// Unwrap returns the error of the builtin itself.
func (e *Error) Unwrap() error { return e.Err }

// PanicError is a Go panic under a builtin, turned into an error so that the
// script that called it gets the blame with its backtrace.
type PanicError struct {
	Value any
	Stack []byte // the Go stack, for operators
}

func (e *PanicError) Error() string { return fmt.Sprintf("internal fault: %v", e.Value) }

// Nearest returns the candidate closest to name, or "" if none is close enough
// to be what was meant. Letter case and underscores weigh little.
func Nearest(name string, candidates []string) string {
	best, bestDist := "", min(1+(len(name)+2)/3, max(len(name), 1))
	plain := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "_", "")) }
	for _, c := range candidates {
		if c == name {
			continue
		}
		d := levenshtein.Distance(name, c, nil)
		if plain(name) == plain(c) {
			d = 1
		} else if p := levenshtein.Distance(plain(name), plain(c), nil) + 1; p < d {
			d = p
		}
		if len(name) > 2 && len(c) > 2 && (strings.HasPrefix(c, name) || strings.HasPrefix(name, c)) {
			d = min(d, 2) // drive for drive_to
		}
		if d < bestDist || d == bestDist && best != "" && c < best {
			best, bestDist = c, d
		}
	}
	return best
}

// describe says what kind of value v is, with its text if that is short.
func describe(v starlark.Value) string {
	switch v := v.(type) {
	case nil, starlark.NoneType:
		return "None"
	case starlark.String:
		if len(v) <= 40 {
			return "string " + v.String()
		}
		return fmt.Sprintf("string of %d bytes", len(v))
	case starlark.Bool, starlark.Float:
		return v.Type() + " " + v.String()
	case starlark.Int:
		if bits(v) < 64 {
			return "int " + v.String()
		}
	case starlark.Callable:
		return v.Type() + " " + v.Name()
	}
	return v.Type()
}
