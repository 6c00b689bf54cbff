package script

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"go.starlark.net/starlark"

	"edged/starlark/value"
)

// What goes between the runtime and an isolated script, and what the script
// may ask for: what it was given, by the numbers it was given them under.

// sendLoad tells the host what to load and what there is.
func (s *session) sendLoad() {
	src := s.i.o.Source
	l := src.Limits.or(s.i.e.limits)
	id, c, err := s.begin(s.ctx, nil, l)
	if err != nil {
		return
	}
	e := s.newFrame(frameLoad)
	e.uint(id)
	e.text(src.Name)
	e.texts(src.Entry)
	e.limits(l)
	s.api(e, src.Predeclared)
	if err := s.send(e); err != nil {
		s.kill(err)
		return
	}
	c.resume()
}

// api writes the predeclared names: builtins as names, modules with their
// members, data as it is. What cannot be sent is left out.
func (s *session) api(e *encoder, names starlark.StringDict) {
	e.byte(wireDict)
	n := 0
	var entries encoder
	entries.nodes, entries.foreign = value.MaxNodes, s.encodeForeign
	for _, name := range names.Keys() {
		if s.apiEntry(&entries, name, name, names[name]) {
			n++
		}
	}
	e.uint(uint64(n))
	e.buf = append(e.buf, entries.buf...)
	e.fail(entries.err)
}

func (s *session) apiEntry(e *encoder, key, full string, v starlark.Value) bool {
	if m, ok := v.(*value.Module); ok {
		e.value(starlark.String(key), 0)
		s.module(e, full, m)
		return true
	}
	one := encoder{nodes: value.MaxNodes, foreign: s.encodeForeign}
	_, fn := v.(starlark.Callable)
	if known, err := lookup(s.i.o.Source.Predeclared, full); fn && err == nil && known == v {
		one.byte(wireAPI)
		one.text(full)
	} else {
		one.value(v, 0)
	}
	if one.err != nil {
		return false
	}
	e.value(starlark.String(key), 0)
	e.buf = append(e.buf, one.buf...)
	e.sent = append(e.sent, one.sent...)
	return true
}

// module writes one: what is predeclared under its name by that name, other
// members as what they are.
func (s *session) module(e *encoder, full string, m *value.Module) {
	e.byte(wireModule)
	e.text(m.Name())
	e.text(m.Doc())
	members := encoder{nodes: value.MaxNodes, foreign: s.encodeForeign}
	n := 0
	for _, name := range m.AttrNames() {
		x, _ := m.Attr(name)
		if s.apiEntry(&members, name, full+"."+name, x) {
			n++
		}
	}
	e.byte(wireDict)
	e.uint(uint64(n))
	e.buf = append(e.buf, members.buf...)
	e.sent = append(e.sent, members.sent...)
}

func (s *session) onLoaded(d *decoder) {
	c := s.take(d.uint())
	if c == nil {
		return
	}
	err := d.error()
	s.mu.Lock()
	p := &RemoteProgram{load: s.load, texts: s.texts}
	s.texts = nil // nothing is read from now on that anybody asks for
	s.mu.Unlock()
	if err == nil {
		p.Hash = d.text()
		for n := d.count(); n > 0 && d.err == nil; n-- {
			m := RemoteModule{Path: d.text(), File: d.text(), Functions: make(map[string]*RemoteFunc)}
			for k := d.count(); k > 0 && d.err == nil; k-- {
				name := d.text()
				f, ok := d.value(0).(*RemoteFunc)
				if !ok {
					d.fail()
					return
				}
				m.Functions[name] = f
				m.Names = append(m.Names, name)
			}
			p.Modules = append(p.Modules, m)
		}
		err = d.err
	}
	close(c.done)
	if s.i.o.Loaded == nil {
		return
	}
	if err != nil {
		p, err = nil, s.explain(c, err)
	}
	s.i.o.Spawn(func() { s.i.o.Loaded(p, err) })
}

