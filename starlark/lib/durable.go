package lib

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.starlark.net/starlark"

	"edged/blackboard"
	"edged/bus"
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
}

func (p *pastEvent) value() starlark.Value {
	return eventKind.Wrap(&event{Event: bus.Event{Topic: p.Topic, Source: p.Source, Seq: p.Seq}, past: p})
}

func pastOf(v starlark.Value) *pastEvent {
	e, err := eventKind.Unwrap(v)
	if err != nil {
		return nil
	}
	if e.past != nil {
		return e.past
	}
	return &pastEvent{Topic: e.Topic, Payload: e.Payload(), Source: e.Source, Seq: e.Seq, Time: e.Time()}
}

// runRecord is a run with durable waits, as it is kept.
type runRecord struct {
	Module  string       `json:"module"` // of the handler
	Fn      string       `json:"fn"`
	Event   *pastEvent   `json:"event"`
	Waited  []*pastEvent `json:"waited,omitempty"` // what ended waits gave; null is nothing in time
	Pending *waitRecord  `json:"pending,omitempty"`
}

type waitRecord struct {
	Filter   string    `json:"filter,omitempty"` // empty: a sleep
	Deadline time.Time `json:"deadline"`         // zero is never
	Policy   string    `json:"policy"`
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
	rec     runRecord
	next    int // how many waits the code has come to

	mu      sync.Mutex // guards the rest
	kept    bool       // there is a record
	waiting bool
	got     bool // the event it waits for has come
	handed  bool // the next version takes it up
	wake    context.CancelFunc
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
		return waited(d.rec.Waited[at]), nil
	}
	w := d.rec.Pending
	if w == nil {
		w = &waitRecord{Filter: filter, Policy: c.String("policy")}
		if timeout >= 0 {
			w.Deadline = time.Now().Add(timeout)
		}
		d.rec.Pending = w
		if err := d.keep(r, true); err != nil {
			return nil, err
		}
	} else if w.Policy == "fire" {
		return d.done(r, nil)
	}
	return d.await(r, c, w, accept)
}

func waited(p *pastEvent) starlark.Value {
	if p == nil {
		return starlark.None
	}
	return p.value()
}

// await waits and notes what came.
func (d *durableRun) await(r *run, c *value.Call, w *waitRecord, accept func(bus.Event) bool) (starlark.Value, error) {
	ctx, wake := context.WithCancel(c.Context())
	defer wake()
	d.mu.Lock()
	d.waiting, d.got, d.wake = true, false, wake
	sub := d.sub
	d.sub = nil
	d.mu.Unlock()
	timeout := time.Duration(-1)
	if !w.Deadline.IsZero() {
		timeout = max(time.Until(w.Deadline), 0)
	}
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
	if w.Filter == "" {
		err = sleep(ctx, max(timeout, 0))
	} else {
		e, ok, err = d.b.nextOf(ctx, sub, w.Filter, timeout, noted)
	}
	d.mu.Lock()
	d.waiting, d.wake = false, nil
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

// done notes the end of a wait.
func (d *durableRun) done(r *run, p *pastEvent) (starlark.Value, error) {
	d.rec.Waited = append(d.rec.Waited, p)
	d.rec.Pending = nil
	return waited(p), d.keep(r, false)
}

func (d *durableRun) keep(ctx context.Context, sync bool) error {
	text, err := json.Marshal(d.rec)
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
	defer b.mu.Unlock()
	stay = make(map[string]bool)
	for id, d := range b.durables {
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
		if rec.Pending != nil && rec.Pending.Policy == "drop" {
			b.drop("runs", id, nil)
			continue
		}
		fn := b.lookup(rec.Module, rec.Fn)
		if fn == nil {
			b.drop("runs", id, fmt.Errorf("%s: %s waited, and is not there any more", rec.Module, rec.Fn))
			continue
		}
		cb, missing := makeCallback(fn, "event")
		if missing != "" {
			b.drop("runs", id, fmt.Errorf("%s: %s waited, and wants another argument now: %s", rec.Module, rec.Fn, missing))
			continue
		}
		b.takeUp(&durableRun{b: b, cb: cb, id: id, resumed: true, rec: rec, kept: true})
	}
}

// takeUp calls a handler again that was waiting.
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
	b.spawn(func() {
		ev := d.rec.Event.value()
		r := &run{Context: context.Background(), life: script.WithRole(b.life, "resumed after a restart"), b: b, source: source, args: [1]starlark.Value{ev}, handler: true, durable: d}
		_, err := b.do(r, d.cb, ev)
		d.end(r)
		b.report(r, source+":"+d.cb.name, err, bus.Event{})
	})
}

// drop forgets a record that is of no use, and says why.
func (b *Behaviour) drop(kind, id string, why error) {
	if err := errors.Join(why, b.room(kind).Delete(b.life, id)); err != nil {
		b.report(b.life, "script:"+b.folder, err, bus.Event{})
	}
}

