package openai

import (
	"encoding/json"
	"fmt"
	"maps"

	"edged/agent/llm"
)

type object = map[string]any

// check refuses what would not be JSON.
func check(r llm.Request) error {
	if r.Schema != nil && !json.Valid(r.Schema) {
		return fmt.Errorf("openai: %w: it is no JSON", llm.ErrBadSchema)
	}
	for _, t := range r.Tools {
		if len(t.Params) > 0 && !json.Valid(t.Params) {
			return fmt.Errorf("openai: %w: parameters of tool %s are no JSON", llm.ErrBadSchema, t.Name)
		}
	}
	return nil
}

// request translates. It asks for a stream only if somebody listens: leaving a
// stream early is what servers bear worst.
func (m *Model) request(r llm.Request, stream, newer bool) object {
	q := object{}
	maps.Copy(q, m.o.Extra)
	q["model"], q["stream"] = m.o.Name, stream
	if stream {
		q["stream_options"] = object{"include_usage": true}
	}
	messages := make([]object, 0, len(r.Messages))
	for _, x := range r.Messages {
		messages = append(messages, message(x))
	}
	q["messages"] = messages
	limit := m.o.MaxTokens
	if r.MaxTokens > 0 {
		limit = r.MaxTokens
	}
	if newer {
		q["max_completion_tokens"] = limit
	} else {
		q["max_tokens"] = limit
	}
	if r.Temperature != nil {
		q["temperature"] = *r.Temperature
	}
	if r.Seed != nil {
		q["seed"] = *r.Seed
	}
	if r.Schema != nil {
		q["response_format"] = object{"type": "json_schema",
			"json_schema": object{"name": "answer", "strict": true, "schema": r.Schema}}
		return q
	}
	if len(r.Tools) == 0 || r.Choice == llm.ChoiceNone {
		return q
	}
	var tools []object
	for _, t := range r.Tools {
		params := t.Params
		if len(params) == 0 {
			params = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		tools = append(tools, object{"type": "function",
			"function": object{"name": t.Name, "description": t.Doc, "parameters": params}})
	}
	q["tools"] = tools
	if r.Choice == llm.ChoiceRequired {
		q["tool_choice"] = "required"
	}
	return q
}

func message(x llm.Message) object {
	out := object{"role": string(x.Role), "content": x.Prompt()}
	switch x.Role {
	case llm.ToolRole:
		out["tool_call_id"] = x.CallID
	case llm.Assistant:
		var calls []object
		for _, c := range x.Calls {
			args := string(c.Args)
			if args == "" {
				args = "{}"
			}
			calls = append(calls, object{"id": c.ID, "type": "function",
				"function": object{"name": c.Name, "arguments": args}})
		}
		if calls != nil {
			out["tool_calls"] = calls
		}
	}
	return out
}
