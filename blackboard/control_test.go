package blackboard_test

import (
	"testing"

	"edged/blackboard"
	"edged/bus"
)

// A key may have control characters in it; the topic that tells of it has none.
func TestControlCharacterInAKey(t *testing.T) {
	b := bus.New(bus.Options{})
	board, err := blackboard.Open(b, blackboard.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	if _, err := b.Tap("board/#", func(e bus.Event) { got = append(got, e.Topic) }); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"a\nb": "board/a%0Ab", "a\x7f": "board/a%7F", "\u0085é": "board/%C2%85é", "a\u00a0": "board/a\u00a0"} {
		got = nil
		if _, err := board.Set(t.Context(), "test", key, 1, blackboard.SetOptions{}); err != nil || len(got) != 1 || got[0] != want {
			t.Errorf("%q: got %q (%v), want %q", key, got, err, want)
		}
	}
}
