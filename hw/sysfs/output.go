package sysfs

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"

	"edged/hw"
)

// An Output is a file that takes a whole number: the brightness of a LED, the
// speed of a fan, the duty of a PWM channel. It satisfies hw.Actuator with the
// command {"value": 128}, and hw.Guarded: its rest value is also written by the
// guard when the daemon was killed.
type Output struct {
	Called   string
	File     string  // /sys/class/leds/led0/brightness
	Min, Max float64 // what the file takes
	Rests    float64 // its safe value
	Moves    bool    // something is moved by it: its commands have a lifetime
	Keeps    bool    // at rest it stays as it is; not for what moves
}

var (
	_ hw.Actuator = Output{}
	_ hw.Guarded  = Output{}
	_ hw.Limited  = Output{}
	_ hw.Claimer  = Output{}
)

// Name is the device's name.
func (o Output) Name() string { return o.Called }

// Limits are those of the file.
func (o Output) Limits() hw.Limits {
	return hw.Limits{
		Fields: map[string]hw.Range{"value": {Min: o.Min, Max: o.Max, Rest: o.Rests}},
		Stays:  !o.Moves, Keeps: o.Keeps,
	}
}

// Claims is the file: two devices can't share it.
func (o Output) Claims() []string { return []string{o.File} }

// Do writes the value, rounded to a whole number.
func (o Output) Do(ctx context.Context, cmd json.RawMessage) error {
	var c struct{ Value *float64 }
	if err := json.Unmarshal(cmd, &c); err != nil || c.Value == nil {
		return fmt.Errorf("sysfs: %s: want {\"value\": number}, got %s", o.Called, cmd)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return o.write(*c.Value)
}

// Rest writes the safe value, if there is one.
func (o Output) Rest(context.Context) error {
	if o.Keeps {
		return nil
	}
	return o.write(o.Rests)
}

// SafeActions is the same for the guard.
func (o Output) SafeActions() []hw.SafeAction {
	if o.Keeps {
		return nil
	}
	return []hw.SafeAction{{Path: o.File, Data: []byte(digits(o.Rests))}}
}

func (o Output) write(v float64) error {
	f, err := os.OpenFile(o.File, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return fmt.Errorf("sysfs: %s: %w", o.Called, err)
	}
	if _, err := f.WriteString(digits(v)); err != nil {
		f.Close()
		return fmt.Errorf("sysfs: %s: %w", o.Called, err)
	}
	return f.Close()
}

func digits(v float64) string { return strconv.FormatInt(int64(math.Round(v)), 10) }
