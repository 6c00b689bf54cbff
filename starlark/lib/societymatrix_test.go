package lib_test

import "testing"

// matrixHelp makes rows of a matrix: every agent has a model of its own, so
// that who was asked, how often and in which order is what models were asked.
const matrixHelp = `
SLOW, CRASH, CUT, EMPTY, BAD = "<slow>", "<crash>", "<cut>", "<empty>", "that is fine by me"


def draft(x):
    return json.encode({"draft": x})

def word(verdict, comments = ""):
    return json.encode({"comments": comments, "verdict": verdict})

def pick(label):
    return json.encode({"because": "better", "winner": label})

def holding(text):
    "Picks the submission that holds a text."
    def answer(p):
        for line in p.user.split("\n"):
            if line.startswith("Submission ") and text in line:
                return pick(line[11:12])
        return pick("none")
    return answer

def cast(**answers):
    "Agents by name, each with what its model says, in order."
    n = bb.incr("box/n")
    out = {}
    for name, list in answers.items():
        m = "%s%d" % (name, n)
        for a in list:
            if type(a) == "function":
                model.answers(a, model = m)
            elif a == SLOW:
                model.says(draft("late"), model = m, delay = "1h")
            elif a == CRASH:
                model.fails("server", model = m)
            elif a == CUT:
                model.fails("cut_off", model = m)
            elif a == EMPTY:
                model.fails("empty", model = m)
            else:
                model.says(a, model = m)
        out[name] = Agent(name, model = m)
    return out

def outcome(interaction, task = "go"):
    "Status, reason, output, winner and who was asked."
    before = len(model.prompts())
    r = interaction.run(task)
    asked = [p.model[7:].rstrip("0123456789") for p in model.prompts()[before:]]
    return [r.status, r.reason, r.output, r.winner, " ".join(asked)]

def check(name, got, want):
    assert.eq([name] + got, [name] + want)
`

