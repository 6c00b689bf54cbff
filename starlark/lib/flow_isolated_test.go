package lib_test

import (
	"strings"
	"testing"

	"edged/starlark/lib"
)

// TestIsolatedWorkflow: an isolated script's nodes are the robot's; only its
// functions are elsewhere. They get what they are offered; guards,
// conditions and untils get one that can be looked at.
func TestIsolatedWorkflow(t *testing.T) {
	r := newRig(t)
	defer r.close()
	const main = `
def count(task):
    return bb.incr("box/n")

def drive(task):
    bus.publish("box/driving")
    sleep("1h")

up = Loop("up", Sequence("s", [count, lambda task: task]), until = lambda c: c.count >= 2 and c.last.ok)
trip = Sequence("trip", [Condition("ok", lambda c: True), up, Step(drive, guard = lambda c: bb.get("box/safe", True), on_halt = lambda c: bb.set("box/why", c.why))])

def on_go(ev):
    r = trip.run("x")
    bus.publish("box/out", [r.status, r.reason[:12], bb.get("box/n"), bb.get("box/why")[:6]])

on("box/go", on_go)
on("box/driving", lambda ev: bb.set("box/safe", False))
`
	if got := r.isolated(main); got != `["cancelled","guard lambda",2,"guard "]` {
		t.Errorf("got %s\n%s", got, r.errors())
	}
}

// TestIsolatedGraph: so it is with graphs; what functions return, a choice of
// the next node or a replacement too, comes through, and errors are those of
// the load.
func TestIsolatedGraph(t *testing.T) {
	r := newRig(t)
	defer r.close()
	const main = `
def weigh(state):
    return goto("light" if state["kg"] < 2 else "heavy", {"seen": state["kg"]})

slow = Guardrail("slow", lambda payload, state: replace(dict(payload, v = min(payload["v"], state["kg"]))), on_violation = "sanitize")
g = Graph("g", state = {"log": "append", "n": lambda old, new: (old or 0) + new})
g.node("weigh", weigh)
g.node("light", lambda state: {"v": 9, "log": "light", "n": 2}, guardrails = [Guardrail("fine", lambda payload, state: None)])
g.node("heavy", lambda state: Declined("too heavy"))
g.node("out", lambda state: [state["seen"], state["v"], state.get("n")], retry = Retry(2))
g.edge(START, "weigh")
g.branch("weigh", lambda state: END, to = ["light", "heavy"])
g.edge("light", "out", guardrails = [slow])
g.edge("heavy", END)
g.edge("out", END)
%s
on("box/go", lambda ev: bus.publish("box/out", [[g.run({"kg": kg}).status, g.run({"kg": kg}).output.get("out")] for kg in [1, 3]]))
`
	opt := lib.Options{Grants: lib.Grants{All: true}, Isolated: &lib.Isolation{Command: host(t)}}
	if _, err := lib.Load(t.Context(), r.host, source(strings.Replace(main, "%s", `g.node("lost", weigh)`, 1)), opt); err == nil || !strings.Contains(shown(err), "graph g: no way leads to node lost") {
		t.Errorf("got %s, want that a node is lost", shown(err))
	}
	if got := r.isolated(strings.Replace(main, "%s", "g.check()", 1)); got != `[["done",[1,1,2]],["failed",null]]` {
		t.Errorf("got %s\n%s", got, r.errors())
	}
}
