package lib_test

import (
	"testing"

	"edged/starlark/lib"
)

func TestBus(t *testing.T) {
	play(t, `
-- main.star --
def on_temp(ev):
    bus.publish("box/out", {"t": ev["t"], "topic": ev.topic, "from": ev.source, "hops": ev.hops, "get": ev.get("x", 7)})

on("sensor/+/temp", on_temp, where = lambda ev: ev["t"] > 30)
on(["a", "b"], lambda ev: bus.publish("box/ab", ev.topic))
on("quit", lambda: bus.publish("box/none"))
sub = on("once", lambda ev: bus.publish("box/once"))
on("close", lambda: sub.close())
on("bad", lambda ev: ev["nothing"])
on("keep", lambda ev: bus.publish("box/kept", ev.payload, retain = True))
on("wanting", lambda ev, ctx: bus.publish("box/ctx", {"cause": ctx.cause == ev.seq, "task": ctx.task}))
on("default", lambda ev, topic = "box/default": bus.publish(topic))
on("bytes", lambda ev: bus.publish("box/bytes", type(ev.payload)))

def later(ev):
    on("box/later", lambda ev: bus.publish("box/latest"))

on("later", later)
-- main_test.star --
def test_handler():
    publish("sensor/hall/temp", {"t": 31.5})
    ev = expect_event("box/out")
    assert.eq(ev.payload, {"t": 31.5, "topic": "sensor/hall/temp", "from": "test", "hops": 0, "get": 7})
    assert.eq(ev.source, "script:main.star")
    assert.eq(ev.hops, 1)
    assert.true(ev.cause > 0)

def test_where():
    publish("sensor/hall/temp", {"t": 29.5})
    expect_no_event("box/out")

def test_failing_where_is_reported():
    publish("sensor/hall/temp", "warm")
    ev = expect_event("edged/error")
    assert.contains(ev["error"], "main.star:4")
    expect_no_event("box/out")

def test_several_filters():
    publish("b")
    assert.eq(expect_event("box/ab").payload, "b")

def test_handlers_leave_out_what_they_do_not_need():
    publish("quit")
    expect_event("box/none")
    publish("wanting")
    assert.eq(expect_event("box/ctx").payload, {"cause": True, "task": None})
    publish("default")
    expect_event("box/default")

def test_close():
    publish("once")
    expect_event("box/once")
    publish("close")
    publish("once")
    expect_no_event("box/once")

def test_an_error_is_an_event_and_the_handler_goes_on():
    publish("bad", {})
    ev = expect_event("edged/error")
    assert.eq(ev["script"], "box/main.star")
    assert.eq(ev["line"], 9)
    assert.eq(ev["topic"], "bad")
    publish("bad", {})
    expect_event("edged/error")

def test_retain():
    publish("keep", 12)
    assert.eq([ev.payload for ev in bus.retained("box/#")], [12])

def test_declared_while_running():
    publish("later")
    publish("box/later")
    expect_event("box/latest")

def test_own_topics():
    assert.fails(lambda: bus.publish("board/x", 1), contains = "runtime's own")
    assert.fails(lambda: bus.publish("a/+", 1), contains = "topic")

def test_event_is_frozen():
    publish("sensor/hall/temp", {"t": 31, "deep": [1]})
    ev = expect_event("sensor/hall/temp")
    assert.fails(lambda: ev["deep"].append(2), contains = "frozen")
`)
}

func TestModes(t *testing.T) {
	play(t, `
-- main.star --
def work(topic):
    def f(ev):
        bus.publish(topic + "/begin", ev["n"])
        sleep("1s")
        bus.publish(topic + "/end", ev["n"])
    return f

on("queue", work("box/queue"))
on("single", work("box/single"), mode = "single")
on("restart", work("box/restart"), mode = "restart")
on("parallel", work("box/parallel"), mode = "parallel", max_parallel = 2)
-- main_test.star --
def ends(topic):
    list = []
    for i in range(3):
        publish(topic, {"n": i})
        clock.advance("100ms")
    for line in range(10):
        clock.advance("1s")
    return [int(l.split(" ")[-3]) for l in trace("box/" + topic + "/end").splitlines()], [float(l.strip().split("s ")[0]) for l in trace("box/" + topic + "/end").splitlines()]

def test_queue():
    assert.eq(ends("queue"), ([0, 1, 2], [1.0, 2.0, 3.0]))

def test_single():
    assert.eq(ends("single"), ([0], [1.0]))

def test_restart():
    assert.eq(ends("restart"), ([2], [1.2]))
    assert.eq(trace("edged/error"), "")

def test_parallel():
    assert.eq(ends("parallel"), ([0, 1, 2], [1.0, 1.1, 2.0]))
`)
}

func TestMessages(t *testing.T) {
	play(t, `
-- main.star --
def on_message(m):
    if m.content == "ping":
        m.reply("pong")
    if m.kind == "cfp":
        m.reply("no time", kind = "refuse")

bus.subscribe_inbox(agent_name = "scout", handler = on_message)
subscribe_inbox(bus, agent_name = "cook", handler = lambda m: bus.publish("box/cook", {"from": m.from_agent, "what": m.content}))
on("all", lambda: send_message(bus, from_agent = "scout", to = "*", content = "hello"))
-- main_test.star --
def test_ask():
    assert.eq(bus.ask("scout", "ping").result(), "pong")

def test_refuse():
    assert.fails(lambda: bus.ask("scout", "?", kind = "cfp").result(), contains = "no time")

def test_no_answer():
    t = clock.now()
    assert.fails(lambda: bus.ask("scout", "hm", timeout = "3s").result(), contains = "no answer")
    assert.eq(clock.now() - t, time.parse_duration("3s"))

def test_undeliverable():
    assert.fails(lambda: bus.send_message(to = "nobody", content = 1), contains = "nobody")

def test_broadcast():
    publish("all")
    assert.eq(expect_event("box/cook").payload, {"from": "scout", "what": "hello"})
`)
}

