package lib

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"go.starlark.net/starlark"

	"edged/bus"
	"edged/bus/origin"
	"edged/starlark/script"
	"edged/starlark/value"
)

var onParams = []value.Param{
	{Name: "filter", Type: value.OneOrMany(value.String), Required: true, Positional: true, Doc: "An MQTT topic filter, or several; \"*\" is everything."},
	{Name: "handler", Type: value.Callable, Required: true, Positional: true, Doc: "Called with the event, and with ctx if it takes one. It may wait."},
	{Name: "where", Type: value.Callable, Doc: "Asked with each event before it is queued; it must be quick: 50 ms, 200,000 steps."},
	{Name: "mode", Type: modes, Default: "queue", Doc: "What a new event does while the handler runs: wait its turn, be ignored (single), end the run and take its place (restart), or run beside it (parallel)."},
	{Name: "max_queue", Type: value.Between(value.Int, 1, 100_000), Default: 64, Doc: "How many events may wait."},
	{Name: "overflow", Type: value.OneOf("drop_oldest", "drop_new", "latest"), Default: "drop_oldest", Doc: "What a full queue gives up; latest keeps one event per topic."},
	{Name: "replay", Type: value.Bool, Default: false, Doc: "Hear matching retained events first."},
	{Name: "max_parallel", Type: value.Between(value.Int, 1, 1000), Default: 10, Doc: "How many runs there may be at a time with mode \"parallel\"."},
}

var modes = value.OneOf("queue", "single", "restart", "parallel")

const (
	onDoc     = "Calls a handler for every event whose topic matches. Each handler has its own queue and its own goroutine, so it may wait without holding up anybody; an error becomes an edged/error event and the handler goes on."
	onExample = "def on_near(ev):\n    bus.publish(\"guard/near\", {\"m\": ev[\"m\"]})\n\non(\"sensor/lidar\", on_near, where = lambda ev: ev[\"m\"] < 0.3)"
)

var onRows = []row{
	{value.Func{Name: "on", Doc: onDoc, Example: onExample, Params: onParams, Returns: "a subscription"}, (*Behaviour).on},
}

var busOnRows = []row{
	{value.Func{Name: "bus.on", Doc: "The same as on.", Params: onParams, Returns: "a subscription"}, (*Behaviour).on},
}

// listener is a handler with its queue.
type listener struct {
	b       *Behaviour
	place   uint8 // where its runs are counted
	cb      *callback
	where   *callback
	at      script.Position
	filters []string
	source  string
	mode    string
	queue   bus.Queue
	most    int    // runs at a time; mode parallel
	inbox   *inbox // what it is, or nil
	open    func() (*bus.Subscription, error)
	life    context.Context
	made    origin.Label // whose words it was declared with

	spare   atomic.Pointer[run]      // one that nobody holds
	busy    atomic.Bool              // mode single
	holds   atomic.Int32             // runs of before that are still on; mode single
	skipped atomic.Uint64            // events ignored by mode single
	heir    atomic.Pointer[listener] // of the next version
	before  atomic.Pointer[listener] // of the version before, while its run is on

	mu     sync.Mutex // guards the rest
	sub    *bus.Subscription
	closed bool
	handed bool                               // the queue is the heir's now
	newest uint64                             // seq of the event let in last; mode restart
	n      int                                // runs; mode parallel
	full   func()                             // lets the queue go on when there is room for one more
	ends   map[uint64]context.CancelCauseFunc // of runs; mode restart
	ended  uint64                             // number of the last of these
}

func (b *Behaviour) on(c *value.Call) (starlark.Value, error) {
	l := &listener{b: b, place: b.runs.seat(), at: where(c), made: declaredBy(c), filters: c.Strings("filter"), mode: c.String("mode")}
	if len(l.filters) == 0 {
		return nil, c.Errorf("filter", "argument \"filter\": the list is empty")
	}
	for _, f := range l.filters {
		if err := b.mayHear(c, f); err != nil {
			return nil, err
		}
	}
	var err error
	if l.cb, err = newCallback(c, "handler", "event"); err != nil {
		return nil, err
	}
	if l.where, err = newCallback(c, "where", "event"); err != nil {
		return nil, err
	}
	l.source = b.scriptSource(l.cb.at.File)
	overflow := map[string]bus.Overflow{"drop_oldest": bus.DropOldest, "drop_new": bus.DropNew, "latest": bus.Latest}[c.String("overflow")]
	l.queue = bus.Queue{
		Limit: c.Int("max_queue"), Overflow: overflow, Replay: c.Bool("replay"),
		Also: l.filters[1:], Name: l.source + ":" + l.cb.name,
	}
	switch l.mode {
	case "single", "restart":
		l.queue.Limit, l.queue.Overflow = 1, bus.DropOldest
	case "parallel":
		l.most = c.Int("max_parallel")
	}
	l.queue.Where = l.accept
	l.open = func() (*bus.Subscription, error) { return b.host.Bus.Handle(l.filters[0], l.queue, l.handle) }
	if err := b.attach(c, l); err != nil {
		return nil, err
	}
	return subscriptionKind.Wrap(l), nil
}

