package lib_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"edged/blackboard"
	"edged/starlark/lib"
	"edged/workflow/graph"
)

// fenced is a graph that asks a person; %s are more options of Human.
const fenced = noting + `
def fenced(name, **more):
    g = Graph(name)
    g.node("plan", did("plan", {"x": 5}))
    g.node("ask", Human("That leaves the fence. Go anyway?", options = ["yes", "no"], **more))
    g.node("drive", did("drive", "there"), effect = "write")
    g.node("stay", did("stay", "here"))
    g.edge(START, "plan")
    g.edge("plan", "ask")
    g.branch("ask", lambda state: "drive" if state["ask"] == "yes" else "stay", to = ["drive", "stay"])
    g.edge("drive", END)
    g.edge("stay", END)
    return g
`

// TestGraphAsksPeople: the answer goes on, one arm runs, and nobody but a
// person answers.
func TestGraphAsksPeople(t *testing.T) {
	play(t, `
-- main.star --
`+fenced+`
patient = fenced("patient")
hasty = fenced("hasty", timeout = "30s")
brave = fenced("brave", timeout = "30s", on_timeout = "yes")
words = Graph("words")
words.node("ask", Human("Where to?"))
words.edge(START, "ask")
words.edge("ask", END)

def go(ev):
    bus.publish("box/ended", patient.run(ev.payload))

def answered(ev):
    bus.publish("box/resumed", patient.resume(ev["run"], answer = ev["text"]))

def cheat(task):
    """Answer for the person.

    Args:
      task: the run
    """
    return patient.resume(task, answer = "yes").status

on("box/go", go)
on("box/answer", answered)
on("box/cheat", lambda ev: bus.publish("box/answer", {"run": ev.payload, "text": "yes"}))
cheater = Agent("cheater", model = "m", tools = [cheat])
on("box/cheat_by_agent", lambda ev: cheater.run("answer it"))
on("box/cheat_later", lambda ev: after("1s", lambda: patient.resume(ev.payload, answer = "yes")))
-- main_test.star --
load("main.star", "brave", "hasty", "patient", "words")

def ran():
    return bb.get("box/ran", [])

def test_waits_and_goes_on():
    r = patient.run("go")
    assert.eq([r.status, r.by, ran()], ["escalated", "ask", ["plan"]])
    assert.contains(r.reason, "waits for an answer: That leaves the fence. Go anyway?")
    bad = patient.resume(r.run_id, answer = "perhaps")
    assert.eq([bad.status, ran()], ["failed", ["plan"]])
    assert.contains(bad.reason, "none of [\"yes\" \"no\"]")
    r = patient.resume(r.run_id, answer = "YES")
    assert.eq([r.status, r.reply, r.output["ask"], ran()], ["done", "there", "yes", ["plan", "drive"]])
    assert.eq([c.by for c in r.children], ["plan", "ask", "drive"])
    again = patient.resume(r.run_id, answer = "no")
    assert.eq([again.status, ran()], ["failed", ["plan", "drive"]])

def test_the_other_arm():
    r = patient.run("go")
    assert.contains(brave.resume(r.run_id, answer = "yes").reason, "is one of patient, not of brave")
    r = patient.resume(r.run_id, answer = "no")
    assert.eq([r.reply, ran()], ["here", ["plan", "stay"]])

def test_resume_without_an_answer():
    r = patient.run("go")
    again = patient.resume(r.run_id)
    assert.eq([again.status, again.run_id, ran()], ["escalated", r.run_id, ["plan"]])
    assert.eq(patient.resume("nothing").status, "failed")

def test_a_person_answers():
    publish("box/go", "x")
    assert.eq(person.asked()[0]["prompt"], "That leaves the fence. Go anyway?")
    assert.eq(expect_event("edged/graph/patient/interrupt")["node"], "ask")
    expect_no_event("box/ended", within = "1h")
    person.answers("yes")
    assert.eq([expect_event("box/ended")["reply"], ran()], ["there", ["plan", "drive"]])

def test_three_wrong_answers():
    for _ in range(3):
        person.answers("perhaps")
    r = hasty.run("go")
    assert.eq([r.status, r.output["ask"]], ["done", "no"])

def test_a_handler_hands_on_what_a_person_said():
    publish("box/go", "x")
    run = person.asked()[0]["run"]
    publish("box/answer", {"run": run, "text": "yes"})
    assert.eq([expect_event("box/ended")["reply"], expect_event("box/resumed")["reply"], ran()], ["there", "there", ["plan", "drive"]])

def test_nobody_else_answers():
    publish("box/go", "x")
    run = person.asked()[0]["run"]
    r = brave.resume(run, answer = "yes")  # it is no run of this graph
    assert.eq([r.status, ran()], ["failed", ["plan"]])
    publish("box/cheat", run)
    assert.contains(expect_event("edged/error")["message"], "nobody but a person answers a question")
    model.calls("cheat", {"task": run})
    model.says("I tried.")
    publish("box/cheat_by_agent", run)
    assert.contains(model.prompts()[-1].result, "nobody but a person answers a question")
    publish("box/cheat_later", run)
    clock.advance("2s")
    assert.contains(expect_event("edged/error")["message"], "nobody but a person answers a question")
    assert.eq(ran(), ["plan"])
    person.answers("no")
    assert.eq(ran(), ["plan", "stay"])

def test_timeouts():
    begun = clock.now()
    r = hasty.run("go")
    assert.eq([r.status, r.output["ask"], ran()], ["done", "no", ["plan", "stay"]])
    assert.eq(clock.now() - begun, time.parse_duration("30s"))
    why = "default: no answer in time: \"no\" was taken, nobody said it"
    assert.eq([r.degraded, r.reason, [[c.degraded, c.reason] for c in r.children if c.by == "ask"]], [True, "ask: " + why, [[True, why]]])
    ev = expect_event("edged/graph/hasty/answer")
    assert.eq([ev["answer"], ev["default"], ev["reason"]], ["no", True, "no answer in time"])
    assert.eq(brave.run("go").output["ask"], "yes")

def test_three_answers_that_are_none():
    for _ in range(3):
        person.answers("perhaps")
    r = hasty.run("go")
    assert.eq([r.status, r.output["ask"], r.degraded], ["done", "no", True])
    assert.contains(r.reason, "3 answers were none of the options")

def test_what_a_person_said_is_no_default():
    person.answers("NO", delay = "29s")
    r = hasty.run("go")
    assert.eq([r.status, r.output["ask"], r.degraded, r.reason], ["done", "no", False, ""])
    assert.true("default" not in expect_event("edged/graph/hasty/answer").payload)

def test_words():
    person.answers("to the porch", delay = "5s")
    r = words.run("go")
    assert.eq([r.reply, r.output["ask"]], ["to the porch", "to the porch"])
`)
}

