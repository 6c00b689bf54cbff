package hw

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"edged/bus"
)

// BindOptions of a binding; the zero value works.
type BindOptions struct {
	// Retained lets kept messages move the actuator. They may be days old and
	// come again at every reconnect, so they are ignored otherwise.
	Retained bool
	// Command makes a command of the payload; nil takes it as it is. Returning
	// nil brings the actuator to rest.
	Command func(payload any) (any, error)
}

// Bind drives an actuator by the events of a topic filter: the payload is the
// command, null means rest. For a blackboard key ("board/motor") the command
// is its new value. Refused commands are edged/error events. The newest
// command counts if they come faster than the device takes them.
func (r *Rig) Bind(filter, actuator string, o BindOptions) error {
	a, err := r.actuator(actuator)
	if err != nil {
		return err
	}
	q := bus.Queue{Limit: 16, Overflow: bus.Latest, Name: "hw:" + actuator}
	if !o.Retained {
		q.Where = func(e bus.Event) bool { return !e.Retained }
	}
	sub, err := r.b.Handle(filter, q, func(ctx context.Context, e bus.Event) error {
		return a.follow(ctx, e, o)
	})
	if err != nil {
		return fmt.Errorf("hw: bind %s to %s: %w", actuator, filter, err)
	}
	r.mu.Lock()
	r.bindings = append(r.bindings, sub)
	r.mu.Unlock()
	return nil
}

func (a *actuator) follow(ctx context.Context, e bus.Event, o BindOptions) error {
	cmd := e.Payload()
	if m, ok := cmd.(map[string]any); ok && strings.HasPrefix(e.Topic, "board/") {
		cmd = m["new"]
	}
	if o.Command != nil {
		var err error
		if cmd, err = o.Command(cmd); err != nil {
			return fmt.Errorf("hw: %s: %w", a.name, err)
		}
	}
	var err error
	if cmd == nil {
		err = a.r.Rest(ctx, e.Source, a.name)
	} else {
		err = a.r.Do(ctx, e.Source, a.name, cmd)
	}
	if errors.Is(err, ErrReplaced) {
		return nil // a newer one took its place
	}
	return err
}
