package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"edged/agent"
	"edged/workflow"
)

// child replies with its name after a while, unless it is told otherwise.
func child(name string, after time.Duration, fail error) agent.Agent {
	return agent.Func(name, func(ctx context.Context, t agent.Task) (agent.Result, error) {
		select {
		case <-time.After(after):
		case <-ctx.Done():
			return agent.Result{}, ctx.Err()
		}
		if name == "panics" {
			panic("oh")
		}
		return agent.Result{Reply: name + ":" + t.Text()}, fail
	})
}

func outcome(r agent.Result) string {
	s := string(r.Status)
	for _, c := range r.Children {
		s += fmt.Sprintf(" %s=%s", c.By, c.Status)
	}
	return s
}

func TestParallel(t *testing.T) {
	a, b, c := child("a", time.Second, nil), child("b", 2*time.Second, nil), child("c", 10*time.Second, nil)
	bad, panics := child("bad", time.Second/2, errors.New("no")), child("panics", time.Second, nil)
	type options = workflow.ParallelOptions
	for _, x := range []struct {
		name    string
		opt     options
		agents  []agent.Agent
		want    string
		elapsed time.Duration
	}{
		{"all", options{}, []agent.Agent{a, b}, "done a=done b=done", 2 * time.Second},
		{"one at a time", options{MaxConcurrency: 1}, []agent.Agent{a, b}, "done a=done b=done", 3 * time.Second},
		{"first", options{Need: 1}, []agent.Agent{c, a, b}, "done c=cancelled a=done b=cancelled", time.Second},
		{"two of three", options{Need: 2}, []agent.Agent{a, bad, b}, "done a=done bad=failed b=done", 2 * time.Second},
		{"a failure ends it", options{}, []agent.Agent{bad, c}, "failed bad=failed c=cancelled", time.Second / 2},
		{"a panic is a failure", options{Need: 1}, []agent.Agent{panics, b}, "done panics=failed b=done", 2 * time.Second},
		{"late", options{Timeout: 3 * time.Second}, []agent.Agent{a, c}, "timeout a=done c=timeout", 3 * time.Second},
		{"late but enough", options{Timeout: 3 * time.Second, Need: 1}, []agent.Agent{bad, a}, "done bad=failed a=done", time.Second},
		{"gather", options{Gather: true}, []agent.Agent{bad, panics, b, a}, "done bad=failed panics=failed b=done a=done", 2 * time.Second},
		{"gather, one late", options{Gather: true, Timeout: 3 * time.Second}, []agent.Agent{bad, c, a}, "done bad=failed c=timeout a=done", 3 * time.Second},
		{"gather, all late", options{Gather: true, Timeout: time.Second / 4}, []agent.Agent{a, c}, "timeout a=timeout c=timeout", time.Second / 4},
		{"gather, none", options{Gather: true}, []agent.Agent{bad, panics}, "failed bad=failed panics=failed", time.Second},
		{"gather, one at a time", options{Gather: true, MaxConcurrency: 1}, []agent.Agent{bad, a}, "done bad=failed a=done", 3 * time.Second / 2},
		{"nobody", options{}, nil, "failed", 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				r, err := agent.Run(t.Context(), workflow.NewParallel("p", x.opt, x.agents...), agent.Task{Input: "x", Origin: "test"})
				if got := outcome(r); got != x.want || agent.StatusOf(err) != r.Status {
					t.Errorf("got %q (%v), want %q", got, err, x.want)
				}
				if d := time.Since(start); d != x.elapsed {
					t.Errorf("took %v, want %v", d, x.elapsed)
				}
			})
		})
	}
}

func TestParallelCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, nil)
		time.AfterFunc(time.Second, cancel)
		r, err := agent.Run(ctx, workflow.NewParallel("p", workflow.ParallelOptions{}, child("a", time.Minute, nil)), agent.Task{})
		if r.Status != agent.Cancelled || !errors.Is(err, context.Canceled) || r.Elapsed != time.Second {
			t.Errorf("got %v %v after %v, want cancelled after 1s", r.Status, err, r.Elapsed)
		}
	})
}

func ExampleNewParallel() {
	say := func(name string) agent.Agent {
		return agent.Func(name, func(_ context.Context, t agent.Task) (agent.Result, error) {
			return agent.Result{Reply: strings.ToUpper(name)}, nil
		})
	}
	p := workflow.NewParallel("morning", workflow.ParallelOptions{}, say("weather"), say("calendar"))
	r, _ := agent.Run(context.Background(), p, agent.Task{Input: "morning briefing?", Origin: "test"})
	fmt.Println(r.Status)
	fmt.Println(r.Reply)
	// Output:
	// done
	// WEATHER
	// CALENDAR
}
