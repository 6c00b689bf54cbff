package lib

import (
	"context"
	"fmt"
	"time"

	"go.starlark.net/starlark"

	"edged/agent"
	"edged/starlark/value"
	"edged/workflow"
	"edged/workflow/graph"
)

var (
	onlyChild = value.Param{Name: "agent", Type: childType, Required: true, Positional: true, Doc: "The child: an agent, a workflow, a function of the task."}
	ownName   = value.Param{Name: "name", Type: value.String, Default: "", Doc: "Its name; missing: after the child."}
	outcomes  = value.OneOf("failed", "timeout", "cancelled", "blocked", "rejected", "deadlock", "escalated")
)

var decoratorRows = []row{
	retryRow(flowRow(value.Func{
		Name: "Retry", Doc: "Runs its child again while it fails; the outcome is the last one's. With a number in place of a child it is the policy of a graph's node.",
		Example: "sure = Retry(grasp, max_attempts = 3, backoff = \"500ms\")\ntwice = Retry(2, backoff = \"2s\", on = [\"timeout\"])",
		Params: []value.Param{
			{Name: "agent", Type: value.Either(agentKind.Type(), value.Callable, value.Between(value.Int, 1, 1_000_000)), Required: true, Positional: true, Doc: "The child: an agent, a workflow, a function of the task. Or how often a node of a graph is tried at most."},
			{Name: "max_attempts", Type: value.Between(value.Int, 1, 1_000_000), Default: 3, Doc: "How often at most."},
			{Name: "backoff", Type: value.Duration, Default: "200ms", Doc: "The wait before the second attempt; it doubles, up to 30 s."},
			{Name: "on", Type: value.ListOf(outcomes), Default: []any{"failed", "timeout"}, Doc: "The outcomes that are tried again."},
			ownName},
	}, func(b *Behaviour, c *value.Call, name string, o workflow.Options) (agent.Agent, error) {
		child, err := b.only(c, "agent")
		if err != nil {
			return nil, err
		}
		r := workflow.RetryOptions{Options: o, MaxAttempts: c.Int("max_attempts"), Backoff: c.Duration("backoff"), On: []agent.Status{}}
		if r.Backoff == 0 {
			r.Backoff = -1
		}
		for _, s := range c.Strings("on") {
			r.On = append(r.On, agent.Status(s))
		}
		return workflow.NewRetry(name, r, child), nil
	})),
	flowRow(value.Func{
		Name: "Timeout", Doc: "Cancels its child, and nothing else, when it takes longer than a limit: its model's request is closed, its tools are stopped. It returns at the limit and the grace in any case.",
		Example: "soon = Timeout(answer, \"8s\")",
		Params: []value.Param{onlyChild,
			{Name: "limit", Type: value.Duration, Required: true, Positional: true, Doc: "How long the child may take."},
			{Name: "grace", Type: value.Duration, Default: "200ms", Doc: "How long it may take to end then; after that it is left behind, counted, and its result thrown away."},
			ownName},
	}, func(b *Behaviour, c *value.Call, name string, o workflow.Options) (agent.Agent, error) {
		child, err := b.only(c, "agent")
		if err != nil {
			return nil, err
		}
		if c.Duration("limit") <= 0 {
			return nil, c.Errorf("limit", "argument \"limit\": want more than nothing")
		}
		return workflow.NewTimeout(name, workflow.TimeoutOptions{Options: o, Grace: c.Duration("grace")}, c.Duration("limit"), child), nil
	}),
	flowRow(value.Func{
		Name: "Invert", Doc: "Is done where its child is failed, and failed where it is done. An exception is no answer: it stays a failure.",
		Example: "quiet = Invert(Condition(\"alarm\", lambda ctx: bb.get(\"guard/alarm\", False)))",
		Params:  []value.Param{onlyChild, ownName},
	}, func(b *Behaviour, c *value.Call, name string, o workflow.Options) (agent.Agent, error) {
		child, err := b.only(c, "agent")
		if err != nil {
			return nil, err
		}
		return workflow.NewInvert(name, o, child), nil
	}),
	flowRow(value.Func{
		Name: "Repeat", Doc: "Runs its child again while it is done.",
		Example: "rounds = Repeat(patrol, times = 3)",
		Params: []value.Param{onlyChild,
			{Name: "times", Type: value.Between(value.Int, 1, 1_000_000_000), Positional: true, Doc: "How often; for ever if missing."},
			ownName},
	}, func(b *Behaviour, c *value.Call, name string, o workflow.Options) (agent.Agent, error) {
		child, err := b.only(c, "agent")
		if err != nil {
			return nil, err
		}
		return workflow.NewRepeat(name, o, c.Int("times"), child), nil
	}),
	flowRow(value.Func{
		Name: "RunOnce", Doc: "Runs its child once, and has that outcome ever after. A run that was cancelled does not count.",
		Example: "calibrated = RunOnce(calibrate)",
		Params:  []value.Param{onlyChild, ownName},
	}, func(b *Behaviour, c *value.Call, name string, o workflow.Options) (agent.Agent, error) {
		child, err := b.only(c, "agent")
		if err != nil {
			return nil, err
		}
		return workflow.NewRunOnce(name, o, child), nil
	}),
	flowRow(value.Func{
		Name: "Delay", Doc: "Waits, then runs its child, if it has one.",
		Example: "later = Delay(greet, \"2s\")",
		Params: []value.Param{
			{Name: "agent", Type: childType, Positional: true, Doc: "The child: an agent, a workflow, a function of the task."},
			{Name: "delay", Type: value.Duration, Required: true, Positional: true, Doc: "How long."},
			ownName},
	}, func(b *Behaviour, c *value.Call, name string, o workflow.Options) (agent.Agent, error) {
		child, err := b.only(c, "agent")
		if err != nil {
			return nil, err
		}
		return workflow.NewDelay(name, o, c.Duration("delay"), child), nil
	}),
	flowRow(value.Func{
		Name: "Step", Doc: "Gives an agent or a function what every node may have: a guard, an effect, on_halt; and its answer a form.",
		Example: "drive = Step(go, effect = \"write\", guard = lambda ctx: not bb.get(\"guard/blocked\", False), on_halt = lambda ctx: hw.device(\"base\").rest())",
		Params: []value.Param{onlyChild,
			{Name: "output", Type: outputType, Doc: "The form that its answer must have, as an agent's. A model is held to it; what anybody else answers has failed if it does not fit."}},
	}, func(b *Behaviour, c *value.Call, name string, o workflow.Options) (agent.Agent, error) {
		child, err := b.only(c, "agent")
		if err != nil {
			return nil, err
		}
		form, err := outputSchema(c, "output")
		if err == nil && form != nil {
			if child, err = b.inForm(child, form); err != nil {
				err = c.Errorf("output", "argument \"output\": %v", err)
			}
		}
		if err != nil {
			return nil, err
		}
		return workflow.NewStep(child, o), nil
	}),
	{value.Func{
		Name: "Condition", Doc: "A leaf that is done if something is so, and failed if not. In reactive nodes it is asked again when a key or topic changes that it read.",
		Example: "clear = Condition(\"clear\", lambda ctx: bb.get(\"guard/distance\", 9) > 0.5)",
		Params: []value.Param{nodeName,
			{Name: "fn", Type: value.Callable, Required: true, Positional: true, Doc: "Called with ctx. It looks and decides, and does nothing."}},
		Returns: "an agent",
	}, (*Behaviour).condition},
	{value.Func{
		Name: "Action", Doc: "A leaf of a ticking tree: it is called in each tick and says \"running\", \"success\" or \"failure\"; True and False are success and failure, None is success. Outside of Tick it is called once.",
		Example: "def approach(ctx):\n    return \"running\" if bb.get(\"guard/distance\", 9) > 0.3 else \"success\"\n\nnear = Action(\"near\", approach)",
		Params: []value.Param{nodeName,
			{Name: "fn", Type: value.Callable, Required: true, Positional: true, Doc: "Called with ctx; it must be quick."},
			{Name: "on_halt", Type: value.Callable, Doc: "Called with ctx when it is cancelled while it is running."}},
		Returns: "an agent",
	}, (*Behaviour).action},
	flowRow(value.Func{
		Name: "Tick", Doc: "Runs a tree the classic way: it goes through all of it again and again, until the root is not running any more. Its leaves are Condition and Action; other agents run beside.",
		Example: "life = Tick(Fallback(\"life\", [Sequence(\"dock\", [low, near]), near]), every = \"100ms\")",
		Params: []value.Param{
			{Name: "tree", Type: childType, Required: true, Positional: true, Doc: "The root."},
			{Name: "every", Type: value.Between(value.Duration, 0.001, 3600), Default: "50ms", Doc: "How long from one tick to the next."},
			ownName},
	}, func(b *Behaviour, c *value.Call, name string, o workflow.Options) (agent.Agent, error) {
		tree, err := b.only(c, "tree")
		if err != nil {
			return nil, err
		}
		return workflow.NewTick(name, o, c.Duration("every"), tree), nil
	}),
}

