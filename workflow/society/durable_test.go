package society_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"edged/agent"
	"edged/agent/llm"
	"edged/bus"
	"edged/bus/origin"
	"edged/workflow"
	"edged/workflow/society"
	"edged/workflow/society/protocol"
)

// disk is a store that outlives what uses it, and can die at a record.
type disk struct {
	mu   sync.Mutex
	recs map[string][]byte
	puts int
	die  int // at which record the process is killed; 0 never
	kill func()
}

func newDisk() *disk { return &disk{recs: map[string][]byte{}} }

func (d *disk) Put(_ context.Context, name string, v []byte, _ bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.puts++
	if d.die > 0 && d.puts >= d.die {
		d.kill()
		return fmt.Errorf("the process is dead")
	}
	d.recs[name] = append([]byte(nil), v...)
	return nil
}

func (d *disk) Get(name string) ([]byte, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v, ok := d.recs[name]
	return v, ok
}

func (d *disk) Delete(_ context.Context, name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.recs, name)
	return nil
}

func (d *disk) All() iter.Seq2[string, []byte] {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.All(maps.Clone(d.recs))
}

// lazy is a disk that lets others go first.
type lazy struct{ *disk }

func (d *lazy) Put(ctx context.Context, name string, v []byte, sync bool) error {
	for range rand.IntN(20) {
		runtime.Gosched()
	}
	return d.disk.Put(ctx, name, v, sync)
}

// TestTurnsOutliveTheProcess kills an oversight in a durable workflow at every
// record of a turn, and resumes it: no turn that was written down runs again,
// and a guardrail does to it what it did before.
func TestTurnsOutliveTheProcess(t *testing.T) {
	shout := []workflow.Guardrail{{Name: "shout", On: workflow.Sanitize, Check: func(_ context.Context, v any, _ map[string]any) (workflow.Finding, error) {
		return workflow.Replace(fmt.Sprint(v, "!")), nil
	}}}
	for die := 1; die <= 6; die++ {
		runs, turns := newDisk(), newDisk()
		asked := map[string]int{}
		life := func(ctx context.Context, resume bool) agent.Result {
			rt := workflow.NewRuns(runs, workflow.RunsOptions{})
			s := society.New("home", society.Options{Log: society.NewLog(turns, society.LogOptions{})})
			say := func(name string, f func(p society.Prompt) any) *society.Agent {
				return &society.Agent{Name: name, Speaker: society.Func(func(_ context.Context, p society.Prompt) (any, error) {
					asked[fmt.Sprint(name, p.Round)]++
					return f(p), nil
				})}
			}
			e := must(s.Connect(say("coder", func(p society.Prompt) any { return fmt.Sprint("v", p.Round) }),
				say("boss", func(p society.Prompt) any { return []any{nil, "revise", "approve"}[p.Round] }), &society.Oversight{Shared: society.Shared{Guardrails: shout}}))
			tree := workflow.NewSequence("plan", workflow.SequenceOptions{Options: workflow.Options{Checkpoint: true}}, e)
			ctx = workflow.WithRuntime(ctx, workflow.Runtime{Runs: rt})
			if resume {
				list := rt.List()
				if len(list) != 1 {
					t.Fatalf("got %d runs", len(list))
				}
				if list[0].State != workflow.StateInterrupted {
					return agent.Result{Status: agent.Status(list[0].State), Reply: list[0].Reply}
				}
				r, _ := rt.Resume(ctx, list[0].ID, tree)
				return r
			}
			r, _ := agent.Run(ctx, tree, agent.Task{Input: "go", Origin: "test"})
			return r
		}
		ctx, cancel := context.WithCancel(t.Context())
		turns.die, turns.kill = die, cancel
		life(ctx, false)
		cancel()
		turns.die = 0
		r := life(t.Context(), true)
		if r.Status != agent.Done || r.Reply != "v2!" {
			t.Errorf("killed at %d: got %s %q %q", die, r.Status, r.Reason, r.Reply)
		}
		again := 0
		for _, n := range asked {
			again += n - 1
		}
		if len(asked) != 4 || again > 1 {
			t.Errorf("killed at %d: turns ran %v", die, asked)
		}
	}
}

