package script

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"edged/starlark/value"
)

// Error is what went wrong in a script, with everything an author needs: the
// place, the line of code with a mark under it, what to write instead and who
// called. Error() is one line; [Error.Text] is all of it.
type Error struct {
	Position
	Code   string // the line of code, or empty
	Msg    string
	Hint   string   // what to write instead, or empty
	Rule   string   // for warnings of the checker, the rule's name
	Frames []Frame  // script functions, innermost first
	Roles  []string // what the outermost function is to whom, then the circumstances: see WithRole
	Err    error    // the cause
}

// Frame is a script function that was running.
type Frame struct {
	Name string
	Position
}

func (e *Error) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.Position.String() + ": ")
	}
	b.WriteString(e.Msg)
	if e.Hint != "" {
		b.WriteString(" (" + e.Hint + ")")
	}
	return b.String()
}

// Unwrap returns the cause: a *[LimitError], a context's error, the error of a
// builtin.
func (e *Error) Unwrap() error { return e.Err }

// Text is the error as it is shown to people, several lines without a newline
// at the end.
func (e *Error) Text() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.Position.String() + ": ")
	}
	b.WriteString(e.Msg)
	if e.Rule != "" {
		b.WriteString(" [" + e.Rule + "]")
	}
	if code, mark := e.excerpt(); code != "" {
		fmt.Fprintf(&b, "\n    %s\n    %s^", code, strings.Repeat(" ", mark))
		if e.Hint != "" {
			b.WriteString(" " + e.Hint)
		}
	} else if e.Hint != "" {
		b.WriteString("\n  " + e.Hint)
	}
	for _, line := range e.backtrace() {
		b.WriteString("\n  " + line)
	}
	return b.String()
}

// excerpt is the line of code without its indentation, and the column of the
// mark in it, from 0. Long lines are cut around the mark.
func (e *Error) excerpt() (code string, mark int) {
	runes := []rune(strings.ReplaceAll(strings.TrimRight(e.Code, " \t\r\n"), "\t", " "))
	indent := 0
	for indent < len(runes) && runes[indent] == ' ' {
		indent++
	}
	mark = min(max(e.Col-1-indent, 0), len(runes)-indent)
	runes = runes[indent:]
	for i, r := range runes {
		if r < ' ' || r == 0x7f {
			runes[i] = '?'
		}
	}
	const width = 120
	if len(runes) > width {
		from := min(max(mark-width/2, 0), len(runes)-width)
		cut := append([]rune("…"), runes[from:from+width]...)
		if from == 0 {
			cut = cut[1:]
		} else {
			mark++
		}
		if from+width < len(runes) {
			cut = append(cut, '…')
		}
		runes, mark = cut, mark-from
	}
	return string(runes), mark
}

// backtrace is one line for each script function that was running, the
// innermost first, with the roles after the outermost.
func (e *Error) backtrace() []string {
	var lines []string
	frames := e.Frames
	for i := 0; i < len(frames); i++ {
		f := frames[i]
		line := "called from " + f.Name
		switch {
		case f.Name == toplevel && i == 0:
			continue
		case f.Name == toplevel:
			line = "called from " + f.Position.String()
		case i > 0:
			line += " at " + f.Position.String()
		}
		same := 1
		for i > 0 && i+1 < len(frames) && frames[i+1] == f {
			i++
			same++
		}
		if same > 1 {
			line += fmt.Sprintf(", %d times", same)
		}
		lines = append(lines, line)
	}
	const most = 20
	if n := len(lines); n > most {
		left := fmt.Sprintf("… %d more …", n-most)
		lines = append(append(lines[:most/2:most/2], left), lines[n-most/2:]...)
	}
	if len(e.Roles) > 0 {
		roles := strings.Join(e.Roles[1:], ", ")
		if roles != "" {
			roles = ", " + roles
		}
		if n := len(lines); n > 0 {
			lines[n-1] += " (" + e.Roles[0] + ")" + roles
		} else {
			lines = append(lines, "called from "+e.Roles[0]+roles)
		}
	}
	return lines
}

const toplevel = "<toplevel>"

// Fields are the parts of the error for an event: script, line, message, hint
// and backtrace.
func (e *Error) Fields() map[string]any {
	m := map[string]any{"message": e.Msg}
	if e.File != "" {
		m["script"] = e.File
		m["line"] = int64(e.Line)
		m["column"] = int64(e.Col)
	}
	if e.Code != "" {
		m["code"] = strings.TrimSpace(e.Code)
	}
	if e.Hint != "" {
		m["hint"] = e.Hint
	}
	if e.Rule != "" {
		m["rule"] = e.Rule
	}
	if bt := e.backtrace(); len(bt) > 0 {
		list := make([]any, len(bt))
		for i, s := range bt {
			list[i] = s
		}
		m["backtrace"] = list
	}
	return m
}

// Errors are several errors of one load or check, in the order of the files.
type Errors []*Error

func (es Errors) Error() string {
	if len(es) == 1 {
		return es[0].Error()
	}
	return fmt.Sprintf("%s (and %d more)", es[0].Error(), len(es)-1)
}

// Text is all errors as they are shown to people.
func (es Errors) Text() string {
	parts := make([]string, len(es))
	for i, e := range es {
		parts[i] = e.Text()
	}
	return strings.Join(parts, "\n")
}

// Unwrap returns the single errors.
func (es Errors) Unwrap() []error {
	out := make([]error, len(es))
	for i, e := range es {
		out[i] = e
	}
	return out
}

// Fields are those of the first error.
func (es Errors) Fields() map[string]any { return es[0].Fields() }

