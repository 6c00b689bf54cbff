package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/scanner"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A mutant is one small mistake that can be switched on.
type mutant struct {
	id     int
	file   string // from the root of the module
	line   int
	fn     string // the function it is in
	change string // what was changed: `a < b` → `a <= b`
}

func (m mutant) String() string { return fmt.Sprintf("%s:%d: %s", m.file, m.line, m.change) }

// key names a mutant in the list of accepted ones, where line numbers would
// not last.
func (m mutant) key() string { return m.file + ": " + m.fn + ": " + m.change }

// A site is a piece of source that is replaced by text which behaves as
// before or, if one of its mutants is switched on, otherwise.
type site struct {
	start, end int   // in the source, in bytes
	ids        []int // of its mutants
	// wrap gets the piece as it was, and as it is with the sites inside it.
	wrap func(raw, inner string) string
}

// A goPackage is what `go list` says of one.
type goPackage struct {
	Dir, Name, ImportPath, Export string
	GoFiles                       []string
}

// list asks the go command for packages and all they import.
func list(root string, paths ...string) (map[string]*goPackage, error) {
	cmd := exec.Command("go", append([]string{"list", "-export", "-deps", "-json=Dir,Name,ImportPath,Export,GoFiles"}, paths...)...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w", strings.Join(paths, " "), err)
	}
	all := map[string]*goPackage{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		p := &goPackage{}
		if err := d.Decode(p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all[p.ImportPath] = p
	}
}

// A schema is a package that has been rewritten so that all its mutants are
// in it at once, to be switched on one by one by [switchVariable].
type schema struct {
	pkg     *goPackage
	fset    *token.FileSet
	imports types.Importer
	names   []string // full names of the files, in order
	texts   []string // their source
	sites   [][]site
	mutants map[int]mutant
	overlay map[string]string // full name → rewritten text
}

// rewrite makes the schema of a package. Only files that want takes get mutants.
func rewrite(root string, p *goPackage, deps map[string]*goPackage, want func(file string) bool) (*schema, error) {
	s := &schema{pkg: p, fset: token.NewFileSet(), mutants: map[int]mutant{}, overlay: map[string]string{}}
	s.imports = importer.ForCompiler(s.fset, "gc", func(path string) (io.ReadCloser, error) {
		d := deps[path]
		if d == nil || d.Export == "" {
			return nil, fmt.Errorf("no export data of %s", path)
		}
		return os.Open(d.Export)
	})
	for _, name := range p.GoFiles {
		full := filepath.Join(p.Dir, name)
		src, err := os.ReadFile(full)
		if err != nil {
			return nil, err
		}
		s.names, s.texts = append(s.names, full), append(s.texts, string(src))
	}
	trees, info, err := s.check(s.texts)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.ImportPath, err)
	}
	next := 1
	for i, name := range s.names {
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return nil, err
		}
		f := &finder{fset: s.fset, info: info, file: rel, src: s.texts[i], next: next}
		if want(rel) {
			f.find(trees[i])
		}
		for _, m := range f.mutants {
			s.mutants[m.id] = m
		}
		s.sites, next = append(s.sites, f.sites), f.next
	}
	return s, s.render()
}

// check parses and type-checks the files of the package with these texts.
func (s *schema) check(texts []string) ([]*ast.File, *types.Info, error) {
	var trees []*ast.File
	for i, text := range texts {
		tree, err := parser.ParseFile(s.fset, s.names[i], text, parser.SkipObjectResolution)
		if err != nil {
			return nil, nil, err
		}
		trees = append(trees, tree)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}}
	_, err := (&types.Config{Importer: s.imports}).Check(s.pkg.ImportPath, s.fset, trees, info)
	return trees, info, err
}

// render writes the sites into the source. Now and then a rewritten piece is
// no Go any more (a variable where only a constant may stand). What the type
// checker complains of is taken out, until it complains no more.
func (s *schema) render() error {
	s.names = append(s.names, filepath.Join(s.pkg.Dir, "mutants_switch.go"))
	helper := strings.Replace(switchText, "package main", "package "+s.pkg.Name, 1)
	for range 500 {
		var texts []string
		for i, src := range s.texts {
			s.sites[i] = slices.DeleteFunc(s.sites[i], func(x site) bool { _, ok := s.mutants[x.ids[0]]; return !ok })
			texts = append(texts, splice(src, s.sites[i]))
		}
		texts = append(texts, helper)
		_, _, err := s.check(texts)
		if err == nil {
			for i, name := range s.names {
				s.overlay[name] = texts[i]
			}
			return nil
		}
		if !s.drop(err, texts) {
			return fmt.Errorf("%s: the rewritten package: %w", s.pkg.ImportPath, err)
		}
	}
	return fmt.Errorf("%s: too many mutants that do not compile", s.pkg.ImportPath)
}

var switched = regexp.MustCompile(`mutant_\w+(?:\[[^\]]*\])?\((\d+)`)

// drop takes out the mutants at the place of the error: those whose switch
// stands last before it.
func (s *schema) drop(err error, texts []string) bool {
	var pos token.Position
	var te types.Error
	var se scanner.ErrorList
	switch {
	case errors.As(err, &te):
		pos = s.fset.Position(te.Pos)
	case errors.As(err, &se):
		pos = se[0].Pos
	default:
		return false
	}
	i := slices.Index(s.names, pos.Filename)
	if i < 0 {
		return false
	}
	all := switched.FindAllStringSubmatch(texts[i][:min(pos.Offset+40, len(texts[i]))], -1)
	for _, m := range slices.Backward(all) {
		id, _ := strconv.Atoi(m[1])
		for _, x := range s.sites[i] {
			if slices.Contains(x.ids, id) {
				for _, id := range x.ids {
					delete(s.mutants, id)
				}
				return true
			}
		}
	}
	return false
}

// splice replaces the sites in the text. Sites are disjoint or nested.
func splice(src string, sites []site) string {
	sites = slices.Clone(sites)
	slices.SortStableFunc(sites, func(a, b site) int {
		if a.start != b.start {
			return a.start - b.start
		}
		return b.end - a.end
	})
	text, rest := spliceRange(src, 0, len(src), sites)
	if len(rest) > 0 {
		panic("mutation: sites overlap")
	}
	return text
}

// spliceRange does the sites that lie between start and end, and returns the others.
func spliceRange(src string, start, end int, sites []site) (string, []site) {
	var b strings.Builder
	at := start
	for len(sites) > 0 && sites[0].start < end {
		x := sites[0]
		var inner string
		inner, sites = spliceRange(src, x.start, x.end, sites[1:])
		b.WriteString(src[at:x.start])
		b.WriteString(x.wrap(src[x.start:x.end], inner))
		at = x.end
	}
	b.WriteString(src[at:end])
	return b.String(), sites
}
