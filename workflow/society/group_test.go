package society_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"edged/agent"
	"edged/bus/origin"
	"edged/workflow"
	"edged/workflow/society"
	"edged/workflow/society/protocol"
)

type list = []*society.Agent

func pick(w string) m { return m{"because": "it is better", "winner": w} }

// labelOf gives the label under which a judge saw a submission.
func labelOf(prompt, text string) string {
	for _, line := range strings.Split(prompt, "\n") {
		if rest, ok := strings.CutPrefix(line, "Submission "); ok && strings.Contains(rest, text) {
			return rest[:strings.Index(rest, ":")]
		}
	}
	return "none"
}

// judge is an agent that picks the submission that holds a text.
func (c *cast) judge(name string, texts ...string) *society.Agent {
	n := 0
	return &society.Agent{Name: name, Speaker: society.Func(func(_ context.Context, p society.Prompt) (any, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.asked = append(c.asked, name)
		c.prompts[name] = append(c.prompts[name], p.System()+"\n"+p.Text())
		t := texts[min(n, len(texts)-1)]
		n++
		if t == "?" {
			return "not a label", nil
		}
		return pick(labelOf(p.Text(), t)), nil
	})}
}

func TestCompetition(t *testing.T) {
	c := newCast(t)
	s := society.New("routes", society.Options{})
	e := must(s.Compete(list{c.agent("fast", draft("SHORT")), c.agent("gentle", draft("LONG"))},
		&society.Competition{Resolve: society.JudgePicks{Judge: c.judge("referee", "LONG"), Criteria: []string{"CRIT"}, Swap: true}}))
	r := run(t, e, "a way")
	if r.Status != agent.Done || r.Winner != "gentle" || r.Output != "LONG" || r.Reason != "it is better" || len(c.asked) != 4 {
		t.Fatalf("got %+v, calls %v", r, c.asked)
	}
	for _, who := range []string{"fast", "gentle"} {
		has(t, c.prompts[who][0], "a way")
		hasNot(t, c.prompts[who][0], map[string]string{"fast": "gentle", "gentle": "fast"}[who], "referee", "CRIT", "compet", "routes", "SHORT", "LONG")
	}
	first, second := c.prompts["referee"][0], c.prompts["referee"][1]
	has(t, first, "CRIT", "SHORT", "LONG", "Submission A", "Submission B", "none")
	hasNot(t, first, "fast", "gentle")
	if strings.Index(first, "SHORT") < strings.Index(first, "LONG") == (strings.Index(second, "SHORT") < strings.Index(second, "LONG")) {
		t.Error("the judge read both times in the same order")
	}
	if labelOf(first, "LONG") == labelOf(second, "LONG") {
		t.Error("the label went with the submission: who likes an A better picks it twice")
	}
	if got := r.Proceedings.Ranking; !reflect.DeepEqual(got, []string{"gentle", "fast"}) {
		t.Errorf("got ranking %v", got)
	}
}

