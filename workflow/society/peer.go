package society

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"edged/agent/llm/schema"
	"edged/bus"
	"edged/bus/origin"
)

// What peers say to each other, in the words of the FIPA contract net. A
// message is {"kind", "id", …}. The answer to one comes on its topic with
// "/reply" behind it and has its id, and so has all news about it.
const (
	KindCall    = "cfp"             // a turn to submit or to bid: {task, form}
	KindRequest = "request"         // any other turn: {task, turn, form, prompt}
	KindCancel  = "cancel"          // nobody waits for the answer any more
	KindAccept  = "accept-proposal" // it was picked
	KindReject  = "reject-proposal" // it was not: {reason}
	KindResult  = "result"          // how the market ended: {status, winner, price}

	KindPropose       = "propose"        // {answer}
	KindInform        = "inform"         // {answer}
	KindRefuse        = "refuse"         // {reason}
	KindFailure       = "failure"        // {reason}
	KindNotUnderstood = "not-understood" // {reason}
)

const (
	peerSource = "agent:society"
	replyTopic = "/reply"
	// lateTime is how long an answer that is too late is still written down, and
	// mostLate for how many turns of a peer.
	lateTime = 10 * time.Minute
	mostLate = 32
)

// PeerTime is how long a peer may take where nobody says how long: a robot that
// is switched off never answers.
const PeerTime = time.Minute

// Peer makes a speaker of whoever listens to a topic: another robot, a script
// that speaks MQTT. It is asked there and answers on topic + "/reply". It is
// shown what its prompt shows, and no more. A message that can't be read, or
// has no id, is a malformed answer; one with another id is not for this turn.
// When its time is over it is told so, and an answer that comes then makes its
// turn late. What becomes of a proposal it is told too. Within bounds each turn
// of it, besides what bounds the round; 0 is [PeerTime] where nothing does.
func Peer(b *bus.Bus, topic string, within time.Duration) Speaker {
	return &peer{b: b, topic: topic, within: within}
}

type peer struct {
	b      *bus.Bus
	topic  string
	within time.Duration

	mu   sync.Mutex          // guards late
	late []*bus.Subscription // turns whose answer is too late, the oldest first
}

// final: a peer is not asked to repair an answer, its turn may have cost it.
func (*peer) final() {}

func (p *peer) Speak(ctx context.Context, q Prompt) (Answer, error) {
	at, _ := ctx.Value(seatKey{}).(seat)
	if at.id == "" {
		at.id = rand.Text()
	}
	sub, err := p.b.Subscribe(p.topic+replyTopic, bus.Queue{Limit: 8, Name: "turn of " + q.To,
		Where: func(e bus.Event) bool { return meantFor(e, at.id) }})
	if err != nil {
		return Answer{}, fmt.Errorf("society: ask %s: %w", q.To, err)
	}
	defer sub.Close()
	if _, err := p.b.Publish(ctx, peerSource, p.topic, calling(ctx, at.id, q)); err != nil {
		return Answer{}, fmt.Errorf("society: ask %s: %w", q.To, err)
	}
	e, err := sub.Next(ctx)
	if err == nil {
		return peerAnswer(e)
	}
	if ctx.Err() == nil { // the bus is closed
		return Answer{}, err
	}
	p.tell(context.WithoutCancel(ctx), map[string]any{"kind": KindCancel, "id": at.id, "from": asker(ctx)})
	if errors.Is(context.Cause(ctx), errRoundOver) && at.late != nil {
		p.await(at, q)
	}
	if e, missed := sub.Next(ctx); missed == nil { // it came at the last moment
		return peerAnswer(e)
	}
	return Answer{}, err
}

// bounded ends with the peer's time, as if the round were over.
func (p *peer) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	d := p.within
	if _, ends := ctx.Deadline(); d == 0 && !ends {
		d = PeerTime
	}
	if d == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, d, errRoundOver)
}

// calling is what a peer is asked.
func calling(ctx context.Context, id string, q Prompt) map[string]any {
	m := map[string]any{"kind": KindRequest, "id": id, "from": asker(ctx), "turn": string(q.Kind), "round": int64(q.Round),
		"task": q.Task.Input, "ask": q.Ask, "prompt": q.Text(), "sent": time.Now().UTC().Format(time.RFC3339)}
	if called(q.Kind) {
		m["kind"] = KindCall
	}
	sections := make([]any, len(q.Sections))
	for i, s := range q.Sections {
		x := map[string]any{"title": s.Title, "text": s.Text, "topic": s.Topic}
		if s.From != "" {
			x["from"] = s.From
		}
		if s.Value != nil {
			x["value"] = s.Value
		}
		sections[i] = x
	}
	m["sections"] = sections
	if q.Form != nil {
		if form, err := schema.Decode(q.Form.Schema()); err == nil {
			m["form"] = form
		}
	}
	if end, ok := ctx.Deadline(); ok {
		m["within_ms"] = max(time.Until(end).Milliseconds(), 1)
	}
	return m
}

