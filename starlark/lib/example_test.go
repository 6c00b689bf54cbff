package lib_test

import (
	"context"
	"fmt"
	"testing/fstest"

	"edged/blackboard"
	"edged/bus"
	"edged/starlark/lib"
)

func ExampleLoad() {
	ctx := context.Background()
	b := bus.New(bus.Options{})
	board, err := blackboard.Open(b, blackboard.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	folder := fstest.MapFS{"main.star": {Data: []byte(`
def on_near(ev):
    bus.publish("guard/alarm", {"m": ev["m"]})

on("guard/lidar", on_near, where = lambda ev: ev["m"] < 0.3)
`)}}
	guard, err := lib.Load(ctx, &lib.Host{Name: "guard", Bus: b, Board: board}, folder, lib.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	alarms, err := b.Subscribe("guard/alarm", bus.Queue{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := guard.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range []float64{0.9, 0.2} {
		if _, err := b.Publish(ctx, "hw:lidar", "guard/lidar", map[string]any{"m": m}); err != nil {
			fmt.Println(err)
		}
	}
	e, err := alarms.Next(ctx)
	fmt.Println(string(e.Bytes()), "from", e.Source, err)
	fmt.Println(guard.Stop(ctx), board.Close(), b.Close(ctx))
	// Output:
	// {"m":0.2} from script:main.star <nil>
	// <nil> <nil> <nil>
}
