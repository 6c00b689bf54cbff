package broker_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"edged/bus/mqtt/broker"
	"edged/tests/peer"
)

// heard is what a broker took in, and what it told.
type heard struct {
	mu   sync.Mutex
	took []string
	told []string
}

func (h *heard) take(topic string, p []byte, qos byte, retain bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.took = append(h.took, fmt.Sprintf("%s %s %v", topic, p, retain))
	return nil
}

func (h *heard) all() (took, told string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.took, "\n"), strings.Join(h.told, "\n")
}

// telling is serve with ears.
func telling(t testing.TB, o broker.Options, own func(string) bool) (*broker.Broker, string, *heard) {
	t.Helper()
	h := &heard{}
	b, port := serveWith(t, o, func(b *broker.Broker) {
		b.Receive(h.take)
		if own != nil {
			b.Reserve(own)
		}
		b.Tell(func(_ string, err error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.told = append(h.told, err.Error())
		})
	})
	return b, port, h
}

// A last will is held to the ACL like every message: one that is not allowed is
// refused when the client connects, in every version, at once or with a delay.
func TestWillsAreHeldToTheACL(t *testing.T) {
	t.Parallel()
	b, port, h := telling(t, broker.Options{Users: []broker.User{
		{Name: "kitchen", Password: "p", Read: []string{"#"}, Write: []string{"kitchen/#"}},
	}}, nil)
	out := sub(t, port, "-u", "kitchen", "-P", "p", "-t", "#")
	for _, version := range []string{"mqttv311", "mqttv5"} {
		for _, more := range [][]string{{}, {"--will-retain"}} {
			args := append([]string{"-V", version, "-u", "kitchen", "-P", "p", "-t", "kitchen/x", "-W", "2",
				"--will-topic", "edged/safety/stop", "--will-payload", "will"}, more...)
			if got, err := tool(t, "mosquitto_sub", port, args...); err == nil || !strings.Contains(strings.ToLower(got), "not auth") && !strings.Contains(got, "refused") {
				t.Errorf("%v: a will beyond the ACL was let in: %v %s", args, err, got)
			}
		}
	}
	login := func(pk *packets.Packet) {
		pk.Connect.UsernameFlag, pk.Connect.Username = true, []byte("kitchen")
		pk.Connect.PasswordFlag, pk.Connect.Password = true, []byte("p")
	}
	for _, topic := range []string{"home/goto", "$SYS/x", "a/#", "a\nb"} {
		if _, got := connect(t, port, 5, "delayed", func(pk *packets.Packet) { login(pk); will(pk, topic, 1) }); !strings.HasPrefix(got, "Connack 0x8") && !strings.HasPrefix(got, "Connack 0x90") {
			t.Errorf("a will on %q: got %s", topic, got)
		}
	}
	c, _ := connect(t, port, 4, "lost", func(pk *packets.Packet) {
		login(pk)
		pk.Connect.WillFlag, pk.Connect.WillTopic, pk.Connect.WillPayload, pk.Connect.WillRetain = true, "kitchen/status", []byte("gone"), true
	})
	c.net.Close()
	eventually(t, "the will that is allowed", func() bool { return strings.Contains(out.String(), "kitchen/status gone") })
	took, told := h.all()
	if took != "kitchen/status gone true" {
		t.Errorf("taken in: %s", took)
	}
	if !strings.Contains(told, `may not leave a last will on "edged/safety/stop"`) || b.Stats().Refused != 8 {
		t.Errorf("refused %d, told: %s", b.Stats().Refused, told)
	}
}

// What a client publishes on the robot's own topics goes to the robot alone, is
// never kept, and what the robot does not take is refused, counted and told.
func TestReservedTopics(t *testing.T) {
	t.Parallel()
	h := &heard{}
	b, port := serveWith(t, broker.Options{}, func(b *broker.Broker) {
		b.Reserve(func(topic string) bool { return strings.HasPrefix(topic, "edged/") })
		b.Receive(func(topic string, p []byte, qos byte, retain bool) error {
			if topic == "edged/r1/status" {
				return fmt.Errorf("mine: %w", fs.ErrPermission)
			}
			return h.take(topic, p, qos, retain)
		})
	})
	out := sub(t, port, "-t", "#")
	c, _ := connect(t, port, 5, "forger", nil)
	retain := func(pk *packets.Packet) { pk.FixedHeader.Retain = true }
	c.publish("edged/r1/status", "offline", 1, 1, retain)
	if got := c.hear(); got != "Puback 0x87" {
		t.Errorf("forged: got %s, want Puback 0x87", got)
	}
	c.publish("edged/safety/stop", "door", 2, 2, retain)
	if got := c.hear(); got != "Pubrec 0x0" {
		t.Errorf("an order: got %s, want Pubrec 0x0", got)
	}
	w, _ := connect(t, port, 4, "w", func(pk *packets.Packet) { will(pk, "edged/r1/status", 0); pk.Connect.WillRetain = true })
	w.net.Close()
	eventually(t, "the will is refused", func() bool { return b.Stats().Denied == 2 })
	if err := b.Publish("edged/r1/status", []byte("online"), 1, true); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the robot's own", func() bool { return strings.Contains(out.String(), "edged/r1/status online") })
	if s := out.String(); strings.Contains(s, "offline") || strings.Contains(s, "door") || strings.Contains(s, "gone") {
		t.Errorf("others heard: %s", s)
	}
	if took, _ := h.all(); took != "edged/safety/stop door false" {
		t.Errorf("the robot heard: %s", took)
	}
	if st := b.Stats(); st.Retained != 1 {
		t.Errorf("kept: %d", st.Retained)
	}
}

