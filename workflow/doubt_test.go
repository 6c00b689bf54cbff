package workflow_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"edged/agent"
	"edged/agent/llm"
	"edged/workflow"
	"edged/workflow/workflowtest"
)

// A step in doubt stops those beside it, and how they end then is no outcome:
// when the doubt is settled they are run again, wherever in them they were.
func TestBesideAStepInDoubt(t *testing.T) {
	slow := func(context.Context, workflow.Doubt) (workflow.Decision, error) {
		time.Sleep(time.Second)
		return workflow.AskPerson, nil
	}
	grasp := func(d *diary) agent.Agent {
		return workflow.NewStep(d.long("grasp", time.Second), workflow.Options{Effect: llm.Write, OnInDoubt: slow})
	}
	for name, node := range map[string]func(d *diary) agent.Agent{
		"parallel": func(d *diary) agent.Agent {
			return workflow.NewParallel("both", workflow.ParallelOptions{}, grasp(d),
				workflow.NewSequence("deep", workflow.SequenceOptions{}, d.long("first", 0), workflow.NewRetry("", workflow.RetryOptions{Backoff: -1}, d.long("look", time.Minute))))
		},
		"enough": func(d *diary) agent.Agent { // the doubt stops it although one of them would do
			return workflow.NewParallel("one", workflow.ParallelOptions{Need: 1}, grasp(d), d.long("look", time.Minute))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &diary{}
				tree := workflow.NewSequence("s", workflow.SequenceOptions{Options: workflow.Options{Checkpoint: true}}, node(d))
				before := workflowtest.NewDisk()
				ctx, _ := runtimeOn(t.Context(), before)
				dead, cancel := context.WithTimeout(ctx, time.Second/2) // the power goes while it grasps
				defer cancel()
				before.Power = cancel
				_, _ = agent.Run(dead, tree, agent.Task{})

				d.lines = nil
				ctx, runs := runtimeOn(t.Context(), before.Reboot())
				id := runs.List()[0].ID
				r, _ := runs.Resume(ctx, id, tree)
				if info, _ := runs.Get(id); r.Status != agent.Escalated || info.State != workflow.StateInDoubt {
					t.Errorf("got %s, and the run is %s", outcomeOf(r), info.State)
				}
				for _, s := range mustSteps(t, runs, id) {
					if strings.Contains(s, "cancelled") {
						t.Errorf("a step was cancelled for a doubt and is recorded as over: %s", s)
					}
				}
				check(t, d, "look starts, look stops")
				d.lines = nil
				doubt := stepInDoubt(t, runs, id)
				if err := runs.Decide(ctx, id, doubt, workflow.TakeAsDone, agent.Result{}); err != nil {
					t.Fatal(err)
				}
				r, err := runs.Resume(ctx, id, tree)
				if !r.OK() {
					t.Errorf("got %s, %v", outcomeOf(r), err)
				}
				if name == "parallel" {
					check(t, d, "look starts, look done")
				}
			})
		})
	}
}

func mustSteps(t *testing.T, runs *workflow.Runs, id string) (list []string) {
	t.Helper()
	info, err := runs.Get(id)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range info.Steps {
		list = append(list, fmt.Sprint(s.Path, " ", s.Name, " ", s.State))
	}
	return list
}

func stepInDoubt(t *testing.T, runs *workflow.Runs, id string) string {
	t.Helper()
	for _, s := range mustSteps(t, runs, id) {
		if path, _, _ := strings.Cut(s, " "); strings.HasSuffix(s, " "+workflow.StateInDoubt) {
			return path
		}
	}
	t.Fatal("no step is in doubt")
	return ""
}

// What hinders a run is told until it is under way again.
func TestHinderedRuns(t *testing.T) {
	ctx, runs := runtimeOn(t.Context(), workflowtest.NewDisk())
	stop, cancel := context.WithCancel(ctx)
	var during workflow.RunInfo
	look := agent.Func("look", func(ctx context.Context, _ agent.Task) (agent.Result, error) {
		during = runs.List()[0]
		if cancel(); ctx.Err() != nil {
			return agent.Result{}, ctx.Err()
		}
		return agent.Result{}, agent.ErrEscalated
	})
	tree := workflow.NewSequence("s", workflow.SequenceOptions{Options: workflow.Options{Checkpoint: true}}, look)
	_, _ = agent.Run(stop, tree, agent.Task{})
	id := runs.List()[0].ID
	if err := runs.Hinder(ctx, id, "s has changed"); err != nil {
		t.Fatal(err)
	}
	check(t, runs.List()[0].State+" "+runs.List()[0].Reason, "interrupted s has changed")
	_, _ = runs.Resume(ctx, id, tree)
	check(t, during.State+" "+during.Reason, "running ")
	if err := runs.Hinder(ctx, id, "again"); err == nil {
		t.Error("a run that is over was hindered")
	}
}
