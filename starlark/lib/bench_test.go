package lib

import (
	"context"
	"runtime/debug"
	"sync"
	"sync/atomic"
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
		call := bareCall(b, tree)
		b.ReportAllocs()
		for b.Loop() {
			call(0)
		}
	})
	b.Run("scale", func(b *testing.B) {
		defer debug.SetGCPercent(debug.SetGCPercent(400)) // as the program does at start
		var one, all, bareOne, bareAll float64
		bare := bareCall(b, tree)
		ours := func(i int) {
			if err := ls[i].handle(ctx, e); err != nil {
				b.Error(err)
			}
		}
		for b.Loop() { // all in turns, for the machine's mood changes by the second
			one += together(1, ours)
			all += together(2, ours)
			bareOne += together(1, bare)
			bareAll += together(2, bare)
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(all/one, "speed-up")
		b.ReportMetric(bareAll/bareOne, "limit-speed-up")
	})
	if err := h.Stop(b.Context()); err != nil {
		b.Error(err)
	}
}

// bareCall is the interpreter and nothing else: the same function, for one of two
// goroutines, with a value made beforehand.
func bareCall(b *testing.B, tree any) func(i int) {
	globals, err := starlark.ExecFileOptions(&syntax.FileOptions{}, &starlark.Thread{}, "main.star", benchScript, nil)
	if err != nil {
		b.Fatal(err)
	}
	v, err := value.FromGo(tree)
	if err != nil {
		b.Fatal(err)
	}
	threads, args := [2]*starlark.Thread{{}, {}}, starlark.Tuple{v}
	return func(i int) {
		if _, err := starlark.Call(threads[i], globals["hot"], args, nil); err != nil {
			b.Error(err)
		}
	}
}

// together lets n goroutines handle events for some milliseconds, each by its
// own handler, and gives the events per second.
func together(n int, handle func(i int)) float64 {
	var wg sync.WaitGroup
	var over atomic.Bool
	var events atomic.Int64
	start := time.Now()
	for i := range n {
		wg.Go(func() {
			mine := 0
			for ; !over.Load(); mine += 100 {
				for range 100 {
					handle(i)
				}
			}
			events.Add(int64(mine))
		})
	}
	time.AfterFunc(20*time.Millisecond, func() { over.Store(true) })
	wg.Wait()
	return float64(events.Load()) / time.Since(start).Seconds()
}
