package protocol

import (
	"encoding/json"
	"slices"
	"sync"
)

// outcomesKept bounds what a ledger remembers.
const outcomesKept = 64

// A Ledger is what a market remembers: who has what, and how it ended. It has a
// JSON form, and may be used concurrently.
type Ledger struct {
	mu sync.Mutex // guards the rest
	book
	held map[string]map[string]float64 // what is bid in runs that go on, by run and bidder
}

type book struct {
	Budget   map[string]float64 `json:"budget,omitempty"` // that the balances began with
	Balances map[string]float64 `json:"balances,omitempty"`
	Outcomes []Outcome          `json:"outcomes"`
}

// An Outcome is what a round of bidding came to.
type Outcome struct {
	Run    string  `json:"run,omitempty"` // which it was; each is settled once
	Winner string  `json:"winner,omitempty"`
	Price  float64 `json:"price,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (l *Ledger) MarshalJSON() ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return json.Marshal(l.book)
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *Ledger) UnmarshalJSON(text []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return json.Unmarshal(text, &l.book)
}

// begin gives those their budget who have none yet, or had another one.
func (b *book) begin(budget map[string]float64) {
	for name, n := range budget {
		if had, ok := b.Budget[name]; ok && had == n {
			continue
		}
		if b.Budget == nil {
			b.Budget, b.Balances = map[string]float64{}, map[string]float64{}
		}
		b.Budget[name], b.Balances[name] = n, n
	}
}

// free is what a bidder has for one run: what it bids in others may have to be
// paid.
func (l *Ledger) free(run, name string) float64 {
	n := l.Balances[name]
	for other, bids := range l.held {
		if other != run {
			n -= bids[name]
		}
	}
	return n
}

func (l *Ledger) hold(run, name string, price float64) {
	if l.held == nil {
		l.held = map[string]map[string]float64{}
	}
	if l.held[run] == nil {
		l.held[run] = map[string]float64{}
	}
	l.held[run][name] = max(price, 0)
}

func (b *book) settled(run string) bool {
	return run != "" && slices.ContainsFunc(b.Outcomes, func(o Outcome) bool { return o.Run == run })
}

func (b *book) settle(o Outcome, pays bool) {
	if b.settled(o.Run) {
		return
	}
	if pays && o.Winner != "" {
		b.Balances[o.Winner] -= o.Price
	}
	b.Outcomes = append(b.Outcomes, o)
	if n := len(b.Outcomes) - outcomesKept; n > 0 {
		b.Outcomes = slices.Delete(b.Outcomes, 0, n)
	}
}
