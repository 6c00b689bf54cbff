package lib_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"edged/bus"
)

// errand is an interaction in a sequence in a node of a graph in a background
// agent.
const errand = `
def draft(task, state, turn):
    return "plan %d for %s" % (turn.round, task)

def judge(task, state, turn):
    return {"comments": "shorter" if turn.round == 1 else "", "verdict": "revise" if turn.round == 1 else "approve"}

team = Society("team")
review = team.connect(Agent("planner", fn = draft), Agent("checker", fn = judge), Oversight(max_rounds = 3), name = "review")

g = Graph("errand")
g.node("plan", Sequence("steps", [lambda task: task["item"], review]))
g.node("fetch", lambda state: bb.set("box/fetched", state["plan"]), effect = "write")
g.edge(START, "plan")
g.edge("plan", "fetch")
g.edge("fetch", END)

BackgroundAgent(name = "errands", agent = g, subscribe_to = "box/errand", trigger = lambda ev: ev.payload)
`

// TestComposed: all of it runs, in order, and leads back to the one event that
// set it off.
func TestComposed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		b := r.start(errand)
		defer r.stop(b)
		r.publish("box/errand", map[string]any{"item": "cup"})
		synctest.Wait()

		ends := r.payloads("edged/workflow/errand/end")
		if len(ends) != 1 || ends[0].(map[string]any)["status"] != "done" {
			t.Fatalf("got %v; %s", ends, r.errors())
		}
		if got, _ := r.board.Get("box/fetched"); got != "plan 2 for cup" {
			t.Errorf("fetched %v", got)
		}
		bySeq, told := map[uint64]bus.Event{}, map[string]int{}
		var turns []string
		for _, e := range r.all() {
			bySeq[e.Seq] = e
			if !strings.HasPrefix(e.Topic, "edged/workflow/") && !strings.HasPrefix(e.Topic, "edged/society/") && !strings.HasPrefix(e.Topic, "edged/graph/") {
				continue
			}
			told[e.Topic]++
			if m := e.Payload().(map[string]any); e.Topic == "edged/society/team/turn" {
				turns = append(turns, fmt.Sprint(m["speaker"], m["round"], " ", m["kind"]))
			}
			root := e
			for root.Cause != 0 {
				root = bySeq[root.Cause]
			}
			if root.Topic != "box/errand" {
				t.Errorf("%s leads back to %s", e.Topic, root.Topic)
			}
		}
		if got := strings.Join(turns, ", "); got != "planner1 work, checker1 review, planner2 work, checker2 review" {
			t.Errorf("turns: %s", got)
		}
		for _, topic := range []string{"edged/workflow/errand/start", "edged/workflow/steps/start", "edged/workflow/review/start", "edged/graph/errand/crossing"} {
			if told[topic] == 0 {
				t.Errorf("nothing told on %s: %v", topic, told)
			}
		}
	})
}
