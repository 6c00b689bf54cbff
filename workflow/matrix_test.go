package workflow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"edged/agent"
	"edged/agent/llm"
	"edged/workflow"
	"edged/workflow/workflowtest"
)

// world is a blackboard of switches that guards read.
type world struct {
	mu       sync.Mutex // guards the rest
	is       map[string]bool
	watching map[int]func(topic string)
	n        int
	asked    int
}

func newWorld(is ...string) *world {
	w := &world{is: map[string]bool{}, watching: map[int]func(string){}}
	for _, s := range is {
		w.is[s] = true
	}
	return w
}

func (w *world) Watch(topics []string, changed func()) func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n++
	id := w.n
	w.watching[id] = func(topic string) {
		for _, t := range topics {
			if t == topic {
				changed()
			}
		}
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.watching, id)
	}
}

func (w *world) set(key string, v bool) {
	w.mu.Lock()
	w.is[key] = v
	var tell []func(string)
	for _, f := range w.watching {
		tell = append(tell, f)
	}
	w.mu.Unlock()
	for _, f := range tell {
		f("board/" + key)
	}
}

func (w *world) get(ctx context.Context, key string) (bool, error) {
	workflow.Read(ctx, "board/"+key)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	return w.is[key], nil
}

func (w *world) questions() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked
}

func (w *world) guard(key string) *workflow.Guard {
	return &workflow.Guard{Name: key, Check: func(ctx context.Context) (bool, error) { return w.get(ctx, key) }}
}

// decider answers with fixed texts, one after the other, the last one again.
type decider []string

func (d *decider) Decide(ctx context.Context, q workflow.Question) (json.RawMessage, error) {
	s := (*d)[0]
	if len(*d) > 1 {
		*d = (*d)[1:]
	}
	return json.RawMessage(s), ctx.Err()
}

// tried is a child that behaves in one way, after a second.
func tried(how string) agent.Agent {
	switch how {
	case "guard", "stop":
		how = "slow"
	case "", "done":
		how = "ok"
	}
	return workflowtest.Behave(how)
}

// nodes makes every kind of node around a child; b is a second one that is
// always done.
func nodes(c, b agent.Agent, o workflow.Options) map[string]agent.Agent {
	route := []workflow.Route{{Name: "r", Agent: c}}
	worker := workflow.OrchestratorOptions{Options: o, Lead: &decider{`{"reason":"","subtasks":[{"task":"x","tools":[]}]}`},
		Worker: func(string, []llm.Tool) agent.Agent { return c }}
	lead := &decider{`{"worker":"r","task":"x"}`, `{"worker":"finish","reply":"all right"}`}
	return map[string]agent.Agent{
		"sequence":     workflow.NewSequence("n", workflow.SequenceOptions{Options: o}, c, b),
		"reactive seq": workflow.NewSequence("n", workflow.SequenceOptions{Options: o, Reactive: true}, c, b),
		"fallback":     workflow.NewFallback("n", workflow.FallbackOptions{Options: o}, c, b),
		"reactive fb":  workflow.NewFallback("n", workflow.FallbackOptions{Options: o, Reactive: true}, c, b),
		"loop":         workflow.NewLoop("n", workflow.LoopOptions{Options: o, MaxIterations: 2}, c),
		"router":       workflow.NewRouter("n", workflow.RouterOptions{Options: o, Lead: &decider{`{"route":"r"}`}, Default: b}, route...),
		"parallel":     workflow.NewParallel("n", workflow.ParallelOptions{Options: o, Reduce: count}, c, b),
		"one of":       workflow.NewParallel("n", workflow.ParallelOptions{Options: o, Need: 1}, c),
		"retry":        workflow.NewRetry("n", workflow.RetryOptions{Options: o, MaxAttempts: 2}, c),
		"timeout":      workflow.NewTimeout("n", workflow.TimeoutOptions{Options: o}, 10*time.Second, c),
		"invert":       workflow.NewInvert("n", o, c),
		"repeat":       workflow.NewRepeat("n", o, 2, c),
		"once":         workflow.NewRunOnce("n", o, c),
		"delay":        workflow.NewDelay("n", o, time.Second, c),
		"switch":       workflow.NewSwitch("n", workflow.SwitchOptions{Options: o, Value: func(context.Context, workflow.View) (string, error) { return "r", nil }}, route...),
		"supervisor":   workflow.NewSupervisor("n", workflow.SupervisorOptions{Options: o, Lead: lead}, route...),
		"orchestrator": workflow.NewOrchestrator("n", worker),
		"step":         workflow.NewStep(c, o),
		"tick":         workflow.NewTick("n", o, 30*time.Millisecond, c),
	}
}