func TestJudges(t *testing.T) {
	rail := workflow.Guardrail{Name: "short", Check: func(_ context.Context, v any, _ map[string]any) (workflow.Finding, error) {
		if v == "LONG" {
			return workflow.Finding{Violation: "too long"}, nil
		}
		return workflow.Finding{}, nil
	}}
	for _, c := range []struct {
		name    string
		picks   []string
		swap    bool
		neither society.OnNeither
		target  bool
		status  agent.Status
		winner  string
		reason  string
		calls   int // of the judge
	}{
		{"picks", []string{"SHORT"}, false, "", false, agent.Done, "a", "it is better", 1},
		{"none, best effort", []string{"nothing"}, false, society.BestEffort, false, agent.Done, "b", "best effort: it is better", 1},
		{"none, retry, then picks", []string{"nothing", "SHORT"}, false, society.RetryNeither, false, agent.Done, "a", "it is better", 2},
		{"none, retry, none", []string{"nothing"}, false, society.RetryNeither, false, agent.Done, "b", "best effort: it is better", 2},
		{"none, nobody above", []string{"nothing"}, false, "", false, agent.Failed, "", "no_winner: it is better", 1},
		{"none, lead", []string{"nothing"}, false, "", true, agent.Done, "b", "no_winner: it is better: decided by lead", 1},
		{"swap disagrees", []string{"SHORT", "MIDDLE"}, true, "", false, agent.Deadlock, "", "tie: the judge picked another one in the reverse order", 2},
		{"malformed", []string{"?"}, false, society.BestEffort, false, agent.Done, "b", "best effort: invalid", 1},
		{"blocked", []string{"LONG"}, false, "", false, agent.Blocked, "c", "short: too long", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newCast(t)
			o := society.Options{}
			if c.target {
				o.EscalateTo = "lead"
			}
			s := society.New("x", o)
			if err := s.Add(k.judge("lead", "MIDDLE")); err != nil {
				t.Fatal(err)
			}
			members := list{k.agent("c", draft("LONG")), k.agent("b", draft("MIDDLE")), k.agent("a", draft("SHORT"))}
			e := must(s.Compete(members, &society.Competition{Shared: society.Shared{Guardrails: []workflow.Guardrail{rail}},
				Resolve: society.JudgePicks{Judge: k.judge("j", c.picks...), OnNeither: c.neither, Swap: c.swap}}))
			r := run(t, e, "go")
			rounds := 1
			if c.neither == society.RetryNeither {
				rounds = 2
			}
			want := 3*rounds + c.calls
			if c.target {
				want++
			}
			if r.Status != c.status || r.Winner != c.winner || !strings.HasPrefix(r.Reason, c.reason) || len(k.asked) != want {
				t.Errorf("got %s winner %q reason %q, order %s", r.Status, r.Winner, r.Reason, k.order())
			}
			if rounds == 2 {
				has(t, k.prompts["a"][1], "it is better")
			}
			if c.target {
				has(t, k.prompts["lead"][0], "Submission A", "no_winner")
			}
		})
	}
}

func TestVotes(t *testing.T) {
	for _, c := range []struct {
		name   string
		votes  []string // of three voters
		tie    society.Tie
		fn     string
		status agent.Status
		winner string
		reason string
	}{
		{"majority", []string{"TWO", "TWO", "ONE"}, "", "", agent.Done, "b", "2 of 3 votes"},
		{"abstentions", []string{"TWO", "?", "?"}, "", "", agent.Done, "b", "1 of 3 votes"},
		{"tie", []string{"TWO", "ONE", "?"}, "", "", agent.Deadlock, "", "tie: 2 submissions with 1 votes"},
		{"tie, first", []string{"TWO", "ONE", "?"}, society.TieFirst, "", agent.Done, "a", "tie: 1 of 3 votes"},
		{"tie, function", []string{"TWO", "ONE", "?"}, "", "b", agent.Done, "b", "tie: 1 of 3 votes"},
		{"no votes", []string{"?", "?", "?"}, "", "", agent.Deadlock, "", "tie: 2 submissions with 0 votes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newCast(t)
			v := society.MajorityVote{Tie: c.tie}
			for i, text := range c.votes {
				v.Voters = append(v.Voters, k.judge(fmt.Sprint("v", i), text))
			}
			if c.fn != "" {
				v.TieFunc = func(context.Context, []society.Submission) (string, error) { return c.fn, nil }
			}
			s := society.New("x", society.Options{})
			e := must(s.Compete(list{k.agent("a", draft("ONE")), k.agent("b", draft("TWO"))}, &society.Competition{Resolve: v}))
			r := run(t, e, "go")
			if r.Status != c.status || r.Winner != c.winner || r.Reason != c.reason || len(k.asked) != 5 {
				t.Errorf("got %s %q %q, %d calls", r.Status, r.Winner, r.Reason, len(k.asked))
			}
		})
	}
}

