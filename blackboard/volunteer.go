package blackboard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"edged/bus"
)

// VolunteerOptions of one volunteer; the zero value takes every request, one
// at a time, with a lease of 30 s.
type VolunteerOptions struct {
	Name        string
	Accept      func(task any) (bool, error) // false or an error leaves the request to others
	Concurrency int                          // requests at a time; 1
	Lease       time.Duration                // after that the request is offered to others too; 30 s
}

// A Volunteer answers the requests of one key.
type Volunteer struct {
	b      *Board
	key    string
	o      VolunteerOptions
	h      func(context.Context, *Request) (any, error)
	subs   []*bus.Subscription
	closed bool // guarded by Board.mu
}

const (
	defaultLease = 30 * time.Second
	maxCrashes   = 3
	crashPause   = 100 * time.Millisecond // doubles with every crash
)

// Volunteer calls h for requests of a key, those that wait already first. A
// request is claimed before h runs: nobody else gets it until h is done or the
// lease ends. h's result is the answer. If h returns an error or panics the
// request is offered again a little later; the third time it fails with that
// error. [ErrPass] leaves it to other volunteers. The context ends when the
// request is answered, withdrawn or timed out.
func (b *Board) Volunteer(key string, o VolunteerOptions, h func(ctx context.Context, r *Request) (any, error)) (*Volunteer, error) {
	if err := checkKey("volunteer", key); err != nil {
		return nil, err
	}
	if o.Name == "" {
		o.Name = "volunteer " + key
	}
	o.Concurrency = max(o.Concurrency, 1)
	if o.Lease <= 0 {
		o.Lease = defaultLease
	}
	v := &Volunteer{b: b, key: key, o: o, h: h}
	for range o.Concurrency {
		// The queue is but a bell: what there is to do is in the line.
		s, err := b.bus.Handle(topic(requestRoom, key), bus.Queue{Limit: 1, Overflow: bus.Latest, Where: v.wants, Name: o.Name}, v.work)
		if err != nil {
			v.Close()
			return nil, fmt.Errorf("blackboard: volunteer %s: %w", key, err)
		}
		v.subs = append(v.subs, s)
	}
	b.mu.Lock()
	l := b.lineOf(key)
	l.volunteers = append(l.volunteers, v)
	if r := l.first; r != nil {
		_, _ = l.out.Stage(r.again(), r.From, &offer{r, v})
	}
	b.mu.Unlock()
	b.bus.Deliver()
	return v, nil
}

// Close ends volunteering. What it had claimed is offered to others; the
// context of a handler that is running ends. It may be called more than once.
func (v *Volunteer) Close() {
	b := v.b
	for _, s := range v.subs {
		s.Close()
	}
	b.mu.Lock()
	if v.closed {
		b.mu.Unlock()
		return
	}
	v.closed = true
	if l := b.reqs.lines[v.key]; l != nil {
		l.volunteers = slices.DeleteFunc(l.volunteers, func(o *Volunteer) bool { return o == v })
		for r := l.first; r != nil; r = r.next {
			if c := r.claim; c != nil && c.owner == v {
				for i, o := range c.at {
					if o == v {
						c.cancels[i]()
					}
				}
				b.release(r)
			}
		}
		b.tidy(l)
	}
	b.mu.Unlock()
	b.bus.Deliver()
}

func (v *Volunteer) wants(e bus.Event) bool {
	switch p := e.Value().(type) {
	case *Request:
		return true
	case *offer:
		return p.only == v || p.only == toVolunteers{}
	}
	return false
}

// work does what there is to do for the key.
func (v *Volunteer) work(ctx context.Context, _ bus.Event) error {
	for {
		r, round := v.next()
		v.b.bus.Deliver()
		if r == nil {
			return nil
		}
		v.do(ctx, r, round)
	}
}

// next claims the oldest request that is free and acceptable.
func (v *Volunteer) next() (*Request, int) {
	b := v.b
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		r := v.free()
		if r == nil {
			return nil, 0
		}
		if r.claim == nil {
			r.claim = &claim{}
		}
		c := r.claim
		c.owner = v
		c.round++
		round := c.round
		c.lease = b.wheel.After(v.o.Lease, func() { b.leaseOver(r, round) })
		if v.o.Accept == nil {
			return r, round
		}
		b.mu.Unlock()
		ok := v.accepts(r)
		b.mu.Lock()
		if ok {
			return r, round
		}
		if r.claim == c && r.q != nil {
			c.passed = append(c.passed, v)
			if c.owner == v && c.round == round {
				b.release(r)
			}
		}
	}
}

