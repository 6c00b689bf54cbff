package broker

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"
)

// forever is the session expiry interval of a session that does not expire.
const forever = math.MaxUint32

// window is how many QoS 1 and 2 messages may be on their way to a client.
const window = 64

// session is what the broker knows of a client, connected or away. The broker's
// lock guards it.
type session struct {
	id      string
	user    string
	conn    *conn // nil while it is away
	expiry  uint32
	gone    time.Time // when it went away
	filters map[string]subscription

	queue    []delivery // waits to be sent
	sent     []delivery // QoS 1 and 2: sent, not acknowledged
	queued   int64      // bytes of both
	fixed    int64      // bytes of filters and will
	pid      uint16     // the last one used
	received *numbers   // QoS 2: taken in, not released yet; nil is none

	will     *message
	patience uint32    // seconds between the loss of the connection and the will
	due      time.Time // of a will that waits
}

// key tells clients apart: one user can't take over another's session.
func key(user, id string) string { return user + "\x00" + id }

// attach gives a connection its session: the one that is there, unless the
// client wants to begin anew. It reports whether it was there.
func (b *Broker) attach(c *conn, id string, clean bool, expiry uint32, will *message, delay uint32) (present bool) {
	b.mu.Lock()
	defer b.unlock()
	s := b.sessions[key(c.user, id)]
	if s != nil {
		ends := clean || s.expiry == 0
		if s.conn != nil {
			s.conn.leave(packets.ErrSessionTakenOver)
			s.conn = nil
		}
		b.lost(s, time.Now(), ends) // MQTT 5 section 3.1.4
		if ends {
			b.drop(s)
			s = nil
		}
	}
	present = s != nil
	if s == nil {
		s = &session{id: id, user: c.user, filters: map[string]subscription{}}
		b.sessions[key(c.user, id)] = s
	}
	b.setWill(s, nil) // one that still waited is void
	if will != nil {
		will.from = s
		b.setWill(s, will)
	}
	s.conn, s.expiry, s.patience, s.due = c, expiry, delay, time.Time{}
	for i := range s.sent {
		s.sent[i].again = true
	}
	c.session, c.again = s, slices.Clone(s.sent)
	return present
}

// detach ends a connection's hold on its session; clean is a client that said
// goodbye and leaves no will.
func (b *Broker) detach(c *conn, clean bool) {
	b.mu.Lock()
	defer b.unlock()
	s := c.session
	if s.conn != c {
		return // another connection has it
	}
	now := time.Now()
	s.conn, s.gone = nil, now
	if clean {
		b.setWill(s, nil)
	}
	if !b.end {
		b.lost(s, now, s.expiry == 0)
	}
	if s.expiry == 0 {
		b.drop(s)
	}
	b.limitSessions()
}

// limitSessions gives up the sessions that are away longest; the caller holds mu.
func (b *Broker) limitSessions() {
	for {
		away, oldest := 0, (*session)(nil)
		for _, s := range b.sessions {
			if s.conn == nil {
				away++
				if oldest == nil || s.gone.Before(oldest.gone) {
					oldest = s
				}
			}
		}
		if away <= b.opt.Sessions {
			return
		}
		b.note("sessions", "more than %d clients are away: the session of %.64q, away longest, is given up", b.opt.Sessions, oldest.id)
		b.lost(oldest, time.Now(), true)
		b.drop(oldest)
	}
}

// drop forgets a session; the caller holds mu.
func (b *Broker) drop(s *session) {
	for f := range s.filters {
		b.unsubscribe(s, f)
	}
	b.setWill(s, nil)
	b.counters.dropped.Add(uint64(len(s.queue) + len(s.sent)))
	b.queued -= s.queued
	s.queue, s.sent, s.queued = nil, nil, 0
	if b.sessions[key(s.user, s.id)] == s {
		delete(b.sessions, key(s.user, s.id))
	}
}

// tidy ends what time ends: wills that wait, sessions, retained messages.
func (b *Broker) tidy(now time.Time) {
	b.mu.Lock()
	b.retained.expire(now)
	for _, s := range b.sessions {
		if s.conn != nil {
			continue
		}
		over := s.expiry != forever && now.Sub(s.gone) >= time.Duration(s.expiry)*time.Second
		if s.will != nil && (over || !now.Before(s.due)) {
			b.wills = append(b.wills, b.setWill(s, nil))
		}
		if over {
			b.drop(s)
		}
	}
	b.unlock()
}

