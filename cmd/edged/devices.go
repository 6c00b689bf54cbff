package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"edged/background"
	"edged/bus"
	"edged/bus/mqtt"
	"edged/cmd/edged/internal/config"
	"edged/hw"
	"edged/hw/sim"
	"edged/hw/sysfs"
	"edged/starlark/value"
)

// Devices as edged.toml declares them: [devices.NAME] with a driver. With
// --sim every one is a twin, and there is an apartment to drive in.

// devices is what the drivers gave besides what the rig knows.
type devices struct {
	world    *sim.World
	services []namedService
	entities []mqtt.Entity // what Home Assistant is told of them
}

type namedService struct {
	name    string
	service background.Service
}

// device is one table of the settings while it is read.
type device struct {
	name  string
	table map[string]any
	used  map[string]bool
	errs  []error
}

// drivers by name; each puts its devices behind the rig.
var drivers = map[string]func(*devices, *hw.Rig, *device) error{
	"sim.apartment": (*devices).apartment,
	"sim.sensor":    (*devices).simSensor,
	"sim.actuator":  (*devices).simActuator,
	"sysfs":         (*devices).machine,
	"sysfs.sensor":  (*devices).sysfsSensor,
	"sysfs.output":  (*devices).sysfsOutput,
}

// twins are what stands for a driver with --sim.
var twins = map[string]func(*devices, *hw.Rig, *device) error{
	"sysfs":        func(*devices, *hw.Rig, *device) error { return nil },
	"sysfs.sensor": (*devices).simSensor,
	"sysfs.output": (*devices).outputTwin,
}

func openDevices(rig *hw.Rig, c *config.Config, simulate bool) (devices, error) {
	var ds devices
	for _, name := range config.Names(c.Devices) {
		d := &device{name: name, table: c.Devices[name], used: map[string]bool{"driver": true, "bind": true, "fence": true, "fence_sensor": true}}
		driver, _ := d.table["driver"].(string)
		open := drivers[driver]
		if open == nil {
			return ds, d.unknown("driver", driver, slices.Sorted(maps.Keys(drivers)), c)
		}
		if twin := twins[driver]; simulate && twin != nil {
			open = twin
		}
		if err := errors.Join(open(&ds, rig, d), errors.Join(d.errs...)); err != nil {
			return ds, fmt.Errorf("device %s: %w", name, err)
		}
		for k := range d.table {
			if !d.used[k] && !simulate {
				return ds, d.unknown("key", k, slices.Sorted(maps.Keys(d.used)), c)
			}
		}
		if topic, ok := d.table["bind"].(string); ok {
			if err := rig.Bind(topic, name); err != nil {
				return ds, err
			}
		}
	}
	if simulate && ds.world == nil {
		if err := ds.apartment(rig, &device{name: "apartment", used: map[string]bool{}}); err != nil {
			return ds, err
		}
	}
	return ds, fences(rig, c)
}

func (d *device) unknown(what, got string, words []string, c *config.Config) error {
	e := &config.Error{Where: c.Path(config.File), Msg: fmt.Sprintf("device %s: unknown %s %q", d.name, what, got)}
	if n := value.Nearest(got, words); n != "" {
		e.Hint = fmt.Sprintf("did you mean %q?", n)
	} else {
		e.Hint = "there are " + strings.Join(words, ", ")
	}
	return e
}

// text reads a key of the table.
func (d *device) text(key string) string {
	d.used[key] = true
	s, ok := d.table[key].(string)
	if d.table[key] != nil && !ok {
		d.errs = append(d.errs, fmt.Errorf("%s: want text", key))
	}
	return s
}

func (d *device) number(key string, standard float64) float64 {
	d.used[key] = true
	switch v := d.table[key].(type) {
	case nil:
		return standard
	case int64:
		return float64(v)
	case float64:
		return v
	}
	d.errs = append(d.errs, fmt.Errorf("%s: want a number", key))
	return standard
}

func (d *device) flag(key string, standard bool) bool {
	d.used[key] = true
	switch v := d.table[key].(type) {
	case nil:
		return standard
	case bool:
		return v
	}
	d.errs = append(d.errs, fmt.Errorf("%s: want true or false", key))
	return standard
}

func (d *device) duration(key string) time.Duration {
	s := d.text(key)
	if s == "" {
		return 0
	}
	v, err := value.ParseDuration(s)
	if err != nil {
		d.errs = append(d.errs, fmt.Errorf("%s: %w", key, err))
	}
	return v
}

