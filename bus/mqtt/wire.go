package mqtt

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"edged/bus"
)

// wire is the outbound half of a bridge and what must outlive a connection:
// the queue, the expected echoes, the QoS 2 messages that came in.
//
// Packets are put into a buffer by whoever has one, under the lock and without
// waiting, and written by one goroutine per connection. So a tap of the bus
// costs a copy, and a burst costs few writes.
type wire struct {
	*link
	o      Options
	outbox Outbox
	in     *inbox

	mu       sync.Mutex // guards what follows; never held while calling out
	line     *line      // the connection, nil between connections
	up       bool       // the line may carry messages
	hears    bool       // the broker sends us what we subscribed to
	q        *queue
	echo     *echo
	received map[uint16]bool // QoS 2 in: acknowledged, not released yet
	out      []byte          // packets to be written
	spare    []byte
	unsent   int  // QoS 0 messages in out
	forgot   bool // the broker had no session of ours
	states   states
	stale    bool     // a QoS 0 message that is to be retained was dropped
	gone     []uint64 // to be removed from the outbox
	drained  chan struct{}

	born time.Time
	seen struct{ wall, mono atomic.Int64 } // when the broker was heard last, by both clocks

	wake chan struct{} // one token: there is something to write
	tidy chan struct{} // one token: there is something to remove
}

const (
	maxOut  = 1 << 20 // bytes of QoS 0 that wait for the network
	maxPump = 256 << 10
)

func newWire(l *link, o Options) *wire {
	w := &wire{
		link: l, o: o, outbox: o.Outbox, q: newQueue(uint16(rand.Uint32())), echo: newEcho(),
		received: map[uint16]bool{}, states: states{last: map[string][]byte{}}, born: time.Now(), wake: make(chan struct{}, 1), tidy: make(chan struct{}, 1),
	}
	w.in = newInbox(w, o.Inbox)
	return w
}

// load takes over what an earlier process left in the outbox.
func (w *wire) load() {
	for id, rec := range w.outbox.All() {
		m, err := parseRecord(rec)
		if err != nil {
			w.reject("outbox", fmt.Errorf("record %d: %w", id, err))
			w.gone = append(w.gone, id)
			continue
		}
		m.id, m.stored, m.again = id, true, true
		m.echo = w.subscribed(m.topic)
		w.q.push(m)
	}
	token(w.tidy)
}

func (w *wire) subscribed(topic string) bool {
	for _, r := range w.Subscribe {
		if bus.Match(r.Filter, topic) {
			return true
		}
	}
	return false
}

// offer takes an event's message from the bus. Taps are called one at a time,
// so the outbox has the messages in the order of the bus.
func (w *wire) offer(e bus.Event, r Route, v verdict, payload []byte) {
	retain := r.Retain || e.Keep
	if n := publishSize(v.topic, payload, r.QoS); n > w.o.MaxPacket {
		w.tooBig(e.Topic, n)
		return
	}
	if r.Retain && !e.Keep {
		w.mu.Lock()
		w.states.note(v.topic, payload)
		w.mu.Unlock()
	}
	if r.QoS == 0 {
		w.send(v, payload, retain)
		return
	}
	m := &message{topic: v.topic, payload: payload, qos: r.QoS, retain: retain, echo: v.echo}
	if !w.room(m.size()) {
		return
	}
	id, err := w.outbox.Append(appendRecord(make([]byte, 0, 4+m.size()), m))
	if err != nil {
		w.unstored.Add(1)
		w.report("outbox", fmt.Errorf("mqtt: outbox: %w: messages are kept in memory only", err))
	}
	m.id, m.stored = id, err == nil
	w.mu.Lock()
	w.q.push(m)
	w.pump()
	w.mu.Unlock()
}

func (w *wire) tooBig(topic string, n int) {
	w.tooLarge.Add(1)
	w.report(topic, fmt.Errorf("mqtt: message on %s has %d bytes, at most %d are allowed (mqtt.max_packet)",
		printable(topic), n, w.o.MaxPacket))
}

// room makes room for a message by the overflow policy, or refuses it.
func (w *wire) room(size int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.q.n >= w.o.Limit || w.q.bytes+size > w.o.Bytes {
		var old *message
		if w.o.Overflow != bus.DropNew && size <= w.o.Bytes {
			old = w.q.dropOldest()
		}
		if old == nil {
			w.dropNew.Add(1)
			return false
		}
		w.dropOldest.Add(1)
		w.discard(old)
	}
	return true
}

// discard forgets a message's record; the caller holds mu.
func (w *wire) discard(m *message) {
	if m.stored {
		w.gone = append(w.gone, m.id)
		token(w.tidy)
	}
}

// send writes a QoS 0 message now or never.
func (w *wire) send(v verdict, payload []byte, retain bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !w.up:
		w.dropOffline.Add(1)
	case len(w.out) > maxOut:
		w.dropSlow.Add(1)
	default:
		w.publish(&message{topic: v.topic, payload: payload, retain: retain, echo: v.echo})
		w.unsent++
		return
	}
	w.stale = w.stale || retain
}

// publish puts a PUBLISH into the buffer; the caller holds mu.
func (w *wire) publish(m *message) {
	w.out = appendPublish(w.out, m.topic, m.payload, m.qos, m.retain, m.again && m.qos > 0, m.pid)
	if m.echo && w.hears {
		w.echo.expect(m.topic, m.payload, m.qos, time.Now())
	}
	w.link.out.Add(1)
	token(w.wake)
}

// post sends a message of the bridge's own: it is not stored and not counted
// against the limits.
func (w *wire) post(topic string, payload []byte) *message {
	m := &message{topic: topic, payload: payload, qos: 1, retain: true, control: true}
	w.mu.Lock()
	defer w.mu.Unlock()
	m.echo = w.subscribed(topic)
	w.q.push(m)
	w.pump()
	return m
}

