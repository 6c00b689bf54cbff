package mqtt

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"edged/bus"
)

// runtime is the source of the events about links, so that they may cross them.
const runtime = "runtime:mqtt"

// Topics of the events about links.
const (
	UpTopic   = "edged/mqtt/up"
	DownTopic = "edged/mqtt/down"
)

// Stats is what a link has counted since it was made.
type Stats struct {
	Connected bool   `json:"connected"`
	Reason    string `json:"reason,omitempty"`   // why it isn't
	In        uint64 `json:"in"`                 // events published for messages that came in
	Out       uint64 `json:"out"`                // messages handed to the network or the broker
	Acked     uint64 `json:"acked"`              // QoS 1 and 2
	Again     uint64 `json:"again"`              // sent again after a lost connection
	Queued    uint64 `json:"queued"`             // of In: too old to be an order
	Echoes    uint64 `json:"echoes"`             // our own messages that came back
	Unchanged uint64 `json:"unchanged"`          // retained copies of what the bus keeps already
	Malformed uint64 `json:"malformed"`          // could not be taken or sent as they are
	TooLarge  uint64 `json:"too_large"`          // above max_packet, either way
	Refused   uint64 `json:"refused"`            // the bus was overloaded or closed
	Forged    uint64 `json:"forged,omitempty"`   // clients of the broker inside: on the robot's own topics
	Tellings  uint64 `json:"tellings,omitempty"` // of other robots, that they stopped or went on
	Waiting   int    `json:"waiting"`            // in the outbox
	Bytes     int64  `json:"bytes"`
	Attempts  uint64 `json:"attempts"` // to connect

	DropOffline uint64 `json:"drop_offline"` // QoS 0 while there was no connection
	DropSlow    uint64 `json:"drop_slow"`    // QoS 0 faster than the network takes it
	DropOldest  uint64 `json:"drop_oldest"`  // outbox full
	DropNew     uint64 `json:"drop_new"`     // outbox full
	Unstored    uint64 `json:"unstored"`     // the outbox failed: kept in memory only

	Inbox     int    `json:"inbox,omitempty"`      // of durable routes: not handled yet
	InboxFull uint64 `json:"inbox_full,omitempty"` // not acknowledged: the broker keeps them
}

type counters struct {
	in, out, acked, again, queued, echoes, unchanged, malformed, tooLarge, refused, forged, tellings, attempts atomic.Uint64
	dropOffline, dropSlow, dropOldest, dropNew, unstored, inboxFull                                            atomic.Uint64
}

func (c *counters) stats() Stats {
	return Stats{
		In: c.in.Load(), Out: c.out.Load(), Acked: c.acked.Load(), Again: c.again.Load(), Queued: c.queued.Load(), Echoes: c.echoes.Load(),
		Unchanged: c.unchanged.Load(), Malformed: c.malformed.Load(), TooLarge: c.tooLarge.Load(),
		Refused: c.refused.Load(), Forged: c.forged.Load(), Tellings: c.tellings.Load(), Attempts: c.attempts.Load(), DropOffline: c.dropOffline.Load(),
		DropSlow: c.dropSlow.Load(), DropOldest: c.dropOldest.Load(), DropNew: c.dropNew.Load(), Unstored: c.unstored.Load(), InboxFull: c.inboxFull.Load(),
	}
}

// link is what the ways to MQTT have in common: mapping, codecs, marks of
// origin, counters and reports.
type link struct {
	bus    *bus.Bus
	source string // of events that came in
	*mapper
	counters

	taps []*bus.Subscription
	// answers is a link whose peer can be told that a message is not taken.
	answers bool
	idle    func(topic string) bool // a message that isn't retained would reach nobody; may be nil

	mu       sync.Mutex // guards the rest
	reported map[string]time.Time
	states   map[string][]byte // what was told to be kept, by topic of the broker
}

func newLink(b *bus.Bus, name string, m Mapping) (*link, error) {
	mp, err := newMapper(m)
	if err != nil {
		return nil, err
	}
	l := &link{bus: b, source: "mqtt", mapper: mp, reported: map[string]time.Time{}, states: map[string][]byte{}}
	if name != "" {
		l.source = "mqtt:" + name
	}
	return l, nil
}

// listen calls send for every event that the mapping lets out, in order, on the
// publisher's goroutine.
func (l *link) listen(send func(e bus.Event, r Route, v verdict, payload []byte)) error {
	for i, r := range l.Publish {
		tap, err := l.bus.Tap(r.Filter, func(e bus.Event) {
			v := l.outward(e.Topic)
			if v.route != i || !l.leaves(e, r) || slices.Contains(l.Told, e.Topic) || l.idle != nil && !e.Keep && !r.Retain && l.idle(v.topic) {
				return
			}
			if p, ok := l.encode(e, r, v); ok {
				send(e, r, v, p)
			}
		})
		if err != nil {
			l.close()
			return fmt.Errorf("mqtt: publish %q: %w", r.Filter, err)
		}
		l.taps = append(l.taps, tap)
	}
	return nil
}

func (l *link) close() {
	for _, t := range l.taps {
		t.Close()
	}
}

// leaves is the rule of the package.
func (l *link) leaves(e bus.Event, r Route) bool {
	switch {
	case e.Source == l.source, e.Taken:
		return false
	case e.Source == "mqtt" || strings.HasPrefix(e.Source, "mqtt:"):
		return r.Relay
	}
	return !e.Retained // a copy, not news
}

