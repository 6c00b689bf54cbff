package llm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"edged/agent"
	"edged/agent/llm"
	"edged/agent/llm/schema"
)

// note is a hook that writes down where it was called.
func note(log *[]string, name string, priority int) llm.Hook {
	at := func(_ context.Context, s *llm.Step) error {
		*log = append(*log, fmt.Sprint(name, " ", s.Point))
		return nil
	}
	return llm.Hook{Name: name, Priority: priority, OnRunStart: at, BeforeModel: at, AfterModel: at, BeforeTool: at, AfterTool: at, OnRunEnd: at}
}

func TestHookOrder(t *testing.T) {
	var log, lamps []string
	only := func(h llm.Hook) llm.Hook {
		return llm.Hook{Name: h.Name, Priority: h.Priority, OnRunStart: h.OnRunStart}
	}
	a := build(t, llm.Options{Model: says(call("light", `{"room":"hall"}`), "Ok."), Tools: []llm.Tool{lamp(&lamps)},
		Hooks: []llm.Hook{note(&log, "a", 0), only(note(&log, "b", 7)), only(note(&log, "c", 7))}})
	ctx := llm.WithHooks(t.Context(), only(note(&log, "low", 1)))
	ctx = llm.WithHooks(ctx, only(note(&log, "run", 99)))
	if _, err := agent.Run(ctx, a, agent.Task{Input: "x", Origin: "test"}); err != nil {
		t.Fatal(err)
	}
	same(t, log, []string{"b on_run_start", "c on_run_start", "a on_run_start", "run on_run_start", "low on_run_start",
		"a before_model", "a after_model", "a before_tool", "a after_tool", "a before_model", "a after_model", "a on_run_end"})
}

// Every point may end a run, and a failing hook is skipped unless it guards.
func TestHooksEndAndFail(t *testing.T) {
	set := func(p llm.Point, f func(context.Context, *llm.Step) error, safety bool) llm.Hook {
		h := llm.Hook{Name: "h", Safety: safety}
		switch p {
		case llm.OnRunStart:
			h.OnRunStart = f
		case llm.BeforeModel:
			h.BeforeModel = f
		case llm.AfterModel:
			h.AfterModel = f
		case llm.BeforeTool:
			h.BeforeTool = f
		case llm.AfterTool:
			h.AfterTool = f
		case llm.OnRunEnd:
			h.OnRunEnd = f
		}
		return h
	}
	for p := llm.OnRunStart; p <= llm.OnRunEnd; p++ {
		for _, c := range []struct {
			name   string
			f      func(context.Context, *llm.Step) error
			safety bool
			status agent.Status
			reply  string
			report bool
		}{
			{"end", func(context.Context, *llm.Step) error { return &llm.End{Reply: "enough"} }, false, agent.Done, "enough", false},
			{"end with outcome", func(context.Context, *llm.Step) error {
				return &llm.End{Reply: "no", Err: fmt.Errorf("%w: rule 1", agent.ErrEscalated)}
			}, false, agent.Escalated, "no", false},
			{"fails", func(_ context.Context, s *llm.Step) error {
				s.Answer.Text, s.Final.Reply, s.Task.Input, s.Result, s.Err = "spoilt", "spoilt", "spoilt", json.RawMessage(`1`), errors.New("spoilt")
				return errors.New("broken")
			}, false, agent.Done, "Ok.", true},
			{"panics", func(context.Context, *llm.Step) error { panic("broken") }, false, agent.Done, "Ok.", true},
			{"guard fails", func(context.Context, *llm.Step) error { return errors.New("broken") }, true, agent.Blocked, "", false},
			{"guard panics", func(context.Context, *llm.Step) error { panic("broken") }, true, agent.Blocked, "", false},
		} {
			t.Run(p.String()+" "+c.name, func(t *testing.T) {
				var lamps, ends []string
				var reported error
				a := build(t, llm.Options{Model: says(call("light", `{"room":"hall"}`), "Ok."), Tools: []llm.Tool{lamp(&lamps)},
					Hooks:  []llm.Hook{set(p, c.f, c.safety), {Name: "last", Priority: -1, OnRunEnd: func(_ context.Context, s *llm.Step) error { ends = append(ends, s.Final.Reply); return nil }}},
					Report: func(_ context.Context, err error) { reported = err }})
				r, _ := agent.Run(t.Context(), a, agent.Task{Input: "x", Origin: "test"})
				if r.Status != c.status || r.Reply != c.reply || (reported != nil) != c.report {
					t.Errorf("got %s %q, reported %v", r.Status, r.Reply, reported)
				}
				if early := p < llm.AfterTool && !c.report; early != (len(lamps) == 0) {
					t.Errorf("the tool ran %d times", len(lamps))
				}
				// Known defect of other systems, B17: what observers are told of
				// the end is not what came out.
				same(t, ends, []string{c.reply})
			})
		}
	}
}

