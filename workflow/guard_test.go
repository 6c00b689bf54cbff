package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"edged/agent"
	"edged/bus"
	"edged/workflow"
	"edged/workflow/workflowtest"
)

// diary notes what happened, in order.
type diary struct {
	mu    sync.Mutex // guards lines
	lines []string
}

func (d *diary) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *diary) String() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.lines, ", ")
}

// long runs for a time and notes how it ended.
func (d *diary) long(name string, takes time.Duration) agent.Agent {
	return agent.Func(name, func(ctx context.Context, _ agent.Task) (agent.Result, error) {
		d.note("%s starts", name)
		select {
		case <-time.After(takes):
			d.note("%s done", name)
			return agent.Result{Reply: name}, nil
		case <-ctx.Done():
			d.note("%s stops", name)
			return agent.Result{}, ctx.Err()
		}
	})
}

func (d *diary) halt(name string) func(context.Context, string) error {
	return func(ctx context.Context, why string) error {
		d.note("halt %s: %s %v", name, why, ctx.Err())
		return nil
	}
}

func check(t *testing.T, got any, want string) {
	t.Helper()
	if s := fmt.Sprint(got); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
}

func outcomeOf(r agent.Result) string { return string(r.Status) + " " + r.Reply + r.Reason }

func TestGuardHaltsInnermostFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := newWorld("awake", "safe"), &diary{}
		o := func(name string, g *workflow.Guard) workflow.Options {
			return workflow.Options{Guard: g, OnHalt: d.halt(name)}
		}
		tree := workflow.NewSequence("outer", workflow.SequenceOptions{Options: o("outer", w.guard("awake"))},
			workflow.NewRetry("middle", workflow.RetryOptions{Options: o("middle", w.guard("safe"))},
				workflow.NewStep(d.long("drive", time.Hour), o("inner", nil))))
		ctx := workflow.WithRuntime(t.Context(), workflow.Runtime{Watcher: w})
		time.AfterFunc(time.Second, func() { w.set("awake", true) }) // a change that changes nothing
		time.AfterFunc(2*time.Second, func() { w.set("safe", false) })
		r, err := agent.Run(ctx, tree, agent.Task{})
		check(t, outcomeOf(r), "cancelled guard safe")
		check(t, d, "drive starts, drive stops, halt inner: guard safe <nil>, halt middle: guard safe <nil>")
		var g *workflow.GuardError
		if !errors.As(err, &g) || g.Name != "safe" || r.Elapsed != 2*time.Second {
			t.Errorf("got %v after %v", err, r.Elapsed)
		}
		if len(w.watching) != 0 {
			t.Errorf("%d watches are left", len(w.watching))
		}
		before := w.questions()
		w.set("safe", true)
		if w.questions() != before {
			t.Error("a guard is asked although nothing runs")
		}
	})
}

func TestGuardBeforeTheStart(t *testing.T) {
	w, d := newWorld(), &diary{}
	tree := workflow.NewStep(d.long("drive", 0), workflow.Options{Guard: w.guard("safe"), OnHalt: d.halt("step")})
	r, _ := agent.Run(workflow.WithRuntime(t.Context(), workflow.Runtime{Watcher: w}), tree, agent.Task{})
	check(t, outcomeOf(r), "cancelled guard safe")
	check(t, d, "") // what did not start is not halted
}

func TestBrokenGuardFails(t *testing.T) {
	w, d := newWorld(), &diary{}
	run := func(g *workflow.Guard, rt workflow.Runtime) agent.Result {
		r, _ := agent.Run(workflow.WithRuntime(t.Context(), rt), workflow.NewStep(d.long("drive", 0), workflow.Options{Guard: g}), agent.Task{})
		return r
	}
	fail := &workflow.Guard{Name: "g", Check: func(context.Context) (bool, error) { return true, errors.New("no key") }}
	check(t, outcomeOf(run(fail, workflow.Runtime{Watcher: w})), "failed guard g: no key")
	fail.Check = func(context.Context) (bool, error) { panic("oh") }
	check(t, outcomeOf(run(fail, workflow.Runtime{Watcher: w})), "failed guard g: panic: oh")
	w.set("safe", true)
	check(t, outcomeOf(run(w.guard("safe"), workflow.Runtime{})), "failed guard safe: nobody watches [board/safe]")
	check(t, d, "")
}

func TestGuardReadsAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := newWorld("a"), &diary{}
		either := &workflow.Guard{Name: "either", Check: func(ctx context.Context) (bool, error) {
			if a, _ := w.get(ctx, "a"); a {
				return true, nil
			}
			return w.get(ctx, "b") // only read when a is false
		}}
		ctx := workflow.WithRuntime(t.Context(), workflow.Runtime{Watcher: w})
		w.set("b", true)
		time.AfterFunc(1*time.Second, func() { w.set("a", false) })
		time.AfterFunc(2*time.Second, func() { w.set("b", false) })
		r, _ := agent.Run(ctx, workflow.NewStep(d.long("drive", time.Hour), workflow.Options{Guard: either}), agent.Task{})
		check(t, r.Elapsed, "2s")
	})
}

// A question under way does not hold up the end of its node.
func TestSlowGuardIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d, n := newWorld("safe"), &diary{}, 0
		g := &workflow.Guard{Name: "slow", Check: func(ctx context.Context) (bool, error) {
			if n++; n > 2 { // asked before the start, and once more when it was watched
				<-ctx.Done()
				return false, ctx.Err()
			}
			return w.get(ctx, "safe")
		}}
		time.AfterFunc(time.Second, func() { w.set("safe", true) })
		ctx := workflow.WithRuntime(t.Context(), workflow.Runtime{Watcher: w})
		r, _ := agent.Run(ctx, workflow.NewStep(d.long("a", 2*time.Second), workflow.Options{Guard: g}), agent.Task{})
		check(t, fmt.Sprint(outcomeOf(r), " ", r.Elapsed), "done a 2s")
	})
}

func TestIdleTreeAsksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := newWorld("a", "b", "c"), &diary{}
		tree := workflow.NewFallback("f", workflow.FallbackOptions{Reactive: true},
			workflow.NewStep(d.long("x", 0), workflow.Options{Guard: w.guard("fire")}),
			workflow.NewStep(d.long("y", time.Hour), workflow.Options{Guard: w.guard("a")}))
		var before atomic.Int64
		time.AfterFunc(time.Minute, func() { before.Store(int64(w.questions())) })
		time.AfterFunc(2*time.Minute, func() {
			if n := int64(w.questions()); n != before.Load() || n == 0 {
				t.Errorf("%d questions in an idle minute", n-before.Load())
			}
		})
		_, _ = agent.Run(workflow.WithRuntime(t.Context(), workflow.Runtime{Watcher: w}), tree, agent.Task{})
	})
}

func TestReactiveFallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := newWorld(), &diary{}
		tree := workflow.NewFallback("life", workflow.FallbackOptions{Reactive: true},
			workflow.NewStep(d.long("flee", time.Second), workflow.Options{Guard: w.guard("fire"), OnHalt: d.halt("flee")}),
			workflow.NewStep(d.long("charge", 10*time.Second), workflow.Options{Guard: w.guard("low"), OnHalt: d.halt("charge")}),
			workflow.NewStep(d.long("patrol", time.Hour), workflow.Options{OnHalt: d.halt("patrol")}))
		ctx := workflow.WithRuntime(t.Context(), workflow.Runtime{Watcher: w})
		time.AfterFunc(1*time.Second, func() { w.set("low", true) })  // charge preempts patrol
		time.AfterFunc(2*time.Second, func() { w.set("low", false) }) // and gives way to it again
		time.AfterFunc(3*time.Second, func() { w.set("low", true) })
		time.AfterFunc(4*time.Second, func() { w.set("fire", true) }) // flee preempts charge and is done
		r, _ := agent.Run(ctx, tree, agent.Task{})
		check(t, fmt.Sprint(outcomeOf(r), " ", r.By, " ", r.Elapsed), "done flee flee 5s")
		check(t, d, "patrol starts, patrol stops, halt patrol: preempted by charge <nil>, "+
			"charge starts, charge stops, halt charge: guard low <nil>, "+
			"patrol starts, patrol stops, halt patrol: preempted by charge <nil>, "+
			"charge starts, charge stops, halt charge: preempted by flee <nil>, flee starts, flee done")
		if len(w.watching) != 0 {
			t.Errorf("%d watches are left", len(w.watching))
		}
	})
}

