package bus_test

import (
	"context"
	"testing"
	"testing/synctest"

	"edged/bus"
)

// Whoever heard nothing can tell why: the predicate said no, or the event was
// published before it began to listen.
func TestRefusedAndSince(t *testing.T) {
	b := bus.New(bus.Options{})
	defer b.Close(t.Context())
	early, err := b.Publish(t.Context(), "test", "a", 1)
	if err != nil {
		t.Fatal(err)
	}
	s, err := b.Subscribe("a", bus.Queue{Where: func(e bus.Event) bool { return e.Payload() == int64(3) }})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []int{2, 3, 4} {
		if _, err := b.Publish(t.Context(), "test", "a", v); err != nil {
			t.Fatal(err)
		}
	}
	if st := s.Stats(); st.Since != early.Seq || st.Refused != 2 || st.Queued != 1 {
		t.Errorf("got since %d, %d refused, %d queued; want since %d, 2, 1", st.Since, st.Refused, st.Queued, early.Seq)
	}
}

// Who is idle has nothing before it: no event that is queued, in hand, or with
// the handler.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{})
		gate := make(chan struct{})
		s, err := b.Handle("t", bus.Queue{}, func(context.Context, bus.Event) error { <-gate; return nil })
		if err != nil {
			t.Fatal(err)
		}
		want := func(when string, idle bool) {
			t.Helper()
			if s.Idle() != idle {
				t.Errorf("%s: Idle is %v", when, !idle)
			}
		}
		synctest.Wait()
		want("at the start", true)
		for i := range 3 {
			if _, err := b.Publish(t.Context(), "test", "t", i); err != nil {
				t.Fatal(err)
			}
			want("published", false)
		}
		for range 3 {
			synctest.Wait()
			want("in the handler", false)
			gate <- struct{}{}
		}
		synctest.Wait()
		want("handled", true)
		if _, err := b.Publish(t.Context(), "test", "t", nil); err != nil {
			t.Fatal(err)
		}
		s.Close()
		want("closed", true)
		close(gate)
		_ = b.Close(t.Context())
	})
}
