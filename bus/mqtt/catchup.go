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
// Once subscribed, the bridge sends a message to itself, the marker. A broker
// puts it behind what it has for us, more or less: mosquitto 2.0.11 lets it
// pass messages of its queue if some of them are of QoS 1 and some of QoS 2.
// But by the time that it gets the next marker it has our acknowledgements of
// what came with this one, and has sent more. So a marker is sent again until a
// round, from one that is back to the next, brings nothing of QoS 1 or 2 but
// the marker; then everything is news. Options.Settle is a pause in each round,
// for brokers that send what they kept at their leisure. A robot to which so
// much is sent that no round is empty takes everything for news after a minute
// of rounds.
//
// A marker that does not come back is sent again, and told of; until one does,
// nothing is an order. Each connection has its own mark, so that one which
// another connection sent proves nothing. A message that the broker marks as
// sent before (DUP, section 3.3.1.1) is queued whenever it comes. Without a
// session nothing can have waited.

// CaughtUpTopic tells that what comes from now on is news, and how many
// messages came before that.
const CaughtUpTopic = "edged/mqtt/caught_up"

const (
	waited = "it waited at the broker while the robot was away"
	again  = "the broker sends it again after a lost connection"

	// markerIDs are the packet ids of markers, out of the quarter that Paho
	// numbers its subscriptions in, from one on.
	markerIDs  = 0x3ff0
	markerTry  = time.Second // until a lost marker is sent again, doubling up to Options.Timeout
	roundLimit = time.Minute // after the first that is back
)

// catchup is what one connection knows of it.
type catchup struct {
	topic  string // of the marker
	mark   string // its payload begins with it
	settle time.Duration
	away   time.Duration // since the broker was heard last; 0 = not known

	behind atomic.Bool   // a session was taken up, and not all that waited has come
	tries  atomic.Uint32 // markers sent
	queued atomic.Uint64
	next   chan struct{} // one token: a marker is back, send another
	done   chan struct{} // closed when no more is needed

	// The reading goroutine's own.
	first time.Time // when the first marker was back
	since int       // messages since a marker was back, or since the connection
}

func newCatchup(topic string, settle, away time.Duration) *catchup {
	return &catchup{
		topic: topic, mark: fmt.Sprintf("%016x", rand.Uint64()), settle: settle, away: away,
		next: make(chan struct{}, 1), done: make(chan struct{}),
	}
}

// arrival says how a message came. Only the reading goroutine calls it.
func (c *catchup) arrival(p *publish) arrival {
	a := arrival{retained: p.retained, away: c.away}
	switch {
	case p.retained:
	case c.behind.Load():
		a.queued = waited
		c.queued.Add(1)
		if p.qos > 0 {
			c.since++
		}
	case p.dup:
		a.queued = again
	}
	return a
}

// payload is that of the newest marker.
func (c *catchup) payload() string { return fmt.Sprint(c.mark, "-", c.tries.Load()) }

// returned reports whether a message is a marker, and looks what the round
// brought. Only the reading goroutine calls it.
func (c *catchup) returned(p *publish) bool {
	if p.topic != c.topic {
		return false
	}
	if !c.behind.Load() || string(p.payload) != c.payload() {
		return true
	}
	empty := c.since == 0 && (c.settle == 0 || !c.first.IsZero())
	c.since = 0
	if c.first.IsZero() {
		c.first = time.Now()
	}
	if empty || time.Since(c.first) > roundLimit {
		c.behind.Store(false)
		close(c.done)
	} else {
		token(c.next)
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
		id := markerIDs | uint16(c.tries.Add(1)&15)
		w.out = appendPublish(w.out, c.topic, []byte(c.payload()), 1, false, false, id)
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
	case c.tries.Load() > 0 && byPeer && lasted < refusedSoon:
		return n + 1
	case lasted > refusedLong:
		return min(n, refusedTimes-1)
	}
	return n
}
