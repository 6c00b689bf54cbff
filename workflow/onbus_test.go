package workflow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"edged/agent"
	"edged/bus"
	"edged/workflow"
)

// What is told becomes text or a tree only when somebody looks: both say the
// same, whoever looks first.
func TestWhatIsTold(t *testing.T) {
	b := bus.New(bus.Options{})
	defer b.Close(context.Background())
	var list []bus.Event
	if _, err := b.Tap("edged/workflow/#", func(e bus.Event) { list = append(list, e) }); err != nil {
		t.Fatal(err)
	}
	ctx := workflow.WithRuntime(t.Context(), workflow.Runtime{Trace: workflow.OnBus(b)})
	closed := &workflow.Guard{Name: "open \"door\"", Check: func(context.Context) (bool, error) { return false, nil }}
	tree := workflow.NewFallback("way", workflow.FallbackOptions{},
		workflow.NewSequence("in", workflow.SequenceOptions{Options: workflow.Options{Guard: closed}}, child("walk", 0, nil)),
		workflow.NewSequence("bad", workflow.SequenceOptions{}, child("b", 0, agent.Declined("nö"))),
		workflow.NewSequence("good", workflow.SequenceOptions{}, child("g", 0, nil)))
	if r, err := agent.Run(ctx, tree, agent.Task{}); !r.OK() {
		t.Fatal(err)
	}
	var got []string
	for _, e := range list {
		text, err := e.JSON()
		if err != nil {
			t.Fatal(err)
		}
		tree, err := bus.DecodeJSON(text)
		if err != nil {
			t.Fatal(err)
		}
		told := e.Payload().(map[string]any)
		for k, v := range tree.(map[string]any) {
			if fmt.Sprint(told[k]) != fmt.Sprint(v) {
				t.Errorf("%s: %s is %v as JSON, %v as a tree", e.Topic, k, v, told[k])
			}
		}
		if len(told) != len(tree.(map[string]any)) {
			t.Errorf("%s: the tree has %v, the text is %s", e.Topic, slices.Sorted(maps.Keys(told)), text)
		}
		if told["run"] == "" || e.Source != "workflow:"+strings.Split(e.Topic, "/")[2] {
			t.Errorf("%s from %s of run %v", e.Topic, e.Source, told["run"])
		}
		if d, is := told["elapsed"].(float64); is != strings.HasSuffix(e.Topic, "/end") || d < 0 {
			t.Errorf("%s: elapsed %v", e.Topic, told["elapsed"])
		}
		delete(told, "elapsed")
		delete(told, "run")
		short, _ := json.Marshal(told)
		got = append(got, strings.TrimPrefix(e.Topic, "edged/workflow/")+" "+string(short))
	}
	want := []string{
		`way/start {"kind":"fallback","path":""}`,
		`in/start {"kind":"sequence","path":"0"}`,
		`in/end {"guard":"open \"door\"","kind":"sequence","path":"0","reason":"guard open \"door\"","status":"cancelled"}`,
		`bad/start {"kind":"sequence","path":"1"}`,
		`bad/end {"by":"b","kind":"sequence","path":"1","reason":"declined: nö","status":"failed"}`,
		`good/start {"kind":"sequence","path":"2"}`,
		`good/end {"by":"g","kind":"sequence","path":"2","status":"done"}`,
		`way/end {"by":"good","kind":"fallback","path":"","status":"done"}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	// The same events caused each other: a child's by its parent's start.
	at := map[string]bus.Event{}
	for _, e := range list {
		at[strings.TrimPrefix(e.Topic, "edged/workflow/")] = e
	}
	for _, x := range [][2]string{{"in/start", "way/start"}, {"in/end", "in/start"}, {"good/end", "good/start"}, {"way/end", "way/start"}} {
		if at[x[0]].Cause != at[x[1]].Seq {
			t.Errorf("%s is caused by %d, not by %s", x[0], at[x[0]].Cause, x[1])
		}
	}
}

// A later run of a tree takes the memory of the one before, and nothing else.
func TestLiveForgetsTheLastRun(t *testing.T) {
	live, open := workflow.NewLive(), false
	door := agent.Func("door", func(context.Context, agent.Task) (agent.Result, error) {
		if !open {
			return agent.Result{}, agent.Declined("closed")
		}
		return agent.Result{}, nil
	})
	tree := workflow.NewFallback("way", workflow.FallbackOptions{}, door, workflow.NewSequence("round", workflow.SequenceOptions{}, child("walk", 0, nil)))
	ctx := workflow.WithRuntime(t.Context(), workflow.Runtime{Trace: live})
	stands := func() string {
		if _, err := agent.Run(ctx, tree, agent.Task{}); err != nil {
			t.Fatal(err)
		}
		o := live.Outline(tree)
		return fmt.Sprint(o.State, " ", o.Children[0].State, " ", o.Children[0].Reason, " ", o.Children[1].State)
	}
	check(t, stands(), "done failed declined: closed done")
	open = true
	check(t, stands(), "done done  ")
}

// Words that stopped the robot change nothing that a workflow waits for.
func TestWatchLeavesWhatWasTaken(t *testing.T) {
	b := bus.New(bus.Options{})
	defer b.Close(context.Background())
	if _, err := b.Urgent("voice/utterance", func(e bus.Event) bool { return e.Payload() == "stop" }, func(bus.Event) {}); err != nil {
		t.Fatal(err)
	}
	n := 0
	watcher, ok := any(workflow.OnBus(b)).(interface {
		Watch(topics []string, changed func()) (stop func())
	})
	if !ok {
		t.Fatal("nobody watches the bus")
	}
	defer watcher.Watch([]string{"voice/#"}, func() { n++ })()
	for _, text := range []string{"stop", "go"} {
		if _, err := b.Publish(t.Context(), "test", "voice/utterance", text); err != nil {
			t.Fatal(err)
		}
	}
	if n != 1 {
		t.Errorf("it was told of %d changes, want one", n)
	}
}
