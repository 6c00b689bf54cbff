package society

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"edged/agent"
	"edged/bus/origin"
	"edged/workflow"
	"edged/workflow/society/protocol"
)

// State is how a turn ended.
type State string

// The states of a turn.
const (
	OK       State = "ok"
	Invalid  State = "invalid" // malformed or cut off, also when asked again
	Broken   State = "failed"
	TimedOut State = "timeout"
	Late     State = "late" // there was an answer, after the time was over
	Refused  State = "refused"
	Revoked  State = "revoked"
	Halted   State = "cancelled"
	Returned State = "returned" // of work: a guardrail sent it back to its author
	asked    State = "asked"    // intent of a turn that may act
)

// A Turn is the record of one turn.
type Turn struct {
	Run     string          `json:"run"`
	Path    string          `json:"path,omitempty"` // of the interaction in its workflow
	Society string          `json:"society"`
	Edge    string          `json:"edge"`
	Task    string          `json:"task"` // digest of the interaction's
	N       int             `json:"n"`    // from 1, in the order in which they were asked
	Round   int             `json:"round"`
	Speaker string          `json:"speaker"`
	Kind    Kind            `json:"kind"`
	System  string          `json:"system,omitempty"`
	Prompt  string          `json:"prompt,omitempty"`
	Schema  json.RawMessage `json:"schema,omitempty"`
	Answer  json.RawMessage `json:"answer,omitempty"` // that fits the schema
	Raw     json.RawMessage `json:"raw,omitempty"`    // what it was before a guardrail put something else in place; for who operates the robot alone
	Said    string          `json:"said,omitempty"`   // one that did not
	State   State           `json:"state"`
	Why     string          `json:"why,omitempty"`
	Verdict string          `json:"verdict,omitempty"` // decision in it
	Asked   int             `json:"asked"`             // how often the speaker was: 2 after a repair
	Writes  bool            `json:"writes,omitempty"`  // it had tools that act
	Left    bool            `json:"left,omitempty"`    // it ignored that its time was over
	Origin  origin.Label    `json:"origin,omitempty"`  // whose words it had in its prompt, and read
	Tainted bool            `json:"tainted,omitempty"` // of records that have no origin
	Usage   agent.Usage     `json:"usage"`
	Tools   []agent.Receipt `json:"tools,omitempty"`
	Started time.Time       `json:"started"`
	Elapsed time.Duration   `json:"elapsed"`
	Cause   uint64          `json:"cause,omitempty"` // event that led to it
	Sealed  bool            `json:"sealed,omitempty"`

	open error // it waits for this
}

// LogOptions bound a [Log].
type LogOptions struct {
	Keep int // interactions; the oldest go first; 0 is 100
	Text int // bytes of a prompt or of what was said; 0 is 16384
}

// A Log keeps the turns of interactions. It may be shared by societies and
// used concurrently.
type Log struct {
	store workflow.Store
	o     LogOptions

	keeping sync.Mutex // held while a ledger is written, so that no older one comes later

	mu    sync.Mutex // guards the rest
	runs  []string   // oldest first
	turns map[string][]Turn
	taken map[string]int // how often an interaction was at a place of a run
	books map[string]*protocol.Ledger
}

// NewLog opens the turns of a store; nil keeps them in memory.
func NewLog(store workflow.Store, o LogOptions) *Log {
	if o.Keep <= 0 {
		o.Keep = 100
	}
	if o.Text <= 0 {
		o.Text = 16 << 10
	}
	l := &Log{store: store, o: o, turns: map[string][]Turn{}, taken: map[string]int{}, books: map[string]*protocol.Ledger{}}
	if store == nil {
		return l
	}
	for name, text := range store.All() {
		if market, ok := strings.CutPrefix(name, marketPrefix); ok {
			b := new(protocol.Ledger)
			if json.Unmarshal(text, b) == nil {
				l.books[market] = b
			}
			continue
		}
		var t Turn
		if json.Unmarshal(text, &t) == nil && name == t.name() {
			l.turns[t.key()] = append(l.turns[t.key()], t)
		}
	}
	for key, list := range l.turns {
		sort.Slice(list, func(i, j int) bool { return list[i].N < list[j].N })
		l.runs = append(l.runs, key)
	}
	slices.SortFunc(l.runs, func(a, b string) int { return l.turns[a][0].Started.Compare(l.turns[b][0].Started) })
	return l
}

