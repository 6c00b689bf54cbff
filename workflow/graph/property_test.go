package graph_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"edged/agent"
	"edged/agent/llm"
	"edged/workflow"
	"edged/workflow/graph"
	"edged/workflow/workflowtest"
)

// plan is a random graph that always can be built: what its nodes do and where
// its edges lead depends on the plan and the state alone.
type plan struct {
	nodes []planned
	start []int
}

type planned struct {
	ends   string
	wait   time.Duration
	write  bool
	all    bool
	next   []int // static, to all of them
	branch []int // or to the one that the number of visits says; the last is the end
}

func drawPlan(r *rapid.T) plan {
	n := rapid.IntRange(1, 7).Draw(r, "nodes")
	p := plan{start: []int{0}}
	if rapid.Bool().Draw(r, "wide") {
		p.start = append(p.start, rapid.IntRange(0, n-1).Draw(r, "start"))
	}
	for i := range n {
		ends := ""
		if rapid.IntRange(0, 20).Draw(r, "luck") == 0 {
			ends = rapid.SampledFrom([]string{"fail", "panic"}).Draw(r, "ends")
		}
		one := planned{ends: ends, wait: time.Duration(rapid.IntRange(0, 3).Draw(r, "wait")) * time.Second,
			write: rapid.Bool().Draw(r, "write"), all: rapid.Bool().Draw(r, "all")}
		if rapid.Bool().Draw(r, "branch") { // anywhere, for as long as not much has happened
			one.branch = []int{rapid.IntRange(0, n).Draw(r, "back"), n}
		} else { // or on
			one.next = []int{rapid.IntRange(i+1, n).Draw(r, "on")}
		}
		p.nodes = append(p.nodes, one)
		if i == 0 {
			continue
		}
		from := &p.nodes[rapid.IntRange(0, i-1).Draw(r, "from")] // so that something leads to it
		if from.branch != nil {
			from.branch = append([]int{i}, from.branch...)
		} else {
			from.next = append(from.next, i)
		}
	}
	return p
}

func (p plan) name(i int) string {
	if i == len(p.nodes) {
		return graph.End
	}
	return fmt.Sprint("n", i)
}

// build makes the graph. Waits are turned round with flip, so that other
// branches are the quicker ones.
func (p plan) build(flip bool, ran func(node string, sees string)) *graph.Graph {
	rs := graph.Reducers()
	g := graph.New("g", graph.Options{MaxSteps: 60, State: map[string]graph.Reducer{"log": rs["append"], "n": rs["sum"]},
		Checkpoint: graph.AfterNode, Options: workflow.Options{OnInDoubt: func(context.Context, workflow.Doubt) (workflow.Decision, error) { return workflow.RunAgain, nil }}})
	for i, one := range p.nodes {
		id, wait := p.name(i), one.wait
		if flip {
			wait = 3*time.Second - wait
		}
		o := graph.NodeOptions{}
		if one.all {
			o.Join = graph.All
		}
		if one.write {
			o.Effect = llm.Write
		}
		g.Func(id, func(ctx context.Context, s graph.State) (any, error) {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			ran(id, textOf(s))
			switch one.ends {
			case "fail":
				return nil, errors.New("no")
			case "panic":
				panic("oh")
			}
			return map[string]any{"log": id, "n": int64(1)}, nil
		}, o)
		for _, to := range one.next {
			g.Edge(id, p.name(to))
		}
		if one.branch != nil {
			var names []string
			for _, to := range one.branch {
				names = append(names, p.name(to))
			}
			g.Branch(id, func(_ context.Context, s graph.State) (string, error) {
				return names[min(int(s["n"].(int64))/2, len(names)-1)], nil
			}, names)
		}
	}
	for _, to := range p.start {
		g.Edge(graph.Start, p.name(to))
	}
	return g
}

// sound reports whether the graph has no errors.
func (p plan) sound() bool { return faults(p.build(false, func(string, string) {})) == nil }

func summary(r agent.Result) string {
	if r.OK() {
		return "done " + textOf(r.Output)
	}
	return string(r.Status)
}

