package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"edged/bus/origin"
)

// Errors of messages.
var (
	ErrUndeliverable = errors.New("nobody has that inbox")
	ErrNoAnswer      = errors.New("no answer in time")
	ErrLate          = errors.New("the question is over: answered, given up or out of time")
)

// Everyone is the receiver of a broadcast.
const Everyone = "*"

const messagePrefix = "message/"

// Kinds of messages: the words of the FIPA contract net.
var kinds = []string{"cfp", "propose", "refuse", "accept-proposal", "reject-proposal", "inform", "failure", "cancel", "not-understood"}

// A Message goes from one agent to another, or to [Everyone]. It travels as an
// event with the topic message/<to>, so it is seen, traced and bridged as one.
type Message struct {
	From, To      string
	Kind          string // one of the contract-net words, or empty
	CorrelationID string // pairs an answer with its question; made up when empty
	Content       any    // a JSON tree
}

// talk is what the bus knows of inboxes and open questions.
type talk struct {
	mu     sync.Mutex
	asks   map[string]*ask
	tapped bool
	over   map[string]string // correlation id → who asked, of the last questions that are over
	order  []string          // of over, the oldest first
	late   uint64            // answers to those
	next   atomic.Uint64
}

// overs is how many questions that are over are remembered.
const overs = 4096

// end forgets a question, unless it is over; the caller holds mu.
func (t *talk) end(id string) *ask {
	a := t.asks[id]
	if a == nil {
		return nil
	}
	delete(t.asks, id)
	if t.over == nil {
		t.over = map[string]string{}
	}
	if _, again := t.over[id]; !again {
		if t.order = append(t.order, id); len(t.order) > overs {
			delete(t.over, t.order[0])
			t.order = t.order[1:]
		}
	}
	t.over[id] = a.from
	return a
}

type ask struct {
	from   string
	future *Future
}

// letter is a message as a payload.
type letter struct {
	Cell
	m Message
}

func (l *letter) Tree() any {
	m := map[string]any{"from": l.m.From, "to": l.m.To, "correlation_id": l.m.CorrelationID, "content": l.m.Content}
	if l.m.Kind != "" {
		m["kind"] = l.m.Kind
	}
	return m
}

// MessageOf reads an event as a message; one that came in from outside as JSON
// counts too.
func MessageOf(e Event) (Message, bool) {
	to, ok := strings.CutPrefix(e.Topic, messagePrefix)
	if !ok {
		return Message{}, false
	}
	if l, ok := e.Value().(*letter); ok {
		return l.m, true
	}
	m, ok := e.Payload().(map[string]any)
	if !ok {
		return Message{From: e.Source, To: to, Content: e.Payload()}, true
	}
	text := func(k string) string { s, _ := m[k].(string); return s }
	from := text("from")
	if from == "" {
		from = e.Source
	}
	return Message{From: from, To: to, Kind: text("kind"), CorrelationID: text("correlation_id"), Content: m["content"]}, true
}

// Send delivers a message. It returns ErrUndeliverable when nobody has an
// inbox of that name and no subscription to message topics could take it, and
// ErrLate when it answers a question that is over: that is counted, and changes
// nothing.
func (b *Bus) Send(ctx context.Context, m Message) error {
	if err := m.check(); err != nil {
		return err
	}
	if m.CorrelationID == "" {
		m.CorrelationID = b.correlation()
	}
	content, err := Freeze(m.Content)
	if err != nil {
		return fmt.Errorf("bus: send to %s: %w", m.To, err)
	}
	m.Content = content
	if !b.reachable(m) {
		if b.late(m) {
			return fmt.Errorf("bus: send to %q: %w", m.To, ErrLate)
		}
		return fmt.Errorf("bus: send to %q: %w", m.To, ErrUndeliverable)
	}
	from := "agent:" + m.From
	if whose := origin.From(ctx); whose != "" { // its words are the agent's, too
		ctx = origin.With(ctx, whose.Join(origin.Of(from)))
	}
	_, err = b.Publish(ctx, from, messagePrefix+m.To, &letter{m: m})
	return err
}

func (m Message) check() error {
	if err := validName(m.To); err != nil && m.To != Everyone {
		return fmt.Errorf("bus: send: to: %w", err)
	}
	if m.Kind != "" && !slices.Contains(kinds, m.Kind) {
		return fmt.Errorf("bus: send: unknown kind %q; one of %s", m.Kind, strings.Join(kinds, " "))
	}
	return nil
}

