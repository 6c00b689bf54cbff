package intent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"edged/agent"
	"edged/agent/llm"
)

// This file makes the sentences a model as any other: the user's last words
// become one call, and its result becomes the answer.

var (
	_ llm.Model     = (*Model)(nil)
	_ llm.Describer = (*Model)(nil)
)

// Describe says what it can do; it does nothing but call tools.
func (m *Model) Describe(context.Context) (llm.Info, error) {
	return llm.Info{Name: "intent", Tools: true, Warm: true}, nil
}

// Chat answers the last message: a user's with the call that its sentence
// stands for, or with the answer if that is all there is; a tool's with the
// answer. What is no sentence of this model, and a tool that is not offered,
// is an error that wraps [llm.ErrNoMatch]. It keeps nothing between calls.
func (m *Model) Chat(ctx context.Context, r llm.Request, say func(string) error) (llm.Message, error) {
	if err := ctx.Err(); err != nil {
		return llm.Message{}, err
	}
	if len(r.Schema) > 0 {
		return llm.Message{}, declined("it can't answer in a schema", "ask a language model for this")
	}
	if len(r.Messages) == 0 {
		return llm.Message{}, declined("nothing was said", "")
	}
	last := r.Messages[len(r.Messages)-1]
	switch last.Role {
	case llm.User:
		return m.answerUser(last.Text, r, say)
	case llm.ToolRole:
		return m.answerTool(last, r.Messages, say)
	}
	return llm.Message{}, declined("the last word is the "+string(last.Role)+"'s", "")
}

func (m *Model) answerUser(text string, r llm.Request, say func(string) error) (llm.Message, error) {
	match, ok := m.Match(text)
	if !ok {
		return llm.Message{}, declined(fmt.Sprintf("no sentence fits %q", clip(text)), "add it to a sentence, or give the agent a model after this one")
	}
	if match.Tool == "" {
		return finish(match.Answer(nil), say)
	}
	if r.Choice == llm.ChoiceNone {
		return llm.Message{}, declined("no tool may be called", "")
	}
	if !slices.ContainsFunc(r.Tools, func(t llm.Tool) bool { return t.Name == match.Tool }) {
		return llm.Message{}, declined(fmt.Sprintf("intent %s needs tool %q, which is not offered", match.Intent, match.Tool), "add it to the agent's tools")
	}
	args, err := json.Marshal(match.Slots)
	if err != nil {
		return llm.Message{}, fmt.Errorf("intent: arguments of %s: %w", match.Intent, err)
	}
	return llm.Message{
		Role:   llm.Assistant,
		Calls:  []llm.Call{{ID: fmt.Sprintf("intent_%d", len(r.Messages)), Name: match.Tool, Args: args}},
		Finish: llm.FinishCall,
	}, nil
}

// answerTool answers from the template of the sentence whose call the tool
// carried out. A tool that failed ends the run as failed, in its words.
func (m *Model) answerTool(result llm.Message, dialogue []llm.Message, say func(string) error) (llm.Message, error) {
	if trouble, failed := failure(result.Text); failed {
		why := strings.TrimSpace(strings.TrimPrefix(trouble, "error:"))
		return llm.Message{}, fmt.Errorf("%w: %s", agent.ErrFailed, why)
	}
	for i := len(dialogue) - 1; i >= 0; i-- {
		if dialogue[i].Role != llm.User {
			continue
		}
		match, ok := m.Match(dialogue[i].Text)
		if !ok || result.Name != "" && match.Tool != result.Name {
			break
		}
		if text := match.Answer(json.RawMessage(result.Text)); text != "" {
			return finish(text, say)
		}
		return finish("OK.", say)
	}
	return llm.Message{}, declined("a tool's result it did not ask for", "")
}

// failure reports whether a tool's result tells of an error, and in what words.
func failure(text string) (string, bool) {
	t := strings.TrimSpace(text)
	if strings.HasPrefix(strings.ToLower(t), "error") {
		return t, true
	}
	var o struct {
		Error any `json:"error"`
	}
	if bytes.HasPrefix([]byte(t), []byte("{")) && json.Unmarshal([]byte(t), &o) == nil && o.Error != nil && o.Error != "" && o.Error != false {
		return spoken(o.Error), true
	}
	return "", false
}

func finish(text string, say func(string) error) (llm.Message, error) {
	if say != nil && text != "" {
		if err := say(text); err != nil {
			return llm.Message{}, err
		}
	}
	return llm.Message{Role: llm.Assistant, Text: text, Finish: llm.FinishStop}, nil
}

func declined(why, remedy string) error {
	return &llm.Trouble{Err: fmt.Errorf("%w: %s", llm.ErrNoMatch, why), Model: "intent", Remedy: remedy}
}

func clip(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return s
}

// Check compares the intents with the tools they call: each tool must be there
// and take the slots. It is for the time a script is loaded.
func (m *Model) Check(tools []llm.Tool) error {
	byName := map[string]llm.Tool{}
	for _, t := range tools {
		byName[t.Name] = t
	}
	for i := range m.intents {
		in := &m.intents[i]
		if in.Tool == "" {
			continue
		}
		t, ok := byName[in.Tool]
		if !ok {
			return &Error{Intent: in.Name, Msg: fmt.Sprintf("no tool %q%s", in.Tool, meant(in.Tool, slices.Collect(maps.Keys(byName)), "", "", "give it to the agent"))}
		}
		var schema struct {
			Properties map[string]json.RawMessage `json:"properties"`
		}
		if len(t.Params) > 0 {
			if err := json.Unmarshal(t.Params, &schema); err != nil {
				return fmt.Errorf("intent: schema of tool %s: %w", t.Name, err)
			}
		}
		for _, slot := range m.fills[i] {
			if _, ok := schema.Properties[slot]; !ok {
				return &Error{Intent: in.Name, Msg: fmt.Sprintf("tool %q has no argument %q%s", in.Tool, slot,
					meant(slot, slices.Collect(maps.Keys(schema.Properties)), "", "", "rename the slot with {list:argument}"))}
			}
		}
	}
	return nil
}
