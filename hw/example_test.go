package hw_test

import (
	"context"
	"fmt"
	"time"

	"edged/bus"
	"edged/hw"
	"edged/hw/sim"
)

// A motor behind the gate: limits, a lifetime, the stop.
func ExampleRig() {
	ctx := context.Background()
	b := bus.New(bus.Options{})
	rig, err := hw.NewRig(b, hw.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	motor := sim.NewActuator("motor", hw.Limits{Fields: map[string]hw.Range{"duty": {Min: -1, Max: 1}}})
	if err := rig.AddActuator(motor, hw.Limits{Fields: map[string]hw.Range{"duty": {Min: -0.5, Max: 0.5}}}); err != nil {
		fmt.Println(err)
	}
	fmt.Println(rig.Do(ctx, "script:main.star", "motor", map[string]any{"duty": 0.3}))
	fmt.Println(rig.Do(ctx, "script:main.star", "motor", map[string]any{"duty": 3}))
	fmt.Println(rig.Stop(ctx, "cli", "operator"), motor.State() == nil)
	fmt.Println(rig.Do(ctx, "script:main.star", "motor", map[string]any{"duty": 0.3}))
	rig.Close()
	_ = b.Close(ctx)
	// Output:
	// <nil>
	// hw: motor: outside the limits: duty = 3 is not in -0.5..0.5
	// <nil> true
	// hw: motor: the robot is stopped: operator
}

// A long action has a handle: what it does now, how it ends.
func ExampleRig_Start() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b := bus.New(bus.Options{})
	rig, err := hw.NewRig(b, hw.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	world := sim.New(sim.Options{})
	if err := world.AddTo(rig); err != nil {
		fmt.Println(err)
	}
	go world.Serve(ctx)
	g, err := rig.Start(ctx, "script:main.star", "base", "drive_to", map[string]any{"room": "kitchen"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(g.State())
	time.AfterFunc(50*time.Millisecond, func() { g.Cancel("changed my mind") })
	_, err = g.Result(ctx)
	fmt.Println(err)
	// Output:
	// running
	// hw: goal cancelled: base.drive_to: changed my mind
}
