package e2e

import (
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"edged/tests/peer"
)

// mosquitto is a broker outside, on a free loopback port.
type mosquitto struct {
	t    *testing.T
	port string
}

func startMosquitto(t *testing.T) *mosquitto {
	t.Helper()
	return startMosquittoAt(t, peer.FreePort(t))
}

func startMosquittoAt(t *testing.T, port string) *mosquitto {
	t.Helper()
	m := peer.NewMosquitto(t, "")
	m.Port = port
	m.Start()
	return &mosquitto{t, port}
}

func (m *mosquitto) url() string { return "tcp://127.0.0.1:" + m.port }

func (m *mosquitto) pub(args ...string) {
	m.t.Helper()
	peer.Pub(m.t, m.port, append([]string{"-q", "1"}, args...)...)
}

// sub notes what arrives, as lines "topic retained payload", until the test
// ends. It returns when the subscription stands.
func (m *mosquitto) sub(filters ...string) *output {
	m.t.Helper()
	args := []string{"-q", "1", "-F", "%t %r %p"}
	for _, f := range filters {
		args = append(args, "-t", f)
	}
	out := &output{}
	peer.Sub(m.t, &out.Output, m.port, args...)
	return out
}

// messages are the lines that mosquitto_sub has printed for a topic.
func (o *output) messages(topic string) (list []string) {
	for l := range strings.Lines(o.String()) {
		if rest, ok := strings.CutPrefix(strings.TrimSuffix(l, "\n"), topic+" "); ok {
			list = append(list, rest)
		}
	}
	return list
}

// topics are those of the lines mosquitto_sub has printed.
func (o *output) topics(prefix string) (list []string) {
	for l := range strings.Lines(o.String()) {
		if topic, _, ok := strings.Cut(l, " "); ok && strings.HasPrefix(topic, prefix) {
			list = append(list, topic)
		}
	}
	return list
}

// await waits for something outside; a busy machine may take its time.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	peer.Eventually(t, 6*time.Second, what, ok)
}

// connected waits until the robot's bridge is up.
func (r *robot) connected() {
	r.t.Helper()
	r.until("a connection to the broker", 20*time.Second, func() bool {
		out, err := r.edged("status", "--json")
		return err == nil && strings.Contains(out, `"connected": true`)
	})
}

// TestTwoRobots: what one publishes arrives in the other once, and what that
// one answers comes back once; nothing goes round, with prefixes or without.
func TestTwoRobots(t *testing.T) {
	const n = 20
	for _, x := range []struct {
		name         string
		settings     [2]string // of a and of b
		ping, heard  string    // as a says it, as b hears it
		pong, answer string    // as b says it, as a hears it
	}{
		{"one room", [2]string{
			`subscribe = [{filter = "room/#", qos = 1}]` + "\n" + `publish = [{filter = "room/#", qos = 1}]`,
			`subscribe = [{filter = "room/#", qos = 1}]` + "\n" + `publish = [{filter = "room/#", qos = 1}]`,
		}, "room/ping", "room/ping", "room/pong", "room/pong"},
		{"prefixes", [2]string{
			`out_prefix = "a/"` + "\n" + `subscribe = [{filter = "b/#", qos = 1}]` + "\n" + `publish = [{filter = "#", qos = 1}]`,
			`out_prefix = "b/"` + "\n" + `subscribe = [{filter = "a/#", qos = 1}]` + "\n" + `publish = [{filter = "#", qos = 1}]`,
		}, "room/ping", "a/room/ping", "room/pong", "b/room/pong"},
	} {
		t.Run(x.name, func(t *testing.T) {
			m := startMosquitto(t)
			script := fmt.Sprintf("def on_ping(ev):\n    bus.publish(%q, ev.payload)\n\non(%q, on_ping)\n", x.pong, x.heard)
			settings := func(name, mqtt string) string {
				return fmt.Sprintf("name = %q\n\n[mqtt]\nurl = %q\nclient_id = %q\n%s\n\n[allow]\nall = true\n", name, m.url(), name, mqtt)
			}
			onWire := m.sub("#")
			var robots [2]*robot
			var seen [2]*output
			for i, name := range []string{"a", "b"} {
				files := map[string]string{"main.star": "", "edged.toml": settings(name, x.settings[i])}
				if name == "b" {
					files["main.star"] = script
				}
				dir := folder(t, files)
				robots[i] = start(t, dir, "run", dir)
				robots[i].connected()
				seen[i] = robots[i].listen("#")
			}
			for i := range n {
				robots[0].must("pub", x.ping, fmt.Sprint(i))
			}
			await(t, "all answers", func() bool { return len(events(t, seen[0], x.answer)) >= n })
			// One more round: whatever still goes in circles would overtake it.
			robots[0].must("pub", x.ping, "99")
			await(t, "the last answer", func() bool { return strings.HasSuffix(fmt.Sprint(events(t, seen[0], x.answer)), " 99]") })
			want := make([]string, n+1)
			for i := range n {
				want[i] = fmt.Sprint(i)
			}
			want[n] = "99"
			for who, got := range map[string][]string{
				"a said":   events(t, seen[0], x.ping),
				"b heard":  events(t, seen[1], x.heard),
				"b said":   events(t, seen[1], x.pong),
				"a heard":  events(t, seen[0], x.answer),
				"the wire": values(onWire.messages(strings.TrimPrefix(x.heard, "/"))),
				"and back": values(onWire.messages(x.answer)),
			} {
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("%s: got %v, want %v", who, got, want)
				}
			}
		})
	}
}