// A child whose guard is true all the time and that fails does not come back
// before its guard has been false: that would never end.
func TestReactiveFallbackDoesNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := newWorld("fire"), &diary{}
		bad := agent.Func("bad", func(context.Context, agent.Task) (agent.Result, error) {
			d.note("bad")
			return agent.Result{}, agent.Declined("no")
		})
		tree := workflow.NewFallback("f", workflow.FallbackOptions{Reactive: true},
			workflow.NewStep(bad, workflow.Options{Guard: w.guard("fire")}), d.long("idle", 10*time.Second))
		time.AfterFunc(time.Second, func() { w.set("fire", true) })
		time.AfterFunc(2*time.Second, func() { w.set("fire", false) })
		time.AfterFunc(3*time.Second, func() { w.set("fire", true) })
		_, _ = agent.Run(workflow.WithRuntime(t.Context(), workflow.Runtime{Watcher: w}), tree, agent.Task{})
		check(t, d, "bad, idle starts, idle stops, bad, idle starts, idle done")
	})
}

func TestReactiveCondition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := newWorld("clear"), &diary{}
		cond := func(key string) agent.Agent {
			return workflow.NewCondition(key, func(ctx context.Context) (bool, error) { return w.get(ctx, key) })
		}
		ctx := workflow.WithRuntime(t.Context(), workflow.Runtime{Watcher: w})
		time.AfterFunc(time.Second, func() { w.set("clear", false) })
		seq := workflow.NewSequence("go", workflow.SequenceOptions{Reactive: true}, cond("clear"), d.long("drive", time.Hour))
		r, _ := agent.Run(ctx, seq, agent.Task{})
		check(t, outcomeOf(r), "failed clear is false")
		time.AfterFunc(time.Second, func() { w.set("there", true) })
		fb := workflow.NewFallback("reach", workflow.FallbackOptions{Reactive: true}, cond("there"), d.long("drive", time.Hour))
		r, _ = agent.Run(ctx, fb, agent.Task{})
		check(t, fmt.Sprint(outcomeOf(r), r.By), "done there")
		check(t, d, "drive starts, drive stops, drive starts, drive stops")
	})
}

// A durable reactive fallback that dies while a lower child runs begins again
// with what the world is then, and does not know of old turns.
func TestReactiveAndDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d, st := newWorld(), &diary{}, workflowtest.NewDisk()
		tree := workflow.NewFallback("life", workflow.FallbackOptions{Reactive: true, Options: workflow.Options{Checkpoint: true}},
			workflow.NewStep(d.long("charge", time.Second), workflow.Options{Guard: w.guard("low")}),
			workflow.NewSequence("patrol", workflow.SequenceOptions{}, d.long("a", time.Second), d.long("b", 10*time.Second)))
		rt, runs := runtimeOn(t.Context(), st)
		rt = workflow.WithRuntime(rt, workflow.Runtime{Runs: runs, Watcher: w})
		ctx, cancel := context.WithTimeout(rt, 5*time.Second)
		defer cancel()
		time.AfterFunc(2*time.Second, func() { w.set("low", true) })
		time.AfterFunc(2*time.Second+time.Millisecond, func() { w.set("low", false) })
		r, _ := agent.Run(ctx, tree, agent.Task{})
		check(t, d, "a starts, a done, b starts, b stops, charge starts, charge stops, a starts, a done, b starts, b stops")
		d.lines = nil
		r, _ = runs.Resume(rt, r.RunID, tree)
		check(t, outcomeOf(r), "done b")
		check(t, d, "b starts, b done")
	})
}

