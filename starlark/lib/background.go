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
	"edged/background"
	"edged/bus"
	"edged/starlark/script"
	"edged/starlark/value"
)

var names = value.OneOrMany(value.String)

// agentOptions are what BackgroundAgent and pool.start_background share.
var agentOptions = []value.Param{
	{Name: "trigger", Type: triggerType, Doc: "A trigger, or a function of an event that returns the task, None to ignore it, or EXIT. Every event is a task if missing."},
	{Name: "subscribe_to", Type: names, Doc: "Topic filters. Without these and watch, a trigger that looks at events hears all, \"*\"."},
	{Name: "watch", Type: names, Doc: "Blackboard keys, or prefixes that end in *."},
	{Name: "max_queue", Type: value.Between(value.Int, 1, 100_000), Default: 32, Doc: "How many tasks may wait."},
	{Name: "overflow", Type: value.OneOf("drop_oldest", "drop_new", "latest"), Default: "drop_oldest", Doc: "What a full queue gives up."},
	{Name: "restart", Type: value.OneOf("permanent", "transient", "temporary"), Default: "transient", Doc: "When it is started again: always, after a crash, never."},
	{Name: "max_restarts", Type: value.Between(value.Int, 0, 1_000_000), Default: 5, Doc: "More than that within the window: it gives up."},
	{Name: "restart_window", Type: value.Duration, Default: "60s", Doc: "The window."},
	{Name: "restart_window_s", Type: value.Number, Unit: "s", Doc: "The window as a number of seconds."},
	{Name: "backoff", Type: value.Duration, Default: "200ms", Doc: "The wait before a restart, doubled each time."},
	{Name: "max_backoff", Type: value.Duration, Default: "30s", Doc: "The longest wait."},
	{Name: "on_crash", Type: value.OneOf("drop", "retry"), Default: "drop", Doc: "What becomes of the task it crashed on; retry offers it again, at most 3 times."},
	{Name: "depends_on", Type: names, Doc: "Agents of the same tree that are started before."},
	{Name: "shutdown", Type: value.Duration, Default: "5s", Doc: "How long it may take to stop."},
	{Name: "session", Type: value.OneOf("fresh", "keep"), Default: "fresh", Doc: "Whether its runs share one conversation."},
	{Name: "self_events", Type: value.Bool, Default: false, Doc: "Whether it hears what its own runs cause."},
	{Name: "autostart", Type: value.Bool, Default: true, Doc: "Whether one that is declared at top level starts with the robot."},
}

var backgroundRows = []row{
	{value.Func{
		Name: "BackgroundAgent", Doc: "Makes an agent run by itself when events or changes of the blackboard say so, one run at a time, supervised: a crash restarts it. Declared at top level it starts with the robot, unless a SupervisionTree starts it.",
		Example: "BackgroundAgent(\n    agent = Agent(\"alarm\", fn = lambda task: bus.publish(\"guard/alarm\", task)),\n    trigger = lambda ev: ev[\"text\"] if ev[\"level\"] > 2 else None,\n    subscribe_to = \"guard/alert\",\n)",
		Params: append([]value.Param{
			{Name: "agent", Type: agentKind.Type(), Required: true, Positional: true, Doc: "The agent that runs."},
			{Name: "name", Type: value.String, Doc: "Its name in the background; the agent's own if missing."},
		}, agentOptions...),
		Returns: "a background agent",
	}, (*Behaviour).backgroundAgent},
	{value.Func{
		Name: "SupervisionTree", Doc: "Supervises background agents and other trees: starts them in order, stops them in reverse, and restarts them by the strategy. One window of restarts is shared by all. When it gives up, the supervisor above is told.",
		Example: "SupervisionTree(\"body\", children = [driver, pilot], strategy = \"rest_for_one\")",
		Params: []value.Param{
			{Name: "name", Type: value.String, Required: true, Positional: true, Doc: "Its name, one topic level."},
			{Name: "children", Type: value.List, Required: true, Positional: true, Doc: "Background agents and trees, in start order."},
			{Name: "strategy", Type: value.OneOf("one_for_one", "one_for_all", "rest_for_one"), Default: "one_for_one", Doc: "Who is restarted along with a child that crashed: nobody, all, or those after it."},
			{Name: "max_restarts", Type: value.Between(value.Int, 0, 1_000_000), Default: 5, Doc: "More than that within the window: it gives up."},
			{Name: "restart_window", Type: value.Duration, Default: "60s", Doc: "The window."},
			{Name: "autostart", Type: value.Bool, Default: true, Doc: "Whether one that is declared at top level starts with the robot."},
		},
		Returns: "a supervision tree",
	}, (*Behaviour).supervisionTree},
}

