package hw

// Nothing in this file publishes, waits or calls a driver while it holds an
// actuator's lock, and the way to Rest takes no other lock.

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"edged/bus"
	"edged/bus/timer"
)

// actuator is one device with its lane: a goroutine that exists while there
// is something to do. One command waits at most; a newer one replaces it.
type actuator struct {
	r      *Rig
	dev    Actuator
	name   string
	limits Limits

	// What protects has timers of its own: the wheel's wait for each other, and
	// for those of scripts.
	force *time.Timer  // Rest beside a Do that does not end
	lease *time.Timer  // the dead man
	again *time.Timer  // next try of a Rest that failed
	ramp  *timer.Timer // next step towards the target
	fence atomic.Pointer[fence]

	mu       sync.Mutex // guards everything below; never held while calling out
	running  bool       // the lane's goroutine exists
	next     *order
	doing    *order
	last     *order             // the last one let in, for the dead man's cause
	cancel   context.CancelFunc // of doing
	wantRest bool
	resting  bool
	began    time.Time // of resting
	late     bool      // a Rest was made while doing hung: make another when it ends
	why      cause     // of the Rest
	waiting  []*halt   // who wait for the next Rest to end
	unrested error     // the last Rest failed
	tries    int       // of Rest that failed, in a row
	failed   error     // the last Do failed
	active   bool      // told something since the last Rest
	told     map[string]any
	toldAt   time.Time
	taken    time.Time // when the last command was let in, for the rate
	until    time.Time // end of the lifetime
	missed   int       // times in a row that the goal did not drive in time
	target   *order    // where the ramp goes
	goal     *Goal
}

// order is one command on its way.
type order struct {
	ctx    context.Context // the caller's: its end cancels the command, its cause is the command's
	source string
	cmd    command
	hold   time.Duration // 0 is for ever
	by     *Goal         // that drives; nil for a command of its own
	done   chan error    // has room for the one answer
}

// answer tells the caller, if it has not been told: a ramp carries out one
// order many times.
func (o *order) answer(err error) {
	select {
	case o.done <- err:
	default:
	}
}

// cause says who wanted a Rest, and why.
type cause struct {
	ctx         context.Context
	source, why string
}

func newActuator(r *Rig, dev Actuator, l Limits) *actuator {
	a := &actuator{r: r, dev: dev, name: dev.Name(), limits: l}
	a.force, a.lease, a.again = idle(a.insist), idle(a.expire), idle(a.retry)
	a.ramp = r.b.Timers().After(time.Hour, a.step)
	a.ramp.Stop()
	return a
}

// idle is a timer that was not set yet.
func idle(f func()) *time.Timer {
	t := time.AfterFunc(time.Hour, f)
	t.Stop()
	return t
}

// Do gives an actuator a command: a JSON object or tree, or a bare value. It
// passes the stop latch and the limits, unless it comes of old words (ErrOld), and Do returns when the device has
// taken it. The command lasts for its "hold" or the actuator's; if no other
// follows by then, the actuator goes to Rest. A running goal of the actuator is
// cancelled. A command that waits is replaced by a newer one (ErrReplaced).
func (r *Rig) Do(ctx context.Context, source, name string, cmd any) error {
	a, err := r.actuator(name)
	if err != nil {
		return err
	}
	if old := bus.OldOf(ctx); old != nil {
		return a.refuse(ctx, source, cmd, old)
	}
	o, err := a.order(ctx, source, cmd)
	if err != nil {
		return err
	}
	if err := a.ready(); err != nil {
		return err
	}
	a.takeOver(source, nil)
	if err := a.post(o); err != nil {
		return err
	}
	return a.await(ctx, o)
}

// Rest brings one actuator to its safe state, whatever it does. It is never
// refused. It returns when the device is at rest.
func (r *Rig) Rest(ctx context.Context, source, name string) error {
	a, err := r.actuator(name)
	if err != nil {
		return err
	}
	a.takeOver(source, nil)
	h := newHalt(ctx, r, source, "asked", []*actuator{a})
	a.rest(h, cause{ctx, source, "asked"}, ErrReplaced)
	h.begin(restTimeout)
	return h.wait(ctx)
}

func (a *actuator) await(ctx context.Context, o *order) error {
	select {
	case err := <-o.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("hw: %s: %w", a.name, ctx.Err())
	}
}

