package society_test

import (
	"context"
	"encoding/json"
	"testing"

	"edged/agent"
	"edged/workflow"
	"edged/workflow/society"
	"edged/workflow/society/protocol"
)

// cleans puts something else in the place of every draft.
func cleans(by any) []workflow.Guardrail {
	return []workflow.Guardrail{{Name: "g", On: workflow.Sanitize, Check: func(context.Context, any, map[string]any) (workflow.Finding, error) {
		return workflow.Replace(by), nil
	}}}
}

// TestWhatWasReplacedIsMarked: the record of a turn has what a guardrail made of
// the answer, and beside it what it was, for who operates the robot alone.
func TestWhatWasReplacedIsMarked(t *testing.T) {
	cost := func(n int) func(context.Context, society.Prompt) (any, error) {
		return func(context.Context, society.Prompt) (any, error) { return map[string]any{"cost": n}, nil }
	}
	s := society.New("x", society.Options{})
	k := newCast(t)
	a := &society.Agent{Name: "a", Speaker: society.Func(cost(777))}
	b := &society.Agent{Name: "b", Speaker: society.Func(cost(888))}
	bid := &protocol.Market{Bid: json.RawMessage(`{"type":"object","required":["cost"],"properties":{"cost":{"type":"integer","minimum":0,"maximum":999}}}`)}
	market := must(s.Compete(list{a, b}, &society.Competition{Shared: society.Shared{Protocol: bid, Guardrails: cleans(map[string]any{"cost": int64(10)})},
		Resolve: society.BestScore{Field: "cost"}}))
	review := must(s.Connect(k.agent("w", draft("DIRTY")), k.agent("boss", review("approve", "")), &society.Oversight{Shared: society.Shared{Guardrails: cleans("clean")}}))
	for _, c := range []struct {
		e                  *society.Interaction
		viewer, clean, raw string
	}{
		{market, "b", `{"cost":10}`, `{"cost":777}`},
		{review, "boss", `{"draft":"clean"}`, `{"draft":"DIRTY"}`},
	} {
		r := run(t, c.e, "go")
		if r.Status != agent.Done {
			t.Fatalf("got %s %s", r.Status, r.Reason)
		}
		first := s.Log().Turns(r.RunID)[0]
		if string(first.Answer) != c.clean || string(first.Raw) != c.raw {
			t.Errorf("got %s, raw %s", first.Answer, first.Raw)
		}
		for _, turn := range c.e.View(c.viewer, s.Log().Turns(r.RunID)) {
			if turn.Speaker != c.viewer && turn.Raw != nil {
				t.Errorf("%s is shown %s", c.viewer, turn.Raw)
			}
		}
	}
}
