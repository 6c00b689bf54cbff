package broker

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"
)

const (
	packetTime  = 30 * time.Second // from a packet's first byte to its last
	writeTime   = 20 * time.Second // for the client to take some 64 KiB
	patience    = 10 * time.Second // what can't be taken now is offered again so long
	aliases     = 16               // MQTT 5: topics that a client may abbreviate
	receiving   = 256              // MQTT 5: QoS 1 and 2 messages that a client may have on their way to us
	largePacket = 4 << 10          // what is larger is counted against Memory while it is read
)

// conn is a connection of a client: a goroutine that reads, and one that writes.
// The one that reads does what the client says, and stops reading while its
// acknowledgements are not taken: so a client that floods is slowed down by TCP.
type conn struct {
	b       *Broker
	net     net.Conn
	in      *bufio.Reader
	holding int64 // bytes of the packet that is being handled

	version   byte
	user      string
	session   *session
	keepAlive time.Duration
	window    int    // QoS 1 and 2 messages that the client takes at a time
	largest   uint32 // packet that the client takes; 0 is any
	aliases   map[uint16]string
	again     []delivery // sent over an earlier connection, neither acknowledged nor sent again yet; the broker's lock guards it

	acks chan []byte
	more chan struct{} // one token: the queue has something
	done chan struct{} // closed when the connection is to end
	once sync.Once
	bye  packets.Code // why, if the client is to be told; set before done is closed
}

// attend is a connection from its first packet to its end.
func (b *Broker) attend(nc net.Conn) {
	c := &conn{
		b: b, net: nc, in: bufio.NewReaderSize(nc, 4<<10), aliases: map[uint16]string{},
		acks: make(chan []byte, 16), more: make(chan struct{}, 1), done: make(chan struct{}),
	}
	defer c.release()
	_ = nc.SetDeadline(time.Now().Add(helloTime))
	pk, err := c.read()
	if err != nil || pk.FixedHeader.Type != packets.Connect {
		b.opt.Log.Debug("mqtt: no CONNECT", "remote", nc.RemoteAddr(), "error", err)
		return
	}
	if code, err := c.hello(pk); code != packets.CodeSuccess {
		b.counters.refused.Add(1)
		b.mu.Lock()
		b.note("refused", "client %.64q from %s is refused: %w", pk.Connect.ClientIdentifier, nc.RemoteAddr(), err)
		b.unlock()
		return
	}
	_ = nc.SetDeadline(time.Time{})
	var writing sync.WaitGroup
	writing.Go(c.write)
	clean := false
	defer func() {
		b.detach(c, clean)
		c.leave(packets.CodeSuccess)
		writing.Wait()
	}()
	clean, err = c.serve()
	b.opt.Log.Debug("mqtt: client gone", "client", c.session.id, "remote", nc.RemoteAddr(), "error", err)
}

// leave ends the connection; a code that is an error is told to a client that
// speaks MQTT 5. It doesn't wait.
func (c *conn) leave(why packets.Code) {
	c.once.Do(func() {
		c.bye = why
		_ = c.net.SetDeadline(time.Now().Add(time.Second))
		close(c.done)
	})
}

func (c *conn) left() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// wake says that the queue has something to send.
func (c *conn) wake() {
	select {
	case c.more <- struct{}{}:
	default:
	}
}

// release gives back what the last packet took.
func (c *conn) release() {
	if c.holding > 0 {
		c.b.reserve(-c.holding)
		c.holding = 0
	}
}

// read reads one packet. What it holds is not passed by reference to anyone who
// changes it: every packet has a buffer of its own.
func (c *conn) read() (*packets.Packet, error) {
	c.release()
	if c.session != nil && c.in.Buffered() == 0 {
		var until time.Time
		if c.keepAlive > 0 {
			until = time.Now().Add(c.keepAlive + c.keepAlive/2) // MQTT 3.1.1 section 3.1.2.10
		}
		_ = c.net.SetReadDeadline(until)
		if c.left() {
			return nil, net.ErrClosed
		}
	}
	first, err := c.in.ReadByte()
	if err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = packets.ErrKeepAliveTimeout
		}
		return nil, err
	}
	if c.session != nil {
		_ = c.net.SetReadDeadline(time.Now().Add(packetTime))
	}
	pk := &packets.Packet{ProtocolVersion: c.version}
	if err := pk.FixedHeader.Decode(first); err != nil {
		return nil, err
	}
	n, size, err := packets.DecodeLength(c.in)
	if err != nil {
		return nil, err
	}
	if 1+size+n > c.b.opt.MaxPacket {
		return nil, packets.ErrPacketTooLarge
	}
	if n > largePacket {
		if !c.wait(func() bool { return c.b.reserve(int64(n)) }) {
			return nil, packets.ErrQuotaExceeded
		}
		c.holding = int64(n)
	}
	pk.FixedHeader.Remaining = n
	buf := make([]byte, n)
	if _, err := io.ReadFull(c.in, buf); err != nil {
		return nil, err
	}
	return pk, decode(pk, buf)
}

