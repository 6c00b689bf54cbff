package bus_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"edged/bus"
)

func TestStormGuardNamesTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{})
		defer b.Close(t.Context())
		var handled atomic.Int64
		relay := func(to string) func(context.Context, bus.Event) error {
			return func(ctx context.Context, e bus.Event) error {
				if handled.Add(1) < 20*bus.MaxHops { // without the guard it has an end, too
					b.Publish(ctx, "test", to, nil)
				}
				return nil
			}
		}
		b.Handle("ping", bus.Queue{}, relay("pong"))
		b.Handle("pong", bus.Queue{}, relay("ping"))
		errs, _ := b.Subscribe(bus.ErrorTopic, bus.Queue{})
		b.Publish(t.Context(), "test", "ping", nil)
		b.Publish(t.Context(), "test", "ping", nil)
		synctest.Wait()
		if handled.Load() != 2*(bus.MaxHops+1) {
			t.Errorf("%d events were handled, want %d", handled.Load(), 2*(bus.MaxHops+1))
		}
		list := drainAll(t, errs)
		if len(list) != 1 {
			t.Fatalf("%d error events, want 1 for the loop", len(list))
		}
		loop := fmt.Sprint(list[0].Payload().(map[string]any)["loop"])
		if loop != "[ping pong]" {
			t.Errorf("loop is %s, want [ping pong]", loop)
		}
		if st := b.Stats(); st.Storms != 2 {
			t.Errorf("%d storms counted, want 2", st.Storms)
		}
	})
}

// A patrol whose legs each cause the next goes on for ever; when it begins to
// race it is over, and what is told of it is bounded.
func TestAChainThatTakesItsTimeIsNoStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{})
		defer b.Close(t.Context())
		errs, _ := b.Subscribe(bus.ErrorTopic, bus.Queue{})
		const slow = 500
		legs, own := 0, 0
		b.Handle("leg/+", bus.Queue{}, func(ctx context.Context, e bus.Event) error {
			if legs++; legs <= slow {
				time.Sleep(time.Minute)
			}
			if e.Within("patrol") {
				own++
			}
			if legs > slow+20*bus.MaxHops { // there is no guard
				return nil
			}
			_, err := b.Publish(ctx, "test", fmt.Sprintf("leg/%d", legs), nil)
			if errors.Is(err, bus.ErrStorm) {
				return nil
			}
			return err
		})
		b.Publish(bus.WithRun(t.Context(), "patrol"), "test", "leg/0", nil)
		time.Sleep((slow + 1) * time.Minute)
		synctest.Wait()
		if legs < slow || legs > slow+2*bus.MaxHops {
			t.Errorf("%d legs, want %d in their time and at most %d more", legs, slow, 2*bus.MaxHops)
		}
		if own != legs {
			t.Errorf("%d of %d legs are known to be of the run that began it", own, legs)
		}
		list := drainAll(t, errs)
		if len(list) != 1 {
			t.Fatalf("%d error events, want the one of the storm", len(list))
		}
		if n := len(list[0].Payload().(map[string]any)["loop"].([]any)); n < bus.MaxHops || n > 4*bus.MaxHops {
			t.Errorf("%d topics are remembered of %d hops", n, legs)
		}
	})
}

// A watcher that takes half a second each time is a loop and no storm; one a
// hundred times as fast is.
func TestThePaceThatMakesAStorm(t *testing.T) {
	for _, row := range []struct {
		pause time.Duration
		over  bool
	}{{0, true}, {10 * time.Millisecond, true}, {300 * time.Millisecond, true}, {bus.StormSpan / (bus.MaxHops / 2), true}, {320 * time.Millisecond, false}, {350 * time.Millisecond, false}, {time.Second, false}} {
		synctest.Test(t, func(t *testing.T) {
			b := bus.New(bus.Options{})
			defer b.Close(t.Context())
			n := 0
			b.Handle("t", bus.Queue{}, func(ctx context.Context, e bus.Event) error {
				time.Sleep(row.pause)
				if n++; n < 200 {
					b.Publish(ctx, "test", "t", nil)
				}
				return nil
			})
			b.Publish(t.Context(), "test", "t", nil)
			time.Sleep(time.Hour)
			synctest.Wait()
			if over := n < 200; over != row.over || over && n != bus.MaxHops+1 {
				t.Errorf("pause %v: %d rounds, want a storm: %v", row.pause, n, row.over)
			}
		})
	}
}
