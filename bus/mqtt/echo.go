package mqtt

import (
	"container/list"
	"hash/maphash"
	"time"
)

const (
	echoes   = 4096
	echoTime = time.Minute
)

// echo remembers what we sent on topics that we subscribed to, so that the
// broker's copy can be told from news. Each message sent is expected back once,
// within a minute of connection. A message of somebody else with the same topic
// and content can take the place of ours: then ours counts as theirs, and the
// number of events is right. Its owner has the lock.
type echo struct {
	seed  maphash.Seed
	byKey map[uint64]*list.Element
	order *list.List // least lately sent first
}

type expected struct {
	key  uint64
	n    int
	qos0 bool // a lost connection means that it may never come
	at   time.Time
}

func newEcho() *echo {
	return &echo{seed: maphash.MakeSeed(), byKey: map[uint64]*list.Element{}, order: list.New()}
}

func (e *echo) key(topic string, payload []byte) uint64 {
	var h maphash.Hash
	h.SetSeed(e.seed)
	_, _ = h.WriteString(topic)
	_ = h.WriteByte(0)
	_, _ = h.Write(payload)
	return h.Sum64()
}

// expect notes a message that is being sent.
func (e *echo) expect(topic string, payload []byte, qos byte, now time.Time) {
	k := e.key(topic, payload)
	if el := e.byKey[k]; el != nil {
		x := el.Value.(*expected)
		x.n, x.at = x.n+1, now
		e.order.MoveToBack(el)
		return
	}
	if e.order.Len() >= echoes {
		e.forget(e.order.Front())
	}
	e.byKey[k] = e.order.PushBack(&expected{key: k, n: 1, qos0: qos == 0, at: now})
}

// heard reports whether a message that came in is one of ours, and takes it
// off the list.
func (e *echo) heard(topic string, payload []byte, now time.Time) bool {
	if e.order.Len() == 0 {
		return false
	}
	el := e.byKey[e.key(topic, payload)]
	if el == nil {
		return false
	}
	x := el.Value.(*expected)
	if now.Sub(x.at) > echoTime {
		e.forget(el)
		return false
	}
	if x.n--; x.n == 0 {
		e.forget(el)
	}
	return true
}

// reconnected forgets what will not come any more and gives the rest its
// minute again. With forgot the broker has lost our session.
func (e *echo) reconnected(forgot bool, now time.Time) {
	for el := e.order.Front(); el != nil; {
		next := el.Next()
		if x := el.Value.(*expected); forgot || x.qos0 {
			e.forget(el)
		} else {
			x.at = now
		}
		el = next
	}
}

func (e *echo) forget(el *list.Element) {
	delete(e.byKey, el.Value.(*expected).key)
	e.order.Remove(el)
}
