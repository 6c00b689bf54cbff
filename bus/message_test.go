package bus_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"edged/bus"
)

func TestMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{})
		defer b.Close(t.Context())
		var got []string
		for _, name := range []string{"scout", "cook"} {
			b.Inbox(name, bus.Queue{}, func(_ context.Context, m bus.Message) error {
				got = append(got, fmt.Sprintf("%s<%s:%v", name, m.From, m.Content))
				return nil
			})
		}
		for _, m := range []bus.Message{
			{From: "cook", To: "scout", Content: "look"},
			{From: "cook", To: bus.Everyone, Content: map[string]any{"dinner": true}},
		} {
			if err := b.Send(t.Context(), m); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		want := []string{"scout<cook:look", "scout<cook:map[dinner:true]"}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if err := b.Send(t.Context(), bus.Message{From: "cook", To: "nobody"}); !errors.Is(err, bus.ErrUndeliverable) {
			t.Errorf("to nobody: %v, want ErrUndeliverable", err)
		}
		if err := b.Send(t.Context(), bus.Message{To: "scout", Kind: "shout"}); err == nil {
			t.Error("an unknown kind is let through")
		}
	})
}

func TestAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{})
		defer b.Close(t.Context())
		b.Inbox("cook", bus.Queue{}, func(ctx context.Context, m bus.Message) error {
			switch m.Content {
			case "silence":
				return nil
			case "no":
				return b.Send(ctx, bus.Message{From: "cook", To: m.From, Kind: "refuse", CorrelationID: m.CorrelationID, Content: "busy"})
			case "remote": // as it comes over MQTT: a plain JSON payload
				_, err := b.Publish(ctx, "mqtt", "message/"+m.From, map[string]any{"from": "cook", "correlation_id": m.CorrelationID, "content": 7})
				return err
			}
			time.Sleep(time.Second)
			return b.Send(ctx, bus.Message{From: "cook", To: m.From, CorrelationID: m.CorrelationID, Content: "soup"})
		})
		ask := func(content string) (any, error, time.Duration) {
			start := time.Now()
			f, err := b.Ask(t.Context(), bus.Message{From: "scout", To: "cook", Content: content}, 5*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			v, err := f.Result(t.Context())
			return v, err, time.Since(start)
		}
		if v, err, d := ask("dinner?"); v != "soup" || err != nil || d != time.Second {
			t.Errorf("got %v %v after %v, want soup after 1s", v, err, d)
		}
		if v, err, _ := ask("remote"); v != int64(7) || err != nil {
			t.Errorf("got %v %v, want 7", v, err)
		}
		if _, err, _ := ask("no"); err == nil {
			t.Error("a refusal gave no error")
		}
		if _, err, d := ask("silence"); !errors.Is(err, bus.ErrNoAnswer) || d < 5*time.Second || d > 5*time.Second+10*time.Millisecond {
			t.Errorf("got %v after %v, want ErrNoAnswer after 5s", err, d)
		}
		if n := b.Timers().Len(); n != 0 {
			t.Errorf("%d timers left", n)
		}
	})
}

func TestPayloads(t *testing.T) {
	b := bus.New(bus.Options{})
	s, _ := b.Subscribe("p", bus.Queue{})
	list := []any{int64(1), "x"}
	for _, c := range []struct {
		in   any
		want string
	}{
		{nil, "<nil>"}, {3, "3"}, {float32(0.5), "0.5"}, {"t", "t"}, {list, "[1 x]"},
		{map[string]any{"a": []any{1}}, "map[a:[1]]"}, {bus.RawJSON(`{"t": 31.5, "n": 7}`), "map[n:7 t:31.5]"},
		{bus.RawJSON(`{oops`), "{oops"}, {struct{ A int }{4}, "map[A:4]"}, {[]byte("hi"), "[104 105]"},
	} {
		if _, err := b.Publish(t.Context(), "test", "p", c.in); err != nil {
			t.Errorf("%v: %v", c.in, err)
			continue
		}
		e := next(t, s)
		if got := fmt.Sprint(e.Payload()); got != c.want {
			t.Errorf("%#v became %s, want %s", c.in, got, c.want)
		}
	}
	b.Publish(t.Context(), "test", "p", list)
	list[0] = "changed"
	if e := next(t, s); fmt.Sprint(e.Payload()) != "[1 x]" {
		t.Error("a publisher changed its event afterwards")
	}
	cyc := map[string]any{}
	cyc["me"] = cyc
	for _, bad := range []any{func() {}, make(chan int), cyc, []any{func() {}}} {
		if _, err := b.Publish(t.Context(), "test", "p", bad); !errors.Is(err, bus.ErrPayload) {
			t.Errorf("%T: %v, want ErrPayload", bad, err)
		}
	}
}

func TestViewIsMadeOnce(t *testing.T) {
	b := bus.New(bus.Options{})
	n := 0
	for range 3 {
		b.Tap("p", func(e bus.Event) { e.View(func(bus.Event) any { n++; return n }) })
	}
	b.Publish(t.Context(), "test", "p", map[string]any{"t": 1})
	if n != 1 {
		t.Errorf("made %d times, want 1", n)
	}
}
