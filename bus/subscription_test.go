package bus_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"edged/bus"
)

// What can't be listened to is refused, by whichever door.
func TestSubscribeRefuses(t *testing.T) {
	b := bus.New(bus.Options{})
	try := map[string]func(filter string, q bus.Queue) (*bus.Subscription, error){
		"Subscribe": b.Subscribe,
		"Tap": func(filter string, _ bus.Queue) (*bus.Subscription, error) {
			return b.Tap(filter, func(bus.Event) {})
		},
		"Handle": func(filter string, q bus.Queue) (*bus.Subscription, error) {
			return b.Handle(filter, q, func(context.Context, bus.Event) error { return nil })
		},
	}
	for name, listen := range try {
		if s, err := listen("a/#/b", bus.Queue{}); err == nil || s != nil {
			t.Errorf("%s of no filter: got %v, %v", name, s, err)
		}
		if name == "Tap" {
			continue
		}
		if s, err := listen("a", bus.Queue{Also: []string{"b", ""}}); err == nil || s != nil {
			t.Errorf("%s of a filter and of none: got %v, %v", name, s, err)
		}
	}
	if err := b.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, listen := range try {
		if s, err := listen("a", bus.Queue{}); !errors.Is(err, bus.ErrClosed) || s != nil {
			t.Errorf("%s after Close: got %v, %v", name, s, err)
		}
	}
}

// A queue without a limit of its own holds 64.
func TestLimitOfAQueue(t *testing.T) {
	for limit, want := range map[int]int{0: 64, -1: 64, 1: 1, 100: 100} {
		b := bus.New(bus.Options{})
		s, err := b.Subscribe("t", bus.Queue{Limit: limit})
		if err != nil {
			t.Fatal(err)
		}
		for i := range want + 3 {
			if _, err := b.Publish(t.Context(), "test", "t", i); err != nil {
				t.Fatal(err)
			}
		}
		if st := s.Stats(); s.Len() != want || st.Limit != want || st.Queued != want || s.Dropped() != 3 {
			t.Errorf("limit %d: %d queued, %d dropped, %+v", limit, s.Len(), s.Dropped(), st)
		}
		if list := drainAll(t, s); list[0].Payload() != int64(3) {
			t.Errorf("the oldest is %v, want 3", list[0].Payload())
		}
		s.Close()
		_ = b.Close(t.Context())
	}
}

// One that is closed while an event is given out does not get it.
func TestClosedWhileDelivering(t *testing.T) {
	b := bus.New(bus.Options{})
	defer b.Close(t.Context())
	var second *bus.Subscription
	var got []string
	if _, err := b.Tap("t", func(bus.Event) { got = append(got, "first"); second.Close() }); err != nil {
		t.Fatal(err)
	}
	var err error
	if second, err = b.Tap("t", func(bus.Event) { got = append(got, "second") }); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Publish(t.Context(), "test", "t", nil); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, []string{"first"}) {
		t.Errorf("got %v", got)
	}
}

// What waits when a subscription is closed is counted, and can't be taken.
func TestCloseDiscards(t *testing.T) {
	for _, taken := range []int{0, 1, 2, 40} { // after the first take some are in the reader's hand
		b := bus.New(bus.Options{})
		s, err := b.Subscribe("t", bus.Queue{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 90 {
			if _, err := b.Publish(t.Context(), "test", "t", i); err != nil {
				t.Fatal(err)
			}
		}
		for range taken {
			next(t, s)
		}
		if s.Len() != 90-taken {
			t.Errorf("%d are queued after %d", s.Len(), taken)
		}
		s.Close()
		s.Close()
		if _, err := s.Next(t.Context()); !errors.Is(err, bus.ErrClosed) {
			t.Errorf("got %v", err)
		}
		if st := s.Stats(); st.Taken != uint64(taken) || st.Discarded != uint64(90-taken) || st.Queued != 0 || s.Len() != 0 || !s.Idle() {
			t.Errorf("after %d: %+v", taken, st)
		}
		if s.Push(bus.Event{Topic: "t"}) {
			t.Error("it took an event")
		}
		_ = b.Close(t.Context())
	}
}

// Who waits gives up when its context ends, and nothing is lost by it.
func TestNextGivesUp(t *testing.T) {
	b := bus.New(bus.Options{})
	defer b.Close(t.Context())
	s, err := b.Subscribe("t", bus.Queue{})
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for range 3 {
		if e, err := s.Next(over); !errors.Is(err, context.Canceled) || e.Topic != "" {
			t.Errorf("got %v %v", e, err)
		}
		if s.Idle() {
			t.Error("nobody waits: who took the last may be busy with it")
		}
		if _, err := b.Publish(t.Context(), "test", "t", 1); err != nil {
			t.Fatal(err)
		}
		if e := next(t, s); e.Payload() != int64(1) {
			t.Errorf("got %v", e)
		}
	}
	for range s.All(over) {
		t.Error("it ranges over nothing")
	}
	if st := s.Stats(); st.Taken != 3 {
		t.Errorf("%d taken, want 3", st.Taken)
	}
}
