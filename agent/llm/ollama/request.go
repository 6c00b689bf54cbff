package ollama

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/ollama/ollama/api"

	"edged/agent/llm"
)

// request translates. It asks for a stream only if somebody listens: to Ollama
// a client that leaves a stream can take the engine's only slot with it
// (issue 17131, open at 0.24), one that waits for the whole can't. What Ollama would do by itself is switched off: cutting
// old messages and forgetting the beginning are ours to do, and a thinking
// model thinks unless it is told not to.
func (m *Model) request(r llm.Request, stream bool) (*api.ChatRequest, error) {
	no := false
	q := &api.ChatRequest{
		Model: m.name, Messages: make([]api.Message, 0, len(r.Messages)),
		Stream: &stream, KeepAlive: m.s.keepAlive(), Options: m.s.options(),
		Truncate: &no, Shift: &no,
		Think: &api.ThinkValue{Value: r.Think && r.Schema == nil},
	}
	for _, x := range r.Messages {
		msg, err := message(x)
		if err != nil {
			return nil, err
		}
		q.Messages = append(q.Messages, msg)
	}
	q.Options["num_predict"] = m.s.o.MaxTokens
	if r.MaxTokens > 0 {
		q.Options["num_predict"] = r.MaxTokens
	}
	if r.Temperature != nil {
		q.Options["temperature"] = *r.Temperature
	}
	if r.Seed != nil {
		q.Options["seed"] = *r.Seed
	}
	if r.Schema != nil {
		if !json.Valid(r.Schema) {
			return nil, fmt.Errorf("ollama: %w: it is no JSON", llm.ErrBadSchema)
		}
		q.Format = r.Schema
		return q, nil
	}
	if r.Choice == llm.ChoiceNone {
		return q, nil
	}
	for _, t := range r.Tools {
		tool, err := offer(t)
		if err != nil {
			return nil, err
		}
		q.Tools = append(q.Tools, tool)
	}
	if r.Choice == llm.ChoiceRequired && len(r.Tools) > 0 {
		q.Format = callSchema(r.Tools) // Ollama has no word for "must"
		q.Think.Value = false
	}
	return q, nil
}

func message(x llm.Message) (api.Message, error) {
	out := api.Message{Role: string(x.Role), Content: x.Prompt()}
	switch x.Role {
	case llm.ToolRole:
		out.ToolName, out.ToolCallID = x.Name, x.CallID
	case llm.Assistant:
		for i, c := range x.Calls {
			call := api.ToolCall{ID: c.ID, Function: api.ToolCallFunction{Index: i, Name: c.Name}}
			if len(c.Args) > 0 {
				if err := json.Unmarshal(c.Args, &call.Function.Arguments); err != nil {
					return out, fmt.Errorf("ollama: arguments of call %s in the dialogue: %w", c.Name, err)
				}
			}
			out.ToolCalls = append(out.ToolCalls, call)
		}
	}
	return out, nil
}

// offer makes Ollama's form of a tool. That form has no ranges, defaults,
// patterns and lengths, so they go into the words the model reads.
func offer(t llm.Tool) (api.Tool, error) {
	f := api.ToolFunction{Name: t.Name, Description: t.Doc}
	f.Parameters.Type = "object"
	f.Parameters.Properties = api.NewToolPropertiesMap()
	out := api.Tool{Type: "function", Function: f}
	if len(t.Params) == 0 {
		return out, nil
	}
	if err := json.Unmarshal(t.Params, &out.Function.Parameters); err != nil {
		return out, fmt.Errorf("ollama: %w: parameters of tool %s: %w", llm.ErrBadSchema, t.Name, err)
	}
	var full struct{ Properties map[string]limits }
	if err := json.Unmarshal(t.Params, &full); err != nil {
		return out, fmt.Errorf("ollama: %w: parameters of tool %s: %w", llm.ErrBadSchema, t.Name, err)
	}
	p := out.Function.Parameters.Properties
	if p == nil {
		out.Function.Parameters.Properties = api.NewToolPropertiesMap()
		return out, nil
	}
	for name, l := range full.Properties {
		v, _ := p.Get(name)
		l.into(&v)
		p.Set(name, v)
	}
	return out, nil
}

// limits are the parts of a property's schema that Ollama's type drops.
type limits struct {
	Minimum, Maximum    *json.Number
	Default, Const      json.RawMessage
	Pattern             string
	MaxLength, MaxItems int
	OneOf               []struct{ Const any }
}

func (l limits) into(v *api.ToolProperty) {
	for _, c := range l.OneOf {
		if c.Const != nil {
			v.Enum = append(v.Enum, c.Const)
		}
	}
	var words []string
	switch lo, hi := l.Minimum, l.Maximum; {
	case lo != nil && hi != nil:
		words = append(words, lo.String()+" to "+hi.String())
	case lo != nil:
		words = append(words, "at least "+lo.String())
	case hi != nil:
		words = append(words, "at most "+hi.String())
	}
	if l.Const != nil {
		words = append(words, "always "+string(l.Const))
	}
	if l.MaxLength > 0 {
		words = append(words, "at most "+strconv.Itoa(l.MaxLength)+" characters")
	}
	if l.MaxItems > 0 {
		words = append(words, "at most "+strconv.Itoa(l.MaxItems)+" items")
	}
	if l.Pattern != "" {
		words = append(words, "like "+l.Pattern)
	}
	if l.Default != nil {
		words = append(words, "default "+string(l.Default))
	}
	if len(words) > 0 {
		v.Description = strings.TrimSpace(v.Description + " (" + strings.Join(words, ", ") + ")")
	}
}

// callSchema is the form of one call of one of the tools.
func callSchema(tools []llm.Tool) json.RawMessage {
	type object map[string]any
	var forms []any
	for _, t := range tools {
		args := json.RawMessage(`{"type":"object","properties":{}}`)
		if len(t.Params) > 0 {
			args = t.Params
		}
		forms = append(forms, object{"type": "object", "required": []string{"name", "arguments"},
			"properties": object{"name": object{"const": t.Name}, "arguments": args}})
	}
	b, err := json.Marshal(object{"anyOf": forms})
	if err != nil {
		return nil // Params that are no JSON: offer has refused them
	}
	return b
}