func TestInDoubt(t *testing.T) {
	runs, turns := newDisk(), newDisk()
	acted := 0
	ctx, cancel := context.WithCancel(t.Context())
	life := func(ctx context.Context, resume bool) (agent.Result, string) {
		rt := workflow.NewRuns(runs, workflow.RunsOptions{})
		s := society.New("home", society.Options{Log: society.NewLog(turns, society.LogOptions{})})
		dev := &society.Agent{Name: "dev", Speaker: society.Func(func(context.Context, society.Prompt) (any, error) {
			acted++
			turns.die, turns.kill = 1, cancel // it acts, and the process dies
			return "done", nil
		})}
		e := must(s.Connect(&society.Agent{Name: "pm", Speaker: dev.Speaker}, dev, &society.Delegation{NoReview: true}))
		tree := workflow.NewSequence("plan", workflow.SequenceOptions{Options: workflow.Options{Checkpoint: true}}, e)
		ctx = workflow.WithRuntime(ctx, workflow.Runtime{Runs: rt})
		if resume {
			id := rt.List()[0].ID
			r, _ := rt.Resume(ctx, id, tree)
			return r, id
		}
		r, _ := agent.Run(ctx, tree, agent.Task{Input: "go", Origin: "test"})
		return r, r.RunID
	}
	life(ctx, false)
	turns.die = 0
	r, _ := life(t.Context(), true)
	if r.Status != agent.Escalated || !strings.Contains(r.Reason, "in_doubt") || acted != 1 {
		t.Errorf("got %s %q, acted %d times", r.Status, r.Reason, acted)
	}
}

func TestSameInteractionTwiceInOneStep(t *testing.T) {
	s := society.New("x", society.Options{})
	n := 0
	count := society.Func(func(context.Context, society.Prompt) (any, error) { n++; return "x", nil })
	e := must(s.Connect(&society.Agent{Name: "a", Speaker: count}, &society.Agent{Name: "b", Speaker: society.Func(func(context.Context, society.Prompt) (any, error) { return "approve", nil })}, &society.Oversight{}))
	twice := agent.Func("twice", func(ctx context.Context, task agent.Task) (agent.Result, error) {
		for range 2 {
			if _, err := agent.Run(ctx, e, task); err != nil {
				return agent.Result{}, err
			}
		}
		return agent.Result{}, nil
	})
	tree := workflow.NewSequence("w", workflow.SequenceOptions{Options: workflow.Options{Checkpoint: true}}, twice)
	ctx := workflow.WithRuntime(t.Context(), workflow.Runtime{Runs: workflow.NewRuns(newDisk(), workflow.RunsOptions{})})
	r, err := agent.Run(ctx, tree, agent.Task{})
	if err != nil || n != 2 || len(s.Log().Turns(r.RunID)) != 4 {
		t.Errorf("got %v, %d turns of a, %d turns", err, n, len(s.Log().Turns(r.RunID)))
	}
}

// TestCutOffAndAnotherTask: who is cut off and asked something else does not
// find the answers to what it was asked before; asked the same, it does.
func TestCutOffAndAnotherTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := society.New("x", society.Options{})
		asked := ""
		worker := society.Func(func(_ context.Context, p society.Prompt) (any, error) { asked += p.Task.Text() + " "; return "x", nil })
		first := true
		boss := society.Func(func(ctx context.Context, _ society.Prompt) (any, error) {
			if first {
				first = false
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return "approve", nil
		})
		e := must(s.Connect(&society.Agent{Name: "a", Speaker: worker}, &society.Agent{Name: "b", Speaker: boss}, &society.Oversight{}))
		for _, second := range []string{"other", "same"} {
			asked, first = "", true
			leaf := agent.Func("leaf", func(ctx context.Context, _ agent.Task) (agent.Result, error) {
				short, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				_, _ = agent.Run(short, e, agent.Task{Input: "same", Origin: "test"})
				return agent.Run(ctx, e, agent.Task{Input: second, Origin: "test"})
			})
			tree := workflow.NewSequence("w", workflow.SequenceOptions{Options: workflow.Options{Checkpoint: true}}, leaf)
			ctx := workflow.WithRuntime(t.Context(), workflow.Runtime{Runs: workflow.NewRuns(newDisk(), workflow.RunsOptions{})})
			r, err := agent.Run(ctx, tree, agent.Task{})
			if want := map[string]string{"other": "same other ", "same": "same "}[second]; asked != want || r.Status != agent.Done {
				t.Errorf("got %q, %s %v; want %q", asked, r.Status, err, want)
			}
		}
	})
}

