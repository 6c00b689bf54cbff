package bus

import (
	"context"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"edged/bus/origin"
)

// Overflow says what a full queue gives up.
type Overflow uint8

// The overflow policies.
const (
	DropOldest Overflow = iota // the oldest queued event goes
	DropNew                    // the new event goes
	Latest                     // one slot per topic: a newer event takes the queued one's place
	Collapse                   // when full, a topic's queued event is merged with the new one; nothing is lost but steps in between
)

// Queue says what a subscription holds and what it lets in. The zero value
// holds 64 events and drops the oldest.
type Queue struct {
	Limit    int
	Overflow Overflow
	// Where is asked before the queue, on the publisher's goroutine. It must
	// be quick and must not block; if it panics, the event is not let in.
	Where func(Event) bool
	// Merge makes one event of a queued and a newer one of the same topic, for
	// Collapse; nil takes the newer.
	Merge  func(queued, newer Event) Event
	Replay bool     // matching retained events first
	Taken  bool     // also events that are Taken, for who writes down what happened
	Also   []string // further filters of the same subscription; an event comes once
	Name   string   // who listens, for status and error events
}

// A Subscription is one listener with its queue.
type Subscription struct {
	b       *Bus
	id      uint64
	filters []string
	opt     Queue
	tap     func(Event)
	after   uint64 // events up to this seq came by replay
	since   uint64 // seq of the last event before it was made

	ctx    context.Context // what handlers run under
	closed atomic.Bool
	wake   chan Event // to a waiting reader: the next event, or one without a topic when it is to look itself

	_        line
	refused  atomic.Uint64
	mu       sync.Mutex // guards everything below
	ring     []Event    // grows by need; its length is a power of two
	head     uint64     // absolute position of the oldest queued event
	n        int
	slots    map[string]uint64 // topic → position, for Latest and Collapse
	waiting  bool
	finished bool   // no more comes, what is queued may be taken
	ended    bool   // and the worker has gone
	worker   bool   // there is one: see Handle
	holds    int    // nothing is taken until all are let go
	cleared  uint64 // head at the last forget
	held     int    // events put in hand at the last take
	stats    SubscriptionStats

	_        line
	hand     hand
	contexts []Caused // the worker's, made ahead
	source   string   // of the newest event, and
	label    origin.Label
	_        line
}

// line keeps what one side writes off the cache line that the other reads.
type line [64]byte

// SubscriptionStats counts what a subscription did. Drops are by cause.
type SubscriptionStats struct {
	Name       string `json:"name,omitempty"`
	Filter     string `json:"filter"`
	Since      uint64 `json:"since"` // number of the last event before it began to listen
	Queued     int    `json:"queued"`
	Limit      int    `json:"limit"`
	Taken      uint64 `json:"taken"`
	Refused    uint64 `json:"refused,omitempty"` // Where said no
	DropOldest uint64 `json:"drop_oldest,omitempty"`
	DropNew    uint64 `json:"drop_new,omitempty"`
	Replaced   uint64 `json:"replaced,omitempty"` // by a newer one of the same topic: Latest, Collapse
	Discarded  uint64 `json:"discarded,omitempty"`
	Errors     uint64 `json:"errors,omitempty"`
}

// Subscribe starts listening with a queue of its own; the caller takes events
// with Next or All and closes the subscription.
func (b *Bus) Subscribe(filter string, q Queue) (*Subscription, error) {
	s, err := b.subscription(filter, q, nil)
	if err != nil {
		return nil, err
	}
	b.attach(s)
	return s, nil
}

// Tap calls f for every matching event, in order, on the goroutine that
// publishes, events that were Taken too: who acts on what a tap sees leaves those. f must be quick and must not block; what it publishes comes after
// the event it was called for. A panic becomes an edged/error event.
func (b *Bus) Tap(filter string, f func(Event)) (*Subscription, error) {
	s, err := b.subscription(filter, Queue{}, f)
	if err != nil {
		return nil, err
	}
	b.attach(s)
	return s, nil
}

func (b *Bus) subscription(filter string, q Queue, tap func(Event)) (*Subscription, error) {
	filters := append([]string{filter}, q.Also...)
	for _, f := range filters {
		if err := ValidFilter(f); err != nil {
			return nil, err
		}
	}
	if b.closed.Load() {
		return nil, ErrClosed
	}
	if q.Limit <= 0 {
		q.Limit = 64
	}
	return &Subscription{b: b, filters: filters, opt: q, tap: tap, since: b.Seq(), ctx: b.ctx, wake: make(chan Event, 1)}, nil
}

func (s *Subscription) matches(topic string) bool {
	return slices.ContainsFunc(s.filters, func(f string) bool { return Match(f, topic) })
}