// retryRow gives Retry its second form.
func retryRow(r row) row {
	node := r.do
	r.Returns = "an agent; a policy if it was given a number"
	r.do = func(b *Behaviour, c *value.Call) (starlark.Value, error) {
		if _, ok := c.Value("agent").(starlark.Int); !ok {
			return node(b, c)
		}
		for _, p := range append(nodeParams, ownName) {
			if c.Has(p.Name) && bool(c.Value(p.Name).Truth()) {
				return nil, c.Errorf(p.Name, "argument %q: a policy has none", p.Name)
			}
		}
		p := &graph.Retry{MaxAttempts: c.Int("agent"), Backoff: c.Duration("backoff"), On: []agent.Status{}}
		if p.Backoff == 0 {
			p.Backoff = -1
		}
		for _, s := range c.Strings("on") {
			p.On = append(p.On, agent.Status(s))
		}
		return retryKind.Wrap(p), nil
	}
	return r
}

var retryKind = &value.Kind[*graph.Retry]{
	Name: "retry", Doc: "How often a node of a graph is tried, see Retry.",
	Attrs: []value.Attr[*graph.Retry]{
		{Name: "max_attempts", Doc: "How often at most.", Type: value.Int, Get: func(r *graph.Retry) (any, error) { return int64(r.MaxAttempts), nil }},
	},
	String: func(r *graph.Retry) string { return fmt.Sprintf("<retry %d>", r.MaxAttempts) },
}

