// Package script loads, checks and runs the scripts of a robot: Starlark files
// in a folder, called from Go under limits.
//
// Its one rule: a script is pure once it is loaded. Loading runs the top level
// once and then freezes everything reachable, so a [Program] is immutable, any
// number of calls may run on it at once, and a reload is the swap of a pointer.
//
//	e := script.New(script.Options{})
//	p, err := e.Load(ctx, script.Source{FS: folder, Entry: []string{"main.star"}, Predeclared: names})
//	if err != nil { … }                       // file:line:col, the code, what to write instead
//	p.Start()                                 // callbacks registered while it loaded are live from here
//	v, err := e.Call(ctx, p.Main().Globals["on_near"], args, nil, script.Limits{})
//
// Scripts of the operator run in the process (trust level local) under limits
// of time, steps, depth and growth. Scripts that came from elsewhere run in a
// child of the same binary: see [Isolated].
package script

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"edged/starlark/value"
)

// MaxSource is the size of the largest script file.
const MaxSource = 256 << 10

// maxModules is how many files one program may load.
const maxModules = 500

// Library is what file names of the library in the binary begin with.
const Library = "@edged//"

// Source says what to load.
type Source struct {
	// Name is shown in front of file names, as in guard/main.star. It may be
	// empty.
	Name string
	// FS is the robot's folder; see [OpenDir]. Nothing outside it is read.
	FS fs.FS
	// Library holds the files behind "@edged//". It may be nil.
	Library fs.FS
	// Entry are the files to run, in order; the default is main.star.
	Entry []string
	// Predeclared are the names scripts have besides those of [Universe].
	Predeclared starlark.StringDict
	// Limits bound the top level of each file.
	Limits Limits
	// Locals are set on the threads that load, for builtins to find.
	Locals map[string]any
	// Cover, if not nil, counts the lines that run.
	Cover *Cover

	readText func(path string) (string, error) // in a host, instead of FS and Library
}

// Program is a loaded robot folder: frozen modules and the callbacks they
// registered. It is immutable but for Start.
type Program struct {
	Modules []*Module // in the order their top levels ended: what is loaded comes before who loads it
	Hash    string    // of all files, the same for the same text
	entry   []string
	load    *loader
}

// Module is one loaded file.
type Module struct {
	Path    string // as load names it: "lib/doors.star", "@edged//patrol.star"
	File    string // as messages name it: "guard/lib/doors.star"
	Text    string
	Globals starlark.StringDict // frozen
	Loads   []string            // paths of the modules it loads
}

// Main returns the first entry file.
func (p *Program) Main() *Module { return p.Module(p.entry[0]) }

// Module returns a module by its path, or nil.
func (p *Program) Module(path string) *Module {
	for _, m := range p.Modules {
		if m.Path == path {
			return m
		}
	}
	return nil
}

// Functions returns the names of the module's functions with a prefix, in the
// order they are written.
func (m *Module) Functions(prefix string) []string {
	type def struct {
		name string
		line int32
	}
	var defs []def
	for name, v := range m.Globals {
		f, ok := v.(*starlark.Function)
		if ok && strings.HasPrefix(name, prefix) && f.Position().Filename() == m.File {
			defs = append(defs, def{name, f.Position().Line})
		}
	}
	sort.Slice(defs, func(i, j int) bool {
		return cmp.Or(cmp.Compare(defs[i].line, defs[j].line), cmp.Compare(defs[i].name, defs[j].name)) < 0
	})
	names := make([]string, len(defs))
	for i, d := range defs {
		names[i] = d.name
	}
	return names
}

// Start runs what builtins handed to [OnFrozen] while the program loaded, in
// that order, and from then on at once. It must be called once, when the
// program takes over.
func (p *Program) Start() {
	l := p.load
	for {
		l.mu.Lock()
		todo := l.onFrozen
		l.onFrozen = nil
		l.started = len(todo) == 0
		l.mu.Unlock()
		if len(todo) == 0 {
			return
		}
		for _, f := range todo {
			f()
		}
	}
}

// callerKey holds, on a thread that answers a request of an isolated script, the
// place of the call in the script.
const callerKey = "edged.caller"

// Caller is the place of the statement that calls the builtin which runs on a
// thread.
func Caller(t *starlark.Thread) Position {
	if at, ok := t.Local(callerKey).(Position); ok {
		at.File = at.File[:min(len(at.File), 256)]
		return at
	}
	if t.CallStackDepth() < 2 {
		return Position{}
	}
	p := t.CallFrame(1).Pos
	return Position{File: p.Filename(), Line: int(p.Line), Col: int(p.Col)}
}

