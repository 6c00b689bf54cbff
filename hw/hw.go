// Package hw ties a robot's devices to the bus and keeps them safe.
//
// Its one rule: there is one gate. Nothing reaches an actuator but through
// [Rig.Do] (stop latch, limits, lifetime, then the device), and nothing keeps
// [Rig.Trip] from bringing every actuator to its safe state.
//
//	rig, err := hw.NewRig(b, hw.Options{})
//	err = rig.AddActuator(motor, hw.Limits{Fields: map[string]hw.Range{"duty": {Min: -1, Max: 1, Slew: 4}}})
//	err = rig.AddSensor(lidar, hw.Bounds{Min: 0.1, Max: 12, Stale: time.Second})
//	for _, s := range rig.Services() { // each retries its own device
//		tree = append(tree, background.Child{Name: s.Name, Service: s})
//	}
//	err = rig.Do(ctx, "script:main.star", "motor", map[string]any{"duty": 0.3})
//	rig.Stop(ctx, "cli", "operator")
//
// On the bus: hw/<sensor> is a reading {value, unit, time, quality};
// hw/<actuator>/set is what an actuator was told, and why; hw/<actuator>/refused
// a command that came of old words; hw/<actuator>/goal is a long action's state; edged/safety/stop and edged/safety/resume are the
// stop latch. Who publishes edged/safety/stop stops the robot.
//
// Work for an actuator runs on its lane, a goroutine that exists only while
// there is some. It depends on no supervisor, no queue and no other actuator,
// so a driver that hangs delays nothing but itself.
package hw

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// A Sensor is a source of readings.
type Sensor interface {
	// Name is one topic level; readings go to hw/<name>.
	Name() string
	// Sense gives readings to emit until ctx ends or the device fails. A reading
	// is a [Reading] or a bare value. An error of emit ends Sense with it. The rig
	// calls Sense again, with back-off, when it has returned an error; nil means
	// that there is nothing more to read.
	Sense(ctx context.Context, emit func(reading any) error) error
}

// An Actuator changes the world. The rig calls Do for one command at a time.
type Actuator interface {
	Name() string
	// Do carries out one command, a JSON object that has passed the limits, and
	// returns when the device has taken it, or early when ctx ends.
	Do(ctx context.Context, cmd json.RawMessage) error
	// Rest puts the device into its safe state. It is idempotent, quick and works
	// without a Do before it. It may be called while a Do that ignores its ended
	// context still hangs; it wins then.
	Rest(ctx context.Context) error
}

// A Goer is an actuator that takes long actions, drive_to say.
type Goer interface {
	Actuator
	// Go begins an action and returns at once, with an error if the action or its
	// arguments make no sense. The work goes on elsewhere: it moves the actuator
	// with g.Drive, tells how far it is with g.Feedback, ends with g.Succeed or
	// g.Fail, and gives up when g.Context() ends.
	Go(g *Goal, action string, args json.RawMessage) error
}

// A Limited actuator knows what its device can stand. Limits given to
// [Rig.AddActuator] may narrow these, not widen them.
type Limited interface{ Limits() Limits }

// A Claimer names what it uses alone, "gpiochip:pinctrl-rp1/17" say. Two
// devices with one claim are an error that names both.
type Claimer interface{ Claims() []string }

// A Guarded actuator can be made safe by another process, which does this when
// the daemon was killed. See [Guard].
type Guarded interface{ SafeActions() []SafeAction }

// A Simulated device says so; the page shows it.
type Simulated interface{ Simulated() bool }

// Quality says how far a reading may be trusted. A doubtful reading is marked,
// not hidden.
type Quality string

// The qualities of a reading.
const (
	Good       Quality = "good"
	OutOfRange Quality = "range"   // outside the Bounds of the sensor
	Stale      Quality = "stale"   // the last one, older than Bounds.Stale
	Missing    Quality = "missing" // the last one; the device has failed
)

// A Reading is what a sensor saw.
type Reading struct {
	Value   any       // number, text, bool, or a JSON tree
	Unit    string    // SI: "m", "m/s", "rad", "°C"; empty if it has none
	Time    time.Time // zero is now
	Quality Quality   // empty is Good
}

// Tree is the reading as it is published.
func (r *Reading) Tree() any {
	return map[string]any{
		"value": r.Value, "unit": r.Unit, "quality": string(r.Quality),
		"time": r.Time.UTC().Format("2006-01-02T15:04:05.000Z07:00"),
	}
}

// A Service is one supervised part of the rig. It satisfies background.Service.
type Service struct {
	Name  string
	serve func(context.Context) error
}

// Serve runs the part until ctx ends.
func (s Service) Serve(ctx context.Context) error { return s.serve(ctx) }

// Errors that callers decide on.
var (
	ErrStopped  = errors.New("the robot is stopped")
	ErrLimit    = errors.New("outside the limits")
	ErrRate     = errors.New("too many commands")
	ErrReplaced = errors.New("replaced by a newer command")
	ErrDevice   = errors.New("device failed")
	ErrUnrested = errors.New("not at rest")
	ErrUnknown  = errors.New("unknown device")
	ErrOff      = errors.New("the rig is shut down")
	ErrOld      = errors.New("old words move nothing") // see bus.Old
)

// Options of a rig; the zero value works.
type Options struct {
	Hold    time.Duration // lifetime of a command where neither it nor the actuator's Limits say; 500 ms
	Bound   time.Duration // how long a stop waits for actuators before it names those that are late; 50 ms
	Backoff time.Duration // before a failed device is tried again, doubling up to MaxBackoff; 500 ms
	// MaxBackoff is the longest time between two tries; 30 s.
	MaxBackoff time.Duration
	Dry        bool  // actuators are logged, not moved
	Latch      Latch // where a stop caused by hardware outlives the process; may be nil
	Log        *slog.Logger
}

const (
	maxHold     = 5 * time.Second
	grace       = 10 * time.Millisecond // what a cancelled Do has before Rest is called beside it
	restTimeout = time.Second
)

func (o Options) filled() Options {
	set := func(d *time.Duration, to time.Duration) {
		if *d <= 0 {
			*d = to
		}
	}
	set(&o.Hold, 500*time.Millisecond)
	set(&o.Bound, 50*time.Millisecond)
	set(&o.Backoff, 500*time.Millisecond)
	set(&o.MaxBackoff, 30*time.Second)
	o.Hold = min(o.Hold, maxHold)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// safely calls a driver and turns its panic into an error.
func safely(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: panic: %v", ErrDevice, p)
		}
	}()
	return f()
}
