package lib_test

import "testing"

// TestSocietyComposes: an interaction in a sequence in a node of a graph in a
// background agent is stopped from outside, at once, and all is one trace.
func TestSocietyComposes(t *testing.T) {
	play(t, `
-- main.star --
worker = Agent("worker", model = "worker")
boss = Agent("boss", model = "boss")
review = Society("home").connect(worker, boss, Oversight())
patrol = Graph("patrol")
patrol.node("work", Sequence("both", [review, lambda task: task + "!"]), writes = ["out"])
patrol.edge(START, "work")
patrol.edge("work", END)
guard = BackgroundAgent(agent = patrol, trigger = lambda ev: ev.payload, subscribe_to = "box/go")
-- main_test.star --
load("main.star", "guard")

def begin():
    model.says(json.encode({"draft": "d"}), model = "worker")
    bus.publish("box/go", "hall")
    sleep("5s")
    assert.eq(guard.status()["busy"], True)

def ended(reason):
    end = expect_event("edged/agent/patrol/end")
    assert.eq([end["status"], end["reason"]], ["cancelled", reason])
    assert.true(end["elapsed"] < 5.05)
    turns = [expect_event("edged/society/home/turn") for _ in range(2)]
    assert.eq([[t["speaker"], t["state"]] for t in turns], [["worker", "ok"], ["boss", "cancelled"]])
    starts = [expect_event("edged/workflow/#") for _ in range(3)]
    assert.eq([s["kind"] for s in starts], ["graph", "sequence", "oversight"])
    assert.eq([e["run"] for e in turns + starts], [turns[0]["run"]] * 5)
    assert.eq([p.model for p in model.prompts()], ["ollama:worker", "ollama:boss"])

def test_by_its_own_stop():
    model.says("", model = "boss", delay = "1h")
    begin()
    guard.stop()
    ended("context canceled")

def test_by_the_robots():
    model.says("", model = "boss", delay = "1h")
    begin()
    robot.stop("enough")
    sleep("50ms")
    ended("the robot was stopped")
`)
}
