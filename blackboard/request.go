package blackboard

import (
	"context"
	"fmt"
	"slices"
	"time"

	"edged/bus"
	"edged/bus/origin"
	"edged/bus/timer"
)

// PostOptions of one request; the zero value waits for an answer until the
// future is cancelled or the board is closed.
type PostOptions struct {
	Timeout  time.Duration // then the future gives a *TimeoutError; 0 = none
	Durable  bool          // it survives a restart and is offered again
	ReplyKey string        // the answer is stored there too
}

// A Request is a task that waits for somebody to do it. Its exported fields
// never change.
type Request struct {
	bus.Cell
	ID       uint64
	Key      string
	Task     any // shared, must not be changed
	From     string
	ReplyKey string
	Durable  bool
	Origin   origin.Label // whose words the task is

	at      int64
	timeout time.Duration
	future  *bus.Future
	old     *bus.Old // what posted it was brought about by what is no order; of a durable one

	// guarded by Board.mu
	q          *line
	prev, next *Request
	expiry     *timer.Timer
	claim      *claim
	telling    // ctx names the request's event
}

// claim is what volunteers did about a request.
type claim struct {
	owner   *Volunteer // nil: it is free
	resting bool       // after a crash it is not offered for a while
	lease   *timer.Timer
	round   int // grows with every owner
	crashes int
	passed  []*Volunteer
	at      []*Volunteer // whose handlers run
	cancels []context.CancelFunc
}

// Posted is when the request was posted.
func (r *Request) Posted() time.Time { return time.Unix(0, r.at).UTC() }

// Deadline is when the poster gives up; ok is false if never.
func (r *Request) Deadline() (t time.Time, ok bool) {
	if r.timeout <= 0 {
		return time.Time{}, false
	}
	return time.Unix(0, r.at).UTC().Add(r.timeout), true
}

// Tree is the payload of the request/<key> event.
func (r *Request) Tree() any {
	t := map[string]any{"id": int64(r.ID), "key": r.Key, "task": r.Task, "from": r.From}
	if d, ok := r.Deadline(); ok {
		t["deadline"] = d.Format(time.RFC3339Nano)
	}
	if r.Durable {
		t["durable"] = true
	}
	return t
}

func (r *Request) change() Change { return Change{Key: r.Key, New: r, Writer: r.From} }

// An offer is a request that is offered once more, to one listener or to all
// volunteers.
type offer struct {
	*Request
	only any // a *Watch, a *Volunteer, or volunteers
}

type toVolunteers struct{}

var _, _ bus.Lazy = (*Request)(nil), (*offer)(nil)

// requests are the open ones, a line per key. Guarded by Board.mu.
type requests struct {
	last  uint64
	open  int
	lines map[string]*line
	found []*Request // read from the file, until adopt
}

// line is the queue of one key, oldest first.
type line struct {
	key         string
	out         *bus.Line // of its events
	first, last *Request
	volunteers  []*Volunteer
	syncs       []*Watch
	syncGen     uint64
}

// idleLines is how many empty lines are kept for the next request.
const idleLines = 64

func (q *requests) init() { q.lines, q.open, q.found = map[string]*line{}, 0, nil }

// lineOf gives the line of a key; the caller holds mu and has checked the key.
func (b *Board) lineOf(key string) *line {
	l := b.reqs.lines[key]
	if l == nil {
		l = &line{key: key}
		l.out, _ = b.bus.Line(topic(requestRoom, key))
		b.reqs.lines[key] = l
	}
	return l
}