// TestLateVoter: when the round is tried again only who is missing is asked.
func TestLateVoter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCast(t)
		s := society.New("x", society.Options{})
		v := society.MajorityVote{Voters: list{k.judge("v1", "TWO"), k.agent("v2", slow{time.Hour, nil}, pick("A")), k.judge("v3", "TWO")}}
		e := must(s.Compete(list{k.agent("a", draft("ONE")), k.agent("b", draft("TWO"))}, &society.Competition{Resolve: v,
			Shared: society.Shared{Timeout: time.Second, OnTimeout: society.RetryOnce}}))
		start := time.Now()
		r := run(t, e, "go")
		if r.Status != agent.Done || r.Winner != "b" || len(k.asked) != 6 || strings.Count(k.order(), "v2") != 2 || time.Since(start) != time.Second {
			t.Errorf("got %s %q %q after %v, %s", r.Status, r.Winner, r.Reason, time.Since(start), k.order())
		}
	})
}

func TestMembersVote(t *testing.T) {
	k := newCast(t)
	s := society.New("x", society.Options{})
	both := func(name, own string) *society.Agent {
		return &society.Agent{Name: name, Speaker: society.Kinds(map[society.Kind]society.Speaker{
			society.ToSubmit: society.Func(func(context.Context, society.Prompt) (any, error) { return own, nil }),
			society.ToVote:   k.judge(name, "TWO").Speaker})}
	}
	e := must(s.Compete(list{both("a", "ONE"), both("b", "TWO"), both("c", "THREE")}, &society.Competition{Resolve: society.MajorityVote{}}))
	r := run(t, e, "go")
	// b can't vote for itself; what it writes is no vote.
	if r.Status != agent.Done || r.Winner != "b" || r.Reason != "2 of 3 votes" {
		t.Errorf("got %+v", r)
	}
	hasNot(t, k.prompts["b"][0], "TWO")
	two := must(society.New("y", society.Options{}).Compete(list{both("a", "ONE"), both("b", "TWO")}, &society.Competition{Resolve: society.MajorityVote{}}))
	_ = two
	s2 := society.New("y", society.Options{})
	must(s2.Compete(list{both("a", "ONE"), both("b", "TWO")}, &society.Competition{Resolve: society.MajorityVote{}}))
	if p := s2.Check(0); len(p) != 1 || !p[0].Warning || !strings.Contains(p[0].Text, "always tie") {
		t.Errorf("got %v", p)
	}
}

func bids(names string, cost ...any) (out list) {
	for i, n := range strings.Fields(names) {
		out = append(out, &society.Agent{Name: n, Speaker: society.Func(func(context.Context, society.Prompt) (any, error) {
			switch v := cost[i].(type) {
			case error:
				return nil, v
			case int:
				return m{"cost": int64(v), "eta": int64(10 - i)}, nil
			}
			return cost[i], nil
		})})
	}
	return out
}

var bidSchema = json.RawMessage(`{"type":"object","required":["cost","eta"],"properties":{"cost":{"type":"integer","minimum":0},"eta":{"type":"integer","minimum":0}}}`)

func TestMarket(t *testing.T) {
	reserve := 400.0
	for _, c := range []struct {
		name    string
		costs   []any
		quorum  int
		status  agent.Status
		winner  string
		reason  string
		ranking []string
	}{
		{"lowest", []any{30, 20, 50}, 0, agent.Done, "b", "cost is 20", []string{"b", "a", "c"}},
		{"equal", []any{20, 20, 50}, 0, agent.Done, "b", "cost is 20", []string{"b", "a", "c"}},
		{"refuses", []any{30, nil, 50}, 0, agent.Done, "a", "cost is 30", []string{"a", "c"}},
		{"fails", []any{30, errors.New("x"), 50}, 0, agent.Done, "a", "cost is 30", []string{"a", "c"}},
		{"malformed", []any{30, "cheap", 50}, 0, agent.Done, "a", "cost is 30", []string{"a", "c"}},
		{"reserve", []any{500, 600, 700}, 0, agent.Failed, "", "reserve: none of 3 reaches 400", nil},
		{"nobody", []any{nil, nil, nil}, 0, agent.Failed, "", "no_taker", nil},
		{"all fail", []any{errors.New("x"), errors.New("x"), errors.New("x")}, 0, agent.Failed, "", "no submission: a: failed: x; b: failed: x; c: failed: x", nil},
		{"quorum", []any{30, nil, nil}, 2, agent.Failed, "", "quorum: 1 of 2", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := society.New("fleet", society.Options{})
			e := must(s.Compete(bids("a b c", c.costs...), &society.Competition{Quorum: c.quorum,
				Resolve: society.BestScore{Field: "cost", Lowest: true, Reserve: &reserve, Tie: "eta"},
				Shared:  society.Shared{Protocol: &protocol.Market{Bid: bidSchema}}}))
			r := run(t, e, "a job")
			if r.Status != c.status || r.Winner != c.winner || !strings.HasPrefix(r.Reason, c.reason) || !reflect.DeepEqual(r.Proceedings.Ranking, c.ranking) || r.Usage.Calls != 0 {
				t.Errorf("got %s %q %q %v", r.Status, r.Winner, r.Reason, r.Proceedings.Ranking)
			}
		})
	}
}