// offer puts a message into a session's queue; the caller holds mu. When the
// queue is full its oldest message goes; when all queues together are too
// large, the oldest of the largest one.
func (b *Broker) offer(s *session, d delivery) {
	if s.conn == nil && d.qos == 0 {
		return // MQTT 3.1.1 section 4.1: not kept for who is away
	}
	if len(s.queue)+len(s.sent) >= b.opt.Queue {
		b.shed(s)
	}
	n := d.size()
	for b.queued+n > b.opt.Memory {
		largest := s
		for _, x := range b.sessions {
			if x.queued > largest.queued {
				largest = x
			}
		}
		if !b.shed(largest) {
			b.dropped(s)
			return
		}
	}
	s.queue = append(s.queue, d)
	s.queued += n
	b.queued += n
	if s.conn != nil {
		s.conn.wake()
	}
}

// shed gives up the oldest message that waits for a client.
func (b *Broker) shed(s *session) bool {
	switch {
	case len(s.queue) > 0:
		b.free(s, s.queue[0])
		s.pop()
	case len(s.sent) > 0 && s.conn == nil:
		b.free(s, s.sent[0])
		s.sent = slices.Delete(s.sent, 0, 1)
	default:
		return false
	}
	b.dropped(s)
	return true
}

func (s *session) pop() {
	s.queue[0] = delivery{}
	if s.queue = s.queue[1:]; len(s.queue) == 0 {
		s.queue = nil
	}
}

func (b *Broker) dropped(s *session) {
	b.counters.dropped.Add(1)
	what := "takes its messages too slowly"
	if s.conn == nil {
		what = "is away"
	}
	b.note("lost "+key(s.user, s.id), "client %.64q %s: messages for it are lost (mqtt.queue, mqtt.memory)", s.id, what)
}

func (b *Broker) free(s *session, d delivery) {
	n := d.size()
	s.queued -= n
	b.queued -= n
}

// next takes what may be sent now, some 64 KiB of it.
func (b *Broker) next(c *conn, now time.Time) []delivery {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := c.session
	if s.conn != c {
		return nil
	}
	var list []delivery
	bytes := 0
	for ; len(c.again) > 0 && bytes < 64<<10 && len(s.sent)-len(c.again) < c.window; c.again = c.again[1:] {
		list = append(list, c.again[0])
		bytes += int(c.again[0].size())
	}
	if len(c.again) > 0 {
		return list // nothing overtakes them
	}
	for len(s.queue) > 0 && bytes < 64<<10 {
		d := s.queue[0]
		if d.over(now) {
			b.free(s, d)
			s.pop()
			continue
		}
		if d.qos > 0 && len(s.sent) >= c.window {
			break
		}
		s.pop()
		if d.qos > 0 {
			d.pid = s.number()
			s.sent = append(s.sent, d)
		} else {
			b.free(s, d)
		}
		list = append(list, d)
		bytes += int(d.size())
	}
	return list
}

// number gives a packet identifier that is free; at most window are in use.
func (s *session) number() uint16 {
	for {
		s.pid++
		if s.pid != 0 && !slices.ContainsFunc(s.sent, func(d delivery) bool { return d.pid == s.pid }) {
			return s.pid
		}
	}
}

// acked hears that a client has a message: with PUBACK and PUBCOMP that is all;
// PUBREC leaves its number to be released. It reports whether there is one.
func (b *Broker) acked(s *session, pid uint16, kind byte, failed bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(s.sent, func(d delivery) bool { return d.pid == pid })
	if i < 0 {
		return false
	}
	d := &s.sent[i]
	switch {
	case kind == packets.Pubrec && d.qos == 2 && !failed:
		if !d.released { // only the number is needed from now on
			b.free(s, *d)
			d.message, d.released = &message{}, true
			n := d.size()
			s.queued += n
			b.queued += n
		}
	case kind == packets.Puback && d.qos == 1, kind == packets.Pubcomp && d.released, kind == packets.Pubrec && d.qos == 2:
		b.free(s, *d)
		s.sent = slices.Delete(s.sent, i, i+1)
		if s.conn != nil {
			s.conn.wake()
		}
	default:
		return false
	}
	return true
}

