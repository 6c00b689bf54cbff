package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"edged/agent"
	"edged/agent/llm"
	"edged/workflow"
	"edged/workflow/workflowtest"
)

// factory makes a tree of steps that note when they begin and when they end.
type factory struct {
	mu    sync.Mutex // guards the rest
	began map[string]int
	ended map[string]int
}

func (f *factory) step(name string) agent.Agent {
	return agent.Func(name, func(ctx context.Context, t agent.Task) (agent.Result, error) {
		f.mu.Lock()
		f.began[name]++
		f.mu.Unlock()
		if ctx.Err() != nil {
			return agent.Result{}, ctx.Err()
		}
		f.mu.Lock()
		f.ended[name]++
		n := f.ended[name]
		f.mu.Unlock()
		if strings.HasPrefix(name, "bad") || name == "flaky" && n == 1 {
			return agent.Result{}, agent.Declined(name)
		}
		return agent.Result{Reply: name, Output: map[string]any{"n": int64(n), "f": 3.0}}, nil
	})
}

func (f *factory) write(name string) agent.Agent {
	return workflow.NewStep(f.step(name), workflow.Options{Effect: llm.Write})
}

// boss gives one task and then finishes.
type boss struct{}

func (boss) Decide(_ context.Context, q workflow.Question) (json.RawMessage, error) {
	if strings.Contains(q.Task, "Done so far") {
		return json.RawMessage(`{"worker":"finish","reply":"all right"}`), nil
	}
	return json.RawMessage(`{"worker":"w","task":"x"}`), nil
}

// tree has every kind of node that remembers something.
func (f *factory) tree(doubt func(context.Context, workflow.Doubt) (workflow.Decision, error)) agent.Agent {
	pick := func(context.Context, workflow.View) (string, error) { return "left", nil }
	return workflow.NewSequence("tidy", workflow.SequenceOptions{Options: workflow.Options{Checkpoint: true, OnInDoubt: doubt}},
		f.step("look"),
		f.write("grasp"),
		workflow.NewFallback("away", workflow.FallbackOptions{}, f.step("bad drawer"), workflow.NewTimeout("", workflow.TimeoutOptions{}, time.Hour, f.write("box"))),
		workflow.NewLoop("wipe", workflow.LoopOptions{Until: func(_ context.Context, v workflow.View) (bool, error) { return v.Count == 3, nil }}, f.step("stroke")),
		workflow.NewRetry("", workflow.RetryOptions{Backoff: -1}, f.step("flaky")),
		workflow.NewSwitch("way", workflow.SwitchOptions{Value: pick}, workflow.Route{Name: "left", Agent: f.write("turn")}),
		workflow.NewParallel("both", workflow.ParallelOptions{MaxConcurrency: 1}, f.step("p1"), f.write("p2")),
		workflow.NewRepeat("", workflow.Options{}, 3, f.step("beep")),
		workflow.NewSupervisor("boss", workflow.SupervisorOptions{Lead: boss{}}, workflow.Route{Name: "w", Agent: f.step("work")}),
	)
}

// once is how often each step ends in a run that nothing interrupts.
var once = map[string]int{"look": 1, "grasp": 1, "bad drawer": 1, "box": 1, "stroke": 3, "flaky": 2, "turn": 1, "p1": 1, "p2": 1, "beep": 3, "work": 1}

func runtimeOn(ctx context.Context, d *workflowtest.Disk) (context.Context, *workflow.Runs) {
	runs := workflow.NewRuns(d, workflow.RunsOptions{})
	return workflow.WithRuntime(ctx, workflow.Runtime{Runs: runs}), runs
}

// TestKilledAtEveryWrite lets the process die at every single write of a run,
// with the write done or not, and goes on with what is on the disk.
func TestKilledAtEveryWrite(t *testing.T) {
	f := &factory{began: map[string]int{}, ended: map[string]int{}}
	whole := workflowtest.NewDisk()
	ctx, _ := runtimeOn(t.Context(), whole)
	if r, err := agent.Run(ctx, f.tree(nil), agent.Task{Input: "x", Origin: "test"}); !r.OK() || !maps.Equal(f.ended, once) {
		t.Fatalf("undisturbed: %v %v %v", r.Status, err, f.ended)
	}
	doubts, deaths := 0, 0
	for n := 1; n <= whole.Writes(); n++ {
		for _, after := range []bool{false, true} {
			deaths++
			doubts += killAt(t, n, after)
		}
	}
	if doubts == 0 {
		t.Error("no step was ever in doubt")
	}
	t.Logf("%d deaths, %d steps in doubt", deaths, doubts)
}

