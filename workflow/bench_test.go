package workflow_test

import (
	"context"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"time"

	"edged/agent"
	"edged/bus"
	"edged/workflow"
)

func leaf(name string) agent.Agent {
	return agent.Func(name, func(context.Context, agent.Task) (agent.Result, error) { return agent.Result{}, nil })
}

// BenchmarkNode gives what a node costs: ten leaves, each in a sequence of its
// own, less ten leaves without. The limit is a leaf run by agent.Run.
func BenchmarkNode(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // as the program does at start
	var bare, each []agent.Agent
	for range 10 {
		bare = append(bare, leaf("a"))
		each = append(each, workflow.NewSequence("s", workflow.SequenceOptions{}, leaf("a")))
	}
	row := func(list []agent.Agent) agent.Agent {
		return workflow.NewSequence("root", workflow.SequenceOptions{}, list...)
	}
	var less float64
	measure := func(b *testing.B, a agent.Agent, ctx context.Context, nodes float64) float64 {
		b.ReportAllocs()
		for b.Loop() {
			if r, err := agent.Run(ctx, a, agent.Task{Input: "x", Origin: "test"}); !r.OK() {
				b.Fatal(err)
			}
		}
		ns := float64(b.Elapsed().Nanoseconds()) / float64(b.N)
		b.ReportMetric((ns-less)/nodes, "ns/node")
		return ns
	}
	none := context.Background()
	robot := bus.New(bus.Options{})
	defer robot.Close(context.Background())
	live := workflow.WithRuntime(none, workflow.Runtime{Trace: workflow.NewLive()})
	onBus := workflow.WithRuntime(none, workflow.Runtime{Trace: workflow.OnBus(robot)})
	b.Run("limit", func(b *testing.B) { measure(b, leaf("a"), none, 1) })
	for _, x := range []struct {
		name string
		ctx  context.Context
	}{{"edged", none}, {"live", live}, {"bus", onBus}} {
		b.Run(x.name+"/leaves", func(b *testing.B) { less = 0; less = measure(b, row(bare), x.ctx, 10) })
		b.Run(x.name+"/nodes", func(b *testing.B) { measure(b, row(each), x.ctx, 10) })
	}
}

// BenchmarkTick101 ticks the tree of the comparison: a sequence of ten
// fallbacks of a condition that is false and seven actions. The limit is a loop
// over its 80 leaves' functions.
func BenchmarkTick101(b *testing.B) {
	n := 0
	no := func(context.Context) (bool, error) { n++; return false, nil }
	yes := func(context.Context) (workflow.TickStatus, error) { n++; return workflow.Success, nil }
	var list []agent.Agent
	for range 10 {
		var acts []agent.Agent
		for range 7 {
			acts = append(acts, workflow.NewAction("act", yes, nil))
		}
		list = append(list, workflow.NewFallback("f", workflow.FallbackOptions{},
			workflow.NewCondition("no", no), workflow.NewSequence("s", workflow.SequenceOptions{}, acts...)))
	}
	root := workflow.NewSequence("root", workflow.SequenceOptions{}, list...)
	b.Run("limit", func(b *testing.B) {
		ctx := context.Background()
		for b.Loop() {
			for range 10 {
				_, _ = no(ctx)
				for range 7 {
					_, _ = yes(ctx)
				}
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/101, "ns/node")
	})
	b.Run("edged", func(b *testing.B) {
		t := workflow.NewTicking(context.Background(), root, agent.Task{})
		b.ReportAllocs()
		for b.Loop() {
			if s := t.Tick(); s != workflow.Success {
				b.Fatal(s, t.Err())
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/101, "ns/node")
	})
}

// BenchmarkGuardCancel gives the time from the publishing of a change to the
// cancelled child, over the bus: p99 and median.
func BenchmarkGuardCancel(b *testing.B) {
	robot := bus.New(bus.Options{})
	defer robot.Close(context.Background())
	on := workflow.OnBus(robot)
	ctx := workflow.WithRuntime(context.Background(), workflow.Runtime{Watcher: on})
	var mu sync.Mutex
	safe := true
	set := func(v bool) {
		mu.Lock()
		safe = v
		mu.Unlock()
	}
	guard := &workflow.Guard{Name: "safe", Check: func(ctx context.Context) (bool, error) {
		workflow.Read(ctx, "board/safe")
		mu.Lock()
		defer mu.Unlock()
		return safe, nil
	}}
	running, ended := make(chan struct{}), make(chan time.Time)
	child := agent.Func("drive", func(ctx context.Context, _ agent.Task) (agent.Result, error) {
		running <- struct{}{}
		<-ctx.Done()
		ended <- time.Now()
		return agent.Result{}, ctx.Err()
	})
	tree := workflow.NewStep(child, workflow.Options{Guard: guard})
	var took []time.Duration
	for b.Loop() {
		set(true)
		over := make(chan struct{})
		go func() {
			_, _ = agent.Run(ctx, tree, agent.Task{})
			close(over)
		}()
		<-running
		set(false)
		start := time.Now()
		if _, err := robot.Publish(ctx, "bench", "board/safe", false); err != nil {
			b.Fatal(err)
		}
		took = append(took, (<-ended).Sub(start))
		<-over
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
}