// start begins to listen.
func (l *listener) start() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.sub != nil {
		return nil
	}
	l.life = script.WithRole(l.b.life, "handler of "+quoted(l.filters))
	sub, err := l.open()
	l.sub = sub
	return err
}

// close ends it; nothing is heard afterwards.
func (l *listener) close() {
	l.mu.Lock()
	l.closed = true
	sub := l.sub
	if l.handed { // what its worker has in hand is not to be discarded
		sub = nil
	}
	l.mu.Unlock()
	if sub != nil {
		sub.Close()
	}
	l.b.forget(l)
}

// over reports whether it was closed, and not by one that takes its place.
func (l *listener) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed && !l.handed
}

// idle reports whether all is handled that was let in.
func (l *listener) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sub == nil || l.sub.Idle()
}

// accept is asked before the queue, on the publisher's goroutine.
func (l *listener) accept(e bus.Event) bool {
	return (l.where == nil || l.asks(e)) && l.admit(e.Seq)
}

// admit is what the mode has to say to an event that comes.
func (l *listener) admit(seq uint64) bool {
	switch l.mode {
	case "single":
		if l.holds.Load() > 0 || !l.busy.CompareAndSwap(false, true) {
			l.skipped.Add(1)
			return false
		}
	case "restart":
		l.mu.Lock()
		l.newest = max(l.newest, seq)
		l.mu.Unlock()
		l.replace()
		if old := l.before.Load(); old != nil {
			old.replace()
		}
	}
	return true
}

// replace ends the runs that a newer event takes the place of.
func (l *listener) replace() {
	l.mu.Lock()
	ends := slices.Collect(maps.Values(l.ends))
	l.mu.Unlock()
	for _, end := range ends {
		end(errReplaced)
	}
}

func (l *listener) asks(e bus.Event) bool {
	r := &run{Context: bus.WithCause(l.life, e), b: l.b, source: l.source, pure: inWhere}
	v, err := l.b.ask(r, l.where, eventValue(e))
	if err != nil {
		if e.Topic != bus.ErrorTopic { // its failure about its own failures would go round
			l.b.report(r, l.queue.Name, err, e)
		}
		return false
	}
	return bool(v.Truth())
}

// handle is called by the bus, one event at a time.
func (l *listener) handle(ctx context.Context, e bus.Event) error {
	if l.mode == "parallel" {
		return l.beside(ctx, e)
	}
	if !l.b.runs.enter(l.place) {
		if h := l.heir.Load(); h != nil { // the worker was late
			return h.handle(ctx, e)
		}
		return nil
	}
	defer l.b.runs.leave(l.place)
	if l.over() {
		return nil
	}
	switch l.mode {
	case "single":
		defer l.busy.Store(false)
	case "restart":
		return l.instead(ctx, e)
	}
	return l.run(ctx, l.life, e)
}

func (l *listener) run(ctx, life context.Context, e bus.Event) error {
	ev := eventValue(e)
	r := l.spare.Swap(nil)
	if r == nil {
		r = new(run)
	}
	*r = run{Context: ctx, life: life, b: l.b, source: l.source, args: [1]starlark.Value{ev}, handler: true}
	voiced(ctx, e)
	l.b.into(ctx, l.made)
	if l.cb.context { // only who takes a ctx can wait durably
		r.shared = true
		r.durable = newDurableRun(l.b, l.cb, ev)
		defer r.durable.end(r)
	}
	_, err := l.b.do1(r, l.cb, ev)
	if err == nil && !r.shared {
		l.spare.Store(r) // a handler that did nothing but decide leaves no trace
	}
	return unlessEnded(err)
}

// instead runs in mode restart: a newer event ends it.
func (l *listener) instead(ctx context.Context, e bus.Event) error {
	life, done := l.replaceable(l.life)
	defer done()
	l.mu.Lock()
	late := l.newest > e.Seq
	l.mu.Unlock()
	if late {
		return nil
	}
	return l.run(ctx, life, e)
}

