package lib

import (
	"context"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"edged/blackboard"
	"edged/bus"
)

// TestSwapWaitsForTheWorker: a worker that gets no processor, which is played by
// one that waits at a gate, still handles what it took before the reload.
func TestSwapWaitsForTheWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{})
		board, err := blackboard.Open(b, blackboard.Options{})
		if err != nil {
			t.Fatal(err)
		}
		load := func() *Behaviour {
			folder := fstest.MapFS{"main.star": {Data: []byte(`on("box/in", lambda ev: bus.publish("box/out", ev["n"]))`)}}
			h, err := Load(t.Context(), &Host{Name: "box", Bus: b, Board: board}, folder, Options{})
			if err != nil {
				t.Fatal(err)
			}
			return h
		}
		old, next := load(), load()
		if err := old.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		gate := make(chan struct{})
		for p := range old.parts {
			l := p.(*listener)
			l.sub.Close()
			if l.sub, err = b.Handle("box/in", l.queue, func(ctx context.Context, e bus.Event) error {
				<-gate
				return l.handle(ctx, e)
			}); err != nil {
				t.Fatal(err)
			}
		}
		out := 0
		if _, err := b.Tap("box/out", func(bus.Event) { out++ }); err != nil {
			t.Fatal(err)
		}
		for n := range 3 {
			if _, err := b.Publish(t.Context(), "test", "box/in", map[string]any{"n": n}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait() // it has taken the first
		swapped := make(chan error, 1)
		go func() { swapped <- Swap(t.Context(), old, next) }()
		time.Sleep(time.Second)
		select {
		case err := <-swapped:
			t.Errorf("the reload did not wait: %v", err)
		default:
		}
		close(gate)
		synctest.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
		if out != 3 {
			t.Errorf("%d of 3 events were handled", out)
		}
		if err := next.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		_ = board.Close()
		_ = b.Close(t.Context())
	})
}
