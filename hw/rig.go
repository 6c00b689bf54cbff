package hw

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"edged/bus"
)

// A Rig is the robot's devices behind one gate. All methods may be called
// concurrently. Whoever made it calls Safe and Close at the end.
type Rig struct {
	b   *bus.Bus
	opt Options

	lanes    sync.WaitGroup // of goroutines that exist while an actuator has something to do
	saves    sync.WaitGroup // of those that write the latch
	speaking atomic.Bool
	deaf     func() // ends hearing StopTopic

	latch     atomic.Pointer[StopRecord] // nil = not stopped
	off       atomic.Bool                // shut down: nothing but Rest
	actuators atomic.Pointer[[]*actuator]
	hooks     atomic.Pointer[[]func()]

	saving    sync.Mutex  // guards the order of writes to opt.Latch, and the next three
	unsaved   int         // writes that failed, in a row
	saved     bool        // no more are to come
	saveAgain *time.Timer // next try

	mu       sync.Mutex // guards everything below; never held while calling out
	devices  map[string]any
	claims   map[string]string
	sensors  []*sensor
	bindings []*bus.Subscription

	goalMu sync.Mutex // guards goals, goalID; a stop takes it
	goals  map[*Goal]struct{}
	goalID uint64
}

// NewRig makes a rig without devices. If a stop caused by hardware was saved,
// or the saved state can't be read, the rig starts stopped.
func NewRig(b *bus.Bus, o Options) (*Rig, error) {
	r := &Rig{b: b, opt: o.filled(), devices: map[string]any{}, claims: map[string]string{}, goals: map[*Goal]struct{}{}}
	r.actuators.Store(new([]*actuator))
	r.hooks.Store(new([]func()))
	r.saveAgain = time.AfterFunc(time.Hour, r.save)
	r.saveAgain.Stop()
	if err := r.recall(); err != nil {
		return nil, err
	}
	var err error
	if r.deaf, err = b.Urgent(StopTopic, nil, r.heard); err != nil {
		return nil, fmt.Errorf("hw: new rig: %w", err)
	}
	return r, nil
}

// Close ends what the rig listens to, and waits until the latch is written. It
// moves nothing; see [Rig.Safe].
func (r *Rig) Close() {
	r.off.Store(true)
	r.deaf()
	r.mu.Lock()
	subs, sensors := r.bindings, r.sensors
	r.bindings = nil
	r.mu.Unlock()
	for _, s := range subs {
		s.Close()
	}
	for _, s := range sensors {
		s.stale.Stop()
	}
	r.lastSave()
}

// AddSensor puts a sensor behind the rig. Its readings come once its service
// of [Rig.Services] runs.
func (r *Rig) AddSensor(dev Sensor, o Bounds) error {
	s := newSensor(r, dev, o)
	if err := r.claim(s.name, dev, func() { r.sensors = append(r.sensors, s) }); err != nil {
		return fmt.Errorf("hw: add sensor %q: %w", s.name, err)
	}
	return nil
}

// AddActuator puts an actuator behind the gate. Limits narrow those that the
// device itself knows (see [Limited]); a device that knows none needs them.
func (r *Rig) AddActuator(dev Actuator, l Limits) error {
	name := dev.Name()
	fail := func(err error) error { return fmt.Errorf("hw: add actuator %q: %w", name, err) }
	if d, ok := dev.(Limited); ok {
		var err error
		if l, err = l.within(d.Limits()); err != nil {
			return fail(err)
		}
	}
	if err := l.valid(); err != nil {
		return fail(err)
	}
	if l.Hold == 0 && !l.Stays {
		l.Hold = r.opt.Hold
	}
	a := newActuator(r, dev, l)
	err := r.claim(name, dev, func() {
		all := append(slices.Clone(*r.actuators.Load()), a)
		r.actuators.Store(&all)
	})
	if err != nil {
		return fail(err)
	}
	return nil
}

