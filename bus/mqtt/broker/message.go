package broker

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"edged/bus"
)

// message is what was published. All who get it share it; nothing changes but
// seq, when it is kept, and expires of a will, when it is published.
type message struct {
	topic   string
	payload []byte
	qos     byte
	retain  bool
	props   *properties // of a publisher that speaks MQTT 5, or nil
	expires time.Time   // MQTT 5; zero is never
	from    *session    // nil is the robot
	seq     uint64      // order of those that are kept

	lifetime time.Duration // of a will: from its publication to expires; zero is for ever
}

// properties are those of MQTT 5 that go from publisher to subscriber as they
// are (section 3.3.2.3).
type properties struct {
	user        []packets.UserProperty
	contentType string
	response    string
	correlation []byte
	format      byte
	formatted   bool
}

// passedOn takes from a packet what goes to subscribers; nil is nothing.
func passedOn(p *packets.Properties) *properties {
	if len(p.User) == 0 && p.ContentType == "" && p.ResponseTopic == "" && p.CorrelationData == nil && !p.PayloadFormatFlag {
		return nil
	}
	return &properties{p.User, p.ContentType, p.ResponseTopic, p.CorrelationData, p.PayloadFormat, p.PayloadFormatFlag}
}

// overhead is roughly what a message takes beside its bytes.
const overhead = 128

// size is what a message takes in a queue.
func (m *message) size() int64 {
	n := overhead + len(m.topic) + len(m.payload)
	if p := m.props; p != nil {
		n += len(p.contentType) + len(p.response) + len(p.correlation)
		for _, u := range p.user {
			n += 32 + len(u.Key) + len(u.Val)
		}
	}
	return int64(n)
}

func (m *message) over(now time.Time) bool { return !m.expires.IsZero() && !now.Before(m.expires) }

// delivery is a message on its way to one client.
type delivery struct {
	*message
	qos      byte
	retain   bool
	ids      []int // of the subscriptions that it matches
	pid      uint16
	again    bool // it was sent before, over another connection
	released bool // QoS 2: the client has it (PUBREC), and is to forget its number (PUBREL)
}

// encode gives the packet of a delivery for a protocol version.
func (d *delivery) encode(version byte, now time.Time) ([]byte, error) {
	pk := packets.Packet{ProtocolVersion: version, PacketID: d.pid}
	var buf bytes.Buffer
	if d.released {
		pk.FixedHeader = packets.FixedHeader{Type: packets.Pubrel, Qos: 1}
		err := pk.PubrelEncode(&buf)
		return buf.Bytes(), err
	}
	pk.FixedHeader = packets.FixedHeader{Type: packets.Publish, Qos: d.qos, Retain: d.retain, Dup: d.again && d.qos > 0}
	pk.TopicName, pk.Payload = d.topic, d.payload
	if version == 5 {
		pk.Mods.AllowResponseInfo = true
		pk.Properties.SubscriptionIdentifier = d.ids
		if p := d.props; p != nil {
			pk.Properties.User, pk.Properties.ContentType = p.user, p.contentType
			pk.Properties.ResponseTopic, pk.Properties.CorrelationData = p.response, p.correlation
			pk.Properties.PayloadFormat, pk.Properties.PayloadFormatFlag = p.format, p.formatted
		}
		if !d.expires.IsZero() {
			pk.Properties.MessageExpiryInterval = uint32(max(1, d.expires.Sub(now)/time.Second))
		}
	}
	err := pk.PublishEncode(&buf)
	return buf.Bytes(), err
}

// pass keeps a message if it is to be kept, and gives it to who subscribed.
func (b *Broker) pass(m *message) {
	b.mu.Lock()
	if m.retain {
		b.retained.keep(m)
	}
	b.route(m)
	b.unlock()
}

