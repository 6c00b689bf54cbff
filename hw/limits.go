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

// Limits say which commands an actuator may get. A command is a JSON object
// of numbers, texts and switches; a bare value is short for {"value": …}. A
// field that is not named here is refused, letter case included, so nothing
// reaches a driver unseen.
type Limits struct {
	Fields map[string]Range // numbers
	Words  []string         // texts and switches
	Rate   float64          // commands per second that are let through; 0 = any
	// Hold is how long a command lasts that is not refreshed: then the actuator
	// goes to Rest. For what moves 0 is the rig's default, and 5 s the most; for
	// what Stays 0 is for ever, and a day the most.
	Hold time.Duration
	// Stays is for what merely stays as it was told, a lamp, a relay or a fan, and
	// never for what moves, a motor or a servo: a command has no lifetime unless it
	// or Hold says so.
	Stays bool
	// Keeps says that Rest leaves the device as it is: a lamp that goes on burning
	// at a stop. It has to be one that Stays.
	Keeps bool
}

// most is the longest lifetime of a command.
func (l *Limits) most() time.Duration {
	if l.Stays {
		return 24 * time.Hour
	}
	return maxHold
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
	switch {
	case l.Hold < 0:
		return fmt.Errorf("hold %v", l.Hold)
	case l.Hold > l.most():
		return fmt.Errorf("hold %v is longer than %v", l.Hold, l.most())
	case l.Keeps && !l.Stays:
		return errors.New("what moves can't stay as it is at a stop")
	case l.Keeps && l.Hold > 0:
		return errors.New("hold has no effect: at rest it stays as it is")
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

// within narrows the limits of a device by those of the wiring. What rests where,
// and whether it moves, is the device's to say.
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
		r.Rest = d.Rest
		out.Fields[n] = r
	}
	for _, w := range l.Words {
		if !slices.Contains(device.Words, w) {
			return out, fmt.Errorf("the device has no field %q", w)
		}
	}
	if len(l.Words) > 0 {
		out.Words = l.Words
	}
	if l.Rate > 0 && (out.Rate == 0 || l.Rate < out.Rate) {
		out.Rate = l.Rate
	}
	switch {
	case l.Stays && !device.Stays, l.Keeps && !device.Keeps:
		return out, errors.New("the device moves: its commands can't stay")
	case l.Hold != 0 && device.Hold != 0 && l.Hold > device.Hold:
		return out, fmt.Errorf("hold %v is longer than the device's %v", l.Hold, device.Hold)
	case l.Hold != 0:
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
			if l.Keeps {
				return c, fmt.Errorf("%w: hold has no effect: at rest it stays as it is", ErrLimit)
			}
			if c.hold, err = lifetime(v, l.most()); err != nil {
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
func lifetime(v any, most time.Duration) (time.Duration, error) {
	var d time.Duration
	switch x := v.(type) {
	case int64:
		d = seconds(float64(x), most)
	case float64:
		d = seconds(x, most)
	case string:
		d, _ = time.ParseDuration(x)
	}
	if d <= 0 || d > most {
		return 0, fmt.Errorf("%w: hold = %v; a command lasts more than 0 and at most %v", ErrLimit, v, most)
	}
	return d, nil
}

// seconds is a duration, 0 if it is out of range: compared before it is multiplied,
// which could overflow.
func seconds(x float64, most time.Duration) time.Duration {
	if !(x > 0 && x <= most.Seconds()) {
		return 0
	}
	return time.Duration(x * float64(time.Second))
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
