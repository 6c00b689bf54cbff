package graph_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"edged/agent"
	"edged/agent/llm"
	"edged/agent/llm/recall"
	"edged/blackboard"
	"edged/bus"
	"edged/workflow"
	"edged/workflow/graph"
	"edged/workflow/workflowtest"
)

// plant makes graphs whose nodes note how often they began and ended.
type plant struct {
	mu           sync.Mutex // guards both
	began, ended map[string]int
}

func newPlant() *plant { return &plant{began: map[string]int{}, ended: map[string]int{}} }

func (p *plant) step(name string, out any) agent.Agent {
	return agent.Func(name, func(ctx context.Context, _ agent.Task) (agent.Result, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.began[name]++
		if ctx.Err() != nil {
			return agent.Result{}, ctx.Err()
		}
		p.ended[name]++
		if out == nil {
			return agent.Result{Reply: name}, nil
		}
		return agent.Result{Output: out}, nil
	})
}

func (p *plant) count(m map[string]int) map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(m)
}

// graph has every kind of edge, a cycle, branches that join, a nested workflow
// and nodes that write.
func (p *plant) graph(asker graph.Asker) *graph.Graph {
	rs := graph.Reducers()
	body, _ := graph.NewCharacter("body", map[string]float64{"openness": 0.7}, nil, 0)
	caps := graph.NewCapabilities(recall.Options{}, graph.Capability{Item: recall.Item{Name: "lamp", Doc: "switches the lamp"}, Kind: graph.ToolKind, Agent: p.step("lamp", nil)})
	g := graph.New("plant", graph.Options{Checkpoint: graph.AfterNode, State: map[string]graph.Reducer{"n": rs["sum"], "log": rs["append"]}, Registry: caps, Asker: asker})
	log := graph.NodeOptions{Writes: []string{"log"}}
	write := graph.NodeOptions{Writes: []string{"log"}, Effect: llm.Write}
	g.Node("look", p.step("look", nil), log)
	g.Node("count", p.step("count", int64(1)), graph.NodeOptions{Writes: []string{"n"}})
	g.Node("grasp", p.step("grasp", nil), write)
	g.Node("left", workflow.NewSequence("arm", workflow.SequenceOptions{}, p.step("arm1", nil), p.step("arm2", nil)), log)
	g.Node("right", p.step("right", nil), write)
	g.Node("both", p.step("both", nil), graph.NodeOptions{Join: graph.All, Writes: []string{"log"}})
	g.Node("bold", p.step("bold", nil), log)
	g.Node("shy", p.step("shy", nil), log)
	g.Human("ask", graph.Human{Prompt: "go?", Options: []string{"yes", "no"}}, graph.NodeOptions{})
	g.Edge(graph.Start, "look")
	g.Edge("look", "count")
	g.Branch("count", func(_ context.Context, s graph.State) (string, error) {
		if s["n"].(int64) < 3 {
			return "count", nil
		}
		return "grasp", nil
	}, []string{"count", "grasp"})
	g.Edge("grasp", "left")
	g.Edge("grasp", "right")
	g.Edge("left", "both")
	g.Edge("right", "both")
	g.Personality("both", graph.Personality{Of: body, Trait: "openness", Threshold: 0.5, Above: "bold", Below: "shy"})
	g.Edge("bold", "ask")
	g.Branch("ask", func(_ context.Context, s graph.State) (string, error) {
		if s["ask"] == "yes" {
			return "shy", nil
		}
		return graph.End, nil
	}, []string{"shy", graph.End})
	g.Discover("shy", graph.Discovery{Query: "switch the lamp"})
	return g
}

// asks answers at once.
type asks func(ctx context.Context, q graph.Question) (string, error)

func (a asks) Ask(ctx context.Context, q graph.Question) (string, error) { return a(ctx, q) }

func says(s string) graph.Asker {
	return asks(func(context.Context, graph.Question) (string, error) { return s, nil })
}

var once = map[string]int{"look": 1, "count": 3, "grasp": 1, "arm1": 1, "arm2": 1, "right": 1, "both": 1, "bold": 1, "shy": 1, "lamp": 1}

const wholeLog = "['look','grasp','arm2','right','both','bold','shy']"

