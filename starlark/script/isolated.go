package script

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"edged/starlark/value"
)

// Isolation sets up an isolated script host.
type Isolation struct {
	// Source is what to load. Its predeclared names stay in the runtime: the
	// host sees them as messages, constants excepted.
	Source Source
	// Command makes the command of the host, which must end in [HostMain]. Its
	// standard streams and environment are set here.
	Command func() *exec.Cmd
	// Local, if it is set, runs the host in this process, with these names as in
	// [HostMain], for tests: what goes between the two is the same, and nothing
	// is bounded but by the engine's limits.
	Local starlark.StringDict
	// Memory is what scripts may use in the host, in bytes, beyond what the
	// empty process takes; the default is 64 MiB.
	Memory uint64
	// Grace is how long after its limit a call may go on before the host is
	// killed; the default is half a second.
	Grace time.Duration
	// Dispatcher answers what scripts call; nil means Source.Predeclared does.
	Dispatcher Dispatcher
	// Spawn runs f beside the caller, for requests of scripts, which may wait.
	// The default starts it by a timer.
	Spawn func(f func())
	// Loaded is told of every load: after the start and after each restart of
	// the host. The program must be started with its Start.
	Loaded func(p *RemoteProgram, err error)
}

// Dispatcher answers the calls of isolated scripts: a builtin by its full name
// ("bb.set"), with arguments as the script gave them. Functions among them are
// *[RemoteFunc]. It is called concurrently, on a thread that carries the
// context of the call.
type Dispatcher interface {
	Dispatch(t *starlark.Thread, name string, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error)
}

// Isolated runs one robot folder in a child process with bounded memory, no
// files and no network. It is a service: Serve starts the child, loads the
// folder and answers its calls until the context ends (nil) or the child does
// (an error), so a supervisor restarts it. Functions of the scripts come to the
// runtime as [RemoteFunc], which are called like any other; those of an earlier
// child fail with [ErrHostEnded].
type Isolated struct {
	e *Engine
	o Isolation

	mu  sync.Mutex // guards cur
	cur *session
}

// ErrHostEnded is in the chain of errors of calls whose host is gone.
var ErrHostEnded = errors.New("script host ended")

// Isolate makes an isolated host that shares the engine's limits and its print.
func (e *Engine) Isolate(o Isolation) *Isolated {
	if o.Memory == 0 {
		o.Memory = 64 << 20
	}
	if o.Grace == 0 {
		o.Grace = 500 * time.Millisecond
	}
	if o.Spawn == nil {
		o.Spawn = spawn
	}
	if o.Dispatcher == nil {
		o.Dispatcher = byName(o.Source.Predeclared)
	}
	if len(o.Source.Entry) == 0 {
		o.Source.Entry = []string{"main.star"}
	}
	return &Isolated{e: e, o: o}
}

// Serve runs one child from start to end.
func (i *Isolated) Serve(ctx context.Context) error {
	s, err := i.start(ctx)
	if err != nil {
		return fmt.Errorf("script: start host: %w", err)
	}
	i.mu.Lock()
	i.cur = s
	i.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { s.kill(context.Cause(ctx)) })
	defer stop()
	err = s.serve()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// start makes the child and says hello to it.
func (i *Isolated) start(ctx context.Context) (*session, error) {
	if i.o.Local != nil {
		return i.startHere(ctx), nil
	}
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		inR.Close()
		inW.Close()
		return nil, err
	}
	s := newSession(ctx, i, inW, outR)
	cmd := i.o.Command()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inR, outW, &s.stderr
	cmd.Env = append([]string{"GOMAXPROCS=1", "GOTRACEBACK=none", "GODEBUG=containermaxprocs=0,updatemaxprocs=0"}, cmd.Env...)
	cmd.Dir = "/"
	keepFiles()
	err = cmd.Start()
	inR.Close()
	outW.Close()
	if err != nil {
		inW.Close()
		outR.Close()
		return nil, err
	}
	s.cmd = cmd
	hello := newFrame(frameHello)
	hello.uint(i.o.Memory)
	hello.limits(i.e.limits)
	s.send(hello)
	return s, nil
}

// startHere runs a host on pipes of this process.
func (i *Isolated) startHere(ctx context.Context) *session {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	s := newSession(ctx, i, inW, outR)
	h := newHost(outW, i.o.Local, Options{Limits: i.e.limits})
	spawn(func() {
		_ = h.send(newFrame(frameReady))
		_ = h.serve(inR)
		inR.Close()
		outW.Close()
	})
	return s
}

// RemoteProgram is a folder loaded by an isolated host.
type RemoteProgram struct {
	Hash    string
	Modules []RemoteModule
	load    *loader
	texts   map[string]string // by path
}

// Text gives the text of a file, under the name that messages give it.
func (p *RemoteProgram) Text(file string) (string, bool) {
	for _, m := range p.Modules {
		if m.File == file {
			text, ok := p.texts[m.Path]
			return text, ok
		}
	}
	return "", false
}

// RemoteModule is a file of it.
type RemoteModule struct {
	Path, File string
	Functions  map[string]*RemoteFunc
	Names      []string // of the functions, as they are written
}

// Start runs what builtins handed to [OnFrozen] while it loaded. It must be
// called once.
func (p *RemoteProgram) Start() { (&Program{load: p.load}).Start() }

// Function returns a function of the first entry file, or nil.
func (p *RemoteProgram) Function(name string) *RemoteFunc {
	if len(p.Modules) == 0 {
		return nil
	}
	return p.Modules[len(p.Modules)-1].Functions[name]
}

// RemoteFunc is a function of an isolated script: a script value that can be
// called like any other, by [Engine.Call] too.
type RemoteFunc struct {
	s    *session
	id   uint64
	name string
	pos  Position
	sig  signature
}

// Name returns the function's name in the script.
func (f *RemoteFunc) Name() string         { return f.name }
func (f *RemoteFunc) String() string       { return "<function " + f.name + ">" }
func (f *RemoteFunc) Type() string         { return "function" }
func (f *RemoteFunc) Freeze()              {}
func (f *RemoteFunc) Truth() starlark.Bool { return true }

// Hash implements starlark.Value.
func (f *RemoteFunc) Hash() (uint32, error) { return starlark.String(f.name).Hash() }

// CompareSameType implements starlark.Comparable: the same function of the same
// host is equal.
func (f *RemoteFunc) CompareSameType(op syntax.Token, y starlark.Value, _ int) (bool, error) {
	g, ok := y.(*RemoteFunc)
	same := ok && g.s == f.s && g.id == f.id
	switch op {
	case syntax.EQL:
		return same, nil
	case syntax.NEQ:
		return !same, nil
	}
	return false, fmt.Errorf("function %s function not implemented", op)
}

// CallInternal implements starlark.Callable. The time the call takes is the
// host's, not that of the thread it is made on.
func (f *RemoteFunc) CallInternal(t *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	l := f.s.i.e.limits
	if r := runnerOf(t); r != nil {
		l = r.limits
		r.Pause()
		defer r.Resume()
	}
	return f.s.call(value.ContextOf(t), f, args, kwargs, l)
}

// byName answers calls from predeclared names.
type byName starlark.StringDict

// Dispatch implements [Dispatcher].
func (n byName) Dispatch(t *starlark.Thread, name string, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	fn, err := lookup(starlark.StringDict(n), name)
	if err != nil {
		return nil, err
	}
	return starlark.Call(t, fn, args, kwargs)
}
