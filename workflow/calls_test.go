package workflow_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"edged/agent"
	"edged/agent/llm"
	"edged/workflow"
)

// asker is an agent that asks a model so often.
type asker struct {
	agent.Agent
	n int
}

func (a asker) ModelCalls() int { return a.n }

// hides is around it.
type hides struct{ agent.Agent }

func (w hides) Unwrap() agent.Agent { return w.Agent }

type lead struct{}

func (lead) Decide(context.Context, workflow.Question) (json.RawMessage, error) { return nil, nil }

func TestModelCalls(t *testing.T) {
	asks := func(n int) agent.Agent { return asker{leaf("a"), n} }
	route := func(n int) workflow.Route { return workflow.Route{Name: "r", Agent: asks(n)} }
	worker := func(string, []llm.Tool) agent.Agent { return asks(3) }
	for _, c := range []struct {
		name string
		tree agent.Agent
		want int
	}{
		{"function", leaf("f"), 0},
		{"agent", hides{asks(3)}, 3},
		{"sequence", workflow.NewSequence("s", workflow.SequenceOptions{}, asks(1), leaf("f"), asks(2)), 3},
		{"fallback", workflow.NewFallback("s", workflow.FallbackOptions{}, asks(1), asks(2)), 3},
		{"retry", workflow.NewRetry("", workflow.RetryOptions{}, asks(2)), 6},
		{"loop", workflow.NewLoop("l", workflow.LoopOptions{MaxIterations: 4}, asks(2)), 8},
		{"repeat", workflow.NewRepeat("", workflow.Options{}, 3, hides{workflow.NewStep(asks(2), workflow.Options{})}), 6},
		{"for ever", workflow.NewSequence("s", workflow.SequenceOptions{}, asks(1), workflow.NewRepeat("", workflow.Options{}, 0, asks(2))), workflow.Unbounded},
		{"for ever without a model", workflow.NewRepeat("", workflow.Options{}, 0, leaf("f")), 0},
		{"tick", workflow.NewTick("", workflow.Options{}, time.Second, asks(1)), workflow.Unbounded},
		{"switch", workflow.NewSwitch("s", workflow.SwitchOptions{}, route(2), route(5)), 5},
		{"router", workflow.NewRouter("r", workflow.RouterOptions{Lead: lead{}}, route(2), route(5)), 7},
		{"router by words", workflow.NewRouter("r", workflow.RouterOptions{}, route(2), route(5)), 5},
		{"supervisor", workflow.NewSupervisor("s", workflow.SupervisorOptions{Lead: lead{}, MaxDispatches: 2}, route(2), route(5)), 2*(5+2) + 2},
		{"orchestrator", workflow.NewOrchestrator("o", workflow.OrchestratorOptions{Lead: lead{}, MaxSubtasks: 2, Worker: worker, Synth: asks(1)}), 2 + 2*3 + 1},
		{"custom", workflow.NewCustom("c", workflow.CustomOptions{Calls: func() int { return 9 }}, nil), 9},
		{"custom of children", workflow.NewCustom("c", workflow.CustomOptions{Children: []agent.Agent{asks(1), asks(1)}}, nil), 2},
	} {
		if got := workflow.ModelCalls(c.tree); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}
