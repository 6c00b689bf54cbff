package mqtt

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"edged/bus"
)

// Discovery tells Home Assistant what the robot has
// (https://www.home-assistant.io/integrations/mqtt/#mqtt-discovery).
type Discovery struct {
	Enabled  bool     // setting mqtt.discovery
	Prefix   string   // Home Assistant's own; "homeassistant"
	Node     string   // name of the device; the client's id or the robot's name
	Entities []Entity // more may be declared later
	// Memory remembers what was announced, so that an entity that is no longer
	// declared is removed even after a restart. nil is the process's memory.
	Memory Records
}

// Records is where the announcements are remembered: the blackboard's records.
type Records interface {
	Get(name string) ([]byte, bool)
	Put(ctx context.Context, name string, v []byte, sync bool) error
}

// An Entity is one thing in Home Assistant. Topics are the bus's; the mapping
// must carry them.
type Entity struct {
	Kind     string // sensor, binary_sensor, switch or button
	ID       string // letters, digits, - and _
	Name     string
	State    string // topic of its readings (sensor, switch)
	Command  string // topic of its commands (switch, button)
	Unit     string
	Class    string // Home Assistant's device class
	Template string // of the value: "{{ value_json.t }}"
	Icon     string
	On, Off  string // payloads of a switch or binary sensor; "on", "off"
	Press    string // payload of a button; "press"
}

const discoveryRecord = "mqtt/discovery"

// announcer makes the announcements.
type announcer struct {
	m      *mapper
	o      Discovery
	node   string
	status string

	mu       sync.Mutex // guards entities
	entities []Entity
	running  sync.Mutex // held for one announce
	known    []string   // announced topics, without Memory
}

func newAnnouncer(m *mapper, o Discovery, node, status string) *announcer {
	if o.Prefix == "" {
		o.Prefix = "homeassistant"
	}
	node = or(o.Node, node)
	return &announcer{m: m, o: o, node: word(node), status: status, entities: o.Entities}
}

// word makes a name that Home Assistant takes in a topic.
func word(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '_'
	}, s)
}

func (a *announcer) declare(list []Entity) error {
	for _, e := range list {
		if err := e.check(); err != nil {
			return err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.entities = slices.Clone(list)
	return nil
}

func (e Entity) check() error {
	switch e.Kind {
	case "sensor", "binary_sensor", "switch", "button":
	default:
		return fmt.Errorf("mqtt: entity %q: kind %q: want sensor, binary_sensor, switch or button", e.ID, e.Kind)
	}
	if e.ID == "" || e.ID != word(e.ID) {
		return fmt.Errorf("mqtt: entity %q: an id has letters, digits, - and _", e.ID)
	}
	if e.Kind != "button" && e.State == "" || (e.Kind == "button" || e.Kind == "switch") && e.Command == "" {
		return fmt.Errorf("mqtt: entity %q: a %s needs a topic", e.ID, e.Kind)
	}
	return nil
}

// statusTopic is where Home Assistant says that it has started.
func (a *announcer) statusTopic() string {
	if !a.o.Enabled {
		return ""
	}
	return a.o.Prefix + "/status"
}

// wanted reports whether a message is Home Assistant's birth.
func (a *announcer) wanted(topic string, payload []byte) bool {
	return a.o.Enabled && string(payload) == "online" && topic == a.statusTopic()
}

// announce sends the configuration of every entity, retained, and an empty one
// for those that are announced no more. What may be announced is remembered
// before it is sent, what isn't any more is forgotten after: so a crash leaves
// no ghost that the next announcement doesn't find.
func (a *announcer) announce(ctx context.Context, send func(topic string, payload []byte)) error {
	if !a.o.Enabled {
		return nil
	}
	a.running.Lock()
	defer a.running.Unlock()
	configs, err := a.configs()
	before, memErr := a.remembered()
	if err == nil {
		err = memErr
	}
	now := slices.Sorted(maps.Keys(configs))
	all := slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(before), now...))))
	if e := a.remember(ctx, all); err == nil {
		err = e
	}
	for _, t := range now {
		send(t, configs[t])
	}
	for _, t := range before {
		if _, ok := configs[t]; !ok {
			send(t, nil)
		}
	}
	if len(all) != len(now) {
		if e := a.remember(ctx, now); err == nil {
			err = e
		}
	}
	return err
}

func (a *announcer) remembered() ([]string, error) {
	if a.o.Memory == nil {
		return a.known, nil
	}
	b, ok := a.o.Memory.Get(discoveryRecord)
	if !ok {
		return nil, nil
	}
	var list []string
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, fmt.Errorf("mqtt: discovery: %w", err)
	}
	return list, nil
}

func (a *announcer) remember(ctx context.Context, list []string) error {
	a.known = list
	if a.o.Memory == nil {
		return nil
	}
	b, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("mqtt: discovery: %w", err)
	}
	if old, ok := a.o.Memory.Get(discoveryRecord); ok && string(old) == string(b) {
		return nil
	}
	if err := a.o.Memory.Put(context.WithoutCancel(ctx), discoveryRecord, b, true); err != nil {
		return fmt.Errorf("mqtt: discovery: %w", err)
	}
	return nil
}

// configs gives the configuration of every entity by topic. One that the
// mapping doesn't carry is left out and named in the error.
func (a *announcer) configs() (map[string][]byte, error) {
	a.mu.Lock()
	list := a.entities
	a.mu.Unlock()
	m := map[string][]byte{}
	var first error
	for _, e := range list {
		topic := fmt.Sprintf("%s/%s/%s/%s/config", a.o.Prefix, e.Kind, a.node, e.ID)
		c, err := a.config(e)
		if err == nil {
			err = bus.ValidTopic(topic)
		}
		if err != nil {
			if first == nil {
				first = err
			}
			continue
		}
		m[topic] = c
	}
	return m, first
}

func (a *announcer) config(e Entity) ([]byte, error) {
	if err := e.check(); err != nil {
		return nil, err
	}
	c := map[string]any{
		"name": or(e.Name, e.ID), "unique_id": a.node + "_" + e.ID, "object_id": a.node + "_" + e.ID,
		"availability_topic": a.status,
		"device":             map[string]any{"identifiers": []string{a.node}, "name": a.node, "manufacturer": "edged"},
	}
	put := func(key, v string) {
		if v != "" {
			c[key] = v
		}
	}
	put("unit_of_measurement", e.Unit)
	put("device_class", e.Class)
	put("value_template", e.Template)
	put("icon", e.Icon)
	if e.State != "" {
		v := a.m.outward(e.State)
		if v.route < 0 {
			return nil, fmt.Errorf("mqtt: entity %q: mqtt.publish does not carry %s", e.ID, e.State)
		}
		c["state_topic"] = v.topic
	}
	if e.Command != "" {
		t, ok := a.m.back(e.Command)
		if !ok {
			return nil, fmt.Errorf("mqtt: entity %q: mqtt.subscribe does not carry %s", e.ID, e.Command)
		}
		c["command_topic"] = t
	}
	switch e.Kind {
	case "switch", "binary_sensor":
		c["payload_on"], c["payload_off"] = or(e.On, "on"), or(e.Off, "off")
	case "button":
		c["payload_press"] = or(e.Press, "press")
	}
	return json.Marshal(c)
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
