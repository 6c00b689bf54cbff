package value

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// Kind is a Go type as scripts see it: a name, attributes and methods, each
// with its row in the manual. One Kind serves any number of values, from any
// number of threads; it must not be changed once a value is wrapped.
//
//	var futures = value.Kind[*bus.Future]{
//		Name: "future",
//		Doc:  "An answer that is still to come.",
//		Methods: []value.Method[*bus.Future]{{
//			Func:   value.Func{Name: "result", Doc: "Waits for the answer.", Blocks: true},
//			Do: func(f *bus.Future, c *value.Call) (starlark.Value, error) { … },
//		}},
//	}
//	v := futures.Wrap(f)
type Kind[T any] struct {
	Name    string // what type(x) says: "future"
	Doc     string
	Example string
	Attrs   []Attr[T]
	Methods []Method[T]

	// The rest is optional.

	// Is is the kind that values of this one are, too: they have all it has,
	// and go where it is wanted. What has the same name here comes first.
	Is *Kind[T]

	String func(T) string              // what str(x) says; the default is <name>
	Tree   func(T) (any, error)        // its form as data, for ToGo
	Truth  func(T) bool                // bool(x); the default is True
	Equal  func(a, b T) bool           // a == b; the default is identity
	Key    func(T) string              // makes x usable as dict key; equal values, equal keys
	Index  func(T, string) (any, bool) // x["key"] and "key" in x, values as FromGo takes them
	Keys   func(T) []string            // with Index: iteration and dict(x)
	Walk   func(T) starlark.Iterator   // without Index: for v in x

	once    sync.Once
	names   []string
	attrs   map[string]*Attr[T]
	methods map[string]*Builtin
}

// Attr is an attribute that is read, x.name.
type Attr[T any] struct {
	Name string
	Doc  string
	Type Type // nil means Any; for the manual
	// Get returns what FromGo takes. A script value is handed on as it is, not
	// frozen.
	Get func(T) (any, error)
}

// Method is a row of a kind's table: a Func whose Do gets the receiver.
type Method[T any] struct {
	Func
	Do func(self T, c *Call) (starlark.Value, error)
}

// prepare builds the lookup tables, once.
func (k *Kind[T]) prepare() {
	k.once.Do(func() {
		k.attrs = make(map[string]*Attr[T], len(k.Attrs))
		k.methods = make(map[string]*Builtin, len(k.Methods))
		for i := range k.Attrs {
			a := &k.Attrs[i]
			k.attrs[a.Name] = a
			k.names = append(k.names, a.Name)
		}
		defer k.inherit()
		for i := range k.Methods {
			m := &k.Methods[i]
			f := m.Func
			do := m.Do
			f.Name = k.Name + "." + m.Func.Name
			f.Do = func(c *Call) (starlark.Value, error) { return do(c.b.self.(*object[T]).v, c) }
			k.methods[m.Func.Name] = f.Builtin()
			k.names = append(k.names, m.Func.Name)
		}
		slices.Sort(k.names)
		if i := len(slices.Compact(slices.Clone(k.names))); i != len(k.names) {
			panic(fmt.Sprintf("value: kind %s: an attribute or method is named twice", k.Name))
		}
	})
}

// inherit takes over what the kind has that this one is.
func (k *Kind[T]) inherit() {
	if k.Is == nil {
		return
	}
	k.Is.prepare()
	for _, name := range k.Is.names {
		if k.attrs[name] != nil || k.methods[name] != nil {
			continue
		}
		k.names = append(k.names, name)
		if a := k.Is.attrs[name]; a != nil {
			k.attrs[name] = a
		} else {
			k.methods[name] = k.Is.methods[name]
		}
	}
	slices.Sort(k.names)
}

// Wrap returns v as a script value. Wrapping twice gives two values that are
// equal only if Kind.Equal says so.
func (k *Kind[T]) Wrap(v T) starlark.Value {
	k.prepare()
	o := object[T]{k: k, v: v}
	if k.Index != nil {
		if k.Keys != nil {
			return &iterObject[T]{indexObject[T]{o}}
		}
		return &indexObject[T]{o}
	}
	if k.Walk != nil {
		return &walkObject[T]{o}
	}
	return &o
}

// Unwrap returns the Go value inside v, or an error "want future, got string".
func (k *Kind[T]) Unwrap(v starlark.Value) (T, error) {
	if o := k.of(v); o != nil {
		return o.v, nil
	}
	var zero T
	return zero, fmt.Errorf("want %s, got %s", k.Name, describe(v))
}

// As returns the Go value inside v and whether v is of this kind.
func (k *Kind[T]) As(v starlark.Value) (t T, ok bool) {
	if o := k.of(v); o != nil {
		return o.v, true
	}
	return t, false
}

func (k *Kind[T]) of(v starlark.Value) *object[T] {
	if w, ok := v.(interface{ inner() *object[T] }); ok {
		o := w.inner()
		for is := o.k; is != nil; is = is.Is {
			if is == k {
				return o
			}
		}
	}
	return nil
}

// Type makes the kind usable in an argument table.
func (k *Kind[T]) Type() Type { return kindType[T]{k} }

// Arg returns an argument whose row has type Kind.Type; the zero T if it was
// not given.
func (k *Kind[T]) Arg(c *Call, name string) T {
	var zero T
	v := c.at(name)
	if v == nil {
		return zero
	}
	t, err := k.Unwrap(v)
	if err != nil {
		panic(err.Error())
	}
	return t
}

