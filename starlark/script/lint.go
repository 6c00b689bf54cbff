package script

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// Lint reads one script without running it and returns what is wrong with it:
// errors, which have no Rule, or else warnings with the rule's name, in the
// order of the lines. file is the name messages show; predeclared are the names
// the script has, whose argument tables calls are checked against. A line that
// ends in "# lint: allow rule" is not warned about.
//
//	unknown-argument, missing-argument, too-many-arguments, argument-type
//	    a call of a builtin or of a function of this file
//	unknown-attribute    bb.sett where bb is a module
//	unreachable          code after return, break, continue or fail
//	unused-load          a loaded name that is not used
//	unused-variable      a local variable that is only ever assigned
//	unused-function      a function of main.star that nothing calls or registers
//	frozen-global        a function that changes a global
//	mutable-default      a function that changes the default of a parameter
//	shadowed-builtin     a name of the language or the robot defined anew
//	redefined            two functions of the same name
//	duplicate-key        a dict display with a key twice
//	no-effect            a statement that does nothing, such as robot.stop
//	always-true          a function where its result was meant: if robot.stopped:
func Lint(file, text string, predeclared starlark.StringDict) Errors {
	return lint(file, text, predeclared, nil)
}

// lint is Lint; loaded gives what a module has under a name, nil if that is not
// known.
func lint(file, text string, predeclared starlark.StringDict, loaded func(module, name string) starlark.Value) Errors {
	all := names(predeclared)
	text = lines(text)
	src := &source{name: file, text: text}
	if len(text) > MaxSource {
		return Errors{{Position: Position{File: file}, Msg: fmt.Sprintf("larger than %d KiB", MaxSource>>10)}}
	}
	f, err := dialect().Parse(file, text, 0)
	if err != nil {
		return src.explainStatic(err, all)
	}
	if err := resolve.File(f, all.Has, starlark.Universe.Has); err != nil {
		return src.explainStatic(err, all)
	}
	l := &linter{src: src, names: all, loaded: loaded, defs: make(map[string]*syntax.DefStmt), uses: make(map[*resolve.Binding]*usage)}
	l.file(f)
	slices.SortStableFunc(l.out, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	return l.out
}

// Lint returns the warnings for all modules of the program. A function that a
// module loads from another is one that is used.
func (p *Program) Lint(predeclared starlark.StringDict) Errors {
	var out Errors
	loaded := map[string]bool{}
	for _, m := range p.Modules {
		out = append(out, lint(m.File, m.Text, predeclared, func(module, name string) starlark.Value {
			for _, at := range []string{module, path.Join(path.Dir(m.Path), module)} {
				if x := p.Module(at); x != nil {
					return x.Globals[name]
				}
			}
			return nil
		})...)
		f, err := dialect().Parse(m.File, lines(m.Text), 0)
		if err != nil {
			continue
		}
		for _, s := range f.Stmts {
			if l, ok := s.(*syntax.LoadStmt); ok {
				for _, id := range l.From {
					loaded[id.Name] = true
				}
			}
		}
	}
	return slices.DeleteFunc(out, func(e *Error) bool {
		name, _, _ := strings.Cut(e.Msg, " ")
		return e.Rule == UnusedFunction && loaded[name]
	})
}

// UnusedFunction is the rule of a function that nothing calls or registers.
// What a test file loads is used, so it is best asked of main.star with them.
const UnusedFunction = "unused-function"

type linter struct {
	src   *source
	names starlark.StringDict
	defs  map[string]*syntax.DefStmt // functions of the file, by name; nil if defined twice
	uses  map[*resolve.Binding]*usage
	out   Errors
	fn    []*syntax.DefStmt // functions around the node

	loaded func(module, name string) starlark.Value // may be nil
}

// usage is what happens to a variable.
type usage struct {
	first    *syntax.Ident
	assigned int  // by =, for, load or def
	plain    int  // of those, by a plain = of the one name
	grown    bool // by += and the like
	read     bool
	loaded   bool
	param    bool
	def      bool // by def
	function bool // it is loaded, and a function
}

func (l *linter) warn(at syntax.Position, rule, hint, format string, args ...any) {
	e := &Error{Position: Position{l.src.name, int(at.Line), int(at.Col)}, Rule: rule, Hint: hint, Msg: fmt.Sprintf(format, args...)}
	if e.Code = l.src.line(e.Line); !Allows(e.Code, rule) {
		l.out = append(l.out, e)
	}
}

// Allows reports whether a line of code says that it means what a rule warns of.
func Allows(code, rule string) bool {
	_, comment, ok := strings.Cut(code, "# lint: allow ")
	return ok && slices.Contains(strings.FieldsFunc(comment, func(r rune) bool { return r == ' ' || r == ',' }), rule)
}

func (l *linter) file(f *syntax.File) {
	for _, s := range f.Stmts {
		d, ok := s.(*syntax.DefStmt)
		if !ok {
			continue
		}
		if _, twice := l.defs[d.Name.Name]; twice {
			l.warn(d.Name.NamePos, "redefined", "", "function %s is defined twice; only the last one counts", d.Name.Name)
			l.defs[d.Name.Name] = nil
			continue
		}
		l.defs[d.Name.Name] = d
	}
	l.block(f.Stmts, true)
	for _, u := range l.uses {
		l.unused(u)
	}
}

func (l *linter) unused(u *usage) {
	id := u.first
	b := id.Binding.(*resolve.Binding)
	switch {
	case u.read || strings.HasPrefix(id.Name, "_"):
	case u.def && b.Scope == resolve.Global && path.Base(l.src.name) == "main.star":
		l.warn(id.NamePos, UnusedFunction, "a handler has to be given to on(), every() or the like", "%s is never called, and no event reaches it", id.Name)
	case u.loaded:
		l.warn(id.NamePos, "unused-load", "leave it out", "%s is loaded and not used", id.Name)
	case u.plain > 0 && u.plain == u.assigned && b.Scope == resolve.Local && !u.param:
		l.warn(id.NamePos, "unused-variable", "", "%s is assigned and not used", id.Name)
	}
	if u.grown && u.assigned == 0 && !u.param && b.Scope == resolve.Local {
		l.warn(id.NamePos, "frozen-global", frozenHint, "%s has no value here: += makes it local to the function", id.Name)
	}
}

func (l *linter) use(id *syntax.Ident) *usage {
	b, ok := id.Binding.(*resolve.Binding)
	if !ok {
		return &usage{}
	}
	if b.First != nil && b.Scope == resolve.Free {
		// A variable of the function around: it is the same one.
		if outer, ok := b.First.Binding.(*resolve.Binding); ok {
			b = outer
		}
	}
	u := l.uses[b]
	if u == nil {
		u = &usage{first: id}
		l.uses[b] = u
	}
	return u
}

// block goes through statements one after the other.
func (l *linter) block(stmts []syntax.Stmt, top bool) {
	for i, s := range stmts {
		l.stmt(s, top, i == 0)
		if i+1 < len(stmts) && ends(s) {
			l.warn(syntax.Start(stmts[i+1]), "unreachable", "", "this is never reached")
			return
		}
	}
}

// ends reports whether nothing after the statement is reached.
func ends(s syntax.Stmt) bool {
	switch s := s.(type) {
	case *syntax.ReturnStmt:
		return true
	case *syntax.BranchStmt:
		return s.Token != syntax.PASS
	case *syntax.IfStmt:
		return len(s.True) > 0 && len(s.False) > 0 && ends(s.True[len(s.True)-1]) && ends(s.False[len(s.False)-1])
	case *syntax.ExprStmt:
		if c, ok := s.X.(*syntax.CallExpr); ok {
			id, ok := c.Fn.(*syntax.Ident)
			return ok && id.Name == "fail"
		}
	}
	return false
}

func (l *linter) stmt(s syntax.Stmt, top, first bool) {
	switch s := s.(type) {
	case *syntax.ExprStmt:
		l.effect(s, first)
		l.expr(s.X)
	case *syntax.AssignStmt:
		l.expr(s.RHS)
		l.assign(s.LHS, s.Op != syntax.EQ)
	case *syntax.DefStmt:
		l.defined(s.Name)
		u := l.use(s.Name)
		u.assigned++
		u.def = true
		l.fn = append(l.fn, s)
		l.params(s.Params)
		l.block(s.Body, false)
		l.fn = l.fn[:len(l.fn)-1]
	case *syntax.IfStmt:
		l.condition(s.Cond)
		l.expr(s.Cond)
		l.block(s.True, top)
		l.block(s.False, top)
	case *syntax.ForStmt:
		l.expr(s.X)
		l.target(s.Vars)
		l.block(s.Body, top)
	case *syntax.WhileStmt:
		l.condition(s.Cond)
		l.expr(s.Cond)
		l.block(s.Body, top)
	case *syntax.ReturnStmt:
		l.expr(s.Result)
	case *syntax.LoadStmt:
		for i, id := range s.To {
			u := l.use(id)
			u.loaded = true
			u.assigned++
			if l.loaded != nil {
				_, u.function = l.loaded(s.ModuleName(), s.From[i].Name).(starlark.Callable)
			}
		}
	}
}

// effect warns of statements that compute something and drop it.
func (l *linter) effect(s *syntax.ExprStmt, first bool) {
	switch x := s.X.(type) {
	case *syntax.Literal:
		if x.Token == syntax.STRING && first {
			return // a doc string
		}
	case *syntax.CallExpr, *syntax.Comprehension:
		return
	case *syntax.CondExpr: // f() if x else g()
		return
	case *syntax.BinaryExpr:
		if x.Op == syntax.AND || x.Op == syntax.OR {
			return // ready and go()
		}
	case *syntax.Ident, *syntax.DotExpr:
		l.warn(syntax.Start(s.X), "no-effect", "to call it, write ()", "this only names something")
		return
	}
	l.warn(syntax.Start(s.X), "no-effect", "", "this has no effect")
}

func (l *linter) params(params []syntax.Expr) {
	for _, p := range params {
		switch p := p.(type) {
		case *syntax.Ident:
			l.use(p).param = true
		case *syntax.BinaryExpr: // name = default
			l.expr(p.Y)
			l.use(p.X.(*syntax.Ident)).param = true
		case *syntax.UnaryExpr:
			if id, ok := p.X.(*syntax.Ident); ok {
				l.use(id).param = true
			}
		}
	}
}

// defined warns of names that hide those every script has.
func (l *linter) defined(id *syntax.Ident) {
	b, ok := id.Binding.(*resolve.Binding)
	if !ok || b.Scope != resolve.Global {
		return // hiding one inside a function is common and harms nobody
	}
	if l.names.Has(id.Name) || starlark.Universe.Has(id.Name) {
		l.warn(id.NamePos, "shadowed-builtin", "take another name", "%s is a name every script has", id.Name)
	}
}

func (l *linter) assign(lhs syntax.Expr, grow bool) {
	switch x := lhs.(type) {
	case *syntax.Ident:
		u := l.use(x)
		if grow {
			u.grown = true
			u.read = u.read || u.first != x
			return
		}
		l.defined(x)
		u.assigned++
		u.plain++
	case *syntax.IndexExpr:
		l.changes(x.X, x.Lbrack)
		l.expr(x.X)
		l.expr(x.Y)
	case *syntax.DotExpr:
		l.expr(x.X)
	default:
		l.target(lhs)
	}
}

// target is an assignment to several names, or by a loop.
func (l *linter) target(x syntax.Expr) {
	switch x := x.(type) {
	case *syntax.Ident:
		u := l.use(x)
		u.assigned++
		l.defined(x)
	case *syntax.ParenExpr:
		l.target(x.X)
	case *syntax.TupleExpr:
		for _, y := range x.List {
			l.target(y)
		}
	case *syntax.ListExpr:
		for _, y := range x.List {
			l.target(y)
		}
	case *syntax.IndexExpr:
		l.assign(x, false)
	default:
		l.expr(x)
	}
}

// changes warns if x, which is about to be changed, is a global and the code
// is in a function.
func (l *linter) changes(x syntax.Expr, at syntax.Position) {
	id, ok := x.(*syntax.Ident)
	if !ok || len(l.fn) == 0 {
		return
	}
	b, ok := id.Binding.(*resolve.Binding)
	if !ok {
		return
	}
	if b.Scope == resolve.Global {
		l.warn(at, "frozen-global", frozenHint, "%s is a global: it cannot be changed when this runs", id.Name)
	}
	for _, p := range l.fn[len(l.fn)-1].Params {
		if d, ok := p.(*syntax.BinaryExpr); ok && d.X.(*syntax.Ident).Name == id.Name {
			switch d.Y.(type) {
			case *syntax.ListExpr, *syntax.DictExpr:
				l.warn(at, "mutable-default", "write "+id.Name+" = None and make it in the function", "the default of %s cannot be changed: it is frozen", id.Name)
			}
		}
	}
}