// Whichever branch is the quicker one: the same nodes run, see the same, and
// the same comes of it.
func TestSpeedDoesNotMatter(t *testing.T) {
	sound := 0
	rapid.Check(t, func(r *rapid.T) {
		p := drawPlan(r)
		if !p.sound() {
			return
		}
		sound++
		var seen [2][]string
		var got [2]agent.Result
		for i, flip := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				g := p.build(flip, func(node, sees string) {
					mu.Lock()
					defer mu.Unlock()
					seen[i] = append(seen[i], node+" "+sees)
				})
				ctx, _ := on(t.Context(), workflowtest.NewDisk())
				got[i], _ = agent.Run(ctx, g, agent.Task{Input: "x", Origin: "test"})
			})
		}
		if summary(got[0]) != summary(got[1]) && !strings.Contains(got[0].Reason+got[1].Reason, "max_steps") {
			r.Fatalf("got %s (%s) and %s (%s)", summary(got[0]), got[0].Reason, summary(got[1]), got[1].Reason)
		}
		if !got[0].OK() {
			return // siblings may or may not have been stopped in time
		}
		slices.Sort(seen[0])
		slices.Sort(seen[1])
		if !slices.Equal(seen[0], seen[1]) {
			r.Fatalf("ran\n%s\nand\n%s", strings.Join(seen[0], "\n"), strings.Join(seen[1], "\n"))
		}
	})
	if sound < 80 {
		t.Errorf("only %d graphs were sound", sound)
	}
}

// A run that dies any number of times and is resumed ends as if nothing had
// happened.
func TestAnyGraphSurvives(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := drawPlan(r)
		if !p.sound() {
			return
		}
		for i := range p.nodes {
			p.nodes[i].wait = 0
		}
		run := func(ctx context.Context) agent.Result {
			res, _ := agent.Run(ctx, p.build(false, func(string, string) {}), agent.Task{Input: "x", Origin: "test"})
			return res
		}
		ctx, _ := on(t.Context(), workflowtest.NewDisk())
		first := run(ctx)
		if strings.Contains(first.Reason, "max_steps") {
			return
		}
		want, d, id := summary(first), workflowtest.NewDisk(), ""
		for range 1000 {
			d.Die, d.Through = rapid.IntRange(1, 12).Draw(r, "dies at"), rapid.Bool().Draw(r, "gets through")
			ctx, cancel := context.WithCancel(t.Context())
			d.Power = cancel
			ctx, runs := on(ctx, d)
			var res agent.Result
			if id == "" {
				res = run(ctx)
			} else {
				res, _ = p.build(false, func(string, string) {}).Resume(ctx, runs, id, "")
			}
			cancel()
			dead := d.Dead()
			d = d.Reboot()
			_, runs = on(t.Context(), d)
			if list := runs.List(); len(list) > 0 {
				id = list[0].ID
				if !list[0].Ended.IsZero() {
					got := list[0].State
					if !dead {
						got = summary(res)
					} else if got == "done" {
						got = want[:4]
						if !first.OK() {
							got = "done, and should not be"
						} else {
							got = want
						}
					}
					if got != want {
						r.Fatalf("got %s, want %s", got, want)
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

// No random graph makes the checker or the drawings panic, and a graph that
// has no errors runs to some outcome.
func TestAnyGraphIsChecked(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		g := graph.New("g", graph.Options{MaxSteps: rapid.SampledFrom([]int{0, -1, 7}).Draw(r, "steps")})
		name := rapid.SampledFrom([]string{"a", "b", "c", "", "END", "START", "e1", "x"})
		for range rapid.IntRange(0, 4).Draw(r, "nodes") {
			g.Func(name.Draw(r, "node"), func(context.Context, graph.State) (any, error) { return nil, nil },
				graph.NodeOptions{Join: rapid.SampledFrom([]graph.Join{"", graph.All, "some"}).Draw(r, "join")})
		}
		for range rapid.IntRange(0, 6).Draw(r, "edges") {
			src := name.Draw(r, "src")
			switch rapid.IntRange(0, 3).Draw(r, "kind") {
			case 0:
				g.Edge(src, name.Draw(r, "dst"), workflow.Guardrail{Name: "r", On: workflow.Reroute, Reroute: name.Draw(r, "reroute"),
					Check: func(context.Context, any, map[string]any) (workflow.Finding, error) { return workflow.Finding{}, nil }})
			case 1:
				dst := name.Draw(r, "dst")
				g.Branch(src, func(context.Context, graph.State) (string, error) { return dst, nil }, []string{dst})
			case 2:
				g.Discover(src, graph.Discovery{Query: name.Draw(r, "query"), Fallback: name.Draw(r, "fallback"), Then: name.Draw(r, "then")})
			case 3:
				g.Personality(src, graph.Personality{Trait: name.Draw(r, "trait"), Above: name.Draw(r, "above"), Below: name.Draw(r, "below")})
			}
		}
		_, _, _ = g.Mermaid(), g.Dot(), g.WorstCalls()
		if _, err := json.Marshal(g.Draw()); err != nil {
			r.Fatal(err)
		}
		if faults(g) == nil && !slices.ContainsFunc(g.Check(), func(p graph.Problem) bool { return p.Severity == graph.Error }) {
			if res, err := agent.Run(t.Context(), g, agent.Task{}); res.OK() != (err == nil) {
				r.Fatalf("%v with %v", res.Status, err)
			}
		}
	})
}
