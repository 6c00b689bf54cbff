package broker_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"edged/bus/mqtt/broker"
)

// lasts makes a session last so many seconds.
func lasts(seconds uint32) func(*packets.Packet) {
	return func(pk *packets.Packet) {
		pk.Connect.Clean, pk.Connect.Keepalive = false, 0
		pk.Properties.SessionExpiryInterval, pk.Properties.SessionExpiryIntervalFlag = seconds, true
	}
}

func anew(pk *packets.Packet) { pk.Connect.Clean = true }

func (c *client) ack(kind byte, pid uint16, code byte) {
	c.t.Helper()
	c.say(packets.Packet{FixedHeader: packets.FixedHeader{Type: kind}, PacketID: pid, ReasonCode: code})
}

// A session lasts as long as its client said, and what waits for it is lost
// with it, and counted.
func TestHowLongASessionLasts(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name     string
		version  byte
		connect  func(*packets.Packet)
		goodbye  func(*packets.Packet)
		away     time.Duration
		sessions int
	}{
		{"3.1.1, clean", 4, anew, nil, time.Second, 0},
		{"3.1.1, kept", 4, lasts(0), nil, time.Hour, 1},
		{"no expiry", 5, lasts(0), nil, time.Second, 0},
		{"not over yet", 5, lasts(100), nil, 98 * time.Second, 1},
		{"over", 5, lasts(100), nil, 102 * time.Second, 0},
		{"for ever", 5, lasts(0xffffffff), nil, time.Hour, 1},
		{"shorter at last", 5, lasts(100), lasts(10), 12 * time.Second, 0},
		{"longer at last", 5, lasts(10), lasts(100), 98 * time.Second, 1},
		{"not kept, but at last", 5, lasts(0), lasts(100), time.Second, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			bubble(t, broker.Options{}, nil, func(b *clocked) {
				c := b.client(row.version, "c", row.connect)
				c.subscribe(nil, "n")
				if row.goodbye != nil {
					pk := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Disconnect}}
					row.goodbye(&pk)
					c.say(pk)
					synctest.Wait()
				}
				c.net.Close()
				synctest.Wait()
				b.publish("n", "waits", 1, false)
				time.Sleep(row.away)
				synctest.Wait()
				st := b.Stats()
				if st.Sessions != row.sessions || st.Subscriptions != row.sessions || st.Waiting != row.sessions || b.Quiet("n") != (row.sessions == 0) {
					t.Errorf("got %+v", st)
				}
				if row.away > time.Second && st.Dropped != uint64(1-row.sessions) {
					t.Errorf("lost: %d", st.Dropped)
				}
				if err := b.Books(); err != nil {
					t.Error(err)
				}
				if _, got := b.connect(row.version, "c", row.connect); got != fmt.Sprintf("Connack 0x0 present=%v", row.sessions == 1) {
					t.Errorf("got %s", got)
				}
			})
		})
	}
}

// A client that begins anew has nothing of before.
func TestBeginsAnew(t *testing.T) {
	t.Parallel()
	bubble(t, broker.Options{}, nil, func(b *clocked) {
		for _, connected := range []bool{true, false} {
			c := b.client(5, "c", lasts(3600))
			c.subscribe(nil, "n")
			if !connected {
				c.net.Close()
				synctest.Wait()
				b.publish("n", "x", 1, false)
			}
			c, got := b.connect(5, "c", func(pk *packets.Packet) { lasts(3600)(pk); anew(pk) })
			if st := b.Stats(); got != "Connack 0x0 present=false" || st.Subscriptions != 0 || st.Sessions != 1 || st.Waiting != 0 {
				t.Errorf("connected=%v: got %s, %+v", connected, got, st)
			}
			if got := c.hear(); got != "silence" {
				t.Errorf("connected=%v: got %s", connected, got)
			}
			c.net.Close()
			synctest.Wait()
		}
	})
}