// Post asks for a task to be done by whoever volunteers for the key and
// returns a future of the answer at once; the request waits in the key's queue
// until somebody answers, its time is over, or the future is cancelled. A
// Durable one is on disk when Post returns.
func (b *Board) Post(ctx context.Context, writer, key string, task any, o PostOptions) (*bus.Future, error) {
	if err := checkKey("post", key); err != nil {
		return nil, err
	}
	task, err := b.freeze(key, task)
	if err != nil {
		return nil, err
	}
	if o.ReplyKey != "" {
		if err := checkKey("post: reply key", o.ReplyKey); err != nil {
			return nil, err
		}
	}
	if err := b.stormy(ctx, writer, "post", key); err != nil {
		return nil, err
	}
	r := &Request{Key: key, Task: task, From: writer, Origin: orWriter(origin.From(ctx), writer), ReplyKey: o.ReplyKey, Durable: o.Durable, timeout: max(o.Timeout, 0)}
	r.future = bus.NewFuture(func() { b.withdraw(r) })
	if o.Durable && b.store != nil {
		err = b.postDurable(ctx, r)
	} else {
		b.mu.Lock()
		if err = b.reqs.room(b); err == nil {
			b.reqs.last++
			r.ID, r.at = b.reqs.last, b.bus.Now()
			b.admit(ctx, r, true)
		}
		b.mu.Unlock()
		if err == nil {
			r.run(ctx, nil, r)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("blackboard: post %s: %w", key, err)
	}
	b.bus.Deliver()
	return r.future, nil
}

func orWriter(whose origin.Label, writer string) origin.Label {
	if whose == "" {
		return origin.Of(writer)
	}
	return whose
}

// again is a context for what is told of a request once more.
func (r *Request) again() context.Context { return origin.With(context.Background(), r.Origin) }

// room refuses what would be too much; the caller holds mu.
func (q *requests) room(b *Board) error {
	switch {
	case b.closed:
		return ErrClosed
	case q.open >= b.opt.MaxRequests:
		return fmt.Errorf("%w: %d", ErrBusy, q.open)
	}
	return nil
}

// admit puts a request into its line and stages its event; the caller holds mu
// and, if here, calls r.run when it has released it.
func (b *Board) admit(ctx context.Context, r *Request, here bool) {
	l := b.lineOf(r.Key)
	r.q, r.prev = l, l.last
	if l.last == nil {
		l.first = r
	} else {
		l.last.next = r
	}
	l.last = r
	b.reqs.open++
	if r.timeout > 0 {
		r.expiry = b.wheel.After(r.timeout, func() { b.giveUp(r) })
	}
	ev, _ := l.out.Stage(ctx, r.From, r)
	r.ctx.Caused = bus.CausedBy(ctx, ev)
	if len(b.watches.sync) == 0 {
		return
	}
	if l.syncGen != b.watches.gen {
		l.syncs, l.syncGen = b.watches.matching(r.Key), b.watches.gen
	}
	for _, w := range l.syncs {
		r.add(ctx, w, ev, nil, r, here)
	}
}

// take removes a request from its line and stops what runs for it; the caller
// holds mu. It returns false if it was taken before.
func (b *Board) take(r *Request) bool {
	l := r.q
	if l == nil {
		return false
	}
	if r.prev != nil {
		r.prev.next = r.next
	} else {
		l.first = r.next
	}
	if r.next != nil {
		r.next.prev = r.prev
	} else {
		l.last = r.prev
	}
	r.q, r.prev, r.next = nil, nil, nil
	b.reqs.open--
	if r.expiry != nil {
		r.expiry.Stop()
	}
	if c := r.claim; c != nil {
		if c.lease != nil {
			c.lease.Stop()
		}
		for _, cancel := range c.cancels {
			cancel()
		}
		r.claim = nil
	}
	b.tidy(l)
	return true
}

// tidy forgets an empty line when there are many; the caller holds mu.
func (b *Board) tidy(l *line) {
	if l.first == nil && len(l.volunteers) == 0 && len(b.reqs.lines) > idleLines && b.reqs.lines[l.key] == l {
		delete(b.reqs.lines, l.key)
	}
}

// end takes a request for good and removes it from the file.
func (b *Board) end(r *Request) bool {
	b.mu.Lock()
	ok := b.take(r)
	if ok && r.Durable {
		b.later(r.gone())
	}
	b.mu.Unlock()
	return ok
}

func (b *Board) giveUp(r *Request) {
	if b.end(r) {
		r.future.Resolve(nil, &TimeoutError{r.Key, r.timeout})
	}
}

func (b *Board) withdraw(r *Request) { b.end(r) }

// Reply answers a request. Only the first answer counts: a later one, or one
// to a request that was withdrawn or timed out, changes nothing and returns
// false.
func (b *Board) Reply(ctx context.Context, author string, r *Request, result any) bool {
	if r == nil {
		return false
	}
	v, err := b.freeze(r.Key, result)
	if err != nil {
		return b.Fail(ctx, author, r, err.Error())
	}
	if r.ReplyKey == "" {
		return b.end(r) && r.resolve(ctx, author, v, nil)
	}
	b.mu.Lock()
	ok := b.take(r)
	b.mu.Unlock()
	if !ok {
		return false
	}
	_, err = b.Set(ctx, author, r.ReplyKey, v, SetOptions{})
	if r.Durable { // not before the answer is on its way to the disk
		b.mu.Lock()
		b.later(r.gone())
		b.mu.Unlock()
	}
	return r.resolve(ctx, author, v, err)
}

func (r *Request) resolve(ctx context.Context, author string, v any, err error) bool {
	r.future.ResolveFrom(orWriter(origin.From(ctx), author), v, err)
	return true
}

// Fail gives up on a request for its poster: the future gives a *FailedError.
// It returns false if the request was answered before.
func (b *Board) Fail(ctx context.Context, author string, r *Request, reason string) bool {
	if r == nil || !b.end(r) {
		return false
	}
	return r.resolve(ctx, author, nil, &FailedError{r.Key, reason, author})
}

// Pending lists the open requests of a key, oldest first; "" means of all keys.
func (b *Board) Pending(key string) []*Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []*Request
	for _, l := range b.reqs.lines {
		if key != "" && l.key != key {
			continue
		}
		for r := l.first; r != nil; r = r.next {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(x, y *Request) int { return int(int64(x.ID - y.ID)) })
	return out
}

// offerWaiting offers to a new watch what waits already and nobody has claimed.
func (b *Board) offerWaiting(w *Watch) {
	var waits []wait
	b.mu.Lock()
	for _, l := range b.reqs.lines {
		if !covers(w.pattern, l.key) {
			continue
		}
		for r := l.first; r != nil; r = r.next {
			switch {
			case r.claim != nil && r.claim.owner != nil:
			case w.o.Sync:
				c := &toldCtx{bus.CausedBy(context.Background(), r.ctx.Event()), w}
				waits = append(waits, wait{w, w.queue.push(told{c, nil, r})})
			default:
				_, _ = l.out.Stage(r.again(), r.From, &offer{r, w})
			}
		}
	}
	b.mu.Unlock()
	for _, x := range waits {
		x.w.await(context.Background(), x.at)
	}
	b.bus.Deliver()
}
