package value

import (
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"go.starlark.net/starlark"
)

// Func describes one builtin: what it is called, what it takes, and what it
// does. [Func.Builtin] makes the script value. A Func must not be changed after
// that.
type Func struct {
	Name    string // as scripts write it, with its module: "bb.set"
	Doc     string // full sentences; the first is the summary
	Example string // script text that would run
	Params  []Param
	// Rest, if set, names further positional arguments of any number.
	Rest string
	// Named, if set, takes keyword arguments that are in no row, or whose row
	// has been given by position: they are meant for something else.
	Named   string
	Returns string // what comes back, a phrase; empty means None
	// Blocks says that the call waits for the world. The time spent in it does
	// not count against the script's own, and it must return soon after its
	// context ends.
	Blocks bool
	// Do does it. A nil value is None. It may be called concurrently.
	Do func(c *Call) (starlark.Value, error)
}

// Builtin is a Func as a script value. It may be shared between threads.
type Builtin struct {
	f        *Func
	defaults []starlark.Value
	nPos     int
	self     any // receiver of a method
}

var _ starlark.Callable = (*Builtin)(nil)

// Builtin makes the script value. It panics if the table is wrong (a repeated
// name, a default of the wrong type, a positional row after a named one): that
// is a fault of the program, found by any test that touches it. See
// [Func.Validate].
func (f *Func) Builtin() *Builtin {
	b, err := f.compile()
	if err != nil {
		panic(err)
	}
	return b
}

// Validate reports what is wrong with the table.
func (f *Func) Validate() error {
	_, err := f.compile()
	return err
}

func (f *Func) compile() (*Builtin, error) {
	b := &Builtin{f: f, defaults: make([]starlark.Value, len(f.Params))}
	if f.Name == "" || f.Do == nil {
		return nil, fmt.Errorf("value: func %q: needs a name and a Do", f.Name)
	}
	seen := make(map[string]bool)
	for i := range f.Params {
		p := &f.Params[i]
		if p.Name == "" || seen[p.Name] {
			return nil, fmt.Errorf("value: func %s: parameter %q is empty or repeated", f.Name, p.Name)
		}
		seen[p.Name] = true
		if p.Positional {
			if b.nPos != i {
				return nil, fmt.Errorf("value: func %s: positional %q after named ones", f.Name, p.Name)
			}
			b.nPos++
		}
		if p.Default == nil {
			continue
		}
		if p.Required {
			return nil, fmt.Errorf("value: func %s: %q is required and has a default", f.Name, p.Name)
		}
		v, err := FromGo(p.Default)
		if err == nil {
			v, err = p.typeOf().Check(v)
		}
		if err != nil {
			return nil, fmt.Errorf("value: func %s: default of %q: %w", f.Name, p.Name, err)
		}
		v.Freeze()
		b.defaults[i] = v
	}
	return b, nil
}

// Table returns the description behind the builtin.
func (b *Builtin) Table() *Func { return b.f }

// Name returns the builtin's name with its module.
func (b *Builtin) Name() string         { return b.f.Name }
func (b *Builtin) String() string       { return "<built-in function " + b.f.Name + ">" }
func (b *Builtin) Type() string         { return "builtin_function_or_method" }
func (b *Builtin) Freeze()              {}
func (b *Builtin) Truth() starlark.Bool { return true }

// Hash implements starlark.Value.
func (b *Builtin) Hash() (uint32, error) { return starlark.String(b.f.Name).Hash() }

// Doc returns the documentation, as starlark.Function does.
func (b *Builtin) Doc() string { return b.f.Doc }

