package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"edged/agent"
	"edged/agent/llm"
	"edged/bus/origin"
)

// OrchestratorOptions of an [Orchestrator].
type OrchestratorOptions struct {
	Options
	Lead         Decider // who plans
	Instructions string  // for the lead alone; workers don't get them
	History      func(ctx context.Context, t agent.Task) []llm.Message
	Tools        []llm.Tool
	MaxSubtasks  int // 0 is 4
	// Worker makes the agent of one subtask, with exactly these tools.
	Worker func(name string, tools []llm.Tool) agent.Agent
	// Synth makes one answer of the subtasks' answers; it is not asked if
	// there was one only. nil joins them, a line each.
	Synth agent.Agent
	// MaxConcurrency bounds how many subtasks run at a time; 0 is all. Those
	// with a tool that writes run one after the other, in the plan's order.
	MaxConcurrency int
}

// An Orchestrator lets a model plan subtasks, each with the tools it needs,
// has them done by agents that have no others, and makes one answer of theirs.
// It is done if at least one subtask is.
type Orchestrator struct {
	node
	opt OrchestratorOptions
}

var _ agent.Agent = (*Orchestrator)(nil)

// NewOrchestrator makes an orchestrator.
func NewOrchestrator(name string, o OrchestratorOptions) *Orchestrator {
	if o.MaxSubtasks <= 0 {
		o.MaxSubtasks = 4
	}
	n := node{name: name, kind: "orchestrator", opt: o.Options, detail: fmt.Sprintf("at most %d subtasks", o.MaxSubtasks)}
	if o.Synth != nil {
		n.children, n.labels = []agent.Agent{o.Synth}, []string{"synth"}
	}
	return &Orchestrator{n, o}
}

// Run plans, has the plan done, and answers.
func (b *Orchestrator) Run(ctx context.Context, t agent.Task) (agent.Result, error) {
	return run(ctx, b, t)
}

// Subtask is a part of a plan.
type Subtask struct {
	Task  string   `json:"task"`
	Tools []string `json:"tools"`
}

func (b *Orchestrator) body(ctx context.Context, f *frame, t agent.Task) (agent.Result, error) {
	out := agent.Result{By: b.name}
	if b.opt.Lead == nil || b.opt.Worker == nil {
		return out, fmt.Errorf("%w: %s has no lead or no workers", agent.ErrFailed, b.name)
	}
	plan, err := decide(f, "plan", func() ([]Subtask, error) { return b.plan(ctx, t, &out.Usage) })
	if err != nil {
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		return out, fmt.Errorf("%w: %w", agent.ErrFailed, noStatus{err})
	}
	out.Children, err = b.work(ctx, f, t, plan)
	var replies, missing []string
	out.Origin = t.Origin
	for i, r := range out.Children {
		add(&out.Usage, r)
		out.Origin = origin.Merge(out.Origin, r.Origin)
		if r.OK() {
			replies = append(replies, next(t, r).Text())
		} else {
			missing = append(missing, fmt.Sprintf("%s: %s: %s", plan[i].Task, r.Status, r.Reason))
		}
	}
	switch {
	case ctx.Err() != nil:
		return out, ctx.Err()
	case err != nil:
		return out, err
	case len(replies) == 0:
		return out, fmt.Errorf("%w: no subtask is done; %s", agent.ErrFailed, strings.Join(missing, "; "))
	case b.opt.Synth == nil || len(plan) == 1:
		out.Reply = strings.Join(replies, "\n")
		return out, nil
	}
	r, err := f.step(ctx, 0, 0, b.opt.Synth, agent.Task{Input: summary(t, plan, out.Children), Origin: out.Origin, Conversation: t.Conversation})
	add(&out.Usage, r)
	r.Children, r.Usage, r.Origin = append(out.Children, r), out.Usage, origin.Merge(r.Origin, out.Origin)
	return r, err
}

// summary is what the synthesis is asked.
func summary(t agent.Task, plan []Subtask, results []agent.Result) string {
	var s strings.Builder
	fmt.Fprintf(&s, "Answer this from the results below, and say what could not be done: %s\n", t.Text())
	for i, r := range results {
		if r.OK() {
			fmt.Fprintf(&s, "\n%s\n%s\n", llm.Line(plan[i].Task), llm.Data(next(t, r).Text()))
		} else {
			fmt.Fprintf(&s, "\n%s\nnot done: %s\n", llm.Line(plan[i].Task), llm.Data(r.Reason))
		}
	}
	return s.String()
}

