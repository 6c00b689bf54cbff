package society_test

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
	"edged/agent/llm/replay"
	"edged/workflow/society"
)

// cast is one scripted model for all agents of a test: each has a row of
// answers, and the prompts are kept in the order in which they were asked.
type cast struct {
	t     *testing.T
	model *replay.Script

	mu      sync.Mutex
	answers map[string][]any
	asked   []string            // who, in order
	prompts map[string][]string // by who
	schemas map[string][]string
}

func newCast(t *testing.T) *cast {
	c := &cast{t: t, answers: map[string][]any{}, prompts: map[string][]string{}, schemas: map[string][]string{}}
	c.model = replay.NewScript(replay.Answer{Always: true, Do: c.chat})
	return c
}

// slow is an answer that takes its time, and stops when it is told to.
type slow struct {
	d    time.Duration
	then any
}

// deaf is an answer that does not stop when it is told to.
type deaf struct {
	d    time.Duration
	then any
}

func (c *cast) chat(ctx context.Context, r llm.Request) (llm.Message, error) {
	system := r.Messages[0].Text
	name, _, _ := strings.Cut(strings.TrimPrefix(system, "You are "), ".\n")
	name, _, _ = strings.Cut(name, ":")
	all := ""
	for _, m := range r.Messages {
		all += m.Prompt() + "\n"
	}
	c.mu.Lock()
	c.asked = append(c.asked, name)
	c.prompts[name] = append(c.prompts[name], all)
	c.schemas[name] = append(c.schemas[name], string(r.Schema))
	var a any
	if list := c.answers[name]; len(list) > 0 {
		a = list[0]
		if len(list) > 1 {
			c.answers[name] = list[1:]
		}
	}
	c.mu.Unlock()
	for {
		switch x := a.(type) {
		case slow:
			select {
			case <-time.After(x.d):
			case <-ctx.Done():
				return llm.Message{}, ctx.Err()
			}
			a = x.then
			continue
		case deaf:
			time.Sleep(x.d)
			a = x.then
			continue
		case error:
			return llm.Message{}, x
		case func():
			x()
			return llm.Message{}, nil
		case string:
			return llm.Message{Text: x}, nil
		case nil:
			return llm.Message{}, errors.New("nothing to say")
		}
		b, err := json.Marshal(a)
		return llm.Message{Text: string(b)}, err
	}
}

// agent makes an agent of the cast; its last answer is given as often as asked.
func (c *cast) agent(name string, answers ...any) *society.Agent {
	c.answers[name] = answers
	return &society.Agent{Name: name, Role: "role of " + name, Speaker: society.Model(llm.Options{Model: c.model})}
}

func (c *cast) order() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.asked, " ")
}

type m = map[string]any

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func run(t *testing.T, a agent.Agent, task string) agent.Result {
	t.Helper()
	r, _ := agent.Run(t.Context(), a, agent.Task{Input: task, Origin: "test"})
	return r
}

func has(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("%q is not in:\n%s", w, text)
		}
	}
}

func hasNot(t *testing.T, text string, bad ...string) {
	t.Helper()
	for _, w := range bad {
		if strings.Contains(text, w) {
			t.Errorf("%q is in:\n%s", w, text)
		}
	}
}

func review(v, comments string) m { return m{"comments": comments, "verdict": v} }
func draft(s any) m               { return m{"draft": s} }