// CallInternal implements starlark.Callable.
func (b *Builtin) CallInternal(thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (v starlark.Value, err error) {
	c := &Call{Thread: thread, b: b}
	if err := b.unpack(c, args, kwargs); err != nil {
		return nil, err
	}
	if b.f.Blocks {
		if r, ok := thread.Local(localKey).(Runner); ok {
			r.Pause()
			defer r.Resume()
		}
	}
	defer func() {
		if p := recover(); p != nil {
			v, err = nil, &Error{Func: b.f.Name, Msg: fmt.Sprintf("internal fault: %v", p), Err: &PanicError{p, debug.Stack()}}
		}
	}()
	v, err = b.f.Do(c)
	if err != nil {
		return nil, b.wrap(err)
	}
	if v == nil {
		return starlark.None, nil
	}
	return v, nil
}

// wrap names the builtin in front of an error of its own; errors of script
// functions it called keep their place.
func (b *Builtin) wrap(err error) error {
	switch e := err.(type) {
	case *starlark.EvalError:
		return e
	case *Error:
		if e.Func != "" {
			return e
		}
		named := *e
		named.Func = b.f.Name
		return &named
	}
	return &Error{Func: b.f.Name, Msg: err.Error(), Err: err}
}

// unpack checks the arguments against the table. It must not keep args, which
// belongs to the interpreter's stack.
func (b *Builtin) unpack(c *Call, args starlark.Tuple, kwargs []starlark.Tuple) error {
	params := b.f.Params
	if len(params) <= len(c.space) {
		c.vals = c.space[:len(params)]
	} else {
		c.vals = make([]starlark.Value, len(params))
	}
	skip := 0
	if len(args) > 0 && len(params) > 0 && params[0].Skip {
		if _, err := params[0].typeOf().Check(args[0]); err != nil {
			skip = 1
		}
	}
	for i, a := range args {
		if i+skip >= b.nPos {
			if b.f.Rest == "" {
				return b.tooMany(len(args))
			}
			c.rest = append(c.rest, args[i:]...)
			break
		}
		if err := b.set(c, i+skip, a, i+1); err != nil {
			return err
		}
	}
	byPlace := func(i int) bool { return i >= skip && i < len(args)+skip && i < b.nPos }
next:
	for _, kv := range kwargs {
		k := string(kv[0].(starlark.String))
		for i := range params {
			if params[i].Name == k && !(b.f.Named != "" && byPlace(i)) {
				if c.vals[i] != nil || byPlace(i) {
					return &Error{Func: b.f.Name, Arg: k, Msg: fmt.Sprintf("argument %q given twice, by position and by name", k)}
				}
				if err := b.set(c, i, kv[1], 0); err != nil {
					return err
				}
				continue next
			}
		}
		if b.f.Named == "" {
			return b.unknown(k)
		}
		c.named = append(c.named, kv)
	}
	for i := range params {
		if c.vals[i] != nil {
			continue
		}
		if params[i].Required {
			return &Error{Func: b.f.Name, Msg: fmt.Sprintf("missing argument %q (%s)", params[i].Name, params[i].typeOf()),
				Hint: "usage: " + b.f.Signature()}
		}
		c.vals[i] = b.defaults[i] // nil where there is none
	}
	return nil
}

// set checks one argument; pos is its position from 1, or 0 if it was named.
func (b *Builtin) set(c *Call, i int, v starlark.Value, pos int) error {
	p := &b.f.Params[i]
	if v == starlark.None && !p.Required {
		if t := p.typeOf(); t != Any && t != Data {
			return nil // None stands for "not given"
		}
	}
	x, err := p.typeOf().Check(v)
	if err != nil {
		return b.mistyped(p, pos, err)
	}
	c.vals[i] = x
	return nil
}

func (b *Builtin) mistyped(p *Param, pos int, err error) error {
	e := &Error{Func: b.f.Name, Arg: p.Name, Pos: pos}
	want := p.typeOf().String()
	if p.Unit != "" {
		want += " in " + p.Unit
	}
	got := err.Error()
	if inner, ok := err.(*Error); ok {
		got, e.Hint = inner.Msg, inner.Hint
	}
	e.Msg = fmt.Sprintf("argument %q: want %s, %s", p.Name, want, got)
	return e
}

func (b *Builtin) unknown(name string) error {
	e := &Error{Func: b.f.Name, Arg: name, Msg: fmt.Sprintf("unknown argument %q", name)}
	for i := range b.f.Params {
		if slices.Contains(b.f.Params[i].Also, name) {
			e.Hint = "here it is " + b.f.Params[i].Summary()
			return e
		}
	}
	names := b.f.paramNames()
	if near := Nearest(name, names); near != "" {
		for i := range b.f.Params {
			if b.f.Params[i].Name == near {
				e.Hint = "did you mean " + b.f.Params[i].Summary() + "?"
			}
		}
	} else {
		e.Hint = "usage: " + b.f.Signature()
	}
	return e
}

func (b *Builtin) tooMany(got int) error {
	e := &Error{Func: b.f.Name, Pos: b.nPos + 1}
	switch b.nPos {
	case 0:
		e.Msg = fmt.Sprintf("takes no arguments without a name, got %d", got)
	case 1:
		e.Msg = fmt.Sprintf("takes 1 argument without a name, got %d", got)
	default:
		e.Msg = fmt.Sprintf("takes at most %d arguments without a name, got %d", b.nPos, got)
	}
	if b.nPos < len(b.f.Params) {
		e.Hint = fmt.Sprintf("give the others by name, as in %s = …", b.f.Params[b.nPos].Name)
	} else {
		e.Hint = "usage: " + b.f.Signature()
	}
	return e
}

func (f *Func) paramNames() []string {
	names := make([]string, len(f.Params))
	for i := range f.Params {
		names[i] = f.Params[i].Name
	}
	return names
}

// Signature is the call as the manual shows it: drive_to(place, *, speed=0.5).
// Arguments after * are written with their name.
func (f *Func) Signature() string {
	var parts []string
	star := false
	for i := range f.Params {
		p := &f.Params[i]
		if !p.Positional && !star {
			star = true
			if f.Rest != "" {
				parts = append(parts, "*"+f.Rest)
			} else {
				parts = append(parts, "*")
			}
		}
		s := p.Name
		if !p.Required {
			s += "=" + p.defaultText()
		}
		parts = append(parts, s)
	}
	if f.Rest != "" && !star {
		parts = append(parts, "*"+f.Rest)
	}
	if f.Named != "" {
		parts = append(parts, "**"+f.Named)
	}
	return f.Name + "(" + strings.Join(parts, ", ") + ")"
}
