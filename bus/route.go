package bus

import (
	"slices"
	"strings"
)

// routes remembers which subscriptions match a topic. It holds two
// generations, so that it is bounded and topics in use stay. Only who delivers
// touches it.
type routes struct {
	gen      uint64
	now, old map[string][]*Subscription
	last     struct { // floods are of one topic
		topic string
		subs  []*Subscription
	}
}

// route gives the subscriptions that match a topic, in the order they were made.
func (b *Bus) route(topic string) ([]*Subscription, error) {
	r := &b.routes
	if g := b.gen.Load(); g != r.gen || r.now == nil {
		*r = routes{gen: g, now: map[string][]*Subscription{}}
	} else if topic == r.last.topic && topic != "" {
		return r.last.subs, nil
	}
	subs, ok := r.now[topic]
	if !ok {
		if subs, ok = r.old[topic]; !ok {
			if err := ValidTopic(topic); err != nil {
				return nil, err
			}
			subs = b.match(topic)
		}
		if len(r.now) >= b.opt.Topics/2 {
			r.old, r.now = r.now, make(map[string][]*Subscription, b.opt.Topics/2)
		}
		topic = strings.Clone(topic)
		r.now[topic] = subs
	}
	r.last.topic, r.last.subs = topic, subs
	return subs, nil
}

func (b *Bus) match(topic string) []*Subscription {
	var out []*Subscription
	for _, s := range b.subscriptions() {
		if s.matches(topic) {
			out = append(out, s)
		}
	}
	return out
}

func (b *Bus) subscriptions() []*Subscription {
	b.subsMu.Lock()
	defer b.subsMu.Unlock()
	return b.subs
}

// attach adds a subscription. Readers hold a part of subs without a lock:
// adding writes behind it, removing makes a new one.
func (b *Bus) attach(s *Subscription) {
	b.subsMu.Lock()
	b.nextID++
	s.id = b.nextID
	var replay []Event
	if s.opt.Replay {
		if replay = b.keptMatching(s.matches); len(replay) > 0 {
			s.after = replay[len(replay)-1].Seq // of what was kept they are sorted by it
			s.holds++
			s.head, s.cleared = 1<<32, 1<<32 // they go in front
		}
	}
	b.subs = append(b.subs, s)
	b.gen.Add(1)
	b.subsMu.Unlock()
	if len(replay) > 0 {
		s.replay(replay)
	}
}

func (b *Bus) detach(s *Subscription) {
	b.subsMu.Lock()
	defer b.subsMu.Unlock()
	before := len(b.subs)
	b.subs = slices.DeleteFunc(slices.Clone(b.subs), func(o *Subscription) bool { return o == s })
	s.mu.Lock()
	if s.worker && !s.ended && len(b.subs) < before {
		b.leaving = append(b.leaving, s)
	}
	s.mu.Unlock()
	b.gen.Add(1)
}
