package lib_test

import "testing"

// TestSocietyRoles is the rest of the matrix: roles that the other tables leave
// out, each late, without a usable answer, gone or revoked.
func TestSocietyRoles(t *testing.T) {
	play(t, `
-- main_test.star --
`+matrixHelp+`
BADS = [BAD, CUT, EMPTY]
MISSING = "somebody did not answer in time: "
LATE = "timeout: " + MISSING

def sort(got, n):
    "Of those who were asked all after the first n may have been asked at once."
    asked = got[4].split(" ") if got[4] else []
    got[4] = " ".join(asked[:n] + sorted(asked[n:]))
    return got

def about(got, want):
    "Where no reason is wanted there may be any."
    return got[:1] + [None] + got[2:] if want[1] == None else got

def delegated(name, a, want, revoked = None, **kwargs):
    a = cast(**a)
    s = Society("x")
    e = s.connect(a["pm"], a["dev"], Delegation(escalation_policy = a.get("lead"), timeout = "10s", **kwargs))
    if revoked:
        s.revoke(revoked)
    check(name, about(outcome(e), want), want)

def test_a_worker_who_is_delegated_to():
    delegated("escalate", dict(pm = [], dev = [SLOW]), ["timeout", LATE + "dev", None, "", "dev"])
    delegated("lead", dict(pm = [], dev = [SLOW], lead = [draft("mine")]), ["done", LATE + "dev: decided by lead", "mine", "", "dev lead"])
    delegated("mute lead", dict(pm = [], dev = [SLOW], lead = [BAD, BAD]), ["escalated", None, None, "", "dev lead lead"])
    delegated("retry", dict(pm = [word("accept")], dev = [SLOW, draft("d")]), ["done", "", "d", "", "dev dev pm"], on_timeout = RETRY_ONCE)
    delegated("twice", dict(pm = [], dev = [SLOW, SLOW], lead = []), ["timeout", MISSING + "dev", None, "", "dev dev"], on_timeout = RETRY_ONCE)
    delegated("terminate", dict(pm = [], dev = [SLOW], lead = []), ["timeout", MISSING + "dev", None, "", "dev"], on_timeout = TERMINATE)
    delegated("pm, twice", dict(pm = [SLOW, SLOW], dev = [draft("d")], lead = []), ["timeout", MISSING + "pm", "d", "", "dev pm pm"], on_timeout = RETRY_ONCE)
    for bad in BADS:
        delegated(bad, dict(pm = [], dev = [bad, bad], lead = []), ["failed", None, None, "", "dev dev"])
        delegated("mended " + bad, dict(pm = [bad, word("accept")], dev = [bad, draft("d")]), ["done", "", "d", "", "dev dev pm pm"])
    delegated("revoked", dict(pm = [], dev = []), ["failed", "dev: revoked: revoked", None, "", ""], revoked = "dev")
    delegated("pm is revoked", dict(pm = [], dev = [draft("d")]), ["failed", "pm: revoked: revoked", "d", "", "dev"], revoked = "pm")

def compete(name, a, want, resolve, revoked = None, policy = TERMINATE, **kwargs):
    a = cast(**a)
    s = Society("x", escalate_to = a.get("lead"))
    e = s.compete([a["a"], a["b"]], Competition(resolve = resolve(a), timeout = "10s", on_timeout = policy, **kwargs))
    if revoked:
        s.revoke(revoked)
    got = sort(outcome(e), 0)
    check(name + " " + policy, about(got, want), want)

def two(**more):
    return dict(a = [draft("ONE")], b = [draft("TWO")], **more)

vote = lambda a: MajorityVote([a["v"], a["w"]])
judge = lambda a: JudgePicks(a["j"])
swap = lambda a: JudgePicks(a["j"], swap = True)

def test_a_voter_who_is_late():
    one = holding("ONE")
    compete("voter", two(v = [one], w = [SLOW]), ["timeout", MISSING + "w", None, "", "a b v w"], vote)
    compete("voter", two(v = [one], w = [SLOW]), ["timeout", LATE + "w", None, "", "a b v w"], vote, policy = ESCALATE)
    compete("voter, lead", two(v = [one], w = [SLOW], lead = [holding("TWO")]), ["done", LATE + "w: decided by lead", "TWO", "b", "a b lead v w"], vote, policy = ESCALATE)
    compete("voter, then not", two(v = [one], w = [SLOW, one]), ["done", "2 of 2 votes", "ONE", "a", "a b v w w"], vote, policy = RETRY_ONCE)
    compete("voter, twice", two(v = [one], w = [SLOW, SLOW]), ["timeout", MISSING + "w", None, "", "a b v w w"], vote, policy = RETRY_ONCE)

def test_who_decides_and_is_revoked():
    compete("voter", two(v = [holding("TWO")], w = []), ["done", "1 of 2 votes", "TWO", "b", "a b v"], vote, revoked = "w")
    compete("judge", two(j = []), ["failed", "no_winner: revoked: revoked", None, "", "a b"], judge, revoked = "j")
    compete("judge, lead", two(j = [], lead = [holding("TWO")]), ["done", "no_winner: revoked: revoked: decided by lead", "TWO", "b", "a b lead"], judge, revoked = "j")
    compete("competitor", dict(a = [draft("ONE")], b = [], j = [holding("ONE")]), ["done", "better", "ONE", "a", "a j"], judge, revoked = "b")

def test_a_judge_who_reads_twice():
    for bad in BADS:
        compete("second " + bad, two(j = [pick("A"), bad, bad]), ["failed", None, None, "", "a b j j j"], swap)
    compete("second is late", two(j = [pick("A"), SLOW]), ["timeout", MISSING + "j", None, "", "a b j j"], swap)
    compete("second crashes", two(j = [pick("A"), CRASH]), ["failed", None, None, "", "a b j j"], swap)

def test_a_target_that_is_mute():
    for bad in BADS:
        compete("judge", two(j = [pick("none")], lead = [bad, bad]), ["escalated", None, None, "", "a b j lead lead"], judge)
    compete("judge", two(j = [pick("none")], lead = [CRASH]), ["escalated", None, None, "", "a b j lead"], judge)
    compete("judge", two(j = [pick("none")], lead = [SLOW]), ["escalated", None, None, "", "a b j lead"], judge)
    compete("tie", two(v = [holding("ONE")], w = [holding("TWO")], lead = [SLOW]),
        ["escalated", "no_answer: tie: 2 submissions with 1 votes; lead: timeout: no answer in time", None, "", "a b lead v w"], vote)
    a = cast(a = [draft("1")], b = [json.encode({"agree": False, "draft": "2"})], lead = [CRASH])
    got = outcome(Society("x", escalate_to = a["lead"]).cooperate([a["a"], a["b"]], Cooperation(max_rounds = 1)))
    check("cooperation", about(got, [None, None]), ["escalated", None, "2", "", "a b lead"])

def test_quorum_when_the_time_is_over():
    late = dict(a = [draft("ONE")], b = [SLOW, SLOW], j = [holding("ONE")])
    for policy in [TERMINATE, RETRY_ONCE, ESCALATE]:  # who is there is enough: nobody is asked again
        compete("enough", late, ["done", "better", "ONE", "a", "a b j"], judge, policy = policy, quorum = 1)
    compete("too few", late, ["timeout", MISSING + "b", None, "", "a b"], judge, quorum = 2)
    compete("too few", late, ["timeout", MISSING + "b", None, "", "a b b"], judge, policy = RETRY_ONCE, quorum = 2)
    compete("too few", late, ["timeout", LATE + "b", None, "", "a b"], judge, policy = ESCALATE, quorum = 2)

def merge(name, a, want, policy = TERMINATE, revoked = None):
    a = cast(**a)
    s = Society("x", escalate_to = a.get("lead"))
    e = s.cooperate([a["a"], a["b"]], Cooperation(merge = a["m"], timeout = "10s", on_timeout = policy))
    if revoked:
        s.revoke(revoked)
    check(name + " " + policy, about(outcome(e), want), want)

def test_who_merges():
    both = draft("BOTH")
    merge("fine", two(m = [both]), ["done", "", "BOTH", "", "a b m"])
    merge("late", two(m = [SLOW]), ["timeout", MISSING + "m", "TWO", "", "a b m"])
    merge("late", two(m = [SLOW]), ["timeout", LATE + "m", "TWO", "", "a b m"], policy = ESCALATE)
    merge("late, then not", two(m = [SLOW, both]), ["done", "", "BOTH", "", "a b m m"], policy = RETRY_ONCE)
    merge("late, twice", two(m = [SLOW, SLOW]), ["timeout", MISSING + "m", "TWO", "", "a b m m"], policy = RETRY_ONCE)
    merge("revoked", two(m = []), ["failed", "m: revoked: revoked", "TWO", "", "a b"], revoked = "m")
    merge("member is revoked", dict(a = [draft("ONE")], b = [], m = []), ["failed", "b: revoked: revoked", "ONE", "", "a"], revoked = "b")

def test_bidders():
    def bid(a, revoked = None, **kwargs):
        a = cast(**a)
        s = Society("x")
        e = s.compete([a["a"], a["b"]], Competition(protocol = Market(bid = {"cost": "(int, 0..100)"}), resolve = BestScore("cost", highest = False), timeout = "10s", **kwargs))
        if revoked:
            s.revoke(revoked)
        got = sort(outcome(e), 0)
        return got[:1] + got[3:]
    cost = lambda n: json.encode({"cost": n})
    for bad in BADS + [cost(101), json.encode({"cost": "little"})]:
        check(bad, bid(dict(a = [cost(7)], b = [bad, bad])), ["done", "a", "a b b"])
        check("mended " + bad, bid(dict(a = [cost(7)], b = [bad, cost(3)])), ["done", "b", "a b b"])
    check("crash", bid(dict(a = [cost(7)], b = [CRASH])), ["done", "a", "a b"])
    check("revoked", bid(dict(a = [cost(7)], b = []), revoked = "b"), ["done", "a", "a"])
    for policy, want in [(TERMINATE, "a b"), (RETRY_ONCE, "a b b"), (ESCALATE, "a b")]:
        check("late " + policy, bid(dict(a = [cost(7)], b = [SLOW, SLOW]), on_timeout = policy), ["timeout", "", want])
    check("late, then not", bid(dict(a = [cost(7)], b = [SLOW, cost(3)]), on_timeout = RETRY_ONCE), ["done", "b", "a b b"])

def test_a_moderator():
    def talk(m, **kwargs):
        a = cast(a = [draft("1")], b = [draft("2")], m = m)
        return sort(outcome(Society("x").cooperate([a["m"], a["a"], a["b"]], Cooperation(protocol = Broadcast(moderator = a["m"]), merge = "append", timeout = "10s", **kwargs))), 0)
    check("fine", talk([draft("3")]), ["done", "", ["3", "1", "2"], "", "a b m"])
    check("late", talk([SLOW], on_timeout = TERMINATE), ["timeout", MISSING + "m", ["1", "2"], "", "a b m"])
    check("retry", talk([SLOW, draft("3")], on_timeout = RETRY_ONCE), ["done", "", ["3", "1", "2"], "", "a b m m"])
    for bad in BADS:
        check(bad, talk([bad, bad])[:1], ["failed"])
    check("crash", talk([CRASH])[:1], ["failed"])
`)
}

