package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// A finder walks a file and notes where mutants can be made.
//
// The operators: a comparison gets another boundary or its opposite; && and ||
// are swapped; other conditions are negated; arithmetic is done the wrong way;
// a number gets one more, a truth becomes a lie; a call, an assignment, a
// continue or break is left out; a function returns zero values, or the
// opposite of a bool. Left alone: defer and unlocking (a mutant would only
// hang), logging, loop headers' steps, declarations.
type finder struct {
	fset    *token.FileSet
	info    *types.Info
	file    string
	src     string
	next    int
	stack   []ast.Node
	sites   []site
	mutants []mutant
}

func (f *finder) find(tree *ast.File) {
	ast.Inspect(tree, func(n ast.Node) bool {
		if n == nil {
			f.stack = f.stack[:len(f.stack)-1]
			return true
		}
		if !f.visit(n) {
			return false
		}
		f.stack = append(f.stack, n)
		return true
	})
}

// visit looks at a node, and tells whether to look into it.
func (f *finder) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GenDecl:
		return n.Tok == token.VAR
	case *ast.FuncDecl:
		return n.Body != nil && !plain(n)
	case *ast.ArrayType, *ast.StructType, *ast.InterfaceType, *ast.FuncType, *ast.DeferStmt:
		return false
	case *ast.BlockStmt:
		f.statements(n.List)
	case *ast.CaseClause:
		f.statements(n.Body)
	case *ast.CommClause:
		f.statements(n.Body)
	case ast.Expr:
		if c, ok := n.(*ast.CallExpr); ok && f.logging(c) {
			return false
		}
		return f.expression(n)
	}
	return true
}

// plain tells whether a function only makes text, which no test need spell out.
func plain(n *ast.FuncDecl) bool {
	return n.Recv != nil && slices.Contains([]string{"String", "Error", "GoString"}, n.Name.Name)
}

// add makes a site for a node, with one mutant for each change.
func (f *finder) add(n ast.Node, changes []string, wrap func(ids []int, raw, inner string) string) {
	var ids []int
	for _, c := range changes {
		f.mutants = append(f.mutants, mutant{f.next, f.file, f.fset.Position(n.Pos()).Line, f.function(), c})
		ids = append(ids, f.next)
		f.next++
	}
	x := site{start: f.fset.Position(n.Pos()).Offset, end: f.fset.Position(n.End()).Offset, ids: ids}
	x.wrap = func(raw, inner string) string { return wrap(ids, raw, inner) }
	f.sites = append(f.sites, x)
}

func (f *finder) text(n ast.Node) string {
	return f.src[f.fset.Position(n.Pos()).Offset:f.fset.Position(n.End()).Offset]
}

// short is the text of a node on one line, for people.
func (f *finder) short(n ast.Node) string {
	s := strings.Join(strings.Fields(f.text(n)), " ")
	if r := []rune(s); len(r) > 70 {
		s = string(r[:69]) + "…"
	}
	return s
}

func (f *finder) function() string {
	for _, n := range f.stack {
		if d, ok := n.(*ast.FuncDecl); ok {
			if d.Recv != nil {
				return strings.TrimPrefix(f.text(d.Recv.List[0].Type), "*") + "." + d.Name.Name
			}
			return d.Name.Name
		}
	}
	return "var"
}

func (f *finder) parent() ast.Node {
	if len(f.stack) == 0 {
		return nil
	}
	return f.stack[len(f.stack)-1]
}

var opposite = map[token.Token][]token.Token{
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL},
	token.LSS: {token.LEQ, token.GEQ}, token.LEQ: {token.LSS, token.GTR},
	token.GTR: {token.GEQ, token.LEQ}, token.GEQ: {token.GTR, token.LSS},
	token.LAND: {token.LOR}, token.LOR: {token.LAND},
}

var wrong = map[token.Token]token.Token{
	token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL, token.REM: token.MUL,
	token.AND: token.OR, token.OR: token.AND, token.XOR: token.AND, token.AND_NOT: token.AND, token.SHL: token.SHR, token.SHR: token.SHL,
	token.ADD_ASSIGN: token.SUB_ASSIGN, token.SUB_ASSIGN: token.ADD_ASSIGN, token.MUL_ASSIGN: token.QUO_ASSIGN, token.QUO_ASSIGN: token.MUL_ASSIGN,
}

func (f *finder) expression(n ast.Expr) bool {
	tv := f.info.Types[n]
	if tv.Value != nil {
		f.constant(n, tv)
		return false
	}
	b, ok := n.(*ast.BinaryExpr)
	switch {
	case ok && opposite[b.Op] != nil:
		f.comparison(b)
	case ok && wrong[b.Op] != 0 && number(tv.Type):
		f.arithmetic(b, tv.Type)
	case !ok && f.condition(n):
		f.add(n, []string{fmt.Sprintf("`%s` → `!(%s)`", f.short(n), f.short(n))}, func(ids []int, raw, inner string) string {
			return fmt.Sprintf("(mutant_on(%d) != (%s))", ids[0], inner)
		})
	}
	return true
}