func TestMarketBudget(t *testing.T) {
	s := society.New("x", society.Options{})
	market := &protocol.Market{Bid: bidSchema, Budget: map[string]float64{"a": 50, "b": 20}}
	var seen []string
	rich := &society.Agent{Name: "a", Speaker: society.Func(func(_ context.Context, p society.Prompt) (any, error) {
		seen = append(seen, p.Text())
		return m{"cost": int64(40), "eta": int64(1)}, nil
	})}
	e := must(s.Compete(append(list{rich}, bids("b", 10)...), &society.Competition{Resolve: society.BestScore{Field: "cost"}, Shared: society.Shared{Protocol: market}}))
	if r := run(t, e, "x"); r.Winner != "a" || market.Balance("a") != 10 {
		t.Fatalf("got %+v, balance %v", r, market.Balance("a"))
	}
	if r := run(t, e, "x"); r.Winner != "b" || market.Balance("b") != 10 || !strings.Contains(r.Children[1].Reason, "beyond") {
		t.Errorf("got %+v", r)
	}
	has(t, seen[1], "Last time: a won with 40", "Your balance: 10")
	hasNot(t, seen[1], "20")
}

// TestReasonsFirst: of the author's own form the winner is the last field, and
// a name that the alphabet puts after it is told.
func TestReasonsFirst(t *testing.T) {
	for name, want := range map[string]int{"rationale": 0, "zeal": 1} {
		c := newCast(t)
		s := society.New("x", society.Options{})
		form := json.RawMessage(fmt.Sprintf(`{"type":"object","required":["winner",%q],"properties":{"winner":{"type":"string"},%q:{"type":"string"}}}`, name, name))
		e := must(s.Compete(bids("a b", "1", "2"), &society.Competition{Resolve: society.JudgePicks{Judge: c.agent("j", m{name: "short", "winner": "A"}), OutputSchema: form}}))
		r := run(t, e, "go")
		has(t, c.prompts["j"][0], fmt.Sprintf("JSON alone: %s (text of at most 300 characters), winner (one of A, B, none).", name))
		got := c.schemas["j"][0]
		if r.Status != agent.Done || strings.Index(got, `"winner":`) < strings.Index(got, fmt.Sprintf("%q:", name)) {
			t.Errorf("%s: got %s %s, schema %s", name, r.Status, r.Reason, got)
		}
		if got := s.Check(0); len(got) != want || want == 1 && (got[0].Rule != "reasons-last" || !got[0].Warning) {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// TestMarketOutcomes: bidders hear how the last market ended, also that nobody
// won, and nobody pays for what is blocked.
func TestMarketOutcomes(t *testing.T) {
	reserve := 5.0
	s := society.New("x", society.Options{})
	market := &protocol.Market{Bid: bidSchema, Budget: map[string]float64{"a": 50, "b": 50}}
	var heard string
	a := &society.Agent{Name: "a", Speaker: society.Func(func(_ context.Context, p society.Prompt) (any, error) {
		heard = p.Text()
		switch p.Task.Input {
		case "low":
			return m{"cost": int64(1), "eta": int64(1)}, nil
		case "none":
			return nil, society.ErrRefused
		case "blocked":
			return m{"cost": int64(13), "eta": int64(1)}, nil
		}
		return m{"cost": int64(10), "eta": int64(1)}, nil
	})}
	b := &society.Agent{Name: "b", Speaker: society.Func(func(context.Context, society.Prompt) (any, error) { return nil, society.ErrRefused })}
	unlucky := workflow.Guardrail{Name: "unlucky", On: workflow.Block, Check: func(_ context.Context, v any, _ map[string]any) (workflow.Finding, error) {
		if v.(map[string]any)["cost"] == int64(13) {
			return workflow.Finding{Violation: "13"}, nil
		}
		return workflow.Finding{}, nil
	}}
	e := must(s.Compete(list{a, b}, &society.Competition{Resolve: society.BestScore{Field: "cost", Reserve: &reserve},
		Shared: society.Shared{Protocol: market, Guardrails: []workflow.Guardrail{unlucky}}}))
	for _, c := range []struct {
		task, before string
		status       agent.Status
		balance      float64
	}{
		{"x", "", agent.Done, 40},
		{"low", "a won with 10", agent.Failed, 40},
		{"none", "nobody won", agent.Failed, 40},
		{"blocked", "nobody won", agent.Blocked, 40},
		{"x", "nobody won", agent.Done, 30},
	} {
		r, err := e.Run(t.Context(), agent.Task{Input: c.task, Origin: "test"})
		if err != nil {
			r.Status = agent.StatusOf(err)
		}
		if r.Status == "" {
			r.Status = agent.Done
		}
		if r.Status != c.status || market.Balance("a") != c.balance || !strings.Contains(heard, c.before) {
			t.Errorf("%s: got %s %q, balance %v, heard\n%s", c.task, r.Status, r.Reason, market.Balance("a"), heard)
		}
	}
	hasNot(t, heard, "won with")
}

// TestNoTaker: nobody accepts a task, of whatever edge.
func TestNoTaker(t *testing.T) {
	no := func(name string) *society.Agent {
		return &society.Agent{Name: name, Speaker: society.Func(func(context.Context, society.Prompt) (any, error) { return nil, society.ErrRefused })}
	}
	for _, watch := range [][]string{nil, {"no_taker"}} {
		sh := society.Shared{Watch: watch}
		for name, rel := range map[string]society.Relation{"delegation": &society.Delegation{Shared: sh}, "oversight": &society.Oversight{Shared: sh},
			"cooperation": &society.Cooperation{Shared: sh}, "competition": &society.Competition{Shared: sh, Resolve: society.BestScore{Field: "x"}}} {
			s := society.New("x", society.Options{EscalateTo: "lead"})
			lead := &society.Agent{Name: "lead", Speaker: society.Func(func(context.Context, society.Prompt) (any, error) { return m{"draft": "mine"}, nil })}
			if err := s.Add(lead); err != nil {
				t.Fatal(err)
			}
			join := func() (*society.Interaction, error) { return s.Connect(no("a"), no("b"), rel) }
			if name == "cooperation" || name == "competition" {
				join = func() (*society.Interaction, error) { return s.Group(list{no("a"), no("b")}, rel) }
			}
			r := run(t, must(join()), "x")
			if watch != nil && (r.By != "lead" || r.Output != "mine" || !strings.HasPrefix(r.Reason, "no_taker")) || watch == nil && r.Status != agent.Failed {
				t.Errorf("%s, %v: got %+v", name, watch, r)
			}
		}
	}
}

func TestQuorumAtTimeout(t *testing.T) {
	for _, c := range []struct {
		policy  society.OnTimeout
		quorum  int
		slow    any
		status  agent.Status
		winner  string
		elapsed time.Duration
		calls   int // of the slow one
	}{
		{society.Terminate, 1, slow{time.Hour, nil}, agent.Done, "a", time.Second, 1},
		{society.Terminate, 2, slow{time.Hour, nil}, agent.Timeout, "", time.Second, 1},
		{society.RetryOnce, 0, slow{time.Hour, nil}, agent.Timeout, "", 2 * time.Second, 2},
		{society.EscalateTimeout, 0, slow{time.Hour, nil}, agent.Done, "a", time.Second, 1},
	} {
		t.Run(fmt.Sprint(c.policy, c.quorum), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newCast(t)
				o := society.Options{}
				if c.policy == society.EscalateTimeout {
					o.EscalateTo = "lead"
				}
				s := society.New("x", o)
				if err := s.Add(k.judge("lead", "ONE")); err != nil {
					t.Fatal(err)
				}
				e := must(s.Compete(list{k.agent("a", draft("ONE")), k.agent("b", c.slow)}, &society.Competition{
					Resolve: society.JudgePicks{Judge: k.judge("j", "ONE")}, Quorum: c.quorum, Shared: society.Shared{Timeout: time.Second, OnTimeout: c.policy}}))
				start := time.Now()
				r := run(t, e, "go")
				if r.Status != c.status || r.Winner != c.winner || time.Since(start) != c.elapsed ||
					strings.Count(k.order(), "b") != c.calls || strings.Count(k.order(), "a") > 1+strings.Count(k.order(), "lead") {
					t.Errorf("got %s %q after %v, order %s", r.Status, r.Winner, time.Since(start), k.order())
				}
			})
		})
	}
}

