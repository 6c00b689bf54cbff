package value

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	startime "go.starlark.net/lib/time"
	"go.starlark.net/starlark"
)

// Type says what an argument may be. The package's own are the constants from
// [Any] on, and [OneOf], [ListOf], [OneOrMany], [Either], [Between] and
// [Kind.Type]; a room may add its own.
type Type interface {
	// String names the type for people: "duration", "list of string".
	String() string
	// Check returns the value in the form the builtin gets, or an error that
	// goes on after "want <type>": `got string "fast"`.
	Check(v starlark.Value) (starlark.Value, error)
}

// Param is one row of a builtin's argument table.
type Param struct {
	Name string
	Doc  string // one sentence
	Type Type   // nil means Any
	Unit string // "m/s", shown in messages and manual
	// Default is a Go tree or a script value, shown in the manual. Without one,
	// an argument that is not Required and not given is None.
	Default any
	// Required arguments must be given.
	Required bool
	// Positional allows the argument without its name. It is for the subject
	// of a call, the one or two things that need no name: everything beyond is
	// written with its name. Positional rows come first.
	Positional bool
	// Skip lets the first row be left out in front of others without a name: an
	// argument that its type does not take is the next one's.
	Skip bool
	// Also are names that the row has elsewhere: who writes one is told this one.
	Also []string
}

// Basic is a type without parameters.
type Basic uint8

// The basic types.
const (
	Any      Basic = iota // every value
	Bool                  // True or False
	Int                   // a whole number of 64 bits
	Float                 // a number; whole numbers are taken too
	Number                // int or float
	String                // text
	Bytes                 // bytes; text is taken too, as UTF-8
	Duration              // "250ms", "1m30s", a time.duration, a number of seconds
	Callable              // a function or anything else that can be called
	List                  // list or tuple
	Dict                  // dict with string keys
	Data                  // what has a form as data: see ToGo
)

var basicNames = [...]string{"any", "bool", "int", "float", "number", "string", "bytes", "duration", "function", "list", "dict", "data"}

func (b Basic) String() string { return basicNames[b] }

// Check implements [Type].
func (b Basic) Check(v starlark.Value) (starlark.Value, error) {
	switch b {
	case Any:
		return v, nil
	case Bool:
		if _, ok := v.(starlark.Bool); ok {
			return v, nil
		}
	case Int:
		if i, ok := v.(starlark.Int); ok {
			if _, fits := i.Int64(); fits {
				return v, nil
			}
			return nil, fmt.Errorf("got an integer of %d bits", bits(i))
		}
	case Float, Number:
		switch n := v.(type) {
		case starlark.Int:
			return v, nil
		case starlark.Float:
			if math.IsNaN(float64(n)) {
				return nil, fmt.Errorf("got nan")
			}
			return v, nil
		}
	case String:
		if _, ok := v.(starlark.String); ok {
			return v, nil
		}
	case Bytes:
		switch s := v.(type) {
		case starlark.Bytes:
			return v, nil
		case starlark.String:
			return starlark.Bytes(s), nil
		}
	case Duration:
		switch v.(type) {
		case starlark.String, starlark.Int, starlark.Float, startime.Duration:
			d, err := ToDuration(v)
			return startime.Duration(d), err
		}
	case Callable:
		if _, ok := v.(starlark.Callable); ok {
			return v, nil
		}
	case List:
		switch v.(type) {
		case *starlark.List, starlark.Tuple:
			return v, nil
		}
	case Dict:
		if m, ok := v.(starlark.IterableMapping); ok {
			return m, nil
		}
	case Data:
		// The builtin converts, once: see Call.Tree.
		if _, ok := v.(starlark.Callable); !ok {
			return v, nil
		}
	}
	return nil, fmt.Errorf("got %s", describe(v))
}

type oneOf []string

// OneOf is text that must be one of the given words.
func OneOf(words ...string) Type { return oneOf(words) }

func (o oneOf) String() string {
	q := make([]string, len(o))
	for i, s := range o {
		q[i] = fmt.Sprintf("%q", s)
	}
	return strings.Join(q, " | ")
}

func (o oneOf) Check(v starlark.Value) (starlark.Value, error) {
	s, ok := v.(starlark.String)
	if !ok {
		return nil, fmt.Errorf("got %s", describe(v))
	}
	for _, w := range o {
		if w == string(s) {
			return v, nil
		}
	}
	err := &Error{Msg: "got " + describe(v)}
	if n := Nearest(string(s), o); n != "" {
		err.Hint = fmt.Sprintf("did you mean %q?", n)
	}
	return nil, err
}

