package lib_test

import "testing"

func TestSocietyProtocols(t *testing.T) {
	play(t, `
-- main_test.star --
AGREE = {"agree": True}

def talker(name, *drafts):
    "Says what is left to say, then agrees. What it has heard goes to the board."
    def speak(task, turn):
        n = bb.incr("box/said/" + name)
        bb.set("box/order/%d" % (1000 + bb.incr("box/clock")), name)
        bb.set("box/heard/" + name, bb.get("box/heard/" + name, []) + [turn.prompt])
        if n <= len(drafts):
            return {"agree": False, "draft": drafts[n - 1]} if turn.kind == "agree" else drafts[n - 1]
        return AGREE if turn.kind == "agree" else drafts[-1]
    return Agent(name, fn = speak)

def order():
    keys = sorted(bb.keys("box/order/"))
    out = " ".join([bb.get(k) for k in keys])
    for k in keys:
        bb.delete(k)
    return out

def heard(name, n):
    return bb.get("box/heard/" + name)[n]

def talk(protocol, members, **kwargs):
    return Society("x").cooperate(members, Cooperation(protocol = protocol, **kwargs)).run("go")

def test_sequential():
    r = talk(Sequential(order = ["c", "a", "b"]), [talker("a", "1a"), talker("b", "1b"), talker("c", "1c")])
    assert.eq([r.status, r.output, r.rounds], ["done", "1b", 2])
    assert.eq(order(), "c a b c a")
    assert.true("1c" in heard("a", 0))
    assert.true("1a" in heard("b", 0))

def test_previous():
    a, b, c = talker("a", "FIRST"), talker("b", "SECOND"), talker("c", "THIRD")
    talk(Sequential([a, b, c], sees = "previous"), [a, b, c], max_rounds = 1)
    assert.eq(order(), "a b c")
    assert.true("FIRST" in heard("b", 0))
    assert.true("SECOND" in heard("c", 0))
    assert.true("FIRST" not in heard("c", 0))

def test_broadcast():
    a, b, m = talker("a", "FIRST", "SECOND"), talker("b", "THIRD", "FOURTH"), talker("m", "FIFTH", "SIXTH")
    r = talk(Broadcast(moderator = m), [m, a, b], max_rounds = 2)
    assert.eq(r.status, "deadlock")
    got = order().split(" ")
    assert.eq([sorted(got[:2]), got[2], got[3:]], [["a", "b"], "m", ["a", "b", "m"]])
    assert.true("THIRD" not in heard("a", 0) and "FIRST" not in heard("b", 0))  # sealed
    assert.true("FIRST" in heard("m", 0) or "THIRD" in heard("m", 0))
    assert.true("FIFTH" in heard("a", 1))
    talk(Broadcast(sealed_first = False), [talker("d", "ONE"), talker("e", "TWO")], max_rounds = 1)
    assert.eq(order(), "d e")
    assert.true("ONE" in heard("e", 0))

def test_queue():
    talk(Queue(), [talker("a", "1"), talker("b", "2"), talker("c", "3")], max_rounds = 1)
    assert.eq(order(), "a b c")
    talk(Queue(priority = {"f": 5}), [talker("d", "1"), talker("e", "2"), talker("f", "3")], max_rounds = 1)
    assert.eq(order(), "f d e")
    talk(Queue(priority = lambda name: 1 if name == "h" else 0), [talker("g", "1"), talker("h", "2")], max_rounds = 1)
    assert.eq(order(), "h g")
    r = talk(Queue(priority = lambda name: "high"), [talker("k", "1"), talker("l", "2")])
    assert.eq(r.status, "failed")
    assert.contains(r.reason, "protocol: priority: lambda returned \"high\": want a number")

def twice(floor):
    "Everybody speaks twice in a round."
    if len(floor.spoken) < 2 * len(floor.members):
        return floor.members[len(floor.spoken) // 2]

def only_chair(speaker):
    return ["c"] if speaker != "c" else []

def count(message, floor):
    floor.state["n"] = floor.state.get("n", 0) + 1
    bb.set("box/routed", [floor.state["n"], message.sender, message.receivers, message.output, message.round])

def test_own():
    own = struct(next_speaker = twice, listeners = only_chair, route = count, should_stop = lambda floor: "enough" if floor.state["n"] >= 12 else False)
    a, b, c = talker("a", "A1", "A2", "A3", "A4"), talker("b", "B1", "B2", "B3", "B4"), talker("c", "C1", "C2", "C3", "C4")
    r = talk(own, [a, b, c])
    assert.eq([r.status, r.reason, r.rounds], ["done", "enough", 2])
    assert.eq(order(), "a a b b c c a a b b c c")
    assert.eq(bb.get("box/routed"), [12, "c", [], "C4", 2])
    assert.true("A2" in heard("c", 0) or "B2" in heard("c", 0))
    assert.true("A1" not in heard("b", 0) and "C1" not in heard("a", 2))
    for p in [{"next_speaker": twice}, Protocol(next_speaker = twice), {"get_next_speaker": twice, "note": "mine"}]:
        talk(p, [talker("d", "D"), talker("e", "E")], max_rounds = 1)
        assert.eq(order()[:5], "d d e")
    both = Protocol(next_speaker = lambda floor: None if floor.spoken else ["f", "g"])
    talk(both, [talker("f", "FF"), talker("g", "GG")], max_rounds = 1)
    assert.true("FF" not in heard("g", 0) and "GG" not in heard("f", 0))

def test_own_that_fails():
    for fn, why in [
        (lambda floor: "z", "next_speaker: it returned \"z\", who is not a member; members are a, b"),
        (lambda floor: floor.members[7], "next_speaker: "),
        (lambda floor: "a", "next_speaker: it never ends the round"),
    ]:
        r = talk({"next_speaker": fn}, [talker("a", "1"), talker("b", "2")])
        assert.eq(r.status, "failed")
        assert.contains(r.reason, "protocol: " + why)
    r = talk({"listeners": lambda speaker: ["z"]}, [talker("c", "1"), talker("d", "2")])
    assert.contains(r.reason, "listeners: it returned \"z\"")
    r = talk({"should_stop": lambda floor: floor.state["x"]}, [talker("e", "1"), talker("f", "2", "3", "4")])
    assert.contains(r.reason, "should_stop: ")

def test_conditions():
    def go(drafts, **kwargs):
        n = bb.incr("box/pair")
        a, b = talker("a%d" % n, *drafts), talker("b%d" % n, *["-" + d for d in drafts])
        r = talk(None, [a, b], **kwargs)
        order()
        return [r.status, r.reason, r.output, r.rounds]
    many = ["1", "2", "3", "4", "5", "6", "7", "8", "9"]
    assert.eq(go(many), ["deadlock", "deadlock", "-8", 8])
    assert.eq(go(many, max_rounds = 2), ["deadlock", "deadlock", "-2", 2])
    assert.eq(go(many, max_messages = 5), ["deadlock", "deadlock: max_messages", "3", 3])
    assert.eq(go(many, until = max_messages(3)), ["deadlock", "deadlock: max_messages", "2", 2])
    assert.eq(go(many, until = max_messages(3), max_messages = 2), ["deadlock", "deadlock: max_messages", "-1", 1])
    assert.eq(go(many, until = lambda work: len(work) == 2 and work[1].output == "-3"), ["done", "until", "-3", 3])
    assert.eq(go(many, until = lambda work, state: state.get("box/stop", True)), ["done", "until", "-1", 1])
    assert.eq(go(["1", "1", "2", "2"], until = converged()), ["done", "converged", "-1", 2])
    assert.eq(go(many, until = converged(lambda before, now: now[0].output == "4")), ["done", "converged", "-4", 4])
    assert.eq(go(many, until = [converged(), max_messages(4)]), ["deadlock", "deadlock: max_messages", "-2", 2])
    got = go(many, until = converged(lambda before, now: now[9]))
    assert.eq(got[0], "failed")
    assert.contains(got[1], "converged: ")
    got = go(many, until = lambda work: work[9])
    assert.eq(got[0], "failed")
    assert.contains(got[1], "until: ")

def test_node_reached():
    a, b, c = talker("a", "1"), talker("b", "2"), talker("c", "3")
    turns = Protocol(next_speaker = lambda floor: None if floor.spoken else floor.members[floor.round - 1])
    r = talk(turns, [a, b, c], until = node_reached(b))
    assert.eq([r.status, r.reason, r.output, order()], ["done", "node_reached", "2", "a b"])

def test_conditions_within_a_round():
    three = lambda **kwargs: talk(None, [talker("d", "1"), talker("e", "2"), talker("f", "3")], **kwargs)
    r = three(until = node_reached("e"))
    assert.eq([r.status, r.reason, r.output, order()], ["done", "node_reached", "2", "d e"])
    r = three(until = node_reached("e"), merge = "append")
    assert.eq([r.status, r.reason, r.output, order()], ["done", "node_reached", ["1", "2"], "d e"])
    r = three(until = node_reached("e"), merge = lambda drafts: "+".join([d.output for d in drafts]))
    assert.eq([r.status, r.reason, r.output, order()], ["done", "node_reached", "1+2", "d e"])
    for protocol, until, why in [(None, node_reached("h"), "node_reached"), ({"should_stop": lambda floor: "enough"}, max_messages(9), "enough")]:
        r = talk(protocol, [talker("g" + why, "1"), talker("h", "2", "2")], max_rounds = 1, until = until)
        assert.eq([r.status, r.reason, r.output, order()], ["done", why, "2", "g%s h" % why])   # also in the last round
    r = three(max_messages = 1)
    assert.eq([r.status, r.output, order()], ["deadlock", "1", "d"])
    yes = Agent("yes", fn = {"agree": lambda task: True})
    r = talk(None, [talker("d", "1"), yes], max_messages = 2)
    assert.eq([r.status, r.output, [t["speaker"] for t in r.turns], order()], ["done", "1", ["d", "yes"], "d"])  # the last message settles it
    boss = Agent("boss", fn = {"review": lambda task: "revise"})
    r = Society("z").connect(talker("g", "1", "2"), boss, Oversight(max_messages = 3)).run("go")
    assert.eq([r.status, r.output, order()], ["deadlock", "2", "g g"])

def test_market():
    def bidder(name, *costs):
        def bid(task, turn):
            n = bb.incr("box/bids/" + name)
            bb.set("box/heard/" + name, bb.get("box/heard/" + name, []) + [turn.prompt])
            return {"price": costs[n - 1]}
        return Agent(name, fn = bid)
    m = Market(bid = {"price": "(int, 0..1000)"}, budget = 100)
    e = Society("x").compete([bidder("a", 70, 50, 20), bidder("b", 60, 40, 30)], Competition(protocol = m, resolve = BestScore("price")))
    assert.eq([e.run("one").winner, e.run("two").winner], ["a", "b"])  # a has 30 left, and its 50 is malformed
    assert.true("Your balance: 100" in heard("a", 0) and "Last time" not in heard("a", 0))
    assert.true("Your balance: 30" in heard("a", 1) and "Last time: a won with 70" in heard("b", 1))
    assert.true("60" not in heard("a", 0) and "40" not in heard("a", 1))
    r = e.run("three")
    assert.eq([r.winner, r.output], ["b", {"price": 30}])
    open = Market(bid = {"price": "(int, 0..1000)"}, sealed = False, simultaneous = False)
    e = Society("y").compete([bidder("c", 5), bidder("d", 6)], Competition(protocol = open, resolve = BestScore("price")))
    e.run("go")
    assert.true("Draft of c: {\"price\":5}" in heard("d", 0))

def test_who_asks_least_is_paid():
    def bidder(name, *costs):
        def bid(task, turn):
            n = bb.incr("box/bids/" + name)
            bb.set("box/heard/" + name, bb.get("box/heard/" + name, []) + [turn.prompt])
            return {"cost": costs[n - 1]}
        return Agent(name, fn = bid)
    m = Market(bid = {"cost": "(int, 0..1000)"}, budget = 100)
    e = Society("x").compete([bidder("a", 30, 500), bidder("b", 60, 20)], Competition(protocol = m, resolve = BestScore("cost", highest = False)))
    assert.eq([e.run("one").winner, e.run("two").winner], ["a", "b"])  # who is paid may ask for more than it has
    assert.true("Your balance: 130" in heard("a", 1) and "Your balance: 100" in heard("b", 1), msg = heard("a", 1))

def test_markets_at_once():
    def slow(task):
        sleep("5s")
        return {"price": 10}
    m = Market(bid = {"price": "(int, 0..1000)"}, budget = 100)
    e = Society("x").compete([Agent("a", fn = lambda task: {"price": 80}), Agent("b", fn = slow)], Competition(protocol = m, resolve = BestScore("price")))
    both = Parallel("both", [Agent(n, fn = lambda task: e.run(task).winner) for n in ["one", "two"]])
    assert.eq(sorted([c.reply for c in both.run("go").children]), ["a", "b"])  # a has 100, and would pay 160

def test_market_that_nobody_wins():
    s = Society("dear")
    boss, a, b = Agent("boss", fn = lambda task, turn: "accept"), Agent("a", fn = lambda task: {"cost": 500}), Agent("b", fn = lambda task: {"cost": 600})
    e = s.compete([a, b], Competition(protocol = Market(bid = {"cost": "(int, 0..1000)"}), resolve = BestScore("cost", highest = False, reserve = 400)))
    r = e.run("one")
    assert.eq([r.status, r.reason], ["failed", "reserve: none of 2 reaches 400"])
    s.connect(boss, a, Delegation())
    r = e.run("two")
    assert.eq([r.status, r.reason], ["escalated", "no_answer: reserve: none of 2 reaches 400; boss: invalid: winner must be one of A, B"])

def test_watchers():
    def same(name):
        return Agent(name, fn = {"work": lambda task: "same", "review": lambda task: {"verdict": "revise", "comments": "no"}})
    e = Society("x").connect(same("a"), same("b"), Oversight(watch = ["stalled"]))
    r = e.run("go")
    assert.eq([r.status, r.reason, r.rounds], ["deadlock", "stalled", 2])
    def closing(task):
        bb.set("box/door", bb.get("box/door", 0) + 1)
        return {"verdict": "revise", "comments": "round %d" % bb.get("box/door")}
    for n, watch in enumerate(["unmoved:box/door", "unmoved"]):
        e = Society("y%d" % n).connect(same("a"), Agent("b", fn = closing), Oversight(watch = [watch]))
        r = e.run("go")
        assert.eq([r.status, r.reason, r.rounds], ["deadlock", "unmoved: box/door has changed, the decision has not", 2])
    e = Society("z").connect(same("a"), Agent("b", fn = closing), Oversight(watch = ["unmoved:box/other"], max_rounds = 3))
    assert.eq(e.run("go").rounds, 3)
    e = Society("w", escalate_to = Agent("spare", fn = lambda task: "I did it")).connect(Agent("pm", fn = lambda task: "accept"), Agent("dev", fn = lambda task: Declined("busy")), Delegation(watch = ["no_taker"]))
    r = e.run("go")
    assert.eq([r.status, r.by, r.reason, r.output], ["done", "spare", "no_taker: busy: decided by spare", "I did it"])
    lead = Agent("lead", fn = lambda task: {"cost": 1})
    none = [Agent("a", fn = lambda task: None), Agent("b", fn = lambda task: None)]
    form = Artifact("x", schema = {"cost": "(int, 0..9)"})
    r = Society("z", escalate_to = lead).compete(none, Competition(artifacts = [form], resolve = BestScore("cost"), watch = ["no_taker"])).run("go")
    assert.eq([r.status, r.by, r.output], ["done", "lead", {"cost": 1}])
`)
}

