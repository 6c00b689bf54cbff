// Package hwtest is what every driver must pass: real, simulated or your own.
//
// Its one rule: a driver is tested from outside, through the two interfaces of
// package hw and what the test bench can see of the device.
//
//	func TestMotor(t *testing.T) {
//		hwtest.Actuator(t, hwtest.ActuatorBench{
//			New:     func(t *testing.T) hw.Actuator { return newMotor(fakeBus(t)) },
//			Command: `{"duty": 0.5}`,
//		})
//	}
package hwtest

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"edged/hw"
)

// ActuatorBench is an actuator under test.
type ActuatorBench struct {
	// New makes a driver with a device that works. It is called for every test.
	New func(t *testing.T) hw.Actuator
	// Command is one that the device takes.
	Command string
	// AtRest says whether the device is in its safe state; nil if it can't be seen.
	AtRest func(t *testing.T, a hw.Actuator) bool
	// Slow makes the device take its time over commands, and Break makes it fail
	// until the function that it returns is called. Nil skips those tests.
	Slow  func(t *testing.T, a hw.Actuator)
	Break func(t *testing.T, a hw.Actuator) (heal func())
}

// patience is what a driver may take to notice that its context has ended. In
// a synctest bubble it is virtual.
const patience = 100 * time.Millisecond

// Actuator runs the suite.
func Actuator(t *testing.T, b ActuatorBench) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(t *testing.T, ctx context.Context, a hw.Actuator, b ActuatorBench)
		skip bool
	}{
		{"name is one topic level", func(t *testing.T, _ context.Context, a hw.Actuator, _ ActuatorBench) { name(t, a.Name()) }, false},
		{"rest", rests, false},
		{"command after rest", commands, false},
		{"bad commands are errors", refuses, false},
		{"an ended context moves nothing", endsBefore, false},
		{"rest beside commands", restsBeside, false},
		{"a slow command is cancelled", cancels, b.Slow == nil},
		{"a failing device", fails, b.Break == nil},
	} {
		if c.skip {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			leak := watch(t)
			ctx, cancel := context.WithCancel(context.Background())
			c.test(t, ctx, b.New(t), b)
			cancel()
			leak()
		})
	}
}

func (b ActuatorBench) cmd() json.RawMessage { return json.RawMessage(b.Command) }

func (b ActuatorBench) atRest(t *testing.T, a hw.Actuator) {
	t.Helper()
	if b.AtRest != nil && !b.AtRest(t, a) {
		t.Error("the device is not in its safe state")
	}
}

// rests: without a command, after one, and again.
func rests(t *testing.T, ctx context.Context, a hw.Actuator, b ActuatorBench) {
	ok(t, "Rest without a command", a.Rest(ctx))
	b.atRest(t, a)
	ok(t, "Do", a.Do(ctx, b.cmd()))
	ok(t, "Rest", a.Rest(ctx))
	b.atRest(t, a)
	ok(t, "Rest again", a.Rest(ctx))
	b.atRest(t, a)
}

func commands(t *testing.T, ctx context.Context, a hw.Actuator, b ActuatorBench) {
	ok(t, "Rest", a.Rest(ctx))
	ok(t, "Do", a.Do(ctx, b.cmd()))
	if b.AtRest != nil && b.AtRest(t, a) {
		t.Error("the command changed nothing that the bench can see")
	}
	ok(t, "Do again", a.Do(ctx, b.cmd()))
	ok(t, "Rest", a.Rest(ctx))
	b.atRest(t, a)
}

func refuses(t *testing.T, ctx context.Context, a hw.Actuator, b ActuatorBench) {
	for _, bad := range []string{`{`, `[]`, `"x"`} {
		if err := a.Do(ctx, json.RawMessage(bad)); err == nil {
			t.Errorf("Do(%s): no error", bad)
		} else {
			says(t, err)
		}
	}
	ok(t, "Rest", a.Rest(ctx))
	b.atRest(t, a)
}

func endsBefore(t *testing.T, ctx context.Context, a hw.Actuator, b ActuatorBench) {
	ok(t, "Rest", a.Rest(ctx))
	over, cancel := context.WithCancel(ctx)
	cancel()
	if err := a.Do(over, b.cmd()); err == nil {
		t.Error("Do with an ended context: no error")
	}
	b.atRest(t, a)
}

func restsBeside(t *testing.T, ctx context.Context, a hw.Actuator, b ActuatorBench) {
	for range 20 {
		var all sync.WaitGroup
		all.Go(func() { _ = a.Do(ctx, b.cmd()) }) // may be overtaken
		all.Go(func() { ok(t, "Rest", a.Rest(ctx)) })
		all.Wait()
	}
	ok(t, "Rest", a.Rest(ctx))
	b.atRest(t, a)
}

