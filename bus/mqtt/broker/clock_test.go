package broker_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"edged/bus/mqtt/broker"
)

// pipes is a listener within the process: its clients share the test's clock.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial(t testing.TB, version byte) *client {
	ours, theirs := net.Pipe()
	p.conns <- theirs
	return &client{t, ours, bufio.NewReader(ours), version}
}

// clocked is a broker in a bubble of its own time.
type clocked struct {
	*broker.Broker
	*heard
	t     testing.TB
	pipes *pipes
}

func bubble(t *testing.T, o broker.Options, set func(*broker.Broker), do func(b *clocked)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b := &clocked{t: t, heard: &heard{}, pipes: &pipes{conns: make(chan net.Conn), done: make(chan struct{})}}
		var err error
		if b.Broker, err = broker.On(b.pipes, o); err != nil {
			t.Fatal(err)
		}
		b.Receive(b.take)
		b.Tell(func(_ string, err error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.told = append(b.told, err.Error())
		})
		if set != nil {
			set(b.Broker)
		}
		done := make(chan error, 1)
		go func() { done <- b.Serve(ctx) }()
		do(b)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: got %v, want nil", err)
		}
	})
}

// client is one that is let in; it fails the test otherwise.
func (b *clocked) client(version byte, id string, change func(*packets.Packet)) *client {
	b.t.Helper()
	c, got := b.connect(version, id, change)
	if !strings.HasPrefix(got, "Connack 0x0") {
		b.t.Fatalf("client %s: got %s", id, got)
	}
	return c
}

func (b *clocked) connect(version byte, id string, change func(*packets.Packet)) (*client, string) {
	b.t.Helper()
	c := b.pipes.dial(b.t, version)
	return c, c.connect(id, change)
}

func (b *clocked) publish(topic, payload string, qos byte, retain bool) {
	b.t.Helper()
	if err := b.Publish(topic, []byte(payload), qos, retain); err != nil {
		b.t.Fatal(err)
	}
}

// keeps makes a session last.
func keeps(pk *packets.Packet) {
	pk.Connect.Clean, pk.Properties.SessionExpiryInterval, pk.Properties.SessionExpiryIntervalFlag = false, 3600, true
}

// What a client said before another took its session over changes nothing any
// more: its subscription would stay when nobody is there to end it.
func TestLateWordsOfOneWhoWasReplaced(t *testing.T) {
	t.Parallel()
	var busy chan struct{} // made in the bubble
	bubble(t, broker.Options{}, func(b *broker.Broker) {
		busy = make(chan struct{})
		b.Receive(func(topic string, _ []byte, _ byte, _ bool) error {
			if topic == "slow" {
				<-busy
			}
			return nil
		})
	}, func(b *clocked) {
		b.publish("n", "kept", 1, true)
		first := b.client(4, "same", nil)
		var both bytes.Buffer
		pub := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Publish}, TopicName: "slow", ProtocolVersion: 4}
		sub := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Subscribe, Qos: 1}, PacketID: 1, ProtocolVersion: 4,
			Filters: packets.Subscriptions{{Filter: "n", Qos: 1}}}
		_, _ = pub.PublishEncode(&both), sub.SubscribeEncode(&both)
		_, _ = first.net.Write(both.Bytes())
		synctest.Wait()
		b.client(4, "same", nil)
		close(busy)
		synctest.Wait()
		b.publish("n", "x", 1, false)
		if st := b.Stats(); !b.Quiet("n") || st.Clients != 1 || st.Sessions != 1 || st.Subscriptions != 0 || st.Waiting != 0 || st.WaitingBytes != 0 {
			t.Errorf("a subscription of nobody: %+v", st)
		}
	})
}

// Messages that are larger than a client takes hold up none that are not.
func TestTooLargeForAClient(t *testing.T) {
	t.Parallel()
	bubble(t, broker.Options{}, nil, func(b *clocked) {
		c := b.client(5, "small", func(pk *packets.Packet) { pk.Properties.MaximumPacketSize = 1000 })
		if got := c.subscribe(nil, "n"); got != "Suback 02" {
			t.Fatal(got)
		}
		for i := range 3 {
			for qos := range byte(3) {
				b.publish("n", strings.Repeat("x", 100<<10), qos, false)
			}
			b.publish("n", fmt.Sprint("small ", i), 0, false)
		}
		for i := range 3 {
			if got, want := c.hear(), fmt.Sprintf(`Publish n "small %d"`, i); !strings.HasPrefix(got, want) {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		synctest.Wait()
		if st := b.Stats(); st.Dropped != 9 || st.Waiting != 0 || st.WaitingBytes != 0 || st.Sent != 3 {
			t.Errorf("got %+v", st)
		}
		if _, told := b.all(); !strings.Contains(told, `a message on "n" is larger than what client "small" takes`) {
			t.Errorf("told: %s", told)
		}
	})
}

// A client that is back gets no more at a time than it now takes (MQTT 5
// section 4.9), and what it has not acknowledged before what came since.
func TestReceiveMaximum(t *testing.T) {
	t.Parallel()
	bubble(t, broker.Options{}, nil, func(b *clocked) {
		c := b.client(5, "c", keeps)
		c.subscribe(nil, "n")
		for i := range 5 {
			b.publish("n", fmt.Sprint(i), 1, false)
			c.hear()
		}
		c.net.Close()
		synctest.Wait()
		b.publish("n", "5", 1, false)
		b.publish("n", "6", 0, false) // for who is away: not kept
		c, got := b.connect(5, "c", func(pk *packets.Packet) { keeps(pk); pk.Properties.ReceiveMaximum = 2 })
		if got != "Connack 0x0 present=true" {
			t.Fatal(got)
		}
		var open []uint16
		for i := range 6 {
			pk, err := c.read()
			if err != nil || string(pk.Payload) != fmt.Sprint(i) || pk.FixedHeader.Dup != (i < 5) {
				t.Fatalf("message %d: got %q dup=%v %v", i, pk.Payload, pk.FixedHeader.Dup, err)
			}
			if open = append(open, pk.PacketID); len(open) == 2 {
				if got := c.hear(); got != "silence" {
					t.Fatalf("a third one at a time: %s", got)
				}
				for _, pid := range open {
					c.say(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Puback}, PacketID: pid})
				}
				open = nil
			}
		}
		synctest.Wait()
		if st := b.Stats(); st.Waiting != 0 || st.WaitingBytes != 0 || st.Dropped != 0 {
			t.Errorf("got %+v", st)
		}
	})
}