// key names the interaction of a turn.
func (t Turn) key() string  { return t.Run + "/" + t.Path + "#" + t.Edge }
func (t Turn) name() string { return fmt.Sprintf("%s#%05d", t.key(), t.N) }

// take gives an interaction at a place of a run the path of its turns. One that
// is there for another time gets one of its own; one that was cut off and runs
// again gets the one it had.
func (l *Log) take(run, path, edge string) (string, func(cut bool)) {
	key := Turn{Run: run, Path: path, Edge: edge}.key()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taken[key]++
	if n := l.taken[key]; n > 1 {
		path = fmt.Sprintf("%s~%d", path, n)
	}
	return path, func(cut bool) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if cut {
			l.taken[key]--
		}
	}
}

// get gives a turn that was recorded before.
func (l *Log) get(key string, n int) (Turn, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.turns[key] {
		if t.N == n {
			return t, true
		}
	}
	return Turn{}, false
}

// put writes a turn down, with sync for good before it returns; what falls out
// is forgotten.
func (l *Log) put(ctx context.Context, t Turn, sync bool) error {
	t.System, t.Prompt, t.Said = clip(t.System, l.o.Text), clip(t.Prompt, l.o.Text), clip(t.Said, l.o.Text)
	key := t.key()
	var gone []string
	l.mu.Lock()
	list := l.turns[key]
	if i := slices.IndexFunc(list, func(o Turn) bool { return o.N == t.N }); i >= 0 {
		list[i] = t
	} else {
		if len(list) == 0 {
			l.runs = append(l.runs, key)
		}
		at := len(list)
		for at > 0 && list[at-1].N > t.N {
			at--
		}
		l.turns[key] = slices.Insert(list, at, t)
	}
	for len(l.runs) > l.o.Keep {
		for _, old := range l.turns[l.runs[0]] {
			gone = append(gone, old.name())
		}
		delete(l.turns, l.runs[0])
		delete(l.taken, l.runs[0])
		l.runs = l.runs[1:]
	}
	l.mu.Unlock()
	if l.store == nil {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	text, err := json.Marshal(t)
	if err == nil {
		err = l.store.Put(ctx, t.name(), text, sync)
	}
	for _, name := range gone { // what can't be deleted now is found again at the next start
		_ = l.store.Delete(ctx, name)
	}
	if err != nil {
		return fmt.Errorf("society: record turn %d of %s: %w", t.N, t.Edge, err)
	}
	return nil
}

// marketPrefix is in front of the names of ledgers, among those of turns.
const marketPrefix = "market/"

// ledger gives that of a market, always the same.
func (l *Log) ledger(market string) *protocol.Ledger {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.books[market] == nil {
		l.books[market] = new(protocol.Ledger)
	}
	return l.books[market]
}

// keep writes a ledger down, if it is one of the log's.
func (l *Log) keep(ctx context.Context, b *protocol.Ledger) error {
	l.mu.Lock()
	name := ""
	for market, own := range l.books {
		if own == b {
			name = marketPrefix + market
		}
	}
	l.mu.Unlock()
	if l.store == nil || name == "" {
		return nil
	}
	l.keeping.Lock()
	defer l.keeping.Unlock()
	text, err := json.Marshal(b)
	if err == nil {
		err = l.store.Put(context.WithoutCancel(ctx), name, text, true)
	}
	if err != nil {
		return fmt.Errorf("society: keep balances of %s: %w", name, err)
	}
	return nil
}

// Turns gives those of a run, of all its interactions, in their order.
func (l *Log) Turns(run string) (list []Turn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range l.runs {
		if strings.HasPrefix(key, run+"/") {
			list = append(list, l.turns[key]...)
		}
	}
	return list
}

// Runs names the interactions that are kept, the oldest first.
func (l *Log) Runs() (ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range l.runs {
		id, _, _ := strings.Cut(key, "/")
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n] + "…"
}
