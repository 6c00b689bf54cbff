package value

import (
	"errors"
	"fmt"
	"sync"

	"go.starlark.net/starlark"
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

	Fixed  bool                        // the attributes never change: another process need not ask for them
	String func(T) string              // what str(x) says; the default is <name>
	Tree   func(T) (any, error)        // its form as data, for ToGo
	Truth  func(T) bool                // bool(x); the default is True
	Equal  func(a, b T) bool           // a == b; the default is identity
	Key    func(T) string              // makes x usable as dict key; equal values, equal keys
	Index  func(T, string) (any, bool) // x["key"] and "key" in x, values as FromGo takes them
	Keys   func(T) []string            // with Index: iteration and dict(x)
	Walk   func(T) starlark.Iterator   // without Index: for v in x

	once sync.Once
	core core
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

// prepare fills the core, once.
func (k *Kind[T]) prepare() {
	k.once.Do(func() {
		c := &k.core
		c.name, c.doc, c.example = k.Name, k.Doc, k.Example
		k.lift()
		for _, a := range k.Attrs {
			c.attrs = append(c.attrs, attr{a.Name, a.Doc, a.Type, func(v any) (any, error) { return a.Get(v.(T)) }})
		}
		for _, m := range k.Methods {
			f := m.Func
			f.Name = k.Name + "." + m.Func.Name
			f.Do = func(c *Call) (starlark.Value, error) { return m.Do(c.b.self.(*object).v.(T), c) }
			c.methods = append(c.methods, method{m.Func.Name, f.Builtin()})
		}
		if k.Is != nil {
			k.Is.prepare()
			c.is = &k.Is.core
		}
		c.index()
	})
}

// lift hands what is optional to the core.
func (k *Kind[T]) lift() {
	c := &k.core
	c.fixed = k.Fixed
	if k.String != nil {
		c.text = func(v any) string { return k.String(v.(T)) }
	}
	if k.Tree != nil {
		c.tree = func(v any) (any, error) { return k.Tree(v.(T)) }
	}
	if k.Truth != nil {
		c.truth = func(v any) bool { return k.Truth(v.(T)) }
	}
	if k.Equal != nil {
		c.equal = func(a, b any) bool { return k.Equal(a.(T), b.(T)) }
	}
	if k.Key != nil {
		c.key = func(v any) string { return k.Key(v.(T)) }
	}
	if k.Index != nil {
		c.at = func(v any, key string) (any, bool) { return k.Index(v.(T), key) }
	}
	if k.Keys != nil {
		c.keys = func(v any) []string { return k.Keys(v.(T)) }
	}
	if k.Walk != nil {
		c.walk = func(v any) starlark.Iterator { return k.Walk(v.(T)) }
	}
}

// Wrap returns v as a script value. Wrapping twice gives two values that are
// equal only if Kind.Equal says so.
func (k *Kind[T]) Wrap(v T) starlark.Value {
	k.prepare()
	return k.core.wrap(v)
}

// Unwrap returns the Go value inside v, or an error "want future, got string".
func (k *Kind[T]) Unwrap(v starlark.Value) (T, error) {
	t, ok := k.As(v)
	if !ok {
		return t, fmt.Errorf("want %s, got %s", k.Name, describe(v))
	}
	return t, nil
}

// As returns the Go value inside v and whether v is of this kind.
func (k *Kind[T]) As(v starlark.Value) (t T, ok bool) {
	if o := k.core.of(v); o != nil {
		return o.v.(T), true
	}
	return t, false
}

// Type makes the kind usable in an argument table.
func (k *Kind[T]) Type() Type { return kindType{k.Name, &k.core} }

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

// Describe gives the rows of the kind, its attributes and its methods, for
// [Catalogue].
func (k *Kind[T]) Describe() []Entry {
	k.prepare()
	return k.core.describe()
}

// AsError finds the [Error] in err's chain.
func AsError(err error) (*Error, bool) {
	var e *Error
	ok := errors.As(err, &e)
	return e, ok
}
