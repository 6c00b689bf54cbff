package lib

import (
	"context"
	"fmt"
	"time"

	"go.starlark.net/starlark"

	"edged/agent"
	"edged/background"
	"edged/bus"
	"edged/starlark/value"
)

// trigger is a background.Trigger as scripts see it.
type trigger struct {
	background.Trigger
	what  string
	clock bool // it fires by time alone: no event is needed
}

var triggerKind = &value.Kind[*trigger]{
	Name:    "trigger",
	Doc:     "Decides which events wake a background agent, and with what task.",
	Example: "BackgroundAgent(agent = fan, subscribe_to = \"guard/temp/+\", trigger = threshold_trigger(\"value\", above = 30, hysteresis = 2))",
	String:  func(t *trigger) string { return fmt.Sprintf("<trigger %s>", t.what) },
}

// triggerType takes a trigger, or a function of an event that returns the task
// or None.
var triggerType = value.Either(triggerKind.Type(), value.Callable)

var (
	innerParam = value.Param{Name: "trigger", Type: triggerType, Required: true, Positional: true, Doc: "A trigger, or a function of an event that returns the task, or None to ignore it."}
	keyFnParam = value.Param{Name: "key", Type: value.Callable, Doc: "Says which events share a window: lambda ev: ev.topic gives each sensor its own."}
	pathParam  = value.Param{Name: "path", Type: value.String, Required: true, Positional: true, Doc: "Where in the payload: names and list positions between dots, \"pose.x\"; empty is the payload itself."}
	// intervalS is how EdgeVox spells interval.
	intervalS = value.Param{Name: "interval_s", Type: value.Number, Unit: "s", Doc: "The interval as a number of seconds."}
)

var triggerRows = []row{
	{value.Func{
		Name: "debounce_trigger", Doc: "Thins out a burst: leading fires on the first event and then at most once per interval, trailing with the latest event after a quiet interval. Only what the inner trigger fires counts.",
		Example: "debounce_trigger(on_alert, \"1s\", edge = \"trailing\", key = lambda ev: ev.topic)",
		Params: []value.Param{innerParam,
			{Name: "interval", Type: value.Duration, Positional: true, Doc: "The window."},
			{Name: "edge", Type: value.OneOf("leading", "trailing", "both"), Default: "leading", Doc: "Which end of a burst fires."},
			keyFnParam,
			{Name: "max_wait", Type: value.Duration, Doc: "The longest a burst may delay its trailing event."},
			intervalS},
		Returns: "a trigger",
	}, (*Behaviour).debounce},
	{value.Func{
		Name: "throttle_trigger", Doc: "Fires at most once per interval: the first event at once, then the latest of those that came since.",
		Example: "throttle_trigger(on_pose, \"500ms\")",
		Params: []value.Param{innerParam,
			{Name: "interval", Type: value.Duration, Positional: true, Doc: "The window."},
			keyFnParam,
			{Name: "drop_last", Type: value.Bool, Default: false, Doc: "Lose what comes inside the interval instead of firing the latest at its end."},
			intervalS},
		Returns: "a trigger",
	}, (*Behaviour).throttle},
	{value.Func{
		Name: "threshold_trigger", Doc: "Fires when a number crosses a limit: once when it gets beyond, again after it has come back by the hysteresis. The task is {topic, value, limit, crossed}.",
		Example: "threshold_trigger(\"value\", above = 30, hysteresis = 2)",
		Params: []value.Param{pathParam,
			{Name: "above", Type: value.Number, Doc: "The upper limit."},
			{Name: "below", Type: value.Number, Doc: "The lower limit."},
			{Name: "hysteresis", Type: value.Between(value.Number, 0, 1e300), Default: 0, Doc: "How far it must come back."},
			keyFnParam},
		Returns: "a trigger",
	}, (*Behaviour).threshold},
	{value.Func{
		Name: "changed_trigger", Doc: "Fires when a value is another than in the event before; the first one counts as changed. The task is {topic, value, old}.",
		Example: "changed_trigger(\"state\")",
		Params:  []value.Param{pathParam, keyFnParam},
		Returns: "a trigger",
	}, (*Behaviour).changed},
	{value.Func{
		Name: "any_of", Doc: "Fires when any of the triggers does.", Example: "any_of(on_alert, every(\"1h\"))",
		Rest: "triggers", Returns: "a trigger",
	}, (*Behaviour).anyOf},
	{value.Func{
		Name: "all_of", Doc: "Fires when every one of the triggers has fired within a time; the task is the list of their tasks.",
		Example: "all_of(on_motion, on_dark, within = \"10s\")",
		Params:  []value.Param{{Name: "within", Type: value.Duration, Doc: "No matter how long it takes if missing."}},
		Rest:    "triggers", Returns: "a trigger",
	}, (*Behaviour).allOf},
}

