package background_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"edged/background"
	"edged/bus"
	"edged/bus/timer"
)

// TestDebounceAtExactlyTheInterval: an interval is over when it is as long as it
// is, to the nanosecond, for one window and for one of each key.
func TestDebounceAtExactlyTheInterval(t *testing.T) {
	const interval = time.Second
	for _, c := range []struct {
		name  string
		edge  background.Edge
		after []time.Duration // of each event, since the one before
		want  string
	}{
		{"leading, too early", background.Leading, []time.Duration{0, interval - 1}, "[0]"},
		{"leading, in time", background.Leading, []time.Duration{0, interval}, "[0 1]"},
		{"leading, what it ignores does not count", background.Leading, []time.Duration{0, interval - 1, 1, interval - 1, 1}, "[0 2 4]"},
		{"both, in time", background.Both, []time.Duration{0, interval, interval}, "[0 1 2]"},
		{"both, too early waits", background.Both, []time.Duration{0, interval - 1}, "[0 1]"},
		{"trailing, quiet for the interval", background.Trailing, []time.Duration{0, interval, interval}, "[0 1 2]"},
		{"trailing, not quiet", background.Trailing, []time.Duration{0, interval - 1, interval - 1}, "[2]"},
	} {
		for _, keyed := range []bool{false, true} {
			t.Run(fmt.Sprint(c.name, " keyed=", keyed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					o := background.DebounceOptions{Edge: c.edge}
					if keyed {
						o.Key = func(e bus.Event) (string, error) { return e.Topic, nil }
					}
					trigger, err := background.Debounce(background.Always(), interval, o)
					if err != nil {
						t.Fatal(err)
					}
					b := bus.New(bus.Options{})
					defer b.Close(t.Context())
					w := timer.New()
					defer w.Close()
					got := map[string][]any{}
					var mu sync.Mutex // guards got: the publisher and the timer emit
					hear, stop := trigger.Open(background.Outlet{Timers: w, Emit: func(e bus.Event, task any) {
						mu.Lock()
						defer mu.Unlock()
						got[e.Topic] = append(got[e.Topic], task)
					}})
					defer stop()
					topics := []string{"a"}
					if keyed {
						topics = []string{"a", "b"}
					}
					for n, wait := range c.after {
						time.Sleep(wait)
						for _, topic := range topics {
							e, err := b.Publish(t.Context(), "test", topic, n)
							if err != nil {
								t.Fatal(err)
							}
							hear(context.Background(), e)
						}
					}
					time.Sleep(time.Minute)
					synctest.Wait()
					mu.Lock()
					defer mu.Unlock()
					for _, topic := range topics {
						if fmt.Sprint(got[topic]) != c.want {
							t.Errorf("%s: got %v, want %s", topic, got[topic], c.want)
						}
					}
				})
			})
		}
	}
}
