package script

import (
	"context"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"edged/starlark/value"
)

// Shell evaluates what a person types, chunk by chunk, in one set of globals
// that stay changeable. It is for one goroutine.
type Shell struct {
	e       *Engine
	names   starlark.StringDict
	globals starlark.StringDict
}

// Shell makes a shell with the given names besides those of [Universe].
func (e *Engine) Shell(predeclared starlark.StringDict) *Shell {
	s := &Shell{e: e, names: names(predeclared), globals: starlark.StringDict{}}
	for k, v := range s.names {
		s.globals[k] = v
	}
	return s
}

// Names returns all names that can be typed.
func (s *Shell) Names() []string { return s.globals.Keys() }

// NeedsMore reports whether a text is the beginning of something: an open
// bracket, or a block without its body or the empty line that ends it.
func (s *Shell) NeedsMore(text string) bool {
	if strings.TrimSpace(text) == "" {
		return false
	}
	_, err := dialect().Parse("<shell>", text, 0)
	if err == nil {
		// A block goes on until an empty line.
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		last := lines[len(lines)-1]
		return len(lines) > 1 && strings.TrimSpace(last) != "" && (last[0] == ' ' || last[0] == '\t') ||
			len(lines) == 1 && strings.HasSuffix(strings.TrimSpace(last), ":")
	}
	se, ok := err.(syntax.Error)
	return ok && (strings.Contains(se.Msg, "end of file") || strings.Contains(se.Msg, "EOF")) && !strings.HasSuffix(text, "\n\n")
}

// Eval runs a chunk. If it is an expression its value is returned, else nil.
func (s *Shell) Eval(ctx context.Context, text string) (starlark.Value, error) {
	const name = "<shell>"
	text = lines(text)
	src := &source{name: name, text: text}
	s.e.sources.Store(name, src)
	var result starlark.Value
	run := func(t *starlark.Thread) error {
		if expr, err := dialect().ParseExpr(name, text, 0); err == nil {
			result, err = starlark.EvalExprOptions(dialect(), t, expr, s.globals)
			return err
		}
		f, err := dialect().Parse(name, text, 0)
		if err != nil {
			return src.explainStatic(err, s.names)
		}
		return starlark.ExecREPLChunk(f, t, s.globals)
	}
	var static error
	fn := starlark.NewBuiltin(toplevel, func(t *starlark.Thread, _ *starlark.Builtin, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
		err := run(t)
		if _, ok := err.(*starlark.EvalError); err != nil && !ok {
			static = err
		}
		return starlark.None, err
	})
	r := s.e.newRunner()
	t := r.thread
	value.SetRunner(t, r)
	if _, err := r.run(ctx, fn, nil, nil, s.e.limits); err != nil {
		if static != nil && r.killed == nil {
			if _, ok := static.(Errors); ok {
				return nil, static
			}
			return nil, src.explainStatic(static, s.names)
		}
		return nil, s.e.explain(ctx, fn, err, r.killed)
	}
	return result, nil
}