// When a last will is published: MQTT 5 sections 3.1.2.5, 3.1.3.2.2 and 3.1.4.
func TestWhenAWillIsPublished(t *testing.T) {
	t.Parallel()
	const never = time.Hour
	for _, row := range []struct {
		name           string
		expiry, delay  uint32
		do             func(b *clocked, c *client)
		after, atLeast time.Duration
	}{
		{"lost", 60, 0, func(_ *clocked, c *client) { c.net.Close() }, 0, 0},
		{"lost, later", 60, 10, func(_ *clocked, c *client) { c.net.Close() }, 11 * time.Second, 9 * time.Second},
		{"lost, the session is over first", 5, 60, func(_ *clocked, c *client) { c.net.Close() }, 6 * time.Second, 4 * time.Second},
		{"lost, there is no session", 0, 60, func(_ *clocked, c *client) { c.net.Close() }, 0, 0},
		{"back in time", 60, 10, func(b *clocked, c *client) {
			c.net.Close()
			time.Sleep(5 * time.Second)
			b.client(5, "c", lasts(60))
		}, never, 0},
		{"back anew", 60, 10, func(b *clocked, c *client) {
			c.net.Close()
			synctest.Wait()
			b.client(5, "c", func(pk *packets.Packet) { lasts(60)(pk); anew(pk) })
		}, 0, 0},
		{"taken over", 60, 0, func(b *clocked, c *client) { b.client(5, "c", lasts(60)) }, 0, 0},
		{"taken over in time", 60, 10, func(b *clocked, c *client) { b.client(5, "c", lasts(60)) }, never, 0},
		{"taken over anew", 60, 10, func(b *clocked, c *client) {
			b.client(5, "c", func(pk *packets.Packet) { lasts(60)(pk); anew(pk) })
		}, 0, 0},
		{"goodbye", 60, 0, func(_ *clocked, c *client) {
			c.say(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Disconnect}})
		}, never, 0},
		{"goodbye with will", 60, 0, func(_ *clocked, c *client) {
			c.say(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Disconnect}, ReasonCode: 4})
		}, 0, 0},
		{"given up for another", 60, 30, func(b *clocked, c *client) {
			c.net.Close()
			time.Sleep(time.Second)
			b.client(5, "other", lasts(60)).net.Close()
		}, 0, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			bubble(t, broker.Options{Sessions: 1}, nil, func(b *clocked) {
				c := b.client(5, "c", func(pk *packets.Packet) { lasts(row.expiry)(pk); will(pk, "w", row.delay) })
				row.do(b, c)
				synctest.Wait()
				is := func(when string, want bool) {
					t.Helper()
					if took, _ := b.all(); (took == "w gone false") != want || !want && took != "" {
						t.Errorf("%s: %q", when, took)
					}
				}
				if row.atLeast > 0 {
					time.Sleep(row.atLeast)
					is("too early", false)
				}
				time.Sleep(row.after - row.atLeast)
				synctest.Wait()
				is("then", row.after != never)
				time.Sleep(2 * time.Minute)
				is("once", row.after != never)
				if err := b.Books(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// The broker's end is not the end of its clients: no will is published.
func TestNoWillAtTheEnd(t *testing.T) {
	t.Parallel()
	var h *heard
	bubble(t, broker.Options{}, nil, func(b *clocked) {
		h = b.heard
		b.client(5, "c", func(pk *packets.Packet) { will(pk, "w", 0) })
	})
	if took, _ := h.all(); took != "" {
		t.Errorf("taken in: %s", took)
	}
}

// When memory is short, the one for whom most waits loses its oldest message.
func TestWhoLosesMessages(t *testing.T) {
	t.Parallel()
	const size = 1024
	message := strings.Repeat("x", size-128-len("big")) // what a message takes beside its bytes: 128
	bubble(t, broker.Options{Memory: 10 * size}, nil, func(b *clocked) {
		for _, id := range []string{"big", "one"} {
			c := b.client(4, id, lasts(0))
			c.subscribe(func(s *packets.Subscription) { s.Qos = 1 }, id)
			c.net.Close()
			synctest.Wait()
		}
		state := func(waiting int, bytes int64, dropped uint64) {
			t.Helper()
			if st := b.Stats(); st.Waiting != waiting || st.WaitingBytes != bytes || st.Dropped != dropped {
				t.Errorf("got %d waiting, %d bytes, %d lost; want %d, %d, %d", st.Waiting, st.WaitingBytes, st.Dropped, waiting, bytes, dropped)
			}
			if err := b.Books(); err != nil {
				t.Error(err)
			}
		}
		b.publish("one", message, 1, false)
		for i := range 9 {
			b.publish("big", fmt.Sprint(i)+message[1:], 1, false)
		}
		b.publish("big", "", 0, false) // QoS 0: not kept for who is away
		state(10, 10*size, 0)
		b.publish("one", message, 1, false)
		state(10, 10*size, 1)
		b.publish("big", "9"+message[1:], 1, false)
		state(10, 10*size, 2)
		b.publish("one", strings.Repeat("x", 10*size), 1, false) // larger than all there is
		c := b.client(4, "big", lasts(0))
		if got := c.hear(); got != "silence" {
			t.Errorf("who had most has something left: %.40s", got)
		}
		state(0, 0, 13)
		if _, told := b.all(); !strings.Contains(told, `client "big" is away: messages for it are lost`) {
			t.Errorf("told: %s", told)
		}
	})
}

// What was sent to a client that went away before it acknowledged is given up
// when there is no room for it.
func TestUnacknowledgedIsGivenUp(t *testing.T) {
	t.Parallel()
	bubble(t, broker.Options{Queue: 3}, nil, func(b *clocked) {
		c := b.client(4, "c", lasts(0))
		c.subscribe(nil, "n")
		for i := range 3 {
			b.publish("n", fmt.Sprint(i), 1, false)
			c.hear()
		}
		c.net.Close()
		synctest.Wait()
		b.publish("n", "3", 1, false)
		if st := b.Stats(); st.Waiting != 3 || st.Dropped != 1 {
			t.Errorf("got %+v", st)
		}
		c = b.client(4, "c", lasts(0))
		for i := 1; i <= 3; i++ {
			if got := c.hear(); !strings.HasPrefix(got, fmt.Sprintf("Publish n %q", fmt.Sprint(i))) || strings.Contains(got, "dup=true") != (i < 3) {
				t.Errorf("message %d: got %s", i, got)
			}
		}
	})
}

// So many messages are on their way to a client at a time; QoS 0 keeps its place
// among them.
func TestWindow(t *testing.T) {
	t.Parallel()
	bubble(t, broker.Options{}, nil, func(b *clocked) {
		c := b.client(4, "c", nil)
		c.subscribe(nil, "n")
		for i := range 64 {
			b.publish("n", fmt.Sprint(i), 1, false)
		}
		b.publish("n", "64", 0, false)
		b.publish("n", "65", 1, false)
		b.publish("n", "66", 0, false)
		for i := range 65 {
			pk, err := c.read()
			if err != nil || string(pk.Payload) != fmt.Sprint(i) || pk.PacketID != uint16(i+1)%65 {
				t.Fatalf("message %d: got %q, number %d, %v", i, pk.Payload, pk.PacketID, err)
			}
		}
		if got := c.hear(); got != "silence" {
			t.Errorf("more than 64: %s", got)
		}
		c.ack(packets.Puback, 10, 0)
		for i := 65; i <= 66; i++ {
			if pk, err := c.read(); err != nil || string(pk.Payload) != fmt.Sprint(i) {
				t.Errorf("message %d: got %q, %v", i, pk.Payload, err)
			}
		}
	})
}

// Acknowledgements in odd order, of what was never sent, and twice.
func TestOddAcknowledgements(t *testing.T) {
	t.Parallel()
	bubble(t, broker.Options{}, nil, func(b *clocked) {
		c := b.client(5, "c", lasts(3600))
		c.subscribe(nil, "n")
		waiting := func(when string, n int, bytes int64) {
			t.Helper()
			synctest.Wait()
			if st := b.Stats(); st.Waiting != n || st.WaitingBytes != bytes {
				t.Errorf("%s: %d waiting, %d bytes; want %d, %d", when, st.Waiting, st.WaitingBytes, n, bytes)
			}
		}
		says := func(want string) {
			t.Helper()
			if got := c.hear(); !strings.HasPrefix(got, want) {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		const size = 128 + 1 + 3
		b.publish("n", "one", 1, false)
		says(`Publish n "one" qos=1`)
		b.publish("n", "two", 2, false)
		says(`Publish n "two" qos=2`)
		for _, odd := range []struct {
			kind byte
			pid  uint16
		}{{packets.Puback, 2}, {packets.Pubcomp, 2}, {packets.Pubcomp, 1}, {packets.Puback, 0}, {packets.Puback, 77}} {
			c.ack(odd.kind, odd.pid, 0)
		}
		waiting("odd ones end nothing", 2, 2*size)
		for _, pid := range []uint16{1, 77} { // QoS 1, and never sent
			c.ack(packets.Pubrec, pid, 0)
			says("Pubrel 0x92")
		}
		waiting("nor does PUBREC of QoS 1", 2, 2*size)
		c.ack(packets.Puback, 1, 0)
		waiting("QoS 1 is acknowledged", 1, size)
		for range 2 {
			c.ack(packets.Pubrec, 2, 0)
			says("Pubrel 0x0")
			waiting("the client has it: only the number is needed", 1, 128)
		}
		c.net.Close()
		synctest.Wait()
		c = b.client(5, "c", lasts(3600))
		says("Pubrel 0x0")
		c.ack(packets.Pubcomp, 2, 0)
		waiting("QoS 2 is acknowledged", 0, 0)
		for _, qos := range []byte{1, 2} { // refused by the client: over
			b.publish("n", "three", qos, false)
			pk, err := c.read()
			if err != nil {
				t.Fatal(err)
			}
			c.ack(map[byte]byte{1: packets.Puback, 2: packets.Pubrec}[qos], pk.PacketID, 0x80)
			waiting("refused", 0, 0)
		}
		if got := c.hear(); got != "silence" {
			t.Errorf("an answer to what was refused: %s", got)
		}
	})
}

// MQTT 5 limits how many QoS 2 messages may be open towards the broker; their
// numbers can be used again when they are released.
func TestOpenMessagesOfAClient(t *testing.T) {
	t.Parallel()
	for version, want := range map[byte]string{4: "Pubrec 0x0", 5: "Disconnect 0x93"} {
		bubble(t, broker.Options{}, nil, func(b *clocked) {
			c := b.client(version, "c", nil)
			publish := func(pid uint16, want string) {
				t.Helper()
				c.publish("n", "x", 2, pid, nil)
				if got := c.hear(); got != want {
					t.Fatalf("version %d, number %d: got %s, want %s", version, pid, got, want)
				}
			}
			for i := range uint16(256) {
				publish(65535-i, "Pubrec 0x0")
			}
			publish(65535, "Pubrec 0x0") // again
			for i, want := range []string{"Pubcomp 0x0", "Pubcomp 0x92"} {
				if version == 4 {
					want = "Pubcomp 0x0"
				}
				c.ack(packets.Pubrel, 65535, 0)
				if got := c.hear(); got != want {
					t.Errorf("version %d: release %d: got %s", version, i, got)
				}
			}
			publish(65535, "Pubrec 0x0")
			publish(1, want)
			if st := b.Stats(); st.Received != 257+uint64(5-version) {
				t.Errorf("version %d: taken in: %d", version, st.Received)
			}
		})
	}
}

// Who takes a session over has it: the end of the connection before is not its
// end.
func TestTakenOver(t *testing.T) {
	t.Parallel()
	bubble(t, broker.Options{}, nil, func(b *clocked) {
		first := b.client(5, "c", lasts(60))
		first.subscribe(nil, "n")
		second, got := b.connect(5, "c", lasts(60))
		if got != "Connack 0x0 present=true" {
			t.Errorf("got %s", got)
		}
		if got := first.hear(); got != "Disconnect 0x8e" {
			t.Errorf("the first: got %s", got)
		}
		synctest.Wait()
		b.publish("n", "x", 0, false)
		if got := second.hear(); !strings.HasPrefix(got, `Publish n "x"`) || b.Stats().Clients != 1 {
			t.Errorf("the second: got %s, %+v", got, b.Stats())
		}
	})
}
