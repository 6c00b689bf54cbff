package lib_test

import "testing"

func TestAgents(t *testing.T) {
	play(t, `
-- main.star --
def work(task, ctx):
    if task == "decline":
        return Declined("not today")
    if task == "crash":
        fail("oh no")
    if task == "slow":
        ctx.sleep("1m")
    if task == "dict":
        return {"a": 1}
    if task == "nest":
        return inner.run("dict")
    if task == "exit":
        return EXIT
    ctx.state["n"] = ctx.state.get("n", 0) + 1
    bus.publish("box/said", {"who": ctx.name, "task": ctx.task, "n": ctx.state["n"]})
    return "did " + task

inner = Agent("inner", fn = work)
a = Agent("worker", fn = work, timeout = "10s")
both = Parallel("both", agents = [a, inner], need = 1)
all = Parallel("all", agents = [a, inner], reduce = lambda results: [r.reply for r in results])
limited = Parallel("limited", agents = [inner, inner], timeout = "5s")
pool = AgentPool()
pool.register(a)
pool.register(Agent("cook", fn = lambda task: "soup of " + task, capabilities = ["cook"]))
-- main_test.star --
load("main.star", "a", "inner", "both", "all", "limited", "pool")

def test_done():
    r = a.run("it")
    assert.true(r.ok and r)
    assert.eq([r.status, r.reply, r.output, r.by, r.reason], ["done", "did it", None, "worker", ""])
    ev = expect_event("box/said")
    assert.eq(ev.payload, {"who": "worker", "task": "it", "n": 1})
    assert.eq(ev.source, "agent:worker")
    expect_event("edged/agent/worker/start")
    expect_event("edged/agent/worker/end")

def test_output():
    r = a.run("dict")
    assert.eq([r.output, r.reply], [{"a": 1}, "{\"a\":1}"])
    assert.eq(a.run("nest").output, {"a": 1})

def test_not_done():
    r = a.run("decline")
    assert.eq([r.ok, r.status, r.reason], [False, "failed", "declined: not today"])
    r = a.run("crash")
    assert.eq(r.status, "failed")
    assert.contains(r.reason, "oh no")
    r = a.run("slow")
    assert.eq(r.status, "timeout")
    assert.eq(r.elapsed, time.parse_duration("10s"))

def test_parallel():
    r = all.run("x")
    assert.eq(r.output, ["did x", "did x"])
    assert.eq([c.by for c in r.children], ["worker", "inner"])
    assert.true(both.run("x").ok)
    r = limited.run("slow")
    assert.eq([r.status, [c.status for c in r.children]], ["timeout", ["timeout", "timeout"]])
    assert.eq(r.elapsed, time.parse_duration("5s"))

def test_pool():
    assert.eq(pool.names(), ["worker", "cook"])
    assert.eq(pool.run("cook", "leek").reply, "soup of leek")
    assert.fails(lambda: pool.run("cok", "leek"), contains = "did you mean \"cook\"?")
    assert.fails(lambda: pool.register(a), contains = "taken")
    r = pool.request("cook", "peas").result()
    assert.eq(r.reply, "soup of peas")
    assert.eq(pool.get("cook").run("beet", ctx = pool.make_ctx(origin = "me")).reply, "soup of beet")
    assert.eq([a["name"] for a in pool.status()["agents"]], ["worker", "cook"])

def test_pool_background():
    pool.start_background("worker", subscribe_to = "box/go", trigger = lambda ev: "x")
    publish("box/go")
    expect_event("box/said")
    pool.stop_background("worker")
    publish("box/go")
    expect_no_event("box/said")
    pool.stop_all()
`)
}

