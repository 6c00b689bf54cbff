package graph_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"edged/agent"
	"edged/agent/llm"
	"edged/agent/llm/recall"
	"edged/background"
	"edged/bus"
	"edged/workflow"
	"edged/workflow/graph"
	"edged/workflow/workflowtest"
)

// Branches that part and join, round and round.
func TestJoinInACycle(t *testing.T) {
	d, g := &diary{}, graph.New("g", graph.Options{State: map[string]graph.Reducer{"log": graph.Reducers()["append"]}})
	log := graph.NodeOptions{Writes: []string{"log"}}
	for _, id := range []string{"a", "b", "c", "c2"} {
		g.Node(id, d.says(id), log)
	}
	g.Node("j", d.says("j"), graph.NodeOptions{Join: graph.All, Writes: log.Writes})
	g.Edge(graph.Start, "a")
	g.Edge("a", "b")
	g.Edge("a", "c")
	g.Edge("c", "c2")
	g.Edge("b", "j")
	g.Edge("c2", "j")
	g.Branch("j", func(_ context.Context, s graph.State) (string, error) {
		if len(s["log"].([]any)) == 10 {
			return graph.End, nil
		}
		return "a", nil
	}, []string{"a", graph.End})
	r := run(t, g, "x")
	check(t, fmt.Sprint(r.Status, " ", r.Output.(map[string]any)["log"]), "done [a b c c2 j a b c c2 j]")
}

// Joins that wait for each other start with the first that was declared.
func TestJoinsThatWaitForEachOther(t *testing.T) {
	d, g := &diary{}, graph.New("g", graph.Options{})
	for _, id := range []string{"p", "q"} {
		g.Node(id, d.says(id), graph.NodeOptions{Join: graph.All})
		g.Edge(graph.Start, id)
	}
	g.Branch("p", to("q"), []string{"q", graph.End})
	g.Branch("q", to(graph.End), []string{"p", graph.End})
	r := run(t, g, "x")
	check(t, fmt.Sprint(outcomeOf(r), "; ", d), `done q; p(x), q({"START":"x","p":"p"})`)
}

// A reducer or a registry of the author's that panics is a failure.
func TestAuthorsCodePanics(t *testing.T) {
	d, g := &diary{}, graph.New("g", graph.Options{State: map[string]graph.Reducer{"a": {Name: "mine", Fold: func(_, _ any) (any, error) { panic("oh") }}}})
	node(g, d.says("a"))
	check(t, outcomeOf(run(t, line(g, "a"), "x")), "failed state key a: panic: oh")
	g = graph.New("g", graph.Options{Registry: broken{}})
	node(g, d.says("b"))
	g.Edge(graph.Start, "b")
	g.Discover("b", graph.Discovery{Query: "q"})
	check(t, outcomeOf(run(t, g, "x")), `failed unresolved: "q": panic: oh`)
}

type broken struct{}

func (broken) Find(context.Context, graph.Discovery) ([]recall.Match, error) { panic("oh") }
func (broken) Lookup(context.Context, string) (graph.Capability, bool)       { panic("oh") }

// What was found and is gone when the run is resumed is not run, and says so.
func TestFoundAndGone(t *testing.T) {
	d := &diary{}
	caps := graph.NewCapabilities(recallOptions(), capability(d, "cam", graph.ToolKind, "takes a picture"))
	robots := &leaving{Registry: caps}
	g := graph.New("g", graph.Options{Checkpoint: graph.AfterNode, Registry: robots})
	node(g, d.says("a"))
	g.Edge(graph.Start, "a")
	g.Discover("a", graph.Discovery{Query: "cam"})
	ctx, runs := on(t.Context(), workflowtest.NewDisk())
	r, _ := agent.Run(ctx, g, agent.Task{Input: "x", Origin: "test"})
	check(t, outcomeOf(r)+"; "+d.String(), "done cam; a(x), cam(a)")
	id, err := g.Fork(ctx, runs, r.RunID, "2", nil)
	if err != nil {
		t.Fatal(err)
	}
	robots.left = true
	r, _ = g.Resume(ctx, runs, id, "")
	check(t, outcomeOf(r)+"; "+r.By, `failed unresolved: "cam": cam was found and is gone; cam`)
}

