package mqtt_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"testing"

	paho "github.com/eclipse/paho.mqtt.golang"
	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/listeners"
	"github.com/mochi-mqtt/server/v2/packets"

	"edged/bus"
	"edged/bus/mqtt"
	"edged/bus/mqtt/broker"
)

// flood sends sensor readings with 200 outstanding and counts the commands that
// come back: one operation is a reading that has become a command.
func flood(b *testing.B, url string) {
	c := paho.NewClient(paho.NewClientOptions().AddBroker(url).SetClientID("probe"))
	if t := c.Connect(); t.Wait() && t.Error() != nil {
		b.Fatal(t.Error())
	}
	defer c.Disconnect(10)
	back := make(chan struct{}, 200)
	for range cap(back) {
		back <- struct{}{}
	}
	if t := c.Subscribe("actuators/fan", 0, func(paho.Client, paho.Message) { back <- struct{}{} }); t.Wait() && t.Error() != nil {
		b.Fatal(t.Error())
	}
	reading := []byte(`{"t":31.5,"n":123}`)
	b.ResetTimer()
	for range b.N {
		<-back
		c.Publish("sensors/t", 0, false, reading)
	}
	for range cap(back) {
		<-back
	}
}

func react(b *testing.B, bs *bus.Bus) {
	b.Helper()
	if _, err := bs.Handle("sensors/t", bus.Queue{Limit: 1024}, func(ctx context.Context, e bus.Event) error {
		if m, ok := e.Payload().(map[string]any); ok && m["t"].(float64) > 30 {
			_, err := bs.Publish(ctx, "rule", "actuators/fan", bus.RawJSON(`{"on":true}`))
			return err
		}
		return nil
	}); err != nil {
		b.Fatal(err)
	}
}

var ruleMapping = mqtt.Mapping{Subscribe: []mqtt.Route{{Filter: "sensors/#"}}, Publish: []mqtt.Route{{Filter: "actuators/#"}}}

// allow lets everyone in.
type allow struct{ mochi.HookBase }

func (*allow) Provides(b byte) bool {
	return b == mochi.OnConnectAuthenticate || b == mochi.OnACLCheck
}
func (*allow) OnConnectAuthenticate(*mochi.Client, packets.Packet) bool { return true }
func (*allow) OnACLCheck(*mochi.Client, string, bool) bool              { return true }

// Sensor → handler → actuator with the broker in this process. The limit is the
// broker library's own inline client without a bus.
func BenchmarkEmbedded(b *testing.B) {
	b.Run("edged", func(b *testing.B) {
		bs := bus.New(bus.Options{})
		react(b, bs)
		in := newInside(b, bs, mqtt.LocalOptions{Mapping: ruleMapping})
		flood(b, "tcp://127.0.0.1:"+in.port)
	})
	b.Run("limit", func(b *testing.B) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		s := mochi.New(&mochi.Options{InlineClient: true, Logger: slog.New(slog.DiscardHandler)})
		for _, err := range []error{s.AddHook(&allow{}, nil), s.AddListener(listeners.NewNet("t", l)), s.Serve(),
			s.Subscribe("sensors/t", 1, func(_ *mochi.Client, _ packets.Subscription, _ packets.Packet) {
				_ = s.Publish("actuators/fan", []byte(`{"on":true}`), false, 0)
			})} {
			if err != nil {
				b.Fatal(err)
			}
		}
		defer s.Close()
		flood(b, "tcp://"+l.Addr().String())
	})
}

// The same with mosquitto outside. The limit is Paho alone.
func BenchmarkOutside(b *testing.B) {
	b.Run("edged", func(b *testing.B) {
		m := startMosquitto(b, "")
		r := newRobot(b, mqtt.Options{URL: m.URL(), ClientID: "bench", Mapping: ruleMapping}).connected(b)
		react(b, r.Bus)
		flood(b, m.URL())
	})
	b.Run("limit", func(b *testing.B) {
		m := startMosquitto(b, "")
		c := paho.NewClient(paho.NewClientOptions().AddBroker(m.URL()).SetClientID("bench"))
		if t := c.Connect(); t.Wait() && t.Error() != nil {
			b.Fatal(t.Error())
		}
		defer c.Disconnect(10)
		c.Subscribe("sensors/t", 0, func(c paho.Client, _ paho.Message) { c.Publish("actuators/fan", 0, false, `{"on":true}`) }).Wait()
		flood(b, m.URL())
	})
}

