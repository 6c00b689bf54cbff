package lib

import (
	"slices"
	"strings"
	"sync"

	"edged/bus"
)

// How much a shelf holds: so many events, and when it is full only the newest
// of each topic. Sensors fill it, and don't push out what scripts said.
const (
	shelfMost  = 100_000
	shelfTopic = 10_000
)

// shelf holds the events of a test, in order, with a mark at the last stimulus:
// what the test itself did to the robot. Events are numbered from 0; of a long
// test the oldest are gone.
type shelf struct {
	mu   sync.Mutex // guards the rest
	all  []shelved
	n    int           // the number of the next event
	used map[int]bool  // found by an expectation
	mark int           // the first event after the last stimulus
	last int           // the first event after the last expectation
	grew chan struct{} // closed when there is one more
}

type shelved struct {
	n int
	bus.Event
}

func newShelf() *shelf { return &shelf{grew: make(chan struct{}), used: make(map[int]bool)} }

func (s *shelf) put(e bus.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) >= shelfMost {
		s.thin()
	}
	s.all = append(s.all, shelved{s.n, e})
	s.n++
	close(s.grew)
	s.grew = make(chan struct{})
}

// thin keeps the newest events of each topic, half of what fits at most. What
// was given out before is not touched.
func (s *shelf) thin() {
	var kept []shelved
	for most := shelfTopic; ; most /= 2 {
		kept = kept[:0]
		seen := map[string]int{}
		for _, e := range slices.Backward(s.all) {
			if seen[e.Topic]++; seen[e.Topic] <= most {
				kept = append(kept, e)
			}
		}
		if len(kept) <= shelfMost/2 {
			break
		}
		if most == 1 { // that many topics
			kept = kept[:shelfMost/2]
			break
		}
	}
	slices.Reverse(kept)
	s.all = kept
	for n := range s.used {
		if s.at(n) == s.at(n+1) {
			delete(s.used, n)
		}
	}
}

// at is where the event with a number stands, or else the next.
func (s *shelf) at(n int) int {
	i, _ := slices.BinarySearchFunc(s.all, n, func(e shelved, n int) int { return e.n - n })
	return i
}

// stimulus sets the mark.
func (s *shelf) stimulus() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mark = s.n
	s.last = s.n
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

// from gives what is left from a number on.
func (s *shelf) from(n int) (list []shelved, grew <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[s.at(n):len(s.all):len(s.all)], s.grew
}

// events are all that are left.
func (s *shelf) events() []bus.Event {
	list, _ := s.from(0)
	out := make([]bus.Event, len(list))
	for i, e := range list {
		out[i] = e.Event
	}
	return out
}

// take uses up an event; false if it was before.
func (s *shelf) take(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used[n] {
		return false
	}
	s.used[n] = true
	s.last = max(s.last, n+1)
	return true
}

// without says that the test has looked at everything so far and wanted none
// of the events that match: those from before count as found.
func (s *shelf) without(match func(bus.Event) (bool, error)) error {
	list, _ := s.from(s.since())
	for _, e := range list {
		hit, err := match(e.Event)
		if err != nil {
			return err
		}
		if hit {
			s.take(e.n)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = s.n
	return nil
}

// running are the agents and workflows whose runs have begun and not ended, in
// the order of their names, as far as the shelf knows.
func (s *shelf) running() []string {
	list, _ := s.from(0)
	open := map[string]int{}
	for _, e := range list {
		rest, ok := strings.CutPrefix(e.Topic, "edged/agent/")
		if !ok {
			if rest, ok = strings.CutPrefix(e.Topic, "edged/workflow/"); !ok {
				continue
			}
		}
		if name, ok := strings.CutSuffix(rest, "/start"); ok {
			open[name]++
		} else if name, ok := strings.CutSuffix(rest, "/end"); ok {
			open[name]--
		}
	}
	var names []string
	for name, n := range open {
		if n > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