// TestKilledAtEveryWrite lets the process die at every single write of a run,
// with the write done or not, and goes on with what is on the disk.
func TestKilledAtEveryWrite(t *testing.T) {
	p, whole := newPlant(), workflowtest.NewDisk()
	ctx, _ := on(t.Context(), whole)
	r, err := agent.Run(ctx, p.graph(says("yes")), agent.Task{Input: "x", Origin: "test"})
	if !r.OK() || !maps.Equal(p.ended, once) {
		t.Fatalf("undisturbed: %v %v %v", r.Status, err, p.ended)
	}
	check(t, textOf(r.Output.(map[string]any)["log"]), wholeLog)
	doubts := 0
	for n := 1; n <= whole.Writes(); n++ {
		for _, after := range []bool{false, true} {
			doubts += killAt(t, n, after)
		}
	}
	if doubts == 0 {
		t.Error("nothing was ever in doubt")
	}
	t.Logf("%d writes, %d runs in doubt", whole.Writes(), doubts)
}

func killAt(t *testing.T, n int, after bool) (doubts int) {
	name := fmt.Sprintf("write %d, got through %v", n, after)
	p, d := newPlant(), workflowtest.NewDisk()
	d.Die, d.Through = n, after
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d.Power = cancel
	ctx, _ = on(ctx, d)
	if r, _ := agent.Run(ctx, p.graph(says("yes")), agent.Task{Input: "x", Origin: "test"}); r.OK() {
		t.Errorf("%s: the run is done although it could not be recorded", name)
	}
	next := d.Reboot()
	ctx, runs := on(t.Context(), next)
	list := runs.List()
	if len(list) == 0 {
		if n > 1 || after {
			t.Errorf("%s: the run is lost", name)
		}
		return 0
	}
	id := list[0].ID
	for round := 0; ; round++ {
		info, err := runs.Get(id)
		if err != nil {
			t.Fatal(err)
		}
		if !info.Ended.IsZero() {
			if info.State != "done" {
				t.Errorf("%s: %s %s", name, info.State, info.Reason)
			}
			break
		}
		safe := map[string]int{}
		for _, s := range info.Steps {
			if s.State == "done" {
				safe[s.Name]++
			}
		}
		before := p.count(p.began)
		r, _ := p.graph(says("yes")).Resume(ctx, runs, id, "")
		for step, times := range p.count(p.began) {
			if again := times - before[step]; again > once[step]-safe[step] {
				t.Errorf("%s: %s ran %d more times, with %d outcomes on the disk", name, step, again, safe[step])
			}
		}
		if r.OK() {
			check(t, textOf(r.Output.(map[string]any)["log"]), wholeLog)
			continue
		}
		if round > 3 {
			t.Errorf("%s: %v %v", name, r.Status, r.Reason)
			break
		}
		info, _ = runs.Get(id)
		for _, s := range info.Steps {
			if s.State == workflow.StateInDoubt {
				doubts = 1
				if err := runs.Decide(ctx, id, s.Path, workflow.TakeAsDone, agent.Result{Reply: s.Name}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, step := range []string{"grasp", "right"} {
		if p.began[step] > 1 {
			t.Errorf("%s: %s writes and ran %d times", name, step, p.began[step])
		}
	}
	return doubts
}

func TestResumeAfterAPerson(t *testing.T) {
	d, st := &diary{}, workflowtest.NewDisk()
	make := func() *graph.Graph {
		g := graph.New("g", graph.Options{Checkpoint: graph.AfterNode})
		node(g, d.says("a"), d.says("go"), d.says("stay"))
		g.Human("ask", graph.Human{Prompt: "go anyway?", Options: []string{"yes", "no"}}, graph.NodeOptions{})
		g.Edge(graph.Start, "a")
		g.Edge("a", "ask")
		g.Branch("ask", func(_ context.Context, s graph.State) (string, error) {
			if s["ask"] == "yes" {
				return "go", nil
			}
			return "stay", nil
		}, []string{"go", "stay"})
		g.Edge("go", graph.End)
		g.Edge("stay", graph.End)
		return g
	}
	ctx, runs := on(t.Context(), st)
	r, _ := agent.Run(ctx, make(), agent.Task{Input: "x", Origin: "test"})
	info, _ := runs.Get(r.RunID)
	check(t, fmt.Sprint(outcomeOf(r), "; ", info.State, " ", info.Reason), "escalated waits for an answer: go anyway?; waiting go anyway?")
	ctx, runs = on(t.Context(), st.Reboot())
	if _, err := make().Resume(ctx, runs, r.RunID, "maybe"); err == nil || !strings.Contains(err.Error(), "none of") {
		t.Errorf("got %v", err)
	}
	again, _ := make().Resume(ctx, runs, r.RunID, "")
	check(t, outcomeOf(again), "escalated waits for an answer: go anyway?") // nobody has answered
	again, err := make().Resume(ctx, runs, r.RunID, "YES")
	check(t, fmt.Sprint(outcomeOf(again), err), "done go<nil>")
	check(t, d, "a(x), go(yes)") // a once, and only one arm
	if _, err := make().Resume(ctx, runs, r.RunID, "no"); err == nil {
		t.Error("a question was answered twice")
	}
}

// While a person is asked the other branches go on.
func TestOthersGoOnWhileAPersonIsAsked(t *testing.T) {
	d, st := &diary{}, workflowtest.NewDisk()
	g := graph.New("g", graph.Options{Checkpoint: graph.AfterNode})
	g.Human("ask", graph.Human{Prompt: "?", Options: []string{"yes", "no"}}, graph.NodeOptions{})
	node(g, d.says("a"), d.says("b"))
	g.Node("j", d.says("j"), graph.NodeOptions{Join: graph.All})
	g.Edge(graph.Start, "ask")
	g.Edge(graph.Start, "a")
	g.Edge("a", "b")
	g.Edge("b", "j")
	g.Edge("ask", "j")
	g.Edge("j", graph.End)
	ctx, runs := on(t.Context(), st)
	r, _ := agent.Run(ctx, g, agent.Task{Input: "x", Origin: "test"})
	check(t, d, "a(x), b(a)")
	r, _ = g.Resume(ctx, runs, r.RunID, "no")
	check(t, fmt.Sprint(outcomeOf(r), "; ", d), `done j; a(x), b(a), j({"ask":"no","b":"b"})`)
}

func TestHumanTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			h     graph.Human
			asker graph.Asker
			want  string
		}{
			{graph.Human{Options: []string{"yes", "no"}, Timeout: time.Minute}, asks(func(ctx context.Context, _ graph.Question) (string, error) {
				<-ctx.Done()
				return "", ctx.Err()
			}), "done no 1m0s"},
			{graph.Human{Options: []string{"yes", "no"}, Timeout: time.Minute, OnTimeout: "yes"}, asks(func(context.Context, graph.Question) (string, error) {
				time.Sleep(time.Hour) // deaf
				return "no", nil
			}), "done yes 1m0s"},
			{graph.Human{Options: []string{"yes", "no"}}, says(" Yes "), "done yes 0s"},
			{graph.Human{Options: []string{"yes", "no"}}, says("perhaps"), "done no 0s"},
			{graph.Human{}, says("a word"), "done a word 0s"},
			{graph.Human{}, nil, "escalated nobody answered ask: graph: nobody can be asked now 0s"},
		} {
			g := graph.New("g", graph.Options{Asker: c.asker})
			g.Human("ask", c.h, graph.NodeOptions{})
			start := time.Now()
			r := run(t, line(g, "ask"), "x")
			check(t, fmt.Sprint(outcomeOf(r), " ", time.Since(start)), c.want)
		}
		time.Sleep(2 * time.Hour)
	})
}

