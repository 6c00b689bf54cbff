// Package bus is how everything hears everything: sensors, scripts, agents,
// the operator's page, other robots.
//
// Its one rule: there is one order. Every event gets a number when it is
// published, and every subscription sees events in that order. An event that
// is published while another is being delivered comes after it. Publishing
// never waits for a subscriber: each owns a bounded queue, and what it can't
// hold is counted.
//
//	b := bus.New(bus.Options{})
//	b.Handle("sensor/+", bus.Queue{}, func(ctx context.Context, e bus.Event) error {
//		_, err := b.Publish(ctx, "guard", "alarm", e.Topic) // ctx names e as the cause
//		return err
//	})
//	b.Publish(ctx, "hw:lidar", "sensor/lidar", 0.2)
package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"edged/bus/timer"
)

// Errors that callers decide on.
var (
	ErrClosed   = errors.New("bus is closed")
	ErrOverload = errors.New("bus is overloaded")   // more events wait for delivery than Options.Pending
	ErrFull     = errors.New("no more can be kept") // more is retained than Options.Retained, RetainedBytes
	ErrStorm    = errors.New("storm guard")         // the chain of causes is longer than MaxHops, and races
)

// Options of a bus; the zero value works.
type Options struct {
	Pending int // events that may wait for delivery behind a slow predicate; 65,536
	Topics  int // topics whose matching subscriptions are remembered; 4,096
	// Retained and RetainedBytes bound what is kept for those who come later;
	// 10,000 topics and 16 MiB.
	Retained      int
	RetainedBytes int64
}

// A Bus carries events. All methods may be called concurrently, and from
// handlers, taps and predicates.
type Bus struct {
	opt Options

	// state holds the last seq and two flags. Who sets busy delivers, alone,
	// until it is cleared; what others publish meanwhile waits in pending.
	_     line
	state atomic.Uint64
	_     line

	mu      sync.Mutex // guards pending, spare, pause
	pending []Event
	spare   []Event
	pause   []chan struct{} // who waits in Pause

	// Touched only by who holds busy.
	held   held // staged while nobody delivered
	routes routes
	clock  clock

	subsMu  sync.Mutex // guards subs, leaving, begun, kept; never held while calling out
	subs    []*Subscription
	leaving []*Subscription // ended, but their workers are still at an event
	begun   map[uint64]int  // see Begin
	nextID  uint64
	gen     atomic.Uint64 // grows with every change of subs
	kept    retained

	ctx      context.Context // ends when the bus is closed; handlers run under it
	cancel   context.CancelFunc
	urgent   atomic.Pointer[[]*urgent] // written under subsMu
	closed   atomic.Bool
	workers  sync.WaitGroup
	wheel    *timer.Wheel
	counters counters
	storms   storms
	talk     talk
}

const (
	flagBusy    = 1
	flagPending = 2
	flagPause   = 4 // somebody waits in Pause for busy
	flagHeld    = 8 // busy belongs to the event in held, until Deliver
	flags       = flagBusy | flagPending | flagPause | flagHeld
	oneSeq      = 16
	// foreign is how many events of others a publisher delivers before it
	// hands the rest to a goroutine.
	foreign = 256
)