func (ds *devices) apartment(rig *hw.Rig, d *device) error {
	ds.world = sim.New(sim.Options{
		Seed: uint64(d.number("seed", 0)), Noise: d.number("noise", 0), Start: d.text("start"),
		Battery: d.number("battery", 0), Drain: d.number("drain", 0),
		Speed: d.number("speed", 0), Accel: d.number("accel", 0),
	})
	ds.services = append(ds.services, namedService{"sim", ds.world})
	return ds.world.AddTo(rig)
}

func (ds *devices) simSensor(rig *hw.Rig, d *device) error {
	unit := d.text("unit")
	s := sim.NewSensor(d.name, unit)
	ds.entities = append(ds.entities, sensorEntity(d.name, unit))
	d.used["value"] = true
	if v, ok := d.table["value"]; ok {
		s.Set(v)
	}
	return rig.AddSensor(s, d.bounds())
}

func (d *device) bounds() hw.Bounds {
	return hw.Bounds{Min: d.number("min", 0), Max: d.number("max", 0), Stale: d.duration("stale")}
}

// output reads what every actuator of one number is wired by, but for what its
// device stands. What moves, a motor or a servo, has to be said: its commands have
// a lifetime. A lamp, a relay or a fan stays as it was told.
func (d *device) output(most float64, moves bool) hw.Limits {
	f := hw.Range{Min: d.number("min", 0), Max: d.number("max", most), Slew: d.number("slew", 0)}
	l := hw.Limits{Hold: d.duration("hold"), Rate: d.number("rate", 0), Stays: !d.flag("moves", moves)}
	if d.table["rest"] == "keep" {
		d.used["rest"] = true
		l.Keeps = true
		f.Rest = f.Min
	} else {
		f.Rest = d.number("rest", 0)
	}
	if l.Keeps && !l.Stays {
		l.Keeps = false
		d.errs = append(d.errs, errors.New(`rest: "keep" is not for what moves: say where it rests, a number`))
	}
	l.Fields = map[string]hw.Range{"value": f}
	return l
}

// drives says whether a file most probably moves something, where nobody says so: a
// PWM channel of Linux is for motors and servos.
func drives(file string) bool { return strings.Contains(file, "/pwmchip") }

func (ds *devices) simActuator(rig *hw.Rig, d *device) error {
	return ds.twin(rig, d, d.output(1, false))
}

func (ds *devices) twin(rig *hw.Rig, d *device, l hw.Limits) error {
	ds.follows(d, l)
	return rig.AddActuator(sim.NewActuator(d.name, l), hw.Limits{})
}

// follows notes an actuator that follows a topic.
func (ds *devices) follows(d *device, l hw.Limits) {
	if topic, ok := d.table["bind"].(string); ok && bus.ValidTopic(topic) == nil {
		ds.entities = append(ds.entities, outputEntity(d.name, topic, l.Fields["value"]))
	}
}

func (ds *devices) outputTwin(rig *hw.Rig, d *device) error {
	return ds.twin(rig, d, d.output(255, drives(d.text("file"))))
}

// machine reads everything the machine says of itself.
func (ds *devices) machine(rig *hw.Rig, d *device) error {
	found, err := sysfs.Discover(sysfs.Options{Every: d.duration("every")})
	for _, s := range found {
		err = errors.Join(err, rig.AddSensor(s, s.Bounds()))
	}
	return err
}

func (ds *devices) sysfsSensor(rig *hw.Rig, d *device) error {
	s, err := sysfs.Open(d.name, d.text("read"), sysfs.Options{Every: d.duration("every")})
	if err != nil {
		return err
	}
	b := s.Bounds()
	if own := d.bounds(); own.Max > own.Min {
		b.Min, b.Max = own.Min, own.Max
	}
	if d.table["stale"] != nil {
		b.Stale = d.duration("stale")
	}
	ds.entities = append(ds.entities, sensorEntity(d.name, s.Unit()))
	return rig.AddSensor(s, b)
}

func (ds *devices) sysfsOutput(rig *hw.Rig, d *device) error {
	l := d.output(255, drives(d.text("file")))
	f := l.Fields["value"]
	o := sysfs.Output{Called: d.name, File: d.text("file"), Min: f.Min, Max: f.Max, Rests: f.Rest, Moves: !l.Stays, Keeps: l.Keeps}
	if o.File == "" {
		return errors.New(`no file; write file = "/sys/class/leds/led0/brightness"`)
	}
	ds.follows(d, l)
	return rig.AddActuator(o, l)
}
