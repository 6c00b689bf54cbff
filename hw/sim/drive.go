package sim

import (
	"math"
	"sync"
	"time"

	"edged/hw"
)

// run is a goal of the base under way. It only gives commands through the
// gate, as anybody would: if it dies, the dead man stops the base.
type run struct {
	w     *World
	g     *hw.Goal
	began time.Time

	mu      sync.Mutex // guards everything below
	path    []point    // still to come, the last is the goal
	theta   *float64   // heading at the end
	speed   float64
	turning bool
	rotate  float64 // still to turn
	last    float64 // heading when rotate was worked out
	next    time.Time
	told    time.Time // last feedback
	blocked time.Time // since when there is no way
}

const (
	controlEvery  = 100 * time.Millisecond
	feedbackEvery = 500 * time.Millisecond
	patience      = 5 * time.Second // without a way
	ahead         = 0.3             // m, where the robot aims on its path
	arrived       = 0.05            // m
)

// plan finds a way from where the robot is.
func (r *run) plan(to point, theta *float64, speed float64) error {
	if speed == 0 {
		speed = min(0.4, r.w.opt.Speed)
	}
	r.w.mu.Lock()
	path, err := r.w.route(r.w.at, to)
	r.w.mu.Unlock()
	if err != nil {
		return err
	}
	r.path, r.theta, r.speed = path, theta, min(speed, r.w.opt.Speed)
	return nil
}

// leave forgets the run when its goal is over.
func (r *run) leave() {
	r.w.mu.Lock()
	if r.w.run == r {
		r.w.run = nil
	}
	r.w.mu.Unlock()
}

// control gives the next command, ten times a second.
func (r *run) control(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Before(r.next) || r.g.Context().Err() != nil {
		return
	}
	r.next = now.Add(controlEvery)
	r.w.mu.Lock()
	at, heading, bumped := r.w.at, r.w.heading, r.w.bumped
	clear := r.turning || r.w.clearWay(at, r.aim(at))
	r.w.mu.Unlock()

	switch {
	case bumped:
		r.g.Fail("bumped into something")
	case r.turning:
		r.turnOn(now, heading)
	case !clear:
		r.around(now, at)
	default:
		r.blocked = time.Time{}
		r.driveOn(now, at, heading)
	}
}

// aim drops what is behind and gives the point to steer for; the caller holds mu.
func (r *run) aim(at point) point {
	for len(r.path) > 1 && at.dist(r.path[0]) < ahead/2 {
		r.path = r.path[1:]
	}
	return r.path[0]
}

func (r *run) left(at point) float64 {
	d, from := 0.0, at
	for _, p := range r.path {
		d += from.dist(p)
		from = p
	}
	return d
}

func (r *run) driveOn(now time.Time, at point, heading float64) {
	left := r.left(at)
	if left < arrived {
		if r.theta != nil {
			r.turning, r.rotate, r.last = true, wrap(*r.theta-heading), heading
			r.turnOn(now, heading)
			return
		}
		r.done(at, heading)
		return
	}
	off := wrap(at.bearing(r.path[0]) - heading)
	w := max(-turnSpeed, min(turnSpeed, 2.5*off))
	v := 0.0
	if math.Abs(off) < 0.6 {
		// Slower towards each corner, where the robot turns.
		v = r.speed * math.Cos(off) * min(1, 0.15+at.dist(r.path[0])/(2*ahead))
	}
	r.drive(v, w)
	r.feedback(now, map[string]any{"left": round(left), "room": r.w.roomOf(at)})
}

func (r *run) turnOn(now time.Time, heading float64) {
	r.rotate -= wrap(heading - r.last)
	r.last = heading
	if math.Abs(r.rotate) < 0.02 {
		r.w.mu.Lock()
		at := r.w.at
		r.w.mu.Unlock()
		r.done(at, heading)
		return
	}
	w := max(-turnSpeed, min(turnSpeed, 2.5*r.rotate))
	if math.Abs(w) < 0.1 {
		w = math.Copysign(0.1, w)
	}
	r.drive(0, w)
	r.feedback(now, map[string]any{"left_rad": round(r.rotate)})
}

// around stops before an obstacle and looks for another way.
func (r *run) around(now time.Time, at point) {
	r.w.mu.Lock()
	path, err := r.w.route(at, r.path[len(r.path)-1])
	r.w.mu.Unlock()
	if err == nil {
		r.path, r.blocked = path, time.Time{}
		r.next = now // steer at once
		return
	}
	if r.blocked.IsZero() {
		r.blocked = now
	}
	if now.Sub(r.blocked) >= patience {
		r.g.Fail("blocked: " + err.Error())
		return
	}
	r.drive(0, 0)
	r.feedback(now, map[string]any{"left": round(r.left(at)), "blocked": true})
}

func (r *run) drive(v, w float64) {
	if err := r.g.Drive(map[string]any{"v": v, "w": w}); err != nil && r.g.Context().Err() == nil {
		r.g.Fail(err.Error())
	}
}

func (r *run) done(at point, heading float64) {
	r.g.Succeed(map[string]any{
		"x": round(at.x), "y": round(at.y), "theta": round(heading), "room": r.w.roomOf(at),
		"seconds": round(time.Since(r.began).Seconds()),
	})
}

func (r *run) feedback(now time.Time, v map[string]any) {
	if r.told.IsZero() || now.Sub(r.told) >= feedbackEvery {
		r.told = now
		r.g.Feedback(v)
	}
}

// roomOf names a point's room, or "dock".
func (w *World) roomOf(p point) string {
	if d := dock(); p.dist(point{d[0], d[1]}) < atDock {
		return "dock"
	}
	return roomAt(w.rooms, p)
}

// round keeps millimetres: enough to read, and equal on every machine.
func round(f float64) float64 { return math.Round(f*1000) / 1000 }
