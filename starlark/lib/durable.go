package lib

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"go.starlark.net/starlark"

	"edged/blackboard"
	"edged/bus"
	"edged/bus/origin"
	"edged/bus/trace"
	"edged/starlark/script"
	"edged/starlark/value"
)

// policies say what a restart does to durable waits and timers.
var policies = value.OneOf("resume", "drop", "fire")

// pastEvent is an event as a record keeps it.
type pastEvent struct {
	Topic   string    `json:"topic"`
	Payload any       `json:"payload,omitempty"`
	Source  string    `json:"source,omitempty"`
	Seq     uint64    `json:"seq,omitempty"`
	Time    time.Time `json:"time"`

	Origin origin.Label `json:"origin,omitempty"` // if not the source's
	Old    *bus.Old     `json:"old,omitempty"`    // it, or what it came of, is no order
}

func (p *pastEvent) value() starlark.Value {
	return eventKind.Wrap(&event{Event: bus.Event{
		Topic: p.Topic, Source: p.Source, Seq: p.Seq, Queued: p.Old != nil && p.Old.Topic == p.Topic,
	}.From(p.Origin), past: p})
}

func pastOf(v starlark.Value) *pastEvent {
	e, err := eventKind.Unwrap(v)
	if err != nil {
		return nil
	}
	if e.past != nil {
		return e.past
	}
	return &pastEvent{Topic: e.Topic, Payload: e.Payload(), Source: e.Source, Seq: e.Seq, Time: e.Time(), Origin: trace.Others(e.Event), Old: e.Old()}
}

// runRecord is a run with durable waits, as it is kept.
type runRecord struct {
	Module  string       `json:"module"` // of the handler
	Fn      string       `json:"fn"`
	Event   *pastEvent   `json:"event"`
	Waited  []*pastEvent `json:"waited,omitempty"` // what ended waits gave; null is nothing in time
	Origin  origin.Label `json:"origin,omitempty"` // whose words the run has read
	Pending *waitRecord  `json:"pending,omitempty"`
}

type waitRecord struct {
	Filter string `json:"filter,omitempty"` // empty: a sleep
	due           // not set is never
	Policy string `json:"policy"`
}

// durableRun is the durable side of one run: what it waited for, and what it
// waits for.
//
// A wait that ends because the robot or the behaviour stops leaves its record,
// and the next start calls the handler again. In a reload [handoff] decides,
// while the bus stands still, whether the old run keeps a wait or the new
// version takes it up: never both.
type durableRun struct {
	b       *Behaviour
	cb      *callback
	ev      starlark.Value // what is handled
	id      string
	resumed bool
	again   bool // after a restart; else it went over in a reload
	next    int  // how many waits the code has come to

	disk sync.Mutex // held while the record is written or deleted; guards over
	over bool       // the run has ended

	mu      sync.Mutex // guards the rest
	rec     runRecord  // written by the run, or while it waits
	kept    bool       // there is a record
	waiting bool
	got     bool // the event it waits for has come
	handed  bool // the next version takes it up
	wake    context.CancelFunc
	left    *countdown        // of the wait that is on; nil is for ever
	sub     *bus.Subscription // made beforehand for a resumed wait
}

func newDurableRun(b *Behaviour, cb *callback, ev starlark.Value) *durableRun {
	return &durableRun{b: b, cb: cb, ev: ev}
}

// room is where a folder's runs and timers are kept.
func (b *Behaviour) room(kind string) *blackboard.Records {
	return b.host.Board.Records("script/" + b.folder + "/" + kind)
}

// wait is a durable wait: for an event, or with no filter for a time.
func (r *run) wait(c *value.Call, filter string, timeout time.Duration, accept func(bus.Event) bool) (starlark.Value, error) {
	d := r.durable
	if d == nil {
		return nil, &value.Error{Arg: "durable", Msg: "only a handler of on(…) can wait durably: it is called again after a restart"}
	}
	if d.rec.Fn == "" {
		module, fn, ok := r.b.global(d.cb.fn)
		if !ok {
			return nil, &value.Error{Arg: "durable", Msg: fmt.Sprintf("%s can't be called again after a restart: want a handler that is a global function", d.cb.name)}
		}
		d.rec.Module, d.rec.Fn, d.rec.Event = module, fn, pastOf(d.ev)
	}
	at := d.next
	d.next++
	if at < len(d.rec.Waited) {
		return waited(r, d.rec.Waited[at]), nil
	}
	w := d.rec.Pending
	if w == nil {
		w = &waitRecord{Filter: filter, Policy: c.String("policy")}
		if timeout >= 0 {
			w.due = r.b.dueIn(timeout)
		}
		d.mu.Lock()
		d.rec.Pending = w
		d.mu.Unlock()
		if err := d.keep(r, true); err != nil {
			return nil, err
		}
		return d.await(r, c, w, false, accept)
	}
	if w.Policy == "fire" && d.again {
		return d.done(r, nil)
	}
	return d.await(r, c, w, d.again, accept)
}

