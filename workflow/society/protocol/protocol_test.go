package protocol_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"edged/workflow/society/protocol"
)

func TestSimulate(t *testing.T) {
	abc := []string{"a", "b", "c"}
	for _, c := range []struct {
		name   string
		spec   protocol.Spec
		rounds int
		want   string
	}{
		{"sequential", protocol.Sequential{}, 1, "round 1: a → b c|round 1: b → a c|round 1: c → a b"},
		{"order", protocol.Sequential{Order: []string{"c", "a", "b"}, Sees: protocol.Previous}, 1, "round 1: c → a|round 1: a → b|round 1: b → c"},
		{"broadcast", protocol.Broadcast{Moderator: "a"}, 2, "round 1: b → a c|round 1: c → a b|round 1: a → b c|round 2: b → a c|round 2: c → a b|round 2: a → b c"},
		{"market", &protocol.Market{}, 1, "round 1: a → nobody|round 1: b → nobody|round 1: c → nobody"},
		{"queue", protocol.Queue{Priority: func(n string) int { return strings.Index("abc", n) }}, 1, "round 1: c → a b|round 1: b → a c|round 1: a → b c"},
		{"plain queue", protocol.Queue{}, 2, "round 1: a → b c|round 1: b → c a|round 1: c → a b|round 2: a → b c|round 2: b → c a|round 2: c → a b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := protocol.Simulate(c.spec, abc, c.rounds)
			if err != nil {
				t.Fatal(err)
			}
			if c.name == "queue" || c.name == "plain queue" { // order of listeners is the line's
				for i := range got {
					head, rest, _ := strings.Cut(got[i], "→ ")
					names := strings.Fields(rest)
					slices.Sort(names)
					got[i] = head + "→ " + strings.Join(names, " ")
				}
				c.want = strings.NewReplacer("b a", "a b", "c a", "a c", "c b", "b c").Replace(c.want)
			}
			if s := strings.Join(got, "|"); s != c.want {
				t.Errorf("got  %s\nwant %s", s, c.want)
			}
		})
	}
}

func TestMistakes(t *testing.T) {
	for _, c := range []struct {
		spec protocol.Spec
		want string
	}{
		{protocol.Sequential{Order: []string{"a", "x"}}, `"x", who is not a member`},
		{protocol.Sequential{Order: []string{"a", "a"}}, `names "a" twice`},
		{protocol.Sequential{Order: []string{"a"}}, `leaves out the member "b"`},
		{protocol.Sequential{Sees: "some"}, `sees is "some"`},
		{protocol.Broadcast{Moderator: "x"}, `moderator "x" is not a member`},
		{&protocol.Market{Budget: map[string]float64{"x": 1}}, `budget names "x"`},
		{&protocol.Market{Heard: true}, `can't be simultaneous`},
	} {
		_, err := protocol.Open(c.spec, []string{"a", "b"})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q in it", err, c.want)
		}
	}
}

