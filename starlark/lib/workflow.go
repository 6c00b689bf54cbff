package lib

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.starlark.net/starlark"

	"edged/agent"
	"edged/agent/llm"
	"edged/background"
	"edged/bus/origin"
	"edged/starlark/script"
	"edged/starlark/value"
	"edged/workflow"
)

// flow is a node of a workflow as scripts hold it. In a tree the node itself
// stands: only the outermost run needs what is done here.
type flow struct {
	b       *Behaviour
	node    agent.Agent
	at      script.Position
	durable bool
	kept    bool         // it was declared at top level
	resumed *callback    // on_resumed; may be nil
	made    origin.Label // whose words it was declared with

	look sync.Once
	asks bool // people may be asked in it; known after look
}

var (
	_ agent.Agent      = (*flow)(nil)
	_ workflow.Wrapper = (*flow)(nil)
)

// RobotStopped is the reason of what a stop ended: it goes on when somebody says
// so, and not by itself.
const RobotStopped = "the robot was stopped"

// Name implements agent.Agent.
func (f *flow) Name() string { return f.node.Name() }

// Unwrap implements workflow.Wrapper.
func (f *flow) Unwrap() agent.Agent { return f.node }

// Run implements agent.Agent: in the robot's runtime, and no longer than until
// the robot is stopped.
func (f *flow) Run(ctx context.Context, t agent.Task) (agent.Result, error) {
	if _, inside := workflow.TaskOf(ctx); inside {
		return f.node.Run(ctx, t)
	}
	ctx, over := f.b.turn(workflow.WithRuntime(ctx, f.b.flows.rt))
	defer over()
	r, err := f.run(ctx, t)
	if err != nil && r.Status == agent.Cancelled && errors.Is(context.Cause(ctx), errRobotStopped) {
		r.Reason = RobotStopped
		err = fmt.Errorf("%w: %w", agent.ErrCancelled, errRobotStopped)
	}
	return r, err
}

func (f *flow) run(ctx context.Context, t agent.Task) (agent.Result, error) {
	f.look.Do(func() { f.asks = mayAsk(workflow.Describe(f.node)) })
	if !f.asks {
		return agent.Run(ctx, f.node, t)
	}
	return followed(func(ctx context.Context) (agent.Result, error) { return agent.Run(ctx, f.node, t) })(ctx)
}

// fnAgent is a script function as a child of a node.
type fnAgent struct {
	b            *Behaviour
	name, source string
	cb           *callback
	spare        atomic.Pointer[run] // one that nobody holds
}

var _ agent.Agent = (*fnAgent)(nil)

// Name implements agent.Agent.
func (a *fnAgent) Name() string { return a.name }

// Kind is what outlines call it.
func (a *fnAgent) Kind() string { return "function" }

// Run implements agent.Agent.
func (a *fnAgent) Run(ctx context.Context, t agent.Task) (agent.Result, error) {
	task, err := value.FromGo(t.Input)
	if err != nil {
		return agent.Result{}, err
	}
	r := a.spare.Swap(nil)
	if r == nil {
		r = &run{more: new(more)}
	}
	m := r.more
	*m = more{name: a.name, task: t.Input}
	*r = run{Context: ctx, b: a.b, source: a.source, more: m, shared: a.cb.context}
	if outer := runOf(ctx); outer != nil {
		r.reads = outer.reads
	}
	before := a.b.lastStop()
	v, err := a.b.do1(r, a.cb, task)
	if err == nil && !r.shared {
		*m, *r = more{}, run{more: m}
		a.spare.Store(r) // as a handler's
	}
	if a.b.stoppedSince(ctx, before) {
		return agent.Result{}, context.Cause(ctx)
	}
	if err != nil {
		return agent.Result{Origin: origin.From(ctx)}, ofDecline(err)
	}
	res, err := resultOf(v)
	res.Origin = origin.Merge(res.Origin, origin.From(ctx))
	return res, err
}

// member is an agent as a child of a node: what it does is told on the bus, as
// when it runs by itself.
type member struct {
	b *Behaviour
	agent.Agent
}

var _ workflow.Wrapper = (*member)(nil)

// Run implements agent.Agent.
func (m *member) Run(ctx context.Context, t agent.Task) (agent.Result, error) {
	before := m.b.lastStop()
	r, err := background.Perform(ctx, m.b.host.Bus, m.Agent, t)
	if m.b.stoppedSince(ctx, before) {
		return agent.Result{Usage: r.Usage, Receipts: r.Receipts}, context.Cause(ctx)
	}
	return r, err
}

// Unwrap implements workflow.Wrapper.
func (m *member) Unwrap() agent.Agent { return m.Agent }

