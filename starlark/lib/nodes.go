package lib

import (
	"context"

	"go.starlark.net/starlark"

	"edged/agent"
	"edged/starlark/value"
	"edged/workflow"
)

var (
	nodeName    = value.Param{Name: "name", Type: value.String, Required: true, Positional: true, Doc: "Its name, one topic level."}
	nodeAgents  = value.Param{Name: "agents", Type: value.ListOf(childType), Required: true, Positional: true, Doc: "The children: agents, workflows, functions of the task."}
	reactiveRow = value.Param{Name: "reactive", Type: value.Bool, Default: false}
)

func reactiveParam(doc string) value.Param {
	p := reactiveRow
	p.Doc = doc
	return p
}

var nodeRows = []row{
	flowRow(value.Func{
		Name: "Sequence", Doc: "Runs its children one after the other: each reply is the next one's task, and ctx.task is the first task all the way. It stops at the first child that is not done, and has its outcome.",
		Example: "fetch = Sequence(\"fetch\", [find, grasp, bring])\n\non(\"guard/fetch\", lambda ev: log.info(fetch.run(ev.payload).status))",
		Params: []value.Param{nodeName, nodeAgents,
			{Name: "pass_task", Type: value.Bool, Default: false, Doc: "Every child gets the sequence's own task."},
			reactiveParam("Go on watching the guards and conditions of children that are done; if one turns false, the running child is cancelled.")},
	}, func(b *Behaviour, c *value.Call, name string, o workflow.Options) (agent.Agent, error) {
		list, err := b.children(c)
		if err != nil {
			return nil, err
		}
		return workflow.NewSequence(name, workflow.SequenceOptions{Options: o, PassTask: c.Bool("pass_task"), Reactive: c.Bool("reactive")}, list...), nil
	}),
	flowRow(value.Func{
		Name: "Fallback", Doc: "Gives the same task to one child after the other until one is done; .by names it. A failure, a timeout, an exception or a rejection means the next one; if it is cancelled, no further one starts.",
		Example: "answer = Fallback(\"answer\", [sentences, model, lambda task: \"I can't help with that\"])",
		Params: []value.Param{nodeName, nodeAgents,
			reactiveParam("A child before the running one takes over as soon as its guard, or what its condition asks, turns true.")},
	}, func(b *Behaviour, c *value.Call, name string, o workflow.Options) (agent.Agent, error) {
		list, err := b.children(c)
		if err != nil {
			return nil, err
		}
		return workflow.NewFallback(name, workflow.FallbackOptions{Options: o, Reactive: c.Bool("reactive")}, list...), nil
	}),
	flowRow(value.Func{
		Name: "Loop", Doc: "Runs its child, then asks until; it is done when that is true, with the child's reply, and failed with the reason max_iterations if that does not come about.",
		Example: "fill = Loop(\"fill\", pour, until = lambda ctx: bb.get(\"guard/level\", 0) >= 0.9, max_iterations = 10)",
		Params: []value.Param{nodeName,
			{Name: "agent", Type: childType, Required: true, Positional: true, Doc: "The child: an agent, a workflow, a function of the task. Its reply is its next task."},
			{Name: "until", Type: value.Callable, Positional: true, Doc: "Called with ctx after each run, ctx.last is its result. Missing: until the child is done."},
			{Name: "max_iterations", Type: value.Between(value.Int, 1, 1_000_000), Default: 5, Doc: "How often at most."},
			{Name: "pass_task", Type: value.Bool, Default: false, Doc: "The child gets the loop's own task each time."}},
	}, loopNode),
	flowRow(value.Func{
		Name: "Parallel", Doc: "Gives the same task to all its children at once, each in a conversation of its own. It is done when as many as needed are; the others are cancelled, also as soon as there can't be as many any more. One result per child, in order, is in .children.",
		Example: "morning = Parallel(\"morning\", agents = [weather, calendar], timeout = \"10s\")\n\non(\"guard/morning\", lambda ev: robot.say(morning.run(\"briefing\").reply))",
		Params: []value.Param{nodeName, nodeAgents,
			{Name: "need", Type: value.Either(value.OneOf("all", "gather"), value.Between(value.Int, 1, 10_000)), Default: "all", Doc: "How many must be done. \"gather\": all run to their end, or to the timeout, whatever becomes of the others; it is done if one of them is."},
			{Name: "timeout", Type: value.Duration, Doc: "Ends those that still run."},
			{Name: "max_concurrency", Type: value.Between(value.Int, 1, 10_000), Doc: "How many run at a time; all if missing."},
			{Name: "reduce", Type: value.Callable, Doc: "Makes the reply or output of the list of results."}},
	}, parallelNode),
	flowRow(value.Func{
		Name: "Switch", Doc: "Runs the one child whose case is the value of a key of the board, or of what a function returns. .winner names the case.",
		Example: "by_mode = Switch(\"by_mode\", key = \"guard/mode\", cases = {\"day\": patrol, \"night\": watch}, default = lambda task: Declined(\"no mode\"))",
		Params: []value.Param{nodeName,
			{Name: "key", Type: value.Either(value.String, value.Callable), Required: true, Positional: true, Doc: "A key, or a function of the task and ctx. What is no text is compared as str() shows it."},
			{Name: "cases", Type: value.Dict, Required: true, Positional: true, Doc: "A child for each value."},
			{Name: "default", Type: childType, Positional: true, Doc: "The child where no case fits; missing: failed."}},
	}, switchNode),
}