func TestCooperation(t *testing.T) {
	c := newCast(t)
	s := society.New("x", society.Options{})
	s.Put(origin.With(context.Background(), "test"), "api", "OLD-API")
	agree := m{"agree": true}
	e := must(s.Cooperate(list{c.agent("a", draft("V1"), agree), c.agent("b", m{"agree": false, "draft": "V2"}, agree), c.agent("c", agree)},
		&society.Cooperation{SharedTopics: []string{"api"}}))
	r := run(t, e, "together")
	if r.Status != agent.Done || r.Output != "V2" || c.order() != "a b c a" {
		t.Fatalf("got %+v, order %s", r, c.order())
	}
	has(t, c.prompts["b"][0], "OLD-API", "Version by a: \"V1\"", "Work log of a")
	has(t, c.prompts["c"][0], "V2", "Work log of a", "Work log of b")
	hasNot(t, c.schemas["a"][0], "agree")
}

func TestCooperationEnds(t *testing.T) {
	never := m{"agree": false, "draft": "mine"}
	for _, c := range []struct {
		name   string
		b      []any
		edge   society.Cooperation
		status agent.Status
		calls  int
	}{
		{"deadlock", []any{never}, society.Cooperation{Shared: society.Shared{MaxRounds: 2}}, agent.Deadlock, 4},
		{"crash", []any{errors.New("x")}, society.Cooperation{}, agent.Failed, 2},
		{"invalid is no agreement", []any{"yes", "yes", m{"agree": true}}, society.Cooperation{}, agent.Done, 5},
		{"neither agrees nor drafts", []any{m{"agree": false}}, society.Cooperation{Shared: society.Shared{MaxRounds: 1}}, agent.Deadlock, 3},
		{"until", []any{never}, society.Cooperation{Shared: society.Shared{Until: func(context.Context, []society.Work) (bool, error) { return true, nil }}}, agent.Done, 2},
		{"stalled", []any{never}, society.Cooperation{Shared: society.Shared{Watch: []string{"stalled"}}}, agent.Deadlock, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newCast(t)
			s := society.New("x", society.Options{})
			e := must(s.Cooperate(list{k.agent("a", draft("V1"), m{"agree": false, "draft": "V1"}), k.agent("b", c.b...)}, &c.edge))
			if r := run(t, e, "go"); r.Status != c.status || len(k.asked) != c.calls {
				t.Errorf("got %s %q, %d calls: %s", r.Status, r.Reason, len(k.asked), k.order())
			}
		})
	}
}

