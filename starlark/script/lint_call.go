package script

import (
	"fmt"
	"slices"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"edged/starlark/value"
)

// Calls that can be checked without running: of builtins, by their argument
// tables, and of functions of the same file, by their parameters.

// expr goes through an expression.
func (l *linter) expr(x syntax.Expr) {
	if x == nil {
		return
	}
	syntax.Walk(x, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Ident:
			l.use(n).read = true
		case *syntax.CallExpr:
			l.call(n)
		case *syntax.DotExpr:
			l.dot(n)
			l.expr(n.X)
			return false // the name after the dot is no variable
		case *syntax.DictExpr:
			l.dict(n)
		case *syntax.LambdaExpr:
			l.params(n.Params)
			l.expr(n.Body)
			return false
		case *syntax.Comprehension:
			l.comprehension(n)
			return false
		case *syntax.BinaryExpr:
			switch n.Op {
			case syntax.EQ: // a keyword argument: the name is no variable
				l.expr(n.Y)
				return false
			case syntax.AND, syntax.OR:
				l.condition(n.X)
			}
		case *syntax.UnaryExpr:
			if n.Op == syntax.NOT {
				l.condition(n.X)
			}
		case *syntax.CondExpr:
			l.condition(n.Cond)
		}
		return true
	})
}

// condition warns of a function whose result was meant. Parts of and, or and
// not are conditions of their own, but for the last.
func (l *linter) condition(x syntax.Expr) {
	switch x := x.(type) {
	case *syntax.ParenExpr:
		l.condition(x.X)
		return
	case *syntax.BinaryExpr:
		if x.Op == syntax.AND || x.Op == syntax.OR {
			l.condition(x.Y)
		}
		return
	case *syntax.LambdaExpr:
		l.warn(x.Lambda, "always-true", "a condition is not called: write what it shall be", "a lambda is always true")
		return
	}
	if l.isFunction(x) {
		l.warn(syntax.Start(x), "always-true", "to call it, write ()", "%s is a function, and always true", named(x))
	}
}

func named(x syntax.Expr) string {
	switch x := x.(type) {
	case *syntax.Ident:
		return x.Name
	case *syntax.DotExpr:
		return named(x.X) + "." + x.Name.Name
	}
	return "this"
}

// isFunction reports whether a name is known to be one of a function.
func (l *linter) isFunction(x syntax.Expr) bool {
	if _, ok := l.predeclared(x).(starlark.Callable); ok {
		return true
	}
	id, ok := x.(*syntax.Ident)
	if !ok {
		return false
	}
	b, ok := id.Binding.(*resolve.Binding)
	switch {
	case !ok:
		return false
	case b.Scope == resolve.Universal:
		_, ok = starlark.Universe[id.Name].(starlark.Callable)
		return ok
	}
	u := l.use(id)
	return u.plain == 0 && (u.function || b.Scope == resolve.Global && u.assigned == 1 && l.defs[id.Name] != nil)
}

func (l *linter) comprehension(c *syntax.Comprehension) {
	for _, clause := range c.Clauses {
		switch clause := clause.(type) {
		case *syntax.ForClause:
			l.expr(clause.X)
			l.target(clause.Vars)
		case *syntax.IfClause:
			l.condition(clause.Cond)
			l.expr(clause.Cond)
		}
	}
	if e, ok := c.Body.(*syntax.DictEntry); ok {
		l.expr(e.Key)
		l.expr(e.Value)
		return
	}
	l.expr(c.Body)
}

func (l *linter) dict(d *syntax.DictExpr) {
	seen := make(map[any]bool)
	for _, e := range d.List {
		lit, ok := e.(*syntax.DictEntry).Key.(*syntax.Literal)
		if !ok {
			continue
		}
		switch lit.Value.(type) {
		case string, int64:
			if seen[lit.Value] {
				l.warn(lit.TokenPos, "duplicate-key", "", "the key %s is there twice", lit.Raw)
			}
			seen[lit.Value] = true
		}
	}
}

