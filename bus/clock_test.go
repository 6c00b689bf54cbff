package bus_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"edged/bus"
)

// A flood is stamped once for the next millisecond; a trickle, and whatever
// comes after the flood, to the nanosecond.
func TestTheClockOfAFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{})
		defer b.Close(context.Background())
		sub, err := b.Subscribe("#", bus.Queue{Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		publish := func() time.Duration { // how old the event's time is
			if _, err := b.Publish(t.Context(), "test", "x", nil); err != nil {
				t.Fatal(err)
			}
			e := next(t, sub)
			return time.Since(e.Time())
		}
		trickle := func() {
			for i := range 200 {
				time.Sleep(5 * time.Microsecond)
				if old := publish(); old != 0 {
					t.Fatalf("event %d of a trickle is stamped %v ago", i, old)
				}
			}
		}
		trickle()
		for i := range 65 {
			if old := publish(); old != 0 {
				t.Fatalf("event %d of a flood is stamped %v ago, and no time has gone by", i, old)
			}
		}
		time.Sleep(999 * time.Microsecond)
		first := publish()
		if first != 999*time.Microsecond {
			t.Errorf("999 µs into a flood an event is stamped %v ago", first)
		}
		for range 500 {
			if old := publish(); old != first {
				t.Fatalf("events of a flood have two times: %v and %v ago", first, old)
			}
		}
		time.Sleep(time.Microsecond)
		synctest.Wait() // the timer has its turn
		if old := publish(); old != 0 {
			t.Errorf("after the millisecond an event is stamped %v ago", old)
		}
		trickle()
		time.Sleep(time.Hour)
		if old := publish(); old != 0 {
			t.Errorf("after an hour an event is stamped %v ago", old)
		}
	})
}

// A tap that keeps events stamps them by the same clock.
func TestStamp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{})
		defer b.Close(context.Background())
		var kept bus.Event
		if _, err := b.Tap("#", func(e bus.Event) { kept = b.Stamp(e) }); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Publish(t.Context(), "test", "x", nil); err != nil {
			t.Fatal(err)
		}
		at := time.Now()
		time.Sleep(time.Hour)
		if !kept.Time().Equal(at) || !b.Stamp(kept).Time().Equal(at) {
			t.Errorf("got %v, want %v", kept.Time(), at)
		}
	})
}