// replaceable makes the life of a run that a newer event ends.
func (l *listener) replaceable(of context.Context) (life context.Context, done func()) {
	life, cancel := context.WithCancelCause(of)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended++
	id := l.ended
	if l.ends == nil {
		l.ends = make(map[uint64]context.CancelCauseFunc)
	}
	l.ends[id] = cancel
	return life, func() {
		l.mu.Lock()
		delete(l.ends, id)
		l.mu.Unlock()
		cancel(nil)
	}
}

// beside runs in mode parallel.
func (l *listener) beside(ctx context.Context, e bus.Event) error {
	l.join()
	end := l.b.host.Bus.Begin(e)
	if l.b.spawn(func() {
		defer end()
		defer l.leave()
		l.b.report(ctx, l.queue.Name, l.run(ctx, l.life, e), e)
	}) {
		return nil
	}
	defer end()
	l.leave()
	if h := l.heir.Load(); h != nil {
		return h.beside(ctx, e)
	}
	return nil
}

// join counts a run in mode parallel; the queue waits while there are too many.
func (l *listener) join() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n++; l.n >= l.most && l.full == nil {
		l.full = l.sub.Hold()
	}
}

func (l *listener) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n--; l.n < l.most && l.full != nil {
		l.full()
		l.full = nil
	}
}

// hold keeps the listener from beginning beside a run that it did not begin
// itself, as its mode has it, until release is called.
func (l *listener) hold() (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.sub == nil || l.mode == "parallel":
		return func() {}
	case l.mode == "single":
		l.holds.Add(1)
		return sync.OnceFunc(func() { l.holds.Add(-1) })
	}
	return l.sub.Hold()
}

// adopt makes a run that goes on from before one of the listener's own, as far
// as its mode is concerned.
func (l *listener) adopt(of context.Context) (life context.Context, done func()) {
	if l.mode == "parallel" {
		l.join()
		return of, l.leave
	}
	release := l.hold()
	life, over := l.replaceable(of)
	return life, func() { over(); release() }
}

// stands implements standing.
func (l *listener) stands() stance {
	return stance{"on", strings.Join(l.filters, "\x00"), l.cb.name}
}

// hears reports whether a topic is one it listens to.
func (l *listener) hears(topic string) bool {
	return slices.ContainsFunc(l.filters, func(f string) bool { return f == "*" || bus.Match(f, topic) })
}

// handTo implements standing.
func (l *listener) handTo(to standing) (moved int, lost []string) {
	next, _ := to.(*listener)
	if next != nil {
		l.heir.Store(next)
	}
	l.mu.Lock()
	l.handed = true
	sub := l.sub
	l.mu.Unlock()
	if sub == nil {
		return 0, nil
	}
	for _, e := range sub.Hand() {
		switch {
		case next != nil && e.Retained && next.queue.Replay: // it has them by itself
		case next != nil && next.take(e):
			moved++
		default:
			lost = append(lost, e.Topic)
		}
	}
	return moved, lost
}

// take lets in an event that was let in by the version before.
func (l *listener) take(e bus.Event) bool {
	l.mu.Lock()
	sub := l.sub
	l.mu.Unlock()
	if sub == nil || !l.hears(e.Topic) || !l.admit(e.Seq) {
		return false
	}
	if sub.Push(e) {
		return true
	}
	l.busy.Store(false)
	return false
}

// unlessEnded is nil for an error that is no failure of the script.
func unlessEnded(err error) error {
	if errors.Is(err, errReplaced) || errors.Is(err, errStopped) {
		return nil
	}
	return err
}

var subscriptionKind = &value.Kind[*listener]{
	Name:    "subscription",
	Doc:     "A handler that listens.",
	Example: "sub = on(\"guard/door\", on_door)\nsub.close()",
	Attrs: []value.Attr[*listener]{
		{Name: "filters", Doc: "The topic filters.", Get: func(l *listener) (any, error) { return slices.Clone(l.filters), nil }},
		{Name: "dropped", Doc: "How many events the queue lost, and mode single ignored.", Type: value.Int, Get: func(l *listener) (any, error) {
			n := l.skipped.Load()
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.sub != nil {
				n += l.sub.Dropped()
			}
			return int64(n), nil
		}},
	},
	Methods: []value.Method[*listener]{{
		Func: value.Func{Name: "close", Doc: "Ends it: nothing is heard afterwards. It may be called more than once."},
		Do: func(l *listener, c *value.Call) (starlark.Value, error) {
			l.close()
			return nil, nil
		},
	}},
}
