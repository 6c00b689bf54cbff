package hw

// The stop path. Nothing here waits, up to the point where every actuator has
// been told to rest: it takes the lock of one actuator at a time, for some
// instructions, and no other. It uses no script, model, network, disk or
// queue. What it has to tell, it tells afterwards.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"edged/bus"
)

// Topics of the stop latch. Whoever publishes StopTopic stops the robot.
const (
	StopTopic   = "edged/safety/stop"
	ResumeTopic = "edged/safety/resume"
)

// StopRecord is who stopped the robot, why and when.
type StopRecord struct {
	Source string    `json:"source"` // one that begins with "hw:" is hardware, and outlives the process
	Reason string    `json:"reason"`
	Time   time.Time `json:"time"`
}

// A Latch keeps a stop over restarts. Save(nil) clears it; Load gives nil if
// nothing is kept. Save is never called on the stop path.
type Latch interface {
	Save(s *StopRecord) error
	Load() (*StopRecord, error)
}

// halt is one act of bringing everything to rest.
type halt struct {
	r       *Rig
	ctx     context.Context
	record  StopRecord
	latched bool
	bound   *time.Timer
	done    chan struct{}

	mu    sync.Mutex  // guards everything below
	left  []*actuator // not heard of yet
	begun bool        // all have been told
	errs  []error
	over  bool
}

func newHalt(ctx context.Context, r *Rig, source, reason string, all []*actuator) *halt {
	return &halt{
		r: r, ctx: ctx, record: StopRecord{source, reason, time.Now().UTC()},
		left: slices.Clone(all), done: make(chan struct{}),
	}
}

// OnStop registers f to be called by every stop, to cancel turns say. Each
// hook runs on a goroutine of its own; a slow or failing one delays nothing.
func (r *Rig) OnStop(f func()) {
	h := func() {
		if err := safely(func() error { f(); return nil }); err != nil {
			r.complain(context.Background(), "hw:stop", fmt.Errorf("hw: stop hook: %w", err), nil)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	all := append(slices.Clone(*r.hooks.Load()), h)
	r.hooks.Store(&all)
}

// Trip stops the robot and returns at once, without waiting for a device: for
// signal handlers, edges of an input, taps. It latches, tells every actuator
// to rest, cancels every goal and calls the hooks; when the actuators have
// rested, or the bound is over, edged/safety/stop is published.
func (r *Rig) Trip(ctx context.Context, source, reason string) { r.trip(ctx, source, reason, true) }

// Stop is Trip that waits for the actuators, for the bound at most (50 ms). Its error
// names those that failed or are late; the robot is stopped all the same, and
// they are tried again.
func (r *Rig) Stop(ctx context.Context, source, reason string) error {
	return r.trip(ctx, source, reason, true).wait(ctx)
}

// Safe brings every actuator to rest and closes the gate: for a panic, a
// signal, the end of the process. It is not a stop: nothing is latched and
// nobody has to resume. It waits as Stop does.
func (r *Rig) Safe(ctx context.Context, reason string) error {
	r.off.Store(true)
	return r.trip(ctx, "hw", reason, false).wait(ctx)
}

func (r *Rig) trip(ctx context.Context, source, reason string, latch bool) *halt {
	list := *r.actuators.Load()
	h := newHalt(ctx, r, source, reason, list)
	c, refused := cause{ctx, source, reason}, ErrOff
	if latch {
		r.close(&h.record)
		h.latched = true
		c.why, refused = "stop: "+reason, ErrStopped
	}
	todo := make([]func(), 0, 64)
	for _, a := range list {
		if a.wish(h, c, refused) {
			todo = append(todo, a.run)
		}
	}
	goals := r.Goals()
	for _, g := range goals {
		g.close(Cancelled, nil, c.why)
	}
	if latch {
		todo = append(todo, *r.hooks.Load()...)
	}
	h.begin(r.opt.Bound)
	for _, g := range goals {
		g.tell()
	}
	if len(goals) > 0 {
		r.speak() // the act may be over already, and have spoken before
	}
	if len(todo) > 0 {
		r.lanes.Go(func() { r.cascade(todo) })
	}
	return h
}

// cascade runs every function on a goroutine of its own, each started by the
// one before as its first deed. Go's scheduler runs a goroutine that was just
// started as soon as its starter waits or ends, before all others that want to
// run; of twenty that are started together, nineteen queue behind those, 10 ms
// for each that computes. See BenchmarkStop.
func (r *Rig) cascade(todo []func()) {
	if len(todo) > 1 {
		r.lanes.Go(func() { r.cascade(todo[1:]) })
	}
	todo[0]()
}

// close latches. A stop by hardware is not overwritten by one by software.
func (r *Rig) close(s *StopRecord) {
	for {
		old := r.latch.Load()
		if old != nil && hardware(old) && !hardware(s) || r.latch.CompareAndSwap(old, s) {
			return
		}
	}
}

func hardware(s *StopRecord) bool { return s != nil && strings.HasPrefix(s.Source, "hw:") }

// begin starts the bound, once all have been told.
func (h *halt) begin(bound time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.begun = true; len(h.left) == 0 {
		h.finish()
		return
	}
	h.bound = time.AfterFunc(bound, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.finish()
	})
}

// rested hears of one actuator. It returns false if it was too late to matter.
func (h *halt) rested(a *actuator, err error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return false
	}
	h.left = slices.DeleteFunc(h.left, func(x *actuator) bool { return x == a })
	if err != nil {
		h.errs = append(h.errs, err)
	}
	if h.begun && len(h.left) == 0 {
		h.finish()
	}
	return true
}

