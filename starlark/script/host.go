package script

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"go.starlark.net/starlark"

	"edged/starlark/value"
)

// Host is the other side of [Isolated]: the process that runs scripts from
// elsewhere. It has one pipe in and one out and, after the first message, no
// way to open anything else. It parses, loads and runs; every builtin of the
// runtime is a message to the parent.

// HostMain runs a script host on standard input and output until the input
// ends, and returns the exit status. It is the whole of the verb script-host.
// The given names are those that need nothing of the runtime (json, math, re):
// the host answers them itself. It changes the process's limits and never gives
// them back.
func HostMain(local starlark.StringDict) int {
	in, out := bufio.NewReader(os.Stdin), os.Stdout
	kind, d, err := readFrame(in)
	if err != nil || kind != frameHello {
		fmt.Fprintln(os.Stderr, "script-host: meant to be started by edged itself")
		return 2
	}
	memory, l := d.uint(), d.limits()
	if d.err != nil {
		return 2
	}
	runtime.GOMAXPROCS(1)
	debug.SetMaxStack(int(memory / 4))
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	debug.SetMemoryLimit(int64(m.Sys - m.HeapReleased + memory/2))
	if err := confine(memory); err != nil {
		fmt.Fprintln(os.Stderr, "script-host:", err)
		return 2
	}
	h := newHost(out, local, Options{Limits: l, Heap: memory / 2})
	h.tidyAt = memory / 4
	h.send(newFrame(frameReady))
	if err := h.serve(in); err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, "script-host:", err)
		return 2
	}
	return 0
}

type host struct {
	e      *Engine
	local  starlark.StringDict
	tidyAt uint64 // bytes on the heap after a call from which they are collected; 0 is never

	outMu sync.Mutex // guards writes to out
	out   io.Writer

	mu      sync.Mutex // guards the rest
	nextID  uint64
	funcs   map[uint64]*exported
	ids     map[starlark.Callable]uint64
	waiting map[uint64]chan reply
	calls   map[uint64]context.CancelFunc
	shared  map[uint64]*starlark.Dict // by the runtime's number
	own     map[*starlark.Dict]bool   // the same
	dropped []uint64                  // objects no longer used, told with the next frame
}

// exported is a function the runtime holds.
type exported struct {
	fn   starlark.Callable
	refs int
}

type reply struct {
	v   starlark.Value
	err error
}

func newHost(out io.Writer, local starlark.StringDict, o Options) *host {
	h := &host{
		local: local, out: out,
		funcs: make(map[uint64]*exported), ids: make(map[starlark.Callable]uint64),
		shared: make(map[uint64]*starlark.Dict), own: make(map[*starlark.Dict]bool),
		waiting: make(map[uint64]chan reply), calls: make(map[uint64]context.CancelFunc),
	}
	o.Print = h.print
	h.e = New(o)
	return h
}

// spawn runs f beside the reader. A host's process exists for its scripts and
// ends with them, so nobody waits for f.
func spawn(f func()) { time.AfterFunc(0, f) }

func (h *host) serve(in io.Reader) error {
	for {
		kind, d, err := readFrame(in)
		if err != nil {
			return err
		}
		d.foreign = h.decodeForeign
		switch kind {
		case frameLoad:
			h.onLoad(d)
		case frameCall:
			h.onCall(d)
		case frameCancel:
			h.mu.Lock()
			if cancel := h.calls[d.uint()]; cancel != nil {
				cancel()
			}
			h.mu.Unlock()
		case frameReply:
			id := d.uint()
			err := d.error()
			r := reply{err: err}
			if err == nil {
				r.v, r.err = d.value(0), d.err
			}
			h.mu.Lock()
			if ch := h.waiting[id]; ch != nil {
				ch <- r // has room for one
				delete(h.waiting, id)
			}
			h.mu.Unlock()
		case frameForget:
			h.forget(d)
		default:
			return errWire
		}
		if d.err != nil && kind != frameReply {
			return d.err
		}
	}
}

func (h *host) send(e *encoder) error {
	frame, err := e.frame()
	if err != nil {
		return err
	}
	h.mu.Lock()
	dropped := h.dropped
	h.dropped = nil
	h.mu.Unlock()
	h.outMu.Lock()
	defer h.outMu.Unlock()
	if len(dropped) > 0 {
		f := newFrame(frameDrop)
		f.uint(uint64(len(dropped)))
		for _, id := range dropped {
			f.uint(id)
		}
		b, _ := f.frame()
		_, _ = h.out.Write(b)
	}
	_, err = h.out.Write(frame)
	return err
}

func (h *host) newFrame(kind byte) *encoder {
	e := newFrame(kind)
	e.foreign = h.encodeForeign
	return e
}

func (h *host) onLoad(d *decoder) {
	call := d.uint()
	name, entry, l := d.text(), d.texts(), d.limits()
	api, ok := d.value(0).(*starlark.Dict)
	if d.err != nil || !ok {
		d.fail()
		return
	}
	names := starlark.StringDict{}
	for k, v := range api.Entries() {
		names[string(k.(starlark.String))] = v
	}
	for k, v := range h.local {
		if names.Has(k) {
			names[k] = v
		}
	}
	spawn(func() {
		ctx := h.begin(call)
		p, err := h.e.Load(ctx, Source{Name: name, Entry: entry, Predeclared: names, Limits: l,
			readText: func(path string) (string, error) { return h.readText(ctx, path) }})
		h.end(call)
		e := h.newFrame(frameLoaded)
		e.uint(call)
		e.error(err)
		if err == nil {
			p.Start()
			h.describe(e, p)
		}
		h.sendOr(e, frameLoaded, call)
	})
}