func TestSocietyTimeouts(t *testing.T) {
	play(t, `
-- main_test.star --
`+matrixHelp+`
LATE = "timeout: somebody did not answer in time: "

def oversight(name, policy, a, want, escalate = None):
    a = cast(**a)
    s = Society(name)
    e = s.connect(a["worker"], a["boss"], Oversight(timeout = "10s", on_timeout = policy, on_deadlock = a.get("lead")))
    check(name + " " + policy, outcome(e), want)

def test_worker():
    oversight("worker", ESCALATE, dict(worker = [SLOW], boss = []), ["timeout", LATE + "worker", None, "", "worker"])
    oversight("worker, lead", ESCALATE, dict(worker = [SLOW], boss = [], lead = [draft("mine")]),
        ["done", LATE + "worker: decided by lead", "mine", "", "worker lead"])
    oversight("worker, lead is slow", ESCALATE, dict(worker = [SLOW], boss = [], lead = [SLOW]),
        ["escalated", "no_answer: timeout: somebody did not answer in time: worker; lead: timeout: no answer in time", None, "", "worker lead"])
    oversight("worker, then not", RETRY_ONCE, dict(worker = [SLOW, draft("d")], boss = [word("approve")]),
        ["done", "", "d", "", "worker worker boss"])
    oversight("worker, twice", RETRY_ONCE, dict(worker = [SLOW, SLOW], boss = []),
        ["timeout", "somebody did not answer in time: worker", None, "", "worker worker"])
    oversight("worker, twice, lead", RETRY_ONCE, dict(worker = [SLOW, SLOW], boss = [], lead = [draft("mine")]),
        ["timeout", "somebody did not answer in time: worker", None, "", "worker worker"])
    oversight("worker", TERMINATE, dict(worker = [SLOW], boss = [], lead = []),
        ["timeout", "somebody did not answer in time: worker", None, "", "worker"])

def test_reviewer():
    oversight("boss", ESCALATE, dict(worker = [draft("d")], boss = [SLOW]), ["timeout", LATE + "boss", "d", "", "worker boss"])
    oversight("boss, lead", TimeoutPolicy.ESCALATE, dict(worker = [draft("d")], boss = [SLOW], lead = [word("approve")]),
        ["done", LATE + "boss: decided by lead", "d", "", "worker boss lead"])
    oversight("boss, lead rejects", ESCALATE, dict(worker = [draft("d")], boss = [SLOW], lead = [word("reject")]),
        ["rejected", LATE + "boss: decided by lead", "d", "", "worker boss lead"])
    oversight("boss, then not", RETRY_ONCE, dict(worker = [draft("d")], boss = [SLOW, word("approve")]),
        ["done", "", "d", "", "worker boss boss"])
    oversight("boss, twice", RETRY_ONCE, dict(worker = [draft("d")], boss = [SLOW, SLOW], lead = []),
        ["timeout", "somebody did not answer in time: boss", "d", "", "worker boss boss"])
    oversight("boss", TERMINATE, dict(worker = [draft("d")], boss = [SLOW]),
        ["timeout", "somebody did not answer in time: boss", "d", "", "worker boss"])
    # A retry is of one round: the next round has its own.
    oversight("each round once", RETRY_ONCE, dict(worker = [SLOW, draft("1"), SLOW, draft("2")], boss = [word("revise", "no"), word("approve")]),
        ["done", "", "2", "", "worker worker boss worker worker boss"])

def test_delegator():
    for policy, a, want in [
        (ESCALATE, dict(pm = [SLOW], dev = [draft("d")]), ["timeout", LATE + "pm", "d", "", "dev pm"]),
        (ESCALATE, dict(pm = [SLOW], dev = [draft("d")], lead = [word("accept")]), ["done", LATE + "pm: decided by lead", "d", "", "dev pm lead"]),
        (RETRY_ONCE, dict(pm = [SLOW, word("accept")], dev = [draft("d")]), ["done", "", "d", "", "dev pm pm"]),
        (TERMINATE, dict(pm = [SLOW], dev = [draft("d")], lead = []), ["timeout", "somebody did not answer in time: pm", "d", "", "dev pm"]),
    ]:
        a = cast(**a)
        e = Society("x").connect(a["pm"], a["dev"], Delegation(timeout = "10s", on_timeout = policy, escalation_policy = a.get("lead")))
        check(policy, outcome(e), want)

def compete(name, policy, a, want, members = ["a", "b"], quorum = None, **judge):
    a = cast(**a)
    s = Society("x", escalate_to = a.get("lead"))
    e = s.compete([a[m] for m in members], Competition(resolve = JudgePicks(a["judge"], **judge), timeout = "10s", on_timeout = policy, quorum = quorum))
    got = outcome(e)
    got[4] = " ".join(sorted(got[4].split(" ")))
    check(name + " " + policy, got, want)

def test_competitor():
    both = dict(a = [draft("ONE")], b = [SLOW, SLOW], judge = [holding("ONE")])
    compete("no quorum", TERMINATE, both, ["timeout", "somebody did not answer in time: b", None, "", "a b"])
    compete("quorum", TERMINATE, both, ["done", "better", "ONE", "a", "a b judge"], quorum = 1)
    compete("quorum", ESCALATE, both, ["done", "better", "ONE", "a", "a b judge"], quorum = 1)
    compete("nobody above", ESCALATE, both, ["timeout", LATE + "b", None, "", "a b"])
    compete("lead", ESCALATE, dict(a = [draft("ONE")], b = [SLOW], judge = [], lead = [holding("ONE")]), ["done", LATE + "b: decided by lead", "ONE", "a", "a b lead"])
    compete("retry, then there", RETRY_ONCE, dict(a = [draft("ONE")], b = [SLOW, draft("TWO")], judge = [holding("TWO")]),
        ["done", "better", "TWO", "b", "a b b judge"])
    compete("retry, gone", RETRY_ONCE, both, ["timeout", "somebody did not answer in time: b", None, "", "a b b"])
    compete("all are late", TERMINATE, dict(a = [SLOW], b = [SLOW], judge = []), ["timeout", "somebody did not answer in time: a, b", None, "", "a b"], quorum = 1)

def test_judge():
    late = dict(a = [draft("ONE")], b = [draft("TWO")], judge = [SLOW, SLOW])
    compete("judge", TERMINATE, late, ["timeout", "somebody did not answer in time: judge", None, "", "a b judge"])
    compete("judge", ESCALATE, late, ["timeout", LATE + "judge", None, "", "a b judge"])
    compete("judge, twice", RETRY_ONCE, late, ["timeout", "somebody did not answer in time: judge", None, "", "a b judge judge"])
    compete("judge, lead", ESCALATE, dict(a = [draft("ONE")], b = [draft("TWO")], judge = [SLOW], lead = [holding("TWO")]),
        ["done", LATE + "judge: decided by lead", "TWO", "b", "a b judge lead"])

def test_cooperation():
    for policy, a, want in [
        (ESCALATE, dict(a = [draft("1")], b = [SLOW]), ["timeout", LATE + "b", "1", "", "a b"]),
        (ESCALATE, dict(a = [draft("1")], b = [SLOW], lead = [word("approve")]), ["done", LATE + "b: decided by lead", "1", "", "a b lead"]),
        (RETRY_ONCE, dict(a = [draft("1")], b = [SLOW, json.encode({"agree": True})]), ["done", "", "1", "", "a b b"]),
        (TERMINATE, dict(a = [draft("1")], b = [SLOW]), ["timeout", "somebody did not answer in time: b", "1", "", "a b"]),
    ]:
        a = cast(**a)
        s = Society("x", escalate_to = a.get("lead"))
        check(policy, outcome(s.cooperate([a["a"], a["b"]], Cooperation(timeout = "10s", on_timeout = policy))), want)

def test_deadline():
    a = cast(worker = [draft("1"), draft("2")], boss = [word("revise", "no"), SLOW])
    r = Society("x").connect(a["worker"], a["boss"], Oversight(deadline = "30s")).run("go")
    assert.eq([r.status, r.reason], ["timeout", "deadline"])
`)
}