// Nodes of two graphs may have the same name: that of the outer one is meant,
// and the node that holds the inner one names the other.
func TestQuestionsOfTwoGraphs(t *testing.T) {
	in := graph.New("in", graph.Options{})
	in.Human("ask", graph.Human{Prompt: "in?"}, graph.NodeOptions{})
	in.Edge(graph.Start, "ask")
	in.Edge("ask", graph.End)
	g := graph.New("g", graph.Options{Checkpoint: graph.AfterNode})
	g.Node("sub", in, graph.NodeOptions{})
	g.Human("ask", graph.Human{Prompt: "out?"}, graph.NodeOptions{})
	for _, id := range []string{"sub", "ask"} {
		g.Edge(graph.Start, id)
		g.Edge(id, graph.End)
	}
	ctx, runs := on(t.Context(), workflowtest.NewDisk())
	r, _ := agent.Run(ctx, g, agent.Task{Input: "x", Origin: "test"})
	if err := g.Answer(ctx, runs, r.RunID, "", "x"); err == nil || !strings.Contains(err.Error(), `"ask" (out?), "sub" (in?)`) {
		t.Errorf("got %v", err)
	}
	for _, at := range []string{"ask", "sub"} {
		if err := g.Answer(ctx, runs, r.RunID, at, "to "+at); err != nil {
			t.Error(err)
		}
	}
	r, _ = g.Resume(ctx, runs, r.RunID, "")
	check(t, textOf(r.Output), "{'ask':'to ask','input':'x','sub':{'ask':'to sub','input':'x'}}")
}

// A person in a graph in a sequence in a graph: the answer finds its way.
func TestNestedQuestion(t *testing.T) {
	d := &diary{}
	make := func() *graph.Graph {
		in := graph.New("in", graph.Options{})
		in.Human("ask", graph.Human{Prompt: "go?", Options: []string{"yes", "no"}}, graph.NodeOptions{})
		in.Node("b", d.says("b"), graph.NodeOptions{})
		line(in, "ask", "b")
		out := graph.New("out", graph.Options{Checkpoint: graph.AfterNode})
		out.Node("seq", workflow.NewSequence("seq", workflow.SequenceOptions{}, d.says("a"), in), graph.NodeOptions{})
		return line(out, "seq")
	}
	ctx, runs := on(t.Context(), workflowtest.NewDisk())
	r, _ := agent.Run(ctx, make(), agent.Task{Input: "x", Origin: "test"})
	check(t, outcomeOf(r), "escalated waits for an answer: go?")
	r, err := make().Resume(ctx, runs, r.RunID, "no")
	check(t, fmt.Sprint(r.Status, err, " ", d), "done<nil> a(x), b(no)")
}

// A graph in a sequence in a background agent, started by an event and stopped
// from outside.
func TestInABackgroundAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		robot := bus.New(bus.Options{})
		d, g := &diary{}, graph.New("patrol", graph.Options{})
		node(g, d.says("look"), behave(d, "slow"))
		g.Edge(graph.Start, "look")
		g.Edge("look", "c")
		g.Branch("c", to("look"), []string{"look", graph.End})
		var topics []string
		tap, _ := robot.Tap("edged/graph/#", func(e bus.Event) { topics = append(topics, strings.TrimPrefix(e.Topic, "edged/graph/")) })
		seq := workflow.NewSequence("seq", workflow.SequenceOptions{}, g)
		a, err := background.NewAgent(background.AgentOptions{Agent: seq, SubscribeTo: []string{"go"}, Bus: robot})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(workflow.WithRuntime(t.Context(), workflow.Runtime{Trace: workflow.OnBus(robot)}))
		over := make(chan struct{})
		go func() {
			_ = a.Serve(ctx)
			close(over)
		}()
		synctest.Wait()
		_, _ = robot.Publish(ctx, "cli", "go", "hall")
		time.Sleep(time.Minute)
		synctest.Wait()
		check(t, fmt.Sprint(d, topics), "look(hall), c [patrol/crossing patrol/crossing]")
		start := time.Now()
		cancel()
		<-over
		if took := time.Since(start); took > 50*time.Millisecond {
			t.Errorf("took %v to stop", took)
		}
		tap.Close()
		_ = robot.Close(context.Background())
	})
}

// byWinner is a route of one's own: it goes where the last result says.
type byWinner struct{}

func (byWinner) To(ctx context.Context, last agent.Result) (string, error) {
	if graph.StateOf(ctx)["input"] == nil {
		return "", fmt.Errorf("%w: nothing was asked", agent.ErrRejected)
	}
	return last.Winner, nil
}

