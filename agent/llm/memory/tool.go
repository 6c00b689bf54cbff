package memory

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"edged/agent/llm"
)

// ToolOptions of [Memory.Tools].
type ToolOptions struct {
	Scope    string // what the model may see and change; empty is [Home]. It can't choose another
	By       string // who remembers: "agent:butler"
	ReadOnly bool   // recall only
}

// What a model may say; the schemas and the checks use the same bounds.
const (
	toolKey   = 48
	toolValue = 200
	toolFacts = 5
)

// Tools gives remember, recall and forget as tools of a model. They do nothing
// to the world, so they are no writes for the gate.
func (m *Memory) Tools(o ToolOptions) []llm.Tool {
	o.Scope = cmp.Or(o.Scope, Home)
	read := llm.Tool{
		Name: "recall", Doc: "Look up what is known about something.", Effect: llm.Read, Parallel: true, Timeout: 5 * time.Second,
		Params: json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{"about":{"type":"string","maxLength":%d,"description":"what to look up, a few words"}},"required":["about"],"additionalProperties":false}`, toolValue)),
		Do:     tool(func(ctx context.Context, a toolArgs) (any, error) { return m.toolRecall(ctx, o, a.About) }),
	}
	if o.ReadOnly {
		return []llm.Tool{read}
	}
	key := fmt.Sprintf(`"key":{"type":"string","maxLength":%d,"description":"what it is about, one or two words"}`, toolKey)
	return []llm.Tool{{
		Name: "remember", Doc: "Keep a fact for later.", Effect: llm.Read, Timeout: 5 * time.Second,
		Params: json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{%s,"value":{"type":"string","maxLength":%d,"description":"the fact, one sentence"}},"required":["key","value"],"additionalProperties":false}`, key, toolValue)),
		Do: tool(func(ctx context.Context, a toolArgs) (any, error) {
			f, err := m.Remember(ctx, Fact{Scope: o.Scope, Key: a.Key, Value: a.Value, By: o.By})
			if err != nil {
				return nil, err
			}
			return map[string]any{"remembered": f.Key}, nil
		}),
	}, read, {
		Name: "forget", Doc: "A fact is not true any more.", Effect: llm.Read, Timeout: 5 * time.Second,
		Params: json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{%s},"required":["key"],"additionalProperties":false}`, key)),
		Do: tool(func(ctx context.Context, a toolArgs) (any, error) {
			err := m.Forget(ctx, o.Scope, a.Key)
			if errors.Is(err, ErrNone) {
				return map[string]any{"forgotten": false, "note": "nothing was known about that"}, nil
			}
			return map[string]any{"forgotten": true}, err
		}),
	}}
}

type toolArgs struct{ Key, Value, About string }

// tool makes a tool's function: arguments are checked here too, whoever calls.
func tool(do func(ctx context.Context, a toolArgs) (any, error)) func(context.Context, json.RawMessage) (json.RawMessage, error) {
	return func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
		var a toolArgs
		if err := json.Unmarshal(args, &a); err != nil {
			return nil, fmt.Errorf("memory: arguments: %w", err)
		}
		for _, s := range []struct {
			what, text string
			most       int
		}{{"key", a.Key, toolKey}, {"value", a.Value, toolValue}, {"about", a.About, toolValue}} {
			if n := len([]rune(s.text)); n > s.most {
				return nil, fmt.Errorf("memory: %s: %w: %d characters, at most %d are allowed", s.what, ErrValue, n, s.most)
			}
		}
		v, err := do(ctx, a)
		if err != nil {
			return nil, err
		}
		return json.Marshal(v)
	}
}

// toolRecall looks for the key, then for what is like the text.
func (m *Memory) toolRecall(ctx context.Context, o ToolOptions, about string) (any, error) {
	hits, err := m.Recall(ctx, Query{Scope: o.Scope, Key: about, Limit: 1})
	if err == nil && (len(hits) == 0 || about == "") {
		hits, err = m.Recall(ctx, Query{Scope: o.Scope, Text: about, Limit: toolFacts})
	}
	if err != nil {
		return nil, err
	}
	type known struct {
		Key   string `json:"key"`
		Value any    `json:"value"`
		Since string `json:"since"`
	}
	facts := []known{}
	for _, h := range hits {
		v := h.Value
		if b, err := json.Marshal(v); err != nil || len(b) > 2*toolValue {
			v = shorten(string(b), 2*toolValue) + "…"
		}
		facts = append(facts, known{h.Key, v, h.From.Format("2006-01-02 15:04")})
	}
	out := map[string]any{"facts": facts}
	if len(facts) == 0 {
		out["note"] = "nothing is known about that"
	}
	return out, nil
}