// predeclared returns the value a name stands for, if it is not the script's.
func (l *linter) predeclared(x syntax.Expr) starlark.Value {
	switch x := x.(type) {
	case *syntax.Ident:
		if b, ok := x.Binding.(*resolve.Binding); ok && b.Scope == resolve.Predeclared {
			return l.names[x.Name]
		}
	case *syntax.DotExpr:
		if m, ok := l.predeclared(x.X).(*value.Module); ok {
			v, _ := m.Attr(x.Name.Name)
			return v
		}
	}
	return nil
}

func (l *linter) dot(d *syntax.DotExpr) {
	m, ok := l.predeclared(d.X).(*value.Module)
	if !ok {
		return
	}
	if _, err := m.Attr(d.Name.Name); err != nil {
		e, _ := value.AsError(err)
		l.warn(d.Name.NamePos, "unknown-attribute", e.Hint, "%s: %s", e.Func, e.Msg)
	}
}

// mutators are methods of lists, dicts and sets that change them.
func mutates(method string) bool {
	switch method {
	case "append", "extend", "insert", "pop", "remove", "clear", "update", "setdefault", "popitem", "add", "discard":
		return true
	}
	return false
}

func (l *linter) call(c *syntax.CallExpr) {
	if d, ok := c.Fn.(*syntax.DotExpr); ok && mutates(d.Name.Name) && l.predeclared(d.X) == nil {
		l.changes(d.X, d.Name.NamePos)
	}
	if b, ok := l.predeclared(c.Fn).(*value.Builtin); ok {
		if b.Table().Name == "assert.true" && len(c.Args) > 0 {
			l.condition(c.Args[0])
		}
		l.builtin(c, b.Table())
		return
	}
	if id, ok := c.Fn.(*syntax.Ident); ok {
		b, ok := id.Binding.(*resolve.Binding)
		if d := l.defs[id.Name]; ok && b.Scope == resolve.Global && d != nil && l.use(id).plain == 0 {
			l.function(c, d)
		}
	}
}

// arguments are those of a call, as far as they are written out.
type arguments struct {
	positional []syntax.Expr
	named      []*syntax.BinaryExpr
	open       bool // there is a *args or **kwargs: more may come
}

func split(c *syntax.CallExpr) arguments {
	var a arguments
	for _, x := range c.Args {
		switch y := x.(type) {
		case *syntax.BinaryExpr:
			if y.Op == syntax.EQ {
				a.named = append(a.named, y)
				continue
			}
		case *syntax.UnaryExpr:
			if y.Op == syntax.STAR || y.Op == syntax.STARSTAR {
				a.open = true
				continue
			}
		}
		a.positional = append(a.positional, x)
	}
	return a
}

// skips is 1 where the first row is left out in front of others: the first
// argument is written out and none of it, or all rows are given without it.
func (a *arguments) skips(f *value.Func) int {
	if len(a.positional) == 0 || len(f.Params) == 0 || !f.Params[0].Skip {
		return 0
	}
	if v := constant(a.positional[0]); v != nil {
		_, err := f.Params[0].Type.Check(v)
		return map[bool]int{true: 1}[err != nil]
	}
	rows := 0
	for i := range f.Params {
		p := &f.Params[i]
		byName := slices.ContainsFunc(a.named, func(kv *syntax.BinaryExpr) bool { return kv.X.(*syntax.Ident).Name == p.Name })
		if p.Positional && !byName {
			rows++
		}
	}
	return map[bool]int{true: 1}[len(a.positional) == rows-1]
}

func (l *linter) builtin(c *syntax.CallExpr, f *value.Func) {
	a := split(c)
	given := make(map[string]bool)
	skip := a.skips(f)
	for i, x := range a.positional {
		switch i += skip; {
		case i < len(f.Params) && f.Params[i].Positional:
			given[f.Params[i].Name] = true
			l.argument(f, &f.Params[i], x)
		case f.Rest == "":
			hint := ""
			if i < len(f.Params) {
				hint = fmt.Sprintf("give it by name: %s = …", f.Params[i].Name)
			}
			l.warn(syntax.Start(x), "too-many-arguments", hint, "%s: takes %d arguments without a name, got %d", f.Name, i-skip, len(a.positional))
			return
		}
	}
	var all []string
	byName := make(map[string]*value.Param)
	for i := range f.Params {
		all = append(all, f.Params[i].Name)
		byName[f.Params[i].Name] = &f.Params[i]
	}
	for _, kv := range a.named {
		id := kv.X.(*syntax.Ident)
		p := byName[id.Name]
		switch {
		case p != nil:
			given[id.Name] = true
			l.argument(f, p, kv.Y)
		case f.Named == "":
			hint := "usage: " + f.Signature()
			if near := value.Nearest(id.Name, all); near != "" {
				hint = "did you mean " + byName[near].Summary() + "?"
			}
			l.warn(id.NamePos, "unknown-argument", hint, "%s: unknown argument %q", f.Name, id.Name)
		}
	}
	for i := range f.Params {
		if p := &f.Params[i]; p.Required && !given[p.Name] && !a.open {
			l.warn(c.Lparen, "missing-argument", "usage: "+f.Signature(), "%s: missing argument %q", f.Name, p.Name)
		}
	}
}

