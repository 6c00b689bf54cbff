package lib

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.starlark.net/starlark"

	"edged/bus"
	"edged/hw"
	"edged/starlark/script"
	"edged/workflow"
	"edged/workflow/society"
)

// Errors that end runs from outside; they are not failures of the script.
var (
	errReplaced = errors.New("a newer event came")
	errStopped  = errors.New("the behaviour was stopped")
)

// run is one run of script code: a handler, a timer, an agent, a volunteer, a
// test. It is the context of everything the code does, so a builtin finds the
// run it is called in by its context. Every event makes one: it is kept small.
type run struct {
	context.Context                 // names the cause
	life            context.Context // ends the run; nil if Context does
	b               *Behaviour
	source          string // who publishes, "script:main.star", "agent:scout"
	*more
	durable *durableRun
	args    [1]starlark.Value // room for the arguments of most calls; of a handler, the event

	shared  bool // somebody may hold it after the call
	handler bool // args holds the event
	trusted bool // the operator's own line: everything is granted
	main    bool // the test itself, who alone may wait until all is settled
	reads   bool // a tool that only reads, or what runs for one: nothing is moved or sent
	pure    pure // what forbids effects now; of the run's goroutine
}

// more is what few runs have.
type more struct {
	name  string          // of the agent
	task  any             // a JSON tree
	view  *workflow.View  // of the node whose function runs; nil elsewhere
	why   string          // an on_halt is called
	turn  *society.Prompt // in a society; nil elsewhere
	tool  bool            // a tool, or a hook: what answers a model
	goal  *hw.Goal        // of the long action that this is; nil elsewhere
	state *starlark.Dict  // ctx.state; of the run's goroutine
}

// extra gives the run's more, which it makes when asked for.
func (r *run) extra() *more {
	if r.more == nil {
		r.more = new(more)
	}
	return r.more
}

// agent is the name of the agent that runs, or empty.
func (r *run) agent() string {
	if r.more == nil {
		return ""
	}
	return r.more.name
}

// pure says where code must look and decide, and do nothing.
type pure uint8

const (
	impure pure = iota
	inWhere
	inTrigger
	inKey
	inAccept
	inTransact
	inGuard
	inCheck
)

func (p pure) String() string {
	return [...]string{"", "where", "a trigger", "key", "accept", "bb.transact", "a guard or a condition", "a guardrail's check"}[p]
}

type runKey struct{}

// Shared implements script.Shared.
func (r *run) Shared() { r.shared = true }

// runOf gives the innermost run of a context, nil outside of one.
func runOf(ctx context.Context) *run {
	r, _ := ctx.Value(runKey{}).(*run)
	return r
}

// Done implements context.Context.
func (r *run) Done() <-chan struct{} {
	if r.life != nil {
		return r.life.Done()
	}
	return r.Context.Done()
}

// Err implements context.Context.
func (r *run) Err() error {
	if r.life != nil {
		return r.life.Err()
	}
	return r.Context.Err()
}

// Deadline implements context.Context.
func (r *run) Deadline() (time.Time, bool) {
	if r.life != nil {
		return r.life.Deadline()
	}
	return r.Context.Deadline()
}

// AfterFunc lets contexts below a run end with it without a goroutine of
// their own; see context.AfterFunc.
func (r *run) AfterFunc(f func()) func() bool {
	if r.life != nil {
		return context.AfterFunc(r.life, f)
	}
	return context.AfterFunc(r.Context, f)
}

// Value implements context.Context: first the life's, so that contexts below
// find what cancels them, then the cause's.
func (r *run) Value(key any) any {
	if _, mine := key.(runKey); mine {
		return r
	}
	if r.life != nil {
		if v := r.life.Value(key); v != nil {
			return v
		}
	}
	return r.Context.Value(key)
}