// subscribe answers for one filter with a reason code of SUBACK. It reports
// whether the filter was there.
func (b *Broker) subscribe(c *conn, filter string, sub subscription) (code packets.Code, known bool) {
	name, plain, ok := shared(filter)
	switch {
	case !ok || !filterOK(plain) || len(filter) > maxTopic:
		b.deny("filter", "client %.64q subscribes to %.128q, which is no filter", c.session.id, filter)
		return packets.ErrTopicFilterInvalid, false
	case !b.may(c.user, filter, false):
		b.deny("read "+c.session.user, "user %.64q may not subscribe to %.128q (mqtt.users, read)", c.session.user, filter)
		return packets.ErrNotAuthorized, false
	}
	b.mu.Lock()
	defer b.unlock()
	s := c.session
	if s.conn != c { // another connection has it, or nobody: it would stay for good
		return packets.ErrSessionTakenOver, false
	}
	_, known = s.filters[filter]
	if !known {
		if len(s.filters) >= b.opt.Filters || !b.fits(filterSize(filter)) {
			b.counters.denied.Add(1)
			b.note("filters", "client %.64q has %d subscriptions: no more fit (mqtt.filters, mqtt.memory)", s.id, len(s.filters))
			return packets.ErrQuotaExceeded, false
		}
		s.fixed += filterSize(filter)
	}
	s.filters[filter] = sub
	b.topics.add(plain, name, s, sub)
	return packets.Code{Code: sub.qos}, known
}

// filterSize is roughly what a subscription takes: every level has a map of its
// own.
func filterSize(filter string) int64 {
	return int64(4*overhead + 3*overhead*strings.Count(filter, "/") + len(filter))
}

// unsubscribe reports whether the filter was there; the caller holds mu.
func (b *Broker) unsubscribe(s *session, filter string) bool {
	if _, known := s.filters[filter]; !known {
		return false
	}
	delete(s.filters, filter)
	s.fixed -= filterSize(filter)
	b.fixed -= filterSize(filter)
	name, plain, _ := shared(filter)
	b.topics.remove(plain, name, s)
	return true
}

// replay offers the retained messages that match a filter. A shared
// subscription has none (MQTT 5 section 4.8.2).
func (b *Broker) replay(c *conn, filter string, sub subscription, now time.Time) {
	if name, _, _ := shared(filter); name != "" {
		return
	}
	b.mu.Lock()
	defer b.unlock()
	if c.session.conn != c {
		return
	}
	for _, m := range b.retained.matching(filter) {
		if !m.over(now) {
			b.offer(c.session, delivery{message: m, qos: min(m.qos, sub.qos), retain: true, ids: sub.ids()})
		}
	}
}

// matching lists the messages that a filter covers, by topic.
func (r *retained) matching(filter string) []*message {
	if m := r.last[filter]; m != nil {
		return []*message{m}
	}
	var list []*message
	for topic, m := range r.last {
		if covers(filter, topic) {
			list = append(list, m)
		}
	}
	slices.SortFunc(list, func(x, y *message) int { return cmp.Compare(x.seq, y.seq) })
	return list
}

// numbers are packet identifiers, a bit for each.
type numbers struct {
	bits [1 << 16 / 64]uint64
	n    int
}

// receive notes the number of a QoS 2 message that comes in. It reports whether
// it is the first time, and whether the client keeps to what it was told
// (MQTT 5 section 3.3.4; MQTT 3.1.1 has no such limit).
func (b *Broker) receive(c *conn, pid uint16) (first, room bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := c.session
	if s.received == nil {
		s.received = &numbers{}
	}
	word, bit := &s.received.bits[pid/64], uint64(1)<<(pid%64)
	switch {
	case *word&bit != 0:
		return false, true
	case c.version == 5 && s.received.n >= receiving:
		return false, false
	}
	*word |= bit
	s.received.n++
	return true, true
}

// released forgets the number of a QoS 2 message, if it is known.
func (b *Broker) released(s *session, pid uint16) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.received == nil || s.received.bits[pid/64]&(1<<(pid%64)) == 0 {
		return false
	}
	s.received.bits[pid/64] &^= 1 << (pid % 64)
	if s.received.n--; s.received.n == 0 {
		s.received = nil
	}
	return true
}

// tooLarge gives up a message that is larger than what its client takes.
func (b *Broker) tooLarge(s *session, d *delivery) {
	b.mu.Lock()
	defer b.unlock()
	b.counters.dropped.Add(1)
	b.note("too large", "a message on %.128q is larger than what client %.64q takes", d.topic, s.id)
	if i := slices.IndexFunc(s.sent, func(x delivery) bool { return d.qos > 0 && x.pid == d.pid }); i >= 0 {
		b.free(s, s.sent[i])
		s.sent = slices.Delete(s.sent, i, i+1)
	}
}
