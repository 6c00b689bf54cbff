package lib

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"sync"
	"time"

	"go.starlark.net/starlark"

	"edged/starlark/script"
)

// Isolation makes [Load] run a folder in a child process with bounded memory,
// no files and no network: for scripts that came from elsewhere.
//
// Such scripts have the same API. What differs is seen from outside: the prompt
// doesn't see their names, and there is no linter and no coverage, which read
// the text.
type Isolation struct {
	// Command makes the command of the child, which must end in
	// [script.HostMain] with [HostNames].
	Command func() *exec.Cmd
	Memory  uint64        // of the child, in bytes; 64 MiB
	Grace   time.Duration // how long a call may go on after its limit before the child is killed; 500 ms
	here    bool          // in this process, for tests
}

// HostNames are the names that a child answers itself: they need nothing of the
// robot.
func HostNames() starlark.StringDict {
	all := Predeclared()
	return starlark.StringDict{"json": all["json"], "math": all["math"], "re": all["re"], "struct": all["struct"]}
}

// host is the child of an isolated behaviour.
type host struct {
	kill  context.CancelFunc
	ended chan struct{} // closed when the child is gone
	err   error         // why, before ended is closed; nil if it was stopped
}

// stop ends the child and waits for its end.
func (h *host) stop() {
	if h != nil {
		h.kill()
		<-h.ended
	}
}

// loadIsolated is Load by way of a child.
func (b *Behaviour) loadIsolated(ctx context.Context, src script.Source, o Isolation) error {
	serving, kill := context.WithCancel(context.WithoutCancel(ctx))
	h := &host{kill: kill, ended: make(chan struct{})}
	type loaded struct {
		p   *script.RemoteProgram
		err error
	}
	first := make(chan loaded, 1)
	var once sync.Once
	say := func(l loaded) { once.Do(func() { first <- l }) }
	var local starlark.StringDict
	if o.here {
		local = HostNames()
	}
	child := b.engine.Isolate(script.Isolation{
		Source: src, Command: o.Command, Memory: o.Memory, Grace: o.Grace, Local: local,
		Loaded: func(p *script.RemoteProgram, err error) { say(loaded{p, err}) },
	})
	time.AfterFunc(0, func() {
		err := child.Serve(serving)
		if serving.Err() == nil {
			h.err = fmt.Errorf("lib: %s: %w", b.folder, cmp.Or(err, script.ErrHostEnded))
		}
		close(h.ended)
		say(loaded{err: cmp.Or(err, script.ErrHostEnded)})
	})
	var l loaded
	select {
	case l = <-first:
	case <-ctx.Done():
		l.err = context.Cause(ctx)
	}
	if l.err != nil {
		h.stop()
		return l.err
	}
	b.remote, b.child = l.p, h
	return nil
}

// ServeHost is the life of the child that an isolated behaviour has: it waits
// until the child is gone and gives the reason, or until ctx ends, which ends
// the child. The reason is nil if it was stopped with the behaviour. Handlers of
// a behaviour whose child is gone fail: load the folder again and [Swap].
func (b *Behaviour) ServeHost(ctx context.Context) error {
	if b.child == nil {
		<-ctx.Done()
		return nil
	}
	select {
	case <-b.child.ended:
		return b.child.err
	case <-ctx.Done():
		b.child.stop()
		return nil
	}
}

// Isolated reports whether the scripts run in a child process.
func (b *Behaviour) Isolated() bool { return b.isolated }

// startProgram lets the callbacks that were declared go live.
func (b *Behaviour) startProgram() {
	if b.remote != nil {
		b.remote.Start()
		return
	}
	b.program.Start()
}

// global finds a function among the globals of the loaded files.
func (b *Behaviour) global(fn starlark.Callable) (module, name string, ok bool) {
	if r, is := fn.(*script.RemoteFunc); is && b.remote != nil {
		for _, m := range b.remote.Modules {
			if f := m.Functions[r.Name()]; f != nil {
				if same, err := starlark.Equal(f, r); err == nil && same {
					return m.Path, r.Name(), true
				}
			}
		}
		return "", "", false
	}
	for _, m := range b.program.Modules {
		if v, found := m.Globals[fn.Name()]; found && v == starlark.Value(fn) {
			return m.Path, fn.Name(), true
		}
	}
	return "", "", false
}

// lookup is the way back.
func (b *Behaviour) lookup(module, name string) starlark.Callable {
	if b.remote != nil {
		for _, m := range b.remote.Modules {
			if f := m.Functions[name]; m.Path == module && f != nil {
				return f
			}
		}
		return nil
	}
	m := b.program.Module(module)
	if m == nil {
		return nil
	}
	fn, _ := m.Globals[name].(starlark.Callable)
	return fn
}

// Hash is that of all files that were loaded: the same text, the same hash.
func (b *Behaviour) Hash() string {
	if b.remote != nil {
		return b.remote.Hash
	}
	return b.program.Hash
}

// files lists what was loaded, as messages name it.
func (b *Behaviour) files() []string {
	var list []string
	if b.remote != nil {
		for _, m := range b.remote.Modules {
			list = append(list, m.File)
		}
		return list
	}
	for _, m := range b.program.Modules {
		list = append(list, m.File)
	}
	return list
}
