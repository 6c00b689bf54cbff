package lib_test

import "testing"

func TestRecipes(t *testing.T) {
	play(t, `
-- main.star --
load("@edged//recipes.star", "ApprovalGate", "CritiqueAndRewrite", "Debate", "PlanExecuteEvaluate", "PlanThenLoop")

def step(task):
    bb.incr("box/" + task)
    return "did " + task

def at_goal(ctx):
    return bb.get("box/drive", 0) >= 2

trip = PlanThenLoop("trip", planner = lambda task: "drive\n\nlook\ndrive\nlook", worker = step, achieved = at_goal)
short = PlanThenLoop("short", planner = Agent("p", fn = lambda task: ["look"]), worker = Agent("w", fn = step), achieved = at_goal)
def slip(task):
    bb.set("box/there", True)
    return Declined("slipped")

there = PlanThenLoop("there", planner = lambda task: "drive\nslip", worker = lambda task: slip(task) if task == "slip" else step(task),
    achieved = lambda ctx: bb.get("box/there", False))
stuck = PlanThenLoop("stuck", planner = lambda task: "drive\nslip", worker = lambda task: Declined("no wheels"), achieved = at_goal)
empty = PlanThenLoop("empty", planner = lambda task: "", worker = step, achieved = at_goal)

def try_hard(task):
    bb.set("box/told", task)
    return "tried"

def push(task):
    bb.incr("box/drive")
    return "pushed"

liar = lambda task: "yes, it is done"
pee = PlanExecuteEvaluate("pee", planner = try_hard, executor = push, achieved = at_goal, evaluator = liar)
never = PlanExecuteEvaluate("never", planner = try_hard, executor = push, achieved = lambda ctx: False, evaluator = liar)
judged = PlanExecuteEvaluate("judged", planner = try_hard, executor = push, evaluator = lambda task: bb.get("box/drive") == 3 or "too few")

gate = ApprovalGate("gate", step, approve = lambda task: bb.get("box/answer"), valid = lambda ctx: not bb.get("box/closed", False))

def write(task):
    return "%d" % bb.incr("box/drafts")

polish = CritiqueAndRewrite("polish", write, critic = lambda draft: draft == "2" or "more")
checked = CritiqueAndRewrite("checked", write, critic = lambda draft: True, valid = lambda draft: draft == "3" or "too short")

debate = Debate("debate", [Agent("ann", fn = lambda task: "tea"), Agent("bob", fn = lambda task: "more tea" if "ann: tea" in task else "coffee")],
    judge = lambda task: "tea" if "bob: more tea" in task else "water")
shy = Debate("shy", [Agent("ann", fn = lambda task: Declined("hoarse")), Agent("bob", fn = lambda task: "tea")], judge = lambda task: task)
mute = Debate("mute", [Agent("ann", fn = lambda task: Declined("hoarse"))], judge = lambda task: task)
settled = Debate("settled", [Agent("ann", fn = lambda task: "tea")], judge = lambda task: "water", decided = lambda ctx: "nothing: the can is empty")
-- main_test.star --
load("main.star", "trip", "there", "stuck", "short", "empty", "pee", "never", "judged", "gate", "polish", "checked", "debate", "shy", "mute", "settled")

def test_plan_then_loop():
    r = trip.run("there")
    assert.eq([r.status, r.reply], ["done", "did drive"])
    assert.eq(bb.get("box/look"), 1)
    assert.eq(empty.run("x").reason, "declined: the plan is empty")

def test_a_plan_that_is_too_short():
    assert.eq(short.run("there").reason, "declined: the goal is not reached")

def test_a_step_that_fails():
    assert.eq([there.run("x").reply, stuck.run("x").reason], ["did drive", "declined: the goal is not reached: declined: no wheels"])

def test_plan_execute_evaluate():
    r = pee.run("go")
    assert.eq([r.status, bb.get("box/drive")], ["done", 2])
    assert.contains(bb.get("box/told"), "go\nThe last attempt failed: it is not so after: pushed")

def test_the_world_outranks_the_evaluator():
    r = never.run("go")
    assert.eq([r.status, r.reason, bb.get("box/drive")], ["failed", "max_iterations", 3])

def test_an_evaluator():
    assert.true(judged.run("go").ok)
    assert.contains(bb.get("box/told"), "too few")

def test_approval_gate():
    assert.eq(gate.run("drive").reason, "declined: it was not approved")
    bb.set("box/answer", "too late")
    assert.eq(gate.run("drive").reason, "declined: too late")
    assert.true(not bb.has("box/drive"))
    bb.set("box/answer", True)
    assert.eq(gate.run("drive").reply, "did drive")
    bb.set("box/closed", True)
    assert.eq(gate.run("drive").reason, "declined: the world does not allow it")

def test_critique_and_rewrite():
    assert.eq(polish.run("a poem").reply, "2")

def test_what_is_valid_outranks_the_critic():
    assert.eq(checked.run("a poem").reply, "3")

def test_debate():
    assert.eq(debate.run("tea or coffee?").reply, "tea")
    assert.eq(shy.run("tea?").reply, "tea?\n\nSaid so far:\nbob: tea\n\nDecide.")
    assert.eq(mute.run("tea?").reason, "declined: nobody had anything to say")
    assert.eq(settled.run("tea or coffee?").reply, "nothing: the can is empty")
`)
}
