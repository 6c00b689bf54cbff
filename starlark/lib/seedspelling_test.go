package lib_test

import "testing"

// TestSpellings: what the docs and the frameworks that scripts come from write
// runs as it is written.
func TestSpellings(t *testing.T) {
	play(t, `
-- main.star --
def on_message(m):
    bb.set("box/said/" + m.to, m.content)

subscribe_inbox("cook", on_message)
subscribe_inbox(bus, "waiter", on_message)
subscribe_inbox(bus, agent_name = "guest", handler = on_message)
subscribe_inbox("clerk", handler = on_message, max_queue = 3)
bus.subscribe_inbox("porter", on_message)

def call(ev):
    for name in ["cook", "waiter", "guest", "clerk", "porter"]:
        send_message(bus, from_agent = "router", to = name, content = "hello " + name)

on("box/call", call)

def woke(name):
    return BackgroundAgent(Agent(name, fn = lambda task: bb.set("box/woke/" + name, task)), subscribe_to = "box/" + name)

SupervisionTree("drive", [woke("motors"), woke("lidar")], strategy = "rest_for_one")

body = Agent("body", fn = lambda task: "did it", traits = {"conscientiousness": 0.8}, mood = {"arousal": -0.2})
g = Graph("request")
for n in ["weigh", "plan", "quick"]:
    g.node(n, lambda state, n = n: {"went": n})
g.edge(START, "weigh")
g.personality("weigh", body, "conscientiousness", 0.6, "plan", "quick")
g.personality("plan", body, trait = "arousal", threshold = 0.5, above = "quick", below = END)
g.edge("quick", END)

coder = Agent("coder", fn = lambda task: "code")
reviewer = Agent("reviewer", fn = lambda task, turn: {"verdict": "approve", "comments": turn.criteria})
s = Society("code-review")
style = s.connect(coder, reviewer, Oversight(criteria = ["style"]), name = "style")
safety = s.connect(coder, reviewer, Oversight(criteria = ["safety"]), name = "safety")
-- main_test.star --
load("main.star", "g", "s", "safety", "style", "coder", "reviewer")

def test_inboxes():
    publish("box/call")
    for name in ["cook", "waiter", "guest", "clerk", "porter"]:
        assert.eq(bb.get("box/said/" + name), "hello " + name)

def test_tree():
    publish("box/motors", "m")
    publish("box/lidar", "l")
    assert.eq([bb.get("box/woke/motors"), bb.get("box/woke/lidar")], ["m", "l"])

def test_personality():
    assert.eq(g.run("go").output["went"], "plan")

def test_two_reviews_of_one_pair():
    assert.eq([style.run("go").reason, safety.run("go").reason], ["style", "safety"])
    assert.eq([e.name for e in s.edges], ["style", "safety"])
    assert.eq(s.edge_between(coder, reviewer, name = "safety"), safety)
    assert.eq(s.edge_between(coder, reviewer, type = Oversight, name = "style"), style)
    assert.fails(lambda: s.edge_between(coder, reviewer), "say which by its name")
`)
}
