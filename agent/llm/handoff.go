package llm

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"edged/agent"
	"edged/bus/origin"
)

// MaxDepth is how deep agents may delegate to agents.
const MaxDepth = 8

// A Handoff is returned as the error of a tool that gives the rest of the run
// to another agent. It is done after all other calls of the same answer.
type Handoff struct {
	Target   agent.Agent
	State    map[string]any // written by [Options.Update] before the target runs
	Parallel []agent.Agent  // do the same task beside the target
}

// maxRole bounds, in bytes, what an agent says that it is: one of another robot
// may say much.
const maxRole = 300

func (h *Handoff) Error() string { return "hand over to " + h.Target.Name() }

func handoffTool(to agent.Agent) Tool {
	doc := "Hand the conversation over to " + Line(to.Name()) + "."
	if r, ok := to.(interface{ Role() string }); ok && r.Role() != "" {
		doc = "Hand the conversation over to " + Line(to.Name()) + ": " + Line(clip(r.Role(), maxRole))
	}
	return Tool{
		Name: "handoff_to_" + toolName(to.Name()),
		Doc:  doc,
		Params: json.RawMessage(`{"type":"object","properties":{"reason":{"type":"string","maxLength":200,` +
			`"description":"why"}},"additionalProperties":false}`),
	}
}

// toolName makes a name of the characters that tools may have.
func toolName(s string) string {
	return strings.Map(func(r rune) rune {
		if validName(string(r)) {
			return r
		}
		return '_'
	}, s)
}

// carried is what a run hands to those it delegates to.
type carried struct {
	depth    int
	bars     func() bool // the run's prompt has words that are no orders
	allow    []func(string) bool
	whose    origin.Label // of the dialogue and the notes
	dialogue []Message    // nil = none; the delegate sees it as its own history
	pending  []Message    // of this run so far, after the user's words
	notes    []string
	ledger   *ledger // of the run whose tool this is
}

// ledger counts what delegates of a run spent; tools may run side by side.
type ledger struct {
	mu       sync.Mutex // guards the rest
	usage    agent.Usage
	children []agent.Result
}

func (l *ledger) add(r agent.Result) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.usage = plus(l.usage, r.Usage)
	l.children = append(l.children, r)
}

func plus(a, b agent.Usage) agent.Usage {
	return agent.Usage{Calls: a.Calls + b.Calls, PromptTokens: a.PromptTokens + b.PromptTokens, OutputTokens: a.OutputTokens + b.OutputTokens}
}

type carriedKey struct{}

func carriedBy(ctx context.Context) carried {
	c, _ := ctx.Value(carriedKey{}).(carried)
	return c
}

func (c carried) limited() bool { return len(c.allow) > 0 }

func (c carried) allows(tool string) bool {
	for _, f := range c.allow {
		if !f(tool) {
			return false
		}
	}
	return true
}

// WithDialogue returns a context whose agents see a dialogue as what was said
// before, in place of what they remember themselves. It is for workflows that
// pick an agent to go on with a conversation.
func WithDialogue(ctx context.Context, dialogue []Message) context.Context {
	c := carriedBy(ctx)
	if dialogue == nil {
		dialogue = []Message{}
	}
	c.dialogue, c.pending, c.whose = slices.Clone(dialogue), nil, ""
	for i := range c.dialogue {
		if m := &c.dialogue[i]; m.Origin == "" { // of whoever puts it there
			m.Origin = origin.From(ctx)
		}
	}
	return context.WithValue(ctx, carriedKey{}, c)
}

// Dialogue gives the dialogue that came along with ctx, before the words that
// are being answered; nil if none did. It is read-only.
func Dialogue(ctx context.Context) []Message { return carriedBy(ctx).dialogue }

// Barred reports whether the agent's run that ctx belongs to may act no more:
// words stand in its prompt that are no orders.
func Barred(ctx context.Context) bool {
	c := carriedBy(ctx)
	return c.bars != nil && c.bars()
}

// InTurn reports whether ctx's work is on behalf of a model that waits for it: a
// tool, or what a tool runs.
func InTurn(ctx context.Context) bool { return carriedBy(ctx).depth > 0 }

// Allows reports whether the agents that ctx's work was delegated by may all use
// a tool.
func Allows(ctx context.Context, tool string) bool { return carriedBy(ctx).allows(tool) }

// carry is what goes along from this run.
func (t *turn) carry() carried {
	c := carried{depth: t.from.depth + 1, bars: t.barred, allow: t.from.allow}
	if t.a.o.Allow != nil {
		c.allow = append(slices.Clip(c.allow), t.a.o.Allow)
	}
	return c
}

// delegate is the context of a tool: agents that it runs are limited like this
// run, start without its dialogue, and don't speak for it.
func (t *turn) delegate(ctx context.Context) context.Context {
	if agent.Listening(ctx) {
		ctx = agent.WithSay(ctx, nil)
	}
	c := t.carry()
	c.ledger = &t.ledger
	return context.WithValue(ctx, carriedKey{}, c)
}

