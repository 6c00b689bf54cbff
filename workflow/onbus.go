package workflow

import (
	"context"
	"strings"

	"edged/bus"
)

// OnBus makes the trace and the watcher of a robot's bus: nodes tell of
// themselves as edged/workflow/<name>/start and end, what happens in a node is
// caused by its start, and guards are asked again when a topic has an event.
func OnBus(b *bus.Bus) interface {
	Trace
	Watcher
} {
	return onBus{b}
}

type onBus struct{ b *bus.Bus }

// Node publishes the moment. Agents that are no nodes tell of themselves.
func (o onBus) Node(ctx context.Context, m Moment) context.Context {
	if m.Kind == "agent" && m.Phase != Left && m.Phase != Back {
		return ctx
	}
	v := map[string]any{"run": m.Run, "path": m.Path, "kind": m.Kind}
	if m.Phase == Ended {
		v["status"], v["elapsed"] = string(m.Status), m.Elapsed.Seconds()
	}
	for k, s := range map[string]string{"reason": m.Reason, "guard": m.Guard, "by": m.By} {
		if s != "" {
			v[k] = s
		}
	}
	// A closed bus keeps no workflow from running.
	e, err := o.b.Publish(ctx, "workflow:"+m.Name, "edged/workflow/"+level(m.Name)+"/"+string(m.Phase), v)
	if err != nil || m.Phase != Started {
		return ctx
	}
	if m.Path != "" {
		// The depth of a tree is no storm: a run counts as one hop.
		_, e.Hops = bus.CauseOf(ctx)
	}
	return bus.WithCause(ctx, e)
}

// level makes a name one level of a topic.
func level(name string) string {
	name = strings.Map(func(r rune) rune {
		if strings.ContainsRune("/+#\x00", r) {
			return '_'
		}
		return r
	}, name)
	if name == "" {
		return "_"
	}
	return name
}

// Watch taps the topics. What is no valid filter can have no events.
func (o onBus) Watch(topics []string, changed func()) (stop func()) {
	var subs []*bus.Subscription
	for _, t := range topics {
		s, err := o.b.Tap(t, func(bus.Event) { changed() })
		if err != nil {
			continue
		}
		subs = append(subs, s)
	}
	return func() {
		for _, s := range subs {
			s.Close()
		}
	}
}
