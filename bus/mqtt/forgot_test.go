package mqtt_test

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"edged/bus/mqtt"
	"edged/tests/peer"
)

// A broker that has lost its memory gets again what it is to keep: our state,
// what the bus keeps, and the last of what a route has it keep.
func TestForgetfulBroker(t *testing.T) {
	t.Parallel()
	m := peer.NewMosquitto(t, "listener %PORT% 127.0.0.1\nallow_anonymous true\npersistence false\n")
	m.Start()
	r := newRobot(t, mqtt.Options{URL: m.URL(), ClientID: "keeper", Mapping: mqtt.Mapping{
		Subscribe: []mqtt.Route{{Filter: "in/#", QoS: 1}},
		Publish:   []mqtt.Route{{Filter: "one/#", QoS: 1}, {Filter: "zero/#"}, {Filter: "route/#", QoS: 2, Retain: true}},
	}}).connected(t)
	for _, topic := range []string{"one/a", "zero/a"} {
		if _, err := r.Retain(context.Background(), "test", topic, "kept"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Retain(context.Background(), "mqtt", "one/theirs", "x"); err != nil { // it came in
		t.Fatal(err)
	}
	r.say(t, "one/b", "not kept")
	r.say(t, "route/a", "old")
	r.say(t, "route/a", "new")
	want := []string{"edged/keeper/status online", "one/a kept", "route/a new", "zero/a kept"}
	check := func(when string) {
		t.Helper()
		peer.Eventually(t, 20*time.Second, when, func() bool {
			c := collect(t, m.URL(), "#", 1)
			defer c.c.Disconnect(0)
			peer.Eventually(t, 5*time.Second, "retained ones come", func() bool { return c.len() >= len(want) })
			var got []string
			for _, g := range c.all() {
				if g.retained {
					got = append(got, g.topic+" "+g.payload)
				}
			}
			for _, w := range want {
				if !strings.Contains(fmt.Sprint(got), w) {
					return false
				}
			}
			return len(got) == len(want)
		})
	}
	check("before")
	m.Stop(syscall.SIGKILL)
	peer.Eventually(t, 10*time.Second, "down", func() bool { return !r.br.Connected() })
	r.say(t, "route/a", "newest")
	want[2] = "route/a newest"
	m.Start()
	r.connected(t)
	check("after it has forgotten")
}
