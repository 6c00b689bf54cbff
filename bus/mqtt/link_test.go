package mqtt_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"edged/bus"
	"edged/bus/mqtt"
	"edged/tests/peer"
)

// Two robots that are bridged both ways: a message crosses each link once.
func TestNoLoop(t *testing.T) {
	t.Parallel()
	all := mqtt.Mapping{Subscribe: []mqtt.Route{{Filter: "#", QoS: 1}}, Publish: []mqtt.Route{{Filter: "#", QoS: 1}}}
	for name, m := range map[string][2]mqtt.Mapping{
		"same topics": {all, all},
		"prefixes": {
			{Subscribe: []mqtt.Route{{Filter: "b/#", QoS: 1}}, Publish: []mqtt.Route{{Filter: "#", QoS: 1}}, OutPrefix: "a/"},
			{Subscribe: []mqtt.Route{{Filter: "a/#", QoS: 1}}, Publish: []mqtt.Route{{Filter: "#", QoS: 1}}, OutPrefix: "b/"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			br := startMosquitto(t, "")
			wire := collect(t, br.URL(), "#", 1)
			a := newRobot(t, mqtt.Options{URL: br.URL(), ClientID: "a", Mapping: m[0]}).connected(t)
			b := newRobot(t, mqtt.Options{URL: br.URL(), ClientID: "b", Mapping: m[1]}).connected(t)
			atA, atB := a.hear(t, "#"), b.hear(t, "#")
			peer.Eventually(t, 5*time.Second, "both online", func() bool { return wire.len() >= 2 })
			skipA, skipB, skip := len(atA.events()), len(atB.events()), wire.len()
			for range 100 { // the same again and again: content is no mark
				a.say(t, "x", "from a")
				b.say(t, "x", "from b")
			}
			count := func(h *heard, skip int) (own, other int) {
				for _, e := range h.events()[skip:] {
					switch {
					case !strings.HasSuffix(e.Topic, "x"):
					case e.Source == "mqtt":
						other++
					default:
						own++
					}
				}
				return own, other
			}
			peer.Eventually(t, 10*time.Second, "200 on the wire", func() bool { return wire.len() >= skip+200 })
			peer.Eventually(t, 10*time.Second, "100 at each", func() bool {
				_, x := count(atA, skipA)
				_, y := count(atB, skipB)
				return x >= 100 && y >= 100
			})
			a.say(t, "last", 1)
			wire.wait(t, skip+201)
			for who, h := range map[string]*heard{"a": atA, "b": atB} {
				n := skipA
				if who == "b" {
					n = skipB
				}
				if own, other := count(h, n); own != 100 || other != 100 {
					t.Errorf("%s: got %d own and %d of the other, want 100 and 100", who, own, other)
				}
			}
			if got := wire.len() - skip; got != 201 {
				t.Errorf("got %d messages on the wire, want 201", got)
			}
		})
	}
}

