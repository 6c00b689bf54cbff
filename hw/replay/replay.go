// Package replay has the devices of a recorded run: sensors that read what they
// read then, and actuators that move nothing and answer as they did then.
//
// Its one rule: a device knows only the record. What was never recorded is an
// error that says so, never a guess; but an action that was recorded with other
// arguments takes the time and has the end of that one.
//
//	past := replay.New(lines)                  // of bus/trace
//	err := rig.AddSensor(past.Sensor("lidar"), hw.Bounds{})
//	err = rig.AddActuator(past.Actuator("base", limits), hw.Limits{})
//	…
//	if name, reading, ok := replay.Reading(line); ok {
//		err = past.Sensor(name).Read(ctx, reading) // when its time has come
//	}
//
// Time is package time's: in a testing/synctest bubble a recorded minute takes
// none.
package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"edged/bus/trace"
	"edged/hw"
)

// A Robot is the devices of a recorded run. All methods may be called
// concurrently.
type Robot struct {
	mu        sync.Mutex // guards the rest
	sensors   map[string]*Sensor
	actuators map[string]*Actuator
}

// New reads a record.
func New(lines []trace.Line) *Robot {
	r := &Robot{sensors: map[string]*Sensor{}, actuators: map[string]*Actuator{}}
	goals := map[string]*goal{}
	for _, l := range lines {
		if name, _, ok := Reading(l); ok {
			r.Sensor(name)
			continue
		}
		name, what, ok := strings.Cut(strings.TrimPrefix(l.Topic, "hw/"), "/")
		if !ok || !strings.HasPrefix(l.Topic, "hw/") || !strings.HasPrefix(l.Source, "hw:") {
			continue
		}
		switch what {
		case "set":
			r.at(name).took(l)
		case "goal":
			r.at(name).went(l, goals)
		}
	}
	return r
}

// Sensors names the sensors of the record.
func (r *Robot) Sensors() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.sensors))
}

// Actuators names the actuators of the record.
func (r *Robot) Actuators() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.actuators))
}

// Sensor is a sensor of the record, or one that never read anything.
func (r *Robot) Sensor(name string) *Sensor {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sensors[name]
	if s == nil {
		s = &Sensor{name: name, next: make(chan hw.Reading)}
		r.sensors[name] = s
	}
	return s
}

// Actuator is an actuator of the record, or one that never did anything, within
// limits.
func (r *Robot) Actuator(name string, l hw.Limits) *Actuator {
	a := r.at(name)
	a.limits = l
	return a
}

func (r *Robot) at(name string) *Actuator {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.actuators[name]
	if a == nil {
		a = &Actuator{name: name}
		r.actuators[name] = a
	}
	return a
}

// Reading is the line of a record as a reading of a sensor.
func Reading(l trace.Line) (sensor string, rd hw.Reading, ok bool) {
	name, isHW := strings.CutPrefix(l.Source, "hw:")
	if !isHW || l.Topic != "hw/"+name {
		return "", rd, false
	}
	var p struct {
		Value   any        `json:"value"`
		Unit    string     `json:"unit"`
		Time    time.Time  `json:"time"`
		Quality hw.Quality `json:"quality"`
	}
	d := json.NewDecoder(bytes.NewReader(l.Payload))
	d.UseNumber()
	if d.Decode(&p) != nil {
		return "", rd, false
	}
	return name, hw.Reading{Value: numbers(p.Value), Unit: p.Unit, Time: p.Time, Quality: p.Quality}, true
}

// numbers makes numbers as package bus has them.
func numbers(v any) any {
	switch x := v.(type) {
	case json.Number:
		if n, err := x.Int64(); err == nil {
			return n
		}
		f, _ := x.Float64()
		return f
	case []any:
		for i := range x {
			x[i] = numbers(x[i])
		}
	case map[string]any:
		for k := range x {
			x[k] = numbers(x[k])
		}
	}
	return v
}

// A Sensor reads what it is told.
type Sensor struct {
	name string
	next chan hw.Reading
}

// Name is the sensor's name.
func (s *Sensor) Name() string { return s.name }

// Read gives a reading to whoever senses, and waits for that until ctx ends.
func (s *Sensor) Read(ctx context.Context, rd hw.Reading) error {
	select {
	case s.next <- rd:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("replay: sensor %s: %w", s.name, ctx.Err())
	}
}

// Sense emits what Read is given.
func (s *Sensor) Sense(ctx context.Context, emit func(any) error) error {
	for {
		select {
		case rd := <-s.next:
			if err := emit(rd); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
