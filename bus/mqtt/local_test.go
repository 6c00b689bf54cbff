package mqtt_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"edged/bus"
	"edged/bus/mqtt"
	"edged/bus/mqtt/broker"
	"edged/tests/peer"
)

// inside is a robot with a broker of its own.
type inside struct {
	*bus.Bus
	port  string
	local *mqtt.Local
}

func newInside(t testing.TB, b *bus.Bus, o mqtt.LocalOptions) *inside {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	br, err := broker.Listen(ctx, broker.Options{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	if o.Node == "" {
		o.Node = "r1"
	}
	l, err := mqtt.NewLocal(b, br, o)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 2)
	go func() { done <- br.Serve(ctx) }()
	go func() { done <- l.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-done; err != nil {
				t.Errorf("Serve: got %v, want nil", err)
			}
		}
		l.Close()
		_ = b.Close(context.Background())
	})
	_, port, _ := net.SplitHostPort(br.Addr())
	return &inside{b, port, l}
}

func TestLocal(t *testing.T) {
	t.Parallel()
	b := bus.New(bus.Options{})
	if _, err := b.Retain(t.Context(), "hw:dock", "dock/state", "charging"); err != nil {
		t.Fatal(err)
	}
	if err := b.Restore("lamp/cmd", "mqtt", "", "on", time.Now()); err != nil { // a client's, of an earlier process
		t.Fatal(err)
	}
	in := newInside(t, b, mqtt.LocalOptions{Mapping: mqtt.All()})
	r := &robot{Bus: b}
	heard := r.hear(t, "home/#")
	forged := r.hear(t, "board/#")
	if _, err := b.Handle("home/goto", bus.Queue{}, func(ctx context.Context, e bus.Event) error {
		_, err := b.Publish(ctx, "script:x", "motor/cmd", map[string]any{"on": true})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	c := collect(t, "tcp://127.0.0.1:"+in.port, "#", 1)
	peer.Eventually(t, 5*time.Second, "retained", func() bool { return strings.Contains(fmt.Sprint(c.all()), "dock/state charging true") })
	peer.Pub(t, in.port, "-t", "board/motor", "-m", "1") // the runtime's own: not for clients
	peer.Pub(t, in.port, "-t", "home/goto", "-m", `{"room":"kitchen"}`, "-q", "1", "-r")
	e := heard.wait(t, 1)[0]
	if e.Source != "mqtt" || e.Retained || !e.Keep {
		t.Errorf("got source %q, retained %v, keep %v, want mqtt, false, true", e.Source, e.Retained, e.Keep)
	}
	if len(forged.events()) != 0 {
		t.Error("a client changed the board")
	}
	peer.Eventually(t, 5*time.Second, "the actuator's command", func() bool { return strings.Contains(fmt.Sprint(c.all()), `{motor/cmd {"on":true}`) })
	peer.Eventually(t, 5*time.Second, "the command itself", func() bool { return strings.Contains(fmt.Sprint(c.all()), "{home/goto") })
	text := fmt.Sprint(c.all())
	for _, want := range []string{"{lamp/cmd on true", "{edged/r1/status online"} {
		if !strings.Contains(text, want) {
			t.Errorf("got %s, want %s", text, want)
		}
	}
	if n := strings.Count(text, "{home/goto"); n != 1 {
		t.Errorf("got %d copies of the command, want 1", n)
	}
	if got := len(b.Retained("home/goto")); got != 1 {
		t.Errorf("got %d kept, want 1", got)
	}
}

// A client's will and malformed messages take the same way.
func TestLocalWill(t *testing.T) {
	t.Parallel()
	b := bus.New(bus.Options{})
	in := newInside(t, b, mqtt.LocalOptions{Mapping: mqtt.All()})
	r := &robot{Bus: b}
	will, errs := r.hear(t, "dev/status"), r.hear(t, "edged/error")
	o := paho.NewClientOptions().AddBroker("tcp://127.0.0.1:" + in.port)
	c := paho.NewClient(o)
	if s := c.Connect(); s.Wait() && s.Error() != nil {
		t.Fatal(s.Error())
	}
	for range 3 {
		c.Publish("dev/t", 1, false, `{"broken`).Wait()
	}
	c.Publish("bad", 1, false, []byte{0xff}).Wait()
	if got := errs.wait(t, 2); len(got) != 2 {
		t.Errorf("got %d reports, want 2", len(got))
	}
	if st := in.local.Stats(); st.Malformed != 4 {
		t.Errorf("got %d malformed, want 4", st.Malformed)
	}
	c.Disconnect(50)
	conn, err := net.Dial("tcp", "127.0.0.1:"+in.port)
	if err != nil {
		t.Fatal(err)
	}
	connect := append([]byte{0x10, 0, 0, 4, 'M', 'Q', 'T', 'T', 4, 0x2e, 0, 60, 0, 1, 'w', 0, 10}, "dev/status\x00\x04gone"...)
	connect[1] = byte(len(connect) - 2)
	if _, err := conn.Write(connect); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if got := will.wait(t, 1)[0]; got.Payload() != "gone" || !got.Keep {
		t.Errorf("got %v, keep %v, want gone, true", got.Payload(), got.Keep)
	}
}

func TestLocalDiscovery(t *testing.T) {
	t.Parallel()
	b := bus.New(bus.Options{})
	in := newInside(t, b, mqtt.LocalOptions{Mapping: mqtt.All(), Discovery: mqtt.Discovery{Enabled: true}})
	c := collect(t, "tcp://127.0.0.1:"+in.port, "homeassistant/+/r1/#", 1)
	temp := mqtt.Entity{Kind: "sensor", ID: "temp", State: "hw/temp"}
	if err := in.local.Declare([]mqtt.Entity{temp, {Kind: "button", ID: "go", Command: "go"}}); err != nil {
		t.Fatal(err)
	}
	c.wait(t, 2)
	peer.Pub(t, in.port, "-t", "homeassistant/status", "-m", "online")
	c.wait(t, 4)
	if err := in.local.Declare([]mqtt.Entity{temp}); err != nil {
		t.Fatal(err)
	}
	peer.Eventually(t, 5*time.Second, "the ghost is gone", func() bool {
		return strings.Contains(fmt.Sprint(c.all()), "{homeassistant/button/r1/go/config  ")
	})
	for want, e := range map[string]mqtt.Entity{
		"want sensor": {Kind: "fridge", ID: "x"}, "an id has": {Kind: "sensor", ID: "a/b", State: "x"}, "needs a topic": {Kind: "switch", ID: "x", State: "y"},
	} {
		if err := in.local.Declare([]mqtt.Entity{e}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// A message of one link leaves by another only where the route says Relay.
func TestRelay(t *testing.T) {
	t.Parallel()
	m := startMosquitto(t, "")
	c := collect(t, m.URL(), "#", 1)
	b := bus.New(bus.Options{})
	br, err := mqtt.New(b, mqtt.Options{URL: m.URL(), Name: "cloud", ClientID: "relay", Mapping: mqtt.Mapping{
		Publish: []mqtt.Route{{Filter: "up/#", QoS: 1, Relay: true}, {Filter: "stay/#", QoS: 1}, {Filter: "end", QoS: 1}}}})
	if err != nil {
		t.Fatal(err)
	}
	in := newInside(t, b, mqtt.LocalOptions{Mapping: mqtt.All()})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- br.Serve(ctx) }()
	defer func() { cancel(); <-done; br.Close() }()
	peer.Pub(t, in.port, "-t", "up/t", "-m", "1")
	peer.Pub(t, in.port, "-t", "stay/t", "-m", "1")
	if _, err := b.Publish(ctx, "test", "end", 1); err != nil {
		t.Fatal(err)
	}
	peer.Eventually(t, 10*time.Second, "the last", func() bool { return strings.Contains(fmt.Sprint(c.all()), "{end 1") })
	if s := fmt.Sprint(c.all()); !strings.Contains(s, "{up/t 1") || strings.Contains(s, "stay/t") {
		t.Errorf("got %s", s)
	}
}

// The broker inside may be the one outside for another robot: what that says of
// itself passes, its session is taken up, and neither speaks for the other.
func TestAnotherRobotsBroker(t *testing.T) {
	t.Parallel()
	in := newInside(t, bus.New(bus.Options{}), mqtt.LocalOptions{Mapping: mqtt.All()})
	c := collect(t, "tcp://127.0.0.1:"+in.port, "edged/+/status", 1)
	url := "tcp://127.0.0.1:" + in.port
	o := mqtt.Options{URL: url, ClientID: "b", Prefix: "edged/b", Mapping: mqtt.Mapping{Subscribe: []mqtt.Route{{Filter: "home/#", QoS: 1}}}}
	newRobot(t, o).connected(t).stop()
	peer.Pub(t, in.port, "-t", "home/goto", "-m", "kitchen", "-q", "1") // while it is away
	r := newRobot(t, o)
	caught, heard := r.hear(t, mqtt.CaughtUpTopic), r.hear(t, "home/goto")
	r.connected(t)
	caught.wait(t, 1)
	if got := heard.wait(t, 1); got[0].Old() == nil {
		t.Error("what waited is news")
	}
	peer.Eventually(t, 10*time.Second, "its status", func() bool { return strings.Contains(fmt.Sprint(c.all()), "{edged/b/status online") })
	peer.Pub(t, in.port, "-t", "edged/r1/status", "-m", "forged", "-q", "1")
	peer.Eventually(t, 10*time.Second, "it is counted", func() bool { return in.local.Stats().Forged == 1 })
	if s := fmt.Sprint(c.all()); strings.Contains(s, "forged") {
		t.Errorf("got %s", s)
	}
}