func TestOversight(t *testing.T) {
	c := newCast(t)
	s := society.New("home", society.Options{})
	coder := c.agent("coder", draft("PATH-1"), draft("PATH-2"))
	boss := c.agent("boss", review("revise", "mind the STAIRS"), review("approve", "good"))
	e := must(s.Connect(coder, boss, &society.Oversight{Criteria: []string{"SAFE"}, Shared: society.Shared{MaxRounds: 3}}))
	r := run(t, e, "to the dock")
	if r.Status != agent.Done || r.Output != "PATH-2" || r.By != "coder" || r.Usage.Calls != 4 {
		t.Fatalf("got %+v", r)
	}
	if c.order() != "coder boss coder boss" {
		t.Errorf("got order %s", c.order())
	}
	has(t, c.prompts["coder"][0], "to the dock", "You are coder: role of coder")
	hasNot(t, c.prompts["coder"][0], "SAFE", "boss", "PATH", "STAIRS")
	has(t, c.prompts["coder"][1], "to the dock", "PATH-1", "STAIRS")
	hasNot(t, c.prompts["coder"][1], "SAFE", "role of boss", "PATH-2")
	has(t, c.prompts["boss"][0], "SAFE", "PATH-1", "Work log of coder", "approve")
	has(t, c.prompts["boss"][1], "PATH-2")
	hasNot(t, c.prompts["boss"][1], "role of coder")
	if i, j := strings.Index(c.schemas["boss"][0], "comments"), strings.Index(c.schemas["boss"][0], `"verdict"`); i < 0 || i > j {
		t.Errorf("reasons stand after the decision: %s", c.schemas["boss"][0])
	}
	turns := s.Log().Turns(r.RunID)
	if len(turns) != 4 || turns[1].Verdict != "revise" || turns[1].Speaker != "boss" || turns[3].Verdict != "approve" || turns[2].Prompt == "" {
		t.Errorf("got turns %+v", turns)
	}
}

func TestDecisionsAreDrawnGreedily(t *testing.T) {
	c := newCast(t)
	s := society.New("home", society.Options{})
	warm := 0.9
	a := c.agent("a", draft("x"))
	a.Speaker = society.Model(llm.Options{Model: c.model, Sampling: llm.Sampling{Temperature: &warm, Think: true}})
	b := c.agent("b", review("approve", ""))
	b.Speaker = a.Speaker
	e := must(s.Connect(a, b, &society.Oversight{Shared: society.Shared{Artifacts: []society.Artifact{{Name: "x", MaxTokens: 50}}}}))
	run(t, e, "go")
	seen := c.model.Seen()
	if *seen[0].Temperature != 0.9 || seen[0].MaxTokens != 82 || *seen[1].Temperature != 0 || seen[1].Seed == nil || seen[1].Think || seen[0].Think {
		t.Errorf("got %+v %+v", seen[0].Sampling, seen[1].Sampling)
	}
}

func TestOversightOutcomes(t *testing.T) {
	bad := errors.New("boom")
	for _, c := range []struct {
		name   string
		coder  []any
		boss   []any
		status agent.Status
		reason string
		output any
		calls  int
	}{
		{"reject is final", []any{draft("d")}, []any{review("reject", "no")}, agent.Rejected, "no", "d", 2},
		{"deadlock", []any{draft("1"), draft("2")}, []any{review("revise", "more")}, agent.Deadlock, "deadlock", "2", 4},
		{"worker repaired", []any{"prose", draft("d")}, []any{review("approve", "")}, agent.Done, "", "d", 3},
		{"worker malformed", []any{"prose"}, nil, agent.Failed, "coder: invalid", nil, 2},
		{"worker empty", []any{""}, nil, agent.Failed, "coder: invalid: it is empty", nil, 2},
		{"worker cut off", []any{llm.ErrCutOff}, nil, agent.Failed, "cut off", nil, 2},
		{"worker crash", []any{bad}, nil, agent.Failed, "coder: failed: boom", nil, 1},
		{"reviewer repaired", []any{draft("d")}, []any{"approve", review("approve", "")}, agent.Done, "", "d", 3},
		{"reviewer malformed", []any{draft("d")}, []any{"I approve!"}, agent.Deadlock, "deadlock", "d", 6},
		{"reviewer empty", []any{draft("d")}, []any{""}, agent.Deadlock, "deadlock", "d", 6},
		{"reviewer cut off", []any{draft("d")}, []any{llm.ErrCutOff}, agent.Deadlock, "deadlock", "d", 6},
		{"reviewer says more", []any{draft("d")}, []any{m{"comments": "", "verdict": "maybe"}}, agent.Deadlock, "deadlock", "d", 6},
		{"reviewer crash", []any{draft("d")}, []any{bad}, agent.Failed, "boss: failed: boom", "d", 2},
		{"reviewer panics", []any{draft("d")}, []any{func() { panic("ouch") }}, agent.Failed, "boss: failed: panic: ouch", "d", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newCast(t)
			s := society.New("home", society.Options{})
			e := must(s.Connect(k.agent("coder", c.coder...), k.agent("boss", c.boss...), &society.Oversight{Shared: society.Shared{MaxRounds: 2}}))
			r := run(t, e, "go")
			if r.Status != c.status || !strings.Contains(r.Reason, c.reason) || r.Output != c.output || len(k.asked) != c.calls || r.Usage.Calls != c.calls && c.name != "reviewer panics" {
				t.Errorf("got %s %q output %v, %d calls, usage %d", r.Status, r.Reason, r.Output, len(k.asked), r.Usage.Calls)
			}
		})
	}
}

