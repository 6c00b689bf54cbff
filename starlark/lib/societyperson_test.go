package lib_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"edged/starlark/lib"
	"edged/workflow/society"
)

// TestSocietyPeople: the person takes turns as anybody else.
func TestSocietyPeople(t *testing.T) {
	play(t, `
-- main_test.star --
`+matrixHelp+`
def test_escalation():
    a = cast(worker = [draft("hall")], boss = [word("revise", "no")])
    s = Society("home", escalate_to = HUMAN)
    e = s.connect(a["worker"], a["boss"], Oversight(max_rounds = 1, timeout = "10s", on_timeout = TERMINATE))
    person.answers("approve", delay = "5m")
    r = e.run("to the hall")
    assert.eq([r.status, r.reason, r.output, r.by, r.verdict, r.degraded], ["done", "deadlock: decided by HUMAN", "hall", "worker", "approve", True])
    q = person.asked()[0]
    assert.eq([q["by"], q["options"]], ["society:home", ["approve", "reject"]])
    for part in ["Task: to the hall", "Why you are asked: deadlock", "Last draft: \"hall\"", "Last comments: \"no\""]:
        assert.contains(q["prompt"], part)

def test_by_name_and_with_patience():
    for up in [Escalate("HUMAN"), Escalate(HUMAN, timeout = "1m"), HUMAN, "HUMAN"]:
        a = cast(worker = [draft("hall")], boss = [word("revise", "no")])
        e = Society("home").connect(a["worker"], a["boss"], Oversight(max_rounds = 1, on_deadlock = up))
        person.answers("reject")
        r = e.run("x")
        assert.eq([r.status, r.by], ["rejected", "HUMAN"])
    a = cast(worker = [draft("hall")], boss = [word("revise", "no")])
    e = Society("home").connect(a["worker"], a["boss"], Oversight(max_rounds = 1, on_deadlock = Escalate(HUMAN, timeout = "1m")))
    person.answers("approve", delay = "2m")
    r = e.run("x")
    assert.eq([r.status, r.reason, r.output], ["escalated", "no_answer: deadlock; HUMAN: timeout: no answer in time", "hall"])

def test_nobody_is_there():
    a = cast(worker = [draft("hall")], boss = [word("revise", "no")])
    e = Society("home", escalate_to = HUMAN).connect(a["worker"], a["boss"], Oversight(max_rounds = 1))
    r = e.run("x")
    assert.eq([r.status, r.reason], ["escalated", "no_answer: deadlock; HUMAN: failed: nobody answered: graph: nobody can be asked now"])

def test_a_person_reviews():
    a = cast(worker = [draft("1"), draft("2")])
    e = Society("home").connect(a["worker"], HUMAN, Oversight())
    person.answers("hm")
    person.answers("revise: mind the stairs")
    person.answers("Approve")
    r = e.run("x")
    assert.eq([r.status, r.output, r.rounds], ["done", "2", 2])
    assert.contains(model.prompts()[1].user, "mind the stairs")
    assert.eq([len(person.asked()), person.asked()[0]["options"]], [3, []])

def test_a_person_works_and_votes():
    e = Society("home").connect(HUMAN, Agent("boss", fn = lambda task, turn: "approve" if turn.draft == "by the hall" else "reject"), Oversight())
    person.answers("by the hall")
    assert.eq(e.run("a way").status, "done")
    e = Society("home").compete([Agent("a", fn = lambda task: "ONE"), Agent("b", fn = lambda task: "TWO")], Competition(resolve = MajorityVote([HUMAN])))
    person.answers("A")
    r = e.run("go")
    assert.eq([r.status, r.reason], ["done", "1 of 1 votes"])
    form = Artifact("n", schema = {"n": "(int, 0..9)"})
    e = Society("home").connect(HUMAN, Agent("boss", fn = lambda task: "approve"), Oversight(artifacts = [form]))
    person.answers("{\"draft\": {\"n\": 4}}")
    assert.eq(e.run("a number").output, {"n": 4})

def test_a_person_is_an_agent():
    person.answers("blue")
    assert.eq(HUMAN.run("which one").reply, "blue")
`)
}

