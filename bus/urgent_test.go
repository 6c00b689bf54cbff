package bus_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"edged/bus"
)

// TestTaken: what an urgent listener takes is seen by taps, and by nobody else,
// now or later, whether the bus is free or somebody hangs.
func TestTaken(t *testing.T) {
	for _, busy := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := bus.New(bus.Options{Pending: 4})
			release := make(chan bool)
			b.Tap("slow", func(bus.Event) { <-release })
			var acted, seen []string
			if _, err := b.Urgent("voice", func(e bus.Event) bool { return e.Payload() == "stop" }, func(e bus.Event) {
				acted = append(acted, fmt.Sprint(e.Payload(), e.Seq > 0, e.Taken))
			}); err != nil {
				t.Fatal(err)
			}
			b.Tap("voice", func(e bus.Event) { seen = append(seen, fmt.Sprint(e.Payload(), e.Taken, e.Keep)) })
			exact, _ := b.Subscribe("voice", bus.Queue{})
			every, _ := b.Subscribe("#", bus.Queue{Where: func(e bus.Event) bool { return e.Topic == "voice" }})
			record, _ := b.Subscribe("voice", bus.Queue{Taken: true})
			if busy {
				go b.Publish(t.Context(), "test", "slow", nil)
				synctest.Wait()
			}
			for _, text := range []string{"go", "stop"} {
				if _, err := b.Retain(t.Context(), "test", "voice", text); err != nil {
					t.Fatal(err)
				}
			}
			if fmt.Sprint(acted) != "[stoptrue true]" {
				t.Errorf("busy %v: the listener was called for %v, want stop alone, numbered and marked", busy, acted)
			}
			close(release)
			synctest.Wait()
			if want := "[gofalse true stoptrue false]"; fmt.Sprint(seen) != want {
				t.Errorf("busy %v: the tap saw %v, want %s", busy, seen, want)
			}
			if record.Len() != 2 {
				t.Errorf("busy %v: who asked for taken events got %d, want both", busy, record.Len())
			}
			if exact.Len() != 1 || every.Len() != 1 {
				t.Errorf("busy %v: subscriptions got %d and %d events, want one: what was not taken", busy, exact.Len(), every.Len())
			}
			if kept := b.Retained("voice"); len(kept) != 1 || kept[0].Payload() != "go" {
				t.Errorf("busy %v: kept %v, want what was not taken", busy, kept)
			}
			b.Close(t.Context())
		})
	}
}

// TestUrgentPanics: a listener that panics is told of, and the event goes on.
func TestUrgentPanics(t *testing.T) {
	b := bus.New(bus.Options{})
	if _, err := b.Urgent("voice", func(bus.Event) bool { panic("words") }, func(bus.Event) { t.Error("called") }); err != nil {
		t.Fatal(err)
	}
	all, _ := b.Subscribe("voice", bus.Queue{})
	errs, _ := b.Subscribe(bus.ErrorTopic, bus.Queue{})
	b.Publish(t.Context(), "test", "voice", "stop")
	if all.Len() != 1 || errs.Len() != 1 {
		t.Errorf("%d delivered, %d errors; want 1 and 1", all.Len(), errs.Len())
	}
	b.Close(t.Context())
}

// TestUrgent: the stop is heard at once, whoever hangs and however much waits.
func TestUrgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{Pending: 4})
		release := make(chan bool)
		b.Tap("slow", func(bus.Event) { <-release })
		var heard []bus.Event
		end, err := b.Urgent("stop", nil, func(e bus.Event) { heard = append(heard, e) })
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Urgent("stop", nil, nil); err == nil {
			t.Error("a second function of the topic is let through")
		}
		words := 0
		endWords, err := b.Urgent("voice", nil, func(bus.Event) { words++ })
		if err != nil {
			t.Fatal(err)
		}
		all, _ := b.Subscribe("stop", bus.Queue{})
		go b.Publish(t.Context(), "test", "slow", nil)
		synctest.Wait()
		for range 6 {
			b.Publish(t.Context(), "test", "noise", nil)
		}
		e, err := b.Publish(t.Context(), "test", "stop", "now")
		if err != nil || len(heard) != 1 || heard[0].Seq != e.Seq || heard[0].Payload() != "now" {
			t.Errorf("heard %v (%v), want the stop, while everything hangs", heard, err)
		}
		if b.Publish(t.Context(), "test", "voice", "stop"); words != 1 {
			t.Errorf("the other urgent topic was heard %d times while everything hangs, want once", words)
		}
		close(release)
		synctest.Wait()
		b.Publish(t.Context(), "test", "stop", "again")
		if all.Len() != 2 || len(heard) != 2 {
			t.Errorf("%d delivered, %d heard; want 2 and 2", all.Len(), len(heard))
		}
		end()
		endWords()
		b.Publish(t.Context(), "test", "stop", "late")
		if all.Len() != 3 || len(heard) != 2 || words != 1 {
			t.Errorf("%d delivered, %d heard; want 3 and 2, for it has ended", all.Len(), len(heard))
		}
		b.Close(t.Context())
	})
}