func TestTimers(t *testing.T) {
	play(t, `
-- main.star --
beat = every("10s", lambda: bus.publish("box/beat"))
cron("30 7 * * *", lambda: bus.publish("box/morning"))
after("5s", lambda task: bus.publish("box/after", task), task = {"x": 1})

def slow():
    sleep("25s")
    bus.publish("box/slow")

every("10s", slow)
on("quiet", lambda: beat.close())
on("nap", lambda ev, ctx: [ctx.sleep("1s"), bus.publish("box/napped")])

def bell(ev, ctx):
    got = ctx.wait_for("answer/+", timeout = "10s", where = lambda ev: ev["yes"])
    bus.publish("box/bell", got["who"] if got else "nobody")

on("bell", bell)
-- main_test.star --
def test_every():
    clock.advance("35s")
    assert.eq(len(trace("box/beat").splitlines()), 3)
    publish("quiet")
    expect_no_event("box/beat", within = "1m")

def test_slow_ones_are_skipped():
    clock.advance("101s")
    assert.eq(len(trace("box/slow").splitlines()), 3)

def test_cron():
    expect_event("box/morning", within = "24h")
    assert.eq(clock.now().hour, 7)

def test_after():
    clock.advance("4900ms")
    assert.eq(trace("box/after"), "")
    clock.advance("100ms")
    assert.eq(expect_event("box/after").payload, {"x": 1})
    expect_no_event("box/after", within = "1h")

def test_sleep():
    publish("nap")
    expect_no_event("box/napped", within = "999ms")
    expect_event("box/napped", within = "2ms")

def test_wait_for():
    publish("bell")
    publish("answer/no", {"yes": False, "who": "cat"})
    clock.advance("9s")
    publish("answer/door", {"yes": True, "who": "Ada"})
    assert.eq(expect_event("box/bell").payload, "Ada")
    publish("bell")
    assert.eq(expect_event("box/bell", within = "11s").payload, "nobody")
`)
}

func TestGrants(t *testing.T) {
	text := `
-- main.star --
on("door/+", lambda ev: bus.publish("box/door", ev.topic))
def tries(ev):
    for f in [
        lambda: bus.publish("lamp/hall", 1),
        lambda: bus.publish("fan", 1),
        lambda: bb.set("box/mine", 1),
        lambda: bb.set("goto", 1),
        lambda: bb.set("other", 1),
        lambda: bb.keys("room/"),
        lambda: bb.keys(),
        lambda: hw.device("lamp_hall").do(on = True),
        lambda: hw.device("base").drive(v = 1),
        lambda: hw.device("pose").read(),
        lambda: bus.retained("#"),
        lambda: send_message(to = "x", content = 1),
    ]:
        r = attempt(f)
        bus.publish("box/tried", r.error if r.error and "not allowed" in r.error else "ok")
on("box/try", tries)
-- main_test.star --
def test_grants():
    publish("door/front")
    expect_event("box/door")
    publish("box/try")
    got = [expect_event("box/tried").payload for _ in range(12)]
    assert.eq([g == "ok" for g in got], [True, False, True, True, False, True, False, True, False, True, False, False])
    assert.eq(got[1], 'bus.publish: box is not allowed to use bus.pub "fan" (add to edged.toml, under [allow]: bus.pub = ["fan"])')
`
	playWith(t, text, lib.TestOptions{Grants: lib.Grants{
		BusSub: []string{"door/+"}, BusPub: []string{"lamp/#"}, BB: []string{"goto", "room/*"},
		HWWrite: []string{"lamp_*"}, HWRead: []string{"pose"},
	}})
}

// A robot that walks its rounds, each leg causing the next, walks on.
func TestPatrolIsNoStorm(t *testing.T) {
	play(t, `
-- main.star --
def leg(ev):
    sleep("1m")
    bus.publish("box/leg", ev.payload + 1)

on("box/leg", leg)

def count(key, old, new):
    sleep("20s")
    bb.set("box/rounds", new + 1)

bb.watch("box/rounds", count)
bb.watch("box/hot", lambda key, old, new: bb.set("box/hot", new + 1))
-- main_test.star --
def test_patrol():
    publish("box/leg", 1)
    clock.advance("100m")
    assert.contains(trace("box/leg"), "101")
    assert.eq(trace("edged/error"), "")

def test_watch():
    bb.set("box/rounds", 0)
    clock.advance("100m")
    assert.true(bb.get("box/rounds") >= 299)
    assert.eq(trace("edged/error"), "")

def test_a_true_storm_is_bounded():
    bb.set("box/hot", 0)
    clock.advance("1h")
    assert.contains(expect_event("edged/error")["error"], "storm guard")
    assert.true(bb.get("box/hot") < 40)
`)
}