// argument checks an argument that is written out as a constant.
func (l *linter) argument(f *value.Func, p *value.Param, x syntax.Expr) {
	v := constant(x)
	if v == nil || p.Type == nil || v == starlark.None && !p.Required {
		return
	}
	if _, err := p.Type.Check(v); err != nil {
		msg, hint := err.Error(), ""
		if e, ok := value.AsError(err); ok {
			msg, hint = e.Msg, e.Hint
		}
		l.warn(syntax.Start(x), "argument-type", hint, "%s: argument %q: want %s, %s", f.Name, p.Name, p.Type, msg)
	}
}

// constant is the value of an expression that is one, or nil.
func constant(x syntax.Expr) starlark.Value {
	switch x := x.(type) {
	case *syntax.Literal:
		switch v := x.Value.(type) {
		case string:
			if x.Token == syntax.BYTES {
				return starlark.Bytes(v)
			}
			return starlark.String(v)
		case int64:
			return starlark.MakeInt64(v)
		case float64:
			return starlark.Float(v)
		}
	case *syntax.UnaryExpr:
		if v := constant(x.X); v != nil && x.Op == syntax.MINUS {
			y, err := starlark.Unary(syntax.MINUS, v)
			if err == nil {
				return y
			}
		}
	case *syntax.Ident:
		if b, ok := x.Binding.(*resolve.Binding); ok && b.Scope == resolve.Universal {
			switch x.Name {
			case "None", "True", "False":
				return starlark.Universe[x.Name]
			}
		}
	}
	return nil
}

// function checks a call of a function of the same file.
func (l *linter) function(c *syntax.CallExpr, d *syntax.DefStmt) {
	a := split(c)
	name := d.Name.Name
	var all []string
	required := make(map[string]bool)
	positional, rest, kwargs, onlyNamed := 0, false, false, false
	for _, p := range d.Params {
		switch p := p.(type) {
		case *syntax.Ident:
			all = append(all, p.Name)
			required[p.Name] = true
		case *syntax.BinaryExpr:
			all = append(all, p.X.(*syntax.Ident).Name)
		case *syntax.UnaryExpr:
			if p.Op == syntax.STARSTAR {
				kwargs = true
			} else {
				onlyNamed, rest = true, p.X != nil
			}
			continue
		}
		if !onlyNamed {
			positional++
		}
	}
	if len(a.positional) > positional && !rest {
		l.warn(syntax.Start(a.positional[positional]), "too-many-arguments", "", "%s: takes %d arguments, got %d", name, positional, len(a.positional))
		return
	}
	for i := range min(len(a.positional), positional) {
		delete(required, all[i])
	}
	known := make(map[string]bool)
	for _, n := range all {
		known[n] = true
	}
	for _, kv := range a.named {
		id := kv.X.(*syntax.Ident)
		delete(required, id.Name)
		if !known[id.Name] && !kwargs {
			hint := ""
			if near := value.Nearest(id.Name, all); near != "" {
				hint = fmt.Sprintf("did you mean %q?", near)
			}
			l.warn(id.NamePos, "unknown-argument", hint, "%s: unknown argument %q", name, id.Name)
		}
	}
	for _, n := range all {
		if required[n] && !a.open {
			l.warn(c.Lparen, "missing-argument", "", "%s: missing argument %q", name, n)
		}
	}
}