// Inbox handles the messages to a name, and broadcasts of others.
func (b *Bus) Inbox(name string, q Queue, h func(ctx context.Context, m Message) error) (*Subscription, error) {
	if err := validName(name); err != nil {
		return nil, fmt.Errorf("bus: inbox: %w", err)
	}
	where := q.Where
	q.Where = func(e Event) bool {
		if e.Topic == messagePrefix+Everyone {
			if m, ok := MessageOf(e); !ok || m.From == name {
				return false
			}
		}
		return where == nil || where(e)
	}
	if q.Name == "" {
		q.Name = "inbox:" + name
	}
	q.Also = append(q.Also, messagePrefix+Everyone)
	return b.Handle(messagePrefix+name, q, func(ctx context.Context, e Event) error {
		m, _ := MessageOf(e)
		return h(ctx, m)
	})
}

// Ask sends a message and gives a future that the first message with the same
// correlation id resolves, with its content. A failure, refuse or
// not-understood resolves it with an error. A timeout of 0 waits for ever.
func (b *Bus) Ask(ctx context.Context, m Message, timeout time.Duration) (*Future, error) {
	if m.CorrelationID == "" {
		m.CorrelationID = b.correlation()
	}
	id := m.CorrelationID
	forget := func() {
		b.talk.mu.Lock()
		defer b.talk.mu.Unlock()
		b.talk.end(id)
	}
	f := NewFuture(forget)
	// Who asks listens first: an answer may come before Send returns.
	if err := b.open(id, &ask{m.From, f}); err != nil {
		return nil, err
	}
	if timeout > 0 {
		t := b.wheel.After(timeout, func() {
			forget()
			f.Resolve(nil, fmt.Errorf("bus: ask %s: %w: %v", m.To, ErrNoAnswer, timeout))
		})
		f.OnDone(func(any, error) { t.Stop() })
	}
	if err := b.Send(ctx, m); err != nil {
		forget()
		f.Resolve(nil, err) // nobody has it; this stops the timer
		return nil, err
	}
	return f, nil
}

// open notes a question and sees to it that answers are heard.
func (b *Bus) open(id string, a *ask) error {
	b.talk.mu.Lock()
	defer b.talk.mu.Unlock()
	if b.talk.asks[id] != nil {
		return fmt.Errorf("bus: ask: correlation id %q is in use", id)
	}
	if !b.talk.tapped { // under the lock: who asks meanwhile waits until it stands
		if _, err := b.Tap(messagePrefix+"+", b.answer); err != nil {
			return fmt.Errorf("bus: ask: %w", err)
		}
		b.talk.tapped = true
	}
	if b.talk.asks == nil {
		b.talk.asks = map[string]*ask{}
	}
	b.talk.asks[id] = a
	return nil
}

// answer resolves the question that a message answers.
func (b *Bus) answer(e Event) {
	m, ok := MessageOf(e)
	if !ok || m.CorrelationID == "" {
		return
	}
	b.talk.mu.Lock()
	a := b.talk.asks[m.CorrelationID]
	if a == nil || a.from == m.From {
		b.talk.mu.Unlock()
		return
	}
	b.talk.end(m.CorrelationID)
	b.talk.mu.Unlock()
	switch m.Kind {
	case "failure", "refuse", "not-understood":
		a.future.ResolveFrom(e.Origin(), nil, fmt.Errorf("bus: ask: %s answered %s: %v", m.From, m.Kind, m.Content))
	default:
		a.future.ResolveFrom(e.Origin(), m.Content, nil)
	}
}

// late counts a message that answers a question that is over.
func (b *Bus) late(m Message) bool {
	b.talk.mu.Lock()
	defer b.talk.mu.Unlock()
	if from, known := b.talk.over[m.CorrelationID]; !known || from != m.To {
		return false
	}
	b.talk.late++
	return true
}

// reachable reports whether somebody could take the message.
func (b *Bus) reachable(m Message) bool {
	if m.To == Everyone {
		return true
	}
	b.talk.mu.Lock()
	a := b.talk.asks[m.CorrelationID]
	b.talk.mu.Unlock()
	if a != nil && a.from == m.To {
		return true
	}
	topic := messagePrefix + m.To
	for _, s := range b.subscriptions() {
		for _, f := range s.filters {
			if s.tap == nil && strings.HasPrefix(f, messagePrefix) && Match(f, topic) {
				return true
			}
		}
	}
	return len(b.Retained(topic)) > 0
}

func (b *Bus) correlation() string {
	return "m" + strconv.FormatInt(time.Now().UnixNano(), 36) + "-" + strconv.FormatUint(b.talk.next.Add(1), 36)
}

func validName(n string) error {
	if n == "" || strings.ContainsAny(n, "/+#*\x00") {
		return fmt.Errorf("%q is not a name: it is empty or has one of / + # *", n)
	}
	return nil
}