func TestHooksReplace(t *testing.T) {
	var lamps []string
	m := says(call("light", `{"room":"hall"}`), "Ok.")
	a := build(t, llm.Options{Model: m, Tools: []llm.Tool{lamp(&lamps)}, Hooks: []llm.Hook{{
		OnRunStart:  func(_ context.Context, s *llm.Step) error { s.Task.Input = "better words"; return nil },
		BeforeModel: func(_ context.Context, s *llm.Step) error { s.Request.MaxTokens = 9; return nil },
		AfterModel:  func(_ context.Context, s *llm.Step) error { s.Answer.Text = strings.ToUpper(s.Answer.Text); return nil },
		BeforeTool: func(_ context.Context, s *llm.Step) error {
			s.Call.Args = json.RawMessage(`{"room":"kitchen","level":"4"}`)
			return nil
		},
		AfterTool: func(_ context.Context, s *llm.Step) error { s.Result = json.RawMessage(`"lit"`); return nil },
		OnRunEnd:  func(_ context.Context, s *llm.Step) error { s.Final.Reply += " Sir."; return nil },
	}}})
	r, _ := agent.Run(t.Context(), a, agent.Task{Input: "x", Conversation: "c", Origin: "test"})
	want(t, r, agent.Done, "OK. Sir.", "")
	same(t, lamps, []string{`light{"level":4,"room":"kitchen"}`})
	if q := m.asked[1]; q.MaxTokens != 9 || q.Messages[1].Text != "better words" || q.Messages[3].Text != "lit" {
		t.Errorf("got %+v", q)
	}
	if got := roles(a.Sessions().Messages("c")); got != "u:better words | a:!light | t:lit | a:OK. Sir." {
		t.Errorf("remembered %s", got)
	}
}

func TestGuardrails(t *testing.T) {
	for _, c := range []struct {
		hook   llm.Hook
		task   string
		answer string
		status agent.Status
		reply  string
		reason string
	}{
		{inputNoneOf("I can't help with that.", "arm"), "raise the ARM!", "Ok.", agent.Blocked, "I can't help with that.", `"arm" is not for this agent`},
		{inputNoneOf("no", "arm", "burn down"), "set the alarm", "Ok.", agent.Done, "Ok.", ""},
		{inputNoneOf("no", "burn down"), "burn, down", "Ok.", agent.Blocked, "no", "burn down"},
		{llm.OutputGuardrail("Let's talk of something else.", llm.NoneOf("stupid")), "x", "You are stupid.", agent.Blocked, "Let's talk of something else.", "stupid"},
		{llm.MaxLength(12), "x", "One two. Three four five. Six.", agent.Done, "One two.", ""},
		{llm.MaxLength(9), "x", "abcdefghijklmnop", agent.Done, "abcdef…", ""},
		{llm.NoPersonalData(), "x", "Mail a.b@c.example.org or call +49 170 1234567, 555-123-4567; card 4111 1111 1111 1111, DE89 3704 0044 0532 0130 00.", agent.Done,
			"Mail (removed) or call (removed), (removed); card (removed), (removed).", ""},
		{llm.NoPersonalData(), "x", "On 2026-11-21 at 12:30 it was 21.5 degrees, 1000 m away.", agent.Done, "On 2026-11-21 at 12:30 it was 21.5 degrees, 1000 m away.", ""},
		{llm.SchemaCheck(&schema.Schema{Kind: schema.Boolean}), "x", " true ", agent.Done, "true", ""},
		{llm.SchemaCheck(&schema.Schema{Kind: schema.Boolean}), "x", "maybe", agent.Failed, "", "does not fit the schema"},
	} {
		var said []string
		ctx := agent.WithSay(t.Context(), func(s string) { said = append(said, s) })
		r, _ := agent.Run(ctx, build(t, llm.Options{Model: says(c.answer), Hooks: []llm.Hook{c.hook}}), agent.Task{Input: c.task, Origin: "test"})
		want(t, r, c.status, c.reply, c.reason)
		if got := strings.Join(said, " "); got != c.reply {
			t.Errorf("said %q, want what the guard left: %q", got, c.reply)
		}
	}
}

