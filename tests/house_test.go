// Package tests holds what is checked about the whole: the rules of the house,
// end-to-end runs (e2e), faults (fault) and figures (bench).
package tests

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "edged/"

// floors is the plan: a package imports lower floors and its own sub-packages.
var floors = map[string]int{
	"agent": 1, "bus": 1,
	"blackboard": 2, "background": 2, "workflow": 2, "hw": 2,
	"pool":     3,
	"starlark": 4, "scripts": 4,
	"cmd":   5,
	"tests": 6,
}

// everywhere are folders that rooms of every floor may import: the label of a
// value goes wherever the value goes.
var everywhere = map[string]bool{"bus/origin": true}

// mayGo lists the rooms that may start goroutines.
var mayGo = []string{"background", "workflow", "bus", "cmd", "tests"}

const (
	fileLines   = 600
	funcLines   = 80
	binaryLimit = 19_500_000 // what makes it so large: doc/dependencies.md
)

type file struct {
	path string // from the root
	pkg  string // folder
	test bool
	ast  *ast.File
	fset *token.FileSet
	src  string
}

func (f file) line(p token.Pos) string {
	return fmt.Sprintf("%s:%d", f.path, f.fset.Position(p).Line)
}

func (f file) top() string { t, _, _ := strings.Cut(f.pkg, "/"); return t }

var house = sync.OnceValues(func() ([]file, error) {
	var files []file
	err := filepath.WalkDir("..", func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel("..", path)
		if d.IsDir() {
			_, other := os.Stat(filepath.Join(path, "go.mod"))
			if rel != "." && (other == nil || strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		tree, err := parser.ParseFile(fset, path, src, parser.ParseComments)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		files = append(files, file{rel, filepath.ToSlash(filepath.Dir(rel)), strings.HasSuffix(rel, "_test.go"), tree, fset, string(src)})
		return nil
	})
	return files, err
})

func files(t *testing.T) []file {
	t.Helper()
	list, err := house()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func imports(f file) []string {
	var out []string
	for _, i := range f.ast.Imports {
		out = append(out, strings.Trim(i.Path.Value, `"`))
	}
	return out
}

func TestTopLevel(t *testing.T) {
	for _, f := range files(t) {
		if floors[f.top()] == 0 {
			t.Errorf("%s: %q is not a room of the house", f.path, f.top())
		}
	}
	if m, _ := filepath.Glob("../starlark/*.go"); len(m) > 0 {
		t.Errorf("starlark/ has Go files of its own: %v", m)
	}
}

func TestFloors(t *testing.T) {
	for _, f := range files(t) {
		for _, imp := range imports(f) {
			rest, ours := strings.CutPrefix(imp, module)
			if !ours || f.test {
				continue
			}
			top, _, _ := strings.Cut(rest, "/")
			same := top == f.top()
			switch {
			case same && f.top() == "starlark":
				if strings.HasSuffix(f.pkg, "/value") || strings.HasSuffix(f.pkg, "/script") && rest != "starlark/value" {
					t.Errorf("%s: imports %s; value imports none of ours, script only value", f.path, rest)
				}
			case same:
				// A room's own folders, in either direction; Go refuses cycles.
			case everywhere[rest] && f.top() != "starlark":
			case floors[top] >= floors[f.top()]:
				t.Errorf("%s: imports %s from floor %d; %s is on floor %d: move the noun down", f.path, rest, floors[top], f.pkg, floors[f.top()])
			case f.pkg == "starlark/value" || f.pkg == "starlark/script":
				t.Errorf("%s: imports %s; only starlark/lib knows the domains", f.path, rest)
			}
			if rest == "starlark/lib" && f.top() != "cmd" {
				t.Errorf("%s: imports starlark/lib; only cmd does", f.path)
			}
		}
	}
}

func TestStandardLibraryOnly(t *testing.T) {
	for _, f := range files(t) {
		if f.test || f.pkg != "agent" && f.pkg != "bus" && f.pkg != "bus/timer" && f.pkg != "bus/origin" {
			continue
		}
		for _, imp := range imports(f) {
			if strings.Contains(strings.SplitN(imp, "/", 2)[0], ".") {
				t.Errorf("%s: imports %s; %s is made of the standard library", f.path, imp, f.pkg)
			}
		}
	}
}

// modules lists what go.mod requires directly.
func modules(t *testing.T) []string {
	t.Helper()
	out, err := exec.Command("go", "mod", "edit", "-json", "../go.mod").Output()
	if err != nil {
		t.Fatal(err)
	}
	var m struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	if err := json.Unmarshal(out, &m); err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, r := range m.Require {
		if !r.Indirect {
			list = append(list, r.Path)
		}
	}
	return list
}

func TestOneImporterPerModule(t *testing.T) {
	text, err := os.ReadFile("../doc/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	mods := modules(t)
	importers := map[string]map[string]bool{}
	for _, f := range files(t) {
		room := f.pkg
		if f.top() == "starlark" {
			room = "starlark"
		}
		if f.top() == "cmd" {
			room = "cmd/edged"
		}
		for _, imp := range imports(f) {
			for _, m := range mods {
				if (imp == m || strings.HasPrefix(imp, m+"/")) && !f.test && f.top() != "tests" {
					if importers[m] == nil {
						importers[m] = map[string]bool{}
					}
					importers[m][room] = true
				}
			}
		}
	}
	for _, m := range mods {
		if len(importers[m]) > 1 {
			t.Errorf("%s is imported by %v; one package each", m, importers[m])
		}
		if !strings.Contains(string(text), "`"+m+"`") {
			t.Errorf("%s has no line in doc/dependencies.md (why, size, licence)", m)
		}
	}
}

func TestGoStatements(t *testing.T) {
	for _, f := range files(t) {
		if f.test || slices.Contains(mayGo, f.top()) || strings.HasSuffix(f.pkg, "test") { // hwtest, llmtest: suites for tests
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if g, ok := n.(*ast.GoStmt); ok {
				t.Errorf("%s: starts a goroutine; only %v do", f.line(g.Pos()), mayGo)
			}
			return true
		})
	}
}

func TestNames(t *testing.T) {
	bad := []string{"util", "utils", "common", "helpers", "types", "manager", "base", "impl"}
	for _, f := range files(t) {
		if name := strings.TrimSuffix(f.ast.Name.Name, "_test"); slices.Contains(bad, name) {
			t.Errorf("%s: package %s says nothing", f.path, name)
		}
	}
}

func TestPackageComments(t *testing.T) {
	has := map[string]bool{}
	for _, f := range files(t) {
		if _, known := has[f.pkg]; !known {
			has[f.pkg] = false
		}
		if f.ast.Doc != nil && len(f.ast.Doc.Text()) > 40 {
			has[f.pkg] = true
		}
	}
	for pkg, ok := range has {
		if !ok {
			t.Errorf("%s has no package comment", pkg)
		}
	}
}

func TestNoInitAndNoState(t *testing.T) {
	for _, f := range files(t) {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s: has an init", f.line(fn.Pos()))
			}
		}
	}
}

