package lib

import (
	"context"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"edged/blackboard"
	"edged/bus"
	"edged/starlark/value"
)

const benchScript = `
def hot(e):
    if e["t"] > 30:
        return "hot"
`

// BenchmarkHandler is what stands between a queue and a script: one event to
// its handler and back (edged), and the same function called by the interpreter
// with a value made beforehand (limit). The payload is converted once, as for
// the second of two scripts that hear an event.
func BenchmarkHandler(b *testing.B) {
	events := bus.New(bus.Options{})
	board, err := blackboard.Open(events, blackboard.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer board.Close()
	folder := fstest.MapFS{"main.star": {Data: []byte(benchScript + "\non('box/t', hot)\non('box/u', hot)\n")}}
	h, err := Load(b.Context(), &Host{Name: "box", Bus: events, Board: board}, folder, Options{})
	if err != nil {
		b.Fatal(err)
	}
	if err := h.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	var ls []*listener
	for p := range h.parts {
		ls = append(ls, p.(*listener))
	}
	l := ls[0]
	tree := map[string]any{"t": 31, "topic": "home/kitchen/temp", "ts": 1700000000, "unit": "C"}
	e, err := events.Publish(b.Context(), "test", "elsewhere", tree)
	if err != nil {
		b.Fatal(err)
	}
	ctx := bus.WithCause(context.Background(), e)
	b.Run("edged", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := l.handle(ctx, e); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("limit", func(b *testing.B) {
		globals, err := starlark.ExecFileOptions(&syntax.FileOptions{}, &starlark.Thread{}, "main.star", benchScript, nil)
		if err != nil {
			b.Fatal(err)
		}
		v, err := value.FromGo(tree)
		if err != nil {
			b.Fatal(err)
		}
		thread, args := &starlark.Thread{}, starlark.Tuple{v}
		b.ReportAllocs()
		for b.Loop() {
			if _, err := starlark.Call(thread, globals["hot"], args, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("scale", func(b *testing.B) {
		defer debug.SetGCPercent(debug.SetGCPercent(400)) // as the program does at start
		var one, all time.Duration
		for b.Loop() { // both in turns, for the machine's mood changes by the second
			one += together(b, 1, ls, ctx, e)
			all += together(b, runtime.NumCPU(), ls, ctx, e)
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(float64(one)*float64(runtime.NumCPU())/float64(all), "speed-up")
	})
	if err := h.Stop(b.Context()); err != nil {
		b.Error(err)
	}
}

// together lets n goroutines handle 50,000 events each, every one its handler.
func together(b *testing.B, n int, ls []*listener, ctx context.Context, e bus.Event) time.Duration {
	var wg sync.WaitGroup
	start := time.Now()
	for i := range n {
		wg.Go(func() {
			for range 50_000 {
				if err := ls[i%len(ls)].handle(ctx, e); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}
