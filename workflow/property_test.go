package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"edged/agent"
	"edged/agent/llm"
	"edged/blackboard"
	"edged/bus"
	"edged/workflow"
	"edged/workflow/workflowtest"
)

var _ workflow.Store = (*blackboard.Records)(nil)

// grow draws a tree. Its leaves' outcomes depend on their names alone, so that
// a run always ends the same way.
func grow(r *rapid.T, depth int, n *int) agent.Agent {
	*n++
	name := fmt.Sprint("n", *n)
	kind := rapid.IntRange(0, 10).Draw(r, "kind")
	if depth == 0 {
		kind = 0
	}
	kids := func(most int) (list []agent.Agent) {
		for range rapid.IntRange(1, most).Draw(r, "children") {
			list = append(list, grow(r, depth-1, n))
		}
		return list
	}
	switch kind {
	case 1, 2:
		return workflow.NewSequence(name, workflow.SequenceOptions{PassTask: kind == 1, Reactive: rapid.Bool().Draw(r, "reactive")}, kids(3)...)
	case 3, 4:
		return workflow.NewFallback(name, workflow.FallbackOptions{Reactive: rapid.Bool().Draw(r, "reactive")}, kids(3)...)
	case 5:
		return workflow.NewRetry(name, workflow.RetryOptions{MaxAttempts: 2, Backoff: -1}, kids(1)[0])
	case 6:
		return workflow.NewLoop(name, workflow.LoopOptions{MaxIterations: 2}, kids(1)[0])
	case 7:
		return workflow.NewParallel(name, workflow.ParallelOptions{MaxConcurrency: 1}, kids(3)...)
	case 8:
		return workflow.NewInvert(name, workflow.Options{}, kids(1)[0])
	case 9:
		return workflow.NewRepeat(name, workflow.Options{}, 2, kids(1)[0])
	case 10:
		return workflow.NewTimeout(name, workflow.TimeoutOptions{}, time.Minute, kids(1)[0])
	}
	end := rapid.SampledFrom([]string{"done", "done", "done", "fail", "panic", "block"}).Draw(r, "ends")
	a := agent.Func(name, func(ctx context.Context, _ agent.Task) (agent.Result, error) {
		switch end {
		case "fail":
			return agent.Result{}, errors.New("no")
		case "panic":
			panic("oh")
		case "block":
			return agent.Result{}, fmt.Errorf("%w: rude", agent.ErrBlocked)
		}
		return agent.Result{Reply: name}, ctx.Err()
	})
	if rapid.Bool().Draw(r, "writes") {
		return workflow.NewStep(a, workflow.Options{Effect: llm.Write})
	}
	return a
}

func summaryOf(r agent.Result) string {
	if r.OK() {
		return "done " + r.Reply
	}
	return string(r.Status) + " " + r.Reason
}

// A durable run that dies any number of times and is resumed ends as if
// nothing had happened.
func TestAnyTreeSurvives(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n := 0
		again := func(context.Context, workflow.Doubt) (workflow.Decision, error) { return workflow.RunAgain, nil }
		tree := workflow.NewSequence("root", workflow.SequenceOptions{Options: workflow.Options{Checkpoint: true, OnInDoubt: again}}, grow(r, 3, &n))
		ctx, _ := runtimeOn(t.Context(), workflowtest.NewDisk())
		res, err := agent.Run(ctx, tree, agent.Task{Input: "x", Origin: "test"})
		if res.OK() != (err == nil) || agent.StatusOf(err) != res.Status {
			r.Fatalf("got %v with %v", res.Status, err)
		}
		want := summaryOf(res)
		d, id := workflowtest.NewDisk(), ""
		for range 1000 {
			d.Die, d.Through = rapid.IntRange(1, 12).Draw(r, "dies at"), rapid.Bool().Draw(r, "gets through")
			ctx, cancel := context.WithCancel(t.Context())
			d.Power = cancel
			ctx, runs := runtimeOn(ctx, d)
			if id == "" {
				res, _ = agent.Run(ctx, tree, agent.Task{Input: "x", Origin: "test"})
			} else {
				res, _ = runs.Resume(ctx, id, tree)
			}
			cancel()
			dead := d.Dead()
			d = d.Reboot()
			_, runs = runtimeOn(t.Context(), d)
			if list := runs.List(); len(list) > 0 {
				id = list[0].ID
				if !list[0].Ended.IsZero() { // the last write got through, whatever was said of it
					info, _ := runs.Get(id)
					got := "done " + info.Reply
					if info.State != "done" {
						got = info.State + " " + info.Reason
					}
					if got != want {
						r.Fatalf("got %q, want %q", got, want)
					}
					return
				}
			}
			if !dead {
				r.Fatalf("%v %v: not over, and not dead", res.Status, res.Reason)
			}
		}
		r.Fatal("it never ends")
	})
}

