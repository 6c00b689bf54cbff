package timer

import (
	"math"
	"math/bits"
	"time"
)

// A hierarchical timing wheel (Varghese and Lauck): seven rings of 64 slots.
// A slot of ring k spans 64^k ticks. A deadline lives in the ring of the
// highest base-64 digit in which it differs from now, so whatever is in a
// lower ring comes before whatever is in a higher one, and a bit per slot
// finds the first in constant time. Each slot knows a lower bound of its
// deadlines, so the wheel sleeps until something is due and not until the
// border of a slot.
const (
	digit  = 6
	slots  = 1 << digit
	levels = 7
	never  = int64(math.MaxInt64)
	// farthest is the longest wait: 60 years, well inside 64^7 ticks.
	farthest = 60 * 365 * 24 * time.Hour
)

type rings struct {
	now   int64 // the rings are laid out as seen from this tick
	used  [levels]uint64
	heads [levels][slots]slot
}

type slot struct {
	first    *Timer
	earliest int64 // no deadline in the slot is before it
}

// add puts a timer into its slot.
func (r *rings) add(t *Timer) {
	level := 0
	if x := uint64(max(t.due, r.now) ^ r.now); x >= slots {
		level = (bits.Len64(x) - 1) / digit
	}
	i := uint8(max(t.due, r.now) >> (level * digit) & (slots - 1))
	t.level, t.slot, t.state = uint8(level), i, waiting
	s := &r.heads[level][i]
	if s.first == nil {
		r.used[level] |= 1 << i
		s.earliest = t.due
	} else {
		s.first.prev = t
		s.earliest = min(s.earliest, t.due)
	}
	t.next, t.prev = s.first, nil
	s.first = t
}

// remove takes a waiting timer out of its slot.
func (r *rings) remove(t *Timer) {
	if t.next != nil {
		t.next.prev = t.prev
	}
	if t.prev != nil {
		t.prev.next = t.next
	} else {
		r.heads[t.level][t.slot].first = t.next
		if t.next == nil {
			r.used[t.level] &^= 1 << t.slot
		}
	}
	t.next, t.prev = nil, nil
}

// earliest gives a tick before which nothing is due, or never.
func (r *rings) earliest() int64 {
	for level, used := range r.used {
		if used != 0 {
			return r.heads[level][bits.TrailingZeros64(used)].earliest
		}
	}
	return never
}

// advance moves the rings to now and appends what is due to batch.
func (r *rings) advance(now int64, batch []*Timer) []*Timer {
	if now < r.now {
		return batch
	}
	var later *Timer
	for level := range r.used {
		for r.used[level] != 0 {
			i := bits.TrailingZeros64(r.used[level])
			if r.start(level, i) > now {
				break
			}
			r.used[level] &^= 1 << i
			t := r.heads[level][i].first
			r.heads[level][i].first = nil
			for t != nil {
				next := t.next
				t.next, t.prev = nil, nil
				if t.due <= now {
					t.state = ready
					batch = append(batch, t)
				} else {
					t.next, later = later, t
				}
				t = next
			}
		}
	}
	r.now = now
	for later != nil {
		t := later
		later = t.next
		r.add(t)
	}
	return batch
}

// start is the first tick of a slot.
func (r *rings) start(level, i int) int64 {
	above := r.now >> ((level + 1) * digit) << ((level + 1) * digit)
	return above + int64(i)<<(level*digit)
}

func (r *rings) clear() {
	for level := range r.heads {
		for i := range r.heads[level] {
			for t := r.heads[level][i].first; t != nil; {
				next := t.next
				t.next, t.prev, t.state = nil, nil, resting
				t = next
			}
			r.heads[level][i] = slot{}
		}
		r.used[level] = 0
	}
}
