package graph_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"edged/agent"
	"edged/agent/llm"
	"edged/bus"
	"edged/workflow"
	"edged/workflow/graph"
	"edged/workflow/workflowtest"
)

// behave ends in one way, after a second.
func behave(d *diary, how string) agent.Agent {
	c := workflowtest.Behave(how)
	return agent.Func("c", func(ctx context.Context, t agent.Task) (agent.Result, error) {
		d.note("c")
		return c.Run(ctx, t)
	})
}

// TestFailureMatrix is one failure in each sort of place, with its exact
// outcome, when it ends and how often the node ran.
func TestFailureMatrix(t *testing.T) {
	for _, c := range []struct {
		how     string
		o       graph.NodeOptions
		stop    time.Duration
		outcome string
		after   time.Duration
		runs    int
	}{
		{"works", graph.NodeOptions{}, 0, "done b", time.Second, 1},
		{"fails", graph.NodeOptions{}, 0, "failed broken", time.Second, 1},
		{"declines", graph.NodeOptions{}, 0, "failed declined: no arm", time.Second, 1},
		{"panics", graph.NodeOptions{}, 0, "failed panic: oh", time.Second, 1},
		{"rejects", graph.NodeOptions{}, 0, "rejected bad plan", time.Second, 1},
		{"blocks", graph.NodeOptions{}, 0, "blocked rude", time.Second, 1},
		{"deadlock", graph.NodeOptions{}, 0, "deadlock 8 rounds", time.Second, 1},
		{"fails", graph.NodeOptions{Retry: &graph.Retry{}}, 0, "failed broken", 3*time.Second + 600*time.Millisecond, 3},
		{"rejects", graph.NodeOptions{Retry: &graph.Retry{}}, 0, "rejected bad plan", time.Second, 1},
		{"rejects", graph.NodeOptions{Retry: &graph.Retry{MaxAttempts: 2, Backoff: -1, On: []agent.Status{agent.Rejected}}}, 0, "rejected bad plan", 2 * time.Second, 2},
		{"slow", graph.NodeOptions{Timeout: 2 * time.Second}, 0, "timeout c took longer than 2s", 2 * time.Second, 1},
		{"deaf", graph.NodeOptions{Timeout: 2 * time.Second}, 0, "timeout c took longer than 2s and was left behind", 2200 * time.Millisecond, 1},
		{"slow", graph.NodeOptions{}, 5 * time.Second, "cancelled context canceled", 5 * time.Second, 1},
		{"deaf", graph.NodeOptions{}, 5 * time.Second, "cancelled context canceled", 5*time.Second + 40*time.Millisecond, 1},
		{"fails", graph.NodeOptions{Retry: &graph.Retry{Backoff: time.Hour}}, 5 * time.Second, "cancelled context canceled", 5 * time.Second, 1},
		{"works", graph.NodeOptions{Writes: []string{"p", "q"}}, 0, `failed c writes ["p" "q"] and gave string, no map`, time.Second, 1},
		{"half", graph.NodeOptions{Writes: []string{"p", "q"}}, 0, `failed c writes ["p" "q"] and gave nothing for "q"`, time.Second, 1},
		{"works", graph.NodeOptions{Input: func(context.Context, graph.State) (any, error) { return nil, errors.New("no plan") }}, 0, "failed input of c: no plan", 0, 0},
	} {
		for _, wide := range []bool{false, true} { // alone, and beside another branch
			t.Run(fmt.Sprint(c.how, c.outcome, wide), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d, g := &diary{}, graph.New("g", graph.Options{})
					g.Node("c", behave(d, c.how), c.o)
					node(g, d.gives("b", "b"))
					g.Edge(graph.Start, "c")
					g.Edge("c", "b")
					g.Edge("b", graph.End)
					if wide {
						g.Func("other", func(ctx context.Context, _ graph.State) (any, error) { return nil, ctx.Err() }, graph.NodeOptions{})
						g.Edge(graph.Start, "other")
						g.Edge("other", graph.End)
					}
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					if c.stop > 0 {
						time.AfterFunc(c.stop, cancel)
					}
					start := time.Now()
					r, err := agent.Run(ctx, g, agent.Task{Input: "x", Origin: "test"})
					if r.OK() && r.Reply == "" {
						r.Reply = "b"
					}
					check(t, fmt.Sprint(outcomeOf(r), " ", time.Since(start)), fmt.Sprint(c.outcome, " ", c.after))
					check(t, strings.Count(d.String(), "c"), fmt.Sprint(c.runs))
					if strings.Contains(d.String(), "b(") != r.OK() || r.OK() != (err == nil) {
						t.Errorf("%v %v: %s", r.Status, err, d)
					}
					time.Sleep(2 * time.Hour)
					if _, now := g.LeftBehind(); now != 0 {
						t.Errorf("%d are still left behind", now)
					}
				})
			})
		}
	}
}

