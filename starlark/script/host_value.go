package script

import (
	"context"
	"fmt"
	"runtime"
	"sort"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"edged/starlark/value"
)

// The runtime's values as scripts in a host see them. An object is its
// attributes as they were when it was sent, and methods that are messages.

// encodeForeign writes what is not data: functions of scripts, and the
// runtime's own things by their numbers.
func (h *host) encodeForeign(e *encoder, v starlark.Value) error {
	switch v := v.(type) {
	case *remoteAPI:
		e.byte(wireAPI)
		e.text(v.name)
		return nil
	case *value.Module:
		e.byte(wireAPI)
		e.text(v.Name())
		return nil
	case interface{ remote() *remoteObject }:
		e.byte(wireObject)
		e.uint(v.remote().id)
		return nil
	case *starlark.Function, *starlark.Builtin, *value.Builtin, *remoteMethod:
		fn := v.(starlark.Callable)
		e.byte(wireFunc)
		e.uint(h.export(fn))
		e.text(fn.Name())
		p := Position{}
		if f, ok := v.(*starlark.Function); ok {
			p = Position{f.Position().Filename(), int(f.Position().Line), int(f.Position().Col)}
		}
		e.position(p)
		e.signature(signatureOf(fn))
		return nil
	}
	return fmt.Errorf("a %s cannot be sent out of an isolated script", v.Type())
}

func (h *host) decodeForeign(d *decoder, kind byte, depth int) (starlark.Value, error) {
	switch kind {
	case wireFunc:
		id := d.uint()
		h.mu.Lock()
		defer h.mu.Unlock()
		if f := h.funcs[id]; f != nil {
			return f.fn, nil
		}
		return nil, fmt.Errorf("a function that is no longer there")
	case wireAPI:
		return &remoteAPI{h, d.text()}, nil
	case wireModule:
		name, doc := d.text(), d.text()
		members, ok := d.value(depth + 1).(*starlark.Dict)
		if !ok {
			return nil, errWire
		}
		dict := starlark.StringDict{}
		for k, v := range members.Entries() {
			dict[string(k.(starlark.String))] = v
		}
		return value.NewModule(name, doc).With(dict), nil
	case wireObject:
		return h.object(d, depth)
	case wireShared:
		return h.receiveShared(d, depth)
	}
	return nil, errWire
}

func (h *host) object(d *decoder, depth int) (starlark.Value, error) {
	o := &remoteObject{h: h, id: d.uint()}
	o.typ, o.text = d.text(), d.text()
	flags := d.byte()
	o.truth, o.fixed = flags&objectTruth != 0, flags&objectFixed != 0
	attrs, ok := d.value(depth + 1).(*starlark.Dict)
	o.methods = d.texts()
	items, ok2 := d.value(depth + 1).(*starlark.Dict)
	if !ok || !ok2 {
		return nil, errWire
	}
	for _, v := range attrs.Entries() {
		h.freeze(v)
	}
	items.Freeze()
	o.attrs, o.items = attrs, items
	runtime.AddCleanup(o, h.drop, o.id)
	switch {
	case flags&objectCallable != 0:
		return &remoteCallable{o}, nil
	case flags&objectItems != 0:
		return &remoteItems{remoteKeyed{o}}, nil
	case flags&objectKeyed != 0:
		return &remoteKeyed{o}, nil
	}
	return o, nil
}

// What an object can do.
const (
	objectTruth = 1 << iota
	objectCallable
	objectKeyed
	objectItems
	objectFixed
)

func (h *host) drop(id uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dropped = append(h.dropped, id)
}

// remoteAPI is a builtin of the runtime.
type remoteAPI struct {
	h    *host
	name string
}

func (a *remoteAPI) Name() string          { return a.name }
func (a *remoteAPI) String() string        { return "<built-in function " + a.name + ">" }
func (a *remoteAPI) Type() string          { return "builtin_function_or_method" }
func (a *remoteAPI) Freeze()               {}
func (a *remoteAPI) Truth() starlark.Bool  { return true }
func (a *remoteAPI) Hash() (uint32, error) { return starlark.String(a.name).Hash() }

func (a *remoteAPI) CallInternal(t *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	return a.h.ask(t, opCall, 0, a.name, args, kwargs)
}

// remoteObject is an object of the runtime.
type remoteObject struct {
	h            *host
	id           uint64
	typ, text    string
	truth, fixed bool
	attrs, items *starlark.Dict
	methods      []string
}

