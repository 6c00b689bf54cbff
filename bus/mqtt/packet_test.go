package mqtt

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"
)

func TestPackets(t *testing.T) {
	for _, n := range []int{0, 1, 100, 127, 128, 16383, 16384, 300_000} {
		for qos := range byte(3) {
			p := appendPublish(nil, "a/b", make([]byte, n), qos, true, qos > 0, 0x4001)
			if len(p) != publishSize("a/b", make([]byte, n), qos) {
				t.Errorf("%d bytes: got %d, want %d", n, len(p), publishSize("a/b", make([]byte, n), qos))
			}
			cp, err := packets.ReadPacket(bytes.NewReader(p))
			if err != nil {
				t.Fatal(err)
			}
			m := cp.(*packets.PublishPacket)
			if m.TopicName != "a/b" || len(m.Payload) != n || m.Qos != qos || !m.Retain || m.Dup != (qos > 0) || qos > 0 && m.MessageID != 0x4001 {
				t.Errorf("got %v", m)
			}
		}
	}
	for _, kind := range []byte{typePuback, typePubrec, typePubrel, typePubcomp} {
		cp, err := packets.ReadPacket(bytes.NewReader(appendAck(nil, kind, 0xabcd)))
		if err != nil || cp.Details().MessageID != 0xabcd {
			t.Errorf("type %d: got %v, %v", kind, cp, err)
		}
	}
}

func TestHeader(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want error
		rest int
	}{
		{"", errShort, 0}, {"\x30", errShort, 0}, {"\x30\x80", errShort, 0}, {"\x30\x7f", nil, 127}, {"\x30\x80\x01", nil, 128},
		{"\x32\xff\xff\xff\x7f", nil, 1<<28 - 1}, {"\x32\xff\xff\xff\xff", errPacket, 0}, {"\x36\x00", errPacket, 0},
		{"\x00\x00", errPacket, 0}, {"\x10\x00", errPacket, 0}, {"\xf0\x00", errPacket, 0}, {"\x62\x02", nil, 2}, {"\x60\x02", errPacket, 0},
		{"\x41\x02", errPacket, 0}, {"\x20\x02", nil, 2}, {"\xd0\x00", nil, 0}, {"\xe0\x00", errBye, 0},
	} {
		h, err := parseHeader([]byte(tc.in))
		if !errors.Is(err, tc.want) || err == nil && h.rest != tc.rest {
			t.Errorf("%x: got %+v, %v, want %d, %v", tc.in, h, err, tc.rest, tc.want)
		}
	}
}

// sunk notes what conn keeps from Paho.
type sunk struct {
	acks     []uint16
	large    []string
	sessions int
	messages []publish
}

func (s *sunk) arrived(p publish) { s.messages = append(s.messages, p) }

func (s *sunk) alive()   {}
func (s *sunk) resumed() { s.sessions++ }

func (s *sunk) acknowledged(kind byte, id uint16) { s.acks = append(s.acks, uint16(kind)<<12|id) }
func (s *sunk) tooLarge(topic string, _ int, qos byte, id uint16) {
	s.large = append(s.large, topic)
}

// stream is a net.Conn that gives its bytes in small pieces.
type stream struct {
	net.Conn
	r    io.Reader
	step int
}

func (s *stream) Read(p []byte) (int, error) {
	if s.step > 0 && len(p) > s.step {
		p = p[:s.step]
	}
	return s.r.Read(p)
}
func (s *stream) SetWriteDeadline(time.Time) error { return nil }

