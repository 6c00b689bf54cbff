package background

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"edged/bus"
	"edged/bus/origin"
)

// AnyOf fires when any of the triggers does. If several fire on the same
// event, the first in order does and there is one task.
func AnyOf(triggers ...Trigger) Trigger { return anyOf(triggers) }

type anyOf []Trigger

func (a anyOf) Open(o Outlet) (func(context.Context, bus.Event), func()) {
	var mu sync.Mutex
	var done uint64 // seq of the last event that became a task
	inside := o
	inside.Emit = func(e bus.Event, task any) {
		mu.Lock()
		again := e.Seq != 0 && e.Seq == done
		done = e.Seq
		mu.Unlock()
		if !again {
			o.Emit(e, task)
		}
	}
	hears := make([]func(context.Context, bus.Event), len(a))
	stops := make([]func(), len(a))
	for i, t := range a {
		hears[i], stops[i] = t.Open(inside)
	}
	return func(ctx context.Context, e bus.Event) {
			for _, hear := range hears {
				hear(ctx, e)
			}
		}, func() {
			for _, stop := range stops {
				stop()
			}
		}
}

// AllOf fires when every one of the triggers has fired within a time (0 = no
// matter how long it took); then it starts over. The task is the list of their
// latest tasks, in order, the cause the event that made it complete.
func AllOf(within time.Duration, triggers ...Trigger) (Trigger, error) {
	if len(triggers) == 0 {
		return nil, errors.New("background: all_of: it needs at least one trigger")
	}
	if within < 0 {
		return nil, fmt.Errorf("background: all_of: within is %v, it must not be negative", within)
	}
	return &allOf{within, triggers}, nil
}

type allOf struct {
	within   time.Duration
	triggers []Trigger
}

// part is what one of the triggers last fired.
type part struct {
	fired bool
	at    time.Time
	task  any
	whose origin.Label // of the task
}

func (a *allOf) Open(o Outlet) (func(context.Context, bus.Event), func()) {
	var mu sync.Mutex
	parts := make([]part, len(a.triggers))
	hears := make([]func(context.Context, bus.Event), len(parts))
	stops := make([]func(), len(parts))
	for i, t := range a.triggers {
		inside := o
		inside.Emit = func(e bus.Event, task any) {
			mu.Lock()
			parts[i] = part{true, time.Now(), task, ""}
			if e.Seq != 0 {
				parts[i].whose = e.Origin()
			}
			whose := a.whose(parts)
			tasks := a.complete(parts)
			mu.Unlock()
			if tasks != nil {
				if e.Seq != 0 { // its words are those of all of them
					e = e.From(whose)
				}
				o.Emit(e, tasks)
			}
		}
		hears[i], stops[i] = t.Open(inside)
	}
	return func(ctx context.Context, e bus.Event) {
			for _, hear := range hears {
				hear(ctx, e)
			}
		}, func() {
			for _, stop := range stops {
				stop()
			}
		}
}

// whose is whose words the tasks are.
func (a *allOf) whose(parts []part) (whose origin.Label) {
	for _, p := range parts {
		whose = origin.Merge(whose, p.whose)
	}
	return whose
}

// complete gives the tasks if all have fired in time, and starts over.
func (a *allOf) complete(parts []part) []any {
	now := time.Now()
	for _, p := range parts {
		if !p.fired || a.within > 0 && now.Sub(p.at) > a.within {
			return nil
		}
	}
	tasks := make([]any, len(parts))
	for i, p := range parts {
		tasks[i] = p.task
		parts[i] = part{}
	}
	return tasks
}
