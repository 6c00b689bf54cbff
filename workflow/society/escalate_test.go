package society_test

import (
	"testing"
	"testing/synctest"
	"time"

	"edged/agent"
	"edged/workflow/society"
)

func TestTargetThatNeverAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCast(t)
		s := society.New("x", society.Options{EscalateTo: "lead"})
		lead := k.agent("lead", slow{time.Hour, nil})
		if err := s.Add(lead); err != nil {
			t.Fatal(err)
		}
		e := must(s.Connect(k.agent("a", draft("D")), k.agent("b", slow{time.Hour, nil}), &society.Oversight{Shared: society.Shared{Timeout: 5 * time.Second}}))
		start := time.Now()
		if r := run(t, e, "go"); r.Status != agent.Escalated || r.Reason != "no_answer: timeout: somebody did not answer in time: b; lead: timeout: no answer in time" || r.Output != "D" || time.Since(start) != 10*time.Second || len(k.asked) != 3 {
			t.Errorf("got %s %q after %v, %s", r.Status, r.Reason, time.Since(start), k.order())
		}
		lead.Patience = time.Minute // a person takes longer
		k.answers["lead"] = []any{slow{50 * time.Second, review("approve", "")}}
		start = time.Now()
		if r := run(t, e, "go"); r.Status != agent.Done || r.By != "a" || time.Since(start) != 55*time.Second {
			t.Errorf("got %s %q after %v", r.Status, r.Reason, time.Since(start))
		}
	})
}

func TestTargetsThatAreRevokedAreSkipped(t *testing.T) {
	k := newCast(t)
	s := society.New("x", society.Options{EscalateTo: "second"})
	if err := s.Add(k.agent("first"), k.agent("second", review("reject", ""))); err != nil {
		t.Fatal(err)
	}
	e := must(s.Connect(k.agent("a", draft("D")), k.agent("b", review("revise", "")), &society.Oversight{OnDeadlock: &society.Escalate{To: "first"}, Shared: society.Shared{MaxRounds: 1}}))
	s.Revoke("first")
	if r := run(t, e, "go"); r.Status != agent.Rejected || r.Reason != "deadlock: decided by second" {
		t.Errorf("got %s %q", r.Status, r.Reason)
	}
	s.Revoke("second")
	if r := run(t, e, "go"); r.Status != agent.Deadlock || r.Reason != "deadlock" {
		t.Errorf("got %s %q", r.Status, r.Reason)
	}
}

func TestRawDossier(t *testing.T) {
	k := newCast(t)
	s := society.New("x", society.Options{Human: k.agent(society.HUMAN, review("approve", ""))})
	e := must(s.Connect(k.agent("a", draft("D1"), draft("D2")), k.agent("b", review("revise", "C1")),
		&society.Oversight{OnDeadlock: &society.Escalate{To: society.HUMAN, Raw: true}, Shared: society.Shared{MaxRounds: 2}}))
	if r := run(t, e, "go"); r.Status != agent.Done || r.By != "a" || r.Output != "D2" {
		t.Errorf("got %s %q by %s", r.Status, r.Reason, r.By)
	}
	has(t, k.prompts[society.HUMAN][0], "Turn 1, work by a", "D1", "D2", "C1", "Turn 4, review by b")
}

// TestOneEscalation: a target that settled the shared half is not asked again
// about the other.
func TestOneEscalation(t *testing.T) {
	k := newCast(t)
	s := society.New("x", society.Options{EscalateTo: "lead"})
	if err := s.Add(k.agent("lead", review("approve", ""))); err != nil {
		t.Fatal(err)
	}
	no := m{"agree": false, "draft": m{"door": "shut"}}
	e := must(s.Negotiate(list{k.agent("a", draft(m{"door": "open"}), draft("A")), k.agent("b", no, draft("B"))},
		&society.Coopetition{CooperateOn: []string{"door"}, CompeteOn: []string{"price"}, Resolve: society.MajorityVote{Voters: list{k.agent("v", "?")}}, Shared: society.Shared{MaxRounds: 1}}))
	r := run(t, e, "go")
	if r.Status != agent.Deadlock || r.Reason != "tie: 2 submissions with 0 votes" || k.order() != "a b lead a b v v" && k.order() != "a b lead b a v v" {
		t.Errorf("got %s %q, order %s", r.Status, r.Reason, k.order())
	}
}

func TestRevokedInAGroup(t *testing.T) {
	k := newCast(t)
	s := society.New("x", society.Options{})
	j := k.judge("j", "ONE")
	e := must(s.Compete(list{k.agent("a", draft("ONE")), k.agent("b", draft("TWO"))}, &society.Competition{Resolve: society.JudgePicks{Judge: j}}))
	s.Revoke("b")
	if r := run(t, e, "go"); r.Status != agent.Done || r.Winner != "a" || r.Children[1].Reason != "revoked" {
		t.Errorf("got %+v", r)
	}
	hasNot(t, k.prompts["j"][0], "TWO")
	s.Revoke("j")
	if r := run(t, e, "go"); r.Status != agent.Failed || r.Reason != "no_winner: revoked: revoked" {
		t.Errorf("got %s %q", r.Status, r.Reason)
	}
}
