package lib

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.starlark.net/starlark"

	"edged/bus"
	"edged/bus/origin"
	"edged/hw"
	"edged/starlark/script"
	"edged/starlark/value"
)

var hardwareRows = []row{
	{value.Func{
		Name: "hw.device", Doc: "Returns a device by its name, a sensor or an actuator.",
		Example: "lamp = hw.device(\"lamp_hall\")\n\ndef on_dark(ev):\n    lamp.do(on = True)",
		Params:  []value.Param{{Name: "name", Type: value.String, Required: true, Positional: true, Doc: "Its name, as in edged.toml and \"edged status\"."}},
		Returns: "a device",
	}, (*Behaviour).device},
	{value.Func{
		Name: "hw.devices", Doc: "Lists the names of all devices.", Returns: "a list of names", Example: "log.info(hw.devices())",
	}, func(b *Behaviour, c *value.Call) (starlark.Value, error) {
		if b.host.Rig == nil {
			return c.Return([]any{})
		}
		return c.Return(b.deviceNames())
	}},
}

func (b *Behaviour) deviceNames() []string {
	var names []string
	for _, d := range b.host.Rig.Devices() {
		names = append(names, d.Name)
	}
	slices.Sort(names)
	return names
}

// device is a device as scripts see it.
type device struct {
	b    *Behaviour
	name string
}

func (b *Behaviour) device(c *value.Call) (starlark.Value, error) {
	name := c.String("name")
	if b.host.Rig == nil {
		return nil, errNoDevices
	}
	if names := b.deviceNames(); !slices.Contains(names, name) {
		e := &value.Error{Arg: "name", Msg: fmt.Sprintf("no device %q", name), Hint: "declare it in edged.toml, under [devices]"}
		if near := value.Nearest(name, names); near != "" {
			e.Hint = fmt.Sprintf("did you mean %q?", near)
		}
		return nil, e
	}
	return deviceKind.Wrap(&device{b, name}), nil
}

// act is what every action of an actuator goes through.
func (d *device) act(c *value.Call) error {
	if script.Loading(c.Thread) {
		return &value.Error{Msg: "the top level declares, it moves nothing", Hint: "move in a handler, or with after(\"0s\", …)"}
	}
	return d.b.mayChange(c, "hw.write", d.name)
}

func (d *device) do(c *value.Call) (starlark.Value, error) {
	if err := d.act(c); err != nil {
		return nil, err
	}
	cmd, err := c.NamedTree()
	if err != nil {
		return nil, err
	}
	if c.Has("value") {
		if cmd["value"], err = c.Tree("value"); err != nil {
			return nil, err
		}
	}
	if c.Has("hold") {
		cmd["hold"] = c.Duration("hold").String()
	}
	if len(cmd) == 0 {
		return nil, &value.Error{Msg: "what should it do?", Hint: "give the command's fields, as in do(on = True)"}
	}
	return nil, d.b.host.Rig.Do(c.Context(), d.b.source(c), d.name, cmd)
}

func (d *device) read(c *value.Call) (starlark.Value, error) {
	if err := d.b.may(c, "hw.read", d.name); err != nil {
		return nil, err
	}
	reads(c, "hw/"+d.name)
	r, ok := d.b.host.Rig.Last(d.name)
	if !ok {
		return c.Value("default"), nil
	}
	if _, words := r.Value.(string); words {
		origin.Raise(c.Context(), origin.Of("hw:"+d.name))
	}
	return c.Return(r.Tree())
}

// goal begins a long action.
func (d *device) goal(c *value.Call, action string, args map[string]any) (starlark.Value, error) {
	if err := d.act(c); err != nil {
		return nil, err
	}
	g, err := d.b.host.Rig.Start(c.Context(), d.b.source(c), d.name, action, args)
	if err != nil {
		return nil, err
	}
	return goalKind.Wrap(&goal{g, d.b}), nil
}