func TestSizes(t *testing.T) {
	for _, f := range files(t) {
		if n := strings.Count(f.src, "\n"); n > fileLines {
			t.Errorf("%s has %d lines; stop at %d", f.path, n, fileLines)
		}
		if f.test {
			continue
		}
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
				if n := f.fset.Position(fn.End()).Line - f.fset.Position(fn.Pos()).Line + 1; n > funcLines {
					t.Errorf("%s: %s has %d lines; stop at %d", f.line(fn.Pos()), fn.Name.Name, n, funcLines)
				}
			}
		}
	}
}

// TestExportedDocs wants a sentence for everything exported, but for methods
// that say nothing new.
func TestExportedDocs(t *testing.T) {
	plain := []string{"String", "Len", "Error", "Unwrap", "Is", "Less", "Swap", "Push", "Pop", "Fields", "Type", "Freeze", "Truth", "Hash"}
	for _, f := range files(t) {
		if f.test || f.ast.Name.Name == "main" || strings.Contains(f.pkg, "internal") || f.top() == "tests" {
			continue
		}
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && d.Doc == nil && !slices.Contains(plain, d.Name.Name) && exportedReceiver(d) {
					t.Errorf("%s: %s has no comment", f.line(d.Pos()), d.Name.Name)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if ts, ok := s.(*ast.TypeSpec); ok && ts.Name.IsExported() && d.Doc == nil && ts.Doc == nil {
						t.Errorf("%s: type %s has no comment", f.line(ts.Pos()), ts.Name.Name)
					}
				}
			}
		}
	}
}

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	x := d.Recv.List[0].Type
	if s, ok := x.(*ast.StarExpr); ok {
		x = s.X
	}
	if i, ok := x.(*ast.IndexExpr); ok {
		x = i.X
	}
	id, ok := x.(*ast.Ident)
	return ok && id.IsExported()
}

// TestNoSleep: tests wait for things, in virtual time or by condition.
func TestNoSleep(t *testing.T) {
	for _, f := range files(t) {
		if !f.test || strings.Contains(f.src, "synctest") {
			continue
		}
		if f.top() == "tests" && f.pkg != "tests" || f.pkg == "bus/mqtt" || f.pkg == "bus/mqtt/broker" {
			continue // real processes and brokers are polled there
		}
		if strings.HasSuffix(f.path, "bench_test.go") {
			continue // a paced benchmark needs the real clock
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if c, ok := n.(*ast.CallExpr); ok {
				if s, ok := c.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Sleep" && fmt.Sprint(s.X) == "time" {
					t.Errorf("%s: sleeps; use virtual time", f.line(c.Pos()))
				}
			}
			return true
		})
	}
}

// TestBuilds makes what is shipped, for every board, static, and weighs it.
func TestBuilds(t *testing.T) {
	out := t.TempDir()
	cmd := exec.Command("make", "-s", "dist", "OUT="+out)
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make dist: %v\n%s", err, text)
	}
	for _, board := range []string{"amd64", "arm64", "armv7", "armv6"} {
		st, err := os.Stat(filepath.Join(out, "edged-linux-"+board))
		if err != nil {
			t.Error(err)
			continue
		}
		t.Logf("%s: %.1f MiB", board, float64(st.Size())/(1<<20))
		if board == "arm64" && st.Size() > binaryLimit {
			t.Errorf("%s: %d bytes, at most %d are allowed", board, st.Size(), binaryLimit)
		}
	}
}