func TestRetained(t *testing.T) {
	t.Parallel()
	m := startMosquitto(t, "")
	peer.Pub(t, m.Port, "-t", "cmd/lamp", "-m", `"on"`, "-r")
	peer.Pub(t, m.Port, "-t", "act/lamp", "-m", `"on"`, "-r")
	o := mqtt.Options{URL: m.URL(), ClientID: "ret", Mapping: mqtt.Mapping{
		Subscribe: []mqtt.Route{{Filter: "cmd/#", QoS: 1}, {Filter: "act/#", QoS: 1, ActOnRetained: true}},
		Publish:   []mqtt.Route{{Filter: "state/#", QoS: 1}, {Filter: "always/#", Retain: true}},
	}}
	b := bus.New(bus.Options{})
	var mu sync.Mutex
	var got []string
	note := func(e bus.Event) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, fmt.Sprint(e.Topic, " ", e.Payload(), " retained=", e.Retained))
	}
	for _, f := range []string{"cmd/#", "act/#"} {
		if _, err := b.Tap(f, note); err != nil {
			t.Fatal(err)
		}
	}
	br, err := mqtt.New(b, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- br.Serve(ctx) }()
	list := func() string { mu.Lock(); defer mu.Unlock(); return strings.Join(got, "; ") }
	peer.Eventually(t, 10*time.Second, "both came", func() bool { return strings.Count(list(), ";") == 1 })
	for _, want := range []string{"cmd/lamp on retained=true", "act/lamp on retained=false"} {
		if !strings.Contains(list(), want) {
			t.Errorf("got %q, want %q", list(), want)
		}
	}
	// Unchanged copies after a new connection are no events; a live message is.
	m.Stop(syscall.SIGTERM)
	m.Start()
	peer.Eventually(t, 20*time.Second, "unchanged", func() bool { return br.Stats().Unchanged == 2 })
	peer.Pub(t, m.Port, "-t", "cmd/lamp", "-m", `"off"`, "-r")
	peer.Eventually(t, 10*time.Second, "live", func() bool { return strings.Contains(list(), "cmd/lamp off retained=false") })

	// Outward: what the bus keeps is retained, and forgotten with it.
	for _, p := range []func() (bus.Event, error){
		func() (bus.Event, error) { return b.Retain(ctx, "test", "state/a", 1) },
		func() (bus.Event, error) { return b.Publish(ctx, "test", "state/b", 2) },
		func() (bus.Event, error) { return b.Publish(ctx, "test", "always/c", 3) },
	} {
		if _, err := p(); err != nil {
			t.Fatal(err)
		}
	}
	peer.Eventually(t, 10*time.Second, "retained at the broker", func() bool {
		c := collect(t, m.URL(), "#", 0)
		defer c.c.Disconnect(0)
		c.wait(t, 4)
		s := fmt.Sprint(c.all())
		return strings.Contains(s, "{state/a 1 true") && strings.Contains(s, "{always/c 3 true") && !strings.Contains(s, "state/b")
	})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	br.Close()
	_ = b.Close(context.Background())
}

