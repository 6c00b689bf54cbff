package bus

import (
	"context"
	"time"
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
	if n <= paceHops || n%paceHops != 1 {
		return l.mark, false
	}
	now := uint32(time.Since(b.clock.base) / (100 * time.Millisecond))
	return now, n > MaxHops && now-l.mark <= uint32(StormSpan/(100*time.Millisecond))
}

// Stormy refuses, as [Bus.Publish] would, what is about to be done and told of
// at the end of a chain of causes that races.
func (b *Bus) Stormy(ctx context.Context, source, topic string) error {
	l := causeOf(ctx)
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
		next := *l
		next.parent = nil
		last.parent, last = &next, &next
	}
	return first.parent
}

// link is one step of the chain of causes that a context carries.
type link struct {
	parent *link
	topic  string
	run    *string
	old    *Old // what here or further up is no order, nil = nothing
	seq    uint64
	hops   int32
	mark   uint32 // see pace
}

type causeKey struct{}

// Caused is a context that names an event as the cause. Who makes many may
// embed it; others use [WithCause].
type Caused struct {
	context.Context
	link link
}

// CausedBy is the context that [WithCause] points to.
func CausedBy(ctx context.Context, e Event) Caused {
	return Caused{ctx, linkOf(&e)}
}

// linkOf is the step from an event to what it brings about.
func linkOf(e *Event) link {
	l := link{parent: e.chain, topic: e.Topic, seq: e.Seq, hops: int32(e.Hops), mark: e.mark}
	if e.chain != nil || e.Retained {
		l.old = e.Old()
	}
	return l
}

// Event is the event that is the cause: its topic, number and causes, without
// the payload.
func (c *Caused) Event() Event {
	e := Event{Topic: c.link.topic, Seq: c.link.seq, Hops: int(c.link.hops), mark: c.link.mark, chain: c.link.parent}
	if o := c.link.old; o != nil && e.Old() == nil { // a retained copy
		e.chain = &link{parent: e.chain, old: o}
	}
	return e
}

// Value implements context.Context.
func (c *Caused) Value(key any) any {
	if _, ok := key.(causeKey); ok {
		return &c.link
	}
	return c.Context.Value(key)
}

// WithCause returns a context for work that e brought about: whatever is
// published with it names e as its cause.
func WithCause(ctx context.Context, e Event) context.Context {
	c := CausedBy(ctx, e)
	return &c
}

// WithRun returns a context for one named run: events published with it, and
// all that they bring about, answer true to [Event.Within] of that name.
func WithRun(ctx context.Context, run string) context.Context {
	l := link{run: &run}
	if p := causeOf(ctx); p != nil {
		l.parent, l.topic, l.seq, l.hops, l.mark, l.old = p.parent, p.topic, p.seq, p.hops, p.mark, p.old
		if p.run != nil {
			l.parent = p
		}
	}
	return &Caused{ctx, l}
}

// CauseOf gives the event that the work of this context was brought about by:
// its seq and its hops, or zeros.
func CauseOf(ctx context.Context) (seq uint64, hops int) {
	if l := causeOf(ctx); l != nil {
		return l.seq, int(l.hops)
	}
	return 0, 0
}

func causeOf(ctx context.Context) *link {
	if c, ok := ctx.(*Caused); ok {
		return &c.link
	}
	l, _ := ctx.Value(causeKey{}).(*link)
	return l
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
