package bus

import "fmt"

// urgent is a listener that waits for nobody.
type urgent struct {
	topic string
	f     func(Event)
}

// Urgent has f called for every event of a topic the moment it is published,
// on the publisher's goroutine, before the event has its turn in the order:
// whatever else is being delivered, whoever hangs in a predicate, however many
// events wait. It is there for the stop, and for the words that mean it. f must
// not block. The event is delivered to everybody else as any other, and is
// never refused for overload. A topic has one such function, until end is
// called.
func (b *Bus) Urgent(topic string, f func(Event)) (end func(), err error) {
	if err := ValidTopic(topic); err != nil {
		return nil, fmt.Errorf("bus: urgent: %w", err)
	}
	b.subsMu.Lock()
	defer b.subsMu.Unlock()
	if b.urgentOf(topic) != nil {
		return nil, fmt.Errorf("bus: urgent: somebody hears %s at once already", topic)
	}
	b.changeUrgent(topic, &urgent{topic, f})
	return func() {
		b.subsMu.Lock()
		defer b.subsMu.Unlock()
		b.changeUrgent(topic, nil)
	}, nil
}

// changeUrgent puts u in the place of a topic's function; the caller holds subsMu.
func (b *Bus) changeUrgent(topic string, u *urgent) {
	var list []*urgent
	if old := b.urgent.Load(); old != nil {
		for _, o := range *old {
			if o.topic != topic {
				list = append(list, o)
			}
		}
	}
	if u != nil {
		list = append(list, u)
	}
	b.urgent.Store(&list)
}

// urgentOf gives the listener of a topic that waits for nobody, or nil.
func (b *Bus) urgentOf(topic string) *urgent {
	list := b.urgent.Load()
	if list == nil {
		return nil
	}
	for _, u := range *list {
		if u.topic == topic {
			return u
		}
	}
	return nil
}

func (u *urgent) call(b *Bus, e Event) {
	defer func() {
		if p := recover(); p != nil {
			b.Report(WithCause(b.ctx, e), "urgent", panicError(p), e)
		}
	}()
	u.f(e)
}
