package script

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"strings"
	"sync"

	"go.starlark.net/starlark"

	"edged/starlark/value"
)

const loaderKey = "edged.loader"

// loader is one load going on. All but what mu guards belongs to the goroutine
// that loads.
type loader struct {
	e       *Engine
	s       Source
	ctx     context.Context
	names   starlark.StringDict
	modules map[string]*Module // nil value: being loaded
	open    []string           // paths being loaded, outermost first
	done    []*Module
	kept    []starlark.Value // to freeze when all is loaded

	mu       sync.Mutex // guards the rest
	onFrozen []func()
	started  bool
}

// loadRunner is the runner of a thread that loads: a value.Keeper.
type loadRunner struct {
	*runner
	l *loader
}

// Keep implements value.Keeper.
func (r loadRunner) Keep(v starlark.Value) { r.l.kept = append(r.l.kept, v) }

// runnerOf returns the runner of a thread of an engine, or nil.
func runnerOf(t *starlark.Thread) *runner {
	switch r := value.RunnerOf(t).(type) {
	case *runner:
		return r
	case loadRunner:
		return r.runner
	}
	return nil
}

func (l *loader) load(name string) (*Module, error) {
	if m, seen := l.modules[name]; seen {
		if m != nil {
			return m, nil
		}
		for i, p := range l.open {
			if p == name {
				return nil, &value.Error{Msg: fmt.Sprintf("load cycle: %s", strings.Join(append(l.open[i:len(l.open):len(l.open)], name), " → "))}
			}
		}
	}
	if len(l.modules) >= maxModules {
		return nil, fmt.Errorf("more than %d files", maxModules)
	}
	text, err := l.s.read(name)
	if err != nil {
		if len(l.open) > 0 {
			return nil, err
		}
		e := &Error{Position: Position{File: l.display(name)}, Msg: err.Error(), Err: err}
		if ve, ok := value.AsError(err); ok {
			e.Msg, e.Hint = ve.Msg, ve.Hint
		}
		return nil, e
	}
	m := &Module{Path: name, File: l.display(name), Text: text}
	l.modules[name] = nil
	l.open = append(l.open, name)
	defer func() { l.open = l.open[:len(l.open)-1] }()

	src := &source{name: m.File, text: text}
	l.e.sources.Store(m.File, src)
	prog, predeclared, err := l.compile(m, src)
	if err != nil {
		return nil, err
	}
	for i := range prog.NumLoads() {
		s, _ := prog.Load(i)
		m.Loads = append(m.Loads, s)
	}
	if err := l.init(m, prog, predeclared); err != nil {
		return nil, err
	}
	l.modules[name] = m
	l.done = append(l.done, m)
	return m, nil
}

// display is a module's name in messages.
func (l *loader) display(name string) string {
	if strings.HasPrefix(name, Library) {
		return name
	}
	return path.Join(l.s.Name, name)
}

// compile makes a module's program and the names it runs with.
func (l *loader) compile(m *Module, src *source) (*starlark.Program, starlark.StringDict, error) {
	f, err := dialect().Parse(m.File, m.Text, 0)
	if err != nil {
		return nil, nil, src.explainStatic(err, l.names)
	}
	names := maps.Clone(l.names)
	maps.Copy(names, rewriteComparisons(f))
	if l.s.Cover != nil {
		maps.Copy(names, l.s.Cover.rewrite(f, m.File))
	}
	prog, err := starlark.FileProgram(f, names.Has)
	if err != nil {
		return nil, nil, src.explainStatic(err, l.names)
	}
	return prog, names, nil
}

// init runs a module's top level and freezes its globals.
func (l *loader) init(m *Module, prog *starlark.Program, predeclared starlark.StringDict) error {
	r := l.e.newRunner()
	t := r.thread
	value.SetRunner(t, loadRunner{r, l})
	t.SetLocal(loaderKey, l)
	for k, v := range l.s.Locals {
		t.SetLocal(k, v)
	}
	t.Load = func(_ *starlark.Thread, name string) (starlark.StringDict, error) {
		r.Pause() // the other module has limits of its own
		defer r.Resume()
		p, err := clean(m.Path, name)
		if err != nil {
			return nil, &value.Error{Msg: fmt.Sprintf("load %q: %s", name, err)}
		}
		dep, err := l.load(p)
		if err == nil {
			return dep.Globals, nil
		}
		if ve, ok := err.(*value.Error); ok {
			return nil, &value.Error{Msg: fmt.Sprintf("load %q: %s", name, ve.Msg), Hint: ve.Hint}
		}
		return nil, err
	}
	top := &initializer{prog: prog, predeclared: predeclared}
	_, err := r.run(l.ctx, top, nil, nil, l.s.Limits.or(l.e.limits))
	if err != nil {
		return l.e.explain(l.ctx, top, err, r.killed)
	}
	m.Globals = top.globals
	m.Globals.Freeze()
	return nil
}

// initializer is a module's top level as something that can be called, so that
// it runs like every other call.
type initializer struct {
	prog        *starlark.Program
	predeclared starlark.StringDict
	globals     starlark.StringDict
}

var _ starlark.Callable = (*initializer)(nil)

func (i *initializer) CallInternal(t *starlark.Thread, _ starlark.Tuple, _ []starlark.Tuple) (_ starlark.Value, err error) {
	i.globals, err = i.prog.Init(t, i.predeclared)
	return starlark.None, err
}

func (i *initializer) Name() string          { return toplevel }
func (i *initializer) String() string        { return toplevel }
func (i *initializer) Type() string          { return "module" }
func (i *initializer) Freeze()               {}
func (i *initializer) Truth() starlark.Bool  { return true }
func (i *initializer) Hash() (uint32, error) { return 0, errors.New("unhashable") }
