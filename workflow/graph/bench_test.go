package graph_test

import (
	"context"
	"fmt"
	"testing"

	"edged/agent"
	"edged/blackboard"
	"edged/bus"
	"edged/workflow"
	"edged/workflow/graph"
)

// ring is a cycle of ten functions that is gone round until so many have run.
func ring(steps int, o graph.Options) *graph.Graph {
	o.MaxSteps = steps + 1
	o.State = map[string]graph.Reducer{"n": graph.Reducers()["sum"]}
	g := graph.New("ring", o)
	for i := range 10 {
		id := fmt.Sprint("f", i)
		g.Func(id, func(context.Context, graph.State) (any, error) { return map[string]any{"n": int64(1)}, nil }, graph.NodeOptions{})
		next := fmt.Sprint("f", (i+1)%10)
		if i < 9 {
			g.Edge(id, next)
			continue
		}
		g.Branch(id, func(_ context.Context, s graph.State) (string, error) {
			if s["n"].(int64) >= int64(steps) {
				return graph.End, nil
			}
			return next, nil
		}, []string{next, graph.End})
	}
	g.Edge(graph.Start, "f0")
	return g
}

// BenchmarkStep gives what a node of a graph costs: a function, its edge, its
// write to the state. The limit is the function run by agent.Run.
func BenchmarkStep(b *testing.B) {
	const steps = 1000
	each := func(b *testing.B, n int) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/step")
	}
	b.Run("limit", func(b *testing.B) {
		f := agent.Func("f", func(context.Context, agent.Task) (agent.Result, error) {
			return agent.Result{Output: map[string]any{"n": int64(1)}}, nil
		})
		for b.Loop() {
			_, _ = agent.Run(context.Background(), f, agent.Task{})
		}
		each(b, 1)
	})
	run := func(b *testing.B, ctx context.Context, n int, o graph.Options) {
		g := ring(n, o)
		for b.Loop() {
			if r, err := agent.Run(ctx, g, agent.Task{}); !r.OK() {
				b.Fatal(err)
			}
		}
		each(b, n)
	}
	b.Run("none", func(b *testing.B) { run(b, context.Background(), steps, graph.Options{}) })
	b.Run("bus", func(b *testing.B) {
		robot := bus.New(bus.Options{})
		defer robot.Close(context.Background())
		run(b, workflow.WithRuntime(context.Background(), workflow.Runtime{Trace: workflow.OnBus(robot)}), steps, graph.Options{})
	})
	robot := bus.New(bus.Options{})
	defer robot.Close(context.Background())
	board, err := blackboard.Open(robot, blackboard.Options{Path: b.TempDir() + "/board"})
	if err != nil {
		b.Fatal(err)
	}
	defer board.Close()
	b.Run("commit", func(b *testing.B) { // the limit of the next
		recs := board.Records("bench")
		for b.Loop() {
			if err := recs.Put(context.Background(), "x", make([]byte, 200), true); err != nil {
				b.Fatal(err)
			}
		}
		each(b, 1)
	})
	b.Run("node", func(b *testing.B) {
		runs := workflow.NewRuns(board.Records("runs"), workflow.RunsOptions{})
		run(b, workflow.WithRuntime(context.Background(), workflow.Runtime{Runs: runs}), 100, graph.Options{Checkpoint: graph.AfterNode})
	})
}

// BenchmarkCheck checks a graph of a thousand nodes with forks, joins, branches
// and cycles.
func BenchmarkCheck(b *testing.B) {
	f := func(context.Context, graph.State) (any, error) { return nil, nil }
	for b.Loop() {
		g := graph.New("big", graph.Options{})
		name := func(i int) string {
			if i >= 1000 {
				return graph.End
			}
			return fmt.Sprint("n", i)
		}
		for i := range 1000 {
			o := graph.NodeOptions{}
			if i%7 == 0 {
				o.Join = graph.All
			}
			g.Func(name(i), f, o)
			switch i % 3 {
			case 0:
				g.Edge(name(i), name(i+1))
				g.Edge(name(i), name(i+2))
			case 1:
				g.Branch(name(i), to(name(i+1)), []string{name(i + 1), name(i / 2)})
			default:
				g.Edge(name(i), name(i+1))
			}
		}
		g.Edge(graph.Start, "n0")
		if err := faults(g); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1000, "ms/check")
}
