package graph_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"edged/agent"
	"edged/workflow"
	"edged/workflow/graph"
)

func problems(g *graph.Graph) string {
	var list []string
	for _, p := range g.Check() {
		list = append(list, p.String())
	}
	return strings.Join(list, "\n")
}

func fine(name string) workflow.Guardrail {
	return workflow.Guardrail{Name: name, Check: func(context.Context, any, map[string]any) (workflow.Finding, error) { return workflow.Finding{}, nil }}
}

func TestCheck(t *testing.T) {
	d := &diary{}
	for name, c := range map[string]struct {
		o     graph.Options
		build func(g *graph.Graph)
		want  string
	}{
		"fine": {build: func(g *graph.Graph) { line(g, "a") }},
		"unknown target": {build: func(g *graph.Graph) { line(g, "a"); g.Edge("a", "B") },
			want: `error: edge e3 from a leads to "B", which is no node`},
		"misspelt": {build: func(g *graph.Graph) { line(g, "a"); g.Edge("a", "A") },
			want: `error: edge e3 from a leads to "A", which is no node; did you mean "a"?`},
		"unknown source": {build: func(g *graph.Graph) { line(g, "a"); g.Edge("x", "a") },
			want: `error: edge e3 begins at "x", which is no node`},
		"to the start": {build: func(g *graph.Graph) { line(g, "a"); g.Edge("a", graph.Start) },
			want: `error: edge e3 from a leads to "START", which is no node`},
		"no start": {build: func(g *graph.Graph) { g.Edge("a", graph.End) },
			want: "error: no edge leads from START\nerror: no way leads to node a"},
		"no end": {build: func(g *graph.Graph) { g.Edge(graph.Start, "a"); g.Edge("a", "a") }, want: "error: no way leads to END"},
		"dead end": {build: func(g *graph.Graph) { line(g, "a"); node(g, d.says("b")); g.Edge("a", "b") },
			want: "error: no way leads from node b to END"},
		"duplicate": {build: func(g *graph.Graph) { line(g, "a"); node(g, d.says("a")) }, want: "error: there are two nodes a"},
		"reserved":  {build: func(g *graph.Graph) { line(g, "a"); node(g, d.says("END")) }, want: `error: "END" can't be the name of a node`},
		"no targets": {build: func(g *graph.Graph) { line(g, "a"); g.Branch("a", to("b"), nil) },
			want: "error: edge e3 from a lists no targets"},
		"no function": {build: func(g *graph.Graph) { line(g, "a"); g.Branch("a", nil, []string{"a"}) },
			want: "error: edge e3 from a has no function"},
		"unknown reroute": {build: func(g *graph.Graph) {
			line(g, "a")
			g.Edge("a", graph.End, workflow.Guardrail{Name: "r", On: workflow.Reroute, Reroute: "b", Check: fine("").Check})
		}, want: `error: edge e3 from a: guardrail r leads to "b", which is no node`},
		"unknown reaction": {build: func(g *graph.Graph) {
			line(g, "a")
			g.Edge("a", graph.End, workflow.Guardrail{Name: "r", On: "shout", Check: fine("").Check})
		}, want: `error: edge e3 from a: guardrail r: on_violation "shout" is none of block, reroute, warn, sanitize and revise`},
		"nobody revises": {build: func(g *graph.Graph) {
			g.Edge(graph.Start, "a", workflow.Guardrail{Name: "r", On: workflow.Revise, Check: fine("").Check})
			g.Edge("a", graph.End)
		}, want: `error: edge e1 from START: guardrail r sends back what no node has made: nobody is there to revise it`},
		"unknown fallback": {build: func(g *graph.Graph) { line(g, "a"); g.Discover("a", graph.Discovery{Query: "q", Fallback: "b"}) },
			want: `error: edge e3 from a leads to "b", which is no node`},
		"unknown kind": {build: func(g *graph.Graph) {
			line(g, "a")
			g.Discover("a", graph.Discovery{Query: "q", Kind: "gadget", MinScore: 2})
		},
			want: "error: edge e3 from a: kind \"gadget\" is none of tool, skill, extension and any\nerror: edge e3 from a: min_score is 2; it is a number from 0 to 1"},
		"unbounded": {o: graph.Options{MaxSteps: -1}, build: func(g *graph.Graph) {
			node(g, d.says("b"))
			line(g, "a", "b")
			g.Edge("b", "a")
		}, want: "error: the cycle a → b → a has no bound: max_steps is off"},
		"bounded": {build: func(g *graph.Graph) { line(g, "a"); g.Branch("a", to("a"), []string{"a"}) }},
		"unguarded": {build: func(g *graph.Graph) {
			node(g, d.says("b"), d.says("c"))
			line(g, "a", "b")
			g.Branch(graph.Start, to("c"), []string{"c"})
			g.Edge("c", "b", fine("fence"))
		}, want: "warning: node b is guarded from c and has an unguarded way in from a\n" +
			`warning: parallel branches from START meet at node b, which runs once for each; say join="all" if it shall wait for them`},
		"joined": {build: func(g *graph.Graph) {
			g.Node("j", d.says("j"), graph.NodeOptions{Join: graph.All})
			node(g, d.says("b"), d.says("c"), d.says("e"))
			line(g, "a", "j", "e")
			g.Edge(graph.Start, "b")
			g.Edge("b", "j")
			g.Branch("j", to("c"), []string{"c", "e"}) // two edges from j fork again and meet at e
			g.Edge("c", "e")
		}, want: `warning: parallel branches from j meet at node e, which runs once for each; say join="all" if it shall wait for them`},
		"arms of a branch": {build: func(g *graph.Graph) {
			node(g, d.says("b"), d.says("c"), d.says("e"))
			g.Edge(graph.Start, "a")
			g.Branch("a", to("b"), []string{"b", "c"})
			g.Edge("b", "e")
			g.Edge("c", "e")
			g.Edge("e", graph.End)
		}}, // only one of them runs
		"join": {build: func(g *graph.Graph) {
			g.Node("b", d.says("b"), graph.NodeOptions{Join: "some"})
			line(g, "a", "b")
		}, want: `error: node b: join "some" is none of "any" and "all"`},
		"checkpoint": {o: graph.Options{Checkpoint: "edge"}, build: func(g *graph.Graph) { line(g, "a") },
			want: `error: checkpoint "edge" is none of "none" and "node"`},
		"nobody": {build: func(g *graph.Graph) {
			line(g, "a")
			g.Personality("a", graph.Personality{Trait: "openness", Above: "a", Below: graph.End})
		}, want: "error: edge e3 from a asks for the openness of nobody"},
	} {
		t.Run(name, func(t *testing.T) {
			g := graph.New("g", c.o)
			node(g, d.says("a"))
			c.build(g)
			check(t, problems(g), c.want)
			if strings.Contains(c.want, "error") != (faults(g) != nil) {
				t.Errorf("error %v", faults(g))
			}
		})
	}
}