// The status topic: online when connected, offline when stopped or lost.
func TestStatus(t *testing.T) {
	t.Parallel()
	m := startMosquitto(t, "")
	p := newProxy(t, "127.0.0.1:"+m.Port)
	c := collect(t, m.URL(), "edged/#", 1)
	r := newRobot(t, mqtt.Options{URL: "tcp://" + p.addr, ClientID: "scout"}).connected(t)
	c.wait(t, 1)
	p.cut()
	c.wait(t, 2)
	p.open(t)
	c.wait(t, 3)
	r.stop()
	c.wait(t, 4)
	var words []string
	for _, g := range c.all() {
		if g.topic != "edged/scout/status" {
			t.Errorf("got topic %s", g.topic)
		}
		words = append(words, g.payload)
	}
	if got, want := strings.Join(words, " "), "online offline online offline"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What is published while we are away comes when we are back, once and in order.
func TestInboundSession(t *testing.T) {
	t.Parallel()
	m := startMosquitto(t, "")
	for _, qos := range []byte{1, 2} {
		p := newProxy(t, "127.0.0.1:"+m.Port)
		r := newRobot(t, mqtt.Options{URL: "tcp://" + p.addr, ClientID: fmt.Sprint("session", qos), Mapping: mqtt.Mapping{
			Subscribe: []mqtt.Route{{Filter: fmt.Sprintf("n%d/#", qos), QoS: qos}}}}).connected(t)
		in := r.hear(t, "+/x")
		out := collect(t, m.URL(), "none", 0)
		for i := range 600 {
			switch i {
			case 200:
				p.cut()
			case 400:
				p.open(t)
			}
			if s := out.c.Publish(fmt.Sprintf("n%d/x", qos), qos, false, fmt.Sprint(i)); s.Wait() && s.Error() != nil {
				t.Fatal(s.Error())
			}
		}
		peer.Eventually(t, 20*time.Second, "all came", func() bool { return len(in.events()) >= 600 })
		last, dup := int64(-1), 0
		for _, e := range in.events() {
			i := e.Payload().(int64)
			if i <= last {
				dup++
				continue
			}
			if i != last+1 {
				t.Fatalf("qos %d: %d came after %d", qos, i, last)
			}
			last = i
		}
		if last != 599 || qos == 2 && dup > 0 {
			t.Errorf("qos %d: got up to %d with %d duplicates", qos, last, dup)
		}
	}
}

func TestMalformed(t *testing.T) {
	t.Parallel()
	m := startMosquitto(t, "")
	r := newRobot(t, mqtt.Options{URL: m.URL(), ClientID: "mal", MaxPacket: 4096, Mapping: mqtt.Mapping{
		Subscribe: []mqtt.Route{{Filter: "j/#", QoS: 1}, {Filter: "c/#", QoS: 1, Codec: mqtt.CBOR}, {Filter: "t/#", QoS: 2, Codec: mqtt.Text}},
		Publish:   []mqtt.Route{{Filter: "out/#", QoS: 1}}}}).connected(t)
	errs, in := r.hear(t, "edged/error"), r.hear(t, "+/ok")
	c := collect(t, m.URL(), "none", 0)
	send := func(topic string, p []byte) {
		t.Helper()
		if s := c.c.Publish(topic, 1, false, p); s.Wait() && s.Error() != nil {
			t.Fatal(s.Error())
		}
	}
	for range 5 {
		send("j/broken", []byte(`{"t": `))
		send("j/nan", []byte("NaN"))
		send("j/utf8", []byte{0xff, 0xfe})
		send("c/cbor", []byte{0xff})
		send("c/nan", []byte{0xf9, 0x7e, 0x00})
		send("t/utf8", []byte{0xff})
		send("j/big", make([]byte, 5000))
	}
	r.say(t, "out/big", strings.Repeat("x", 5000))
	send("j/ok", []byte("21.5"))
	send("t/ok", []byte("{"))
	send("c/ok", []byte{0x01})
	ok := in.wait(t, 3)
	if ok[0].Payload() != 21.5 || ok[1].Payload() != "{" || ok[2].Payload() != int64(1) {
		t.Errorf("got %v, want 21.5, { and 1", ok)
	}
	st := r.br.Stats()
	if st.Malformed != 30 || st.TooLarge != 6 || st.Attempts != 1 {
		t.Errorf("got %d malformed, %d too large, %d attempts, want 30, 6, 1", st.Malformed, st.TooLarge, st.Attempts)
	}
	topics := map[string]int{}
	for _, e := range errs.events() {
		topics[fmt.Sprint(e.Payload().(map[string]any)["topic"])]++
	}
	for _, want := range []string{"j/broken", "j/nan", "j/utf8", "c/cbor", "c/nan", "t/utf8", "j/big", "out/big"} {
		if topics[want] != 1 {
			t.Errorf("%s: got %d reports, want 1 (%v)", want, topics[want], topics)
		}
	}
}

// Two clients with one id: named, and no storm.
func TestRival(t *testing.T) {
	t.Parallel()
	m := startMosquitto(t, "")
	o := mqtt.Options{URL: m.URL(), ClientID: "twin", Backoff: 50 * time.Millisecond, MaxBackoff: 400 * time.Millisecond,
		Mapping: mqtt.Mapping{Subscribe: []mqtt.Route{{Filter: "x", QoS: 1}}}}
	a := newRobot(t, o)
	down := a.hear(t, "edged/mqtt/down")
	newRobot(t, o)
	peer.Eventually(t, 20*time.Second, "named", func() bool {
		for _, e := range down.events() {
			if strings.Contains(fmt.Sprint(e.Payload()), `another client seems to use the client id "twin"`) {
				return true
			}
		}
		return false
	})
}

// memo is Records in memory.
type memo map[string][]byte

func (m memo) Get(n string) ([]byte, bool) { v, ok := m[n]; return v, ok }
func (m memo) Put(_ context.Context, n string, v []byte, _ bool) error {
	m[n] = v
	return nil
}

// Home Assistant: announced, announced again on its birth, ghosts removed.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	m := startMosquitto(t, "")
	mem := memo{}
	lamp := mqtt.Entity{Kind: "switch", ID: "lamp", State: "state/lamp", Command: "cmd/lamp"}
	temp := mqtt.Entity{Kind: "sensor", ID: "temp", Name: "Kitchen", State: "state/temp", Unit: "°C", Class: "temperature"}
	beep := mqtt.Entity{Kind: "button", ID: "beep", Command: "cmd/beep"}
	run := func(list ...mqtt.Entity) *robot {
		return newRobot(t, mqtt.Options{URL: m.URL(), ClientID: "r2",
			Mapping: mqtt.Mapping{OutPrefix: "r2/", Publish: []mqtt.Route{{Filter: "state/#", QoS: 1}},
				Subscribe: []mqtt.Route{{Filter: "r2/cmd/#", QoS: 1, Strip: "r2/"}}},
			Discovery: mqtt.Discovery{Enabled: true, Memory: mem, Entities: list}})
	}
	c := collect(t, m.URL(), "homeassistant/#", 1)
	r := run(lamp, temp, beep).connected(t)
	c.wait(t, 3)
	found := false
	for _, g := range c.all() {
		if g.topic != "homeassistant/switch/r2/lamp/config" {
			continue
		}
		found = true
		var conf map[string]any
		if err := json.Unmarshal([]byte(g.payload), &conf); err != nil {
			t.Fatal(err)
		}
		for k, want := range map[string]any{"state_topic": "r2/state/lamp", "command_topic": "r2/cmd/lamp",
			"availability_topic": "edged/r2/status", "unique_id": "r2_lamp", "payload_on": "on"} {
			if conf[k] != want {
				t.Errorf("%s: got %v, want %v", k, conf[k], want)
			}
		}
	}
	if !found {
		t.Errorf("the lamp was not announced: %v", c.all())
	}
	peer.Pub(t, m.Port, "-t", "homeassistant/status", "-m", "online")
	c.wait(t, 7)
	if err := r.br.Declare([]mqtt.Entity{lamp, temp}); err != nil { // while it runs
		t.Fatal(err)
	}
	ghost := func(topic string) func() bool {
		return func() bool {
			l := c.all()
			for _, g := range l {
				if g.topic == topic && g.payload == "" {
					return true
				}
			}
			return false
		}
	}
	peer.Eventually(t, 10*time.Second, "the button is gone", ghost("homeassistant/button/r2/beep/config"))
	r.stop()
	run(lamp).connected(t) // after a restart
	peer.Eventually(t, 10*time.Second, "the sensor is gone", ghost("homeassistant/sensor/r2/temp/config"))
	late := collect(t, m.URL(), "homeassistant/+/r2/#", 1)
	late.wait(t, 1)
	if got := late.all(); len(got) != 1 || got[0].topic != "homeassistant/switch/r2/lamp/config" {
		t.Errorf("got %v, want the lamp only", got)
	}
}