// condition tells whether this is what an if, a for or a && asks.
func (f *finder) condition(n ast.Expr) bool {
	if _, paren := n.(*ast.ParenExpr); paren {
		return false
	}
	switch p := f.parent().(type) {
	case *ast.IfStmt:
		return p.Cond == n
	case *ast.ForStmt:
		return p.Cond == n
	case *ast.BinaryExpr:
		return p.Op == token.LAND || p.Op == token.LOR
	}
	return false
}

func (f *finder) comparison(b *ast.BinaryExpr) {
	at := f.fset.Position(b.OpPos).Offset - f.fset.Position(b.Pos()).Offset
	var changes []string
	for _, op := range opposite[b.Op] {
		changes = append(changes, fmt.Sprintf("`%s` → `%s`", f.short(b), op))
	}
	f.add(b, changes, func(ids []int, raw, inner string) string {
		var with, none []string
		for i, op := range opposite[b.Op] {
			with = append(with, fmt.Sprintf("mutant_on(%d) && (%s%s%s)", ids[i], raw[:at], op, raw[at+len(b.Op.String()):]))
			none = append(none, fmt.Sprintf("!mutant_on(%d)", ids[i]))
		}
		return fmt.Sprintf("(%s || %s && (%s))", strings.Join(with, " || "), strings.Join(none, " && "), inner)
	})
}

func (f *finder) arithmetic(b *ast.BinaryExpr, t types.Type) {
	name, ok := f.typeName(t)
	if !ok {
		return
	}
	at := f.fset.Position(b.OpPos).Offset - f.fset.Position(b.Pos()).Offset
	op := wrong[b.Op]
	f.add(b, []string{fmt.Sprintf("`%s` → `%s`", f.short(b), op)}, func(ids []int, raw, inner string) string {
		return fmt.Sprintf("func() %s { if mutant_on(%d) { return %s%s%s }; return %s }()", name, ids[0], raw[:at], op, raw[at+len(b.Op.String()):], inner)
	})
}

func number(t types.Type) bool {
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&types.IsNumeric != 0 && b.Info()&types.IsUntyped == 0
}

// typeName is how the type is called in this file, if it can be.
func (f *finder) typeName(t types.Type) (string, bool) {
	if named, ok := types.Unalias(t).(*types.Named); ok && named.Obj().Pkg() != nil && named.TypeArgs() == nil {
		for id, o := range f.info.Uses { // as it is imported here, if it is
			if p, ok := o.(*types.PkgName); ok && p.Imported() == named.Obj().Pkg() && f.fset.Position(id.Pos()).Filename == f.fset.Position(f.stack[0].Pos()).Filename {
				return id.Name + "." + named.Obj().Name(), true
			}
		}
		return named.Obj().Name(), true // of this package, or it will not compile
	}
	_, ok := t.(*types.Basic)
	return t.String(), ok
}

// constant makes a number one larger, and true false.
func (f *finder) constant(n ast.Expr, tv types.TypeAndValue) {
	if b, ok := f.parent().(*ast.BinaryExpr); ok && opposite[b.Op] != nil {
		return // the other boundary is a mutant of the comparison
	}
	if c, ok := f.parent().(*ast.CallExpr); ok && f.text(c.Fun) == "make" {
		return // room made in advance
	}
	literal := false
	ast.Inspect(n, func(n ast.Node) bool {
		_, lit := n.(*ast.BasicLit)
		literal = literal || lit
		return true
	})
	name, ok := f.typeName(tv.Type)
	if !ok {
		return
	}
	raw := f.text(n)
	var other string
	switch {
	case tv.Value.Kind() == constant.Bool && (raw == "true" || raw == "false"):
		other = map[string]string{"true": "false", "false": "true"}[raw]
	case !literal || !number(tv.Type):
		return
	case strings.HasSuffix(name, "Duration") && constant.Sign(tv.Value) != 0:
		other = "2*(" + raw + ")"
	case strings.HasSuffix(name, "Duration"):
		other = "1000000000"
	default:
		other = raw + "+1"
	}
	f.add(n, []string{fmt.Sprintf("`%s` → `%s`", f.short(n), other)}, func(ids []int, raw, inner string) string {
		return fmt.Sprintf("mutant_const[%s](%d, %s, %s)", name, ids[0], raw, other)
	})
}

// statements leaves out one statement of a list.
func (f *finder) statements(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt:
			if c, ok := s.X.(*ast.CallExpr); ok && !f.unlocking(c) && !f.logging(c) {
				f.leaveOut(s)
			}
		case *ast.AssignStmt:
			f.assignment(s)
		case *ast.IncDecStmt, *ast.SendStmt:
			f.leaveOut(s)
		case *ast.BranchStmt:
			if s.Tok == token.CONTINUE || s.Tok == token.BREAK && f.loop() {
				f.leaveOut(s)
			}
		case *ast.ReturnStmt:
			f.results(s)
		}
	}
}