// wait asks until the answer is yes, for ten seconds at most.
func (c *conn) wait(ok func() bool) bool {
	if ok() {
		return true
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		select {
		case <-tick.C:
			if ok() {
				return true
			}
		case <-c.done:
			return false
		}
	}
	return false
}

// decode fills in what the buffer holds. The library panics at some packets
// that end too early.
func decode(pk *packets.Packet, buf []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", packets.ErrMalformedPacket, p)
		}
	}()
	switch pk.FixedHeader.Type {
	case packets.Connect:
		return pk.ConnectDecode(buf)
	case packets.Publish:
		return pk.PublishDecode(buf)
	case packets.Puback:
		return pk.PubackDecode(buf)
	case packets.Pubrec:
		return pk.PubrecDecode(buf)
	case packets.Pubrel:
		return pk.PubrelDecode(buf)
	case packets.Pubcomp:
		return pk.PubcompDecode(buf)
	case packets.Subscribe:
		return pk.SubscribeDecode(buf)
	case packets.Unsubscribe:
		return pk.UnsubscribeDecode(buf)
	case packets.Disconnect:
		return pk.DisconnectDecode(buf)
	case packets.Pingreq:
		return nil
	}
	return packets.ErrProtocolViolation // what only a server sends; AUTH without a method
}

// write sends acknowledgements and messages until the connection is to end.
func (c *conn) write() {
	defer c.net.Close()
	var out bytes.Buffer
	out.Write(<-c.acks) // CONNACK
	for {
		if c.left() {
			if c.bye.Code >= packets.ErrUnspecifiedError.Code && c.version == 5 {
				_, _ = c.net.Write(encode(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Disconnect}, ReasonCode: c.bye.Code}, 5))
			}
			return
		}
		// The queue is looked at before the acknowledgements, and written after
		// them: so a SUBACK comes before the retained messages.
		list := c.b.next(c, time.Now())
		for more := true; more; {
			select {
			case p := <-c.acks:
				out.Write(p)
			default:
				more = false
			}
		}
		for i := range list {
			c.put(&out, &list[i])
		}
		if out.Len() > 0 && !c.flush(&out) {
			return
		}
		if len(list) > 0 {
			continue // there may be more
		}
		select {
		case p := <-c.acks:
			out.Write(p)
		case <-c.more:
		case <-c.done:
		}
	}
}

// put appends a delivery, unless it is larger than what the client takes: then
// it counts as delivered (MQTT 5 section 3.1.2.11.4).
func (c *conn) put(out *bytes.Buffer, d *delivery) {
	p, err := d.encode(c.version, time.Now())
	if err != nil || c.largest > 0 && uint64(len(p)) > uint64(c.largest) {
		c.b.tooLarge(c.session, d)
		return
	}
	out.Write(p)
	c.b.counters.sent.Add(1)
}

// flush writes what is there. A client that takes nothing is cut off.
func (c *conn) flush(out *bytes.Buffer) bool {
	if !c.left() {
		_ = c.net.SetWriteDeadline(time.Now().Add(writeTime))
	}
	_, err := c.net.Write(out.Bytes())
	if out.Cap() > 128<<10 {
		*out = bytes.Buffer{}
	}
	out.Reset()
	if err == nil {
		return true
	}
	if errors.Is(err, os.ErrDeadlineExceeded) && !c.left() {
		c.b.counters.slow.Add(1)
		c.b.mu.Lock()
		c.b.note("slow", "client %.64q took nothing for %v: it is cut off", c.session.id, writeTime)
		c.b.unlock()
	}
	c.leave(packets.CodeSuccess)
	return false
}

// send leaves a packet to the writer; it waits while the client takes nothing.
func (c *conn) send(pk packets.Packet) {
	select {
	case c.acks <- encode(pk, c.version):
	case <-c.done:
	}
}

// encode gives the bytes of a packet that is no PUBLISH.
func encode(pk packets.Packet, version byte) []byte {
	pk.ProtocolVersion = version
	var buf bytes.Buffer
	var err error
	switch pk.FixedHeader.Type {
	case packets.Connack:
		err = pk.ConnackEncode(&buf)
	case packets.Puback:
		err = pk.PubackEncode(&buf)
	case packets.Pubrec:
		err = pk.PubrecEncode(&buf)
	case packets.Pubrel:
		pk.FixedHeader.Qos = 1
		err = pk.PubrelEncode(&buf)
	case packets.Pubcomp:
		err = pk.PubcompEncode(&buf)
	case packets.Suback:
		err = pk.SubackEncode(&buf)
	case packets.Unsuback:
		err = pk.UnsubackEncode(&buf)
	case packets.Pingresp:
		err = pk.PingrespEncode(&buf)
	case packets.Disconnect:
		err = pk.DisconnectEncode(&buf)
	}
	if err != nil {
		return nil // none of these can fail
	}
	return buf.Bytes()
}
