package script

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"go.starlark.net/starlark"

	"edged/starlark/value"
)

// Limits bound one call of a script function. A zero field is the engine's
// setting.
type Limits struct {
	// Time is how long the script itself may compute. Waiting in a builtin that
	// says it waits does not count.
	Time time.Duration
	// Steps is how many steps of the interpreter the call may take, a few per
	// line.
	Steps uint64
	// Depth is how deep calls may nest.
	Depth int
}

// The limits of a call where nobody says otherwise.
const (
	DefaultTime  = 2 * time.Second
	DefaultSteps = 10_000_000
	DefaultDepth = 1000
	DefaultHeap  = 256 << 20
)

func (l Limits) or(d Limits) Limits {
	if l.Time <= 0 {
		l.Time = d.Time
	}
	if l.Steps == 0 {
		l.Steps = d.Steps
	}
	if l.Depth <= 0 {
		l.Depth = d.Depth
	}
	return l
}

// Options set up an engine. The zero value has the defaults above.
type Options struct {
	// Limits of a call that names none.
	Limits Limits
	// Heap is how many bytes the process may grow by during a call before the
	// call is ended. It catches a list that grows for ever, not one single
	// operation that asks for everything at once.
	Heap uint64
	// Print gets what scripts print, with the place of the call. Nil drops it.
	Print func(ctx context.Context, at Position, text string)
}

// Position is a place in a script.
type Position struct {
	File string
	Line int
	Col  int
}

func (p Position) String() string {
	switch {
	case p.Line <= 0:
		return p.File
	case p.Col <= 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
}

// Engine runs script functions under limits. It owns the threads, which it uses
// again, and one timer that runs only while calls do. All its methods may be
// called concurrently. Nothing is shared between engines, so one that is made
// in a synctest bubble lives in its time.
type Engine struct {
	limits  Limits
	heap    uint64
	print   func(ctx context.Context, at Position, text string)
	pool    sync.Pool // of *runner
	sources sync.Map  // display name → *source, the latest loaded

	armed atomic.Bool // the timer is set
	watch watch
}

// New makes an engine.
func New(o Options) *Engine {
	e := &Engine{
		limits: o.Limits.or(Limits{Time: DefaultTime, Steps: DefaultSteps, Depth: DefaultDepth}),
		heap:   o.Heap,
		print:  o.Print,
	}
	if e.heap == 0 {
		e.heap = DefaultHeap
	}
	return e
}

// Call calls a script function with the engine's or the given limits and waits
// for it. Ending ctx ends the call, soon and not at once: a single operation of
// the interpreter is not interrupted. The arguments must be frozen or belong to
// the caller; they are not changed. The error is an *[Error] with the place,
// the code and the backtrace; a limit is a *[LimitError] inside it.
func (e *Engine) Call(ctx context.Context, fn starlark.Value, args starlark.Tuple, kwargs []starlark.Tuple, l Limits) (starlark.Value, error) {
	if fn == nil {
		return nil, &Error{Msg: "no such function"}
	}
	if ctx.Err() != nil {
		return nil, e.explain(ctx, fn, nil, &LimitError{Limit: "cancelled", cause: context.Cause(ctx)})
	}
	r, _ := e.pool.Get().(*runner)
	if r == nil {
		r = e.newRunner()
	}
	v, err := r.run(ctx, fn, args, kwargs, l.or(e.limits))
	killed := r.killed
	if killed == nil && !r.broken {
		e.pool.Put(r)
	}
	if err != nil {
		return nil, e.explain(ctx, fn, err, killed)
	}
	return v, nil
}

// checkEvery is how many steps go between two looks at the limits: some tenths
// of a millisecond of plain code, and the most by which a runaway recursion can
// pass its limit.
const checkEvery = 4096

// maxPrints is how many lines one call may print.
const maxPrints = 1000

// runner is a thread with the state of the call that runs on it. It implements
// value.Runner.
type runner struct {
	_      [64]byte // runners of two cores share no cache line
	thread *starlark.Thread
	e      *Engine

	// Of the calling goroutine alone.
	first  uint64 // steps of the thread when the call began
	prints int    // lines printed by the call
	broken bool   // a panic went through the thread: it is not used again
	pinned bool   // of a [Pin]: the watch hears of a call only when it is long

	mu     sync.Mutex // guards the rest, which the watch reads
	ctx    context.Context
	limits Limits
	active bool          // a call is running
	paused int           // and waits in this many builtins
	used   time.Duration // own time so far, without the running stretch
	since  time.Time     // when the running stretch was first noticed, or zero
	heapAt uint64        // size of the heap when the call was first noticed
	killed *LimitError
	_      [64]byte
}

var _ value.Runner = (*runner)(nil)

func (e *Engine) newRunner() *runner {
	r := e.bareRunner()
	e.watch.add(weak.Make(r))
	return r
}

func (e *Engine) bareRunner() *runner {
	r := &runner{e: e, thread: &starlark.Thread{Name: "script"}}
	r.thread.OnMaxSteps = r.check
	r.thread.Print = r.print
	value.SetRunner(r.thread, r)
	return r
}

// Shared may be implemented by the context of a call: it is told, on the
// call's goroutine, that something else than the engine has got the context
// and may keep it.
type Shared interface{ Shared() }

// Context implements value.Runner.
func (r *runner) Context() context.Context {
	if s, ok := r.ctx.(Shared); ok {
		s.Shared()
	}
	return r.ctx
}

// Pause implements value.Runner.
func (r *runner) Pause() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.paused++; r.paused == 1 && !r.since.IsZero() {
		r.used += time.Since(r.since)
		r.since = time.Time{}
	}
}

