package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"edged/agent"
	"edged/workflow"
)

// deaf hears no cancellation; it ends when it is released.
func deaf(release <-chan struct{}) agent.Agent {
	return agent.Func("deaf", func(context.Context, agent.Task) (agent.Result, error) {
		<-release
		return agent.Result{Reply: "too late"}, nil
	})
}

func TestTimeoutLeavesTheDeafBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		live := workflow.NewLive()
		ctx := workflow.WithRuntime(t.Context(), workflow.Runtime{Trace: live})
		to := workflow.NewTimeout("", workflow.TimeoutOptions{}, time.Second, deaf(release))
		r, _ := agent.Run(ctx, to, agent.Task{})
		check(t, fmt.Sprint(outcomeOf(r), " ", r.Elapsed), "timeout deaf took longer than 1s and was left behind 1.2s")
		check(t, outcome(r), "timeout deaf=timeout")
		check(t, live.Outline(to).Children[0].State, "left behind")
		// The context is as good as before, and so is the backup.
		r, _ = agent.Run(ctx, workflow.NewFallback("f", workflow.FallbackOptions{}, to, child("b", 0, nil)), agent.Task{Input: "x", Origin: "test"})
		check(t, outcomeOf(r), "done b:x")
		if ever, now := to.LeftBehind(); ever != 2 || now != 2 {
			t.Errorf("%d and %d are counted", ever, now)
		}
		for range 6 {
			_, _ = agent.Run(ctx, to, agent.Task{})
		}
		r, _ = agent.Run(ctx, to, agent.Task{})
		check(t, fmt.Sprint(outcomeOf(r), " ", r.Elapsed), "failed 8 runs of deaf were left behind and still run 0s")
		close(release)
		synctest.Wait()
		if ever, now := to.LeftBehind(); ever != 8 || now != 0 {
			t.Errorf("%d and %d are counted", ever, now)
		}
	})
}

func TestTimeout(t *testing.T) {
	slow := func(ends time.Duration, err error) agent.Agent { // takes so long to end when it is cancelled
		return agent.Func("slow", func(ctx context.Context, _ agent.Task) (agent.Result, error) {
			<-ctx.Done()
			time.Sleep(ends)
			return agent.Result{Reply: "just so"}, err
		})
	}
	for _, x := range []struct {
		name  string
		child agent.Agent
		want  string
	}{
		{"in time", child("a", time.Second, nil), "done a:x 1s"},
		{"late", child("a", time.Minute, nil), "timeout a took longer than 2s 2s"},
		{"late and slow", slow(100*time.Millisecond, errors.New("stopped")), "timeout slow took longer than 2s 2.1s"},
		{"done in the grace", slow(100*time.Millisecond, nil), "done just so 2.1s"},
		{"failed before", child("a", time.Second, errors.New("no")), "failed no 1s"},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, _ := agent.Run(t.Context(), workflow.NewTimeout("t", workflow.TimeoutOptions{}, 2*time.Second, x.child), agent.Task{Input: "x", Origin: "test"})
				said := r.Reply
				if !r.OK() {
					said = r.Reason
				}
				check(t, fmt.Sprint(r.Status, " ", said, " ", r.Elapsed), x.want)
			})
		})
	}
}

// A stop ends whatever runs within 50 ms, also what does not listen, where a
// node is there that can leave it behind.
func TestStopWithin50ms(t *testing.T) {
	for _, around := range []func(c agent.Agent) agent.Agent{
		func(c agent.Agent) agent.Agent {
			return workflow.NewTimeout("t", workflow.TimeoutOptions{}, time.Hour, c)
		},
		func(c agent.Agent) agent.Agent {
			return workflow.NewParallel("p", workflow.ParallelOptions{}, child("a", time.Hour, nil), c)
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			forever, release := context.WithCancel(context.Background())
			defer release()
			time.AfterFunc(time.Second, cancel)
			r, _ := agent.Run(ctx, workflow.NewSequence("s", workflow.SequenceOptions{}, around(deaf(forever.Done()))), agent.Task{})
			if r.Status != agent.Cancelled || r.Elapsed > 1050*time.Millisecond {
				t.Errorf("got %v after %v", r.Status, r.Elapsed)
			}
		})
	}
	// Everything else runs its children on its own goroutine, and ends with
	// them: at once on a real clock too, however deep.
	for kind, tree := range nodes(child("c", time.Hour, nil), child("b", time.Hour, nil), workflow.Options{}) {
		for i := range 20 {
			tree = workflow.NewSequence(fmt.Sprint(i), workflow.SequenceOptions{}, tree)
		}
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan agent.Result)
		go func() {
			r, _ := agent.Run(ctx, tree, agent.Task{})
			over <- r
		}()
		cancel()
		start := time.Now()
		r := <-over
		if d := time.Since(start); d > 50*time.Millisecond || r.Status != agent.Cancelled {
			t.Errorf("%s: got %v %v after the stop", kind, r.Status, d)
		}
	}
}

