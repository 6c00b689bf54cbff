package lib

import (
	"fmt"
	"testing"

	"edged/bus"
)

// TestShelf: what sensors say is forgotten, what is rare is not, and numbers
// stay what they were.
func TestShelf(t *testing.T) {
	s := newShelf()
	s.put(bus.Event{Topic: "box/rare"})
	s.take(0)
	before, _ := s.from(0)
	for range 3 * shelfMost {
		s.put(bus.Event{Topic: "hw/lidar"})
	}
	s.stimulus()
	s.put(bus.Event{Topic: "box/new"})
	list, _ := s.from(0)
	if len(list) > shelfMost || list[0].Topic != "box/rare" || before[0].Topic != "box/rare" {
		t.Errorf("%d are left, the first %+v", len(list), list[0])
	}
	if s.take(0) {
		t.Error("an event was found twice")
	}
	if list, _ = s.from(s.since()); len(list) != 1 || list[0].Topic != "box/new" || list[0].n != 3*shelfMost+1 {
		t.Errorf("after the mark there are %+v", list)
	}
	for i := range shelfMost {
		s.put(bus.Event{Topic: fmt.Sprint("box/", i)})
	}
	if list, _ = s.from(0); len(list) > shelfMost {
		t.Errorf("%d topics are kept", len(list))
	}
}