// finish says that the act is over; the caller holds mu.
func (h *halt) finish() {
	if h.over {
		return
	}
	h.over = true
	if h.bound != nil {
		h.bound.Stop()
	}
	var missing []string
	for _, a := range h.left {
		missing = append(missing, a.name)
	}
	if missing != nil {
		h.errs = append(h.errs, fmt.Errorf("hw: %w in time: %s", ErrUnrested, strings.Join(missing, ", ")))
	}
	close(h.done)
	if h.latched {
		h.r.stopped(h)
	}
	h.r.speak()
}

// err is what went wrong; only once done is closed.
func (h *halt) err() error { return errors.Join(h.errs...) }

func (h *halt) wait(ctx context.Context) error {
	select {
	case <-h.done:
		return h.err()
	case <-ctx.Done():
		return fmt.Errorf("hw: stop: %w", ctx.Err())
	}
}

// stopped tells of a stop after the act.
func (r *Rig) stopped(h *halt) {
	m := &stopEvent{tree: map[string]any{
		"source": h.record.Source, "reason": h.record.Reason, "ms": float64(time.Since(h.record.Time).Microseconds()) / 1000,
	}}
	if err := h.err(); err != nil {
		m.tree["error"] = err.Error()
		r.stage(h.ctx, "hw:stop", bus.ErrorTopic, map[string]any{"source": "hw:stop", "error": err.Error()})
	}
	r.stage(h.ctx, h.record.Source, StopTopic, m)
	if r.opt.Latch != nil && hardware(&h.record) {
		r.saves.Go(r.save)
	}
}

// stopEvent is the payload of the rig's own stop events, by which it knows them.
type stopEvent struct {
	bus.Cell
	tree map[string]any
}

func (s *stopEvent) Tree() any { return s.tree }

// Told reports whether an event on StopTopic says that the robot has stopped: it
// is the rig's own. Every other event there is an order.
func Told(e bus.Event) bool {
	_, own := e.Value().(*stopEvent)
	return own
}

// heard hears StopTopic the moment it is published (see bus.Urgent).
func (r *Rig) heard(e bus.Event) {
	if Told(e) {
		return
	}
	reason := "event " + StopTopic
	switch p := e.Payload().(type) {
	case map[string]any:
		if s, ok := p["reason"].(string); ok && s != "" {
			reason = s
		}
	case string:
		if p != "" {
			reason = p
		}
	}
	r.trip(bus.WithCause(context.Background(), e), e.Source, reason, true)
}

// Stopped says whether the robot is stopped, by whom and why.
func (r *Rig) Stopped() (StopRecord, bool) {
	if s := r.latch.Load(); s != nil {
		return *s, true
	}
	return StopRecord{}, false
}

// Resume opens the gate after a stop, whoever caused it. Nothing moves by it: what
// was cancelled stays cancelled. An actuator whose Rest failed stays closed until a
// Rest of it has succeeded. Resume without a stop does nothing; because of old words
// it resumes nothing and is [ErrOld].
func (r *Rig) Resume(ctx context.Context, source string) error {
	if old := bus.OldOf(ctx); old != nil {
		return fmt.Errorf("hw: resume: %w: %v", ErrOld, old)
	}
	r.resumed(ctx, source, r.latch.Swap(nil))
	return nil
}

func (r *Rig) resumed(ctx context.Context, source string, was *StopRecord) {
	if was == nil {
		return
	}
	r.say(ctx, source, ResumeTopic, map[string]any{"source": source, "stopped_by": was.Source, "reason": was.Reason})
	if r.opt.Latch != nil {
		r.saves.Go(r.save)
	}
}

// save writes the latch as it is now; it runs on a goroutine of its own. What
// fails is tried again until it is written, or a restart would forget a stop.
func (r *Rig) save() {
	r.saving.Lock()
	defer r.saving.Unlock()
	if r.saved {
		return
	}
	s := r.latch.Load()
	if !hardware(s) {
		s = nil
	}
	err := safely(func() error { return r.opt.Latch.Save(s) })
	if err == nil {
		r.unsaved = 0
		return
	}
	if r.unsaved++; r.unsaved == 1 {
		r.complain(context.Background(), "hw:stop", fmt.Errorf("hw: save stop latch: %w; it is tried again", err), nil)
	}
	r.saveAgain.Reset(r.backoff(r.unsaved))
}

// lastSave waits for the writes of the latch, the last one of all if one failed.
func (r *Rig) lastSave() {
	r.saves.Wait()
	r.saveAgain.Stop()
	r.saving.Lock()
	failed := r.unsaved > 0
	r.saving.Unlock()
	if failed {
		r.save()
		r.saveAgain.Stop()
	}
	r.saving.Lock()
	r.saved = true
	r.saving.Unlock()
}

// recall takes up a stop of an earlier process.
func (r *Rig) recall() error {
	if r.opt.Latch == nil {
		return nil
	}
	s, err := r.opt.Latch.Load()
	if err != nil {
		s = &StopRecord{Source: "hw:latch", Reason: "the saved stop latch can't be read: " + err.Error(), Time: time.Now().UTC()}
	}
	if s != nil {
		r.latch.Store(s)
	}
	return nil
}
