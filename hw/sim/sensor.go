package sim

import (
	"context"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"edged/hw"
)

// Rays is the number of the lidar's rays; ray 0 looks ahead, they go round to
// the left.
const Rays = 36

const lidarRange = 6.0 // m

// probe is one sensor of the world.
type probe struct {
	w      *World
	name   string
	unit   string
	bounds hw.Bounds
	every  time.Duration           // also without news; 0 = only with
	divide uint64                  // while moving, news every so many ticks
	noise  float64                 // standard deviation
	read   func(now time.Time) any // the caller holds the world's mu
	news   chan struct{}           // one token
	rnd    *rand.Rand              // used by Sense alone
	last   any                     // what notice saw, for those with news on change only
}

func (w *World) addSensors() {
	add := func(p *probe) {
		p.w, p.news, p.rnd = w, make(chan struct{}, 1), w.source(p.name)
		p.noise *= max(0, w.opt.Noise)
		w.sensors[p.name] = p
	}
	add(&probe{name: "pose", unit: "m", divide: 5, read: func(time.Time) any { return w.pose() }})
	add(&probe{name: "lidar", unit: "m", divide: 10, noise: 0.01, read: func(time.Time) any { return w.scan() }})
	add(&probe{name: "bump", read: func(time.Time) any { return w.bumped }})
	add(&probe{name: "charging", read: func(time.Time) any { return w.docked() }})
	add(&probe{name: "battery", unit: "%", every: 10 * time.Second, bounds: hw.Bounds{Min: 0, Max: 100}, read: func(now time.Time) any {
		w.settle(now)
		return math.Ceil(w.battery)
	}})
	for _, r := range w.rooms {
		add(&probe{name: "temp_" + r.Name, unit: "°C", every: 5 * time.Second, noise: 0.05,
			bounds: hw.Bounds{Min: -40, Max: 85, Stale: 20 * time.Second},
			read:   func(now time.Time) any { return w.warm[r.Name].now(now) }})
	}
}

func (w *World) sensorNames() []string { return slices.Sorted(maps.Keys(w.sensors)) }

func (p *probe) Name() string    { return p.name }
func (p *probe) Simulated() bool { return true }

// Sense gives a reading at the start, with every news and every so often.
func (p *probe) Sense(ctx context.Context, emit func(any) error) error {
	var due <-chan time.Time
	if p.every > 0 {
		t := time.NewTicker(p.every)
		defer t.Stop()
		due = t.C
	}
	for {
		if err := p.give(ctx, emit); err != nil {
			return err
		}
		select {
		case <-p.news:
		case <-due:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// give emits one reading, with what is wrong with it.
func (p *probe) give(ctx context.Context, emit func(any) error) error {
	p.w.mu.Lock()
	now := time.Now()
	v := p.read(now)
	f := p.w.faults[p.name]
	p.w.mu.Unlock()
	if p.noise > 0 {
		v = blur(v, p.noise, p.rnd)
	}
	if f != nil {
		if f.Fail != "" {
			return errors.New(f.Fail)
		}
		if v = f.bend(v, p.rnd); v == nil {
			return nil
		}
		if err := sleep(ctx, f.Late); err != nil {
			return err
		}
	}
	return emit(hw.Reading{Value: v, Unit: p.unit, Time: now})
}

// notice tells the sensors that have something new; the caller holds mu.
func (w *World) notice(moving bool) {
	moved := w.moved
	if !moving {
		w.moved = false
	}
	for name, p := range w.sensors {
		switch {
		case p.divide > 0:
			if moved && (!moving || w.ticks%p.divide == 0) {
				p.poke()
			}
		case name == "bump" || name == "charging" || name == "battery":
			if v := p.read(w.seen); v != p.last {
				p.last = v
				p.poke()
			}
		}
	}
}

func (p *probe) poke() {
	select {
	case p.news <- struct{}{}:
	default:
	}
}

func (w *World) pose() any {
	return map[string]any{
		"x": round(w.at.x), "y": round(w.at.y), "theta": round(w.heading),
		"v": round(w.v), "w": round(w.w), "room": w.roomOf(w.at),
	}
}

// scan is the lidar: the distance of every ray, the least and its bearing.
func (w *World) scan() any {
	rays := make([]any, Rays)
	least, at := math.Inf(1), 0.0
	for i := range rays {
		a := wrap(2 * math.Pi * float64(i) / Rays)
		d := min(lidarRange, w.ray(w.heading+a))
		if rays[i] = round(d); d < least {
			least, at = d, a
		}
	}
	return map[string]any{"ranges": rays, "min": round(least), "bearing": round(at)}
}

func (w *World) ray(a float64) float64 {
	d := math.Inf(1)
	for _, s := range w.walls {
		d = min(d, s.hit(w.at, a))
	}
	for _, o := range w.doors {
		if !o.Open {
			d = min(d, o.segment().hit(w.at, a))
		}
	}
	for _, c := range w.obstacles {
		d = min(d, c.hit(w.at, a))
	}
	return d
}

// blur adds noise to a number, or to the rays of a scan.
func blur(v any, sigma float64, rnd *rand.Rand) any {
	switch x := v.(type) {
	case float64:
		return round(x + sigma*rnd.NormFloat64())
	case []any:
		for i := range x {
			x[i] = blur(x[i], sigma, rnd)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(x)) {
			if k != "bearing" {
				x[k] = blur(x[k], sigma, rnd)
			}
		}
	}
	return v
}