func TestMerge(t *testing.T) {
	plan := society.Artifact{Name: "plan", Schema: json.RawMessage(`{"type":"object","required":["x","y"],"properties":{"x":{"type":"integer"},"y":{"type":"integer"}}}`)}
	k := newCast(t)
	s := society.New("x", society.Options{})
	sh := society.Shared{Artifacts: []society.Artifact{plan}}
	e := must(s.Cooperate(list{k.agent("a", draft(m{"x": 1, "y": 1}), draft(m{"x": 1})), k.agent("b", draft(m{"y": 2}))}, &society.Cooperation{Shared: sh, Merge: society.Fields}))
	r := run(t, e, "go")
	if want := (m{"x": int64(1), "y": int64(2)}); r.Status != agent.Done || !reflect.DeepEqual(r.Output, want) || k.order() != "a b a b" {
		t.Fatalf("got %+v, order %s", r, k.order())
	}
	has(t, k.prompts["a"][1], "filled in y differently", `Draft of b: {"y":2}`)
	if got, _ := s.Get(t.Context(), "plan"); !reflect.DeepEqual(got, r.Output) {
		t.Errorf("on the shelf is %v", got)
	}

	s = society.New("y", society.Options{})
	e = must(s.Cooperate(bids("a b", "1", "2"), &society.Cooperation{Merge: society.Append}))
	if r := run(t, e, "go"); !reflect.DeepEqual(r.Output, []any{"1", "2"}) {
		t.Errorf("got %+v", r)
	}
	s = society.New("z", society.Options{})
	e = must(s.Cooperate(bids("a b", "1", "2"), &society.Cooperation{MergeFunc: func(_ context.Context, d []society.Submission) (any, error) {
		return d[1].Output.(string) + d[0].Output.(string), nil
	}}))
	if r := run(t, e, "go"); r.Output != "21" {
		t.Errorf("got %+v", r)
	}
	k = newCast(t)
	s = society.New("w", society.Options{})
	e = must(s.Cooperate(bids("a b", "1", "2"), &society.Cooperation{MergeBy: k.agent("ed", draft("both"))}))
	if r := run(t, e, "go"); r.Output != "both" || r.By != "ed" {
		t.Errorf("got %+v", r)
	}
	has(t, k.prompts["ed"][0], `Draft of a: "1"`, `Draft of b: "2"`)
}

