package mqtt_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"edged/bus/mqtt"
	"edged/tests/peer"
)

// A QoS 2 message that the broker sends again before it has released its number,
// over the same connection or the next, is one message.
func TestExactlyOnceIn(t *testing.T) {
	t.Parallel()
	message := func(flags, text byte) []byte { return []byte{0x34 | flags, 8, 0, 3, 't', 'w', 'o', 0, 7, text} }
	const dup = 8
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var acks []string
	var serving sync.WaitGroup
	t.Cleanup(func() { l.Close(); serving.Wait() })
	serving.Go(func() {
		for n := byte(0); ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				in := bufio.NewReader(c)
				for pubrecs := 0; ; {
					kind, _ := in.ReadByte()
					size, err := in.ReadByte() // nothing here is longer than 127 bytes
					if err != nil {
						return
					}
					p := make([]byte, size)
					if _, err := io.ReadFull(in, p); err != nil {
						return
					}
					switch kind & 0xf0 {
					case 0x10: // CONNECT; the second time there is a session
						_, _ = c.Write([]byte{0x20, 2, min(n, 1), 0})
					case 0x30: // PUBLISH, the robot's status and its markers
						topic := int(p[1])
						if kind&6 == 2 {
							_, _ = c.Write([]byte{0x40, 2, p[2+topic], p[3+topic]})
						}
					case 0x80: // SUBSCRIBE
						_, _ = c.Write(append([]byte{0x90, 4, p[0], p[1]}, 2, 2)[:4+2])
						if n == 0 {
							_, _ = c.Write(slices.Concat(message(0, '1'), message(dup, '1')))
						} else {
							_, _ = c.Write(slices.Concat(message(dup, '1'), []byte{0x62, 2, 0, 7}, message(0, '2')))
						}
					case 0x50: // PUBREC
						mu.Lock()
						acks = append(acks, fmt.Sprintf("%d:%x", n, p))
						mu.Unlock()
						if pubrecs++; n == 0 && pubrecs == 2 {
							return // the connection is lost before PUBREL
						}
					}
				}
			})
		}
	})
	r := newRobot(t, mqtt.Options{URL: "tcp://" + l.Addr().String(), ClientID: "once", Backoff: time.Millisecond,
		Mapping: mqtt.Mapping{Subscribe: []mqtt.Route{{Filter: "two", QoS: 2}}}})
	got := r.hear(t, "two")
	peer.Eventually(t, 20*time.Second, "the next message", func() bool {
		all := got.events()
		return len(all) > 0 && fmt.Sprint(all[len(all)-1].Payload()) == "2"
	})
	if all := got.events(); len(all) != 2 {
		t.Errorf("got %d events, want 2", len(all))
	}
	peer.Eventually(t, 20*time.Second, "an acknowledgement on each connection", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return slices.Contains(acks, "0:0007") && slices.Contains(acks, "1:0007")
	})
}