func count(_ context.Context, results []agent.Result) (agent.Result, error) {
	return agent.Result{Reply: fmt.Sprint(len(results))}, nil
}

// behaviours are the columns of the matrix.
var behaviours = []string{"done", "declines", "fails", "panics", "timeout", "cancelled", "guard", "stop"}

// matrix has the exact outcome of every node for every behaviour: status, reply
// or reason, and after how many seconds.
var matrix = map[string][]string{
	"sequence": {"done b:ok 1s", "failed declined: no arm 1s", "failed broken 1s",
		"failed panic: oh 1s", "timeout server 1s",
		"cancelled by hand 1s", "cancelled guard safe 1.5s", "cancelled context canceled 1.5s"},
	"reactive seq": {"done b:ok 1s", "failed declined: no arm 1s", "failed broken 1s",
		"failed panic: oh 1s", "timeout server 1s",
		"cancelled by hand 1s", "cancelled guard safe 1.5s", "cancelled context canceled 1.5s"},
	"fallback": {"done ok 1s", "done b:x 1s", "done b:x 1s", "done b:x 1s", "done b:x 1s",
		"cancelled by hand 1s", "cancelled guard safe 1.5s", "cancelled context canceled 1.5s"},
	"reactive fb": {"done ok 1s", "done b:x 1s", "done b:x 1s", "done b:x 1s", "done b:x 1s",
		"cancelled by hand 1s", "cancelled guard safe 1.5s", "cancelled context canceled 1.5s"},
	"loop": {"done ok 1s", "failed max_iterations 2s", "failed max_iterations 2s", "failed max_iterations 2s", "failed max_iterations 2s",
		"cancelled by hand 1s", "cancelled guard safe 1.5s", "cancelled context canceled 1.5s"},
	"router": {"done ok 1s", "failed declined: no arm 1s", "failed broken 1s",
		"failed panic: oh 1s", "timeout server 1s",
		"cancelled by hand 1s", "cancelled guard safe 1.5s", "cancelled context canceled 1.5s"},
	"parallel": {"done 2 1s", "failed 1 of 2 needed are done; c: failed declined: no arm 1s", "failed 1 of 2 needed are done; c: failed broken 1s", "failed 1 of 2 needed are done; c: failed panic: oh 1s", "timeout 1 of 2 needed are done; c: timeout 1s", "failed 1 of 2 needed are done; c: cancelled by hand 1s", "cancelled guard safe 1.5s", "cancelled context canceled 1.5s"},
	"one of":   {"done ok 1s", "failed 0 of 1 needed are done; c: failed declined: no arm 1s", "failed 0 of 1 needed are done; c: failed broken 1s", "failed 0 of 1 needed are done; c: failed panic: oh 1s", "timeout 0 of 1 needed are done; c: timeout 1s", "failed 0 of 1 needed are done; c: cancelled by hand 1s", "cancelled guard safe 1.5s", "cancelled context canceled 1.5s"},
	"retry": {"done ok 1s", "failed declined: no arm 2.2s", "failed broken 2.2s",
		"failed panic: oh 2.2s", "timeout server 2.2s",
		"cancelled by hand 1s", "cancelled guard safe 1.5s", "cancelled context canceled 1.5s"},
	"timeout": {"done ok 1s", "failed declined: no arm 1s", "failed broken 1s",
		"failed panic: oh 1s", "timeout server 1s",
		"cancelled by hand 1s", "cancelled guard safe 1.5s", "cancelled context canceled 1.5s"},
	"invert": {"failed c is done 1s", "done 1s", "done 1s",
		"failed panic: oh 1s", "timeout server 1s",
		"cancelled by hand 1s", "cancelled guard safe 1.5s", "cancelled context canceled 1.5s"},
	"repeat": {"done ok 2s", "failed declined: no arm 1s", "failed broken 1s",
		"failed panic: oh 1s", "timeout server 1s",
		"cancelled by hand 1s", "cancelled guard safe 1.5s", "cancelled context canceled 1.5s"},
	"once": {"done ok 1s", "failed declined: no arm 1s", "failed broken 1s",
		"failed panic: oh 1s", "timeout server 1s",
		"cancelled by hand 1s", "cancelled guard safe 1.5s", "cancelled context canceled 1.5s"},
	"delay": {"done ok 2s", "failed declined: no arm 2s", "failed broken 2s",
		"failed panic: oh 2s", "timeout server 2s",
		"cancelled by hand 2s", "cancelled guard safe 1.5s", "cancelled context canceled 1.5s"},
	"switch": {"done ok 1s", "failed declined: no arm 1s", "failed broken 1s",
		"failed panic: oh 1s", "timeout server 1s",
		"cancelled by hand 1s", "cancelled guard safe 1.5s", "cancelled context canceled 1.5s"},
	"supervisor": {"done all right 1s", "done all right 1s", "done all right 1s", "done all right 1s", "done all right 1s",
		"cancelled by hand 1s", "cancelled guard safe 1.5s", "cancelled context canceled 1.5s"},
	"orchestrator": {"done ok 1s", "failed no subtask is done; x: failed: declined: no arm 1s", "failed no subtask is done; x: failed: broken 1s", "failed no subtask is done; x: failed: panic: oh 1s", "failed no subtask is done; x: timeout: server 1s",
		"cancelled by hand 1s", "cancelled guard safe 1.5s", "cancelled context canceled 1.5s"},
	"step": {"done ok 1s", "failed declined: no arm 1s", "failed broken 1s",
		"failed panic: oh 1s", "timeout server 1s",
		"cancelled by hand 1s", "cancelled guard safe 1.5s", "cancelled context canceled 1.5s"},
	"tick": {"done 1.02s", "failed declined: no arm 1.02s", "failed broken 1.02s",
		"failed panic: oh 1.02s", "failed timeout: server 1.02s", "failed cancelled: by hand 1.02s", "cancelled guard safe 1.5s", "cancelled context canceled 1.5s"},
}

