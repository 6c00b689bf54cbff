package script

import (
	"strings"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// A Chunk is what a person typed at a prompt: an expression or statements.
type Chunk struct {
	name, text string
	names      starlark.StringDict
	program    *starlark.Program // nil for an expression
}

// Chunk reads what a person typed. name is what messages call it; its text is
// kept for them until [Engine.Forget]. names are all that it may use besides
// those of [Universe]. The error is Errors.
func (e *Engine) Chunk(name, text string, names starlark.StringDict) (*Chunk, error) {
	text = lines(text)
	src := &source{name: name, text: text}
	e.sources.Store(name, src)
	c := &Chunk{name: name, text: text, names: names}
	if expr, err := dialect().ParseExpr(name, text, 0); err == nil {
		if _, err := resolve.ExprOptions(dialect(), expr, names.Has, starlark.Universe.Has); err != nil {
			return nil, src.explainStatic(err, names)
		}
		return c, nil
	}
	f, err := dialect().Parse(name, text, 0)
	if err != nil {
		return nil, src.explainStatic(err, names)
	}
	if c.program, err = starlark.FileProgram(f, names.Has); err != nil {
		return nil, src.explainStatic(err, names)
	}
	return c, nil
}

// Forget drops the text of a chunk.
func (e *Engine) Forget(name string) { e.sources.Delete(name) }

// Run runs the chunk on a thread, once. It gives the value of an expression,
// else None, and what the statements defined, also if they failed half-way.
func (c *Chunk) Run(t *starlark.Thread) (v starlark.Value, defined starlark.StringDict, err error) {
	if c.program != nil {
		defined, err = c.program.Init(t, c.names)
		return starlark.None, defined, err
	}
	expr, err := dialect().ParseExpr(c.name, c.text, 0)
	if err != nil {
		return nil, nil, err
	}
	v, err = starlark.EvalExprOptions(dialect(), t, expr, c.names)
	return v, nil, err
}

// NeedsMore reports whether a text is the beginning of something: an open
// bracket, or a block without its body or the empty line that ends it.
func NeedsMore(text string) bool {
	if strings.TrimSpace(text) == "" {
		return false
	}
	f, err := dialect().Parse("", text, 0)
	if err != nil {
		se, ok := err.(syntax.Error)
		return ok && (strings.Contains(se.Msg, "end of file") || strings.Contains(se.Msg, "EOF")) && !strings.HasSuffix(text, "\n\n")
	}
	if len(f.Stmts) == 0 {
		return false // a comment
	}
	all := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(all) == 1 || strings.TrimSpace(all[len(all)-1]) == "" {
		return false
	}
	switch f.Stmts[len(f.Stmts)-1].(type) {
	case *syntax.DefStmt, *syntax.IfStmt, *syntax.ForStmt, *syntax.WhileStmt:
		return true // a block goes on until an empty line
	}
	return false
}
