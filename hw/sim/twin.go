package sim

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"edged/hw"
)

// A Sensor is the twin of any sensor: it reads what it is set to.
type Sensor struct {
	name, unit string
	news       chan struct{} // one token

	mu    sync.Mutex // guards everything below
	value any
	has   bool
	rnd   *rand.Rand
	fault *fault
}

// NewSensor makes a twin that has nothing to read until Set.
func NewSensor(name, unit string) *Sensor {
	return &Sensor{name: name, unit: unit, news: make(chan struct{}, 1), rnd: rand.New(rand.NewPCG(0, 0))}
}

// Name is the twin's name.
func (s *Sensor) Name() string { return s.name }

// Simulated is true.
func (s *Sensor) Simulated() bool { return true }

// Set makes the sensor read v, at once and until the next Set.
func (s *Sensor) Set(v any) {
	s.mu.Lock()
	s.value, s.has = v, true
	s.mu.Unlock()
	s.poke()
}

// Inject makes the sensor faulty; the zero Fault heals it.
func (s *Sensor) Inject(f Fault) {
	s.mu.Lock()
	s.fault = &fault{Fault: f}
	s.mu.Unlock()
	s.poke()
}

func (s *Sensor) poke() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// Sense emits the value whenever it is set.
func (s *Sensor) Sense(ctx context.Context, emit func(any) error) error {
	for {
		s.mu.Lock()
		v, has, f := s.value, s.has, s.fault
		if f != nil && f.Fail != "" {
			s.mu.Unlock()
			return errors.New(f.Fail)
		}
		if f != nil && has {
			v = f.bend(v, s.rnd)
			has = v != nil
		}
		s.mu.Unlock()
		if has {
			at := time.Now()
			if f != nil {
				if err := sleep(ctx, f.Late); err != nil {
					return err
				}
			}
			if err := emit(hw.Reading{Value: v, Unit: s.unit, Time: at}); err != nil {
				return err
			}
		}
		select {
		case <-s.news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// An Actuator is the twin of any actuator: it notes what it is told.
type Actuator struct {
	name   string
	limits hw.Limits

	mu    sync.Mutex // guards everything below
	state json.RawMessage
	told  []json.RawMessage // the last 1,000
	rests int
	fault *fault
}

// NewActuator makes a twin at rest.
func NewActuator(name string, l hw.Limits) *Actuator { return &Actuator{name: name, limits: l} }

// Name is the twin's name.
func (a *Actuator) Name() string { return a.name }

// Simulated is true.
func (a *Actuator) Simulated() bool { return true }

// Limits are those it was made with.
func (a *Actuator) Limits() hw.Limits { return a.limits }

// Inject makes the actuator faulty; the zero Fault heals it and frees what hangs.
func (a *Actuator) Inject(f Fault) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fault != nil {
		close(a.fault.freed)
	}
	a.fault = &fault{Fault: f, freed: make(chan struct{})}
}

func (a *Actuator) hinder(ctx context.Context) error {
	a.mu.Lock()
	f := a.fault
	a.mu.Unlock()
	return f.hinder(ctx)
}

// Do notes the command.
func (a *Actuator) Do(ctx context.Context, cmd json.RawMessage) error {
	if err := a.hinder(ctx); err != nil {
		return err
	}
	var c map[string]any
	if err := json.Unmarshal(cmd, &c); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state = cmd
	if len(a.told) == 1000 {
		a.told = a.told[:copy(a.told, a.told[1:])]
	}
	a.told = append(a.told, cmd)
	return nil
}

// Rest forgets the command, unless the actuator keeps it.
func (a *Actuator) Rest(ctx context.Context) error {
	if err := a.hinder(ctx); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.limits.Keeps {
		a.state = nil
	}
	a.rests++
	return nil
}

// State is the command in force, nil at rest.
func (a *Actuator) State() json.RawMessage {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state
}

// Told lists what it was told, oldest first, and Rests how often it was
// brought to rest.
func (a *Actuator) Told() (list []json.RawMessage, rests int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append(list, a.told...), a.rests
}
