package workflow_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"edged/agent"
	"edged/blackboard"
	"edged/bus"
	"edged/workflow"
	"edged/workflow/workflowtest"
)

// TestIndexIsWhatIsStored: whatever is done with runs, the one that did it and
// one that reads the store afresh know the same.
func TestIndexIsWhatIsStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := &factory{began: map[string]int{}, ended: map[string]int{}}
		d := workflowtest.NewDisk()
		keep := rapid.IntRange(1, 4).Draw(t, "keep")
		runs := workflow.NewRuns(d, workflow.RunsOptions{Keep: keep})
		ctx := workflow.WithRuntime(context.Background(), workflow.Runtime{Runs: runs})
		tree := workflow.NewSequence("s", workflow.SequenceOptions{Options: workflow.Options{Checkpoint: true}}, f.step("a"),
			workflow.NewRepeat("", workflow.Options{}, 2, f.step("b")))
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			list := runs.List()
			pick := func() string {
				if len(list) == 0 {
					return "nobody"
				}
				return rapid.SampledFrom(list).Draw(t, "run").ID
			}
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0, 1:
				_, _ = agent.Run(ctx, tree, agent.Task{Input: "x", Origin: "test"})
			case 2:
				_, _ = runs.Fork(ctx, pick(), rapid.SampledFrom([]string{"", "0", "1"}).Draw(t, "at"))
			case 3:
				_ = runs.Cancel(ctx, pick())
			case 4:
				_ = runs.Forget(ctx, pick())
			case 5:
				_, _ = runs.Resume(ctx, pick(), tree)
			}
		}
		fresh := workflow.NewRuns(d, workflow.RunsOptions{Keep: keep})
		got, want := told(runs), told(fresh)
		if !slices.Equal(got, want) {
			t.Fatalf("got  %v\nwant %v", got, want)
		}
	})
}

// told is all that runs say of themselves.
func told(r *workflow.Runs) (list []string) {
	for _, i := range r.List() {
		all, err := r.Get(i.ID)
		list = append(list, fmt.Sprint(i, all, err))
	}
	return list
}

// BenchmarkRunsList lists ten thousand stored runs of three steps; first is
// with a store that nobody has read yet. The limit goes over the names in the
// store.
func BenchmarkRunsList(b *testing.B) {
	recs, runs, _ := manyRuns(b, 20000)
	perList := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1000, "ms/list")
	}
	b.Run("limit", func(b *testing.B) {
		for b.Loop() {
			n := 0
			for range recs.All() {
				n++
			}
			if n != 40000 {
				b.Fatal(n)
			}
		}
		perList(b)
	})
	list := func(b *testing.B, r *workflow.Runs) {
		if n := len(r.List()); n != 10000 {
			b.Fatal(n)
		}
	}
	b.Run("edged", func(b *testing.B) {
		for b.Loop() {
			list(b, runs)
		}
		perList(b)
	})
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			list(b, workflow.NewRuns(recs, workflow.RunsOptions{}))
		}
		perList(b)
	})
}

// BenchmarkFinish runs a step as a durable run while ten thousand are kept, so
// that each end forgets the oldest one. The limit keeps ten.
func BenchmarkFinish(b *testing.B) {
	for _, c := range []struct {
		name string
		keep int
	}{{"limit", 10}, {"edged", 10000}} {
		b.Run(c.name, func(b *testing.B) {
			_, _, ctx := manyRuns(b, c.keep)
			tree := oneStep()
			_, _ = agent.Run(ctx, tree, agent.Task{Input: "tidy the hall", Origin: "test"})
			for b.Loop() {
				if r, err := agent.Run(ctx, tree, agent.Task{Input: "tidy the hall", Origin: "test"}); !r.OK() {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N), "µs/run")
		})
	}
}

func oneStep() agent.Agent {
	return workflow.NewSequence("one", workflow.SequenceOptions{Options: workflow.Options{Checkpoint: true}}, leaf("a"))
}

// manyRuns fills a store with ten thousand runs of three steps that are over.
func manyRuns(b *testing.B, keep int) (*blackboard.Records, *workflow.Runs, context.Context) {
	robot := bus.New(bus.Options{})
	board, err := blackboard.Open(robot, blackboard.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = board.Close()
		_ = robot.Close(context.Background())
	})
	recs := board.Records("runs")
	runs := workflow.NewRuns(recs, workflow.RunsOptions{Keep: keep})
	ctx := workflow.WithRuntime(context.Background(), workflow.Runtime{Runs: runs})
	tree := workflow.NewSequence("s", workflow.SequenceOptions{Options: workflow.Options{Checkpoint: true}}, leaf("a"), leaf("b"), leaf("c"))
	for range 10000 {
		if r, err := agent.Run(ctx, tree, agent.Task{Input: "tidy the hall", Origin: "test"}); !r.OK() {
			b.Fatal(err)
		}
	}
	return recs, runs, ctx
}
