package lib

import (
	"context"
	"errors"
	"fmt"

	"go.starlark.net/starlark"

	"edged/bus"
	"edged/starlark/value"
)

// anyBus is the first argument of scripts that come from frameworks where
// there are several buses.
var anyBus = value.Param{Name: "bus", Type: theBus{}, Positional: true, Skip: true, Doc: "May be left out: there is one bus."}

// theBus is what stands for the bus: words and functions don't.
type theBus struct{}

func (theBus) String() string { return "bus" }

func (theBus) Check(v starlark.Value) (starlark.Value, error) {
	switch v.(type) {
	case starlark.String, starlark.Callable:
		return nil, fmt.Errorf("got %s", v.Type())
	}
	return v, nil
}

var messageParams = []value.Param{
	{Name: "to", Type: value.String, Required: true, Doc: "The name of an agent, or \"*\" for all others."},
	{Name: "content", Type: value.Data, Required: true, Doc: "What to say."},
	{Name: "from_agent", Type: value.String, Doc: "Who sends; the agent that runs, else the folder's name."},
	{Name: "correlation_id", Type: value.String, Doc: "Pairs an answer with its question; made up if missing."},
	{Name: "kind", Type: words, Default: "", Doc: "A contract-net word."},
}

var inboxParams = []value.Param{
	{Name: "agent_name", Type: value.String, Required: true, Positional: true, Doc: "Whose inbox."},
	{Name: "handler", Type: value.Callable, Required: true, Positional: true, Doc: "Called with each message, one at a time."},
	{Name: "max_queue", Type: value.Between(value.Int, 1, 100_000), Default: 64, Doc: "How many messages may wait."},
}

const (
	sendDoc  = "Sends a message to an agent. It is an error if nobody has that inbox, but False for an answer to a question that is over: it came too late, and changes nothing."
	sent     = "True, or False for an answer that came too late"
	inboxDoc = "Calls a handler for every message to an agent, and for broadcasts of others."
	askDoc   = "Sends a message and returns a future of the first message that comes back with the same correlation id."
)

var askParams = []value.Param{
	{Name: "to", Type: value.String, Required: true, Positional: true, Doc: "The name of an agent."},
	{Name: "content", Type: value.Data, Required: true, Positional: true, Doc: "The question."},
	{Name: "timeout", Type: value.Duration, Default: "5s", Doc: "How long to wait for an answer; 0 is for ever."},
	{Name: "from_agent", Type: value.String, Doc: "Who asks; the agent that runs, else the folder's name."},
	{Name: "kind", Type: words, Default: "", Doc: "A contract-net word."},
}

var messageRows = []row{
	{value.Func{
		Name: "bus.send_message", Doc: sendDoc, Params: messageParams, Returns: sent,
		Example: "bus.send_message(to = \"scout\", content = {\"look\": \"hall\"})",
	}, (*Behaviour).sendMessage},
	{value.Func{
		Name: "bus.subscribe_inbox", Doc: inboxDoc, Params: inboxParams, Returns: "a subscription",
		Example: "bus.subscribe_inbox(agent_name = \"scout\", handler = lambda m: log.info(m.content))",
	}, (*Behaviour).subscribeInbox},
	{value.Func{
		Name: "bus.ask", Doc: askDoc, Params: askParams, Returns: "a future",
		Example: "where = bus.ask(\"scout\", \"where are you?\", timeout = \"2s\").result()",
	}, (*Behaviour).askAgent},
}

// plainMessageRows are the same at top level, as EdgeVox spells them: with the
// bus in front.
var plainMessageRows = []row{
	{value.Func{
		Name: "send_message", Doc: sendDoc, Params: append([]value.Param{anyBus}, messageParams...), Returns: sent,
		Example: "send_message(bus, from_agent = \"router\", to = \"kitchen\", content = \"lights on\")",
	}, (*Behaviour).sendMessage},
	{value.Func{
		Name: "subscribe_inbox", Doc: inboxDoc, Params: append([]value.Param{anyBus}, inboxParams...), Returns: "a subscription",
		Example: "subscribe_inbox(bus, agent_name = \"kitchen\", handler = on_message)",
	}, (*Behaviour).subscribeInbox},
	{value.Func{
		Name: "ask", Doc: askDoc, Params: askParams, Returns: "a future",
		Example: "answer = ask(\"kitchen\", \"how warm is it?\").result()",
	}, (*Behaviour).askAgent},
}

