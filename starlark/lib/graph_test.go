package lib_test

import "testing"

// TestGraphRuns asserts which nodes run, in what order, with what they see.
func TestGraphRuns(t *testing.T) {
	play(t, `
-- main.star --
def saw(name, out = None):
    def run(state):
        entry = [name, sorted([k for k in state if k != "input"])]
        bb.transact(lambda tx: tx.set("box/ran", tx.get("box/ran", []) + [entry]))
        return out
    return run

# A cycle runs until its branch says otherwise.
round = Graph("round", state = {"n": "sum"})
round.node("a", saw("a", {"n": 1}))
round.node("b", saw("b"))
round.edge(START, "a")
round.edge("a", "b")
round.branch("b", lambda state: END if state["n"] >= 3 else "a", to = ["a", END])

endless = Graph("endless", max_steps = 7)
endless.node("a", saw("a"))
endless.node("b", saw("b"))
endless.edge(START, "a")
endless.edge("a", "b")
endless.branch("b", lambda state: "a", to = ["a", END])

# One that runs itself is bounded, too.
def again(state):
    bb.incr("box/depth")
    return itself.run("again")

itself = Graph("itself", checkpoint = "none")
itself.node("again", again)
itself.edge(START, "again")
itself.edge("again", END)

# The arm that is not chosen does not run, nor what comes after it.
arms = Graph("arms")
arms.node("a", saw("a", "x"))
arms.node("b", saw("b", "y"))
arms.node("c", saw("c", "z"))
arms.node("d", saw("d"))
arms.edge(START, "a")
arms.branch("a", lambda state: state["input"], to = ["b", "c"])
arms.edge("b", END)
arms.edge("c", "d")
arms.edge("d", END)

# All outputs of parallel branches are in the result.
both = Graph("both", state = {"notes": "append"})
both.node("x", saw("x", {"x": 1, "notes": "from x"}))
both.node("y", saw("y", {"y": 2, "notes": "from y"}))
both.node("j", lambda state, ctx: {"sum": state["x"] + state["y"]}, join = "all")
both.edge(START, "x")
both.edge(START, "y")
both.edge("x", "j")
both.edge("y", "j")
both.edge("j", END)

# One branch fails: the other's effect and result are not lost.
def fails(state):
    ctx_sleep("1s")
    fail("broken")

def ctx_sleep(d):
    sleep(d)

half = Graph("half")
half.node("bad", fails)
half.node("good", saw("good", "did it"))
half.edge(START, "bad")
half.edge(START, "good")
half.edge("bad", END)
half.edge("good", END)
-- main_test.star --
load("main.star", "arms", "both", "endless", "half", "itself", "round")

def ran():
    return bb.get("box/ran", [])

def test_cycle():
    r = round.run("go")
    assert.eq([r.status, r.output["n"], [c.by for c in r.children]], ["done", 3, ["a", "b"] * 3])
    assert.eq(ran(), [["a", []], ["b", ["n"]]] + [["a", ["n"]], ["b", ["n"]]] * 2)

def test_a_cycle_is_bounded():
    r = endless.run("go")
    assert.eq([r.status, len(r.children)], ["failed", 7])
    assert.contains(r.reason, "max_steps")
    assert.contains(r.reason, "the cycle b → a → b")

def test_recursion_is_bounded():
    r = itself.run("go")
    assert.eq([r.status, bb.get("box/depth")], ["failed", 32])
    assert.contains(r.reason, "max_steps: graphs run one another 32 deep")

def test_arms():
    r = arms.run("b")
    assert.eq([r.status, [c.by for c in r.children]], ["done", ["a", "b"]])
    r = arms.run("c")
    assert.eq([c.by for c in r.children], ["a", "c", "d"])
    r = arms.run("q")
    assert.eq([r.status, [c.by for c in r.children]], ["failed", ["a"]])
    assert.contains(r.reason, '"q", which is none of ["b" "c"]')

def test_parallel():
    r = both.run({"k": 5})
    assert.eq(r.status, "done")
    assert.eq(r.output, {"input": {"k": 5}, "k": 5, "x": 1, "y": 2, "sum": 3, "notes": ["from x", "from y"]})
    assert.eq([c.by for c in r.children], ["x", "y", "j"])
    assert.eq(sorted(ran()), [["x", ["k"]], ["y", ["k"]]])

def test_one_branch_fails():
    r = half.run("go")
    assert.eq([r.status, r.by], ["failed", "bad"])
    assert.contains(r.reason, "broken")
    assert.eq([(c.by, c.status) for c in r.children], [("bad", "failed"), ("good", "done")])
    assert.eq([r.children[1].output, ran()], ["did it", [["good", []]]])
    for name, status in [("good", "done"), ("bad", "failed")]:
        assert.eq(expect_event("edged/workflow/%s/end" % name)["status"], status)
    assert.eq(expect_event("edged/workflow/half/end")["status"], "failed")
`)
}