// describe writes the modules of a program with their functions.
func (h *host) describe(e *encoder, p *Program) {
	e.text(p.Hash)
	e.uint(uint64(len(p.Modules)))
	for _, m := range p.Modules {
		e.text(m.Path)
		e.text(m.File)
		names := m.Functions("")
		e.uint(uint64(len(names)))
		for _, n := range names {
			e.text(n)
			e.value(m.Globals[n], 0)
		}
	}
}

func (h *host) onCall(d *decoder) {
	call, id, l := d.uint(), d.uint(), d.limits()
	args, kwargs := d.args()
	if d.err != nil {
		return
	}
	h.mu.Lock()
	f := h.funcs[id]
	h.mu.Unlock()
	ctx := h.begin(call) // before the next frame is read: it may be the cancel
	spawn(func() {
		defer h.end(call)
		e := h.newFrame(frameResult)
		e.uint(call)
		var v starlark.Value
		err := fmt.Errorf("the function is no longer there")
		if f != nil {
			for _, a := range args {
				a.Freeze()
			}
			v, err = h.e.Call(ctx, f.fn, args, kwargs, l)
		}
		e.error(err)
		if err == nil {
			e.value(v, 0)
		}
		args, kwargs, v = nil, nil, nil
		h.sendOr(e, frameResult, call)
		h.tidy()
	})
}

// tidy collects what a call has left, if it is much: where the heap can't grow,
// what is dead takes the room of what the next call needs.
func (h *host) tidy() {
	if h.tidyAt > 0 && h.e.watch.heap() > h.tidyAt {
		runtime.GC()
	}
}

// sendOr sends a frame, or, if its value cannot be sent, one that says so.
func (h *host) sendOr(e *encoder, kind byte, call uint64) {
	if err := h.send(e); err != nil {
		f := newFrame(kind)
		f.uint(call)
		f.error(err)
		_ = h.send(f)
	}
}

type callKey struct{}

func (h *host) begin(call uint64) context.Context {
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), callKey{}, call))
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls[call] = cancel
	return ctx
}

func (h *host) end(call uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if cancel := h.calls[call]; cancel != nil {
		cancel()
		delete(h.calls, call)
	}
}

// What a request asks for.
const (
	opCall   = iota // a builtin, by name
	opInvoke        // an object, as a function
	opMethod        // a method of an object, by name
	opIndex         // x[key] of an object
	opRead          // the text of a file
	opAttr          // an attribute of an object, as it is now
	opEqual         // whether two objects are equal
)

// answerTime is how long a script whose call is over waits for the answer of the
// runtime, which knows it, too: a workflow that was cancelled says so.
const answerTime = 250 * time.Millisecond

// request asks the runtime and waits for the answer, until ctx has ended.
func (h *host) request(ctx context.Context, at Position, op byte, target uint64, name string, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	call, _ := ctx.Value(callKey{}).(uint64)
	ch := make(chan reply, 1)
	h.mu.Lock()
	h.nextID++
	id := h.nextID
	h.waiting[id] = ch
	h.mu.Unlock()
	e := h.newFrame(frameRequest)
	e.uint(id)
	e.uint(call)
	e.byte(op)
	e.uint(target)
	e.text(name)
	e.position(at)
	e.args(args, kwargs)
	if err := h.send(e); err != nil {
		h.mu.Lock()
		delete(h.waiting, id)
		h.mu.Unlock()
		return nil, err
	}
	select {
	case r := <-ch:
		return r.v, r.err
	case <-ctx.Done():
	}
	late := time.NewTimer(answerTime)
	defer late.Stop()
	select {
	case r := <-ch:
		return r.v, r.err
	case <-late.C:
	}
	h.mu.Lock()
	delete(h.waiting, id)
	h.mu.Unlock()
	return nil, context.Cause(ctx)
}

// ask is request for a builtin: the script's clock stands while it waits.
func (h *host) ask(t *starlark.Thread, op byte, target uint64, name string, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if r := value.RunnerOf(t); r != nil {
		r.Pause()
		defer r.Resume()
	}
	return h.request(value.ContextOf(t), Caller(t), op, target, name, args, kwargs)
}

func (h *host) readText(ctx context.Context, path string) (string, error) {
	v, err := h.request(ctx, Position{}, opRead, 0, path, starlark.Tuple{}, nil)
	if err != nil {
		return "", err
	}
	s, ok := v.(starlark.String)
	if !ok {
		return "", errWire
	}
	return string(s), nil
}

func (h *host) print(ctx context.Context, at Position, text string) {
	call, _ := ctx.Value(callKey{}).(uint64)
	e := newFrame(framePrint)
	e.uint(call)
	e.position(at)
	e.text(clip(text))
	_ = h.send(e)
}

// export gives a function of a script a number the runtime can call it by.
func (h *host) export(fn starlark.Callable) uint64 {
	fn.Freeze() // it will be called from other threads
	h.mu.Lock()
	defer h.mu.Unlock()
	id, ok := h.ids[fn]
	if !ok {
		h.nextID++
		id = h.nextID
		h.ids[fn] = id
		h.funcs[id] = &exported{fn: fn}
	}
	h.funcs[id].refs++
	return id
}

func (h *host) forget(d *decoder) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for n := d.count(); n > 0 && d.err == nil; n-- {
		id := d.uint()
		if dict := h.shared[id]; dict != nil {
			delete(h.shared, id)
			delete(h.own, dict)
		}
		if f := h.funcs[id]; f != nil {
			if f.refs--; f.refs <= 0 {
				delete(h.funcs, id)
				delete(h.ids, f.fn)
			}
		}
	}
}
