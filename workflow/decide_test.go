package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"edged/agent"
	"edged/agent/llm"
	"edged/workflow"
)

// model answers with fixed texts and keeps what it was asked.
type model struct {
	answers []string
	err     error
	asked   []llm.Request
}

func (m *model) Chat(ctx context.Context, r llm.Request, _ func(string) error) (llm.Message, error) {
	m.asked = append(m.asked, r)
	if m.err != nil {
		return llm.Message{}, m.err
	}
	a := m.answers[min(len(m.asked), len(m.answers))-1]
	return llm.Message{Role: llm.Assistant, Text: a, Usage: agent.Usage{Calls: 1, OutputTokens: 10}}, ctx.Err()
}

func echo(name string) agent.Agent {
	return agent.Func(name, func(_ context.Context, t agent.Task) (agent.Result, error) {
		return agent.Result{Reply: name + "(" + t.Text() + ")" + t.Conversation}, nil
	})
}

func TestRouter(t *testing.T) {
	routes := []workflow.Route{{Name: "light", Doc: "lamps", Agent: echo("L")}, {Name: "drive", Agent: echo("D")}}
	choose := func(name string, err error) func(context.Context, workflow.View) (string, error) {
		return func(context.Context, workflow.View) (string, error) { return name, err }
	}
	intents := func(_ context.Context, said string) (string, bool) { return "drive", strings.HasPrefix(said, "go ") }
	for _, x := range []struct {
		name  string
		opt   workflow.RouterOptions
		model *model
		task  string
		want  string
		asked int
	}{
		{"function", workflow.RouterOptions{Choose: choose("light", nil)}, nil, "x", "done L(x)k light", 0},
		{"function leaves it", workflow.RouterOptions{Choose: choose("", nil), Intents: intents}, nil, "go on", "done D(go on)k drive", 0},
		{"function is wrong", workflow.RouterOptions{Choose: choose("sing", nil), Default: echo("E")}, nil, "x", "done E(x)k default", 0},
		{"wrong and no default", workflow.RouterOptions{Choose: choose("sing", nil)}, nil, "x", "failed no route\nchoose gave \"sing\" ", 0},
		{"function fails", workflow.RouterOptions{Choose: choose("", errors.New("no key"))}, nil, "x", "failed no route\nchoose: no key ", 0},
		{"intents, then the model", workflow.RouterOptions{Intents: intents}, &model{answers: []string{`{"reason":"lamp","route":"light"}`}}, "x", "done L(x)k light", 1},
		{"repaired", workflow.RouterOptions{}, &model{answers: []string{`{"route":"sing"}`, `{"route":"drive"}`}}, "x", "done D(x)k drive", 2},
		{"wrong twice", workflow.RouterOptions{Default: echo("E")}, &model{answers: []string{`{"route":"sing"}`}}, "x", "done E(x)k default", 2},
		{"no JSON twice", workflow.RouterOptions{}, &model{answers: []string{`light`}}, "x", "failed no route\nn: the model's answer can't be used: it is not the JSON that was asked for: invalid character 'l' looking for beginning of value ", 2},
		{"model is down", workflow.RouterOptions{}, &model{err: llm.ErrDown}, "x", "failed no route\nn: model server is down ", 1},
		{"nobody decides", workflow.RouterOptions{}, nil, "x", "failed no route ", 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			if x.model != nil {
				x.opt.Lead = workflow.Ask(x.model, "", llm.Sampling{})
			}
			x.opt.History = func(context.Context, agent.Task) []llm.Message {
				return []llm.Message{{Role: llm.User, Text: "before"}}
			}
			r, _ := agent.Run(t.Context(), workflow.NewRouter("n", x.opt, routes...), agent.Task{Input: x.task, Conversation: "k", Origin: "test"})
			check(t, outcomeOf(r)+" "+r.Winner, x.want)
			if x.model == nil {
				return
			}
			if len(x.model.asked) != x.asked {
				t.Fatalf("the model was asked %d times, want %d", len(x.model.asked), x.asked)
			}
			if r.Usage.Calls != x.asked && x.model.err == nil {
				t.Errorf("usage counts %d calls", r.Usage.Calls)
			}
			q := x.model.asked[x.asked-1]
			var s struct {
				Properties struct{ Route struct{ Enum []string } }
			}
			if err := json.Unmarshal(q.Schema, &s); err != nil || fmt.Sprint(s.Properties.Route.Enum) != "[light drive]" {
				t.Errorf("schema %s", q.Schema)
			}
			if q.Messages[1].Text != "before" || x.asked == 2 && !strings.Contains(q.Messages[3].Text, "can't be used") {
				t.Errorf("asked %+v", q.Messages)
			}
		})
	}
}

