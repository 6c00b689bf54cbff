package background_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"edged/agent"
	"edged/background"
	"edged/bus"
)

func ExampleSupervisor() {
	tries := 0
	done := make(chan bool)
	lidar := background.Func(func(ctx context.Context) error {
		if tries++; tries < 3 {
			return errors.New("no answer")
		}
		close(done)
		<-ctx.Done()
		return nil
	})
	tree := background.NewSupervisor("robot", background.Options{},
		background.Child{Name: "lidar", Service: lidar, Restart: background.Permanent})
	ctx := context.Background()
	if err := tree.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	<-done
	st := tree.Status().Children[0]
	fmt.Println(st.Name, st.Restarts, st.LastError)
	fmt.Println(tree.Stop(ctx))
	// Output:
	// lidar 2 no answer
	// <nil>
}

func ExampleAgent() {
	b := bus.New(bus.Options{})
	done := make(chan bool)
	guard, err := background.NewAgent(background.AgentOptions{
		Bus:         b,
		SubscribeTo: []string{"sensor/+/temp"},
		Trigger: background.When(func(_ context.Context, e bus.Event) (any, bool, error) {
			t, ok := e.Payload().(int64)
			return fmt.Sprintf("%d degrees at %s", t, e.Topic), ok && t > 80, nil
		}),
		Agent: agent.Func("guard", func(_ context.Context, t agent.Task) (agent.Result, error) {
			fmt.Println(t.Text())
			close(done)
			return agent.Result{}, nil
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	_ = guard.Start(ctx)
	_, _ = b.Publish(ctx, "test", "sensor/hall/temp", 20)
	_, _ = b.Publish(ctx, "test", "sensor/stove/temp", 90)
	<-done
	fmt.Println(guard.Stop(ctx))
	// Output:
	// 90 degrees at sensor/stove/temp
	// <nil>
}

func ExampleDebounce() {
	hot := background.When(func(_ context.Context, e bus.Event) (any, bool, error) {
		t, ok := e.Payload().(int64)
		return t, ok && t > 80, nil
	})
	t, err := background.Debounce(hot, time.Minute, background.DebounceOptions{Key: background.ByTopic})
	if err != nil {
		fmt.Println(err)
		return
	}
	b := bus.New(bus.Options{})
	hear, stop := t.Open(background.Outlet{
		Timers: b.Timers(),
		Emit:   func(e bus.Event, task any) { fmt.Println(e.Topic, task) },
	})
	defer stop()
	ctx := context.Background()
	_, _ = b.Tap("#", func(e bus.Event) { hear(ctx, e) })
	for _, t := range []int{20, 85, 90} {
		_, _ = b.Publish(ctx, "test", "stove", t)
	}
	_, _ = b.Publish(ctx, "test", "oven", 95)
	// Output:
	// stove 85
	// oven 95
}
