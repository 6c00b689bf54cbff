package lib_test

import (
	"strings"
	"testing"
)

// TestServedTurns: what is served takes turns of other robots' societies, and
// says no more than it was asked.
func TestServedTurns(t *testing.T) {
	play(t, `
-- main.star --
def bid(task):
    if task == "far":
        return None
    if task == "dear":
        return {"cost": 1000}
    if task == "slow":
        sleep("1h")
    return {"cost": len(task)}

def work(task):
    if task == "far":
        decline("too far")
    if task == "steep":
        fail("a wheel is stuck")
    bus.publish("box/did", task)
    return "did " + task

Agent("mule", fn = {"bid": bid, "work": work}).serve("fleet/mule")
thinker = Agent("thinker", role = "thinks", model = "m", tools = [Tool(lambda: bb.set("box/did", 1), name = "act", effect = "write"), Tool(lambda: 7, name = "look")])
thinker.serve("fleet/thinker")
news = []
on("fleet/mule", lambda ev: bus.publish("box/news", ev["kind"]), where = lambda ev: ev["kind"] not in ["cfp", "request", "cancel"])
-- main_test.star --
COST = {"type": "object", "required": ["cost"], "properties": {"cost": {"type": "integer", "minimum": 0, "maximum": 99}}}
DRAFT = {"type": "object", "required": ["draft"], "properties": {"draft": {"type": "string", "maxLength": 50}}}

def call(kind, task, to = "mule", form = COST, **kwargs):
    publish("fleet/" + to, dict(kind = kind, id = "7", task = task, form = form, **kwargs))

def said(to = "mule"):
    ev = expect_event("fleet/%s/reply" % to, within = "1s")
    assert.eq([ev["id"], ev["from"]], ["7", to])
    return ev

def test_it_proposes():
    call("cfp", "hall")
    ev = said()
    assert.eq([ev["kind"], ev["answer"]], ["propose", {"cost": 4}])
    assert.eq(expect_event("edged/agent/mule/end")["status"], "done")

def test_it_refuses():
    call("cfp", "far")
    assert.eq(said()["kind"], "refuse")
    call("request", "far", form = DRAFT)
    ev = said()
    assert.eq([ev["kind"], ev["reason"]], ["refuse", "too far"])

def test_it_informs():
    call("request", "hall", turn = "work", form = DRAFT)
    ev = said()
    assert.eq([ev["kind"], ev["answer"]], ["inform", {"draft": "did hall"}])

def test_it_fails():
    call("request", "steep", form = DRAFT)
    ev = said()
    assert.eq(ev["kind"], "failure")
    assert.contains(ev["reason"], "a wheel is stuck")
    expect_event("edged/agent/mule/end")

def test_an_answer_beyond_the_form_is_not_sent():
    call("cfp", "dear")
    assert.eq(said()["kind"], "failure")

def test_what_it_does_not_understand():
    for form, turn in [({"type": "string"}, "bid"), (COST, "dance"), (COST, "work")]:
        call("cfp", "hall", form = form, turn = turn)
        assert.eq(said()["kind"], "not-understood")

def test_cancel_ends_it():
    call("cfp", "slow")
    call("cfp", "slow")  # delivered twice
    clock.advance("5s")
    publish("fleet/mule", {"kind": "cancel", "id": "7"})
    assert.eq(expect_event("edged/agent/mule/end")["status"], "cancelled")
    expect_no_event("fleet/mule/reply")

def test_it_does_not_outlast_who_asked():
    call("cfp", "slow", within_ms = 3000)
    clock.advance("4s")
    assert.ne(expect_event("edged/agent/mule/end", within = "1s")["status"], "done")
    expect_no_event("fleet/mule/reply")

def test_what_was_asked_long_ago():
    call("request", "hall", form = DRAFT, sent = "1999-12-31T00:00:00Z", within_ms = 3000)
    ev = said()
    assert.eq(ev["kind"], "refuse")
    assert.contains(ev["reason"], "ago by my clock")
    expect_no_event("box/did")

def test_it_takes_no_more_than_it_can():
    for i in range(17):
        publish("fleet/mule", {"kind": "cfp", "id": "n%d" % i, "task": "slow", "form": COST})
    ev = expect_event("fleet/mule/reply")
    assert.eq([ev["id"], ev["kind"], ev["reason"]], ["n16", "refuse", "busy"])

def test_a_stop_ends_it():
    call("cfp", "slow")
    robot.stop("test")
    ev = said()
    assert.eq(ev["kind"], "failure")
    assert.contains(ev["reason"], "stopped")

def test_news_is_for_scripts():
    for kind in ["accept-proposal", "reject-proposal", "result", "inform"]:
        call(kind, "x")
        assert.eq(expect_event("box/news").payload, kind)
    expect_no_event("fleet/mule/reply")

def test_a_model_is_held_to_the_form():
    model.says("maybe")
    model.says("{\"draft\": \"yes\"}")
    call("request", "hall", to = "thinker", form = DRAFT)
    ev = said("thinker")
    assert.eq([ev["kind"], ev["answer"]], ["inform", {"draft": "yes"}])
`)
}

