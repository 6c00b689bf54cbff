package bus_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"edged/bus"
)

// What waits behind a handler goes over to another subscription, in order; the
// worker keeps what it has begun, and nothing comes twice or gets lost.
func TestHandGivesWhatWaits(t *testing.T) {
	for _, n := range []int{0, 1, 2, 40, 200} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := bus.New(bus.Options{})
				defer b.Close(t.Context())
				gate := make(chan struct{})
				var first, second []int64
				old, err := b.Handle("t", bus.Queue{Limit: 1000}, func(_ context.Context, e bus.Event) error {
					<-gate
					first = append(first, e.Payload().(int64))
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				for i := range n {
					b.Publish(t.Context(), "test", "t", i)
				}
				synctest.Wait()
				if n > 100 { // some are in the reader's hand
					gate <- struct{}{}
					synctest.Wait()
				}
				next, err := b.Handle("t", bus.Queue{Limit: 1000}, func(_ context.Context, e bus.Event) error {
					second = append(second, e.Payload().(int64))
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				letGo := next.Hold()
				for _, e := range old.Hand() {
					if !next.Push(e) {
						t.Error("it did not take an event")
					}
				}
				b.Publish(t.Context(), "test", "t", n) // comes after
				synctest.Wait()
				if len(second) != 0 || n > 0 && old.Idle() {
					t.Errorf("while the first handler runs the second handled %v; the first is idle: %v", second, old.Idle())
				}
				close(gate)
				synctest.Wait()
				letGo()
				synctest.Wait()
				all := append(first, second...)
				if len(all) != n+1 {
					t.Fatalf("%d of %d were handled", len(all), n+1)
				}
				for i, v := range all {
					if v != int64(i) {
						t.Fatalf("got %v, want them in order", all)
					}
				}
				if !old.Idle() || !next.Idle() || old.Hand() != nil || old.Push(bus.Event{Topic: "t"}) {
					t.Error("the one that was handed over has not ended")
				}
				if st := old.Stats(); st.Taken != uint64(len(first)) || st.Discarded != 0 {
					t.Errorf("the first counts %d taken, %d discarded; want %d, 0", st.Taken, st.Discarded, len(first))
				}
			})
		})
	}
}

// A held subscription takes in and gives out nothing; each hold counts.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{})
		defer b.Close(t.Context())
		n := 0
		s, err := b.Handle("t", bus.Queue{Limit: 3}, func(context.Context, bus.Event) error { n++; return nil })
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		one, two := s.Hold(), s.Hold()
		for range 4 {
			b.Publish(t.Context(), "test", "t", nil)
		}
		one()
		one()
		synctest.Wait()
		if n != 0 || s.Idle() || s.Dropped() != 1 {
			t.Errorf("%d handled, idle %v, %d dropped; want 0, false, 1", n, s.Idle(), s.Dropped())
		}
		two()
		synctest.Wait()
		if n != 3 || !s.Idle() {
			t.Errorf("%d handled, idle %v; want 3, true", n, s.Idle())
		}
		s.Hold() // never let go
	})
}