// TestSocietySees: what is in a prompt, and what is not.
func TestSocietySees(t *testing.T) {
	play(t, `
-- main_test.star --
`+matrixHelp+`
def prompts(n):
    return model.prompts()[n:]

def test_delegation():
    a = cast(pm = [word("reject", "COMMENT1"), word("accept")], dev = [json.encode({"draft": "DRAFT1", "progress": "half way"}), draft("DRAFT2")])
    s = Society("SOCIETY", description = "DESCRIPTION")
    s.put("map", "SHELF")
    e = s.connect(a["pm"], a["dev"], Delegation(instructions = "NOTE", artifacts = [Artifact("map")]))
    assert.eq(e.run("TASK").output, "DRAFT2")
    dev1, pm1, dev2, pm2 = [p.text for p in prompts(0)]
    for part in ["TASK", "NOTE", "SHELF"]:
        assert.contains(dev1, part)
    for part in ["TASK", "half way", "round 1 of 8"]:
        assert.contains(pm1, part)
    for p in [pm1, pm2]:
        for part in ["DRAFT1", "DRAFT2", "SHELF"]:
            assert.true(part not in p)
    for part in ["DRAFT1", "COMMENT1"]:
        assert.contains(dev2, part)
    for p in [dev1, pm1, dev2, pm2]:
        assert.true("SOCIETY" not in p and "DESCRIPTION" not in p)
    assert.eq(s.get("map"), "DRAFT2")

def test_oversight():
    a = cast(worker = [draft("DRAFT1"), draft("DRAFT2")], boss = [word("revise", "COMMENT1"), word("approve", "COMMENT2")])
    s = Society("x")
    s.put("map", "SHELF")
    e = s.connect(a["worker"], a["boss"], Oversight(criteria = ["CRITERION"], artifacts = [Artifact("map")]))
    n = len(model.prompts())
    e.run("TASK")
    w1, b1, w2, b2 = [p.text for p in prompts(n)]
    assert.true("CRITERION" not in w1 + w2 and "SHELF" not in w1 + w2 and "boss" not in w1 + w2)
    for part in ["TASK", "CRITERION", "SHELF", "DRAFT1", "Work log of worker"]:
        assert.contains(b1, part)
    assert.contains(w2, "DRAFT1")
    assert.contains(w2, "COMMENT1")
    assert.contains(b2, "DRAFT2")

def test_competition():
    a = cast(fast = [draft("SHORT")], gentle = [draft("LONG")], judge = [holding("LONG")])
    e = Society("x").compete([a["fast"], a["gentle"]], Competition(resolve = JudgePicks(a["judge"], criteria = ["CRITERION"])))
    n = len(model.prompts())
    assert.eq(e.run("TASK").winner, "gentle")
    for p in prompts(n):
        if "judge" in p.model:
            for part in ["TASK", "CRITERION", "SHORT", "LONG", "Submission A", "Submission B"]:
                assert.contains(p.text, part)
            assert.true("fast" not in p.text and "gentle" not in p.text)
            assert.eq(p.schema["properties"]["winner"]["enum"], ["A", "B", "none"])
        else:
            other = "gentle" if "fast" in p.model else "fast"
            for part in [other, "judge", "CRITERION", "SHORT", "LONG", "compet", "others"]:
                assert.true(part not in p.text)

def test_coopetition():
    agree = json.encode({"agree": True})
    shared = json.encode({"draft": {"door": "SHARED"}})
    form = Artifact("claim", schema = {"battery": "(int, 0..100)"})
    a = cast(mule = [shared, draft({"battery": 77})], scout = [agree, draft({"battery": 33})])
    e = Society("x").negotiate([a["mule"], a["scout"]], Coopetition(cooperate_on = ["door"], compete_on = ["claim"], artifacts = [form],
        resolve = lambda subs: min([(s.output["battery"], s.agent) for s in subs])[1]))
    n = len(model.prompts())
    r = e.run("who goes first")
    assert.eq([r.status, r.winner, r.output], ["done", "scout", {"shared": {"door": "SHARED"}, "won": {"battery": 33}}])
    m1, s1, m2, s2 = [p.text for p in prompts(n)]
    assert.contains(s1, "SHARED")
    for p in prompts(n):
        assert.true(("77" not in p.text) and ("33" not in p.text))

def test_dossier():
    a = cast(worker = [draft("DRAFT1")], boss = [word("revise", "COMMENT1")], lead = [word("approve"), word("approve")])
    s = Society("x")
    n = len(model.prompts())
    s.connect(a["worker"], a["boss"], Oversight(max_rounds = 1, on_deadlock = a["lead"])).run("TASK")
    p = prompts(n)[-1].text
    for part in ["TASK", "Why you are asked: deadlock", "Last draft: \"DRAFT1\"", "COMMENT1"]:
        assert.contains(p, part)
    b = cast(worker = [draft("DRAFT1")], boss = [word("revise", "COMMENT1")], lead = [word("approve")])
    n = len(model.prompts())
    Society("y").connect(b["worker"], b["boss"], Oversight(max_rounds = 1, on_deadlock = Escalate(b["lead"], summary = False))).run("TASK")
    p = prompts(n)[-1].text
    for part in ["Turn 1, work by worker", "Turn 2, review by boss"]:
        assert.contains(p, part)
    assert.eq(prompts(n)[-1].schema["properties"]["verdict"]["enum"], ["approve", "reject"])
`)
}
