package bus_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"edged/bus"
)

// A context that names a cause is in all else the one it was made from, and
// tells what the cause is.
func TestContextOfACause(t *testing.T) {
	type key struct{}
	b := bus.New(bus.Options{})
	defer b.Close(t.Context())
	if seq, hops := bus.CauseOf(t.Context()); seq != 0 || hops != 0 {
		t.Errorf("without a cause: got %d after %d hops", seq, hops)
	}
	e, err := b.Publish(t.Context(), "test", "a", nil)
	for range 3 {
		if err == nil {
			e, err = b.Publish(bus.WithCause(t.Context(), e), "test", "a", nil)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx := bus.WithCause(context.WithValue(t.Context(), key{}, "kept"), e)
	if got := ctx.Value(key{}); got != "kept" {
		t.Errorf("the context beneath has %v, want its value", got)
	}
	for _, ctx := range []context.Context{ctx, bus.WithRun(ctx, "run"), context.WithValue(ctx, key{}, "other")} {
		if seq, hops := bus.CauseOf(ctx); seq != e.Seq || hops != 3 {
			t.Errorf("got cause %d after %d hops, want %d after 3", seq, hops, e.Seq)
		}
	}
}

// A run within a run is within both, also when the event that began it is far.
func TestRunWithinARun(t *testing.T) {
	b := bus.New(bus.Options{})
	defer b.Close(t.Context())
	ctx := bus.WithRun(bus.WithRun(t.Context(), "outer"), "inner")
	e, err := b.Publish(ctx, "test", "a", nil)
	for range 3 {
		if err != nil || !e.Within("outer") || !e.Within("inner") || e.Within("other") {
			t.Fatalf("%+v %v: want it within both", e, err)
		}
		e, err = b.Publish(bus.WithRun(bus.WithCause(t.Context(), e), "later"), "test", "a", nil)
	}
}

// What would be told of at the end of a chain that races is refused before it
// is done; a chain that takes its time may do it.
func TestStormy(t *testing.T) {
	for _, row := range []struct {
		pause time.Duration
		storm bool
	}{{0, true}, {time.Second, false}} {
		synctest.Test(t, func(t *testing.T) {
			b := bus.New(bus.Options{})
			defer b.Close(t.Context())
			errs, err := b.Subscribe(bus.ErrorTopic, bus.Queue{})
			if err != nil {
				t.Fatal(err)
			}
			if err := b.Stormy(t.Context(), "test", "act"); err != nil {
				t.Errorf("without a cause: %v", err)
			}
			var refused error
			if _, err := b.Handle("leg/+", bus.Queue{}, func(ctx context.Context, e bus.Event) error {
				time.Sleep(row.pause)
				if err := b.Stormy(ctx, "test", "act"); err != nil {
					if refused = err; e.Hops != bus.MaxHops {
						t.Errorf("refused after %d hops, want %d", e.Hops, bus.MaxHops)
					}
					return nil
				}
				if e.Hops < bus.MaxHops {
					_, err := b.Publish(ctx, "test", fmt.Sprint("leg/", e.Hops+1), nil)
					return err
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if _, err := b.Publish(t.Context(), "test", "leg/0", nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if !row.storm {
				if refused != nil || b.Stats().Storms != 0 {
					t.Errorf("got %v, %d storms: it takes its time", refused, b.Stats().Storms)
				}
				return
			}
			if !errors.Is(refused, bus.ErrStorm) || !strings.Contains(refused.Error(), fmt.Sprintf("act: storm guard: %d events each", bus.MaxHops+1)) || b.Stats().Storms != 1 {
				t.Fatalf("got %v, %d storms", refused, b.Stats().Storms)
			}
			list := drainAll(t, errs)
			if len(list) != 1 {
				t.Fatalf("%d errors are told, want 1", len(list))
			}
			m := list[0].Payload().(map[string]any)
			loop := m["loop"].([]any)
			if m["topic"] != "act" || m["source"] != "test" || len(loop) != bus.MaxHops+1 || loop[0] != "leg/0" || loop[bus.MaxHops] != fmt.Sprint("leg/", bus.MaxHops) {
				t.Errorf("told %v", m)
			}
		})
	}
}

// Of a chain that is long by now the newest links are remembered, and the runs
// that it went through, each once, however often it did.
func TestLongChainsRememberTheirEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{})
		defer b.Close(t.Context())
		errs, err := b.Subscribe(bus.ErrorTopic, bus.Queue{})
		if err != nil {
			t.Fatal(err)
		}
		const slow, cap = 400, 400 + 20*bus.MaxHops
		legs := 0
		if _, err := b.Handle("leg/+", bus.Queue{}, func(ctx context.Context, e bus.Event) error {
			if legs++; legs <= slow {
				time.Sleep(time.Second)
			}
			if !e.Within("begin") || !e.Within("patrol") {
				t.Errorf("leg %d is not known to be of its runs", legs)
			}
			if legs < cap {
				_, _ = b.Publish(bus.WithRun(ctx, "patrol"), "test", fmt.Sprint("leg/", legs), nil)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Publish(bus.WithRun(bus.WithRun(t.Context(), "begin"), "patrol"), "test", "leg/0", nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * slow * time.Second)
		synctest.Wait()
		list := drainAll(t, errs)
		if len(list) != 1 {
			t.Fatalf("%d errors are told, want the one of the storm", len(list))
		}
		var newest []any
		for i := range bus.MaxHops {
			newest = append(newest, fmt.Sprint("leg/", legs-bus.MaxHops+i))
		}
		loop := list[0].Payload().(map[string]any)["loop"].([]any)
		if len(loop) < bus.MaxHops || len(loop) > 3*bus.MaxHops || !slices.Equal(loop[len(loop)-bus.MaxHops:], newest) {
			t.Errorf("%d topics of %d legs are remembered: %v", len(loop), legs, loop)
		}
	})
}
