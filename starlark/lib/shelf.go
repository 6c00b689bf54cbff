package lib

import (
	"sync"

	"edged/bus"
)

// shelf holds the events of a test, in order, with a mark at the last stimulus:
// what the test itself did to the robot.
type shelf struct {
	mu   sync.Mutex // guards the rest
	all  []bus.Event
	used map[int]bool  // found by an expectation
	mark int           // the first event after the last stimulus
	last int           // the first event after the last expectation
	grew chan struct{} // closed when there is one more
}

func (s *shelf) put(e bus.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, e)
	close(s.grew)
	s.grew = make(chan struct{})
}

// stimulus sets the mark.
func (s *shelf) stimulus() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mark = len(s.all)
	s.last = len(s.all)
}

// since is the mark.
func (s *shelf) since() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mark
}

// fresh is where expect_no_event begins to look.
func (s *shelf) fresh() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.mark, s.last)
}

func (s *shelf) from(i int) (list []bus.Event, grew <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[i:len(s.all):len(s.all)], s.grew
}

// take uses up an event; false if it was before.
func (s *shelf) take(i int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used[i] {
		return false
	}
	s.used[i] = true
	s.last = max(s.last, i+1)
	return true
}

// without says that the test has looked at everything so far and wanted none
// of the events that match: those from before count as found.
func (s *shelf) without(match func(bus.Event) (bool, error)) error {
	at := s.since()
	list, _ := s.from(at)
	for i, e := range list {
		hit, err := match(e)
		if err != nil {
			return err
		}
		if hit {
			s.take(at + i)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = len(s.all)
	return nil
}
