package lib

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.starlark.net/starlark"

	"edged/agent"
	"edged/agent/llm"
	"edged/background"
	"edged/bus"
	"edged/bus/origin"
	"edged/hw"
	"edged/starlark/value"
)

// modelAgent is an agent that thinks with a model.
type modelAgent struct {
	identity
	choice   choice
	o        llm.Options
	tools    []*tool
	sets     []*toolset
	handoffs []agent.Agent

	mu sync.Mutex // guards a
	a  *llm.Agent // nil until the servers of sets have told their tools
}

var _ agent.Agent = (*modelAgent)(nil)

func newModelAgent(c *value.Call, id identity) (agent.Agent, error) {
	b := id.b
	a := &modelAgent{identity: id}
	var err error
	if a.choice, err = b.modelChoice(c); err != nil {
		return nil, err
	}
	if a.tools, a.sets, err = b.toolsOf(c, "tools"); err != nil {
		return nil, err
	}
	for _, v := range c.List("handoffs") {
		h, err := agentKind.Unwrap(v)
		if err != nil {
			return nil, err
		}
		a.handoffs = append(a.handoffs, b.traced(h, true))
	}
	a.o = llm.Options{
		Name: id.name, Role: id.role, Instructions: id.instructions, Timeout: id.timeout,
		Handoffs: a.handoffs, MaxToolHops: c.Int("max_tool_hops"), ToolChoice: llm.ToolChoice(c.String("tool_choice")),
		Sampling: sampling(c), Session: llm.Session(c.String("session")), Sessions: b.sessions().Of(id.name),
		Bare: c.Bool("bare"), Gate: b.gate, Trusted: b.truster(c.Strings("trust")), TaintedWrites: b.host.TaintedWrites,
		Together: sideBySide, Update: b.updateState, Report: a.report,
	}
	if a.o.MaxToolHops == 0 {
		a.o.MaxToolHops = -1
	}
	if c.Has("allow") {
		a.o.Allow = allower(c.Strings("allow"))
	}
	out, err := outputSchema(c, "output")
	if err != nil {
		return nil, err
	}
	if out != nil {
		if a.o.Output, err = json.Marshal(out); err != nil {
			return nil, err
		}
	}
	if a.o.Hooks, err = b.hooksOf(c, "hooks"); err != nil {
		return nil, err
	}
	a.o.Hooks = append(a.o.Hooks, limits(a.name, a.tools), a.trace())
	a.o.Audit = b.host.Audit
	if err := a.remembers(c); err != nil {
		return nil, err
	}
	return a, a.prepare(c)
}

// prepare makes the agent as far as nobody needs to be asked for it: what is
// wrong with it is an error of the load.
func (a *modelAgent) prepare(c *value.Call) error {
	sentences, err := a.sentences(c)
	if err != nil {
		return err
	}
	if a.o.Model, err = a.b.models(a.choice, sentences, a.b.skips("agent:"+a.name)); err != nil {
		return err
	}
	for _, t := range a.tools {
		a.o.Tools = append(a.o.Tools, t.Tool)
	}
	first, err := llm.New(a.o)
	if err != nil {
		return &value.Error{Func: c.Name(), Msg: strings.TrimPrefix(err.Error(), "llm: "), Err: err}
	}
	if len(a.sets) == 0 {
		a.a = first
	}
	if n := len(a.o.Tools) + len(a.handoffs); n > llm.MaxTools {
		a.b.warn(Problem{a.at, "many-tools", fmt.Sprintf("agent %s has %d tools", a.name, n), fmt.Sprintf("small models choose badly among more than %d: part them among agents with handoffs", llm.MaxTools)})
	}
	return nil
}

// get gives the agent with all its tools.
func (a *modelAgent) get(ctx context.Context) (*llm.Agent, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.a != nil {
		return a.a, nil
	}
	o := a.o
	o.Tools = slices.Clone(o.Tools)
	for _, s := range a.sets {
		list, err := s.tools(ctx, a.b)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", agent.ErrFailed, err)
		}
		o.Tools = append(o.Tools, list...)
	}
	var err error
	a.a, err = llm.New(o)
	return a.a, err
}

