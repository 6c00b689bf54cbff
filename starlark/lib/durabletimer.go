package lib

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"go.starlark.net/starlark"

	"edged/bus"
	"edged/bus/origin"
	"edged/starlark/script"
	"edged/starlark/value"
)

// timerRecord is a durable timer as it is kept.
type timerRecord struct {
	Module string `json:"module"`
	Fn     string `json:"fn"`
	Task   any    `json:"task,omitempty"`
	due
	Policy string `json:"policy"`

	Origin origin.Label `json:"origin,omitempty"` // whose words it was set with, if not the script's
	Old    *bus.Old     `json:"old,omitempty"`    // what set it was brought about by what is no order
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
	k.lane = lane{b: b, cb: cb, mode: "parallel", role: k.what, source: b.scriptSource(cb.at.File), offered: []starlark.Value{task}, made: declaredBy(c)}
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
		k.durable(name, timerRecord{Task: tree, Origin: declaredBy(c), Policy: c.String("policy"), Old: bus.OldOf(c.Context())}, delay)
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
		text, kept := b.room("timers").Get(name)
		var old timerRecord
		b.mu.Lock()
		taken := !b.claimed[name] && !b.started
		replaced := b.timers[name]
		b.claimed[name], b.timers[name] = true, k
		b.mu.Unlock()
		if replaced != nil {
			replaced.close()
		}
		if taken && kept && json.Unmarshal(text, &old) == nil {
			rec.Module, rec.Fn, rec.due, rec.Old = old.Module, old.Fn, old.due, old.Old
			return k.again(rec, b.before.Load() == nil)
		}
		var ok bool
		if rec.Module, rec.Fn, ok = b.global(k.lane.cb.fn); !ok {
			return fmt.Errorf("after: %s can't be found again after a restart: want a global function", k.lane.cb)
		}
		rec.due = b.dueIn(delay)
		if err := b.keepTimer(name, rec, true); err != nil {
			return err
		}
		k.count = func() *countdown { return b.count(rec.due, false, k.noter(rec), k.fire) }
		return nil
	}
	k.lane.after = k.ended
}

// again takes up a timer that was set before.
func (k *ticker) again(rec timerRecord, restart bool) error {
	b := k.lane.b
	if rec.Old != nil {
		k.lane.cause = bus.WithOld(context.Background(), *rec.Old)
	}
	if restart && rec.Policy == "fire" {
		rec.due = b.dueIn(0)
		restart = false
	}
	k.count = func() *countdown { return b.count(rec.due, restart, k.noter(rec), k.fire) }
	if !restart || rec.Policy != "drop" {
		return nil
	}
	off, known := offFor(b.wall().Sub(rec.At))
	if late := rec.At.IsZero() && !b.wall().Before(rec.Deadline) || known && !rec.At.IsZero() && off >= rec.Left; late {
		b.drop("timers", k.name, nil)
		k.count = nil
	}
	return nil
}

// noter writes down what is left of a timer.
func (k *ticker) noter(rec timerRecord) func(due) {
	return func(left due) {
		b := k.lane.b
		k.disk.Lock()
		defer k.disk.Unlock()
		k.mu.Lock()
		closed := k.closed
		k.mu.Unlock()
		if closed || k.over || !k.idle() {
			return
		}
		rec.due = left
		b.noted(b.keepTimer(k.name, rec, false))
	}
}

func (b *Behaviour) keepTimer(name string, rec timerRecord, sync bool) error {
	text, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	return b.room("timers").Put(context.WithoutCancel(b.life), name, text, sync)
}

// fire calls the function, unless the version before is doing that: then its
// record tells, when it is through, whether there is anything left to do.
func (k *ticker) fire() {
	b := k.lane.b
	k.mu.Lock()
	closed := k.closed
	k.mu.Unlock()
	if closed {
		return
	}
	if old := b.before.Load(); old != nil {
		old.mu.Lock()
		was := old.timers[k.name]
		old.mu.Unlock()
		if was != nil && !was.idle() {
			b.host.Bus.Timers().After(drainLook, k.fire)
			return
		}
	}
	if _, kept := b.room("timers").Get(k.name); !kept {
		b.forget(k)
		return
	}
	k.lane.fire()
}

// ended is the end of the run of a durable timer: its record goes, unless the
// run was cancelled; then it is called again, as after a crash.
func (k *ticker) ended(r *run) {
	b := k.lane.b
	b.forget(k)
	k.disk.Lock()
	defer k.disk.Unlock()
	k.over = true
	b.mu.Lock()
	mine := b.timers[k.name] == k
	b.mu.Unlock()
	if r.Err() == nil && mine {
		b.drop("timers", k.name, nil)
	}
}

// resumeTimers takes up the durable timers that no top level declares: those
// set by handlers.
func (b *Behaviour) resumeTimers(reload bool) {
	for name, text := range b.room("timers").All() {
		b.mu.Lock()
		claimed := b.claimed[name]
		b.mu.Unlock()
		if claimed {
			continue
		}
		var rec timerRecord
		if err := json.Unmarshal(text, &rec); err != nil {
			b.drop("timers", name, fmt.Errorf("the record of timer %q can't be read: %w", name, err))
			continue
		}
		fn := b.lookup(rec.Module, rec.Fn)
		if fn == nil {
			b.miss("timer "+name, fmt.Errorf("timer %q: %s in %s is not there any more: the timer is kept until it is back", name, rec.Fn, rec.Module))
			continue
		}
		cb, missing := makeCallback(fn, "task")
		task, err := value.FromGo(rec.Task)
		if missing != "" || err != nil {
			b.miss("timer "+name, fmt.Errorf("timer %q: %s can't be called with the task any more (%s %v): the timer is kept until it can", name, rec.Fn, missing, err))
			continue
		}
		k := &ticker{what: "after, " + name, name: name}
		k.lane = lane{b: b, cb: cb, mode: "parallel", role: k.what, source: b.scriptSource(cb.at.File), offered: []starlark.Value{task}, made: rec.Origin, after: k.ended}
		b.mu.Lock()
		b.claimed[name], b.timers[name] = true, k
		b.mu.Unlock()
		_ = k.again(rec, !reload) // which has no error
		b.remember(k)
		if err := k.start(); err != nil {
			b.report(b.life, k.lane.source, err, bus.Event{})
		}
	}
}