func waited(r *run, p *pastEvent) starlark.Value {
	if p == nil {
		return starlark.None
	}
	v := p.value()
	if e, err := eventKind.Unwrap(v); err == nil {
		origin.Raise(r, e.Origin())
	}
	r.heed(p.Old)
	return v
}

// heed notes that what a run does from now on comes of what is no order.
func (r *run) heed(old *bus.Old) {
	if old != nil {
		r.Context = bus.WithOld(r.Context, *old)
	}
}

// await waits and notes what came.
func (d *durableRun) await(r *run, c *value.Call, w *waitRecord, again bool, accept func(bus.Event) bool) (starlark.Value, error) {
	ctx, wake := context.WithCancelCause(c.Context())
	defer wake(nil)
	var left *countdown
	if w.set() {
		left = d.b.count(w.due, again, d.note, func() { wake(errTimeOver) })
		defer left.stop()
	}
	d.mu.Lock()
	d.waiting, d.got, d.wake, d.left = true, false, func() { wake(nil) }, left
	sub := d.sub
	d.sub = nil
	d.mu.Unlock()
	noted := func(e bus.Event) bool {
		if accept != nil && !accept(e) {
			return false
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.got = true
		return true
	}
	var e bus.Event
	var ok bool
	var err error
	switch {
	case w.Filter != "":
		e, ok, err = d.b.nextOf(ctx, sub, w.Filter, -1, noted)
	case w.set():
		<-ctx.Done()
		err = context.Cause(ctx)
	}
	if errors.Is(err, errTimeOver) {
		err = nil
	}
	d.mu.Lock()
	d.waiting, d.wake, d.left = false, nil, nil
	handed := d.handed
	d.mu.Unlock()
	switch {
	case handed:
		return nil, errStopped
	case err != nil:
		return nil, err
	case ok:
		return d.done(r, pastOf(eventValue(e)))
	}
	return d.done(r, nil)
}

// errTimeOver ends a wait in which nothing came.
var errTimeOver = errors.New("the time of the wait is over")

// done notes the end of a wait: on disk before anything is done that follows
// from it.
func (d *durableRun) done(r *run, p *pastEvent) (starlark.Value, error) {
	d.mu.Lock()
	d.rec.Waited = append(d.rec.Waited, p)
	d.rec.Pending = nil
	d.mu.Unlock()
	v := waited(r, p)
	return v, d.keep(r, true)
}

// note writes down what is left of the wait.
func (d *durableRun) note(left due) {
	d.mu.Lock()
	if !d.waiting || d.got || d.rec.Pending == nil {
		d.mu.Unlock()
		return
	}
	w := *d.rec.Pending
	w.due = left
	d.rec.Pending = &w
	d.mu.Unlock()
	d.b.noted(d.keep(context.WithoutCancel(d.b.life), false))
}

func (d *durableRun) keep(ctx context.Context, sync bool) error {
	d.disk.Lock()
	defer d.disk.Unlock()
	if d.over {
		return nil
	}
	d.mu.Lock()
	if whose := origin.From(ctx); whose != "" {
		d.rec.Origin = whose
	}
	text, err := json.Marshal(d.rec)
	d.mu.Unlock()
	if err != nil {
		return err
	}
	if d.id == "" {
		d.id = fmt.Sprintf("%s-%d-%d", d.rec.Fn, time.Now().UnixNano(), d.rec.Event.Seq)
	}
	d.b.mu.Lock()
	d.b.durables[d.id] = d
	d.b.mu.Unlock()
	d.mu.Lock()
	d.kept = true
	d.mu.Unlock()
	return d.b.room("runs").Put(ctx, d.id, text, sync)
}

// end is the end of the run: its record goes, unless the run was stopped and is
// to be taken up again.
func (d *durableRun) end(r *run) {
	d.mu.Lock()
	kept, handed, sub := d.kept, d.handed, d.sub
	d.mu.Unlock()
	if sub != nil {
		sub.Close()
	}
	if !kept {
		return
	}
	d.b.mu.Lock()
	delete(d.b.durables, d.id)
	d.b.mu.Unlock()
	d.disk.Lock()
	defer d.disk.Unlock()
	d.over = true
	if handed || r.Err() != nil && !errors.Is(context.Cause(r), errReplaced) {
		return
	}
	if err := d.b.room("runs").Delete(context.WithoutCancel(r), d.id); err != nil {
		d.b.report(r, r.source, err, bus.Event{})
	}
}

// handoff gives the durable waits of a behaviour that is replaced to the next
// one, and names the runs that stay with the old one because what they wait
// for has come. The bus must be paused.
func (b *Behaviour) handoff() (stay map[string]bool) {
	b.mu.Lock()
	all := maps.Clone(b.durables)
	b.mu.Unlock()
	stay = make(map[string]bool)
	for id, d := range all {
		d.mu.Lock()
		left := d.left
		d.mu.Unlock()
		if left != nil {
			d.note(left.due())
		}
		d.mu.Lock()
		if d.waiting && !d.got {
			d.handed = true
			d.wake()
		} else {
			stay[id] = true
		}
		d.mu.Unlock()
	}
	return stay
}

// resume takes up the runs of an earlier start, but for those that are still
// going on elsewhere.
func (b *Behaviour) resume(except map[string]bool, reload bool) {
	for id, text := range b.room("runs").All() {
		b.mu.Lock()
		_, mine := b.durables[id]
		b.mu.Unlock()
		if mine || except[id] {
			continue
		}
		var rec runRecord
		if err := json.Unmarshal(text, &rec); err != nil || rec.Pending == nil && len(rec.Waited) == 0 || rec.Event == nil {
			b.drop("runs", id, fmt.Errorf("the record of a waiting run can't be read: %v", err))
			continue
		}
		if rec.Pending != nil && rec.Pending.Policy == "drop" && !reload {
			b.drop("runs", id, nil)
			continue
		}
		fn := b.lookup(rec.Module, rec.Fn)
		if fn == nil {
			b.miss(id, fmt.Errorf("%s in %s waits, and is not there any more: the wait is kept until it is back", rec.Fn, rec.Module))
			continue
		}
		cb, missing := makeCallback(fn, "event")
		if missing != "" {
			b.miss(id, fmt.Errorf("%s in %s waits, and wants another argument now, %q: the wait is kept until it can be called with an event", rec.Fn, rec.Module, missing))
			continue
		}
		b.takeUp(&durableRun{b: b, cb: cb, id: id, resumed: true, again: !reload, rec: rec, kept: true})
	}
}

// miss tells, once, of a record that waits for its function.
func (b *Behaviour) miss(id string, why error) {
	b.mu.Lock()
	told := b.missing[id]
	b.missing[id] = true
	b.mu.Unlock()
	if !told {
		b.report(b.life, "script:"+b.folder, why, bus.Event{})
	}
}

// takeUp calls a handler again that was waiting. To the handler's mode it is a
// run like any other.
func (b *Behaviour) takeUp(d *durableRun) {
	source := b.scriptSource(d.cb.at.File)
	if w := d.rec.Pending; w != nil && w.Filter != "" {
		// Nothing is to be missed between now and the moment the handler is
		// back at its wait.
		sub, err := b.host.Bus.Subscribe(w.Filter, bus.Queue{Name: source + ":" + d.cb.name})
		if err != nil {
			b.report(b.life, source, err, bus.Event{})
			return
		}
		d.sub = sub
	}
	b.mu.Lock()
	b.durables[d.id] = d
	b.mu.Unlock()
	life, done := script.WithRole(b.life, "resumed after a restart"), func() {}
	if l := b.listenerOf(&d.rec); l != nil {
		life, done = l.adopt(life)
	}
	if !b.spawn(func() {
		defer done()
		ev := d.rec.Event.value()
		var whose origin.Label
		if e, err := eventKind.Unwrap(ev); err == nil {
			whose = e.Origin()
		}
		ctx := origin.With(context.Background(), origin.Merge(whose, d.rec.Origin, b.globals))
		r := &run{Context: ctx, life: life, b: b, source: source, args: [1]starlark.Value{ev}, handler: true, durable: d}
		r.heed(d.rec.Event.Old)
		_, err := b.do(r, d.cb, ev)
		d.end(r)
		b.report(r, source+":"+d.cb.name, err, bus.Event{})
	}) {
		done()
	}
}

// listenerOf finds the handler whose run a record is of.
func (b *Behaviour) listenerOf(rec *runRecord) *listener {
	for _, p := range b.all() {
		l, ok := p.(*listener)
		if !ok || l.inbox != nil || !l.hears(rec.Event.Topic) {
			continue
		}
		if module, fn, ok := b.global(l.cb.fn); ok && module == rec.Module && fn == rec.Fn {
			return l
		}
	}
	return nil
}

// drop forgets a record that is of no use, and says why.
func (b *Behaviour) drop(kind, id string, why error) {
	if err := errors.Join(why, b.room(kind).Delete(b.life, id)); err != nil {
		b.report(b.life, "script:"+b.folder, err, bus.Event{})
	}
}
