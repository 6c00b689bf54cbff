package mqtt

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"edged/bus"
)

// Port is a broker in this process, bus/mqtt/broker's. Neither way goes over a
// socket.
type Port interface {
	// Publish hands a message to the clients that subscribed and returns.
	Publish(topic string, payload []byte, qos byte, retain bool) error
	// Receive names who takes what clients publish, before they get their
	// acknowledgement; an error means that they don't get one.
	Receive(f func(topic string, payload []byte, qos byte, retain bool) error)
	// Reserve names the topics whose messages are for the robot alone.
	Reserve(own func(topic string) bool)
	// Tell names who hears of what was lost or refused.
	Tell(f func(about string, err error))
	// Quiet reports that a message without retain would reach nobody.
	Quiet(topic string) bool
}

// LocalOptions of a Local. The zero value maps nothing; All is the usual
// mapping.
type LocalOptions struct {
	Name   string // of the link, see Options
	Node   string // the robot's name in status and discovery; the host's name
	Prefix string // of the status topic; "edged/<node>"
	Mapping
	Discovery Discovery
}

// A Local carries events to and from the broker inside, by the same rules as a
// Bridge.
type Local struct {
	*link
	port   Port
	ann    *announcer
	status string
}

// NewLocal ties the broker to the bus. The broker gets what the bus keeps as
// its retained messages, so call it before the broker is served.
func NewLocal(b *bus.Bus, p Port, o LocalOptions) (*Local, error) {
	l, err := newLink(b, o.Name, o.Mapping)
	if err != nil {
		return nil, err
	}
	if o.Node == "" {
		o.Node = hostname()
	}
	if o.Prefix == "" {
		o.Prefix = "edged/" + o.Node
	}
	lo := &Local{link: l, port: p, status: o.Prefix + "/status"}
	lo.ann = newAnnouncer(l.mapper, o.Discovery, o.Node, lo.status)
	if err := lo.restore(); err != nil {
		return nil, err
	}
	l.idle, l.answers = p.Quiet, true
	p.Receive(lo.take)
	p.Reserve(lo.own)
	p.Tell(func(about string, err error) { lo.reportOnce("broker: "+about, err, bus.Event{}) })
	if err := l.listen(lo.send); err != nil {
		return nil, err
	}
	return lo, nil
}

// restore gives the broker what the bus keeps: our own events by the mapping
// out, those of clients by the mapping in.
func (lo *Local) restore() error {
	for _, e := range lo.bus.Retained("#") {
		e.Retained = false
		if slices.Contains(lo.Told, e.Topic) {
			continue // an order of long ago
		}
		if e.Source == lo.source {
			if t, ok := lo.back(e.Topic); ok {
				if err := lo.port.Publish(t, e.Bytes(), 0, true); err != nil {
					return fmt.Errorf("mqtt: restore %s: %w", e.Topic, err)
				}
			}
			continue
		}
		v := lo.outward(e.Topic)
		if v.route < 0 || !lo.leaves(e, lo.Publish[v.route]) {
			continue
		}
		if p, ok := lo.encode(e, lo.Publish[v.route], v); ok {
			if err := lo.port.Publish(v.topic, p, 0, true); err != nil {
				return fmt.Errorf("mqtt: restore %s: %w", e.Topic, err)
			}
		}
	}
	return nil
}

// Serve says that the robot is there, tells Home Assistant what it has, and
// waits for ctx. The events flow with or without it.
func (lo *Local) Serve(ctx context.Context) error {
	lo.post(lo.status, []byte("online"))
	lo.everyState(lo.post)
	lo.announce(ctx)
	<-ctx.Done()
	lo.post(lo.status, []byte("offline"))
	return nil
}

// Declare replaces the entities that Home Assistant is told of.
func (lo *Local) Declare(list []Entity) error {
	if err := lo.ann.declare(list); err != nil {
		return err
	}
	lo.announce(context.Background())
	return nil
}

// Tell publishes a message of the robot about itself, on a topic as the robot
// sees it.
func (lo *Local) Tell(topic string, payload []byte) {
	if err := lo.port.Publish(lo.OutPrefix+topic, payload, 1, false); err != nil {
		lo.report(topic, err)
	}
}

// State publishes what the robot is in, retained, on a topic of the broker that
// is nobody else's.
func (lo *Local) State(topic, state string) {
	if lo.note(topic, []byte(state)) {
		lo.post(topic, []byte(state))
	}
}

// Follow takes over the states that the one before has told.
func (lo *Local) Follow(before *Local) {
	before.everyState(func(topic string, state []byte) { lo.note(topic, state) })
}

// Close stops listening to the bus.
func (lo *Local) Close() { lo.close() }

// Stats gives the counters.
func (lo *Local) Stats() Stats {
	st := lo.stats()
	st.Connected = true
	return st
}

func (lo *Local) announce(ctx context.Context) {
	if err := lo.ann.announce(ctx, lo.post); err != nil {
		lo.report("discovery", err)
	}
}

func (lo *Local) post(topic string, p []byte) {
	if err := lo.port.Publish(topic, p, 1, true); err != nil {
		lo.report(topic, err)
	}
}

// own reports whether a topic of the broker is the robot's own: what it says of
// itself there, others must not say in its place.
func (lo *Local) own(topic string) bool {
	return topic == lo.status || lo.stated(topic) || lo.runtime(topic) && !other(topic)
}

// other reports whether a topic is where another robot, for which this broker is
// the one outside, says how it is: edged/<its name>/status, safety or marker.
func other(topic string) bool {
	level := strings.Split(topic, "/")
	return len(level) == 3 && level[0] == "edged" && slices.Contains([]string{"status", "safety", "marker"}, level[2])
}

// take is given what clients publish. Of the robot's own topics it takes what
// is mapped by name: orders and answers to the robot.
func (lo *Local) take(topic string, payload []byte, _ byte, retain bool) error {
	if lo.own(topic) && lo.inward(topic).route < 0 {
		lo.forged.Add(1)
		return fmt.Errorf("mqtt: %s is the robot's own topic: %w", printable(topic), fs.ErrPermission)
	}
	if lo.ann.wanted(topic, payload) {
		lo.announce(context.Background())
	}
	return lo.receive(topic, payload, arrival{keep: retain})
}

func (lo *Local) send(e bus.Event, r Route, v verdict, payload []byte) {
	if err := lo.port.Publish(v.topic, payload, r.QoS, r.Retain || e.Keep); err != nil {
		lo.report(e.Topic, err)
		return
	}
	lo.out.Add(1)
}
