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

// script is an action with one letter per tick: r(unning), s(uccess), f(ailure),
// p(anic); the last one again.
func (d *diary) script(name, letters string) agent.Agent {
	i := 0
	return workflow.NewAction(name, func(context.Context) (workflow.TickStatus, error) {
		c := letters[min(i, len(letters)-1)]
		i++
		d.note("%s%c", name, c)
		switch c {
		case 's':
			return workflow.Success, nil
		case 'f':
			return workflow.Failure, nil
		case 'p':
			panic("oh")
		}
		return workflow.Running, nil
	}, func(context.Context) { d.note("%s halted", name) })
}

func TestTicks(t *testing.T) {
	type o = workflow.Options
	re := workflow.SequenceOptions{Reactive: true}
	for _, x := range []struct {
		name string
		tree func(d *diary) agent.Agent
		want string // per tick: what was done, and the root's status
	}{
		{"sequence remembers", func(d *diary) agent.Agent {
			return workflow.NewSequence("s", workflow.SequenceOptions{}, d.script("a", "s"), d.script("b", "rs"))
		}, "as br running | bs success | as bs success"},
		{"reactive sequence halts", func(d *diary) agent.Agent {
			return workflow.NewSequence("s", re, d.script("a", "sf"), d.script("b", "r"))
		}, "as br running | af b halted failure | af failure"},
		{"fallback remembers", func(d *diary) agent.Agent {
			return workflow.NewFallback("s", workflow.FallbackOptions{}, d.script("a", "f"), d.script("b", "rs"))
		}, "af br running | bs success | af bs success"},
		{"reactive fallback preempts", func(d *diary) agent.Agent {
			return workflow.NewFallback("s", workflow.FallbackOptions{Reactive: true}, d.script("a", "fr"), d.script("b", "r"))
		}, "af br running | ar b halted running | ar running"},
		{"a panic is a failure", func(d *diary) agent.Agent {
			return workflow.NewFallback("s", workflow.FallbackOptions{}, d.script("a", "p"), d.script("b", "s"))
		}, "ap bs success | ap bs success | ap bs success"},
		{"invert", func(d *diary) agent.Agent { return workflow.NewInvert("", o{}, d.script("a", "rfsp")) },
			"ar running | af success | as failure | ap failure"},
		{"parallel", func(d *diary) agent.Agent {
			return workflow.NewParallel("p", workflow.ParallelOptions{Need: 1}, d.script("a", "r"), d.script("b", "rs"))
		}, "ar br running | ar bs a halted success | ar bs a halted success"},
		{"retry", func(d *diary) agent.Agent {
			return workflow.NewRetry("", workflow.RetryOptions{MaxAttempts: 2, Backoff: -1}, d.script("a", "f"))
		}, "af running | af failure | af running"},
		{"retry waits", func(d *diary) agent.Agent {
			return workflow.NewRetry("", workflow.RetryOptions{Backoff: 2 * time.Second}, d.script("a", "fs"))
		}, "af running | running | as success"},
		{"repeat", func(d *diary) agent.Agent { return workflow.NewRepeat("", o{}, 2, d.script("a", "s")) },
			"as running | as success | as running"},
		{"loop", func(d *diary) agent.Agent {
			return workflow.NewLoop("l", workflow.LoopOptions{Until: func(_ context.Context, v workflow.View) (bool, error) { return v.Count == 2, nil }}, d.script("a", "s"))
		}, "as running | as success | as running"},
		{"once", func(d *diary) agent.Agent { return workflow.NewRunOnce("", o{}, d.script("a", "rs")) },
			"ar running | as success | success"},
		{"delay", func(d *diary) agent.Agent { return workflow.NewDelay("", o{}, 2*time.Second, d.script("a", "s")) },
			"running | running | as success | running"},
		{"timeout", func(d *diary) agent.Agent {
			return workflow.NewTimeout("", workflow.TimeoutOptions{}, 2*time.Second, d.script("a", "r"))
		}, "ar running | ar running | a halted failure | ar running"},
		{"switch", func(d *diary) agent.Agent {
			n := 0
			return workflow.NewSwitch("s", workflow.SwitchOptions{Default: d.script("b", "s"), Value: func(context.Context, workflow.View) (string, error) {
				n++
				return fmt.Sprint(n), nil
			}}, workflow.Route{Name: "1", Agent: d.script("a", "rs")})
		}, "ar running | as success | bs success"},
		{"guard", func(d *diary) agent.Agent {
			n := 0
			g := &workflow.Guard{Name: "g", Check: func(context.Context) (bool, error) { n++; return n != 2, nil }}
			return workflow.NewSequence("s", workflow.SequenceOptions{Options: o{Guard: g, OnHalt: d.halt("s")}}, d.script("a", "r"))
		}, "ar running | a halted halt s: guard g <nil> failure | ar running"},
		{"an agent runs beside", func(d *diary) agent.Agent {
			return workflow.NewSequence("s", workflow.SequenceOptions{}, child("c", 1500*time.Millisecond, nil), d.script("a", "s"))
		}, "running | running | as success"},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &diary{}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				tree := workflow.NewTicking(ctx, x.tree(d), agent.Task{})
				var got []string
				for range strings.Split(x.want, "|") {
					d.lines = nil
					s := tree.Tick()
					got = append(got, strings.Join(append(d.lines, s.String()), " "))
					time.Sleep(time.Second)
				}
				check(t, strings.Join(got, " | "), x.want)
				tree.Halt()
			})
		})
	}
}

func TestTickRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, live := &diary{}, workflow.NewLive()
		ctx := workflow.WithRuntime(t.Context(), workflow.Runtime{Trace: live})
		tick := workflow.NewTick("t", workflow.Options{OnHalt: d.halt("t")}, 50*time.Millisecond,
			workflow.NewSequence("s", workflow.SequenceOptions{}, d.script("a", "rrrs"), d.script("b", "r")))
		stopped, cancel := context.WithTimeout(ctx, 170*time.Millisecond)
		defer cancel()
		r, _ := agent.Run(stopped, tick, agent.Task{})
		check(t, fmt.Sprint(r.Status, " ", r.Elapsed), "timeout 170ms")
		check(t, d, "ar, ar, ar, as, br, b halted, halt t: timeout <nil>")
		check(t, live.Outline(tick).Text(), `⏱ t (tick every 50ms) timeout 170ms: context deadline exceeded
  ■ s (sequence) cancelled 170ms
    ✓ a (action) done 150ms
    ■ b (action) cancelled 20ms
`)
		r, err := agent.Run(ctx, workflow.NewTick("", workflow.Options{}, 0, d.script("p", "p")), agent.Task{})
		var p *agent.Panic
		if r.Status != agent.Failed || !errors.As(err, &p) {
			t.Errorf("got %v %v", r.Status, err)
		}
	})
}