// runs counts what is running, so that a stop can wait for it. Handlers that
// run on several cores count in several places, for a counter that all of them
// write costs more than a short handler.
type runs struct {
	part [4]runCount
	last atomic.Uint32 // place given last
	open atomic.Int32  // parts that are not both closed and empty
	idle chan struct{} // closed when no more are let in and none is left
}

type runCount struct {
	atomic.Int64 // the number of runs, and runsClosed
	_            [120]byte
}

const runsClosed = 1 << 62

func (r *runs) init() {
	r.idle = make(chan struct{})
	r.open.Store(int32(len(r.part)))
}

// seat gives the next place.
func (r *runs) seat() uint8 { return uint8(r.last.Add(1)) }

// enter counts one run in, in a place; false if the behaviour takes no more.
func (r *runs) enter(place uint8) bool {
	p := &r.part[place%uint8(len(r.part))]
	for {
		s := p.Load()
		if s&runsClosed != 0 {
			return false
		}
		if p.CompareAndSwap(s, s+1) {
			return true
		}
	}
}

// leave counts it out, in the same place.
func (r *runs) leave(place uint8) {
	if r.part[place%uint8(len(r.part))].Add(-1) == runsClosed {
		r.done()
	}
}

func (r *runs) done() {
	if r.open.Add(-1) == 0 {
		close(r.idle)
	}
}

// close lets no run in any more and gives a channel that is closed when none
// is left.
func (r *runs) close() <-chan struct{} {
	for i := range r.part {
		if r.part[i].Or(runsClosed) == 0 {
			r.done()
		}
	}
	return r.idle
}

func (r *runs) len() (n int) {
	for i := range r.part {
		n += int(r.part[i].Load() &^ runsClosed)
	}
	return n
}

// The limits of what runs inline, before a queue: predicates and triggers.
var inline = script.Limits{Time: 50 * time.Millisecond, Steps: 200_000}

// do makes one run of a callback. offered are the values the callback may
// take, see newCallback.
func (b *Behaviour) do(r *run, cb *callback, offered ...starlark.Value) (starlark.Value, error) {
	args, kwargs := cb.args(r, offered)
	return b.call(r, cb, args, kwargs)
}

// do1 is do for one offered value. It is the way of every event, and makes
// nothing but the run.
func (b *Behaviour) do1(r *run, cb *callback, offered starlark.Value) (starlark.Value, error) {
	if len(cb.place) != 1 || cb.place[0] != 0 || cb.named != nil {
		return b.do(r, cb, offered)
	}
	r.args[0] = offered
	return b.call(r, cb, r.args[:], nil)
}

func (b *Behaviour) call(r *run, cb *callback, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	b.into(r, "")
	v, err := b.engine.Call(r, cb.fn, args, kwargs, script.Limits{})
	if err != nil && r.Err() != nil && endedOnPurpose(r) {
		return nil, context.Cause(r)
	}
	return v, err
}

func endedOnPurpose(ctx context.Context) bool {
	switch context.Cause(ctx) {
	case errReplaced, errStopped:
		return true
	}
	return false
}

// ask calls a callback inline, with small limits.
func (b *Behaviour) ask(r *run, cb *callback, offered ...starlark.Value) (starlark.Value, error) {
	b.into(r, "")
	args, kwargs := cb.args(r, offered)
	return b.engine.Call(r, cb.fn, args, kwargs, inline)
}

// spawn runs f on a goroutine of its own and counts it; false if the behaviour
// takes no more.
func (b *Behaviour) spawn(f func()) bool {
	if !b.runs.enter(0) {
		return false
	}
	time.AfterFunc(0, func() {
		defer b.runs.leave(0)
		f()
	})
	return true
}

// report says that something failed which nobody waits for.
func (b *Behaviour) report(ctx context.Context, source string, err error, about bus.Event) {
	if err == nil || errors.Is(err, errReplaced) || errors.Is(err, errStopped) {
		return
	}
	b.host.Bus.Report(ctx, source, err, about)
}
