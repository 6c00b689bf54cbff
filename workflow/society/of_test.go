package society_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"edged/agent"
	"edged/agent/llm"
	"edged/workflow"
	"edged/workflow/society"
)

// told is an agent that keeps its tasks and answers from a list, the last one
// again and again.
func told(name string, tasks *[]agent.Task, answers ...agent.Result) agent.Agent {
	return agent.Func(name, func(_ context.Context, t agent.Task) (agent.Result, error) {
		*tasks = append(*tasks, t)
		r := answers[min(len(*tasks), len(answers))-1]
		if r.Status != "" {
			return r, agent.Declined(r.Reason)
		}
		return r, nil
	})
}

func said(reply string) agent.Result { return agent.Result{Reply: reply} }
func output(v any) agent.Result      { return agent.Result{Output: v} }

// Any agent can take turns: its output is the answer, or its reply if that
// fits; of a draft plain words will do, of a verdict only the form.
func TestAnAgentTakesTurns(t *testing.T) {
	approve := output(m{"comments": "", "verdict": "approve"})
	for _, c := range []struct {
		name         string
		worker, boss []agent.Result
		want         string // status, output and turns of each
	}{
		{"outputs", []agent.Result{output(m{"draft": "d"})}, []agent.Result{approve}, "done d 1 1"},
		{"a reply in the form", []agent.Result{said(` {"draft": "d"} `)}, []agent.Result{said(`{"comments":"","verdict":"approve"}`)}, "done d 1 1"},
		{"plain words are a draft", []agent.Result{said("a poem")}, []agent.Result{approve}, "done a poem 1 1"},
		{"a draft that is no text", []agent.Result{output([]any{int64(1), int64(2)})}, nil, "failed <nil> 2 0"},
		{"praise is no verdict", []agent.Result{said("a poem")}, []agent.Result{said("approved, it is done")}, "deadlock a poem 1 2"},
		{"repaired", []agent.Result{said("a poem")}, []agent.Result{said("approved"), approve}, "done a poem 1 2"},
		{"declined", []agent.Result{{Status: agent.Failed, Reason: "too tired"}}, nil, "failed <nil> 1 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var work, judged []agent.Task
			s := society.New("home", society.Options{})
			worker := &society.Agent{Name: "worker", Role: "a poet", Speaker: society.Of(told("worker", &work, c.worker...))}
			boss := &society.Agent{Name: "boss", Speaker: society.Of(told("boss", &judged, c.boss...))}
			e := must(s.Connect(worker, boss, &society.Oversight{Criteria: []string{"SAFE"}, Shared: society.Shared{MaxRounds: 1}}))
			r := run(t, e, "write")
			if got := fmt.Sprint(r.Status, " ", r.Output, " ", len(work), " ", len(judged)); got != c.want {
				t.Errorf("got %s (%s), want %s", got, r.Reason, c.want)
			}
			first := work[0].Text()
			has(t, first, "write")
			hasNot(t, first, "SAFE")
			if len(judged) == 2 {
				has(t, judged[1].Text(), "That does not fit: ")
			}
			for _, task := range append(work, judged...) {
				if task.Origin != "test" {
					t.Errorf("a turn is from %q", task.Origin)
				}
			}
		})
	}
}

// Words of others stay marked through an agent's turn, and a workflow is an
// agent as any other: what it spent is counted.
func TestAnAgentOfOthersWords(t *testing.T) {
	var read, judged []agent.Task
	reader := told("reader", &read, agent.Result{Reply: "they say: obey", Origin: "mcp:mail", Usage: agent.Usage{Calls: 3}})
	flow := workflow.NewSequence("flow", workflow.SequenceOptions{}, reader)
	s := society.New("home", society.Options{})
	e := must(s.Connect(&society.Agent{Name: "reader", Speaker: society.Of(flow)},
		&society.Agent{Name: "boss", Speaker: society.Of(told("boss", &judged, output(m{"comments": "", "verdict": "approve"})))}, &society.Oversight{}))
	r := run(t, e, "read it")
	if !r.OK() || r.Origin.Trusted(llm.Trusted) || r.Usage.Calls != 3 {
		t.Errorf("got %s %s, of %s, %d calls", r.Status, r.Reason, r.Origin, r.Usage.Calls)
	}
	if len(judged) != 1 || judged[0].Origin != "mcp:mail,test" || !strings.Contains(judged[0].Text(), "they say") {
		t.Errorf("the reviewer's task is %+v: nobody says that words of others are in it", judged)
	}
}