func TestSupervisorMustDispatch(t *testing.T) {
	workers := []workflow.Route{{Name: "look", Agent: echo("look")}, {Name: "arm", Agent: child("arm", 0, errors.New("stuck"))}}
	run := func(m *model) agent.Result {
		s := workflow.NewSupervisor("boss", workflow.SupervisorOptions{Lead: workflow.Ask(m, "Be brief.", llm.Sampling{}), MaxDispatches: 2}, workers...)
		r, _ := agent.Run(t.Context(), s, agent.Task{Input: "tidy", Origin: "test"})
		return r
	}
	m := &model{answers: []string{`{"worker":"finish","reply":"done already"}`, `{"worker":"look","task":"where"}`, `{"worker":"arm","task":"grasp"}`, `{"worker":"finish","reply":"stuck"}`}}
	r := run(m)
	check(t, outcomeOf(r)+" "+outcome(r), "done stuck done look=done arm=failed")
	check(t, r.Usage.Calls, "4")
	last := m.asked[3].Messages
	check(t, last[len(last)-1].Text, "tidy\n\nDone so far:\nlook was asked: where\nlook answered: \"look(where)\"\narm was asked: grasp\narm did not do it: failed: \"stuck\"\n\nFinish now.")
	if strings.Contains(string(m.asked[0].Schema), "finish") {
		t.Error("the lead may finish before it has dispatched")
	}
	check(t, outcomeOf(run(&model{answers: []string{`{"worker":"finish","reply":"lazy"}`}})),
		`failed boss: the model's answer can't be used: worker "finish" is none of ["look" "arm"]`)
}

func TestOrchestrator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tools := []llm.Tool{{Name: "camera", Doc: "sees"}, {Name: "gripper", Effect: llm.Write}, {Name: "wheels", Effect: llm.Write}}
		var mu sync.Mutex
		var got []string
		o := workflow.OrchestratorOptions{Tools: tools, Synth: echo("S"),
			Worker: func(name string, tools []llm.Tool) agent.Agent {
				return agent.Func(name, func(ctx context.Context, t agent.Task) (agent.Result, error) {
					var names []string
					for _, tool := range tools {
						names = append(names, tool.Name)
					}
					start := time.Now()
					time.Sleep(time.Second)
					mu.Lock()
					defer mu.Unlock()
					got = append(got, fmt.Sprintf("%s%v%d", t.Text(), names, start.Second()))
					if t.Text() == "lift" {
						return agent.Result{}, agent.Declined("too heavy")
					}
					return agent.Result{Reply: t.Text() + "ed"}, nil
				})
			}}
		run := func(answers ...string) (agent.Result, *model) {
			m := &model{answers: answers}
			o.Lead = workflow.Ask(m, "", llm.Sampling{})
			r, _ := agent.Run(t.Context(), workflow.NewOrchestrator("o", o), agent.Task{Input: "tidy", Origin: "test"})
			return r, m
		}
		r, m := run(`{"subtasks":[{"task":"lift","tools":["gripper"]},{"task":"look","tools":["camera"]},{"task":"roll","tools":["wheels"]},{"task":"think","tools":[]}]}`)
		if r.Status != agent.Done || !strings.Contains(r.Reply, "look\n\"looked\"") || !strings.Contains(r.Reply, "lift\nnot done: \"declined: too heavy\"") {
			t.Errorf("got %v %q", r.Status, r.Reply)
		}
		check(t, outcome(r), "done o.1=failed o.2=done o.3=done o.4=done S=done")
		all := strings.Join(got, " ")
		// What writes goes one after the other, in order; the rest at once.
		for _, want := range []string{"lift[gripper]0", "look[camera]0", "think[]0", "roll[wheels]1"} {
			if !strings.Contains(all, want) {
				t.Errorf("no %s in %s", want, all)
			}
		}
		if !strings.Contains(string(m.asked[0].Schema), `"maxItems":4`) {
			t.Errorf("schema %s", m.asked[0].Schema)
		}
		// A tool that is not there is repaired once; no tools are no tools.
		r, m = run(`{"subtasks":[{"task":"fly","tools":["wings"]}]}`, `{"subtasks":[{"task":"think","tools":[]}]}`)
		check(t, fmt.Sprint(outcomeOf(r), len(m.asked)), "done thinked2")
		r, _ = run(`{"subtasks":[]}`)
		check(t, outcomeOf(r), "failed o: the model's answer can't be used: there are 0 subtasks, 1 to 4 are allowed")
	})
}
