package bus_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"edged/bus"
)

// What is no order stays none along every way that a cause goes: handlers, runs
// within them, taps, messages, staged events. What it did not bring about is
// news.
func TestOldTravels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{})
		defer b.Close(t.Context())
		got := map[string]string{}
		if _, err := b.Tap("#", func(e bus.Event) {
			if o := e.Old(); o != nil {
				got[e.Topic] = o.Topic
			} else {
				got[e.Topic] = "news"
			}
		}); err != nil {
			t.Fatal(err)
		}
		_, err1 := b.Handle("in/+", bus.Queue{}, func(ctx context.Context, e bus.Event) error {
			ctx = bus.WithRun(context.WithoutCancel(ctx), "patrol")
			e, err := b.Publish(ctx, "script:a", "handler/"+e.Topic, nil)
			return errors.Join(err, b.Send(bus.WithCause(t.Context(), e), bus.Message{From: "a", To: "b", Content: e.Topic}))
		})
		_, err2 := b.Inbox("b", bus.Queue{}, func(ctx context.Context, m bus.Message) error {
			_, err := b.Stage(ctx, "agent:b", "inbox/"+m.Content.(string), nil)
			b.Deliver()
			return err
		})
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}

		old := bus.Old{Reason: "it waited", Age: 3 * time.Hour, Remedy: "act_on_queued"}
		e, err := b.Publish(bus.WithOld(t.Context(), old), "mqtt", "in/queued", nil)
		if err != nil || !e.Queued {
			t.Errorf("%+v %v, want it marked", e, err)
		}
		if got, want := e.Old().String(), "in/queued is 3h0m0s old: it waited (act_on_queued)"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if _, err := b.Replay(t.Context(), "mqtt", "in/retained", "x"); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Publish(t.Context(), "mqtt", "in/news", nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for _, from := range []string{"in/queued", "in/retained", "in/news"} {
			want := from
			if from == "in/news" {
				want = "news"
			}
			for _, topic := range []string{from, "handler/" + from, "inbox/handler/" + from} {
				if got[topic] != want {
					t.Errorf("%s: got %q, want %q", topic, got[topic], want)
				}
			}
		}
		if e, _ := b.Publish(bus.WithOld(t.Context(), bus.Old{Topic: "in/before", Reason: "it waited"}), "script:a", "later", nil); e.Queued || e.Old() == nil {
			t.Errorf("%+v: what an old event brought about waited nowhere itself, and is no order all the same", e)
		}
		// An event given on as what a context knows of it, as the blackboard does.
		c := bus.CausedBy(t.Context(), b.Retained("in/retained")[0])
		if bus.OldOf(bus.WithCause(t.Context(), c.Event())) == nil {
			t.Error("a retained copy is no order, however its context is handed on")
		}
	})
}

// How old a kept copy is goes with it.
func TestAgeOfKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{})
		defer b.Close(t.Context())
		if _, err := b.Retain(t.Context(), "cli", "mode", "away"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(90 * time.Second)
		s, err := b.Subscribe("mode", bus.Queue{Replay: true})
		if err != nil {
			t.Fatal(err)
		}
		e := drainAll(t, s)[0]
		if o := e.Old(); o == nil || o.Age != 90*time.Second || !strings.Contains(o.String(), "mode is 1m30s old") {
			t.Errorf("got %v", o)
		}
	})
}