func TestLogIsBounded(t *testing.T) {
	d := newDisk()
	log := society.NewLog(d, society.LogOptions{Keep: 3, Text: 64})
	s := society.New("x", society.Options{Log: log})
	e := must(s.Cooperate(bids("a b", strings.Repeat("x", 500), "2"), &society.Cooperation{Merge: society.Append}))
	for range 10 {
		run(t, e, strings.Repeat("long ", 100))
	}
	if len(d.recs) != 6 || len(log.Runs()) != 3 {
		t.Errorf("got %d records of %d runs", len(d.recs), len(log.Runs()))
	}
	again := society.NewLog(d, society.LogOptions{Keep: 3})
	turns := again.Turns(log.Runs()[2])
	if len(turns) != 2 || len(turns[0].Prompt) > 70 || turns[1].Speaker != "b" || turns[0].Elapsed < 0 {
		t.Errorf("got %+v", turns)
	}
}

func TestCauseAndTrace(t *testing.T) {
	var got []society.Turn
	s := society.New("x", society.Options{Trace: func(_ context.Context, t society.Turn) { got = append(got, t) }})
	e := must(s.Connect(bids("a", "d")[0], bids("b", "approve")[0], &society.Oversight{}))
	b := bus.New(bus.Options{})
	defer b.Close(t.Context())
	ev, err := b.Publish(t.Context(), "test", "go", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := agent.Run(bus.WithCause(t.Context(), ev), e, agent.Task{Input: "x", Origin: "test"}); err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].Cause != ev.Seq || got[1].Verdict != "approve" || got[0].Edge != e.Name() {
		t.Errorf("got %+v", got)
	}
}

func TestEvents(t *testing.T) {
	var sent []string
	s := society.New("x", society.Options{Send: func(_ context.Context, _, from, name string, v any) { sent = append(sent, fmt.Sprint(from, name, v)) }})
	var refused error
	worker := &society.Agent{Name: "w", Speaker: society.Func(func(ctx context.Context, _ society.Prompt) (any, error) {
		refused = society.Emit(ctx, "gossip", "G-TOKEN")
		return "d", society.Emit(ctx, "door", "D-TOKEN")
	})}
	c := newCast(t)
	e := must(s.Connect(worker, c.agent("boss", review("approve", "")), &society.Oversight{Shared: society.Shared{Events: []string{"door"}}}))
	if r := run(t, e, "go"); r.Status != agent.Done {
		t.Fatalf("got %+v", r)
	}
	if refused == nil || !strings.Contains(refused.Error(), `"gossip"`) || fmt.Sprint(sent) != "[wdoorD-TOKEN]" {
		t.Errorf("got %v, sent %v", refused, sent)
	}
	has(t, c.prompts["boss"][0], "D-TOKEN")
	hasNot(t, c.prompts["boss"][0], "G-TOKEN", "gossip")
	if society.Emit(t.Context(), "door", nil) == nil {
		t.Error("an event was sent outside of a turn")
	}
}

// TestToolsOfATurn: who works may look, only who is delegated to may act, and
// nobody who decides has tools.
func TestToolsOfATurn(t *testing.T) {
	var offered []string
	model := &speaking{do: func(_ context.Context, r llm.Request) (llm.Message, error) {
		names := ""
		for _, tool := range r.Tools {
			names += tool.Name + " "
		}
		offered = append(offered, strings.TrimSpace(names))
		switch {
		case len(r.Tools) > 0 && r.Messages[len(r.Messages)-1].Role == llm.User:
			return llm.Message{Calls: []llm.Call{{ID: "1", Name: "look", Args: json.RawMessage(`{}`)}}, Finish: llm.FinishCall}, nil
		case len(r.Tools) > 0:
			return llm.Message{Text: "I have looked."}, nil
		case strings.Contains(string(r.Schema), "accept"):
			return llm.Message{Text: `{"comments":"","verdict":"accept"}`}, nil
		case strings.Contains(string(r.Schema), "approve"):
			return llm.Message{Text: `{"comments":"","verdict":"approve"}`}, nil
		}
		return llm.Message{Text: `{"draft":"x"}`}, nil
	}}
	tool := func(name string, e llm.Effect) llm.Tool {
		return llm.Tool{Name: name, Doc: name, Effect: e, Do: func(context.Context, json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(`"seen-42"`), nil
		}}
	}
	mk := func(name string) *society.Agent {
		return &society.Agent{Name: name, Speaker: society.Model(llm.Options{Model: model, Tools: []llm.Tool{tool("look", llm.Read), tool("drive", llm.Write)}})}
	}
	a, b := mk("a"), mk("b")
	s := society.New("x", society.Options{})
	over := must(s.Connect(a, b, &society.Oversight{}))
	dele := must(s.Connect(b, a, &society.Delegation{}))
	for _, c := range []struct {
		e      agent.Agent
		origin string
		want   string
	}{
		{over, "cli", "look decline|look decline||"},
		{dele, "cli", "look drive decline|look drive decline||"},
		{dele, "mqtt", "look decline|look decline||"},
	} {
		offered = nil
		r, _ := agent.Run(t.Context(), c.e, agent.Task{Input: "go", Origin: origin.Label(c.origin)})
		if got := strings.Join(offered, "|"); got != c.want || r.Status != agent.Done || !r.Did("look") || r.Origin.Trusted(llm.Trusted) != (c.origin != "mqtt") || r.Usage.Calls != 4 {
			t.Errorf("from %s: got %q, want %q; %+v", c.origin, got, c.want, r)
		}
	}
}