func TestMatrix(t *testing.T) {
	for kind := range nodes(tried(""), child("b", 0, nil), workflow.Options{}) {
		var row []string
		for _, how := range behaviours {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld("safe")
				halts := 0
				o := workflow.Options{Guard: w.guard("safe"), OnHalt: func(context.Context, string) error { halts++; return nil }}
				ctx, cancel := context.WithCancel(workflow.WithRuntime(t.Context(), workflow.Runtime{Watcher: w, Trace: workflow.NewLive()}))
				defer cancel()
				time.AfterFunc(1500*time.Millisecond, func() {
					switch how {
					case "guard":
						w.set("safe", false)
					case "stop":
						cancel()
					}
				})
				n := nodes(tried(how), child("b", 0, nil), o)[kind]
				r, err := agent.Run(ctx, n, agent.Task{Input: "x", Origin: "test"})
				if r.OK() != (err == nil) || agent.StatusOf(err) != r.Status {
					t.Errorf("%s, child %s: got %q with error %v", kind, how, r.Status, err)
				}
				if ended := how == "guard" || how == "stop"; ended != (halts == 1) {
					t.Errorf("%s, child %s: on_halt ran %d times", kind, how, halts)
				}
				if len(w.watching) != 0 {
					t.Errorf("%s, child %s: %d watches are left", kind, how, len(w.watching))
				}
				said := r.Reply
				if !r.OK() {
					said = r.Reason
				}
				row = append(row, strings.Join(strings.Fields(fmt.Sprint(r.Status, " ", said, " ", r.Elapsed)), " "))
			})
		}
		if got, want := strings.Join(row, "\n"), strings.Join(matrix[kind], "\n"); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", kind, got, want)
		}
	}
}