// sender is who a message is from.
func (b *Behaviour) sender(c *value.Call) string {
	if from := c.String("from_agent"); from != "" {
		return from
	}
	if r := runOf(c.Context()); r != nil && r.agent() != "" {
		return r.agent()
	}
	return b.folder
}

// maySend lets the folder's own agents talk to each other; the inboxes of
// others need a grant for their topic.
func (b *Behaviour) maySend(c *value.Call, to string) error {
	if err := effect(c); err != nil {
		return err
	}
	if to == "" {
		return &value.Error{Arg: "to", Msg: "argument \"to\": it names nobody"}
	}
	if to == b.folder || b.hasInbox(to) {
		return b.may(c, "bus.pub", b.folder+"/message")
	}
	return b.may(c, "bus.pub", "message/"+to)
}

func (b *Behaviour) sendMessage(c *value.Call) (starlark.Value, error) {
	to := c.String("to")
	if err := b.maySend(c, to); err != nil {
		return nil, err
	}
	content, err := c.Tree("content")
	if err != nil {
		return nil, err
	}
	m := bus.Message{From: b.sender(c), To: to, Kind: c.String("kind"), CorrelationID: c.String("correlation_id"), Content: content}
	if b.later(c, func(ctx context.Context) error { return b.host.Bus.Send(ctx, m) }) {
		return starlark.True, nil
	}
	return b.say(c, m)
}

// say sends a message. An answer that comes too late is no mistake of whoever
// answers: it is told by False.
func (b *Behaviour) say(c *value.Call, m bus.Message) (starlark.Value, error) {
	err := b.host.Bus.Send(c.Context(), m)
	if errors.Is(err, bus.ErrLate) {
		return starlark.False, nil
	}
	return starlark.True, err
}

func (b *Behaviour) askAgent(c *value.Call) (starlark.Value, error) {
	if err := acts(c); err != nil {
		return nil, err
	}
	to := c.String("to")
	if err := b.maySend(c, to); err != nil {
		return nil, err
	}
	content, err := c.Tree("content")
	if err != nil {
		return nil, err
	}
	f, err := b.host.Bus.Ask(c.Context(), bus.Message{From: b.sender(c), To: to, Kind: c.String("kind"), Content: content}, c.Duration("timeout"))
	if err != nil {
		return nil, err
	}
	return b.future(f, fmt.Sprintf("answer of %q", to)), nil
}

// inbox is a declared inbox.
type inbox struct {
	*listener
	agent string
}

func (b *Behaviour) subscribeInbox(c *value.Call) (starlark.Value, error) {
	cb, err := newCallback(c, "handler", "message")
	if err != nil {
		return nil, err
	}
	name := c.String("agent_name")
	i := &inbox{listener: &listener{b: b, cb: cb, at: where(c), made: declaredBy(c), filters: []string{"message/" + name, "message/" + bus.Everyone}, mode: "queue"}, agent: name}
	i.source = b.scriptSource(cb.at.File)
	i.queue = bus.Queue{Limit: c.Int("max_queue"), Name: i.source + ":" + cb.name}
	i.listener.inbox = i
	i.open = func() (*bus.Subscription, error) { return b.host.Bus.Inbox(name, i.queue, i.hear) }
	b.noteInbox(name)
	if err := b.attach(c, i.listener); err != nil {
		return nil, err
	}
	return subscriptionKind.Wrap(i.listener), nil
}

func (i *inbox) hear(ctx context.Context, m bus.Message) error {
	b := i.b
	if !b.runs.enter(0) {
		if h := i.heir.Load(); h != nil && h.inbox != nil { // the worker was late
			return h.inbox.hear(ctx, m)
		}
		return nil
	}
	defer b.runs.leave(0)
	r := &run{Context: ctx, life: i.life, b: b, source: "agent:" + i.agent, more: &more{name: i.agent}}
	b.into(ctx, i.made)
	_, err := b.do(r, i.cb, messageKind.Wrap(&message{m, b, i.agent}))
	return unlessEnded(err)
}
