package bus

import "context"

// MaxHops is the length of a chain of causes after which an event is not
// delivered: the storm guard.
const MaxHops = 32

// link is one step of the chain of causes that a context carries.
type link struct {
	parent *link
	topic  string
	run    *string
	seq    uint64
	hops   int
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
	return Caused{ctx, link{parent: e.chain, topic: e.Topic, seq: e.Seq, hops: e.Hops}}
}

// Event is the event that is the cause: its topic, number and causes, without
// the payload.
func (c *Caused) Event() Event {
	return Event{Topic: c.link.topic, Seq: c.link.seq, Hops: c.link.hops, chain: c.link.parent}
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
		l.parent, l.topic, l.seq, l.hops = p.parent, p.topic, p.seq, p.hops
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
		return l.seq, l.hops
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