// On a real blackboard file, closed and opened again.
func TestOnTheBlackboard(t *testing.T) {
	path := t.TempDir() + "/board"
	open := func() (context.Context, *workflow.Runs, func()) {
		b := bus.New(bus.Options{})
		board, err := blackboard.Open(b, blackboard.Options{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		runs := workflow.NewRuns(board.Records("runs"), workflow.RunsOptions{})
		return workflow.WithRuntime(t.Context(), workflow.Runtime{Runs: runs}), runs, func() {
			_ = board.Close()
			_ = b.Close(context.Background())
		}
	}
	var did []string
	step := func(name string, then func()) agent.Agent {
		return agent.Func(name, func(ctx context.Context, _ agent.Task) (agent.Result, error) {
			then()
			if ctx.Err() == nil {
				did = append(did, name)
			}
			return agent.Result{Reply: name}, ctx.Err()
		})
	}
	rt, _, shut := open()
	ctx, cancel := context.WithCancel(rt)
	nothing := func() {}
	tree := workflow.NewSequence("s", workflow.SequenceOptions{Options: workflow.Options{Checkpoint: true}},
		step("a", nothing), step("b", cancel), step("c", nothing))
	r, _ := agent.Run(ctx, tree, agent.Task{Input: "x", Origin: "test"})
	shut()
	check(t, fmt.Sprint(r.Status, did), "cancelled[a]")
	rt, runs, shut := open()
	defer shut()
	r, err := runs.Resume(rt, runs.List()[0].ID, tree)
	check(t, fmt.Sprint(outcomeOf(r), err, did), "done c<nil> [a b c]")
}

// wrapped is an agent as a script's binding may hold it.
type wrapped struct{ agent.Agent }

func (w wrapped) Unwrap() agent.Agent { return w.Agent }

func TestWrappedNodes(t *testing.T) {
	f := &factory{began: map[string]int{}, ended: map[string]int{}}
	in := wrapped{workflow.NewSequence("in", workflow.SequenceOptions{}, wrapped{f.step("a")}, wrapped{f.write("b")})}
	tree := wrapped{workflow.NewSequence("out", workflow.SequenceOptions{Options: workflow.Options{Checkpoint: true}}, in)}
	check(t, workflow.Describe(tree).Children[0].Children[1].Effect, "write")
	d := workflowtest.NewDisk()
	ctx, runs := runtimeOn(t.Context(), d)
	r, _ := agent.Run(ctx, tree, agent.Task{})
	info, _ := runs.Get(r.RunID)
	var got []string
	for _, s := range info.Steps {
		got = append(got, s.Path+" "+s.Name+" "+s.Effect)
	}
	check(t, strings.Join(got, ", "), "0.0 a , 0.1 b write, 0 in ")
}

func TestOnlyTheAnswerIsSaid(t *testing.T) {
	say := func(name string) agent.Agent {
		return agent.Func(name, func(ctx context.Context, _ agent.Task) (agent.Result, error) {
			agent.Say(ctx, name)
			return agent.Result{Reply: name}, nil
		})
	}
	var heard []string
	ctx := agent.WithSay(t.Context(), func(s string) { heard = append(heard, s) })
	_, _ = agent.Run(ctx, workflow.NewSequence("s", workflow.SequenceOptions{}, say("a"),
		workflow.NewParallel("p", workflow.ParallelOptions{}, say("b"), say("c")), workflow.NewTimeout("", workflow.TimeoutOptions{}, time.Minute, say("d"))), agent.Task{})
	check(t, heard, "[d]")
}
