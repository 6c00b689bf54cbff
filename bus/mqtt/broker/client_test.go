package broker_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"edged/bus/mqtt/broker"
	"edged/tests/peer"
)

// client is a client that says what it is told to, wrong things too.
type client struct {
	t       testing.TB
	net     net.Conn
	in      *bufio.Reader
	version byte
}

func dial(t testing.TB, port string, version byte) *client {
	t.Helper()
	c, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &client{t, c, bufio.NewReader(c), version}
}

// connect says CONNECT and gives the answer.
func connect(t testing.TB, port string, version byte, id string, change func(*packets.Packet)) (*client, string) {
	t.Helper()
	c := dial(t, port, version)
	return c, c.connect(id, change)
}

func (c *client) connect(id string, change func(*packets.Packet)) string {
	c.t.Helper()
	pk := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Connect}}
	pk.Connect = packets.ConnectParams{ProtocolName: []byte("MQTT"), ClientIdentifier: id, Keepalive: 60, Clean: true}
	if change != nil {
		change(&pk)
	}
	c.say(pk)
	return c.hear()
}

func (c *client) say(pk packets.Packet) {
	c.t.Helper()
	pk.ProtocolVersion = c.version
	pk.Mods.AllowResponseInfo = true
	var buf bytes.Buffer
	var err error
	switch pk.FixedHeader.Type {
	case packets.Connect:
		err = pk.ConnectEncode(&buf)
	case packets.Publish:
		err = pk.PublishEncode(&buf)
	case packets.Pubrel:
		pk.FixedHeader.Qos = 1
		err = pk.PubrelEncode(&buf)
	case packets.Puback:
		err = pk.PubackEncode(&buf)
	case packets.Pubrec:
		err = pk.PubrecEncode(&buf)
	case packets.Pubcomp:
		err = pk.PubcompEncode(&buf)
	case packets.Subscribe:
		pk.FixedHeader.Qos = 1
		err = pk.SubscribeEncode(&buf)
	case packets.Unsubscribe:
		pk.FixedHeader.Qos = 1
		err = pk.UnsubscribeEncode(&buf)
	case packets.Disconnect:
		err = pk.DisconnectEncode(&buf)
	case packets.Auth:
		err = pk.AuthEncode(&buf)
	case packets.Pingreq:
		err = pk.PingreqEncode(&buf)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.net.Write(buf.Bytes()); err != nil {
		c.t.Logf("write: %v", err)
	}
}

// read gives the next packet; no answer within four seconds is an error.
func (c *client) read() (packets.Packet, error) {
	_ = c.net.SetReadDeadline(time.Now().Add(4 * time.Second))
	pk := packets.Packet{ProtocolVersion: c.version}
	b, err := c.in.ReadByte()
	if err != nil {
		return pk, err
	}
	if err := pk.FixedHeader.Decode(b); err != nil {
		return pk, err
	}
	n, _, err := packets.DecodeLength(c.in)
	if err != nil {
		return pk, err
	}
	pk.FixedHeader.Remaining = n
	buf := make([]byte, n)
	if _, err := io.ReadFull(c.in, buf); err != nil {
		return pk, err
	}
	switch pk.FixedHeader.Type {
	case packets.Connack:
		err = pk.ConnackDecode(buf)
	case packets.Publish:
		err = pk.PublishDecode(buf)
	case packets.Puback:
		err = pk.PubackDecode(buf)
	case packets.Pubrec:
		err = pk.PubrecDecode(buf)
	case packets.Pubrel:
		err = pk.PubrelDecode(buf)
	case packets.Pubcomp:
		err = pk.PubcompDecode(buf)
	case packets.Suback:
		err = pk.SubackDecode(buf)
	case packets.Unsuback:
		err = pk.UnsubackDecode(buf)
	case packets.Disconnect:
		err = pk.DisconnectDecode(buf)
	}
	return pk, err
}

// hear gives the next packet in words.
func (c *client) hear() string {
	c.t.Helper()
	pk, err := c.read()
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "silence"
	case err != nil:
		return "closed"
	}
	name := packets.PacketNames[pk.FixedHeader.Type]
	switch pk.FixedHeader.Type {
	case packets.Connack:
		return fmt.Sprintf("%s %#x present=%v", name, pk.ReasonCode, pk.SessionPresent)
	case packets.Publish:
		p := pk.Properties
		return fmt.Sprintf("%s %s %q qos=%d retain=%v dup=%v user=%v type=%q response=%q correlation=%q format=%d ids=%v expires=%v",
			name, pk.TopicName, pk.Payload, pk.FixedHeader.Qos, pk.FixedHeader.Retain, pk.FixedHeader.Dup,
			p.User, p.ContentType, p.ResponseTopic, p.CorrelationData, p.PayloadFormat, p.SubscriptionIdentifier, p.MessageExpiryInterval > 0)
	case packets.Suback, packets.Unsuback:
		return fmt.Sprintf("%s %x", name, pk.ReasonCodes)
	}
	return fmt.Sprintf("%s %#x", name, pk.ReasonCode)
}

