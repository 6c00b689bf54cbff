package mqtt

// window is how many messages may be in flight at a time.
const window = 100

// phase is how far a message has come.
type phase uint8

const (
	waiting  phase = iota
	sent           // PUBLISH written, nothing heard
	released       // QoS 2: PUBREC seen, PUBREL written
)

// message is one message of QoS 1 or 2 on its way out.
type message struct {
	id      uint64 // in the outbox
	stored  bool   // it is in the outbox
	topic   string
	payload []byte
	qos     byte
	retain  bool
	echo    bool // we subscribed to its topic
	control bool // status and discovery: not counted against the limits
	again   bool // it may have been sent before
	pid     uint16
	phase   phase

	older, newer *message // of all
	next         *message // of the same topic
}

func (m *message) size() int64 { return int64(len(m.topic) + len(m.payload)) }

// lane is the messages of one topic, oldest first. One of them is in flight at
// a time: that is how the order of a topic survives a lost connection.
type lane struct {
	head, tail *message
	busy       bool // the head is in flight
	ready      bool // it is in queue.ready
}

// queue holds what waits and what is in flight. Its owner has the lock.
type queue struct {
	first, last *message
	n           int
	bytes       int64
	lanes       map[string]*lane
	ready       []*lane // with a head that may be sent, the longest waiting first
	flight      map[uint16]*message
	pid         uint16
}

func newQueue(seed uint16) *queue {
	return &queue{lanes: map[string]*lane{}, flight: map[uint16]*message{}, pid: seed}
}

// push adds a message at the end.
func (q *queue) push(m *message) {
	if q.last == nil {
		q.first = m
	} else {
		q.last.newer, m.older = m, q.last
	}
	q.last = m
	if !m.control {
		q.n++
		q.bytes += m.size()
	}
	l := q.lanes[m.topic]
	if l == nil {
		l = &lane{}
		q.lanes[m.topic] = l
	}
	if l.tail == nil {
		l.head = m
	} else {
		l.tail.next = m
	}
	l.tail = m
	q.offer(l, m.control)
}

func (q *queue) offer(l *lane, front bool) {
	if l.busy || l.ready || l.head == nil {
		return
	}
	l.ready = true
	if front {
		q.ready = append([]*lane{l}, q.ready...)
	} else {
		q.ready = append(q.ready, l)
	}
}

// next takes the next message to send, with a packet id, or nil.
func (q *queue) next() *message {
	for len(q.ready) > 0 && len(q.flight) < window {
		l := q.ready[0]
		m := l.head
		if m != nil && !q.number(m) {
			return nil
		}
		q.ready[0] = nil
		q.ready = q.ready[1:]
		l.ready = false
		if m == nil {
			continue // its messages were dropped
		}
		l.busy = true
		m.phase = sent
		q.flight[m.pid] = m
		return m
	}
	return nil
}

// number gives a packet id out of the upper three quarters; Paho numbers its
// subscriptions from one on. A stored QoS 2 message has the same id in every
// process, so that the broker knows it again; if the id is in use, it waits.
func (q *queue) number(m *message) bool {
	if m.qos == 2 && m.stored {
		m.pid = 0x8000 | uint16(m.id&0x7fff)
		return q.flight[m.pid] == nil
	}
	for {
		q.pid = 0x4000 | (q.pid+1)&0x3fff
		if q.flight[q.pid] == nil {
			m.pid = q.pid
			return true
		}
	}
}

// done ends a message that is in flight.
func (q *queue) done(m *message) {
	delete(q.flight, m.pid)
	l := q.lanes[m.topic]
	l.busy = false
	q.remove(m)
	q.offer(l, false)
}

// dropOldest gives up the oldest message that is not in flight.
func (q *queue) dropOldest() *message {
	for m := q.first; m != nil; m = m.newer {
		if m.phase == waiting && !m.control {
			q.remove(m)
			return m
		}
	}
	return nil
}

// remove unlinks a message; it is its lane's head, or next to it.
func (q *queue) remove(m *message) {
	if m.older == nil {
		q.first = m.newer
	} else {
		m.older.newer = m.newer
	}
	if m.newer == nil {
		q.last = m.older
	} else {
		m.newer.older = m.older
	}
	if !m.control {
		q.n--
		q.bytes -= m.size()
	}
	l := q.lanes[m.topic]
	var before *message
	for x := l.head; x != m; x = x.next {
		before = x
	}
	if before == nil {
		l.head = m.next
	} else {
		before.next = m.next
	}
	if l.tail == m {
		l.tail = before
	}
	if l.head == nil {
		delete(q.lanes, m.topic)
	}
	m.older, m.newer, m.next = nil, nil, nil
}

// lost puts what was in flight back, to be sent again in the order of age. With
// forgot the broker has lost its session, so that a released message must be
// sent from the start; the others are returned, to be released again.
func (q *queue) lost(forgot bool) (toRelease []*message) {
	q.ready = q.ready[:0]
	for _, l := range q.lanes {
		l.ready = false
	}
	for m := q.first; m != nil; m = m.newer {
		if m.phase == released && !forgot {
			toRelease = append(toRelease, m)
			continue
		}
		l := q.lanes[m.topic]
		if m.phase != waiting {
			delete(q.flight, m.pid)
			m.phase, m.again, l.busy = waiting, !forgot, false
		}
		if l.head == m {
			q.offer(l, false)
		}
	}
	return toRelease
}
