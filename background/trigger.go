package background

import (
	"context"

	"edged/bus"
	"edged/bus/timer"
)

// A Trigger decides which events become tasks. It is a description: each start
// of an agent opens it anew, so the first event after a start always counts.
// [When] makes one of a function; [Debounce], [Throttle], [AnyOf] and [AllOf]
// wrap others; [Every] and [Cron] need no events.
type Trigger interface {
	// Open begins to listen. hear is called for every event, in order, one at
	// a time, on the publisher's goroutine: it must be quick and must not
	// block. stop ends it; nothing is emitted afterwards.
	Open(o Outlet) (hear func(ctx context.Context, e bus.Event), stop func())
}

// An Outlet is where a trigger's results go. Its functions may be called from
// hear or later, from any goroutine, and never block.
type Outlet struct {
	// Emit gives the agent a task. e is the event that is its cause; a zero
	// event is none.
	Emit func(e bus.Event, task any)
	// Fail is a crash of the agent, or its clean exit with agent.ErrExit.
	Fail func(err error)
	// Timers is the one wheel for firing later.
	Timers *timer.Wheel
}

// When is a trigger of a function: it says the task and whether there is one.
// An error is a crash of the agent; agent.ErrExit is its clean exit.
type When func(ctx context.Context, e bus.Event) (task any, fire bool, err error)

// Open makes a function a Trigger.
func (w When) Open(o Outlet) (func(context.Context, bus.Event), func()) {
	return func(ctx context.Context, e bus.Event) {
		switch task, fire, err := w(ctx, e); {
		case err != nil:
			o.Fail(err)
		case fire:
			o.Emit(e, task)
		}
	}, func() {}
}

// Always is the trigger of an agent that has none: every event is a task, and
// its payload is what the agent is given.
func Always() Trigger {
	return When(func(_ context.Context, e bus.Event) (any, bool, error) { return e.Payload(), true, nil })
}
