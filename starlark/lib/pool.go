package lib

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.starlark.net/starlark"

	"edged/agent"
	"edged/agent/llm"
	"edged/background"
	"edged/bus"
	"edged/bus/origin"
	"edged/pool"
	"edged/starlark/script"
	"edged/starlark/value"
)

var poolRows = []row{
	{value.Func{
		Name: "AgentPool", Doc: "Makes a pool: agents by name and by capability, on the robot's bus and board. A name means one agent.",
		Example: "pool = AgentPool()\npool.register(Agent(\"lookup\", fn = lambda task: bb.get(\"guard/\" + task)))",
		Returns: "a pool",
	}, (*Behaviour).agentPool},
}

// agentPool is a pool as scripts see it. What is registered at top level is
// noted, and comes into the pool when the behaviour starts.
type agentPool struct {
	b *Behaviour
	p *pool.Pool

	mu     sync.Mutex // guards the rest
	agents map[string]agent.Agent
	names  []string
	begun  bool
	todo   []func(ctx context.Context) error
}

func (b *Behaviour) agentPool(c *value.Call) (starlark.Value, error) {
	p, err := pool.New(pool.Options{Bus: b.host.Bus, Board: b.host.Board})
	if err != nil {
		return nil, err
	}
	ap := &agentPool{b: b, p: p, agents: make(map[string]agent.Agent), begun: !script.Loading(c.Thread)}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pools = append(b.pools, ap)
	return poolKind.Wrap(ap), nil
}

// later does f when the behaviour starts, or now.
func (p *agentPool) later(f func(ctx context.Context) error) error {
	p.mu.Lock()
	if !p.begun {
		p.todo = append(p.todo, f)
		p.mu.Unlock()
		return nil
	}
	p.mu.Unlock()
	return f(p.b.life)
}

func (p *agentPool) begin(ctx context.Context) error {
	p.mu.Lock()
	p.begun = true
	todo := p.todo
	p.todo = nil
	p.mu.Unlock()
	var errs []error
	for _, f := range todo {
		errs = append(errs, f(ctx))
	}
	return errors.Join(errs...)
}

func (p *agentPool) end(ctx context.Context) error { return p.p.Close(ctx) }

func (p *agentPool) register(c *value.Call) (starlark.Value, error) {
	a := agentKind.Arg(c, "agent")
	p.mu.Lock()
	taken := p.agents[a.Name()] != nil
	if !taken {
		p.agents[a.Name()] = a
		p.names = append(p.names, a.Name())
	}
	p.mu.Unlock()
	if taken {
		return nil, c.Errorf("agent", "the name %q is taken in this pool", a.Name())
	}
	return nil, p.later(func(context.Context) error { return p.p.Register(a) })
}

// find gives an agent by its name, or an error with the nearest one.
func (p *agentPool) find(c *value.Call) (agent.Agent, error) {
	name := c.String("name")
	p.mu.Lock()
	defer p.mu.Unlock()
	if a := p.agents[name]; a != nil {
		return a, nil
	}
	e := &value.Error{Arg: "name", Msg: fmt.Sprintf("no agent %q in this pool", name)}
	if near := value.Nearest(name, p.names); near != "" {
		e.Hint = fmt.Sprintf("did you mean %q?", near)
	}
	return nil, e
}

func (p *agentPool) run(c *value.Call) (starlark.Value, error) {
	if _, err := p.find(c); err != nil {
		return nil, err
	}
	ctx, t, err := taskOf(c)
	if err != nil {
		return nil, err
	}
	r, err := p.p.Run(ctx, c.String("name"), t)
	origin.Raise(c.Context(), r.Origin)
	return performed(r, err), nil
}

func (p *agentPool) startBackground(c *value.Call) (starlark.Value, error) {
	a, err := p.find(c)
	if err != nil {
		return nil, err
	}
	o, err := p.b.agentOptions(c, a.Name(), nil)
	if err != nil {
		return nil, err
	}
	if !script.Loading(c.Thread) {
		o.Memory.(*past).anew()
	}
	return nil, p.later(func(ctx context.Context) error { return p.p.StartBackground(ctx, a.Name(), o) })
}

func (p *agentPool) request(c *value.Call) (starlark.Value, error) {
	if err := effect(c); err != nil {
		return nil, err
	}
	task, err := c.Tree("task")
	if err != nil {
		return nil, err
	}
	capability := c.String("capability")
	f, err := p.p.Request(c.Context(), p.b.source(c), capability, task, c.Duration("timeout"))
	if err != nil {
		return nil, err
	}
	out := bus.NewFuture(f.Cancel)
	f.OnDone(func(v any, err error) {
		if err != nil {
			out.Resolve(nil, err)
			return
		}
		out.Resolve(wrapResult(pool.ResultOf(v)), nil)
	})
	return p.b.future(out, fmt.Sprintf("request for %q", capability)), nil
}

var poolName = value.Param{Name: "name", Type: value.String, Required: true, Positional: true, Doc: "The agent's name."}