func (l *link) encode(e bus.Event, r Route, v verdict) ([]byte, bool) {
	p, err := l.codecs.encode(r.Codec, e)
	if err != nil {
		l.malformed.Add(1)
		l.report(e.Topic, fmt.Errorf("mqtt: publish %s: %w", v.topic, err))
		return nil, false
	}
	return p, true
}

// errBusy means that the bus did not take a message that it may take later.
var errBusy = errors.New("the bus did not take it")

// receive makes an event of a message that came in. It returns errBusy when the
// message should come again; everything else is counted, reported and over.
func (l *link) receive(topic string, payload []byte, a arrival) error {
	_, err := l.take(topic, payload, a)
	return err
}

// take is receive; seq is the event's number, 0 if there is none.
func (l *link) take(topic string, payload []byte, a arrival) (seq uint64, err error) {
	v := l.inward(topic)
	if v.err != nil {
		l.reject(topic, v.err)
		return 0, nil
	}
	if v.route < 0 {
		return 0, nil
	}
	r := &l.Subscribe[v.route]
	val, err := l.codecs.decode(r.Codec, payload)
	if err != nil {
		l.reject(topic, err)
		return 0, nil
	}
	if a.retained && l.known(v.topic, val) {
		return 0, nil
	}
	if l.telling(v.topic, val) {
		l.tellings.Add(1)
		return 0, nil
	}
	ctx := context.Background()
	old := r.order(a, val, time.Now())
	if old != nil {
		ctx = bus.WithOld(ctx, *old)
	}
	publish := l.bus.Publish
	switch {
	case a.retained && !r.ActOnRetained:
		publish = l.bus.Replay
	case a.retained || a.keep:
		publish = l.bus.Retain
	}
	e, err := publish(ctx, l.source, v.topic, val)
	if err != nil {
		if errors.Is(err, bus.ErrOverload) || errors.Is(err, bus.ErrClosed) {
			if !l.answers { // else it is offered again, and counted there when that ends
				l.refused.Add(1)
			}
			return 0, errBusy
		}
		if errors.Is(err, bus.ErrFull) {
			l.refused.Add(1)
			if l.answers {
				return 0, err
			}
			l.report(topic, fmt.Errorf("mqtt: message on %s: %w", printable(topic), err))
			return 0, nil
		}
		l.reject(topic, err)
		return 0, nil
	}
	l.in.Add(1)
	if old != nil && !a.retained {
		l.queued.Add(1)
	}
	return e.Seq, nil
}

// telling reports whether a message is a robot's word about itself.
func (l *link) telling(topic string, val any) bool {
	if !slices.Contains(l.Told, topic) {
		return false
	}
	if raw, ok := val.(bus.RawJSON); ok {
		val, _ = bus.DecodeJSON(raw) // it was decoded before
	}
	m, _ := val.(map[string]any)
	_, stopped := m["stopped"].(string)
	_, resumed := m["resumed"].(string)
	return stopped || resumed
}

// note remembers a state that is told again to whoever comes to know us; it
// reports whether it is another one.
func (l *link) note(topic string, state []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if old, known := l.states[topic]; known && string(old) == string(state) {
		return false
	}
	l.states[topic] = state
	return true
}

// stated reports whether a state is told on a topic of the broker.
func (l *link) stated(topic string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, is := l.states[topic]
	return is
}

// everyState gives the states to f.
func (l *link) everyState(f func(topic string, state []byte)) {
	l.mu.Lock()
	all := maps.Clone(l.states)
	l.mu.Unlock()
	for _, topic := range slices.Sorted(maps.Keys(all)) {
		f(topic, all[topic])
	}
}

// known reports whether a retained copy is what the bus keeps already.
func (l *link) known(topic string, val any) bool {
	for _, e := range l.bus.Retained(topic) {
		if v, err := bus.Freeze(val); err == nil && reflect.DeepEqual(v, e.Payload()) {
			l.unchanged.Add(1)
			return true
		}
	}
	return false
}

func (l *link) reject(topic string, err error) {
	l.malformed.Add(1)
	l.report(topic, fmt.Errorf("mqtt: message on %s: %w", printable(topic), err))
}

const reportPause = time.Minute

// report publishes an error once per topic and minute.
func (l *link) report(topic string, err error) {
	topic = printable(topic)
	l.reportOnce(topic, err, bus.Event{Topic: topic})
}

// reportOnce publishes an error once per subject and minute.
func (l *link) reportOnce(about string, err error, e bus.Event) {
	now := time.Now()
	l.mu.Lock()
	if len(l.reported) > 1024 {
		clear(l.reported)
	}
	last, known := l.reported[about]
	if known && now.Sub(last) < reportPause {
		l.mu.Unlock()
		return
	}
	l.reported[about] = now
	l.mu.Unlock()
	l.bus.Report(context.Background(), runtime, err, e)
}

// printable makes a topic fit for an error message.
func printable(topic string) string {
	if len(topic) > 128 {
		topic = topic[:128] + "…"
	}
	if utf8.ValidString(topic) && !strings.ContainsRune(topic, 0) {
		return topic
	}
	return strings.ToValidUTF8(strings.ReplaceAll(topic, "\x00", "�"), "�")
}
