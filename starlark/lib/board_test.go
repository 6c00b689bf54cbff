package lib_test

import "testing"

func TestBoard(t *testing.T) {
	play(t, `
-- main.star --
bb.declare("pose", mode = "memory", history = 3)
bb.watch("door", lambda key, old, new: bus.publish("box/door", [key, old, new]))
bb.watch("room/*", lambda k, old, new: bus.publish("box/room", [k, old, new]), on = "change")
bb.watch("twin", lambda key, old, new: bb.set("box/twin", new), sync = True)
board = Blackboard(async_watchers = True)
-- main_test.star --
load("main.star", "board")

def test_set_and_get():
    assert.eq(bb.get("x"), None)
    assert.eq(bb.get("x", 3), 3)
    assert.eq(bb.set("x", {"a": [1, 2.5, None, True, b"raw"]}), 1)
    assert.eq(bb.get("x"), {"a": [1, 2.5, None, True, b"raw"]})
    assert.fails(lambda: bb.get("x")["a"].append(1), contains = "frozen")
    assert.eq(bb.set("x", None), 2)
    assert.true(bb.has("x"))
    assert.eq(bb.get("x", default = 3), None)
    assert.true(bb.delete("x"))
    assert.true(not bb.delete("x"))

def test_keys_and_snapshot():
    bb.update({"room/a": 1, "room/b": 2})
    assert.eq(bb.keys("room/"), ["room/a", "room/b"])
    assert.eq(bb.snapshot("room/"), {"room/a": 1, "room/b": 2})

def test_ttl():
    bb.set("door", "open", ttl = "10s")
    clock.advance("9s")
    assert.eq(bb.get("door"), "open")
    clock.advance("2s")
    assert.true(not bb.has("door"))
    expect_event("box/door", where = lambda ev: ev.payload == ["door", "open", None])

def test_incr_and_cas():
    assert.eq(bb.incr("n"), 1)
    assert.eq(bb.incr("n", 2.5), 3.5)
    assert.true(bb.cas("lock", old = None, new = "me"))
    assert.true(not bb.cas("lock", old = None, new = "you"))
    assert.true(bb.cas("lock", version = 1, new = "you"))
    assert.eq(bb.entry("lock")["writer"], "test")
    assert.eq(bb.entry("lock")["version"], 2)
    assert.eq(bb.entry("none"), None)
    assert.fails(lambda: bb.cas("lock", new = 1), contains = "old or version")

def test_history():
    for i in range(5):
        bb.set("pose", i)
    assert.eq([h["value"] for h in bb.history("pose", n = 2)], [4, 3])

def test_transact():
    def move(view):
        n = view.get("a", 10)
        view.set("a", n - 1)
        view.set("b", view.get("b", 0) + 1)
        return n
    assert.eq(bb.transact(move), 10)
    assert.eq(bb.snapshot(), {"a": 9, "b": 1})
    assert.fails(lambda: bb.transact(lambda view: bb.set("a", 1)), contains = "inside bb.transact")
    assert.fails(lambda: bb.transact(lambda view: fail("no")), contains = "no")
    assert.eq(bb.get("a"), 9)

def test_watch():
    bb.set("door", "open")
    assert.eq(expect_event("box/door").payload, ["door", None, "open"])
    bb.set("door", "open")
    assert.eq(expect_event("box/door").payload, ["door", "open", "open"])
    bb.set("room/hall", 1)
    expect_event("box/room")
    bb.set("room/hall", 1)
    expect_no_event("box/room")

def test_sync_watch():
    bb.set("twin", 1)
    assert.eq(bb.get("box/twin"), 1)

def test_one_board():
    board.set("y", 1)
    assert.eq(bb.get("y"), 1)
    board.close()
    assert.fails(lambda: bb.set("k", lambda: 1), contains = "value")
`)
}

func TestRequests(t *testing.T) {
	play(t, `
-- main.star --
def plan(request):
    if request["goal"] == "fly":
        return Declined("no wings")
    if request["goal"] == "crash":
        fail("oh")
    if request["goal"] == "pass":
        return PASS
    sleep("1s")
    return ["to " + request.task["goal"], request.key]

on("volunteer", lambda: bb.volunteer("plan", plan, accept = lambda task: task["goal"] != "swim"))

def ask(ev):
    fut = bb.post_request("plan", {"goal": ev.payload}, timeout = "1m")
    fut.on_done(lambda value, error: bus.publish("box/done", [value, error]))

on("ask", ask)

def answer(key, old, new):
    bb.reply_to(new, "watched " + new["goal"])

bb.watch("watched", answer)
-- main_test.star --
def test_posted_before_anybody_volunteers():
    a = bb.post_request("plan", {"goal": "cup"}, timeout = "1m")
    b = bb.post_request("plan", {"goal": "tea"}, timeout = "1m")
    assert.eq(len(bb.pending("plan")), 2)
    assert.true(not a.done())
    publish("volunteer")
    assert.eq(a.result(), ["to cup", "plan"])
    assert.eq(b.result(), ["to tea", "plan"])
    assert.eq(bb.pending("plan"), [])

def test_declined():
    publish("volunteer")
    publish("ask", "fly")
    ev = expect_event("box/done", within = "1m")
    assert.contains(ev.payload[1], "no wings")

def test_crash_is_offered_again():
    publish("volunteer")
    publish("ask", "crash")
    assert.contains(expect_event("box/done", within = "1m").payload[1], "oh")

def test_accept_and_timeout():
    publish("volunteer")
    f = bb.post_request("plan", {"goal": "swim"}, timeout = "2s")
    assert.fails(lambda: f.result(timeout = "1s"), contains = "timeout")
    assert.fails(f.result, contains = "plan")

def test_cancel():
    f = bb.post_request("plan", {"goal": "cup"})
    f.cancel()
    assert.true(f.done())
    assert.fails(f.result, contains = "cancelled")

def test_watch_and_reply():
    assert.eq(bb.post_request("watched", {"goal": "cup"}, reply_key = "box/reply").result(), "watched cup")
    assert.eq(bb.get("box/reply"), "watched cup")
`)
}