func TestCoopetition(t *testing.T) {
	c := newCast(t)
	s := society.New("doorway", society.Options{})
	claim := society.Artifact{Name: "claim", MaxTokens: 60, Schema: json.RawMessage(`{"type":"object","required":["battery"],"properties":{"battery":{"type":"integer","minimum":0,"maximum":100}}}`)}
	first := society.ResolveFunc(func(_ context.Context, subs []society.Submission, _ map[string]any) (string, error) {
		best := subs[0]
		for _, s := range subs {
			if s.Output.(m)["battery"].(int64) < best.Output.(m)["battery"].(int64) {
				best = s
			}
		}
		return best.Agent, nil
	})
	mule := c.agent("mule", draft(m{"door": "OPEN", "obstacles": "none"}), draft(m{"battery": 77}))
	scout := c.agent("scout", m{"agree": true}, draft(m{"battery": 33}))
	e := must(s.Negotiate(list{mule, scout}, &society.Coopetition{CooperateOn: []string{"obstacles", "door"}, CompeteOn: []string{"claim"}, Resolve: first,
		Shared: society.Shared{Artifacts: []society.Artifact{claim}, MaxRounds: 2}}))
	r := run(t, e, "who first")
	want := m{"shared": m{"door": "OPEN", "obstacles": "none"}, "won": m{"battery": int64(33)}}
	if r.Status != agent.Done || r.Winner != "scout" || !reflect.DeepEqual(r.Output, want) || len(c.asked) != 4 {
		t.Fatalf("got %+v, order %s", r, c.order())
	}
	has(t, c.prompts["scout"][0], "OPEN")
	has(t, c.prompts["scout"][1], `Agreed: {"door":"OPEN","obstacles":"none"}`)
	has(t, c.prompts["mule"][1], "Agreed: ", "Give your own claim")
	hasNot(t, c.prompts["mule"][1], "Your last draft")
	hasNot(t, strings.Join(c.prompts["scout"], ""), "77")
	hasNot(t, strings.Join(c.prompts["mule"], ""), "33")
	if got, _ := s.Get(t.Context(), "door"); got != "OPEN" {
		t.Errorf("on the shelf is %v", got)
	}
	if _, ok := s.Get(t.Context(), "claim"); ok {
		t.Error("a sealed claim lies on the shelf")
	}

	// Nobody wins: what was agreed is there all the same.
	s = society.New("nobody", society.Options{})
	c = newCast(t)
	nobody := society.ResolveFunc(func(context.Context, []society.Submission, map[string]any) (string, error) { return "", nil })
	e = must(s.Negotiate(list{c.agent("a", draft(m{"door": "OPEN"}), draft(m{"battery": 7})), c.agent("b", m{"agree": true}, draft(m{"battery": 8}))},
		&society.Coopetition{CooperateOn: []string{"door"}, CompeteOn: []string{"claim"}, Resolve: nobody, Shared: society.Shared{Artifacts: []society.Artifact{claim}}}))
	if r := run(t, e, "go"); r.Status != agent.Failed || !reflect.DeepEqual(r.Output, m{"shared": m{"door": "OPEN"}, "won": nil}) {
		t.Errorf("got %+v", r)
	}

	s = society.New("no", society.Options{})
	c = newCast(t)
	no := m{"agree": false, "draft": m{"door": "x"}}
	e = must(s.Negotiate(list{c.agent("a", draft(m{"door": "y"}), no), c.agent("b", no)}, &society.Coopetition{CooperateOn: []string{"door"}, CompeteOn: []string{"claim"}, Resolve: first, Shared: society.Shared{MaxRounds: 2}}))
	if r := run(t, e, "go"); r.Status != agent.Deadlock || len(c.asked) != 4 {
		t.Errorf("got %+v, order %s", r, c.order())
	}
}

