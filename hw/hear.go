package hw

import (
	"context"
	"fmt"
	"strings"

	"edged/bus"
)

// Topics of what people say, as speech recognition and page publish it: whole
// utterances, and what is believed to have been said so far.
const (
	UtteranceTopic = "voice/utterance"
	PartialTopic   = "voice/partial"
)

// Hear has the robot stopped by what is said on the topics of speech, the
// moment it is published: before queues, scripts, agents and models. stops says
// whether a text means stop; see package stopword. Words that stopped go to
// nobody as something that was said (see [bus.Event]: Taken), or an agent would
// make a task of them. The rig's Close ends it.
func (r *Rig) Hear(stops func(text string) bool) error {
	for _, topic := range []string{UtteranceTopic, PartialTopic} {
		deaf, err := r.b.Urgent(topic, func(e bus.Event) bool { return stops(spoken(e.Payload())) }, func(e bus.Event) {
			r.Trip(bus.WithCause(context.Background(), e), e.Source, Said(spoken(e.Payload())))
		})
		if err != nil {
			return fmt.Errorf("hw: hear: %w", err)
		}
		hear := r.deaf
		r.deaf = func() { deaf(); hear() }
	}
	return nil
}

// spoken is the text of an event of speech: {"text": …}, or text alone.
func spoken(payload any) string {
	switch v := payload.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	case map[string]any:
		t, _ := v["text"].(string)
		return t
	}
	return ""
}

// Said is the reason of a stop by words.
func Said(text string) string {
	const most = 60
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > most {
		text = string(r[:most]) + "…"
	}
	return fmt.Sprintf("somebody said %q", text)
}
