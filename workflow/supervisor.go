package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"edged/agent"
	"edged/agent/llm"
	"edged/bus/origin"
)

// SupervisorOptions of a [Supervisor].
type SupervisorOptions struct {
	Options
	Lead          Decider // who dispatches
	Instructions  string
	History       func(ctx context.Context, t agent.Task) []llm.Message
	MaxDispatches int // 0 is 4
}

// A Supervisor is a model that leads: it gives tasks to workers, one at a
// time, sees what they answer, and ends with an answer of its own. It can't
// answer before it has dispatched. (A supervisor of processes is another
// thing: package background has it.)
type Supervisor struct {
	node
	opt     SupervisorOptions
	workers []Route
}

var _ agent.Agent = (*Supervisor)(nil)

// NewSupervisor makes a supervisor of the workers.
func NewSupervisor(name string, o SupervisorOptions, workers ...Route) *Supervisor {
	if o.MaxDispatches <= 0 {
		o.MaxDispatches = 4
	}
	n := node{name: name, kind: "supervisor", opt: o.Options, detail: fmt.Sprintf("at most %d tasks", o.MaxDispatches)}
	n.children, n.labels = branches(workers, nil)
	return &Supervisor{n, o, workers}
}

// Run lets the lead dispatch until it answers.
func (b *Supervisor) Run(ctx context.Context, t agent.Task) (agent.Result, error) {
	return run(ctx, b, t)
}

// order is what a lead says in one round.
type order struct {
	Worker string `json:"worker"`
	Task   string `json:"task"`
	Reply  string `json:"reply"`
}

const (
	finish  = "finish"
	maxTask = 400
)

func (b *Supervisor) body(ctx context.Context, f *frame, t agent.Task) (agent.Result, error) {
	out := agent.Result{By: b.name}
	switch {
	case len(b.workers) == 0:
		return out, b.empty()
	case b.opt.Lead == nil:
		return out, fmt.Errorf("%w: %s has no lead", agent.ErrFailed, b.name)
	case b.find(finish) >= 0:
		return out, fmt.Errorf("%w: no worker of %s can be called %s", agent.ErrFailed, b.name, finish)
	}
	var report strings.Builder
	out.Origin = t.Origin // of what the lead knows
	for n := range b.opt.MaxDispatches + 1 {
		o, err := decide(f, fmt.Sprintf("order~%d", n), func() (order, error) { return b.ask(ctx, t, report.String(), n, &out.Usage) })
		if err != nil {
			if ctx.Err() != nil {
				return out, ctx.Err()
			}
			return out, fmt.Errorf("%w: %w", agent.ErrFailed, noStatus{err})
		}
		if o.Worker == finish {
			out.Reply = o.Reply
			return out, nil
		}
		i := b.find(o.Worker)
		if i < 0 {
			return out, fmt.Errorf("%w: there is no worker %q", agent.ErrFailed, o.Worker)
		}
		r, err := f.step(mute(ctx), i, n, b.children[i], agent.Task{Input: llm.Line(o.Task), Origin: out.Origin, Conversation: t.Conversation})
		add(&out.Usage, r)
		out.Children = append(out.Children, r)
		out.Origin = origin.Merge(out.Origin, r.Origin)
		if final(ctx, r, err) {
			r.Children, r.Usage = out.Children, out.Usage
			return r, err
		}
		fmt.Fprintf(&report, "%s was asked: %s\n", o.Worker, llm.Line(o.Task))
		if r.OK() {
			fmt.Fprintf(&report, "%s answered: %s\n", o.Worker, llm.Data(next(t, r).Text()))
		} else {
			fmt.Fprintf(&report, "%s did not do it: %s: %s\n", o.Worker, r.Status, llm.Data(r.Reason))
		}
	}
	return out, fmt.Errorf("%w: no answer after %d tasks", agent.ErrFailed, b.opt.MaxDispatches)
}

func (b *Supervisor) find(name string) int {
	return slices.IndexFunc(b.workers, func(r Route) bool { return r.Name == name })
}

// ask lets the lead say what is next: in the first round it must dispatch, in
// the last one it must finish.
func (b *Supervisor) ask(ctx context.Context, t agent.Task, report string, n int, used *agent.Usage) (order, error) {
	list, names := menu(b.workers)
	system := "You lead these workers and do nothing yourself. Give one of them one task.\n" + list
	if b.opt.Instructions != "" {
		system = b.opt.Instructions + "\n\n" + system
	}
	system += fmt.Sprintf("When the work is done, worker is %q and reply is the answer to the person.\n", finish)
	task := t.Text()
	if report != "" {
		task += "\n\nDone so far:\n" + report
	}
	switch n {
	case 0:
	case b.opt.MaxDispatches:
		names = []string{finish}
		task += "\nFinish now."
	default:
		names = append(names, finish)
	}
	q := Question{Node: b.name, System: system, Task: task, Origin: t.Origin,
		Schema: object("reason", text(120), "worker", enum(names), "task", text(maxTask), "reply", text(2*maxTask))}
	if b.opt.History != nil {
		q.History = b.opt.History(ctx, t)
	}
	return consult(ctx, b.opt.Lead, q, used, func(answer json.RawMessage) (o order, err error) {
		if err := readJSON(answer, &o); err != nil {
			return o, err
		}
		switch {
		case !slices.Contains(names, o.Worker):
			return o, fmt.Errorf("worker %q is none of %q", o.Worker, names)
		case o.Worker != finish && strings.TrimSpace(o.Task) == "":
			return o, fmt.Errorf("the task for %s is empty", o.Worker)
		}
		return o, nil
	})
}
