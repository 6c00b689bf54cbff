package lib

import (
	"errors"
	"fmt"

	"go.starlark.net/starlark"

	"edged/hw/sim"
	"edged/starlark/value"
)

func number(name, unit, doc string) value.Param {
	return value.Param{Name: name, Type: value.Number, Unit: unit, Required: true, Positional: true, Doc: doc}
}

func simRow(name, doc, example, returns string, do func(w *sim.World, c *value.Call) (any, error), params ...value.Param) row {
	return row{value.Func{Name: "hw.sim." + name, Doc: doc, Example: example, Returns: returns, Params: params},
		func(b *Behaviour, c *value.Call) (starlark.Value, error) {
			w := b.host.World
			if w == nil {
				return nil, errors.New("there is no simulated world here")
			}
			if r := runOf(c.Context()); !b.fromTest(c) && (r == nil || !r.trusted) {
				return nil, errors.New("only tests and the operator change the world")
			}
			b.stimulus()
			v, err := do(w, c)
			if err != nil {
				return nil, err
			}
			if returns == "" { // it changes the world
				b.settle(c)
			}
			return c.Return(v)
		}}
}

var simRows = []row{
	simRow("room", "Returns where the robot is: a room, or \"dock\".", "assert.eq(hw.sim.room(), \"kitchen\")", "a name",
		func(w *sim.World, c *value.Call) (any, error) { return w.Room(), nil }),
	simRow("pose", "Returns where the robot is: x and y in m, theta in rad.", "x = hw.sim.pose()[\"x\"]", "a dict",
		func(w *sim.World, c *value.Call) (any, error) {
			x, y, theta := w.Pose()
			return map[string]any{"x": x, "y": y, "theta": theta}, nil
		}),
	simRow("velocity", "Returns what the wheels do: v in m/s, w in rad/s.", "assert.eq(hw.sim.velocity()[\"v\"], 0)", "a dict",
		func(w *sim.World, c *value.Call) (any, error) {
			v, omega := w.Velocity()
			return map[string]any{"v": v, "w": omega}, nil
		}),
	simRow("battery", "Returns the charge in percent.", "assert.true(hw.sim.battery() > 50)", "a number",
		func(w *sim.World, c *value.Call) (any, error) { return w.Battery(), nil }),
	simRow("lamp", "Returns a room's light in percent.", "assert.eq(hw.sim.lamp(\"hall\"), 100)", "a number",
		func(w *sim.World, c *value.Call) (any, error) { return w.Lamp(c.String("room")), nil }, text("room", "The room.")),
	simRow("clearance", "Returns how far the robot's edge is from the nearest thing, in m.", "assert.true(hw.sim.clearance() > 0)", "a number",
		func(w *sim.World, c *value.Call) (any, error) { return w.Clearance(), nil }),
	simRow("set_door", "Opens or closes a door: kitchen, living, bedroom or passage.", "hw.sim.set_door(\"kitchen\", open = False)", "",
		func(w *sim.World, c *value.Call) (any, error) {
			return nil, w.SetDoor(c.String("name"), c.Bool("open"))
		},
		text("name", "The door."), value.Param{Name: "open", Type: value.Bool, Required: true, Doc: "Whether it is open."}),
	simRow("set_battery", "Sets the charge.", "hw.sim.set_battery(15)", "",
		func(w *sim.World, c *value.Call) (any, error) { w.SetBattery(c.Float("percent")); return nil, nil }, number("percent", "%", "The charge.")),
	simRow("set_temp", "Sets a room's temperature now; it drifts from there to where the heat brings it.", "hw.sim.set_temp(\"kitchen\", 40)", "",
		func(w *sim.World, c *value.Call) (any, error) {
			return nil, w.SetTemp(c.String("room"), c.Float("celsius"))
		},
		text("room", "The room."), number("celsius", "°C", "The temperature.")),
	simRow("set_heat", "Sets the temperature that a room goes to: a stove, an open window.", "hw.sim.set_heat(\"kitchen\", 60)", "",
		func(w *sim.World, c *value.Call) (any, error) {
			return nil, w.SetHeat(c.String("room"), c.Float("celsius"))
		},
		text("room", "The room."), number("celsius", "°C", "The temperature.")),
	simRow("set_obstacle", "Puts something round on the floor; a radius of 0 takes it away.", "hw.sim.set_obstacle(\"cat\", 2, 1, 0.2)", "",
		func(w *sim.World, c *value.Call) (any, error) {
			w.SetObstacle(c.String("name"), c.Float("x"), c.Float("y"), c.Float("radius"))
			return nil, nil
		}, text("name", "What it is called."), number("x", "m", "Where."), number("y", "m", "Where."), number("radius", "m", "How big.")),
	simRow("place", "Lifts the robot and sets it down somewhere.", "hw.sim.place(2, 1)", "",
		func(w *sim.World, c *value.Call) (any, error) {
			w.Place(c.Float("x"), c.Float("y"), c.Float("theta"))
			return nil, nil
		}, number("x", "m", "Where."), number("y", "m", "Where."),
		value.Param{Name: "theta", Type: value.Number, Unit: "rad", Default: 0, Positional: true, Doc: "The heading."}),
	simRow("fault", "Makes a device faulty; without arguments it is healed.", "hw.sim.fault(\"lidar\", fail = \"unplugged\")", "", simFault,
		text("device", "The device."),
		value.Param{Name: "drop", Type: value.Between(value.Number, 0, 1), Default: 0, Doc: "Share of readings that are lost."},
		value.Param{Name: "noise", Type: value.Number, Default: 0, Doc: "Standard deviation that is added to numbers."},
		value.Param{Name: "stuck", Type: value.Bool, Default: false, Doc: "The same reading for ever."},
		value.Param{Name: "value", Type: value.Data, Doc: "With stuck: which."},
		value.Param{Name: "late", Type: value.Duration, Doc: "Readings and commands take so much longer."},
		value.Param{Name: "fail", Type: value.String, Default: "", Doc: "The device fails with this text."},
		value.Param{Name: "hang", Type: value.Bool, Default: false, Doc: "An actuator ignores everything."}),
}

func simFault(w *sim.World, c *value.Call) (any, error) {
	stuck, err := c.Tree("value")
	if err != nil {
		return nil, err
	}
	err = w.Inject(c.String("device"), sim.Fault{
		Drop: c.Float("drop"), Noise: c.Float("noise"), Stuck: c.Bool("stuck"), Value: stuck,
		Late: c.Duration("late"), Fail: c.String("fail"), Hang: c.Bool("hang"),
	})
	if err != nil {
		return nil, fmt.Errorf("fault: %w", err)
	}
	return nil, nil
}