// The defects of other systems that must not be ours: after a failure, a
// timeout, a panic or a stop a fallback does the right thing, and the next run
// knows nothing of it.
func TestNothingIsPoisoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backup := child("backup", 0, nil)
		fb := func(c agent.Agent) agent.Agent {
			return workflow.NewFallback("f", workflow.FallbackOptions{}, c, backup)
		}
		late := workflow.NewTimeout("", workflow.TimeoutOptions{}, time.Second, child("a", time.Hour, nil))
		for _, c := range []agent.Agent{late, child("panics", 0, nil), child("a", 0, errors.New("no")), late} {
			r, _ := agent.Run(t.Context(), fb(c), agent.Task{Input: "x", Origin: "test"})
			check(t, outcomeOf(r)+" "+r.By, "done backup:x backup")
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second/2, cancel)
		r, _ := agent.Run(ctx, fb(late), agent.Task{Input: "x", Origin: "test"})
		check(t, outcome(r), "cancelled a=cancelled")
		r, _ = agent.Run(t.Context(), fb(late), agent.Task{Input: "x", Origin: "test"})
		check(t, outcomeOf(r), "done backup:x")
	})
}

func TestSequenceTasks(t *testing.T) {
	var got []string
	see := func(reply string) agent.Agent {
		return agent.Func(reply, func(ctx context.Context, t agent.Task) (agent.Result, error) {
			first, _ := workflow.TaskOf(ctx)
			got = append(got, t.Text()+"<"+first.Text())
			return agent.Result{Reply: reply}, nil
		})
	}
	for _, pass := range []bool{false, true} {
		seq := workflow.NewSequence("s", workflow.SequenceOptions{PassTask: pass}, see("one"),
			workflow.NewSequence("inner", workflow.SequenceOptions{}, see("two"), see("three")))
		r, _ := agent.Run(t.Context(), seq, agent.Task{Input: "go", Origin: "test"})
		check(t, r.Reply, "three")
		check(t, len(r.Children), "2")
	}
	check(t, got, "[go<go one<go two<go go<go go<go two<go]")
	r, _ := agent.Run(t.Context(), workflow.NewSequence("s", workflow.SequenceOptions{}, see(""), see("x")), agent.Task{Input: "go", Origin: "test"})
	check(t, r.Status, "done") // a blank reply is no failure
}

func TestLoopUntil(t *testing.T) {
	n := 0
	count := agent.Func("count", func(_ context.Context, t agent.Task) (agent.Result, error) {
		n++
		return agent.Result{Reply: fmt.Sprint(t.Text(), n)}, nil
	})
	until := func(f func(v workflow.View) (bool, error)) workflow.LoopOptions {
		return workflow.LoopOptions{Until: func(_ context.Context, v workflow.View) (bool, error) { return f(v) }}
	}
	run := func(o workflow.LoopOptions, c agent.Agent) string {
		n = 0
		r, _ := agent.Run(t.Context(), workflow.NewLoop("l", o, c), agent.Task{Input: "x", Origin: "test"})
		if r.OK() {
			return "done " + r.Reply
		}
		return string(r.Status) + " " + r.Reason
	}
	three := func(v workflow.View) (bool, error) { return v.Count == 3 && v.Task.Input == "x", nil }
	check(t, run(until(three), count), "done x123")
	o := until(three)
	o.PassTask = true
	check(t, run(o, count), "done x3")
	check(t, run(until(func(workflow.View) (bool, error) { return false, nil }), count), "failed max_iterations")
	check(t, run(until(func(workflow.View) (bool, error) { return false, errors.New("no world") }), count), "failed until: no world")
	check(t, run(until(func(workflow.View) (bool, error) { panic("oh") }), count), "failed until: panic: oh")
	// A condition of the author's outranks what the child says of itself.
	check(t, run(until(func(v workflow.View) (bool, error) { return v.Last.Status == agent.Failed, nil }), child("c", 0, errors.New("no"))), "done c:x")
}

func TestRetryBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		start := time.Now()
		bad := agent.Func("bad", func(context.Context, agent.Task) (agent.Result, error) {
			at = append(at, time.Since(start))
			if len(at) == 4 {
				return agent.Result{}, fmt.Errorf("%w: rude", agent.ErrBlocked)
			}
			return agent.Result{}, errors.New("no")
		})
		r, _ := agent.Run(t.Context(), workflow.NewRetry("", workflow.RetryOptions{MaxAttempts: 9}, bad), agent.Task{})
		check(t, fmt.Sprint(outcomeOf(r), " ", at), "blocked rude [0s 200ms 600ms 1.4s]")
	})
}

func TestRunOnce(t *testing.T) {
	n := 0
	once := workflow.NewRunOnce("", workflow.Options{}, agent.Func("a", func(context.Context, agent.Task) (agent.Result, error) {
		n++
		return agent.Result{Reply: fmt.Sprint(n)}, nil
	}))
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	_, _ = agent.Run(stopped, once, agent.Task{}) // does not count
	for range 3 {
		r, _ := agent.Run(t.Context(), once, agent.Task{})
		check(t, outcomeOf(r), "done 1")
	}
}

func TestParallelChildrenHaveTheirOwnConversations(t *testing.T) {
	got := make(chan string, 2)
	see := agent.Func("a", func(_ context.Context, t agent.Task) (agent.Result, error) {
		got <- t.Conversation
		return agent.Result{}, nil
	})
	_, _ = agent.Run(t.Context(), workflow.NewParallel("p", workflow.ParallelOptions{}, see, see), agent.Task{Conversation: "c"})
	all := []string{<-got, <-got}
	slices.Sort(all)
	check(t, all, "[c/p/0 c/p/1]")
}
