package bus

import "fmt"

// urgent is a listener that waits for nobody.
type urgent struct {
	topic string
	takes func(Event) bool // nil takes none
	f     func(Event)
}

// Urgent has f called for every event of a topic the moment it is published,
// on the publisher's goroutine, before the event has its turn in the order:
// whatever else is being delivered, whoever hangs in a predicate, however many
// events wait. It is there for the stop, and for the words that mean it. f must
// not block. An event that it is called for is never refused for overload. A
// topic has one such function, until end is called.
//
// takes says which events f is called for, and those are [Event].Taken: taps see
// them, no subscription gets them that does not ask for it, and they are not kept. It is asked before the
// event has its number. With nil f is called for all, and they are delivered to
// everybody else as any other.
func (b *Bus) Urgent(topic string, takes func(Event) bool, f func(Event)) (end func(), err error) {
	if err := ValidTopic(topic); err != nil {
		return nil, fmt.Errorf("bus: urgent: %w", err)
	}
	b.subsMu.Lock()
	defer b.subsMu.Unlock()
	if b.urgentOf(topic) != nil {
		return nil, fmt.Errorf("bus: urgent: somebody hears %s at once already", topic)
	}
	b.changeUrgent(topic, &urgent{topic, takes, f})
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

// take marks an event of the topic that the listener wants for itself. It
// returns nil if the listener does not want to be called.
func (u *urgent) take(b *Bus, e *Event) *urgent {
	if u == nil || u.takes == nil {
		return u
	}
	if !u.guard(b, *e, u.takes) {
		return nil
	}
	e.Taken, e.Keep = true, false
	return u
}

func (u *urgent) call(b *Bus, e Event) {
	u.guard(b, e, func(e Event) bool { u.f(e); return true })
}

func (u *urgent) guard(b *Bus, e Event, f func(Event) bool) (ok bool) {
	defer func() {
		if p := recover(); p != nil {
			b.Report(WithCause(b.ctx, e), "urgent", panicError(p), e)
		}
	}()
	return f(e)
}
