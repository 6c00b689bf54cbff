package bus

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"edged/bus/origin"
)

// retained holds the last kept event of each topic. Everybody may keep some, a
// stranger on MQTT too, and they live over restarts: so there is a limit.
type retained struct {
	last  map[string]Event
	size  map[string]int64
	bytes int64
}

// perTopic is roughly what a topic takes beside its own bytes and its payload's.
const perTopic = 256

// sizeOf is what an event takes that is kept, its payload as JSON.
func sizeOf(e Event) int64 {
	n := perTopic + len(e.Topic)
	switch v := e.payload.(type) {
	case string:
		n += len(v)
	case nil, bool, int64, float64:
	default:
		n += len(e.Bytes())
	}
	return int64(n)
}

// room reports whether an event may be kept; to forget one is always possible.
// The caller holds subsMu.
func (b *Bus) room(e *Event, size int64) bool {
	topics, bytes := len(b.kept.last)+1, b.kept.bytes+size
	if old, known := b.kept.size[e.Topic]; known {
		topics, bytes = topics-1, bytes-old
	}
	return e.payload == nil || topics <= b.opt.Retained && bytes <= b.opt.RetainedBytes
}

// mayKeep refuses an event that there is no room to keep.
func (b *Bus) mayKeep(e *Event) error {
	size := sizeOf(*e)
	b.subsMu.Lock()
	defer b.subsMu.Unlock()
	if b.room(e, size) {
		return nil
	}
	b.counters.unkept.Add(1)
	return fmt.Errorf("bus: retain %s: %w: %d topics with %d KiB are kept, %d with %d KiB may be",
		e.Topic, ErrFull, len(b.kept.last), b.kept.bytes>>10, b.opt.Retained, b.opt.RetainedBytes>>10)
}

// keep stores the last event of a topic. The kept copy forgets its causes.
func (b *Bus) keep(e *Event) {
	size := sizeOf(*e)
	k := *e
	k.chain, k.Queued = nil, false
	b.subsMu.Lock()
	defer b.subsMu.Unlock()
	if !b.room(e, size) { // others were quicker
		b.counters.unkept.Add(1)
		return
	}
	b.kept.set(k, size)
}

func (r *retained) set(e Event, size int64) {
	r.bytes -= r.size[e.Topic]
	if e.payload == nil {
		delete(r.last, e.Topic)
		delete(r.size, e.Topic)
		return
	}
	r.last[e.Topic], r.size[e.Topic] = e, size
	r.bytes += size
}

// Retained lists the kept events that match a filter, oldest first, marked Retained.
func (b *Bus) Retained(filter string) []Event {
	b.subsMu.Lock()
	defer b.subsMu.Unlock()
	list := b.keptMatching(func(t string) bool { return Match(filter, t) })
	for i := range list {
		list[i].Retained = true
	}
	return list
}

// replay puts kept events in front of what has come since they were looked up;
// the reader is held meanwhile. Where is asked for them as for any event, and
// the bound of the queue holds: the oldest make room.
func (s *Subscription) replay(kept []Event) {
	var in []Event
	for _, e := range kept {
		e.Retained = true
		if s.opt.Where == nil || s.guard(e, s.opt.Where) {
			in = append(in, e)
		} else {
			s.refused.Add(1)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.finished {
		if s.opt.Overflow >= Latest { // a newer one of its topic is there already
			in = slices.DeleteFunc(in, func(e Event) bool {
				_, newer := s.slots[e.Topic]
				if newer {
					s.stats.Replaced++
				}
				return newer
			})
		}
		if over := min(s.n+len(in)-s.opt.Limit, len(in)); over > 0 && s.opt.Overflow != Collapse {
			s.stats.DropOldest += uint64(over)
			in = in[over:]
		}
		for i := len(in) - 1; i >= 0; i-- {
			s.putFront(&in[i])
		}
	}
	s.letGo()
}

func (b *Bus) keptMatching(match func(string) bool) []Event {
	var list []Event
	for t, e := range b.kept.last {
		if match(t) {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(x, y Event) int { return cmp.Or(cmp.Compare(x.Seq, y.Seq), cmp.Compare(x.at, y.at)) })
	return list
}

// Restore puts back a kept event of an earlier process without publishing it;
// an empty origin is that of the source. What there is no room for is ErrFull.
func (b *Bus) Restore(topic, source string, from origin.Label, payload any, at time.Time) error {
	if err := ValidTopic(topic); err != nil {
		return err
	}
	p, err := freeze(payload)
	if err != nil {
		return err
	}
	e := Event{Topic: topic, Source: source, payload: p, Keep: true, at: at.UnixNano(), origin: from}
	size := sizeOf(e)
	b.subsMu.Lock()
	defer b.subsMu.Unlock()
	if _, newer := b.kept.last[topic]; newer {
		return nil
	}
	if !b.room(&e, size) {
		return fmt.Errorf("bus: restore %s: %w", topic, ErrFull)
	}
	b.kept.set(e, size)
	return nil
}
