package mqtt

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Packet types of MQTT 3.1.1 section 2.2.1 that the bridge itself reads or writes.
const (
	typeConnack  = 2
	typePublish  = 3
	typePuback   = 4
	typePubrec   = 5
	typePubrel   = 6
	typePubcomp  = 7
	typeSuback   = 9
	typeUnsuback = 11
	typePingresp = 13
	typeBye      = 14
)

var (
	errPacket   = errors.New("malformed packet")
	errTooLarge = errors.New("packet too large")
	errShort    = errors.New("header incomplete")
	errBye      = errors.New("the broker ended the connection")
)

// header is the fixed header of a packet, MQTT 3.1.1 section 2.2.
type header struct {
	kind, flags byte
	size        int // of the header itself
	rest        int // remaining length
}

func (h header) qos() byte { return h.flags >> 1 & 3 }

// parseHeader reads a fixed header that a server may send. It returns errShort
// when b ends before the header does.
func parseHeader(b []byte) (header, error) {
	if len(b) == 0 {
		return header{}, errShort
	}
	h := header{kind: b[0] >> 4, flags: b[0] & 15, size: 1}
	switch h.kind {
	case typePublish:
		if h.qos() == 3 {
			return h, fmt.Errorf("%w: PUBLISH with QoS 3", errPacket)
		}
	case typePubrel:
		if h.flags != 2 {
			return h, fmt.Errorf("%w: PUBREL with flags %d", errPacket, h.flags)
		}
	case typeConnack, typePuback, typePubrec, typePubcomp, typeSuback, typeUnsuback, typePingresp:
		if h.flags != 0 {
			return h, fmt.Errorf("%w: type %d with flags %d", errPacket, h.kind, h.flags)
		}
	case typeBye: // not in 3.1.1, but some brokers do it when another client takes our place
		return h, errBye
	default:
		return h, fmt.Errorf("%w: a server does not send type %d", errPacket, h.kind)
	}
	for shift := 0; ; shift += 7 {
		if shift > 21 {
			return h, fmt.Errorf("%w: length of more than 4 bytes", errPacket)
		}
		if h.size >= len(b) {
			return h, errShort
		}
		c := b[h.size]
		h.size++
		h.rest |= int(c&127) << shift
		if c < 128 {
			return h, nil
		}
	}
}

// publish is a PUBLISH packet that came, MQTT 3.1.1 section 3.3.
type publish struct {
	topic    string
	payload  []byte
	qos      byte
	retained bool
	dup      bool
	id       uint16
}

// parsePublish reads what follows the fixed header; the payload stays in b. If
// the topic is that of the last message, no new string is made.
func parsePublish(h header, b []byte, last string) (publish, error) {
	p := publish{qos: h.qos(), retained: h.flags&1 != 0, dup: h.flags&8 != 0}
	n := 2
	if len(b) >= 2 {
		n += int(binary.BigEndian.Uint16(b))
	}
	end := n
	if p.qos > 0 {
		end += 2
	}
	if len(b) < end {
		return p, fmt.Errorf("%w: PUBLISH of %d bytes with a topic of %d", errPacket, len(b), n-2)
	}
	if p.topic = last; string(b[2:n]) != last {
		p.topic = string(b[2:n])
	}
	if p.qos > 0 {
		p.id = binary.BigEndian.Uint16(b[n:])
	}
	p.payload = b[end:]
	return p, nil
}

// publishSize is the length of a PUBLISH packet.
func publishSize(topic string, payload []byte, qos byte) int {
	n := 2 + len(topic) + len(payload)
	if qos > 0 {
		n += 2
	}
	return n + 1 + lengthBytes(n)
}

func lengthBytes(n int) int {
	switch {
	case n < 1<<7:
		return 1
	case n < 1<<14:
		return 2
	case n < 1<<21:
		return 3
	}
	return 4
}

func appendLength(b []byte, n int) []byte {
	for n >= 128 {
		b = append(b, byte(n)|128)
		n >>= 7
	}
	return append(b, byte(n))
}

// appendPublish writes a PUBLISH packet, MQTT 3.1.1 section 3.3.
func appendPublish(b []byte, topic string, payload []byte, qos byte, retain, dup bool, id uint16) []byte {
	first := byte(typePublish<<4) | qos<<1
	if retain {
		first |= 1
	}
	if dup {
		first |= 8
	}
	n := 2 + len(topic) + len(payload)
	if qos > 0 {
		n += 2
	}
	b = appendLength(append(b, first), n)
	b = binary.BigEndian.AppendUint16(b, uint16(len(topic)))
	b = append(b, topic...)
	if qos > 0 {
		b = binary.BigEndian.AppendUint16(b, id)
	}
	return append(b, payload...)
}

// appendAck writes a PUBACK, PUBREC, PUBREL or PUBCOMP packet.
func appendAck(b []byte, kind byte, id uint16) []byte {
	first := kind << 4
	if kind == typePubrel {
		first |= 2
	}
	return append(b, first, 2, byte(id>>8), byte(id))
}
