package workflow

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"time"

	"edged/agent"
	"edged/bus"
)

// OnBus makes the trace and the watcher of a robot's bus: nodes tell of
// themselves as edged/workflow/<name>/start and end, what happens in a node is
// caused by its start, and guards are asked again when a topic has an event.
func OnBus(b *bus.Bus) interface {
	Trace
	Watcher
} {
	return &onBus{b: b, titles: map[string]*titles{}}
}

// Everything that happens in a tree is told twice over, mostly to a recorder
// that takes one look at it later, or to nobody. So a moment becomes text only
// when somebody looks, and what is the same for all runs of a node is made once.
type onBus struct {
	b *bus.Bus

	mu     sync.RWMutex // guards titles
	titles map[string]*titles
}

// titles are what the events of a node's name go by.
type titles struct{ source, start, end string }

// maxTitles is how many names are remembered; a robot has some hundred.
const maxTitles = 4096

func (o *onBus) titlesOf(name string) *titles {
	o.mu.RLock()
	t, ok := o.titles[name]
	o.mu.RUnlock()
	if ok {
		return t
	}
	name = strings.Clone(name)
	t = &titles{"workflow:" + name, topicOf(name, Started), topicOf(name, Ended)}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.titles) >= maxTitles {
		clear(o.titles)
	}
	o.titles[name] = t
	return t
}

func topicOf(name string, p Phase) string { return "edged/workflow/" + level(name) + "/" + string(p) }

// Node publishes the moment. Agents that are no nodes tell of themselves.
func (o *onBus) Node(ctx context.Context, m Moment) context.Context {
	if m.Recalled {
		return ctx // it was published then
	}
	if m.Kind == "agent" && m.Phase != Left && m.Phase != Back {
		return ctx
	}
	if m.Phase == Started {
		v := &begun{run: m.Run, path: m.Path, kind: m.Kind, titles: o.titlesOf(m.Name)}
		// A closed bus keeps no workflow from running.
		if e, err := o.b.Publish(ctx, v.source, v.start, v); err == nil {
			if m.Path != "" {
				// The depth of a tree is no storm: a run counts as one hop.
				_, e.Hops = bus.CauseOf(ctx)
			}
			v.Caused = bus.CausedBy(ctx, e)
			return v
		}
		return ctx
	}
	of, ok := ctx.(*begun) // what the start has given
	if !ok || of.path != m.Path || of.run != m.Run || of.kind != m.Kind {
		of = &begun{run: m.Run, path: m.Path, kind: m.Kind, titles: o.titlesOf(m.Name)}
	}
	v := &ended{of: of, reason: m.Reason, guard: m.Guard, who: m.By}
	topic := of.end
	if m.Phase == Ended {
		v.status, v.elapsed = m.Status, m.Elapsed
	} else {
		topic = topicOf(m.Name, m.Phase)
	}
	_, _ = o.b.Publish(ctx, of.source, topic, v)
	return ctx
}

// begun is the payload of a start, and the context of what it causes.
type begun struct {
	bus.Cell
	bus.Caused
	*titles
	run, path, kind string
}

// Tree implements bus.Lazy.
func (s *begun) Tree() any {
	return map[string]any{"run": s.run, "path": s.path, "kind": s.kind}
}

// MarshalJSON implements json.Marshaler.
func (s *begun) MarshalJSON() ([]byte, error) { return append(s.appendTo(nil), '}'), nil }

func (s *begun) appendTo(v []byte) []byte {
	v = quoted(append(v, `{"run":`...), s.run)
	v = quoted(append(v, `,"path":`...), s.path)
	return quoted(append(v, `,"kind":`...), s.kind)
}

// ended is the payload of everything else.
type ended struct {
	bus.Cell
	of                 *begun
	status             agent.Status // empty: of another phase
	reason, guard, who string
	elapsed            time.Duration
}

// Tree implements bus.Lazy.
func (s *ended) Tree() any {
	v := map[string]any{"run": s.of.run, "path": s.of.path, "kind": s.of.kind}
	if s.status != "" {
		v["status"], v["elapsed"] = string(s.status), s.elapsed.Seconds()
	}
	for _, w := range s.words() {
		if w[1] != "" {
			v[w[0]] = w[1]
		}
	}
	return v
}

// MarshalJSON implements json.Marshaler.
func (s *ended) MarshalJSON() ([]byte, error) {
	v := s.of.appendTo(make([]byte, 0, 192))
	if s.status != "" {
		v = quoted(append(v, `,"status":`...), string(s.status))
		v = strconv.AppendFloat(append(v, `,"elapsed":`...), s.elapsed.Seconds(), 'f', -1, 64)
	}
	for _, w := range s.words() {
		if w[1] != "" {
			v = quoted(append(append(append(v, `,"`...), w[0]...), `":`...), w[1])
		}
	}
	return append(v, '}'), nil
}

// words are what an end may say besides.
func (s *ended) words() [3][2]string {
	return [...][2]string{{"reason", s.reason}, {"guard", s.guard}, {"by", s.who}}
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
func (o *onBus) Watch(topics []string, changed func()) (stop func()) {
	var subs []*bus.Subscription
	for _, t := range topics {
		s, err := o.b.Tap(t, func(e bus.Event) {
			if !e.Taken {
				changed()
			}
		})
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