// onRequest answers one request, beside the reader.
func (s *session) onRequest(d *decoder) error {
	id, call, op, target, name, at := d.uint(), d.uint(), d.byte(), d.uint(), d.text(), d.position()
	args, kwargs := d.args()
	if d.err != nil {
		return d.err
	}
	c := s.get(call)
	s.mu.Lock()
	s.requests++
	tooMany := s.requests > maxRequests
	s.mu.Unlock()
	if tooMany {
		return fmt.Errorf("more than %d requests at once", maxRequests)
	}
	if c != nil {
		c.pause()
	}
	s.i.o.Spawn(func() {
		v, err := s.answer(c, at, op, target, name, args, kwargs)
		e := s.newFrame(frameReply)
		e.uint(id)
		e.error(err)
		if err == nil {
			e.value(v, 0)
		}
		if e.err != nil {
			err := e.err
			e = newFrame(frameReply)
			e.uint(id)
			e.error(err)
		}
		s.mu.Lock()
		s.requests--
		s.mu.Unlock()
		if c != nil {
			c.resume()
		}
		if c != nil && c.f != nil && c.ctx.Err() != nil {
			// The host knows it before it gets the answer, so that the script does
			// not take the end of the call for an answer.
			cancel := newFrame(frameCancel)
			cancel.uint(call)
			_ = s.send(cancel)
		}
		_ = s.send(e)
	})
	return nil
}

func (s *session) answer(c *remoteCall, at Position, op byte, target uint64, name string, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	switch op {
	case opRead:
		text, err := s.i.o.Source.read(name)
		if err == nil {
			s.mu.Lock()
			if s.texts == nil {
				s.texts = make(map[string]string)
			}
			if s.kept += len(text); s.kept <= maxTexts {
				s.texts[name] = text
			}
			s.mu.Unlock()
		}
		return starlark.String(text), err
	case opCall:
		return s.onThread(c, at, func(t *starlark.Thread) (starlark.Value, error) {
			return s.i.o.Dispatcher.Dispatch(t, name, args, kwargs)
		})
	}
	s.mu.Lock()
	v := s.objects[target]
	s.mu.Unlock()
	if v == nil {
		return nil, errors.New("this object is no longer there: what a handler is given is valid until it returns")
	}
	switch op {
	case opInvoke:
		return s.onThread(c, at, func(t *starlark.Thread) (starlark.Value, error) { return starlark.Call(t, v, args, kwargs) })
	case opMethod:
		attrs, ok := v.(starlark.HasAttrs)
		if !ok {
			return nil, fmt.Errorf("%s has no methods", v.Type())
		}
		m, err := attrs.Attr(name)
		if err != nil {
			return nil, err
		}
		if m == nil {
			return nil, fmt.Errorf("%s has no %q", v.Type(), name)
		}
		return s.onThread(c, at, func(t *starlark.Thread) (starlark.Value, error) { return starlark.Call(t, m, args, kwargs) })
	case opAttr:
		o, ok := v.(starlark.HasAttrs)
		if !ok {
			return nil, errWire
		}
		x, err := o.Attr(name)
		if err == nil && x == nil {
			err = fmt.Errorf("%s has no %q", v.Type(), name)
		}
		return share(x), err
	case opEqual:
		if len(args) != 1 {
			return nil, errWire
		}
		same, err := starlark.Equal(v, args[0])
		return starlark.Bool(same), err
	case opIndex:
		m, ok := v.(starlark.Mapping)
		if !ok || len(args) != 1 {
			return nil, fmt.Errorf("%s has no keys", v.Type())
		}
		x, found, err := m.Get(args[0])
		if err != nil || !found {
			x = starlark.None
		}
		return starlark.Tuple{x, starlark.Bool(found)}, err
	}
	return nil, errWire
}

// onThread runs what a script asked for on a thread of the runtime that
// belongs to the call the script is in.
func (s *session) onThread(c *remoteCall, at Position, do func(t *starlark.Thread) (starlark.Value, error)) (starlark.Value, error) {
	if c == nil {
		return nil, errors.New("the call is over")
	}
	r := s.i.e.newRunner()
	r.thread.SetLocal(loaderKey, s.load)
	r.thread.SetLocal(callerKey, at)
	for k, v := range s.i.o.Source.Locals {
		r.thread.SetLocal(k, v)
	}
	fn := starlark.NewBuiltin("request", func(t *starlark.Thread, _ *starlark.Builtin, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
		return do(t)
	})
	v, err := r.run(c.ctx, fn, nil, nil, s.i.e.limits)
	switch {
	case err != nil && r.killed != nil:
		return nil, r.killed
	case err != nil:
		if eval, ok := err.(*starlark.EvalError); ok && eval.Unwrap() != nil {
			return nil, eval.Unwrap()
		}
	}
	return v, err
}