// claim takes the name and what the device uses alone; add is called under mu.
func (r *Rig) claim(name string, dev any, add func()) error {
	if name == "" || strings.ContainsAny(name, "/+#\x00") || bus.ValidTopic("hw/"+name) != nil {
		return errors.New("the name must be one topic level")
	}
	var mine []string
	if c, ok := dev.(Claimer); ok {
		mine = c.Claims()
	}
	if other := r.Device(name); other != nil {
		return fmt.Errorf("two devices have this name: %s and %s", describe(other), describe(dev))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, taken := r.devices[name]; taken {
		return errors.New("two devices have this name")
	}
	for _, c := range mine {
		if other, taken := r.claims[c]; taken {
			return fmt.Errorf("%s is used by %q and by %q", c, other, name)
		}
	}
	for _, c := range mine {
		r.claims[c] = name
	}
	r.devices[name] = dev
	add()
	return nil
}

func describe(dev any) string {
	if s, ok := dev.(fmt.Stringer); ok {
		return s.String()
	}
	kind := "sensor"
	if _, ok := dev.(Actuator); ok {
		kind = "actuator"
	}
	return fmt.Sprintf("%s (%T)", kind, dev)
}

func (r *Rig) actuator(name string) (*actuator, error) {
	for _, a := range *r.actuators.Load() {
		if a.name == name {
			return a, nil
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.devices[name]; ok {
		return nil, fmt.Errorf("hw: %w: %q is a sensor", ErrUnknown, name)
	}
	var have []string
	for _, a := range *r.actuators.Load() {
		have = append(have, a.name)
	}
	return nil, fmt.Errorf("hw: %w: no actuator %q; there are: %s", ErrUnknown, name, strings.Join(have, ", "))
}

// Services are the parts to put under supervision: "hw/safe" first, which
// rests every actuator at its start and, stopped last, at its end, so that a
// supervisor that gives up leaves the robot safe; then every sensor.
func (r *Rig) Services() []Service {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := []Service{{Name: "hw/safe", serve: r.keepSafe}}
	for _, s := range r.sensors {
		list = append(list, Service{Name: "hw/" + s.name, serve: s.serve})
	}
	return list
}

// keepSafe opens the gate while it runs.
func (r *Rig) keepSafe(ctx context.Context) error {
	r.trip(ctx, "hw", "start", false)
	r.off.Store(false)
	<-ctx.Done()
	return r.Safe(context.WithoutCancel(ctx), "supervisor")
}

// Status is one device as the operator sees it.
type Status struct {
	Name      string    `json:"name"`
	Kind      string    `json:"kind"` // "sensor" or "actuator"
	Simulated bool      `json:"simulated,omitempty"`
	Error     string    `json:"error,omitempty"`
	Reading   *Reading  `json:"-"`               // a sensor's last
	Value     any       `json:"value,omitempty"` // what it read, or what the actuator was told
	Unit      string    `json:"unit,omitempty"`
	Quality   Quality   `json:"quality,omitempty"`
	Time      time.Time `json:"time,omitzero"`
	AtRest    bool      `json:"at_rest,omitempty"`
	Goal      string    `json:"goal,omitempty"`
	Actions   []string  `json:"-"`
}

// Devices lists all devices by name.
func (r *Rig) Devices() []Status {
	r.mu.Lock()
	sensors := slices.Clone(r.sensors)
	r.mu.Unlock()
	var list []Status
	for _, s := range sensors {
		list = append(list, s.status())
	}
	for _, a := range *r.actuators.Load() {
		list = append(list, a.status())
	}
	for i := range list {
		d, ok := r.Device(list[i].Name).(Simulated)
		list[i].Simulated = ok && d.Simulated()
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list
}

// Device is the driver that was added under a name, nil if none was.
func (r *Rig) Device(name string) any {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.devices[name]
}

// Last is a sensor's last reading; ok is false if there is no such sensor or
// it has not read anything yet.
func (r *Rig) Last(sensor string) (Reading, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.sensors {
		if s.name == sensor {
			return s.read()
		}
	}
	return Reading{}, false
}

// say stages an event and lets another goroutine deliver it: a delivery runs
// the predicates of others, and lanes and the stop path must not wait for those.
func (r *Rig) say(ctx context.Context, source, topic string, v any) {
	r.stage(ctx, source, topic, v)
	r.speak()
}

func (r *Rig) stage(ctx context.Context, source, topic string, v any) {
	if _, err := r.b.Stage(ctx, source, topic, v); err != nil {
		r.opt.Log.Debug("hw: not published", "topic", topic, "error", err)
	}
}

// speak delivers what was staged, on a goroutine of its own.
func (r *Rig) speak() {
	if !r.speaking.Swap(true) {
		r.lanes.Go(func() {
			r.speaking.Store(false) // before, so that nothing staged from here on is missed
			r.b.Deliver()
		})
	}
}

// complain is say for what can't be returned to anybody.
func (r *Rig) complain(ctx context.Context, source string, err error, more map[string]any) {
	m := map[string]any{"source": source, "error": err.Error()}
	maps.Copy(m, more)
	r.say(ctx, source, bus.ErrorTopic, m)
}

// Limits are those of an actuator, the device's own narrowed by the wiring's;
// ok is false if there is no such actuator.
func (r *Rig) Limits(actuator string) (l Limits, ok bool) {
	a, err := r.actuator(actuator)
	if err != nil {
		return l, false
	}
	l = a.limits
	l.Fields = maps.Clone(l.Fields)
	l.Words = slices.Clone(l.Words)
	return l, true
}