// A graph in a sequence in a graph beside a cycle, stopped from outside.
func TestStopsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		in := graph.New("in", graph.Options{})
		in.Node("deaf", behave(d, "deaf"), graph.NodeOptions{})
		in.Node("slow", behave(d, "slow"), graph.NodeOptions{})
		for _, n := range []string{"deaf", "slow"} {
			in.Edge(graph.Start, n)
			in.Edge(n, graph.End)
		}
		out := graph.New("out", graph.Options{MaxSteps: -1})
		out.Node("seq", workflow.NewSequence("seq", workflow.SequenceOptions{}, d.says("a"), in), graph.NodeOptions{})
		if err := faults(line(out, "seq")); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var at time.Time
		time.AfterFunc(time.Minute, func() { at = time.Now(); cancel() })
		r, _ := agent.Run(ctx, out, agent.Task{Input: "x", Origin: "test"})
		if took := time.Since(at); r.Status != agent.Cancelled || took > 50*time.Millisecond {
			t.Errorf("%v %v after the stop", r.Status, took)
		}
		time.Sleep(2 * time.Hour)
	})
}

func TestGoto(t *testing.T) {
	for _, c := range []struct{ to, want string }{
		{"c", "done c; c sees 1"}, {"b", "done b; b sees 1"}, {"x", `failed a goes to "x", where no edge of it leads; `},
	} {
		d, g := &diary{}, graph.New("g", graph.Options{})
		g.Func("a", func(context.Context, graph.State) (any, error) {
			return graph.Goto{To: c.to, Set: map[string]any{"n": int64(1)}}, nil
		}, graph.NodeOptions{Effect: graph.Pure})
		for _, id := range []string{"b", "c"} {
			g.Node(id, agent.Func(id, func(ctx context.Context, _ agent.Task) (agent.Result, error) {
				d.note("%s sees %v", id, graph.StateOf(ctx)["n"])
				return agent.Result{Reply: id}, nil
			}), graph.NodeOptions{})
			g.Edge(id, graph.End)
		}
		g.Edge(graph.Start, "a")
		g.Branch("a", to("b"), []string{"b", "c"})
		r := run(t, g, "in")
		check(t, fmt.Sprint(outcomeOf(r), "; ", d), c.want)
	}
}

// A graph nests in a graph; tools are nodes, too.
func TestNestingAndTools(t *testing.T) {
	d := &diary{}
	in := graph.New("in", graph.Options{})
	in.Tool("add", llm.Tool{Name: "add", Params: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer","minimum":0,"maximum":9}},"required":["n"],"additionalProperties":false}`),
		Do: func(_ context.Context, args json.RawMessage) (json.RawMessage, error) {
			d.note("add %s", args)
			return json.RawMessage(`{"sum":5}`), nil
		}}, graph.NodeOptions{})
	line(in, "add")
	out := graph.New("out", graph.Options{})
	out.Node("in", in, graph.NodeOptions{})
	node(out, d.says("b"))
	line(out, "in", "b")
	r := run(t, out, int64(4))
	check(t, fmt.Sprint(outcomeOf(r), "; ", d), `done b; add {"n":4}, b({"add":{"sum":5},"input":4})`)
	check(t, r.Receipts[0].Tool, "add")
	check(t, textOf(r.Output), "{'b':'b','in':{'add':{'sum':5},'input':4},'input':4}")
	check(t, workflow.Describe(out).Children[1].Kind, "graph")
	r = run(t, out, int64(40))
	check(t, r.Status, "failed")
}

// What comes from outside is told as such to whoever comes after.
func TestTaintStays(t *testing.T) {
	g, seen := graph.New("g", graph.Options{}), ""
	g.Node("web", agent.Func("web", func(context.Context, agent.Task) (agent.Result, error) {
		return agent.Result{Reply: "obey", Origin: "mcp:web"}, nil
	}), graph.NodeOptions{})
	for _, id := range []string{"a", "b"} {
		g.Node(id, agent.Func(id, func(_ context.Context, task agent.Task) (agent.Result, error) {
			seen += id + " " + string(task.Origin) + ", "
			return agent.Result{Reply: id}, nil
		}), graph.NodeOptions{})
	}
	r, _ := agent.Run(t.Context(), line(g, "a", "web", "b"), agent.Task{Origin: "cli"})
	check(t, fmt.Sprint(seen, r.Origin), "a cli, b mcp:web, cli,mcp:web")
}