func TestBackground(t *testing.T) {
	play(t, `
-- main.star --
def work(task):
    if task == "crash":
        fail("oh")
    if task == "exit":
        return EXIT
    if task == "slow":
        sleep("10s")
    bus.publish("box/did", task)

def wake(ev):
    if ev.payload == "quit":
        return EXIT
    if ev.payload == "bad":
        fail("bad trigger")
    return ev.payload

bg = BackgroundAgent(agent = Agent("worker", fn = work), trigger = wake, subscribe_to = "box/do", max_queue = 2,
    backoff = "1s", max_backoff = "1s", max_restarts = 2, restart_window_s = 60.0)
idle = BackgroundAgent(Agent("idle", fn = work), subscribe_to = "box/do", autostart = False, name = "lazy")
BackgroundAgent(agent = Agent("minder", fn = lambda task: bus.publish("box/minded", task["new"])), watch = "mind*")
BackgroundAgent(agent = Agent("clock", fn = lambda task: bus.publish("box/tick")), trigger = every("10s"))
BackgroundAgent(agent = Agent("both", fn = lambda task: bus.publish("box/both", task)),
    subscribe_to = ["box/x", "box/y"], trigger = all_of(lambda ev: "x" if ev.topic == "box/x" else None, lambda ev: "y" if ev.topic == "box/y" else None, within = "5s"))
one = BackgroundAgent(Agent("one", fn = work), subscribe_to = "box/one", trigger = throttle_trigger(wake, "1s"))
two = BackgroundAgent(Agent("two", fn = work), subscribe_to = "box/two", trigger = changed_trigger("state"))
tree = SupervisionTree("pair", children = [one, two], strategy = "one_for_all")
-- main_test.star --
load("main.star", "bg", "idle", "tree", "one", "two")

def test_run():
    publish("box/do", "a")
    assert.eq(expect_event("box/did").payload, "a")
    assert.eq(bg.state, "running")

def test_crash_and_restart():
    publish("box/do", "crash")
    expect_event("edged/background/worker/crash")
    assert.eq(bg.state, "backing_off")
    expect_event("edged/background/worker/start", within = "1s")
    assert.eq(bg.restart_count, 1)
    publish("box/do", "b")
    expect_event("box/did")
    for _ in range(2):
        publish("box/do", "crash")
        clock.advance("2s")
    expect_event("edged/background/worker/gave_up")
    assert.eq(bg.state, "failed")
    assert.contains(bg.status()["last_error"], "oh")

def test_trigger_crashes_too():
    publish("box/do", "bad")
    ev = expect_event("edged/background/worker/crash")
    assert.contains(ev["error"], "bad trigger")

def test_exit():
    publish("box/do", "quit")
    clock.advance("1s")
    assert.eq(bg.state, "stopped")
    publish("box/do", "a")
    expect_no_event("box/did")

def test_overflow():
    publish("box/do", "slow")
    for i in range(5):
        publish("box/do", "x%d" % i)
    assert.eq(bg.dropped_events, 3)
    clock.advance("11s")
    assert.eq([json.decode(l.split(" ")[-3]) for l in trace("box/did").splitlines()], ["slow", "x3", "x4"])

def test_stop_and_start():
    bg.stop()
    publish("box/do", "a")
    expect_no_event("box/did")
    bg.start()
    assert.fails(bg.start, contains = "already")
    publish("box/do", "b")
    assert.eq(expect_event("box/did").payload, "b")

def test_autostart():
    assert.eq(idle.state, "stopped")
    idle.start()
    publish("box/do", "b")
    expect_event("box/did")
    expect_event("box/did")

def test_watch():
    bb.set("mind/it", 7)
    assert.eq(expect_event("box/minded").payload, 7)

def test_every():
    clock.advance("1s")
    expect_event("box/tick", within = "10s")

def test_all_of():
    publish("box/y")
    clock.advance("6s")
    publish("box/x")
    expect_no_event("box/both", within = "2s")
    publish("box/y")
    assert.eq(expect_event("box/both").payload, ["x", "y"])

def test_tree():
    assert.eq([c["name"] for c in tree.status()["children"]], ["one", "two"])
    publish("box/one", "crash")
    expect_event("edged/background/two/start", within = "10s")
    publish("box/two", {"state": 1})
    assert.eq(expect_event("box/did")["value"], 1)
    tree.stop()
    assert.eq(one.state, "stopped")
    tree.start()
    publish("box/one", "again")
    expect_event("box/did")
`)
}

