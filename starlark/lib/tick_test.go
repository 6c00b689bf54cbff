package lib_test

import "testing"

func TestTick(t *testing.T) {
	play(t, `
-- main.star --
def approach(ctx):
    n = ctx.state.get("n", 0) + 1
    ctx.state["n"] = n
    bb.set("box/n", n)
    return "running" if n < 4 else "success"

def stopped(ctx):
    bus.publish("box/stopped", ctx.why)

def broken(ctx):
    fail("jam")

low = Condition("low", lambda ctx: bb.get("box/low", False))
near = Action("near", approach, on_halt = stopped)
life = Tick(Fallback("life", [Sequence("charge", [low, lambda task: "charged"]), near], reactive = True), every = "100ms")
bad = Tick(Sequence("bad", [Action("broken", broken)]))
odd = Tick(Sequence("odd", [Action("odd", lambda ctx: 7)]))
spin = Tick(Sequence("spin", [Action("spin", lambda ctx: [x for x in range(100000000)])]))
on("box/go", lambda ev: bus.publish("box/ended", life.run("x")))
-- main_test.star --
load("main.star", "bad", "life", "near", "odd", "spin")

def test_it_ticks():
    r = life.run("x")
    assert.eq([r.status, bb.get("box/n")], ["done", 4])
    assert.eq(r.elapsed, time.parse_duration("300ms"))

def test_each_run_begins_anew():
    life.run("x")
    life.run("x")
    assert.eq(bb.get("box/n"), 4)

def test_a_condition_halts_what_runs():
    publish("box/go")
    clock.advance("150ms")
    bb.set("box/low", True)
    assert.eq(expect_event("box/stopped", within = "100ms").payload, "cancelled")
    assert.eq(expect_event("box/ended", within = "1s")["status"], "done")

def test_failures():
    r = bad.run("x")
    assert.eq(r.status, "failed")
    assert.contains(r.reason, "jam")
    assert.contains(odd.run("x").reason, "odd returned 7: want")

def test_a_leaf_has_limits():
    assert.contains(spin.run("x").reason, "steps")

def test_an_action_alone():
    assert.eq(near.run("x").status, "failed")
    expect_event("box/stopped")
`)
}
