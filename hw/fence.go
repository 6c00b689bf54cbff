package hw

// Nothing in this file waits: what a fence knows is in atomics, so that the gate
// may ask it under an actuator's lock.

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
)

// A Fence keeps an actuator that moves the robot inside an area. It goes to Rest
// the moment the robot is outside, or nobody knows where it is; then the gate is
// open only for a long action that is to end inside, the way back.
type Fence struct {
	Sensor string       // whose readings have x and y in m; "pose"
	Area   [][2]float64 // the corners of a polygon, in order; at least three
}

// FenceTopic tells that an actuator came to rest because of its fence.
const FenceTopic = "edged/safety/fence"

// ErrFence is the error of a command that a fence refuses.
var ErrFence = errors.New("outside the fence")

// where the robot is, as a fence knows it.
const (
	lost int32 = iota
	inside
	outside
)

// fence is the Fence of one actuator.
type fence struct {
	Fence
	a  *actuator
	at atomic.Int32
}

// Fence puts a fence around what an actuator does, in place of the one before.
func (r *Rig) Fence(actuator string, f Fence) error {
	a, err := r.actuator(actuator)
	if err != nil {
		return err
	}
	if f.Sensor == "" {
		f.Sensor = "pose"
	}
	if len(f.Area) < 3 {
		return fmt.Errorf("hw: fence of %s: %d corners enclose nothing; at least three do", actuator, len(f.Area))
	}
	for _, p := range f.Area {
		if math.IsNaN(p[0]+p[1]) || math.IsInf(p[0]+p[1], 0) {
			return fmt.Errorf("hw: fence of %s: corner %v", actuator, p)
		}
	}
	one := &fence{Fence: f, a: a}
	if rd, ok := r.Last(f.Sensor); ok {
		one.at.Store(one.where(rd))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	a.fence.Store(one)
	return nil
}

// Holds reports whether a point is inside.
func (f Fence) Holds(x, y float64) bool {
	in := false
	for i, p := range f.Area {
		q := f.Area[(i+1)%len(f.Area)]
		if (p[1] > y) != (q[1] > y) && x < (q[0]-p[0])*(y-p[1])/(q[1]-p[1])+p[0] {
			in = !in
		}
	}
	return in
}

// where reads a reading.
func (f *fence) where(rd Reading) int32 {
	x, y, ok := point(rd.Value)
	switch {
	case !ok || rd.Quality == Stale || rd.Quality == Missing:
		return lost
	case f.Holds(x, y):
		return inside
	}
	return outside
}

// point takes x and y out of a tree.
func point(v any) (x, y float64, ok bool) {
	m, _ := v.(map[string]any)
	x, okX := number(m["x"])
	y, okY := number(m["y"])
	return x, y, okX && okY
}

func number(v any) (float64, bool) {
	switch n := v.(type) {
	case float64:
		return n, true
	case int64:
		return float64(n), true
	}
	return 0, false
}

// moved tells the fences of a new reading.
func (r *Rig) moved(sensor string, rd Reading) {
	for _, a := range *r.actuators.Load() {
		f := a.fence.Load()
		if f == nil || f.Sensor != sensor {
			continue
		}
		now := f.where(rd)
		if was := f.at.Swap(now); was != inside || now == inside {
			continue
		}
		why := "left its fence"
		if now == lost {
			why = "nobody knows where it is"
		}
		ctx := context.Background()
		a.mu.Lock()
		active, g := a.active || a.goal != nil, a.goal
		a.mu.Unlock()
		if !active {
			continue
		}
		if g != nil {
			g.Cancel(why)
		}
		a.rest(nil, cause{ctx, "hw:fence", why}, ErrFence)
		m := map[string]any{"actuator": a.name, "why": why}
		if x, y, ok := point(rd.Value); ok {
			m["x"], m["y"] = x, y
		}
		r.say(ctx, "hw:fence", FenceTopic, m)
	}
}

// passes says whether the fence lets a command through; back is a goal that is
// to end inside.
func (f *fence) passes(back bool) error {
	if f == nil {
		return nil
	}
	switch at := f.at.Load(); {
	case at == inside || at == outside && back:
		return nil
	case at == lost:
		return fmt.Errorf("%w: sensor %s does not tell where the robot is", ErrFence, f.Sensor)
	}
	return ErrFence
}

// admits looks at where a long action is to end, as far as its arguments say.
func (f *fence) admits(args any) (back bool, err error) {
	if f == nil {
		return false, nil
	}
	x, y, ok := point(args)
	if ok && !f.Holds(x, y) {
		return false, fmt.Errorf("%w: x = %v, y = %v", ErrFence, x, y)
	}
	return ok, f.passes(ok)
}