func (c *client) publish(topic, payload string, qos byte, pid uint16, change func(*packets.Packet)) {
	c.t.Helper()
	pk := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: qos}, TopicName: topic, Payload: []byte(payload), PacketID: pid}
	if change != nil {
		change(&pk)
	}
	c.say(pk)
}

func (c *client) subscribe(change func(*packets.Subscription), filters ...string) string {
	c.t.Helper()
	pk := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Subscribe}, PacketID: 7}
	for _, f := range filters {
		s := packets.Subscription{Filter: f, Qos: 2}
		if change != nil {
			change(&s)
		}
		if s.Identifier > 0 {
			pk.Properties.SubscriptionIdentifier = []int{s.Identifier}
		}
		pk.Filters = append(pk.Filters, s)
	}
	c.say(pk)
	return c.hear()
}

// What a client sees of this broker is what it sees of mosquitto, in MQTT 3.1.1
// and in MQTT 5: properties, request and response, reason codes, wills.
func TestAsMosquitto(t *testing.T) {
	t.Parallel()
	acl := filepath.Join(t.TempDir(), "acl")
	if err := os.WriteFile(acl, []byte("topic readwrite ok/#\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	m := peer.NewMosquitto(t, "listener %PORT% 127.0.0.1\nallow_anonymous true\nacl_file "+acl+"\n")
	m.Start()
	anonymous := broker.User{Name: "u", Password: "p", Read: []string{"ok/#"}, Write: []string{"ok/#"}}
	_, port := serve(t, broker.Options{Users: []broker.User{anonymous}}, nil)
	for _, row := range []struct {
		name string
		do   func(b *brokered) []string
		want []string // where mosquitto does what the standard doesn't say; else mosquitto is asked
	}{
		{"properties pass, and a PUBACK has none", func(b *brokered) []string {
			sub, pub := b.client(5, "s", nil), b.client(5, "p", nil)
			said := []string{sub.subscribe(nil, "ok/+")}
			for qos := range byte(3) {
				pub.publish("ok/x", "hi", qos, uint16(qos), func(pk *packets.Packet) {
					pk.Properties = packets.Properties{ContentType: "text/plain", ResponseTopic: "ok/answer", CorrelationData: []byte("42"),
						PayloadFormat: 1, PayloadFormatFlag: true, MessageExpiryInterval: 100,
						User: []packets.UserProperty{{Key: "a", Val: "1"}, {Key: "a", Val: "2"}}}
				})
				if qos > 0 {
					said = append(said, pub.hear())
				}
				if qos == 2 {
					pub.say(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Pubrel}, PacketID: 2})
					said = append(said, pub.hear())
				}
				said = append(said, sub.hear())
			}
			return said
		}, nil},
		{"request and response", func(b *brokered) []string {
			asks, answers := b.client(5, "asks", nil), b.client(5, "answers", nil)
			said := []string{asks.subscribe(nil, "ok/answer"), answers.subscribe(nil, "ok/ask")}
			asks.publish("ok/ask", "time?", 0, 0, func(pk *packets.Packet) {
				pk.Properties.ResponseTopic, pk.Properties.CorrelationData = "ok/answer", []byte{0, 1, 2}
			})
			q, err := answers.read()
			if err != nil {
				return append(said, err.Error())
			}
			answers.publish(q.Properties.ResponseTopic, "noon", 0, 0, func(pk *packets.Packet) { pk.Properties.CorrelationData = q.Properties.CorrelationData })
			return append(said, asks.hear())
		}, nil},
		{"identifiers, no local, retain as published, retain handling", func(b *brokered) []string {
			c := b.client(5, "c", nil)
			c.publish("ok/r", "kept", 0, 0, func(pk *packets.Packet) { pk.FixedHeader.Retain = true })
			said := []string{
				c.subscribe(func(s *packets.Subscription) { s.Identifier, s.RetainAsPublished, s.Qos = 9, true, 0 }, "ok/r"), c.hear(),
				c.subscribe(func(s *packets.Subscription) { s.RetainHandling, s.RetainAsPublished, s.Qos = 1, true, 0 }, "ok/r"),
				c.subscribe(func(s *packets.Subscription) { s.RetainHandling, s.RetainAsPublished, s.Qos = 2, true, 0 }, "ok/r"),
				c.subscribe(func(s *packets.Subscription) { s.NoLocal, s.Qos = true, 0 }, "ok/local"),
			}
			c.publish("ok/local", "mine", 0, 0, nil)
			c.publish("ok/r", "gone", 0, 0, nil)
			said = append(said, c.hear())
			c.publish("ok/r", "", 0, 0, func(pk *packets.Packet) { pk.FixedHeader.Retain = true })
			return append(said, c.hear())
		}, nil},
		{"a topic alias", func(b *brokered) []string {
			sub, pub := b.client(5, "s", nil), b.client(5, "p", nil)
			said := []string{sub.subscribe(func(s *packets.Subscription) { s.Qos = 0 }, "ok/#")}
			alias := func(pk *packets.Packet) { pk.Properties.TopicAlias, pk.Properties.TopicAliasFlag = 3, true }
			pub.publish("ok/long/topic", "1", 0, 0, alias)
			pub.publish("", "2", 0, 0, alias)
			return append(said, sub.hear(), sub.hear())
		}, nil},
		{"a topic alias that was not offered", func(b *brokered) []string {
			c := b.client(5, "p", nil)
			c.publish("ok/x", "3", 0, 0, func(pk *packets.Packet) { pk.Properties.TopicAlias, pk.Properties.TopicAliasFlag = 999, true })
			return []string{c.hear(), c.hear()}
		}, []string{"Disconnect 0x94", "closed"}},
		{"what is not allowed", func(b *brokered) []string {
			var said []string
			for _, version := range []byte{4, 5} {
				c := b.client(version, "c", nil)
				said = append(said, c.subscribe(nil, "ok/a", "no/a"))
				c.publish("no/b", "x", 1, 4, nil)
				said = append(said, c.hear())
				c.say(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Pingreq}})
				said = append(said, c.hear())
			}
			return said
		}, []string{"Suback 0280", "Puback 0x0", "Pingresp 0x0", "Suback 0287", "Puback 0x87", "Pingresp 0x0"}},
		{"an unknown filter, AUTH, and a method that is not offered", func(b *brokered) []string {
			c := b.client(5, "c", nil)
			c.say(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Unsubscribe}, PacketID: 3, Filters: packets.Subscriptions{{Filter: "ok/never"}}})
			said := []string{c.hear()}
			c.say(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Auth}})
			said = append(said, c.hear(), c.hear())
			_, answer := b.connect(5, "m", func(pk *packets.Packet) { pk.Properties.AuthenticationMethod = "SCRAM-SHA-1" })
			return append(said, answer)
		}, []string{"Unsuback 11", "Disconnect 0x82", "closed", "Connack 0x8c present=false"}},
		{"a client that is taken over", func(b *brokered) []string {
			first := b.client(5, "same", func(pk *packets.Packet) {
				pk.Properties.SessionExpiryInterval, pk.Properties.SessionExpiryIntervalFlag = 60, true
			})
			said := []string{first.subscribe(nil, "ok/t")}
			_, answer := b.connect(5, "same", func(pk *packets.Packet) { pk.Connect.Clean = false })
			return append(said, answer, first.hear(), first.hear())
		}, []string{"Suback 02", "Connack 0x0 present=true", "Disconnect 0x8e", "closed"}},
		{"a will, at once and later", func(b *brokered) []string {
			sub := b.client(5, "s", nil)
			said := []string{sub.subscribe(nil, "ok/will/#")}
			for _, delay := range []uint32{0, 1} {
				c := b.client(5, "w", func(pk *packets.Packet) {
					pk.Properties.SessionExpiryInterval, pk.Properties.SessionExpiryIntervalFlag = 60, true
					will(pk, "ok/will/x", delay)
				})
				c.net.Close()
				said = append(said, sub.hear())
			}
			c := b.client(5, "w3", func(pk *packets.Packet) { will(pk, "ok/will/void", 0) })
			c.say(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Disconnect}})
			c.hear()
			c = b.client(5, "w4", func(pk *packets.Packet) { will(pk, "ok/will/said", 0) })
			c.say(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Disconnect}, ReasonCode: 4})
			return append(said, sub.hear())
		}, nil},
		{"a will whose session ends before its delay", func(b *brokered) []string {
			sub := b.client(5, "s", nil)
			said := []string{sub.subscribe(nil, "ok/ends")}
			c := b.client(5, "w", func(pk *packets.Packet) { will(pk, "ok/ends", 60) })
			c.net.Close()
			return append(said, sub.hear()[:20])
		}, []string{"Suback 02", "Publish ok/ends \"gon"}},
		{"a will that waits is void when the client is back", func(b *brokered) []string {
			keep := func(pk *packets.Packet) {
				pk.Connect.Clean, pk.Properties.SessionExpiryInterval, pk.Properties.SessionExpiryIntervalFlag = false, 60, true
			}
			sub := b.client(5, "s", nil)
			said := []string{sub.subscribe(nil, "ok/back")}
			c := b.client(5, "w", func(pk *packets.Packet) { keep(pk); will(pk, "ok/back", 1) })
			c.net.Close()
			b.client(5, "w", keep)
			return append(said, sub.hear())
		}, nil},
		{"a QoS 2 message that is sent again is one message", func(b *brokered) []string {
			var said []string
			sub := b.client(4, "s", nil)
			said = append(said, sub.subscribe(func(s *packets.Subscription) { s.Qos = 0 }, "ok/twice"))
			keep := func(pk *packets.Packet) { pk.Connect.Clean = false }
			c := b.client(4, "twice", keep)
			c.publish("ok/twice", "1", 2, 5, nil)
			said = append(said, c.hear())
			again := func(pk *packets.Packet) { pk.FixedHeader.Dup = true }
			c.publish("ok/twice", "1", 2, 5, again)
			said = append(said, c.hear())
			c.net.Close()
			c = b.client(4, "twice", keep)
			c.publish("ok/twice", "1", 2, 5, again)
			said = append(said, c.hear())
			for range 2 {
				c.say(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Pubrel}, PacketID: 5})
				said = append(said, c.hear())
			}
			c.publish("ok/twice", "2", 2, 5, nil)
			said = append(said, c.hear())
			c.say(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Pubrel}, PacketID: 5})
			return append(said, c.hear(), sub.hear(), sub.hear())
		}, nil},
		{"a shared subscription", func(b *brokered) []string {
			one, two, pub := b.client(5, "one", nil), b.client(5, "two", nil), b.client(5, "p", nil)
			qos0 := func(s *packets.Subscription) { s.Qos = 0 }
			said := []string{one.subscribe(qos0, "$share/g/ok/s"), two.subscribe(qos0, "$share/g/ok/s"), one.subscribe(qos0, "ok/end"), two.subscribe(qos0, "ok/end")}
			for range 4 {
				pub.publish("ok/s", "work", 0, 0, nil)
			}
			pub.publish("ok/end", "", 0, 0, nil)
			n := 0
			for _, c := range []*client{one, two} {
				for got := c.hear(); strings.HasPrefix(got, "Publish ok/s"); got = c.hear() {
					n++
				}
			}
			return append(said, fmt.Sprint(n))
		}, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got := row.do(&brokered{t, port, "u", "ours "})
			want := row.want
			if want == nil {
				want = row.do(&brokered{t, m.Port, "", "theirs "})
			}
			if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
				t.Errorf("got:\n%s\nwant:\n%s", g, w)
			}
		})
	}
}

func will(pk *packets.Packet, topic string, delay uint32) {
	pk.Connect.WillFlag, pk.Connect.WillTopic, pk.Connect.WillPayload = true, topic, []byte("gone")
	pk.Connect.WillProperties.WillDelayInterval = delay
	pk.Connect.WillProperties.User = []packets.UserProperty{{Key: "k", Val: "v"}}
}

// brokered is one of the two brokers.
type brokered struct {
	t          testing.TB
	port, user string
	prefix     string
}

func (b *brokered) connect(version byte, id string, change func(*packets.Packet)) (*client, string) {
	return connect(b.t, b.port, version, fmt.Sprint(b.prefix, b.t.Name(), id), func(pk *packets.Packet) {
		if b.user != "" {
			pk.Connect.UsernameFlag, pk.Connect.Username = true, []byte(b.user)
			pk.Connect.PasswordFlag, pk.Connect.Password = true, []byte("p")
		}
		if change != nil {
			change(pk)
		}
	})
}

func (b *brokered) client(version byte, id string, change func(*packets.Packet)) *client {
	b.t.Helper()
	c, answer := b.connect(version, id, change)
	if !strings.HasPrefix(answer, "Connack 0x0") {
		b.t.Fatalf("got %s", answer)
	}
	return c
}
