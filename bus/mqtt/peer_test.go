package mqtt_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"edged/bus"
	"edged/bus/mqtt"
	"edged/tests/peer"
)

func TestMain(m *testing.M) {
	if os.Getenv("EDGED_MQTT_CHILD") != "" {
		child()
		return
	}
	goleak.VerifyTestMain(m)
}

func startMosquitto(t testing.TB, extra string) *peer.Mosquitto {
	t.Helper()
	m := peer.NewMosquitto(t, extra)
	m.Start()
	return m
}

// sub reads n messages with mosquitto's own client, as lines "topic payload
// retained qos".
func sub(t testing.TB, port string, n int, args ...string) func() []string {
	t.Helper()
	out := &peer.Output{}
	wait := peer.Sub(t, out, port, append([]string{"-C", fmt.Sprint(n), "-W", "15", "-F", "%t %p %r %q"}, args...)...)
	return func() []string {
		t.Helper()
		wait()
		var lines []string
		for _, l := range strings.Split(out.String(), "\n") {
			if l != "" && !strings.HasPrefix(l, "Client ") && !strings.HasPrefix(l, "Subscribed") {
				lines = append(lines, l)
			}
		}
		return lines
	}
}

// robot is a bus with a bridge that is being served.
type robot struct {
	*bus.Bus
	br   *mqtt.Bridge
	stop func()
}

func newRobot(t testing.TB, o mqtt.Options) *robot {
	t.Helper()
	b := bus.New(bus.Options{})
	br, err := mqtt.New(b, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- br.Serve(ctx) }()
	var once sync.Once
	r := &robot{Bus: b, br: br}
	r.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("Serve: got %v, want nil", err)
			}
			br.Close()
			_ = b.Close(context.Background())
		})
	}
	t.Cleanup(r.stop)
	return r
}

func (r *robot) connected(t testing.TB) *robot {
	t.Helper()
	peer.Eventually(t, 20*time.Second, "connected: "+r.br.Stats().Reason, r.br.Connected)
	return r
}

// heard collects the events of a filter.
type heard struct {
	mu   sync.Mutex
	list []bus.Event
}

func (r *robot) hear(t testing.TB, filter string) *heard {
	t.Helper()
	h := &heard{}
	if _, err := r.Tap(filter, func(e bus.Event) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.list = append(h.list, e)
	}); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *heard) events() []bus.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]bus.Event(nil), h.list...)
}

func (h *heard) wait(t testing.TB, n int) []bus.Event {
	t.Helper()
	peer.Eventually(t, 10*time.Second, fmt.Sprintf("%d events", n), func() bool { return len(h.events()) >= n })
	return h.events()
}

func (r *robot) say(t testing.TB, topic string, v any) {
	t.Helper()
	if _, err := r.Publish(context.Background(), "test", topic, v); err != nil {
		t.Fatal(err)
	}
}