func TestWorstCalls(t *testing.T) {
	d := &diary{}
	asks := func(n int) graph.NodeOptions { return graph.NodeOptions{Calls: n} }
	g := graph.New("g", graph.Options{})
	g.Node("a", d.says("a"), asks(1))
	g.Node("b", d.says("b"), graph.NodeOptions{Calls: 2, Retry: &graph.Retry{}})
	g.Node("j", d.says("j"), asks(1))
	for _, n := range []string{"a", "b"} {
		g.Edge(graph.Start, n)
		g.Edge(n, "j")
	}
	g.Edge("j", graph.End)
	check(t, g.WorstCalls(), "9") // 1 + 2·3 + twice j
	loop := graph.New("g", graph.Options{MaxSteps: 10})
	loop.Node("a", d.says("a"), asks(3))
	loop.Edge(graph.Start, "a")
	loop.Branch("a", to(graph.End), []string{"a", graph.End})
	check(t, loop.WorstCalls(), "30")
	out := graph.New("g", graph.Options{})
	out.Node("in", loop, graph.NodeOptions{Guardrails: []workflow.Guardrail{{Name: "r", On: workflow.Revise, Check: fine("").Check}}})
	check(t, line(out, "in").WorstCalls(), "90")
}

// request is the graph of the manual: routed by what was asked, by temperament
// and by what is plugged in.
func request(d *diary, asker graph.Asker) *graph.Graph {
	body, _ := graph.NewCharacter("body", map[string]float64{"conscientiousness": 0.8}, nil, 0)
	g := graph.New("request", graph.Options{MaxSteps: 30, Asker: asker, State: map[string]graph.Reducer{"notes": graph.Reducers()["append"]},
		Registry: graph.NewCapabilities(recallOptions(), capability(d, "speak", graph.ToolKind, "tell the user something"))})
	g.Node("ears", d.gives("ears", map[string]any{"intent": "move"}), graph.NodeOptions{Writes: []string{"ears"}, Calls: 1})
	g.Func("weigh", func(context.Context, graph.State) (any, error) { return nil, nil }, graph.NodeOptions{Effect: graph.Pure})
	g.Node("plan", d.gives("plan", map[string]any{"x": 5.0}), graph.NodeOptions{Writes: []string{"plan"}, Calls: 4})
	g.Node("quick", d.gives("quick", map[string]any{"x": 1.0}), graph.NodeOptions{Writes: []string{"plan"}, Calls: 1})
	g.Func("drive", func(_ context.Context, s graph.State) (any, error) {
		d.note("drive to %v", textOf(s["plan"]))
		return nil, nil
	}, graph.NodeOptions{Effect: "write"})
	g.Human("ask", graph.Human{Prompt: "That leaves the fence. Go anyway?", Options: []string{"yes", "no"}}, graph.NodeOptions{})
	g.Node("answer", d.says("answer"), graph.NodeOptions{Calls: 1})
	fence := workflow.Guardrail{Name: "fence", On: workflow.Reroute, Reroute: "ask", Check: func(_ context.Context, p any, _ map[string]any) (workflow.Finding, error) {
		if m, ok := p.(map[string]any); ok && m["x"].(float64) > 4 {
			return workflow.Violates(fmt.Sprint("leaves the fence at x=", m["x"])), nil
		}
		return workflow.Finding{}, nil
	}}
	g.Edge(graph.Start, "ears")
	g.Branch("ears", func(_ context.Context, s graph.State) (string, error) {
		if s["ears"].(map[string]any)["intent"] == "move" {
			return "weigh", nil
		}
		return "answer", nil
	}, []string{"weigh", "answer"})
	g.Personality("weigh", graph.Personality{Of: body, Trait: "conscientiousness", Threshold: 0.6, Above: "plan", Below: "quick"})
	g.Edge("plan", "drive", fence)
	g.Edge("quick", "drive", fence)
	g.Branch("ask", func(_ context.Context, s graph.State) (string, error) {
		if s["ask"] == "yes" {
			return "drive", nil
		}
		return graph.End, nil
	}, []string{"drive", graph.End})
	g.Discover("drive", graph.Discovery{Query: "tell the user it is done", Kind: graph.ToolKind, Fallback: "answer"})
	g.Edge("answer", graph.End)
	return g
}