// TestGraphAsksTwo: of two questions the answer says which one it is for,
// whether somebody follows the run or it waits in its file.
func TestGraphAsksTwo(t *testing.T) {
	play(t, `
-- main.star --
g = Graph("g")
g.node("door", Human("Which door?", options = ["front", "back"]))
g.node("way", Human("Which way?"))
for n in ["door", "way"]:
    g.edge(START, n)
    g.edge(n, END)

on("box/go", lambda ev: bus.publish("box/ended", g.run("x").output))
on("box/answer", lambda ev: bus.publish("box/resumed", g.resume(ev["run"], answer = ev["text"], at = ev["at"])))
-- main_test.star --
load("main.star", "g")

MANY = "waits with 2 questions; say which one with at: \"door\" (Which door?), \"way\" (Which way?)"

def test_live():
    publish("box/go")
    run = person.asked()[0]["run"]
    publish("box/answer", {"run": run, "text": "left", "at": ""})
    r = expect_event("box/resumed")
    assert.eq(r["status"], "failed")
    assert.contains(r["reason"], MANY)
    publish("box/answer", {"run": run, "text": "left", "at": "hall"})
    assert.contains(expect_event("box/resumed")["reason"], "no open question at \"hall\"; there is \"door\"")
    publish("box/answer", {"run": run, "text": "left", "at": "way"})
    r = expect_event("box/resumed").payload
    assert.eq([r["status"], r["by"]], ["escalated", "door"])
    assert.contains(r["reason"], "waits for an answer: Which door?")
    expect_no_event("box/ended", within = "1m")
    publish("box/answer", {"run": run, "text": "back", "at": ""})  # the only one now
    out = expect_event("box/ended").payload
    assert.eq([out["door"], out["way"]], ["back", "left"])

def test_waiting():
    run = g.run("x").run_id
    assert.contains(g.resume(run, answer = "left").reason, MANY)
    assert.eq(g.resume(run, answer = "left", at = "way").status, "escalated")
    r = g.resume(run, answer = "back")
    assert.eq([r.status, r.output["door"], r.output["way"]], ["done", "back", "left"])
    assert.fails(lambda: g.resume(run, at = "way"), contains = "there is no answer")
    again = g.fork(run, at = "door")  # the other branch has ended, and is not asked again
    assert.eq([again.status, again.by], ["escalated", "door"])
    assert.eq(g.resume(again.run_id, answer = "front").output["way"], "left")
`)
}

