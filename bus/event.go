package bus

import (
	"encoding/json"
	"sync"
	"time"

	"edged/bus/origin"
)

// An Event is one thing that happened. It never changes after publish; it is
// passed by value and may be kept.
type Event struct {
	Topic    string // MQTT topic name
	Source   string // who published: "script:main.star", "agent:scout", "mqtt", "hw:imu", "cli"
	Seq      uint64 // strictly increasing per process
	Cause    uint64 // seq of the event whose handling published this one, 0 = none
	Hops     int    // length of that chain
	Retained bool   // a kept copy, not news
	Queued   bool   // it waited somewhere, or is too old: data, not an order; see Old
	Keep     bool   // published to be kept: the last one per topic is stored
	Taken    bool   // an urgent listener acted on it: for taps to see, for nobody to act on

	mark    uint32 // see pace
	at      int64  // Unix nanoseconds, 0 = not stamped yet
	payload any    // a scalar, a *shared, or a Lazy of the publisher
	chain   *link  // what led here, nearest first

	origin origin.Label // "" = of the source alone
}

// RawJSON is a payload that is already JSON text. It is decoded when somebody
// looks, once. The bytes must not change after publish.
type RawJSON []byte

// Lazy is an immutable payload of the publisher's own type that becomes a JSON
// tree only when somebody looks. One that embeds a [Cell] keeps what
// [Event.View] makes of it; one that is a json.Marshaler writes its own text.
type Lazy interface{ Tree() any }

// A Cell keeps the one foreign view of a payload.
type Cell struct {
	once sync.Once
	view any
}

func (c *Cell) cell() *Cell { return c }

// shared is a payload that takes memory: one for all who see the event.
type shared struct {
	Cell
	decode sync.Once
	encode sync.Once
	raw    []byte
	err    error
	tree   any
}

// Origin says whose words the event is: those of the run that published it, with
// all that it had read by then; outside of a run its source's.
func (e Event) Origin() origin.Label {
	if e.origin == "" {
		return origin.Of(e.Source)
	}
	return e.origin
}

// From returns the event with another origin, for whoever brings an event from
// elsewhere.
func (e Event) From(l origin.Label) Event {
	e.origin = l
	return e
}

// Time is when the event was published, in UTC. Inside a [Bus.Tap] or a Where
// the event may not be stamped yet; then it is now.
func (e Event) Time() time.Time {
	if e.at == 0 {
		return time.Now().UTC()
	}
	return time.Unix(0, e.at).UTC()
}

// Stamped returns the event with its time fixed, for whoever keeps an event
// that came through a [Bus.Tap].
func (e Event) Stamped() Event {
	if e.at == 0 {
		e.at = time.Now().UnixNano()
	}
	return e
}

// Value is the payload as its publisher gave it: a scalar, a [Lazy], or what
// Payload gives.
func (e Event) Value() any {
	if s, ok := e.payload.(*shared); ok {
		return s.value()
	}
	return e.payload
}

// Payload is the payload as a JSON tree: nil, bool, int64, float64, string,
// []byte, []any or map[string]any. It is shared by all who see the event and
// must not be changed.
func (e Event) Payload() any {
	switch v := e.payload.(type) {
	case *shared:
		return v.value()
	case Lazy:
		return v.Tree()
	}
	return e.payload
}

// JSON is the payload as JSON text; bytes become base64. It must not be changed.
func (e Event) JSON() ([]byte, error) {
	switch v := e.payload.(type) {
	case *shared:
		return v.json()
	case json.Marshaler:
		return v.MarshalJSON()
	case Lazy:
		return EncodeJSON(v.Tree())
	}
	return EncodeJSON(e.payload)
}

// Bytes is the payload as it goes over a wire: text and bytes as they are,
// anything else as JSON. It must not be changed.
func (e Event) Bytes() []byte {
	switch v := e.Payload().(type) {
	case string:
		return []byte(v)
	case []byte:
		return v
	}
	b, err := e.JSON()
	if err != nil {
		return nil
	}
	return b
}

// Stamp returns the event with its time fixed, as [Event.Stamped] does, by the
// bus's own clock: in a flood it is read once for many events.
func (b *Bus) Stamp(e Event) Event {
	b.stamp(&e)
	return e
}

// View gives a foreign form of the payload, a script value say. It is made
// once per event, however many ask, and never if nobody does.
func (e Event) View(make func(Event) any) any {
	c, ok := e.payload.(interface{ cell() *Cell })
	if !ok {
		return make(e)
	}
	k := c.cell()
	k.once.Do(func() { k.view = make(e) })
	return k.view
}

// Within reports whether the event was published inside the named run (see
// [WithRun]), directly or through other events that the run caused.
func (e Event) Within(run string) bool {
	for l := e.chain; l != nil; l = l.parent {
		if l.run != nil && *l.run == run {
			return true
		}
	}
	return false
}

func (s *shared) value() any {
	s.decode.Do(func() {
		if s.raw == nil {
			return
		}
		tree, err := DecodeJSON(s.raw)
		if err != nil { // not JSON after all: it stays text
			tree = string(s.raw)
		}
		s.tree = tree
	})
	return s.tree
}

func (s *shared) json() ([]byte, error) {
	s.encode.Do(func() {
		if s.raw != nil && json.Valid(s.raw) {
			return
		}
		s.value()
		s.raw, s.err = EncodeJSON(s.tree)
	})
	return s.raw, s.err
}
