// Package sim is a robot without a robot: a base with two driven wheels in an
// apartment of four rooms, with walls, doors, lamps, thermometers, a lidar, a
// bumper, a battery and a dock. It also has twins of any other device
// ([NewSensor], [NewActuator]).
//
// Its one rule: it is a device like any other. Scripts reach it through the
// rig, stops and limits hold, and nothing here knows that it is simulated but
// the badge on the page.
//
//	w := sim.New(sim.Options{})
//	err := w.AddTo(rig)      // base, lamp_<room>; pose, lidar, bump, battery, charging, temp_<room>
//	go w.Serve(ctx)          // as a supervised service
//	g, err := rig.Start(ctx, "cli", "base", "drive_to", map[string]any{"room": "kitchen"})
//	_, err = g.Result(ctx)
//
// Time is package time's, so in a testing/synctest bubble the robot moves in
// virtual time. While nothing moves, nothing ticks. Noise comes from a seed.
package sim

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"edged/hw"
)

// Options of a world; the zero value works.
type Options struct {
	Seed    uint64
	Noise   float64 // factor on the sensors' noise; 0 is 1, negative is none
	Start   string  // the room or "dock" where the robot begins; "dock"
	Battery float64 // percent at the beginning; 80
	Drain   float64 // percent per second while moving; 0.02, a tenth of it at rest
	// Speed and Accel are what the base can do: 0.6 m/s, 1 m/s².
	Speed, Accel float64
}

const (
	step      = 20 * time.Millisecond // 50 Hz
	radius    = 0.18                  // of the robot, m
	turnSpeed = 2.0                   // rad/s
	turnAccel = 6.0                   // rad/s²
	charge    = 0.5                   // percent per second in the dock
	atDock    = 0.15                  // m
	warmup    = 60.0                  // seconds to 63 % of a change of temperature
	ambient   = 21.0                  // °C
)

// A World is the apartment with the robot in it. All methods may be called
// concurrently. Serve must run for anything to move.
type World struct {
	opt  Options
	wake chan struct{} // one token: there is something to move

	mu        sync.Mutex // guards everything below; never held while calling out
	rooms     []Room
	doors     []Door
	walls     []segment
	obstacles map[string]circle
	at        point
	heading   float64
	v, w      float64 // what the wheels do, m/s and rad/s
	wantV     float64
	wantW     float64
	bumped    bool
	moved     bool // since pose and lidar were told
	battery   float64
	lamps     map[string]float64 // percent
	warm      map[string]warmth
	seen      time.Time // up to when battery and motion are worked out
	run       *run      // the goal
	ticks     uint64
	sensors   map[string]*probe
	faults    map[string]*fault
}

// warmth is a room's temperature on its way to where the heat brings it.
type warmth struct {
	temp, to float64
	at       time.Time
}

func (h warmth) now(t time.Time) float64 {
	return h.to + (h.temp-h.to)*math.Exp(-t.Sub(h.at).Seconds()/warmup)
}

// New makes an apartment with the robot in its dock.
func New(o Options) *World {
	set := func(v *float64, to float64) {
		if *v == 0 {
			*v = to
		}
	}
	set(&o.Noise, 1)
	set(&o.Battery, 80)
	set(&o.Drain, 0.02)
	set(&o.Speed, 0.6)
	set(&o.Accel, 1)
	d := dock()
	w := &World{
		opt: o, wake: make(chan struct{}, 1), rooms: rooms(), doors: doors(), walls: walls(),
		obstacles: map[string]circle{}, at: point{d[0], d[1]}, heading: d[2], battery: o.Battery,
		lamps: map[string]float64{}, warm: map[string]warmth{}, seen: time.Now(),
		sensors: map[string]*probe{}, faults: map[string]*fault{},
	}
	for _, r := range w.rooms {
		w.warm[r.Name] = warmth{ambient, ambient, w.seen}
		if r.Name == o.Start {
			w.at, w.heading = point{r.At[0], r.At[1]}, 0
		}
	}
	w.addSensors()
	return w
}