type listOf struct{ elem Type }

// ListOf is a list or tuple whose elements are all of type t.
func ListOf(t Type) Type { return listOf{t} }

func (l listOf) String() string { return "list of " + l.elem.String() }

func (l listOf) Check(v starlark.Value) (starlark.Value, error) {
	seq, ok := v.(starlark.Indexable)
	if _, text := v.(starlark.String); text || !ok {
		return nil, fmt.Errorf("got %s", describe(v))
	}
	n := seq.Len()
	if n > MaxNodes {
		return nil, fmt.Errorf("got %d elements, the limit is %d", n, MaxNodes)
	}
	out := make(starlark.Tuple, n)
	for i := range out {
		x, err := l.elem.Check(seq.Index(i))
		if inner, ok := err.(*Error); ok {
			return nil, &Error{Msg: fmt.Sprintf("element %d: %s", i, inner.Msg), Hint: inner.Hint}
		}
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
		out[i] = x
	}
	return out, nil
}

type oneOrMany struct{ elem Type }

// OneOrMany is one value of type t or a list of them; the builtin always gets
// a list.
func OneOrMany(t Type) Type { return oneOrMany{t} }

func (o oneOrMany) String() string { return o.elem.String() + " or list of " + o.elem.String() }

func (o oneOrMany) Check(v starlark.Value) (starlark.Value, error) {
	switch v.(type) {
	case *starlark.List, starlark.Tuple:
		return listOf{o.elem}.Check(v)
	}
	x, err := o.elem.Check(v)
	if err != nil {
		return nil, err
	}
	return starlark.Tuple{x}, nil
}

type either []Type

// Either is a value of one of the given types; the first that fits decides the
// form the builtin gets.
func Either(types ...Type) Type { return either(types) }

func (e either) String() string {
	names := make([]string, len(e))
	for i, t := range e {
		names[i] = t.String()
	}
	return strings.Join(names, " or ")
}

func (e either) Check(v starlark.Value) (starlark.Value, error) {
	for _, t := range e {
		if x, err := t.Check(v); err == nil {
			return x, nil
		}
	}
	return nil, fmt.Errorf("got %s", describe(v))
}

type between struct {
	Type
	lo, hi float64
}

// Between is a number of type t (Int, Float, Number, or Duration in seconds)
// from lo to hi, both included.
func Between(t Type, lo, hi float64) Type { return between{t, lo, hi} }

func (b between) String() string {
	switch {
	case math.IsInf(b.hi, 1):
		return fmt.Sprintf("%v ≥ %s", b.Type, plain(b.lo))
	case math.IsInf(b.lo, -1):
		return fmt.Sprintf("%v ≤ %s", b.Type, plain(b.hi))
	}
	return fmt.Sprintf("%v from %s to %s", b.Type, plain(b.lo), plain(b.hi))
}

// plain writes a border as people do: 1000000, not 1e+06.
func plain(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func (b between) Check(v starlark.Value) (starlark.Value, error) {
	x, err := b.Type.Check(v)
	if err != nil {
		return nil, err
	}
	f, ok := starlark.AsFloat(x)
	if d, isSpan := x.(startime.Duration); isSpan {
		f, ok = time.Duration(d).Seconds(), true
	}
	if !ok || f < b.lo || f > b.hi {
		return nil, fmt.Errorf("got %s", describe(v))
	}
	return x, nil
}

// typeOf returns the type of the row, Any if none is given.
func (p *Param) typeOf() Type {
	if p.Type == nil {
		return Any
	}
	return p.Type
}

// Summary is the row in one phrase, as messages and signatures show it:
// `timeout (duration, default "30s")`.
func (p *Param) Summary() string {
	return fmt.Sprintf("%q (%s)", p.Name, p.kind())
}

func (p *Param) kind() string {
	s := p.typeOf().String()
	if p.Unit != "" {
		s += " in " + p.Unit
	}
	switch {
	case p.Required:
		s += ", required"
	case p.Default != nil:
		s += ", default " + p.defaultText()
	}
	return s
}

func (p *Param) defaultText() string {
	switch d := p.Default.(type) {
	case nil:
		return "None"
	case time.Duration:
		return fmt.Sprintf("%q", d.String())
	}
	v, err := FromGo(p.Default)
	if err != nil {
		return "?"
	}
	return v.String()
}