// inner gives the trigger behind an argument; nil if it was not given.
func (b *Behaviour) inner(c *value.Call, arg string) (*trigger, error) {
	if !c.Has(arg) {
		return nil, nil
	}
	if t, err := triggerKind.Unwrap(c.Value(arg)); err == nil {
		return t, nil
	}
	cb, err := newCallback(c, arg, "event")
	if err != nil {
		return nil, err
	}
	return &trigger{Trigger: b.when(cb), what: cb.name}, nil
}

// when makes a trigger of a script function.
func (b *Behaviour) when(cb *callback) background.Trigger {
	source := b.scriptSource(cb.at.File)
	return background.When(func(ctx context.Context, e bus.Event) (any, bool, error) {
		r := &run{Context: ctx, b: b, source: source, pure: inTrigger}
		v, err := b.ask(r, cb, eventValue(e))
		switch {
		case err != nil:
			return nil, false, err
		case v == starlark.None:
			return nil, false, nil
		case v == exitValue:
			return nil, false, agent.ErrExit
		}
		task, err := value.ToGo(v)
		return task, err == nil, err
	})
}

// keyOf makes a key function of a script's.
func (b *Behaviour) keyOf(c *value.Call) (background.KeyFunc, error) {
	cb, err := newCallback(c, "key", "event")
	if err != nil || cb == nil {
		return nil, err
	}
	return func(e bus.Event) (string, error) {
		r := &run{Context: b.life, b: b, pure: inKey}
		v, err := b.ask(r, cb, eventValue(e))
		if err != nil {
			return "", err
		}
		if s, ok := starlark.AsString(v); ok {
			return s, nil
		}
		if err := value.Measure(v, 1000, 4096); err != nil {
			return "", err
		}
		return v.String(), nil
	}, nil
}

// interval reads interval or interval_s.
func interval(c *value.Call) (time.Duration, error) {
	switch {
	case c.Has("interval") && c.Has("interval_s"):
		return 0, c.Errorf("interval_s", "give interval or interval_s, not both")
	case c.Has("interval_s"):
		return value.ToDuration(c.Value("interval_s"))
	case !c.Has("interval"):
		return 0, &value.Error{Msg: "missing argument \"interval\" (duration)"}
	}
	return c.Duration("interval"), nil
}

func (b *Behaviour) debounce(c *value.Call) (starlark.Value, error) {
	inner, err := b.inner(c, "trigger")
	if err != nil {
		return nil, err
	}
	d, err := interval(c)
	if err != nil {
		return nil, err
	}
	o := background.DebounceOptions{MaxWait: c.Duration("max_wait")}
	if o.Edge, err = background.ParseEdge(c.String("edge")); err != nil {
		return nil, err
	}
	if o.Key, err = b.keyOf(c); err != nil {
		return nil, err
	}
	t, err := background.Debounce(inner.Trigger, d, o)
	return wrapTrigger(t, "debounce "+d.String(), inner.clock, err)
}