// Run implements agent.Agent.
func (a *modelAgent) Run(ctx context.Context, t agent.Task) (agent.Result, error) {
	ctx, over := a.b.turn(a.run(ctx, t))
	defer over()
	m, err := a.get(ctx)
	if err != nil {
		return agent.Result{}, err
	}
	r, err := m.Run(ctx, t)
	if err != nil && errors.Is(context.Cause(ctx), errRobotStopped) {
		r.Status, r.Reason = agent.Cancelled, errRobotStopped.Error()
		err = fmt.Errorf("%w: %w", agent.ErrCancelled, errRobotStopped)
	}
	return r, err
}

// Models are what the agent thinks with, by name.
func (a *modelAgent) Models() []string { return a.choice.names }

func (a *modelAgent) toolNames() []string {
	names := []string{}
	for _, t := range a.tools {
		names = append(names, t.Name)
	}
	return names
}

// report hears of trouble in runs. That there are many tools is told by check.
func (a *modelAgent) report(ctx context.Context, err error) {
	if runOf(ctx) != nil {
		a.b.report(ctx, "agent:"+a.name, err, bus.Event{})
	}
}

// warn notes what Check will tell.
func (b *Behaviour) warn(p Problem) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.warnings = append(b.warnings, p)
}

// toolsOf reads a list of functions, tools, agents and servers.
func (b *Behaviour) toolsOf(c *value.Call, arg string) (tools []*tool, sets []*toolset, err error) {
	for i, v := range c.List(arg) {
		if t, err := toolKind.Unwrap(v); err == nil {
			tools = append(tools, t)
			continue
		}
		if s, err := toolsetKind.Unwrap(v); err == nil {
			sets = append(sets, s)
			continue
		}
		if a, err := agentKind.Unwrap(v); err == nil {
			tools = append(tools, b.agentTool(a, "", ""))
			continue
		}
		fn, ok := v.(starlark.Callable)
		if !ok {
			return nil, nil, c.Errorf(arg, "argument %q: element %d: want a function, Tool(…), an agent or mcp(…), got %s", arg, i, v.Type())
		}
		t, err := b.wrapped(c, fn)
		if err != nil {
			return nil, nil, err
		}
		tools = append(tools, t)
	}
	return tools, sets, nil
}

// wrapped makes a tool of a bare function; the same one for the same function.
func (b *Behaviour) wrapped(c *value.Call, fn starlark.Callable) (*tool, error) {
	b.mu.Lock()
	for _, t := range b.tools {
		if t.bare && t.fn == fn {
			b.mu.Unlock()
			return t, nil
		}
	}
	b.mu.Unlock()
	keep(c, fn)
	t, err := b.newTool(c, fn)
	if err != nil {
		return nil, err
	}
	t.bare = true
	b.noteTool(c, t)
	return t, nil
}

// sideBySide runs functions side by side and waits for all.
func sideBySide(fs []func()) {
	var wait sync.WaitGroup
	for _, f := range fs[1:] {
		wait.Add(1)
		time.AfterFunc(0, func() {
			defer wait.Done()
			f()
		})
	}
	fs[0]()
	wait.Wait()
}

// allower lets tools through by name.
func allower(patterns []string) func(string) bool {
	return func(tool string) bool {
		return slices.ContainsFunc(patterns, func(p string) bool { return coversName(p, tool) })
	}
}

// truster says whose words are orders, given whom an agent trusts besides.
func (b *Behaviour) truster(more []string) func(string) bool {
	return func(origin string) bool {
		return b.trusted(origin) || slices.ContainsFunc(more, func(p string) bool { return coversName(p, origin) })
	}
}

// gate lets a tool act or not, right before it does.
func (b *Behaviour) gate(ctx context.Context, t llm.Tool, _ llm.Call) error {
	if old := bus.OldOf(ctx); old != nil {
		return fmt.Errorf("%w: %v", hw.ErrOld, old)
	}
	if b.host.Rig == nil {
		return nil
	}
	if s, stopped := b.host.Rig.Stopped(); stopped {
		return fmt.Errorf("the robot is stopped (%s); nothing is done before somebody lets it go on", s.Reason)
	}
	return nil
}