func (f *finder) leaveOut(s ast.Stmt) {
	f.add(s, []string{fmt.Sprintf("without `%s`", f.short(s))}, func(ids []int, raw, inner string) string {
		return fmt.Sprintf("if !mutant_on(%d) { %s }", ids[0], inner)
	})
}

func (f *finder) assignment(s *ast.AssignStmt) {
	blank := !slices.ContainsFunc(s.Lhs, func(x ast.Expr) bool { id, ok := x.(*ast.Ident); return !ok || id.Name != "_" })
	if s.Tok == token.DEFINE || blank {
		return
	}
	op := wrong[s.Tok]
	if op == 0 || !number(f.info.Types[s.Lhs[0]].Type) {
		f.leaveOut(s)
		return
	}
	at := f.fset.Position(s.TokPos).Offset - f.fset.Position(s.Pos()).Offset
	f.add(s, []string{fmt.Sprintf("without `%s`", f.short(s)), fmt.Sprintf("`%s` → `%s`", f.short(s), op)}, func(ids []int, raw, inner string) string {
		return fmt.Sprintf("if mutant_on(%d) { %s%s%s } else if !mutant_on(%d) { %s }", ids[1], raw[:at], op, raw[at+len(s.Tok.String()):], ids[0], inner)
	})
}

// loop tells whether a break here ends a loop.
func (f *finder) loop() bool {
	for _, n := range slices.Backward(f.stack) {
		switch n.(type) {
		case *ast.ForStmt, *ast.RangeStmt:
			return true
		case *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt, *ast.FuncLit:
			return false
		}
	}
	return false
}

// results makes a function return zero values.
func (f *finder) results(s *ast.ReturnStmt) {
	var res *ast.FieldList
	for _, n := range slices.Backward(f.stack) {
		if lit, ok := n.(*ast.FuncLit); ok {
			res = lit.Type.Results
			break
		}
		if d, ok := n.(*ast.FuncDecl); ok {
			res = d.Type.Results
			break
		}
	}
	if res == nil || len(s.Results) == 0 || !slices.ContainsFunc(s.Results, f.something) {
		return
	}
	if len(s.Results) == 1 && f.text(res.List[0].Type) == "bool" {
		x := s.Results[0]
		if b, ok := x.(*ast.BinaryExpr); ok && opposite[b.Op] != nil || f.info.Types[x].Value != nil {
			return // has mutants of its own
		}
		f.add(x, []string{fmt.Sprintf("`return %s` → `!`", f.short(x))}, func(ids []int, raw, inner string) string {
			return fmt.Sprintf("(mutant_on(%d) != (%s))", ids[0], inner)
		})
		return
	}
	var vars, names []string
	for _, field := range res.List {
		for range max(1, len(field.Names)) {
			name := fmt.Sprintf("mutant_%d", len(names))
			vars, names = append(vars, fmt.Sprintf("var %s %s; ", name, f.text(field.Type))), append(names, name)
		}
	}
	f.add(s, []string{fmt.Sprintf("`%s` → zero", f.short(s))}, func(ids []int, raw, inner string) string {
		return fmt.Sprintf("{ if mutant_on(%d) { %sreturn %s }; %s }", ids[0], strings.Join(vars, ""), strings.Join(names, ", "), inner)
	})
}

// something tells whether a result is more than a zero value.
func (f *finder) something(x ast.Expr) bool {
	switch tv := f.info.Types[x]; {
	case tv.IsNil():
		return false
	case tv.Value != nil:
		switch tv.Value.Kind() {
		case constant.Bool:
			return constant.BoolVal(tv.Value)
		case constant.String:
			return constant.StringVal(tv.Value) != ""
		case constant.Int, constant.Float:
			return constant.Sign(tv.Value) != 0
		}
	}
	lit, ok := x.(*ast.CompositeLit)
	if ok && len(lit.Elts) == 0 {
		_, isStruct := f.info.Types[x].Type.Underlying().(*types.Struct)
		return !isStruct
	}
	return true
}

func (f *finder) unlocking(c *ast.CallExpr) bool {
	s, ok := c.Fun.(*ast.SelectorExpr)
	return ok && slices.Contains([]string{"Lock", "Unlock", "RLock", "RUnlock"}, s.Sel.Name)
}

func (f *finder) logging(c *ast.CallExpr) bool {
	s, ok := c.Fun.(*ast.SelectorExpr)
	if !ok || f.info.Selections[s] == nil {
		return false
	}
	return strings.HasSuffix(f.info.Selections[s].Recv().String(), "log/slog.Logger")
}
