package graph

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"edged/agent"
	"edged/agent/llm"
	"edged/bus/origin"
	"edged/workflow"
)

// Pure is the effect of what only computes.
const Pure llm.Effect = "pure"

// Join says when a node with several edges to it runs.
type Join string

// The joins; empty is Any.
const (
	Any Join = "any" // each time an edge fires
	All Join = "all" // once for all arms that were started, when none of them can still come
)

// NodeOptions of a node; the zero value works.
type NodeOptions struct {
	// Writes are the keys that what the node puts out is written to: the
	// whole of it to one, its entries to several. Nil is the node's name.
	Writes     []string
	Effect     llm.Effect // what it does to the world; "" = what the agent says of itself
	Retry      *Retry
	Timeout    time.Duration // of each attempt; 0 = none
	Join       Join
	Guardrails []workflow.Guardrail // of what it puts out, every time it runs
	// Input makes the task of the state; nil: the output of the node before,
	// or of those before by their names where several arms join.
	Input func(ctx context.Context, s State) (any, error)
	// Calls is how often one run of the node asks a model at most; 0 = what
	// the agent says with ModelCalls() int.
	Calls int
}

// Retry says how often a node is tried, and over which outcomes.
type Retry struct {
	MaxAttempts int            // 0 = 3
	Backoff     time.Duration  // before the second attempt, then doubled up to 30 s; 0 = 200 ms, negative = none
	On          []agent.Status // nil = failed and timeout
}

// node is a place of the graph.
type node struct {
	id       string
	at       int
	agent    agent.Agent // nil: Start, and where found capabilities run
	opt      NodeOptions
	function bool
	edge     *edge // that the place belongs to, for found capabilities
	out      []*edge
	timeout  *workflow.Timeout // around agent
}

// runner is what is run for a node.
func (n *node) runner(a agent.Agent) agent.Agent {
	if n.timeout != nil {
		return n.timeout
	}
	return a
}

// function is a node that is a function of the state.
type function struct {
	id string
	fn func(ctx context.Context, s State) (any, error)
}

func (f *function) Name() string { return f.id }

func (f *function) Run(ctx context.Context, _ agent.Task) (agent.Result, error) {
	v, err := f.fn(ctx, StateOf(ctx))
	r := agent.Result{Output: v}
	r.Reply, _ = v.(string)
	return r, err
}

// visit is one run of a node: what a durable run records.
type visit struct {
	g       *Graph
	n       *node
	found   agent.Agent // what discovery found
	sought  string      // and the name that it was found under
	state   State
	durable bool
	step    *step // what came of it, if it was really run
}

// step is what a visit leads to.
type step struct {
	output any
	sets   map[string]any
	cross  []crossing
	other  bool // a guardrail put it in the place of what the node had put out
}

var _ workflow.Effector = (*visit)(nil)

// Name is who does it: the node, or what was found.
func (v *visit) Name() string {
	if v.found != nil {
		return v.found.Name()
	}
	for _, k := range []Kind{ToolKind, SkillKind, Extension} { // it is known by that, too, where two have a name
		if name, ok := strings.CutPrefix(v.sought, string(k)+":"); ok {
			return name
		}
	}
	return cmp.Or(v.sought, v.n.id)
}

// by is whose result it is: what is wrong at the start is wrong with the graph.
func (v *visit) by() string {
	if v.n.at == 0 {
		return v.g.name
	}
	return v.Name()
}

// Kind says what is run.
func (v *visit) Kind() string {
	switch v.n.agent.(type) {
	case nil:
		return "edge"
	case *function:
		return "function"
	case *person:
		return "human"
	case *toolAgent:
		return "tool"
	}
	return workflow.Describe(v.n.agent).Kind
}

// Unwrap gives the agent, which may be a workflow.
func (v *visit) Unwrap() agent.Agent {
	if v.found != nil {
		return v.found
	}
	if v.n.agent == nil {
		return nil
	}
	return v.n.runner(v.n.agent)
}

// Effect is what the node does to the world.
func (v *visit) Effect() llm.Effect {
	if v.n.opt.Effect != "" {
		return v.n.opt.Effect
	}
	for a := v.Unwrap(); a != nil; {
		if e, ok := a.(workflow.Effector); ok {
			return e.Effect()
		}
		w, ok := a.(workflow.Wrapper)
		if !ok {
			break
		}
		a = w.Unwrap()
	}
	return ""
}

const maxRevisions = 2

// Run runs the node, looks at what it put out, and fires its edges.
func (v *visit) Run(ctx context.Context, t agent.Task) (r agent.Result, err error) {
	began := origin.From(ctx)
	defer func() {
		if now := origin.From(ctx); now != began { // its guardrails and routes have read something
			r.Origin = origin.Merge(r.Origin, now)
		}
	}()
	var used agent.Usage
	for i := 0; ; i++ {
		r, err := v.attempts(ctx, t)
		r.Usage.Calls += used.Calls
		r.Usage.PromptTokens += used.PromptTokens
		r.Usage.OutputTokens += used.OutputTokens
		used = r.Usage
		if err != nil {
			return r, err
		}
		s, err := v.settle(withRevisions(ctx, i), r)
		if rev, ok := revisionIn(err); ok && i < maxRevisions {
			t.Origin = origin.Merge(t.Origin, r.Origin, origin.From(ctx)) // the draft and the comment
			ctx, t = rev.put(ctx, t, r)
			continue
		}
		if err != nil {
			return r, err
		}
		v.step = s
		if s.other { // what it was goes no further
			r.Reply = agent.Task{Input: s.output}.Text()
		}
		if v.durable {
			r.Output = s.tree()
		}
		return r, nil
	}
}