// free finds the oldest request for v; the caller holds mu.
func (v *Volunteer) free() *Request {
	l := v.b.reqs.lines[v.key]
	if l == nil || v.closed {
		return nil
	}
	for r := l.first; r != nil; r = r.next {
		c := r.claim
		if c == nil || c.owner == nil && !c.resting && !slices.Contains(c.passed, v) && !slices.Contains(c.at, v) {
			return r
		}
	}
	return nil
}

func (v *Volunteer) accepts(r *Request) (ok bool) {
	ctx := bus.WithCause(context.Background(), r.ctx.Event())
	defer func() {
		if p := recover(); p != nil {
			ok = false
			v.b.bus.Report(ctx, v.o.Name, recovered(p), r.ctx.Event())
		}
	}()
	ok, err := v.o.Accept(r.Task)
	if err != nil {
		v.b.bus.Report(ctx, v.o.Name, err, r.ctx.Event())
		return false
	}
	return ok
}

// do runs the handler for a claimed request and settles the outcome.
func (v *Volunteer) do(ctx context.Context, r *Request, round int) {
	b := v.b
	ctx, cancel := context.WithCancel(bus.WithCause(ctx, r.ctx.Event()))
	defer cancel()
	b.mu.Lock()
	c := r.claim
	if r.q == nil || c == nil { // answered or withdrawn meanwhile
		b.mu.Unlock()
		return
	}
	c.at = append(c.at, v)
	c.cancels = append(c.cancels, cancel)
	b.mu.Unlock()
	result, err := v.call(ctx, r)
	if err == nil {
		b.Reply(ctx, v.o.Name, r, result)
		return
	}
	b.mu.Lock()
	if r.q == nil || r.claim != c {
		b.mu.Unlock()
		return
	}
	if i := slices.Index(c.at, v); i >= 0 {
		c.at = slices.Delete(c.at, i, i+1)
		c.cancels = slices.Delete(c.cancels, i, i+1)
	}
	mine := c.owner == v && c.round == round
	gaveUp := false
	switch {
	case errors.Is(err, ErrPass):
		c.passed = append(c.passed, v)
		err = nil
		if mine {
			b.release(r)
		}
	case v.closed:
		err = nil
	default:
		c.crashes++
		gaveUp = c.crashes >= maxCrashes
		if mine && !gaveUp {
			c.lease.Stop()
			c.owner, c.resting = nil, true
			c.lease = b.wheel.After(crashPause<<(c.crashes-1), func() { b.rested(r, c) })
		}
	}
	b.mu.Unlock()
	b.bus.Deliver()
	if err != nil {
		b.bus.Report(ctx, v.o.Name, err, r.ctx.Event())
	}
	if gaveUp {
		b.Fail(ctx, v.o.Name, r, err.Error())
	}
}

func (v *Volunteer) call(ctx context.Context, r *Request) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = recovered(p)
		}
	}()
	return v.h(ctx, r)
}

// release makes a request free again and rings for the volunteers; the caller
// holds mu and delivers.
func (b *Board) release(r *Request) {
	c := r.claim
	if c.lease != nil {
		c.lease.Stop()
		c.lease = nil
	}
	c.owner, c.resting = nil, false
	_, _ = r.q.out.Stage(r.again(), r.From, &offer{r, toVolunteers{}})
}

func (b *Board) leaseOver(r *Request, round int) {
	b.mu.Lock()
	if c := r.claim; r.q != nil && c != nil && c.owner != nil && c.round == round {
		b.release(r)
	}
	b.mu.Unlock()
	b.bus.Deliver()
}

func (b *Board) rested(r *Request, c *claim) {
	b.mu.Lock()
	if r.q != nil && r.claim == c && c.resting {
		b.release(r)
	}
	b.mu.Unlock()
	b.bus.Deliver()
}