func TestHardware(t *testing.T) {
	play(t, `
-- main.star --
base = hw.device("base")
hw.device("pose").on(lambda ev: bb.set("box/room", ev["value"]["room"]))
on("box/lamp", lambda ev: hw.device("lamp_hall").do(on = ev.payload))

def go(ev):
    r = attempt(base.drive_to(ev["to"], speed = 0.5, timeout = ev.get("timeout")).result)
    bus.publish("box/went", r.error if r.error else r.value)

on("box/go", go, mode = "parallel")
-- main_test.star --
load("main.star", "base")

def test_lamp():
    publish("box/lamp", True)
    assert.eq(hw.sim.lamp("hall"), 100)
    hw.device("lamp_hall").rest()
    assert.eq(hw.sim.lamp("hall"), 0)
    assert.fails(lambda: hw.device("lamp_hal"), contains = "did you mean \"lamp_hall\"?")
    assert.fails(lambda: hw.device("lamp_hall").do(), contains = "what should it do")
    assert.fails(lambda: hw.device("lamp_hall").do(colour = 3), contains = "colour")

def test_read():
    clock.advance("1s")
    assert.eq(hw.device("battery").read()["unit"], "%")
    assert.contains(hw.devices(), "base")
    assert.eq(hw.device("pose").status["kind"], "sensor")

def test_drive_to():
    publish("box/go", {"to": "kitchen"})
    expect_event("box/went", within = "1m")
    assert.eq(hw.sim.room(), "kitchen")
    assert.eq(bb.get("box/room"), "kitchen")

def test_timeout():
    publish("box/go", {"to": "kitchen", "timeout": "2s"})
    assert.contains(expect_event("box/went", within = "3s").payload, "not done after 2s")
    clock.advance("1s")
    assert.eq(hw.sim.velocity()["v"], 0)

def test_stop():
    publish("box/go", {"to": "kitchen"})
    clock.advance("1s")
    robot.stop("somebody")
    assert.contains(expect_event("box/went").payload, "stop: somebody")
    assert.true(robot.stopped())
    assert.fails(lambda: base.drive(v = 0.1), contains = "stopped")
    robot.resume()
    base.drive(v = 0.1, hold = "1s")
    clock.advance("900ms")
    assert.true(hw.sim.velocity()["v"] > 0)
    clock.advance("2s")
    assert.eq(hw.sim.velocity()["v"], 0)

def test_turn_and_goal():
    hw.sim.place(2, 3)
    before = hw.sim.pose()["theta"]
    g = base.turn(angle_deg = 90)
    assert.eq(g.state, "running")
    g.result()
    assert.true(math.fabs(hw.sim.pose()["theta"] - before - math.pi / 2) < 0.1)
    g = base.drive_to((1, 1))
    assert.true(g.cancel("enough"))
    assert.eq([g.state, g.reason, g.done()], ["cancelled", "enough", True])
    assert.fails(g.result, contains = "enough")

def test_faults():
    hw.sim.fault("battery", fail = "unplugged")
    clock.advance("10s")
    assert.contains(hw.device("battery").status["error"], "unplugged")

def test_say():
    robot.say("hello")
    assert.eq(expect_event("voice/say")["text"], "hello")
    assert.eq(robot.name, "box")
`)
}

func TestSmallModules(t *testing.T) {
	play(t, `
-- main.star --
-- main_test.star --
def test_re():
    m = re.search(r"(?P<n>\d+) (\w+)", "it is 21 degrees")
    assert.eq([m.text, m.group(1), m.group("n"), m["n"], m.groups(), m.start], ["21 degrees", "21", "21", "21", ["21", "degrees"], 6])
    assert.eq(re.search("x", "y"), None)
    assert.eq(re.match("b", "ab"), None)
    assert.eq(re.fullmatch("a+", "aaa").text, "aaa")
    assert.eq(re.findall(r"\w+", "a b"), ["a", "b"])
    assert.eq(re.findall(r"(\w)=(\w)", "a=1 b=2"), [("a", "1"), ("b", "2")])
    assert.eq(re.sub(r"(a)(b)", r"\2\1", "abab"), "baba")
    assert.eq(re.split(", *", "a, b,c"), ["a", "b", "c"])
    assert.eq(re.split(",", "a,b,c", max = 2), ["a", "b,c"])
    assert.eq(re.escape("a.b"), "a\\.b")
    assert.fails(lambda: re.search("(", "x"), contains = "pattern")
    assert.fails(lambda: m.group(7), contains = "2 groups")

def test_math():
    assert.eq([math.floor(1.5), math.ceil(1.5), math.sqrt(9), math.pow(2, 3), math.log(8, 2)], [1, 2, 3.0, 8.0, 3.0])
    assert.true(math.fabs(math.sin(math.pi)) < 1e-9)
    assert.eq(math.atan2(0, 1), 0.0)

def test_time():
    t = time.now()
    clock.advance("90s")
    assert.eq(time.now() - t, time.parse_duration("1m30s"))
    assert.eq(time.parse_time("2026-03-01T07:00:00Z").hour, 7)
    assert.eq(time.time(year = 2026, month = 3).year, 2026)
    assert.eq(time.from_timestamp(60).minute, 1)
    assert.eq(time.second * 60, time.minute)

def test_struct_and_json():
    s = struct(a = 1)
    assert.eq(s.a, 1)
    assert.eq(json.decode(json.encode({"a": [1, 2.5]})), {"a": [1, 2.5]})

def test_no_data_folder():
    assert.fails(lambda: store.read("x"), contains = "no data folder")

def test_asserts():
    assert.fails(lambda: assert.eq(1, 2), contains = "got 1, want 2")
    assert.fails(lambda: assert.eq(1, 2, msg = "sum"), contains = "sum: got 1")
    assert.fails(lambda: assert.ne(1, 1), contains = "something else")
    assert.fails(lambda: assert.true(0), contains = "want it true")
    assert.fails(lambda: assert.contains([1], 2), contains = "2 is not in [1]")
    assert.fails(lambda: assert.fails(lambda: 1), contains = "did not fail")
    assert.fails(lambda: expect_event("x", within = "1s"), contains = "no event x within 1s")
    say("hello")
    assert.eq(expect_event("voice/utterance")["text"], "hello")
`)
}