// The time a person has goes on while the process is gone.
func TestQuestionOutlivesTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := workflowtest.NewDisk()
		make := func() *graph.Graph {
			g := graph.New("g", graph.Options{Checkpoint: graph.AfterNode, Asker: asks(func(ctx context.Context, _ graph.Question) (string, error) {
				<-ctx.Done()
				return "", ctx.Err()
			})})
			g.Human("ask", graph.Human{Prompt: "?", Options: []string{"yes", "no"}, Timeout: time.Minute}, graph.NodeOptions{})
			return line(g, "ask")
		}
		ctx, _ := on(t.Context(), st)
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		r, _ := agent.Run(ctx, make(), agent.Task{})
		check(t, r.Status, "timeout")
		time.Sleep(30 * time.Second)
		ctx, runs := on(t.Context(), st.Reboot())
		start := time.Now()
		r, _ = make().Resume(ctx, runs, r.RunID, "")
		check(t, fmt.Sprint(outcomeOf(r), " ", time.Since(start)), "done no 10s")
	})
}

// A write that failed is a failure, and is run again in a fork from there.
func TestFailedWriteIsNotDone(t *testing.T) {
	d, n := &diary{}, 0
	bad := agent.Func("drive", func(context.Context, agent.Task) (agent.Result, error) {
		d.note("drive")
		if n++; n == 1 {
			return agent.Result{}, errors.New("stuck")
		}
		return agent.Result{Reply: "driven"}, nil
	})
	g := graph.New("g", graph.Options{Checkpoint: graph.AfterNode})
	node(g, d.says("a"))
	g.Node("drive", bad, graph.NodeOptions{Effect: llm.Write})
	line(g, "a", "drive")
	ctx, runs := on(t.Context(), workflowtest.NewDisk())
	r, _ := agent.Run(ctx, g, agent.Task{Input: "x", Origin: "test"})
	check(t, outcomeOf(r)+"; "+ranIn(r), "failed stuck; a, drive failed")
	id, err := g.Fork(ctx, runs, r.RunID, "drive", nil)
	if err != nil {
		t.Fatal(err)
	}
	again, _ := g.Resume(ctx, runs, id, "")
	check(t, outcomeOf(again)+"; "+d.String(), "done driven; a(x), drive, drive")
}

