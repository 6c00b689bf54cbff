package lib_test

import (
	"testing"

	"edged/starlark/lib"
)

// TestSocietyFunctions: agents made of functions take turns as models do.
func TestSocietyFunctions(t *testing.T) {
	play(t, `
-- main_test.star --
`+matrixHelp+`
def note(x):
    bb.set("box/seen", bb.get("box/seen", []) + [x])

def test_what_a_function_sees():
    def work(task, state, turn):
        note(["work", task, turn.kind, turn.round, turn.draft, turn.comments, state["box/door"]])
        return "draft %d" % turn.round
    def review(task, turn):
        note(["review", task, turn.kind, turn.round, turn.draft, turn.comments, turn.criteria])
        return {"verdict": "approve" if turn.round == 2 else "revise", "comments": "again, please"}
    bb.set("box/door", "open")
    e = Society("x").connect(Agent("w", fn = work), Agent("r", fn = review), Oversight(criteria = ["short"]))
    r = e.run({"goal": 1})
    assert.eq([r.status, r.output, r.verdict, r.rounds, r.by], ["done", "draft 2", "approve", 2, "w"])
    assert.eq(bb.get("box/seen"), [
        ["work", {"goal": 1}, "work", 1, None, None, "open"],
        ["review", {"goal": 1}, "review", 1, "draft 1", None, "short"],
        ["work", {"goal": 1}, "work", 2, "draft 1", "again, please", "open"],
        ["review", {"goal": 1}, "review", 2, "draft 2", None, "short"],
    ])

def test_one_function_for_each_kind():
    me = Agent("me", fn = {"bid": lambda task: {"cost": 3}, "work": lambda task: note(task) or "did it"})
    you = Agent("you", fn = {"bid": lambda task, state: Declined("busy")})
    boss = Agent("boss", fn = lambda task: {"decision": "accept"})
    s = Society("fleet")
    auction = s.compete([me, you], Competition(protocol = Market(bid = {"cost": "(int, 0..100)"}), resolve = BestScore("cost", highest = False), quorum = 1))
    job = {a.name: s.connect(boss, a, Delegation()) for a in [me, you]}
    r = auction.run("fetch")
    assert.eq([r.status, r.winner, r.output, r.ranking], ["done", "me", {"cost": 3}, ["me"]])
    assert.eq([[t["speaker"], t["kind"], t["state"]] for t in r.turns], [["me", "bid", "ok"], ["you", "bid", "refused"]])
    assert.eq([r.turns[1]["why"], r.children[1].status, r.children[1].reason], ["busy", "failed", "busy"])
    r = job[r.winner].run("fetch")
    assert.eq([r.status, r.output, bb.get("box/seen")], ["done", "did it", ["fetch"]])
    r = job["you"].run("fetch")
    assert.eq([r.status, r.reason], ["failed", "you: refused: nothing to say in a turn to work"])
    assert.eq(me.run("by itself").reply, "did it")
    assert.contains(you.run("by itself").reason, "no function \"work\"")

def test_submissions_are_by_label():
    def judge(task, turn):
        note(turn.submissions)
        return {"winner": [k for k, v in turn.submissions.items() if v == "TWO"][0]}
    e = Society("x").compete([Agent("a", fn = lambda task: "ONE"), Agent("b", fn = lambda task: "TWO")], Competition(resolve = JudgePicks(Agent("j", fn = judge))))
    r = e.run("go")
    assert.eq([r.status, r.winner, sorted(bb.get("box/seen")[0].keys())], ["done", "b", ["A", "B"]])

def test_failures_are_outcomes():
    def bad(task):
        return task["x"]
    for fn, state in [(bad, "failed"), (lambda task: None, "refused"), (lambda task: decline("no time"), "refused"), (lambda task: {"draft": 3}, "invalid"), (lambda task: 3, "invalid")]:
        e = Society("x").connect(Agent("w", fn = fn), Agent("r", fn = lambda task: "approve"), Oversight())
        r = e.run("go")
        assert.eq([r.status, r.turns[0]["state"], r.turns[0]["asked"]], ["failed", state, 1])

def test_resolvers():
    a, b = Agent("a", fn = lambda task: {"n": 1}), Agent("b", fn = lambda task: {"n": 2})
    form = Artifact("x", schema = {"n": "(int, 0..9)"})
    def go(resolve):
        r = Society("x").compete([a, b], Competition(artifacts = [form], resolve = resolve)).run("go")
        return [r.status, r.reason, r.winner]
    assert.eq(go(lambda subs: subs[1].agent), ["done", "", "b"])
    assert.eq(go(lambda subs, state: subs[0]), ["done", "", "a"])
    assert.eq(go(lambda subs: b), ["done", "", "b"])
    assert.eq(go(lambda subs: None if [s.agent for s in subs] != ["a", "b"] or sorted([s.label for s in subs]) != ["A", "B"] else "a")[2], "a")
    assert.eq(go(lambda subs: None), ["failed", "no_winner", ""])
    got = go(lambda subs: "nobody")
    assert.eq(got[0], "failed")
    assert.contains(got[1], "want one of a, b, or None")
    got = go(lambda subs: subs[7])
    assert.eq(got[0], "failed")
    assert.contains(got[1], "resolve: ")
    assert.eq(go(BestScore("n")), ["done", "n is 2", "b"])
    assert.eq(go(Escalate(Agent("lead", fn = lambda task, turn: {"winner": sorted(turn.submissions)[0]})))[0], "done")

def test_versions():
    def pair(one, two, **kwargs):
        r = Society("x").cooperate([Agent("a", fn = one), Agent("b", fn = two)], Cooperation(max_rounds = 3, **kwargs)).run("go")
        return [r.status, r.output, r.rounds]
    assert.eq(pair(lambda task: "ham", lambda task: True), ["done", "ham", 1])
    assert.eq(pair(lambda task: "ham", lambda task: "ham"), ["done", "ham", 1])
    assert.eq(pair(lambda task, turn: turn.draft or "ham", lambda task: "eggs"), ["done", "eggs", 2])
    assert.eq(pair(lambda task: "ham", lambda task: {"draft": "eggs"}), ["deadlock", "eggs", 3])
    assert.eq(pair(lambda task: "ham", lambda task: {"agree": False}), ["deadlock", "ham", 3])
    form = Artifact("x", schema = {"n": "(int, 0..9)"})
    assert.eq(pair(lambda task, turn: turn.draft or {"n": 1}, lambda task: {"n": 2}, artifacts = [form]), ["done", {"n": 2}, 2])
    own = {"next_speaker": lambda floor: None if floor.spoken else "a"}
    r = Society("y").cooperate([Agent("a", fn = lambda task: "1"), Agent("b", fn = lambda task: "2")], Cooperation(protocol = own, merge = "append")).run("go")
    assert.eq([r.status, r.reason], ["failed", "b had no turn, and each has to give its part"])

def test_what_is_too_long():
    FORM = {"type": "object", "properties": {"l": {"type": "array", "items": {"type": "string"}}, "n": {"type": "string"}}}
    long = Artifact("x", max_tokens = 10, schema = FORM)
    def make(draft, artifact = long):
        return Society("x").connect(Agent("w", fn = lambda task: draft), Agent("r", fn = lambda task: "approve"), Oversight(artifacts = [artifact])).run("go")
    most = {"l": ["a long way to go", "on and on!!"]}
    assert.eq([len(json.encode(most)), make(most).status], [40, "done"])
    r = make({"l": ["a long way to go", "on and on!!ü"]})
    assert.eq([r.status, r.turns[0]["state"]], ["failed", "invalid"])
    assert.contains(r.reason, "draft is longer than 10 tokens: it has 41 characters, and may have 40")
    text = Artifact("x", max_tokens = 10, schema = {"type": "string"})
    assert.eq([make("x" * 40, text).status, make("x" * 41, text).status], ["done", "failed"])
    both = [Agent("a", fn = lambda task, turn: {"door": {"n": "x" * 40}}), Agent("b", fn = lambda task: True)]
    r = Society("x").negotiate(both, Coopetition(cooperate_on = ["door"], compete_on = ["claim"], resolve = lambda subs: "a",
        artifacts = [Artifact("door", max_tokens = 10, schema = FORM)])).run("go")
    assert.eq(r.turns[0]["state"], "invalid")
    assert.contains(r.turns[0]["why"], "door is longer than 10 tokens")

def test_events():
    def work(task, ctx):
        ctx.emit("progress", "half")
        return "d"
    e = Society("x").connect(Agent("pm", fn = lambda task: "accept"), Agent("w", fn = work), Delegation(events = ["noise"]))
    assert.eq(e.run("go").status, "done")
    ev = expect_event("edged/society/x/event")
    assert.eq([ev["from"], ev["event"], ev["payload"]], ["w", "progress", "half"])
    def loud(task, ctx):
        ctx.emit("shout", "x")
        return "d"
    e = Society("x").connect(Agent("pm", fn = lambda task: "accept"), Agent("w", fn = loud), Delegation())
    r = e.run("go")
    assert.eq(r.status, "failed")
    assert.contains(r.reason, "event is not of this edge: \"shout\"")
    ev = expect_event("edged/society/x/turn", where = lambda ev: ev["kind"] == "event" and ev["state"] == "refused")
    assert.eq([ev["speaker"], ev["verdict"], ev["why"]], ["w", "shout", "event \"shout\" is not listed on this edge"])
    expect_no_event("edged/society/x/event")

def test_turns_are_told():
    e = Society("x").connect(Agent("w", fn = lambda task: "secret"), Agent("r", fn = lambda task: "approve"), Oversight())
    e.run("go")
    ev = expect_event("edged/society/x/turn")
    assert.eq([ev["speaker"], ev["kind"], ev["state"], ev["round"]], ["w", "work", "ok", 1])
    assert.true("secret" not in str(ev.payload))

def test_workflows_act_once():
    def act(task):
        bb.incr("box/acts")
        return {"no": "text"}
    r = Society("x").connect(Agent("pm", fn = lambda task: "accept"), Sequence("acts", [act]), Delegation()).run("go")
    assert.eq([r.status, r.turns[0]["state"], r.turns[0]["asked"], bb.get("box/acts")], ["failed", "invalid", 1, 1])

def test_workflows_are_members():
    two = Sequence("two", [lambda task: "first", lambda task: task + " and second"])
    e = Society("x").connect(two, Agent("r", fn = lambda task: "approve"), Oversight())
    r = e.run("go")
    assert.eq([r.status, r.output], ["done", "first and second"])
    race = Society("y").compete([Agent("a", fn = lambda task: "ONE"), Agent("b", fn = lambda task: "TWO")], Competition(resolve = lambda subs: "b"))
    outer = Society("z").connect(race, Agent("r", fn = lambda task, turn: "approve" if turn.draft == "TWO" else "reject"), Oversight())
    assert.eq(outer.run("go").output, "TWO")
    r = Sequence("all", [race, lambda task: task + "!"]).run("go")
    assert.eq(r.reply, "TWO!")
    assert.eq(Fallback("f", [Society("q").compete([Agent("a", fn = lambda task: None), Agent("b", fn = lambda task: None)], Competition(resolve = BestScore("x"))), lambda task: "spare"]).run("go").reply, "spare")
`)
}

