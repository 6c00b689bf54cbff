package script

import (
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"edged/starlark/value"
)

// A Signature is a function whose parameters can be looked at: one that a script
// defines, in this process or in an isolated host.
type Signature interface {
	starlark.Callable
	Doc() string
	Position() syntax.Position
	NumParams() int
	NumKwonlyParams() int
	Param(i int) (name string, at syntax.Position)
	ParamDefault(i int) starlark.Value // nil if it must be given
	HasVarargs() bool
	HasKwargs() bool
}

var _, _ Signature = (*starlark.Function)(nil), (*RemoteFunc)(nil)

// SignatureOf gives the signature of a function; builtins have none.
func SignatureOf(fn starlark.Callable) (Signature, bool) {
	if r, ok := fn.(*RemoteFunc); ok && !r.sig.known {
		return nil, false
	}
	s, ok := fn.(Signature)
	return s, ok
}

// signature is what crosses the wire of a function.
type signature struct {
	known           bool
	doc             string
	params          []param
	kwonly          int
	varargs, kwargs bool
}

type param struct {
	name     string
	optional bool
	value    starlark.Value // the default, if it is data
}

// signatureOf looks at a function. A default that is no data, or much of it, is
// there, and not what it is.
func signatureOf(fn starlark.Callable) (s signature) {
	f, ok := fn.(*starlark.Function)
	if !ok || f.NumParams() > 200 {
		return s
	}
	s = signature{known: true, doc: clip(f.Doc()), kwonly: f.NumKwonlyParams(), varargs: f.HasVarargs(), kwargs: f.HasKwargs()}
	for i := range f.NumParams() {
		name, _ := f.Param(i)
		p := param{name: name}
		if d := f.ParamDefault(i); d != nil {
			p.optional, p.value = true, starlark.None
			if value.Measure(d, 100, 4096) == nil && plainData(d, 0) {
				p.value = d
			}
		}
		s.params = append(s.params, p)
	}
	return s
}

// plainData reports whether a value is data all through.
func plainData(v starlark.Value, depth int) bool {
	e := newFrame(0)
	e.value(v, depth)
	return e.err == nil
}

func (e *encoder) signature(s signature) {
	flags := byte(0)
	for i, on := range []bool{s.known, s.varargs, s.kwargs} {
		if on {
			flags |= 1 << i
		}
	}
	e.byte(flags)
	if !s.known {
		return
	}
	e.text(s.doc)
	e.uint(uint64(s.kwonly))
	e.uint(uint64(len(s.params)))
	for _, p := range s.params {
		e.text(p.name)
		if !p.optional {
			e.byte(0)
			continue
		}
		e.byte(1)
		e.value(p.value, 1)
	}
}

func (d *decoder) signature() (s signature) {
	flags := d.byte()
	if s.known = flags&1 != 0; !s.known {
		return s
	}
	s.varargs, s.kwargs = flags&2 != 0, flags&4 != 0
	s.doc, s.kwonly = d.text(), int(min(d.uint(), 200))
	for n := d.count(); n > 0 && d.err == nil; n-- {
		p := param{name: d.text()}
		if d.byte() == 1 {
			p.optional, p.value = true, d.value(1)
			p.value.Freeze()
		}
		s.params = append(s.params, p)
	}
	stars := 0
	for _, star := range []bool{s.varargs, s.kwargs} {
		if star {
			stars++
		}
	}
	if len(s.params) > 200 || s.kwonly+stars > len(s.params) {
		d.fail()
		return signature{}
	}
	return s
}

// Doc, and what follows, are as of a function of this process.
func (f *RemoteFunc) Doc() string { return f.sig.doc }

// Position is where the script defines it.
func (f *RemoteFunc) Position() syntax.Position {
	return syntax.MakePosition(&f.pos.File, int32(f.pos.Line), int32(f.pos.Col))
}

// NumParams counts *args and **kwargs, too.
func (f *RemoteFunc) NumParams() int { return len(f.sig.params) }

// NumKwonlyParams counts those that are given by name only.
func (f *RemoteFunc) NumKwonlyParams() int { return f.sig.kwonly }

// Param names a parameter; where it stands is where the function does.
func (f *RemoteFunc) Param(i int) (string, syntax.Position) {
	return f.sig.params[i].name, f.Position()
}

// ParamDefault is the default of a parameter; None stands for one that is no
// data.
func (f *RemoteFunc) ParamDefault(i int) starlark.Value {
	if p := f.sig.params[i]; p.optional {
		return p.value
	}
	return nil
}

// HasVarargs reports whether it takes *args.
func (f *RemoteFunc) HasVarargs() bool { return f.sig.varargs }

// HasKwargs reports whether it takes **kwargs.
func (f *RemoteFunc) HasKwargs() bool { return f.sig.kwargs }
