package bus

import (
	"context"
	"time"

	"edged/bus/origin"
)

// MaxHops is the length of a chain of causes after which the storm guard looks
// at its pace: from there on it may grow by paceHops only in more than
// [StormSpan], else the next event is not delivered. A robot that patrols, one
// leg causing the next, may do so for ever; a loop that takes no time is over
// after MaxHops, one that begins to race after half as many more.
const (
	MaxHops   = 32
	StormSpan = 5 * time.Second
	paceHops  = MaxHops / 2
)

// pace gives the mark of the event that follows a link, or says that there is
// to be none. A mark is when the chain was last looked at, in tenths of a
// second of the bus's life. Chains of a few hops, as nearly all are, cost no
// look at the clock.
func (b *Bus) pace(l *link) (mark uint32, storm bool) {
	n := int(l.hops) + 1
	if n == 1 || n%paceHops != 1 {
		return l.mark, false
	}
	now := uint32(time.Since(b.clock.base) / (100 * time.Millisecond))
	return now, n > MaxHops && now-l.mark <= uint32(StormSpan/(100*time.Millisecond))
}

// Stormy refuses, as [Bus.Publish] would, what is about to be done and told of
// at the end of a chain of causes that races.
func (b *Bus) Stormy(ctx context.Context, source, topic string) error {
	l, _ := causeOf(ctx)
	if l == nil || l.hops < MaxHops {
		return nil
	}
	if _, storm := b.pace(l); !storm {
		return nil
	}
	return b.storm(Event{Topic: topic, Source: source, Hops: int(l.hops) + 1, chain: l})
}

// maxLinks is how much of a long chain is remembered, as a multiple of MaxHops.
const maxLinks = 2

// shorten gives a long chain without its old links, but for one of each run:
// what an agent has brought about remains so.
func (l *link) shorten() *link {
	first := &link{}
	last := first
	runs := map[string]bool{}
	for n := 0; l != nil; n, l = n+1, l.parent {
		if l.run != nil {
			if n >= MaxHops && runs[*l.run] {
				continue
			}
			runs[*l.run] = true
		} else if n >= MaxHops {
			continue
		}
		next := &link{topic: l.topic, run: l.run, seq: l.seq, hops: l.hops, mark: l.mark, old: l.old}
		last.parent, last = next, next
	}
	return first.parent
}

// link is one step of the chain of causes that a context carries, and whose
// words the work is about.
type link struct {
	parent *link
	topic  string
	run    *string
	old    *Old // what here or further up is no order, nil = nothing
	seq    uint64
	hops   int32
	mark   uint32 // see pace
	own    origin.Scope
	outer  *origin.Scope // of the same run, begun further out; then own is not used
}

// Scope implements origin.Carrier.
func (l *link) Scope() *origin.Scope {
	if l.outer != nil {
		return l.outer
	}
	return &l.own
}

// Caused is a context that names an event as the cause. Who makes many may
// embed it; others use [WithCause].
type Caused struct {
	context.Context
	link link
}

// CausedBy is the context that [WithCause] points to.
func CausedBy(ctx context.Context, e Event) Caused {
	return Caused{ctx, linkOf(&e, e.Origin())}
}

// linkOf is the step from an event to what it brings about.
func linkOf(e *Event, whose origin.Label) link {
	var old *Old
	if e.chain != nil || e.Retained {
		old = e.Old()
	}
	return link{parent: e.chain, topic: e.Topic, seq: e.Seq, hops: int32(e.Hops), mark: e.mark, old: old, own: origin.Scope{Start: whose}}
}

// Event is the event that is the cause: its topic, number and causes, without
// the payload.
func (c *Caused) Event() Event {
	e := Event{Topic: c.link.topic, Seq: c.link.seq, Hops: int(c.link.hops), mark: c.link.mark, chain: c.link.parent, origin: c.link.own.Start}
	if o := c.link.old; o != nil { // of the event itself, if that is a retained copy
		e.chain = &link{parent: e.chain, old: o}
	}
	return e
}

// Value implements context.Context.
func (c *Caused) Value(key any) any {
	if _, ok := key.(origin.Key); ok {
		return &c.link
	}
	return c.Context.Value(key)
}

// WithCause returns a context for work that e brought about: whatever is
// published with it names e as its cause, and is of e's origin and of what the
// work reads.
func WithCause(ctx context.Context, e Event) context.Context {
	c := CausedBy(ctx, e)
	return &c
}

// WithRun returns a context for one named run: events published with it, and
// all that they bring about, answer true to [Event.Within] of that name.
func WithRun(ctx context.Context, run string) context.Context {
	c := &Caused{Context: ctx}
	l := &c.link
	l.run = &run
	p, scope := causeOf(ctx)
	l.outer = scope
	if p != nil {
		l.parent, l.topic, l.seq, l.hops, l.mark, l.old = p.parent, p.topic, p.seq, p.hops, p.mark, p.old
		if p.run != nil {
			l.parent = p
		}
	}
	return c
}

// CauseOf gives the event that the work of this context was brought about by:
// its seq and its hops, or zeros.
func CauseOf(ctx context.Context) (seq uint64, hops int) {
	if l, _ := causeOf(ctx); l != nil {
		return l.seq, int(l.hops)
	}
	return 0, 0
}

// causeOf gives the nearest link and the scope of the run, which may have begun
// since.
func causeOf(ctx context.Context) (*link, *origin.Scope) {
	if c, ok := ctx.(*Caused); ok {
		return &c.link, c.link.Scope()
	}
	switch c := ctx.Value(origin.Key{}).(type) {
	case *link:
		return c, c.Scope()
	case *origin.Context:
		l, _ := c.Outer.(*link)
		return l, c.Scope()
	}
	return nil, nil
}

// topics lists the chain's topics from the oldest on, each once.
func (l *link) topics() []string {
	var all []string
	for ; l != nil; l = l.parent {
		if l.topic != "" {
			all = append(all, l.topic)
		}
	}
	seen := map[string]bool{}
	var out []string
	for i := len(all) - 1; i >= 0; i-- {
		if !seen[all[i]] {
			seen[all[i]] = true
			out = append(out, all[i])
		}
	}
	return out
}
