package society

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"

	"edged/agent/llm/schema"
	"edged/bus"
)

// What peers say to each other, in the words of the FIPA contract net. A
// message is {"kind", "id", "from", …}; the answer to one comes on its topic
// with "/reply" behind it.
const (
	KindCall    = "cfp"     // a turn to submit or to bid: {task, form}
	KindRequest = "request" // any other turn: {task, turn, form, prompt}
	KindPropose = "propose" // {answer}
	KindInform  = "inform"  // {answer}
	KindRefuse  = "refuse"  // {reason}
	KindFailure = "failure" // {reason}
)

// Peer makes a speaker of whoever listens to a topic: another robot, a script
// that speaks MQTT. It is asked there and answers on topic + "/reply". It is
// shown what its prompt shows, and no more. A message that can't be read is a
// malformed answer; one with another id is not for this turn.
func Peer(b *bus.Bus, topic string) Speaker { return &peer{b, topic} }

type peer struct {
	b     *bus.Bus
	topic string
}

// final: a peer is not asked to repair an answer, its turn may have cost it.
func (*peer) final() {}

func (p *peer) Speak(ctx context.Context, q Prompt) (Answer, error) {
	var raw [8]byte
	_, _ = rand.Read(raw[:])
	id := hex.EncodeToString(raw[:])
	sub, err := p.b.Subscribe(p.topic+"/reply", bus.Queue{Limit: 64, Name: "turn of " + q.To,
		Where: func(e bus.Event) bool { return meantFor(e, id) }})
	if err != nil {
		return Answer{}, fmt.Errorf("society: ask %s: %w", q.To, err)
	}
	defer sub.Close()
	msg := map[string]any{"kind": KindRequest, "id": id, "turn": string(q.Kind), "task": q.Task.Input, "round": int64(q.Round), "prompt": q.Text()}
	if q.Kind == ToBid || q.Kind == ToSubmit {
		msg["kind"] = KindCall
	}
	if form, err := schema.Decode(q.Form.Schema()); err == nil {
		msg["form"] = form
	}
	if _, err := p.b.Publish(ctx, "agent:society", p.topic, msg); err != nil {
		return Answer{}, fmt.Errorf("society: ask %s: %w", q.To, err)
	}
	e, err := sub.Next(ctx)
	if err != nil {
		return Answer{}, err
	}
	return peerAnswer(e)
}

func meantFor(e bus.Event, id string) bool {
	m, ok := e.Payload().(map[string]any)
	return ok && m["id"] == id
}

// peerAnswer reads what a peer said. Its words are others' words.
func peerAnswer(e bus.Event) (Answer, error) {
	m, _ := e.Payload().(map[string]any)
	reason, _ := m["reason"].(string)
	a := Answer{Tainted: true}
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
	}
	return a, fmt.Errorf("%w: its kind is %s", ErrMalformed, render(m["kind"]))
}