// AddTo puts the world's devices behind a rig.
func (w *World) AddTo(rig *hw.Rig) error {
	if err := rig.AddActuator(&base{w}, hw.Limits{}); err != nil {
		return fmt.Errorf("sim: %w", err)
	}
	for _, r := range w.rooms {
		if err := rig.AddActuator(&lamp{w, r.Name}, hw.Limits{}); err != nil {
			return fmt.Errorf("sim: %w", err)
		}
	}
	for _, name := range w.sensorNames() {
		p := w.sensors[name]
		if err := rig.AddSensor(p, p.bounds); err != nil {
			return fmt.Errorf("sim: %w", err)
		}
	}
	return nil
}

// Serve moves the robot, 50 times a second while there is something to move.
func (w *World) Serve(ctx context.Context) error {
	next := time.NewTicker(step)
	defer next.Stop()
	for ticking := true; ; {
		moving := w.tick()
		switch {
		case moving && !ticking:
			next.Reset(step)
		case !moving && ticking:
			next.Stop()
		}
		ticking = moving
		select {
		case <-next.C:
		case <-w.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// stir wakes Serve.
func (w *World) stir() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// tick works out what happened since the last one and reports whether there
// is more to come.
func (w *World) tick() bool {
	w.mu.Lock()
	now := time.Now()
	w.settle(now)
	w.ticks++
	r := w.run
	moving := w.moving()
	w.notice(moving)
	w.mu.Unlock()
	if r != nil {
		r.control(now)
	}
	return moving
}

// settle brings the battery and the robot up to now. Whoever reads or changes
// them settles first, so that it does not matter who comes first in the same
// instant. The caller holds mu.
func (w *World) settle(now time.Time) {
	dt := now.Sub(w.seen).Seconds()
	w.seen = now
	rate := -w.opt.Drain / 10
	switch {
	case w.moving():
		rate = -w.opt.Drain
	case w.docked():
		rate = charge
	}
	w.battery = max(0, min(100, w.battery+rate*dt))
	if w.battery == 0 {
		w.wantV, w.wantW = 0, 0
	}
	w.move(min(dt, 0.1)) // longer only if nobody served; then it stood still
}

func (w *World) moving() bool {
	return w.run != nil && w.run.g.Context().Err() == nil || w.v != 0 || w.w != 0 || w.wantV != 0 || w.wantW != 0
}

func (w *World) docked() bool {
	d := dock()
	return !w.moving() && w.at.dist(point{d[0], d[1]}) < atDock
}

// move drives for dt seconds; the caller holds mu.
func (w *World) move(dt float64) {
	toward := func(v, want, most float64) float64 {
		return v + max(-most, min(most, want-v))
	}
	w.v = toward(w.v, w.wantV, w.opt.Accel*dt)
	w.w = toward(w.w, w.wantW, turnAccel*dt)
	if w.v == 0 && w.w == 0 {
		return
	}
	w.moved = true
	mid := w.heading + w.w*dt/2
	to := point{w.at.x + w.v*dt*math.Cos(mid), w.at.y + w.v*dt*math.Sin(mid)}
	w.heading = wrap(w.heading + w.w*dt)
	room := w.clearance(to) - radius
	if w.v != 0 && room < 0 && room <= w.clearance(w.at)-radius {
		w.v, w.wantV, w.bumped = 0, 0, true // against something, and not on the way out
		return
	}
	w.at = to
	if room > 0.01 {
		w.bumped = false
	}
}

// clearance is the distance to the nearest thing; the caller holds mu.
func (w *World) clearance(p point) float64 {
	d := math.Inf(1)
	for _, s := range w.walls {
		d = min(d, s.dist(p))
	}
	for _, o := range w.doors {
		if !o.Open {
			d = min(d, o.segment().dist(p))
		}
	}
	for _, c := range w.obstacles {
		d = min(d, max(0, c.at.dist(p)-c.r))
	}
	return d
}

// brake stops the wheels at once: the base's safe state.
func (w *World) brake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.settle(time.Now())
	w.v, w.w, w.wantV, w.wantW = 0, 0, 0, 0
	w.notice(w.moving())
}

// noise is a source of its own for each sensor.
func (w *World) source(name string) *rand.Rand {
	var h uint64 = 14695981039346656037 // FNV-1a
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return rand.New(rand.NewPCG(w.opt.Seed, h))
}