// lastStop is when the robot was stopped, if it still is; else zero.
func (b *Behaviour) lastStop() (at time.Time) {
	if b.host.Rig != nil {
		s, _ := b.host.Rig.Stopped()
		at = s.Time
	}
	return at
}

// stoppedSince reports whether a stop ended what began when the last one was
// that before. It cancels goals first and runs a moment later: what a child
// makes of a goal that was cancelled is no outcome.
func (b *Behaviour) stoppedSince(ctx context.Context, before time.Time) bool {
	at := b.lastStop()
	return at.After(before) && b.stopping(ctx, at)
}

// childType takes agents and functions.
var childType = value.Either(agentKind.Type(), value.Callable)

// branch makes a child of an agent or a function. It keeps the function.
func (b *Behaviour) branch(c *value.Call, arg string, v starlark.Value) (agent.Agent, error) {
	if a, err := agentKind.Unwrap(v); err == nil {
		if f, ok := a.(*flow); ok {
			b.flows.nest(f)
			if g, ok := f.node.(*scriptGraph); ok {
				g.Check() // it is finished with this
			}
			return f.node, nil
		}
		return &member{b, a}, nil
	}
	fn, ok := v.(starlark.Callable)
	if !ok {
		return nil, c.Errorf(arg, "argument %q: want an agent or a function, got %s", arg, v.Type())
	}
	keep(c, fn)
	cb, missing := makeCallback(fn, "task")
	if missing != "" {
		return nil, c.Errorf(arg, "argument %q: %s needs an argument %q, but it is called with (task, ctx)", arg, fn.Name(), missing)
	}
	name := b.fnName(cb)
	return &fnAgent{b: b, name: name, source: "agent:" + name, cb: cb}, nil
}

// fnName is what a function is called in trees: lambdas by their place.
func (b *Behaviour) fnName(cb *callback) string {
	if cb.name != "lambda" || cb.at.Line == 0 {
		return cb.name
	}
	return fmt.Sprintf("lambda at %s:%d", cb.at.File, cb.at.Line)
}

// only makes the child of a node that has one.
func (b *Behaviour) only(c *value.Call, arg string) (agent.Agent, error) {
	if !c.Has(arg) {
		return nil, nil
	}
	return b.branch(c, arg, c.Value(arg))
}