func TestStops(t *testing.T) {
	same := func(a, b []protocol.Message) bool { return a[0].Content == b[0].Content }
	for _, c := range []struct {
		name string
		stop protocol.StopCondition
		said int
		why  string
	}{
		{"messages", protocol.MaxMessages(4), 4, "max_messages"},
		{"messages within a round", protocol.MaxMessages(3), 3, "max_messages"},
		{"node", protocol.NodeReached("a"), 1, "node_reached"},
		{"converged", protocol.Converged(same), 6, "converged"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := protocol.Open(protocol.Sequential{}, []string{"a", "b"}, c.stop)
			if err != nil {
				t.Fatal(err)
			}
			said := 0
			for f.Begin() {
				for b := f.Next(); len(b) > 0 && f.Stopped() == ""; b = f.Next() {
					for _, n := range b {
						said++
						if err := f.Say(protocol.Message{From: n, Content: min(f.Round(), 2)}); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			if said != c.said || f.Stopped() != c.why {
				t.Errorf("got %d messages, %s; want %d, %s", said, f.Stopped(), c.said, c.why)
			}
		})
	}
}

// own is a protocol whose listeners a test names.
type own struct {
	protocol.Sequential
	listeners func(speaker string) []string
}

func (o own) Open(members []string) (protocol.Protocol, error) {
	p, err := o.Sequential.Open(members)
	return ownRun{p, o}, err
}

type ownRun struct {
	protocol.Protocol
	own own
}

func (r ownRun) Listeners(speaker string) []string { return r.own.listeners(speaker) }

func TestStrangersDontListen(t *testing.T) {
	f, err := protocol.Open(own{listeners: func(string) []string { return []string{"c", "b", "stranger", "c"} }}, []string{"a", "b", "c"})
	if err != nil {
		t.Fatal(err)
	}
	f.Begin()
	for b := f.Next(); len(b) > 0; b = f.Next() {
		if err := f.Say(protocol.Message{From: b[0]}); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.Inbox("c")) != 2 || len(f.Inbox("a")) != 0 || len(f.Inbox("b")) != 2 || len(f.Inbox("stranger")) != 0 {
		t.Errorf("got inboxes %d %d %d", len(f.Inbox("a")), len(f.Inbox("b")), len(f.Inbox("c")))
	}
}

func TestMarketBalances(t *testing.T) {
	m := &protocol.Market{Budget: map[string]float64{"a": 10, "b": 5}}
	if err := m.Hold("", "b", 6); err == nil {
		t.Error("got no error for a bid of 6 with 5, want one")
	}
	m.Settle("", "a", 7)
	m.Settle("", "b", -2)
	m.Settle("", "", 0)
	if len(m.Outcomes()) != 3 || m.Balance("a") != 3 || m.Balance("b") != 7 {
		t.Errorf("got %v, %v", m.Balance("a"), m.Balance("b"))
	}
	if m.Hold("", "a", 4) == nil || m.Hold("", "a", 3) != nil {
		t.Error("what is affordable does not follow the balance")
	}
	m.Settle("one", "a", 2)
	m.Settle("one", "a", 2)
	if m.Balance("a") != 1 || m.Hold("one", "a", 2) != nil {
		t.Errorf("a run was settled twice: got %v", m.Balance("a"))
	}
}

// TestLedger: a market goes on with a ledger; who has another budget now begins
// with that.
func TestLedger(t *testing.T) {
	m := &protocol.Market{Budget: map[string]float64{"a": 10, "b": 5}, Ledger: &protocol.Ledger{}}
	m.Settle("one", "a", 7)
	m.Settle("two", "b", 1)
	text, err := json.Marshal(m.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	again := &protocol.Market{Budget: map[string]float64{"a": 10, "b": 8, "c": 1}, Ledger: &protocol.Ledger{}}
	if err := json.Unmarshal(text, again.Ledger); err != nil {
		t.Fatal(err)
	}
	if again.Balance("a") != 3 || again.Balance("b") != 8 || again.Balance("c") != 1 || len(again.Outcomes()) != 2 {
		t.Errorf("got %v %v %v from %s", again.Balance("a"), again.Balance("b"), again.Balance("c"), text)
	}
}

// TestOnlyListenersHear: whatever a protocol is, an inbox holds messages of
// which its owner was a listener, and none of the batch it spoke in.
func TestOnlyListenersHear(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := []string{"a", "b", "c", "d"}[:rapid.IntRange(2, 4).Draw(t, "n")]
		who := map[string][]string{}
		for _, m := range members {
			who[m] = rapid.SliceOf(rapid.SampledFrom(members)).Draw(t, "listeners")
		}
		specs := []protocol.Spec{protocol.Sequential{}, protocol.Sequential{Sees: protocol.Previous}, protocol.Broadcast{},
			protocol.Queue{}, &protocol.Market{}, protocol.Sealed{}, own{listeners: func(s string) []string { return who[s] }}}
		spec := rapid.SampledFrom(specs).Draw(t, "spec")
		f, err := protocol.Open(spec, members, protocol.MaxMessages(3*len(members)))
		if err != nil {
			t.Fatal(err)
		}
		turn := 0
		for f.Begin() {
			for b := f.Next(); len(b) > 0; b = f.Next() {
				first := turn
				for _, n := range b {
					turn++
					for _, m := range f.Inbox(n) {
						if m.Turn > first {
							t.Fatalf("%s hears turn %d of its own batch", n, m.Turn)
						}
					}
					if err := f.Say(protocol.Message{From: n, Turn: turn}); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		for _, n := range members {
			for _, m := range f.Inbox(n) {
				if !slices.Contains(m.To, n) || m.From == n {
					t.Fatalf("%s got a message of %s to %v", n, m.From, m.To)
				}
			}
		}
	})
}

func ExampleSimulate() {
	lines, _ := protocol.Simulate(protocol.Sequential{Sees: protocol.Previous}, []string{"mule", "scout"}, 1)
	fmt.Println(strings.Join(lines, "\n"))
	// Output:
	// round 1: mule → scout
	// round 1: scout → mule
}