// A fork from the first of three checkpoints runs the rest again, with a patch,
// and leaves the first run as it was.
func TestForkWithAPatch(t *testing.T) {
	d, st := &diary{}, workflowtest.NewDisk()
	g := graph.New("g", graph.Options{Checkpoint: graph.AfterNode, State: map[string]graph.Reducer{"log": graph.Reducers()["append"]}})
	for _, id := range []string{"a", "b", "c"} {
		g.Func(id, func(_ context.Context, s graph.State) (any, error) {
			d.note("%s sees %v of %v", id, s["log"], s["speed"])
			return map[string]any{"log": id}, nil
		}, graph.NodeOptions{})
	}
	line(g, "a", "b", "c")
	ctx, runs := on(t.Context(), st)
	r, _ := agent.Run(ctx, g, agent.Task{Input: map[string]any{"speed": int64(1)}, Origin: "test"})
	check(t, d, "a sees <nil> of 1, b sees [a] of 1, c sees [a b] of 1")
	whole := st.Records()
	for _, at := range []string{"2", "b", "2~2"} {
		d.list = nil
		id, err := g.Fork(ctx, runs, r.RunID, at, map[string]any{"speed": int64(9)})
		if err != nil {
			t.Fatal(err)
		}
		again, _ := g.Resume(ctx, runs, id, "")
		check(t, d, "b sees [a] of 9, c sees [a b] of 9")
		check(t, textOf(again.Output), "{'input':{'speed':1},'log':['a','b','c'],'speed':9}")
		info, _ := runs.Get(id)
		check(t, info.ForkedFrom == r.RunID, "true")
	}
	for name, text := range whole {
		if string(st.Records()[name]) != string(text) {
			t.Errorf("%s of the first run was changed", name)
		}
	}
	if _, err := g.Fork(ctx, runs, r.RunID, "nowhere", nil); err == nil {
		t.Error("forked at nowhere")
	}
}

