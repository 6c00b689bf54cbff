package society_test

import (
	"errors"
	"testing"

	"edged/agent"
	"edged/workflow/society"
)

// TestSoftwareTeam is the complete example of the paper that the edges are
// from: five edges of four types over five agents, each of which runs.
func TestSoftwareTeam(t *testing.T) {
	k := newCast(t)
	s := society.New("software-team", society.Options{Description: "A complete software development team"})
	pm := k.agent("pm", review("accept", ""), m{"agree": true})
	arch := k.agent("architect", draft("DESIGN"))
	dev1, dev2 := k.agent("dev1", draft("ONE")), k.agent("dev2", draft("TWO"))
	reviewer := k.judge("reviewer", "TWO")
	dele := must(s.Connect(pm, arch, &society.Delegation{}))
	coop := must(s.Connect(arch, pm, &society.Cooperation{SharedTopics: []string{"architecture-doc"}}))
	comp := must(s.Compete(list{dev1, dev2}, &society.Competition{Resolve: society.JudgePicks{Judge: reviewer,
		Criteria: []string{"correctness", "test-coverage", "readability"}}}))
	must(s.Connect(dev1, reviewer, &society.Oversight{Shared: society.Shared{MaxRounds: 3}}))
	must(s.Connect(dev2, reviewer, &society.Oversight{Shared: society.Shared{MaxRounds: 3}}))
	if len(s.Agents()) != 5 || len(s.AllEdges()) != 5 || len(s.Edges()) != 4 || len(s.GroupEdges()) != 1 || len(s.Check(0)) != 0 {
		t.Errorf("got %d agents, %d edges, %v", len(s.Agents()), len(s.AllEdges()), s.Check(0))
	}
	if r := run(t, dele, "a design"); r.Status != agent.Done || r.Output != "DESIGN" {
		t.Errorf("got %+v", r)
	}
	if r := run(t, coop, "a design"); r.Status != agent.Done || r.Output != "DESIGN" {
		t.Errorf("got %+v", r)
	}
	if r := run(t, comp, "code it"); r.Status != agent.Done || r.Winner != "dev2" {
		t.Errorf("got %+v", r)
	}
	if e, err := s.EdgeBetween("dev1", "reviewer", "", ""); err != nil || e.Kind() != "oversight" {
		t.Errorf("got %v, %v", e, err)
	}
}

func TestDelegationOutcomes(t *testing.T) {
	for _, c := range []struct {
		name   string
		dev    []any
		pm     []any
		lead   []any
		status agent.Status
		reason string
		output any
		calls  int
	}{
		{"rejected twice", []any{draft("1"), draft("2")}, []any{review("reject", "no")}, nil, agent.Deadlock, "deadlock", "2", 4},
		{"rejected twice, lead accepts", []any{draft("1"), draft("2")}, []any{review("reject", "no")}, []any{review("accept", "")}, agent.Done, "deadlock: decided by lead", "2", 5},
		{"decider malformed", []any{draft("d")}, []any{"fine"}, nil, agent.Deadlock, "deadlock: pm: invalid: schema: not JSON: invalid character 'i' in literal false (expecting 'a')", "d", 6},
		{"decider can't approve", []any{draft("d")}, []any{review("approve", "")}, nil, agent.Deadlock, "deadlock: pm: invalid: verdict must be one of accept, reject", "d", 6},
		{"decider crash", []any{draft("d")}, []any{errors.New("x")}, nil, agent.Failed, "pm: failed: x", "d", 2},
		{"worker crash", []any{errors.New("x")}, nil, nil, agent.Failed, "dev: failed: x", nil, 1},
		{"worker malformed in round two", []any{draft("1"), "?"}, []any{review("reject", "no")}, nil, agent.Failed, "dev: invalid: schema: not JSON: invalid character '?' looking for beginning of value", "1", 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newCast(t)
			s := society.New("x", society.Options{})
			d := &society.Delegation{Shared: society.Shared{MaxRounds: 2}}
			if c.lead != nil {
				d.Escalation = &society.Escalate{To: "lead"}
				if err := s.Add(k.agent("lead", c.lead...)); err != nil {
					t.Fatal(err)
				}
			}
			e := must(s.Connect(k.agent("pm", c.pm...), k.agent("dev", c.dev...), d))
			r := run(t, e, "go")
			if r.Status != c.status || r.Reason != c.reason || r.Output != c.output || len(k.asked) != c.calls {
				t.Errorf("got %s %q output %v, order %s", r.Status, r.Reason, r.Output, k.order())
			}
		})
	}
}
