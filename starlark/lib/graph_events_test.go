package lib_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"edged/starlark/lib"
	"edged/workflow"
)

// TestGraphEvents: what a graph does is told, each with its reason.
func TestGraphEvents(t *testing.T) {
	play(t, `
-- main.star --
`+noting+`
rail = Guardrail("rail", lambda payload: "no" if payload == "bad" else None, on_violation = "warn")
g = Graph("g")
g.node("a", lambda state: state["input"])
g.node("b", did("b"))
g.node("c", lambda state: fail("jam"))
g.edge(START, "a")
g.branch("a", lambda state: "c" if state["a"] == "jam" else "b", to = ["b", "c"], guardrails = [rail])
g.edge("b", END)
g.edge("c", END)
-- main_test.star --
load("main.star", "g")

def told(what):
    return [json.decode(l[l.index("{"):].split(" ← ")[0]) for l in trace("edged/graph/g/" + what).splitlines()]

def test_crossings():
    r = g.run("bad")
    seen = sorted([(e["source"], e["target"], e["type"]) for e in told("crossing")])
    assert.eq(seen, [("START", "a", "static"), ("a", "b", "conditional"), ("b", "END", "static")])
    assert.eq([e["run"] for e in told("crossing")], [r.run_id] * 3)
    assert.eq(sorted([e["reason"] for e in told("crossing")]), ["always", "always", "chosen"])
    rails = told("guardrail")
    assert.eq([(e["guardrail"], e["ok"], e["violation"], e["on_violation"]) for e in rails], [("rail", False, "no", "warn")])
    assert.eq(sorted([e["node"] for e in told("checkpoint")]), ["a", "b"])
    expect_event("edged/workflow/g/start")
    assert.eq(expect_event("edged/workflow/g/end")["status"], "done")
    assert.eq(expect_event("edged/workflow/b/end")["status"], "done")

def test_a_failure():
    r = g.run("jam")
    assert.eq([r.status, r.by], ["failed", "c"])
    ev = expect_event("edged/workflow/c/end")
    assert.eq(ev["status"], "failed")
    assert.contains(ev["reason"], "jam")
    assert.eq(expect_event("edged/workflow/g/end")["status"], "failed")
`)
}

// TestGraphJoins: a join waits for the arms that were started, and for no
// others; without one the node runs once for each.
func TestGraphJoins(t *testing.T) {
	play(t, `
-- main.star --
`+noting+`
def later(name, d):
    def run(state):
        sleep(d)
        note(name)
        return name
    return run

def make(name, **how):
    g = Graph(name, state = {"j": "append"})
    g.node("a", did("a"))
    g.node("x", later("x", "5s"))
    g.node("y", later("y", "1s"))
    g.node("y2", later("y2", "9s"))
    g.node("z", did("z"))
    g.node("j", lambda state: note(["j"] + sorted([k for k in state if k in "xyz"])) or "j", input = None, **how)
    g.edge(START, "a")
    g.edge("a", "x")
    g.edge("a", "y")
    g.branch("a", lambda state: "z" if state["input"] == "three" else END, to = ["z", END])
    g.edge("x", "j")
    g.edge("y", "y2")
    g.edge("y2", "j")
    g.edge("z", "j")
    g.edge("j", END)
    return g

joined = make("joined", join = "all")
single = make("single")
-- main_test.star --
load("main.star", "joined", "single")

def ran():
    list = bb.get("box/ran", [])
    bb.set("box/ran", [])
    return list

def test_waits_for_what_was_started():
    begun = clock.now()
    joined.run("two")
    assert.eq(ran(), ["a", "y", "x", "y2", ["j", "x", "y"]])
    assert.eq(clock.now() - begun, time.parse_duration("10s"))  # side by side
    joined.run("three")
    assert.eq(sorted(ran()[:2]) + ran()[2:], ["a", "z"])

def test_without_a_join():
    single.run("two")
    assert.eq([e for e in ran() if type(e) == "list"], [["j", "x"], ["j", "y"]])
`)
}

