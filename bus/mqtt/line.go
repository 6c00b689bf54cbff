package mqtt

import (
	"fmt"
	"time"
)

// line is one connection's inbound half. It forwards to the wire as long as it
// is the wire's line, so that nothing of an old connection is acknowledged on a
// new one.
//
// Nothing in this file blocks: it runs on Paho's reading goroutine, and a
// publish to the bus doesn't wait.
type line struct {
	w       *wire
	extra   func(topic string, payload []byte, retained bool) // the bridge's own subscription
	refused bool                                              // the bus did not take a message; touched by arrived only
	fail    func(error)                                       // ends the connection
	catchup *catchup
}

var _ sink = (*line)(nil)

// arrived implements sink: messages come one by one in the broker's order.
func (l *line) arrived(p publish) {
	if l.refused {
		return // the broker sends it again, after the one that was refused
	}
	topic, payload, qos, id := p.topic, p.payload, p.qos, p.id
	if qos == 2 && l.twice(id) {
		l.reply(typePubrec, id)
		return
	}
	if l.catchup.returned(&p) {
		l.reply(typePuback, id)
		return
	}
	if l.extra != nil {
		l.extra(topic, payload, p.retained)
	}
	a := l.catchup.arrival(&p)
	if a.retained || !l.heard(topic, payload) {
		if qos > 0 && !a.retained && l.w.durable(topic) {
			l.w.in.take(letter{line: l, message: message{topic: topic, payload: payload, qos: qos, pid: id}, a: a})
			return // it is acknowledged when it is on disk
		}
		if err := l.w.receive(topic, payload, a); err != nil && qos > 0 {
			l.refused = true
			l.fail(fmt.Errorf("message on %s: %w", printable(topic), err))
			return
		}
	}
	switch qos {
	case 1:
		l.reply(typePuback, id)
	case 2:
		l.reply(typePubrec, id)
	}
}

// alive implements sink.
func (l *line) alive() {
	now := time.Now()
	l.w.seen.wall.Store(now.UnixNano())
	l.w.seen.mono.Store(int64(now.Sub(l.w.born)))
}

// resumed implements sink.
func (l *line) resumed() { l.catchup.behind.Store(l.w.tells()) }

// twice reports whether a QoS 2 message was taken already and not released.
func (l *line) twice(id uint16) bool {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	return l.w.received[id]
}

func (l *line) heard(topic string, payload []byte) bool {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if l.w.echo.heard(topic, payload, time.Now()) {
		l.w.echoes.Add(1)
		return true
	}
	return false
}

func (l *line) reply(kind byte, id uint16) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if kind == typePubrec && (l.w.line == l || l.w.line == nil) {
		l.w.received[id] = true // also if the connection just ended: it comes again on the next
	}
	if l.w.line != l {
		return
	}
	l.w.out = appendAck(l.w.out, kind, id)
	token(l.w.wake)
}

// acknowledged implements sink.
func (l *line) acknowledged(kind byte, id uint16) {
	w := l.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.line != l {
		return
	}
	if kind == typePubrel {
		delete(w.received, id)
		w.out = appendAck(w.out, typePubcomp, id)
		token(w.wake)
		return
	}
	m := w.q.flight[id]
	switch {
	case kind == typePubrec: // also for one that we have forgotten: the broker waits for it
		if m != nil && m.qos == 2 {
			m.phase = released
		}
		w.out = appendAck(w.out, typePubrel, id)
		token(w.wake)
	case m != nil && (kind == typePuback) == (m.qos == 1):
		w.q.done(m)
		w.discard(m)
		if !m.control {
			w.acked.Add(1)
		}
		if w.drained != nil && w.q.first == nil {
			close(w.drained)
			w.drained = nil
		}
		w.pump()
	}
}

// tooLarge implements sink.
func (l *line) tooLarge(topic string, size int, qos byte, id uint16) {
	l.w.tooBig(topic, size)
	switch qos {
	case 1:
		l.reply(typePuback, id)
	case 2:
		l.reply(typePubrec, id)
	}
}
