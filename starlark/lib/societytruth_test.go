package lib_test

import "testing"

// TestSocietySealed: what is sealed stays so, also by way of a judge.
func TestSocietySealed(t *testing.T) {
	play(t, `
-- main_test.star --
`+matrixHelp+`
def test_reasons_of_a_judge():
    because = "neither is short enough; TOKEN-a1 costs 42 and b2.TOKEN is left of it; see 17:30"
    none = json.encode({"because": because, "winner": "none"})
    a = cast(a = [draft("go by TOKEN-a1 for 42 at 17:30")] * 2, b = [draft("b2.TOKEN now")] * 2, judge = [none, pick("A")])
    s = Society("x").compete([a["a"], a["b"]], Competition(resolve = JudgePicks(a["judge"], on_neither = "retry", criteria = ["short"])))
    got = outcome(s)
    assert.eq([got[0], sorted(got[4].split(" "))], ["done", ["a", "a", "b", "b", "judge", "judge"]])
    again = {p.system.split(" ")[2][0]: p.user for p in model.prompts() if "Reasons why" in p.user}
    assert.eq(sorted(again), ["a", "b"])
    for who, others in {"a": ["b2"], "b": ["a1", "42", "17:30"]}.items():
        assert.contains(again[who], "neither is short enough")
        for word in others:
            assert.true(word not in again[who], msg = again[who])
    assert.contains(again["a"], "TOKEN-a1 costs 42")
    assert.contains(again["b"], "b2.TOKEN is")

def test_labels():
    none = json.encode({"because": "B is too long", "winner": "none"})
    a = cast(a = [draft("ONE")] * 2, b = [draft("TWO")] * 2, judge = [none, none])
    outcome(Society("x").compete([a["a"], a["b"]], Competition(resolve = JudgePicks(a["judge"], on_neither = "retry"))))
    again = [p.user for p in model.prompts() if "Reasons why" in p.user]
    assert.eq(sorted(["B is" in p for p in again]), [False, True])
`)
}

// TestSocietyQuorum: who is missing is named, whatever became of it.
func TestSocietyQuorum(t *testing.T) {
	play(t, `
-- main_test.star --
`+matrixHelp+`
def test_quorum():
    a = cast(a = [draft("ONE")], b = [SLOW], c = [CRASH])
    e = Society("x").compete([a["a"], a["b"], a["c"]], Competition(resolve = lambda subs: subs[0], quorum = 2, timeout = "5s", on_timeout = TERMINATE))
    got = outcome(e)
    assert.eq([got[0], got[2]], ["timeout", None])
    a = cast(a = [draft("ONE")], b = [SLOW], c = [draft("TWO")])
    e = Society("x").compete([a["a"], a["b"], a["c"]], Competition(resolve = lambda subs: subs[0], quorum = 2, timeout = "5s", on_timeout = TERMINATE))
    r = e.run("go")
    assert.eq([r.status, r.winner, r.degraded, [c.status for c in r.children]], ["done", "a", True, ["done", "timeout", "done"]])

def test_a_peer_gets_data():
    far = Agent("far", fn = lambda task, turn: {"verdict": "approve" if turn.draft == {"n": 4} else "reject", "comments": str(turn.draft)})
    far.serve("box/far")
    form = Artifact("n", schema = {"n": "(int, 0..9)"})
    w = Agent("w", fn = lambda task: {"n": 4})
    r = Society("x").connect(w, Agent("boss", topic = "box/far"), Oversight(artifacts = [form])).run("go")
    assert.eq([r.status, r.output, r.reason], ["done", {"n": 4}, "{\"n\": 4}"])
`)
}