// unit is something supervised that a script declared: a background agent or a
// tree.
type unit struct {
	b     *Behaviour
	name  string
	agent *background.Agent      // nil for a tree
	tree  *background.Supervisor // the agent's own, or the declared one
	at    script.Position
	past  *past // of the tree

	mu    sync.Mutex // guards the rest
	owner *background.Supervisor
	child string // its name there
	auto  bool
}

func (b *Behaviour) backgroundAgent(c *value.Call) (starlark.Value, error) {
	a := agentKind.Arg(c, "agent")
	name := c.String("name")
	if name == "" {
		name = a.Name()
	}
	o, err := b.agentOptions(c, name, a)
	if err != nil {
		return nil, err
	}
	bg, err := background.NewAgent(o)
	if err != nil {
		return nil, err
	}
	u := &unit{b: b, name: name, agent: bg, tree: bg.Tree(), past: o.Memory.(*past), at: where(c), auto: c.Bool("autostart") && script.Loading(c.Thread)}
	if err := b.declareUnit(u); err != nil {
		return nil, err
	}
	return unitKind.Wrap(u), nil
}

// agentOptions reads the options of a background agent.
func (b *Behaviour) agentOptions(c *value.Call, name string, a agent.Agent) (o background.AgentOptions, err error) {
	if err := validName(name); err != nil {
		return o, err
	}
	o = background.AgentOptions{
		Name: name, Agent: behind(a), Bus: b.host.Bus, SubscribeTo: c.Strings("subscribe_to"), Watch: c.Strings("watch"),
		MaxQueue: c.Int("max_queue"), MaxRestarts: c.Int("max_restarts"), RestartWindow: c.Duration("restart_window"),
		Backoff: c.Duration("backoff"), MaxBackoff: c.Duration("max_backoff"), DependsOn: c.Strings("depends_on"),
		Shutdown: c.Duration("shutdown"), KeepSession: c.String("session") == "keep", SelfEvents: c.Bool("self_events"),
		Memory: b.pastOf("agent", name),
	}
	if o.MaxRestarts == 0 {
		o.MaxRestarts = background.NoRestarts
	}
	if o.Backoff == 0 {
		o.Backoff = -1
	}
	t, err := b.inner(c, "trigger")
	if err != nil {
		return o, err
	}
	// A trigger that looks at events and is given none in particular looks at all.
	everything := t != nil && !t.clock && len(o.SubscribeTo)+len(o.Watch) == 0
	if everything {
		o.SubscribeTo = []string{"*"}
	}
	for _, f := range o.SubscribeTo {
		err := b.mayHear(c, f)
		if e, ok := value.AsError(err); ok && everything {
			return o, &value.Error{Msg: fmt.Sprintf("nothing says what %q listens to, so it would hear everything: %s", name, e.Msg),
				Hint: "give it subscribe_to or watch; or " + e.Hint}
		}
		if err != nil {
			return o, err
		}
	}
	for _, k := range o.Watch {
		if err := b.may(c, "bb", k); err != nil {
			return o, err
		}
	}
	if t == nil {
		t = &trigger{Trigger: background.Always()}
		if len(o.SubscribeTo)+len(o.Watch) == 0 {
			return o, &value.Error{Msg: fmt.Sprintf("nothing can wake %q", name), Hint: "give it subscribe_to, watch, or a trigger such as every(\"1m\")"}
		}
	}
	o.Trigger = gate{b, t.Trigger}
	b.noteTrigger(c, o)
	return o, parseOptions(c, &o)
}