// TestPeersInASociety: both ends of the wire in one script. Who is asked over it
// is not asked by people, so it gets no tool that acts unless it trusts them.
func TestPeersInASociety(t *testing.T) {
	play(t, `
-- main.star --
def act():
    """Acts."""
    bb.set("box/did", 1)

def look():
    """Looks."""
    return 7

tools = [Tool(act, effect = "write"), Tool(look)]
Agent("wary", role = "carries things", model = "m", tools = tools).serve("fleet/wary")
Agent("friend", model = "m", tools = tools, trust = ["agent:society"]).serve("fleet/friend")
Agent("mule", fn = {"bid": lambda task, turn: {"cost": 5} if turn.round == 1 else None, "work": lambda task, turn: "asked for " + task}).serve("fleet/mule")

boss = Agent("boss", fn = lambda task: "accept")
home = Society("home")
wary = home.connect(boss, Agent("far_wary", topic = "fleet/wary"), Delegation(timeout = "10s", on_timeout = TERMINATE))
friend = home.connect(boss, Agent("far_friend", topic = "fleet/friend"), Delegation(timeout = "10s", on_timeout = TERMINATE))
mule, ghost = Agent("mule", topic = "fleet/mule"), Agent("ghost", topic = "fleet/ghost")
auction = home.compete([mule, ghost], Competition(
    protocol = Market(bid = {"type": "object", "required": ["cost"], "properties": {"cost": {"type": "integer", "minimum": 0, "maximum": 99}}}),
    resolve = BestScore("cost", highest = False), quorum = 1, timeout = "5s", on_timeout = TERMINATE))
job = home.connect(boss, mule, Delegation(timeout = "10s", on_timeout = TERMINATE))
-- main_test.star --
load("main.star", "wary", "friend", "auction", "job")

def delegated(edge):
    model.says("{\"draft\": \"there\"}")
    model.says("{\"draft\": \"there\"}")
    r = edge.run("to the hall")
    assert.eq([r.status, r.output], ["done", "there"])
    return model.prompts()

def test_words_of_others_move_nothing():
    p = delegated(wary)[0]
    assert.true("act" not in p.tools)
    assert.contains(p.user, "\"to the hall\"")
    assert.contains(p.system, "carries things")

def test_whom_it_trusts():
    assert.true("act" in delegated(friend)[0].tools)

def test_auction():
    r = auction.run("crate")
    assert.eq([r.status, r.winner, r.ranking], ["done", "mule", ["mule"]])
    kinds = []
    for i in range(3):
        kinds.append(expect_event("fleet/mule")["kind"])
    assert.eq(kinds, ["cfp", "accept-proposal", "result"])
    assert.eq(job.run("crate").output, "asked for crate")
`)
}

// TestDocFleets: the examples of the page are two robots that do a job.
func TestDocFleets(t *testing.T) {
	list := blocks(t, "fleets.md")
	play(t, "-- main.star --\n"+strings.Join(list, "\n")+`
-- main_test.star --
def test_a_job():
    publish("jobs/new", {"id": 7, "site": "kitchen"})
    assert.eq(expect_event("jobs/done", within = "2m").payload, {"job": 7, "by": "mule"})
    assert.eq(hw.sim.room(), "kitchen")

def test_nobody():
    bb.set("battery", 20)
    publish("jobs/new", {"id": 8, "site": "kitchen"})
    assert.eq(expect_event("jobs/unassigned", within = "2m")["job"], 8)
`)
}
