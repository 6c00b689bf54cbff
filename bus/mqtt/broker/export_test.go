package broker

import (
	"fmt"
	"net"
	"slices"
)

// On makes a broker that lets its clients in through l, so that a test may own
// the clock.
func On(l net.Listener, o Options) (*Broker, error) {
	o = o.defaults()
	users, err := accounts(o.Users)
	if err != nil {
		return nil, err
	}
	return &Broker{opt: o, users: users, sessions: map[string]*session{}, accept: newAcceptor(l, nil, o.Clients, o.Log)}, nil
}

// Books reports whether the sums that the broker keeps are those of its
// sessions, and whether its topics hold subscriptions of sessions alone.
func (b *Broker) Books() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var queued, fixed int64
	filters := 0
	for _, s := range b.sessions {
		var waits int64
		for _, d := range slices.Concat(s.queue, s.sent) {
			waits += d.size()
		}
		if waits != s.queued {
			return fmt.Errorf("%q: %d bytes wait, counted are %d", s.id, waits, s.queued)
		}
		held := int64(0)
		for f := range s.filters {
			held += filterSize(f)
		}
		if s.will != nil {
			held += s.will.size()
		}
		if held != s.fixed {
			return fmt.Errorf("%q: %d bytes are held, counted are %d", s.id, held, s.fixed)
		}
		queued, fixed, filters = queued+s.queued, fixed+s.fixed, filters+len(s.filters)
	}
	var kept int64
	for _, m := range b.retained.last {
		kept += m.size()
	}
	if got := b.topics.count(); queued != b.queued || fixed != b.fixed || got != filters || kept != b.retained.bytes {
		return fmt.Errorf("of sessions: %d waiting, %d fixed, %d filters, %d kept; counted: %d, %d, %d, %d",
			queued, fixed, filters, kept, b.queued, b.fixed, got, b.retained.bytes)
	}
	return nil
}

func (n *node) count() int {
	c := len(n.subs)
	for _, g := range n.groups {
		c += len(g.members)
	}
	for _, below := range n.below {
		c += below.count()
	}
	return c
}
