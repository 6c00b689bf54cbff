package lib_test

import "testing"

// TestPromises: what the manual promises of handlers, one test a sentence.
func TestPromises(t *testing.T) {
	play(t, `
-- main.star --
def slow(ev):
    sleep("1h")
    bus.publish("box/slow")

on("box/both", slow)
on("box/both", lambda ev: bus.publish("box/quick"))

def twice(ev):
    bus.publish("box/twice", ev["n"])

first = on("box/two", twice)
second = on("box/two", twice)
on("box/one", lambda: first.close())

def endless(ev):
    if ev["forever"]:
        while True:
            pass
    bus.publish("box/done")

on("box/loop", endless)

def late(ev):
    on("box/state", lambda e: bus.publish("box/replayed", [e.payload, e.retained]), replay = True)

on("box/late", late)

def ponder(ev):
    fut = bus.ask("nobody-answers", "?", timeout = "2s")
    r = attempt(fut.result)
    bus.publish("box/answer", r.error)

bus.subscribe_inbox(agent_name = "nobody-answers", handler = lambda m: None)
on("box/ask", ponder)
def think(task, ctx):
    ctx.sleep("1h")

thinker = BackgroundAgent(Agent("thinker", fn = think), subscribe_to = "box/think")
on("box/enough", lambda ev: thinker.stop())
on("box/every", lambda ev: bus.publish("box/number", [ev.seq > 0, ev.source, ev.cause, ev.hops, ev.topic]))
-- main_test.star --
load("main.star", "thinker")

def test_subscriptions_run_in_parallel():
    publish("box/both")
    expect_event("box/quick", within = "1ms")
    expect_event("box/slow", within = "2h")

def test_a_handler_may_be_subscribed_twice():
    publish("box/two", {"n": 1})
    expect_event("box/twice")
    expect_event("box/twice")
    publish("box/one")
    publish("box/two", {"n": 2})
    assert.eq(expect_event("box/twice").payload, 2)
    expect_no_event("box/twice")

def test_a_handler_over_its_budget_is_stopped_and_goes_on():
    publish("box/loop", {"forever": True})
    e = expect_event("edged/error", within = "10s")
    assert.contains(e["error"], "steps")
    assert.contains(e["source"], "endless")
    assert.contains(e["script"], "main.star")
    assert.true(e["line"] > 0)
    publish("box/loop", {"forever": False})
    expect_event("box/done")

def test_retained_first_then_live():
    publish("box/state", "on", retain = True)
    publish("box/late")
    assert.eq(expect_event("box/replayed").payload, ["on", True])
    publish("box/state", "off")
    assert.eq(expect_event("box/replayed").payload, ["off", False])

def test_waiting_ends_with_its_timeout():
    publish("box/ask")
    assert.contains(expect_event("box/answer", within = "3s").payload, "nobody-answers")

def test_a_stopped_agent_says_that_it_was_cancelled():
    publish("box/think")
    expect_event("edged/agent/thinker/start")
    publish("box/enough")
    expect_event("edged/agent/thinker/cancelled")
    assert.eq(expect_event("edged/agent/thinker/end")["status"], "cancelled")

def test_a_stop_cancels_the_runs_of_agents():
    publish("box/think")
    expect_event("edged/agent/thinker/start")
    robot.stop("test")
    e = expect_event("edged/agent/thinker/end")
    assert.eq(e["status"], "cancelled")
    assert.contains(e["reason"], "the robot was stopped")
    robot.resume()
    assert.eq(thinker.status()["state"], "running")
    publish("box/think")
    expect_event("edged/agent/thinker/start")

def test_an_event_has_its_attributes():
    publish("box/every")
    assert.eq(expect_event("box/number").payload, [True, "test", 0, 0, "box/every"])

def test_closing_is_idempotent_and_final():
    sub = on("box/mine", lambda ev: bus.publish("box/late/mine"))
    sub.close()
    sub.close()
    publish("box/mine")
    expect_no_event("box/late/mine")
`)
}
