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