// TestPeersVanish: a robot that is gone in the middle of a round is somebody who
// is late, whatever its part is, and is told that nobody waits for it any more.
func TestPeersVanish(t *testing.T) {
	play(t, `
-- main.star --
def count(what):
    def turn(task, turn):
        bb.incr("box/" + what)
        return "d" if turn.kind == "work" else {"verdict": "approve", "comments": ""} if turn.kind == "review" else True
    return turn

ghost, here, lead = Agent("ghost", topic = "fleet/ghost"), Agent("here", fn = count("here")), Agent("lead", fn = lambda task, turn: "mine" if not turn.draft else "approve")
edges = {}
for policy in [TERMINATE, RETRY_ONCE, ESCALATE]:
    for led in [False, True]:
        s = Society("s%s%s" % (policy, led), escalate_to = lead if led else None)
        more = dict(timeout = "10s", on_timeout = policy)
        edges["works", policy, led] = s.connect(ghost, here, Oversight(**more))
        edges["reviews", policy, led] = s.connect(here, ghost, Oversight(**more))
        edges["agrees", policy, led] = s.cooperate([here, ghost], Cooperation(**more))

Agent("mule", fn = {"agree": lambda task: True, "submit": lambda task: sleep("1h")}).serve("fleet/mule")
mule = Agent("mule", topic = "fleet/mule")
me = Agent("me", fn = {"work": lambda task: {"door": "open"}, "submit": lambda task: "mine"})
door = {policy: Society("door" + policy).negotiate([me, mule], Coopetition(cooperate_on = ["door"], compete_on = ["claim"],
    resolve = lambda subs: subs[0].agent, timeout = "10s", on_timeout = policy)) for policy in [TERMINATE, RETRY_ONCE, ESCALATE]}
-- main_test.star --
load("main.star", "door", "edges")

LATE = "somebody did not answer in time: ghost"

def test_between_the_halves():
    for policy, before, heard in [(TERMINATE, "", ["request", "cfp", "cancel"]), (RETRY_ONCE, "", ["request", "cfp", "cancel", "cfp", "cancel"]), (ESCALATE, "timeout: ", ["request", "cfp", "cancel"])]:
        r = door[policy].run("who goes first")
        assert.eq([r.status, r.reason, r.output, r.winner], ["timeout", before + "somebody did not answer in time: mule", {"shared": {"door": "open"}, "won": None}, ""])
        assert.eq([expect_event("fleet/mule")["kind"] for _ in heard], heard)

def row(part, policy, led):
    "Status, reason, output, how often the other one was asked, what the ghost heard, and how long it took."
    bb.set("box/here", 0)
    begun = clock.now()
    r = edges[part, policy, led].run("go")
    took = (clock.now() - begun).seconds
    kinds = [expect_event("fleet/ghost")["kind"] for _ in range(4 if policy == RETRY_ONCE else 2)]
    expect_no_event("fleet/ghost")
    return [r.status, r.reason, r.output, bb.get("box/here"), " ".join(kinds), int(took)]

def test_vanished():
    for part, draft, asked in [("works", None, 0), ("reviews", "d", 1), ("agrees", "d", 1)]:
        for led in [False, True]:
            assert.eq([part] + row(part, TERMINATE, led), [part, "timeout", LATE, draft, asked, "request cancel", 10])
            assert.eq([part] + row(part, RETRY_ONCE, led), [part, "timeout", LATE, draft, asked, "request cancel request cancel", 20])
        assert.eq([part] + row(part, ESCALATE, False), [part, "timeout", "timeout: " + LATE, draft, asked, "request cancel", 10])
        assert.eq([part] + row(part, ESCALATE, True), [part, "done", "timeout: " + LATE + ": decided by lead", draft or "mine", asked, "request cancel", 10])
`)
}