var poolKind = &value.Kind[*agentPool]{
	Name: "pool",
	Doc:  "Agents that share one bus and one blackboard.",
	Methods: []value.Method[*agentPool]{
		{
			Func: value.Func{Name: "register", Doc: "Takes in an agent under its name. One with capabilities answers requests for them.",
				Params: []value.Param{{Name: "agent", Type: agentKind.Type(), Required: true, Positional: true, Doc: "The agent."}}},
			Do: (*agentPool).register,
		},
		{
			Func: value.Func{Name: "get", Doc: "Returns an agent.", Params: []value.Param{poolName}, Returns: "an agent"},
			Do: func(p *agentPool, c *value.Call) (starlark.Value, error) {
				a, err := p.find(c)
				if err != nil {
					return nil, err
				}
				return agentKind.Wrap(a), nil
			},
		},
		{
			Func: value.Func{Name: "names", Doc: "Lists the agents, in the order they were registered.", Returns: "a list of names"},
			Do: func(p *agentPool, c *value.Call) (starlark.Value, error) {
				p.mu.Lock()
				defer p.mu.Unlock()
				return c.Return(p.names)
			},
		},
		{
			Func: value.Func{Name: "run", Doc: "Gives a task to an agent and waits for the result.", Params: append([]value.Param{poolName}, runParams...), Returns: "a result", Blocks: true},
			Do:   (*agentPool).run,
		},
		{
			Func: value.Func{Name: "start_background", Doc: "Has an agent run by itself; the options are those of BackgroundAgent.",
				Example: "pool.start_background(\"monitor\", trigger = on_reading, subscribe_to = \"sensor/#\")",
				Params:  append([]value.Param{poolName}, agentOptions[:len(agentOptions)-1]...)},
			Do: (*agentPool).startBackground,
		},
		{
			Func: value.Func{Name: "stop_background", Doc: "Stops an agent that runs by itself.", Params: []value.Param{poolName}, Blocks: true},
			Do: func(p *agentPool, c *value.Call) (starlark.Value, error) {
				return nil, p.p.StopBackground(c.Context(), c.String("name"))
			},
		},
		{
			Func: value.Func{Name: "stop_all", Doc: "Stops everything that runs in the pool, at the same time.", Blocks: true,
				Params: []value.Param{{Name: "timeout", Type: value.Duration, Default: "5s", Positional: true, Doc: "How long to wait."}}},
			Do: func(p *agentPool, c *value.Call) (starlark.Value, error) {
				ctx, cancel := context.WithTimeout(c.Context(), max(c.Duration("timeout"), time.Millisecond))
				defer cancel()
				return nil, p.p.StopAll(ctx)
			},
		},
		{
			Func: value.Func{Name: "make_ctx", Doc: "Makes a context for runs that have something in common: agent.run(task, ctx = …) takes from it what it is not told itself.",
				Example: "talk = pool.make_ctx(conversation = \"kitchen\")\nr = pool.get(\"lookup\").run(\"door\", ctx = talk)",
				Params:  runParams[2:], Returns: "a context"},
			Do: (*agentPool).makeContext,
		},
		{
			Func: value.Func{Name: "status", Doc: "Tells about every agent.", Returns: "a dict"},
			Do: func(p *agentPool, c *value.Call) (starlark.Value, error) {
				t, err := tree(p.p.Status())
				if err != nil {
					return nil, err
				}
				return c.Return(t)
			},
		},
		{
			Func: value.Func{Name: "request", Doc: "Gives a task to any agent that declares a capability, now or later.",
				Params: []value.Param{
					{Name: "capability", Type: value.String, Required: true, Positional: true, Doc: "The word."},
					{Name: "task", Type: value.Data, Required: true, Positional: true, Doc: "What is to be done."},
					{Name: "timeout", Type: value.Duration, Default: "30s", Doc: "When to give up; 0 is never."}},
				Returns: "a future of a result"},
			Do: (*agentPool).request,
		},
	},
}

// poolContext is what make_ctx gives: what runs are told that have it as ctx.
type poolContext struct {
	b                              *Behaviour
	conversation, origin, priority string
	hooks                          []llm.Hook
}

func (p *agentPool) makeContext(c *value.Call) (starlark.Value, error) {
	x := &poolContext{b: p.b, conversation: c.String("conversation"), origin: c.String("origin"), priority: c.String("priority")}
	if c.Has("hooks") {
		var err error
		if x.hooks, err = p.b.hooksOf(c, "hooks"); err != nil {
			return nil, err
		}
	}
	return poolContextKind.Wrap(x), nil
}

var poolContextKind = &value.Kind[*poolContext]{
	Name: "pool_ctx",
	Doc:  "What runs have in common, see pool.make_ctx.",
	Attrs: []value.Attr[*poolContext]{
		{Name: "bus", Doc: "The module bus.", Get: func(x *poolContext) (any, error) { return x.b.predeclared["bus"], nil }},
		{Name: "blackboard", Doc: "The module bb.", Get: func(x *poolContext) (any, error) { return x.b.predeclared["bb"], nil }},
		{Name: "conversation", Doc: "The session of those runs, or empty.", Type: value.String, Get: func(x *poolContext) (any, error) { return x.conversation, nil }},
		{Name: "origin", Doc: "Whose words their tasks are, or empty.", Type: value.String, Get: func(x *poolContext) (any, error) { return x.origin, nil }},
		{Name: "priority", Doc: "How urgent they are, or empty.", Type: value.String, Get: func(x *poolContext) (any, error) { return x.priority, nil }},
	},
}

var _ background.Trigger = gate{}