// waiting is a durable interaction that asks a person in the end.
const waitingSociety = `
def draft(task, turn):
    bus.publish("box/asked", "worker %d" % turn.round)
    return "draft %d" % turn.round

def review(task, turn):
    bus.publish("box/asked", "boss %d" % turn.round)
    return {"verdict": "revise", "comments": "no"}

worker, boss = Agent("worker", fn = draft), Agent("boss", fn = review)
e = Society("home", escalate_to = HUMAN).connect(worker, boss, Oversight(max_rounds = 2), name = "review")
on("box/go", lambda ev: bus.publish("box/ended", e.run(ev.payload)))
`

// TestSocietyWaitsThroughARestart: what was said is not asked again, and the
// question is the same one.
func TestSocietyWaitsThroughARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		r.host.Turns = society.NewLog(r.board.Records("turns"), society.LogOptions{})
		var asked []lib.Ask
		answer := make(chan string, 1)
		r.host.Ask = func(ctx context.Context, q lib.Ask) (string, error) {
			asked = append(asked, q)
			select {
			case s := <-answer:
				return s, nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}
		b := r.start(waitingSociety)
		r.publish("box/go", "x")
		time.Sleep(time.Minute)
		quick, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		if err := b.Stop(quick); err != nil {
			t.Fatal(err)
		}
		r.host.Turns = society.NewLog(r.board.Records("turns"), society.LogOptions{}) // as after a restart
		b = r.start(waitingSociety)
		time.Sleep(time.Minute)
		if list := b.Runs().List(); len(list) != 1 || list[0].State != "running" || list[0].Workflow != "review" {
			t.Fatalf("got %+v, %s", list, r.errors())
		}
		answer <- "approve"
		time.Sleep(time.Minute)
		list := b.Runs().List()
		if len(list) != 1 || list[0].State != "done" || list[0].Reply != "draft 2" {
			t.Errorf("got %+v", list)
		}
		if len(asked) != 2 || asked[0].Run != asked[1].Run || asked[0].Path != asked[1].Path || !asked[0].Asked.Equal(asked[1].Asked) {
			t.Errorf("got %+v", asked)
		}
		var said []string
		for _, p := range r.payloads("box/asked") {
			said = append(said, p.(string))
		}
		if got := strings.Join(said, ", "); got != "worker 1, boss 1, worker 2, boss 2" {
			t.Errorf("got %s", got)
		}
		if turns := b.Turns().Turns(list[0].ID); len(turns) != 5 || turns[4].Speaker != "HUMAN" || turns[4].Verdict != "approve" {
			t.Errorf("got %+v", turns)
		}
		r.stop(b)
	})
}

// TestSocietyNobodyToAsk: without anybody to ask a durable run waits for an
// answer that comes some time.
func TestSocietyNobodyToAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		b := r.start(waitingSociety)
		r.publish("box/go", "x")
		time.Sleep(time.Minute)
		list := b.Runs().List()
		if len(list) != 1 || list[0].State != "waiting" {
			t.Fatalf("got %+v, %s", list, r.errors())
		}
		open, err := b.Runs().Questions(list[0].ID)
		if err != nil || len(open) != 1 {
			t.Fatalf("got %+v, %v", open, err)
		}
		if err := b.Runs().Answer(context.Background(), list[0].ID, "", "reject"); err != nil {
			t.Fatal(err)
		}
		if _, err := b.ResumeRun(list[0].ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if list = b.Runs().List(); list[0].State != "rejected" || len(r.payloads("box/asked")) != 4 {
			t.Errorf("got %+v, %v, %s", list, r.payloads("box/asked"), r.errors())
		}
		r.stop(b)
	})
}