// publish takes a client's message in. The error is a packets.Code if the
// client may not say this; else it means "not now".
func (b *Broker) publish(m *message) error {
	own := false
	if f := b.reserved.Load(); f != nil {
		own = (*f)(m.topic)
	}
	switch {
	case !topicOK(m.topic):
		return fmt.Errorf("%.128q is no topic: %w", m.topic, packets.ErrTopicNameInvalid)
	case strings.HasPrefix(m.topic, "$"), !b.may(m.from.user, m.topic, true):
		return fmt.Errorf("user %.64q may not publish on %.128q (mqtt.users, write): %w", m.from.user, m.topic, packets.ErrNotAuthorized)
	case m.retain && !own && b.full(m):
		return fmt.Errorf("%.128q is not kept: the retained messages of clients take all they may (bus.retained): %w", m.topic, packets.ErrQuotaExceeded)
	}
	if f := b.take.Load(); f != nil {
		err := (*f)(m.topic, m.payload, m.qos, m.retain && !own)
		switch {
		case errors.Is(err, fs.ErrPermission):
			return fmt.Errorf("%w: %w", err, packets.ErrNotAuthorized)
		case errors.Is(err, bus.ErrFull):
			return fmt.Errorf("%w: %w", err, packets.ErrQuotaExceeded)
		case err != nil:
			return err
		}
	}
	b.counters.received.Add(1)
	if !own {
		b.pass(m)
	}
	return nil
}

// may reports whether a user may publish on a topic, or subscribe to a filter.
func (b *Broker) may(user, topic string, write bool) bool {
	if len(b.users) == 0 {
		return true
	}
	a := b.users[user]
	return a != nil && a.may(topic, write)
}

// hit is a session that gets a message.
type hit struct {
	s   *session
	sub subscription
	ids []int
}

// route puts a message into the queues; the caller holds mu. A session whose
// filters overlap gets it once, with the highest QoS of them (MQTT 3.1.1
// section 3.3.5).
func (b *Broker) route(m *message) {
	var hits []hit
	var index map[*session]int
	add := func(s *session, sub subscription) {
		if sub.noLocal && s == m.from {
			return
		}
		if i, known := index[s]; known {
			h := &hits[i]
			h.sub.qos = max(h.sub.qos, sub.qos)
			h.sub.published = h.sub.published || sub.published
			h.ids = append(h.ids, sub.ids()...)
			return
		}
		hits = append(hits, hit{s, sub, sub.ids()})
	}
	first := true
	b.topics.match(m.topic, func(n *node) bool {
		if !first && index == nil { // a second filter matches
			index = map[*session]int{}
			for i, h := range hits {
				index[h.s] = i
			}
		}
		first = false
		for s, sub := range n.subs {
			before := len(hits)
			add(s, sub)
			if index != nil && len(hits) > before {
				index[s] = before
			}
		}
		for _, g := range n.groups {
			s := g.choose() // beside what its own filters give it
			hits = append(hits, hit{s, g.subs[s], g.subs[s].ids()})
		}
		return true
	})
	for _, h := range hits {
		b.offer(h.s, delivery{message: m, qos: min(m.qos, h.sub.qos), retain: m.retain && h.sub.published, ids: h.ids})
	}
}

// retained holds the last retained message of each topic.
type retained struct {
	last  map[string]*message
	bytes int64
	seq   uint64

	theirs      int // topics of clients, which have a limit
	theirsBytes int64
}

// keep stores a message, or forgets the one of its topic when it is empty.
func (r *retained) keep(m *message) {
	r.forget(m.topic)
	if len(m.payload) == 0 {
		return
	}
	if r.last == nil {
		r.last = map[string]*message{}
	}
	r.seq++
	m.seq = r.seq
	r.last[m.topic] = m
	r.bytes += m.size()
	if m.from != nil {
		r.theirs++
		r.theirsBytes += m.size()
	}
}

func (r *retained) forget(topic string) {
	m := r.last[topic]
	if m == nil {
		return
	}
	delete(r.last, topic)
	r.bytes -= m.size()
	if m.from != nil {
		r.theirs--
		r.theirsBytes -= m.size()
	}
}

// full reports whether a client's message may not be kept.
func (b *Broker) full(m *message) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(m.payload) == 0 {
		return false
	}
	topics, bytes := b.retained.theirs+1, b.retained.theirsBytes+m.size()
	if old := b.retained.last[m.topic]; old != nil && old.from != nil {
		topics, bytes = topics-1, bytes-old.size()
	}
	return topics > b.opt.Retained || bytes > b.opt.RetainedBytes
}

// expire forgets retained messages whose time is over; the caller holds mu.
func (r *retained) expire(now time.Time) {
	for topic, m := range r.last {
		if m.over(now) {
			r.forget(topic)
		}
	}
}