// A Question is what a person is asked before a call is made.
type Question struct {
	Agent  string          `json:"agent,omitempty"`
	Tool   string          `json:"tool"`
	Text   string          `json:"text"` // what the tool does
	Args   json.RawMessage `json:"args"` // the answer holds for exactly these
	Origin string          `json:"origin,omitempty"`
}

// confirmTime is how long a person has.
const confirmTime = 30 * time.Second

// askPerson asks whether a call may be made.
func (t *tool) askPerson(ctx context.Context, call llm.Call) error {
	if t.b.host.Confirm == nil {
		return errors.New("there is nobody to ask")
	}
	q := Question{Tool: t.Name, Text: t.Doc, Args: slices.Clone(call.Args)}
	if r := runOf(ctx); r != nil {
		q.Agent, q.Origin = r.agent(), string(origin.From(ctx))
	}
	inner, cancel := context.WithTimeout(ctx, confirmTime)
	defer cancel()
	err := t.b.host.Confirm(inner, q)
	if err != nil && ctx.Err() == nil && inner.Err() != nil {
		return fmt.Errorf("nobody answered within %v", confirmTime)
	}
	return err
}

// limits holds an agent's calls to what Tool(limits = …) says.
func limits(a string, tools []*tool) llm.Hook {
	return llm.Hook{
		Name: "limits", Priority: llm.PrioritySafety, Safety: true,
		BeforeTool: func(ctx context.Context, s *llm.Step) error {
			for _, t := range tools {
				if t.Name == s.Call.Name && s.Turn.Agent == a && s.Err == nil && s.Result == nil {
					s.Err = t.check(ctx, s.Call)
				}
			}
			return ctx.Err()
		},
	}
}

// trace tells of a run's steps on the bus.
func (a *modelAgent) trace() llm.Hook {
	type clock struct{ at time.Time }
	key := new(int)
	of := func(s *llm.Step) *clock { return s.Turn.Value(key, func() any { return &clock{} }).(*clock) }
	source, topic := "agent:"+a.name, "edged/agent/"+a.name+"/"
	began := func(_ context.Context, s *llm.Step) error {
		of(s).at = time.Now()
		return nil
	}
	return llm.Hook{
		Name: "trace", Priority: llm.PriorityObserve - 10, BeforeModel: began, BeforeTool: began,
		AfterModel: func(ctx context.Context, s *llm.Step) error {
			calls := []any{}
			for _, c := range s.Answer.Calls {
				calls = append(calls, c.Name)
			}
			a.b.tell(ctx, source, topic+"model", map[string]any{
				"hop": int64(s.Turn.Hop), "calls": calls, "prompt_tokens": int64(s.Answer.Usage.PromptTokens),
				"output_tokens": int64(s.Answer.Usage.OutputTokens), "elapsed": time.Since(of(s).at).Seconds(),
			})
			return nil
		},
		AfterTool: func(ctx context.Context, s *llm.Step) error {
			m := map[string]any{"tool": s.Call.Name, "args": decoded(s.Call.Args), "ran": s.Ran, "elapsed": time.Since(of(s).at).Seconds()}
			if s.Err != nil {
				m["error"] = s.Err.Error()
			} else {
				m["result"] = decoded(s.Result)
			}
			a.b.tell(ctx, source, topic+"tool", m)
			return nil
		},
	}
}

// traced is an agent whose runs for others are told as its own are.
func (b *Behaviour) traced(a agent.Agent, handoff bool) agent.Agent { return &told{a, b, handoff} }

type told struct {
	agent.Agent
	b       *Behaviour
	handoff bool // it goes on in another's place
}

func (t *told) about() *identity { return aboutAgent(t.Agent) }

// Role is that of the agent.
func (t *told) Role() string { return roleOf(t.Agent) }

func (t *told) Run(ctx context.Context, task agent.Task) (agent.Result, error) {
	if r := runOf(ctx); r != nil && t.handoff && r.agent() != "" {
		t.b.tell(ctx, "agent:"+r.agent(), "edged/agent/"+r.agent()+"/handoff", map[string]any{"to": t.Name()})
	}
	return background.Perform(ctx, t.b.host.Bus, t.Agent, task)
}