// lookup finds a builtin by its full name.
func lookup(names starlark.StringDict, name string) (starlark.Value, error) {
	first, rest, dotted := strings.Cut(name, ".")
	v := names[first]
	for dotted && v != nil {
		first, rest, dotted = strings.Cut(rest, ".")
		m, ok := v.(starlark.HasAttrs)
		if !ok {
			return nil, fmt.Errorf("no builtin %q", name)
		}
		x, err := m.Attr(first)
		if err != nil {
			return nil, err
		}
		v = x
	}
	if v == nil {
		return nil, fmt.Errorf("no builtin %q", name)
	}
	return v, nil
}

func (s *session) encodeForeign(e *encoder, v starlark.Value) error {
	if f, ok := v.(*RemoteFunc); ok {
		if f.s != s {
			return errors.New("a function of another script host")
		}
		e.byte(wireFunc)
		e.uint(f.id)
		return nil
	}
	if m, ok := v.(*value.Module); ok {
		s.module(e, m.Name(), m)
		return nil
	}
	if d, ok := v.(shared); ok {
		s.sendShared(e, d.Dict)
		return nil
	}
	snap := value.Snapshot{Type: v.Type(), Truth: bool(v.Truth())}
	flags := byte(0)
	switch v := v.(type) {
	case value.Snapshotter:
		snap = v.Snapshot()
	case starlark.Callable:
		snap.Text = v.Name()
		flags |= objectCallable
	default:
		return fmt.Errorf("a %s cannot be sent to an isolated script", v.Type())
	}
	s.mu.Lock()
	if len(s.objects) >= maxObjects {
		s.mu.Unlock()
		return fmt.Errorf("the script holds more than %d objects", maxObjects)
	}
	s.nextID++
	id := s.nextID
	if s.objects != nil {
		s.objects[id] = v
	}
	s.mu.Unlock()
	e.sent = append(e.sent, id)
	s.writeObject(e, id, flags, snap)
	return nil
}

func (s *session) writeObject(e *encoder, id uint64, flags byte, snap value.Snapshot) {
	if snap.Truth {
		flags |= objectTruth
	}
	if snap.Fixed {
		flags |= objectFixed
	}
	if snap.Keyed {
		flags |= objectKeyed
	}
	if snap.Items != nil {
		flags |= objectItems
	}
	e.byte(wireObject)
	e.uint(id)
	e.text(snap.Type)
	e.text(clip(snap.Text))
	e.byte(flags)
	attrs, items := starlark.NewDict(len(snap.Attrs)), starlark.NewDict(len(snap.Items))
	for _, name := range snap.Attrs.Keys() {
		_ = attrs.SetKey(starlark.String(name), share(snap.Attrs[name]))
	}
	for _, kv := range snap.Items {
		_ = items.SetKey(kv[0], kv[1])
	}
	e.value(attrs, 1)
	e.texts(snap.Methods)
	e.value(items, 1)
}

func (s *session) decodeForeign(d *decoder, kind byte, _ int) (starlark.Value, error) {
	switch kind {
	case wireFunc:
		f := &RemoteFunc{s: s, id: d.uint(), name: d.text(), pos: d.position(), sig: d.signature()}
		runtime.AddCleanup(f, s.forget, f.id)
		return f, nil
	case wireObject:
		id := d.uint()
		s.mu.Lock()
		v := s.objects[id]
		s.mu.Unlock()
		if v == nil {
			// The body is read to its end all the same, so this is not an error
			// of the wire; the request fails when it is answered.
			return gone{}, nil
		}
		return v, nil
	case wireAPI:
		return lookup(s.i.o.Source.Predeclared, d.text())
	}
	return nil, errWire
}

// forget notes that nobody holds a function any more.
func (s *session) forget(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgotten = append(s.forgotten, id)
}

// gone stands for an object the script kept longer than it may.
type gone struct{}

func (gone) String() string        { return "<gone>" }
func (gone) Type() string          { return "object that is no longer there" }
func (gone) Freeze()               {}
func (gone) Truth() starlark.Bool  { return false }
func (gone) Hash() (uint32, error) { return 0, errors.New("unhashable") }