// What clients make the broker keep has limits in number and in bytes; what is
// beyond is refused or given up, counted, and told.
func TestLimits(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", 20<<10)
	for _, row := range []struct {
		name string
		o    broker.Options
		do   func(t *testing.T, b *broker.Broker, port string)
		told string
	}{
		{"retained topics", broker.Options{Retained: 3}, func(t *testing.T, b *broker.Broker, port string) {
			c, _ := connect(t, port, 5, "c", nil)
			for i := range 5 {
				c.publish(fmt.Sprint("t/", i), "kept", 1, 1, func(pk *packets.Packet) { pk.FixedHeader.Retain = true })
				if got, want := c.hear(), "Puback 0x0"; i < 3 && got != want || i >= 3 && got != "Puback 0x97" {
					t.Errorf("topic %d: got %s", i, got)
				}
			}
			c.publish("t/0", "again", 1, 1, func(pk *packets.Packet) { pk.FixedHeader.Retain = true })
			if got := c.hear(); got != "Puback 0x0" {
				t.Errorf("a topic that is kept already: got %s", got)
			}
			if st := b.Stats(); st.Retained != 3 || st.Denied != 2 {
				t.Errorf("got %+v", st)
			}
		}, "is not kept"},
		{"retained bytes", broker.Options{RetainedBytes: 50 << 10}, func(t *testing.T, b *broker.Broker, port string) {
			c, _ := connect(t, port, 4, "c", nil)
			for i := range 5 {
				c.publish(fmt.Sprint("t/", i), big, 1, 1, func(pk *packets.Packet) { pk.FixedHeader.Retain = true })
				if got := c.hear(); got != "Puback 0x0" { // MQTT 3.1.1 has no word for it
					t.Errorf("got %s", got)
				}
			}
			if st := b.Stats(); st.Retained != 2 || st.RetainedBytes > 50<<10 || st.Denied != 3 {
				t.Errorf("got %+v", st)
			}
		}, "is not kept"},
		{"messages of one who is away", broker.Options{Queue: 10}, func(t *testing.T, b *broker.Broker, port string) {
			keep := func(pk *packets.Packet) { pk.Connect.Clean = false }
			c, _ := connect(t, port, 4, "away", keep)
			c.subscribe(nil, "n")
			c.net.Close()
			eventually(t, "away", func() bool { return b.Stats().Clients == 0 })
			for i := range 15 {
				_ = b.Publish("n", fmt.Append(nil, i), 1, false)
			}
			if st := b.Stats(); st.Waiting != 10 || st.Dropped != 5 {
				t.Errorf("got %+v", st)
			}
			c, _ = connect(t, port, 4, "away", keep)
			if got := c.hear(); !strings.HasPrefix(got, `Publish n "5"`) {
				t.Errorf("the oldest go first: got %s", got)
			}
		}, "is away: messages for it are lost"},
		{"messages of one who reads nothing", broker.Options{Memory: 1 << 20}, func(t *testing.T, b *broker.Broker, port string) {
			slow, _ := connect(t, port, 4, "slow", nil)
			slow.subscribe(nil, "n/#")
			quick := sub(t, port, "-t", "n/#", "-q", "1")
			for i := range 2000 {
				_ = b.Publish("n/x", []byte(big), 1, false)
				if i%20 == 0 {
					n := fmt.Sprint("n/", i)
					_ = b.Publish(n, nil, 0, false)
					eventually(t, "the quick one keeps up", func() bool { return strings.Contains(quick.String(), n) })
				}
			}
			if st := b.Stats(); st.WaitingBytes > 1<<20 || st.Dropped == 0 {
				t.Errorf("got %+v", st)
			}
		}, "takes its messages too slowly"},
		{"subscriptions", broker.Options{Filters: 2}, func(t *testing.T, b *broker.Broker, port string) {
			for version, want := range map[byte]string{4: "Suback 020280", 5: "Suback 020297"} {
				c, _ := connect(t, port, version, fmt.Sprint(version), nil)
				if got := c.subscribe(nil, "a", "b", "c"); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			}
		}, "no more fit"},
		{"sessions", broker.Options{Sessions: 2}, func(t *testing.T, b *broker.Broker, port string) {
			keep := func(pk *packets.Packet) { pk.Connect.Clean = false }
			for i := range 4 {
				c, _ := connect(t, port, 4, fmt.Sprint(i), keep)
				c.subscribe(nil, "a")
				c.net.Close()
				eventually(t, "away", func() bool { return b.Stats().Clients == 0 })
			}
			if st := b.Stats(); st.Sessions != 2 || st.Subscriptions != 2 {
				t.Errorf("got %+v", st)
			}
			for i, want := range map[int]string{0: "Connack 0x0 present=false", 3: "Connack 0x0 present=true"} {
				if _, got := connect(t, port, 4, fmt.Sprint(i), keep); got != want {
					t.Errorf("session %d: got %s, want %s", i, got, want)
				}
			}
		}, "away longest"},
		{"wills", broker.Options{Memory: 100 << 10}, func(t *testing.T, b *broker.Broker, port string) {
			var last string
			for i := range 3 {
				_, last = connect(t, port, 5, fmt.Sprint(i), func(pk *packets.Packet) { will(pk, "w", 0); pk.Connect.WillPayload = []byte(big) })
			}
			if !strings.HasPrefix(last, "Connack 0x97") {
				t.Errorf("got %s", last)
			}
		}, "has no room"},
		{"topics", broker.Options{}, func(t *testing.T, b *broker.Broker, port string) {
			for _, topic := range []string{"a\nb", "a\x1bb", "a\u0085b", "$SYS/x", strings.Repeat("t", 1025)} {
				c, _ := connect(t, port, 5, "c", nil)
				c.publish(topic, "x", 1, 1, nil)
				if got := c.hear(); got != "Puback 0x90" && got != "Puback 0x87" {
					t.Errorf("%.20q: got %s", topic, got)
				}
				if got := c.subscribe(nil, topic); topic[0] != '$' && got != "Suback 8f" {
					t.Errorf("%.20q: got %s", topic, got)
				}
			}
			c, _ := connect(t, port, 5, "c", nil)
			c.publish("nul\x00", "x", 1, 1, nil)
			if got := c.hear(); got != "Disconnect 0x81" && got != "closed" && got != "Puback 0x90" {
				t.Errorf("got %s", got)
			}
		}, "is no topic"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b, port, h := telling(t, row.o, nil)
			row.do(t, b, port)
			if _, told := h.all(); !strings.Contains(told, row.told) {
				t.Errorf("told: %s, want %q", told, row.told)
			}
		})
	}
}