func (b *Behaviour) throttle(c *value.Call) (starlark.Value, error) {
	inner, err := b.inner(c, "trigger")
	if err != nil {
		return nil, err
	}
	d, err := interval(c)
	if err != nil {
		return nil, err
	}
	o := background.ThrottleOptions{DropLast: c.Bool("drop_last")}
	if o.Key, err = b.keyOf(c); err != nil {
		return nil, err
	}
	t, err := background.Throttle(inner.Trigger, d, o)
	return wrapTrigger(t, "throttle "+d.String(), inner.clock, err)
}

func (b *Behaviour) threshold(c *value.Call) (starlark.Value, error) {
	o := background.ThresholdOptions{Hysteresis: c.Float("hysteresis")}
	for _, l := range []struct {
		name string
		to   **float64
	}{{"above", &o.Above}, {"below", &o.Below}} {
		if c.Has(l.name) {
			f := c.Float(l.name)
			*l.to = &f
		}
	}
	var err error
	if o.Key, err = b.keyOf(c); err != nil {
		return nil, err
	}
	t, err := background.Threshold(c.String("path"), o)
	return wrapTrigger(t, "threshold "+c.String("path"), false, err)
}

func (b *Behaviour) changed(c *value.Call) (starlark.Value, error) {
	key, err := b.keyOf(c)
	if err != nil {
		return nil, err
	}
	return wrapTrigger(background.Changed(c.String("path"), background.ChangedOptions{Key: key}), "changed "+c.String("path"), false, nil)
}

func (b *Behaviour) anyOf(c *value.Call) (starlark.Value, error) {
	all, clock, err := b.triggers(c)
	if err != nil {
		return nil, err
	}
	return wrapTrigger(background.AnyOf(all...), "any_of", clock, nil)
}

func (b *Behaviour) allOf(c *value.Call) (starlark.Value, error) {
	all, clock, err := b.triggers(c)
	if err != nil {
		return nil, err
	}
	t, err := background.AllOf(c.Duration("within"), all...)
	return wrapTrigger(t, "all_of", clock, err)
}

// triggers gives the triggers of any_of and all_of, and whether all of them
// fire by time alone.
func (b *Behaviour) triggers(c *value.Call) (all []background.Trigger, clock bool, err error) {
	if len(c.Rest()) == 0 {
		return nil, false, &value.Error{Msg: "it needs at least one trigger"}
	}
	clock = true
	for i, v := range c.Rest() {
		if t, err := triggerKind.Unwrap(v); err == nil {
			all, clock = append(all, t.Trigger), clock && t.clock
			continue
		}
		fn, ok := v.(starlark.Callable)
		if !ok {
			return nil, false, &value.Error{Pos: i + 1, Msg: fmt.Sprintf("argument %d: want a trigger or a function, got %s", i+1, v.Type())}
		}
		keep(c, fn)
		all, clock = append(all, b.when(&callback{fn: fn, name: fn.Name(), place: []int{0}})), false
	}
	return all, clock, nil
}

// keep freezes a function that is not in the argument table, at once or at the
// end of the load.
func keep(c *value.Call, fn starlark.Callable) {
	if k, ok := value.RunnerOf(c.Thread).(value.Keeper); ok {
		k.Keep(fn)
	} else {
		fn.Freeze()
	}
}

func wrapTrigger(t background.Trigger, what string, clock bool, err error) (starlark.Value, error) {
	if err != nil {
		return nil, err
	}
	return triggerKind.Wrap(&trigger{t, what, clock}), nil
}

// gate lets a trigger through only while its behaviour is the one that counts:
// in a reload old and new agents exist side by side for a moment.
type gate struct {
	b     *Behaviour
	inner background.Trigger
}

// Open implements background.Trigger.
func (g gate) Open(o background.Outlet) (func(context.Context, bus.Event), func()) {
	emit, fail := o.Emit, o.Fail
	o.Emit = func(e bus.Event, task any) {
		if g.b.live.Load() {
			emit(e, task)
		}
	}
	o.Fail = func(err error) {
		if g.b.live.Load() {
			fail(err)
		}
	}
	hear, stop := g.inner.Open(o)
	return func(ctx context.Context, e bus.Event) {
		if g.b.live.Load() {
			hear(ctx, e)
		}
	}, stop
}