type kindType[T any] struct{ k *Kind[T] }

func (t kindType[T]) String() string { return t.k.Name }

func (t kindType[T]) Check(v starlark.Value) (starlark.Value, error) {
	if t.k.of(v) == nil {
		return nil, fmt.Errorf("got %s", describe(v))
	}
	return v, nil
}

// object is a wrapped value. It is immutable as far as scripts can tell;
// whether the Go value may be used by several threads is the kind's affair.
type object[T any] struct {
	k *Kind[T]
	v T
}

func (o *object[T]) inner() *object[T] { return o }

func (o *object[T]) String() string {
	if o.k.String != nil {
		return o.k.String(o.v)
	}
	return "<" + o.k.Name + ">"
}

func (o *object[T]) Type() string { return o.k.Name }
func (o *object[T]) Freeze()      {}

func (o *object[T]) Truth() starlark.Bool {
	return o.k.Truth == nil || starlark.Bool(o.k.Truth(o.v))
}

// Hash implements starlark.Value by Kind.Key.
func (o *object[T]) Hash() (uint32, error) {
	if o.k.Key == nil {
		return 0, fmt.Errorf("unhashable: %s", o.k.Name)
	}
	return starlark.String(o.k.Key(o.v)).Hash()
}

// CompareSameType implements starlark.Comparable. Values of two kinds with the
// same name are never equal.
func (o *object[T]) CompareSameType(op syntax.Token, y starlark.Value, _ int) (bool, error) {
	same := false
	if p := o.k.of(y); p != nil {
		switch {
		case o.k.Equal != nil:
			same = o.k.Equal(o.v, p.v)
		case o.k.Key != nil:
			same = o.k.Key(o.v) == o.k.Key(p.v)
		default:
			same = o == p
		}
	}
	switch op {
	case syntax.EQL:
		return same, nil
	case syntax.NEQ:
		return !same, nil
	}
	return false, fmt.Errorf("%s %s %s not implemented", o.k.Name, op, o.k.Name)
}

// Attr implements starlark.HasAttrs.
func (o *object[T]) Attr(name string) (starlark.Value, error) {
	if a := o.k.attrs[name]; a != nil {
		v, err := a.Get(o.v)
		if err != nil {
			return nil, &Error{Func: o.k.Name + "." + name, Msg: err.Error(), Err: err}
		}
		if sv, ok := v.(starlark.Value); ok {
			return sv, nil
		}
		return FromGo(v)
	}
	if m := o.k.methods[name]; m != nil {
		return &Builtin{f: m.f, defaults: m.defaults, nPos: m.nPos, self: o}, nil
	}
	return nil, noAttr(o.k.Name, name, o.k.names)
}

// AttrNames implements starlark.HasAttrs.
func (o *object[T]) AttrNames() []string { return o.k.names }

// Tree implements [Treer].
func (o *object[T]) Tree() (any, error) {
	if o.k.Tree == nil {
		return nil, fmt.Errorf("a %s has no form as data", o.k.Name)
	}
	return o.k.Tree(o.v)
}

// MarshalJSON makes a wrapped value encodable, by its tree.
func (o *object[T]) MarshalJSON() ([]byte, error) {
	t, err := o.Tree()
	if err != nil {
		return nil, err
	}
	return EncodeJSON(t)
}

// indexObject is an object that answers x["key"].
type indexObject[T any] struct{ object[T] }

// Get implements starlark.Mapping.
func (o *indexObject[T]) Get(key starlark.Value) (starlark.Value, bool, error) {
	s, ok := key.(starlark.String)
	if !ok {
		return nil, false, fmt.Errorf("%s index: want string, got %s", o.k.Name, key.Type())
	}
	v, ok := o.k.Index(o.v, string(s))
	if !ok {
		return nil, false, nil
	}
	x, err := FromGo(v)
	return x, err == nil, err
}

// iterObject is an object that can also be walked through.
type iterObject[T any] struct{ indexObject[T] }

// Items implements starlark.IterableMapping.
func (o *iterObject[T]) Items() []starlark.Tuple {
	keys := o.k.Keys(o.v)
	items := make([]starlark.Tuple, 0, len(keys))
	for _, k := range keys {
		if v, ok, err := o.Get(starlark.String(k)); ok && err == nil {
			items = append(items, starlark.Tuple{starlark.String(k), v})
		}
	}
	return items
}

// Iterate implements starlark.Iterable over the keys.
func (o *iterObject[T]) Iterate() starlark.Iterator {
	keys := o.k.Keys(o.v)
	list := make(starlark.Tuple, len(keys))
	for i, k := range keys {
		list[i] = starlark.String(k)
	}
	return list.Iterate()
}

// Len implements starlark.Sequence.
func (o *iterObject[T]) Len() int { return len(o.k.Keys(o.v)) }

// walkObject is an object whose elements come one by one.
type walkObject[T any] struct{ object[T] }

// Iterate implements starlark.Iterable.
func (o *walkObject[T]) Iterate() starlark.Iterator { return o.k.Walk(o.v) }

func noAttr(owner, name string, names []string) error {
	e := &Error{Func: owner, Arg: name, Msg: fmt.Sprintf("has no %q", name)}
	if near := Nearest(name, names); near != "" {
		e.Hint = fmt.Sprintf("did you mean %q?", near)
	}
	return e
}

// AsError finds the [Error] in err's chain.
func AsError(err error) (*Error, bool) {
	var e *Error
	ok := errors.As(err, &e)
	return e, ok
}