// OnFrozen runs f when the program that is loading on the thread has been
// loaded, frozen and started, or at once if no load is going on. Builtins that
// hand a callback to another goroutine do it in f. If the load fails, f never
// runs.
func OnFrozen(t *starlark.Thread, f func()) {
	l, ok := t.Local(loaderKey).(*loader)
	if ok {
		l.mu.Lock()
		if !l.started {
			l.onFrozen = append(l.onFrozen, f)
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
	}
	f()
}

// Loading reports whether a module's top level is running on the thread.
func Loading(t *starlark.Thread) bool {
	l, ok := t.Local(loaderKey).(*loader)
	if !ok {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.started
}

// OpenDir opens a robot's folder so that nothing outside it can be reached: no
// .., no absolute path, no symbolic link out. The caller closes the root when
// the last load is done.
func OpenDir(dir string) (*os.Root, fs.FS, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("script: open %s: %w", dir, err)
	}
	return root, root.FS(), nil
}

// options are the dialect: standard Starlark with while, control flow at top
// level, recursion and sets.
func dialect() *syntax.FileOptions {
	return &syntax.FileOptions{Set: true, While: true, TopLevelControl: true, GlobalReassign: true, Recursion: true}
}

// Load reads, checks and runs the entry files and all they load, and freezes
// the result. It runs no callback: see [Program.Start]. The error is an *Error
// or Errors.
func (e *Engine) Load(ctx context.Context, s Source) (*Program, error) {
	if len(s.Entry) == 0 {
		s.Entry = []string{"main.star"}
	}
	l := &loader{e: e, s: s, ctx: ctx, names: names(s.Predeclared), modules: make(map[string]*Module)}
	for _, entry := range s.Entry {
		if _, err := l.load(entry); err != nil {
			return nil, err
		}
	}
	for _, v := range l.kept {
		v.Freeze()
	}
	h := sha256.New()
	sorted := slices.SortedFunc(slices.Values(l.done), func(a, b *Module) int { return strings.Compare(a.Path, b.Path) })
	for _, m := range sorted {
		fmt.Fprintf(h, "%s %d\n%s", m.Path, len(m.Text), m.Text)
	}
	return &Program{Modules: l.done, Hash: hex.EncodeToString(h.Sum(nil)), entry: s.Entry, load: l}, nil
}

// names are all names a script has: the caller's win over the universe's.
func names(predeclared starlark.StringDict) starlark.StringDict {
	all := Universe()
	for k, v := range predeclared {
		all[k] = v
	}
	return all
}

// read returns the text of a module.
func (s *Source) read(name string) (string, error) {
	if s.readText != nil {
		return s.readText(name)
	}
	fsys, file := s.FS, name
	if rest, ok := strings.CutPrefix(name, Library); ok {
		fsys, file = s.Library, rest
	}
	if fsys == nil {
		return "", errors.New("no such folder")
	}
	f, err := fsys.Open(file)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return "", missing(fsys, name, file)
		}
		if pe, ok := errors.AsType[*fs.PathError](err); ok {
			err = pe.Err
		}
		return "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", errors.New("not a file")
	}
	text, err := io.ReadAll(io.LimitReader(f, MaxSource+1))
	if err != nil {
		return "", err
	}
	if len(text) > MaxSource {
		return "", fmt.Errorf("larger than %d KiB", MaxSource>>10)
	}
	if !utf8.Valid(text) {
		return "", errors.New("not UTF-8 text")
	}
	return lines(string(text)), nil
}

// missing is the error for a file that is not there, with the name of one that
// is and looks like it.
func missing(fsys fs.FS, name, file string) error {
	e := &value.Error{Msg: "no such file"}
	var all []string
	_ = fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(p, ".star") {
			all = append(all, p)
		}
		if len(all) > 1000 {
			return fs.SkipAll
		}
		return nil
	})
	near := value.Nearest(file, all)
	if near == "" {
		for _, p := range all {
			if path.Base(p) == path.Base(file) {
				near = p
			}
		}
	}
	if near != "" {
		e.Hint = fmt.Sprintf("did you mean %q?", strings.TrimSuffix(name, file)+near)
	}
	return e
}

// clean returns the path of the module that a load statement in from names.
func clean(from, name string) (string, error) {
	prefix, file := "", name
	if rest, ok := strings.CutPrefix(name, Library); ok {
		prefix, file = Library, rest
	} else if strings.HasPrefix(from, Library) {
		prefix = Library // a library file names its neighbours plainly
	}
	switch {
	case strings.HasPrefix(file, "@"):
		return "", fmt.Errorf("only %s… and files of the robot's own folder can be loaded", Library)
	case path.IsAbs(file) || strings.Contains(file, "\\") || strings.Contains(file, ":"):
		return "", errors.New("only files of the robot's own folder can be loaded, by a path from its top")
	case slices.Contains(strings.Split(file, "/"), ".."):
		return "", errors.New("the path leaves the robot's folder")
	case !strings.HasSuffix(file, ".star"):
		return "", errors.New("only .star files can be loaded")
	case !fs.ValidPath(file):
		return "", errors.New("not a plain path such as lib/doors.star")
	}
	return prefix + file, nil
}
