package mqtt_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"edged/bus"
	"edged/bus/mqtt"
	"edged/tests/peer"
)

// sender is a client that publishes.
func sender(t testing.TB, url string) func(topic string, qos byte, retain bool, payload string) {
	t.Helper()
	c := paho.NewClient(paho.NewClientOptions().AddBroker(url).SetClientID("sender"))
	if s := c.Connect(); s.Wait() && s.Error() != nil {
		t.Fatal(s.Error())
	}
	t.Cleanup(func() { c.Disconnect(50) })
	return func(topic string, qos byte, retain bool, payload string) {
		t.Helper()
		if s := c.Publish(topic, qos, retain, payload); s.Wait() && s.Error() != nil {
			t.Fatal(s.Error())
		}
	}
}

// A thousand commands that a broker kept for one second to a day arrive whole,
// in order, marked with their age, and so does what they bring about; what is
// sent after the robot is back is news.
func TestQueuedIsNoOrder(t *testing.T) {
	t.Parallel()
	m := startMosquitto(t, "")
	o := mqtt.Options{URL: m.URL(), ClientID: "away", Mapping: mqtt.Mapping{Subscribe: []mqtt.Route{
		{Filter: "cmd/#", QoS: 2, Time: "head.sent"}, {Filter: "plain/#", QoS: 1}, {Filter: "act/#", QoS: 1, ActOnQueued: true},
	}}}
	newRobot(t, o).connected(t).stop() // the session is there from now on
	send := sender(t, m.URL())
	const n = 1000
	ages := make([]time.Duration, n)
	now := time.Now()
	for i := range n {
		ages[i] = time.Second + time.Duration(i)*(24*time.Hour-time.Second)/(n-1)
		at := now.Add(-ages[i])
		when := fmt.Sprintf("%q", at.Format(time.RFC3339Nano))
		switch i % 3 {
		case 1:
			when = fmt.Sprint(at.UnixMilli())
		case 2:
			when = fmt.Sprintf("%.6f", float64(at.UnixMicro())/1e6)
		}
		send(fmt.Sprintf("cmd/%d", i%7), byte(1+i%2), false, fmt.Sprintf(`{"head": {"sent": %s}, "i": %d}`, when, i))
	}
	send("plain/a", 1, false, `{"i": 1}`)
	send("act/a", 1, false, `{"i": 1}`)

	b := bus.New(bus.Options{})
	br, err := mqtt.New(b, o)
	if err != nil {
		t.Fatal(err)
	}
	r := &robot{Bus: b, br: br}
	cmds, all, up := r.hear(t, "cmd/#"), r.hear(t, "#"), r.hear(t, mqtt.CaughtUpTopic)
	later := r.hear(t, "later")
	if _, err := b.Handle("cmd/#", bus.Queue{Limit: 2 * n}, func(ctx context.Context, e bus.Event) error {
		_, err := b.Publish(ctx, "script:a", "later", e.Payload())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- br.Serve(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		br.Close()
		_ = b.Close(context.Background())
	}()

	if got := up.wait(t, 1)[0].Payload(); fmt.Sprint(got) != fmt.Sprint(map[string]any{"queued": int64(n + 2)}) {
		t.Errorf("caught up: %v", got)
	}
	list := cmds.wait(t, n)
	last := map[string]int64{}
	for k, e := range list {
		p := e.Payload().(map[string]any)
		i := p["i"].(int64)
		if i < last[e.Topic] {
			t.Errorf("%s: %d came after %d", e.Topic, i, last[e.Topic])
		}
		last[e.Topic] = i
		old := e.Old()
		if !e.Queued || old == nil || !strings.Contains(old.String(), `waited at the broker while the robot was away (mqtt.subscribe "cmd/#": act_on_queued)`) {
			t.Fatalf("event %d: %+v %v", k, e, old)
		}
		if d := old.Age - ages[i]; d < 0 || d > time.Minute {
			t.Errorf("command %d: age %v, want %v", i, old.Age, ages[i])
		}
	}
	if len(list) != n {
		t.Errorf("%d came, want %d", len(list), n)
	}
	for _, e := range later.wait(t, n) {
		if o := e.Old(); o == nil || !strings.HasPrefix(o.Topic, "cmd/") || e.Queued {
			t.Fatalf("what a command brought about: %+v %v", e, o)
		}
	}
	for _, e := range all.events() {
		if strings.HasSuffix(e.Topic, "/marker") {
			t.Error("the marker is no event")
		}
		if want := strings.HasPrefix(e.Topic, "plain/"); (want || e.Topic == "act/a") && e.Queued != want {
			t.Errorf("%s: queued = %v", e.Topic, e.Queued)
		}
	}
	if st := br.Stats(); st.Queued != n+1 {
		t.Errorf("%d are counted, want %d", st.Queued, n+1)
	}
	send("cmd/now", 1, false, fmt.Sprintf(`{"head": {"sent": %d}, "i": 0}`, time.Now().Unix()))
	if e := cmds.wait(t, n+1)[n]; e.Queued || e.Old() != nil {
		t.Errorf("news: %+v %v", e, e.Old())
	}

	// The next outage within one process: how long it was is known. A broker that
	// forgets us has kept nothing.
	m.Stop(syscall.SIGTERM)
	peer.Eventually(t, 10*time.Second, "down", func() bool { return !br.Connected() })
	m.Start()
	send2 := sender(t, m.URL())
	h := r.hear(t, "plain/b")
	send2("plain/b", 1, false, "1") // before or after it is back: either is right
	if e := h.wait(t, 1)[0]; e.Queued && !strings.Contains(e.Old().Reason, "at most") {
		t.Errorf("%v", e.Old())
	}
	up.wait(t, 2)
}

// An order may be no older than its route allows, whether it waited or not.
func TestMaxAge(t *testing.T) {
	t.Parallel()
	m := startMosquitto(t, "")
	r := newRobot(t, mqtt.Options{URL: m.URL(), ClientID: "age", Mapping: mqtt.Mapping{Subscribe: []mqtt.Route{
		{Filter: "age/#", QoS: 1, MaxAge: 5 * time.Second, Time: "at"}, {Filter: "keep/#", QoS: 1, MaxAge: 5 * time.Second, Time: "at", ActOnRetained: true},
	}}})
	h := r.hear(t, "+/+")
	send := sender(t, m.URL())
	at := func(d time.Duration) string { return fmt.Sprintf(`{"at": %d}`, time.Now().Add(d).UnixNano()) }
	send("keep/old", 1, true, at(-time.Hour))
	r.connected(t)
	want := map[string]string{
		"age/now": "", "age/old": "is 10s old: it is older than max_age = 5s", "age/skewed": "sent 10s from now: the clocks differ",
		"age/none": "how old it is is not known: its payload has no time in \"at\"", "keep/old": "is 1h0m0s old: it is older than", "keep/now": "",
	}
	send("age/now", 1, false, at(-time.Second))
	send("age/old", 1, false, at(-10*time.Second))
	send("age/skewed", 1, false, at(10*time.Second))
	send("age/none", 1, false, `{"at": "noon"}`)
	send("keep/now", 1, true, at(0))
	for _, e := range h.wait(t, len(want)) {
		got := ""
		if o := e.Old(); o != nil {
			got = o.String()
		}
		if w := want[e.Topic]; (w == "") != (got == "") || !strings.Contains(got, w) || e.Queued != (w != "") {
			t.Errorf("%s: got %q, want %q", e.Topic, got, w)
		}
	}
}

// A broker that lets the marker not through: nothing is an order, and it is
// told, whether the marker gets lost or the broker ends the connection for it.
// Once it may pass, orders are orders.
func TestMarkerLost(t *testing.T) {
	t.Parallel()
	for limit, why := range map[string]string{"0": "the broker ends the connection when it comes", "1000": "it does not come back"} {
		t.Run(why, func(t *testing.T) {
			t.Parallel()
			m := peer.NewMosquitto(t, "listener %PORT% 127.0.0.1\nallow_anonymous true\nacl_file %DIR%/acl\nmax_queued_messages "+limit+"\n")
			writeFile(t, m.Dir+"/acl", "topic readwrite cmd/#\ntopic write edged/deaf/status\n")
			m.Start()
			o := mqtt.Options{URL: m.URL(), ClientID: "deaf", Timeout: 4 * time.Second, MaxBackoff: time.Second, Mapping: mqtt.Mapping{
				Subscribe: []mqtt.Route{{Filter: "cmd/#", QoS: 1}},
			}}
			newRobot(t, o).connected(t).stop()
			r := newRobot(t, o)
			h, errs := r.hear(t, "cmd/#"), r.hear(t, bus.ErrorTopic)
			peer.Eventually(t, time.Minute, "it is told", func() bool {
				return strings.Contains(fmt.Sprint(payloads(errs.events())), "the marker on edged/deaf/marker: "+why)
			})
			r.connected(t)
			send := sender(t, m.URL())
			send("cmd/go", 1, false, "1")
			if e := h.wait(t, 1)[0]; !e.Queued {
				t.Error("it is an order, though nobody knows when it was sent")
			}
			writeFile(t, m.Dir+"/acl", "topic readwrite #\n")
			up := r.hear(t, mqtt.CaughtUpTopic)
			m.Reload()
			if limit == "0" {
				return // the next marker is due after a connection that lasted
			}
			up.wait(t, 1)
			send("cmd/go", 1, false, "2")
			if e := h.wait(t, 2)[1]; e.Queued {
				t.Error("it is no order, though the marker is back")
			}
		})
	}
}

func payloads(list []bus.Event) (out []any) {
	for _, e := range list {
		out = append(out, e.Payload())
	}
	return out
}

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
