package bus_test

import (
	"testing"

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