func TestRequest(t *testing.T) {
	for said, want := range map[string]string{
		"yes": `ears({"text":"go to the porch"}), plan({"intent":"move"}), drive to {'x':5}, speak(yes)`,
		"no":  `ears({"text":"go to the porch"}), plan({"intent":"move"})`,
	} {
		d := &diary{}
		g := request(d, says(said))
		r := run(t, g, map[string]any{"text": "go to the porch"})
		check(t, r.Status, "done")
		check(t, d, want)
		check(t, problems(g), "warning: node drive is guarded from quick and has an unguarded way in from ask")
	}
}

func TestDrawings(t *testing.T) {
	g := request(&diary{}, nil)
	text, err := json.MarshalIndent(g.Draw(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Edges               []map[string]any
		WorstCaseModelCalls int
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range d.Edges {
		got = append(got, textOf(e))
	}
	check(t, strings.Join(got, "\n"), `{'id':'e1','source':'START','target':'ears','type':'static'}
{'condition':{'to':['weigh','answer'],'type':'function'},'id':'e2.1','source':'ears','target':'weigh','type':'conditional'}
{'condition':{'to':['weigh','answer'],'type':'function'},'id':'e2.2','source':'ears','target':'answer','type':'conditional'}
{'id':'e3','personalityCondition':{'above':'plan','below':'quick','threshold':0.6,'trait':'conscientiousness'},'source':'weigh','target':'plan','type':'personality'}
{'guardrailPolicy':{'onViolation':'reroute','output':['fence'],'rerouteTarget':'ask'},'id':'e4','source':'plan','target':'drive','type':'static'}
{'guardrailPolicy':{'onViolation':'reroute','output':['fence'],'rerouteTarget':'ask'},'id':'e5','source':'quick','target':'drive','type':'static'}
{'condition':{'to':['drive','END'],'type':'function'},'id':'e6.1','source':'ask','target':'drive','type':'conditional'}
{'condition':{'to':['drive','END'],'type':'function'},'id':'e6.2','source':'ask','target':'END','type':'conditional'}
{'discoveryFallback':'answer','discoveryKind':'tool','discoveryQuery':'tell the user it is done','id':'e7','source':'drive','target':'END','type':'discovery'}
{'id':'e8','source':'answer','target':'END','type':'static'}`)
	check(t, d.WorstCaseModelCalls, "6") // ears, plan, answer
	for _, want := range []string{"n0([START])", `n1["ears<br/>agent"]`, `n2["weigh<br/>function"]`, `n6["ask<br/>human"]`, "n0 --> n1", `n2 -.->|"conscientiousness ≥ 0.6"| n3`, `-.->|"find: tell the user it is done"|`, `n3 -.->|"if fence says no"| n6`} {
		if !strings.Contains(g.Mermaid(), want) {
			t.Errorf("%s is not in\n%s", want, g.Mermaid())
		}
	}
	for _, want := range []string{`"START" [shape=oval];`, `"ears" [label="ears\nagent"];`, `"ears" -> "weigh" [label="", style=dashed];`} {
		if !strings.Contains(g.Dot(), want) {
			t.Errorf("%s is not in\n%s", want, g.Dot())
		}
	}
}

func Example() {
	say := func(words string) agent.Agent {
		return agent.Func(words, func(context.Context, agent.Task) (agent.Result, error) { return agent.Result{Reply: words}, nil })
	}
	g := graph.New("door", graph.Options{})
	g.Node("knock", say("knock"), graph.NodeOptions{})
	g.Node("open", say("come in"), graph.NodeOptions{})
	g.Node("wait", say("one moment"), graph.NodeOptions{})
	g.Edge(graph.Start, "knock")
	g.Branch("knock", func(_ context.Context, s graph.State) (string, error) {
		if s["home"] == true {
			return "open", nil
		}
		return "wait", nil
	}, []string{"open", "wait"})
	g.Edge("open", graph.End)
	g.Edge("wait", graph.End)
	r, err := agent.Run(context.Background(), g, agent.Task{Input: map[string]any{"home": true}, Origin: "test"})
	fmt.Println(r.Status, r.Reply, err)
	// Output: done come in <nil>
}
