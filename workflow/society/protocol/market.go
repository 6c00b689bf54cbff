package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A Market lets members bid. It outlives its runs: it keeps the balances, so
// one value belongs to one group of bidders. It may be used concurrently.
type Market struct {
	Bid   json.RawMessage // bounded schema of a bid
	Heard bool            // bids are not sealed: those who bid later hear the ones before
	Turns bool            // one after the other instead of all at once
	// Budget is what each bidder has at first; nil: nobody counts.
	Budget map[string]float64
	// Ledger is what it remembers; nil: as long as the market lives.
	Ledger *Ledger

	own Ledger
}

// ErrBudget is why a bid beyond its bidder's balance does not count.
var ErrBudget = errors.New("protocol: bid is beyond the bidder's balance")

// Open checks who has a budget.
func (m *Market) Open(members []string) (Protocol, error) {
	for name := range m.Budget {
		if !slices.Contains(members, name) {
			return nil, fmt.Errorf("protocol: budget names %q, who is not a member; members are %s", name, strings.Join(members, ", "))
		}
	}
	if m.Heard && !m.Turns {
		return nil, errors.New("protocol: bids that are not sealed can't be simultaneous: nobody hears a bid of the same moment")
	}
	t := &together{members: slices.Clone(members), mute: !m.Heard}
	t.sealed = func(int) bool { return !m.Turns }
	return t, nil
}

// Steady says that bids are always heard, or never.
func (m *Market) Steady() {}

// book gives the ledger, locked, with a balance for each who has a budget.
func (m *Market) book() *Ledger {
	l := m.Ledger
	if l == nil {
		l = &m.own
	}
	l.mu.Lock()
	l.begin(m.Budget)
	return l
}

// Hold says whether a bidder can pay a price, beside what it bids in other runs
// that go on, and keeps that much for the run until it is settled or released.
// Without a budget all can, and in a run that was settled before; for the run ""
// nothing is kept.
func (m *Market) Hold(run, name string, price float64) error {
	l := m.book()
	defer l.mu.Unlock()
	if m.Budget == nil || l.settled(run) {
		return nil
	}
	if have := l.free(run, name); price > have {
		return fmt.Errorf("%w: %s has %v and bids %v", ErrBudget, name, have, price)
	}
	if run != "" {
		l.hold(run, name, price)
	}
	return nil
}

// Release gives back what is kept for a run, which has no outcome.
func (m *Market) Release(run string) {
	l := m.book()
	defer l.mu.Unlock()
	delete(l.held, run)
}

// Settle notes an outcome: the winner pays the price, or is paid it if the
// price is negative. Of a run that has one already it notes nothing; "" is
// another one each time.
func (m *Market) Settle(run, winner string, price float64) {
	l := m.book()
	defer l.mu.Unlock()
	l.settle(Outcome{run, winner, price}, m.Budget != nil)
	delete(l.held, run)
}

// Free is what a bidder has for a run: its balance without what it bids in others
// that go on.
func (m *Market) Free(run, name string) float64 {
	l := m.book()
	defer l.mu.Unlock()
	return l.free(run, name)
}

// Balance is what a bidder has.
func (m *Market) Balance(name string) float64 {
	l := m.book()
	defer l.mu.Unlock()
	return l.Balances[name]
}

// Outcomes gives the latest outcomes, the oldest first: what is broadcast to
// all bidders of the next round.
func (m *Market) Outcomes() []Outcome {
	l := m.book()
	defer l.mu.Unlock()
	return slices.Clone(l.Outcomes)
}