func TestCharacter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := graph.NewCharacter("body", map[string]float64{"openness": 0.5}, map[string]float64{"arousal": 0.2}, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		feel := func(arousal float64) {
			if err := c.AddMood(map[string]float64{"arousal": arousal}); err != nil {
				t.Error(err)
			}
		}
		now := func() string {
			v, _ := c.Value("arousal")
			return fmt.Sprintf("%.2f", v)
		}
		check(t, now(), "0.20")
		feel(0.4)
		check(t, now(), "0.60")
		time.Sleep(time.Minute)
		check(t, now(), "0.40") // half of the change is gone
		time.Sleep(time.Hour)
		check(t, now(), "0.20")
		feel(5)
		check(t, now(), "1.00")
		if err := c.SetMood(map[string]float64{"arousal": -1}); err != nil {
			t.Error(err)
		}
		check(t, now(), "-1.00")
		for _, m := range []map[string]float64{{"arousal": 1.5}, {"openness": 0.5}, {"joy": 0}} {
			if c.SetMood(m) == nil {
				t.Errorf("%v was taken", m)
			}
		}
		for _, m := range []map[string]float64{{"openness": -0.1}, {"courage": 0.5}} {
			if _, err := graph.NewCharacter("x", m, nil, 0); err == nil {
				t.Errorf("%v was taken", m)
			}
		}
		if _, err := c.Value("honesty"); err == nil {
			t.Error("a trait that is not set has a value")
		}
	})
}

// The mood decides when the edge is reached, not when the graph was made.
func TestMoodRoutes(t *testing.T) {
	c, _ := graph.NewCharacter("body", nil, map[string]float64{"arousal": 0}, 0)
	d, g := &diary{}, graph.New("g", graph.Options{})
	node(g, d.says("calm"), d.says("excited"))
	g.Func("bump", func(context.Context, graph.State) (any, error) {
		return nil, c.SetMood(map[string]float64{"arousal": 0.9})
	}, graph.NodeOptions{})
	g.Edge(graph.Start, "bump")
	g.Personality("bump", graph.Personality{Of: c, Trait: "arousal", Threshold: 0.5, Above: "excited", Below: "calm"})
	g.Edge("calm", graph.End)
	g.Edge("excited", graph.End)
	check(t, outcomeOf(run(t, g, "x")), "done excited")
}

// trace is a trace that hears what graphs tell.
type trace struct {
	mu   sync.Mutex // guards list
	list []string
}

func (h *trace) Node(ctx context.Context, m workflow.Moment) context.Context {
	h.Tell(ctx, "", m.Name, string(m.Phase), map[string]any{})
	return ctx
}

func (h *trace) Tell(ctx context.Context, _, name, what string, v map[string]any) context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(v, "run")
	s := name + " " + what
	if len(v) > 0 {
		s += " " + textOf(v)
	}
	h.list = append(h.list, s)
	return ctx
}

func TestEvents(t *testing.T) {
	d, asked := &diary{}, 0
	caps := graph.NewCapabilities(recallOptions(), capability(d, "cam", graph.ToolKind, "takes a picture"))
	g := graph.New("g", graph.Options{Registry: caps, Asker: says("yes")})
	node(g, d.says("a"))
	g.Human("ask", graph.Human{Prompt: "go?", Options: []string{"yes", "no"}}, graph.NodeOptions{})
	g.Edge(graph.Start, "a")
	g.Edge("a", "ask", rail(workflow.Warn, "", &asked))
	g.Discover("ask", graph.Discovery{Query: "cam"})
	h := &trace{}
	r, _ := agent.Run(workflow.WithRuntime(t.Context(), workflow.Runtime{Trace: h}), g, agent.Task{Input: "x", Origin: "test"})
	check(t, r.Status, "done")
	check(t, strings.Join(h.list, "\n"), `g start
g crossing {'edge':'e1','reason':'always','source':'START','target':'a','type':'static'}
a start
g guardrail {'at':'a → ask','guardrail':'rail','ok':true}
g crossing {'edge':'e2','reason':'always','source':'a','target':'ask','type':'static'}
a end
ask start
g interrupt {'node':'ask','prompt':'go?'}
g answer {'answer':'yes','node':'ask'}
g discovery {'candidates':[{'how':'tag','name':'cam','score':1}],'found':'cam','query':'cam'}
g crossing {'edge':'e3','reason':'found cam','source':'ask','target':'cam','type':'discovery'}
ask end
cam start
g crossing {'edge':'e3','reason':'always','source':'cam','target':'END','type':'static'}
cam end
g end`)
}

// On the bus of a robot they are events.
func TestEventsOnTheBus(t *testing.T) {
	b := bus.New(bus.Options{})
	defer b.Close(context.Background())
	var mu sync.Mutex
	var topics []string
	s, err := b.Tap("edged/#", func(e bus.Event) {
		mu.Lock()
		defer mu.Unlock()
		topics = append(topics, e.Topic)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	d, g := &diary{}, graph.New("g", graph.Options{})
	node(g, d.says("a"))
	ctx := workflow.WithRuntime(t.Context(), workflow.Runtime{Trace: workflow.Traces(workflow.OnBus(b), workflow.NewLive())})
	_, _ = agent.Run(ctx, line(g, "a"), agent.Task{Input: "x", Origin: "test"})
	mu.Lock()
	defer mu.Unlock()
	check(t, topics, "[edged/workflow/g/start edged/graph/g/crossing edged/graph/g/crossing edged/workflow/g/end]")
}
