package lib

import (
	"fmt"
	"time"

	"go.starlark.net/starlark"

	"edged/bus"
	"edged/starlark/value"
)

// event is a bus event as scripts see it, with its payload converted.
type event struct {
	bus.Event
	data starlark.Value
	past *pastEvent // of an earlier process, see wait_for; then Event has no payload and no time
}

var eventKind = &value.Kind[*event]{
	Name:    "event",
	Doc:     "Something that happened. It never changes; a JSON payload is also reachable as ev[\"key\"].",
	Example: "def on_near(ev):\n    log.info(ev.topic, m = ev[\"m\"])",
	Attrs: []value.Attr[*event]{
		{Name: "topic", Doc: "The MQTT topic it was published on.", Type: value.String, Get: func(e *event) (any, error) { return starlark.String(e.Topic), nil }},
		{Name: "kind", Doc: "The same as topic.", Type: value.String, Get: func(e *event) (any, error) { return starlark.String(e.Topic), nil }},
		{Name: "payload", Doc: "What was published: a JSON value, text or bytes.", Get: func(e *event) (any, error) { return e.data, nil }},
		{Name: "time", Doc: "When it was published, UTC.", Get: func(e *event) (any, error) { return e.when(), nil }},
		{Name: "seq", Doc: "Its number in the order of all events.", Type: value.Int, Get: func(e *event) (any, error) { return int64(e.Seq), nil }},
		{Name: "source", Doc: "Who published it: \"script:main.star\", \"mqtt\", \"hw:imu\".", Type: value.String, Get: func(e *event) (any, error) { return starlark.String(e.Source), nil }},
		{Name: "cause", Doc: "The seq of the event whose handling published it, 0 if none.", Type: value.Int, Get: func(e *event) (any, error) { return int64(e.Cause), nil }},
		{Name: "hops", Doc: "How long that chain of causes is.", Type: value.Int, Get: func(e *event) (any, error) { return int64(e.Hops), nil }},
		{Name: "retained", Doc: "Whether it is a kept copy, not news.", Type: value.Bool, Get: func(e *event) (any, error) { return e.Retained, nil }},
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
				return v.(starlark.Value), nil
			}
			return c.Value("default"), nil
		},
	}},
	String: func(e *event) string { return fmt.Sprintf("event(%s, seq = %d)", e.Topic, e.Seq) },
	Tree: func(e *event) (any, error) {
		payload, err := value.ToGo(e.data)
		if err != nil {
			return nil, err
		}
		return map[string]any{
			"topic": e.Topic, "payload": payload, "time": e.when().Format(time.RFC3339Nano), "seq": int64(e.Seq),
			"source": e.Source, "cause": int64(e.Cause), "retained": e.Retained,
		}, nil
	},
	Index: (*event).index,
	Keys: func(e *event) []string {
		d, ok := e.data.(*starlark.Dict)
		if !ok {
			return nil
		}
		var keys []string
		for _, k := range d.Keys() {
			if s, ok := starlark.AsString(k); ok {
				keys = append(keys, s)
			}
		}
		return keys
	},
	Key: func(e *event) string { return fmt.Sprint(e.Seq, e.Retained) },
}

func (e *event) index(key string) (any, bool) {
	d, ok := e.data.(*starlark.Dict)
	if !ok {
		return nil, false
	}
	v, found, err := d.Get(starlark.String(key))
	return v, found && err == nil
}

func (e *event) when() time.Time {
	if e.past != nil {
		return e.past.Time
	}
	return e.Time()
}

// view is what the events of one publication share: the payload, converted
// once, and the value of the event that was seen first.
type view struct {
	data     starlark.Value
	value    starlark.Value
	seq      uint64
	retained bool
}

// eventValue gives the script value of an event. The payload is converted once
// per event, however many scripts see it.
func eventValue(e bus.Event) starlark.Value {
	v := e.View(makeView).(*view)
	if v.seq == e.Seq && v.retained == e.Retained {
		return v.value
	}
	return eventKind.Wrap(&event{Event: e, data: v.data})
}

func makeView(e bus.Event) any {
	e = e.Stamped() // a predicate may see it before its time is fixed
	data, err := value.FromGo(e.Payload())
	if err != nil {
		data = starlark.None
	}
	return &view{data, eventKind.Wrap(&event{Event: e, data: data}), e.Seq, e.Retained}
}