func (o *remoteObject) remote() *remoteObject { return o }
func (o *remoteObject) String() string        { return o.text }
func (o *remoteObject) Type() string          { return o.typ }
func (o *remoteObject) Freeze()               {}
func (o *remoteObject) Truth() starlark.Bool  { return starlark.Bool(o.truth) }
func (o *remoteObject) Hash() (uint32, error) { return 0, fmt.Errorf("unhashable: %s", o.typ) }

// CompareSameType implements starlark.Comparable: the runtime knows which of its
// objects are equal.
func (o *remoteObject) CompareSameType(op syntax.Token, y starlark.Value, _ int) (bool, error) {
	other, ok := y.(interface{ remote() *remoteObject })
	if !ok || op != syntax.EQL && op != syntax.NEQ {
		return false, fmt.Errorf("%s %s %s not implemented", o.typ, op, y.Type())
	}
	same := other.remote().id == o.id
	if !same {
		v, err := o.h.request(context.Background(), Position{}, opEqual, o.id, "", starlark.Tuple{other.remote()}, nil)
		if err != nil {
			return false, err
		}
		same = bool(v.Truth())
	}
	return same == (op == syntax.EQL), nil
}

func (o *remoteObject) Attr(name string) (starlark.Value, error) {
	if v, ok, err := o.attrs.Get(starlark.String(name)); ok || err != nil {
		if err == nil && !o.fixed { // what it was when it was sent is all that is left of one that is gone
			if now, err := o.h.request(context.Background(), Position{}, opAttr, o.id, name, starlark.Tuple{}, nil); err == nil {
				o.h.freeze(now)
				v = now
			}
		}
		return v, err
	}
	for _, m := range o.methods {
		if m == name {
			return &remoteMethod{o, name}, nil
		}
	}
	e := &value.Error{Func: o.typ, Arg: name, Msg: fmt.Sprintf("has no %q", name)}
	if near := value.Nearest(name, o.AttrNames()); near != "" {
		e.Hint = fmt.Sprintf("did you mean %q?", near)
	}
	return nil, e
}

func (o *remoteObject) AttrNames() []string {
	names := append([]string{}, o.methods...)
	for _, k := range o.attrs.Keys() {
		names = append(names, string(k.(starlark.String)))
	}
	sort.Strings(names)
	return names
}

// remoteMethod is a method of an object of the runtime.
type remoteMethod struct {
	o    *remoteObject
	name string
}

func (m *remoteMethod) Name() string          { return m.o.typ + "." + m.name }
func (m *remoteMethod) String() string        { return "<built-in method " + m.Name() + ">" }
func (m *remoteMethod) Type() string          { return "builtin_function_or_method" }
func (m *remoteMethod) Freeze()               {}
func (m *remoteMethod) Truth() starlark.Bool  { return true }
func (m *remoteMethod) Hash() (uint32, error) { return starlark.String(m.Name()).Hash() }

func (m *remoteMethod) CallInternal(t *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	return m.o.h.ask(t, opMethod, m.o.id, m.name, args, kwargs)
}

// remoteCallable is an object of the runtime that can be called.
type remoteCallable struct{ *remoteObject }

func (c *remoteCallable) Name() string { return c.text }

func (c *remoteCallable) CallInternal(t *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	return c.h.ask(t, opInvoke, c.id, "", args, kwargs)
}

// remoteKeyed is an object of the runtime that answers x["key"].
type remoteKeyed struct{ *remoteObject }

func (k *remoteKeyed) Get(key starlark.Value) (starlark.Value, bool, error) {
	if k.items.Len() > 0 {
		return k.items.Get(key)
	}
	// There is no thread here, so no call to belong to: the parent answers at once.
	v, err := k.h.request(context.Background(), Position{}, opIndex, k.id, "", starlark.Tuple{key}, nil)
	if err != nil {
		return nil, false, err
	}
	found, ok := v.(starlark.Tuple)
	if !ok || len(found) != 2 {
		return nil, false, errWire
	}
	return found[0], bool(found[1].Truth()), nil
}

// remoteItems is an object of the runtime that can be walked through.
type remoteItems struct{ remoteKeyed }

func (i *remoteItems) Items() []starlark.Tuple    { return i.items.Items() }
func (i *remoteItems) Iterate() starlark.Iterator { return i.items.Iterate() }
func (i *remoteItems) Len() int                   { return i.items.Len() }