// A client that floods is slowed down while the robot can't take its messages,
// and none of them is lost.
func TestBackPressure(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	busy, n := true, 0
	_, port := serve(t, broker.Options{}, func(string, []byte, byte, bool) error {
		mu.Lock()
		defer mu.Unlock()
		if busy {
			return errors.New("not now")
		}
		n++
		return nil
	})
	pub := exec.Command(peer.Tool(t, "mosquitto_pub"), "-h", "127.0.0.1", "-p", port, "-t", "n", "-q", "1", "-l")
	pub.Stdin = strings.NewReader(strings.Repeat("line\n", 200))
	if err := pub.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // it floods meanwhile
	mu.Lock()
	busy = false
	mu.Unlock()
	if err := pub.Wait(); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if n != 200 {
		t.Errorf("%d of 200 messages were taken", n)
	}
}

// No log has a password in it, whatever the client sends and whatever level.
func TestNoSecretIsLogged(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	_, port := serve(t, broker.Options{
		Users: []broker.User{{Name: "u", Password: "swordfish", Read: []string{"#"}}},
		Log:   slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug - 8})),
	}, nil)
	for _, pass := range []string{"swordfish", "swordfish-wrong"} {
		for range 2 {
			c, _ := connect(t, port, 5, "c", func(pk *packets.Packet) {
				pk.Connect.UsernameFlag, pk.Connect.Username, pk.Connect.PasswordFlag, pk.Connect.Password = true, []byte("u"), true, []byte(pass)
			})
			c.say(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Connect}, Connect: packets.ConnectParams{
				ProtocolName: []byte("MQTT"), UsernameFlag: true, Username: []byte("u"), PasswordFlag: true, Password: []byte(pass)}})
			c.hear()
			c.net.Close()
		}
	}
	eventually(t, "the log", func() bool { return strings.Contains(log.String(), "client gone") })
	if s := log.String(); strings.Contains(s, "swordfish") {
		t.Errorf("a password is in the log: %s", s)
	}
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
