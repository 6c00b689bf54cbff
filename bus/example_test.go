package bus_test

import (
	"context"
	"fmt"
	"time"

	"edged/bus"
)

func Example() {
	b := bus.New(bus.Options{})
	b.Handle("sensor/+", bus.Queue{Where: func(e bus.Event) bool { return e.Payload().(float64) < 0.3 }},
		func(ctx context.Context, e bus.Event) error {
			_, err := b.Publish(ctx, "guard", "alarm", e.Topic)
			return err
		})
	alarms, _ := b.Subscribe("alarm", bus.Queue{})
	b.Publish(context.Background(), "hw:lidar", "sensor/lidar", 0.9)
	b.Publish(context.Background(), "hw:lidar", "sensor/lidar", 0.2)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	e, _ := alarms.Next(ctx)
	fmt.Println(e.Seq, e.Topic, e.Payload(), "because of", e.Cause)
	// Output: 3 alarm sensor/lidar because of 2
}
