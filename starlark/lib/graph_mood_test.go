package lib_test

import "testing"

// TestGraphPersonality: the threshold itself goes above; the mood is read when
// the edge is reached, is changed by scripts and events, and comes back.
func TestGraphPersonality(t *testing.T) {
	play(t, `
-- main.star --
`+noting+`
body = Agent("body", fn = lambda task: "ok", traits = {"conscientiousness": 0.6}, mood = {"arousal": -0.2, "valence": 0}, mood_half_life = "10m")
calm = Agent("calm", fn = lambda task: "ok", mood = {"valence": 0.5})
body.feel("box/bump", lambda ev: {"arousal": ev["by"]})
body.feel("box/praise", lambda ev: None)
body.feel("box/odd", lambda ev: {"joy": 1})

def make(name, **how):
    g = Graph(name)
    g.node("a", lambda state: None)
    g.node("above", did("above"))
    g.node("below", did("below"))
    g.edge(START, "a")
    g.personality("a", above = "above", below = "below", **how)
    g.edge("above", END)
    g.edge("below", END)
    return g

at = make("at", agent = body, trait = "conscientiousness", threshold = 0.6)
over = make("over", agent = body, trait = "conscientiousness", threshold = 0.61)
excited = make("excited", agent = body, trait = "arousal", threshold = 0.5)
on("box/alarm", lambda ev: body.set_mood(arousal = 0.8))
-- main_test.star --
load("main.star", "at", "body", "calm", "excited", "over")

def went(g):
    r = g.run("go")
    assert.eq(r.status, "done")
    return r.by

def test_traits():
    assert.eq([went(at), went(over)], ["above", "below"])
    assert.eq(body.traits, {"conscientiousness": 0.6})
    ev = expect_event("edged/graph/at/crossing", where = lambda ev: ev["type"] == "personality")
    assert.eq([ev["source"], ev["target"], ev["reason"]], ["a", "above", "conscientiousness of body is 0.6, threshold 0.6"])
    assert.eq(trace("edged/graph/at/crossing").count("personality"), 1)  # told once

def test_mood_and_decay():
    assert.eq(went(excited), "below")
    publish("box/alarm")
    assert.eq(expect_event("edged/agent/body/mood")["arousal"], 0.8)
    assert.eq(went(excited), "above")
    clock.advance("10m")  # half of the change is gone: -0.2 + 1.0 / 2
    assert.true(abs(body.mood["arousal"] - 0.3) < 0.01)
    assert.eq(went(excited), "below")
    clock.advance("3h")
    assert.true(abs(body.mood["arousal"] + 0.2) < 0.001)

def test_events():
    publish("box/bump", {"by": 0.9})
    assert.eq(went(excited), "above")
    publish("box/bump", {"by": 5})
    assert.true(body.mood["arousal"] > 0.999)
    publish("box/bump", {"by": -9})
    assert.true(body.mood["arousal"] < -0.999)
    publish("box/praise")
    publish("box/odd")
    assert.contains(expect_event("edged/error")["error"], "\"joy\" is no mood")

def test_set_mood():
    calm.set_mood(valence = -1, dominance = 0.1)
    clock.advance("1h")
    assert.eq(calm.mood, {"valence": -1.0, "dominance": 0.1})
    assert.fails(lambda: calm.set_mood(valence = 2), contains = "from -1 to 1")
    assert.fails(lambda: calm.set_mood(joy = 1), contains = "joy")
    assert.fails(lambda: at.set_mood(valence = 0), contains = "has no mood")

def abs(x):
    return x if x >= 0 else -x
`)
}

// TestGraphNests: a graph goes where an agent can, and agents, workflows, tools
// and graphs are nodes; goto chooses among what is declared.
func TestGraphNests(t *testing.T) {
	play(t, `
-- main.star --
`+noting+`
def weigh(state):
    if state["kg"] > 9:
        return goto("nowhere")
    if state["kg"] > 2:
        return goto("refuse", {"why": "%s kg" % state["kg"]})
    return goto("grasp")

pick = Graph("pick", max_steps = 5)
pick.node("weigh", weigh)
pick.node("grasp", did("grasp", "got it"))
pick.node("refuse", lambda state: Declined(state["why"]))
pick.edge(START, "weigh")
pick.branch("weigh", lambda state: fail("not asked"), to = ["grasp", "refuse"])
pick.edge("grasp", END)
pick.edge("refuse", END)

def lamp(on):
    """Switch the lamp.

    Args:
      on (bool): desired state
    """
    note("lamp %s" % on)
    return on

cook = Agent("cook", fn = lambda task: "cooked " + task)
meal = Graph("meal")
meal.node("cook", cook, writes = ["dish"], input = "what")
meal.node("steps", Sequence("steps", [lambda task: task + "!", lambda task: task + "?"]))
meal.node("lamp", Tool(lamp, effect = "write"), input = lambda state: {"on": True})
meal.node("pick", pick, input = lambda state: {"kg": 1})
meal.node("out", lambda state, ctx: [ctx.task, state["dish"], state["steps"], state["lamp"], state["pick"]["grasp"]])
meal.edge(START, "cook")
meal.edge("cook", "steps")
meal.edge("steps", "lamp")
meal.edge("lamp", "pick")
meal.edge("pick", "out")
meal.edge("out", END)
day = Sequence("day", [lambda task: {"what": task}, meal])
boss = Agent("boss", model = "m", tools = [pick.as_tool(name = "pick_it", doc = "Pick something.")])
BackgroundAgent(meal, subscribe_to = "box/meal", trigger = lambda ev: {"what": ev.payload})
pool = AgentPool()
pool.register(meal)
-- main_test.star --
load("main.star", "boss", "day", "meal", "pick", "pool")

def test_goto():
    assert.eq([pick.run({"kg": 1}).reply, pick.run({"kg": 3}).reason], ["got it", "declined: 3 kg"])
    assert.contains(pick.run({"kg": 10}).reason, "weigh goes to \"nowhere\", where no edge of it leads")
    assert.eq([type(pick), pick.name], ["graph", "pick"])

def test_all_kinds_of_nodes():
    r = meal.run({"what": "soup"})
    assert.eq(r.output["out"], [{"what": "soup"}, "cooked soup", "cooked soup!?", True, "got it"])
    assert.eq([c.by for c in r.children], ["cook", "steps", "lamp", "pick", "out"])
    assert.eq([c.by for c in r.children[3].children], ["weigh", "grasp"])
    assert.eq([x["tool"] for x in r.receipts], ["lamp"])

def test_inputs():
    r = meal.run("soup")
    assert.eq([r.status, r.by], ["failed", "cook"])
    assert.contains(r.reason, "the state has no \"what\", only input")

def test_where_agents_go():
    assert.eq(day.run("soup").output["dish"], "cooked soup")
    publish("box/meal", "rice")
    assert.eq(expect_event("edged/workflow/meal/end")["status"], "done")
    assert.eq(pool.run("meal", {"what": "tea"}).output["dish"], "cooked tea")
    model.calls("pick_it", {"task": "a cup"})
    model.says("no")
    assert.eq(boss.run("pick a cup").status, "done")

def test_a_stop_of_the_robot():
    robot.stop("test")
    clock.advance("1s")  # what it ends has ended
    r = meal.run({"what": "soup"})  # a tool that acts does not
    assert.eq([r.status, r.by], ["failed", "lamp"])
    assert.contains(r.reason, "the robot is stopped")
`)
}