func TestOwnRoute(t *testing.T) {
	for _, c := range []struct {
		winner string
		input  any
		want   string
	}{
		{"b", "x", "done b"}, {"c", "x", "done c"}, {"d", "x", `failed edge e2 from a gave "d", which is none of ["b" "c"]`},
		{"b", nil, "rejected nothing was asked"},
	} {
		d, g := &diary{}, graph.New("g", graph.Options{})
		node(g, d.says("b"), d.says("c"), agent.Func("a", func(context.Context, agent.Task) (agent.Result, error) {
			return agent.Result{Winner: c.winner}, nil
		}))
		g.Edge(graph.Start, "a")
		g.Route("a", byWinner{}, []string{"b", "c"})
		g.Edge("b", graph.End)
		g.Edge("c", graph.End)
		check(t, outcomeOf(run(t, g, c.input)), c.want)
	}
}

// What can't be built is said by the check, and a graph in use is not changed.
func TestBuilding(t *testing.T) {
	g := graph.New("g", graph.Options{})
	g.Node("a", nil, graph.NodeOptions{})
	g.Human("h", graph.Human{Options: []string{"yes"}, OnTimeout: "no"}, graph.NodeOptions{})
	g.Human("i", graph.Human{Timeout: time.Second}, graph.NodeOptions{})
	line(g, "h", "i")
	check(t, problems(g), `error: node a has no agent
error: node h: on_timeout "no" is none of its options ["yes"]
error: node i asks with a timeout and has no answer for it`)
	defer func() { check(t, recover(), "graph: g is changed after it was checked") }()
	g.Edge("i", "h")
}

func TestToolNodes(t *testing.T) {
	for _, c := range []struct {
		params string
		input  any
		result string
		err    error
		want   string
	}{
		{`{"type":"object","properties":{},"additionalProperties":false}`, "whatever", `"ok"`, nil, "done ok {}"},
		{`{"type":"object","properties":{"n":{"type":"integer","minimum":0,"maximum":9}},"required":["n"],"additionalProperties":false}`, int64(4), `"ok"`, nil, `done ok {"n":4}`},
		{`{"type":"object","properties":{"n":{"type":"integer","minimum":0,"maximum":9},"m":{"type":"integer","minimum":0,"maximum":9}},"additionalProperties":false}`, int64(4), "", nil,
			"failed tool t: its input is int, no map of arguments "},
		{"", "x", "", fmt.Errorf("jam"), "failed tool t: jam {}"},
		{"", "x", "{", nil, "failed tool t: result: "},
	} {
		g, seen := graph.New("g", graph.Options{}), ""
		tool := llm.Tool{Name: "t", Do: func(_ context.Context, args json.RawMessage) (json.RawMessage, error) {
			seen = string(args)
			return json.RawMessage(c.result), c.err
		}}
		if c.params != "" {
			tool.Params = json.RawMessage(c.params)
		}
		g.Tool("t", tool, graph.NodeOptions{})
		if got := outcomeOf(run(t, line(g, "t"), c.input)) + " " + seen; !strings.HasPrefix(got, c.want) {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

// What a guardrail put in place of a node's output on one of two edges is no
// second writer, and is not folded beside what it stands for.
func TestReplacedOnOneOfTwoEdges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, first := range []bool{true, false} {
			g := graph.New("g", graph.Options{State: map[string]graph.Reducer{"log": graph.Reducers()["append"]}})
			g.Func("a", func(context.Context, graph.State) (any, error) {
				return map[string]any{"v": int64(9), "log": []any{"a"}}, nil
			}, graph.NodeOptions{})
			slower := workflow.Guardrail{Name: "slower", On: workflow.Sanitize, Check: func(context.Context, any, map[string]any) (workflow.Finding, error) {
				return workflow.Replace(map[string]any{"v": int64(1), "log": []any{"b"}}), nil
			}}
			g.Func("x", func(context.Context, graph.State) (any, error) { return nil, nil }, graph.NodeOptions{})
			g.Func("y", func(context.Context, graph.State) (any, error) { return nil, nil }, graph.NodeOptions{})
			g.Edge(graph.Start, "a")
			if first {
				g.Edge("a", "x", slower)
				g.Edge("a", "y")
			} else {
				g.Edge("a", "y")
				g.Edge("a", "x", slower)
			}
			g.Edge("x", graph.End)
			g.Edge("y", graph.End)
			r, err := agent.Run(t.Context(), g, agent.Task{})
			s, _ := r.Output.(map[string]any)
			log, _ := s["log"].([]any)
			if err != nil || s["v"] != int64(1) || len(log) != 1 {
				t.Errorf("first %v: got %v %v, want v 1 and one entry", first, s, err)
			}
		}
	})
}

// leaving are capabilities that are gone at some time: a robot that has left.
type leaving struct {
	graph.Registry
	left bool
}

func (l *leaving) Lookup(ctx context.Context, name string) (graph.Capability, bool) {
	if l.left {
		return graph.Capability{}, false
	}
	return l.Registry.Lookup(ctx, name)
}
