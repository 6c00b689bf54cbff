package lib_test

import "testing"

// TestSlew: a tool's parameter changes no faster than its limit says, whoever
// calls; what was refused does not count as the last value.
func TestSlew(t *testing.T) {
	play(t, `
-- main.star --
def cruise(speed):
    """Set the speed.

    Args:
      speed (float, 0..1): in m/s
    """
    bb.set("box/speed", speed)

tool = Tool(cruise, effect = "write", limits = {"speed": (0, 0.8, 0.1)})
pilot = Agent("pilot", model = "m", tools = [tool])
-- main_test.star --
load("main.star", "pilot", "tool")

def test_by_script():
    tool.call(speed = 0.2)
    clock.advance("1s")
    assert.fails(lambda: tool.call(speed = 0.5), contains = "speed = 0.5 is too great a step: at most 0.1 a second is allowed, and it was 0.2 1s ago")
    tool.call(speed = 0.3)
    assert.fails(lambda: tool.call(speed = 0.4), contains = "it was 0.3 0s ago")
    assert.fails(lambda: tool.call(speed = 0.9), contains = "0.8")
    clock.advance("5s")
    tool.call(speed = 0.8)
    clock.advance("8s")
    tool.call(speed = 0)
    assert.eq(bb.get("box/speed"), 0.0)

def test_by_model():
    tool.call(speed = 0)
    clock.advance("2s")
    model.calls("cruise", {"speed": 0.7})
    model.calls("cruise", {"speed": 0.2})
    model.says("slower, then")
    r = pilot.run("faster")
    assert.eq([r.status, bb.get("box/speed")], ["done", 0.2])
    assert.contains(model.prompts()[1].result, "too great a step")
`)
}