// TestGraphPauses: a stop ends a run within 50 ms, and resume goes on.
func TestGraphPauses(t *testing.T) {
	play(t, `
-- main.star --
`+noting+`
def slow(state):
    note("slow")
    sleep("10s")
    return "slept"

g = Graph("g")
g.node("a", did("a", 1))
g.node("slow", slow, effect = "read")
g.node("b", did("b"))
g.edge(START, "a")
g.edge("a", "slow")
g.edge("slow", "b")
g.edge("b", END)
on("box/go", lambda ev: bus.publish("box/ended", g.run("x")))
on("box/on", lambda ev: bus.publish("box/resumed", g.resume(ev.payload)))
-- main_test.star --
load("main.star", "g")

def test_stop_and_resume():
    publish("box/go")
    clock.advance("2s")
    run = expect_event("edged/graph/g/checkpoint")["run"]
    robot.stop("test")
    r = expect_event("box/ended", within = "50ms")
    assert.eq([r["status"], r["reason"]], ["cancelled", "the robot was stopped"])
    robot.resume()
    publish("box/on", run)
    r = expect_event("box/resumed", within = "11s")
    assert.eq([r["status"], r["output"]["slow"], bb.get("box/ran")], ["done", "slept", ["a", "slow", "slow", "b"]])

def test_two_runs_at_once():
    publish("box/go")
    begun = clock.now()
    assert.eq([g.run(2).output["input"], clock.now() - begun], [2, time.parse_duration("10s")])
    assert.eq(expect_event("box/ended")["output"]["input"], "x")
`)
}

// TestQuestionOutlivesAReload: the next version of the scripts asks again.
func TestQuestionOutlivesAReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		r.host.Runs = workflow.NewRuns(r.board.Records("runs"), workflow.RunsOptions{})
		var asked []string
		said := make(chan string)
		r.host.Ask = func(ctx context.Context, q lib.Ask) (string, error) {
			asked = append(asked, q.Run+" "+q.Path)
			select {
			case s := <-said:
				return s, nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}
		main := fenced + "g = fenced(\"g\")\non(\"box/go\", lambda ev: g.run(\"x\"))\n"
		old := r.start(main)
		r.publish("box/go", nil)
		time.Sleep(time.Second)
		next := r.load(main + "\n# edited\n")
		grace, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := lib.Swap(grace, old, next); err != nil {
			t.Fatal(err)
		}
		defer r.stop(next)
		time.Sleep(time.Second)
		synctest.Wait()
		if len(asked) != 2 || asked[0] != asked[1] {
			t.Fatalf("asked %q, want the same twice", asked)
		}
		said <- "yes"
		time.Sleep(time.Second)
		ran, _ := r.board.Get("box/ran")
		if runs := next.Runs().List(); len(runs) != 1 || runs[0].State != "done" || !slices.Equal(ran.([]any), []any{"plan", "drive"}) {
			t.Errorf("got %+v, ran %v\n%s", runs, ran, r.errors())
		}
	})
}

// TestGraphWarnings: what runs and is doubtful is told by the check.
func TestGraphWarnings(t *testing.T) {
	r := newRig(t)
	defer r.close()
	b := r.load(`f = lambda state: None
rail = Guardrail("fence", lambda payload: None)
g = Graph("g")
for n in ["plan", "drive", "x", "y", "both"]:
    g.node(n, f)
g.edge(START, "plan")
g.edge("plan", "drive", guardrails = [rail])
g.edge("plan", "x")
g.edge("plan", "y")
g.edge("x", "both")
g.edge("y", "both")
g.edge("both", "drive")
g.edge("drive", END)
`)
	defer r.stop(b)
	var got []string
	for _, p := range b.Check() {
		got = append(got, p.String())
	}
	text := strings.Join(got, "\n")
	for _, want := range []string{
		"box/main.star:12:7: graph g: node drive is guarded from plan and has an unguarded way in from both [graph-unguarded-way]",
		"box/main.star:5:11: graph g: parallel branches from plan meet at node both, which runs once for each; say join=\"all\" if it shall wait for them [graph-missing-join]",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("got %s\nwant %s", text, want)
		}
	}
}