// handOver lets others finish the run: they see the dialogue so far, and their
// outcome is the run's. More than one answer in turn, each seeing what was said
// before.
func (t *turn) handOver(ctx context.Context, list []Handoff) (agent.Result, error) {
	if t.from.depth+1 > MaxDepth {
		return agent.Result{}, fmt.Errorf("%w: handed over more than %d times", agent.ErrFailed, MaxDepth)
	}
	t.handed = true
	var whole agent.Result
	var replies []string
	c := t.carry()
	c.whose = t.Origin()
	c.dialogue = slices.Clip(t.history)
	if c.dialogue == nil {
		c.dialogue = []Message{}
	}
	c.pending = wellFormed(t.msgs)[1:]
	for i, h := range list {
		if len(h.State) > 0 {
			if t.a.o.Update == nil {
				return whole, fmt.Errorf("%w: nobody takes the state of a handoff to %s", agent.ErrFailed, h.Target.Name())
			}
			if err := t.a.o.Update(ctx, h.State); err != nil {
				return whole, fmt.Errorf("%w: state of a handoff: %w", agent.ErrFailed, err)
			}
		}
		results, err := t.targets(ctx, c, h)
		for _, r := range results {
			whole.Children = append(whole.Children, r)
			whole.Receipts = append(whole.Receipts, r.Receipts...)
			whole.Usage = plus(whole.Usage, r.Usage)
			t.scope.Raise(r.Origin)
			c.whose = t.Origin()
			if r.Reply != "" {
				replies = append(replies, r.Reply)
				c.notes = append(slices.Clip(c.notes), Line(r.By)+" has already answered: "+Data(clip(r.Reply, 300)))
			}
		}
		if i == 0 {
			whole.By, whole.Output = results[0].By, results[0].Output
		}
		whole.Reply = strings.Join(replies, "\n")
		if err != nil {
			whole.Status = agent.StatusOf(err)
			return whole, err
		}
	}
	return whole, nil
}

// targets runs a handoff's agents; the first error counts.
func (t *turn) targets(ctx context.Context, c carried, h Handoff) ([]agent.Result, error) {
	all := append([]agent.Agent{h.Target}, h.Parallel...)
	results, errs := make([]agent.Result, len(all)), make([]error, len(all))
	tctx := context.WithValue(ctx, carriedKey{}, c)
	loud := agent.Listening(ctx) && len(all) == 1 && !t.hooks.whole
	if !loud {
		tctx = agent.WithSay(tctx, nil)
	}
	var fs []func()
	for i, a := range all {
		fs = append(fs, func() { results[i], errs[i] = agent.Run(tctx, a, t.Task) })
	}
	if t.a.o.Together != nil && len(fs) > 1 {
		t.a.o.Together(fs)
	} else {
		for _, f := range fs {
			f()
		}
	}
	t.spoke = loud
	for _, err := range errs {
		if err != nil {
			return results, err
		}
	}
	return results, nil
}

// AsTool makes a tool of an agent: it gets one task in words and gives its
// reply. It is limited like the run that calls it, and starts without its
// dialogue.
func AsTool(a agent.Agent, name, doc string) Tool {
	if name == "" {
		name = toolName(a.Name())
	}
	if doc == "" {
		doc = "Let " + Line(a.Name()) + " do a task."
		if r, ok := a.(interface{ Role() string }); ok && r.Role() != "" {
			doc = "Let " + Line(a.Name()) + " do a task: " + Line(clip(r.Role(), maxRole))
		}
	}
	return Tool{
		Name: name,
		Doc:  doc,
		Params: json.RawMessage(`{"type":"object","properties":{"task":{"type":"string","maxLength":600,` +
			`"description":"all that must be known, in one or two sentences"}},"required":["task"],"additionalProperties":false}`),
		Do: func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
			var in struct{ Task string }
			if err := json.Unmarshal(args, &in); err != nil {
				return nil, err
			}
			c := carriedBy(ctx)
			if c.depth > MaxDepth {
				return nil, fmt.Errorf("agents delegate at most %d deep", MaxDepth)
			}
			r, err := agent.Run(ctx, a, agent.Task{Input: Line(in.Task), Origin: origin.From(ctx)})
			origin.Raise(ctx, r.Origin)
			c.ledger.add(r)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", a.Name(), r.Status, err)
			}
			if r.Output != nil {
				return json.Marshal(r.Output)
			}
			return json.Marshal(r.Reply)
		},
	}
}

// Spawn runs a task in a helper of an agent's making: the same model, role,
// limits and hooks, no conversation, and only the tools given here.
func Spawn(ctx context.Context, a *Agent, t agent.Task, tools []Tool) (agent.Result, error) {
	o := a.o
	o.Name += ".sub"
	o.Tools, o.Handoffs, o.Output = tools, nil, nil
	o.Session, o.Sessions = Fresh, nil
	sub, err := New(o)
	if err != nil {
		return agent.Result{}, fmt.Errorf("%w: %w", agent.ErrFailed, err)
	}
	c := carriedBy(ctx)
	if c.depth++; c.depth > MaxDepth {
		return agent.Result{}, fmt.Errorf("%w: agents delegate at most %d deep", agent.ErrFailed, MaxDepth)
	}
	c.dialogue, c.pending, c.notes, c.whose = nil, nil, nil, ""
	r, err := agent.Run(context.WithValue(ctx, carriedKey{}, c), sub, t)
	origin.Raise(ctx, r.Origin)
	c.ledger.add(r)
	return r, err
}
