package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"edged/bus"
	"edged/bus/origin"
	"edged/starlark/lib"
	"edged/workflow/graph"
)

// What people are asked in words: by a Human node of a graph, by HUMAN in a
// society. The ways are those of confirm: the terminal of whoever asked, the
// robot's own, the verb answer, MQTT. A question waits as long as it says, also
// while the robot is off, and has the same ID after a restart. No script, agent
// or message between agents can answer it.

// Topics of questions in words and of their answers over MQTT. An answer is
// {"id": …, "answer": "yes"}, and counts only if it came in by MQTT just now.
const (
	inquiryTopic = "edged/question/ask"
	wordsTopic   = "edged/question/answer"
	heardTopic   = "edged/question/said"    // what the robot took as the answer
	lapsedTopic  = "edged/question/over"    // nobody answered it, or it is not asked any more
	refusedTopic = "edged/question/refused" // an answer that was none
)

// inquiry is a question in words that waits for a person.
type inquiry struct {
	ID      string          `json:"id"`
	By      string          `json:"by"`
	Run     string          `json:"run,omitempty"`
	Prompt  string          `json:"prompt"`
	Options []string        `json:"options,omitempty"`
	Form    json.RawMessage `json:"form,omitempty"` // the answer is JSON of this schema
	Asked   time.Time       `json:"asked"`
	Until   time.Time       `json:"until,omitzero"`
	Default string          `json:"default,omitempty"`
}

func newInquiry(q lib.Ask) inquiry {
	x := inquiry{By: q.By, Run: q.Run, Prompt: q.Prompt, Options: q.Options, Form: q.Form, Asked: q.Asked, Until: q.Until, Default: q.Default}
	x.ID = strings.ToLower(rand.Text()[:8])
	if q.Run != "" { // the same after a restart
		sum := sha256.Sum256([]byte(q.Run + "\n" + q.Path))
		x.ID = hex.EncodeToString(sum[:4])
	}
	if x.Asked.IsZero() {
		x.Asked = time.Now().UTC()
	}
	return x
}

// String is the question in words.
func (q inquiry) String() string {
	_, who, ok := strings.Cut(q.By, ":")
	if !ok {
		who = q.By
	}
	text := orElse(who, "somebody") + " asks: " + q.Prompt
	if len(q.Options) > 0 {
		text += " [" + strings.Join(q.Options, "/") + "]"
	}
	return strings.Map(func(r rune) rune { // a model may have a hand in the prompt, and none in the terminal
		if unicode.IsControl(r) && r != '\n' {
			return ' '
		}
		return r
	}, text)
}

// wait says how long there is to answer.
func (q inquiry) wait() string {
	switch {
	case q.Until.IsZero():
		return "it waits"
	case q.Default != "":
		return fmt.Sprintf("%v left, then %s", time.Until(q.Until).Round(time.Second), q.Default)
	}
	return fmt.Sprintf("%v left", time.Until(q.Until).Round(time.Second))
}

// payload is the question as an event.
func (q inquiry) payload() map[string]any {
	m := map[string]any{"id": q.ID, "by": q.By, "prompt": q.Prompt, "text": q.String(), "asked": q.Asked.UTC().Format(time.RFC3339)}
	if len(q.Options) > 0 {
		m["options"] = anyList(q.Options)
	}
	if q.Run != "" {
		m["run"] = q.Run
	}
	if !q.Until.IsZero() {
		m["until"] = q.Until.UTC().Format(time.RFC3339)
	}
	if q.Default != "" {
		m["default"] = q.Default
	}
	if form, err := bus.DecodeJSON(q.Form); err == nil && len(q.Form) > 0 {
		m["form"] = form
	}
	return m
}

func anyList(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}

// fits gives an answer as the question wants it.
func (q inquiry) fits(answer string) (string, error) {
	answer = strings.TrimSpace(answer)
	switch {
	case answer == "":
		return "", errors.New("answer: nothing was said")
	case len(q.Form) > 0 && !json.Valid([]byte(answer)):
		return "", fmt.Errorf("answer: %q wants JSON of the schema %s", q.Prompt, q.Form)
	case len(q.Options) == 0:
		return answer, nil
	}
	if i := slices.IndexFunc(q.Options, func(o string) bool { return strings.EqualFold(o, answer) }); i >= 0 {
		return q.Options[i], nil
	}
	return "", fmt.Errorf("answer: %q is none of %s", answer, strings.Join(q.Options, ", "))
}

// awaited is an open question in words.
type awaited struct {
	inquiry
	said chan spoken // one answer
}

// spoken is an answer, and which way it came.
type spoken struct {
	text string
	from string // "cli", "page", "keyboard", "mqtt"
}

// mostInquiries is how many questions in words may be open. More than that
// nobody answers: durable runs ask again at the next start.
const mostInquiries = 64

