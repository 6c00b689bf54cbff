package llm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"edged/agent"
	"edged/agent/llm"
)

// dialogueProblem says what is wrong with a dialogue, as a strict server would.
func dialogueProblem(list []llm.Message) string {
	open := map[string]bool{}
	last := llm.Role("")
	for i, m := range list {
		switch {
		case m.Role == llm.System && i > 0:
			return "a second system text"
		case m.Role == llm.User && (last == llm.User || len(open) > 0):
			return fmt.Sprintf("%d: the user speaks twice, or before results are there", i)
		case m.Role == llm.Assistant && (last == llm.Assistant || len(open) > 0 || i == 0):
			return fmt.Sprintf("%d: two answers in a row, or results missing", i)
		case m.Role == llm.ToolRole && !open[m.CallID]:
			return fmt.Sprintf("%d: a result without a call", i)
		case m.Thinking != "":
			return "thoughts"
		}
		delete(open, m.CallID)
		for _, c := range m.Calls {
			if c.ID == "" || open[c.ID] {
				return "two calls with one id"
			}
			open[c.ID] = true
		}
		last = m.Role
	}
	return ""
}

// TestAnyModel: whatever a model says, a run ends soon with a typed outcome,
// receipts are what really ran, and every dialogue is well-formed.
func TestAnyModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		calls := rapid.Custom(func(t *rapid.T) llm.Call {
			return call(rapid.SampledFrom([]string{"light", "fail", "panic", "web", "child", "decline", "handoff_to_child", "pass", "nothing", ""}).Draw(t, "name"),
				rapid.SampledFrom([]string{"", "{}", `{"room":"hall"}`, `{"room":"kitchen","level":"7"}`, `{"task":"x"}`, "[", `"x"`, `{"room":1}`}).Draw(t, "args"))
		})
		steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) any {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				return rapid.SampledFrom([]any{llm.ErrNoDone, llm.ErrDown, llm.ErrNoMatch, llm.ErrEmpty, errors.New("odd"), context.Canceled}).Draw(t, "err")
			case 1:
				return rapid.SampledFrom([]string{"", "Fine. Done.", `{"name":"light","arguments":{}}`, "<think>x", "light(room)"}).Draw(t, "text")
			case 2:
				return llm.Message{Text: "Let me see.", Thinking: "hm", Calls: rapid.SliceOfN(calls, 1, 3).Draw(t, "calls")}
			}
			return rapid.SliceOfN(calls, 1, 4).Draw(t, "calls")
		}), 12, 12).Draw(t, "steps")
		ran := 0
		tools := []llm.Tool{tool("fail", func(context.Context) (string, error) { ran++; return "", errors.New("jam") }),
			tool("panic", func(context.Context) (string, error) { ran++; panic("x") }),
			tool("web", func(context.Context) (string, error) { ran++; return "evil", nil })}
		tools[2].Origin = "mcp:web"
		var lamps []string
		m, cm := says(steps...), says("Child. Here.", errors.New("down"), call("decline", ""), "Again.")
		child := build(t, llm.Options{Name: "child", Model: cm})
		pass := llm.Tool{Name: "pass", Do: func(context.Context, json.RawMessage) (json.RawMessage, error) {
			ran++
			return nil, &llm.Handoff{Target: child}
		}}
		ends := 0
		a := build(t, llm.Options{Model: m, Tools: append(tools, lamp(&lamps), pass, llm.AsTool(child, "", "")), Handoffs: []agent.Agent{child},
			ToolChoice: rapid.SampledFrom([]llm.ToolChoice{"", llm.CallFirst, llm.CallAlways}).Draw(t, "choice"),
			Hooks:      []llm.Hook{{OnRunEnd: func(context.Context, *llm.Step) error { ends++; return nil }}}})
		for i := range 2 {
			ran, lamps = 0, nil
			before := len(m.asked)
			r, err := agent.Run(context.Background(), a, agent.Task{Input: fmt.Sprint("words ", i), Conversation: "c", Origin: "test"})
			if (err == nil) != r.OK() || r.Status == "" || !r.OK() && r.Reason == "" {
				t.Fatalf("got %+v, %v", r, err)
			}
			own := 0
			for _, rec := range r.Receipts {
				if rec.Tool != "child" {
					own++
				}
			}
			if own != ran+len(lamps) {
				t.Fatalf("%d receipts, %d runs", own, ran+len(lamps))
			}
			if n := len(m.asked) - before; n > 4+3+5 {
				t.Fatalf("%d requests in one run", n)
			}
			if ends != i+1 {
				t.Fatalf("the end was told %d times", ends)
			}
		}
		for _, q := range append(m.asked, cm.asked...) {
			if p := dialogueProblem(q.Messages); p != "" {
				t.Fatalf("%s: %s", p, roles(q.Messages))
			}
		}
		if p := dialogueProblem(a.Sessions().Messages("c")); p != "" {
			t.Fatalf("%s: %s", p, roles(a.Sessions().Messages("c")))
		}
	})
}

func TestManyAtOnce(t *testing.T) {
	var mu sync.Mutex
	n := 0
	quick := tool("quick", func(context.Context) (string, error) { mu.Lock(); n++; mu.Unlock(); return "x", nil })
	quick.Parallel = true
	slow := quick
	slow.Name = "slow"
	answers := func(r llm.Request) any {
		if r.Messages[len(r.Messages)-1].Role == llm.ToolRole {
			return "Done."
		}
		return []llm.Call{call("quick", ""), call("slow", "")}
	}
	m := says()
	for range 400 {
		m.steps = append(m.steps, answers)
	}
	a := build(t, llm.Options{Model: m, Tools: []llm.Tool{quick, slow}, Together: func(fs []func()) {
		var wg sync.WaitGroup
		for _, f := range fs {
			wg.Go(f)
		}
		wg.Wait()
	}})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 20 {
				r, err := agent.Run(t.Context(), a, agent.Task{Input: "x", Conversation: fmt.Sprint(i % 2), Origin: "test"})
				if err != nil || len(r.Receipts) != 2 || r.Receipts[0].Tool != "quick" {
					t.Errorf("got %+v %v", r, err)
				}
			}
		})
	}
	wg.Wait()
	if n != 320 {
		t.Errorf("%d runs of tools, want 320", n)
	}
	for _, q := range m.asked {
		if p := dialogueProblem(q.Messages); p != "" {
			t.Fatalf("%s: %s", p, roles(q.Messages))
		}
	}
}
