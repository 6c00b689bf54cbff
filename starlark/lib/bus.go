package lib

import (
	"context"

	"go.starlark.net/starlark"

	"edged/bus"
	"edged/bus/origin"
	"edged/starlark/script"
	"edged/starlark/value"
)

var busRows = []row{
	{value.Func{
		Name:    "bus.publish",
		Doc:     "Says that something happened. It never waits for those who listen; what handles the event names it as its cause.",
		Example: "bus.publish(\"guard/alarm\", {\"room\": \"hall\"})",
		Params: []value.Param{
			{Name: "topic", Type: value.String, Required: true, Positional: true, Doc: "The MQTT topic."},
			{Name: "payload", Type: value.Data, Positional: true, Doc: "A JSON value, text or bytes."},
			{Name: "retain", Type: value.Bool, Default: false, Doc: "Keep it as the last event of its topic, for those who listen later with replay; None as payload forgets the kept one."},
		},
		Returns: "the seq of the event; None at the top level, where it is published when the version takes over",
	}, (*Behaviour).publish},
	{value.Func{
		Name:    "bus.retained",
		Doc:     "Returns the kept events whose topics match, oldest first.",
		Example: "for ev in bus.retained(\"guard/room/+\"):\n    log.info(ev.topic)",
		Params:  []value.Param{{Name: "filter", Type: value.String, Required: true, Positional: true, Doc: "An MQTT topic filter."}},
		Returns: "a list of events",
	}, (*Behaviour).retained},
}

func (b *Behaviour) publish(c *value.Call) (starlark.Value, error) {
	topic := c.String("topic")
	if err := b.mayPublish(c, topic); err != nil {
		return nil, err
	}
	payload, err := c.Tree("payload")
	if err != nil {
		return nil, err
	}
	if m, ok := payload.(map[string]any); ok {
		payload = bus.Owned(m) // it was made from the script's value just now
	}
	say := b.host.Bus.Publish
	if c.Bool("retain") {
		say = b.host.Bus.Retain
	}
	source := b.source(c)
	if script.Loading(c.Thread) {
		if err := bus.ValidTopic(topic); err != nil {
			return nil, err
		}
	}
	if b.later(c, func(ctx context.Context) error { _, err := say(ctx, source, topic, payload); return err }) {
		return nil, nil
	}
	e, err := say(c.Context(), source, topic, payload)
	if err != nil {
		return nil, err
	}
	return starlark.MakeUint64(e.Seq), nil
}

func (b *Behaviour) retained(c *value.Call) (starlark.Value, error) {
	filter := c.String("filter")
	if err := b.mayHear(c, filter); err != nil {
		return nil, err
	}
	reads(c, filter)
	var list []starlark.Value
	for _, e := range b.host.Bus.Retained(filter) {
		origin.Raise(c.Context(), e.Origin())
		list = append(list, eventValue(e))
	}
	return starlark.NewList(list), nil
}

var messageKind = &value.Kind[*message]{
	Name: "message", Fixed: true,
	Doc: "A message from one agent to another.",
	Attrs: []value.Attr[*message]{
		{Name: "from_agent", Doc: "Who sent it.", Type: value.String, Get: func(m *message) (any, error) { return m.From, nil }},
		{Name: "to", Doc: "The name it was sent to, or \"*\".", Type: value.String, Get: func(m *message) (any, error) { return m.To, nil }},
		{Name: "content", Doc: "What it says.", Get: func(m *message) (any, error) { return m.Content, nil }},
		{Name: "kind", Doc: "A contract-net word, or empty.", Type: value.String, Get: func(m *message) (any, error) { return m.Kind, nil }},
		{Name: "correlation_id", Doc: "Pairs an answer with its question.", Type: value.String, Get: func(m *message) (any, error) { return m.CorrelationID, nil }},
	},
	Methods: []value.Method[*message]{{
		Func: value.Func{
			Name: "reply", Doc: "Answers the sender, under the same correlation id. It is False if the question is over: the answer came too late, and changes nothing.",
			Example: "def on_message(m):\n    m.reply(\"I am in the hall\")",
			Params: []value.Param{
				{Name: "content", Type: value.Data, Required: true, Positional: true, Doc: "The answer."},
				{Name: "kind", Type: words, Default: "inform", Doc: "What kind of answer it is."},
			},
			Returns: sent,
		},
		Do: (*message).reply,
	}},
	Tree: func(m *message) (any, error) {
		return map[string]any{"from": m.From, "to": m.To, "kind": m.Kind, "correlation_id": m.CorrelationID, "content": m.Content}, nil
	},
}

// words are the kinds of messages of FIPA's contract net.
var words = value.OneOf("", "cfp", "propose", "refuse", "accept-proposal", "reject-proposal", "inform", "failure", "cancel", "not-understood")

type message struct {
	bus.Message
	b    *Behaviour
	name string // of the inbox
}

func (m *message) reply(c *value.Call) (starlark.Value, error) {
	if err := effect(c); err != nil {
		return nil, err
	}
	content, err := c.Tree("content")
	if err != nil {
		return nil, err
	}
	return m.b.say(c, bus.Message{
		From: m.name, To: m.From, Kind: c.String("kind"), CorrelationID: m.CorrelationID, Content: content,
	})
}