// A guard that is not true is a reason to try the next one, a stop is not.
func TestFallbackTellsGuardFromStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := newWorld("safe"), &diary{}
		tree := workflow.NewFallback("f", workflow.FallbackOptions{},
			workflow.NewStep(d.long("a", time.Hour), workflow.Options{Guard: w.guard("safe")}), d.long("b", time.Hour), d.long("c", 0))
		ctx, cancel := context.WithCancel(workflow.WithRuntime(t.Context(), workflow.Runtime{Watcher: w}))
		time.AfterFunc(time.Second, func() { w.set("safe", false) })
		time.AfterFunc(2*time.Second, cancel)
		r, _ := agent.Run(ctx, tree, agent.Task{})
		check(t, outcomeOf(r), "cancelled context canceled")
		check(t, d, "a starts, a stops, b starts, b stops")
	})
}

func TestBadOnHaltIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		o := workflow.Options{OnHalt: func(context.Context, string) error { panic("oh") }}
		r, err := agent.Run(ctx, workflow.NewStep(d.long("a", time.Hour), o), agent.Task{})
		check(t, outcomeOf(r), "cancelled cancelled; on_halt: panic: oh")
		if agent.StatusOf(err) != agent.Cancelled {
			t.Error(err)
		}
	})
}

// On the bus: topics, causes, and guards that hear of the board.
func TestOnBus(t *testing.T) {
	b := bus.New(bus.Options{})
	defer b.Close(context.Background())
	d := &diary{}
	if _, err := b.Tap("edged/workflow/#", func(e bus.Event) {
		p := e.Payload().(map[string]any)
		d.note("%s %v %v", e.Topic, p["path"], p["status"])
		if e.Hops > 1 {
			t.Errorf("%s has %d hops", e.Topic, e.Hops)
		}
	}); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	safe := true
	guard := &workflow.Guard{Name: "safe", Check: func(ctx context.Context) (bool, error) {
		workflow.Read(ctx, "board/safe")
		mu.Lock()
		defer mu.Unlock()
		return safe, nil
	}}
	drive := agent.Func("drive", func(ctx context.Context, _ agent.Task) (agent.Result, error) {
		if seq, _ := bus.CauseOf(ctx); seq == 0 {
			t.Error("a child's work has no cause")
		}
		mu.Lock()
		safe = false
		mu.Unlock()
		_, _ = b.Publish(context.Background(), "test", "board/safe", false)
		<-ctx.Done()
		return agent.Result{}, ctx.Err()
	})
	on := workflow.OnBus(b)
	ctx := workflow.WithRuntime(t.Context(), workflow.Runtime{Trace: on, Watcher: on})
	tree := workflow.NewSequence("tidy up/now", workflow.SequenceOptions{},
		workflow.NewSequence("first", workflow.SequenceOptions{}, workflow.NewStep(drive, workflow.Options{Guard: guard})))
	r, _ := agent.Run(ctx, tree, agent.Task{})
	check(t, outcomeOf(r), "cancelled guard safe")
	if r.RunID == "" {
		t.Error("the run has no id")
	}
	check(t, d, "edged/workflow/tidy up_now/start  <nil>, edged/workflow/first/start 0 <nil>, edged/workflow/drive/start 0.0 <nil>, "+
		"edged/workflow/drive/end 0.0 cancelled, edged/workflow/first/end 0 cancelled, edged/workflow/tidy up_now/end  cancelled")
}
