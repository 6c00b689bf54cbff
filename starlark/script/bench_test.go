package script_test

import (
	"context"
	"fmt"
	"testing"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"edged/starlark/script"
	"edged/starlark/value"
)

const handlers = `
def on_event(e):
    if e["t"] > 30:
        return "hot"

def on_float(e):
    if e["t"] > 30.0:
        return "hot"

def noop(e):
    pass

def loop(e):
    s = 0
    for i in range(1000):
        s += i * 3
    return s
`

// BenchmarkCall is one event to a handler and back, through the engine with
// its limits and a context that can end (edged), and by the interpreter alone
// on a thread of its own, from the same source (limit). The event's value is
// made once, as the bus does. With -cpu 1,2 and GOGC=400 it shows how small
// handlers scale.
func BenchmarkCall(b *testing.B) {
	e := script.New(script.Options{})
	p, err := load(b, e, map[string]string{"main.star": handlers})
	if err != nil {
		b.Fatal(err)
	}
	globals := p.Main().Globals
	plain, err := starlark.ExecFileOptions(&syntax.FileOptions{While: true, TopLevelControl: true, GlobalReassign: true, Recursion: true},
		&starlark.Thread{}, "main.star", handlers, nil)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, c := range []struct {
		name, fn string
		t        any
	}{{"int", "on_event", 31}, {"float", "on_float", 31.5}, {"float-int", "on_event", 31.5}, {"noop", "noop", 1}} {
		ev, err := value.FromGo(map[string]any{"t": c.t, "topic": "home/kitchen/temp", "ts": 1700000000, "unit": "C"})
		if err != nil {
			b.Fatal(err)
		}
		fn, bare := globals[c.fn], plain[c.fn]
		b.Run(c.name+"/edged", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				args := starlark.Tuple{ev}
				for pb.Next() {
					if _, err := e.Call(ctx, fn, args, nil, script.Limits{}); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
		b.Run(c.name+"/limit", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				args := starlark.Tuple{ev}
				t := &starlark.Thread{}
				for pb.Next() {
					if _, err := starlark.Call(t, bare, args, nil); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

// BenchmarkBuiltin is a call of a builtin with its argument table (edged) and
// of one that unpacks by the interpreter's own means (limit).
func BenchmarkBuiltin(b *testing.B) {
	f := value.Func{Name: "set", Params: []value.Param{
		{Name: "key", Type: value.String, Required: true, Positional: true},
		{Name: "value", Required: true, Positional: true},
		{Name: "ttl", Type: value.Duration},
	}, Do: func(c *value.Call) (starlark.Value, error) { _ = c.String("key"); return starlark.None, nil }}
	limit := starlark.NewBuiltin("set", func(t *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		var key string
		var v, ttl starlark.Value
		err := starlark.UnpackArgs("set", args, kwargs, "key", &key, "value", &v, "ttl?", &ttl)
		return starlark.None, err
	})
	args := starlark.Tuple{starlark.String("motor"), starlark.String("on")}
	for _, c := range []struct {
		name string
		fn   starlark.Value
	}{{"edged", f.Builtin()}, {"limit", limit}} {
		b.Run(fmt.Sprintf("positional/%s", c.name), func(b *testing.B) {
			b.ReportAllocs()
			t := &starlark.Thread{}
			for b.Loop() {
				if _, err := starlark.Call(t, c.fn, args, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
