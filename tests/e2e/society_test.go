package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// reviewed is a robot with an interaction that outlives its process: three
// rounds of a draft and a review, each turn of which tells that it began.
const reviewed = `
def turn(who, answer):
    def run(task, state, turn):
        print("begin %s%d." % (who, turn.round))
        sleep("12ms")
        return answer(turn)
    return run

coder = Agent("coder", fn = turn("coder", lambda t: "draft %d" % t.round))
checker = Agent("checker", fn = turn("checker", lambda t: {"comments": "again", "verdict": "revise" if t.round < 3 else "approve"}))
team = Society("team")
review = team.connect(coder, checker, Oversight(), name = "review", checkpoint = True)

on("bot/go", lambda ev: review.run("a path"))
`

// delegated is one whose worker acts: it may have done it when it is killed.
const delegated = `
def work(task, state, turn):
    print("begin worker%d." % turn.round)
    store.append("log", "moved\n")
    sleep("30ms")
    return "moved"

boss = Agent("boss", fn = lambda task: {"comments": "", "verdict": "accept"})
worker = Agent("worker", fn = work)
team = Society("team")
job = team.connect(boss, worker, Delegation(), name = "job", checkpoint = True)

on("bot/go", lambda ev: job.run("move"))
`

// patrolling is one with an interaction in a sequence in a node of a graph in a
// background agent, whose reviewer never ends.
const patrolling = `
def look(task):
    sleep("1h")

worker, boss = Agent("worker", fn = lambda task: "d"), Agent("boss", fn = look)
review = Society("home").connect(worker, boss, Oversight(), name = "review")
patrol = Graph("patrol")
patrol.node("work", Sequence("both", [review, lambda task: task + "!"]), writes = ["out"])
patrol.edge(START, "work")
patrol.edge("work", END)
guard = BackgroundAgent(agent = patrol, trigger = lambda ev: ev.payload, subscribe_to = "bot/go")
`

// TestAllOfItIsStopped stops it from outside: all of it ends within 50 ms, and
// every part says why it was there and in which run.
func TestAllOfItIsStopped(t *testing.T) {
	r := newLives(t, patrolling)
	type event struct {
		Seq, Cause uint64
		Topic      string
		Time       time.Time
		Payload    json.RawMessage
		of         struct{ Run, Speaker, State, Status string } // the payload, if it is an object
	}
	var events map[uint64]event
	read := func(topic string, from uint64) (found []event) {
		var list []event
		if err := json.Unmarshal([]byte(r.must("trace", "--json", "-n", "0", "--all")), &list); err != nil {
			t.Fatal(err)
		}
		events = map[uint64]event{}
		for _, e := range list {
			_ = json.Unmarshal(e.Payload, &e.of)
			events[e.Seq] = e
			if e.Topic == topic && e.Seq > from {
				found = append(found, e)
			}
		}
		return found
	}
	best, last := time.Hour, uint64(0)
	for range 5 { // the machine may have other things to do
		r.must("pub", "bot/go", "hall")
		r.until("the worker's turn", 10*time.Second, func() bool { return len(read("edged/society/home/turn", last)) == 1 })
		r.must("stop")
		r.until("the end", 10*time.Second, func() bool { return len(read("edged/agent/patrol/end", last)) == 1 })
		stop, end, turns := read("edged/safety/stop", last), read("edged/agent/patrol/end", last), read("edged/society/home/turn", last)
		if len(turns) != 2 || turns[1].of.Speaker+turns[1].of.State != "bosscancelled" || end[0].of.Status != "cancelled" || len(stop) != 1 {
			t.Fatalf("got turns %+v, end %+v", turns, end)
		}
		for _, turn := range turns {
			var why []string
			run := turn.of.Run
			for e := events[turn.Cause]; e.Topic != ""; e = events[e.Cause] {
				if why = append(why, e.Topic); strings.HasPrefix(e.Topic, "edged/workflow/") && e.of.Run != run {
					t.Errorf("%s is of run %s, the turn of %s", e.Topic, e.of.Run, run)
				}
			}
			if got := strings.Join(why, " "); got != "edged/workflow/review/start edged/workflow/both/start edged/workflow/patrol/start bot/go" {
				t.Errorf("the turn of %s is because of %s", turn.of.Speaker, got)
			}
		}
		best, last = min(best, end[0].Time.Sub(stop[0].Time)), max(stop[0].Seq, end[0].Seq)
		r.must("resume")
	}
	if best > 50*time.Millisecond {
		t.Errorf("it took %v to end at best, want 50 ms", best)
	}
}

