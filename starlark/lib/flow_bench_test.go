package lib

import (
	"context"
	"runtime/debug"
	"testing"
	"testing/fstest"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"edged/agent"
	"edged/blackboard"
	"edged/bus"
	"edged/bus/trace"
	"edged/hw"
	"edged/workflow"
)

const flowScript = `
def leaf(task):
    return task

bare = Sequence("root", [leaf for _ in range(10)])
each = Sequence("root", [Sequence("s", [leaf]) for _ in range(10)])

no = Condition("no", lambda ctx: False)
act = Action("act", lambda ctx: True)
tree = Sequence("tree", [Fallback("f", [no, Sequence("s", [act] * 7)]) for _ in range(10)])
`

// flowBench loads the script into a robot and gives its nodes. What happens is
// recorded as in one that runs, or nobody hears it.
func flowBench(b *testing.B, recorded bool) func(name string) *flow {
	events := bus.New(bus.Options{})
	board, err := blackboard.Open(events, blackboard.Options{})
	if err != nil {
		b.Fatal(err)
	}
	rig, err := hw.NewRig(events, hw.Options{})
	if err != nil {
		b.Fatal(err)
	}
	record := func() error { return nil }
	if recorded {
		r, err := trace.Record(events, trace.Options{Dir: b.TempDir()})
		if err != nil {
			b.Fatal(err)
		}
		record = r.Close
		if _, err := events.Tap("*", func(e bus.Event) { // as who keeps retained events does
			if e.Keep {
				b.Error("a node was kept")
			}
		}); err != nil {
			b.Fatal(err)
		}
	}
	h, err := Load(b.Context(), &Host{Name: "box", Bus: events, Board: board, Rig: rig}, fstest.MapFS{"main.star": {Data: []byte(flowScript)}}, Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = h.Stop(context.Background())
		_ = board.Close()
		_ = events.Close(context.Background())
		if err := record(); err != nil {
			b.Error(err)
		}
	})
	return func(name string) *flow {
		a, err := agentKind.Unwrap(h.program.Module("main.star").Globals[name])
		if err != nil {
			b.Fatal(err)
		}
		return a.(*flow)
	}
}

// BenchmarkFlowNode gives what a node with a leaf of a script costs: told on
// the bus and recorded, as in a robot (edged), told where nobody listens
// (unheard), and not told (quiet). The limit is the leaf called by the
// interpreter alone.
func BenchmarkFlowNode(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // as the program does at start
	told := func(f *flow) agent.Agent { return f }
	for _, x := range []struct {
		name     string
		recorded bool
		run      func(f *flow) agent.Agent
	}{{"edged", true, told}, {"unheard", false, told}, {"quiet", false, func(f *flow) agent.Agent { return f.node }}} {
		for _, kind := range []string{"bare", "each"} {
			b.Run(x.name+"/"+kind, func(b *testing.B) {
				a := x.run(flowBench(b, x.recorded)(kind))
				b.ReportAllocs()
				for b.Loop() {
					if r, err := agent.Run(b.Context(), a, agent.Task{Input: "x"}); err != nil {
						b.Fatal(r, err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/10, "ns/node")
			})
		}
	}
	b.Run("limit", func(b *testing.B) {
		globals, err := starlark.ExecFileOptions(&syntax.FileOptions{}, &starlark.Thread{}, "main.star", "def leaf(task):\n    return task\n", nil)
		if err != nil {
			b.Fatal(err)
		}
		thread, args := &starlark.Thread{}, starlark.Tuple{starlark.String("x")}
		for b.Loop() {
			if _, err := starlark.Call(thread, globals["leaf"], args, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkFlowTick101 ticks the tree of the comparison with leaves of a script
// (edged). The limit is its 80 leaves called by the interpreter alone.
func BenchmarkFlowTick101(b *testing.B) {
	get := flowBench(b, false)
	perNode := func(b *testing.B) { b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/101, "ns/node") }
	b.Run("edged", func(b *testing.B) {
		t := workflow.NewTicking(context.Background(), get("tree").node, agent.Task{})
		b.ReportAllocs()
		for b.Loop() {
			if s := t.Tick(); s != workflow.Success {
				b.Fatal(s, t.Err())
			}
		}
		perNode(b)
	})
	b.Run("limit", func(b *testing.B) {
		globals, err := starlark.ExecFileOptions(&syntax.FileOptions{}, &starlark.Thread{}, "main.star", "no = lambda ctx: False\nact = lambda ctx: True\n", nil)
		if err != nil {
			b.Fatal(err)
		}
		thread, args := &starlark.Thread{}, starlark.Tuple{starlark.String("x")}
		b.ReportAllocs()
		for b.Loop() {
			for i := range 80 {
				fn := globals["act"]
				if i%8 == 0 {
					fn = globals["no"]
				}
				if _, err := starlark.Call(thread, fn, args, nil); err != nil {
					b.Fatal(err)
				}
			}
		}
		perNode(b)
	})
}
