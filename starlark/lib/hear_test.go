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