// outlet is a broker inside that notes what it is handed.
type outlet struct {
	mu  sync.Mutex // guards got
	got []string
}

func (p *outlet) Publish(topic string, payload []byte, _ byte, _ bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.got = append(p.got, topic+" "+string(payload))
	return nil
}

func (p *outlet) Receive(func(topic string, payload []byte, qos byte, retain bool) error) {}
func (p *outlet) Reserve(func(string) bool)                                               {}
func (p *outlet) Tell(func(string, error))                                                {}
func (p *outlet) Quiet(string) bool                                                       { return false }

// TestTakenStays: words that stopped the robot are not sent on as an utterance.
func TestTakenStays(t *testing.T) {
	b := bus.New(bus.Options{})
	if _, err := b.Urgent("voice/utterance", func(e bus.Event) bool { return e.Payload() == "stop" }, func(bus.Event) {}); err != nil {
		t.Fatal(err)
	}
	p := &outlet{}
	l, err := mqtt.NewLocal(b, p, mqtt.LocalOptions{Node: "r1", Mapping: mqtt.All()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, text := range []string{"stop", "go"} {
		if _, err := b.Publish(t.Context(), "test", "voice/utterance", text); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(p.got, "; "); got != "voice/utterance go" {
		t.Errorf("sent %q, want what was not taken", got)
	}
}
