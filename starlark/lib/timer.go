package lib

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.starlark.net/starlark"

	"edged/background"
	"edged/bus"
	"edged/bus/origin"
	"edged/starlark/script"
	"edged/starlark/value"
)

var timerMode = value.Param{Name: "mode", Type: modes, Default: "single", Doc: "What a firing does while the function still runs: be skipped (single), wait (queue), end the run and take its place (restart), or run beside it (parallel)."}

var timerFn = value.Param{Name: "fn", Type: value.Callable, Positional: true, Doc: "Called at each firing, with ctx if it takes one. Without it the result is a trigger."}

var timerRows = []row{
	{value.Func{
		Name:    "every",
		Doc:     "Calls a function once per interval, first when one has passed; without a function it is a trigger for a background agent.",
		Example: "every(\"10s\", lambda: bus.publish(\"guard/beat\"))",
		Params: []value.Param{
			{Name: "interval", Type: value.Duration, Required: true, Positional: true, Doc: "The time between two firings, 1 ms or more."},
			timerFn, timerMode,
		},
		Returns: "a timer, or a trigger",
	}, (*Behaviour).every},
	{value.Func{
		Name:    "cron",
		Doc:     "Calls a function by the wall clock: minute, hour, day of month, month, day of week; without a function it is a trigger for a background agent.",
		Example: "cron(\"0 7 * * 1-5\", lambda: robot.say(\"good morning\"))",
		Params: []value.Param{
			{Name: "spec", Type: value.String, Required: true, Positional: true, Doc: "Five fields, or @hourly, @daily, …; CRON_TZ=Europe/Zurich in front gives a time zone."},
			timerFn, timerMode,
		},
		Returns: "a timer, or a trigger",
	}, (*Behaviour).cron},
	{value.Func{
		Name:    "after",
		Doc:     "Calls a function once, after a time. With durable it survives a restart of the robot: the function must be a global one, and is called with task.",
		Example: "after(\"5m\", lamp_off, task = \"hall\", durable = True)",
		Params: []value.Param{
			{Name: "delay", Type: value.Duration, Required: true, Positional: true, Doc: "How long from now."},
			{Name: "fn", Type: value.Callable, Required: true, Positional: true, Doc: "Called with task and with ctx, as far as it takes them."},
			{Name: "task", Type: value.Data, Doc: "What to hand to it."},
			{Name: "durable", Type: value.Bool, Default: false, Doc: "Keep it over a restart."},
			{Name: "name", Type: value.String, Doc: "A durable timer of the same name is replaced; the function's name if missing."},
			{Name: "policy", Type: policies, Default: "resume", Doc: "What a restart does to it: keep its time and call at once if that has passed (resume), or not at all if it has (drop), or call at the restart whatever its time (fire)."},
		},
		Returns: "a timer",
	}, (*Behaviour).after},
	{value.Func{
		Name:    "sleep",
		Doc:     "Waits. Nobody else waits with it.",
		Example: "hw.device(\"lamp\").do(on = True)\nsleep(\"2s\")\nhw.device(\"lamp\").rest()",
		Params:  []value.Param{{Name: "duration", Type: value.Duration, Required: true, Positional: true, Doc: "How long."}},
		Blocks:  true,
	}, func(b *Behaviour, c *value.Call) (starlark.Value, error) {
		if err := effect(c); err != nil {
			return nil, err
		}
		return nil, sleep(c.Context(), c.Duration("duration"))
	}},
}

// sleep waits for a time or for ctx to end.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (b *Behaviour) every(c *value.Call) (starlark.Value, error) {
	d := c.Duration("interval")
	t, err := background.Every(d)
	if err != nil {
		return nil, c.Errorf("interval", "argument \"interval\": %v", err)
	}
	return b.timer(c, t, "every "+d.String())
}

func (b *Behaviour) cron(c *value.Call) (starlark.Value, error) {
	spec := c.String("spec")
	t, err := background.Cron(spec)
	if err != nil {
		return nil, c.Errorf("spec", "argument \"spec\": %v", err)
	}
	return b.timer(c, t, "cron "+spec)
}