// attempts runs the agent as often as its retry allows. No attempt begins while
// an earlier one still runs.
func (v *visit) attempts(ctx context.Context, t agent.Task) (r agent.Result, err error) {
	a := v.Unwrap()
	if a == nil {
		return agent.Result{Output: t.Input}, nil
	}
	retry, on := v.n.opt.Retry, []agent.Status{agent.Failed, agent.Timeout}
	most, wait := 1, time.Duration(0)
	if retry != nil {
		most, wait = 3, 200*time.Millisecond
		if retry.MaxAttempts > 0 {
			most = retry.MaxAttempts
		}
		if retry.Backoff != 0 {
			wait = retry.Backoff
		}
		if retry.On != nil {
			on = retry.On
		}
	}
	var used agent.Usage
	for i := 1; ; i++ {
		r, err = agent.Run(ctx, a, t)
		r.Usage = agent.Usage{Calls: r.Usage.Calls + used.Calls, PromptTokens: r.Usage.PromptTokens + used.PromptTokens, OutputTokens: r.Usage.OutputTokens + used.OutputTokens}
		used = r.Usage
		if err == nil || i >= most || ctx.Err() != nil || workflow.Unsettled(err) || !slices.Contains(on, r.Status) {
			return r, err
		}
		if v.n.timeout != nil {
			if _, still := v.n.timeout.LeftBehind(); still > 0 {
				return r, err
			}
		}
		if bad := sleep(ctx, wait); bad != nil {
			return r, bad
		}
		wait = min(2*wait, 30*time.Second)
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// settle makes of a result what it does to the state, and where it leads.
func (v *visit) settle(ctx context.Context, r agent.Result) (*step, error) {
	s := &step{output: r.Output}
	var jump *Goto
	updates := false
	switch o := r.Output.(type) {
	case Goto:
		jump, s.output, updates = &o, o.Set, true
	case *Goto:
		jump, s.output, updates = o, o.Set, true
	case map[string]any:
		updates = v.n.function
	case nil:
		if r.Reply != "" {
			s.output = r.Reply
		}
	}
	if m, ok := s.output.(map[string]any); ok && m == nil {
		s.output = nil
	}
	if v.n.at == 0 {
		cross, err := v.routes(withState(ctx, v.state), nil, s.output, r)
		s.cross = cross
		return s, err
	}
	to, out, changed, err := v.guard(withState(ctx, v.state), v.n.opt.Guardrails, v.n.id, s.output, r)
	if err != nil {
		return s, err
	}
	s.output, s.other = out, changed
	if changed {
		r.Output, r.Reply = out, agent.Task{Input: out}.Text()
	}
	if s.sets, err = v.lands(out, updates); err != nil {
		return s, err
	}
	if jump == nil {
		if err := v.lacks(s.sets); err != nil {
			return s, err
		}
	}
	after, err := v.g.apply(v.state, writes(s.sets))
	if err != nil {
		return s, err
	}
	ctx = withState(ctx, after)
	if to != "" {
		v.g.tell(ctx, "crossing", map[string]any{"type": "guardrail", "source": v.n.id, "target": to, "reason": "rerouted"})
		s.cross = []crossing{{edge: -1, to: to, payload: out, reason: "rerouted"}}
		return s, nil
	}
	s.cross, err = v.routes(ctx, jump, out, r)
	return s, err
}

// lands gives what a node's output writes.
func (v *visit) lands(out any, updates bool) (map[string]any, error) {
	keys := v.n.opt.Writes
	m, isMap := out.(map[string]any)
	switch {
	case out == nil:
		return nil, nil
	case updates && isMap || len(keys) > 1:
		if !isMap {
			return nil, fmt.Errorf("%w: %s writes %q and gave %s, no map", agent.ErrFailed, v.n.id, keys, kindOf(out))
		}
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if keys != nil && !slices.Contains(keys, k) {
				return nil, fmt.Errorf("%w: %s writes %q, and the map that it gave as an update has %q", agent.ErrFailed, v.n.id, keys, k)
			}
		}
		return m, nil
	case len(keys) == 1:
		return map[string]any{keys[0]: out}, nil
	case keys != nil:
		return nil, nil // writes nothing
	}
	return map[string]any{v.Name(): out}, nil
}

// lacks says which of several keys that the node writes it gave nothing for. A
// function that gave nothing at all updates nothing.
func (v *visit) lacks(sets map[string]any) error {
	keys := v.n.opt.Writes
	if len(keys) < 2 || sets == nil && v.n.function {
		return nil
	}
	for _, k := range keys {
		if _, ok := sets[k]; !ok {
			return fmt.Errorf("%w: %s writes %q and gave nothing for %q", agent.ErrFailed, v.n.id, keys, k)
		}
	}
	return nil
}

// writes puts updates in an order.
func writes(m map[string]any) (list []write) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		list = append(list, write{k, m[k]})
	}
	return list
}

// safely calls a function of the author's; a panic is an error.
func safely(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &agent.Panic{Value: p, Stack: debug.Stack()}
		}
	}()
	return f()
}