func (d *device) start(c *value.Call) (starlark.Value, error) {
	args, err := c.NamedTree()
	if err != nil {
		return nil, err
	}
	return d.goal(c, c.String("action"), args)
}

func (d *device) driveTo(c *value.Call) (starlark.Value, error) {
	args := map[string]any{}
	if c.Has("place") {
		p, err := c.Tree("place")
		if err != nil {
			return nil, err
		}
		switch p := p.(type) {
		case string:
			args["room"] = p
		case []any:
			for i, n := range []string{"x", "y", "theta"} {
				if i < len(p) {
					args[n] = p[i]
				}
			}
		case map[string]any:
			args = p
		default:
			return nil, c.Errorf("place", "argument \"place\": want a room, (x, y), or a dict, got %v", p)
		}
	}
	for _, n := range []string{"room", "x", "y", "theta", "speed"} {
		if c.Has(n) {
			v, err := c.Tree(n)
			if err != nil {
				return nil, err
			}
			args[n] = v
		}
	}
	return d.timed(c, "drive_to", args)
}

// timed is goal for an action with a time limit.
func (d *device) timed(c *value.Call, action string, args map[string]any) (starlark.Value, error) {
	v, err := d.goal(c, action, args)
	if err != nil || !c.Has("timeout") {
		return v, err
	}
	g, err := goalKind.Unwrap(v)
	if err != nil {
		return nil, err
	}
	limit := c.Duration("timeout")
	t := d.b.host.Bus.Timers().After(limit, func() {
		// On the wheel nothing may wait; the end of a goal brings devices to rest.
		d.b.spawn(func() { g.Cancel(fmt.Sprintf("not done after %v", limit)) })
	})
	context.AfterFunc(g.Context(), func() { t.Stop() })
	return v, nil
}

func (d *device) turn(c *value.Call) (starlark.Value, error) {
	args := map[string]any{}
	for _, n := range []string{"angle", "angle_deg", "speed"} {
		if c.Has(n) {
			args[n] = c.Float(n)
		}
	}
	if deg, ok := args["angle_deg"].(float64); ok {
		delete(args, "angle_deg")
		args["angle"] = deg * (3.141592653589793 / 180)
	}
	if _, ok := args["angle"]; !ok {
		return nil, &value.Error{Msg: "missing argument \"angle\" (number in rad)", Hint: "angle_deg = … is in degrees"}
	}
	return d.timed(c, "turn", args)
}

func (d *device) drive(c *value.Call) (starlark.Value, error) {
	if err := d.act(c); err != nil {
		return nil, err
	}
	cmd := map[string]any{"v": c.Float("v"), "w": c.Float("w")}
	if c.Has("hold") {
		cmd["hold"] = c.Duration("hold").String()
	}
	return nil, d.b.host.Rig.Do(c.Context(), d.b.source(c), d.name, cmd)
}

// on is a handler for the device's readings.
func (d *device) on(c *value.Call) (starlark.Value, error) {
	if err := d.b.may(c, "hw.read", d.name); err != nil {
		return nil, err
	}
	cb, err := newCallback(c, "handler", "event")
	if err != nil {
		return nil, err
	}
	b := d.b
	l := &listener{b: b, cb: cb, at: where(c), made: declaredBy(c), filters: []string{"hw/" + d.name}, mode: "queue", source: b.scriptSource(cb.at.File)}
	l.queue = bus.Queue{Overflow: bus.Latest, Where: l.accept, Name: l.source + ":" + cb.name}
	l.open = func() (*bus.Subscription, error) { return b.host.Bus.Handle(l.filters[0], l.queue, l.handle) }
	if err := b.attach(c, l); err != nil {
		return nil, err
	}
	return subscriptionKind.Wrap(l), nil
}

var (
	holdParam    = value.Param{Name: "hold", Type: value.Duration, Doc: "How long the command lasts if no other follows; then the actuator goes to its safe state. At most 5 s for what moves; what stays as it was told has none if missing."}
	timeoutParam = value.Param{Name: "timeout", Type: value.Duration, Doc: "Cancels the goal if it is not reached by then."}
	speedParam   = value.Param{Name: "speed", Type: value.Number, Unit: "m/s", Doc: "How fast; as the base can if missing."}
)

