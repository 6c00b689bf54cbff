package broker_test

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"edged/bus/mqtt/broker"
)

// Whatever a client says, it harms nobody else: no panic, no hang, nothing left
// behind that no session accounts for, no more memory than was given; and the
// next client is served.
func FuzzConnection(f *testing.F) {
	packet := func(version byte, encode func(*packets.Packet, *bytes.Buffer) error, pk packets.Packet) []byte {
		var buf bytes.Buffer
		pk.ProtocolVersion = version
		pk.Mods.AllowResponseInfo = true
		if err := encode(&pk, &buf); err != nil {
			f.Fatal(err)
		}
		return buf.Bytes()
	}
	kind := func(k, qos byte) packets.FixedHeader { return packets.FixedHeader{Type: k, Qos: qos} }
	for _, v := range []byte{4, 5} {
		connect := packets.Packet{FixedHeader: kind(packets.Connect, 0)}
		connect.Connect = packets.ConnectParams{ProtocolName: []byte("MQTT"), ClientIdentifier: "f", Clean: v == 4}
		will(&connect, "w", 1)
		hello := packet(v, (*packets.Packet).ConnectEncode, connect)
		publish := func(topic string, qos byte, pid uint16, retain bool) []byte {
			h := kind(packets.Publish, qos)
			h.Retain = retain
			return packet(v, (*packets.Packet).PublishEncode, packets.Packet{FixedHeader: h, PacketID: pid, TopicName: topic, Payload: []byte("x")})
		}
		subscribe := func(filters ...string) []byte {
			pk := packets.Packet{FixedHeader: kind(packets.Subscribe, 1), PacketID: 1}
			for _, f := range filters {
				pk.Filters = append(pk.Filters, packets.Subscription{Filter: f, Qos: 2})
			}
			return packet(v, (*packets.Packet).SubscribeEncode, pk)
		}
		pubrel := packet(v, (*packets.Packet).PubrelEncode, packets.Packet{FixedHeader: kind(packets.Pubrel, 1), PacketID: 2})
		pubrec := packet(v, (*packets.Packet).PubrecEncode, packets.Packet{FixedHeader: kind(packets.Pubrec, 0), PacketID: 1})
		pubcomp := packet(v, (*packets.Packet).PubcompEncode, packets.Packet{FixedHeader: kind(packets.Pubcomp, 0), PacketID: 1})
		puback := packet(v, (*packets.Packet).PubackEncode, packets.Packet{FixedHeader: kind(packets.Puback, 0), PacketID: 1})
		bye := packet(v, (*packets.Packet).DisconnectEncode, packets.Packet{FixedHeader: kind(packets.Disconnect, 0)})
		for _, said := range [][]byte{
			bytes.Join([][]byte{subscribe("#"), publish("a", 2, 2, true), publish("a", 2, 2, false), pubrec, pubcomp, pubrec, pubrel, pubrel, bye}, nil),
			bytes.Join([][]byte{subscribe("$share/g/a", "$share/g", "$share//a", "$share/+/a", "$share/g/", "$share/g/$share/h/a", "$SYS/#"), publish("a", 1, 1, false), puback}, nil),
			bytes.Join([][]byte{pubcomp, pubrel, puback, pubrec, publish("a", 1, 0xffff, false), publish("a", 0, 0, true)}, nil),
			bytes.Join([][]byte{publish("robot/x", 1, 1, true), publish("a/+", 1, 2, false)}, nil),
			bytes.Join([][]byte{subscribe("a/"+strings.Repeat("/", 900), "a/#/b"), hello}, nil),
			{0x32, 5, 0, 1, 'a', 0, 0}, // packet identifier 0
			{0x82, 2, 0, 1},            // no filter
			{0x30, 0xff, 0xff, 0x7f, 'x'},
		} {
			f.Add(hello, said)
		}
	}
	f.Fuzz(func(t *testing.T, hello, said []byte) {
		var log lockedBuffer
		o := broker.Options{MaxPacket: 4096, Queue: 8, Memory: 64 << 10, Retained: 4, RetainedBytes: 4096, Filters: 4, Sessions: 2,
			Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))}
		bubble(t, o, func(b *broker.Broker) {
			b.Reserve(func(topic string) bool { return strings.HasPrefix(topic, "robot/") })
		}, func(b *clocked) {
			watch := b.client(4, "watch", func(pk *packets.Packet) { pk.Connect.Keepalive = 0 })
			if got := watch.subscribe(func(s *packets.Subscription) { s.Qos = 0 }, "end"); got != "Suback 00" {
				t.Fatal(got)
			}
			for range 2 { // the second time over what the first left
				c := b.pipes.dial(t, 4)
				go io.Copy(io.Discard, c.net)
				go func() {
					_, _ = c.net.Write(hello)
					_, _ = c.net.Write(said)
				}()
				synctest.Wait()
				b.publish("a", "from the robot", 2, false)
				synctest.Wait()
				if err := b.Books(); err != nil {
					t.Error(err)
				}
				time.Sleep(3 * time.Second)
				c.net.Close()
				synctest.Wait()
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if err := b.Books(); err != nil {
				t.Error(err)
			}
			st := b.Stats()
			if st.Clients != 1 || st.Sessions > 3 || st.WaitingBytes > o.Memory || st.Waiting > 3*o.Queue || st.Retained > o.Retained || st.RetainedBytes > o.RetainedBytes {
				t.Errorf("got %+v", st)
			}
			b.publish("end", "last", 0, false)
			for got := ""; !strings.Contains(got, `"last"`); {
				if got = watch.hear(); !strings.HasPrefix(got, "Publish end") {
					t.Fatalf("who watches got %s", got)
				}
			}
		})
		if s := log.String(); s != "" {
			t.Errorf("log: %s", s)
		}
	})
}