// Resume implements value.Runner.
func (r *runner) Resume() {
	r.mu.Lock()
	r.paused--
	r.mu.Unlock()
	r.e.arm()
}

// run makes one call on the runner's thread.
func (r *runner) run(ctx context.Context, fn starlark.Value, args starlark.Tuple, kwargs []starlark.Tuple, l Limits) (v starlark.Value, err error) {
	r.begin(ctx, l)
	finished := false
	defer func() {
		if !finished { // a panic in the interpreter or a builtin of its library
			r.broken = true
			if p := recover(); p != nil {
				err = &value.PanicError{Value: p, Stack: debug.Stack()}
			} else {
				err = fmt.Errorf("script ended by runtime.Goexit")
			}
		}
		r.end()
	}()
	v, err = starlark.Call(r.thread, fn, args, kwargs)
	finished = true
	return v, err
}

func (r *runner) begin(ctx context.Context, l Limits) {
	t := r.thread
	r.first, r.prints = t.Steps, 0
	t.SetMaxExecutionSteps(r.first + min(checkEvery, l.Steps))
	r.mu.Lock()
	r.ctx, r.limits, r.active = ctx, l, true
	r.mu.Unlock()
	r.e.arm()
}

func (r *runner) end() {
	r.mu.Lock()
	r.active, r.paused, r.used, r.since, r.heapAt = false, 0, 0, time.Time{}, 0
	r.ctx = nil
	r.mu.Unlock()
}

// check runs on the calling goroutine every checkEvery steps. It lets others
// have the processor: Go's scheduler would let a script compute for 10 ms at a
// time, and a stop that waits behind sixteen of them comes too late.
func (r *runner) check(t *starlark.Thread) {
	runtime.Gosched()
	if r.pinned && !r.active {
		r.wake()
	}
	done := t.Steps - r.first
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.killed != nil:
	case done >= r.limits.Steps:
		r.kill(&LimitError{Limit: "steps", Steps: r.limits.Steps})
	case t.CallStackDepth() > r.limits.Depth:
		r.kill(&LimitError{Limit: "depth", Depth: r.limits.Depth})
	default:
		r.look(time.Now())
	}
	if r.killed == nil {
		t.SetMaxExecutionSteps(r.first + min(done+checkEvery, r.limits.Steps))
	}
}

// look ends the call if its context or its time has ended. The caller holds mu.
func (r *runner) look(now time.Time) {
	if r.ctx.Err() != nil {
		r.kill(&LimitError{Limit: "cancelled", cause: context.Cause(r.ctx)})
		return
	}
	if r.since.IsZero() {
		r.since = now
	}
	if r.used+now.Sub(r.since) > r.limits.Time {
		r.kill(&LimitError{Limit: "time", Time: r.limits.Time})
	}
}

// kill makes the interpreter stop at its next step. The caller holds mu.
func (r *runner) kill(why *LimitError) {
	if r.killed == nil {
		r.killed = why
		r.thread.Cancel(why.Limit)
	}
}

// ended reports whether a limit or its context has ended the call.
func (r *runner) ended() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.killed != nil || r.ctx.Err() != nil
}

func (r *runner) print(t *starlark.Thread, text string) {
	if r.prints++; r.e.print == nil || r.prints > maxPrints {
		return
	}
	if r.prints == maxPrints {
		text = fmt.Sprintf("… no more than %d lines are printed by one call", maxPrints)
	}
	at := Position{}
	if t.CallStackDepth() > 1 {
		p := t.CallFrame(1).Pos
		at = Position{p.Filename(), int(p.Line), int(p.Col)}
	}
	r.e.print(r.Context(), at, text)
}