func TestDelegation(t *testing.T) {
	c := newCast(t)
	s := society.New("home", society.Options{})
	pm := c.agent("pm", review("reject", "add the DATE"), review("accept", "fine"))
	dev := c.agent("dev", m{"draft": "SECRET-1", "progress": "half way"}, m{"draft": "SECRET-2"})
	e := must(s.Connect(pm, dev, &society.Delegation{Instructions: "be BRIEF"}))
	r := run(t, e, "write a note")
	if r.Status != agent.Done || r.Output != "SECRET-2" || c.order() != "dev pm dev pm" {
		t.Fatalf("got %+v, order %s", r, c.order())
	}
	has(t, c.prompts["dev"][0], "write a note", "BRIEF")
	has(t, c.prompts["dev"][1], "DATE", "SECRET-1")
	has(t, c.prompts["pm"][0], "write a note", "round 1 of 8", "half way")
	hasNot(t, strings.Join(c.prompts["pm"], ""), "SECRET", "Work log")

	quick := must(s.Connect(dev, c.agent("hand", draft("done")), &society.Delegation{NoReview: true}))
	if r := run(t, quick, "go"); r.Status != agent.Done || r.Output != "done" || r.Usage.Calls != 1 {
		t.Errorf("got %+v", r)
	}
}

func TestEscalation(t *testing.T) {
	for _, c := range []struct {
		name   string
		opt    society.Options
		edge   society.Oversight
		up     bool // somebody delegates to the coder
		lead   []any
		status agent.Status
		reason string
		by     string
		calls  int
	}{
		{"explicit", society.Options{}, society.Oversight{OnDeadlock: &society.Escalate{To: "lead"}}, true, []any{review("approve", "ok")}, agent.Done, "deadlock: decided by lead", "coder", 3},
		{"upstream", society.Options{EscalateTo: "nobody else"}, society.Oversight{}, true, nil, agent.Rejected, "deadlock: decided by pm", "pm", 3},
		{"society's", society.Options{EscalateTo: "lead"}, society.Oversight{}, false, []any{review("reject", "no")}, agent.Rejected, "deadlock: decided by lead", "lead", 3},
		{"nobody", society.Options{}, society.Oversight{}, false, nil, agent.Deadlock, "deadlock", "", 2},
		{"mute", society.Options{EscalateTo: "lead"}, society.Oversight{}, false, []any{errors.New("dead")}, agent.Escalated, "no_answer: deadlock; lead: failed: dead", "lead", 3},
		{"evasive", society.Options{EscalateTo: "lead"}, society.Oversight{}, false, []any{review("revise", "again")}, agent.Escalated, "no_answer: deadlock; lead: invalid: verdict must be one of approve, reject", "lead", 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newCast(t)
			s := society.New("home", c.opt)
			coder := k.agent("coder", draft("LAST"))
			c.edge.MaxRounds = 1
			e := must(s.Connect(coder, k.agent("boss", review("revise", "COMMENT")), &c.edge))
			if c.up {
				must(s.Connect(k.agent("pm", review("reject", "")), coder, &society.Delegation{}))
			}
			if err := s.Add(k.agent("lead", c.lead...), k.agent("nobody else")); err != nil {
				t.Fatal(err)
			}
			r := run(t, e, "TASK")
			if r.Status != c.status || r.Reason != c.reason || c.by != "" && r.By != c.by || len(k.asked) != c.calls || r.Output != "LAST" {
				t.Errorf("got %s %q by %s output %v, %d calls", r.Status, r.Reason, r.By, r.Output, len(k.asked))
			}
			if p := k.prompts["lead"]; len(p) > 0 {
				has(t, p[0], "TASK", "LAST", "COMMENT", "deadlock")
				hasNot(t, k.schemas["lead"][0], "revise")
			}
		})
	}
}