// LimitError says which limit ended a call.
type LimitError struct {
	Limit string // "steps", "time", "depth", "memory", "cancelled"
	Steps uint64
	Time  time.Duration
	Depth int
	Heap  uint64
	cause error // of a cancelled call
}

func (e *LimitError) Error() string {
	switch e.Limit {
	case "steps":
		return fmt.Sprintf("step limit: more than %d steps", e.Steps)
	case "time":
		return fmt.Sprintf("time limit: computed for more than %v", e.Time)
	case "depth":
		return fmt.Sprintf("depth limit: calls nested more than %d deep", e.Depth)
	case "memory":
		return fmt.Sprintf("memory limit: grew by more than %d MiB", e.Heap>>20)
	}
	if e.cause != nil && !errors.Is(e.cause, context.Canceled) {
		return "cancelled: " + e.cause.Error()
	}
	return "cancelled"
}

// Unwrap returns the cause of a cancelled call.
func (e *LimitError) Unwrap() error { return e.cause }

type roleKey struct{}

type roles struct {
	role string
	next *roles
}

// WithRole says in what role scripts are called with ctx: `tool of agent
// "planner"`. Errors end with it; roles given further out follow, as in
// `called from go_to (tool of agent "planner"), round 2 of society "guard"`.
func WithRole(ctx context.Context, role string) context.Context {
	outer, _ := ctx.Value(roleKey{}).(*roles)
	return context.WithValue(ctx, roleKey{}, &roles{role, outer})
}

func rolesOf(ctx context.Context) []string {
	var out []string
	for r, _ := ctx.Value(roleKey{}).(*roles); r != nil; r = r.next {
		out = append(out, r.role)
	}
	return out
}

// explain makes the *Error of a failed call.
func (e *Engine) explain(ctx context.Context, fn starlark.Value, err error, killed *LimitError) error {
	out := &Error{Roles: rolesOf(ctx), Err: err}
	if eval, ok := err.(*starlark.EvalError); ok {
		out.Msg = eval.Msg
		out.Frames = frames(eval)
	}
	if out.Msg == "" && err != nil {
		out.Msg = err.Error()
	}
	if len(out.Frames) == 0 {
		if f, ok := fn.(*starlark.Function); ok {
			p := f.Position()
			out.Frames = []Frame{{f.Name(), Position{p.Filename(), int(p.Line), int(p.Col)}}}
		}
	}
	if len(out.Frames) > 0 {
		out.Position = out.Frames[0].Position
	}
	if inner, ok := errors.AsType[Errors](err); ok && killed == nil {
		return inner // a file below does not parse: who loads it does not matter
	}
	src := e.source(out.File)
	if inner, ok := errors.AsType[*Error](err); ok && killed == nil {
		// An error of another call below: a load, or a call through the runtime.
		out.Err = inner
		out.Msg = inner.Msg
		if inner.File != "" {
			out.Position, out.Code, out.Hint = inner.Position, inner.Code, inner.Hint
			out.Frames = append(append([]Frame{}, inner.Frames...), out.Frames...)
		}
		return out
	}
	switch ve, ok := value.AsError(err); {
	case killed != nil:
		out.Msg, out.Err = killed.Error(), killed
		out.Hint = limitHint(killed)
	case ok:
		plain := *ve
		plain.Hint = ""
		out.Msg, out.Hint = plain.Error(), ve.Hint
		if p, ok := src.argument(out.Position, ve); ok {
			out.Position = p
		}
	}
	out.Code = src.line(out.Line)
	if out.Hint == "" {
		out.Msg, out.Hint = hint(out.Msg)
	}
	return out
}

// frames are the script functions of the stack, innermost first. A function
// that was given wrong arguments never ran: the blame is the caller's.
func frames(err *starlark.EvalError) []Frame {
	stack := err.CallStack
	if n := len(stack); n > 1 && strings.HasPrefix(err.Msg, "function "+stack[n-1].Name+" ") {
		stack = stack[:n-1]
	}
	var out []Frame
	for i := len(stack) - 1; i >= 0; i-- {
		p := stack[i].Pos
		if p.Filename() == "<builtin>" {
			continue
		}
		out = append(out, Frame{stack[i].Name, Position{p.Filename(), int(p.Line), int(p.Col)}})
	}
	return out
}

// explainStatic makes the *Error or Errors of a file that does not parse or
// resolve. names are those a script has without defining them.
func (s *source) explainStatic(err error, names starlark.StringDict) Errors {
	var out Errors
	one := func(p syntax.Position, msg string) {
		e := &Error{Position: Position{s.name, int(p.Line), int(p.Col)}, Msg: msg, Err: err}
		e.Code = s.line(e.Line)
		out = append(out, e)
	}
	switch err := err.(type) {
	case syntax.Error:
		one(err.Pos, err.Msg)
		out[0].Msg, out[0].Hint = hint(out[0].Msg)
	case resolve.ErrorList:
		for _, r := range err {
			one(r.Pos, r.Msg)
			last := out[len(out)-1]
			last.Msg, last.Hint = hint(last.Msg)
			if name, ok := strings.CutPrefix(last.Msg, "undefined: "); ok && last.Hint == "" {
				last.Hint = nearName(name, names)
			}
		}
		return out
	default:
		one(syntax.Position{}, err.Error())
	}
	if h := s.habit(out[0].Position); h != nil {
		h.Err = err
		out[0] = h
	}
	return out
}

func nearName(name string, names starlark.StringDict) string {
	near := value.Nearest(name, append(names.Keys(), starlark.Universe.Keys()...))
	if near == "" {
		return ""
	}
	return fmt.Sprintf("did you mean %q?", near)
}
