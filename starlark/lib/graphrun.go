package lib

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.starlark.net/starlark"

	"edged/agent"
	"edged/starlark/value"
	"edged/workflow"
	"edged/workflow/graph"
)

// liveRun is a run of a tree while it goes on, for those that give it an
// answer and want to know what came of it.
type liveRun struct {
	done chan struct{} // closed when r and err are set
	r    agent.Result
	err  error
}

type liveRunKey struct{}

// followed is a run that questions can be traced back to.
func followed(do func(ctx context.Context) (agent.Result, error)) func(ctx context.Context) (agent.Result, error) {
	return func(ctx context.Context) (agent.Result, error) {
		l := &liveRun{done: make(chan struct{})}
		defer close(l.done)
		l.err = errors.New("it was ended")
		l.r, l.err = do(context.WithValue(ctx, liveRunKey{}, l))
		return l.r, l.err
	}
}

// mayAsk reports whether a tree has a node that may ask people.
func mayAsk(o workflow.Outline) bool {
	switch o.Kind {
	case "graph", "delegation", "oversight", "cooperation", "competition", "coopetition":
		return true
	}
	return slices.ContainsFunc(o.Children, mayAsk)
}

func resumeGraph(a agent.Agent, c *value.Call) (starlark.Value, error) {
	if err := acts(c); err != nil {
		return nil, err
	}
	id, answer := c.String("run_id"), c.String("answer")
	if answer != "" {
		if err := mayAnswer(c); err != nil {
			return nil, err
		}
	}
	g := graphOf(a)
	if q := g.b.asking.find(id); q != nil && answer != "" && g.has(q) {
		return q.answer(c.Context(), answer)
	}
	return g.goOn(c, func(ctx context.Context) (agent.Result, error) {
		return g.Resume(ctx, g.b.Runs(), id, answer)
	})
}

// has reports whether a question is of a run of this graph.
func (g *scriptGraph) has(q *openAsk) bool {
	if info, err := g.b.Runs().Get(q.Run); err == nil {
		return info.Workflow == g.Name()
	}
	return q.By == "graph:"+g.Name()
}

// answer gives a person's answer to a question that waits, and waits for what
// comes of the run.
func (q *openAsk) answer(ctx context.Context, text string) (starlark.Value, error) {
	said, ok := graph.Pick(text, q.Options)
	if !ok {
		return performed(agent.Result{RunID: q.Run}, fmt.Errorf("%w: answer %q to %q is none of %q", agent.ErrFailed, text, q.Prompt, q.Options)), nil
	}
	q.end(&answered{said})
	if q.live == nil {
		return performed(agent.Result{RunID: q.Run, Status: agent.Done}, nil), nil
	}
	select {
	case <-q.live.done:
		return performed(q.live.r, q.live.err), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func forkGraph(a agent.Agent, c *value.Call) (starlark.Value, error) {
	if err := acts(c); err != nil {
		return nil, err
	}
	patch, err := c.Dict("patch")
	if err != nil {
		return nil, err
	}
	at, text := starlark.AsString(c.Value("at"))
	if !text {
		at = fmt.Sprint(c.Int("at"))
	}
	g := graphOf(a)
	return g.goOn(c, func(ctx context.Context) (agent.Result, error) {
		id, err := g.Fork(ctx, g.b.Runs(), c.String("run_id"), at, patch)
		if err != nil {
			return agent.Result{}, err
		}
		return g.Resume(ctx, g.b.Runs(), id, "")
	})
}

// goOn runs what goes on with a run, as flow.Run does.
func (g *scriptGraph) goOn(c *value.Call, do func(ctx context.Context) (agent.Result, error)) (starlark.Value, error) {
	ctx, over := g.b.turn(workflow.WithRuntime(c.Context(), g.b.flows.rt))
	defer over()
	r, err := followed(do)(ctx)
	if err != nil && r.Status == agent.Cancelled && errors.Is(context.Cause(ctx), errRobotStopped) {
		r.Reason = robotStopped
	}
	return performed(r, err), nil
}