// pump puts what may be sent into the buffer; the caller holds mu.
func (w *wire) pump() {
	for w.up && len(w.out) < maxPump {
		m := w.q.next()
		if m == nil {
			return
		}
		if m.again {
			w.again.Add(1)
		}
		w.publish(m)
	}
}

// connected lets messages out over the line. present says that the broker still
// has our session.
func (w *wire) connected(present bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.echo.reconnected(!present, time.Now())
	if !present {
		clear(w.received)
		w.forgot = true
	}
	for _, m := range w.q.lost(!present) {
		w.out = appendAck(w.out, typePubrel, m.pid)
	}
	w.up, w.hears = true, present
	w.pump()
	token(w.wake)
}

// away is how long ago the broker was heard last, 0 if it never was. Time that
// the machine slept counts, as does a step of the clock: better too long.
func (w *wire) away() time.Duration {
	wall := w.seen.wall.Load()
	if wall == 0 {
		return 0
	}
	return max(time.Since(w.born)-time.Duration(w.seen.mono.Load()), time.Duration(time.Now().UnixNano()-wall))
}

// hear is called when we subscribe: from now on the broker sends us echoes.
func (w *wire) hear() {
	w.mu.Lock()
	w.hears = true
	w.mu.Unlock()
}

// refresh sends again what the broker is to keep: to one that has lost our
// session all of it, for it may have lost that too; else what was dropped for
// want of a connection. What waits in the queue comes anyway.
func (w *wire) refresh() {
	w.mu.Lock()
	stale, forgot := w.stale, w.forgot
	w.stale, w.forgot = false, false
	again := map[string][]byte{}
	if forgot {
		maps.Copy(again, w.states.last)
	}
	w.mu.Unlock()
	if !stale && !forgot {
		return
	}
	for _, e := range w.bus.Retained("#") {
		e.Retained = false
		v := w.outward(e.Topic)
		if v.route < 0 || !w.leaves(e, w.Publish[v.route]) {
			continue
		}
		r := w.Publish[v.route]
		if r.QoS > 0 && !forgot {
			continue
		}
		if p, ok := w.encode(e, r, v); ok && r.QoS == 0 {
			w.send(v, p, true)
		} else if ok {
			again[v.topic] = p
		}
	}
	for _, topic := range slices.Sorted(maps.Keys(again)) {
		w.mu.Lock()
		waits := w.q.lanes[topic] != nil
		w.mu.Unlock()
		if !waits {
			w.post(topic, again[topic])
		}
	}
}

// states remembers the last message of each topic that the broker keeps because
// its route says so, though the bus doesn't; within bounds.
type states struct {
	last  map[string][]byte
	bytes int
}

const (
	statesTopics = 1024
	statesBytes  = 1 << 20
)

func (s *states) note(topic string, payload []byte) {
	old, known := s.last[topic]
	s.bytes -= len(old)
	delete(s.last, topic)
	if !known && len(s.last) >= statesTopics || s.bytes+len(payload) > statesBytes || len(payload) == 0 {
		return
	}
	s.last[topic] = payload
	s.bytes += len(payload)
}

// open makes l the line; packets may be put into its buffer from now on.
func (w *wire) open(l *line) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.line, w.up, w.out, w.unsent = l, false, w.out[:0], 0
}

// shut ends the line: what is in its buffer is lost or waits in the queue.
func (w *wire) shut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dropOffline.Add(uint64(w.unsent))
	w.line, w.up, w.out, w.unsent = nil, false, nil, 0
}

// run writes the buffer until done is closed or the connection fails.
func (w *wire) run(c net.Conn, done <-chan struct{}) {
	for {
		w.mu.Lock()
		w.pump()
		b, n := w.out, w.unsent
		w.out, w.spare, w.unsent = w.spare[:0], nil, 0
		w.mu.Unlock()
		if len(b) > 0 {
			if _, err := c.Write(b); err != nil {
				w.dropOffline.Add(uint64(n))
				return
			}
		}
		w.mu.Lock()
		if cap(b) <= maxPump {
			w.spare = b
		}
		idle := len(w.out) == 0
		w.mu.Unlock()
		if !idle {
			continue
		}
		select {
		case <-w.wake:
		case <-done:
			return
		}
	}
}

// clean removes from the outbox what was acknowledged or dropped, until ctx
// ends and once more then.
func (w *wire) clean(ctx context.Context) {
	for {
		select {
		case <-w.tidy:
		case <-ctx.Done():
			w.removeGone()
			return
		}
		if w.removeGone() {
			continue
		}
		select {
		case <-time.After(time.Second):
			token(w.tidy)
		case <-ctx.Done():
		}
	}
}

func (w *wire) removeGone() bool {
	w.mu.Lock()
	ids := w.gone
	w.gone = nil
	w.mu.Unlock()
	if len(ids) == 0 {
		return true
	}
	if err := w.outbox.Remove(ids...); err != nil {
		w.report("outbox", fmt.Errorf("mqtt: outbox: remove: %w", err))
		w.mu.Lock()
		w.gone = append(ids, w.gone...)
		w.mu.Unlock()
		return false
	}
	return true
}

// drain waits until nothing is left to send, or for d.
func (w *wire) drain(d time.Duration) {
	w.mu.Lock()
	if w.q.first == nil {
		w.mu.Unlock()
		return
	}
	c := make(chan struct{})
	w.drained = c
	w.mu.Unlock()
	select {
	case <-c:
	case <-time.After(d):
	}
}

// token leaves a token in a channel of one, unless there is one.
func token(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