// noteTrigger remembers what wakes an agent, for those who look.
func (b *Behaviour) noteTrigger(c *value.Call, o background.AgentOptions) {
	s := TriggerSummary{Agent: o.Name, Hears: slices.Clone(o.SubscribeTo), Trigger: "every event", At: where(c).String()}
	for _, k := range o.Watch {
		s.Hears = append(s.Hears, "board/"+k)
	}
	if t, err := triggerKind.Unwrap(c.Value("trigger")); err == nil {
		s.Trigger = t.what
	} else if f, ok := c.Value("trigger").(starlark.Callable); ok {
		s.Trigger = f.Name()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wakers = slices.DeleteFunc(b.wakers, func(t TriggerSummary) bool { return t.Agent == s.Agent })
	b.wakers = append(b.wakers, s)
}

// parseOptions reads those options that are words.
func parseOptions(c *value.Call, o *background.AgentOptions) (err error) {
	if c.Has("restart_window_s") {
		if o.RestartWindow, err = value.ToDuration(c.Value("restart_window_s")); err != nil {
			return err
		}
	}
	if o.Overflow, err = background.ParseOverflow(c.String("overflow")); err != nil {
		return err
	}
	if o.Restart, err = background.ParseRestart(c.String("restart")); err != nil {
		return err
	}
	o.OnCrash, err = background.ParseOnCrash(c.String("on_crash"))
	return err
}

func (b *Behaviour) supervisionTree(c *value.Call) (starlark.Value, error) {
	name := c.String("name")
	if err := validName(name); err != nil {
		return nil, c.Errorf("name", "argument \"name\": %v", err)
	}
	o := background.Options{MaxRestarts: c.Int("max_restarts"), Window: c.Duration("restart_window"), Bus: b.host.Bus}
	past := b.pastOf("tree", name)
	o.Memory = past
	if o.MaxRestarts == 0 {
		o.MaxRestarts = background.NoRestarts
	}
	var err error
	if o.Strategy, err = background.ParseStrategy(c.String("strategy")); err != nil {
		return nil, err
	}
	var units []*unit
	var children []background.Child
	for i, v := range c.List("children") {
		u, err := unitKind.Unwrap(v)
		if err != nil {
			return nil, c.Errorf("children", "argument \"children\": element %d: %v", i, strings.ReplaceAll(err.Error(), "want background_agent", "want a background agent or a tree"))
		}
		units = append(units, u)
		if u.agent != nil {
			children = append(children, u.agent.Child())
		} else {
			children = append(children, background.Child{Name: u.name, Service: u.tree})
		}
	}
	s := background.NewSupervisor(name, o, children...)
	if err := s.Check(); err != nil {
		return nil, err
	}
	for _, u := range units {
		u.mu.Lock()
		taken := u.owner
		if taken == nil {
			u.owner, u.child, u.auto = s, u.name, false
		}
		u.mu.Unlock()
		if taken != nil {
			return nil, c.Errorf("children", "argument \"children\": %q is in the tree %q already", u.name, taken.Name())
		}
	}
	u := &unit{b: b, name: name, tree: s, past: past, at: where(c), auto: c.Bool("autostart") && script.Loading(c.Thread)}
	if err := b.declareUnit(u); err != nil {
		return nil, err
	}
	return unitKind.Wrap(u), nil
}

// start starts a unit that the robot has, now.
func (u *unit) start(ctx context.Context) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.owner != nil {
		return u.owner.StartChild(ctx, u.child)
	}
	child := background.Child{Name: u.name, Service: u.tree}
	if u.agent != nil {
		child.Restart, child.DependsOn = background.Transient, u.agent.DependsOn()
	}
	if err := u.b.root.Add(ctx, child); err != nil {
		return err
	}
	u.owner, u.child = u.b.root, u.name
	return nil
}

