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

// causeCtx carries a link; one allocation holds both.
type causeCtx struct {
	context.Context
	link link
}

func (c *causeCtx) Value(key any) any {
	if _, ok := key.(causeKey); ok {
		return &c.link
	}
	return c.Context.Value(key)
}

// WithCause returns a context for work that e brought about: whatever is
// published with it names e as its cause.
func WithCause(ctx context.Context, e Event) context.Context {
	return &causeCtx{ctx, link{parent: e.chain, topic: e.Topic, seq: e.Seq, hops: e.Hops}}
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
	return &causeCtx{ctx, l}
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
	if c, ok := ctx.(*causeCtx); ok {
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