func (a *actuator) order(ctx context.Context, source string, cmd any) (*order, error) {
	c, err := a.limits.parse(cmd)
	if err != nil {
		return nil, fmt.Errorf("hw: %s: %w", a.name, err)
	}
	o := &order{ctx: ctx, source: source, cmd: c, hold: a.limits.Hold, done: make(chan error, 1)}
	if c.hold > 0 {
		o.hold = c.hold
	}
	return o, nil
}

// ready says whether the gate is open.
func (a *actuator) ready() error {
	if s := a.r.latch.Load(); s != nil {
		return fmt.Errorf("hw: %s: %w: %s", a.name, ErrStopped, s.Reason)
	}
	if a.r.off.Load() {
		return fmt.Errorf("hw: %s: %w", a.name, ErrOff)
	}
	return nil
}

// refuse says that a command came of what is no order, and tells so: for many
// there is nobody else whom the error reaches.
func (a *actuator) refuse(ctx context.Context, source string, cmd any, old *bus.Old) error {
	cmd, _ = plain(cmd) // one that is none is told of without
	err := fmt.Errorf("hw: %s: %w: %v", a.name, ErrOld, old)
	a.r.say(ctx, "hw:"+a.name, "hw/"+a.name+"/refused", map[string]any{"command": cmd, "by": source, "error": err.Error()})
	return err
}

// post puts the order into the slot.
func (a *actuator) post(o *order) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	// Looked at under the lock: a stop latches first and takes the lock then.
	if err := a.ready(); err != nil {
		return err
	}
	now := time.Now()
	switch {
	case o.by != nil && a.goal != o.by:
		return fmt.Errorf("hw: %s: %w", a.name, context.Canceled)
	case a.fence.Load().passes(o.by != nil && o.by.back) != nil:
		return fmt.Errorf("hw: %s: %w", a.name, a.fence.Load().passes(o.by != nil && o.by.back))
	case a.unrested != nil:
		return fmt.Errorf("hw: %s: %w: %w", a.name, ErrUnrested, a.unrested)
	case a.resting && now.Sub(a.began) > restTimeout:
		return fmt.Errorf("hw: %s: %w: Rest hangs", a.name, ErrUnrested)
	case a.limits.Rate > 0 && !a.taken.IsZero() && now.Sub(a.taken).Seconds() < 1/a.limits.Rate:
		return fmt.Errorf("hw: %s: %w: at most %v a second", a.name, ErrRate, a.limits.Rate)
	}
	a.taken = now
	a.drop(ErrReplaced)
	a.next, a.last, a.target = o, o, nil
	a.active = true
	if o.hold > 0 {
		a.lives(now, o.hold)
	} else {
		a.until = time.Time{}
	}
	a.missed = 0
	a.kick()
	return nil
}

// drop empties the slot; the caller holds mu.
func (a *actuator) drop(err error) {
	if a.next != nil {
		a.next.answer(fmt.Errorf("hw: %s: %w", a.name, err))
		a.next = nil
	}
}

// kick starts the lane unless it runs; the caller holds mu.
func (a *actuator) kick() {
	if !a.running && !a.resting {
		a.running = true
		a.r.lanes.Go(a.run)
	}
}

// run is the lane.
func (a *actuator) run() {
	for {
		a.mu.Lock()
		switch {
		case a.resting: // beside a Do that hung until now; it kicks when it is through
			a.running = false
			a.mu.Unlock()
			return
		case a.wantRest:
			a.begin()
			a.mu.Unlock()
			a.makeRest()
		case a.next != nil:
			o := a.next
			ctx, cancel := context.WithCancel(o.ctx)
			a.next, a.doing, a.cancel = nil, o, cancel
			now := time.Now()
			tell, there := a.limits.step(a.told, o.cmd.fields, now.Sub(a.toldAt))
			a.toldAt = now
			a.mu.Unlock()
			a.carry(ctx, o, tell, there)
			cancel()
		default:
			a.running = false
			a.mu.Unlock()
			return
		}
	}
}

