// Package protocol says whose turn it is, and who hears what was said.
//
// Its one rule: who is not a listener does not get the message. A [Floor]
// enforces that: it delivers to inboxes, and nothing else carries a message
// from one agent to another.
//
//	floor, err := protocol.Open(protocol.Sequential{Sees: protocol.Previous}, []string{"a", "b", "c"})
//	for floor.Begin() {
//		for batch := floor.Next(); len(batch) > 0; batch = floor.Next() {
//			for _, name := range batch { // none of a batch hears another of it
//				floor.Say(protocol.Message{From: name, Content: answer(name, floor.Inbox(name))})
//			}
//		}
//	}
package protocol

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// A Message is what one agent said in its turn.
type Message struct {
	From    string
	To      []string // who hears it; filled in by the floor
	Content any      // a JSON tree, or what the caller put there; read-only
	Round   int      // from 1
	Turn    int      // the caller's number of the turn
}

// A Protocol is the state of one run; it is used by one goroutine at a time.
type Protocol interface {
	// Next gives those who speak now: one, or several at once, of whom none
	// hears another before all have spoken. None: the round is over.
	Next() []string
	// Listeners gives who hears a speaker besides itself.
	Listeners(speaker string) []string
	// Route hears of every message that was said.
	Route(m Message)
	// Advance begins the next round; it is not called before the first.
	Advance()
	// Stop says why there are no more rounds; "" goes on.
	Stop() string
}

// A Spec makes the protocol of a run for its members, in their order. It is
// also what load checks ask: an error names what is wrong with it.
type Spec interface {
	Open(members []string) (Protocol, error)
}

// A Local is a spec that is made for a run: its functions end with ctx.
type Local interface {
	Spec
	In(ctx context.Context) Spec
}

// A Steady spec has the same listeners of a speaker in all rounds, and says so.
type Steady interface {
	Spec
	Steady()
}

var _, _, _, _, _ Steady = Sequential{}, Broadcast{}, Queue{}, Sealed{}, (*Market)(nil)

// A Faulty protocol is made of functions that can fail: Err is the first
// error, after which it says nothing any more.
type Faulty interface{ Err() error }

// A StopCondition is asked after every message and after each round; it says why
// the run is over, or gives "".
type StopCondition func(f *Floor) string

// MaxMessages ends a run after n messages.
func MaxMessages(n int) StopCondition {
	return func(f *Floor) string {
		if f.count >= n {
			return "max_messages"
		}
		return ""
	}
}

// NodeReached ends a run when an agent has spoken.
func NodeReached(name string) StopCondition {
	return func(f *Floor) string {
		if f.spoken[name] > 0 {
			return "node_reached"
		}
		return ""
	}
}

// Converged ends a run after a round in which same finds nothing new, given what
// was said in the one before and in this.
func Converged(same func(before, now []Message) bool) StopCondition {
	return func(f *Floor) string {
		before, now := f.said(f.round-1), f.said(f.round)
		if f.between && f.round > 1 && len(now) > 0 && same(before, now) {
			return "converged"
		}
		return ""
	}
}

// others gives all members but one.
func others(members []string, but string) []string {
	out := make([]string, 0, len(members))
	for _, m := range members {
		if m != but {
			out = append(out, m)
		}
	}
	return out
}

// ordered checks an order against the members: each once. An empty order is
// that of the members.
func ordered(order, members []string) ([]string, error) {
	if len(order) == 0 {
		return slices.Clone(members), nil
	}
	for i, name := range order {
		switch {
		case !slices.Contains(members, name):
			return nil, fmt.Errorf("protocol: order names %q, who is not a member; members are %s", name, strings.Join(members, ", "))
		case slices.Contains(order[:i], name):
			return nil, fmt.Errorf("protocol: order names %q twice", name)
		}
	}
	for _, m := range members {
		if !slices.Contains(order, m) {
			return nil, fmt.Errorf("protocol: order leaves out the member %q", m)
		}
	}
	return slices.Clone(order), nil
}