func TestSocietyAnswers(t *testing.T) {
	play(t, `
-- main_test.star --
`+matrixHelp+`
BADS = [(BAD, "schema: not JSON"), (CUT, "cut off"), (EMPTY, "empty")]

def test_worker():
    for bad, why in BADS:
        a = cast(worker = [bad, bad], boss = [])
        got = outcome(Society("x").connect(a["worker"], a["boss"], Oversight()))
        assert.contains(got[1], "worker: invalid: ")
        check(bad, [got[0], got[4]], ["failed", "worker worker"])
        a = cast(worker = [bad, draft("d")], boss = [word("approve", "good")])
        check("mended " + bad, outcome(Society("x").connect(a["worker"], a["boss"], Oversight())), ["done", "good", "d", "", "worker worker boss"])
    a = cast(worker = [CRASH], boss = [])
    got = outcome(Society("x").connect(a["worker"], a["boss"], Oversight()))
    check("crash", [got[0], got[4]], ["failed", "worker"])

def test_reviewer_is_not_an_approval():
    for bad, why in BADS:
        a = cast(worker = [draft("1"), draft("2")], boss = [bad, bad, bad, bad])
        got = outcome(Society("x").connect(a["worker"], a["boss"], Oversight(max_rounds = 2)))
        check(bad, [got[0]] + got[2:], ["deadlock", "2", "", "worker boss boss worker boss boss"])
        assert.contains(got[1], "deadlock: boss: invalid: ") # it is no quarrel: nobody could read what the reviewer said
        assert.contains(got[1], why)
    a = cast(worker = [draft("d")], boss = [CRASH])
    got = outcome(Society("x").connect(a["worker"], a["boss"], Oversight()))
    check("crash", [got[0], got[2], got[4]], ["failed", "d", "worker boss"])
    a = cast(worker = [draft("d")], boss = ["approve", "I approve of it"])
    got = outcome(Society("x").connect(a["worker"], a["boss"], Oversight(max_rounds = 1)))
    check("prose", [got[0]] + got[2:], ["deadlock", "d", "", "worker boss boss"])

def test_delegator():
    for bad, why in BADS:
        a = cast(pm = [bad, bad], dev = [draft("d")])
        got = outcome(Society("x").connect(a["pm"], a["dev"], Delegation(max_rounds = 1)))
        check(bad, [got[0]] + got[2:], ["deadlock", "d", "", "dev pm pm"])
        assert.contains(got[1], "deadlock: pm: invalid: ")
        assert.contains(got[1], why)
    a = cast(pm = [CRASH], dev = [draft("d")])
    got = outcome(Society("x").connect(a["pm"], a["dev"], Delegation()))
    check("crash", [got[0], got[4]], ["failed", "dev pm"])
    a = cast(pm = [], dev = [CRASH])
    got = outcome(Society("x").connect(a["pm"], a["dev"], Delegation()))
    check("worker", [got[0], got[4]], ["failed", "dev"])
    a = cast(pm = [], dev = [draft("d")])
    check("no review", outcome(Society("x").connect(a["pm"], a["dev"], Delegation(review = False))), ["done", "", "d", "", "dev"])

def race(a, **judge):
    a = cast(**a)
    s = Society("x", escalate_to = a.get("lead"))
    e = s.compete([a["a"], a["b"]], Competition(resolve = JudgePicks(a["judge"], **judge)))
    got = outcome(e)
    got[4] = " ".join(sorted(got[4].split(" ")))
    return got

def test_judge():
    two = dict(a = [draft("ONE"), draft("ONE")], b = [draft("TWO"), draft("TWO")])
    for bad, _ in BADS:
        got = race(dict(judge = [bad, bad], **two))
        check("escalate " + bad, [got[0], got[3], got[4]], ["failed", "", "a b judge judge"])
        got = race(dict(judge = [bad, bad], lead = [holding("TWO")], **two))
        check("lead " + bad, [got[0], got[3], got[4]], ["done", "b", "a b judge judge lead"])
        got = race(dict(judge = [bad, bad], **two), on_neither = "best_effort")
        check("best effort " + bad, [got[0], got[3], got[4]], ["done", "a", "a b judge judge"])
        got = race(dict(judge = [bad, bad, bad, bad], **two), on_neither = "retry")
        check("retry " + bad, [got[0], got[3], got[4]], ["done", "a", "a a b b judge judge judge judge"])
    got = race(dict(judge = [CRASH], **two))
    check("crash", [got[0], got[3], got[4]], ["failed", "", "a b judge"])
    got = race(dict(judge = [pick("none")], **two))
    check("none", got, ["failed", "no_winner: better", None, "", "a b judge"])
    form = {"type": "object", "required": ["rationale", "winner"], "properties": {"rationale": {"type": "string"}, "winner": {"type": "string"}}}
    got = race(dict(judge = [json.encode({"rationale": "short", "winner": "A"})], **two), output_schema = form)
    check("a form of one's own", got[:2], ["done", "short"])
    assert.eq(model.prompts()[-1].schema["properties"]["winner"]["enum"], ["A", "B", "none"])
    got = race(dict(judge = [holding("ONE")], **two), swap = True)
    check("swap", got, ["done", "better", "ONE", "a", "a b judge judge"])
    got = race(dict(judge = [pick("A"), pick("A")], **two), swap = True)
    check("swap: likes what is called A", [got[0], got[3], got[4]], ["deadlock", "", "a b judge judge"])
    reads = [[line for line in p.user.split("\n") if line.startswith("Submission ")] for p in model.prompts()[-2:]]
    assert.eq([[line[:13] for line in read] for read in reads], [["Submission A:", "Submission B:"]] * 2)
    assert.eq([reads[0][0][13:], reads[0][1][13:]], [reads[1][1][13:], reads[1][0][13:]])

def test_competitor():
    for bad, _ in BADS:
        got = race(dict(a = [bad, bad], b = [draft("TWO")], judge = [holding("TWO")]))
        check(bad, got, ["done", "better", "TWO", "b", "a a b judge"])
        got = race(dict(a = [bad, bad], b = [bad, bad], judge = []))
        check("all " + bad, [got[0], got[2], got[4]], ["failed", None, "a a b b"])
    got = race(dict(a = [CRASH], b = [draft("TWO")], judge = [holding("TWO")]))
    check("crash", got, ["done", "better", "TWO", "b", "a b judge"])
    got = race(dict(a = [CRASH], b = [CRASH], judge = []))
    assert.contains(got[1], "no submission: a: failed")
    check("all crash", [got[0], got[2], got[4]], ["failed", None, "a b"])

def test_voters():
    def vote(votes, tie = "escalate", lead = None):
        names = ["v%s" % x for x in "abc"[:len(votes)].elems()]
        roles = {n: list for n, list in zip(names, votes)}
        if lead:
            roles["lead"] = lead
        a = cast(a = [draft("ONE")], b = [draft("TWO")], **roles)
        s = Society("x", escalate_to = a.get("lead"))
        got = outcome(s.compete([a["a"], a["b"]], Competition(resolve = MajorityVote([a[n] for n in names], tie = tie))))
        return got[:2] + [got[3], len(got[4].split(" "))]
    one, two = holding("ONE"), holding("TWO")
    check("majority", vote([[two], [two], [one]]), ["done", "2 of 3 votes", "b", 5])
    for bad, _ in BADS:
        check("abstains", vote([[two], [bad, bad], [bad, bad]]), ["done", "1 of 3 votes", "b", 7])
        check("nobody", vote([[bad, bad], [bad, bad]]), ["deadlock", "tie: 2 submissions with 0 votes", "", 6])
    check("crash", vote([[two], [CRASH]]), ["done", "1 of 2 votes", "b", 4])
    check("tie", vote([[two], [one]]), ["deadlock", "tie: 2 submissions with 1 votes", "", 4])
    check("tie, lead", vote([[two], [one]], lead = [two]), ["done", "tie: 2 submissions with 1 votes: decided by lead", "b", 5])
    check("tie, first", vote([[two], [one]], "first"), ["done", "tie: 1 of 2 votes", "a", 4])
    check("tie, function", vote([[two], [one]], lambda tied: tied[1].agent), ["done", "tie: 1 of 2 votes", "b", 4])
    check("tie, function of nobody", vote([[two], [one]], lambda tied, state: None), ["deadlock", "tie: 2 submissions with 1 votes", "", 4])

def test_escalation_target():
    for bad, _ in BADS + [(CRASH, "")]:
        a = cast(worker = [draft("d")], boss = [word("revise", "no")], lead = [bad, bad])
        got = outcome(Society("x").connect(a["worker"], a["boss"], Oversight(max_rounds = 1, on_deadlock = Escalate(a["lead"]))))
        check(bad, [got[0], got[2]], ["escalated", "d"])
        assert.contains(got[1], "no_answer: deadlock; lead: %s: " % ("failed" if bad == CRASH else "invalid"))
        assert.eq(len(got[4].split(" ")), 3 if bad == CRASH else 4)

def test_cooperation():
    agree = json.encode({"agree": True})
    for bad, _ in BADS:
        a = cast(a = [draft("1"), agree], b = [bad, bad, agree])
        check(bad, outcome(Society("x").cooperate([a["a"], a["b"]], Cooperation())), ["done", "", "1", "", "a b b a b"])
    a = cast(a = [draft("1")], b = [CRASH])
    got = outcome(Society("x").cooperate([a["a"], a["b"]], Cooperation()))
    check("crash", [got[0], got[2], got[4]], ["failed", "1", "a b"])
    for bad, _ in BADS + [(CRASH, "")]:
        a = cast(a = [draft("1")], b = [draft("2")], m = [bad, bad])
        got = outcome(Society("x").cooperate([a["a"], a["b"]], Cooperation(merge = a["m"])))
        check("merge " + bad, [got[0], got[2]], ["failed", "2"])

DOC = Artifact("doc", schema = {"type": "object", "required": ["x", "y"], "properties": {"x": {"type": "string"}, "y": {"type": "string"}}})

def fields(a, b, lead = None, **kwargs):
    "Two fill in one form; each its own fields, in order."
    roles = dict(a = [draft(x) for x in a], b = [draft(x) for x in b])
    if lead:
        roles["lead"] = lead
    a = cast(**roles)
    return outcome(Society("x", escalate_to = a.get("lead")).cooperate([a["a"], a["b"]], Cooperation(artifacts = [DOC], merge = "fields", **kwargs)))

def test_fields():
    one, two, both = {"x": "1"}, {"y": "2"}, {"x": "1", "y": "2"}
    check("at once", fields([one], [two]), ["done", "", both, "", "a b"])
    check("both the same", fields([both], [two]), ["done", "", both, "", "a b"])
    # A field that is needed is asked for again, and what lacks one is not done.
    check("nobody filled in x", fields([{}, one], [two, two]), ["done", "", both, "", "a b a"])
    assert.contains(model.prompts()[-1].user, "Nobody filled in x.")
    check("never", fields([{}, {}], [two, two], max_rounds = 2), ["deadlock", "deadlock", two, "", "a b a b"])
    # What somebody above decides about is all parts together.
    check("lead", fields([both], [{"y": "3"}], max_rounds = 1, lead = [word("approve")]),
        ["done", "deadlock: decided by lead", {"x": "1", "y": "3"}, "", "a b lead"])
    assert.contains(model.prompts()[-1].user, "Last draft: {\"x\":\"1\",\"y\":\"3\"}")
    check("until", fields([both], [{"y": "3"}], until = lambda work: True), ["done", "until", {"x": "1", "y": "3"}, "", "a b"])
    # Of those who make lists, too.
    a = cast(a = [draft("1")], b = [SLOW])
    check("append", outcome(Society("x").cooperate([a["a"], a["b"]], Cooperation(merge = "append", timeout = "10s", on_timeout = TERMINATE))),
        ["timeout", "somebody did not answer in time: b", ["1"], "", "a b"])
    a = cast(a = [draft("1")], b = [draft("2")])
    check("nothing", outcome(Society("x").cooperate([a["a"], a["b"]], Cooperation(merge = lambda drafts: None)))[:2], ["failed", "merge: it returned nothing"])

def test_deadlock():
    def review(up = None, society = None, lead = []):
        a = cast(worker = [draft("1"), draft("2")], boss = [word("revise", "x"), word("revise", "y")], lead = lead)
        s = Society("x", escalate_to = a["lead"] if society else None)
        return outcome(s.connect(a["worker"], a["boss"], Oversight(max_rounds = 2, on_deadlock = a["lead"] if up else None)))
    asked = "worker boss worker boss"
    check("nobody", review(), ["deadlock", "deadlock", "2", "", asked])
    check("named", review(up = True, lead = [word("approve")]), ["done", "deadlock: decided by lead", "2", "", asked + " lead"])
    check("society's", review(society = True, lead = [word("reject")]), ["rejected", "deadlock: decided by lead", "2", "", asked + " lead"])
    check("revise is no answer", review(up = True, lead = [word("revise"), word("revise")]), ["escalated", "no_answer: deadlock; lead: invalid: verdict must be one of approve, reject", "2", "", asked + " lead lead"])
    # The nearest delegator above is next in the chain.
    a = cast(pm = [word("approve")], worker = [draft("1")], boss = [word("revise")], lead = [])
    s = Society("x", escalate_to = a["lead"])
    s.connect(a["pm"], a["worker"], Delegation())
    check("delegator", outcome(s.connect(a["worker"], a["boss"], Oversight(max_rounds = 1))), ["done", "deadlock: decided by pm", "1", "", "worker boss pm"])

def test_quorum():
    def go(n, *costs):
        members = [Agent("m%d" % i, fn = lambda task, i = i: costs[i]) for i in range(len(costs))]
        r = Society("x").compete(members, Competition(protocol = Market(bid = {"cost": "(int, 0..1000)"}), resolve = BestScore("cost", highest = False, reserve = 100), quorum = n)).run("go")
        return [r.status, r.reason, r.winner, r.ranking]
    check("two of three", go(2, {"cost": 3}, None, {"cost": 2}), ["done", "cost is 2", "m2", ["m2", "m0"]])
    check("one of two", go(2, {"cost": 3}, None)[:3], ["failed", "quorum: 1 of 2: m1: refused: refused", ""])
    check("reserve", go(1, {"cost": 300}, {"cost": 200}), ["failed", "reserve: none of 2 reaches 100", "", []])
    check("reserve of some", go(1, {"cost": 300}, {"cost": 20}), ["done", "cost is 20", "m1", ["m1"]])
    check("nobody", go(1, None, None), ["failed", "no_taker", "", []])

def test_revoked():
    a = cast(worker = [draft("1")], boss = [word("revise")], lead = [])
    s = Society("x")
    e = s.connect(a["worker"], a["boss"], Oversight(max_rounds = 1, on_deadlock = a["lead"]))
    s.revoke(a["lead"])
    check("target", outcome(e), ["deadlock", "deadlock", "1", "", "worker boss"])
    s.revoke("worker")
    check("worker", outcome(e), ["failed", "worker: revoked: revoked", None, "", ""])
    a = cast(worker = [draft("1"), draft("1")], boss = [word("approve")])
    s = Society("x")
    e = s.connect(a["worker"], a["boss"], Oversight())
    s.revoke(a["boss"])
    check("reviewer", outcome(e), ["failed", "boss: revoked: revoked", "1", "", "worker"])
    s.restore(a["boss"])
    check("restored", outcome(e), ["done", "", "1", "", "worker boss"])
    got = race(dict(a = [draft("ONE")], b = [draft("TWO")], judge = [holding("ONE")]))
    check("none", got, ["done", "better", "ONE", "a", "a b judge"])
`)
}