// TestSilentPeers: a robot that never answers is waited for as long as whoever
// made it an agent says, and for a minute where nobody says anything: neither
// the agent, nor the edge, nor what is around it.
func TestSilentPeers(t *testing.T) {
	play(t, `
-- main.star --
ghost, brief = Agent("ghost", topic = "fleet/ghost"), Agent("brief", topic = "fleet/ghost", timeout = "5s")
here, boss = Agent("here", fn = lambda task, turn: "d" if turn.kind == "work" else True), Agent("boss", fn = lambda task: "accept")
lead = Agent("lead", fn = lambda task: "mine")

def job(name, to, top = None, **fields):
    return Society(name, escalate_to = top).connect(boss, to, Delegation(**fields))

jobs = {
    "nothing": job("a", ghost),
    "agent": job("b", brief),
    "both": job("c", brief, timeout = "10s"),
    "edge": job("d", ghost, timeout = "3s"),
    "long edge": job("e", ghost, timeout = "10m", on_timeout = TERMINATE),
    "deadline": job("f", ghost, deadline = "5m"),
    "around": Timeout(job("g", ghost), "2m"),
    "twice": job("h", ghost, on_timeout = RETRY_ONCE),
    "together": Society("i").cooperate([here, ghost], Cooperation()),
    "led": job("j", ghost, top = lead),
    "target": job("k", brief, top = ghost),
}
bids = Society("l").compete([ghost, Agent("mule", fn = lambda task: "mule")], Competition(resolve = lambda subs: subs[0].agent, quorum = 1))
on("go", lambda ev: bus.publish("went", jobs["nothing"].run("x").status))
-- main_test.star --
load("main.star", "bids", "jobs")

MISSING = "somebody did not answer in time: "

def row(name):
    begun = clock.now()
    r = jobs[name].run("go")
    return [name, r.status, r.reason, int((clock.now() - begun).seconds)]

def test_nobody_is_waited_for_for_ever():
    for want in [
        ["nothing", "timeout", "timeout: " + MISSING + "ghost", 60],
        ["agent", "timeout", "timeout: " + MISSING + "brief", 5],
        ["both", "timeout", "timeout: " + MISSING + "brief", 5],
        ["edge", "timeout", "timeout: " + MISSING + "ghost", 3],
        ["long edge", "timeout", MISSING + "ghost", 600],
        ["deadline", "timeout", "deadline", 300],
        ["twice", "timeout", MISSING + "ghost", 120],
        ["together", "timeout", "timeout: " + MISSING + "ghost", 60],
        ["led", "done", "timeout: " + MISSING + "ghost: decided by lead", 60],
        ["target", "escalated", "no_answer: timeout: " + MISSING + "brief; ghost: timeout: no answer in time", 65],
    ]:
        assert.eq(row(want[0]), want)
    assert.eq(row("around")[1:2] + row("around")[3:], ["timeout", 120])

def test_those_who_are_there_decide():
    r = bids.run("go")
    assert.eq([r.status, r.winner], ["done", "mule"])

def test_a_stop_ends_it():
    publish("go")
    expect_event("fleet/ghost")
    robot.stop("test")
    assert.eq(expect_event("fleet/ghost")["kind"], "cancel")
`)
}
