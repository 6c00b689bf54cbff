package value

import (
	"fmt"
	"slices"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// core is a kind without its Go type: all that works while scripts run. It is
// apart because code that is generic is in the binary once for every type.
type core struct {
	fixed              bool
	name, doc, example string

	is      *core
	attrs   []attr   // its own, in the order of the table
	methods []method // likewise
	names   []string // of these and of what it is, sorted, as are the two maps
	attr    map[string]*attr
	method  map[string]*Builtin

	// What Kind has by a longer name, nil where it has nothing.
	text  func(any) string
	tree  func(any) (any, error)
	truth func(any) bool
	equal func(a, b any) bool
	key   func(any) string
	at    func(v any, key string) (any, bool)
	keys  func(any) []string
	walk  func(any) starlark.Iterator
}

type attr struct {
	name string
	doc  string
	typ  Type
	get  func(any) (any, error)
}

type method struct {
	name string
	do   *Builtin
}

// index builds the lookup tables.
func (k *core) index() {
	k.attr = make(map[string]*attr, len(k.attrs))
	k.method = make(map[string]*Builtin, len(k.methods))
	for i := range k.attrs {
		k.attr[k.attrs[i].name] = &k.attrs[i]
		k.names = append(k.names, k.attrs[i].name)
	}
	for _, m := range k.methods {
		k.method[m.name] = m.do
		k.names = append(k.names, m.name)
	}
	slices.Sort(k.names)
	if i := len(slices.Compact(slices.Clone(k.names))); i != len(k.names) {
		panic(fmt.Sprintf("value: kind %s: an attribute or method is named twice", k.name))
	}
	if k.is != nil {
		k.inherit()
	}
}

// inherit takes over what the kind has that this one is.
func (k *core) inherit() {
	for _, name := range k.is.names {
		if k.attr[name] != nil || k.method[name] != nil {
			continue
		}
		k.names = append(k.names, name)
		if a := k.is.attr[name]; a != nil {
			k.attr[name] = a
		} else {
			k.method[name] = k.is.method[name]
		}
	}
	slices.Sort(k.names)
}

func (k *core) wrap(v any) starlark.Value {
	o := object{k: k, v: v}
	if k.at != nil {
		if k.keys != nil {
			return &iterObject{indexObject{o}}
		}
		return &indexObject{o}
	}
	if k.walk != nil {
		return &walkObject{o}
	}
	return &o
}

// of returns what is wrapped in v if it is of this kind.
func (k *core) of(v starlark.Value) *object {
	if w, ok := v.(interface{ inner() *object }); ok {
		o := w.inner()
		for is := o.k; is != nil; is = is.is {
			if is == k {
				return o
			}
		}
	}
	return nil
}

func (k *core) describe() []Entry {
	out := []Entry{{Name: k.name, Kind: "type", Doc: k.doc, Example: k.example}}
	for _, a := range k.attrs {
		e := Entry{Name: k.name + "." + a.name, Kind: "attribute", Doc: a.doc}
		if a.typ != nil {
			e.Returns = a.typ.String()
		}
		out = append(out, e)
	}
	for _, m := range k.methods {
		e := m.do.f.entry()
		e.Kind = "method"
		out = append(out, e)
	}
	return out
}

// kindType is a kind in an argument table, which is made before the core is.
type kindType struct {
	name string
	k    *core
}

func (t kindType) String() string { return t.name }

func (t kindType) Check(v starlark.Value) (starlark.Value, error) {
	if t.k.of(v) == nil {
		return nil, fmt.Errorf("got %s", describe(v))
	}
	return v, nil
}

// object is a wrapped value. It is immutable as far as scripts can tell;
// whether the Go value may be used by several threads is the kind's affair.
type object struct {
	k *core
	v any
}

func (o *object) inner() *object { return o }

func (o *object) String() string {
	if o.k.text != nil {
		return o.k.text(o.v)
	}
	return "<" + o.k.name + ">"
}

func (o *object) Type() string { return o.k.name }
func (o *object) Freeze()      {}

func (o *object) Truth() starlark.Bool {
	return o.k.truth == nil || starlark.Bool(o.k.truth(o.v))
}

// Hash implements starlark.Value by Kind.Key.
func (o *object) Hash() (uint32, error) {
	if o.k.key == nil {
		return 0, fmt.Errorf("unhashable: %s", o.k.name)
	}
	return starlark.String(o.k.key(o.v)).Hash()
}

// CompareSameType implements starlark.Comparable. Values of two kinds with the
// same name are never equal.
func (o *object) CompareSameType(op syntax.Token, y starlark.Value, _ int) (bool, error) {
	same := false
	if p := o.k.of(y); p != nil {
		switch {
		case o.k.equal != nil:
			same = o.k.equal(o.v, p.v)
		case o.k.key != nil:
			same = o.k.key(o.v) == o.k.key(p.v)
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
	return false, fmt.Errorf("%s %s %s not implemented", o.k.name, op, o.k.name)
}

// Attr implements starlark.HasAttrs.
func (o *object) Attr(name string) (starlark.Value, error) {
	if a := o.k.attr[name]; a != nil {
		v, err := a.get(o.v)
		if err != nil {
			return nil, &Error{Func: o.k.name + "." + name, Msg: err.Error(), Err: err}
		}
		if sv, ok := v.(starlark.Value); ok {
			return sv, nil
		}
		return FromGo(v)
	}
	if m := o.k.method[name]; m != nil {
		return &Builtin{f: m.f, defaults: m.defaults, nPos: m.nPos, self: o}, nil
	}
	return nil, noAttr(o.k.name, name, o.k.names)
}

// AttrNames implements starlark.HasAttrs.
func (o *object) AttrNames() []string { return o.k.names }

// Tree implements [Treer].
func (o *object) Tree() (any, error) {
	if o.k.tree == nil {
		return nil, fmt.Errorf("a %s has no form as data", o.k.name)
	}
	return o.k.tree(o.v)
}

// MarshalJSON makes a wrapped value encodable, by its tree.
func (o *object) MarshalJSON() ([]byte, error) {
	t, err := o.Tree()
	if err != nil {
		return nil, err
	}
	return EncodeJSON(t)
}

// indexObject is an object that answers x["key"].
type indexObject struct{ object }

// Get implements starlark.Mapping.
func (o *indexObject) Get(key starlark.Value) (starlark.Value, bool, error) {
	s, ok := key.(starlark.String)
	if !ok {
		return nil, false, fmt.Errorf("%s index: want string, got %s", o.k.name, key.Type())
	}
	v, ok := o.k.at(o.v, string(s))
	if !ok {
		return nil, false, nil
	}
	x, err := FromGo(v)
	return x, err == nil, err
}

// iterObject is an object that can also be walked through.
type iterObject struct{ indexObject }

// Items implements starlark.IterableMapping.
func (o *iterObject) Items() []starlark.Tuple {
	keys := o.k.keys(o.v)
	items := make([]starlark.Tuple, 0, len(keys))
	for _, k := range keys {
		if v, ok, err := o.Get(starlark.String(k)); ok && err == nil {
			items = append(items, starlark.Tuple{starlark.String(k), v})
		}
	}
	return items
}

// Iterate implements starlark.Iterable over the keys.
func (o *iterObject) Iterate() starlark.Iterator {
	keys := o.k.keys(o.v)
	list := make(starlark.Tuple, len(keys))
	for i, k := range keys {
		list[i] = starlark.String(k)
	}
	return list.Iterate()
}

// Len implements starlark.Sequence.
func (o *iterObject) Len() int { return len(o.k.keys(o.v)) }

// walkObject is an object whose elements come one by one.
type walkObject struct{ object }

// Iterate implements starlark.Iterable.
func (o *walkObject) Iterate() starlark.Iterator { return o.k.walk(o.v) }

func noAttr(owner, name string, names []string) error {
	e := &Error{Func: owner, Arg: name, Msg: fmt.Sprintf("has no %q", name)}
	if near := Nearest(name, names); near != "" {
		e.Hint = fmt.Sprintf("did you mean %q?", near)
	}
	return e
}