var deviceKind = &value.Kind[*device]{
	Name:    "device",
	Doc:     "A sensor or an actuator. What a device can do depends on its kind; the message of an error says what it takes.",
	Example: "base = hw.device(\"base\")\n\ndef on_call(ev):\n    r = attempt(base.drive_to(ev[\"room\"], speed = 0.3, timeout = \"60s\").result)\n    if not r.ok:\n        robot.say(r.error)",
	Attrs: []value.Attr[*device]{
		{Name: "name", Doc: "Its name.", Type: value.String, Get: func(d *device) (any, error) { return d.name, nil }},
		{Name: "status", Doc: "What is known about it: kind, value, unit, quality, error.", Get: func(d *device) (any, error) {
			for _, s := range d.b.host.Rig.Devices() {
				if s.Name == d.name {
					return tree(s)
				}
			}
			return nil, nil
		}},
	},
	Methods: []value.Method[*device]{
		{
			Func: value.Func{Name: "do", Doc: "Gives an actuator a command, and returns when the device has taken it. It passes the stop and the limits.", Blocks: true,
				Example: "hw.device(\"fan\").do(duty = 0.5, hold = \"2s\")",
				Params:  []value.Param{{Name: "value", Positional: true, Type: value.Data, Doc: "The command of a device with one field."}, holdParam},
				Named:   "fields"},
			Do: (*device).do,
		},
		{
			Func: value.Func{Name: "rest", Doc: "Brings an actuator to its safe state. It is never refused.", Blocks: true},
			Do: func(d *device, c *value.Call) (starlark.Value, error) {
				if err := d.act(c); err != nil {
					return nil, err
				}
				return nil, d.b.host.Rig.Rest(c.Context(), d.b.source(c), d.name)
			},
		},
		{
			Func: value.Func{Name: "read", Doc: "Returns a sensor's last reading: value, unit, time, quality.", Returns: "a dict, or the default",
				Example: "t = hw.device(\"temp_hall\").read()[\"value\"]",
				Params:  []value.Param{{Name: "default", Positional: true, Doc: "What to return if there is none yet."}}},
			Do: (*device).read,
		},
		{
			Func: value.Func{Name: "on", Doc: "Calls a handler for the readings of a sensor; if they come too fast, for the latest.", Returns: "a subscription",
				Params: []value.Param{{Name: "handler", Type: value.Callable, Required: true, Positional: true, Doc: "Called with the event hw/<name>."}}},
			Do: (*device).on,
		},
		{
			Func: value.Func{Name: "start", Doc: "Begins a long action of an actuator.", Returns: "a goal",
				Params: []value.Param{{Name: "action", Type: value.String, Required: true, Positional: true, Doc: "Its name."}}, Named: "args"},
			Do: (*device).start,
		},
		{
			Func: value.Func{Name: "drive", Doc: "Sets the speed of a base; it must be said again before the hold is over.", Blocks: true,
				Params: []value.Param{
					{Name: "v", Type: value.Number, Unit: "m/s", Default: 0, Doc: "Forwards."},
					{Name: "w", Type: value.Number, Unit: "rad/s", Default: 0, Doc: "To the left."}, holdParam}},
			Do: (*device).drive,
		},
		{
			Func: value.Func{Name: "turn", Doc: "Turns a base on the spot, to the left if positive.", Returns: "a goal",
				Params: []value.Param{
					{Name: "angle", Type: value.Number, Unit: "rad", Positional: true, Doc: "How far."},
					{Name: "angle_deg", Type: value.Number, Unit: "°", Doc: "How far, in degrees."},
					{Name: "speed", Type: value.Number, Unit: "rad/s", Doc: "How fast."}, timeoutParam}},
			Do: (*device).turn,
		},
		{
			Func: value.Func{Name: "drive_to", Doc: "Drives a base to a place.", Returns: "a goal",
				Example: "goal = hw.device(\"base\").drive_to(\"kitchen\", speed = 0.3, timeout = \"60s\")\nlog.info(goal.result())",
				Params: []value.Param{
					{Name: "place", Type: value.Either(value.String, value.List, value.Dict), Positional: true, Doc: "A room, (x, y) or (x, y, theta)."},
					{Name: "room", Type: value.Data, Doc: "A room by name."},
					{Name: "x", Type: value.Number, Unit: "m", Doc: "A point."},
					{Name: "y", Type: value.Number, Unit: "m", Doc: "A point."},
					{Name: "theta", Type: value.Number, Unit: "rad", Doc: "The heading there."},
					speedParam, timeoutParam}},
			Do: (*device).driveTo,
		},
	},
	String: func(d *device) string { return fmt.Sprintf("<device %s>", d.name) },
	Key:    func(d *device) string { return d.name },
}