// TestRequestGraph: the graph of the notes, nearly as it is written there.
func TestRequestGraph(t *testing.T) {
	play(t, `
-- main.star --
INTENT = {"type": "object", "required": ["intent"], "properties": {"intent": {"enum": ["move", "ask"]}}, "additionalProperties": False}
ears = Agent("ears", role = "classify the request", model = "qwen2.5:1.5b", output = INTENT)
body = Agent("body", role = "household robot", model = "qwen2.5:1.5b",
             traits = {"conscientiousness": 0.8}, mood = {"arousal": -0.2})
review = Agent("review", fn = lambda task: bb.get("box/plan"))

def kind(st):
    return "weigh" if st["ears"]["intent"] == "move" else "answer"

def fence(payload, st):
    for p in payload.get("path", []):
        if p["x"] > 4.0:
            return "leaves the fence at x=%s" % p["x"]

def follow(plan):
    bus.publish("box/follow", plan)

g = Graph("request", state = {"notes": "append", "plan": "last"}, checkpoint = "node", max_steps = 30)
g.node("ears", ears, writes = ["ears"])
g.node("weigh", lambda st: None, effect = "pure")
g.node("plan", review, writes = ["plan"], timeout = "3m", retry = Retry(2, backoff = "2s", on = ["timeout"]))
g.node("quick", body, writes = ["plan"], timeout = "30s")
g.node("drive", lambda st: follow(st["plan"]), effect = "write")
g.node("ask", Human("That leaves the fence. Go anyway?", options = ["yes", "no"], timeout = "30s", on_timeout = "no"))
g.node("answer", body, input = "text")
g.edge(START, "ears")
g.branch("ears", kind, to = ["weigh", "answer"])
g.personality("weigh", agent = body, trait = "conscientiousness", threshold = 0.6, above = "plan", below = "quick")
rail = Guardrail("fence", fence, on_violation = "reroute", reroute = "ask")
g.edge("plan", "drive", guardrails = [rail])
g.edge("quick", "drive", guardrails = [rail])
g.branch("ask", lambda st: "drive" if st["ask"] == "yes" else END, to = ["drive", END])
g.discover("drive", query = "tell the user it is done", kind = "tool", fallback = "answer", then = END, min_score = 0.3)
g.edge("answer", END)
g.check()
on("voice/text", lambda ev: bus.publish("box/ended", g.run({"text": ev["text"]})))
-- main_test.star --
load("main.star", "g")

def ask(text, intent, path, reply = "done"):
    bb.set("box/plan", {"path": path})
    model.says(json.encode({"intent": intent}))
    model.says(reply)
    publish("voice/text", {"text": text})

def test_inside():
    ask("go to the hall", "move", [{"x": 1.0}])
    r = expect_event("box/ended")
    assert.eq([r["status"], r["reply"]], ["done", "done"])
    assert.eq(expect_event("box/follow").payload, {"path": [{"x": 1.0}]})

def test_outside_and_nobody_says_yes():
    ask("go to the street", "move", [{"x": 9.0}])
    assert.eq(expect_event("box/ended", within = "31s")["status"], "done")
    expect_no_event("box/follow")

def test_outside_and_a_person_says_yes():
    ask("go to the street", "move", [{"x": 9.0}])
    person.answers("yes")
    assert.eq(expect_event("box/follow").payload, {"path": [{"x": 9.0}]})

def test_an_answer():
    ask("how are you", "ask", [], reply = "fine")
    assert.eq(expect_event("box/ended")["reply"], "fine")
    assert.eq(model.prompts()[-1].user, "how are you")
`)
}