// port is a broker that does nothing: what is left is bus and mapping.
type port struct {
	take func(topic string, payload []byte, qos byte, retain bool) error
	got  chan struct{}
}

func (p *port) Publish(string, []byte, byte, bool) error { p.got <- struct{}{}; return nil }
func (p *port) Receive(f func(topic string, payload []byte, qos byte, retain bool) error) {
	p.take = f
}
func (p *port) Reserve(func(string) bool) {}
func (p *port) Tell(func(string, error))  {}
func (p *port) Quiet(string) bool         { return false }

// In → bus → handler → out, without any broker.
func BenchmarkLink(b *testing.B) {
	bs := bus.New(bus.Options{})
	react(b, bs)
	p := &port{got: make(chan struct{}, 256)}
	l, err := mqtt.NewLocal(bs, p, mqtt.LocalOptions{Mapping: ruleMapping})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { l.Close(); _ = bs.Close(context.Background()) }()
	reading := []byte(`{"t":31.5,"n":123}`)
	b.ReportAllocs()
	for b.Loop() {
		if err := p.take("sensors/t", reading, 0, false); err != nil {
			b.Fatal(err)
		}
		<-p.got
	}
}

// A durable QoS 1 message, up to the moment when Publish returns.
func BenchmarkPublish(b *testing.B) {
	for _, qos := range []byte{0, 1} {
		b.Run(fmt.Sprint("qos", qos), func(b *testing.B) {
			m := startMosquitto(b, "")
			r := newRobot(b, mqtt.Options{URL: m.URL(), ClientID: "bench", Limit: 1 << 20, Bytes: 1 << 30,
				Mapping: mqtt.Mapping{Publish: []mqtt.Route{{Filter: "out/#", QoS: qos}}}}).connected(b)
			v := bus.RawJSON(`{"t":31.5}`)
			b.ReportAllocs()
			for b.Loop() {
				r.say(b, "out/t", v)
			}
		})
	}
}

func Example() {
	b := bus.New(bus.Options{})
	defer b.Close(context.Background())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	br, err := broker.Listen(ctx, broker.Options{Listen: "127.0.0.1:0"})
	if err != nil {
		fmt.Println(err)
		return
	}
	l, err := mqtt.NewLocal(b, br, mqtt.LocalOptions{Mapping: mqtt.All()})
	if err != nil {
		fmt.Println(err)
		return
	}
	done := make(chan error, 2)
	go func() { done <- br.Serve(ctx) }()
	go func() { done <- l.Serve(ctx) }()

	came := make(chan bus.Event, 1)
	if _, err := b.Tap("home/goto", func(e bus.Event) { came <- e }); err != nil {
		fmt.Println(err)
	}
	c := paho.NewClient(paho.NewClientOptions().AddBroker("tcp://" + br.Addr())) // any MQTT tool
	c.Connect().Wait()
	c.Publish("home/goto", 1, false, `{"room":"kitchen"}`).Wait()
	e := <-came
	fmt.Println(e.Topic, e.Payload(), e.Source)
	c.Disconnect(10)
	cancel()
	fmt.Println(<-done, <-done)
	// Output:
	// home/goto map[room:kitchen] mqtt
	// <nil> <nil>
}

func ExampleNew() {
	b := bus.New(bus.Options{})
	defer b.Close(context.Background())
	br, err := mqtt.New(b, mqtt.Options{
		URL:      "tcp://127.0.0.1:1883",
		ClientID: "scout",
		Mapping: mqtt.Mapping{
			Subscribe: []mqtt.Route{{Filter: "home/#", QoS: 1}},
			Publish:   []mqtt.Route{{Filter: "hw/#", QoS: 1}},
			OutPrefix: "scout/",
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer br.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // Serve connects until ctx ends
	fmt.Println(br.Serve(ctx), br.Stats().Reason)
	// Output: <nil> stopped
}
