package lib

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"go.starlark.net/starlark"

	"edged/bus"
	"edged/starlark/value"
)

// event is a bus event as scripts see it. Its payload is converted when a
// script asks for more of it than a number or a word.
type event struct {
	bus.Event
	once sync.Once // guards data
	data starlark.Value
	past *pastEvent // of an earlier process, see wait_for; then Event has no payload and no time
}

// payload is the payload as scripts see it; None if it is too large for them.
func (e *event) payload() starlark.Value {
	e.once.Do(func() {
		var err error
		if e.data, err = value.FromGo(e.tree()); err != nil {
			e.data = starlark.None
		}
	})
	return e.data
}

// tree is the payload as it came.
func (e *event) tree() any {
	if e.past != nil {
		return e.past.Payload
	}
	return e.Payload()
}

var eventKind = &value.Kind[*event]{
	Name: "event", Fixed: true,
	Doc:     "Something that happened. It never changes; a JSON payload is also reachable as ev[\"key\"].",
	Example: "def on_near(ev):\n    log.info(ev.topic, m = ev[\"m\"])",
	Attrs: []value.Attr[*event]{
		{Name: "topic", Doc: "The MQTT topic it was published on.", Type: value.String, Get: func(e *event) (any, error) { return starlark.String(e.Topic), nil }},
		{Name: "kind", Doc: "The same as topic.", Type: value.String, Get: func(e *event) (any, error) { return starlark.String(e.Topic), nil }},
		{Name: "payload", Doc: "What was published: a JSON value, text or bytes.", Get: func(e *event) (any, error) { return e.payload(), nil }},
		{Name: "time", Doc: "When it was published, UTC.", Get: func(e *event) (any, error) { return e.when(), nil }},
		{Name: "seq", Doc: "Its number in the order of all events.", Type: value.Int, Get: func(e *event) (any, error) { return int64(e.Seq), nil }},
		{Name: "source", Doc: "Who published it: \"script:main.star\", \"mqtt\", \"hw:imu\".", Type: value.String, Get: func(e *event) (any, error) { return starlark.String(e.Source), nil }},
		{Name: "origin", Doc: "Whose words it is: the origins of all that went into it, with commas between.", Type: value.String, Get: func(e *event) (any, error) { return string(e.Origin()), nil }},
		{Name: "cause", Doc: "The seq of the event whose handling published it, 0 if none.", Type: value.Int, Get: func(e *event) (any, error) { return int64(e.Cause), nil }},
		{Name: "hops", Doc: "How long that chain of causes is.", Type: value.Int, Get: func(e *event) (any, error) { return int64(e.Hops), nil }},
		{Name: "retained", Doc: "Whether it is a kept copy, not news.", Type: value.Bool, Get: func(e *event) (any, error) { return e.Retained, nil }},
		{Name: "queued", Doc: "Whether it waited somewhere while the robot was away, or is too old: it is data, and nothing that it brings about moves an actuator.", Type: value.Bool, Get: func(e *event) (any, error) { return e.Queued, nil }},
		{Name: "age", Doc: "How old it was when it came, in seconds, of what is queued or retained; None if that is not known.", Get: func(e *event) (any, error) { return e.age(), nil }},
	},
	Methods: []value.Method[*event]{{
		Func: value.Func{
			Name: "get", Doc: "Returns a value of the payload, or a default where there is none.",
			Example: "t = ev.get(\"temp\", 20.0)",
			Params: []value.Param{
				{Name: "key", Type: value.String, Required: true, Positional: true, Doc: "The key in the payload."},
				{Name: "default", Positional: true, Doc: "What to return if the payload has no such key."},
			},
			Returns: "the value",
		},
		Do: func(e *event, c *value.Call) (starlark.Value, error) {
			if v, ok := e.index(c.String("key")); ok {
				return c.Return(v)
			}
			return c.Value("default"), nil
		},
	}},
	String: func(e *event) string { return fmt.Sprintf("event(%s, seq = %d)", e.Topic, e.Seq) },
	Tree: func(e *event) (any, error) {
		return map[string]any{
			"topic": e.Topic, "payload": e.tree(), "time": e.when().Format(time.RFC3339Nano), "seq": int64(e.Seq),
			"source": e.Source, "cause": int64(e.Cause), "retained": e.Retained, "queued": e.Queued,
		}, nil
	},
	Index: (*event).index,
	Keys: func(e *event) []string {
		m, _ := e.tree().(map[string]any)
		return slices.Sorted(maps.Keys(m))
	},
	Key: func(e *event) string { return fmt.Sprint(e.Seq, e.Retained) },
}

// index gives a value of the payload: scalars as they are, what has parts out
// of the converted payload.
func (e *event) index(key string) (any, bool) {
	m, _ := e.tree().(map[string]any)
	v, ok := m[key]
	switch v.(type) {
	case nil, bool, int64, float64, string:
		return v, ok
	}
	d, ok := e.payload().(*starlark.Dict)
	if !ok {
		return nil, false
	}
	x, found, err := d.Get(starlark.String(key))
	return x, found && err == nil
}

// age is how old a queued event or a kept copy was when it came, in seconds.
func (e *event) age() any {
	o := e.Old()
	if e.past != nil {
		o = e.past.Old
	}
	if o != nil && o.Age > 0 && (e.Queued || e.Retained) {
		return o.Age.Seconds()
	}
	return starlark.None
}

func (e *event) when() time.Time {
	if e.past != nil {
		return e.past.Time
	}
	return e.Time()
}

// view is what the events of one publication share.
type view struct {
	value    starlark.Value
	seq      uint64
	retained bool
}

// eventValue gives the script value of an event. It is made once per event,
// however many scripts see it.
func eventValue(e bus.Event) starlark.Value {
	v := e.View(makeView).(*view)
	if v.seq == e.Seq && v.retained == e.Retained {
		return v.value
	}
	return eventKind.Wrap(&event{Event: e}) // a kept copy: the same payload, another event
}

func makeView(e bus.Event) any {
	ev := &event{Event: e.Stamped()} // a predicate may see it before its time is fixed
	return &view{eventKind.Wrap(ev), e.Seq, e.Retained}
}
