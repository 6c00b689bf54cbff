package lib_test

import "testing"

// TestCoopetitionMatrix: both halves of a coopetition with whatever can go wrong
// in each, through what was asked, how often, and what came of it.
func TestCoopetitionMatrix(t *testing.T) {
	play(t, `
-- main_test.star --
`+matrixHelp+`
AGREE = json.encode({"agree": True})
NO = json.encode({"agree": False, "draft": {"door": "shut"}})
SHARED = draft({"door": "open"})
DOOR = {"door": "open"}
FORM = Artifact("claim", schema = {"battery": "(int, 0..100)"})
LATE = "somebody did not answer in time: "

def claim(n):
    return draft({"battery": n})

def won(n):
    return {"shared": DOOR, "won": {"battery": n} if n != None else None}

def row(name, a, want, policy = TERMINATE, revoked = None, resolve = None, **kwargs):
    a = cast(**a)
    s = Society("door", escalate_to = a.get("lead"))
    lowest = lambda subs: min([(s.output["battery"], s.agent) for s in subs])[1]
    e = s.negotiate([a["a"], a["b"]], Coopetition(cooperate_on = ["door"], compete_on = ["claim"], artifacts = [FORM],
        resolve = resolve(a) if resolve else lowest, timeout = "10s", on_timeout = policy, **kwargs))
    if revoked:
        s.revoke(revoked)
    got = outcome(e)
    asked = got[4].split(" ")  # both submit at once
    at = [i for i, who in enumerate(asked) if who == "b"][:1]
    n = at[0] + 1 if at else len(asked)
    got[4] = " ".join(asked[:n] + sorted(asked[n:]))
    check(name + " " + policy, got if want[1] != None else got[:1] + [None] + got[2:], want)

def test_done():
    row("fine", dict(a = [SHARED, claim(7)], b = [AGREE, claim(3)]), ["done", "", won(3), "b", "a b a b"])

def test_late_to_agree():
    for policy, a, want in [
        (TERMINATE, dict(a = [SHARED], b = [SLOW]), ["timeout", LATE + "b", DOOR, "", "a b"]),
        (RETRY_ONCE, dict(a = [SHARED], b = [SLOW, SLOW], lead = []), ["timeout", LATE + "b", DOOR, "", "a b b"]),
        (RETRY_ONCE, dict(a = [SHARED, claim(7)], b = [SLOW, AGREE, claim(3)]), ["done", "", won(3), "b", "a b a b b"]),
        (ESCALATE, dict(a = [SHARED], b = [SLOW]), ["timeout", "timeout: " + LATE + "b", DOOR, "", "a b"]),
        (ESCALATE, dict(a = [SHARED, claim(7)], b = [SLOW, claim(3)], lead = [word("approve")]), ["done", "", won(3), "b", "a b a b lead"]),
        (ESCALATE, dict(a = [SHARED], b = [SLOW], lead = [word("reject")]), ["rejected", "timeout: " + LATE + "b: decided by lead", DOOR, "", "a b lead"]),
        (ESCALATE, dict(a = [SHARED], b = [SLOW], lead = [SLOW]), ["escalated", "no_answer: timeout: " + LATE + "b; lead: timeout: no answer in time", DOOR, "", "a b lead"]),
    ]:
        row("to agree", a, want, policy)

def test_late_to_submit():
    for policy, a, want in [
        (TERMINATE, dict(a = [SHARED, claim(7)], b = [AGREE, SLOW]), ["timeout", LATE + "b", won(None), "", "a b a b"]),
        (RETRY_ONCE, dict(a = [SHARED, claim(7)], b = [AGREE, SLOW, SLOW]), ["timeout", LATE + "b", won(None), "", "a b a b b"]),
        (RETRY_ONCE, dict(a = [SHARED, claim(7)], b = [AGREE, SLOW, claim(3)]), ["done", "", won(3), "b", "a b a b b"]),
        (ESCALATE, dict(a = [SHARED, claim(7)], b = [AGREE, SLOW]), ["timeout", "timeout: " + LATE + "b", won(None), "", "a b a b"]),
        (ESCALATE, dict(a = [SHARED, claim(7)], b = [AGREE, SLOW], lead = [holding("7")]), ["done", "timeout: " + LATE + "b: decided by lead", won(7), "a", "a b a b lead"]),
        (ESCALATE, dict(a = [SHARED, claim(7)], b = [AGREE, SLOW], lead = [CRASH]), ["escalated", None, won(None), "", "a b a b lead"]),
    ]:
        row("to submit", a, want, policy)
    row("quorum", dict(a = [SHARED, claim(7)], b = [AGREE, SLOW]), ["done", "", won(7), "a", "a b a b"], quorum = 1)

def test_answers():
    for bad in [BAD, CUT, EMPTY]:
        row("no first version", dict(a = [bad, bad, AGREE, claim(7)], b = [SHARED, claim(3)]), ["done", "", won(3), "b", "a a b a a b"])
        row("no agreement", dict(a = [SHARED, AGREE, claim(7)], b = [bad, bad, AGREE, claim(3)]), ["done", "", won(3), "b", "a b a a b b b"])
        row("never", dict(a = [SHARED, AGREE], b = [bad, bad, bad, bad]), ["deadlock", None, DOOR, "", "a b a b b b"], max_rounds = 2)
        row("no claim", dict(a = [SHARED, claim(7)], b = [AGREE, bad, bad]), ["done", "", won(7), "a", "a b a b b"])
        row("no claims", dict(a = [SHARED, bad, bad], b = [AGREE, bad, bad]), ["failed", None, won(None), "", "a b a a b b"])

def test_crashes():
    row("first", dict(a = [CRASH], b = []), ["failed", None, None, "", "a"])
    row("second", dict(a = [SHARED], b = [CRASH]), ["failed", None, DOOR, "", "a b"])
    row("claim", dict(a = [SHARED, claim(7)], b = [AGREE, CRASH]), ["done", "", won(7), "a", "a b a b"])
    row("claims", dict(a = [SHARED, CRASH], b = [AGREE, CRASH]), ["failed", None, won(None), "", "a b a b"])

def test_deadlock():
    never = dict(a = [SHARED, json.encode({"agree": False, "draft": DOOR}), claim(7)], b = [NO, NO, claim(3)])
    shut = {"door": "shut"}
    row("nobody", never, ["deadlock", "deadlock", shut, "", "a b a b"], max_rounds = 2)
    row("rejects", dict(lead = [word("reject")], **never), ["rejected", "deadlock: decided by lead", shut, "", "a b a b lead"], max_rounds = 2)
    row("approves", dict(lead = [word("approve")], **never), ["done", "", {"shared": shut, "won": {"battery": 3}}, "b", "a b a a b b lead"], max_rounds = 2)
    row("mute", dict(lead = [BAD, BAD], **never), ["escalated", None, shut, "", "a b a b lead lead"], max_rounds = 2)

def test_deciders():
    vote = lambda a: MajorityVote([a["v"], a["w"]])
    both = dict(a = [SHARED, claim(7)], b = [AGREE, claim(3)])
    row("tie", dict(v = [holding("7")], w = [holding("3")], **both), ["deadlock", "tie: 2 submissions with 1 votes", won(None), "", "a b a b v w"], resolve = vote)
    row("tie, lead", dict(v = [holding("7")], w = [holding("3")], lead = [holding("7")], **both),
        ["done", "tie: 2 submissions with 1 votes: decided by lead", won(7), "a", "a b a b lead v w"], resolve = vote)
    judge = lambda a: JudgePicks(a["j"])
    row("judge crashes", dict(j = [CRASH], **both), ["failed", None, won(None), "", "a b a b j"], resolve = judge)
    row("judge is late", dict(j = [SLOW], **both), ["timeout", LATE + "j", won(None), "", "a b a b j"], resolve = judge)

def test_revoked():
    row("a", dict(a = [], b = []), ["failed", "a: revoked: revoked", None, "", ""], revoked = "a")
    row("b", dict(a = [SHARED], b = []), ["failed", "b: revoked: revoked", DOOR, "", "a"], revoked = "b")
`)
}