type societyRun struct {
	ID     string `json:"id"`
	State  string `json:"state"`
	Reason string `json:"reason"`
	Turns  []struct {
		Speaker, State string
		Round          int
		Writes         bool
	} `json:"turns"`
}

// TestInteractionIsKilled kills the robot in every phase of an oversight, once
// or twice, and lets it go on: a turn that was written down is never taken
// again.
func TestInteractionIsKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("starts the robot dozens of times")
	}
	rounds := 10
	if os.Getenv("EDGED_SLOW") != "" {
		rounds = 60
	}
	cut := 0
	for i := range rounds {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			s := newSocietyBot(t, reviewed)
			s.must("pub", "bot/go")
			time.Sleep(time.Duration(i%10) * 9 * time.Millisecond)
			s.killed()
			if i%2 == 1 {
				s.up()
				time.Sleep(time.Duration(i) * 3 * time.Millisecond)
				s.killed()
			}
			if n := len(s.kept); n > 0 && n < 6 {
				cut++
			}
			s.up()
			r, ok := s.over()
			if !ok {
				return // nothing was kept of it
			}
			if r.State != "done" || len(r.Turns) != 6 {
				t.Errorf("got %+v", r)
			}
			for step, n := range s.kept {
				if now := s.begun(step); now != n {
					t.Errorf("%s was written down, and has begun %d times, then %d", step, n, now)
				}
			}
		})
	}
	if cut == 0 {
		t.Error("no run was cut between two turns: nothing was tested")
	}
}

// TestDelegationIsKilled kills the robot while a worker acts: nobody acts
// again by itself.
func TestDelegationIsKilled(t *testing.T) {
	s := newSocietyBot(t, delegated)
	s.must("pub", "bot/go")
	for end := time.Now().Add(10 * time.Second); s.begun("worker1") == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the worker did not begin within 10 s")
		}
	}
	s.killed()
	s.up()
	r, ok := s.over()
	if !ok || r.State != "in_doubt" && r.State != "escalated" {
		t.Errorf("got %+v", r)
	}
	if n := s.begun("worker1"); n != 1 {
		t.Errorf("the worker began %d times", n)
	}
}

// societyBot is the robot from one life to the next.
type societyBot struct {
	*lives
	past string         // what earlier lives printed
	kept map[string]int // turns that were written down, and how often they had begun
}

func newSocietyBot(t *testing.T, script string) *societyBot {
	t.Helper()
	return &societyBot{lives: newLives(t, script), kept: map[string]int{}}
}

func (s *societyBot) begun(step string) int {
	return strings.Count(s.past+s.out.String(), "begin "+step+".")
}

func (s *societyBot) killed() {
	s.t.Helper()
	s.end(syscall.SIGKILL)
	var r societyRun
	s.oldest(&r, "--dir", s.dir)
	for _, turn := range r.Turns {
		if turn.State == "ok" {
			step := fmt.Sprint(turn.Speaker, turn.Round)
			if s.kept[step] = s.begun(step); s.kept[step] == 0 {
				s.t.Errorf("%s was written down and never began", step)
			}
		}
	}
	s.past += s.out.String()
	s.out = &output{} // of the next life
}

// over waits for the end of the run.
func (s *societyBot) over() (societyRun, bool) {
	s.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		var r societyRun
		ok := s.oldest(&r)
		if !ok || r.State != "running" && r.State != "interrupted" {
			return r, ok
		}
		if time.Now().After(end) {
			s.t.Fatalf("the run did not end: %+v", r)
		}
	}
}
