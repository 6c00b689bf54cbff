package bus_test

import (
	"context"
	"testing"
	"testing/synctest"

	"edged/bus"
	"edged/bus/origin"
)

// What a handler publishes is of the origin of its event and of all it read
// until then, however long the chain.
func TestOriginTravels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{})
		defer b.Close(t.Context())
		got := map[string]origin.Label{}
		for _, hop := range []struct{ from, to string }{{"a", "b"}, {"b", "c"}} {
			if _, err := b.Handle(hop.from, bus.Queue{}, func(ctx context.Context, e bus.Event) error {
				if hop.from == "b" {
					_, _ = b.Publish(ctx, "script:main.star", "before", nil)
					origin.Raise(ctx, "mcp:files")
				}
				_, err := b.Retain(bus.WithRun(ctx, "run"), "script:main.star", hop.to, 1)
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := b.Tap("*", func(e bus.Event) { got[e.Topic] = e.Origin() }); err != nil {
			t.Fatal(err)
		}
		for _, source := range []string{"mqtt", "hw:imu", "mqtt"} {
			if _, err := b.Publish(t.Context(), source, "a", 1); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			want := origin.Of(source)
			if got["a"] != want || got["b"] != want || got["before"] != want || got["c"] != want.Join("mcp:files") {
				t.Errorf("from %s: got %v", source, got)
			}
			if kept := b.Retained("c")[0].Origin(); kept != want.Join("mcp:files") {
				t.Errorf("kept as %q", kept)
			}
		}
		if _, err := b.Publish(t.Context(), "", "a", 1); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got["c"] != "mcp:files,unknown" {
			t.Errorf("without a source: got %q", got["c"])
		}
	})
}
