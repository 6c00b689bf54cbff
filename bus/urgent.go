package bus

import "fmt"

// urgent is the one listener that waits for nobody.
type urgent struct {
	topic string
	f     func(Event)
}

// Urgent makes f the one function that is called for every event of a topic
// the moment it is published, on the publisher's goroutine, before the event
// has its turn in the order: whatever else is being delivered, whoever hangs
// in a predicate, however many events wait. It is there for the stop. f must
// not block. The event is delivered to everybody else as any other, and is
// never refused for overload. A bus has one urgent topic; "" ends it.
func (b *Bus) Urgent(topic string, f func(Event)) error {
	if topic == "" {
		b.urgent.Store(nil)
		return nil
	}
	if err := ValidTopic(topic); err != nil {
		return fmt.Errorf("bus: urgent: %w", err)
	}
	if !b.urgent.CompareAndSwap(nil, &urgent{topic, f}) {
		return fmt.Errorf("bus: urgent: there is an urgent topic already")
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
