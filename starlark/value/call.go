package value

import (
	"context"
	"fmt"
	"time"

	startime "go.starlark.net/lib/time"
	"go.starlark.net/starlark"
)

// Runner is what a script thread carries: the context of the call that is
// running on it and the clock that counts its own time. Package script's
// threads have one.
type Runner interface {
	Context() context.Context
	// Pause stops the script's clock while a builtin waits; Resume lets it go
	// on. They nest.
	Pause()
	Resume()
}

// Keeper is a runner that is loading a module, whose values are frozen only
// when the load is done.
type Keeper interface {
	// Keep notes a value to be frozen at the end of the load.
	Keep(v starlark.Value)
}

const localKey = "edged.runner"

// SetRunner gives a thread its runner. It must be called before the thread
// runs anything.
func SetRunner(t *starlark.Thread, r Runner) { t.SetLocal(localKey, r) }

// RunnerOf returns the thread's runner, or nil.
func RunnerOf(t *starlark.Thread) Runner {
	r, _ := t.Local(localKey).(Runner)
	return r
}

// ContextOf returns the context of the call that runs on the thread. A thread
// without a runner (a plain test) has the background context.
func ContextOf(t *starlark.Thread) context.Context {
	if r := RunnerOf(t); r != nil {
		return r.Context()
	}
	return context.Background()
}

// Call is one call of a builtin with its arguments checked. It is valid only
// until the builtin returns and belongs to the goroutine it was made on. The
// getters panic when asked for a name that is not in the table, or as a type it
// does not have: mistakes of the program, which become errors of the call.
type Call struct {
	Thread *starlark.Thread
	b      *Builtin
	vals   []starlark.Value
	space  [8]starlark.Value
	rest   starlark.Tuple
	named  []starlark.Tuple
}

// Context returns the context of the script call, to stop waiting by.
func (c *Call) Context() context.Context { return ContextOf(c.Thread) }

// Name returns the name of the builtin that was called.
func (c *Call) Name() string { return c.b.f.Name }

func (c *Call) at(name string) starlark.Value {
	for i := range c.b.f.Params {
		if c.b.f.Params[i].Name == name {
			return c.vals[i]
		}
	}
	panic(fmt.Sprintf("%s has no parameter %q in its table", c.b.f.Name, name))
}

// Declares reports whether the table has a parameter of that name.
func (c *Call) Declares(name string) bool {
	for i := range c.b.f.Params {
		if c.b.f.Params[i].Name == name {
			return true
		}
	}
	return false
}

// Has reports whether the argument was given or has a default.
func (c *Call) Has(name string) bool { return c.at(name) != nil }

// Value returns the argument as it is, None if it was not given.
func (c *Call) Value(name string) starlark.Value {
	if v := c.at(name); v != nil {
		return v
	}
	return starlark.None
}

// String returns text, "" if it was not given.
func (c *Call) String(name string) string {
	switch v := c.at(name).(type) {
	case nil:
		return ""
	case starlark.String:
		return string(v)
	case starlark.Bytes:
		return string(v)
	default:
		panic(c.not(name, v, "string"))
	}
}

// Bytes returns bytes, nil if they were not given.
func (c *Call) Bytes(name string) []byte {
	if c.at(name) == nil {
		return nil
	}
	return []byte(c.String(name))
}

// Bool returns a truth value, false if it was not given.
func (c *Call) Bool(name string) bool {
	v := c.at(name)
	return v != nil && bool(v.Truth())
}

// Int returns a whole number, 0 if it was not given.
func (c *Call) Int(name string) int {
	return int(c.Int64(name))
}

// Int64 returns a whole number, 0 if it was not given.
func (c *Call) Int64(name string) int64 {
	switch v := c.at(name).(type) {
	case nil:
		return 0
	case starlark.Int:
		if i, ok := v.Int64(); ok {
			return i
		}
		panic(c.not(name, v, "64-bit int"))
	default:
		panic(c.not(name, v, "int"))
	}
}

// Float returns a number, 0 if it was not given.
func (c *Call) Float(name string) float64 {
	v := c.at(name)
	if v == nil {
		return 0
	}
	f, ok := starlark.AsFloat(v)
	if !ok {
		panic(c.not(name, v, "number"))
	}
	return f
}

