package graph_test

import (
	"context"
	"fmt"
	"testing"

	"edged/agent"
	"edged/workflow"
	"edged/workflow/graph"
)

// TestUsageOfAllTries: what was spent on work that was sent back counts, too.
func TestUsageOfAllTries(t *testing.T) {
	n := 0
	spends := func(name string) agent.Agent {
		return agent.Func(name, func(context.Context, agent.Task) (agent.Result, error) {
			n++
			return agent.Result{Reply: fmt.Sprint(name, n), Usage: agent.Usage{Calls: 1, PromptTokens: 10, OutputTokens: 5}}, nil
		})
	}
	again := []workflow.Guardrail{{Name: "twice", On: workflow.Revise, Check: func(_ context.Context, v any, _ map[string]any) (workflow.Finding, error) {
		if v == "a1" {
			return workflow.Violates("again"), nil
		}
		return workflow.Finding{}, nil
	}}}
	g := graph.New("g", graph.Options{})
	g.Node("a", spends("a"), graph.NodeOptions{Guardrails: again})
	g.Node("b", spends("b"), graph.NodeOptions{})
	g.Edge(graph.Start, "a")
	g.Edge("a", "b")
	g.Edge("b", graph.End)
	r, err := agent.Run(t.Context(), g, agent.Task{Input: "x"})
	if want := (agent.Usage{Calls: 3, PromptTokens: 30, OutputTokens: 15}); err != nil || r.Usage != want {
		t.Errorf("got %+v, %v, want %+v", r.Usage, err, want)
	}
	if len(r.Children) != 2 || r.Children[0].Usage.Calls != 2 || r.Children[1].Usage.OutputTokens != 5 {
		t.Errorf("got %+v", r.Children)
	}
}

// TestGuardedStart: what comes from START is looked at, and what a guardrail puts
// in its place is the input from there on.
func TestGuardedStart(t *testing.T) {
	clean := []workflow.Guardrail{{Name: "clean", On: workflow.Sanitize, Check: func(context.Context, any, map[string]any) (workflow.Finding, error) {
		return workflow.Replace("clean"), nil
	}}}
	d, g := &diary{}, graph.New("g", graph.Options{})
	g.Func("a", func(_ context.Context, s graph.State) (any, error) {
		d.note("%v", s["input"])
		return nil, nil
	}, graph.NodeOptions{})
	g.Edge(graph.Start, "a", clean...)
	g.Edge("a", graph.End)
	if r, err := agent.Run(t.Context(), g, agent.Task{Input: "dirty"}); err != nil || d.String() != "clean" {
		t.Errorf("got %+v, %v, %s", r, err, d)
	}
}
