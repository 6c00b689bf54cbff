package lib_test

import "testing"

// TestMatrix asserts the exact outcome of every node for everything that can
// become of a child, in virtual time, and which children ran.
func TestMatrix(t *testing.T) {
	play(t, `
-- main.star --
def kid(name):
    def run(task, ctx):
        bb.incr("box/ran/" + name)
        how = bb.get("box/how") if name == "a" else "done"
        if how == "declines":
            return Declined("no arm")
        if how == "raises":
            fail("jam")
        if how == "late":
            sleep("1h")
        if how == "cancelled":
            return Agent("me", fn = quits).run("x")
        return name + " did"
    return run

def quits(task, ctx):
    return gone.run(task)

# its child is cancelled, and nobody stopped it: a guard that is false
gone = Step(lambda task: task, guard = lambda ctx: False)

def a(task, ctx):
    if bb.get("box/how") == "guard":
        return guarded(task, ctx)
    return kid("a")(task, ctx)

def guarded(task, ctx):
    bb.incr("box/ran/a")
    bb.set("box/safe", False)
    ctx.sleep("1h")

first = Step(a, guard = lambda ctx: bb.get("box/safe", True))
b = kid("b")

nodes = {
    "Sequence": Sequence("Sequence", [first, b]),
    "reactive Sequence": Sequence("rs", [first, b], reactive = True),
    "Fallback": Fallback("Fallback", [first, b]),
    "reactive Fallback": Fallback("rf", [first, b], reactive = True),
    "Loop": Loop("Loop", first, until = lambda ctx: ctx.last.ok, max_iterations = 2),
    "Router": Router("Router", {"x": first, "y": b}, choose = lambda task: "x"),
    "Parallel": Parallel("Parallel", [first, b], timeout = "10s"),
    "need 1": Parallel("need1", [first, b], need = 1, timeout = "10s"),
    "Retry": Retry(first, max_attempts = 2),
    "Timeout": Timeout(first, "5s"),
    "Invert": Invert(first),
    "Repeat": Repeat(first, 2),
    "RunOnce": RunOnce(first),
    "Delay": Delay(first, "1s"),
    "Switch": Switch("Switch", key = lambda task: "x", cases = {"x": first, "y": b}),
    "Supervisor": Supervisor("Supervisor", lead = lambda q: {"reason": "", "worker": "finish" if "a " in q["task"] or "a answered" in q["task"] or "did not" in q["task"] else "a", "task": "t", "reply": "over"}, agents = {"a": first, "b": b}),
    "Tick": Tick(Sequence("ticked", [first, b])),
    "Step": Step(first),
}

late = {name: Timeout(n, "1m") for name, n in nodes.items()}

on("box/go", lambda ev: bus.publish("box/ended", nodes[ev.payload].run("go")))
-- main_test.star --
load("main.star", "late", "nodes")

def outcome(name, r):
    ran = ["a"] * bb.get("box/ran/a", 0) + ["b"] * bb.get("box/ran/b", 0)
    if name in ("Parallel", "need 1"):  # who of the two is first is nobody's business
        return r.status
    return "%s %s" % (r.status, ",".join(ran))

def begin(how):
    bb.set("box/how", how)
    for key in ("box/ran/a", "box/ran/b", "box/safe"):
        bb.delete(key)

def row(how, want):
    got = {}
    for name, n in nodes.items():
        begin(how)
        got[name] = outcome(name, n.run("go"))
    for name in nodes:
        assert.eq([name, got[name]], [name, want.get(name, "done" if name == "need 1" else want["else"])])

def test_done():
    row("done", {
        "else": "done a,b", "Parallel": "done", "Fallback": "done a", "reactive Fallback": "done a", "Loop": "done a", "Router": "done a",
        "Retry": "done a", "Timeout": "done a", "Invert": "failed a", "Repeat": "done a,a", "RunOnce": "done a", "Delay": "done a",
        "Switch": "done a", "Supervisor": "done a", "Step": "done a",
    })

def test_declines():
    row("declines", {
        "else": "failed a", "Fallback": "done a,b", "reactive Fallback": "done a,b", "Loop": "failed a,a", "Parallel": "failed", "need 1": "done",
        "Retry": "failed a,a", "Invert": "done a", "Supervisor": "done a",
    })

def test_raises():
    row("raises", {
        "else": "failed a", "Fallback": "done a,b", "reactive Fallback": "done a,b", "Loop": "failed a,a", "Parallel": "failed", "need 1": "done",
        "Retry": "failed a,a", "Supervisor": "done a",
    })

def test_times_out():
    got = {}
    for name, n in late.items():
        begin("late")
        got[name] = outcome(name, n.run("go"))
    want = {"Parallel": "timeout", "need 1": "done"}
    for name in nodes:
        assert.eq([name, got[name]], [name, want.get(name, "timeout a")])

def test_guard_turns_false():
    row("guard", {
        "else": "cancelled a", "Fallback": "done a,b", "reactive Fallback": "done a,b", "Parallel": "failed", "need 1": "done",
        "Supervisor": "done a", "Tick": "failed a",
    })

def test_cancelled():
    row("cancelled", {
        "else": "cancelled a", "Parallel": "failed", "need 1": "done", "Tick": "failed a",
    })

def test_stop():
    for name in nodes:
        if name == "need 1":
            continue  # b is done
        begin("late")
        robot.resume()
        publish("box/go", name)
        clock.advance("2s")
        robot.stop("test")
        r = expect_event("box/ended", within = "50ms")
        assert.eq([name, r["status"], r["reason"], bb.get("box/ran/a")], [name, "cancelled", "the robot was stopped", 1])
`)
}
