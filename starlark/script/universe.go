package script

import (
	"errors"
	"fmt"

	"go.starlark.net/starlark"

	"edged/starlark/value"
)

// Bounds of the builtins of the language itself. They are far above what a
// robot's script needs and far below what stops the process.
const (
	maxElements = 1 << 20 // of a list, set or dict made in one call
	maxDigits   = 10_000  // of a number read from text
	maxPrinted  = 1 << 20 // bytes of text made from a value
)

// Universe returns the names every script has besides those of the language:
// attempt, and the language's own builtins with bounds where a single call could
// take all memory or never end.
func Universe() starlark.StringDict {
	out := starlark.StringDict{"attempt": attempt()}
	for _, name := range []string{"all", "any", "dict", "enumerate", "list", "max", "min", "reversed", "set", "sorted", "tuple", "zip"} {
		out[name] = bounded(name, checkElements)
	}
	for _, name := range []string{"str", "repr", "print", "fail"} {
		out[name] = bounded(name, checkPrinted)
	}
	out["int"] = bounded("int", checkDigits)
	out["float"] = bounded("float", checkDigits)
	out["bytes"] = bounded("bytes", checkElements)
	return out
}

// bounded wraps a builtin of the language with a look at its arguments, and
// catches its panics while the script's stack still stands.
func bounded(name string, check func(starlark.Value) error) *starlark.Builtin {
	inner := starlark.Universe[name].(*starlark.Builtin)
	return starlark.NewBuiltin(name, func(t *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (v starlark.Value, err error) {
		for _, a := range args {
			if err := check(a); err != nil {
				return nil, &value.Error{Func: name, Msg: err.Error()}
			}
		}
		defer func() {
			if p := recover(); p != nil {
				v, err = nil, &value.Error{Func: name, Msg: fmt.Sprintf("internal fault: %v", p), Err: &value.PanicError{Value: p}}
			}
		}()
		return inner.CallInternal(t, args, kwargs)
	})
}

func checkElements(v starlark.Value) error {
	if _, text := v.(starlark.String); text {
		return nil
	}
	if n := starlark.Len(v); n > maxElements {
		return fmt.Errorf("%d elements, the limit is %d", n, maxElements)
	}
	return nil
}

func checkPrinted(v starlark.Value) error {
	return value.Measure(v, maxElements, maxPrinted)
}

func checkDigits(v starlark.Value) error {
	if s, ok := v.(starlark.String); ok && len(s) > maxDigits {
		return fmt.Errorf("a number of %d digits, the limit is %d", len(s), maxDigits)
	}
	return nil
}

// outcome is what attempt returns.
type outcome struct {
	value starlark.Value
	err   string
	ok    bool
}

// attempt is the one way to catch an error in a script. The end of the call by
// a limit or its context is not caught: it would only be met again.
func attempt() *value.Builtin {
	results := &value.Kind[outcome]{
		Name: "outcome", Fixed: true,
		Doc: "What attempt returns.",
		Attrs: []value.Attr[outcome]{
			{Name: "ok", Doc: "Whether the function returned.", Type: value.Bool, Get: func(o outcome) (any, error) { return o.ok, nil }},
			{Name: "value", Doc: "What it returned, None if it failed.", Get: func(o outcome) (any, error) { return o.value, nil }},
			{Name: "error", Doc: "What went wrong, as text; None if nothing.", Type: value.String, Get: func(o outcome) (any, error) {
				if o.ok {
					return nil, nil
				}
				return o.err, nil
			}},
		},
		Truth: func(o outcome) bool { return o.ok },
		String: func(o outcome) string {
			if o.ok {
				return "outcome(ok = True)"
			}
			return fmt.Sprintf("outcome(ok = False, error = %q)", o.err)
		},
	}
	f := &value.Func{
		Name:    "attempt",
		Doc:     "Calls a function and returns how it went instead of failing with it. The end of the script by a limit is not caught.",
		Example: "r = attempt(json.decode, text)\nif not r.ok:\n    log.warn(r.error)",
		Params:  []value.Param{{Name: "f", Type: value.Callable, Required: true, Positional: true, Doc: "The function to call."}},
		Rest:    "args",
		Named:   "kwargs",
		Returns: "an outcome with .ok, .value and .error",
		Do: func(c *value.Call) (starlark.Value, error) {
			v, err := starlark.Call(c.Thread, c.Callable("f"), c.Rest(), c.Named())
			if err == nil {
				return results.Wrap(outcome{value: v, ok: true}), nil
			}
			if r := runnerOf(c.Thread); r != nil && r.ended() {
				return nil, err
			}
			return results.Wrap(outcome{value: starlark.None, err: message(err)}), nil
		},
	}
	return f.Builtin()
}

// message is an error as a script sees it: what went wrong, without the place.
func message(err error) string {
	if ve, ok := value.AsError(err); ok {
		return ve.Error()
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Msg
	}
	msg, _ := hint(err.Error())
	return msg
}