// An alias stands for the topic that came last with it, be it refused.
func TestAliasOfATopicThatIsTooLong(t *testing.T) {
	t.Parallel()
	bubble(t, broker.Options{}, nil, func(b *clocked) {
		c := b.client(5, "c", nil)
		alias := func(pk *packets.Packet) { pk.Properties.TopicAlias, pk.Properties.TopicAliasFlag = 16, true }
		for i, want := range []string{"Puback 0x0", "Puback 0x90", "Disconnect 0x82"} {
			topic := []string{"arm/move", strings.Repeat("t", 1025), ""}[i]
			c.publish(topic, fmt.Sprint(i+1), 1, uint16(i+1), alias)
			if got := c.hear(); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		if took, _ := b.all(); took != "arm/move 1 false" {
			t.Errorf("taken in: %s", took)
		}
	})
}

// A filter of many levels is charged for each of them: it takes as much memory.
func TestDeepFilters(t *testing.T) {
	t.Parallel()
	bubble(t, broker.Options{Memory: 4 << 20}, nil, func(b *clocked) {
		c := b.client(4, "c", nil)
		taken := 0
		for i := range 20 {
			if c.subscribe(nil, fmt.Sprint(i, strings.Repeat("/a", 500))) == "Suback 02" {
				taken++
			}
		}
		if taken == 0 || taken > 6 {
			t.Errorf("%d filters of 500 levels in a megabyte", taken)
		}
	})
}

// The time of a last will runs from when it is published (MQTT 5 section
// 3.1.3.2.4), not from when its client connected.
func TestExpiryOfAWill(t *testing.T) {
	t.Parallel()
	bubble(t, broker.Options{}, nil, func(b *clocked) {
		sub := b.client(5, "s", nil)
		sub.subscribe(nil, "w")
		c := b.client(5, "c", func(pk *packets.Packet) {
			pk.Connect.Keepalive = 0
			will(pk, "w", 0)
			pk.Connect.WillProperties.MessageExpiryInterval = 30
		})
		for range 3 {
			time.Sleep(50 * time.Second)
			sub.say(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Pingreq}})
			sub.hear()
		}
		c.net.Close()
		pk, err := sub.read()
		if err != nil || string(pk.Payload) != "gone" || pk.Properties.MessageExpiryInterval != 30 {
			t.Errorf("got %q, expires in %d s, %v", pk.Payload, pk.Properties.MessageExpiryInterval, err)
		}
	})
}

// How long the broker waits for a client, to the second.
func TestPatience(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		do   func(b *clocked) *client
		want string
		at   time.Duration
		told string
	}{
		{"no CONNECT", func(b *clocked) *client { return b.pipes.dial(b.t, 5) }, "closed", 10 * time.Second, ""},
		{"half a CONNECT", func(b *clocked) *client {
			c := b.pipes.dial(b.t, 5)
			_, _ = c.net.Write([]byte{0x10, 20, 0})
			return c
		}, "closed", 10 * time.Second, ""},
		{"keep alive", func(b *clocked) *client {
			return b.client(5, "c", func(pk *packets.Packet) { pk.Connect.Keepalive = 10 })
		}, "Disconnect 0x8d", 15 * time.Second, ""},
		{"half a packet", func(b *clocked) *client {
			c := b.client(5, "c", func(pk *packets.Packet) { pk.Connect.Keepalive = 0 })
			_, _ = c.net.Write([]byte{0x30, 20, 0})
			return c
		}, "closed", 30 * time.Second, ""},
		{"what is not taken", func(b *clocked) *client {
			c := b.client(5, "c", nil)
			c.publish("busy", "x", 1, 1, nil)
			return c
		}, "Disconnect 0x89", 10 * time.Second, "was not taken for 10s"},
		{"a client that reads nothing", func(b *clocked) *client {
			c := b.client(5, "c", nil)
			c.subscribe(nil, "n")
			b.publish("n", "x", 0, false)
			time.Sleep(20*time.Second + 1)
			return c
		}, "closed", 20*time.Second + 1, "took nothing for 20s"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			bubble(t, broker.Options{}, func(b *broker.Broker) {
				b.Receive(func(topic string, _ []byte, _ byte, _ bool) error {
					if topic == "busy" {
						return context.DeadlineExceeded
					}
					return nil
				})
			}, func(b *clocked) {
				begin := time.Now()
				c := row.do(b)
				got := "silence"
				for got == "silence" {
					got = c.hear()
				}
				if at := time.Since(begin); got != row.want || at < row.at || at > row.at+20*time.Millisecond {
					t.Errorf("got %s after %v, want %s after %v", got, at, row.want, row.at)
				}
				synctest.Wait()
				slow := uint64(0)
				if row.told != "" && row.want == "closed" {
					slow = 1
				}
				if _, told := b.all(); !strings.Contains(told, row.told) || row.told == "" && told != "" || b.Stats().Slow != slow || b.Stats().Clients != 0 {
					t.Errorf("told: %q; %+v", told, b.Stats())
				}
			})
		})
	}
}