// TestSocietyVotes: who says nothing that can be read does not win by that.
func TestSocietyVotes(t *testing.T) {
	play(t, `
-- main_test.star --
`+matrixHelp+`
def vote(tie = "escalate", **members):
    texts = {n: [draft(n.upper() * 3)] + votes for n, votes in members.items()}
    a = cast(**texts)
    r = Society("x").compete([a[n] for n in members], Competition(resolve = MajorityVote(tie = tie))).run("go")
    return [r.status, r.winner, r.reason, r.degraded]

def test_votes_of_members():
    why = "schema: not JSON: invalid character 'h' in literal true (expecting 'r')"
    check("two", vote(a = [holding("BBB")], b = [BAD, BAD]), ["deadlock", "", "tie: b has 1 of 2 votes, and its own is missing: invalid: " + why, False])
    check("two, the other way", vote(a = [BAD, BAD], b = [holding("AAA")])[:2], ["deadlock", ""])
    check("first", vote("first", a = [holding("BBB")], b = [BAD, BAD]), ["done", "a", "tie: 1 of 2 votes", True])
    check("function", vote(lambda tied: tied[1].agent if len(tied) == 2 else None, a = [holding("BBB")], b = [BAD, BAD])[:2], ["done", "b"])
    check("it would not have mattered", vote(a = [holding("BBB")], b = [BAD, BAD], c = [holding("BBB")]), ["done", "b", "2 of 3 votes", True])
    check("another's is missing", vote(a = [holding("BBB")], b = [holding("CCC")], c = [BAD, BAD])[:2], ["deadlock", ""])
    check("two of three", vote(a = [holding("BBB")], b = [BAD, BAD], c = [BAD, BAD])[:2], ["deadlock", ""])
    check("nobody is missing", vote(a = [holding("BBB")], b = [holding("AAA")], c = [holding("AAA")]), ["done", "a", "2 of 3 votes", False])
    check("a tie of two, the third is missing", vote(a = [holding("BBB")], b = [holding("AAA")], c = [BAD, BAD])[2:], ["tie: 2 submissions with 1 votes", False])
`)
}

// TestSocietyFields: what somebody filled in stays, and is shown to it.
func TestSocietyFields(t *testing.T) {
	play(t, `
-- main_test.star --
`+matrixHelp+`
S = {"type": "string"}
DOC = Artifact("doc", schema = {"type": "object", "properties": {"x": S, "y": S, "z": S}})

def fields(a, b, **kwargs):
    a = cast(a = [draft(x) for x in a], b = [draft(x) for x in b])
    return outcome(Society("x").cooperate([a["a"], a["b"]], Cooperation(artifacts = [DOC], merge = "fields", **kwargs)))

def test_what_is_left_out_stays():
    got = fields([{"x": "1", "z": "3"}, {"x": "2"}], [{"x": "2", "y": "Y"}, {"x": "2"}])
    check("kept", got, ["done", "", {"x": "2", "y": "Y", "z": "3"}, "", "a b a b"])
    a, b = model.prompts()[-2], model.prompts()[-1]
    assert.contains(a.user, "Your last draft: {\"x\":\"1\",\"z\":\"3\"}")
    assert.contains(a.user, "Draft of b: {\"x\":\"2\",\"y\":\"Y\"}")
    assert.contains(b.user, "Your last draft: {\"x\":\"2\",\"y\":\"Y\"}")

def test_who_leaves_out_a_claimed_field_gives_it_up():
    got = fields([{"x": "1", "z": "3"}, {}], [{"x": "2"}, {"x": "2"}])
    check("given up", got, ["done", "", {"x": "2", "z": "3"}, "", "a b a b"])
    got = fields([{"x": "1", "z": "3"}, {}, {}], [{"x": "2"}, {}, {"x": "4"}])
    check("nobody's is nobody's loss", got, ["done", "", {"x": "4", "z": "3"}, "", "a b a b a b"])
    assert.contains(model.prompts()[-1].user, "Nobody filled in x.")
`)
}

