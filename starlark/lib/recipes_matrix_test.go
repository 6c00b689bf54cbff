package lib_test

import "testing"

// TestRecipesMatrix asserts the exact outcome of every recipe for everything
// that can become of each who works in it, in virtual time, and who ran.
func TestRecipesMatrix(t *testing.T) {
	play(t, `
-- main.star --
load("@edged//recipes.star", "ApprovalGate", "CritiqueAndRewrite", "Debate", "PlanExecuteEvaluate", "PlanThenLoop")

slow = Timeout(lambda task: sleep("1h"), "5s")
gone = Step(lambda task: task, guard = lambda ctx: False)

def ran(who):
    bb.transact(lambda tx: tx.set("box/ran", tx.get("box/ran") + who))  # debaters speak at once

def trouble(task, ctx):
    ran("a")
    how = bb.get("box/how")
    if how == "declines":
        return Declined("no arm")
    if how == "raises":
        fail("jam")
    if how == "late":
        return slow.run(task)
    if how == "cancelled":
        return gone.run(task)
    if how == "guard":
        bb.set("box/safe", False)
        ctx.sleep("1h")
    if how == "stop":
        sleep("1h")
    return None

def kid(answer):
    """The one whom something becomes of."""
    def run(task, ctx):
        r = trouble(task, ctx)
        if r == None:
            bb.set("box/there", True)
        return r if r != None else answer
    return Step(run, guard = lambda ctx: bb.get("box/safe", True))

def b(answer):
    def run(task):
        ran("b")
        return answer
    return run

there = lambda ctx: bb.has("box/there")
done = {"because": "", "done": True}
good = {"because": "", "good": True}

nodes = {
    "plan": PlanThenLoop("plan", planner = kid("one"), worker = b("did"), achieved = there),
    "work": PlanThenLoop("work", planner = b("one\ntwo"), worker = kid("did"), achieved = there),
    "pee plan": PlanExecuteEvaluate("pee-plan", planner = kid("plan"), executor = b("did"), achieved = there, max_rounds = 2),
    "pee work": PlanExecuteEvaluate("pee-work", planner = b("plan"), executor = kid("did"), achieved = there, max_rounds = 2),
    "pee judge": PlanExecuteEvaluate("pee-judge", planner = b("plan"), executor = b("did"), evaluator = kid(done), max_rounds = 2),
    "gate": ApprovalGate("gate", kid("did"), approve = lambda task: True),
    "write": CritiqueAndRewrite("write", kid("draft"), critic = b(True), max_rounds = 2),
    "critic": CritiqueAndRewrite("critic", b("draft"), critic = kid(good), max_rounds = 2),
    "debater": Debate("debater", [kid("tea"), Agent("bob", fn = b("more"))], judge = b("water"), rounds = 1),
    "judge": Debate("judge", [Agent("bob", fn = b("more"))], judge = kid("tea"), rounds = 1),
}

on("box/go", lambda ev: bus.publish("box/ended", nodes[ev.payload].run("go")))
-- main_test.star --
load("main.star", "nodes")

def begin(how):
    bb.set("box/how", how)
    bb.set("box/ran", "")
    bb.delete("box/safe")
    bb.delete("box/there")

def rows(how, want):
    for name, n in nodes.items():
        begin(how)
        r = n.run("go")
        why = r.reply if r.ok else r.reason.split(": ")[-1].replace(" at box/main.star", "")
        who = "".join(sorted(bb.get("box/ran").elems()))
        if how == "cancelled" and name == "debater":
            who = who.replace("b", "")  # the other may have begun
        got = "%s %s, %s" % (r.status, why, who)
        assert.eq([name, got, int(r.elapsed.seconds)], [name] + want[name])

def test_done():
    rows("done", {
        "plan": ["done did, ab", 0], "work": ["done did, ab", 0],
        "pee plan": ["done did, ab", 0], "pee work": ["done did, ab", 0], "pee judge": ["done did, abb", 0],
        "gate": ["done did, a", 0], "write": ["done draft, ab", 0], "critic": ["done draft, ab", 0],
        "debater": ["done water, abb", 0], "judge": ["done tea, ab", 0],
    })

def fails(how, why):
    rows(how, {
        "plan": ["failed " + why + ", a", 0], "work": ["failed " + why + ", ab", 0],
        "pee plan": ["failed max_iterations, aa", 0], "pee work": ["failed max_iterations, aabb", 0], "pee judge": ["failed max_iterations, aabbbb", 0],
        "gate": ["failed " + why + ", a", 0], "write": ["failed max_iterations, aa", 0], "critic": ["failed max_iterations, aabb", 0],
        "debater": ["done water, abb", 0], "judge": ["failed " + why + ", ab", 0],
    })

def test_declines():
    fails("declines", "no arm")

def test_raises():
    fails("raises", "jam")

def test_times_out():
    late = "lambda:3 took longer than 5s, "
    rows("late", {
        "plan": ["timeout " + late + "a", 5], "work": ["failed " + late + "ab", 5],
        "pee plan": ["failed max_iterations, aa", 10], "pee work": ["failed max_iterations, aabb", 10], "pee judge": ["failed max_iterations, aabbbb", 10],
        "gate": ["timeout " + late + "a", 5], "write": ["failed max_iterations, aa", 10], "critic": ["failed max_iterations, aabb", 10],
        "debater": ["done water, abb", 5], "judge": ["timeout " + late + "ab", 5],
    })

def ends(how, line, debater):
    why = "cancelled guard lambda:%d, " % line
    rows(how, {
        "plan": [why + "a", 0], "work": [why + "ab", 0],
        "pee plan": [why + "a", 0], "pee work": [why + "ab", 0], "pee judge": [why + "abb", 0],
        "gate": [why + "a", 0], "write": [why + "a", 0], "critic": [why + "ab", 0],
        "debater": [debater, 0], "judge": [why + "ab", 0],
    })

def test_cancelled():
    ends("cancelled", 4, "failed max_iterations, a")

def test_guard_turns_false():
    ends("guard", 34, "done water, abb")  # who may not speak is silent

def test_stop():
    ran = {"plan": "a", "pee plan": "a", "gate": "a", "write": "a", "pee judge": "bba"}
    for name in nodes:
        begin("stop")
        robot.resume()
        publish("box/go", name)
        clock.advance("2s")
        robot.stop("test")
        r = expect_event("box/ended", within = "50ms")
        clock.advance("2h")  # nobody goes on
        got = bb.get("box/ran")
        if name == "debater":
            got = "".join(sorted(got.elems(), reverse = True))
        assert.eq([name, r["status"], r["reason"], got], [name, "cancelled", "the robot was stopped", ran.get(name, "ba")])
`)
}