// TestQuestionOutlivesTheRobot: after a restart the same question is asked
// again, for what is left of its time; what has ended does not run again.
func TestQuestionOutlivesTheRobot(t *testing.T) {
	for _, answer := range []string{"yes", ""} {
		t.Run("answer "+answer, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				defer r.close()
				var asked []lib.Ask
				said := make(chan string)
				r.host.Ask = func(ctx context.Context, q lib.Ask) (string, error) {
					asked = append(asked, q)
					select {
					case s := <-said:
						return s, nil
					case <-ctx.Done():
						return "", ctx.Err()
					}
				}
				main := fenced + "g = fenced(\"g\", timeout = \"1h\")\non(\"box/go\", lambda ev: bus.publish(\"box/ended\", g.run(\"x\")))\n"
				b := r.start(main)
				begun := time.Now()
				r.publish("box/go", nil)
				time.Sleep(10 * time.Minute)
				quick, cancel := context.WithTimeout(context.Background(), time.Millisecond)
				defer cancel()
				if err := b.Stop(quick); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Minute)
				b = r.start(main)
				defer r.stop(b)
				time.Sleep(time.Second)
				synctest.Wait()
				if len(asked) != 2 || asked[0].Run != asked[1].Run || asked[0].Path != asked[1].Path || !asked[1].Until.Equal(begun.Add(time.Hour)) || asked[1].By != "graph:g" {
					t.Fatalf("asked %+v", asked)
				}
				want := "drive"
				if answer != "" {
					said <- answer
				} else {
					want = "stay"
					time.Sleep(39 * time.Minute)
					if runs := b.Runs().List(); runs[0].State != "running" {
						t.Errorf("before the hour is over it is %+v", runs)
					}
					time.Sleep(time.Minute)
				}
				time.Sleep(time.Second)
				ran, _ := r.board.Get("box/ran")
				if runs := b.Runs().List(); len(runs) != 1 || runs[0].State != "done" || !slices.Equal(ran.([]any), []any{"plan", want}) {
					t.Errorf("got %+v, ran %v\n%s", runs, ran, r.errors())
				}
			})
		})
	}
}

