package graph_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"edged/agent"
	"edged/agent/llm/recall"
	"edged/workflow"
	"edged/workflow/graph"
)

// The tests of this file are what another runtime promised and did not do.

func TestCycleRuns(t *testing.T) {
	d, g := &diary{}, graph.New("g", graph.Options{State: map[string]graph.Reducer{"n": graph.Reducers()["sum"]}})
	g.Node("a", d.gives("a", int64(1)), graph.NodeOptions{Writes: []string{"n"}})
	node(g, d.says("b"))
	g.Edge(graph.Start, "a")
	g.Branch("a", func(_ context.Context, s graph.State) (string, error) {
		if s["n"].(int64) == 3 {
			return graph.End, nil
		}
		return "b", nil
	}, []string{"b", graph.End})
	g.Edge("b", "a")
	r := run(t, g, "x")
	check(t, d, "a(x), b(1), a(b), b(1), a(b)")
	check(t, fmt.Sprint(r.Status, ": ", ranIn(r), ": ", r.Output.(map[string]any)["n"]), "done: a, b, a, b, a: 3")
}

func TestEndlessCycleIsBounded(t *testing.T) {
	d, g := &diary{}, graph.New("g", graph.Options{MaxSteps: 5})
	node(g, d.says("a"), d.says("b"))
	g.Edge(graph.Start, "a")
	g.Branch("a", to("b"), []string{"b", graph.End})
	g.Edge("b", "a")
	check(t, outcomeOf(run(t, g, "x")), "failed max_steps: g ran 5 nodes; the cycle b → a → b")
	check(t, d, "a(x), b(a), a(b), b(a), a(b)")
}

func TestBranchGoesWhereItSays(t *testing.T) {
	d, g := &diary{}, graph.New("g", graph.Options{})
	node(g, d.says("a"), d.says("b"), d.says("c"), d.says("d"))
	g.Edge(graph.Start, "a")
	g.Branch("a", to("b"), []string{"b", "c"})
	g.Edge("c", "d")
	g.Edge("b", graph.End)
	g.Edge("d", graph.End)
	check(t, outcomeOf(run(t, g, "x")), "done b")
	check(t, d, "a(x), b(a)") // neither c nor what comes after it
}

func TestParallelOutputsAreKept(t *testing.T) {
	d, g := &diary{}, graph.New("g", graph.Options{})
	node(g, d.says("x"), d.says("y"))
	g.Node("j", d.says("j"), graph.NodeOptions{Join: graph.All})
	g.Edge(graph.Start, "x")
	g.Edge(graph.Start, "y")
	g.Edge("x", "j")
	g.Edge("y", "j")
	g.Edge("j", graph.End)
	r := run(t, g, "in")
	check(t, d.sorted(), `j({"x":"x","y":"y"}), x(in), y(in)`)
	check(t, ranIn(r), "x, y, j")
	check(t, textOf(r.Output), "{'input':'in','j':'j','x':'x','y':'y'}")
}

func TestJoinWaitsOnlyForStartedArms(t *testing.T) {
	for pick, want := range map[string]string{"b": "a(x), b(a), j(b)", "c": "a(x), c(a), d(c), j(d)"} {
		d, g := &diary{}, graph.New("g", graph.Options{})
		node(g, d.says("a"), d.says("b"), d.says("c"), d.says("d"))
		g.Node("j", d.says("j"), graph.NodeOptions{Join: graph.All})
		g.Edge(graph.Start, "a")
		g.Branch("a", to(pick), []string{"b", "c"})
		g.Edge("c", "d")
		g.Edge("b", "j")
		g.Edge("d", "j")
		g.Edge("j", graph.End)
		check(t, outcomeOf(run(t, g, "x")), "done j")
		check(t, d, want)
	}
	// Arms of unlike length, one of which goes elsewhere.
	d, g := &diary{}, graph.New("g", graph.Options{})
	node(g, d.says("a"), d.says("b"), d.says("c"), d.says("d"))
	g.Node("j", d.says("j"), graph.NodeOptions{Join: graph.All})
	for _, n := range []string{"a", "b", "c"} {
		g.Edge(graph.Start, n)
		if n != "b" {
			g.Edge(n, "j")
		}
	}
	g.Branch("b", to(graph.End), []string{"j", "d", graph.End})
	g.Edge("d", "j")
	g.Edge("j", graph.End)
	run(t, g, "x")
	check(t, d.sorted(), `a(x), b(x), c(x), j({"a":"a","c":"c"})`)
}