// A patch is there after a join, whichever arm it was made for, and stays in a
// fork of the fork.
func TestPatchesStay(t *testing.T) {
	g := graph.New("g", graph.Options{Checkpoint: graph.AfterNode, State: map[string]graph.Reducer{"log": graph.Reducers()["append"]}})
	for _, id := range []string{"s", "x", "y"} {
		g.Func(id, func(_ context.Context, s graph.State) (any, error) {
			return map[string]any{"log": id, id: s["k"]}, nil
		}, graph.NodeOptions{})
	}
	g.Func("j", func(_ context.Context, s graph.State) (any, error) { return s["k"], nil }, graph.NodeOptions{Join: graph.All})
	g.Edge(graph.Start, "s")
	g.Edge("s", "x")
	g.Edge("s", "y")
	g.Edge("x", "j")
	g.Edge("y", "j")
	g.Edge("j", graph.End)
	ctx, runs := on(t.Context(), workflowtest.NewDisk())
	fork := func(id, at string, patch map[string]any, want string) string {
		t.Helper()
		id, err := g.Fork(ctx, runs, id, at, patch)
		if err != nil {
			t.Fatal(err)
		}
		r, _ := g.Resume(ctx, runs, id, "")
		m := r.Output.(map[string]any)
		check(t, textOf([]any{m["k"], m["s"], m["x"], m["y"], m["j"], m["log"]}), want)
		return id
	}
	first, _ := agent.Run(ctx, g, agent.Task{Input: map[string]any{"k": int64(1)}, Origin: "test"})
	five := map[string]any{"k": int64(5)}
	for _, row := range [][2]string{
		{"s", "[5,5,5,5,5,['s','x','y']]"}, {"x", "[5,1,5,1,5,['s','x','y']]"}, {"y", "[5,1,1,5,5,['s','x','y']]"}, {"j", "[5,1,1,1,5,['s','x','y']]"},
	} {
		id := fork(first.RunID, row[0], five, row[1])
		fork(id, row[0], nil, row[1])
		id = fork(id, row[0], map[string]any{"z": int64(1)}, row[1])
		fork(id, row[0], map[string]any{"k": int64(1)}, "[1,1,1,1,1,['s','x','y']]")
		fork(id, "s", map[string]any{"k": int64(1)}, "[1,1,1,1,1,['s','x','y']]")
	}
	_, err := g.Fork(ctx, runs, first.RunID, "nowhere", nil)
	if err == nil || !strings.Contains(err.Error(), `there is no step "nowhere", only 1 s, 2 `) { // x and y as they ended
		t.Error(err)
	}
}

// Of two questions the answer says which one it is for: by the node, or by the
// path of its step.
func TestAnswersAreForTheQuestionThatIsMeant(t *testing.T) {
	g := graph.New("g", graph.Options{Checkpoint: graph.AfterNode})
	for _, id := range []string{"a", "b"} {
		g.Human(id, graph.Human{Prompt: id + "?"}, graph.NodeOptions{})
		g.Edge(graph.Start, id)
		g.Edge(id, graph.End)
	}
	ctx, runs := on(t.Context(), workflowtest.NewDisk())
	r, _ := agent.Run(ctx, g, agent.Task{Input: "x", Origin: "test"})
	for _, row := range [][2]string{{"", `waits with 2 questions; say which one with at: "a" (a?), "b" (b?)`}, {"c", `no open question at "c"; there is "a" (a?), "b" (b?)`}} {
		if err := g.Answer(ctx, runs, r.RunID, row[0], "x"); err == nil || !strings.Contains(err.Error(), row[1]) {
			t.Errorf("at %q: got %v, want %s", row[0], err, row[1])
		}
	}
	if err := errors.Join(g.Answer(ctx, runs, r.RunID, "b", "to b"), g.Answer(ctx, runs, r.RunID, "1~1@0", "to a")); err != nil {
		t.Fatal(err)
	}
	r, _ = g.Resume(ctx, runs, r.RunID, "")
	check(t, textOf(r.Output), "{'a':'to a','b':'to b','input':'x'}")
}