// called reports whether a turn of a kind is called for proposals.
func called(k Kind) bool { return k == ToBid || k == ToSubmit }

// asker is who asks, as peers are told: the name of an edge would tell of
// rivals.
func asker(ctx context.Context) string {
	if r := runOf(ctx); r != nil {
		return r.s.name
	}
	return ""
}

// tell sends a peer something that needs no answer. A bus that is closed has
// nobody to tell.
func (p *peer) tell(ctx context.Context, m map[string]any) {
	_, _ = p.b.Publish(ctx, peerSource, p.topic, m)
}

// await listens for an answer that is too late, for a while: it is written
// down, and a proposal is told that it does not count.
func (p *peer) await(at seat, q Prompt) {
	var once sync.Once
	var sub *bus.Subscription
	ready := make(chan struct{})
	sub, err := p.b.Handle(p.topic+replyTopic, bus.Queue{Limit: 1, Overflow: bus.DropNew, Name: "late turn of " + q.To,
		Where: func(e bus.Event) bool { return idOf(e) == at.id }}, func(ctx context.Context, e bus.Event) (err error) {
		<-ready
		once.Do(func() {
			sub.Close()
			err = at.late(ctx, e)
			if called(q.Kind) {
				p.tell(ctx, map[string]any{"kind": KindReject, "id": at.id, "reason": "late"})
			}
		})
		return err
	})
	close(ready)
	if err != nil { // the bus is closed
		return
	}
	p.b.Timers().After(lateTime, sub.Close)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.late = append(p.late, sub); len(p.late) > mostLate {
		p.late[0].Close()
		p.late = slices.Delete(p.late, 0, 1)
	}
}

// messageOf reads an event as a message. A bridge that takes everything, broken
// JSON too, gives text.
func messageOf(e bus.Event) (map[string]any, bool) {
	v := e.Payload()
	if text, is := v.(string); is {
		v, _ = bus.DecodeJSON([]byte(text))
	}
	m, ok := v.(map[string]any)
	return m, ok
}

func idOf(e bus.Event) string {
	m, _ := messageOf(e)
	id, _ := m["id"].(string)
	return id
}

func meantFor(e bus.Event, id string) bool {
	was := idOf(e)
	return was == id || was == ""
}

// peerAnswer reads what a peer said. Its words are others' words.
func peerAnswer(e bus.Event) (Answer, error) {
	m, ok := messageOf(e)
	reason, _ := m["reason"].(string)
	from, _ := m["from"].(string)
	a := Answer{Origin: e.Origin().Join(origin.Of("agent:" + cmp.Or(from, "peer")))}
	switch id, _ := m["id"].(string); {
	case !ok:
		a.Value = e.Payload()
		return a, fmt.Errorf("%w: it is no JSON object", ErrMalformed)
	case id == "":
		a.Value = any(m)
		return a, fmt.Errorf("%w: it has no id", ErrMalformed)
	}
	switch m["kind"] {
	case KindPropose, KindInform:
		if m["answer"] == nil {
			return a, fmt.Errorf("%w: it has no answer", ErrMalformed)
		}
		a.Value = m["answer"]
		return a, nil
	case KindRefuse:
		return a, fmt.Errorf("%w: %s", ErrRefused, clip(reason, wordsLength))
	case KindFailure:
		return a, fmt.Errorf("society: peer failed: %s", clip(reason, wordsLength))
	case KindNotUnderstood:
		return a, fmt.Errorf("society: peer did not understand: %s", clip(reason, wordsLength))
	}
	a.Value = any(m)
	return a, fmt.Errorf("%w: its kind is %s", ErrMalformed, render(m["kind"]))
}

// wireID names a turn where its words go over a wire. A run that is resumed
// asks with the same one.
func (r *run) wireID(n int) string {
	sum := sha256.Sum256([]byte(r.key + "\x00" + strconv.Itoa(n)))
	return hex.EncodeToString(sum[:8])
}

// tardy gives what writes down an answer that comes when the time of its turn is
// over. recorded is closed when the turn is in the log.
func (r *run) tardy(n int, recorded <-chan struct{}) func(context.Context, bus.Event) error {
	return func(ctx context.Context, e bus.Event) error {
		<-recorded
		t, ok := r.s.o.Log.get(r.key, n)
		if !ok || t.State != TimedOut {
			return nil
		}
		a, err := peerAnswer(e)
		t.State, t.Why, t.Said, t.Origin = Late, fmt.Sprintf("it answered after %v", time.Since(t.Started).Round(time.Millisecond)), said(a), origin.Merge(t.Origin, a.Origin)
		if err != nil {
			t.Why += ": " + trim(err)
		}
		err = r.s.o.Log.put(ctx, t, r.durable)
		if r.s.o.Trace != nil {
			r.s.o.Trace(ctx, t)
		}
		return err
	}
}
