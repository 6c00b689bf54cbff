package lib_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"edged/agent"
	"edged/blackboard"
	"edged/starlark/lib"
	"edged/workflow"
	"edged/workflow/society"
)

// said are the turns that were asked, in the order in which the functions tell.
func (r *rig) said() string {
	var list []string
	for _, p := range r.payloads("box/asked") {
		list = append(list, p.(string))
	}
	return strings.Join(list, ", ")
}

// slowSociety is an interaction whose third turn takes an hour if the way is
// jammed.
const slowSociety = `
def tell(name, turn):
    bus.publish("box/asked", "%s %d" % (name, turn.round))

def draft(task, turn, ctx):
    tell("worker", turn)
    if turn.round == 2 and bb.get("box/jam", True):
        ctx.sleep("1h")
    return "draft %d" % turn.round

def review(task, turn):
    tell("boss", turn)
    return {"verdict": "approve" if turn.round == 2 else "revise", "comments": "more"}

worker, boss = Agent("worker", fn = draft), Agent("boss", fn = review)
`

// restart stops a behaviour in the middle and starts it again, as after the end
// of the process.
func (r *rig) restart(b *lib.Behaviour, main string) *lib.Behaviour {
	quick, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if err := b.Stop(quick); err != nil {
		r.t.Fatal(err)
	}
	if err := r.board.Update(context.Background(), "test", map[string]any{"box/jam": false}, blackboard.SetOptions{}); err != nil {
		r.t.Fatal(err)
	}
	r.host.Turns = society.NewLog(r.board.Records("turns"), society.LogOptions{})
	return r.start(main)
}

// TestSocietyIsResumed: a durable interaction goes on at the turn at which it
// was cut off, by itself, and as part of a workflow or a graph.
func TestSocietyIsResumed(t *testing.T) {
	for name, code := range map[string]string{
		"by itself":     `e = Society("home").connect(worker, boss, Oversight(), checkpoint = True)`,
		"in a workflow": `e = Sequence("flow", [lambda task: task + "!", Society("home").connect(worker, boss, Oversight())], checkpoint = True)`,
		"in a graph": `e = Graph("flow", checkpoint = "node")
e.node("review", Society("home").connect(worker, boss, Oversight()))
e.edge(START, "review")
e.edge("review", END)`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				defer r.close()
				r.host.Turns = society.NewLog(r.board.Records("turns"), society.LogOptions{})
				main := slowSociety + code + "\non(\"box/go\", lambda ev: e.run(ev.payload))\n"
				b := r.start(main)
				r.publish("box/go", "x")
				time.Sleep(time.Minute)
				if got := r.said(); got != "worker 1, boss 1, worker 2" {
					t.Fatalf("got %s: %s", got, r.errors())
				}
				b = r.restart(b, main)
				time.Sleep(time.Minute)
				list := b.Runs().List()
				if got := r.said(); got != "worker 1, boss 1, worker 2, worker 2, boss 2" || len(list) != 1 || list[0].State != "done" || list[0].Reply != "draft 2" {
					t.Errorf("got %s, %+v, %s", got, list, r.errors())
				}
				r.stop(b)
			})
		})
	}
}

