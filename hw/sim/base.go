package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"edged/hw"
)

// base is the actuator "base": velocity commands {v m/s, w rad/s}, and the
// actions drive_to, turn and dock.
type base struct{ w *World }

var _ hw.Goer = (*base)(nil)

func (b *base) Name() string    { return "base" }
func (b *base) Simulated() bool { return true }

// Limits are what the wheels can do.
func (b *base) Limits() hw.Limits {
	return hw.Limits{Fields: map[string]hw.Range{
		"v": {Min: -b.w.opt.Speed, Max: b.w.opt.Speed},
		"w": {Min: -turnSpeed, Max: turnSpeed},
	}}
}

// Do sets the velocities; what the command does not name is 0.
func (b *base) Do(ctx context.Context, cmd json.RawMessage) error {
	if err := b.w.trouble(ctx, "base"); err != nil {
		return err
	}
	var c struct{ V, W float64 }
	if err := decode(cmd, &c); err != nil {
		return err
	}
	b.w.mu.Lock()
	b.w.settle(time.Now())
	if b.w.battery == 0 {
		b.w.mu.Unlock()
		return fmt.Errorf("the battery is empty")
	}
	idle := !b.w.moving()
	b.w.wantV, b.w.wantW = c.V, c.W
	b.w.mu.Unlock()
	if idle {
		b.w.stir()
	}
	return nil
}

// Rest stops the wheels.
func (b *base) Rest(ctx context.Context) error {
	if err := b.w.trouble(ctx, "base"); err != nil {
		return err
	}
	b.w.brake()
	return nil
}

// Go begins drive_to {room | x, y, [theta], [speed]}, turn {angle |
// angle_deg} or dock {[speed]}.
func (b *base) Go(g *hw.Goal, action string, args json.RawMessage) error {
	var err error
	r := &run{w: b.w, g: g, began: time.Now()}
	switch action {
	case "drive_to":
		err = r.driveTo(args)
	case "dock":
		var c struct{ Speed float64 }
		if err = decode(args, &c); err == nil {
			d := dock()
			err = r.plan(point{d[0], d[1]}, &d[2], c.Speed)
		}
	case "turn":
		err = r.turn(args)
	default:
		err = fmt.Errorf("the base has no action %q; it has drive_to, turn, dock", action)
	}
	if err != nil {
		return err
	}
	b.w.mu.Lock()
	b.w.run = r
	b.w.mu.Unlock()
	context.AfterFunc(g.Context(), r.leave)
	r.control(r.began)
	b.w.stir()
	return nil
}

// Places are where drive_to can go by name.
func (w *World) Places() []string {
	var names []string
	for _, r := range w.rooms {
		names = append(names, r.Name)
	}
	return append(names, "dock")
}

func (r *run) driveTo(args json.RawMessage) error {
	var c struct {
		Room, To           string
		X, Y, Theta, Speed *float64
	}
	if err := decode(args, &c); err != nil {
		return err
	}
	speed := 0.0
	if c.Speed != nil {
		if speed = *c.Speed; !(speed > 0) {
			return fmt.Errorf("speed %v m/s is not above 0", speed)
		}
	}
	if c.Room == "" {
		c.Room = c.To
	}
	switch {
	case c.Room == "dock":
		d := dock()
		return r.plan(point{d[0], d[1]}, &d[2], speed)
	case c.Room != "":
		for _, room := range r.w.rooms {
			if room.Name == c.Room {
				return r.plan(point{room.At[0], room.At[1]}, c.Theta, speed)
			}
		}
		return fmt.Errorf("no room %q; there are %v", c.Room, r.w.Places())
	case c.X != nil && c.Y != nil:
		return r.plan(point{*c.X, *c.Y}, c.Theta, speed)
	}
	return fmt.Errorf("where to? a room of %v, or x and y", r.w.Places())
}

func (r *run) turn(args json.RawMessage) error {
	var c struct {
		Angle    *float64 `json:"angle"`
		AngleDeg *float64 `json:"angle_deg"`
	}
	if err := decode(args, &c); err != nil {
		return err
	}
	switch {
	case c.AngleDeg != nil:
		r.rotate = *c.AngleDeg * math.Pi / 180
	case c.Angle != nil:
		r.rotate = *c.Angle
	default:
		return fmt.Errorf("by how much? angle (rad) or angle_deg")
	}
	if math.Abs(r.rotate) > 20*math.Pi {
		return fmt.Errorf("angle %v rad is more than ten turns", r.rotate)
	}
	r.w.mu.Lock()
	r.last = r.w.heading
	r.w.mu.Unlock()
	r.turning = true
	return nil
}

// decode reads arguments and refuses what it does not know.
func decode(raw json.RawMessage, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("arguments: %w", err)
	}
	return nil
}

// lamp is the actuator "lamp_<room>": {"on": true, "brightness": 0..100}.
type lamp struct {
	w    *World
	room string
}

func (l *lamp) Name() string    { return "lamp_" + l.room }
func (l *lamp) Simulated() bool { return true }

// Limits let a lamp burn until it is told otherwise.
func (l *lamp) Limits() hw.Limits {
	return hw.Limits{
		Fields: map[string]hw.Range{"brightness": {Max: 100}},
		Words:  []string{"on"}, Stays: true,
	}
}

func (l *lamp) Do(ctx context.Context, cmd json.RawMessage) error {
	if err := l.w.trouble(ctx, l.Name()); err != nil {
		return err
	}
	var c struct {
		On         *bool
		Brightness *float64
	}
	if err := decode(cmd, &c); err != nil {
		return err
	}
	level := 100.0
	if c.Brightness != nil {
		level = *c.Brightness
	}
	if c.On != nil && !*c.On {
		level = 0
	}
	l.set(level)
	return nil
}

// Rest switches the lamp off.
func (l *lamp) Rest(ctx context.Context) error {
	if err := l.w.trouble(ctx, l.Name()); err != nil {
		return err
	}
	l.set(0)
	return nil
}

func (l *lamp) set(level float64) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	l.w.lamps[l.room] = level
}
