package workflow

import (
	"context"
	"encoding/json"
	"strconv"
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
	v := make([]byte, 0, 160)
	v = append(v, `{"run":`...)
	v = quoted(v, m.Run)
	v = quoted(append(v, `,"path":`...), m.Path)
	v = quoted(append(v, `,"kind":`...), m.Kind)
	if m.Phase == Ended {
		v = quoted(append(v, `,"status":`...), string(m.Status))
		v = strconv.AppendFloat(append(v, `,"elapsed":`...), m.Elapsed.Seconds(), 'f', -1, 64)
	}
	for _, more := range [...]struct{ key, text string }{{`,"reason":`, m.Reason}, {`,"guard":`, m.Guard}, {`,"by":`, m.By}} {
		if more.text != "" {
			v = quoted(append(v, more.key...), more.text)
		}
	}
	v = append(v, '}')
	// A closed bus keeps no workflow from running.
	e, err := o.b.Publish(ctx, "workflow:"+m.Name, "edged/workflow/"+level(m.Name)+"/"+string(m.Phase), bus.RawJSON(v))
	if err != nil || m.Phase != Started {
		return ctx
	}
	if m.Path != "" {
		// The depth of a tree is no storm: a run counts as one hop.
		_, e.Hops = bus.CauseOf(ctx)
	}
	return bus.WithCause(ctx, e)
}

// quoted adds text as JSON: what has no need of escapes, as it is.
func quoted(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c > '~' {
			j, err := json.Marshal(s)
			if err != nil { // a string always has a form
				return append(b, `""`...)
			}
			return append(b, j...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// level makes a name one level of a topic.
func level(name string) string {
	if name != "" && !strings.ContainsAny(name, "/+#\x00") {
		return name
	}
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
