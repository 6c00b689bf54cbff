package lib

import (
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/starlark"

	"edged/starlark/script"
	"edged/starlark/value"
)

// callback is a script function that the runtime will call, with the choice of
// arguments it takes of those it is offered.
//
// A function may leave out what it does not need, from the right: a handler is
// offered (event, ctx) and may be f(), f(ev) or f(ev, ctx). A parameter called
// ctx gets the context wherever it stands, and a parameter with a default gets
// something only if it is called as what is offered.
type callback struct {
	fn    starlark.Callable
	place []int          // offered values that go by position; ctxAt is the context
	named map[string]int // and by name
	at    script.Position
	name  string

	context bool // it takes a ctx
}

const ctxAt = -1

// newCallback takes a function out of a call's argument, for good, and checks
// that it can be called with what will be offered, besides a ctx.
func newCallback(c *value.Call, arg string, offered ...string) (*callback, error) {
	fn := c.Kept(arg)
	if fn == nil {
		return nil, nil
	}
	cb, missing := makeCallback(fn, offered...)
	if missing != "" {
		return nil, c.Errorf(arg, "argument %q: %s needs an argument %q, but it is called with (%s)",
			arg, fn.Name(), missing, strings.Join(append(slices.Clone(offered), "ctx"), ", "))
	}
	return cb, nil
}

// makeCallback is newCallback for a function that is frozen already. It gives
// the name of an argument that could not be filled.
func makeCallback(fn starlark.Callable, offered ...string) (cb *callback, missing string) {
	cb = &callback{fn: fn, name: fn.Name()}
	f, ok := script.SignatureOf(fn)
	if !ok {
		if len(offered) > 0 {
			cb.place = []int{0}
		}
		return cb, ""
	}
	cb.at = script.Position{File: f.Position().Filename(), Line: int(f.Position().Line), Col: int(f.Position().Col)}
	next := 0
	positional := f.NumParams() - f.NumKwonlyParams()
	if f.HasVarargs() {
		positional--
	}
	if f.HasKwargs() {
		positional--
	}
	for i := range f.NumParams() {
		name, _ := f.Param(i)
		star := f.HasVarargs() && i == positional || f.HasKwargs() && i == f.NumParams()-1
		if star {
			continue
		}
		optional := f.ParamDefault(i) != nil
		at, known := slices.Index(offered, name), true
		switch {
		case name == "ctx":
			at = ctxAt
		case optional && at < 0:
			known = false
		case !optional && i < positional && next < len(offered):
			at = next
			next++
		case !optional:
			return nil, name
		}
		cb.context = cb.context || at == ctxAt && name == "ctx"
		switch {
		case !known:
		case i < positional && len(cb.place) == i:
			cb.place = append(cb.place, at)
		default:
			if cb.named == nil {
				cb.named = make(map[string]int)
			}
			cb.named[name] = at
		}
	}
	if f.HasVarargs() && len(cb.place) == positional {
		for ; next < len(offered); next++ {
			cb.place = append(cb.place, next)
		}
	}
	return cb, ""
}

// args picks the arguments of one call.
func (cb *callback) args(r *run, offered []starlark.Value) (starlark.Tuple, []starlark.Tuple) {
	pick := func(at int) starlark.Value {
		if at == ctxAt {
			return r.b.contextValue(r)
		}
		return offered[at]
	}
	args := make(starlark.Tuple, len(cb.place))
	for i, at := range cb.place {
		args[i] = pick(at)
	}
	if cb.named == nil {
		return args, nil
	}
	kwargs := make([]starlark.Tuple, 0, len(cb.named))
	for name, at := range cb.named {
		kwargs = append(kwargs, starlark.Tuple{starlark.String(name), pick(at)})
	}
	return args, kwargs
}

// where is the place of the statement that calls a builtin.
func where(c *value.Call) script.Position {
	return script.Caller(c.Thread)
}

// source is who publishes when the call does: the agent or handler that runs,
// or the file.
func (b *Behaviour) source(c *value.Call) string {
	if r := runOf(c.Context()); r != nil && r.source != "" {
		return r.source
	}
	return b.scriptSource(where(c).File)
}

func (b *Behaviour) scriptSource(file string) string {
	if file == "" {
		file = "main.star"
	}
	return "script:" + strings.TrimPrefix(file, b.folder+"/")
}

func (cb *callback) String() string { return fmt.Sprintf("%s at %v", cb.name, cb.at) }