// TestWaitingRunsAskWhenSomebodyCanBeAsked: a run that waits since nobody could
// be asked asks at the next start where somebody can.
func TestWaitingRunsAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		main := fenced + "g = fenced(\"g\")\non(\"box/go\", lambda ev: g.run(\"x\"))\n"
		b := r.start(main)
		r.publish("box/go", nil)
		time.Sleep(time.Second)
		r.stop(b)
		if runs := b.Runs().List(); runs[0].State != "waiting" {
			t.Fatalf("got %+v, want it waiting", runs)
		}
		r.host.Ask = func(context.Context, lib.Ask) (string, error) { return "no", nil }
		b = r.start(main)
		defer r.stop(b)
		time.Sleep(time.Second)
		if runs := b.Runs().List(); runs[0].State != "done" {
			t.Errorf("got %+v, want it done", runs)
		}
	})
}

// TestGraphIsForked: a run goes on from an older step, changed, and stays as it
// is itself; what failed is a failure and runs again in a fork.
func TestGraphIsForked(t *testing.T) {
	play(t, `
-- main.star --
`+noting+`
def drive(state):
    note("drive at %s" % state["speed"])
    if bb.get("box/jam"):
        fail("jam")
    return {"there": state["speed"]}

g = Graph("g", state = {"log": "append"})
g.node("ears", did("ears", {"speed": 1, "log": "ears"}))
g.node("plan", did("plan", {"log": "plan"}))
g.node("drive", drive, effect = "write")
g.edge(START, "ears")
g.edge("ears", "plan")
g.edge("plan", "drive")
g.edge("drive", END)

volatile = Graph("volatile", checkpoint = "none")
volatile.node("a", did("a"))
volatile.edge(START, "a")
volatile.edge("a", END)
-- main_test.star --
load("main.star", "g", "volatile")

def ran():
    list = bb.get("box/ran", [])
    bb.set("box/ran", [])
    return list

def test_fork():
    first = g.run("go")
    assert.eq([first.output["log"], ran()], [["ears", "plan"], ["ears", "plan", "drive at 1"]])
    r = g.fork(first.run_id, at = "drive", patch = {"speed": 0.2})
    assert.eq([r.status, r.output["there"], r.output["log"], ran()], ["done", 0.2, ["ears", "plan"], ["drive at 0.2"]])
    assert.ne(r.run_id, first.run_id)
    r = g.fork(first.run_id, at = 2)  # the first of three checkpoints is behind it
    assert.eq([r.output["there"], r.output["log"], ran()], [1, ["ears", "plan"], ["plan", "drive at 1"]])
    r = g.fork(first.run_id, at = 1)
    assert.eq(ran(), ["ears", "plan", "drive at 1"])
    r = g.fork(r.run_id, at = "plan", patch = {"speed": 3})  # a fork of a fork
    assert.eq([r.output["there"], ran()], [3, ["plan", "drive at 3"]])
    again = g.resume(first.run_id)
    assert.eq(again.status, "failed")
    assert.contains(again.reason, "run is over")
    assert.contains(g.fork(first.run_id, at = "nowhere").reason, "there is no step \"nowhere\"")

def test_failed_write():
    bb.set("box/jam", True)
    first = g.run("go")
    assert.eq([first.status, first.by, ran()], ["failed", "drive", ["ears", "plan", "drive at 1"]])
    again = g.resume(first.run_id)  # it is not taken as done, and does not run again by itself
    assert.eq([again.status, ran()], ["failed", []])
    bb.set("box/jam", False)
    r = g.fork(first.run_id, at = "drive")
    assert.eq([r.status, r.output["there"], ran()], ["done", 1, ["drive at 1"]])

def test_without_checkpoints():
    r = volatile.run("go")
    assert.eq(r.status, "done")
    assert.eq(volatile.resume(r.run_id).status, "failed")
`)
}