func TestConn(t *testing.T) {
	var in []byte
	in = appendPublish(in, "one", []byte("1"), 1, false, false, 7)
	in = appendAck(in, typePuback, 0x101)
	in = appendPublish(in, "big/topic", make([]byte, 5000), 1, false, false, 9)
	in = appendAck(in, typePubrec, 0x102)
	in = appendPublish(in, "big0", make([]byte, 70_000), 0, false, false, 0)
	in = appendAck(appendAck(in, typePubrel, 0x103), typePubcomp, 0x104)
	in = append(in, 0xd0, 0)
	in = appendPublish(in, strings.Repeat("x", 60_000), nil, 0, false, false, 0)
	in = appendPublish(in, "two", bytes.Repeat([]byte("2"), 1000), 0, false, false, 0)
	for _, step := range []int{0, 1, 7, 1000} {
		s := &sunk{}
		c := newConn(&stream{r: bytes.NewReader(in), step: step}, 4096, time.Second, s)
		var got []string
		for {
			p, err := packets.ReadPacket(c)
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprintf("%T", p))
		}
		if s := strings.Join(got, " "); s != "*packets.PingrespPacket" {
			t.Errorf("step %d: Paho got %s", step, s)
		}
		if len(s.messages) != 2 || !reflect.DeepEqual(s.messages[0], publish{topic: "one", payload: []byte("1"), qos: 1, id: 7}) ||
			s.messages[1].topic != "two" || string(s.messages[1].payload) != strings.Repeat("2", 1000) {
			t.Errorf("step %d: came: %v", step, s.messages)
		}
		if len(s.acks) != 4 || s.acks[0] != 0x4101 || s.acks[3] != 0x7104 {
			t.Errorf("step %d: got %x", step, s.acks)
		}
		if s := strings.Join(s.large, " "); s != "big/topic big0 " {
			t.Errorf("step %d: got %q", step, s)
		}
	}
	for in, want := range map[string]error{
		"\x90\xff\xff\xff\x7f": errTooLarge, "\x40\x03": errPacket, "\x30\xff\xff\x7f\x00\xff": io.ErrUnexpectedEOF,
		"\x30\xff": io.ErrUnexpectedEOF, "\x32\x81\x20\xff\xff": errPacket, "": io.EOF, "\x40\x02\x00": io.ErrUnexpectedEOF,
		"\x30\x00": errPacket, "\x30\x03\x00\x02a": errPacket, "\x32\x04\x00\x01a\x00": errPacket, "\x30\x05\x00\x01a": io.ErrUnexpectedEOF,
	} {
		c := newConn(&stream{r: strings.NewReader(in)}, 4096, time.Second, &sunk{})
		if _, err := c.Read(make([]byte, 10)); !errors.Is(err, want) {
			t.Errorf("%x: got %v, want %v", in, err, want)
		}
	}
}

func FuzzConn(f *testing.F) {
	f.Add(appendPublish(appendAck(nil, typePuback, 3), "t", []byte("x"), 1, false, false, 7), 3)
	f.Add([]byte("\x32\xff\xff\xff\x7f\x00\x03big\x00\x07"), 1)
	f.Add([]byte("\x36\x00\x90\x80\x80\x80\x80"), 2)
	f.Fuzz(func(t *testing.T, in []byte, step int) {
		const limit = 64
		s := &sunk{}
		c := newConn(&stream{r: bytes.NewReader(in), step: step & 63}, limit, time.Second, s)
		total, b := 0, make([]byte, 16)
		for {
			n, err := c.Read(b)
			total += n
			if c.left > limit {
				t.Fatalf("Paho would read a packet of %d bytes", c.left)
			}
			if err != nil {
				break
			}
		}
		for _, p := range s.messages {
			packet := appendPublish(nil, p.topic, p.payload, p.qos, p.retained, false, p.id)
			if total += len(packet); len(packet) > limit {
				t.Fatalf("a message of %d bytes came: %v", len(packet), p)
			}
		}
		if total > len(in) {
			t.Fatalf("got %d bytes out of %d", total, len(in))
		}
	})
}

func FuzzHeader(f *testing.F) {
	f.Add([]byte("\x30\x80\x01"))
	f.Fuzz(func(t *testing.T, in []byte) {
		h, err := parseHeader(in)
		if err != nil {
			return
		}
		if h.size < 2 || h.size > 5 || h.size > len(in) || h.rest < 0 || h.rest >= 1<<28 || h.kind == typePublish && h.qos() > 2 {
			t.Fatalf("%x: got %+v", in, h)
		}
		if again, err := parseHeader(appendLength(in[:1:1], h.rest)); err != nil || again.rest != h.rest {
			t.Fatalf("%x: got %+v, then %+v, %v", in, h, again, err)
		}
	})
}

func FuzzRecord(f *testing.F) {
	f.Add(appendRecord(nil, &message{topic: "a", payload: []byte("b"), qos: 1, retain: true}))
	f.Fuzz(func(t *testing.T, in []byte) {
		m, err := parseRecord(in)
		if err == nil && !bytes.Equal(appendRecord(nil, m)[4:], in[4:]) {
			t.Fatalf("%x: got %+v", in, m)
		}
	})
}
