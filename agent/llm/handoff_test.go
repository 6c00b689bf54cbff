package llm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"edged/agent"
	"edged/agent/llm"
	"edged/bus/origin"
)

func roles(list []llm.Message) string {
	var out []string
	for _, m := range list {
		s := string(m.Role)[:1] + ":" + m.Text
		if len(m.Calls) > 0 {
			s += "!" + m.Calls[0].Name
		}
		if m.Role == llm.System {
			s = "s"
		}
		out = append(out, s)
	}
	return strings.Join(out, " | ")
}

// Conversation survives routing: the specialist sees the dialogue, the router's
// history stays well-formed.
func TestHandoffCarriesTheDialogue(t *testing.T) {
	var log []string
	lm := says("It is on.", "Also on.")
	lights := build(t, llm.Options{Name: "lights", Role: "switches lamps", Model: lm})
	rm := says("Hello.", []llm.Call{call("handoff_to_lights", `{"reason":"lamps"}`), call("light", `{"room":"hall"}`)}, call("handoff_to_lights", `{}`), "You are welcome.")
	router := build(t, llm.Options{Name: "router", Model: rm, Tools: []llm.Tool{lamp(&log)}, Handoffs: []agent.Agent{lights}})
	ask := func(text string) agent.Result {
		r, err := agent.Run(t.Context(), router, agent.Task{Input: text, Conversation: "c", Origin: "test"})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	ask("hi")
	r := ask("light in the kitchen")
	want(t, r, agent.Done, "It is on.", "")
	if r.By != "lights" || len(r.Receipts) != 1 || r.Usage.Calls != 2 || len(r.Children) != 1 {
		t.Errorf("got %+v", r)
	}
	if len(log) != 1 {
		t.Errorf("the call beside the handoff ran %d times", len(log))
	}
	if got := roles(lm.asked[0].Messages); got != `s | u:hi | a:Hello. | u:light in the kitchen | a:!light | t:{"ok":true,"room":"hall"}` {
		t.Errorf("the specialist saw %s", got)
	}
	ask("and the bedroom?")
	if got := roles(lm.asked[1].Messages); !strings.HasSuffix(got, `| u:light in the kitchen | a:!light | t:{"ok":true,"room":"hall"} | a:It is on. | u:and the bedroom?`) {
		t.Errorf("the specialist saw %s", got)
	}
	ask("thanks")
	if got := roles(rm.asked[3].Messages); !strings.HasSuffix(got, "| a:It is on. | u:and the bedroom? | a:Also on. | u:thanks") {
		t.Errorf("the router saw %s", got)
	}
	if d := rm.asked[0].Tools[1].Doc; d != "Hand the conversation over to lights: switches lamps" {
		t.Errorf("got %s", d)
	}
}

func TestHandoffOutcomes(t *testing.T) {
	ok := agent.Func("ok", func(_ context.Context, t agent.Task) (agent.Result, error) {
		return agent.Result{Reply: "did " + t.Text()}, nil
	})
	no := agent.Func("no", func(context.Context, agent.Task) (agent.Result, error) {
		return agent.Result{}, fmt.Errorf("%w: late", agent.ErrRejected)
	})
	boom := agent.Func("boom", func(context.Context, agent.Task) (agent.Result, error) { panic("x") })
	for _, c := range []struct {
		calls  []llm.Call
		status agent.Status
		reply  string
		reason string
		kids   int
	}{
		{[]llm.Call{call("handoff_to_ok", "")}, agent.Done, "did it", "", 1},
		{[]llm.Call{call("handoff_to_no", "")}, agent.Rejected, "", "late", 1},
		{[]llm.Call{call("handoff_to_boom", "")}, agent.Failed, "", "panic: x", 1},
		{[]llm.Call{call("handoff_to_ok", ""), call("handoff_to_no", "")}, agent.Rejected, "did it", "late", 2},
	} {
		a := build(t, llm.Options{Model: says(c.calls), Handoffs: []agent.Agent{ok, no, boom}})
		r, _ := agent.Run(t.Context(), a, agent.Task{Input: "it", Origin: "test"})
		want(t, r, c.status, c.reply, c.reason)
		if len(r.Children) != c.kids {
			t.Errorf("got %d children", len(r.Children))
		}
	}
}

func TestHandoffFromATool(t *testing.T) {
	mk := func(name string) agent.Agent {
		return agent.Func(name, func(_ context.Context, t agent.Task) (agent.Result, error) {
			return agent.Result{Reply: name + " did " + t.Text()}, nil
		})
	}
	var state map[string]any
	pass := llm.Tool{Name: "pass", Do: func(context.Context, json.RawMessage) (json.RawMessage, error) {
		return nil, &llm.Handoff{Target: mk("a"), State: map[string]any{"goal": "x"}, Parallel: []agent.Agent{mk("b")}}
	}}
	o := llm.Options{Model: says(call("pass", "")), Tools: []llm.Tool{pass}, Update: func(_ context.Context, s map[string]any) error { state = s; return nil }}
	r, _ := agent.Run(t.Context(), build(t, o), agent.Task{Input: "it", Origin: "test"})
	want(t, r, agent.Done, "a did it\nb did it", "")
	if state["goal"] != "x" || len(r.Receipts) != 1 || r.Receipts[0].Err != nil || len(r.Children) != 2 {
		t.Errorf("got state %v, %+v", state, r)
	}
	o.Model, o.Update = says(call("pass", "")), nil
	r, _ = agent.Run(t.Context(), build(t, o), agent.Task{Input: "it", Origin: "test"})
	want(t, r, agent.Failed, "", "nobody takes the state")
}

// again is an agent that hands over to itself.
type again struct{ a *llm.Agent }

func (*again) Name() string { return "again" }
func (l *again) Run(ctx context.Context, t agent.Task) (agent.Result, error) {
	return l.a.Run(ctx, t)
}

func TestDepth(t *testing.T) {
	self := &again{}
	var steps []any
	for range 20 {
		steps = append(steps, call("handoff_to_again", ""))
	}
	m := says(steps...)
	self.a = build(t, llm.Options{Model: m, Handoffs: []agent.Agent{self}})
	r, _ := agent.Run(t.Context(), self, agent.Task{Input: "x", Origin: "test"})
	if r.Status != agent.Failed || len(m.asked) != llm.MaxDepth+1 || !strings.Contains(r.Reason, "handed over more than 8 times") {
		t.Errorf("got %s %s after %d", r.Status, r.Reason, len(m.asked))
	}
}

// Known defect of other systems, B14: an agent used as a tool is watched once
// more at each call, so events double.
func TestAsTool(t *testing.T) {
	ends := 0
	child := build(t, llm.Options{Name: "the cook", Role: "cooks", Model: says("soup", "stew", "bread"), Session: llm.Fresh,
		Hooks: []llm.Hook{{Name: "n", OnRunEnd: func(context.Context, *llm.Step) error { ends++; return nil }}}})
	cook := llm.AsTool(child, "", "")
	if cook.Name != "the_cook" || cook.Doc != "Let the cook do a task: cooks" {
		t.Errorf("got %s %s", cook.Name, cook.Doc)
	}
	m := says(call("the_cook", `{"task":"a"}`), call("the_cook", `{"task":"b"}`), call("the_cook", `{"task":"c"}`), "All cooked.")
	var said []string
	ctx := agent.WithSay(t.Context(), func(s string) { said = append(said, s) })
	r, _ := agent.Run(ctx, build(t, llm.Options{Model: m, Tools: []llm.Tool{cook}}), agent.Task{Input: "x", Conversation: "c", Origin: "test"})
	want(t, r, agent.Done, "All cooked.", "")
	if ends != 3 || string(r.Receipts[2].Result) != `"bread"` || r.Usage.Calls != 7 || len(r.Children) != 3 {
		t.Errorf("%d ends, got %+v", ends, r)
	}
	same(t, said, []string{"All cooked."})
}

// A delegate can do no more than the one who asks it.
func TestDelegatesAreLimited(t *testing.T) {
	for _, c := range []struct {
		origin origin.Label
		allow  func(string) bool
		runs   int
	}{{"cli", nil, 1}, {"mqtt", nil, 0}, {"cli", func(n string) bool { return n != "light" }, 0}} {
		for _, asTool := range []bool{false, true} {
			var log []string
			child := build(t, llm.Options{Name: "child", Model: says(call("light", `{"room":"hall"}`), "Ok."), Tools: []llm.Tool{lamp(&log)}})
			o := llm.Options{Model: says(call("handoff_to_child", "")), Handoffs: []agent.Agent{child}, Allow: c.allow}
			if asTool {
				o = llm.Options{Model: says(call("child", `{"task":"light"}`), "Ok."), Tools: []llm.Tool{llm.AsTool(child, "", "")}, Allow: c.allow}
			}
			r, _ := agent.Run(t.Context(), build(t, o), agent.Task{Input: "x", Origin: c.origin})
			want(t, r, agent.Done, "Ok.", "")
			if len(log) != c.runs {
				t.Errorf("%s, as a tool %v: ran %v, want %d", c.origin, asTool, log, c.runs)
			}
		}
	}
}

// Whoever is handed a conversation that isn't an agent with a model can read it
// too, and pass on another.
func TestDialogueForWorkflows(t *testing.T) {
	var seen string
	m := says("Bye.")
	leaf := build(t, llm.Options{Name: "leaf", Model: m})
	flow := agent.Func("flow", func(ctx context.Context, t agent.Task) (agent.Result, error) {
		seen = roles(llm.Dialogue(ctx))
		return agent.Run(llm.WithDialogue(ctx, []llm.Message{{Role: llm.User, Text: "a"}, {Role: llm.Assistant, Text: "b"}}), leaf, t)
	})
	a := build(t, llm.Options{Model: says("Hello.", call("handoff_to_flow", "")), Handoffs: []agent.Agent{flow}})
	for _, text := range []string{"hi", "go"} {
		if _, err := agent.Run(t.Context(), a, agent.Task{Input: text, Conversation: "c", Origin: "test"}); err != nil {
			t.Fatal(err)
		}
	}
	if got := roles(m.asked[0].Messages); seen != "u:hi | a:Hello." || got != "s | u:a | a:b | u:go" {
		t.Errorf("the workflow saw %s, its leaf %s", seen, got)
	}
	if llm.Dialogue(t.Context()) != nil || llm.Barred(t.Context()) {
		t.Error("what nobody carries is there")
	}
}

// Known defect of other systems, B11: helpers inherit the lead's tools.
func TestSpawn(t *testing.T) {
	var log []string
	m := says(call("light", `{"room":"hall"}`), "No lamp.")
	lead := build(t, llm.Options{Name: "lead", Model: m, Tools: []llm.Tool{lamp(&log)}})
	r, err := llm.Spawn(t.Context(), lead, agent.Task{Input: "x", Origin: "test"}, []llm.Tool{tool("look", nil)})
	if err != nil || r.By != "lead.sub" || len(log) != 0 {
		t.Errorf("got %+v %v, ran %v", r, err, log)
	}
	if got := m.asked[0].Tools; len(got) != 2 || got[0].Name != "look" || got[1].Name != "decline" {
		t.Errorf("got tools %v", got)
	}
}

// Known defect of other systems, B8: voice turns have no memory.
func TestSessionsKeepTheConversation(t *testing.T) {
	m := says("One.", "Two.", "Three.", "Four.")
	a := build(t, llm.Options{Model: m})
	for _, conv := range []string{"voice", "voice", "page", ""} {
		if _, err := agent.Run(t.Context(), a, agent.Task{Input: "hi " + conv, Conversation: conv, Origin: "test"}); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{"s | u:hi voice", "s | u:hi voice | a:One. | u:hi voice", "s | u:hi page", "s | u:hi "} {
		if got := roles(m.asked[i].Messages); got != want {
			t.Errorf("%d: got %s, want %s", i, got, want)
		}
	}
}

// Known defect of other systems, B10: a small budget hangs the turn, or drops
// the user's words.
func TestBudgetKeepsSystemAndWords(t *testing.T) {
	words := strings.Repeat("long words ", 50)
	for _, limit := range []int{1, 100, 1000} {
		var steps []any
		for i := range 30 {
			steps = append(steps, fmt.Sprintf("Answer %d.", i))
		}
		m := says(steps...)
		a := build(t, llm.Options{Model: m, ContextTokens: limit, Hooks: []llm.Hook{llm.Compaction(limit)},
			Sessions: llm.NewSessions(llm.SessionOptions{Tokens: 800})})
		for i := range 30 {
			if _, err := agent.Run(t.Context(), a, agent.Task{Input: fmt.Sprint(i, " ", words), Conversation: "c", Origin: "test"}); err != nil {
				t.Fatal(err)
			}
			q := m.asked[i].Messages
			if q[0].Role != llm.System || !strings.HasPrefix(q[0].Text, "You are part of a robot.") || q[len(q)-1].Text != fmt.Sprint(i, " ", words) {
				t.Fatalf("limit %d: got %s", limit, roles(q))
			}
			for j, msg := range q[1:] {
				if (msg.Role == llm.User) != (j%2 == 0) {
					t.Fatalf("not well-formed: %s", roles(q))
				}
			}
			if limit == 1 && len(q) != 2 {
				t.Fatalf("no room, and still %d messages", len(q))
			}
		}
		if limit == 1000 {
			q := m.asked[29].Messages
			if len(q) < 4 || len(q) > 14 || !strings.HasPrefix(q[1].Notes, "Earlier in this conversation: ") {
				t.Errorf("got %d messages, notes %q", len(q), q[1].Notes)
			}
		}
	}
}

func TestSessionsAreBounded(t *testing.T) {
	s := llm.NewSessions(llm.SessionOptions{Conversations: 3, Tokens: 100, Summarize: func(_ context.Context, before string, gone []llm.Message) (string, error) {
		if before == "" {
			return "", errors.New("no model")
		}
		return fmt.Sprintf("%d gone", len(gone)), nil
	}})
	turn := func(text string) []llm.Message {
		return []llm.Message{{Role: llm.User, Text: text}, {Role: llm.Assistant, Text: "ok"}}
	}
	for i := range 5 {
		if err := s.Add(t.Context(), fmt.Sprint(i), turn("x")); err != nil {
			t.Fatal(err)
		}
	}
	if s.Messages("1") != nil || s.Messages("2") == nil {
		t.Error("want the longest unused conversations gone")
	}
	var trouble []error
	for i := range 40 {
		kept := s.Messages("4")
		before := roles(kept)
		if err := s.Add(t.Context(), "4", turn(fmt.Sprint(i, " some words"))); err != nil {
			trouble = append(trouble, err)
		}
		if roles(kept) != before {
			t.Fatal("a list that was given out changed")
		}
	}
	if len(trouble) != 1 || !strings.Contains(trouble[0].Error(), "no model") {
		t.Errorf("got %v, want one failed summary", trouble)
	}
	if got := s.Messages("4"); len(got) > 20 || !strings.HasSuffix(got[0].Notes, " gone") {
		t.Errorf("got %d messages, notes %q", len(got), got[0].Notes)
	}
	if err := s.Add(t.Context(), "4", turn("x")[:1]); err == nil {
		t.Error("half a turn was taken")
	}
}