// TestLedgerIsNotOvertaken: what is on disk after several auctions at once are
// all of them.
func TestLedgerIsNotOvertaken(t *testing.T) {
	d := &lazy{newDisk()}
	s := society.New("x", society.Options{Lasting: true, Log: society.NewLog(d, society.LogOptions{})})
	e := must(s.Compete(bids("a b", 3, 2), &society.Competition{Resolve: society.BestScore{Field: "cost"},
		Shared: society.Shared{Protocol: &protocol.Market{Bid: bidSchema, Budget: map[string]float64{"a": 1000, "b": 0}}}}))
	const n = 60
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() { run(t, e, "x") })
	}
	wg.Wait()
	var got struct {
		Balances map[string]float64
		Outcomes []any
	}
	text, _ := d.Get("market/x/" + e.Name())
	if err := json.Unmarshal(text, &got); err != nil || len(got.Outcomes) != n || got.Balances["a"] != 1000-3*n {
		t.Errorf("got %d outcomes, %v, %v", len(got.Outcomes), got.Balances, err)
	}
}

// TestTurnIsOneRecord: who, what it was told, the form, its answer, what that
// came to, tokens, time and cause, as they are on the disk afterwards.
func TestTurnIsOneRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := []string{`{"draft":"PATH"}`, `maybe`, `{"comments":"fine","verdict":"approve"}`}
		model := &speaking{do: func(context.Context, llm.Request) (llm.Message, error) {
			time.Sleep(time.Second)
			text := said[0]
			said = said[1:]
			return llm.Message{Text: text, Usage: agent.Usage{Calls: 1, PromptTokens: 30, OutputTokens: 4}}, nil
		}}
		speaker := society.Model(llm.Options{Model: model})
		var told []society.Turn
		d := newDisk()
		s := society.New("home", society.Options{Log: society.NewLog(d, society.LogOptions{}), Trace: func(_ context.Context, t society.Turn) { told = append(told, t) }})
		e := must(s.Connect(&society.Agent{Name: "a", Speaker: speaker}, &society.Agent{Name: "b", Role: "checks", Speaker: speaker}, &society.Oversight{}))
		b := bus.New(bus.Options{})
		defer b.Close(t.Context())
		ev, err := b.Publish(t.Context(), "test", "go", nil)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		r, err := agent.Run(bus.WithCause(t.Context(), ev), e, agent.Task{Input: "to the dock", Origin: "test"})
		if err != nil || r.Usage != (agent.Usage{Calls: 3, PromptTokens: 90, OutputTokens: 12}) {
			t.Fatalf("got %v %+v", err, r.Usage)
		}
		turns := society.NewLog(d, society.LogOptions{}).Turns(r.RunID)
		if len(turns) != 2 || len(told) != 2 {
			t.Fatalf("got %d turns on the disk, %d told", len(turns), len(told))
		}
		has(t, turns[1].System, "You are b: checks.")
		has(t, turns[1].Prompt, "to the dock", "PATH")
		has(t, string(turns[1].Schema), `"approve"`)
		for i, want := range []string{
			`a work {"draft":"PATH"} ok  1 {1 30 4} 1s 0s`,
			`b review {"comments":"fine","verdict":"approve"} ok approve 2 {2 60 8} 2s 1s`,
		} {
			x := turns[i]
			got := fmt.Sprint(x.Speaker, " ", x.Kind, " ", string(x.Answer), " ", x.State, " ", x.Verdict, " ", x.Asked, " ", x.Usage, " ", x.Elapsed, " ", x.Started.Sub(start))
			if got != want || x.Cause != ev.Seq || x.N != i+1 || x.Round != 1 || x.Edge != e.Name() || x.Society != "home" {
				t.Errorf("got  %s, cause %d, number %d\nwant %s", got, x.Cause, x.N, want)
			}
			one, _ := json.Marshal(x)
			two, _ := json.Marshal(told[i])
			if string(one) != string(two) {
				t.Errorf("on the disk\n%s\ntold\n%s", one, two)
			}
		}
	})
}