// New makes a bus. It costs nothing while nothing happens.
func New(o Options) *Bus {
	if o.Pending <= 0 {
		o.Pending = 65536
	}
	if o.Topics <= 0 {
		o.Topics = 4096
	}
	if o.Retained <= 0 {
		o.Retained = 10_000
	}
	if o.RetainedBytes <= 0 {
		o.RetainedBytes = 16 << 20
	}
	b := &Bus{opt: o, wheel: timer.New(), kept: retained{last: map[string]Event{}, size: map[string]int64{}}}
	b.clock.start()
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

// Timers is the one wheel for every deadline of the runtime.
func (b *Bus) Timers() *timer.Wheel { return b.wheel }

// Publish says that something happened. The payload may be anything that has a
// JSON form (see [Freeze]), [RawJSON], text, bytes, or a [Lazy]. The cause is
// taken from ctx. Publish returns as soon as the event has its number and, if
// nobody else is delivering, has been put into every matching queue.
func (b *Bus) Publish(ctx context.Context, source, topic string, v any) (e Event, err error) {
	if err = b.fill(ctx, &e, source, topic, v); err != nil {
		return e, err
	}
	err = b.post(&e)
	return e, err
}

// Retain publishes an event and keeps it as the last one of its topic, for
// subscriptions made with Replay; a nil payload forgets the kept one.
func (b *Bus) Retain(ctx context.Context, source, topic string, v any) (e Event, err error) {
	if err = b.fill(ctx, &e, source, topic, v); err != nil {
		return e, err
	}
	e.Keep = true
	if err = b.mayKeep(&e); err != nil {
		return e, err
	}
	err = b.post(&e)
	return e, err
}

// Replay publishes and keeps a copy of something retained elsewhere, an MQTT
// broker say: the event is marked Retained, so that nobody takes it for news.
func (b *Bus) Replay(ctx context.Context, source, topic string, v any) (e Event, err error) {
	if err = b.fill(ctx, &e, source, topic, v); err != nil {
		return e, err
	}
	e.Keep, e.Retained, e.Queued = true, true, false
	if err = b.mayKeep(&e); err != nil {
		return e, err
	}
	err = b.post(&e)
	return e, err
}

// Stage numbers an event now and leaves it to the next [Bus.Deliver] (or
// Publish) to deliver it. It is for those who hold a lock: stage under the
// lock, deliver after releasing it, and events come in the order of the
// changes. A staged event is never refused for overload.
func (b *Bus) Stage(ctx context.Context, source, topic string, v any) (e Event, err error) {
	if err = b.fill(ctx, &e, source, topic, v); err != nil {
		return e, err
	}
	if s := b.state.Load(); s&flags == 0 && b.state.CompareAndSwap(s, s+oneSeq|flagBusy) {
		e.Seq = (s + oneSeq) / oneSeq
		subs, err := b.route(topic)
		if err != nil {
			b.drain()
			return e, fmt.Errorf("bus: stage: %w", err)
		}
		b.hold(&e, subs, b.routes.gen)
		return e, nil
	}
	if err = ValidTopic(topic); err != nil {
		return e, fmt.Errorf("bus: stage: %w", err)
	}
	b.defers(&e)
	return e, nil
}

// defers numbers a staged event and leaves it to who is delivering.
func (b *Bus) defers(e *Event) {
	b.mu.Lock()
	e.Seq = b.add(oneSeq | flagPending)
	b.pending = append(b.pending, *e)
	b.mu.Unlock()
}

// held is a staged event and who is to get it.
type held struct {
	Event
	subs []*Subscription
	gen  uint64 // of the subscriptions that subs was made from
}

// hold keeps busy for a staged event, so that Deliver need not ask for it.
func (b *Bus) hold(e *Event, subs []*Subscription, gen uint64) {
	b.held = held{*e, subs, gen}
	for {
		s := b.state.Load()
		if b.state.CompareAndSwap(s, s|flagHeld) {
			return
		}
	}
}

// Deliver delivers what was staged, unless somebody is delivering already.
func (b *Bus) Deliver() {
	s := b.state.Load()
	for s&flagHeld != 0 {
		if b.state.CompareAndSwap(s, s&^flagHeld) {
			e := b.held.Event
			subs := b.held.subs
			if b.held.gen != b.gen.Load() {
				subs, _ = b.route(e.Topic) // it was checked before it was held
			}
			b.held = held{}
			for _, s := range subs {
				s.offer(&e)
			}
			if s &^= flagHeld; s&flags != flagBusy || !b.state.CompareAndSwap(s, s&^flagBusy) {
				b.drain()
			}
			return
		}
		s = b.state.Load()
	}
	if s&flagBusy != 0 || s&flagPending == 0 {
		return
	}
	b.mu.Lock()
	took := b.take()
	b.mu.Unlock()
	if took {
		b.drain()
	}
}

// fill makes the event; it is not numbered yet.
func (b *Bus) fill(ctx context.Context, e *Event, source, topic string, v any) error {
	p, err := freeze(v)
	if err != nil {
		return fmt.Errorf("bus: publish %s: %w", topic, err)
	}
	e.Topic, e.Source, e.payload = topic, source, p
	l, scope := causeOf(ctx)
	if scope != nil {
		e.origin = scope.Label()
	}
	if l != nil {
		e.chain = l
		e.queue(l)
		if l.seq != 0 {
			e.Cause, e.Hops = l.seq, int(l.hops)+1
			var storm bool
			if e.mark, storm = b.pace(l); storm {
				return b.storm(*e)
			}
			if e.Hops > maxLinks*MaxHops && e.Hops%MaxHops == 0 {
				e.chain = l.shorten()
			}
		}
	}
	if b.closed.Load() {
		return fmt.Errorf("bus: publish %s: %w", topic, ErrClosed)
	}
	return nil
}

// post numbers the event and delivers it, or leaves it to who is delivering.
func (b *Bus) post(e *Event) error {
	u := b.urgentOf(e.Topic).take(b, e)
	s := b.state.Load()
	if s&flags == 0 && b.state.CompareAndSwap(s, s+oneSeq|flagBusy) {
		e.Seq = (s + oneSeq) / oneSeq
		if u != nil {
			u.call(b, *e)
		}
		err := b.deliver(e)
		if !b.state.CompareAndSwap(s+oneSeq|flagBusy, s+oneSeq) {
			b.drain()
		}
		return err
	}
	return b.queue(e, u)
}

// queue is post's way when somebody else is delivering.
func (b *Bus) queue(e *Event, u *urgent) error {
	if err := ValidTopic(e.Topic); err != nil {
		return fmt.Errorf("bus: publish: %w", err)
	}
	b.mu.Lock()
	if len(b.pending) >= b.opt.Pending && u == nil {
		b.mu.Unlock()
		b.counters.overload.Add(1)
		return fmt.Errorf("bus: publish %s: %w: %d events wait", e.Topic, ErrOverload, b.opt.Pending)
	}
	e.Seq = b.add(oneSeq | flagPending)
	b.pending = append(b.pending, *e)
	if u != nil {
		b.mu.Unlock()
		u.call(b, *e)
		b.mu.Lock()
	}
	took := b.take()
	b.mu.Unlock()
	if took {
		b.drain()
	} else if b.state.Load()&flagHeld != 0 {
		b.Deliver()
	}
	return nil
}

// add takes a seq and sets flags; the caller holds mu.
func (b *Bus) add(bits uint64) (seq uint64) {
	for {
		s := b.state.Load()
		n := (s + oneSeq) | bits&flags
		if b.state.CompareAndSwap(s, n) {
			return n / oneSeq
		}
	}
}

// take sets busy if nobody has; the caller holds mu.
func (b *Bus) take() bool {
	for {
		s := b.state.Load()
		if s&flagBusy != 0 {
			return false
		}
		if b.state.CompareAndSwap(s, s|flagBusy) {
			return true
		}
	}
}

// clear takes flags away; the caller holds mu and busy.
func (b *Bus) clear(bits uint64) {
	for {
		s := b.state.Load()
		if b.state.CompareAndSwap(s, s&^bits) {
			return
		}
	}
}

// Pause stops delivery between two events and returns a function that lets it
// go on. Publishing goes on meanwhile; what is published waits. Subscriptions
// made and closed in a pause change places without losing an event or hearing
// one twice. Keep it short, and don't call it from a tap or a predicate.
func (b *Bus) Pause() (resume func()) {
	b.mu.Lock()
	for {
		s := b.state.Load()
		if s&flagBusy == 0 && b.state.CompareAndSwap(s, s|flagBusy) {
			b.mu.Unlock()
			return sync.OnceFunc(b.drain)
		}
		if s&flagBusy != 0 && b.state.CompareAndSwap(s, s|flagPause) {
			break // who is busy now sees the flag before it lets go
		}
	}
	turn := make(chan struct{})
	b.pause = append(b.pause, turn)
	b.mu.Unlock()
	<-turn
	return sync.OnceFunc(b.drain)
}

// drain delivers what waits in pending, then clears busy. A publisher that
// has delivered many events of others hands the rest on.
func (b *Bus) drain() {
	for n := 0; ; {
		b.mu.Lock()
		if len(b.pause) > 0 { // busy goes to who waits for it
			next := b.pause[0]
			if b.pause = b.pause[1:]; len(b.pause) == 0 {
				b.clear(flagPause)
			}
			b.mu.Unlock()
			close(next)
			return
		}
		batch := b.pending
		if len(batch) == 0 {
			b.clear(flags)
			b.mu.Unlock()
			return
		}
		b.pending, b.spare = b.spare[:0], nil
		b.mu.Unlock()
		for i := range batch {
			_ = b.deliver(&batch[i]) // topics were checked before they were queued
			batch[i] = Event{}
		}
		b.mu.Lock()
		if cap(batch) <= 1024 {
			b.spare = batch[:0]
		}
		b.mu.Unlock()
		if n += len(batch); n > foreign && !b.closed.Load() {
			b.workers.Add(1)
			go func() {
				defer b.workers.Done()
				b.drain()
			}()
			return
		}
	}
}

// deliver puts an event into every matching queue. Only who holds busy calls it.
func (b *Bus) deliver(e *Event) error {
	r, err := b.route(e.Topic)
	if err != nil {
		return fmt.Errorf("bus: publish: %w", err)
	}
	if e.Keep {
		b.stamp(e)
		b.keep(e)
		if r, err = b.route(e.Topic); err != nil {
			return err
		}
	}
	for _, s := range r {
		s.offer(e)
	}
	return nil
}

// Close ends the bus: publishing becomes an error, handlers finish what is
// queued until ctx ends, then their context is cancelled and the rest is
// discarded and counted. It returns when no goroutine of the bus is left, or
// with ctx's error if a handler ignores its context.
func (b *Bus) Close(ctx context.Context) error {
	if b.closed.Swap(true) {
		return nil
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.Pause()() // what was published before is in the queues now
		for _, s := range b.subscriptions() {
			s.finish()
		}
		b.workers.Wait()
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		for _, s := range b.subscriptions() {
			s.Close()
		}
		b.cancel()
		select {
		case <-done:
		case <-time.After(time.Second):
			err = fmt.Errorf("bus: close: a handler ignores its context: %w", ctx.Err())
		}
	}
	b.cancel()
	b.clock.stop()
	b.wheel.Close()
	for _, s := range b.subscriptions() {
		s.Close()
	}
	return err
}