func (b *Orchestrator) plan(ctx context.Context, t agent.Task, used *agent.Usage) ([]Subtask, error) {
	var names []string
	var list strings.Builder
	for _, tool := range b.opt.Tools {
		names = append(names, tool.Name)
		doc, _, _ := strings.Cut(tool.Doc, "\n")
		fmt.Fprintf(&list, "- %s: %s\n", tool.Name, llm.Line(doc))
	}
	system := fmt.Sprintf("Divide the task into 1 to %d subtasks that don't depend on each other. Name for each the tools it needs, if any.\n%s",
		b.opt.MaxSubtasks, list.String())
	if b.opt.Instructions != "" {
		system = b.opt.Instructions + "\n\n" + system
	}
	tools := map[string]any{"type": "array", "items": text(40), "maxItems": 0}
	if len(names) > 0 {
		tools["items"], tools["maxItems"] = enum(names), min(len(names), 4)
	}
	item := object("task", text(maxTask), "tools", tools)
	q := Question{Node: b.name, System: system, Task: t.Text(), Origin: t.Origin,
		Schema: object("reason", text(200), "subtasks", map[string]any{"type": "array", "items": item, "maxItems": b.opt.MaxSubtasks})}
	if b.opt.History != nil {
		q.History = b.opt.History(ctx, t)
	}
	return consult(ctx, b.opt.Lead, q, used, func(answer json.RawMessage) ([]Subtask, error) {
		var v struct{ Subtasks []Subtask }
		if err := readJSON(answer, &v); err != nil {
			return nil, err
		}
		if n := len(v.Subtasks); n == 0 || n > b.opt.MaxSubtasks {
			return nil, fmt.Errorf("there are %d subtasks, 1 to %d are allowed", n, b.opt.MaxSubtasks)
		}
		for i, s := range v.Subtasks {
			if strings.TrimSpace(s.Task) == "" {
				return nil, fmt.Errorf("subtask %d is empty", i+1)
			}
			for _, name := range s.Tools {
				if !slices.Contains(names, name) {
					return nil, fmt.Errorf("there is no tool %q", name)
				}
			}
		}
		return v.Subtasks, nil
	})
}

// worker makes the agent of a subtask; it says whether it writes.
func (b *Orchestrator) worker(i int, s Subtask) *Step {
	var tools []llm.Tool
	effect := llm.Read
	for _, t := range b.opt.Tools {
		if slices.Contains(s.Tools, t.Name) {
			tools = append(tools, t)
			if t.Effect == llm.Write {
				effect = llm.Write
			}
		}
	}
	return NewStep(b.opt.Worker(fmt.Sprintf("%s.%d", b.name, i+1), tools), Options{Effect: effect})
}

// work has all subtasks done; the error is one that nothing may go on after.
func (b *Orchestrator) work(ctx context.Context, f *frame, t agent.Task, plan []Subtask) ([]agent.Result, error) {
	work, cancel := context.WithCancel(mute(ctx))
	defer cancel()
	most := b.opt.MaxConcurrency
	if most <= 0 {
		most = len(plan)
	}
	results := make([]agent.Result, len(plan))
	agents := make([]*Step, len(plan))
	var reads, writes []int
	for i, s := range plan {
		agents[i] = b.worker(i, s)
		if agents[i].opt.Effect == llm.Write {
			writes = append(writes, i)
		} else {
			reads = append(reads, i)
		}
	}
	w := newWorkers(f, len(plan))
	running, writing := 0, false
	start := func(i int) {
		sub := agent.Task{Input: llm.Line(plan[i].Task), Origin: t.Origin}
		w.start(work, outcome{i: 1 + i}, agents[i], sub) // place 0 is the synthesis
		running++
	}
	var stop error
	for {
		if len(writes) > 0 && !writing && running < most {
			start(writes[0])
			writes, writing = writes[1:], true
		}
		for len(reads) > 0 && running < most {
			start(reads[0])
			reads = reads[1:]
		}
		if running == 0 {
			return results, stop
		}
		o := <-w.ended // they end when ctx does
		running--
		i := o.i - 1
		results[i] = o.r
		if agents[i].opt.Effect == llm.Write {
			writing = false
		}
		if stop == nil && final(ctx, o.r, o.err) && !errors.Is(o.err, agent.ErrExit) {
			stop = o.err
			w.lost.Store(unsettled(o.err))
			cancel()
		}
	}
}
