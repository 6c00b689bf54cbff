package lib_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"edged/agent"
	"edged/blackboard"
	"edged/starlark/lib"
	"edged/workflow"
)

// deliver is a durable workflow: its second step takes an hour and has an
// effect; %s is for options.
const deliver = `
def did(what):
    bus.publish("box/did", what)
    return what

def drive(task, ctx):
    did("drive")
    if bb.get("box/jam", True):
        ctx.sleep("1h")
    return "there"

def verdict(step, ctx):
    bus.publish("box/asked", step)
    return bb.get("box/verdict")

deliver = Sequence("deliver", [
    lambda task: did("pack"),
    Step(drive, effect = %q),
    Retry(lambda task, ctx: did("unload " + ctx.task + " " + task)),
], checkpoint = True%s)

on("box/go", lambda ev: bus.publish("box/ended", deliver.run(ev.payload)))
`

// interrupted runs deliver, stops the behaviour in the middle of the second
// step, and starts it again.
func interrupted(t *testing.T, effect, more string, verdict any) (*rig, *lib.Behaviour) {
	r := newRig(t)
	main := fmt.Sprintf(deliver, effect, more)
	b := r.start(main)
	r.publish("box/go", "cup")
	time.Sleep(time.Minute)
	quick, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if err := b.Stop(quick); err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]any{"box/jam": false, "box/verdict": verdict} {
		if err := r.board.Update(context.Background(), "test", map[string]any{k: v}, blackboard.SetOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	b = r.start(main)
	time.Sleep(time.Second)
	return r, b
}

func TestDurableRuns(t *testing.T) {
	for _, c := range []struct {
		name, effect, more string
		verdict            any
		did                string
		state              string
	}{
		{"reads", "read", "", nil, "pack drive drive unload cup there", "done"},
		{"a person decides", "write", "", nil, "pack drive", "in_doubt"},
		{"again", "write", `, on_in_doubt = "again"`, nil, "pack drive drive unload cup there", "done"},
		{"failed", "write", `, on_in_doubt = "failed"`, nil, "pack drive", "failed"},
		{"done", "write", `, on_in_doubt = "done"`, nil, "pack drive unload cup ", "done"},
		{"a function: again", "write", `, on_in_doubt = verdict`, "again", "pack drive drive unload cup there", "done"},
		{"a function: no word", "write", `, on_in_doubt = verdict`, "perhaps", "pack drive", "in_doubt"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, b := interrupted(t, c.effect, c.more, c.verdict)
				defer r.close()
				defer r.stop(b)
				var did []string
				for _, p := range r.payloads("box/did") {
					did = append(did, p.(string))
				}
				runs := b.Runs().List()
				if len(runs) != 1 || runs[0].State != c.state || strings.Join(did, " ") != c.did {
					t.Errorf("got %+v, did %q, want %s, %q\n%s", runs, did, c.state, c.did, r.errors())
				}
				if asked := r.payloads("box/asked"); strings.HasPrefix(c.name, "a function") {
					if len(asked) != 1 || asked[0].(map[string]any)["name"] != "drive" {
						t.Errorf("asked %v, want one step drive", asked)
					}
				}
			})
		})
	}
}

func TestDecideAndResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, b := interrupted(t, "write", "", nil)
		defer r.close()
		defer r.stop(b)
		id := b.Runs().List()[0].ID
		if err := b.Runs().Decide(t.Context(), id, "1", workflow.RunAgain, agent.Result{}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.ResumeRun(id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if info, err := b.Runs().Get(id); err != nil || info.State != "done" || len(info.Steps) != 4 {
			t.Errorf("got %+v %v, want done with four steps", info, err)
		}
		if _, err := b.ResumeRun(id); err == nil || !strings.Contains(err.Error(), "run is over") {
			t.Errorf("got %v, want that it is over", err)
		}
		if _, err := b.ResumeRun("nothing"); err == nil {
			t.Error("a run that there is not was resumed")
		}
	})
}

// TestDecidedRunsGoOn: what was decided while the robot was off goes on when it
// starts.
func TestDecidedRunsGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, b := interrupted(t, "write", "", nil)
		defer r.close()
		id := b.Runs().List()[0].ID
		r.stop(b)
		if err := b.Runs().Decide(t.Context(), id, "1", workflow.RunAgain, agent.Result{}); err != nil {
			t.Fatal(err)
		}
		if info, _ := b.Runs().Get(id); info.State != workflow.StateInterrupted || info.Steps[1].Reason != "it is run again" {
			t.Errorf("got %+v, want it to go on", info)
		}
		b = r.start(fmt.Sprintf(deliver, "write", ""))
		defer r.stop(b)
		time.Sleep(time.Second)
		if info, _ := b.Runs().Get(id); info.State != "done" {
			t.Errorf("got %+v, want done\n%s", info, r.errors())
		}
	})
}

