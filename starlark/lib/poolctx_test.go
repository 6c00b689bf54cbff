package lib_test

import "testing"

const watchedBoard = `
def note(key, old, new):
    bb.set("box/seen/" + key[-1], new)

Blackboard(async_watchers = False).watch("box/a", note)
Blackboard(async_watchers = False).watch("box/b", note, sync = False)
Blackboard().watch("box/c", note)

def on_go(ev):
    got = []
    for key in ["a", "b", "c"]:
        bb.set("box/" + key, 1)
        got.append(bb.get("box/seen/" + key))
    bus.publish("box/out", got)

on("box/go", on_go)
`

// TestAsyncWatchers: a board with async_watchers = False has watchers that run
// before set returns; so in a process of its own.
func TestAsyncWatchers(t *testing.T) {
	play(t, `
-- main.star --
`+watchedBoard+`
-- main_test.star --
def test_watchers():
    publish("box/go")
    got = expect_event("box/out").payload
    assert.eq(got[0], 1)
    assert.eq([bb.get("box/seen/b"), bb.get("box/seen/c")], [1, 1])
`)
	r := newRig(t)
	defer r.close()
	if got := r.isolated(watchedBoard); got[:3] != "[1," {
		t.Errorf("got %s\n%s", got, r.errors())
	}
}

// TestPoolContext: what make_ctx is told holds for the runs that have it, as far
// as they don't say otherwise themselves.
func TestPoolContext(t *testing.T) {
	play(t, `
-- main.star --
pool = AgentPool()
pool.register(Agent("talker", model = "m"))
TALK = "kitchen"

def count(step):
    bb.incr("box/hooked")

hooked = pool.make_ctx(hooks = [Hook(before_model = count)], conversation = TALK)
-- main_test.star --
load("main.star", "pool", "hooked")

def said(r):
    "How many messages the model was shown."
    return len(model.prompts()[-1].messages)

def test_conversation():
    for _ in range(4):
        model.says("yes")
    talk = pool.make_ctx(conversation = "hall")
    talker = pool.get("talker")
    talker.run("one", ctx = talk)
    one = said(None)
    talker.run("two", ctx = talk)
    assert.true(said(None) > one)
    pool.run("talker", "three", ctx = talk)
    three = said(None)
    assert.true(three > one + 2)
    talker.run("four", ctx = talk, conversation = "elsewhere")
    assert.eq(said(None), one)

def test_hooks_and_origin():
    model.says("yes")
    model.says("yes")
    pool.run("talker", "one", ctx = hooked)
    assert.eq(bb.get("box/hooked"), 1)
    pool.run("talker", "one", origin = "mqtt")
    assert.contains(model.prompts()[-1].user, "mqtt")
    assert.eq(bb.get("box/hooked"), 1)
    model.says("yes")
    pool.run("talker", "one", ctx = pool.make_ctx(origin = "mqtt"))
    assert.contains(model.prompts()[-1].user, "mqtt")

def test_what_has_no_effect_is_an_error():
    assert.fails(lambda: pool.make_ctx(colour = "red"), contains = "unknown argument \"colour\"")
    assert.fails(lambda: pool.run("talker", "x", colour = "red"), contains = "unknown argument \"colour\"")
    assert.fails(lambda: pool.get("talker").run("x", ctx = "red"), contains = "pool_ctx")
    assert.eq([hooked.conversation, hooked.origin, hooked.priority], ["kitchen", "", ""])
`)
}