// goal is a hw.Goal as scripts see it.
type goal struct {
	*hw.Goal
	b *Behaviour
}

var goalKind = &value.Kind[*goal]{
	Name: "goal",
	Doc:  "A long action. It is cancelled by its owner, by a newer command for the same actuator, and by every stop.",
	Attrs: []value.Attr[*goal]{
		{Name: "name", Doc: "The device and the action.", Type: value.String, Get: func(g *goal) (any, error) { return g.Name(), nil }},
		{Name: "state", Doc: "pending, running, succeeded, cancelled or failed.", Type: value.String, Get: func(g *goal) (any, error) { return string(g.State()), nil }},
		{Name: "reason", Doc: "Why it failed or was cancelled.", Type: value.String, Get: func(g *goal) (any, error) { return g.Reason(), nil }},
		{Name: "feedback", Doc: "How far it is.", Get: func(g *goal) (any, error) { return tree(g.Last()) }},
	},
	Methods: []value.Method[*goal]{
		{
			Func: value.Func{Name: "result", Doc: "Waits for the end and returns what the action gave. It fails if the goal failed or was cancelled. If the run that waits is cancelled, the goal is, too.",
				Params: []value.Param{{Name: "timeout", Type: value.Duration, Positional: true, Doc: "How long to wait; the goal goes on."}}, Returns: "the result", Blocks: true},
			Do: (*goal).wait,
		},
		{
			Func: value.Func{Name: "done", Doc: "Reports whether the goal is over.", Returns: "True or False"},
			Do: func(g *goal, c *value.Call) (starlark.Value, error) {
				return starlark.Bool(g.State().Over()), nil
			},
		},
		{
			Func: value.Func{Name: "cancel", Doc: "Ends the goal and brings the actuator to its safe state.", Returns: "whether this was its end",
				Params: []value.Param{{Name: "reason", Type: value.String, Default: "cancelled", Positional: true, Doc: "Why."}}},
			Do: func(g *goal, c *value.Call) (starlark.Value, error) {
				if err := effect(c); err != nil {
					return nil, err
				}
				return starlark.Bool(g.Goal.Cancel(c.String("reason"))), nil
			},
		},
	},
	String: func(g *goal) string { return fmt.Sprintf("<goal %s: %s>", g.Name(), g.State()) },
}

func (g *goal) wait(c *value.Call) (starlark.Value, error) {
	if err := effect(c); err != nil {
		return nil, err
	}
	ctx := c.Context()
	if c.Has("timeout") {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Duration("timeout"))
		defer cancel()
	}
	v, err := g.Result(ctx)
	switch {
	case err == nil:
		return c.Return(v)
	case c.Context().Err() != nil:
		g.Goal.Cancel("the run that waits for it was cancelled")
		return nil, context.Cause(c.Context())
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("timeout: %s is not done after %v", g.Name(), c.Duration("timeout"))
	}
	return nil, err
}
