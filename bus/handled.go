package bus

import "slices"

// Who keeps a message until it is handled asks here. Nothing is counted on the
// way of an event: whoever asks looks through the queues, in a [Bus.Pause], so
// that no event changes places meanwhile.

// Handled gives those of the numbered events that are through: they are
// delivered, in no queue any more, and every handler (see [Bus.Handle]) that
// took one has returned, as have the runs of [Bus.Begin]. What a queue gave up,
// or was discarded with its subscription, is through too.
func (b *Bus) Handled(seqs []uint64) (done []uint64) {
	resume := b.Pause()
	defer resume()
	held := map[uint64]bool{}
	b.mu.Lock()
	for i := range b.pending {
		held[b.pending[i].Seq] = true
	}
	b.mu.Unlock()
	b.subsMu.Lock()
	subs := slices.Concat(b.subs, b.leaving)
	for seq := range b.begun {
		held[seq] = true
	}
	b.subsMu.Unlock()
	least, most := slices.Min(seqs), slices.Max(seqs)
	for _, s := range subs {
		s.holding(func(seq uint64) {
			if least <= seq && seq <= most {
				held[seq] = true
			}
		})
	}
	for _, seq := range seqs {
		if !held[seq] {
			done = append(done, seq)
		}
	}
	return done
}

// holding gives the numbers of what is queued and of what its reader is at.
func (s *Subscription) holding(f func(seq uint64)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.n {
		f(s.slot(s.head + uint64(i)).Seq)
	}
	for i := s.hand.next.Load(); i < s.hand.size.Load(); i++ {
		f(s.hand.events[i].Seq)
	}
	f(s.hand.at.Load()) // last: the reader names what it is about to claim
}

// Begin says that a handler goes on with an event after it has returned, on
// another goroutine; call end when that has.
func (b *Bus) Begin(e Event) (end func()) {
	b.subsMu.Lock()
	defer b.subsMu.Unlock()
	if b.begun == nil {
		b.begun = map[uint64]int{}
	}
	b.begun[e.Seq]++
	return func() {
		b.subsMu.Lock()
		defer b.subsMu.Unlock()
		if b.begun[e.Seq]--; b.begun[e.Seq] <= 0 {
			delete(b.begun, e.Seq)
		}
	}
}

// over is called when a worker has ended.
func (b *Bus) over(s *Subscription) {
	b.subsMu.Lock()
	defer b.subsMu.Unlock()
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	b.leaving = slices.DeleteFunc(b.leaving, func(o *Subscription) bool { return o == s })
}