func TestListenersAreEnforced(t *testing.T) {
	c := newCast(t)
	s := society.New("x", society.Options{})
	e := must(s.Cooperate(list{c.agent("a", draft("FROM-A")), c.agent("b", draft("FROM-B")), c.agent("c", draft("FROM-C"))},
		&society.Cooperation{Merge: society.Append, Shared: society.Shared{Protocol: protocol.Sequential{Sees: protocol.Previous}}}))
	run(t, e, "go")
	has(t, c.prompts["c"][0], "FROM-B")
	hasNot(t, c.prompts["c"][0], "FROM-A")
	c = newCast(t)
	s = society.New("y", society.Options{})
	e = must(s.Cooperate(list{c.agent("a", draft("FROM-A")), c.agent("b", draft("FROM-B")), c.agent("mod", draft("END"))},
		&society.Cooperation{Merge: society.Append, Shared: society.Shared{Protocol: protocol.Broadcast{Moderator: "mod"}}}))
	run(t, e, "go")
	hasNot(t, c.prompts["a"][0]+c.prompts["b"][0], "FROM")
	has(t, c.prompts["mod"][0], "FROM-A", "FROM-B")
}

func TestUnmoved(t *testing.T) {
	k := newCast(t)
	door := "open"
	s := society.New("x", society.Options{State: func(context.Context) map[string]any { return m{"door": door} }})
	a := &society.Agent{Name: "a", Speaker: society.Func(func(_ context.Context, p society.Prompt) (any, error) {
		if p.Round == 3 {
			door = "shut"
		}
		return "same", nil
	})}
	e := must(s.Connect(a, k.agent("b", review("revise", "1"), review("revise", "2"), review("revise", "3")),
		&society.Oversight{Shared: society.Shared{Watch: []string{"unmoved:door"}}}))
	if r := run(t, e, "go"); r.Status != agent.Deadlock || !strings.HasPrefix(r.Reason, "unmoved: door has changed") || len(k.asked) != 3 {
		t.Errorf("got %s %q, %d calls", r.Status, r.Reason, len(k.asked))
	}
}
