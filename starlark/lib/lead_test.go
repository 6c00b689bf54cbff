package lib_test

import "testing"

func TestLeads(t *testing.T) {
	play(t, `
-- main.star --
def light(task):
    """Switches lamps."""
    return "light: " + task

cook = Agent("cook", role = "knows recipes", model = "tiny", instructions = "You cook.")
weather = Agent("weather", role = "knows the weather", model = "tiny", instructions = "You know the weather.")

butler = Router("butler", {"light": light, "cook": cook, "weather": weather},
    choose = lambda task: "light" if task == "lamp" else None,
    intents = {"light": ["[the] light[s] (on|off)"]},
    model = "tiny", instructions = "Pick one.", default = lambda task: "who?")
strict = Router("strict", {"light": light}, model = Agent("lead", model = "tiny", instructions = "You lead."))
boss = Supervisor("boss", lead = "tiny", agents = [cook, light], max_tasks = 2)

def temperature(place):
    """Reads a thermometer.

    Args:
      place: one of hall, dock
    """
    return {"hall": 21, "dock": 9}[place]

def shout(text):
    """Says something aloud.

    Args:
      text: what
    """
    bus.publish("box/said", text)

chef = Orchestrator("chef", lead = "tiny", synth = lambda task: task, tools = [temperature, Tool(shout, effect = "write")])
-- main_test.star --
load("main.star", "boss", "butler", "chef", "cook", "light", "strict")

def test_a_function_chooses_first():
    r = butler.run("lamp")
    assert.eq([r.winner, r.reply], ["light", "light: lamp"])

def test_then_sentences():
    assert.eq(butler.run("the lights off").winner, "light")

def test_then_a_model():
    model.says(json.encode({"reason": "soup", "route": "cook"}))
    model.says("Boil water.")
    r = butler.run("how do I make soup?", conversation = "c")
    assert.eq([r.winner, r.reply, r.by], ["cook", "Boil water.", "cook"])

def test_the_conversation_goes_along():
    model.says(json.encode({"reason": "", "route": "cook"}))
    model.says("Boil water.")
    butler.run("how do I make soup?", conversation = "c")
    def answer(p):
        return json.encode({"reason": "", "route": "weather"}) if "Pick one" in p.system else "It rains."
    model.answers(answer)
    r = butler.run("and outside?", conversation = "c")
    assert.eq([r.winner, r.reply], ["weather", "It rains."])
    for p in model.prompts()[2:]:
        assert.contains(p.text, "Boil water.")

def test_one_repair_then_the_default():
    model.says("no idea")
    model.says(json.encode({"reason": "", "route": "moon"}))
    r = butler.run("sing")
    assert.eq([r.winner, r.reply, r.usage["calls"]], ["default", "who?", 2])

def test_without_a_default_it_fails():
    model.says(json.encode({"reason": "", "route": "moon"}))
    model.says(json.encode({"reason": "", "route": "sun"}))
    r = strict.run("sing")
    assert.eq(r.status, "failed")
    assert.contains(r.reason, "no route")

def test_a_supervisor():
    model.says(json.encode({"reason": "", "worker": "light", "task": "hall on", "reply": ""}))
    model.says(json.encode({"reason": "", "worker": "finish", "task": "", "reply": "It is on."}))
    r = boss.run("light in the hall, please")
    assert.eq([r.status, r.reply, [c.by for c in r.children]], ["done", "It is on.", ["light"]])

def test_an_orchestrator():
    model.says(json.encode({"reason": "", "subtasks": [{"task": "hall", "tools": ["temperature"]}, {"task": "tell", "tools": ["shout"]}]}))
    model.answers(lambda p: "It is warm." if "hall" in p.user else "I told them.")
    r = chef.run("is it warm? tell everybody")
    assert.eq(r.status, "done")
    assert.contains(r.reply, "It is warm.")
    assert.contains(r.reply, "I told them.")
    offered = {p.user: [t for t in p.tools if t != "decline"] for p in model.prompts()[1:]}
    assert.eq(offered, {"hall": ["temperature"], "tell": ["shout"]})
`)
}