// inquire asks and waits until ctx ends.
func (p *persons) inquire(ctx context.Context, q inquiry) (string, error) {
	one := &awaited{q, make(chan spoken, 1)}
	p.mu.Lock()
	if len(p.words) >= mostInquiries {
		p.mu.Unlock()
		return "", graph.ErrLater
	}
	p.words = append(p.words, one)
	tell := p.tellWords
	p.mu.Unlock()
	defer p.forget(one)
	if tell != nil {
		tell(q)
	}
	if at, ok := ctx.Value(hereKey{}).(terminal); ok {
		_ = at.words(q) // who asks at a terminal that is gone is asked nothing
	}
	if _, err := p.bus.Publish(ctx, "question", inquiryTopic, q.payload()); err != nil {
		return "", err
	}
	select {
	case a := <-one.said:
		if a.from == "mqtt" && len(q.Options) == 0 { // a choice among the author's words is no words of theirs
			origin.Raise(ctx, origin.Of(a.from))
		}
		m := q.payload()
		m["answer"], m["from"] = a.text, a.from
		_, _ = p.bus.Publish(ctx, "question", heardTopic, m) // for the record
		return a.text, nil
	case <-ctx.Done():
		_, _ = p.bus.Publish(context.WithoutCancel(ctx), "question", lapsedTopic, map[string]any{"id": q.ID, "prompt": q.Prompt})
		return "", ctx.Err()
	}
}

func (p *persons) forget(one *awaited) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.words = slices.DeleteFunc(p.words, func(x *awaited) bool { return x == one })
}

// reply gives a person's words; of words that don't name a question by its ID,
// or the beginning of it, all are the answer to the only open one.
func (p *persons) reply(from string, words []string) (inquiry, string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var hits []*awaited
	if len(words) > 1 {
		hits = p.named(words[0])
	}
	switch {
	case len(hits) == 1:
		words = words[1:]
	case len(hits) > 1:
		return inquiry{}, "", fmt.Errorf("answer: %q may be one of %s: name it by its ID, see 'edged answer'", words[0], count(len(hits), "question"))
	case len(p.words) == 0:
		return inquiry{}, "", errors.New("answer: nothing waits for an answer")
	case len(p.words) > 1:
		return inquiry{}, "", fmt.Errorf("answer: %s wait for an answer; name one by its ID, see 'edged answer'", count(len(p.words), "question"))
	default:
		hits = p.words
	}
	return p.give(hits[0], spoken{strings.Join(words, " "), from})
}

// replyTo gives a person's words to the question that is named, and to no other.
func (p *persons) replyTo(from, id, text string) (inquiry, string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch hits := p.named(id); len(hits) {
	case 0:
		return inquiry{}, "", fmt.Errorf("answer: no question %s waits for an answer", id)
	case 1:
		return p.give(hits[0], spoken{text, from})
	default:
		return inquiry{}, "", fmt.Errorf("answer: %q may be one of %s: name it by its ID, see 'edged answer'", id, count(len(hits), "question"))
	}
}

// give hands an answer over. The lock is held.
func (p *persons) give(one *awaited, a spoken) (inquiry, string, error) {
	text, err := one.fits(a.text)
	if err != nil {
		return one.inquiry, "", err
	}
	p.words = slices.DeleteFunc(p.words, func(x *awaited) bool { return x == one })
	one.said <- spoken{text, a.from}
	return one.inquiry, text, nil
}

// named finds questions by their ID, by the beginning of it, or by their run.
// The lock is held.
func (p *persons) named(id string) (list []*awaited) {
	for _, one := range p.words {
		if one.ID == id {
			return []*awaited{one}
		}
		if one.Run == id && id != "" || len(id) >= 3 && strings.HasPrefix(one.ID, id) {
			list = append(list, one)
		}
	}
	return list
}

// inquiries gives the open questions in words, the oldest first.
func (p *persons) inquiries() []inquiry {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := []inquiry{}
	for _, one := range p.words {
		out = append(out, one.inquiry)
	}
	return out
}

// key is a key that was pressed in the robot's terminal: y and n answer a tool,
// the first letter of an option a question in words, if nothing else is open.
func (p *persons) key(key byte) (said string, ok bool) {
	p.mu.Lock()
	tools, words := len(p.open), slices.Clone(p.words)
	p.mu.Unlock()
	switch {
	case tools == 1 && len(words) == 0 && (key == 'y' || key == 'n'):
		if q, err := p.answer("keyboard", "", key == 'y'); err == nil {
			return map[byte]string{'y': "allowed", 'n': "refused"}[key] + ": " + q.String(), true
		}
	case tools == 0 && len(words) == 1:
		var hit []string
		for _, o := range words[0].Options {
			if strings.HasPrefix(strings.ToLower(o), string(key)) {
				hit = append(hit, o)
			}
		}
		if len(hit) != 1 {
			break
		}
		if q, text, err := p.replyTo("keyboard", words[0].ID, hit[0]); err == nil {
			return fmt.Sprintf("%s: %s", text, q), true
		}
	}
	return "", false
}

// hearWords takes answers in words that come over MQTT.
func (p *persons) hearWords() error {
	_, err := p.bus.Tap(wordsTopic, func(e bus.Event) {
		m, _ := e.Payload().(map[string]any)
		id, _ := m["id"].(string)
		text, given := m["answer"].(string)
		if !given || id == "" || e.Retained || e.Source != "mqtt" && !strings.HasPrefix(e.Source, "mqtt:") {
			return
		}
		if _, _, why := p.replyTo("mqtt", id, text); why != nil {
			_, _ = p.bus.Publish(bus.WithCause(context.Background(), e), "question", refusedTopic, map[string]any{"id": id, "answer": text, "reason": why.Error()})
		}
	})
	return err
}
