package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// A Fault is what is wrong with a device. The zero value is nothing.
type Fault struct {
	Drop  float64       // share of readings that are lost, 0..1
	Noise float64       // standard deviation that is added to numbers
	Stuck bool          // the same reading for ever
	Value any           // with Stuck: which; nil is the next one
	Late  time.Duration // readings and commands take so much longer
	Fail  string        // the device fails with this text
	Hang  bool          // an actuator ignores its context until the fault is cleared
}

// fault is a Fault at work.
type fault struct {
	Fault
	held  any
	freed chan struct{} // closed when the fault is cleared
}

// bend gives what the faulty sensor says instead, nil for nothing.
func (f *fault) bend(v any, rnd *rand.Rand) any {
	if f.Drop > 0 && rnd.Float64() < f.Drop {
		return nil
	}
	if f.Stuck {
		if f.held == nil {
			if f.held = f.Value; f.held == nil {
				f.held = v
			}
		}
		return f.held
	}
	if f.Noise > 0 {
		return blur(v, f.Noise, rnd)
	}
	return v
}

// Inject makes a device faulty from now on; the zero Fault heals it.
func (w *World) Inject(device string, f Fault) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.sensors[device]
	if p == nil && !slices.Contains(w.actuatorNames(), device) {
		return fmt.Errorf("sim: no device %q; there are %v and %v", device, w.actuatorNames(), w.sensorNames())
	}
	if old := w.faults[device]; old != nil {
		close(old.freed)
	}
	if f.Value == nil && f == (Fault{}) {
		delete(w.faults, device)
	} else {
		w.faults[device] = &fault{Fault: f, freed: make(chan struct{})}
	}
	if p != nil {
		p.poke()
	}
	return nil
}

func (w *World) actuatorNames() []string {
	names := []string{"base"}
	for _, r := range w.rooms {
		names = append(names, "lamp_"+r.Name)
	}
	return names
}

// trouble is what a faulty actuator does before it does its work.
func (w *World) trouble(ctx context.Context, device string) error {
	w.mu.Lock()
	f := w.faults[device]
	w.mu.Unlock()
	return f.hinder(ctx)
}

func (f *fault) hinder(ctx context.Context) error {
	switch {
	case f == nil:
		return ctx.Err()
	case f.Hang:
		<-f.freed
		return ctx.Err()
	case f.Fail != "":
		return errors.New(f.Fail)
	}
	return sleep(ctx, f.Late)
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
