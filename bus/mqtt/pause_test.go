package mqtt

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"edged/bus"
)

func TestBackoff(t *testing.T) {
	b := backoff{min: 500 * time.Millisecond, max: time.Minute}
	base := b.min
	for i := range 20 {
		d := b.pause(0)
		if d < base/2 || d > min(base*3/2, b.max) {
			t.Errorf("pause %d: got %v, want %v ± half", i, d, base)
		}
		base = min(2*base, b.max)
	}
	if d := b.pause(29 * time.Second); d < 30*time.Second {
		t.Errorf("after 29 s of connection: got %v, want the long pause", d)
	}
	if d := b.pause(30 * time.Second); d > 750*time.Millisecond {
		t.Errorf("after 30 s of connection: got %v, want the short pause", d)
	}
}

func TestRivalRule(t *testing.T) {
	type end struct {
		peer, present bool
		lasted        time.Duration
		want          bool
	}
	for name, list := range map[string][]end{
		"taken three times":  {{true, false, 1, false}, {true, true, 1, false}, {true, true, 1, true}, {true, true, 1, true}},
		"broker restarts":    {{true, true, 1, false}, {true, false, 1, false}, {true, false, 1, false}, {true, false, 1, false}},
		"refused in between": {{true, true, 1, false}, {false, false, 1, false}, {true, true, 1, false}, {true, true, 1, false}},
		"long ones":          {{true, true, 1, false}, {true, true, 1, false}, {true, true, time.Hour, false}},
	} {
		var r rival
		for i, e := range list {
			if got := r.ended(e.peer, e.present, e.lasted); got != e.want {
				t.Errorf("%s: end %d: got %v, want %v", name, i, got, e.want)
			}
		}
	}
}

func TestEcho(t *testing.T) {
	e, now := newEcho(), time.Unix(1, 0)
	p := []byte("x")
	e.expect("a", p, 0, now)
	e.expect("a", p, 0, now)
	e.expect("b", p, 1, now)
	for i, want := range []bool{true, true, false} {
		if got := e.heard("a", p, now); got != want {
			t.Errorf("copy %d: got %v, want %v", i, got, want)
		}
	}
	if e.heard("b", []byte("y"), now) || e.heard("b", p, now.Add(2*time.Minute)) {
		t.Error("another payload, or too late: taken for an echo")
	}
	for i := range 2 * echoes {
		e.expect("n", []byte{byte(i), byte(i >> 8)}, byte(i&1), now)
	}
	if e.order.Len() != echoes || len(e.byKey) != echoes {
		t.Errorf("got %d, want %d", e.order.Len(), echoes)
	}
	e.reconnected(false, now.Add(time.Hour))
	if e.order.Len() != echoes/2 || !e.heard("n", []byte{byte((2*echoes - 1) & 255), byte((2*echoes - 1) >> 8)}, now.Add(time.Hour)) {
		t.Errorf("after a reconnect: got %d, want the QoS 1 half, fresh", e.order.Len())
	}
	e.reconnected(true, now)
	if e.order.Len() != 0 {
		t.Error("the broker forgot us, and we expect echoes")
	}
}

// Reports come once per topic and minute.
func TestReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{})
		l, err := newLink(b, "", All())
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		if _, err := b.Tap("edged/error", func(bus.Event) { n++ }); err != nil {
			t.Fatal(err)
		}
		for i := range 121 {
			if err := l.receive("a\xff/b", []byte("1"), arrival{}); err != nil {
				t.Fatal(err)
			}
			if err := l.receive("c", []byte("{"), arrival{}); err != nil {
				t.Fatal(err)
			}
			if want := 2 * (1 + i/60); n != want {
				t.Fatalf("after %d s: got %d reports, want %d", i, n, want)
			}
			time.Sleep(time.Second)
		}
		if got := l.malformed.Load(); got != 242 {
			t.Errorf("got %d counted, want 242", got)
		}
		_ = b.Close(context.Background())
	})
}
