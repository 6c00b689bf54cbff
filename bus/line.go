package bus

import (
	"context"
	"fmt"
	"sync/atomic"
)

// A Line is a topic that much is staged on: its name is checked once, and who
// listens is looked up only after a change of the subscriptions.
type Line struct {
	b     *Bus
	topic string
	quiet atomic.Uint64 // gen when it was seen that nobody listens, plus one

	// Touched only by who holds busy.
	subs []*Subscription
	gen  uint64
}

// Line makes a line to a topic.
func (b *Bus) Line(topic string) (*Line, error) {
	if err := ValidTopic(topic); err != nil {
		return nil, fmt.Errorf("bus: line: %w", err)
	}
	return &Line{b: b, topic: topic}, nil
}

// Stage does what [Bus.Stage] does. An event that nobody listens to has its
// number and is over.
func (l *Line) Stage(ctx context.Context, source string, v any) (e Event, err error) {
	b := l.b
	if err = b.fill(ctx, &e, source, l.topic, v); err != nil {
		return e, err
	}
	s := b.state.Load()
	e.Seq = (s + oneSeq) / oneSeq
	if s&flags == 0 && l.quiet.Load() == b.gen.Load()+1 && b.state.CompareAndSwap(s, s+oneSeq) {
		return e, nil // who subscribes now comes after it
	}
	if s = b.state.Load(); s&flags != 0 || !b.state.CompareAndSwap(s, s+oneSeq|flagBusy) {
		b.defers(&e)
		return e, nil
	}
	e.Seq = (s + oneSeq) / oneSeq
	if g := b.gen.Load(); g != l.gen {
		l.subs, l.gen = b.match(l.topic), g
		if len(l.subs) == 0 {
			l.quiet.Store(g + 1)
		}
	}
	if len(l.subs) > 0 || !b.state.CompareAndSwap(s+oneSeq|flagBusy, s+oneSeq) {
		b.hold(&e, l.subs, l.gen)
	}
	return e, nil
}
