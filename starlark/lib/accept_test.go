package lib_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"edged/blackboard"
	"edged/starlark/lib"
)

const acting = `
bb.declare("led/*", history = 3)
bb.set("mode", "day")
bb.update({"a": 1, "b": 2})
bb.delete("old")
bus.publish("lamp", {"on": True})
bus.publish("kept", 7, retain = True)
robot.say("hello")
subscribe_inbox(agent_name = "cook", handler = lambda m: bus.publish("heard", m.content))
send_message(to = "cook", content = "soup")
on("lamp", lambda ev: bus.publish("seen", bb.get("mode")))
bb.watch("mode", lambda key, old, new: bus.publish("changed", [old, new]))
if bb.get("mode") != "day" or bb.has("old") or bb.keys("")[:2] != ["a", "b"] or bb.snapshot("a") != {"a": 1}:
    fail("the top level reads what it has set")
`

// A version that is refused has done nothing, whatever its top level says; one
// that is only checked neither.
func TestRefusedVersionHasNotActed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		if _, err := r.board.Set(t.Context(), "test", "old", 1, blackboard.SetOptions{}); err != nil {
			t.Fatal(err)
		}
		b := r.start(`on("x", lambda ev: 1)`)
		seq := r.bus.Seq()
		if _, err := r.try(acting + "\nnonsense\n"); err == nil {
			t.Error("a wrong version was loaded")
		}
		checked := r.load(acting)
		r.stop(checked)
		// This one loads and can't start.
		next := r.load(acting + `
BackgroundAgent(agent = Agent("bg", fn = lambda task: None), subscribe_to = "in", depends_on = "nobody")
`)
		if err := lib.Swap(t.Context(), b, next); err == nil {
			t.Error("what can't start has taken over")
		}
		synctest.Wait()
		for _, e := range r.all() {
			if e.Seq > seq && !strings.HasPrefix(e.Topic, "edged/") {
				t.Errorf("a refused version published %s", e.Topic)
			}
		}
		if keys := fmt.Sprint(r.board.Keys("")); keys != "[old]" || len(r.bus.Retained("#")) != 0 {
			t.Errorf("keys %s, retained %v; want nothing new", keys, r.bus.Retained("#"))
		}
		r.stop(b)
	})
}

// What the top level of an accepted version says is done when it takes over, in
// order, before its handlers hear anything, once.
func TestAcceptedVersionActs(t *testing.T) {
	for _, how := range []string{"start", "reload"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				defer r.close()
				if _, err := r.board.Set(t.Context(), "test", "old", 1, blackboard.SetOptions{}); err != nil {
					t.Fatal(err)
				}
				var b *lib.Behaviour
				if how == "start" {
					b = r.start(acting)
				} else {
					b = r.swap(r.start(`on("lamp", lambda ev: bus.publish("seen", "by the old one"))`), acting, time.Second)
				}
				synctest.Wait()
				for topic, want := range map[string]string{
					"lamp": "[map[on:true]]", "kept": "[7]", "voice/say": "[map[text:hello]]", "heard": "[soup]",
					"seen": "[day]", "changed": "[[<nil> day]]",
				} {
					if got := fmt.Sprint(r.payloads(topic)); got != want {
						t.Errorf("%s: got %s, want %s", topic, got, want)
					}
				}
				if got := fmt.Sprint(r.board.Snapshot("")); got != "map[a:1 b:2 mode:day]" {
					t.Errorf("the board has %s", got)
				}
				r.stop(b)
			})
		})
	}
}

// What gives a result that only the doing knows is refused at the top level.
func TestTopLevelDeclares(t *testing.T) {
	r := newRig(t)
	defer r.close()
	for _, line := range []string{
		`bb.incr("n")`, `bb.cas("n", old = None, new = 1)`, `bb.transact(lambda tx: None)`,
		`bb.post_request("k", 1)`, `ask("cook", "?")`, `store.delete("f")`,
	} {
		if _, err := r.try(line); !strings.Contains(shown(err), "the top level declares") || !strings.Contains(shown(err), "main.star:1") {
			t.Errorf("%s: got %q", line, shown(err))
		}
	}
	if _, err := r.try(`bus.publish("a/+")`); !strings.Contains(shown(err), "main.star:1") {
		t.Errorf("a wrong topic: got %q, want the place", shown(err))
	}
}