// timerRecord is a durable timer as it is kept.
type timerRecord struct {
	Module   string    `json:"module"`
	Fn       string    `json:"fn"`
	Task     any       `json:"task,omitempty"`
	Deadline time.Time `json:"deadline"`
	Policy   string    `json:"policy"`
}

func (b *Behaviour) after(c *value.Call) (starlark.Value, error) {
	cb, err := newCallback(c, "fn", "task")
	if err != nil {
		return nil, err
	}
	tree, err := c.Tree("task")
	if err != nil {
		return nil, err
	}
	task, err := c.Return(tree)
	if err != nil {
		return nil, err
	}
	delay := c.Duration("delay")
	k := &ticker{what: "after " + delay.String(), at: where(c), loaded: script.Loading(c.Thread), delay: func() time.Duration { return delay }}
	k.lane = lane{b: b, cb: cb, mode: "parallel", role: k.what, source: b.scriptSource(cb.at.File), offered: []starlark.Value{task}}
	if !script.Loading(c.Thread) {
		k.lane.cause = context.WithoutCancel(c.Context())
	}
	k.lane.after = func(*run) { b.forget(k) }
	if c.Bool("durable") {
		name := c.String("name")
		if name == "" {
			name = cb.name
		}
		if strings.HasPrefix(name, "lambda") {
			return nil, c.Errorf("fn", "argument \"fn\": a lambda can't be found again after a restart: want a global function")
		}
		k.durable(name, timerRecord{Task: tree, Policy: c.String("policy")}, delay)
	}
	if err := b.attach(c, k); err != nil {
		return nil, err
	}
	return timerKind.Wrap(k), nil
}

// durable makes a timer one that is kept under a name.
func (k *ticker) durable(name string, rec timerRecord, delay time.Duration) {
	b := k.lane.b
	k.name = name
	k.prepare = func() error {
		now := time.Now()
		text, kept := b.room("timers").Get(name)
		var old timerRecord
		b.mu.Lock()
		again := !b.claimed[name] && !b.started
		b.claimed[name] = true
		b.mu.Unlock()
		if again && kept && json.Unmarshal(text, &old) == nil {
			rec.Deadline = old.Deadline
			late := !now.Before(old.Deadline)
			switch {
			case rec.Policy == "fire":
				rec.Deadline = now
			case rec.Policy == "drop" && late:
				b.drop("timers", name, nil)
				k.delay = nil
				return nil
			}
		} else {
			rec.Deadline = now.Add(delay)
			var ok bool
			if rec.Module, rec.Fn, ok = b.global(k.lane.cb.fn); !ok {
				return fmt.Errorf("after: %s can't be found again after a restart: want a global function", k.lane.cb)
			}
			text, err := json.Marshal(rec)
			if err != nil {
				return err
			}
			if err := b.room("timers").Put(b.life, name, text, true); err != nil {
				return err
			}
		}
		k.delay = func() time.Duration { return max(rec.Deadline.Sub(now), 0) }
		return nil
	}
	// The record goes when the run is over: a crash in between calls it again.
	k.lane.after = func(r *run) {
		b.forget(k)
		if r.Err() == nil {
			b.drop("timers", name, nil)
		}
	}
}

// resumeTimers takes up the durable timers that no top level declares: those
// set by handlers.
func (b *Behaviour) resumeTimers(reload bool) {
	now := time.Now()
	for name, text := range b.room("timers").All() {
		b.mu.Lock()
		claimed := b.claimed[name]
		b.claimed[name] = true
		b.mu.Unlock()
		if claimed {
			continue
		}
		var rec timerRecord
		err := json.Unmarshal(text, &rec)
		fn := b.lookup(rec.Module, rec.Fn)
		late := !now.Before(rec.Deadline)
		switch {
		case err != nil || fn == nil:
			b.drop("timers", name, fmt.Errorf("timer %q: %s in %s is not there any more", name, rec.Fn, rec.Module))
			continue
		case rec.Policy == "drop" && late:
			b.drop("timers", name, nil)
			continue
		case rec.Policy == "fire":
			rec.Deadline = now
		}
		cb, missing := makeCallback(fn, "task")
		task, err := value.FromGo(rec.Task)
		if missing != "" || err != nil {
			b.drop("timers", name, fmt.Errorf("timer %q: %s can't be called with the task: %s %v", name, rec.Fn, missing, err))
			continue
		}
		k := &ticker{what: "after, " + name, name: name, delay: func() time.Duration { return max(rec.Deadline.Sub(now), 0) }}
		k.lane = lane{b: b, cb: cb, mode: "parallel", role: k.what, source: b.scriptSource(cb.at.File), offered: []starlark.Value{task}}
		k.lane.after = func(r *run) {
			b.forget(k)
			if r.Err() == nil {
				b.drop("timers", name, nil)
			}
		}
		b.remember(k)
		if err := k.start(); err != nil {
			b.report(b.life, k.lane.source, err, bus.Event{})
		}
	}
}
