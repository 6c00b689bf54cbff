package background

import (
	"context"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"

	"edged/agent"
	"edged/bus"
)

// ears are one time of listening, from start to stop; restarts after a crash
// keep them.
type ears struct {
	a      *Agent
	ctx    context.Context // of runs and of the trigger
	cancel context.CancelFunc
	hear   func(context.Context, bus.Event)
	stop   func()
	sub    *bus.Subscription
	deaf   atomic.Bool
}

// listen opens the trigger and subscribes. Nothing gets through before the
// agent has taken the ears for its own.
func (a *Agent) listen(ctx context.Context) (*ears, error) {
	e := &ears{a: a}
	e.ctx, e.cancel = context.WithCancel(ctx)
	e.hear, e.stop = a.o.Trigger.Open(Outlet{Emit: e.emit, Fail: e.fail, Timers: a.o.Bus.Timers()})
	filters := slices.Clone(a.o.SubscribeTo)
	for _, w := range a.o.Watch {
		filters = append(filters, watchFilter(w))
	}
	if len(filters) == 0 {
		return e, nil
	}
	var err error
	// The predicate is where the trigger is asked; nothing is ever queued here.
	e.sub, err = a.o.Bus.Subscribe(filters[0], bus.Queue{
		Limit: 1, Also: filters[1:], Name: runName(a.name), Where: e.offer,
	})
	if err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

func (e *ears) close() {
	e.deaf.Store(true)
	e.cancel()
	if e.sub != nil {
		e.sub.Close()
	}
	e.stop()
}

// offer asks the trigger, on the publisher's goroutine.
func (e *ears) offer(ev bus.Event) bool {
	if e.deaf.Load() || !e.a.o.SelfEvents && ev.Within(runName(e.a.name)) || !e.a.wants(ev.Topic) {
		return false
	}
	defer func() {
		if p := recover(); p != nil {
			e.fail(&agent.Panic{Value: p, Stack: debug.Stack()})
		}
	}()
	e.hear(e.ctx, ev)
	return false
}

// wants sorts out what only the filter of a watched prefix let through.
func (a *Agent) wants(topic string) bool {
	key, ok := strings.CutPrefix(topic, "board/")
	if !ok || len(a.o.Watch) == 0 {
		return true
	}
	for _, w := range a.watch {
		if prefix, more := strings.CutSuffix(w, "*"); key == w || more && strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return slices.ContainsFunc(a.o.SubscribeTo, func(f string) bool { return bus.Match(f, topic) })
}

// emit queues a task.
func (e *ears) emit(ev bus.Event, task any) {
	a := e.a
	if ev.Seq != 0 {
		ev = ev.Stamped()
	}
	a.mu.Lock()
	if a.ears != e || e.deaf.Load() {
		a.mu.Unlock()
		return
	}
	lost, cause := a.queue.push(item{event: ev, task: task})
	if lost != nil {
		a.count(cause, 1)
	}
	a.wake()
	a.mu.Unlock()
	if lost != nil {
		a.sayDrops(cause)
	}
}

// fail is a crash or an exit of the trigger.
func (e *ears) fail(err error) {
	e.a.mu.Lock()
	mine := e.a.ears == e
	e.a.mu.Unlock()
	if mine {
		e.a.leave(err)
	}
}
