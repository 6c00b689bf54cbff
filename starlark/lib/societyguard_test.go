package lib_test

import "testing"

func TestSocietyGuardrails(t *testing.T) {
	play(t, `
-- main_test.star --
`+matrixHelp+`
ROOMS = ["kitchen", "hall", "dock"]

def known_room(plan, state):
    if plan not in ROOMS:
        return "there is no room called %s" % plan

def rail(on, check = known_room):
    return Guardrail("known-rooms", check, on_violation = on)

def review(a, *rails, **kwargs):
    a = cast(**a)
    e = Society("x").connect(a["worker"], a["boss"], Oversight(guardrails = list(rails), on_deadlock = a.get("lead"), **kwargs))
    return outcome(e)

def test_revise_goes_back_to_the_author_alone():
    got = review(dict(worker = [draft("attic"), draft("hall")], boss = [word("approve", "ok")]), rail("revise"))
    check("revise", got, ["done", "ok", "hall", "", "worker worker boss"])
    again, boss = model.prompts()[1], model.prompts()[2]
    assert.contains(again.user, "no room called attic")
    assert.contains(again.user, "Your last draft: \"attic\"")
    assert.true("attic" not in boss.text.replace("there is no room called attic", ""))
    assert.contains(boss.user, "sent back by a guardrail")
    assert.eq(expect_event("edged/society/x/guardrail")["violation"], "there is no room called attic")

def test_revise_takes_rounds():
    got = review(dict(worker = [draft("attic"), draft("cellar")], boss = []), rail("revise"), max_rounds = 2)
    check("deadlock", got, ["deadlock", "deadlock: worker: returned: there is no room called cellar", "cellar", "", "worker worker"])
    got = review(dict(worker = [draft("attic")], boss = [], lead = [draft("hall")]), rail("revise"), max_rounds = 1)
    check("lead", got, ["done", "deadlock: worker: returned: there is no room called attic: decided by lead", "hall", "", "worker lead"])
    got = review(dict(worker = [draft("attic")], boss = [], lead = [draft("attic")]), rail("revise"), max_rounds = 1)
    check("also the lead is looked at", got[:3], ["blocked", "there is no room called attic", "attic"])
    got = review(dict(worker = [draft("hall"), draft("attic"), draft("dock")], boss = [word("revise", "elsewhere"), word("approve")]), rail("revise"))
    check("in between", got, ["done", "", "dock", "", "worker boss worker worker boss"])

def test_block():
    got = review(dict(worker = [draft("attic")], boss = []), rail("block"))
    check("block", got, ["blocked", "known-rooms: there is no room called attic", "attic", "", "worker"])
    got = review(dict(worker = [draft("hall")], boss = [word("approve")]), rail("block"))
    check("fine", got, ["done", "", "hall", "", "worker boss"])

def test_warn():
    got = review(dict(worker = [draft("attic")], boss = [word("approve")]), rail("warn"))
    check("warn", got, ["done", "", "attic", "", "worker boss"])
    assert.eq(expect_event("edged/society/x/guardrail")["on_violation"], "warn")

def test_sanitize():
    clean = rail("sanitize", lambda plan: replace("hall") if plan == "attic" else None)
    got = review(dict(worker = [draft("attic")], boss = [word("approve")]), clean)
    check("sanitize", got, ["done", "", "hall", "", "worker boss"])
    assert.contains(model.prompts()[1].user, "Draft of worker: \"hall\"")
    got = review(dict(worker = [draft("attic")], boss = []), rail("sanitize"))
    check("nothing in its place", got, ["blocked", "known-rooms: there is no room called attic", "attic", "", "worker"])

def test_what_was_replaced_is_nowhere():
    "What the check took out is in no prompt but its author's own answer."
    cut = Guardrail("no-pin", lambda text: replace(text.replace("PIN1234", "***")) if "PIN1234" in text else None, on_violation = "sanitize")
    def nowhere(n = 0):
        for p in model.prompts()[n:]:
            assert.true("PIN1234" not in p.text, msg = p.text)
    def go(a, make):
        n = len(model.prompts())
        r = make(cast(**a)).run("go")
        nowhere(n)
        assert.true("PIN1234" not in str(r.output) + str(r.turns) + str([c.output for c in r.children]))
        return [r.status, r.output]
    got = go(dict(w = [draft("PIN1234 a"), draft("PIN1234 b")], boss = [word("revise", "no"), word("revise", "no")], lead = [word("approve")]),
        lambda a: Society("x").connect(a["w"], a["boss"], Oversight(guardrails = [cut], max_rounds = 2, on_deadlock = Escalate(a["lead"], summary = False))))
    check("oversight", got, ["done", "*** b"])
    assert.contains(model.prompts()[-1].user, "*** a")
    got = go(dict(pm = [word("reject", "no"), word("accept")], dev = [draft("PIN1234 a"), draft("PIN1234 b")]),
        lambda a: Society("x").connect(a["pm"], a["dev"], Delegation(guardrails = [cut])))
    check("delegation", got, ["done", "*** b"])
    got = go(dict(a = [draft("PIN1234 a")], b = [json.encode({"agree": False, "draft": "PIN1234 b"})] * 2, c = [json.encode({"agree": True})] * 2),
        lambda a: Society("x").cooperate([a["a"], a["b"], a["c"]], Cooperation(guardrails = [cut], max_rounds = 1)))
    check("cooperation", got, ["deadlock", "*** b"])
    got = go(dict(a = [draft("PIN1234 a")], b = [draft("b")], m = [draft("PIN1234 both")]),
        lambda a: Society("x").cooperate([a["a"], a["b"]], Cooperation(guardrails = [cut], merge = a["m"])))
    check("merged", got, ["done", "*** both"])
    got = go(dict(a = [draft("PIN1234 a")], b = [draft("b")], judge = [holding("***")]),
        lambda a: Society("x").compete([a["a"], a["b"]], Competition(guardrails = [cut], resolve = JudgePicks(a["judge"]))))
    check("competition", got, ["done", "*** a"])
    got = go(dict(w = [SLOW], boss = [], lead = [draft("PIN1234 mine")]),
        lambda a: Society("x").connect(a["w"], a["boss"], Oversight(guardrails = [cut], timeout = "5s", on_deadlock = a["lead"])))
    check("the lead's own", got, ["done", "*** mine"])

def test_what_is_put_together_is_mended():
    tidy = Guardrail("tidy", lambda x: replace("clean") if x == "ab" else None, on_violation = "sanitize")
    a = cast(a = [draft("a")], b = [draft("b")])
    e = Society("x").cooperate([a["a"], a["b"]], Cooperation(merge = lambda drafts: "".join([d.output for d in drafts]), guardrails = [tidy]))
    check("merged", outcome(e)[:3], ["done", "", "clean"])

def test_bids():
    "A bid is the answer as a whole; who bids next hears what was made of it."
    cap = Guardrail("cap", lambda bid: replace({"cost": 10}) if bid["cost"] > 10 else None, on_violation = "sanitize")
    def second(task, turn):
        bb.set("box/heard", turn.prompt)
        return {"cost": 12}
    a = Agent("a", fn = lambda task: {"cost": 777})
    e = Society("x").compete([a, Agent("b", fn = second)], Competition(guardrails = [cap], resolve = BestScore("cost", highest = False),
        protocol = Market(bid = {"cost": "(int, 0..1000)"}, sealed = False, simultaneous = False)))
    r = e.run("go")
    assert.eq([r.status, r.output, [c.output for c in r.children]], ["done", {"cost": 10}, [{"cost": 10}, {"cost": 10}]])
    assert.true("777" not in bb.get("box/heard"), msg = bb.get("box/heard"))
    assert.contains(bb.get("box/heard"), "Draft of a: {\"cost\":10}")

def test_the_sealed_half():
    def talk(on, look, claim):
        agree = lambda task, turn: {"door": "left"} if turn.kind == "work" else True if turn.kind == "agree" else claim
        s = Society("x").negotiate([Agent("a", fn = agree), Agent("b", fn = agree)], Coopetition(cooperate_on = ["door"], compete_on = ["claim"],
            resolve = lambda subs: "a", guardrails = [Guardrail("g", look, on_violation = on)]))
        r = s.run("go")
        return [r.status, r.reason, r.output]
    for on in ["block", "sanitize"]:
        assert.eq(talk(on, lambda x: None, "me"), ["done", "", {"shared": {"door": "left"}, "won": "me"}])
        assert.eq(talk(on, lambda x: replace("you") if x == "me" else None, "me"), ["done", "", {"shared": {"door": "left"}, "won": "you"}])
        assert.eq(talk(on, lambda x: replace({"door": "right"}) if x == {"door": "left"} else None, "me"), ["done", "", {"shared": {"door": "right"}, "won": "me"}])
    got = talk("block", lambda x: "not you" if x == "me" else None, "me")
    assert.eq(got, ["blocked", "g: not you", {"shared": {"door": "left"}, "won": "me"}])
    got = talk("block", lambda x: "not that way" if x == {"door": "left"} else None, "me")
    assert.eq(got[:2], ["blocked", "g: not that way"])

def test_every_check_sees_what_those_before_left():
    for on in ["block", "warn", "sanitize", "revise"]:
        rails = [Guardrail("one", lambda t: replace(t + "1"), on_violation = on), Guardrail("two", lambda t: replace(t + "2"), on_violation = on),
            Guardrail("three", lambda t: None if t == "hall12" else "it was " + t, on_violation = "block")]
        got = review(dict(worker = [draft("hall")], boss = [word("approve")]), *rails)
        check(on, got, ["done", "", "hall12", "", "worker boss"])
        assert.contains(model.prompts()[-1].user, "hall12")
        rails[2] = Guardrail("three", lambda t: "it was " + t, on_violation = "block")
        got = review(dict(worker = [draft("hall")], boss = []), *rails)
        check("then blocked, " + on, got[:2], ["blocked", "three: it was hall12"])

def test_one_that_competes_and_can_not_be_mended():
    clean = rail("sanitize")
    def race(a, b, judge):
        a = cast(a = a, b = b, judge = judge)
        got = outcome(Society("x").compete([a["a"], a["b"]], Competition(guardrails = [clean], resolve = JudgePicks(a["judge"]))))
        return got
    got = race([draft("attic")], [draft("hall")], [holding("hall")])
    check("one", got[:4], ["done", "better", "hall", "b"])
    assert.true("attic" not in model.prompts()[-1].text)
    got = race([draft("attic")], [draft("attic")], [])
    check("all", got[:4], ["blocked", "no submission: a: failed: known-rooms: there is no room called attic; b: failed: known-rooms: there is no room called attic", None, ""])

def test_a_check_that_fails_is_a_violation():
    for on in ["warn", "sanitize", "block"]: # nobody knows what is in it: it does not go on
        got = review(dict(worker = [draft("attic")], boss = []), rail(on, lambda p: p["x"]))
        check(on, [got[0], got[4]], ["blocked", "worker"])
        assert.contains(got[1], "known-rooms: ")
        got = review(dict(worker = [draft("attic")], boss = []), rail(on, lambda p: fail("oh")))
        check(on, [got[0], got[4]], ["blocked", "worker"])

    got = review(dict(worker = [draft("attic")], boss = []), rail("block", lambda p: p["x"]))
    check("block", [got[0], got[4]], ["blocked", "worker"])
    got = review(dict(worker = [draft("attic")], boss = []), rail("revise", lambda p: 7), max_rounds = 1)
    check("revise", [got[0], got[4]], ["deadlock", "worker"])

def test_a_check_that_writes_is_a_violation():
    got = review(dict(worker = [draft("hall")], boss = []), rail("block", lambda p: bb.set("box/seen", p)))
    check("block", [got[0], got[4], bb.get("box/seen")], ["blocked", "worker", None])
    assert.contains(got[1], "neither effects nor waits inside a guardrail's check")
    cooks = [Agent(name, fn = lambda task: "soup") for name in ["a", "b"]]
    for what in [dict(until = lambda work: bb.incr("box/seen") > 0), dict(until = converged(lambda before, now: bb.incr("box/seen"))),
                 dict(protocol = Queue(priority = lambda name: bb.incr("box/seen")))]:
        other = [cooks[0], Agent("b", fn = lambda task, turn: "%d" % turn.round)]
        r = Society("x").cooperate(other, Cooperation(**what)).run("go")
        assert.eq([r.status, bb.get("box/seen")], ["failed", None])
        assert.contains(r.reason, "neither effects nor waits inside a guard or a condition")

def test_competition():
    def race(a, on, max_rounds = None):
        a = cast(**a)
        e = Society("x").compete([a["a"], a["b"]], Competition(guardrails = [rail(on)], resolve = JudgePicks(a["judge"]), max_rounds = max_rounds))
        got = outcome(e)
        return got[:4] + [" ".join(sorted(got[4].split(" ")))]
    n = len(model.prompts())
    got = race(dict(a = [draft("attic"), draft("hall")], b = [draft("dock")], judge = [holding("hall")]), "revise")
    check("the one again", got, ["done", "better", "hall", "a", "a a b judge"])
    judge = model.prompts()[-1]
    assert.contains(judge.user, "dock")
    assert.true("attic" not in judge.text)
    got = race(dict(a = [draft("attic")], b = [draft("dock")], judge = [holding("dock")]), "revise", max_rounds = 1)
    check("no more rounds: no submission", got, ["done", "better", "dock", "b", "a b judge"])
    got = race(dict(a = [draft("attic")], b = [draft("dock")], judge = [holding("attic")]), "block")
    check("what was picked is blocked", got, ["blocked", "known-rooms: there is no room called attic", "attic", "a", "a b judge"])
    a = cast(a = [draft("attic")], b = [draft("dock")], judge = [pick("none")])
    e = Society("x").compete([a["a"], a["b"]], Competition(guardrails = [rail("block")], resolve = JudgePicks(a["judge"], on_neither = "best_effort")))
    r = e.run("go")
    assert.eq([r.status, r.winner, r.degraded], ["done", "b", True])

def test_cooperation():
    agree = json.encode({"agree": True})
    a = cast(a = [draft("attic"), json.encode({"agree": False, "draft": "hall"})], b = [draft("dock"), agree], c = [])
    e = Society("x").cooperate([a["a"], a["b"]], Cooperation(guardrails = [rail("revise")]))
    got = outcome(e)
    check("revise", got, ["done", "", "hall", "", "a b a b"])
    assert.contains(model.prompts()[1].user, "Make the first version")
    a = cast(a = [draft("attic"), draft("hall")], b = [draft("dock")])
    e = Society("x").cooperate([a["a"], a["b"]], Cooperation(merge = "append", guardrails = [rail("revise")]))
    check("append", outcome(e), ["done", "", ["hall", "dock"], "", "a b a"])
    join = Cooperation(merge = lambda drafts: " and ".join([d.output for d in drafts]), guardrails = [Guardrail("short", lambda x: "long" if len(x) > 9 else None)])
    a = cast(a = [draft("hall")], b = [draft("dock")])
    check("what was put together", outcome(Society("x").cooperate([a["a"], a["b"]], join))[:3], ["blocked", "short: long", "hall and dock"])

def test_parts():
    PLAN = Artifact("plan", schema = {"type": "object", "properties": {"room": {"type": "string"}, "speed": {"type": "integer"}}, "required": ["room"]})
    def no_attic(part):
        return "there is no room called attic" if part.get("room") == "attic" else None
    def fields(a, b, on, **kwargs):
        a = cast(a = [draft(x) for x in a], b = [draft(x) for x in b])
        return outcome(Society("x").cooperate([a["a"], a["b"]], Cooperation(merge = "fields", artifacts = [PLAN], guardrails = [rail(on, no_attic)], **kwargs)))
    got = fields([{"room": "attic"}, {"room": "hall"}], [{"speed": 1}], "revise")
    check("the part again", got, ["done", "", {"room": "hall", "speed": 1}, "", "a b a"])
    first, again = model.prompts()[-2], model.prompts()[-1]
    assert.true("attic" not in first.text.replace("there is no room called attic", ""))
    assert.contains(again.user, "there is no room called attic")
    got = fields([{"speed": 1}], [{"room": "attic"}, {"room": "attic"}], "revise", max_rounds = 2)
    check("no more rounds", got, ["deadlock", "deadlock: b: returned: there is no room called attic", {"speed": 1}, "", "a b b"])
    got = fields([{"room": "attic"}], [], "block")
    check("block", [got[0], got[1], got[4]], ["blocked", "known-rooms: there is no room called attic", "a"])
    a = cast(a = [draft({"room": "hall"})], b = [draft({"speed": 9})])
    both = Guardrail("slow", lambda plan: "too fast" if plan.get("speed") == 9 and plan.get("room") == "hall" else None)
    e = Society("x").cooperate([a["a"], a["b"]], Cooperation(merge = "fields", artifacts = [PLAN], guardrails = [both]))
    check("the whole too", outcome(e)[:3], ["blocked", "slow: too fast", {"room": "hall", "speed": 9}])

def test_shared_half():
    agree = json.encode({"agree": True})
    shared = lambda room: draft({"door": room})
    def attic(x):
        return "no attic" if x == {"door": "attic"} else None
    def talk(a, b, on, lead = []):
        a = cast(a = a, b = b, lead = lead)
        e = Society("x", escalate_to = a["lead"] if lead else None).negotiate([a["a"], a["b"]], Coopetition(cooperate_on = ["door"], compete_on = ["claim"],
            resolve = lambda subs: "a", guardrails = [rail(on, attic)], max_rounds = 2))
        return outcome(e)
    got = talk([shared("attic"), json.encode({"agree": False, "draft": {"door": "hall"}}), draft("1")], [shared("dock"), agree, draft("2")], "revise")
    check("revise", got[:3], ["done", "", {"shared": {"door": "hall"}, "won": "1"}])
    assert.eq(got[4].split(" ")[:4], ["a", "b", "a", "b"])
    got = talk([shared("attic")], [], "block")
    check("block", got, ["blocked", "known-rooms: no attic", {"door": "attic"}, "", "a"])
    got = talk([shared("attic")] * 2, [shared("attic")] * 2, "revise", lead = [shared("attic")])
    check("also the lead is looked at", [got[0], got[1], got[4]], ["blocked", "no attic", "a b a b lead"])

def test_state():
    bb.set("box/closed", "hall")
    g = Guardrail("open", lambda plan, state: "it is closed" if state["box/closed"] == plan else None)
    got = review(dict(worker = [draft("hall")], boss = []), g)
    check("state", got[:2], ["blocked", "open: it is closed"])
`)
}
