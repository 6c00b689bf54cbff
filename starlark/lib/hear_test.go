package lib_test

import "testing"

// TestWordsThatStop: a rehearsal hears them as a robot does.
func TestWordsThatStop(t *testing.T) {
	play(t, `
-- main.star --
base = hw.device("base")
on("go", lambda ev: base.drive_to(room = "kitchen"))

-- main_test.star --
def test_said():
    publish("go")
    clock.advance("2s")
    say("don't stop")
    assert.true(not robot.stopped())
    say("stop")
    assert.true(robot.stopped())
    v = hw.sim.pose()
    clock.advance("5s")
    assert.eq(hw.sim.pose(), v)

def test_the_beginning_is_enough():
    publish("voice/partial", {"text": "oh please stop"})
    assert.true(robot.stopped())
    robot.resume()
    publish("voice/partial", {"text": "the bus stop is over there by the church"})
    assert.true(not robot.stopped())
`)
}

// TestWordsThatStoppedAreNoUtterance: no handler, trigger or background agent gets
// them as something that was said; the record has them, and why they stopped.
func TestWordsThatStoppedAreNoUtterance(t *testing.T) {
	play(t, `
-- main.star --
def note(who):
    return lambda ev: bus.publish("heard/" + who, ev["text"])

on("voice/utterance", note("utterance"))
on("voice/partial", note("partial"))
on("voice/#", note("voice"))
on("#", note("all"), where = lambda ev: ev.topic.startswith("voice/"))

BackgroundAgent(
    agent = Agent("talk", fn = lambda task: bus.publish("heard/agent", task)),
    trigger = lambda ev: ev["text"],
    subscribe_to = "voice/utterance",
)

-- main_test.star --
def test_stop():
    say("stop")
    publish("voice/partial", {"text": "please stop"})
    publish("voice/utterance", {"text": "halt"}, retain = True)
    assert.true(robot.stopped())
    expect_no_event("heard/#")
    assert.contains(trace("voice/#"), "please stop")
    robot.resume()
    say("don't stop")
    for who in ["utterance", "voice", "all", "agent"]:
        assert.eq(expect_event("heard/" + who).payload, "don't stop")
`)
}