// TestSocietyTools: in a turn an agent has the tools that are for that turn,
// and they pass what they pass elsewhere.
func TestSocietyTools(t *testing.T) {
	play(t, `
-- main.star --
moved = []

def look(where):
    """Look.

    Args:
      where: one of hall, dock
    """
    return "a cup in the " + where

def go(place):
    """Drive.

    Args:
      place: one of hall, dock
    """
    bus.publish("box/went", place)
    return "there"

tools = [look, Tool(go, effect = "write")]
worker = Agent("worker", role = "works", instructions = "BE QUICK", model = "worker", tools = tools, memory = True)
boss = Agent("boss", model = "boss", tools = tools)
s = Society("home")
review = s.connect(worker, boss, Oversight())
job = s.connect(boss, worker, Delegation())
-- main_test.star --
load("main.star", "review", "job")
`+matrixHelp+`
def test_who_works_looks_and_who_decides_has_none():
    model.calls("look", {"where": "hall"}, model = "worker")
    model.says("A cup.", model = "worker")
    model.says(draft("cup in the hall"), model = "worker")
    model.says(word("approve"), model = "boss")
    r = review.run("what is there")
    assert.eq([r.status, [x["tool"] for x in r.receipts]], ["done", ["look"]])
    assert.eq([p.tools for p in model.prompts()], [["look", "decline"], ["look", "decline"], [], []])
    assert.contains(model.prompts()[0].system, "BE QUICK")
    boss = model.prompts()[-1]
    assert.contains(boss.user, "called look({\"where\":\"hall\"}): \"a cup in the hall\"")
    assert.true("BE QUICK" not in boss.text)
    assert.eq([boss.temperature, boss.schema["properties"].keys()], [0.0, ["comments", "verdict"]])

def test_who_is_delegated_to_acts():
    model.calls("go", {"place": "dock"}, model = "worker")
    model.says(draft("I am there"), model = "worker")
    model.says(word("accept"), model = "boss")
    r = job.run("to the dock")
    assert.eq([r.status, r.output, [x["tool"] for x in r.receipts]], ["done", "I am there", ["go"]])
    assert.eq(model.prompts()[0].tools, ["look", "go", "decline"])
    expect_event("box/went")
    assert.contains(model.prompts()[-1].user, "tools called: go")
    assert.true("I am there" not in model.prompts()[-1].user)

def test_others_words_lead_to_nothing():
    model.says(draft("no"), model = "worker")
    model.says(word("accept"), model = "boss")
    r = job.run("to the dock", origin = "mqtt")
    assert.eq(model.prompts()[0].tools, ["look", "decline"])
    assert.contains(model.prompts()[0].user, "Task, in words from mqtt: \"to the dock\"")

def test_a_stopped_robot_does_not_move():
    model.calls("go", {"place": "dock"}, model = "worker")
    model.says(draft("I can't"), model = "worker")
    model.says(word("accept"), model = "boss")
    robot.stop("test")
    r = job.run("to the dock")
    assert.eq([x["tool"] for x in r.receipts], [])
    expect_no_event("box/went")

def test_a_stop_ends_it():
    model.says(draft("x"), model = "worker", delay = "10s")
    def stop():
        robot.stop("enough")
    after("1s", stop)
    r = review.run("go")
    assert.eq([r.status, r.reason], ["cancelled", "the robot was stopped"])

def test_functions_that_only_look_can_not_act():
    def bid(task):
        bus.publish("elsewhere/x", 1)
        return 3
    a = Agent("a", fn = bid)
    e = Society("x").compete([a, Agent("b", fn = lambda task: 4)], Competition(artifacts = [Artifact("n", schema = {"type": "integer", "minimum": 0, "maximum": 9})], resolve = lambda subs: subs[0].agent))
    r = e.run("go")
    assert.eq([r.status, r.winner, r.turns[0]["state"]], ["done", "b", "failed"])
    assert.contains(r.turns[0]["why"], "a turn to submit moves nothing")
    expect_no_event("elsewhere/x")
    e = Society("y").connect(Agent("pm", fn = lambda task: "accept"), Agent("w", fn = {"work": bid}), Delegation())
    e.run("go")
    expect_event("elsewhere/x")

def test_a_stream_says_the_outcome():
    model.calls("look", {"where": "hall"}, model = "worker")
    model.says("Not for you. I look.", model = "worker")
    model.says(draft("A cup in the hall."), model = "worker")
    model.says(word("approve"), model = "boss")
    assert.eq([x for x in review.stream("what is there")], ["A cup in the hall."])

def test_priority_and_hooks_of_a_run():
    def before_model(step):
        bus.publish("box/before", step.agent)
    model.says(draft("x"), model = "worker")
    model.says(word("approve"), model = "boss")
    assert.eq(review.run("x", priority = "background", hooks = [Hook(before_model = before_model)]).status, "done")
    assert.eq([expect_event("box/before").payload, expect_event("box/before").payload], ["worker", "boss"])

def test_hooks_look_at_turns():
    def after_model(step):
        bus.publish("box/hook", "seen")
    w = Agent("w", model = "w", hooks = [Hook(after_model = after_model)])
    model.says(draft("x"), model = "w")
    e = Society("x").connect(w, Agent("r", fn = lambda task: "approve"), Oversight())
    assert.eq(e.run("go").status, "done")
    expect_event("box/hook")
    expect_event("edged/agent/w/model")
`)
}

// TestSocietyState: functions see of the board what their folder may read.
func TestSocietyState(t *testing.T) {
	playWith(t, `
-- main.star --
w = Agent("w", fn = lambda task, state: " ".join(sorted([k for k in state if not k.startswith("robot")])))
e = Society("x").connect(w, Agent("b", fn = lambda task: "approve"), Oversight())
-- main_test.star --
load("main.star", "e", "w")

def test_state():
    for key in ["box/mine", "box.mine", "hall/light", "other/secret"]:
        bb.set(key, 1)
    assert.eq(e.run("x").output, "box.mine box/mine hall/light")
    assert.eq(w.run("x").reply, "box.mine box/mine hall/light")
`, lib.TestOptions{Grants: lib.Grants{BB: []string{"hall/*"}}})
}
