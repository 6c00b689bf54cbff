package hw

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"edged/bus"
)

// Steady as Limits.Hold says that commands have no lifetime. It is for
// actuators whose every state is harmless, a lamp or a display; never for what
// moves or heats.
const Steady time.Duration = -1

// Limits say which commands an actuator may get. A command is a JSON object
// of numbers, texts and switches; a bare value is short for {"value": …}. A
// field that is not named here is refused, letter case included, so nothing
// reaches a driver unseen.
type Limits struct {
	Fields map[string]Range // numbers
	Words  []string         // texts and switches
	Rate   float64          // commands per second that are let through; 0 = any
	// Hold is how long a command lasts that is not refreshed: then the actuator
	// goes to Rest. 0 is the rig's default, 5 s the most; see [Steady].
	Hold time.Duration
}

// A Range limits one number of a command.
type Range struct {
	Min, Max float64
	Slew     float64 // most change per second, 0 = any; larger steps become ramps
	Rest     float64 // what the field is at Rest, where a ramp starts
}

// A Bounds says what a sensor's readings can be.
type Bounds struct {
	Min, Max float64       // both 0 = any; outside, a reading is marked OutOfRange
	Stale    time.Duration // without a reading for so long, the last is published again as Stale; 0 = never
}

func (l Limits) valid() error {
	if l.Hold > maxHold {
		return fmt.Errorf("hold %v is longer than %v", l.Hold, maxHold)
	}
	for _, n := range slices.Sorted(maps.Keys(l.Fields)) {
		r := l.Fields[n]
		switch {
		case n == "hold":
			return errors.New(`a field can't be called "hold"`)
		case !(r.Min <= r.Max) || math.IsInf(r.Min, 0) || math.IsInf(r.Max, 0):
			return fmt.Errorf("field %s: range %v..%v", n, r.Min, r.Max)
		case !(r.Slew >= 0) || !(r.Rest >= r.Min && r.Rest <= r.Max):
			return fmt.Errorf("field %s: slew %v, rest %v", n, r.Slew, r.Rest)
		}
	}
	if !(l.Rate >= 0) {
		return fmt.Errorf("rate %v", l.Rate)
	}
	return nil
}

// within narrows the limits of a device by those of the wiring.
func (l Limits) within(device Limits) (Limits, error) {
	out := device
	out.Fields = maps.Clone(device.Fields)
	for n, r := range l.Fields {
		d, ok := device.Fields[n]
		if !ok {
			return out, fmt.Errorf("the device has no field %q", n)
		}
		if r.Min < d.Min || r.Max > d.Max {
			return out, fmt.Errorf("field %s: %v..%v is wider than the device's %v..%v", n, r.Min, r.Max, d.Min, d.Max)
		}
		if r.Slew == 0 || d.Slew > 0 && d.Slew < r.Slew {
			r.Slew = d.Slew
		}
		out.Fields[n] = r
	}
	if l.Rate > 0 && (out.Rate == 0 || l.Rate < out.Rate) {
		out.Rate = l.Rate
	}
	if l.Hold != 0 && !(l.Hold == Steady && device.Hold != Steady) {
		out.Hold = l.Hold
	}
	return out, nil
}

// command is one command after the limits.
type command struct {
	fields map[string]any
	hold   time.Duration // 0 = the actuator's
}

func (c command) json() (json.RawMessage, error) { return json.Marshal(c.fields) }

// parse checks a command against the limits; all its numbers come out as
// float64 inside their ranges.
func (l *Limits) parse(cmd any) (c command, err error) {
	tree, err := plain(cmd)
	if err != nil {
		return c, err
	}
	in, ok := tree.(map[string]any)
	if !ok {
		in = map[string]any{"value": tree}
	}
	c.fields = make(map[string]any, len(in))
	for n, v := range in {
		if n == "hold" {
			if c.hold, err = lifetime(v); err != nil {
				return c, err
			}
			continue
		}
		if c.fields[n], err = l.field(n, v); err != nil {
			return c, err
		}
	}
	if len(c.fields) == 0 {
		return c, fmt.Errorf("%w: the command is empty", ErrLimit)
	}
	return c, nil
}

func (l *Limits) field(n string, v any) (any, error) {
	f, isNumber := v.(float64)
	if i, ok := v.(int64); ok {
		f, isNumber = float64(i), true
	}
	r, known := l.Fields[n]
	switch {
	case known && !isNumber:
		return nil, fmt.Errorf("%w: %s must be a number", ErrLimit, n)
	case known && !(f >= r.Min && f <= r.Max):
		return nil, fmt.Errorf("%w: %s = %v is not in %v..%v", ErrLimit, n, f, r.Min, r.Max)
	case known:
		return f, nil
	case !slices.Contains(l.Words, n):
		return nil, fmt.Errorf("%w: no field %q; it takes %s", ErrLimit, n, l.takes())
	}
	switch v.(type) {
	case string, bool:
		return v, nil
	}
	return nil, fmt.Errorf("%w: %s must be text or a switch", ErrLimit, n)
}

func (l *Limits) takes() string {
	all := append(slices.Sorted(maps.Keys(l.Fields)), l.Words...)
	if len(all) == 0 {
		return "none: declare its limits"
	}
	return strings.Join(all, ", ")
}

// plain makes a JSON tree of whatever a command came as.
func plain(cmd any) (any, error) {
	var raw []byte
	switch v := cmd.(type) {
	case json.RawMessage:
		raw = v
	case bus.RawJSON:
		raw = v
	default:
		tree, err := bus.Freeze(cmd)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrLimit, err)
		}
		return tree, nil
	}
	tree, err := bus.DecodeJSON(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLimit, err)
	}
	return tree, nil
}

// lifetime reads a hold: seconds, or a duration in words.
func lifetime(v any) (time.Duration, error) {
	var d time.Duration
	switch x := v.(type) {
	case int64:
		if x > 0 && x <= 5 {
			d = time.Duration(x) * time.Second
		}
	case float64:
		if x > 0 && x <= 5 {
			d = time.Duration(x * float64(time.Second))
		}
	case string:
		d, _ = time.ParseDuration(x)
	}
	if d <= 0 || d > maxHold {
		return 0, fmt.Errorf("%w: hold = %v; a command lasts more than 0 and at most %v", ErrLimit, v, maxHold)
	}
	return d, nil
}

// step gives what the device is told next on its way from what it was told
// before, dt ago, and whether it is there.
func (l *Limits) step(told, want map[string]any, dt time.Duration) (next map[string]any, there bool) {
	there = true
	next = maps.Clone(want)
	for n, v := range want {
		r, ok := l.Fields[n]
		if !ok || r.Slew == 0 {
			continue
		}
		from, ok := told[n].(float64)
		if !ok {
			from = r.Rest
		}
		to, most := v.(float64), r.Slew*min(dt, rampStep).Seconds()
		if math.Abs(to-from) > most {
			next[n] = from + math.Copysign(most, to-from)
			there = false
		}
	}
	return next, there
}

// rampStep is the time between two steps of a ramp.
const rampStep = 20 * time.Millisecond