// TestGraphIsInterrupted: a node that writes follows the rule of the intent,
// also in a graph.
func TestGraphIsInterrupted(t *testing.T) {
	const main = noting + `
def drive(state):
    note("drive")
    if bb.get("box/jam", True):
        sleep("1h")
    return "there"

g = Graph("g"%s)
g.node("plan", did("plan"))
g.node("drive", drive, effect = %q)
g.node("tell", did("tell"))
g.edge(START, "plan")
g.edge("plan", "drive")
g.edge("drive", "tell")
g.edge("tell", END)
on("box/go", lambda ev: bus.publish("box/ended", g.run("x")))
`
	for _, c := range []struct {
		name, more, effect string
		ran                []any
		state              string
	}{
		{"reads", "", "read", []any{"plan", "drive", "drive", "tell"}, "done"},
		{"writes", "", "write", []any{"plan", "drive"}, "in_doubt"},
		{"again", ", on_in_doubt = \"again\"", "write", []any{"plan", "drive", "drive", "tell"}, "done"},
		{"taken as done", ", on_in_doubt = \"done\"", "write", []any{"plan", "drive", "tell"}, "done"},
		{"taken as failed", ", on_in_doubt = lambda step: \"failed\"", "write", []any{"plan", "drive"}, "failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				defer r.close()
				main := fmt.Sprintf(main, c.more, c.effect)
				b := r.start(main)
				r.publish("box/go", nil)
				time.Sleep(time.Minute)
				quick, cancel := context.WithTimeout(context.Background(), time.Millisecond)
				defer cancel()
				if err := b.Stop(quick); err != nil {
					t.Fatal(err)
				}
				if err := r.board.Update(t.Context(), "test", map[string]any{"box/jam": false}, blackboard.SetOptions{}); err != nil {
					t.Fatal(err)
				}
				b = r.start(main)
				defer r.stop(b)
				time.Sleep(time.Second)
				ran, _ := r.board.Get("box/ran")
				if runs := b.Runs().List(); len(runs) != 1 || runs[0].State != c.state || !slices.Equal(ran.([]any), c.ran) {
					t.Errorf("got %+v, ran %v, want %s, %v\n%s", runs, ran, c.state, c.ran, r.errors())
				}
			})
		})
	}
}

// TestGraphsAreListed: the graphs of a folder, also those in other trees.
func TestGraphsAreListed(t *testing.T) {
	r := newRig(t)
	defer r.close()
	b := r.load("f = lambda s: None\ninner = Graph(\"inner\")\ninner.node(\"a\", f)\ninner.edge(START, \"a\")\ninner.edge(\"a\", END)\nouter = Graph(\"outer\")\nouter.node(\"i\", inner)\nouter.edge(START, \"i\")\nouter.edge(\"i\", END)\nSequence(\"s\", [outer])\n")
	var names []string
	for _, g := range b.Graphs() {
		var _ *graph.Graph = g
		names = append(names, g.Name())
	}
	if !slices.Equal(names, []string{"inner", "outer"}) {
		t.Errorf("got %q", names)
	}
	if trees := b.Workflows(); len(trees) != 1 || trees[0].Name != "s" {
		t.Errorf("got %+v, want one tree", trees)
	}
	r.stop(b)
}

// TestPlaces: a name leads to its line, the first of that name; so does a file
// to its text.
func TestPlaces(t *testing.T) {
	r := newRig(t)
	defer r.close()
	main := "f = lambda task: task\na = Agent(\"a\", fn = f)\nSequence(\"s\", [\n    a,\n    Condition(\"c\", lambda: True),\n])\nAgent(\"a\", fn = f)\n"
	b := r.load(main)
	at := b.Summary().Places
	for name, want := range map[string]string{"a": "box/main.star:2:", "s": "box/main.star:3:", "c": "box/main.star:5:"} {
		if !strings.HasPrefix(at[name], want) {
			t.Errorf("%s is at %q, want %s…", name, at[name], want)
		}
	}
	if text, ok := b.Text("box/main.star"); !ok || text != main {
		t.Errorf("the text is %q, %v", text, ok)
	}
	if text, ok := b.Text("../../etc/passwd"); ok {
		t.Errorf("a file that was not loaded has the text %q", text)
	}
	r.stop(b)
}
