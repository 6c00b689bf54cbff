package bus

import (
	"sort"
	"time"

	"edged/bus/origin"
)

// keep stores the last event of a topic. The kept copy forgets its causes.
func (b *Bus) keep(e *Event) {
	k := *e
	k.chain = nil
	b.subsMu.Lock()
	defer b.subsMu.Unlock()
	if k.payload == nil {
		delete(b.kept, k.Topic)
		return
	}
	b.kept[k.Topic] = k
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

func (b *Bus) keptMatching(match func(string) bool) []Event {
	var list []Event
	for t, e := range b.kept {
		if match(t) {
			list = append(list, e)
		}
	}
	sort.Slice(list, func(i, j int) bool {
		x, y := &list[i], &list[j]
		if x.Seq != y.Seq {
			return int64(x.Seq-y.Seq) < 0
		}
		return x.at < y.at
	})
	return list
}

// Restore puts back a kept event of an earlier process without publishing it;
// an empty origin is that of the source.
func (b *Bus) Restore(topic, source string, from origin.Label, payload any, at time.Time) error {
	if err := ValidTopic(topic); err != nil {
		return err
	}
	p, err := freeze(payload)
	if err != nil {
		return err
	}
	b.subsMu.Lock()
	defer b.subsMu.Unlock()
	if _, newer := b.kept[topic]; !newer {
		b.kept[topic] = Event{Topic: topic, Source: source, payload: p, Keep: true, at: at.UnixNano(), origin: from}
	}
	return nil
}