// timer makes a trigger a timer with a function, if there is one.
func (b *Behaviour) timer(c *value.Call, t background.Trigger, what string) (starlark.Value, error) {
	cb, err := newCallback(c, "fn")
	if err != nil {
		return nil, err
	}
	if cb == nil {
		return triggerKind.Wrap(&trigger{t, what, true}), nil
	}
	k := &ticker{what: what, at: where(c), trigger: t, loaded: script.Loading(c.Thread)}
	k.lane = lane{b: b, cb: cb, mode: c.String("mode"), role: what, source: b.scriptSource(cb.at.File), made: declaredBy(c)}
	if err := b.attach(c, k); err != nil {
		return nil, err
	}
	return timerKind.Wrap(k), nil
}

// ticker is a declared timer.
type ticker struct {
	lane    lane
	what    string
	at      script.Position
	trigger background.Trigger
	delay   func() time.Duration // of a timer that fires once, instead of trigger
	prepare func() error         // called before it starts
	count   func() *countdown    // begins a durable one; nil: it never fires
	loaded  bool                 // declared at top level: the next version declares its own
	name    string               // of a durable one

	disk sync.Mutex // held while its record is written or deleted; guards over
	over bool       // its function has been called

	mu     sync.Mutex // guards the rest
	stop   func()
	due    time.Time  // of one that fires once
	left   *countdown // of a durable one
	closed bool
}

func (k *ticker) start() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed || k.stop != nil {
		return nil
	}
	b := k.lane.b
	k.lane.life = script.WithRole(b.life, k.lane.role)
	if k.prepare != nil {
		if err := k.prepare(); err != nil {
			return err
		}
	}
	if k.name != "" {
		if k.count != nil {
			k.left = k.count()
			k.stop = k.left.stop
		}
		return nil
	}
	if k.trigger == nil {
		wait := k.delay()
		k.due = time.Now().Add(wait)
		t := b.host.Bus.Timers().After(wait, k.lane.fire)
		k.stop = func() { t.Stop() }
		return nil
	}
	_, k.stop = k.trigger.Open(background.Outlet{
		Timers: b.host.Bus.Timers(),
		Emit:   func(bus.Event, any) { k.lane.fire() },
		Fail:   func(err error) { b.report(b.life, k.lane.source, err, bus.Event{}) },
	})
	return nil
}

func (k *ticker) close() {
	k.mu.Lock()
	k.closed = true
	stop := k.stop
	k.mu.Unlock()
	if stop != nil {
		stop()
	}
	k.lane.b.forget(k)
}

// stands implements standing.
func (k *ticker) stands() stance { return stance{"timer", k.what, k.lane.cb.name} }

// idle implements standing.
func (k *ticker) idle() bool {
	k.lane.mu.Lock()
	defer k.lane.mu.Unlock()
	return k.lane.n == 0
}

// hold implements standing.
func (k *ticker) hold() (release func()) { return k.lane.hold() }

// handTo implements standing.
func (k *ticker) handTo(to standing) (moved int, lost []string) {
	k.close()
	l := &k.lane
	l.mu.Lock()
	n := l.waiting
	l.waiting = 0
	l.mu.Unlock()
	next, ok := to.(*ticker)
	for ; n > 0; n-- {
		if ok && next.lane.enqueue() {
			moved++
		} else {
			lost = append(lost, k.what)
		}
	}
	return moved, lost
}

// carry gives a timer that a handler has set to the next version, which has no
// other way to know of it. A durable one it finds among the records.
func (k *ticker) carry(next *Behaviour) error {
	b := k.lane.b
	k.mu.Lock()
	due, open := k.due, k.stop != nil && !k.closed
	k.mu.Unlock()
	if k.name != "" || !open || k.trigger == nil && !k.idle() {
		return nil
	}
	gone := func(why string) error {
		return fmt.Errorf("%s (%s, %v) was set by a handler, and the new version can't go on with it: %s", k.what, k.lane.cb.name, k.at, why)
	}
	module, name, ok := b.global(k.lane.cb.fn)
	if !ok {
		return gone("it is no global function")
	}
	fn := next.lookup(module, name)
	if fn == nil {
		return gone("there is no such function any more")
	}
	offered := []string{"task"}[:len(k.lane.offered)]
	cb, missing := makeCallback(fn, offered...)
	if missing != "" {
		return gone(fmt.Sprintf("it wants another argument now, %q", missing))
	}
	n := &ticker{what: k.what, at: k.at, trigger: k.trigger}
	if k.trigger == nil {
		n.delay = func() time.Duration { return max(time.Until(due), 0) }
	}
	n.lane = lane{b: next, cb: cb, mode: k.lane.mode, role: k.lane.role, source: next.scriptSource(cb.at.File), offered: k.lane.offered, cause: k.lane.cause, made: k.lane.made}
	if k.trigger == nil {
		n.lane.after = func(*run) { next.forget(n) }
	}
	next.remember(n)
	return n.start()
}

