package society_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"edged/workflow/society"
	"edged/workflow/society/protocol"
)

func TestLoadErrors(t *testing.T) {
	k := newCast(t)
	a, b, j := k.agent("a"), k.agent("b"), k.agent("j")
	twin := k.agent("a")
	first := society.ResolveFunc(func(context.Context, []society.Submission, map[string]any) (string, error) { return "", nil })
	for _, c := range []struct {
		make func(s *society.Society) (*society.Interaction, error)
		want string
	}{
		{func(s *society.Society) (*society.Interaction, error) {
			return s.Compete(list{a, b}, &society.Competition{})
		}, "no resolve"},
		{func(s *society.Society) (*society.Interaction, error) {
			return s.Negotiate(list{a, b}, &society.Coopetition{CompeteOn: []string{"x"}})
		}, "no resolve"},
		{func(s *society.Society) (*society.Interaction, error) {
			return s.Group(list{a, b}, &society.Delegation{})
		}, "delegation is between two: use Connect"},
		{func(s *society.Society) (*society.Interaction, error) {
			return s.Connect(a, b, &society.Competition{Resolve: first})
		}, "use Compete"},
		{func(s *society.Society) (*society.Interaction, error) {
			return s.Cooperate(list{a}, &society.Cooperation{})
		}, "at least two"},
		{func(s *society.Society) (*society.Interaction, error) {
			return s.Cooperate(list{a, b, a}, &society.Cooperation{})
		}, `"a" is a member twice`},
		{func(s *society.Society) (*society.Interaction, error) { return s.Connect(a, a, &society.Oversight{}) }, `from "a" to itself`},
		{func(s *society.Society) (*society.Interaction, error) {
			return s.Cooperate(list{a, twin}, &society.Cooperation{})
		}, `two agents are called "a"`},
		{func(s *society.Society) (*society.Interaction, error) {
			return s.Compete(list{a, b}, &society.Competition{Resolve: society.JudgePicks{Judge: a}})
		}, `"a" decides and is a member`},
		{func(s *society.Society) (*society.Interaction, error) {
			return s.Compete(list{a, b}, &society.Competition{Resolve: society.MajorityVote{Voters: list{j, b}}})
		}, `"b" decides and is a member`},
		{func(s *society.Society) (*society.Interaction, error) {
			return s.Compete(list{a, b}, &society.Competition{Resolve: society.JudgePicks{Judge: j, OutputSchema: json.RawMessage(`{"type":"object","properties":{"winner":{"type":"string"}}}`)}})
		}, "needs a required string"},
		{func(s *society.Society) (*society.Interaction, error) {
			return s.Compete(list{a, b}, &society.Competition{Resolve: society.JudgePicks{}})
		}, "needs a judge"},
		{func(s *society.Society) (*society.Interaction, error) {
			return s.Compete(list{a, b}, &society.Competition{Resolve: first, Quorum: 3})
		}, "quorum is 3 of 2"},
		{func(s *society.Society) (*society.Interaction, error) {
			return s.Compete(list{a, b}, &society.Competition{Resolve: first, Shared: society.Shared{Protocol: protocol.Queue{}}})
		}, "don't hear each other"},
		{func(s *society.Society) (*society.Interaction, error) {
			return s.Cooperate(list{a, b}, &society.Cooperation{Merge: society.Fields})
		}, "needs an artifact"},
		{func(s *society.Society) (*society.Interaction, error) {
			return s.Cooperate(list{a, b}, &society.Cooperation{Shared: society.Shared{Protocol: protocol.Sequential{Order: []string{"a", "x"}}}})
		}, `"x", who is not a member`},
		{func(s *society.Society) (*society.Interaction, error) {
			return s.Connect(a, b, &society.Oversight{Shared: society.Shared{OnTimeout: "WAIT"}})
		}, "ESCALATE, RETRY_ONCE or TERMINATE"},
		{func(s *society.Society) (*society.Interaction, error) {
			return s.Connect(a, &society.Agent{Name: "z"}, &society.Oversight{})
		}, `"z" has nothing to answer with`},
	} {
		s := society.New("bench", society.Options{})
		_, err := c.make(s)
		if err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, society.ErrLoad) {
			t.Errorf("got %v, want %q in it", err, c.want)
		}
		if n := len(s.Agents()) + len(s.AllEdges()); n != 0 {
			t.Errorf("%s: %d agents and edges are left", c.want, n)
		}
	}
	s := society.New("slow", society.Options{})
	e := must(s.Connect(a, b, &society.Oversight{Shared: society.Shared{Timeout: 10 * time.Second, MaxRounds: 3}}))
	if p := s.Check(23 * time.Second); len(p) != 1 || !p[0].Warning || !strings.Contains(p[0].Text, "4 model calls of 23s") {
		t.Errorf("got %v", p)
	}
	if e.Calls() != 12 {
		t.Errorf("got %d calls at worst, want 12", e.Calls())
	}
}

func TestQueries(t *testing.T) {
	k := newCast(t)
	s := society.New("team", society.Options{Description: "all"})
	a, b, c := k.agent("a"), k.agent("b"), k.agent("c")
	must(s.Connect(a, b, &society.Delegation{}))
	o := must(s.Connect(a, b, &society.Oversight{}))
	must(s.Cooperate(list{a, b, c}, &society.Cooperation{}))
	if len(s.Agents()) != 3 || len(s.Edges()) != 2 || len(s.GroupEdges()) != 1 || len(s.AllEdges()) != 3 || len(s.EdgesOf("c")) != 1 {
		t.Errorf("got %d agents, %d + %d edges", len(s.Agents()), len(s.Edges()), len(s.GroupEdges()))
	}
	if e, err := s.EdgeBetween("a", "b", "oversight", ""); e != o || err != nil {
		t.Errorf("got %v, %v", e, err)
	}
	if _, err := s.EdgeBetween("a", "b", "", ""); err == nil || !strings.Contains(err.Error(), "say which type") {
		t.Errorf("got %v", err)
	}
	if _, err := s.EdgeBetween("b", "a", "", ""); err == nil {
		t.Error("there is no edge from b to a")
	}
	if _, err := s.Connect(a, b, &society.Oversight{}); err == nil {
		t.Error("a second oversight of the same two was made")
	}
}
