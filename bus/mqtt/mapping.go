package mqtt

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"edged/bus"
)

// A Route maps the topics of one filter in one direction. The first route that
// matches a topic counts.
type Route struct {
	Filter string // as the broker sees it for Subscribe, as the bus sees it for Publish
	QoS    byte   // 0, 1 or 2
	Codec  Codec
	Strip  string // taken off the front of the topic, if it is there
	Prefix string // then put in front

	// Retain (Publish) lets the broker keep every message, not only those of
	// events that were published to be kept.
	Retain bool
	// Relay (Publish) sends what came in over another link too. Links that
	// relay must not form a ring.
	Relay bool
	// ActOnRetained (Subscribe) takes a retained copy for news. Without it the
	// event is marked Retained, and no actuator moves by it.
	ActOnRetained bool
	// ActOnQueued (Subscribe) takes what a broker kept while the robot was away
	// for news. Without it the event is marked Queued, and nothing that it brings
	// about moves an actuator.
	ActOnQueued bool
	// MaxAge (Subscribe) is how old an order may be; what is older is marked
	// Queued. 0 is any age. Time names the field of the payload that says when it
	// was sent ("sent", "header.stamp"): RFC 3339, or a number since 1970.
	MaxAge time.Duration
	Time   string
	// Durable (Subscribe) acknowledges news of QoS 1 and 2 when Options.Inbox has
	// it, and keeps it there until it is handled.
	Durable bool
}

// Mapping says what crosses a link. A wildcard in first place doesn't reach
// the topics of the runtime itself (board, edged, message, request), as it
// doesn't reach $-topics: they are mapped by name or not at all.
type Mapping struct {
	Subscribe []Route
	Publish   []Route
	// Told are bus topics that no route carries out: whoever made the link tells
	// of them by Tell, in every direction. What comes in there with a field
	// "stopped" or "resumed" is another robot's telling, and no order.
	Told      []string
	InPrefix  string // in front of the bus topic of everything that comes in
	OutPrefix string // in front of the MQTT topic of everything that goes out
}

// All is the mapping of the broker inside: clients may publish anything but
// the runtime's own topics, and see everything but messages between agents.
func All() Mapping {
	return Mapping{
		Subscribe: []Route{{Filter: "#"}},
		Publish:   []Route{{Filter: "#"}, {Filter: "board/#"}, {Filter: "edged/#"}, {Filter: "request/#"}},
	}
}

// verdict is what the mapping says about one topic.
type verdict struct {
	route int // index into the list, -1 = not mapped
	topic string
	echo  bool  // out: we subscribed to it too
	err   error // in: the bus has no such topic
}

// mapper answers by topic and remembers the answers. It may be used
// concurrently.
type mapper struct {
	Mapping
	codecs codecs
	ins    memo
	outs   memo
}

func newMapper(m Mapping) (*mapper, error) {
	cs, err := newCodecs()
	if err != nil {
		return nil, err
	}
	for name, list := range map[string][]Route{"subscribe": m.Subscribe, "publish": m.Publish} {
		for _, r := range list {
			if err := r.check(); err != nil {
				return nil, fmt.Errorf("mqtt: mqtt.%s: %q: %w", name, r.Filter, err)
			}
		}
	}
	for _, p := range []string{m.InPrefix, m.OutPrefix} {
		if err := checkPrefix(p); err != nil {
			return nil, fmt.Errorf("mqtt: prefix %q: %w", p, err)
		}
	}
	return &mapper{Mapping: m, codecs: cs}, nil
}

func (r Route) check() error {
	if err := bus.ValidFilter(r.Filter); err != nil {
		return err
	}
	if r.Filter == "*" {
		return fmt.Errorf("use \"#\": MQTT has no \"*\"")
	}
	if r.MaxAge < 0 {
		return fmt.Errorf("max_age %v: it can't be negative", r.MaxAge)
	}
	if r.QoS > 2 {
		return fmt.Errorf("QoS %d: use 0, 1 or 2", r.QoS)
	}
	if err := r.Codec.check(); err != nil {
		return err
	}
	return checkPrefix(r.Prefix)
}

func checkPrefix(p string) error {
	if p == "" {
		return nil
	}
	return bus.ValidTopic(p)
}

// reach reports whether a filter in bus terms may carry a bus topic: the
// runtime's own ones only by name.
func reach(filter, topic string) bool {
	if !bus.Runtime(topic) {
		return true
	}
	level, _, _ := strings.Cut(topic, "/")
	named, _, _ := strings.Cut(filter, "/")
	return named == level
}

// inward maps a topic of the broker to one of the bus.
func (m *mapper) inward(topic string) verdict {
	return m.ins.get(topic, func() verdict {
		for i, r := range m.Subscribe {
			if !bus.Match(r.Filter, topic) {
				continue
			}
			to := m.local(r, topic)
			if err := bus.ValidTopic(to); err != nil {
				return verdict{route: -1, err: err}
			}
			if reach(m.local(r, r.Filter), to) {
				return verdict{route: i, topic: to}
			}
		}
		return verdict{route: -1}
	})
}

func (m *mapper) local(r Route, topic string) string {
	return m.InPrefix + r.Prefix + strings.TrimPrefix(topic, r.Strip)
}

// outward maps a topic of the bus to one of the broker.
func (m *mapper) outward(topic string) verdict {
	return m.outs.get(topic, func() verdict {
		for i, r := range m.Publish {
			if !bus.Match(r.Filter, topic) || !reach(r.Filter, topic) {
				continue
			}
			v := verdict{route: i, topic: m.OutPrefix + r.Prefix + strings.TrimPrefix(topic, r.Strip)}
			if err := bus.ValidTopic(v.topic); err != nil {
				return verdict{route: -1, err: err}
			}
			for _, s := range m.Subscribe {
				v.echo = v.echo || bus.Match(s.Filter, v.topic)
			}
			return v
		}
		return verdict{route: -1}
	})
}

// runtime reports whether a topic of the broker is where the runtime's own
// topics go out.
func (m *mapper) runtime(topic string) bool {
	if bus.Runtime(topic) {
		return true
	}
	for _, r := range m.Publish {
		level, _, _ := strings.Cut(r.Filter, "/")
		if !bus.Runtime(r.Filter) {
			continue
		}
		at := m.OutPrefix + r.Prefix + strings.TrimPrefix(level+"/", r.Strip)
		if at != "" && strings.HasPrefix(topic, at) {
			return true
		}
	}
	return false
}

// back finds the topic of the broker that inward maps to a bus topic.
func (m *mapper) back(topic string) (string, bool) {
	for i, r := range m.Subscribe {
		rest, ok := strings.CutPrefix(topic, m.InPrefix+r.Prefix)
		if !ok {
			continue
		}
		for _, t := range []string{r.Strip + rest, rest} {
			if v := m.inward(t); t != "" && v.route == i && v.topic == topic {
				return t, true
			}
		}
	}
	return "", false
}

// memo remembers the verdicts of the topics in use: two generations, so that
// it is bounded.
type memo struct {
	mu       sync.Mutex // guards now, old
	now, old map[string]verdict
}

const memoTopics = 2048

func (m *memo) get(topic string, find func() verdict) verdict {
	m.mu.Lock()
	v, ok := m.now[topic]
	m.mu.Unlock()
	if ok {
		return v
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if v, ok = m.old[topic]; !ok {
		v = find()
	}
	if m.now == nil || len(m.now) >= memoTopics {
		m.old, m.now = m.now, map[string]verdict{}
	}
	m.now[strings.Clone(topic)] = v
	return v
}
