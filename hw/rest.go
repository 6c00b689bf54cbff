package hw

// The way of one actuator to its safe state. Nothing in this file blocks but
// the device itself, on a goroutine of its own.

import (
	"context"
	"fmt"
	"sync"
	"time"

	"edged/bus"
)

// rest asks for the safe state and returns at once; h, if any, hears of it.
// What waits in the slot gets the error. A Rest that is under way will do:
// nothing was commanded since it began.
func (a *actuator) rest(h *halt, c cause, err error) {
	if a.wish(h, c, err) {
		a.r.lanes.Go(a.run)
	}
}

// wish is rest without starting the lane: if it returns true, the caller has
// to run it.
func (a *actuator) wish(h *halt, c cause, err error) (run bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.want(h, c, err)
}

// want is wish for who holds mu.
func (a *actuator) want(h *halt, c cause, err error) (run bool) {
	a.drop(err)
	a.target = nil
	a.why = c
	if h != nil {
		a.waiting = append(a.waiting, h)
	}
	if a.resting || a.wantRest {
		return false
	}
	a.wantRest = true
	if a.doing != nil {
		a.cancel()
		a.force.Reset(grace)
		return false
	}
	run = !a.running
	a.running = true
	return run
}

// begin marks the Rest as under way; the caller holds mu.
func (a *actuator) begin() {
	a.wantRest, a.resting, a.began = false, true, time.Now()
}

// insist makes the Rest beside a Do that ignores its cancelled context.
func (a *actuator) insist() {
	a.mu.Lock()
	if !a.wantRest || a.resting || a.doing == nil {
		a.mu.Unlock()
		return
	}
	a.begin()
	a.late = true
	a.mu.Unlock()
	a.makeRest()
}

// makeRest calls the device and tells who wait.
func (a *actuator) makeRest() {
	p := patience{until: time.Now().Add(restTimeout)}
	err := safely(func() error { return a.dev.Rest(&p) })
	p.end()

	a.mu.Lock()
	a.resting = false
	first := err != nil && a.unrested == nil
	a.unrested = err
	waiting, c := a.waiting, a.why
	a.waiting = nil
	told := a.active
	if err == nil {
		a.active, a.tries = false, 0
		if !a.limits.Keeps {
			a.told = nil
		}
	} else {
		a.tries++
		a.again.Reset(a.r.backoff(a.tries))
	}
	if a.wantRest || a.next != nil {
		a.kick()
	}
	a.mu.Unlock()

	if err != nil {
		err = fmt.Errorf("hw: %s: rest: %w", a.name, err)
	}
	if told && !a.limits.Keeps || err != nil {
		payload := map[string]any{"rest": true, "by": c.source, "why": c.why}
		if err != nil {
			payload["error"] = err.Error()
		}
		a.r.stage(c.ctx, "hw:"+a.name, "hw/"+a.name+"/set", payload)
	}
	if first {
		a.r.stage(c.ctx, "hw:"+a.name, bus.ErrorTopic, map[string]any{"source": "hw:" + a.name, "error": err.Error()})
	}
	// The last one to rest speaks for all: a goroutine started here would push
	// the next lane of a stop back behind whatever else wants to run.
	speak := len(waiting) == 0
	for _, h := range waiting {
		speak = !h.rested(a, err) || speak
	}
	if speak {
		a.r.speak()
	}
}

// retry tries a Rest again that failed; it runs on a goroutine of its own.
func (a *actuator) retry() {
	a.mu.Lock()
	failed, c := a.unrested != nil, a.why
	a.mu.Unlock()
	if failed {
		a.rest(nil, c, ErrUnrested)
	}
}

func (r *Rig) backoff(tries int) time.Duration {
	d := r.opt.Backoff
	for range tries - 1 {
		if d *= 2; d >= r.opt.MaxBackoff {
			return r.opt.MaxBackoff
		}
	}
	return d
}

// patience is the context of a Rest: one with a timeout whose timer is made
// when the driver asks for Done. Most never do, and twenty timers would be a
// fifth of the time that a stop of twenty actuators takes.
type patience struct {
	until time.Time

	mu     sync.Mutex      // guards everything below
	timed  context.Context // nil until somebody asked
	cancel context.CancelFunc
	over   bool
}

// Deadline implements context.Context.
func (p *patience) Deadline() (time.Time, bool) { return p.until, true }

// Value implements context.Context.
func (p *patience) Value(any) any { return nil }

// Done implements context.Context.
func (p *patience) Done() <-chan struct{} { return p.context().Done() }

// Err implements context.Context.
func (p *patience) Err() error { return p.context().Err() }

func (p *patience) context() context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timed == nil {
		p.timed, p.cancel = context.WithDeadline(context.Background(), p.until)
		if p.over {
			p.cancel()
		}
	}
	return p.timed
}

// end says that nobody needs it any more.
func (p *patience) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over = true; p.cancel != nil {
		p.cancel()
	}
}