func (b *Behaviour) condition(c *value.Call) (starlark.Value, error) {
	name := c.String("name")
	if err := validName(name); err != nil {
		return nil, c.Errorf("name", "argument \"name\": %v", err)
	}
	cb, err := newCallback(c, "fn", "context")
	if err != nil {
		return nil, err
	}
	return b.declareLeaf(c, &tickedCondition{workflow.NewCondition(name, b.check(cb, name)), b, cb})
}

// statuses are what actions return.
var statuses = map[string]workflow.TickStatus{"running": workflow.Running, "success": workflow.Success, "failure": workflow.Failure}

func statusOf(name string, v starlark.Value) (workflow.TickStatus, error) {
	switch v := v.(type) {
	case starlark.Bool:
		if v {
			return workflow.Success, nil
		}
		return workflow.Failure, nil
	case starlark.NoneType:
		return workflow.Success, nil
	case starlark.String:
		if s, ok := statuses[string(v)]; ok {
			return s, nil
		}
	}
	if d, err := declinedKind.Unwrap(v); err == nil {
		return workflow.Failure, agent.Declined(string(d))
	}
	return workflow.Failure, fmt.Errorf("%w: %s returned %s: want \"running\", \"success\", \"failure\", True or False", agent.ErrFailed, name, v)
}

func (b *Behaviour) action(c *value.Call) (starlark.Value, error) {
	name := c.String("name")
	if err := validName(name); err != nil {
		return nil, c.Errorf("name", "argument \"name\": %v", err)
	}
	cb, err := newCallback(c, "fn", "context")
	if err != nil {
		return nil, err
	}
	halt, err := newCallback(c, "on_halt", "context")
	if err != nil {
		return nil, err
	}
	do := func(ctx context.Context) (workflow.TickStatus, error) {
		r := b.nodeRun(ctx, name, workflow.View{})
		v, err := b.do(r, cb, b.contextValue(r))
		if err != nil {
			return workflow.Failure, err
		}
		return statusOf(name, v)
	}
	var stop func(context.Context)
	if halt != nil {
		stop = func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			r := b.nodeRun(ctx, name, workflow.View{})
			r.why = "cancelled"
			if _, err := b.do(r, halt, b.contextValue(r)); err != nil {
				panic(err) // which the tree takes as the reason
			}
		}
	}
	return b.declareLeaf(c, &tickedAction{workflow.NewAction(name, do, stop), b, cb})
}