// killAt is one death; it gives 1 if a step is in doubt after it.
func killAt(t *testing.T, n int, after bool) (doubts int) {
	name := fmt.Sprintf("write %d, got through %v", n, after)
	f := &factory{began: map[string]int{}, ended: map[string]int{}}
	d := workflowtest.NewDisk()
	d.Die, d.Through = n, after
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d.Power = cancel
	ctx, _ = runtimeOn(ctx, d)
	if r, _ := agent.Run(ctx, f.tree(nil), agent.Task{Input: "x", Origin: "test"}); r.OK() {
		t.Errorf("%s: the run is done although it could not be recorded", name)
	}
	safe := map[string]int{} // steps whose outcomes are on the disk
	next := d.Reboot()
	_, runs := runtimeOn(t.Context(), next)
	list := runs.List()
	if len(list) == 0 {
		if n > 1 || after {
			t.Errorf("%s: the run is lost", name)
		}
		return 0
	}
	info, err := runs.Get(list[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	var open []string
	for _, s := range info.Steps {
		if s.State == workflow.StateInDoubt {
			open = append(open, s.Name)
		} else {
			safe[s.Name]++
		}
	}
	if !info.Ended.IsZero() {
		return 0 // the last write got through
	}
	before := maps.Clone(f.began)
	ctx, runs = runtimeOn(t.Context(), next)
	r, _ := runs.Resume(ctx, info.ID, f.tree(nil))
	for step, times := range f.began {
		again := times - before[step]
		if most := once[step] - safe[step]; step != "beep" && again > most {
			t.Errorf("%s: %s ran %d more times, with %d outcomes on the disk", name, step, again, safe[step])
		}
	}
	if len(open) > 0 {
		doubts = 1
		for _, s := range open {
			if f.began[s] != before[s] {
				t.Errorf("%s: %s was in doubt and ran again", name, s)
			}
		}
		info, _ = runs.Get(info.ID)
		if r.Status != agent.Escalated || info.State != workflow.StateInDoubt || len(open) != 1 {
			t.Errorf("%s: got %v and %s with %v open", name, r.Status, info.State, open)
		}
		i := slices.IndexFunc(info.Steps, func(s workflow.StepInfo) bool { return s.State == workflow.StateInDoubt })
		if err := runs.Decide(ctx, info.ID, info.Steps[i].Path, workflow.TakeAsDone, agent.Result{Reply: "seen"}); err != nil {
			t.Fatal(err)
		}
		r, _ = runs.Resume(ctx, info.ID, f.tree(nil))
		if f.began[open[0]] != before[open[0]] {
			t.Errorf("%s: %s was taken as done and ran again", name, open[0])
		}
	}
	if !r.OK() || r.Reply != "all right" {
		t.Errorf("%s: resumed, got %v %q", name, r.Status, r.Reason)
	}
	for _, step := range []string{"grasp", "box", "turn", "p2"} {
		if n := f.began[step]; n > 1 || n == 0 && !slices.Contains(open, step) {
			t.Errorf("%s: %s writes and ran %d times", name, step, f.began[step])
		}
	}
	return doubts
}

func TestInDoubt(t *testing.T) {
	// The process dies after grasp was begun: its intent is the third write.
	interrupted := func() (*workflowtest.Disk, *factory) {
		f := &factory{began: map[string]int{}, ended: map[string]int{}}
		d := workflowtest.NewDisk()
		d.Die, d.Through = 3, true
		ctx, cancel := context.WithCancel(t.Context())
		d.Power = cancel
		ctx, _ = runtimeOn(ctx, d)
		_, _ = agent.Run(ctx, f.tree(nil), agent.Task{Input: "x", Origin: "test"})
		return d.Reboot(), f
	}
	for verdict, want := range map[workflow.Decision]string{
		workflow.RunAgain: "done all right 1", workflow.TakeAsDone: "done all right 0",
		workflow.TakeAsFault: "failed taken as failed after an interruption 0",
		workflow.AskPerson:   "escalated in_doubt: grasp 0", "": "escalated in_doubt: grasp 0",
	} {
		d, f := interrupted()
		ctx, runs := runtimeOn(t.Context(), d)
		var seen workflow.Doubt
		r, err := runs.Resume(ctx, runs.List()[0].ID, f.tree(func(_ context.Context, d workflow.Doubt) (workflow.Decision, error) {
			seen = d
			return verdict, nil
		}))
		said := r.Reply
		if !r.OK() {
			said = r.Reason
		}
		check(t, fmt.Sprint(r.Status, " ", said, " ", f.began["grasp"]), want)
		// One that fails has no opinion, whatever it says.
		d, f = interrupted()
		ctx, runs = runtimeOn(t.Context(), d)
		for _, oh := range []func(){func() {}, func() { panic("oh") }} {
			r, _ := runs.Resume(ctx, runs.List()[0].ID, f.tree(func(context.Context, workflow.Doubt) (workflow.Decision, error) {
				oh()
				return verdict, errors.New("no idea")
			}))
			check(t, fmt.Sprint(r.Status, " ", r.Reason, " ", f.began["grasp"]), "escalated in_doubt: grasp 0")
		}
		check(t, fmt.Sprint(seen.Name, seen.Path, seen.Task.Input), "grasp1look")
		if (agent.StatusOf(err) == agent.Escalated) != (r.Status == agent.Escalated) {
			t.Error(err)
		}
	}
	// Decided by a person.
	d, f := interrupted()
	ctx, runs := runtimeOn(t.Context(), d)
	id := runs.List()[0].ID
	if err := runs.Decide(ctx, id, "1", workflow.RunAgain, agent.Result{}); err != nil {
		t.Fatal(err)
	}
	r, _ := runs.Resume(ctx, id, f.tree(nil))
	check(t, fmt.Sprint(r.Status, f.began["grasp"], f.began["look"]), "done1 1")
	if err := runs.Decide(ctx, id, "1", workflow.RunAgain, agent.Result{}); err == nil {
		t.Error("a step that is over was decided about")
	}
}

// An orderly stop is no outcome: the run goes on another time, and a write that
// was cut off is in doubt.
func TestStoppedAndResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, st := &diary{}, workflowtest.NewDisk()
		tree := workflow.NewSequence("s", workflow.SequenceOptions{Options: workflow.Options{Checkpoint: true}},
			d.long("a", time.Second), workflow.NewDelay("", workflow.Options{}, time.Minute, nil), d.long("b", time.Second))
		ctx, runs := runtimeOn(t.Context(), st)
		stopped, cancel := context.WithTimeout(ctx, 31*time.Second)
		defer cancel()
		r, _ := agent.Run(stopped, tree, agent.Task{Input: int64(7), Origin: "test"})
		info, _ := runs.Get(r.RunID)
		check(t, fmt.Sprint(r.Status, " ", info.State, " ", info.Reason, " ", len(info.Steps)), "timeout interrupted timeout 1")
		time.Sleep(20 * time.Second)
		start := time.Now()
		r, _ = runs.Resume(ctx, info.ID, tree)
		check(t, fmt.Sprint(outcomeOf(r), " ", time.Since(start)), "done b 11s") // 10 s were left of the minute
		check(t, d, "a starts, a done, b starts, b done")
		if _, err := runs.Resume(ctx, info.ID, tree); !errors.Is(err, workflow.ErrOver) {
			t.Error(err)
		}
	})
}