// TestStuckRuns: a run whose workflow has changed, or is gone, says why it does
// not go on, and goes on when the workflow is back.
func TestStuckRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, b := interrupted(t, "write", "", nil)
		defer r.close()
		id := b.Runs().List()[0].ID
		if err := b.Runs().Decide(t.Context(), id, "1", workflow.TakeAsDone, agent.Result{}); err != nil {
			t.Fatal(err)
		}
		same := fmt.Sprintf(deliver, "write", "")
		for _, c := range []struct{ script, state, reason string }{
			{strings.Replace(same, "Step(drive", "lambda task: did(\"look\"), Step(drive", 1), "interrupted", "deliver has changed since the run began: put it back as it was, or end the run: edged runs cancel " + id},
			{"x = 1\n", "interrupted", "no script has a workflow or graph deliver with a checkpoint any more: put it back as it was, or end the run: edged runs cancel " + id},
			{same, "done", ""},
		} {
			r.stop(b)
			b = r.start(c.script)
			time.Sleep(time.Second)
			if got := b.Runs().List(); len(got) != 1 || got[0].State != c.state || got[0].Reason != c.reason {
				t.Errorf("got %+v, want %s (%s)", got, c.state, c.reason)
			}
			if c.reason != "" && !strings.Contains(r.errors(), c.reason) {
				t.Errorf("no error says %q:\n%s", c.reason, r.errors())
			}
		}
		r.stop(b)
	})
}

// TestStoppedRunsWait: what a person stopped goes on when a person says so.
func TestStoppedRunsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		main := fmt.Sprintf(deliver, "read", "")
		b := r.start(main)
		r.publish("box/go", "cup")
		time.Sleep(time.Minute)
		b.CancelTurns()
		time.Sleep(time.Second)
		r.stop(b)
		if err := r.board.Update(t.Context(), "test", map[string]any{"box/jam": false}, blackboard.SetOptions{}); err != nil {
			t.Fatal(err)
		}
		b = r.start(main)
		defer r.stop(b)
		time.Sleep(time.Minute)
		runs := b.Runs().List()
		if len(runs) != 1 || runs[0].State != workflow.StateInterrupted || runs[0].Reason != "the robot was stopped" {
			t.Fatalf("got %+v, want interrupted: the robot was stopped", runs)
		}
		if _, err := b.ResumeRun(runs[0].ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if runs := b.Runs().List(); runs[0].State != "done" {
			t.Errorf("got %+v, want done", runs)
		}
	})
}

// TestReloadGoesOn: the new version of the scripts goes on with what the old
// one was at.
func TestReloadGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		r.host.Runs = workflow.NewRuns(r.board.Records("runs"), workflow.RunsOptions{})
		main := fmt.Sprintf(deliver, "read", "")
		old := r.start(main)
		r.publish("box/go", "cup")
		time.Sleep(time.Minute)
		if err := r.board.Update(t.Context(), "test", map[string]any{"box/jam": false}, blackboard.SetOptions{}); err != nil {
			t.Fatal(err)
		}
		next := r.load(main + "\n# edited\n")
		grace, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := lib.Swap(grace, old, next); err != nil {
			t.Fatal(err)
		}
		defer r.stop(next)
		time.Sleep(time.Second)
		if runs := next.Runs().List(); len(runs) != 1 || runs[0].State != "done" {
			t.Errorf("got %+v, want done\n%s", runs, r.errors())
		}
		if did := r.payloads("box/did"); !slices.Equal(did, []any{"pack", "drive", "drive", "unload cup there"}) {
			t.Errorf("did %v", did)
		}
	})
}

func TestDurableNamesAreUnique(t *testing.T) {
	r := newRig(t)
	defer r.close()
	_, err := r.try("f = lambda task: task\nSequence(\"a\", [f], checkpoint = True)\nSequence(\"a\", [f], checkpoint = True)\n")
	if err == nil || !strings.Contains(shown(err), `the name "a" is taken by the workflow with a checkpoint at box/main.star:2`) {
		t.Errorf("got %s", shown(err))
	}
}