// offer is the way in: only who delivers calls it.
func (s *Subscription) offer(e *Event) {
	if s.closed.Load() || e.Seq <= s.after {
		return
	}
	switch {
	case s.tap != nil:
		s.guard(*e, nil)
	case e.Taken && !s.opt.Taken:
	case s.opt.Where == nil || s.guard(*e, s.opt.Where):
		s.b.stamp(e)
		s.push(e)
	default:
		s.refused.Add(1)
	}
}

// guard calls the tap or the predicate and survives its panic.
func (s *Subscription) guard(e Event, where func(Event) bool) (ok bool) {
	defer func() {
		if p := recover(); p != nil {
			ok = false
			s.failed(WithCause(s.b.ctx, e), e, panicError(p))
		}
	}()
	if where != nil {
		return where(e)
	}
	s.tap(e)
	return true
}

// Next waits for the next event. It returns ErrClosed when the subscription is
// closed, or ctx's error. One goroutine at a time may call it.
func (s *Subscription) Next(ctx context.Context) (Event, error) {
	for {
		var e Event
		switch ok, more := s.take(&e); {
		case ok && s.handed(&e):
			return e, nil
		case ok:
			continue
		case !more:
			return Event{}, ErrClosed
		}
		select {
		case e = <-s.wake:
		case <-ctx.Done():
			s.mu.Lock()
			waiting := s.waiting
			s.waiting = false
			s.mu.Unlock()
			if waiting {
				return Event{}, ctx.Err()
			}
			e = <-s.wake // it is on its way or here
		}
		if s.handed(&e) {
			return e, nil
		}
	}
}

// All ranges over the events until the subscription is closed or ctx ends.
func (s *Subscription) All(ctx context.Context) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for {
			e, err := s.Next(ctx)
			if err != nil || !yield(e) {
				return
			}
		}
	}
}

// Close ends the subscription: nothing that is published afterwards comes, and
// what is queued is discarded and counted. It may be called more than once,
// and from a handler. It doesn't wait for a handler that is running.
func (s *Subscription) Close() {
	if s.closed.Swap(true) {
		return
	}
	s.finish()
	s.mu.Lock()
	held := s.hand.drop()
	s.stats.Taken -= held
	s.stats.Discarded += uint64(s.n) + held
	s.ring, s.slots, s.n = nil, nil, 0
	s.mu.Unlock()
	s.b.detach(s)
}

// Hand ends the subscription as Close does and gives what waited in the queue,
// in order, for the one that takes its place. What its reader has taken already
// stays with the reader. Calling it again gives nothing more.
func (s *Subscription) Hand() (waiting []Event) {
	s.finish()
	s.mu.Lock()
	s.putBack()
	for s.n > 0 {
		waiting = append(waiting, *s.pop())
	}
	s.ring, s.slots = nil, nil
	s.mu.Unlock()
	s.b.detach(s)
	return waiting
}

// Hold lets the reader take nothing more until release is called; what comes
// waits in the queue. What the reader has taken already it goes on with.
func (s *Subscription) Hold() (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holds++
	s.putBack()
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.letGo()
	})
}

// letGo ends one hold; the caller holds mu.
func (s *Subscription) letGo() {
	if s.holds--; s.holds == 0 && s.waiting && s.n > 0 {
		s.waiting = false
		s.wake <- Event{}
	}
}

// Push puts an event into the queue that was let in elsewhere before: neither
// the filters nor Where are asked. What the queue can't hold is counted as
// always; false is a subscription that has ended.
func (s *Subscription) Push(e Event) bool {
	s.mu.Lock()
	finished := s.finished
	s.mu.Unlock()
	if finished || s.closed.Load() {
		return false
	}
	s.push(&e)
	return true
}

// finish lets nothing more in; what is queued may still be taken.
func (s *Subscription) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished {
		return
	}
	s.finished = true
	if s.waiting {
		s.waiting = false
		s.wake <- Event{}
	}
}

// Len is the number of queued events.
func (s *Subscription) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n + s.hand.left()
}

// Idle reports that everything that came was taken, and that the reader is
// through with it: it waits for more, or there will be no more.
func (s *Subscription) Idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting && s.n == 0 || s.ended || s.closed.Load()
}

// Dropped is the number of events that the queue lost.
func (s *Subscription) Dropped() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats.DropOldest + s.stats.DropNew
}

// Stats gives the counters.
func (s *Subscription) Stats() SubscriptionStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Name, st.Filter, st.Queued, st.Limit = s.opt.Name, s.filters[0], s.n+s.hand.left(), s.opt.Limit
	st.Since, st.Refused = s.since, s.refused.Load()
	return st
}