func TestParallelFailureKeepsWhatItsSiblingDid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, g := &diary{}, graph.New("g", graph.Options{})
		slow := func(name string, wait time.Duration, err error) agent.Agent {
			return agent.Func(name, func(ctx context.Context, _ agent.Task) (agent.Result, error) {
				select {
				case <-time.After(wait):
					d.note("%s", name)
					return agent.Result{Reply: name}, err
				case <-ctx.Done():
					d.note("%s stopped", name)
					return agent.Result{}, ctx.Err()
				}
			})
		}
		for _, a := range []agent.Agent{slow("bad", 2*time.Second, errors.New("jam")), slow("quick", time.Second, nil), slow("slow", time.Hour, nil)} {
			g.Node(a.Name(), a, graph.NodeOptions{})
			g.Edge(graph.Start, a.Name())
			g.Edge(a.Name(), graph.End)
		}
		start := time.Now()
		r := run(t, g, "x")
		check(t, outcomeOf(r), "failed jam")
		check(t, ranIn(r), "bad failed, quick, slow cancelled")
		check(t, d, "quick, bad, slow stopped")
		check(t, fmt.Sprint(r.By, time.Since(start)), "bad2s")
	})
}

// rail is a guardrail that finds one word wrong.
func rail(on workflow.Reaction, reroute string, asked *int) workflow.Guardrail {
	return workflow.Guardrail{Name: "rail", On: on, Reroute: reroute, Check: func(_ context.Context, p any, _ map[string]any) (workflow.Finding, error) {
		*asked++
		switch text := fmt.Sprint(p); {
		case strings.Contains(text, "panic"):
			panic("oh")
		case strings.Contains(text, "error"):
			return workflow.Finding{}, errors.New("no camera")
		case strings.Contains(text, "dirt"):
			if on == workflow.Sanitize {
				return workflow.Replace("clean"), nil
			}
			return workflow.Violates("dirt in it"), nil
		}
		return workflow.Finding{}, nil
	}}
}

func TestGuardrails(t *testing.T) {
	for _, place := range []string{"node", "edge"} {
		for _, c := range []struct {
			on             workflow.Reaction
			says           string
			outcome, order string
		}{
			{workflow.Block, "fine", "done b", "a(in), b(fine)"},
			{workflow.Block, "dirt", "blocked guardrail rail: dirt in it", "a(in)"},
			{"", "dirt", "blocked guardrail rail: dirt in it", "a(in)"},
			{workflow.Block, "panic", "blocked guardrail rail: panic: oh", "a(in)"},
			{workflow.Block, "error", "blocked guardrail rail: no camera", "a(in)"},
			{workflow.Reroute, "dirt", "done other", "a(in), other(dirt)"},
			{workflow.Reroute, "error", "done other", "a(in), other(error)"},
			{workflow.Warn, "dirt", "done b", "a(in), b(dirt)"},
			{workflow.Warn, "panic", "blocked guardrail rail: panic: oh", "a(in)"},
			{workflow.Sanitize, "dirt", "done b", "a(in), b(clean)"},
			{workflow.Sanitize, "error", "blocked guardrail rail: no camera", "a(in)"},
			{workflow.Revise, "dirt", "blocked guardrail rail: dirt in it",
				`a(in), a({"comment":"dirt in it","draft":"dirt","task":"in"}), a({"comment":"dirt in it","draft":"dirt","task":"in"})`},
		} {
			t.Run(fmt.Sprint(place, c.on, c.says), func(t *testing.T) {
				d, asked, g := &diary{}, 0, graph.New("g", graph.Options{})
				gr := rail(c.on, "other", &asked)
				var atNode, atEdge []workflow.Guardrail
				if place == "node" {
					atNode = append(atNode, gr)
				} else {
					atEdge = append(atEdge, gr)
				}
				g.Node("a", d.gives("a", c.says), graph.NodeOptions{Guardrails: atNode})
				node(g, d.says("b"), d.says("other"), d.says("way"))
				g.Branch(graph.Start, to("a"), []string{"a", "way"})
				g.Edge("way", "other")
				g.Edge("a", "b", atEdge...)
				g.Edge("b", graph.End)
				g.Edge("other", graph.End)
				r := run(t, g, "in")
				check(t, outcomeOf(r), c.outcome)
				check(t, d, c.order)
				if asked == 0 {
					t.Error("the check was never asked")
				}
				if r.OK() && c.on == workflow.Sanitize {
					check(t, r.Output.(map[string]any)["a"], "clean")
				}
			})
		}
	}
}