func cancels(t *testing.T, ctx context.Context, a hw.Actuator, b ActuatorBench) {
	b.Slow(t, a)
	during, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	var all sync.WaitGroup
	all.Go(func() { done <- a.Do(during, b.cmd()) })
	time.AfterFunc(patience/10, cancel)
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Do: got %v, want context.Canceled", err)
		}
	case <-time.After(2 * patience):
		t.Errorf("Do ignores its context for %v", 2*patience)
	}
	cancel()
	all.Wait()
}

func fails(t *testing.T, ctx context.Context, a hw.Actuator, b ActuatorBench) {
	heal := b.Break(t, a)
	err := a.Do(ctx, b.cmd())
	if err == nil {
		t.Fatal("Do on a broken device: no error")
	}
	says(t, err)
	heal()
	ok(t, "Do once it is healed", a.Do(ctx, b.cmd()))
	ok(t, "Rest", a.Rest(ctx))
	b.atRest(t, a)
}

// SensorBench is a sensor under test.
type SensorBench struct {
	// New makes a driver with a device that gives at least one reading.
	New func(t *testing.T) hw.Sensor
	// Break makes the device fail until the returned function is called; nil
	// skips that test.
	Break func(t *testing.T, s hw.Sensor) (heal func())
	// Wait is how long a reading may take; 10 s.
	Wait time.Duration
}

// Sensor runs the suite.
func Sensor(t *testing.T, b SensorBench) {
	t.Helper()
	if b.Wait <= 0 {
		b.Wait = 10 * time.Second
	}
	run := func(name string, f func(t *testing.T, s hw.Sensor)) {
		t.Run(name, func(t *testing.T) {
			leak := watch(t)
			f(t, b.New(t))
			leak()
		})
	}
	run("name is one topic level", func(t *testing.T, s hw.Sensor) { name(t, s.Name()) })
	run("gives a reading and ends with its context", func(t *testing.T, s hw.Sensor) {
		for range 2 { // it can be read again afterwards
			first(t, b, s)
		}
	})
	run("an ended context ends it", func(t *testing.T, s hw.Sensor) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		done := make(chan error, 1)
		var all sync.WaitGroup
		all.Go(func() { done <- s.Sense(ctx, func(any) error { return nil }) })
		select {
		case <-done:
		case <-time.After(2 * patience):
			t.Errorf("Sense ignores its ended context for %v", 2*patience)
		}
	})
	run("an error of emit ends it", func(t *testing.T, s hw.Sensor) {
		ctx, cancel := context.WithTimeout(context.Background(), b.Wait)
		defer cancel()
		enough := errors.New("enough")
		if err := s.Sense(ctx, func(any) error { return enough }); !errors.Is(err, enough) {
			t.Errorf("Sense: got %v, want emit's error", err)
		}
	})
	if b.Break != nil {
		run("a failing device", func(t *testing.T, s hw.Sensor) {
			heal := b.Break(t, s)
			ctx, cancel := context.WithTimeout(context.Background(), b.Wait)
			defer cancel()
			err := s.Sense(ctx, func(any) error { return nil })
			if err == nil || ctx.Err() != nil {
				t.Fatalf("Sense on a broken device: got %v, want its error before %v", err, b.Wait)
			}
			says(t, err)
			heal()
			first(t, b, s)
		})
	}
}

// first takes one reading, then ends the sensor.
func first(t *testing.T, b SensorBench, s hw.Sensor) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), b.Wait)
	defer cancel()
	var got []any
	done := make(chan error, 1)
	var all sync.WaitGroup
	all.Go(func() {
		done <- s.Sense(ctx, func(r any) error {
			got = append(got, r)
			cancel()
			return nil
		})
	})
	<-ctx.Done()
	select {
	case err := <-done:
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("Sense: got %v, want nil or its context's error", err)
		}
	case <-time.After(2 * patience):
		t.Fatalf("Sense goes on %v after its context has ended", 2*patience)
	}
	if len(got) == 0 {
		t.Fatalf("no reading in %v", b.Wait)
	}
	if r, isReading := got[0].(hw.Reading); isReading && r.Value == nil {
		t.Errorf("a reading without a value: %+v", r)
	}
}

func name(t *testing.T, n string) {
	t.Helper()
	if n == "" || strings.ContainsAny(n, "/+#\x00 ") {
		t.Errorf("name %q can't be a topic level", n)
	}
}

func ok(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// says checks that an error says something.
func says(t *testing.T, err error) {
	t.Helper()
	if s := err.Error(); len(s) < 4 || strings.Contains(s, "%!") {
		t.Errorf("error %q says nothing", s)
	}
}

// watch returns a check that no goroutine was left behind.
func watch(t *testing.T) func() {
	t.Helper()
	before := runtime.NumGoroutine()
	return func() {
		t.Helper()
		for range 50 { // goroutines that were told to end take a moment
			if runtime.NumGoroutine() <= before {
				return
			}
			runtime.Gosched()
			time.Sleep(2 * time.Millisecond)
		}
		t.Errorf("goroutines: %d before, %d after", before, runtime.NumGoroutine())
	}
}