// maxLane is how many firings wait in mode queue, and run in mode parallel.
const maxLane = 64

// lane runs a function again and again; mode says what a firing does while it
// runs.
type lane struct {
	b      *Behaviour
	cb     *callback
	mode   string
	role   string
	source string
	life   context.Context

	offered []starlark.Value // what the function may take
	cause   context.Context  // names the cause of all runs; may be nil
	made    origin.Label     // whose words it was declared with
	after   func(r *run)     // called when a run is over; may be nil

	mu      sync.Mutex // guards the rest
	n       int        // runs
	waiting int        // firings
	dropped uint64
	begun   uint64
	cancel  context.CancelCauseFunc // of the last run
}

// fire is called when the time has come. It does not block.
func (l *lane) fire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n > 0 {
		switch l.mode {
		case "single":
			l.dropped++
			return
		case "restart":
			l.cancel(errReplaced)
			l.waiting = 1
			return
		case "queue":
			if l.waiting < maxLane {
				l.waiting++
			} else {
				l.dropped++
			}
			return
		case "parallel":
			if l.n >= maxLane {
				l.dropped++
				return
			}
		}
	}
	l.begin()
}

// enqueue lets a firing in that waited elsewhere.
func (l *lane) enqueue() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.n == 0:
		l.begin()
	case l.mode != "queue" || l.waiting >= maxLane:
		return false
	default:
		l.waiting++
	}
	return true
}

// hold counts a run that was begun elsewhere as one of its own, until release
// is called.
func (l *lane) hold() (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mode == "parallel" {
		return func() {}
	}
	l.n++
	if l.cancel == nil {
		l.cancel = func(error) {}
	}
	return sync.OnceFunc(l.end)
}

// begin starts a run. The caller holds mu.
func (l *lane) begin() {
	life, cancel := context.WithCancelCause(l.life)
	l.cancel = cancel
	l.n++
	l.begun++
	if !l.b.spawn(func() {
		defer l.end()
		defer cancel(nil)
		cause := l.cause
		if cause == nil {
			cause = context.Background()
		}
		r := &run{Context: l.b.anew(cause, l.source, l.made), life: life, b: l.b, source: l.source}
		_, err := l.b.do(r, l.cb, l.offered...)
		l.b.report(r, l.source+":"+l.cb.name, err, bus.Event{})
		if l.after != nil {
			l.after(r)
		}
	}) {
		l.n--
		l.begun--
		cancel(nil)
	}
}

func (l *lane) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n--
	if l.waiting > 0 && l.n == 0 {
		l.waiting--
		l.begin()
	}
}

func (l *lane) counts() (begun, dropped uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.begun, l.dropped
}

var timerKind = &value.Kind[*ticker]{
	Name: "timer",
	Doc:  "Something that calls a function by time.",
	Attrs: []value.Attr[*ticker]{
		{Name: "dropped", Doc: "How many firings were skipped because the function still ran.", Type: value.Int, Get: func(k *ticker) (any, error) {
			_, dropped := k.lane.counts()
			return int64(dropped), nil
		}},
	},
	Methods: []value.Method[*ticker]{{
		Func: value.Func{Name: "close", Doc: "Ends it; a run that is going on goes on."},
		Do: func(k *ticker, c *value.Call) (starlark.Value, error) {
			k.close()
			return nil, nil
		},
	}},
	String: func(k *ticker) string { return "<timer " + k.what + ">" },
}

// quoted lists names for people.
func quoted(names []string) string {
	q := make([]string, len(names))
	for i, n := range names {
		q[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(q, ", ")
}
