package lib

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.starlark.net/starlark"

	"edged/agent"
	"edged/bus/origin"
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
	id, answer, at := c.String("run_id"), c.String("answer"), c.String("at")
	switch {
	case answer != "":
		if err := mayAnswer(c); err != nil {
			return nil, err
		}
	case at != "":
		return nil, &value.Error{Arg: "at", Msg: fmt.Sprintf("at = %q says whose question is answered, and there is no answer", at), Hint: "add answer = …, or use fork(run_id, at = …) to begin at a step"}
	}
	g := graphOf(a)
	if open := g.b.asking.of(id); len(open) > 0 && answer != "" && g.has(open[0]) {
		q, err := g.meant(id, at, open)
		if err != nil {
			return performed(agent.Result{RunID: id}, fmt.Errorf("%w: %w", agent.ErrFailed, err)), nil
		}
		return g.b.asking.answer(c.Context(), q, answer)
	}
	return g.goOn(c, func(ctx context.Context) (agent.Result, error) {
		if answer != "" {
			if err := g.Answer(ctx, g.b.Runs(), id, at, answer); err != nil {
				return agent.Result{RunID: id}, err
			}
		}
		return g.Resume(ctx, g.b.Runs(), id, "")
	})
}

// meant finds the question that an answer is for.
func (g *scriptGraph) meant(run, at string, open []*openAsk) (*openAsk, error) {
	var list []graph.Question
	for _, q := range open {
		list = append(list, graph.Question{Run: run, Path: q.Path, Node: q.Node, Prompt: q.Prompt})
	}
	one, err := g.Meant(run, at, list)
	if err != nil {
		return nil, err
	}
	return open[slices.IndexFunc(open, func(q *openAsk) bool { return q.Path == one.Path })], nil
}

// has reports whether a question is of a run of this graph.
func (g *scriptGraph) has(q *openAsk) bool {
	if info, err := g.b.Runs().Get(q.Run); err == nil {
		return info.Workflow == g.Name()
	}
	return q.By == "graph:"+g.Name()
}

// answer gives a person's answer to a question that waits, and waits for what
// comes of the run: its end, or its next question.
func (a *asking) answer(ctx context.Context, q *openAsk, text string) (starlark.Value, error) {
	said, ok := graph.Pick(text, q.Options)
	if !ok {
		return performed(agent.Result{RunID: q.Run}, fmt.Errorf("%w: answer %q to %q is none of %q", agent.ErrFailed, text, q.Prompt, q.Options)), nil
	}
	if !a.take(q, said) {
		return performed(agent.Result{RunID: q.Run}, fmt.Errorf("%w: %q was answered a moment ago", agent.ErrFailed, q.Prompt)), nil
	}
	if q.live == nil {
		return performed(agent.Result{RunID: q.Run, Status: agent.Done}, nil), nil
	}
	for {
		next, more := a.besides(q)
		if next != nil {
			return performed(agent.Result{RunID: q.Run, By: next.Node}, &workflow.WaitError{Run: q.Run, Path: next.Path, Prompt: next.Prompt}), nil
		}
		select {
		case <-q.live.done:
			return performed(q.live.r, q.live.err), nil
		case <-more:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
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
		r.Reason = RobotStopped
	}
	origin.Raise(c.Context(), r.Origin)
	return performed(r, err), nil
}
