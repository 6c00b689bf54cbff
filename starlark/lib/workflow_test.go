package lib_test

import "testing"

func TestSequence(t *testing.T) {
	play(t, `
-- main.star --
def find(task):
    return "found " + task

def bring(task, ctx):
    return {"brought": task, "of": ctx.task}

def broken(task):
    fail("oh no")

fetch = Sequence("fetch", [find, Agent("look", fn = lambda t: t + "!"), bring])
same = Sequence("same", [find, lambda task: task], pass_task = True)
stops = Sequence("stops", [find, lambda task: Declined("no arm"), broken])
crash = Sequence("crash", agents = [Sequence("inner", [broken])])
-- main_test.star --
load("main.star", "fetch", "same", "stops", "crash")

def test_replies_go_on():
    r = fetch.run("cup")
    assert.eq([r.status, r.output], ["done", {"brought": "found cup!", "of": "cup"}])
    assert.eq([c.by for c in r.children], ["find", "look", "bring"])
    assert.true(r.run_id != "")

def test_pass_task():
    assert.eq(same.run("cup").reply, "cup")

def test_stops_at_the_first():
    r = stops.run("cup")
    assert.eq([r.status, r.reason, len(r.children)], ["failed", "declined: no arm", 2])

def test_an_exception_is_a_failure():
    r = crash.run("cup")
    assert.eq(r.status, "failed")
    assert.contains(r.reason, "oh no")

def test_it_tells_of_itself():
    fetch.run("cup")
    start = expect_event("edged/workflow/fetch/start")
    end = expect_event("edged/workflow/fetch/end")
    assert.eq([end["status"], end["kind"]], ["done", "sequence"])
    look = expect_event("edged/agent/look/start")
    assert.eq(look.cause, start.seq)
`)
}

// TestGather: everybody answers who can, whatever becomes of the others.
func TestGather(t *testing.T) {
	play(t, `
-- main.star --
def slow(task):
    sleep("5s")
    bb.incr("box/answers")
    return "slow " + task

def crash(task):
    fail("oh no")

agents = [crash, slow, lambda task: "quick", lambda task: sleep("1h")]
every = Parallel("every", agents, need = "gather", timeout = "10s")
needed = Parallel("needed", agents, timeout = "10s")
none = Parallel("none", [crash, crash], need = "gather")
counted = Parallel("counted", agents, need = "gather", timeout = "10s", reduce = lambda results: {"done": len([r for r in results if r.ok]), "of": len(results)})
-- main_test.star --
load("main.star", "counted", "every", "needed", "none")

def test_gather():
    r = every.run("go")
    assert.eq([r.status, r.reply, r.output, bb.get("box/answers")], ["done", "slow go\nquick", ["slow go", "quick"], 1])
    assert.eq([c.status for c in r.children], ["failed", "done", "done", "timeout"])
    assert.contains(r.children[0].reason, "oh no")
    assert.eq(counted.run("go").output, {"done": 2, "of": 4})

def test_the_first_crash_ends_what_needs_all():
    assert.eq([needed.run("go").status, bb.get("box/answers")], ["failed", None])

def test_nobody_answers():
    r = none.run("go")
    assert.eq(r.status, "failed")
    assert.contains(r.reason, "0 of 1 needed are done")
`)
}

func TestWorkflowsStandWhereAgentsCan(t *testing.T) {
	play(t, `
-- main.star --
seen = Sequence("seen", [lambda task: "saw " + task, lambda task: bb.set("box/seen", task)])
BackgroundAgent(agent = seen, subscribe_to = "box/look", trigger = lambda ev: ev.payload)
pool = AgentPool()
pool.register(Fallback("pick", [lambda task: Declined("no"), lambda task: "second " + task]))

def two(results):
    return "+".join([r.reply for r in results])

all = Parallel("all", [lambda task: "a", lambda task: "b"], reduce = two)
by_key = Switch("by_key", key = "box/mode", cases = {"day": lambda task: "light", "True": lambda task: "truth"}, default = all)
once = RunOnce(lambda task: bb.incr("box/n"))
boss = Agent("boss", model = "tiny", tools = [by_key], instructions = "Lead.")
-- main_test.star --
load("main.star", "all", "boss", "by_key", "once", "pool")

def test_in_the_background():
    publish("box/look", "moon")
    expect_event("board/box/seen", within = "1s")
    assert.eq(bb.get("box/seen"), "saw moon")
    assert.true(expect_event("edged/workflow/seen/end")["status"] == "done")

def test_in_a_pool():
    r = pool.run("pick", "try")
    assert.eq([r.reply, r.winner != ""], ["second try", True])

def test_parallel_reduces():
    assert.eq(all.run("x").reply, "a+b")

def test_switch():
    assert.eq([by_key.run("x").winner, by_key.run("x").reply], ["default", "a+b"])
    bb.set("box/mode", "day")
    assert.eq(by_key.run("x").reply, "light")
    bb.set("box/mode", True)
    assert.eq(by_key.run("x").winner, "True")

def test_once():
    assert.eq([once.run("x").reply, once.run("x").reply, bb.get("box/n")], ["1", "1", 1])

def test_as_a_tool():
    bb.set("box/mode", "day")
    model.calls("by_key", {"task": "what is it like?"})
    model.says("It is light.")
    r = boss.run("how is it?")
    assert.eq([r.status, r.reply], ["done", "It is light."])
    assert.eq([x["tool"] for x in r.receipts], ["by_key"])

def test_mistakes_are_told():
    assert.contains(attempt(lambda: Sequence("s", [])).error, "want at least one")
    assert.contains(attempt(lambda: Sequence("s", [7])).error, "agents")
    assert.contains(attempt(lambda: Sequence("a/b", [lambda task: 1])).error, "name")
    assert.contains(attempt(lambda: Sequence("s", [lambda a, b: 1])).error, "needs an argument")
    assert.contains(attempt(lambda: Retry(lambda task: 1, max_attemps = 2)).error, "unknown argument \"max_attemps\"")
    assert.contains(attempt(lambda: Router("r", {"a": lambda task: 1})).error, "nobody picks a route")
    assert.contains(attempt(lambda: Router("r", {"a": lambda task: 1}, intents = {"b": ["x"]})).error, "there is no route \"b\"")
    assert.contains(attempt(lambda: Parallel("p", [lambda task: 1], need = 2)).error, "there are only 1 agents")
`)
}
