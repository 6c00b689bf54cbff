package bus

import "sync/atomic"

// The queue of a subscription is a ring under a mutex. A reader that finds
// several events takes some of them into its hand at once, so that it and the
// publisher meet less often. What is in the hand still counts as queued: the
// publisher may drop it like any other, and both claim an event by moving one
// atomic index. So the bound and the order of drops are exact.

// grip is how many events a reader takes in hand.
const grip = 32

// hand holds the events that the reader has taken off the ring. Only the
// reader touches events; next and size are shared.
type hand struct {
	events []Event
	size   atomic.Uint32 // set under the subscription's mutex
	next   atomic.Uint32 // the first unclaimed event
	at     atomic.Uint64 // seq of what the reader has claimed, or is about to; 0 = it asks for more
}

// claim takes the next event; only the reader calls it.
func (h *hand) claim(e *Event) bool {
	for {
		i := h.next.Load()
		if i >= h.size.Load() {
			return false
		}
		h.at.Store(h.events[i].Seq)
		if h.next.CompareAndSwap(i, i+1) {
			*e = h.events[i]
			return true
		}
	}
}

// left is how many events are unclaimed.
func (h *hand) left() int { return int(h.size.Load()) - int(h.next.Load()) }

// steal takes the oldest unclaimed event from the reader, unless that moved
// meanwhile; at is its place in events. The caller holds the subscription's
// mutex, without which the hand is not filled anew.
func (h *hand) steal() (at uint32, stolen, empty bool) {
	at = h.next.Load()
	if at >= h.size.Load() {
		return 0, false, true
	}
	return at, h.next.CompareAndSwap(at, at+1), false
}

// drop drops what is unclaimed.
func (h *hand) drop() (n uint64) {
	for {
		_, stolen, empty := h.steal()
		if empty {
			return n
		}
		if stolen {
			n++
		}
	}
}

func (s *Subscription) push(e *Event) {
	s.mu.Lock()
	if s.finished {
		s.mu.Unlock()
		return
	}
	if s.waiting && s.holds == 0 { // then nothing is queued: it need not go through the ring
		s.waiting = false
		s.stats.Taken++
		s.hand.at.Store(e.Seq)
		s.mu.Unlock()
		s.wake <- *e
		return
	}
	s.put(e)
	s.mu.Unlock()
}

// put applies the overflow policy; the caller holds mu.
func (s *Subscription) put(e *Event) {
	byTopic := s.opt.Overflow >= Latest
	if byTopic && (s.opt.Overflow == Latest || s.n >= s.opt.Limit) {
		if at, ok := s.slots[e.Topic]; ok {
			slot := s.slot(at)
			if s.opt.Merge != nil {
				*slot = s.opt.Merge(*slot, *e)
			} else {
				*slot = *e
			}
			s.stats.Replaced++
			return
		}
	}
	if s.n+s.held >= s.opt.Limit && s.n+s.hand.left() >= s.opt.Limit && !s.makeRoom() {
		return
	}
	if s.n == len(s.ring) {
		s.grow()
	}
	at := s.head + uint64(s.n)
	*s.slot(at) = *e
	s.n++
	if byTopic {
		if s.slots == nil {
			s.slots = map[string]uint64{}
		}
		s.slots[e.Topic] = at
	}
}

// makeRoom gives up what the policy says; it reports whether the new event
// may go in.
func (s *Subscription) makeRoom() bool {
	switch s.opt.Overflow {
	case DropNew:
		s.stats.DropNew++
		return false
	case Collapse:
		return true
	}
	for s.n+s.hand.left() >= s.opt.Limit {
		_, stolen, empty := s.hand.steal()
		if empty {
			s.pop()
		}
		if stolen {
			s.stats.Taken--
		}
		if stolen || empty {
			s.stats.DropOldest++
		}
	}
	return true
}

func (s *Subscription) slot(at uint64) *Event { return &s.ring[at&uint64(len(s.ring)-1)] }

func (s *Subscription) grow() {
	ring := make([]Event, max(4, 2*len(s.ring)))
	for i := range s.n {
		at := s.head + uint64(i)
		ring[at&uint64(len(ring)-1)] = *s.slot(at)
	}
	s.ring = ring
}

// pop takes the oldest off the ring; the caller holds mu and has checked n. It
// leaves the slot as it is, for writing it would take the line from the
// publisher; forget clears them.
func (s *Subscription) pop() *Event {
	e := s.slot(s.head)
	if s.slots != nil && s.slots[e.Topic] == s.head {
		delete(s.slots, e.Topic)
	}
	s.head++
	s.n--
	return e
}

// take gives the next event, or says whether there will be more; if so, the
// reader waits for wake, which gives it the event, or one without a topic when
// there is something else to look at.
func (s *Subscription) take(e *Event) (ok, more bool) {
	if s.hand.claim(e) {
		return true, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = 0
	s.hand.at.Store(0)
	if s.n == 0 || s.holds > 0 {
		s.forget()
		s.waiting = !s.finished
		return false, s.waiting
	}
	*e = *s.pop()
	s.hand.at.Store(e.Seq)
	s.stats.Taken++
	if s.n > 0 && s.opt.Overflow < Latest {
		s.fillHand()
	}
	return true, true
}

// handed reports whether there is an event to give out; one that was taken
// while Close was called is discarded like all that was queued. It is the last
// thing before a reader has it, so nothing is given out once Close has returned.
func (s *Subscription) handed(e *Event) bool {
	if e.Topic == "" {
		return false
	}
	if s.closed.Load() {
		s.mu.Lock()
		s.stats.Taken--
		s.stats.Discarded++
		s.mu.Unlock()
		return false
	}
	return true
}

// fillHand takes some more; the caller holds mu and the hand is empty.
func (s *Subscription) fillHand() {
	k := min(s.n, grip)
	if len(s.hand.events) < k {
		s.hand.events = make([]Event, k)
	}
	s.hand.size.Store(0)
	s.hand.next.Store(0)
	for i := range k {
		s.hand.events[i] = *s.pop()
	}
	s.hand.size.Store(uint32(k))
	s.held = k
	s.stats.Taken += uint64(k)
}

// putBack takes what is unclaimed out of the reader's hand and puts it in front
// of the ring; the caller holds mu.
func (s *Subscription) putBack() {
	var back []Event
	for {
		at, stolen, empty := s.hand.steal()
		if empty {
			break
		}
		if stolen {
			back = append(back, s.hand.events[at])
		}
	}
	s.held = 0
	s.stats.Taken -= uint64(len(back))
	for len(back) > 0 {
		s.putFront(&back[len(back)-1])
		back = back[:len(back)-1]
	}
}

// putFront puts an event in front of the ring; the caller holds mu.
func (s *Subscription) putFront(e *Event) {
	if s.n == len(s.ring) {
		s.grow()
	}
	s.head--
	s.n++
	*s.slot(s.head) = *e
	if s.opt.Overflow >= Latest {
		if s.slots == nil {
			s.slots = map[string]uint64{}
		}
		s.slots[e.Topic] = s.head
	}
	s.cleared = min(s.cleared, s.head)
}

// forget lets go of the payloads of events that are gone; the reader calls it,
// with mu held, before it goes to sleep.
func (s *Subscription) forget() {
	clear(s.hand.events)
	if s.head-s.cleared > uint64(len(s.ring)) {
		s.cleared = s.head - uint64(len(s.ring))
	}
	for ; s.cleared < s.head; s.cleared++ {
		*s.slot(s.cleared) = Event{}
	}
}