// TestSocietyPlainWords: a form that says two things says nothing.
func TestSocietyPlainWords(t *testing.T) {
	play(t, `
-- main_test.star --
`+matrixHelp+`
def test_a_key_twice():
    twice = "{\"comments\": \"no\", \"verdict\": \"reject\", \"verdict\": \"approve\"}"
    a = cast(worker = [draft("d")], boss = [twice, word("approve", "yes")])
    check("mended", outcome(Society("x").connect(a["worker"], a["boss"], Oversight())), ["done", "yes", "d", "", "worker boss boss"])
    assert.contains(model.prompts()[-1].text, "the key \"verdict\" is there twice")
    a = cast(worker = [draft("d")], boss = [twice, twice])
    got = outcome(Society("x").connect(a["worker"], a["boss"], Oversight(max_rounds = 1)))
    check("twice", got, ["deadlock", "deadlock: boss: invalid: schema: not JSON: the key \"verdict\" is there twice", "d", "", "worker boss boss"])

def test_agree_and_a_draft():
    both = json.encode({"agree": True, "draft": "2"})
    a = cast(a = [draft("1")], b = [both, json.encode({"agree": True})])
    check("mended", outcome(Society("x").cooperate([a["a"], a["b"]], Cooperation())), ["done", "", "1", "", "a b b"])
    assert.contains(model.prompts()[-1].text, "it agrees and gives another version")
    a = cast(a = [draft("1")], b = [both, both])
    r = Society("x").cooperate([a["a"], a["b"]], Cooperation(max_rounds = 1)).run("go")
    assert.eq([r.status, r.output, r.turns[1]["state"]], ["deadlock", "1", "invalid"])
    assert.contains(r.reason, "deadlock: b: invalid: it agrees and gives another version")
    for same in ["1", ""]:
        a = cast(a = [draft("1")], b = [json.encode({"agree": True, "draft": same})])
        check("the same, " + same, outcome(Society("x").cooperate([a["a"], a["b"]], Cooperation())), ["done", "", "1", "", "a b"])
    r = Society("x").cooperate([Agent("a", fn = lambda task: "1"), Agent("b", fn = lambda task: {"agree": True, "draft": "2"})], Cooperation(max_rounds = 1)).run("go")
    assert.eq([r.status, r.turns[1]["state"], r.turns[1]["asked"]], ["deadlock", "invalid", 1])

def test_by():
    def review(lead, worker = [draft("d")]):
        a = cast(worker = worker, boss = [word("revise", "no")], lead = lead)
        r = Society("x").connect(a["worker"], a["boss"], Oversight(max_rounds = 1, on_deadlock = a["lead"], timeout = "5s")).run("go")
        return [r.status, r.by, r.output, r.verdict]
    check("whose the draft is", review([word("approve")]), ["done", "worker", "d", "approve"])
    check("whose word it is", review([word("reject")]), ["rejected", "lead", "d", "reject"])
    check("it made it itself", review([draft("mine")], [SLOW]), ["done", "lead", "mine", ""])
    a = cast(worker = [draft("d")], boss = [word("reject", "never")])
    r = Society("x").connect(a["worker"], a["boss"], Oversight()).run("go")
    assert.eq([r.status, r.by, r.reason], ["rejected", "boss", "never"])
    a = cast(a = [draft("ONE")], b = [draft("TWO")], lead = [holding("TWO")])
    r = Society("x").compete([a["a"], a["b"]], Competition(resolve = Escalate(a["lead"]))).run("go")
    assert.eq([r.status, r.by, r.winner, r.reason], ["done", "b", "b", "asked: decided by lead"])

def test_degraded():
    def race(resolve, **more):
        a = cast(a = [draft("ONE")] * 2, b = [draft("TWO")] * 2, **more)
        return Society("x").compete([a["a"], a["b"]], Competition(resolve = resolve(a))).run("go").degraded
    assert.eq(race(lambda a: Escalate(a["lead"]), lead = [holding("TWO")]), False) # it was meant to decide
    assert.eq(race(lambda a: JudgePicks(a["j"]), j = [holding("TWO")]), False)
    assert.eq(race(lambda a: JudgePicks(a["j"], on_neither = "retry"), j = [pick("none"), holding("TWO")]), True)
    assert.eq(race(lambda a: MajorityVote([a["v"], a["w"]]), v = [holding("TWO")], w = [BAD, BAD]), True)
`)
}
