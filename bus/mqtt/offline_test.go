package mqtt_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"edged/bus"
	"edged/bus/mqtt"
	"edged/tests/peer"
)

// QoS 0 while there is no connection: dropped and counted, but for the state
// that the bus keeps.
func TestOfflineQoS0(t *testing.T) {
	t.Parallel()
	m := peer.NewMosquitto(t, "")
	r := newRobot(t, mqtt.Options{URL: m.URL(), ClientID: "off", Mapping: mqtt.Mapping{Publish: []mqtt.Route{{Filter: "s/#"}, {Filter: "q/#", QoS: 1, Retain: true}}}})
	for i := range 3 {
		r.say(t, "s/reading", i)
		if _, err := r.Retain(t.Context(), "test", "s/state", fmt.Sprint("state ", i)); err != nil {
			t.Fatal(err)
		}
	}
	r.say(t, "q/x", 1)
	peer.Eventually(t, 5*time.Second, "counted", func() bool { st := r.br.Stats(); return st.DropOffline == 6 && st.Waiting == 1 })
	peer.Eventually(t, 5*time.Second, "said why", func() bool {
		st := r.br.Stats()
		return !st.Connected && strings.Contains(st.Reason, "no broker is listening")
	})
	m.Start()
	c := collect(t, m.URL(), "#", 1)
	peer.Eventually(t, 20*time.Second, "state and message", func() bool {
		s := fmt.Sprint(c.all())
		return strings.Contains(s, "{s/state state 2") && strings.Contains(s, "{q/x 1")
	})
	if s := fmt.Sprint(c.all()); strings.Contains(s, "s/reading") || strings.Contains(s, "state 1") {
		t.Errorf("got %s", s)
	}
}

// A bus that is overloaded refuses a message: it is not acknowledged and comes
// again, in order.
func TestOverload(t *testing.T) {
	t.Parallel()
	m := startMosquitto(t, "")
	b := bus.New(bus.Options{Pending: 4})
	br, err := mqtt.New(b, mqtt.Options{URL: m.URL(), ClientID: "over", Backoff: 20 * time.Millisecond, MaxBackoff: 200 * time.Millisecond,
		Mapping: mqtt.Mapping{Subscribe: []mqtt.Route{{Filter: "n/#", QoS: 1}}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- br.Serve(ctx) }()
	r := &robot{Bus: b, br: br}
	in := r.hear(t, "n/#")
	r.connected(t)
	held, free := make(chan bool), make(chan bool)
	if _, err := b.Tap("hold", func(bus.Event) { close(held); <-free }); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = b.Publish(ctx, "test", "hold", 1) }()
	<-held
	c := collect(t, m.URL(), "none", 0)
	for i := range 30 {
		c.c.Publish("n/x", 1, false, fmt.Sprint(i)).Wait()
	}
	peer.Eventually(t, 10*time.Second, "refused", func() bool { return br.Stats().Refused > 0 })
	close(free)
	peer.Eventually(t, 20*time.Second, "all came", func() bool {
		seen := map[any]bool{}
		for _, e := range in.events() {
			seen[e.Payload()] = true
		}
		return len(seen) == 30
	})
	last := int64(-1)
	for _, e := range in.events() {
		if i := e.Payload().(int64); i > last+1 {
			t.Errorf("%d came after %d", i, last)
		} else {
			last = max(last, i)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	br.Close()
	_ = b.Close(context.Background())
}
