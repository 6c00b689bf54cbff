package mqtt

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"
)

// How what a broker kept while the robot was away is told from news, without
// anything in MQTT 3.1.1 that says so.
//
// When a connection takes up a session (CONNACK says so, section 3.2.2.2), the
// broker sends what it kept. So from the CONNACK on everything counts as queued.
// Once subscribed, the bridge sends a message to itself, the marker. It goes to
// the end of the broker's queue for us: when it is back, what was in front of it
// has come. Then everything is news, after a time (Settle) for brokers that do
// not keep topics in order. A marker that does not come back is sent again, and
// told of; until one does, nothing is an order. Each connection has its own
// mark, so that one which another connection sent proves nothing. A message
// that the broker marks as sent before (DUP, section 3.3.1.1) is queued
// whenever it comes. Without a session nothing can have waited.

// CaughtUpTopic tells that what comes from now on is news, and how many
// messages came before that.
const CaughtUpTopic = "edged/mqtt/caught_up"

const (
	waited = "it waited at the broker while the robot was away"
	again  = "the broker sends it again after a lost connection"

	// markerIDs are the packet ids of markers, out of the quarter that Paho
	// numbers its subscriptions in, from one on.
	markerIDs = 0x3ff0
	markerTry = time.Second // until a marker is sent again, doubling up to Options.Timeout
)

// catchup is what one connection knows of it. All but the reading goroutine's
// fields may be used by anybody.
type catchup struct {
	topic  string // of the marker
	mark   string // its payload
	settle time.Duration
	away   time.Duration // since the last connection, at most; 0 = not known

	behind atomic.Bool // a session was taken up, and the marker is not back
	queued atomic.Uint64
	back   chan struct{} // closed when it is
	tries  int           // markers sent; who sends them has it

	// The reading goroutine's own.
	backAt time.Time
}

func newCatchup(topic string, settle, away time.Duration) *catchup {
	return &catchup{
		topic: topic, mark: fmt.Sprintf("%016x", rand.Uint64()), settle: settle, away: away, back: make(chan struct{}),
	}
}

// arrival says how a message came. Only the reading goroutine calls it.
func (c *catchup) arrival(p *publish) arrival {
	a := arrival{retained: p.retained, away: c.away}
	switch {
	case p.retained:
	case c.behind.Load() || !c.backAt.IsZero() && time.Since(c.backAt) < c.settle:
		a.queued = waited
	case p.dup:
		a.queued = again
	}
	return a
}

// returned reports whether a message is a marker, and notes ours. Only the
// reading goroutine calls it.
func (c *catchup) returned(p *publish) bool {
	if p.topic != c.topic {
		return false
	}
	if c.behind.Load() && string(p.payload) == c.mark {
		c.behind.Store(false)
		c.backAt = time.Now()
		close(c.back)
	}
	return true
}

// tells reports whether a route makes a difference between what waited and news.
func (m *Mapping) tells() bool {
	return slices.ContainsFunc(m.Subscribe, func(r Route) bool { return !r.ActOnQueued || r.MaxAge > 0 })
}

// sendMarker puts a marker into the buffer.
func (w *wire) sendMarker(c *catchup) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.up {
		w.out = appendPublish(w.out, c.topic, []byte(c.mark), 1, false, false, markerIDs|uint16(c.tries&15))
		c.tries++
		token(w.wake)
	}
}

const (
	refusedTimes = 2
	refusedSoon  = 5 * time.Second
	refusedLong  = 10 * time.Minute
)

// refusals counts the connections that the broker ended right after a marker:
// mosquitto does with max_queued_messages 0, if the topic is not allowed. After
// two of them none is sent, until a connection has lasted.
func (c *catchup) refusals(n int, byPeer bool, lasted time.Duration) int {
	switch {
	case !c.behind.Load():
		return 0
	case c.tries > 0 && byPeer && lasted < refusedSoon:
		return n + 1
	case lasted > refusedLong:
		return min(n, refusedTimes-1)
	}
	return n
}
