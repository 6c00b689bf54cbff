package bus

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Old says why an event is data and not an order: it waited at a broker while
// the robot was away, it is a kept copy, or it is older than its topic allows.
// It travels along the chain of causes, so that whoever guards what moves can
// refuse everything that such an event brings about, through however many
// handlers, changes of the blackboard, requests and timers. It goes by causes
// alone: who reads a value that an old event left is not marked by it.
type Old struct {
	Topic  string        `json:"topic"`            // of the event
	Reason string        `json:"reason"`           // "it waited at the broker while the robot was away"
	Age    time.Duration `json:"age,omitempty"`    // when it came; 0 = not known
	Remedy string        `json:"remedy,omitempty"` // the setting by which it would be an order
}

// String is the whole of it as a sentence.
func (o *Old) String() string {
	var b strings.Builder
	b.WriteString(o.Topic)
	if o.Age > 0 {
		fmt.Fprintf(&b, " is %v old", round(o.Age))
	}
	fmt.Fprintf(&b, ": %s", o.Reason)
	if o.Remedy != "" {
		fmt.Fprintf(&b, " (%s)", o.Remedy)
	}
	return b.String()
}

// round leaves what people look at.
func round(d time.Duration) time.Duration {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond)
	case d < time.Minute:
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}

// WithOld returns a context for what is no order. If o names no topic, it is
// about the event that is published with it: that is marked Queued. If it names
// one, it is about an earlier event that brought about what is done with it.
func WithOld(ctx context.Context, o Old) context.Context {
	c := &Caused{Context: ctx}
	l := &c.link
	l.old = &o
	p, scope := causeOf(ctx)
	l.outer = scope
	if p != nil {
		l.parent, l.topic, l.seq, l.hops, l.mark = p, p.topic, p.seq, p.hops, p.mark
	}
	return c
}

// OldOf tells whether the work of a context was brought about by an event that
// is no order; nil if it was not.
func OldOf(ctx context.Context) *Old {
	if l, _ := causeOf(ctx); l != nil {
		return l.old
	}
	return nil
}

// Old tells whether the event, or one that brought it about, is no order; nil
// if it is news.
func (e Event) Old() *Old {
	if e.chain != nil && e.chain.old != nil {
		return e.chain.old
	}
	if !e.Retained {
		return nil
	}
	o := &Old{Topic: e.Topic, Reason: "it is a retained copy, not news", Remedy: "act_on_retained lets those of a broker act"}
	if e.at != 0 {
		o.Age = max(0, time.Duration(time.Now().UnixNano()-e.at))
	}
	return o
}

// queue makes an event that is published with [WithOld] one that is Queued.
func (e *Event) queue(l *link) {
	if l.old == nil || l.old.Topic != "" {
		return
	}
	o := *l.old
	o.Topic, e.Queued = e.Topic, true
	e.chain = &link{parent: l.parent, topic: l.topic, run: l.run, seq: l.seq, hops: l.hops, mark: l.mark, old: &o}
}