func TestPlanMode(t *testing.T) {
	var lamps, asked []string
	m := says(call("light", `{"room":"hall"}`), "Then not.")
	a := build(t, llm.Options{Model: m, Tools: []llm.Tool{lamp(&lamps)}, Hooks: []llm.Hook{llm.PlanMode(func(_ context.Context, tool llm.Tool, args json.RawMessage) error {
		asked = append(asked, tool.Name+string(args))
		return errors.New("not at night")
	})}})
	r, _ := agent.Run(t.Context(), a, agent.Task{Input: "x", Origin: "test"})
	want(t, r, agent.Done, "Then not.", "")
	same(t, asked, []string{`light{"level":100,"room":"hall"}`})
	if got := m.asked[1].Messages[3].Text; len(lamps) > 0 || got != "error: not approved: not at night" {
		t.Errorf("ran %v, told %s", lamps, got)
	}
}

func TestBudgets(t *testing.T) {
	big := tool("big", func(context.Context) (string, error) { return strings.Repeat("é", 3000), nil })
	m := says(call("big", ""), "Ok.")
	r, _ := agent.Run(t.Context(), build(t, llm.Options{Model: m, Tools: []llm.Tool{big}}), agent.Task{Input: "x", Origin: "test"})
	if got := m.asked[1].Messages[3].Text; len(got) > 2100 || !strings.HasSuffix(got, "(cut; 6000 bytes in all)") || len(r.Receipts[0].Result) < 6000 {
		t.Errorf("got %d bytes: …%s", len(got), got[len(got)-30:])
	}
	m = says(call("big", ""), "Ok.")
	r, _ = agent.Run(t.Context(), build(t, llm.Options{Model: m, Tools: []llm.Tool{big}, Hooks: []llm.Hook{llm.TokenBudget(300)}}), agent.Task{Input: "x", Origin: "test"})
	want(t, r, agent.Failed, "", "token_budget")
	n := 0
	bad := llm.Tool{Name: "bad", Params: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`),
		Do: func(context.Context, json.RawMessage) (json.RawMessage, error) { n++; return nil, errors.New("jam") }}
	m = says(call("bad", `{"n":1}`), call("bad", `{"n":2}`), "It jams.")
	if _, err := agent.Run(t.Context(), build(t, llm.Options{Model: m, Tools: []llm.Tool{bad}}), agent.Task{Input: "x", Origin: "test"}); err != nil || n != 2 {
		t.Fatal(err, n)
	}
	if got := m.asked[2].Messages[5].Text; got != "error: jam. bad failed 2 times: don't call it again, try another tool or say what is wrong" {
		t.Errorf("got %s", got)
	}
}

func TestMemoryIsToldBesideTheWords(t *testing.T) {
	m := says("Hello Ann.")
	var reported error
	a := build(t, llm.Options{Model: m,
		Memory: func(context.Context, agent.Task) (string, error) { return "The user is Ann.", nil },
		Hooks: []llm.Hook{llm.MemoryInjection(func(context.Context, agent.Task) (string, error) { return "It is raining.", nil }),
			llm.MemoryInjection(func(context.Context, agent.Task) (string, error) { return "", errors.New("disk") })},
		Report: func(_ context.Context, err error) { reported = err }})
	if _, err := agent.Run(t.Context(), a, agent.Task{Input: "hi", Conversation: "c", Origin: "test"}); err != nil {
		t.Fatal(err)
	}
	if got := m.asked[0].Messages[1]; got.Text != "hi" || got.Prompt() != "It is raining.\nThe user is Ann.\n\nhi" || reported == nil {
		t.Errorf("got %+v, %v", got, reported)
	}
	if got := a.Sessions().Messages("c")[0]; got.Notes != "" {
		t.Errorf("remembered notes %q", got.Notes)
	}
}

func TestEpisodesAndTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e llm.Episode
		var times llm.Timings
		slow := tool("slow", func(context.Context) (string, error) { time.Sleep(3 * time.Second); return "", nil })
		a := build(t, llm.Options{Model: says(func(llm.Request) any { time.Sleep(time.Second); return call("slow", "") }, errors.New("down")), Tools: []llm.Tool{slow},
			Hooks: []llm.Hook{llm.EpisodeLog(func(_ context.Context, x llm.Episode) error { e = x; return nil }),
				llm.Timing(func(_ context.Context, _ string, x llm.Timings) { times = x })}})
		_, _ = agent.Run(t.Context(), a, agent.Task{Input: "go", Origin: "cli"})
		if got := fmt.Sprintf("%+v", e); got != "{Agent:butler Task:go Origin:cli Status:failed Reply: Reason:down Tools:[slow] Took:4s}" {
			t.Errorf("got %s", got)
		}
		if times != (llm.Timings{Total: 4 * time.Second, Model: time.Second, Tools: 3 * time.Second}) {
			t.Errorf("got %+v", times)
		}
	})
}

// TestAudit: a call is written down before it is run and after, or it isn't run.
func TestAudit(t *testing.T) {
	var lamps []string
	var file synced
	run := func(audit *llm.Audit) agent.Result {
		m := says(call("light", `{"room":"hall"}`), call("light", `{"room":"<cellar>"}`), call("no\xffne", `{`), "Ok.")
		tool := lamp(&lamps)
		do := tool.Do
		tool.Do = func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
			if file.dirty || !strings.Contains(file.last(), `"phase":"intent"`) {
				t.Errorf("it is run before it is on disk: %s", file.last())
			}
			return do(ctx, args)
		}
		a := build(t, llm.Options{Model: m, Tools: []llm.Tool{tool}, Audit: audit})
		r, _ := agent.Run(t.Context(), a, agent.Task{Input: "x", Origin: "cli"})
		return r
	}
	want(t, run(llm.NewAudit(&file, nil)), agent.Done, "Ok.", "")
	var story []string
	last, err := llm.VerifyAudit(strings.NewReader(file.String()), func(e llm.AuditEntry) {
		story = append(story, fmt.Sprintf("%d %s %s of %d, ran %v, result %s", e.Seq, e.Tool, e.Phase, e.Of, e.Ran, e.Result))
	})
	if err != nil || last.Ran || last.Error == "" || last.Origin != "cli" {
		t.Fatalf("got %+v, %v", last, err)
	}
	if got := strings.Join(story, "\n"); got != `1 light intent of 0, ran false, result 
2 light  of 1, ran true, result {"ok":true,"room":"hall"}
3 light  of 0, ran false, result 
4 no?ne  of 0, ran false, result ` {
		t.Errorf("got\n%s", got)
	}
	run(llm.NewAudit(&file, last))
	if last, err = llm.VerifyAudit(strings.NewReader(file.String()), nil); err != nil || last.Seq != 8 {
		t.Fatalf("a continued audit: got %+v, %v", last, err)
	}
	lines := strings.SplitAfter(file.String(), "\n")
	for _, c := range []struct{ text, want string }{
		{strings.Replace(file.String(), `"room":"hall"`, `"room":"kitchen"`, 1), "line 1 was changed"},
		{strings.Join(append(append([]string{}, lines[:2]...), lines[3:]...), ""), "something is missing before line 3"},
		{strings.Join(lines[1:], ""), "something is missing before line 1"},
	} {
		if _, err := llm.VerifyAudit(strings.NewReader(c.text), nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	for _, w := range []io.Writer{full{}, &synced{broken: true}} {
		lamps = nil
		want(t, run(llm.NewAudit(w, nil)), agent.Blocked, "", "disk full")
		if len(lamps) != 0 {
			t.Errorf("lit %q without a line in the audit", lamps)
		}
	}
}

// synced is a file that knows what of it is on disk.
type synced struct {
	strings.Builder
	dirty, broken bool
}

func (s *synced) Write(b []byte) (int, error) { s.dirty = true; return s.Builder.Write(b) }

func (s *synced) Sync() error {
	if s.broken {
		return errors.New("disk full")
	}
	s.dirty = false
	return nil
}

func (s *synced) last() string {
	lines := strings.Split(strings.TrimSuffix(s.String(), "\n"), "\n")
	return lines[len(lines)-1]
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestStreaming(t *testing.T) {
	var lamps []string
	for _, c := range []struct {
		name  string
		steps []any
		said  []string
	}{
		{"sentences", []any{"It is 2.5 m to room 2. Wait. Dr. Who says: no!\nSo be it"}, []string{"It is 2.5 m to room 2.", "Wait.", "Dr. Who says: no!", "So be it"}},
		{"thoughts", []any{"<think>Shall I? Yes. I do.</think>Hello there. <think>Hm.</think>Bye."}, []string{"Hello there.", "Bye."}},
		{"not an echo", []any{call("light", `{"room":"hall"}`), `{"ok":true,"room":"hall"}`}, []string{"ok yes, room hall"}},
		{"a word before the call", []any{llm.Message{Text: "I'll look. ", Calls: []llm.Call{call("light", `{"room":"hall"}`)}}, "Lit."}, []string{"I'll look.", "Lit."}},
		{"a call in writing", []any{`{"name":"light","arguments":{}}`, "Sorry."}, []string{"Sorry."}},
		{"blank", []any{"  \n"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var said []string
			ctx := agent.WithSay(t.Context(), func(s string) { said = append(said, s) })
			if _, err := agent.Run(ctx, build(t, llm.Options{Model: says(c.steps...), Tools: []llm.Tool{lamp(&lamps)}}), agent.Task{Input: "x", Origin: "test"}); err != nil {
				t.Fatal(err)
			}
			same(t, said, c.said)
		})
	}
	// After the end nothing more is said, and what is said comes before the end.
	ctx, cancel := context.WithCancel(t.Context())
	var said []string
	ctx = agent.WithSay(ctx, func(s string) { said = append(said, s); cancel() })
	r, _ := agent.Run(ctx, build(t, llm.Options{Model: says("One is here. Two is here. Three is here.")}), agent.Task{Input: "x", Origin: "test"})
	same(t, said, []string{"One is here."})
	if r.Status != agent.Cancelled {
		t.Errorf("got %s", r.Status)
	}
}

func TestSentences(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"Go to room 2. Wait.", "Go to room 2.|Wait."},
		{"He said no. We go.", "He said no.|We go."},
		{"好。走吧！", "好。|走吧！"},
		{"First line\nsecond", "First line|second"},
		{"It costs 3.50 e.g. today. J. Doe pays… now. No. Yes.", "It costs 3.50 e.g. today.|J. Doe pays…|now.|No.|Yes."},
		{"1. Go. 2. Wait.", "1. Go.|2. Wait."},
		{"So do I. You too.", "So do I.|You too."},
		{strings.Repeat("word ", 30) + "ends, " + strings.Repeat("more ", 30), strings.TrimSpace(strings.Repeat("word ", 30)) + " ends,|" + strings.TrimSpace(strings.Repeat("more ", 30))},
		{"", ""},
	} {
		if got := strings.Join(llm.Sentences(c.in), "|"); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

func FuzzSentences(f *testing.F) {
	f.Add("Go to room 2. Wait. \xff 好。")
	f.Fuzz(func(t *testing.T, text string) {
		got := strings.Join(strings.Fields(strings.Join(llm.Sentences(text), " ")), "")
		if want := strings.Join(strings.Fields(text), ""); got != want {
			t.Errorf("got %q, want the same letters %q", got, want)
		}
	})
}

func ExampleAgent() {
	model := says(call("light", `{"room": "hall", "level": "30"}`), "The hall is lit.")
	var log []string
	butler, err := llm.New(llm.Options{Name: "butler", Model: model, Tools: []llm.Tool{lamp(&log)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, _ := agent.Run(context.Background(), butler, agent.Task{Input: "some light in the hall", Origin: "test"})
	fmt.Println(r.Status, r.Reply, log)
	// Output: done The hall is lit. [light{"level":30,"room":"hall"}]
}

func inputNoneOf(reply string, phrases ...string) llm.Hook {
	none := llm.NoneOf(phrases...)
	return llm.InputGuardrail(reply, func(ctx context.Context, t agent.Task) error { return none(ctx, t.Text()) })
}
