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

// The books of what is kept: in number and in bytes, to the last one that fits;
// what the robot keeps takes nothing from its clients.
func TestWhatIsKept(t *testing.T) {
	t.Parallel()
	const size = 1024
	message := strings.Repeat("x", size-128-len("t/0"))
	keep := func(pk *packets.Packet) { pk.FixedHeader.Retain = true }
	bubble(t, broker.Options{RetainedBytes: 3 * size}, nil, func(b *clocked) {
		c := b.client(5, "c", nil)
		says := func(topic, payload, want string, kept int, bytes int64) {
			t.Helper()
			c.publish(topic, payload, 1, 1, keep)
			if got := c.hear(); got != want {
				t.Errorf("%s: got %s, want %s", topic, got, want)
			}
			if st := b.Stats(); st.Retained != kept || st.RetainedBytes != bytes || b.Books() != nil {
				t.Errorf("%s: %d kept, %d bytes; want %d, %d; %v", topic, st.Retained, st.RetainedBytes, kept, bytes, b.Books())
			}
		}
		b.publish("r/0", message, 1, true)
		for i := range 3 {
			says(fmt.Sprint("t/", i), message, "Puback 0x0", i+2, int64(i+2)*size)
		}
		says("t/3", "", "Puback 0x0", 4, 4*size)
		says("t/3", "x", "Puback 0x97", 4, 4*size)
		says("t/0", message, "Puback 0x0", 4, 4*size)
		says("t/0", message+"x", "Puback 0x97", 4, 4*size)
		says("r/0", message, "Puback 0x97", 4, 4*size) // it would be the client's then
		says("t/0", "", "Puback 0x0", 3, 3*size)
		says("r/0", message, "Puback 0x0", 3, 3*size)
		says("t/4", message, "Puback 0x97", 3, 3*size)
		b.publish("r/0", "", 1, true)
		says("t/4", message, "Puback 0x0", 3, 3*size)
		b.publish("r/1", message, 1, true)
		if st := b.Stats(); st.Retained != 4 {
			t.Errorf("the robot's own: %+v", st)
		}
		sub := b.client(4, "s", nil)
		sub.subscribe(func(s *packets.Subscription) { s.Qos = 0 }, "#")
		for _, topic := range []string{"t/1", "t/2", "t/4", "r/1"} { // as they came
			if got := sub.hear(); !strings.HasPrefix(got, "Publish "+topic+" ") || !strings.Contains(got, "retain=true") {
				t.Errorf("got %.40s, want %s", got, topic)
			}
		}
		if got := sub.hear(); got != "silence" {
			t.Errorf("got %.40s", got)
		}
	})
}

// A message of MQTT 5 has its time: while it waits, and while it is kept.
func TestMessageExpiry(t *testing.T) {
	t.Parallel()
	bubble(t, broker.Options{}, nil, func(b *clocked) {
		away := b.client(5, "away", lasts(3600))
		away.subscribe(nil, "n")
		away.net.Close()
		synctest.Wait()
		c := b.client(5, "c", nil)
		for i, seconds := range []uint32{10, 0, 30} {
			c.publish("n", fmt.Sprint(seconds), 1, 1, func(pk *packets.Packet) { pk.Properties.MessageExpiryInterval = seconds })
			c.publish(fmt.Sprint("kept/", i), fmt.Sprint(seconds), 0, 0, func(pk *packets.Packet) {
				pk.Properties.MessageExpiryInterval, pk.FixedHeader.Retain = seconds, true
			})
			c.hear()
		}
		time.Sleep(12 * time.Second)
		synctest.Wait()
		away = b.client(5, "away", lasts(3600))
		for _, want := range []packets.Packet{{Payload: []byte("0")}, {Payload: []byte("30"), Properties: packets.Properties{MessageExpiryInterval: 18}}} {
			pk, err := away.read()
			if err != nil || string(pk.Payload) != string(want.Payload) || pk.Properties.MessageExpiryInterval != want.Properties.MessageExpiryInterval {
				t.Errorf("got %q, %d s, %v; want %q, %d s", pk.Payload, pk.Properties.MessageExpiryInterval, err, want.Payload, want.Properties.MessageExpiryInterval)
			}
		}
		if st := b.Stats(); st.Retained != 2 || b.Books() != nil {
			t.Errorf("got %+v, %v", st, b.Books())
		}
	})
}
