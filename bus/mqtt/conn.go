package mqtt

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// conn stands between Paho and the network. It reads every fixed header first,
// so that no packet above the limit is ever allocated, and keeps for the bridge
// what belongs to the bridge: the messages and the acknowledgements. Paho would
// hand a message from goroutine to goroutine three times, and each time may
// wait for a processor to wake up.
//
// A PUBLISH above the limit is read past and acknowledged, because a broker
// would send it again for ever; anything else above the limit ends the
// connection.
type conn struct {
	net.Conn
	r       *bufio.Reader
	max     int
	timeout time.Duration // of one write
	sink    sink

	// Touched by the reader only.
	left  int    // bytes of the packet that Paho is reading
	topic string // of the last message, most likely of the next one too

	write sync.Mutex // held for one write
}

// sink takes what conn keeps from Paho. It is called on the reading goroutine
// and must not block.
type sink interface {
	alive()   // a packet came
	resumed() // the broker has kept our session, and sends what is in it
	acknowledged(kind byte, id uint16)
	arrived(p publish)
	tooLarge(topic string, size int, qos byte, id uint16)
}

func newConn(c net.Conn, max int, timeout time.Duration, s sink) *conn {
	return &conn{Conn: c, r: bufio.NewReaderSize(c, 8<<10), max: max, timeout: timeout, sink: s}
}

// Write sends p, whole packets, in one go.
func (c *conn) Write(p []byte) (int, error) {
	c.write.Lock()
	defer c.write.Unlock()
	_ = c.Conn.SetWriteDeadline(time.Now().Add(c.timeout))
	n, err := c.Conn.Write(p)
	if err != nil {
		_ = c.Conn.Close() // what follows half a packet would be garbage
	}
	return n, err
}

// Read gives Paho the packets that are its own.
func (c *conn) Read(p []byte) (int, error) {
	for c.left == 0 {
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	n, err := c.r.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// next looks at the packet that comes and takes it, or leaves it to Paho.
func (c *conn) next() error {
	h, err := c.peek()
	if err != nil {
		return err
	}
	c.sink.alive()
	switch h.kind {
	case typePuback, typePubrec, typePubrel, typePubcomp:
		if h.rest != 2 {
			return fmt.Errorf("%w: acknowledgement of %d bytes", errPacket, h.rest)
		}
		b, err := c.r.Peek(h.size + 2)
		if err != nil {
			return unexpected(err)
		}
		id := binary.BigEndian.Uint16(b[h.size:])
		if _, err := c.r.Discard(h.size + 2); err != nil {
			return err
		}
		c.sink.acknowledged(h.kind, id)
		return nil
	case typePublish:
		if h.size+h.rest > c.max {
			return c.skip(h)
		}
		return c.publish(h)
	case typeConnack: // seen here, before any message can be
		b, err := c.r.Peek(h.size + min(h.rest, 2))
		if err != nil {
			return unexpected(err)
		}
		if h.rest == 2 && b[h.size] == 1 && b[h.size+1] == 0 {
			c.sink.resumed()
		}
	default:
		if h.size+h.rest > c.max {
			return fmt.Errorf("%w: type %d with %d bytes, at most %d are allowed", errTooLarge, h.kind, h.rest, c.max)
		}
	}
	c.left = h.size + h.rest
	return nil
}

func (c *conn) peek() (header, error) {
	for n := 1; ; n++ {
		b, err := c.r.Peek(n)
		if err != nil {
			if n > 1 {
				err = unexpected(err)
			}
			return header{}, err
		}
		if h, err := parseHeader(b); !errors.Is(err, errShort) {
			return h, err
		}
	}
}

// publish reads a PUBLISH.
func (c *conn) publish(h header) error {
	if _, err := c.r.Discard(h.size); err != nil {
		return unexpected(err)
	}
	b := make([]byte, h.rest)
	if _, err := io.ReadFull(c.r, b); err != nil {
		return unexpected(err)
	}
	p, err := parsePublish(h, b, c.topic)
	if err != nil {
		return err
	}
	c.topic = p.topic
	c.sink.arrived(p)
	return nil
}

// skip reads past a PUBLISH and says what it was.
func (c *conn) skip(h header) error {
	if _, err := c.r.Discard(h.size); err != nil {
		return unexpected(err)
	}
	left := h.rest
	b, err := c.r.Peek(2)
	if err != nil {
		return unexpected(err)
	}
	n := int(binary.BigEndian.Uint16(b))
	fixed := 2 + n
	if h.qos() > 0 {
		fixed += 2
	}
	if fixed > left {
		return fmt.Errorf("%w: PUBLISH of %d bytes with a topic of %d", errPacket, left, n)
	}
	var topic string
	if n <= 1024 {
		if b, err = c.r.Peek(2 + n); err != nil {
			return unexpected(err)
		}
		topic = string(b[2:])
	}
	if _, err := c.r.Discard(2 + n); err != nil {
		return unexpected(err)
	}
	left -= 2 + n
	var id uint16
	if h.qos() > 0 {
		if b, err = c.r.Peek(2); err != nil {
			return unexpected(err)
		}
		id = binary.BigEndian.Uint16(b)
	}
	if _, err := io.CopyN(io.Discard, c.r, int64(left)); err != nil {
		return unexpected(err)
	}
	c.sink.tooLarge(topic, h.size+h.rest, h.qos(), id)
	return nil
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
