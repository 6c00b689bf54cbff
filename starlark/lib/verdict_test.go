package lib_test

import "testing"

// Whoever judges says why, and then yes or no, in a form of the recipe's own.
// Words decide nothing, whatever stands in them.
func TestVerdicts(t *testing.T) {
	play(t, `
-- main.star --
load("@edged//recipes.star", "CritiqueAndRewrite", "PlanExecuteEvaluate")

inspector = Agent("inspector", model = "tiny", instructions = "You look whether it is done.", session = "fresh")
reader = Agent("reader", model = "tiny", instructions = "You read drafts.", session = "fresh")
own = Agent("own", model = "tiny", instructions = "You score.", session = "fresh",
    output = {"because": {"type": "string", "maxLength": 100}, "done": "(bool): whether it is", "score": "(int, 0..10)"})
other = Agent("other", model = "tiny", output = {"verdict": ["good", "bad"]})

def plan(task):
    bb.set("box/told", task)
    return "drive"

def judged(evaluator, rounds = 1):
    return PlanExecuteEvaluate("judged", plan, lambda plan: "drove", evaluator = evaluator, max_rounds = rounds)

by_model = judged(inspector, rounds = 2)
scored = judged(own)
fns = {name: judged(fn) for name, fn in {
    "true": lambda task: True,
    "false": lambda task: False,
    "none": lambda task: None,
    "one": lambda task: 1,
    "yes": lambda task: "yes, approved: it is done",
    "done": lambda task: {"because": "I saw it", "done": True},
    "says so": lambda task: {"because": "done", "done": "true"},
    "another word": lambda task: {"because": "done", "approved": True},
    "fails": lambda task: Declined("done"),
}.items()}
agents = {name: judged(Agent("a", fn = fn)) for name, fn in {
    "form": lambda task: {"because": "I saw it", "done": True},
    "form in text": lambda task: json.encode({"because": "I saw it", "done": True}),
    "prose": lambda task: "yes, approved: it is done",
    "true": lambda task: True,
    "no reason": lambda task: {"done": True},
    "more": lambda task: {"because": "", "done": True, "approved": True},
}.items()}

polish = CritiqueAndRewrite("polish", lambda task: "%d" % bb.incr("box/drafts"), critic = reader, max_rounds = 2)
praised = CritiqueAndRewrite("praised", lambda task: "a draft", critic = lambda draft: "ok, approved", max_rounds = 1)

def nobody_judges():
    return PlanExecuteEvaluate("open", plan, plan)

def nobody_reads():
    return CritiqueAndRewrite("open", plan)

def other_form():
    return judged(other)
-- main_test.star --
load("main.star", "agents", "by_model", "fns", "nobody_judges", "nobody_reads", "other_form", "polish", "praised", "scored")

def test_a_model_is_held_to_the_form():
    model.says(json.encode({"because": "the door is shut", "done": False}))
    model.says(json.encode({"because": "it is there", "done": True}))
    r = by_model.run("go")
    assert.eq([r.status, r.reply], ["done", "drove"])
    assert.eq(bb.get("box/told"), "go\nThe last attempt failed: the door is shut")
    form = model.prompts()[0].schema
    keys = form["properties"].keys()
    assert.eq([keys, sorted(keys), form["required"]], [["because", "done"], ["because", "done"], ["because", "done"]])
    assert.eq(form["properties"]["done"]["type"], "boolean")

def test_prose_of_a_model_approves_nothing():
    model.says("Yes. Approved, it is done!", always = True)
    r = by_model.run("go")
    assert.eq([r.status, r.reason], ["failed", "max_iterations"])

def test_a_form_that_is_cut_off_approves_nothing():
    model.says('{"because": "done", "done": tr', always = True)
    assert.true(not by_model.run("go").ok)

def test_a_form_of_its_own():
    model.says(json.encode({"because": "seen", "done": True, "score": 3}))
    assert.true(scored.run("go").ok)
    model.says(json.encode({"because": "done", "done": False, "score": 10}))
    assert.true(not scored.run("go").ok)

def test_functions():
    approve = [name for name, flow in fns.items() if flow.run("go").ok]
    assert.eq(approve, ["true", "done"])

def test_other_agents():
    approve = [name for name, flow in agents.items() if flow.run("go").ok]
    assert.eq(approve, ["form", "form in text"])

def test_a_critic():
    model.says(json.encode({"because": "too short", "good": False}))
    model.says(json.encode({"because": "nothing", "good": True}))
    assert.eq(polish.run("a poem").reply, "2")
    assert.eq(model.prompts()[0].schema["required"], ["because", "good"])

def test_praise_is_no_verdict():
    r = praised.run("a poem")
    assert.eq([r.status, r.reason], ["failed", "max_iterations"])

def test_what_can_not_judge():
    assert.fails(nobody_judges, "achieved or evaluator")
    assert.fails(nobody_reads, "valid or critic")
    assert.fails(other_form, "other has an output of its own, which must have a string \"because\"")
`)
}