// Duration returns a span of time, 0 if it was not given.
func (c *Call) Duration(name string) time.Duration {
	switch v := c.at(name).(type) {
	case nil:
		return 0
	case startime.Duration:
		return time.Duration(v)
	default:
		panic(c.not(name, v, "duration"))
	}
}

// Callable returns a function, nil if it was not given.
func (c *Call) Callable(name string) starlark.Callable {
	switch v := c.at(name).(type) {
	case nil:
		return nil
	case starlark.Callable:
		return v
	default:
		panic(c.not(name, v, "function"))
	}
}

// Kept returns a function that will be called later, from other threads: it is
// frozen, at once or, while a module still loads, at the end of the load. Every
// builtin that stores a callback must get it by this.
func (c *Call) Kept(name string) starlark.Callable {
	fn := c.Callable(name)
	if fn == nil {
		return nil
	}
	if k, ok := RunnerOf(c.Thread).(Keeper); ok {
		k.Keep(fn)
	} else {
		fn.Freeze()
	}
	return fn
}

// List returns the elements of a list, nil if it was not given. They are the
// script's own values: not to be kept unless frozen.
func (c *Call) List(name string) []starlark.Value {
	switch v := c.at(name).(type) {
	case nil:
		return nil
	case starlark.Tuple:
		return v
	case *starlark.List:
		out := make([]starlark.Value, v.Len())
		for i := range out {
			out[i] = v.Index(i)
		}
		return out
	default:
		panic(c.not(name, v, "list"))
	}
}

// Strings returns a list of text, nil if it was not given.
func (c *Call) Strings(name string) []string {
	list := c.List(name)
	if list == nil {
		return nil
	}
	out := make([]string, len(list))
	for i, v := range list {
		s, ok := v.(starlark.String)
		if !ok {
			panic(c.not(name, v, "string"))
		}
		out[i] = string(s)
	}
	return out
}

// Tree returns the argument as a Go tree, a copy: see [ToGo].
func (c *Call) Tree(name string) (any, error) {
	v, err := ToGo(c.Value(name))
	if err != nil {
		return nil, &Error{Func: c.b.f.Name, Arg: name, Msg: fmt.Sprintf("argument %q: %s", name, trimPrefix(err)), Err: err}
	}
	return v, nil
}

// Dict returns the argument as a Go map, a copy; nil if it was not given.
func (c *Call) Dict(name string) (map[string]any, error) {
	v, err := c.Tree(name)
	if err != nil || v == nil {
		return nil, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		panic(c.not(name, c.at(name), "dict"))
	}
	return m, nil
}

// Rest returns the positional arguments beyond the table's rows.
func (c *Call) Rest() starlark.Tuple { return c.rest }

// Named returns the keyword arguments that are in no row, in the order given.
func (c *Call) Named() []starlark.Tuple { return c.named }

// NamedTree returns the keyword arguments that are in no row as a Go tree.
func (c *Call) NamedTree() (map[string]any, error) {
	m := make(map[string]any, len(c.named))
	for _, kv := range c.named {
		k := string(kv[0].(starlark.String))
		v, err := ToGo(kv[1])
		if err != nil {
			return nil, c.Errorf(k, "argument %q: %s", k, trimPrefix(err))
		}
		m[k] = v
	}
	return m, nil
}

// Run calls a script function on the thread of this call, under its limits.
func (c *Call) Run(fn starlark.Callable, args ...starlark.Value) (starlark.Value, error) {
	return starlark.Call(c.Thread, fn, args, nil)
}

// Return makes the script form of a Go tree, to end a builtin with.
func (c *Call) Return(v any) (starlark.Value, error) { return FromGo(v) }

// Errorf makes an error about one argument; printers point at it.
func (c *Call) Errorf(arg, format string, a ...any) error {
	return &Error{Func: c.b.f.Name, Arg: arg, Msg: fmt.Sprintf(format, a...)}
}

func (c *Call) not(name string, v starlark.Value, want string) string {
	return fmt.Sprintf("%s reads argument %q as %s, but it is %s", c.b.f.Name, name, want, v.Type())
}

func trimPrefix(err error) string {
	s := err.Error()
	if len(s) > 7 && s[:7] == "value: " {
		return s[7:]
	}
	return s
}