// children makes the children of a node, from a list.
func (b *Behaviour) children(c *value.Call) ([]agent.Agent, error) {
	var list []agent.Agent
	for _, v := range c.List("agents") {
		a, err := b.branch(c, "agents", v)
		if err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	if len(list) == 0 {
		return nil, c.Errorf("agents", "argument \"agents\": want at least one")
	}
	return list, nil
}

// routes makes the children of a node that picks one, from a dict.
func (b *Behaviour) routes(c *value.Call, arg string) ([]workflow.Route, error) {
	m, ok := c.Value(arg).(starlark.IterableMapping)
	if !ok {
		return nil, c.Errorf(arg, "argument %q: want a dict", arg)
	}
	var list []workflow.Route
	for _, kv := range m.Items() {
		name, text := starlark.AsString(kv[0])
		if !text || name == "" || name == workflow.DefaultRoute {
			return nil, c.Errorf(arg, "argument %q: the keys are names, other than %q; got %s", arg, workflow.DefaultRoute, kv[0])
		}
		a, err := b.branch(c, arg, kv[1])
		if err != nil {
			return nil, err
		}
		list = append(list, workflow.Route{Name: name, Doc: roleOf(a), Agent: a})
	}
	if len(list) == 0 {
		return nil, c.Errorf(arg, "argument %q: want at least one", arg)
	}
	return list, nil
}

// roleOf is what an agent says that it is for, to models that choose.
func roleOf(a agent.Agent) string {
	for a != nil {
		if r, ok := a.(interface{ Role() string }); ok {
			return r.Role()
		}
		w, ok := a.(workflow.Wrapper)
		if !ok {
			break
		}
		a = w.Unwrap()
	}
	if f, ok := a.(*fnAgent); ok {
		if fn, ok := script.SignatureOf(f.cb.fn); ok {
			return firstLine(fn.Doc())
		}
	}
	return ""
}

// nodeParams are what every node takes besides.
var nodeParams = []value.Param{
	{Name: "guard", Type: value.Callable, Doc: "Called with ctx: whether the node may run. It is asked before the start, and again whenever a key or topic changes that it read; when it turns false the node is cancelled."},
	{Name: "on_halt", Type: value.Callable, Doc: "Called with ctx when the node was running and was cancelled, after its children's; ctx.why says what for."},
	{Name: "effect", Type: value.OneOf("read", "write"), Doc: "\"write\" moves or sends something: in a durable run it is not run again by itself if it was interrupted."},
	{Name: "checkpoint", Type: value.Bool, Default: false, Doc: "Makes each run durable: after the end of the process it goes on at the first child without an outcome."},
	{Name: "on_in_doubt", Type: value.Either(value.OneOf("ask", "again", "done", "failed"), value.Callable), Doc: "What becomes of a child that was interrupted while it wrote: \"again\" runs it, \"done\" and \"failed\" take it as that, \"ask\" leaves it to a person; or a function of the step, a dict, that returns one of these."},
	{Name: "on_resumed", Type: value.Callable, Doc: "Called with the result when a durable run has ended that was resumed: who had called run is gone with the process, or with the version of the script."},
}

// maker makes a node of a call's arguments.
type maker func(b *Behaviour, c *value.Call, name string, o workflow.Options) (agent.Agent, error)

// flowRow is the row of a node.
func flowRow(f value.Func, do maker) row {
	f.Params = append(slices.Clip(f.Params), nodeParams...)
	f.Returns = "an agent"
	return row{f, func(b *Behaviour, c *value.Call) (starlark.Value, error) {
		name := ""
		if i := slices.IndexFunc(f.Params, func(p value.Param) bool { return p.Name == "name" }); i >= 0 {
			name = c.String("name")
			if err := validName(name); err != nil && (name != "" || f.Params[i].Required) {
				return nil, c.Errorf("name", "argument \"name\": %v", err)
			}
		}
		o, err := b.nodeOptions(c, cmp.Or(name, childName(c, f.Params[0].Name)))
		if err != nil {
			return nil, err
		}
		a, err := do(b, c, name, o)
		if err != nil {
			return nil, err
		}
		return b.declareFlow(c, a, o.Checkpoint)
	}}
}

// childName is what the functions of a node without a name of its own run as.
func childName(c *value.Call, arg string) string {
	switch v := c.Value(arg).(type) {
	case starlark.Callable:
		return v.Name()
	default:
		if a, err := agentKind.Unwrap(v); err == nil {
			return a.Name()
		}
	}
	return strings.ToLower(c.Name())
}

// declareFlow notes a node and gives it to the script.
func (b *Behaviour) declareFlow(c *value.Call, a agent.Agent, durable bool) (starlark.Value, error) {
	f := &flow{b: b, node: a, at: where(c), durable: durable}
	if err := f.hears(c); err != nil {
		return nil, err
	}
	return b.addFlow(c, f)
}

// declareLeaf is declareFlow for what has no runs of its own.
func (b *Behaviour) declareLeaf(c *value.Call, a agent.Agent) (starlark.Value, error) {
	return b.addFlow(c, &flow{b: b, node: a, at: where(c)})
}

func (b *Behaviour) addFlow(c *value.Call, f *flow) (starlark.Value, error) {
	if err := b.flows.add(f, script.Loading(c.Thread)); err != nil {
		return nil, err
	}
	return agentKind.Wrap(f), nil
}

// hears reads the argument on_resumed.
func (f *flow) hears(c *value.Call) (err error) {
	f.resumed, err = newCallback(c, "on_resumed", "result")
	if err == nil && f.resumed != nil && !f.durable {
		err = c.Errorf("on_resumed", "argument \"on_resumed\": only a durable run is resumed: want a checkpoint, too")
	}
	f.made = declaredBy(c)
	return err
}

// nodeOptions reads what every node takes.
func (b *Behaviour) nodeOptions(c *value.Call, name string) (o workflow.Options, err error) {
	o.Effect, o.Checkpoint = llm.Effect(c.String("effect")), c.Bool("checkpoint")
	if o.Guard, err = b.guard(c, name); err != nil {
		return o, err
	}
	if o.OnHalt, err = b.onHalt(c, name); err != nil {
		return o, err
	}
	o.OnInDoubt, err = b.onInDoubt(c, name)
	return o, err
}

// nodeRun is the run of a function of a node.
func (b *Behaviour) nodeRun(ctx context.Context, name string, v workflow.View) *run {
	return &run{Context: ctx, b: b, source: "workflow:" + name, more: &more{name: name, task: v.Task.Input, view: &v}}
}

// decide calls a function of a node; task is offered if there is one to offer.
func (b *Behaviour) decide(ctx context.Context, cb *callback, name string, v workflow.View, task bool) (starlark.Value, error) {
	r := b.nodeRun(ctx, name, v)
	if !task {
		return b.do(r, cb, b.contextValue(r))
	}
	words, err := value.FromGo(v.Task.Input)
	if err != nil {
		return nil, err
	}
	return b.do(r, cb, words)
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return strings.TrimSpace(line)
}