func TestUnknownTarget(t *testing.T) {
	c := newCast(t)
	s := society.New("home", society.Options{})
	e := must(s.Connect(c.agent("a", draft("x")), c.agent("b"), &society.Oversight{OnDeadlock: &society.Escalate{To: "led"}}))
	problems := s.Check(0)
	if len(problems) != 1 || problems[0].Warning || !strings.Contains(problems[0].Text, `"led", whom nobody knows; there are a, b`) {
		t.Errorf("got %v", problems)
	}
	if r := run(t, e, "go"); r.Status != agent.Failed || len(c.asked) != 0 {
		t.Errorf("got %s, %d calls; want failed and none", r.Status, len(c.asked))
	}
}

// TestTimeouts: each policy for a late worker and for a late reviewer.
func TestTimeouts(t *testing.T) {
	late := slow{time.Minute, draft("never")}
	lateBoss := slow{time.Minute, review("approve", "")}
	for _, c := range []struct {
		name    string
		policy  society.OnTimeout
		coder   []any
		boss    []any
		target  bool
		status  agent.Status
		reason  string
		order   string
		elapsed time.Duration
	}{
		{"terminate worker", society.Terminate, []any{late}, nil, false, agent.Timeout, "somebody did not answer in time: coder", "coder", 10 * time.Second},
		{"terminate reviewer", society.Terminate, []any{draft("d")}, []any{lateBoss}, false, agent.Timeout, "somebody did not answer in time: boss", "coder boss", 10 * time.Second},
		{"retry worker in vain", society.RetryOnce, []any{late}, nil, false, agent.Timeout, "somebody did not answer in time: coder", "coder coder", 20 * time.Second},
		{"retry worker", society.RetryOnce, []any{late, draft("d")}, []any{review("approve", "")}, false, agent.Done, "", "coder coder boss", 10 * time.Second},
		{"retry reviewer keeps the draft", society.RetryOnce, []any{draft("d")}, []any{lateBoss, review("approve", "")}, false, agent.Done, "", "coder boss boss", 10 * time.Second},
		{"escalate worker", society.EscalateTimeout, []any{late}, nil, true, agent.Done, "timeout: somebody did not answer in time: coder: decided by lead", "coder lead", 10 * time.Second},
		{"escalate reviewer", "", []any{draft("d")}, []any{lateBoss}, true, agent.Done, "timeout: somebody did not answer in time: boss: decided by lead", "coder boss lead", 10 * time.Second},
		{"escalate to nobody", "", []any{draft("d")}, []any{lateBoss}, false, agent.Timeout, "timeout: somebody did not answer in time: boss", "coder boss", 10 * time.Second},
		{"deaf worker is not retried", society.RetryOnce, []any{deaf{time.Minute, draft("x")}}, nil, false, agent.Timeout, "somebody did not answer in time: coder", "coder", 10*time.Second + 200*time.Millisecond},
		{"a late answer is void", society.Terminate, []any{deaf{10*time.Second + 100*time.Millisecond, draft("x")}}, nil, false, agent.Timeout, "somebody did not answer in time: coder", "coder", 10*time.Second + 100*time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newCast(t)
				o := society.Options{}
				if c.target {
					o.EscalateTo = "lead"
				}
				s := society.New("home", o)
				e := must(s.Connect(k.agent("coder", c.coder...), k.agent("boss", c.boss...),
					&society.Oversight{Shared: society.Shared{MaxRounds: 2, Timeout: 10 * time.Second, OnTimeout: c.policy}}))
				if err := s.Add(k.agent("lead", m{"comments": "", "verdict": "approve"})); err != nil {
					t.Fatal(err)
				}
				if c.name == "escalate worker" {
					k.answers["lead"] = []any{draft("by lead")}
				}
				start := time.Now()
				r := run(t, e, "go")
				if r.Status != c.status || r.Reason != c.reason || k.order() != c.order || time.Since(start) != c.elapsed {
					t.Errorf("got %s %q, order %q, after %v", r.Status, r.Reason, k.order(), time.Since(start))
				}
				time.Sleep(time.Hour) // who was left behind ends
			})
		})
	}
}

func TestStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCast(t)
		s := society.New("home", society.Options{})
		refuse := &society.Agent{Name: "shy", Speaker: society.Func(func(context.Context, society.Prompt) (any, error) { return nil, nil })}
		late := &society.Agent{Name: "late", Speaker: society.Func(func(context.Context, society.Prompt) (any, error) {
			time.Sleep(1100 * time.Millisecond)
			return "y", nil
		})}
		e := must(s.Compete([]*society.Agent{k.agent("ok", draft("x")), k.agent("malformed", "?"), k.agent("mute", slow{time.Hour, nil}),
			late, refuse, k.agent("crash", errors.New("x"))},
			&society.Competition{Resolve: society.MajorityVote{Tie: society.TieFirst, Voters: []*society.Agent{k.agent("v", m{"because": "", "winner": "A"})}},
				Quorum: 1, Shared: society.Shared{Timeout: time.Second, OnTimeout: society.Terminate}}))
		r := run(t, e, "go")
		if r.Status != agent.Done || r.Winner != "ok" {
			t.Fatalf("got %+v", r)
		}
		got := ""
		for _, turn := range s.Log().Turns(r.RunID) {
			got += turn.Speaker + ":" + string(turn.State) + " "
		}
		if want := "ok:ok malformed:invalid mute:timeout late:late shy:refused crash:failed v:ok "; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

func TestStoppedFromOutside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCast(t)
		s := society.New("home", society.Options{})
		e := must(s.Connect(k.agent("a", deaf{time.Hour, draft("x")}), k.agent("b"), &society.Oversight{}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		r, err := agent.Run(ctx, e, agent.Task{Input: "go", Origin: "test"})
		if r.Status != agent.Timeout || !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 1050*time.Millisecond {
			t.Errorf("got %s after %v: %v", r.Status, time.Since(start), err)
		}
		time.Sleep(time.Hour)
	})
}

func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCast(t)
		s := society.New("home", society.Options{})
		e := must(s.Connect(k.agent("a", slow{4 * time.Second, draft("x")}), k.agent("b", slow{4 * time.Second, review("revise", "")}),
			&society.Oversight{Shared: society.Shared{Deadline: 10 * time.Second}}))
		start := time.Now()
		r := run(t, e, "go")
		if r.Status != agent.Timeout || r.Reason != "deadline" || r.Output != "x" || time.Since(start) != 10*time.Second {
			t.Errorf("got %s %q %v after %v", r.Status, r.Reason, r.Output, time.Since(start))
		}
	})
}

func TestRevoked(t *testing.T) {
	for who, want := range map[string]agent.Status{"coder": agent.Failed, "boss": agent.Failed} {
		k := newCast(t)
		s := society.New("home", society.Options{})
		e := must(s.Connect(k.agent("coder", draft("d")), k.agent("boss", review("approve", "")), &society.Oversight{}))
		s.Revoke(who)
		if r := run(t, e, "go"); r.Status != want || !strings.Contains(r.Reason, who+": revoked") {
			t.Errorf("%s: got %s %q", who, r.Status, r.Reason)
		}
		s.Restore(who)
		if r := run(t, e, "go"); r.Status != agent.Done {
			t.Errorf("restored %s: got %s %q", who, r.Status, r.Reason)
		}
	}
	synctest.Test(t, func(t *testing.T) { // in the middle of a turn
		k := newCast(t)
		s := society.New("home", society.Options{})
		e := must(s.Connect(k.agent("coder", slow{time.Hour, nil}), k.agent("boss"), &society.Oversight{}))
		time.AfterFunc(time.Second, func() { s.Revoke("coder") })
		start := time.Now()
		if r := run(t, e, "go"); r.Status != agent.Failed || time.Since(start) != time.Second {
			t.Errorf("got %s %q after %v", r.Status, r.Reason, time.Since(start))
		}
	})
}

func ExampleSociety() {
	answer := func(v any) society.Speaker {
		return society.Func(func(context.Context, society.Prompt) (any, error) { return v, nil })
	}
	s := society.New("home", society.Options{})
	coder := &society.Agent{Name: "coder", Speaker: answer("by the hall")}
	checker := &society.Agent{Name: "checker", Speaker: answer("approve")}
	edge, err := s.Connect(coder, checker, &society.Oversight{})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, _ := agent.Run(context.Background(), edge, agent.Task{Input: "a way to the dock", Origin: "test"})
	fmt.Println(r.Status, r.Reply)
	// Output: done by the hall
}