func loopNode(b *Behaviour, c *value.Call, name string, o workflow.Options) (agent.Agent, error) {
	child, err := b.only(c, "agent")
	if err != nil {
		return nil, err
	}
	l := workflow.LoopOptions{Options: o, MaxIterations: c.Int("max_iterations"), PassTask: c.Bool("pass_task")}
	until, err := newCallback(c, "until", "context")
	if err != nil {
		return nil, err
	}
	if until != nil {
		l.Until = func(ctx context.Context, v workflow.View) (bool, error) {
			is, err := b.decide(ctx, until, name, v, false)
			return err == nil && bool(is.Truth()), err
		}
	}
	return workflow.NewLoop(name, l, child), nil
}

func parallelNode(b *Behaviour, c *value.Call, name string, o workflow.Options) (agent.Agent, error) {
	list, err := b.children(c)
	if err != nil {
		return nil, err
	}
	p := workflow.ParallelOptions{Options: o, Timeout: c.Duration("timeout"), MaxConcurrency: c.Int("max_concurrency")}
	switch c.Value("need") {
	case starlark.String("all"):
	case starlark.String("gather"):
		p.Gather = true
	default:
		if p.Need = c.Int("need"); p.Need > len(list) {
			return nil, c.Errorf("need", "argument \"need\": there are only %d agents", len(list))
		}
	}
	reduce, err := newCallback(c, "reduce", "results")
	if err != nil {
		return nil, err
	}
	if reduce != nil {
		p.Reduce = func(ctx context.Context, results []agent.Result) (agent.Result, error) {
			all := make([]starlark.Value, len(results))
			for i, r := range results {
				all[i] = wrapResult(r)
			}
			v, err := b.do(b.nodeRun(ctx, name, workflow.View{Count: len(all)}), reduce, starlark.NewList(all))
			if err != nil {
				return agent.Result{}, err
			}
			return resultOf(v)
		}
	}
	return workflow.NewParallel(name, p, list...), nil
}

func switchNode(b *Behaviour, c *value.Call, name string, o workflow.Options) (agent.Agent, error) {
	cases, err := b.routes(c, "cases")
	if err != nil {
		return nil, err
	}
	s := workflow.SwitchOptions{Options: o}
	if s.Default, err = b.only(c, "default"); err != nil {
		return nil, err
	}
	if key, is := starlark.AsString(c.Value("key")); is {
		if err := b.may(c, "bb", key); err != nil {
			return nil, err
		}
		s.Value = func(ctx context.Context, _ workflow.View) (string, error) {
			workflow.Read(ctx, "board/"+key)
			tree, ok := b.host.Board.Get(key)
			if !ok {
				if err := b.host.Board.Damaged(key); err != nil {
					return "", err
				}
			}
			v, err := value.FromGo(tree)
			return caseOf(v), err
		}
		return workflow.NewSwitch(name, s, cases...), nil
	}
	fn, err := newCallback(c, "key", "task")
	if err != nil {
		return nil, err
	}
	s.Value = func(ctx context.Context, v workflow.View) (string, error) {
		x, err := b.decide(ctx, fn, name, v, true)
		return caseOf(x), err
	}
	return workflow.NewSwitch(name, s, cases...), nil
}

// caseOf is a value as the name of a case.
func caseOf(v starlark.Value) string {
	if s, ok := starlark.AsString(v); ok || v == nil {
		return s
	}
	return v.String()
}