// TestSocietyInDoubt: a turn that could act and was cut off is not made again by
// itself. A person decides, or on_in_doubt of the workflow it stands in.
func TestSocietyInDoubt(t *testing.T) {
	const cut = "worker 1, boss 1, worker 2"
	for _, c := range []struct {
		name, code string
		decide     workflow.Decision
		said       string // by whom, in the end
		state      string
		reply      string
	}{
		{"nobody", "", "", cut, "in_doubt", ""},
		{"a person: again", "", workflow.RunAgain, cut + ", worker 2, boss 2", "done", "draft 2"},
		{"a person: done", "", workflow.TakeAsDone, cut + ", boss 2", "done", "it is there"},
		{"a person: failed", "", workflow.TakeAsFault, cut, "failed", "draft 1"},
		{"on_in_doubt again", `"again"`, "", cut + ", worker 2, boss 2", "done", "draft 2"},
		{"on_in_doubt failed", `lambda step: "failed"`, "", cut, "failed", "draft 1"},
		{"on_in_doubt that fails", `lambda step: fail("no idea")`, "", cut, "in_doubt", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				defer r.close()
				r.host.Turns = society.NewLog(r.board.Records("turns"), society.LogOptions{})
				edge := `Society("home").connect(boss, worker, Delegation(max_rounds = 2)`
				code := "e = " + edge + ", checkpoint = True)"
				if c.code != "" {
					code = `e = Sequence("flow", [` + edge + `)], checkpoint = True, on_in_doubt = ` + c.code + ")"
				}
				main := slowSociety + code + "\non(\"box/go\", lambda ev: e.run(ev.payload))\n"
				main = strings.Replace(main, `"approve" if turn.round == 2 else "revise"`, `"accept" if turn.round == 2 else "reject"`, 1)
				b := r.start(main)
				r.publish("box/go", "x")
				time.Sleep(time.Minute)
				b = r.restart(b, main)
				time.Sleep(time.Minute)
				id := b.Runs().List()[0].ID
				if c.decide != "" {
					info, err := b.Runs().Get(id)
					if err != nil || info.State != workflow.StateInDoubt {
						t.Fatalf("before it is decided: %+v, %v", info, err)
					}
					var at string
					for _, s := range info.Steps {
						if s.State == workflow.StateInDoubt && strings.Contains(s.Name, "worker, turn 3 of") {
							at = s.Path
						}
					}
					if err := b.Runs().Decide(t.Context(), id, at, c.decide, agent.Result{Reply: "it is there"}); err != nil {
						t.Fatalf("%v: %+v", err, info.Steps)
					}
					if _, err := b.ResumeRun(id); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Minute)
				}
				info, _ := b.Runs().Get(id)
				if got := r.said(); got != c.said || info.State != c.state || info.Reply != c.reply {
					t.Errorf("got %s, %+v\nwant %s, %s %q\n%s", got, info, c.said, c.state, c.reply, r.errors())
				}
				r.stop(b)
			})
		})
	}
}

// TestSocietyIsReplaced: a new version of the scripts takes over while an
// interaction runs, which ends in the old one.
func TestSocietyIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		main := slowSociety + `
e = Society("home").connect(worker, boss, Oversight())
on("box/go", lambda ev: bus.publish("box/ended", e.run(ev.payload).output))
`
		old := r.start(strings.Replace(main, `"1h"`, `"2s"`, 1))
		r.publish("box/go", "x")
		time.Sleep(time.Second)
		next, err := r.try(main)
		if err != nil {
			t.Fatal(shown(err))
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := lib.Swap(ctx, old, next); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if got := r.payloads("box/ended"); len(got) != 1 || got[0] != "draft 2" {
			t.Errorf("got %v, %s", got, r.errors())
		}
		r.stop(next)
	})
}

// TestMarketIsResumed: bidders have after a restart what they had before, and
// hear how the last market ended; who is given another budget begins with that.
func TestMarketIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		r.host.Turns = society.NewLog(r.board.Records("turns"), society.LogOptions{})
		const main = `
def bidder(name):
    def bid(task, turn):
        bus.publish("box/asked", "%s: %s" % (name, ", ".join([l for l in turn.prompt.split("\n") if "balance" in l or "Last" in l])))
        return {"price": task[name]}
    return Agent(name, fn = bid)

m = Market(bid = {"price": "(int, 0..1000)"}, budget = {"a": 100, "b": 100}, simultaneous = False)
e = Society("x").compete([bidder("a"), bidder("b")], Competition(protocol = m, resolve = BestScore("price")))
on("box/go", lambda ev: bus.publish("box/won", e.run(ev.payload).winner))
`
		b := r.start(main)
		r.publish("box/go", map[string]any{"a": 70, "b": 60})
		time.Sleep(time.Second)
		b = r.restart(b, main)
		r.publish("box/go", map[string]any{"a": 50, "b": 40}) // a has 30 left
		time.Sleep(time.Second)
		b = r.restart(b, strings.Replace(main, `"a": 100`, `"a": 80`, 1))
		r.publish("box/go", map[string]any{"a": 80, "b": 1})
		time.Sleep(time.Second)
		won := r.payloads("box/won")
		want := "a: Your balance: 100, b: Your balance: 100, " +
			"a: Last time: a won with 70, Your balance: 30, b: Last time: a won with 70, Your balance: 100, " +
			"a: Last time: b won with 40, Your balance: 80, b: Last time: b won with 40, Your balance: 60"
		if got := r.said(); got != want || fmt.Sprint(won) != "[a b a]" {
			t.Errorf("got %s, %v: %s", got, won, r.errors())
		}
		r.stop(b)
	})
}
