package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// A Market lets members bid. It outlives its runs: it keeps the balances, so
// one value belongs to one group of bidders. It may be used concurrently.
type Market struct {
	Bid   json.RawMessage // bounded schema of a bid
	Heard bool            // bids are not sealed: those who bid later hear the ones before
	Turns bool            // one after the other instead of all at once
	// Budget is what each bidder has at first; nil: nobody counts.
	Budget map[string]float64

	mu       sync.Mutex // guards the rest
	balances map[string]float64
	outcomes []Outcome
}

// An Outcome is what a round of bidding came to.
type Outcome struct {
	Winner   string // "" nobody
	Price    float64
	Balances map[string]float64 // after it; nil without a budget
}

// outcomesKept bounds what a market remembers.
const outcomesKept = 64

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

// Affordable says whether a bidder can pay a price; without a budget all can.
func (m *Market) Affordable(name string, price float64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Budget == nil {
		return nil
	}
	m.begin()
	if have := m.balances[name]; price > have {
		return fmt.Errorf("%w: %s has %v and bids %v", ErrBudget, name, have, price)
	}
	return nil
}

func (m *Market) begin() {
	if m.balances == nil {
		m.balances = maps.Clone(m.Budget)
	}
}

// Settle notes an outcome: the winner pays the price, or is paid it if the
// price is negative.
func (m *Market) Settle(winner string, price float64) Outcome {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := Outcome{Winner: winner, Price: price}
	if m.Budget != nil {
		m.begin()
		if winner != "" {
			m.balances[winner] -= price
		}
		o.Balances = maps.Clone(m.balances)
	}
	m.outcomes = append(m.outcomes, o)
	if n := len(m.outcomes) - outcomesKept; n > 0 {
		m.outcomes = slices.Delete(m.outcomes, 0, n)
	}
	return o
}

// Balance is what a bidder has.
func (m *Market) Balance(name string) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begin()
	return m.balances[name]
}

// Outcomes gives the latest outcomes, the oldest first: what is broadcast to
// all bidders of the next round.
func (m *Market) Outcomes() []Outcome {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.outcomes)
}