func TestRunsOneByOne(t *testing.T) {
	f := &factory{began: map[string]int{}, ended: map[string]int{}}
	tree := f.tree(nil)
	ctx, runs := runtimeOn(t.Context(), workflowtest.NewDisk())
	r, _ := agent.Run(ctx, tree, agent.Task{Input: "x", Origin: "test"})
	info, _ := runs.Get(r.RunID)
	check(t, fmt.Sprint(info.Workflow, " ", info.State, " ", info.Reply, " ", info.Task.Input), "tidy done all right x")
	if o := r.Children[0].Output.(map[string]any); o["n"] != int64(1) || o["f"] != 3.0 {
		t.Errorf("got %#v", o)
	}
	// Forked before the switch, all that comes after is run again.
	id, err := runs.Fork(ctx, r.RunID, "5")
	if err != nil {
		t.Fatal(err)
	}
	before := maps.Clone(f.began)
	again, _ := runs.Resume(ctx, id, tree)
	var ran []string
	for _, s := range slices.Sorted(maps.Keys(f.began)) {
		if f.began[s] != before[s] {
			ran = append(ran, s)
		}
	}
	check(t, fmt.Sprint(again.Status, ran), "done[beep p1 p2 turn work]")
	if got := again.Children[0].Output.(map[string]any); got["n"] != int64(1) || got["f"] != 3.0 {
		t.Errorf("a recorded output came back as %#v", got)
	}
	forked, _ := runs.Get(id)
	check(t, forked.ForkedFrom == r.RunID, "true")
	check(t, len(runs.List()), "2")

	if err := runs.Forget(ctx, id); err != nil || len(runs.List()) != 1 {
		t.Errorf("forget: %v", err)
	}
	for _, err := range []error{runs.Forget(ctx, id), runs.Cancel(ctx, id)} {
		if !errors.Is(err, workflow.ErrNoRun) {
			t.Errorf("got %v", err)
		}
	}
	other := workflow.NewSequence("tidy", workflow.SequenceOptions{Options: workflow.Options{Checkpoint: true}}, f.step("look"))
	id, _ = runs.Fork(ctx, r.RunID, "0")
	if _, err := runs.Resume(ctx, id, other); !errors.Is(err, workflow.ErrChanged) {
		t.Errorf("got %v", err)
	}
	if err := runs.Cancel(ctx, id); err != nil {
		t.Fatal(err)
	}
	if _, err := runs.Resume(ctx, id, tree); !errors.Is(err, workflow.ErrOver) {
		t.Errorf("got %v", err)
	}
}

func TestCancelARunUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		tree := workflow.NewSequence("s", workflow.SequenceOptions{Options: workflow.Options{Checkpoint: true, OnHalt: d.halt("s")}}, d.long("a", time.Hour))
		ctx, runs := runtimeOn(t.Context(), workflowtest.NewDisk())
		time.AfterFunc(time.Second, func() {
			id := runs.List()[0].ID
			check(t, runs.List()[0].State, "running")
			if _, err := runs.Resume(ctx, id, tree); !errors.Is(err, workflow.ErrLive) {
				t.Error(err)
			}
			if err := runs.Cancel(ctx, id); err != nil {
				t.Error(err)
			}
		})
		r, _ := agent.Run(ctx, tree, agent.Task{})
		check(t, outcomeOf(r), "cancelled run was cancelled")
		check(t, runs.List()[0].State, "cancelled")
		check(t, d, "a starts, a stops, halt s: cancelled: run was cancelled <nil>")
	})
}

func TestOldRunsAreForgotten(t *testing.T) {
	f := &factory{began: map[string]int{}, ended: map[string]int{}}
	d := workflowtest.NewDisk()
	runs := workflow.NewRuns(d, workflow.RunsOptions{Keep: 3})
	ctx := workflow.WithRuntime(t.Context(), workflow.Runtime{Runs: runs})
	tree := workflow.NewSequence("s", workflow.SequenceOptions{Options: workflow.Options{Checkpoint: true}}, f.step("a"))
	for range 10 {
		_, _ = agent.Run(ctx, tree, agent.Task{})
	}
	check(t, fmt.Sprint(len(runs.List()), len(d.Records())), "3 6")
	// Without a store there is no run.
	r, _ := agent.Run(t.Context(), tree, agent.Task{})
	check(t, outcomeOf(r), "failed s is to be recorded and there is no store")
}

// A repeat for ever keeps no records of what is behind it.
func TestRepeatIsBounded(t *testing.T) {
	f := &factory{began: map[string]int{}, ended: map[string]int{}}
	d := workflowtest.NewDisk()
	ctx, runs := runtimeOn(t.Context(), d)
	ctx, cancel := context.WithCancel(ctx)
	n := 0
	step := agent.Func("a", func(ctx context.Context, _ agent.Task) (agent.Result, error) {
		if n++; n == 50 {
			cancel()
			return agent.Result{}, ctx.Err()
		}
		return agent.Result{}, nil
	})
	tree := workflow.NewSequence("s", workflow.SequenceOptions{Options: workflow.Options{Checkpoint: true}},
		workflow.NewRepeat("", workflow.Options{}, 0, workflow.NewSequence("in", workflow.SequenceOptions{}, f.step("x"), step)))
	_, _ = agent.Run(ctx, tree, agent.Task{})
	if len(d.Records()) > 5 {
		t.Errorf("%d records of one iteration: %v", len(d.Records()), slices.Sorted(maps.Keys(d.Records())))
	}
	ctx, runs2 := runtimeOn(t.Context(), d)
	ctx, cancel = context.WithCancel(ctx)
	defer cancel()
	n = 49 // the next one stops again
	_, _ = runs2.Resume(ctx, runs.List()[0].ID, tree)
	check(t, f.began["x"], "50") // x of the last iteration has its outcome
}