// values are the payloads of lines "retained payload".
func values(lines []string) (list []string) {
	for _, l := range lines {
		_, payload, _ := strings.Cut(l, " ")
		list = append(list, payload)
	}
	return list
}

// TestBrokerThatIsDown: it does not keep the robot from starting, and what was
// published meanwhile arrives when it is up.
func TestBrokerThatIsDown(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	dir := folder(t, map[string]string{"main.star": "", "edged.toml": fmt.Sprintf(
		"name = \"bot\"\n\n[mqtt]\nurl = \"tcp://127.0.0.1:%s\"\npublish = [{filter = \"bot/#\", qos = 1}]\n", port)})
	r := start(t, dir, "run", dir)
	r.ready()
	for i := range 5 {
		r.must("pub", "bot/n", fmt.Sprint(i))
	}
	if out := r.must("status"); !strings.Contains(out, "not connected") {
		t.Errorf("status says\n%s, want that it is not connected", out)
	}
	if err := r.cmd.Process.Signal(syscall.SIGSTOP); err != nil { // or it may be back before the subscriber
		t.Fatal(err)
	}
	defer r.cmd.Process.Signal(syscall.SIGCONT)
	seen := startMosquittoAt(t, port).sub("bot/#")
	if err := r.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	await(t, "what was published meanwhile", func() bool { return len(seen.messages("bot/n")) >= 5 })
	if got := fmt.Sprint(values(seen.messages("bot/n"))); got != "[0 1 2 3 4]" {
		t.Errorf("got %s, want them in order, once", got)
	}
}

// dropWithWill connects a client with a last will and cuts its connection.
func (m *mosquitto) dropWithWill(topic, payload string) {
	m.t.Helper()
	c, err := net.Dial("tcp", "127.0.0.1:"+m.port)
	if err != nil {
		m.t.Fatal(err)
	}
	defer c.Close()
	p := "\x00\x04MQTT\x04\x2e\x00\x3c\x00\x01w" // 3.1.1, clean, a will that is kept, QoS 1, 60 s
	for _, s := range []string{topic, payload} {
		p += string([]byte{byte(len(s) >> 8), byte(len(s))}) + s
	}
	if _, err := c.Write(append([]byte{0x10, byte(len(p))}, p...)); err != nil {
		m.t.Fatal(err)
	}
	ack := make([]byte, 4)
	if _, err := io.ReadFull(c, ack); err != nil || ack[3] != 0 {
		m.t.Fatalf("got % x (%v)", ack, err)
	}
}
