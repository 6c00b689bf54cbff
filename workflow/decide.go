package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"edged/agent"
	"edged/agent/llm"
	"edged/bus/origin"
)

// A Question is what a model decides for a node.
type Question struct {
	Node    string
	System  string          // what is asked and what there is to choose from
	History []llm.Message   // the dialogue so far
	Task    string          // the words to decide about
	Origin  origin.Label    // whose they are
	Schema  json.RawMessage // of the answer; bounded
	Repair  string          // what was wrong with the answer before, if there was one
}

// A Decider answers questions as JSON of their schema. Nodes check the answer
// again, and ask once more with a Repair before they give up.
type Decider interface {
	Decide(ctx context.Context, q Question) (json.RawMessage, error)
}

// Ask makes a decider of a model. Instructions of its own come first.
func Ask(m llm.Model, instructions string, s llm.Sampling) Decider {
	s.Think = false
	return &asker{llm.Forms(m), instructions, s}
}

type asker struct {
	m            llm.Model
	instructions string
	s            llm.Sampling
}

func (a *asker) Decide(ctx context.Context, q Question) (json.RawMessage, error) {
	system := q.System
	if a.instructions != "" {
		system = a.instructions + "\n\n" + system
	}
	msgs := append([]llm.Message{{Role: llm.System, Text: system}}, q.History...)
	task := q.Task
	if !q.Origin.Trusted(llm.Trusted) {
		task = llm.Quote(string(q.Origin.Untrusted(llm.Trusted)), task)
	}
	msgs = append(msgs, llm.Message{Role: llm.User, Text: task, Origin: q.Origin})
	if q.Repair != "" {
		msgs = append(msgs, llm.Message{Role: llm.User, Text: q.Repair})
	}
	r, err := a.m.Chat(ctx, llm.Request{Messages: msgs, Schema: q.Schema, Sampling: a.s}, nil)
	if u := usageOf(ctx); u != nil {
		u.Calls += max(1, r.Usage.Calls)
		u.PromptTokens += r.Usage.PromptTokens
		u.OutputTokens += r.Usage.OutputTokens
	}
	if err != nil {
		return nil, err
	}
	return json.RawMessage(r.Text), nil
}

// usageKey leads from a decider back to what its node has used.
type usageKey struct{}

func usageOf(ctx context.Context) *agent.Usage {
	u, _ := ctx.Value(usageKey{}).(*agent.Usage)
	return u
}

// consult asks a decider until the answer reads as it must: twice at most. A
// model that fails is not asked again.
func consult[T any](ctx context.Context, d Decider, q Question, used *agent.Usage, read func(text json.RawMessage) (T, error)) (T, error) {
	ctx = context.WithValue(ctx, usageKey{}, used)
	for {
		text, err := d.Decide(ctx, q)
		var v T
		if err == nil {
			if v, err = read(text); err == nil {
				return v, nil
			}
		} else if !errors.Is(err, llm.ErrSchema) {
			return v, fmt.Errorf("%s: %w", q.Node, err)
		}
		if q.Repair != "" || ctx.Err() != nil {
			return v, fmt.Errorf("%s: the model's answer can't be used: %w", q.Node, err)
		}
		q.Repair = "That answer can't be used: " + llm.Line(err.Error()) + ". Answer again."
	}
}

func readJSON(text json.RawMessage, v any) error {
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("it is not the JSON that was asked for: %w", err)
	}
	return nil
}

// object is the schema of an object with these properties, all required.
func object(props ...any) json.RawMessage {
	m := map[string]any{}
	var names []string
	for i := 0; i+1 < len(props); i += 2 {
		name := props[i].(string)
		m[name], names = props[i+1], append(names, name)
	}
	b, _ := json.Marshal(map[string]any{"type": "object", "properties": m, "required": names, "additionalProperties": false})
	return b
}

func text(max int) any { return map[string]any{"type": "string", "maxLength": max} }

func enum(names []string) any { return map[string]any{"type": "string", "enum": names} }

// menu lists routes for a model.
func menu(routes []Route) (string, []string) {
	var b strings.Builder
	var names []string
	for _, r := range routes {
		names = append(names, r.Name)
		b.WriteString("- " + r.Name)
		if r.Doc != "" {
			b.WriteString(": " + llm.Line(r.Doc))
		}
		b.WriteByte('\n')
	}
	return b.String(), names
}
