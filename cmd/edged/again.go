package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	recollection "edged/agent/llm/memory"
	"edged/background"
	"edged/blackboard"
	"edged/bus"
	"edged/bus/origin"
	"edged/bus/trace"
	"edged/cmd/edged/internal/config"
	"edged/hw"
	"edged/hw/replay"
	"edged/starlark/lib"
)

// again is the robot of a record, in memory and in virtual time, with the
// scripts as they are now.
type again struct {
	cfg     *config.Config
	bus     *bus.Bus
	board   *blackboard.Board
	rig     *hw.Rig
	past    *replay.Robot
	tree    *background.Supervisor
	scripts *lib.Behaviour
	temp    *os.Root
	lives   sync.WaitGroup // of those who were asked
	events  []bus.Event    // what happens
	mu      sync.Mutex     // guards events
}

// again runs the past and gives what happened now.
func (p *past) again(cfg *config.Config, within time.Duration, out io.Writer, b bubble) (lines []trace.Line, err error) {
	folder, done, err := openFolder(cfg.Dir())
	if err != nil {
		return nil, err
	}
	defer done()
	dir, err := os.MkdirTemp("", "edged-replay-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	temp, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer temp.Close()
	err = b(func(ctx context.Context) error {
		time.Sleep(time.Until(p.begins)) // the clock of the record
		a := &again{cfg: cfg, temp: temp}
		err := a.open(p)
		if err == nil {
			host := a.host(p, out)
			if a.scripts, err = lib.Load(ctx, host, folder, loadOptions(cfg)); err == nil {
				err = a.play(ctx, p, within)
			}
		}
		err = errors.Join(err, a.close())
		lines = a.record()
		return err
	})
	return lines, err
}

// open makes the robot as it was when the record began.
func (a *again) open(p *past) (err error) {
	a.bus = bus.New(bus.Options{})
	if a.board, err = blackboard.Open(a.bus, blackboard.Options{}); err != nil {
		return err
	}
	for _, k := range p.head.Retained {
		if err := a.bus.Restore(k.Topic, k.Source, k.Origin, bus.RawJSON(k.Payload), k.Time); err != nil {
			return err
		}
	}
	for name, b := range p.head.Memory {
		if err := a.board.Records("memory").Put(context.Background(), name, b, false); err != nil {
			return err
		}
	}
	if err := a.remember(p); err != nil {
		return err
	}
	if a.rig, err = hw.NewRig(a.bus, hw.Options{Hold: time.Duration(a.cfg.Stop.Hold)}); err != nil {
		return err
	}
	a.past = replay.New(p.lines)
	return a.devices(p)
}

// remember puts on the blackboard what was there when the record began.
func (a *again) remember(p *past) error {
	ctx := context.Background()
	for _, key := range a.board.Keys("") {
		if _, known := p.head.Board[key]; !known {
			if _, err := a.board.Delete(ctx, "record", key); err != nil {
				return err
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(p.head.Board)) {
		v, err := bus.DecodeJSON(p.head.Board[key])
		if err == nil {
			whose := cmp.Or(p.head.Origins[key], "script")
			_, err = a.board.Set(origin.With(ctx, whose), "record", key, v, blackboard.SetOptions{})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// devices puts the recorded ones in the place of those of the settings, and of
// those that are nowhere but in the record.
func (a *again) devices(p *past) error {
	scratch, err := hw.NewRig(bus.New(bus.Options{}), hw.Options{})
	if err != nil {
		return err
	}
	defer scratch.Close()
	simulated := p.head.Sim || len(a.cfg.Devices) == 0 && slices.Contains(a.past.Actuators(), "base")
	if simulated {
		_, err = openDevices(scratch, a.cfg, true)
	} else {
		err = openTwins(scratch, a.cfg)
	}
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, d := range scratch.Devices() {
		known[d.Name] = true
		if d.Kind == "sensor" {
			err = errors.Join(err, a.rig.AddSensor(a.past.Sensor(d.Name), hw.Bounds{}))
			continue
		}
		l, _ := scratch.Limits(d.Name)
		err = errors.Join(err, a.rig.AddActuator(a.past.Actuator(d.Name, l), hw.Limits{}))
	}
	for _, name := range a.past.Sensors() {
		if !known[name] {
			err = errors.Join(err, a.rig.AddSensor(a.past.Sensor(name), hw.Bounds{}))
		}
	}
	for _, name := range config.Names(a.cfg.Devices) {
		if topic, ok := a.cfg.Devices[name]["bind"].(string); ok {
			err = errors.Join(err, a.rig.Bind(topic, name))
		}
	}
	return errors.Join(err, fences(a.rig, a.cfg))
}

// openTwins is openDevices with twins and without the apartment.
func openTwins(rig *hw.Rig, c *config.Config) error {
	var ds devices
	for _, name := range config.Names(c.Devices) {
		d := &device{name: name, table: c.Devices[name], used: map[string]bool{}}
		driver, _ := d.table["driver"].(string) // the robot ran with it
		open := drivers[driver]
		if twin := twins[driver]; twin != nil {
			open = twin
		}
		if open == nil {
			return d.unknown("driver", driver, nil, c)
		}
		if err := open(&ds, rig, d); err != nil {
			return err
		}
	}
	return nil
}

func (a *again) host(p *past, out io.Writer) *lib.Host {
	h := &lib.Host{
		Name: a.cfg.Name, Bus: a.bus, Board: a.board, Rig: a.rig, Data: a.temp, Print: out,
		Log: slog.New(slog.NewTextHandler(out, nil)),
		Env: lookup(a.cfg.Env), Secret: noSecrets(a.cfg), Limits: limitsOf(a.cfg),
		Models: recorded(p.models), Confirm: p.confirm(), Ask: p.ask(),
		Trusted: trusting(a.cfg), TaintedWrites: a.cfg.Models.Tainted,
	}
	h.Memory, _ = recollection.Open(context.Background(), a.board.Records("memory"), recollection.Options{}) // an empty one opens
	return h
}

// play lets happen what came in, each in its time, and then the time pass that
// an action may come later.
func (a *again) play(ctx context.Context, p *past, within time.Duration) error {
	var children []background.Child
	for _, s := range a.rig.Services() {
		children = append(children, background.Child{Name: s.Name, Service: s})
	}
	a.tree = background.NewSupervisor("robot", background.Options{Bus: a.bus}, children...)
	if err := a.tree.Start(ctx); err != nil {
		return err
	}
	synctest.Wait()
	for name, text := range p.head.Readings {
		line := trace.Line{Source: "hw:" + name, Topic: "hw/" + name, Payload: text}
		if _, rd, ok := replay.Reading(line); ok && slices.Contains(a.past.Sensors(), name) {
			if err := a.past.Sensor(name).Read(ctx, rd); err != nil {
				return err
			}
		}
	}
	if s := p.head.Stopped; s != nil {
		if err := a.rig.Stop(ctx, s.Source, s.Reason); err != nil {
			return err
		}
	}
	synctest.Wait()
	a.rig.OnStop(a.scripts.CancelTurns)
	running := p.midway
	if running {
		if err := a.warmUp(ctx, p); err != nil {
			return err
		}
	}
	start := func() error {
		running = true
		time.Sleep(time.Until(p.begun))
		synctest.Wait()
		return errors.Join(a.listen(), a.scripts.Start(ctx))
	}
	for _, in := range p.inputs {
		if !running && !in.at.Before(p.begun) {
			if err := start(); err != nil {
				return err
			}
		}
		time.Sleep(time.Until(in.at))
		synctest.Wait()
		if err := in.do(ctx, a); err != nil {
			a.bus.Report(ctx, "replay", err, bus.Event{})
		}
		synctest.Wait()
	}
	if !running {
		if err := start(); err != nil {
			return err
		}
	}
	time.Sleep(time.Until(p.ends.Add(within)))
	synctest.Wait()
	return nil
}

// warmUp lets the scripts run until the record begins; then all is as it was.
func (a *again) warmUp(ctx context.Context, p *past) error {
	if err := a.scripts.Start(ctx); err != nil {
		return err
	}
	time.Sleep(time.Until(p.begun))
	synctest.Wait()
	err := a.remember(p)
	synctest.Wait()
	return errors.Join(err, a.listen())
}

// listen notes what happens from now on.
func (a *again) listen() error {
	_, err := a.bus.Tap("*", func(e bus.Event) {
		a.mu.Lock()
		a.events = append(a.events, e.Stamped())
		a.mu.Unlock()
	})
	return err
}

// close takes the robot away.
func (a *again) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	a.mu.Lock()
	end := len(a.events)
	a.mu.Unlock()
	var errs []error
	if a.scripts != nil {
		quick, stop := context.WithTimeout(ctx, time.Millisecond) // what still runs is of no interest
		_ = a.scripts.Stop(quick)
		stop()
	}
	if a.rig != nil {
		errs = append(errs, a.rig.Safe(ctx, "the replay ends"))
	}
	if a.tree != nil {
		errs = append(errs, a.tree.Stop(ctx))
	}
	if a.rig != nil {
		a.rig.Close()
	}
	if a.board != nil {
		errs = append(errs, a.board.Close())
	}
	if a.bus != nil {
		errs = append(errs, a.bus.Close(ctx))
	}
	a.mu.Lock()
	a.events = a.events[:end] // what the end did is not the scripts' doing
	a.mu.Unlock()
	return errors.Join(errs...)
}

// record is what happened, as lines.
func (a *again) record() []trace.Line {
	a.mu.Lock()
	defer a.mu.Unlock()
	lines := make([]trace.Line, 0, len(a.events))
	for _, e := range a.events {
		lines = append(lines, recordLine(e))
	}
	return lines
}
