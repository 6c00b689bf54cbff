package graph_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"edged/agent"
	"edged/agent/llm/recall"
	"edged/workflow"
	"edged/workflow/graph"
	"edged/workflow/workflowtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// diary notes which nodes ran, in which order, with what they were given.
type diary struct {
	mu   sync.Mutex // guards list
	list []string
}

func (d *diary) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = append(d.list, fmt.Sprintf(format, args...))
}

func (d *diary) String() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.list, ", ")
}

// sorted is for branches that run side by side.
func (d *diary) sorted() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(slices.Sorted(slices.Values(d.list)), ", ")
}

// faults gives the errors of a graph as one, or nil.
func faults(g *graph.Graph) error {
	var errs []error
	for _, p := range g.Check() {
		if p.Severity == graph.Error {
			errs = append(errs, errors.New(p.Text))
		}
	}
	return errors.Join(errs...)
}

func textOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return strings.ReplaceAll(string(b), `"`, "'")
}

// says is an agent that notes its input and answers with its name.
func (d *diary) says(name string) agent.Agent { return d.gives(name, nil) }

func (d *diary) gives(name string, out any) agent.Agent {
	return agent.Func(name, func(ctx context.Context, t agent.Task) (agent.Result, error) {
		d.note("%s(%s)", name, t.Text())
		if out == nil {
			return agent.Result{Reply: name}, ctx.Err()
		}
		return agent.Result{Output: out}, ctx.Err()
	})
}

func check(t *testing.T, got any, want string) {
	t.Helper()
	if s := fmt.Sprint(got); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
}

func outcomeOf(r agent.Result) string {
	if r.OK() {
		return "done " + r.Reply
	}
	return string(r.Status) + " " + r.Reason
}

// ranIn lists the nodes whose outcomes are in a result.
func ranIn(r agent.Result) string {
	var list []string
	for _, c := range r.Children {
		s := c.By
		if !c.OK() {
			s += " " + string(c.Status)
		}
		list = append(list, s)
	}
	return strings.Join(list, ", ")
}

func run(t *testing.T, g *graph.Graph, input any) agent.Result {
	t.Helper()
	r, err := agent.Run(t.Context(), g, agent.Task{Input: input, Origin: "test"})
	if r.OK() != (err == nil) {
		t.Errorf("status %s with error %v", r.Status, err)
	}
	return r
}

// line makes a graph of nodes one after the other.
func line(g *graph.Graph, ids ...string) *graph.Graph {
	from := graph.Start
	for _, id := range ids {
		g.Edge(from, id)
		from = id
	}
	g.Edge(from, graph.End)
	return g
}

func node(g *graph.Graph, agents ...agent.Agent) {
	for _, a := range agents {
		g.Node(a.Name(), a, graph.NodeOptions{})
	}
}

func to(name string) func(context.Context, graph.State) (string, error) {
	return func(context.Context, graph.State) (string, error) { return name, nil }
}

func recallOptions() recall.Options { return recall.Options{} }

func on(ctx context.Context, d *workflowtest.Disk) (context.Context, *workflow.Runs) {
	runs := workflow.NewRuns(d, workflow.RunsOptions{})
	return workflow.WithRuntime(ctx, workflow.Runtime{Runs: runs}), runs
}
