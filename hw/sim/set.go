package sim

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// What a test, a script's hw.sim or the operator can do to the world.

// SetDoor opens or closes a door: kitchen, living, bedroom or passage.
func (w *World) SetDoor(name string, open bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.IndexFunc(w.doors, func(d Door) bool { return d.Name == name })
	if i < 0 {
		return fmt.Errorf("sim: no door %q", name)
	}
	w.doors[i].Open = open
	w.look()
	return nil
}

// SetObstacle puts something round on the floor; a radius of 0 takes it away.
func (w *World) SetObstacle(name string, x, y, r float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r > 0 {
		w.obstacles[name] = circle{point{x, y}, r}
	} else {
		delete(w.obstacles, name)
	}
	w.look()
}

// look makes the lidar look again; the caller holds mu.
func (w *World) look() { w.sensors["lidar"].poke() }

// SetTemp sets a room's temperature now, in °C; it drifts from there to where
// the heat brings it.
func (w *World) SetTemp(room string, celsius float64) error {
	return w.heat(room, func(h *warmth) { h.temp = celsius })
}

// SetHeat sets the temperature that a room goes to, in °C: a stove, an open window.
func (w *World) SetHeat(room string, celsius float64) error {
	return w.heat(room, func(h *warmth) { h.to = celsius })
}

func (w *World) heat(room string, set func(*warmth)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	h, ok := w.warm[room]
	if !ok {
		return fmt.Errorf("sim: no room %q; there are %v", room, w.Places())
	}
	now := time.Now()
	h.temp, h.at = h.now(now), now
	set(&h)
	w.warm[room] = h
	w.sensors["temp_"+room].poke()
	return nil
}

// SetBattery sets the charge in percent.
func (w *World) SetBattery(percent float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.settle(time.Now())
	w.battery = max(0, min(100, percent))
	w.sensors["battery"].poke()
}

// Place lifts the robot to a point and sets it down.
func (w *World) Place(x, y, theta float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.settle(time.Now())
	w.at, w.heading, w.bumped = point{x, y}, wrap(theta), false
	w.v, w.w, w.moved = 0, 0, true
	w.notice(false)
}

// Pose is where the robot is: metres and radians.
func (w *World) Pose() (x, y, theta float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at.x, w.at.y, w.heading
}

// Velocity is what the wheels do: m/s and rad/s.
func (w *World) Velocity() (v, omega float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.v, w.w
}

// Lamp is a room's light in percent.
func (w *World) Lamp(room string) float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lamps[room]
}

// Clearance is how far the robot's edge is from the nearest thing, in metres.
func (w *World) Clearance() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clearance(w.at) - radius
}

// Room is where the robot is: a room's name, or "dock".
func (w *World) Room() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.roomOf(w.at)
}

// Battery is the charge in percent.
func (w *World) Battery() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.settle(time.Now())
	return math.Round(w.battery*100) / 100
}
