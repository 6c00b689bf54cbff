package hw

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"edged/bus"
)

// Bind drives an actuator by the events of a topic filter: the payload is the
// command, null means rest. For a blackboard key ("board/motor") the command
// is its new value. Refused commands are edged/error events. The newest
// command counts if they come faster than the device takes them; what is no
// order (see bus.Old) never takes the place of one that is.
func (r *Rig) Bind(filter, actuator string) error {
	a, err := r.actuator(actuator)
	if err != nil {
		return err
	}
	q := bus.Queue{Limit: 16, Overflow: bus.Latest, Name: "hw:" + actuator, Where: a.orders}
	sub, err := r.b.Handle(filter, q, a.follow)
	if err != nil {
		return fmt.Errorf("hw: bind %s to %s: %w", actuator, filter, err)
	}
	r.mu.Lock()
	r.bindings = append(r.bindings, sub)
	r.mu.Unlock()
	return nil
}

// orders lets in what is an order, and tells of what is none.
func (a *actuator) orders(e bus.Event) bool {
	old := e.Old()
	if old != nil {
		_ = a.refuse(bus.WithCause(context.Background(), e), e.Source, commanded(e), old) // it is told
	}
	return old == nil
}

// commanded is what an event tells an actuator: of a blackboard key, its value.
func commanded(e bus.Event) any {
	cmd := e.Payload()
	if m, ok := cmd.(map[string]any); ok && strings.HasPrefix(e.Topic, "board/") {
		cmd = m["new"]
	}
	return cmd
}

func (a *actuator) follow(ctx context.Context, e bus.Event) error {
	cmd := commanded(e)
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