// What a guardrail put in its place on the way out is what the graph says.
func TestSanitizedReply(t *testing.T) {
	for _, place := range []string{"node", "edge"} {
		asked, g := 0, graph.New("g", graph.Options{})
		author := agent.Func("a", func(context.Context, agent.Task) (agent.Result, error) { return agent.Result{Reply: "dirt"}, nil })
		gr := []workflow.Guardrail{rail(workflow.Sanitize, "", &asked)}
		o, atEdge := graph.NodeOptions{}, gr
		if place == "node" {
			o.Guardrails, atEdge = gr, nil
		}
		g.Node("a", author, o)
		g.Edge(graph.Start, "a")
		g.Edge("a", graph.End, atEdge...)
		r := run(t, g, "in")
		check(t, r.Reply, "clean")
		check(t, r.Output.(map[string]any)["a"], "clean")
	}
}

// A revision that helps ends well; the author is told in its task.
func TestReviseHelps(t *testing.T) {
	d, asked, g := &diary{}, 0, graph.New("g", graph.Options{})
	author := agent.Func("a", func(ctx context.Context, task agent.Task) (agent.Result, error) {
		d.note("a(%s)", task.Text())
		if r, ok := graph.RevisedOf(ctx); ok {
			return agent.Result{Reply: fmt.Sprint("better than ", r.Round)}, nil
		}
		return agent.Result{Reply: "dirt"}, nil
	})
	g.Node("a", author, graph.NodeOptions{Guardrails: []workflow.Guardrail{rail(workflow.Revise, "", &asked)}})
	r := run(t, line(g, "a"), "in")
	check(t, outcomeOf(r), "done better than 1")
	check(t, d, `a(in), a({"comment":"dirt in it","draft":"dirt","task":"in"})`)
	check(t, asked, "2")
}

// A guard on an edge in a cycle is asked each time.
func TestGuardsAreAskedEveryTime(t *testing.T) {
	d, asked, g := &diary{}, 0, graph.New("g", graph.Options{})
	node(g, d.says("a"))
	n := 0
	g.Edge(graph.Start, "a")
	g.Branch("a", func(context.Context, graph.State) (string, error) {
		if n++; n == 4 {
			return graph.End, nil
		}
		return "a", nil
	}, []string{"a", graph.End}, rail(workflow.Block, "", &asked))
	check(t, outcomeOf(run(t, g, "x")), "done a")
	check(t, fmt.Sprint(asked, n), "4 4")
}

// stubborn works on although it is told to stop.
func stubborn(name string, d *diary, work time.Duration) agent.Agent {
	return agent.Func(name, func(context.Context, agent.Task) (agent.Result, error) {
		d.note("%s begins", name)
		time.Sleep(work)
		d.note("%s ends", name)
		return agent.Result{Reply: name}, nil
	})
}

func TestTimeoutCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, g := &diary{}, graph.New("g", graph.Options{})
		obedient := agent.Func("a", func(ctx context.Context, _ agent.Task) (agent.Result, error) {
			d.note("begins")
			select {
			case <-time.After(80 * time.Millisecond):
				d.note("completes")
			case <-ctx.Done():
				d.note("stopped")
			}
			return agent.Result{}, ctx.Err()
		})
		g.Node("a", obedient, graph.NodeOptions{Timeout: 20 * time.Millisecond, Retry: &graph.Retry{MaxAttempts: 3, Backoff: -1}})
		r := run(t, line(g, "a"), "x")
		time.Sleep(time.Second)
		check(t, outcomeOf(r), "timeout a took longer than 20ms")
		check(t, d, "begins, stopped, begins, stopped, begins, stopped")
	})
}

// A node that ignores its limit is not tried again beside itself.
func TestRetriesNeverOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, g := &diary{}, graph.New("g", graph.Options{})
		g.Node("a", stubborn("a", d, time.Minute), graph.NodeOptions{Timeout: 20 * time.Millisecond, Retry: &graph.Retry{MaxAttempts: 3, Backoff: -1}})
		check(t, outcomeOf(run(t, line(g, "a"), "x")), "timeout a took longer than 20ms and was left behind")
		check(t, d, "a begins")
		time.Sleep(time.Hour)
	})
}

func capability(d *diary, name string, kind graph.Kind, doc string) graph.Capability {
	return graph.Capability{Item: recall.Item{Name: name, Doc: doc}, Kind: kind, Agent: d.says(name)}
}

func TestDiscoveryRunsWhatItFinds(t *testing.T) {
	d := &diary{}
	caps := graph.NewCapabilities(recall.Options{}, capability(d, "cam", graph.ToolKind, "takes a picture"),
		capability(d, "speak", graph.SkillKind, "tells the user something"), capability(d, "mule", graph.Extension, "carries boxes"))
	for _, c := range []struct {
		query          string
		kind           graph.Kind
		fallback       string
		outcome, order string
	}{
		{"take a picture", graph.ToolKind, "fb", "done after", "a(x), cam(a), after(cam)"},
		{"take a picture", "", "", "done after", "a(x), cam(a), after(cam)"},
		{"mule", graph.Extension, "fb", "done after", "a(x), mule(a), after(mule)"},
		{"take a picture", graph.SkillKind, "fb", "done fb", "a(x), fb(a)"},
		{"water the plants", "", "fb", "done fb", "a(x), fb(a)"},
		{"water the plants", "", "", `failed unresolved: "water the plants": nothing fits`, "a(x)"},
	} {
		d.list = nil
		g := graph.New("g", graph.Options{Registry: caps})
		node(g, d.says("a"), d.says("after"))
		g.Edge(graph.Start, "a")
		g.Discover("a", graph.Discovery{Query: c.query, Kind: c.kind, Fallback: c.fallback, Then: "after"})
		g.Edge("after", graph.End)
		if c.fallback != "" {
			node(g, d.says("fb"))
			g.Edge("fb", graph.End)
		}
		check(t, outcomeOf(run(t, g, "x")), c.outcome)
		check(t, d, c.order)
	}
}

func TestOrphansDoNotRun(t *testing.T) {
	d, g := &diary{}, graph.New("g", graph.Options{})
	node(g, d.says("a"), d.says("orphan"))
	line(g, "a")
	r := run(t, g, "x")
	check(t, outcomeOf(r), "failed graph g: no way leads to node orphan")
	check(t, d, "")
}

func TestUnsetTraitIsAnError(t *testing.T) {
	body, err := graph.NewCharacter("body", map[string]float64{"openness": 0.6}, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		trait     string
		threshold float64
		want      string
	}{
		{"conscientiousness", 0.6, "failed graph g: edge e2 from a: body has no conscientiousness"},
		{"bravery", 0.6, `failed graph g: edge e2 from a: "bravery" is no trait; there are honesty emotionality extraversion agreeableness conscientiousness openness valence arousal dominance`},
		{"openness", 1.5, "failed graph g: edge e2 from a: threshold of openness is 1.5; it is a number from 0 to 1"},
		{"openness", 0.6, "done b"}, // >= goes above
		{"openness", 0.7, "done c"},
	} {
		d, g := &diary{}, graph.New("g", graph.Options{})
		node(g, d.says("a"), d.says("b"), d.says("c"))
		g.Edge(graph.Start, "a")
		g.Personality("a", graph.Personality{Of: body, Trait: c.trait, Threshold: c.threshold, Above: "b", Below: "c"})
		g.Edge("b", graph.End)
		g.Edge("c", graph.End)
		check(t, outcomeOf(run(t, g, "x")), c.want)
	}
}