// stop stops it.
func (u *unit) stop(ctx context.Context) error {
	u.mu.Lock()
	owner, child := u.owner, u.child
	u.mu.Unlock()
	if owner == nil {
		return nil
	}
	err := owner.StopChild(ctx, child)
	if errors.Is(err, background.ErrUnknown) || errors.Is(err, background.ErrStopped) {
		return nil
	}
	return err
}

// status is what the agent or the tree says about itself.
func (u *unit) status() any {
	if u.agent != nil {
		return u.agent.Status()
	}
	return u.tree.Status()
}

// tree makes a JSON tree of anything with a JSON form.
func tree(v any) (any, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return bus.DecodeJSON(text)
}

var unitKind = &value.Kind[*unit]{
	Name: "background_agent",
	Doc:  "A background agent or a supervision tree.",
	Attrs: []value.Attr[*unit]{
		{Name: "name", Doc: "Its name.", Type: value.String, Get: func(u *unit) (any, error) { return u.name, nil }},
		{Name: "state", Doc: "starting, running, backing_off, stopping, stopped or failed.", Type: value.String, Get: func(u *unit) (any, error) {
			if u.agent != nil {
				return string(u.agent.Status().State), nil
			}
			return string(u.tree.Status().State), nil
		}},
		{Name: "restart_count", Doc: "How often it was restarted.", Type: value.Int, Get: func(u *unit) (any, error) {
			if u.agent != nil {
				return int64(u.agent.Status().Restarts), nil
			}
			return int64(u.tree.Status().Restarts), nil
		}},
		{Name: "dropped_events", Doc: "How many events its queue lost.", Type: value.Int, Get: func(u *unit) (any, error) {
			if u.agent == nil {
				return int64(0), nil
			}
			n := uint64(0)
			for cause, k := range u.agent.Status().Drops {
				if cause == "overflow" || cause == "replaced" {
					n += k
				}
			}
			return int64(n), nil
		}},
	},
	Methods: []value.Method[*unit]{
		{
			Func: value.Func{
				Name: "start", Doc: "Starts it; at top level: with the robot. To start what runs is an error.", Blocks: true,
				Params: []value.Param{
					{Name: "ctx", Positional: true, Doc: "May be left out."},
					{Name: "bus", Positional: true, Doc: "May be left out: there is one bus."}},
			},
			Do: func(u *unit, c *value.Call) (starlark.Value, error) {
				if script.Loading(c.Thread) {
					u.mu.Lock()
					defer u.mu.Unlock()
					u.auto = u.owner == nil
					return nil, nil
				}
				u.past.anew()
				return nil, u.start(u.b.life)
			},
		},
		{
			Func: value.Func{
				Name: "stop", Doc: "Cancels the run in progress, drops what waits, and returns when nothing of it is left.", Blocks: true,
				Params: []value.Param{{Name: "timeout", Type: value.Duration, Default: "5s", Positional: true, Doc: "How long to wait."}},
			},
			Do: func(u *unit, c *value.Call) (starlark.Value, error) {
				ctx, cancel := context.WithTimeout(c.Context(), max(c.Duration("timeout"), time.Millisecond))
				defer cancel()
				return nil, u.stop(ctx)
			},
		},
		{
			Func: value.Func{Name: "status", Doc: "Returns what it is doing: state, queue, drops, restarts, last error and run.", Returns: "a dict"},
			Do: func(u *unit, c *value.Call) (starlark.Value, error) {
				t, err := tree(u.status())
				if err != nil {
					return nil, err
				}
				return c.Return(t)
			},
		},
	},
	String: func(u *unit) string { return fmt.Sprintf("<background %s>", u.name) },
}

// validName checks a name that becomes one level of topics.
func validName(name string) error {
	if name == "" || strings.ContainsAny(name, "/+#\x00") || name == "*" || len(name) > 200 {
		return fmt.Errorf("%q can't be a name: want one topic level, without / + #", name)
	}
	return nil
}