// On a real blackboard file, closed and opened again.
func TestOnTheBlackboard(t *testing.T) {
	path := t.TempDir() + "/board"
	open := func() (context.Context, *workflow.Runs, func()) {
		b := bus.New(bus.Options{})
		board, err := blackboard.Open(b, blackboard.Options{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		runs := workflow.NewRuns(board.Records("runs"), workflow.RunsOptions{})
		return workflow.WithRuntime(t.Context(), workflow.Runtime{Runs: runs}), runs, func() {
			_ = board.Close()
			_ = b.Close(context.Background())
		}
	}
	p := newPlant()
	ctx, _, shut := open()
	r, _ := agent.Run(ctx, p.graph(nil), agent.Task{Input: "x", Origin: "test"})
	check(t, r.Status, "escalated")
	shut()
	ctx, runs, shut := open()
	defer shut()
	id, err := p.graph(nil).Fork(ctx, runs, r.RunID, "both", nil)
	if err != nil {
		t.Fatal(err)
	}
	first, err := p.graph(nil).Resume(ctx, runs, r.RunID, "yes")
	check(t, fmt.Sprint(first.Status, err, " ", p.began["both"]), "done<nil> 1")
	if _, err := p.graph(nil).Resume(ctx, runs, id, "yes"); err == nil || !strings.Contains(err.Error(), "no open question") {
		t.Errorf("got %v", err) // forked before it was asked
	}
	r, _ = p.graph(says("no")).Resume(ctx, runs, id, "")
	check(t, fmt.Sprint(r.Status, " ", p.began["look"], p.began["grasp"], p.began["both"]), "done 1 1 2")
}

// A graph that is changed does not resume runs of the old one.
func TestChangedGraphsAreNotResumed(t *testing.T) {
	make := func(to string) *graph.Graph {
		d := &diary{}
		g := graph.New("g", graph.Options{Checkpoint: graph.AfterNode})
		node(g, d.says("a"), d.says("b"))
		g.Human("ask", graph.Human{Prompt: "?"}, graph.NodeOptions{})
		g.Edge(graph.Start, "ask")
		g.Edge("ask", to)
		g.Edge("a", "b")
		g.Edge("b", "a")
		g.Branch("a", func(context.Context, graph.State) (string, error) { return graph.End, nil }, []string{graph.End})
		return g
	}
	ctx, runs := on(t.Context(), workflowtest.NewDisk())
	r, _ := agent.Run(ctx, make("a"), agent.Task{})
	if _, err := make("b").Resume(ctx, runs, r.RunID, "hi"); !errors.Is(err, workflow.ErrChanged) {
		t.Errorf("got %v", err)
	}
}

// A node is one record, written once; the run itself is two.
func TestOneCommitPerNode(t *testing.T) {
	d, st := &diary{}, workflowtest.NewDisk()
	g := graph.New("g", graph.Options{Checkpoint: graph.AfterNode})
	node(g, d.says("a"), d.says("b"), d.says("c"))
	g.Edge(graph.Start, "a")
	g.Branch("a", to("b"), []string{"b", "c"})
	g.Edge("b", "c")
	g.Edge("c", graph.End)
	ctx, _ := on(t.Context(), st)
	_, _ = agent.Run(ctx, g, agent.Task{Input: "x", Origin: "test"})
	check(t, st.Writes(), "5")
}

// A goroutine that a node ends is a failure of the node.
func TestGoexit(t *testing.T) {
	d, g := &diary{}, graph.New("g", graph.Options{})
	g.Func("a", func(context.Context, graph.State) (any, error) { runtime.Goexit(); return nil, nil }, graph.NodeOptions{})
	node(g, d.says("b"))
	check(t, outcomeOf(run(t, line(g, "b", "a"), "x")), "failed the goroutine was ended")
}

// Where a step leads that a person took as done is chosen once, even if the
// process dies again.
func TestDecidedOnce(t *testing.T) {
	d, st, asked := &diary{}, workflowtest.NewDisk(), 0
	var stop context.CancelFunc
	make := func() *graph.Graph {
		g := graph.New("g", graph.Options{Checkpoint: graph.AfterNode})
		cut := func(name string) agent.Agent {
			return agent.Func(name, func(ctx context.Context, task agent.Task) (agent.Result, error) {
				d.note("%s(%s)", name, task.Text())
				stop()
				return agent.Result{Reply: name}, ctx.Err()
			})
		}
		g.Node("drive", cut("drive"), graph.NodeOptions{Effect: llm.Write})
		g.Node("b", cut("b"), graph.NodeOptions{})
		g.Edge(graph.Start, "drive")
		g.Branch("drive", func(_ context.Context, s graph.State) (string, error) {
			asked++
			return map[any]string{"seen": "b"}[s["drive"]], nil
		}, []string{"b"})
		g.Edge("b", graph.End)
		return g
	}
	next := func() (context.Context, *workflow.Runs) {
		ctx, cancel := context.WithCancel(t.Context())
		stop = cancel
		return on(ctx, st)
	}
	ctx, runs := next()
	r, _ := agent.Run(ctx, make(), agent.Task{Input: "x", Origin: "test"})
	ctx, runs = next()
	doubt, _ := make().Resume(ctx, runs, r.RunID, "")
	check(t, doubt.Status, "escalated")
	if err := runs.Decide(ctx, r.RunID, "1~1", workflow.TakeAsDone, agent.Result{Reply: "seen"}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		ctx, runs = next()
		if again, err := make().Resume(ctx, runs, r.RunID, ""); again.Status != agent.Cancelled {
			t.Errorf("got %v", err)
		}
	}
	stop = func() {}
	ctx, runs = on(t.Context(), st)
	r, _ = make().Resume(ctx, runs, r.RunID, "")
	check(t, fmt.Sprint(outcomeOf(r), "; ", asked, "; ", d), "done b; 1; drive(x), b(seen), b(seen), b(seen)")
}
