package society_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"edged/bus"
	"edged/workflow/society"
)

// inBubble runs a check in virtual time. A panic by which it fails comes out.
func inBubble(t *testing.T, check func()) {
	var failed any
	synctest.Test(t, func(*testing.T) {
		defer func() { failed = recover() }()
		check()
	})
	if failed != nil {
		panic(failed)
	}
}

// afar is a robot somewhere else: it gets what is said on its topic, and answers
// like the others, or never.
func (p *planted) afar(t *rapid.T, b *bus.Bus, name string, cast *cast) *society.Agent {
	topic := "robots/" + name
	if _, err := b.Handle(topic, bus.Queue{}, func(ctx context.Context, e bus.Event) error {
		answer, err := p.heard(t, e, name, cast)
		if answer == nil || err != nil {
			return err
		}
		_, err = b.Publish(ctx, "mqtt", topic+"/reply", answer)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return &society.Agent{Name: name, Speaker: society.Peer(b, topic, 0)}
}

func (p *planted) heard(t *rapid.T, e bus.Event, name string, cast *cast) (any, error) {
	text, err := e.JSON()
	if err != nil {
		return nil, err
	}
	var q struct {
		Kind, ID string
		Turn     society.Kind
		Round    int
		Sections []society.Section
		Form     json.RawMessage
	}
	if err := json.Unmarshal(text, &q); err != nil {
		return nil, err
	}
	cast.mu.Lock()
	defer cast.mu.Unlock()
	p.shown = append(p.shown, shown{name, string(text), q.Round})
	if q.Kind != society.KindCall && q.Kind != society.KindRequest {
		return nil, nil
	}
	p.seat[name] = society.Prompt{Kind: q.Turn, Round: q.Round}
	p.told(q.Sections)
	answer := map[string]any{"kind": society.KindInform, "id": q.ID}
	word := p.words.Draw(t, "word")
	said, err := p.reply(name, word, string(q.Form), string(text))
	switch {
	case word == "malformed":
		answer["answer"] = map[string]any{"nonsense": said.Text}
	case err != nil && p.n%2 == 0:
		return nil, nil // it was switched off
	case err != nil:
		answer["kind"], answer["reason"] = society.KindFailure, err.Error()
	default:
		answer["answer"], err = bus.DecodeJSON([]byte(said.Text))
		return answer, err
	}
	return answer, nil
}
