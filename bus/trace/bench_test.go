package trace

import (
	"testing"

	"edged/bus"
)

// BenchmarkFlood is one publisher as fast as it can, with and without a record
// of it on disk: what the ring of the last minutes costs an event.
func BenchmarkFlood(b *testing.B) {
	flood := func(b *testing.B, recorded bool) {
		bu := bus.New(bus.Options{})
		if _, err := bu.Tap("#", func(bus.Event) {}); err != nil {
			b.Fatal(err)
		}
		if recorded {
			r, err := Record(bu, Options{Dir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			defer r.Close()
		}
		payload := map[string]any{"value": 21.5, "unit": "°C"}
		b.ReportAllocs()
		for b.Loop() {
			if _, err := bu.Publish(b.Context(), "hw:temp", "hw/temp", payload); err != nil {
				b.Fatal(err)
			}
		}
		bu.Close(b.Context())
	}
	b.Run("bare", func(b *testing.B) { flood(b, false) })
	b.Run("recorded", func(b *testing.B) { flood(b, true) })
}
