package lib_test

import "testing"

func TestGuards(t *testing.T) {
	play(t, `
-- main.star --
def drive(task, ctx):
    bb.set("box/driving", True)
    ctx.sleep("1h")

def safe(ctx):
    return bb.get("box/safe", True)

def halted(ctx):
    bus.publish("box/halted", {"name": ctx.name, "why": ctx.why})

inner = Step(drive, guard = safe, on_halt = halted)
trip = Sequence("trip", [lambda task: task, inner], on_halt = halted)
quiet = Step(drive, guard = lambda ctx: len(bus.retained("box/alarm/+")) == 0)
prefix = Step(drive, guard = lambda ctx: len(bb.keys("box/block")) == 0)
bad = Step(drive, guard = lambda ctx: bb.get("box/limit") + 1)
acts = Step(drive, guard = lambda ctx: bb.set("box/x", 1))

def flee(task, ctx):
    ctx.sleep("5s")
    return "fled"

life = Fallback("life", [
    Step(flee, guard = lambda ctx: bb.get("box/fire", False)),
    Sequence("charge", [Condition("low", lambda ctx: bb.get("box/battery", 1.0) < 0.2), lambda task: "charged"]),
    drive,
], reactive = True)
work = Sequence("work", [Condition("light", lambda ctx: bb.get("box/light", True)), drive], reactive = True)

on("box/go", lambda ev: bus.publish("box/ended", {"trip": trip, "quiet": quiet, "prefix": prefix, "life": life, "work": work}[ev.payload].run("home")))
-- main_test.star --
load("main.star", "trip", "bad", "acts", "life")

def go(name):
    publish("box/go", name)
    clock.advance("1s")
    assert.true(bb.get("box/driving", False))

def test_a_guard_that_turns_false_cancels():
    go("trip")
    bb.set("box/safe", False)
    r = expect_event("box/ended", within = "1ms")
    assert.eq([r["status"], r["reason"]], ["cancelled", "guard safe"])
    assert.eq(expect_event("box/halted").payload, {"name": "drive", "why": "guard safe"})
    expect_no_event("box/halted")
    assert.eq(expect_event("edged/workflow/trip/end")["guard"], "safe")

def test_a_guard_that_is_false_starts_nothing():
    bb.set("box/safe", False)
    r = trip.run("home")
    assert.eq([r.status, r.reason], ["cancelled", "guard safe"])
    assert.true(not bb.get("box/driving", False))

def test_what_it_did_not_read_does_nothing():
    go("trip")
    bb.set("box/other", False)
    expect_no_event("box/ended", within = "1m")

def test_topics_that_it_reads():
    go("quiet")
    bus.publish("box/alarm/hall", "smoke", retain = True)
    assert.contains(expect_event("box/ended", within = "1ms")["reason"], "guard lambda at box/main.star:")

def test_keys_that_it_lists():
    go("prefix")
    bb.set("box/blocked", True)
    assert.eq(expect_event("box/ended", within = "1ms")["status"], "cancelled")

def test_a_guard_that_fails():
    r = bad.run("home")
    assert.eq(r.status, "failed")
    assert.contains(r.reason, "guard lambda")

def test_a_guard_has_no_effects():
    r = acts.run("home")
    assert.eq(r.status, "failed")
    assert.contains(r.reason, "neither effects nor waits inside a guard")

def test_a_better_child_takes_over():
    go("life")
    bb.set("box/fire", True)
    r = expect_event("box/ended", within = "6s")
    assert.eq([r["status"], r["reply"]], ["done", "fled"])

def test_conditions_are_watched():
    go("work")
    bb.set("box/light", False)
    r = expect_event("box/ended", within = "1ms")
    assert.eq([r["status"], r["reason"]], ["failed", "light is false"])

def test_a_stop():
    go("trip")
    robot.stop("test")
    r = expect_event("box/ended", within = "1ms")
    assert.eq([r["status"], r["reason"]], ["cancelled", "the robot was stopped"])
`)
}
