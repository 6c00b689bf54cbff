package lib

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.starlark.net/starlark"

	"edged/agent"
	"edged/agent/llm"
	"edged/bus/origin"
	"edged/starlark/value"
	"edged/workflow/graph"
)

// put adds what a call of node names.
func (g *scriptGraph) put(c *value.Call, id string, o graph.NodeOptions) error {
	v := c.Value("agent")
	if h, err := humanKind.Unwrap(v); err == nil {
		g.Human(id, *h, o)
		return nil
	}
	if t, err := toolKind.Unwrap(v); err == nil {
		g.Node(id, t.asNode(g.Name()), o)
		return nil
	}
	if _, err := agentKind.Unwrap(v); err == nil {
		a, err := g.b.branch(c, "agent", v)
		if err != nil {
			return err
		}
		if g.Fixed() {
			return &value.Error{Arg: "agent", Msg: fmt.Sprintf("graph %s can't be a node of itself", g.Name())}
		}
		g.Node(id, a, o)
		return nil
	}
	cb, err := newCallback(c, "agent", "state")
	if err != nil {
		return err
	}
	g.Func(id, func(ctx context.Context, s graph.State) (any, error) {
		began := time.Now()
		v, err := g.call(ctx, cb, id, s)
		if g.b.stoppedSince(ctx, began) {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			return nil, ofDecline(err)
		}
		return g.output(ctx, v, began)
	}, o)
	return nil
}

// call calls a function of the state.
func (g *scriptGraph) call(ctx context.Context, cb *callback, node string, s graph.State) (starlark.Value, error) {
	state, err := value.FromGo(map[string]any(s))
	if err != nil {
		return nil, err
	}
	m := &more{name: node}
	r := &run{Context: ctx, b: g.b, source: "graph:" + g.Name(), more: m}
	if outer := runOf(ctx); outer != nil {
		r.reads = outer.reads
	}
	return g.b.do(r, cb, state)
}

// revision is ctx.revision.
func (r *run) revision() (any, error) {
	v, ok := graph.RevisedOf(r.Context)
	if !ok {
		return nil, nil
	}
	return map[string]any{"comment": v.Comment, "draft": v.Draft, "round": int64(v.Round)}, nil
}

// output makes of what a function returned what its node puts out. What is
// still to come is waited for.
func (g *scriptGraph) output(ctx context.Context, v starlark.Value, began time.Time) (any, error) {
	if v == exitValue {
		return nil, agent.ErrExit
	}
	if to, err := gotoKind.Unwrap(v); err == nil {
		return *to, nil
	}
	if d, err := declinedKind.Unwrap(v); err == nil {
		return nil, agent.Declined(string(d))
	}
	if r, err := resultKind.Unwrap(v); err == nil {
		if r.err != nil || r.Output != nil {
			return r.Output, r.err
		}
		return r.Reply, nil
	}
	if goal, err := goalKind.Unwrap(v); err == nil {
		x, err := goal.Result(ctx)
		if err != nil && g.b.stopping(ctx, began) {
			goal.Goal.Cancel("the run that waits for it was cancelled")
			return nil, context.Cause(ctx)
		}
		return x, err
	}
	if f, err := futureKind.Unwrap(v); err == nil {
		x, err := f.Result(ctx)
		if whose := f.Origin(); whose != "" {
			origin.Raise(ctx, whose)
		}
		return x, err
	}
	return value.ToGo(v)
}

// toolNode is a tool as a node: it is held to all that a model's call is, and
// written down as one.
type toolNode struct {
	agent.Agent
	t  *tool
	by string // the graph
}

// asNode makes a tool a node of a graph.
func (t *tool) asNode(g string) agent.Agent {
	n := &toolNode{t: t, by: "graph:" + g}
	x := t.Tool
	x.Do = func(ctx context.Context, args json.RawMessage) (out json.RawMessage, err error) {
		e := n.entry(ctx, args)
		defer func() {
			if bad := n.outcome(e, out, err); bad != nil {
				out, err = nil, bad
			}
		}()
		if err := t.allowed(ctx, llm.Call{Name: t.Name, Args: args}); err != nil {
			return nil, err
		}
		if e.Of, err = t.b.host.Audit.Begin(e, t.Effect); err != nil {
			return nil, fmt.Errorf("%w: tool %s: its call can't be written down: %w", agent.ErrBlocked, t.Name, err)
		}
		e.Ran = true
		return t.Do(ctx, args)
	}
	n.Agent = graph.ToolAgent(x)
	return n
}

// entry is what the audit has of a call before it is known what becomes of it.
func (n *toolNode) entry(ctx context.Context, args json.RawMessage) llm.AuditEntry {
	e := llm.AuditEntry{Agent: n.by, Tool: n.t.Name, Args: args}
	if runOf(ctx) != nil {
		e.Origin = string(origin.From(ctx))
	}
	return e
}

// outcome writes down what came of a call; the error is for one that can't be.
func (n *toolNode) outcome(e llm.AuditEntry, out json.RawMessage, err error) error {
	e.Result = out
	if err != nil {
		e.Error = err.Error()
	}
	if bad := n.t.b.host.Audit.Append(e); bad != nil {
		return fmt.Errorf("%w: tool %s: its call can't be written down: %w", agent.ErrBlocked, n.t.Name, bad)
	}
	return nil
}

// Kind is what outlines call it.
func (*toolNode) Kind() string { return "tool" }

// Effect is what it does to the world.
func (n *toolNode) Effect() llm.Effect { return n.t.Effect }

// Run implements agent.Agent. The words of others lead to no tool that acts.
func (n *toolNode) Run(ctx context.Context, t agent.Task) (agent.Result, error) {
	b := n.t.b
	r := &run{Context: ctx, b: b, source: n.by, more: &more{task: t.Input}}
	if !llm.Allows(ctx, n.t.Name) {
		err := fmt.Errorf("%w: tool %s is not among those that the agent which began this may use", agent.ErrBlocked, n.t.Name)
		return agent.Result{}, cmp.Or(n.outcome(n.entry(r, nil), nil, err), err)
	}
	if n.t.Effect == llm.Write && !b.host.TaintedWrites && !t.Origin.Trusted(b.trusted) {
		err := fmt.Errorf("%w: tool %s acts, and its arguments are words of %s", agent.ErrBlocked, n.t.Name, t.Origin)
		return agent.Result{}, cmp.Or(n.outcome(n.entry(r, nil), nil, err), err)
	}
	if outer := runOf(ctx); outer != nil {
		r.source, r.reads, r.name = outer.source, outer.reads, outer.agent()
	}
	began := time.Now()
	res, err := n.Agent.Run(r, t)
	if b.stoppedSince(ctx, began) {
		return agent.Result{Receipts: res.Receipts}, context.Cause(ctx)
	}
	var no *refusal
	if errors.As(err, &no) {
		return res, agent.Declined(no.reason)
	}
	return res, err
}