// carry gives a command to the device.
func (a *actuator) carry(ctx context.Context, o *order, tell map[string]any, there bool) {
	err := ctx.Err()
	if err == nil {
		err = a.tell(ctx, tell)
	}
	a.mu.Lock()
	a.doing, a.cancel = nil, nil
	if errors.Is(err, context.Canceled) && o.ctx.Err() == nil { // by a Rest
		if err = a.ready(); err == nil {
			err = ErrReplaced
		}
	}
	if a.late {
		a.late, a.wantRest = false, true
	}
	ours := o.ctx.Err() != nil || errors.Is(err, ErrStopped) || errors.Is(err, ErrReplaced) || errors.Is(err, ErrOff)
	news := err != nil && !ours && (a.failed == nil || a.failed.Error() != err.Error())
	if !ours {
		a.failed = err
	}
	if err == nil {
		if a.told == nil {
			a.told = map[string]any{}
		}
		maps.Copy(a.told, tell)
		if !there && !a.wantRest && !a.resting && a.next == nil {
			a.target = o
			a.ramp.Reset(rampStep)
		}
	}
	from := o.ctx // a ramp step may replace it
	a.mu.Unlock()

	payload := map[string]any{"command": tell, "by": o.source}
	if o.by != nil {
		payload["goal"] = int64(o.by.id)
	}
	if !there {
		payload["to"] = o.cmd.fields
	}
	if a.r.opt.Dry {
		payload["dry"] = true
	}
	if err != nil {
		payload["error"] = err.Error()
		if !errors.Is(err, ErrStopped) && !errors.Is(err, ErrOff) {
			err = fmt.Errorf("hw: %s: %w", a.name, err)
		}
	}
	a.r.say(from, "hw:"+a.name, "hw/"+a.name+"/set", payload)
	if news {
		a.r.complain(from, "hw:"+a.name, err, nil)
	}
	if o.by != nil && err != nil && !ours {
		o.by.end(Failed, nil, err.Error())
	}
	o.answer(err)
}

func (a *actuator) tell(ctx context.Context, fields map[string]any) error {
	raw, err := command{fields: fields}.json()
	if err != nil {
		return err
	}
	if a.r.opt.Dry {
		a.r.opt.Log.Info("dry run: not moved", "actuator", a.name, "command", string(raw))
		return nil
	}
	return safely(func() error { return a.dev.Do(ctx, raw) })
}

// step goes on with a ramp; it runs on the wheel.
func (a *actuator) step() {
	a.mu.Lock()
	defer a.mu.Unlock()
	o := a.target
	a.target = nil
	if o == nil || a.next != nil || a.wantRest || a.resting || !a.active || a.ready() != nil {
		return
	}
	// The caller may be gone by now; its command is not.
	o.ctx = context.WithoutCancel(o.ctx)
	a.next = o
	a.kick()
}

// lives sets the dead man; the caller holds mu. A command that comes in the very
// moment in which the one before ends is in time.
func (a *actuator) lives(now time.Time, d time.Duration) {
	a.until = now.Add(d)
	a.lease.Reset(d + time.Millisecond)
}

// A goal whose controller does not drive in time is late or hangs. Either way the
// actuator rests at the end of the command's lifetime. One that is late, because
// the machine is busy say, goes on with its next command; it fails when it has
// been missed so often, at such intervals. They are counted and not measured: a
// process that stood still for a minute has missed one.
const (
	mostMissed = 10
	missEvery  = 500 * time.Millisecond
)

// expire is the dead man; it runs on a goroutine of its own.
func (a *actuator) expire() {
	a.mu.Lock()
	now := time.Now()
	g := a.goal
	waits := g != nil && (a.active || a.missed > 0)
	if a.until.IsZero() || now.Before(a.until) || !a.active && !waits {
		a.mu.Unlock()
		return
	}
	hangs := false
	if waits {
		if a.missed++; a.missed < mostMissed {
			a.lives(now, missEvery)
		} else {
			hangs = true
		}
	}
	run := a.active && a.want(nil, cause{a.last.ctx, a.last.source, "dead man"}, context.DeadlineExceeded)
	a.mu.Unlock()
	if run {
		a.r.lanes.Go(a.run)
	}
	if hangs {
		g.end(Failed, nil, "dead man: the goal stopped driving")
	}
}

func (a *actuator) status() Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := Status{Name: a.name, Kind: "actuator", AtRest: !a.active && !a.resting && !a.wantRest, Time: a.toldAt}
	if len(a.told) > 0 {
		s.Value = maps.Clone(a.told)
	}
	if err := errors.Join(a.unrested, a.failed); err != nil {
		s.Error = err.Error()
	}
	if a.goal != nil {
		s.Goal = a.goal.name
	}
	return s
}
