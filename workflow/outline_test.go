package workflow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"edged/agent"
	"edged/agent/llm"
	"edged/bus"
	"edged/workflow"
	"edged/workflow/workflowtest"
)

func TestOutline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("safe")
		tree := workflow.NewSequence("tidy", workflow.SequenceOptions{Options: workflow.Options{Guard: w.guard("safe")}},
			workflow.NewRetry("", workflow.RetryOptions{Backoff: -1}, child("grasp", time.Second, agent.Declined("no"))),
			workflow.NewRouter("way", workflow.RouterOptions{Default: child("ask", 0, nil)}, workflow.Route{Name: "left", Agent: workflow.NewStep(child("turn \"l\"", 0, nil), workflow.Options{Effect: llm.Write})}))
		check(t, workflow.Describe(tree).Text(), `· tidy (sequence, guard safe)
  · retry grasp (retry at most 3 attempts)
    · grasp (agent)
  · way (router)
    · left → turn "l" (step, effect write)
      · turn "l" (agent)
    · default → ask (agent)
`)
		live := workflow.NewLive()
		ctx := workflow.WithRuntime(t.Context(), workflow.Runtime{Trace: live, Watcher: w})
		time.AfterFunc(2500*time.Millisecond, func() {
			check(t, live.Outline(tree).Children[0].Children[0].State, "running")
			w.set("safe", false)
		})
		_, _ = agent.Run(ctx, tree, agent.Task{})
		o := live.Outline(tree)
		check(t, strings.SplitAfterN(o.Text(), "\n", 4)[:3], `[■ tidy (sequence, guard safe) cancelled 2.5s: guard safe
   ■ retry grasp (retry at most 3 attempts) cancelled 2.5s: guard safe
     ■ grasp (agent) cancelled 500ms: context canceled
]`)
		check(t, o.Stopped, "safe")
		for _, want := range []string{"flowchart TD\n", `n0 --> n0_0`, `n1 -->|"left"| n1_0`, `#quot;l#quot;`, "style n stroke:"} {
			if !strings.Contains(o.Mermaid(), want) {
				t.Errorf("no %q in\n%s", want, o.Mermaid())
			}
		}
		for _, want := range []string{"digraph", `n1 -> n1_0 [label="left"]`, `turn \"l\"\nstep`} {
			if !strings.Contains(o.Dot(), want) {
				t.Errorf("no %q in\n%s", want, o.Dot())
			}
		}
		text, err := json.Marshal(o)
		if err != nil || !strings.Contains(string(text), `"stopped_by":"safe"`) {
			t.Errorf("%s %v", text, err)
		}
	})
}

func Example() {
	say := func(s string) agent.Agent {
		return agent.Func(s, func(context.Context, agent.Task) (agent.Result, error) { return agent.Result{Reply: s}, nil })
	}
	broken := agent.Func("drawer", func(context.Context, agent.Task) (agent.Result, error) {
		return agent.Result{}, agent.Declined("the drawer is full")
	})
	tidy := workflow.NewSequence("tidy", workflow.SequenceOptions{},
		say("found"),
		workflow.NewFallback("away", workflow.FallbackOptions{}, broken, say("box")),
	)
	r, _ := agent.Run(context.Background(), tidy, agent.Task{Input: "the cup", Origin: "test"})
	fmt.Println(r.Status, r.Reply, r.By)
	fmt.Println(r.Children[1].Children[0].Reason)
	fmt.Print(workflow.Describe(tidy).Text())
	// Output:
	// done box box
	// declined: the drawer is full
	// · tidy (sequence)
	//   · found (agent)
	//   · away (fallback)
	//     · drawer (agent)
	//     · box (agent)
}

// A run that is resumed in another process shows how the steps ended that it
// does not run again, and says of them nothing on the bus.
func TestOutlineOfAResumedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, st := &diary{}, workflowtest.NewDisk()
		tree := workflow.NewSequence("s", workflow.SequenceOptions{Options: workflow.Options{Checkpoint: true}},
			workflow.NewSequence("inner", workflow.SequenceOptions{}, d.long("a", time.Second), d.long("b", time.Second)),
			d.long("c", time.Second))
		ctx, _ := runtimeOn(t.Context(), st)
		dead, cancel := context.WithTimeout(ctx, 2500*time.Millisecond)
		defer cancel()
		_, _ = agent.Run(dead, tree, agent.Task{})

		b := bus.New(bus.Options{})
		defer b.Close(t.Context())
		var told []string
		if _, err := b.Tap("edged/workflow/+/end", func(e bus.Event) { told = append(told, e.Topic) }); err != nil {
			t.Fatal(err)
		}
		live := workflow.NewLive()
		runs := workflow.NewRuns(st.Reboot(), workflow.RunsOptions{})
		ctx = workflow.WithRuntime(t.Context(), workflow.Runtime{Runs: runs, Trace: workflow.Traces(workflow.OnBus(b), live)})
		if r, err := runs.Resume(ctx, runs.List()[0].ID, tree); !r.OK() {
			t.Fatal(err)
		}
		o := live.Outline(tree)
		inner := o.Children[0]
		check(t, fmt.Sprint(o.State, inner.State, inner.Children[0].State, inner.Children[1].State, o.Children[1].State), "donedonedonedonedone")
		check(t, fmt.Sprint(told), "[edged/workflow/s/end]")
	})
}