func TestBrokenConditionFails(t *testing.T) {
	for _, c := range []struct {
		fn   func(context.Context, graph.State) (string, error)
		want string
	}{
		{func(context.Context, graph.State) (string, error) { return "", errors.New("key ears is missing") }, "failed edge e2 from a: key ears is missing"},
		{func(_ context.Context, s graph.State) (string, error) { return s["none"].(string), nil },
			"failed edge e2 from a: panic: interface conversion: interface {} is nil, not string"},
		{to("c"), `failed edge e2 from a gave "c", which is none of ["b"]`},
		{to("nowhere"), `failed edge e2 from a gave "nowhere", which is none of ["b"]`},
	} {
		d, g := &diary{}, graph.New("g", graph.Options{})
		node(g, d.says("a"), d.says("b"))
		g.Edge(graph.Start, "a")
		g.Branch("a", c.fn, []string{"b"})
		g.Edge("b", graph.End)
		check(t, outcomeOf(run(t, g, "x")), c.want)
		check(t, d, "a(x)")
	}
}

func TestReducers(t *testing.T) {
	rs := graph.Reducers()
	for _, c := range []struct {
		how   string
		x, y  any
		first any
		want  string
	}{
		{"append", []any{int64(2)}, []any{int64(3)}, []any{int64(1)}, "[1,2,3]"}, // and not the first one twice
		{"append", "b", "c", []any{"a"}, "['a','b','c']"},
		{"sum", int64(0), int64(9), int64(0), "9"},
		{"sum", 0.5, int64(2), int64(1), "3.5"},
		{"max", int64(2), int64(7), int64(5), "7"},
		{"min", int64(2), 1.5, int64(5), "1.5"},
		{"last", "x", "y", "a", "'y'"},
		{"first", "x", "y", "a", "'a'"},
		{"merge", map[string]any{"p": map[string]any{"x": int64(1)}}, map[string]any{"p": map[string]any{"y": int64(2)}},
			map[string]any{"p": map[string]any{"z": int64(0)}}, "{'p':{'x':1,'y':2,'z':0}}"},
	} {
		g := graph.New("g", graph.Options{State: map[string]graph.Reducer{"k": rs[c.how]}})
		d := &diary{}
		w := graph.NodeOptions{Writes: []string{"k"}}
		g.Node("a", d.gives("a", c.first), w)
		g.Node("x", d.gives("x", c.x), w)
		g.Node("y", d.gives("y", c.y), w)
		g.Node("j", d.says("j"), graph.NodeOptions{Join: graph.All})
		g.Edge(graph.Start, "a")
		g.Edge("a", "x")
		g.Edge("a", "y")
		g.Edge("x", "j")
		g.Edge("y", "j")
		g.Edge("j", graph.End)
		r := run(t, g, "in")
		m, _ := r.Output.(map[string]any)
		check(t, fmt.Sprint(r.Status, " ", textOf(m["k"])), "done "+c.want)
	}
}

func TestTwoWritersNeedAReducer(t *testing.T) {
	d, g := &diary{}, graph.New("g", graph.Options{})
	w := graph.NodeOptions{Writes: []string{"k"}}
	g.Node("x", d.says("x"), w)
	g.Node("y", d.says("y"), w)
	for _, n := range []string{"x", "y"} {
		g.Edge(graph.Start, n)
		g.Edge(n, graph.End)
	}
	check(t, outcomeOf(run(t, g, "in")), "failed x and y run in parallel and both write k, which has no reducer")
}
