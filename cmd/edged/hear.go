package main

import (
	"context"
	"fmt"
	"strings"

	"edged/bus"
	"edged/cmd/edged/internal/config"
	"edged/hw/stopword"
)

// The word that stops the robot. Every text that comes in is looked at before
// anybody else has it: before queues, scripts, agents and models. Nothing in
// this file waits for any of them.

// Topics of what people say, as speech recognition and page publish it: whole
// utterances, and what is believed to have been said so far.
const (
	utteranceTopic = "voice/utterance"
	partialTopic   = "voice/partial"
)

// stopWords are the words of the settings.
func stopWords(c *config.Config) (*stopword.Words, error) {
	w, err := stopword.New(c.Stop.Languages...)
	if err == nil && len(c.Stop.Words) > 0 {
		w, err = w.With(c.Stop.Words...)
	}
	if err == nil && len(c.Stop.Except) > 0 {
		w, err = w.Except(c.Stop.Except...)
	}
	if err != nil {
		return nil, fmt.Errorf("setting stop: %w", err)
	}
	return w, nil
}

// hearStop has the robot stopped by what is said on the topics of speech.
func (r *robot) hearStop() error {
	for _, topic := range []string{utteranceTopic, partialTopic} {
		_, err := r.bus.Urgent(topic, func(e bus.Event) {
			if text := spoken(e.Payload()); r.words.Stops(text) {
				r.rig.Trip(bus.WithCause(context.Background(), e), e.Source, wordReason(text))
			}
		})
		if err != nil {
			return err
		}
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

// wordReason is the reason of a stop by words.
func wordReason(text string) string {
	const most = 60
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > most {
		text = string(r[:most]) + "…"
	}
	return fmt.Sprintf("somebody said %q", text)
}
