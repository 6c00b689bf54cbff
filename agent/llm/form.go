package llm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"edged/agent"
	"edged/agent/llm/schema"
)

// Forms makes a model out of one that may have no tools of its own, and that
// can call them all the same: it first picks a tool or an answer, then writes
// the arguments, both held to a bounded schema. A model that has tools is asked
// as it is. Whatever asks a model goes through here: what is no order is made fit
// for a prompt (see [Quote]). Errors are the model's own.
func Forms(m Model) Model { return &formModel{m: m} }

type formModel struct {
	m     Model
	mu    sync.Mutex // guards known and plain
	known bool
	plain bool // it has no tools
}

var (
	_ Describer = (*formModel)(nil)
	_ Embedder  = (*formModel)(nil)
	_ Warmer    = (*formModel)(nil)
)

// Describe is what the model says of itself, and that it can call tools.
func (f *formModel) Describe(ctx context.Context) (Info, error) {
	info := Info{Tools: true, Thinking: true, Schema: true}
	d, ok := f.m.(Describer)
	if ok {
		var err error
		if info, err = d.Describe(ctx); err != nil {
			return info, err
		}
	}
	f.mu.Lock()
	if !f.known {
		f.known, f.plain = true, !info.Tools
	}
	f.mu.Unlock()
	info.Tools = true
	return info, nil
}

// Embed is the model's own.
func (f *formModel) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if e, ok := f.m.(Embedder); ok {
		return e.Embed(ctx, texts)
	}
	return nil, fmt.Errorf("llm: %w", ErrNoEmbedding)
}

// Warm is the model's own.
func (f *formModel) Warm(ctx context.Context) error {
	if w, ok := f.m.(Warmer); ok {
		return w.Warm(ctx)
	}
	return nil
}

// Chat asks, in forms where that is needed.
func (f *formModel) Chat(ctx context.Context, r Request, say func(string) error) (Message, error) {
	r.Messages = fit(r.Messages)
	f.mu.Lock()
	known, plain := f.known, f.plain
	f.mu.Unlock()
	if !known && len(r.Tools) > 0 {
		if _, err := f.Describe(ctx); err == nil { // otherwise the request itself will say what is wrong
			f.mu.Lock()
			plain = f.plain
			f.mu.Unlock()
		}
	}
	if !plain {
		m, err := f.m.Chat(ctx, r, say)
		if !errors.Is(err, ErrNoTools) || len(r.Tools) == 0 {
			return m, err
		}
		f.mu.Lock()
		f.known, f.plain = true, true
		f.mu.Unlock()
	}
	return f.forms(ctx, r, say)
}

// replyLength bounds an answer in words that comes in a form.
const replyLength = 500

func (f *formModel) forms(ctx context.Context, r Request, say func(string) error) (Message, error) {
	tools := r.Tools
	r.Messages, r.Tools = flat(r.Messages), nil
	choice := r.Choice
	r.Choice = ChoiceAuto
	if len(tools) == 0 || choice == ChoiceNone || r.Schema != nil {
		return f.m.Chat(ctx, r, say)
	}
	r.Think = false
	r.Messages = withText(r.Messages, toolList(tools))
	pick := r
	pick.Schema = pickForm(tools, choice == ChoiceRequired)
	first, err := f.m.Chat(ctx, pick, nil)
	if err != nil {
		return Message{}, err
	}
	var picked struct{ Tool, Reply string }
	if err := json.Unmarshal([]byte(strings.TrimSpace(first.Text)), &picked); err != nil {
		return Message{}, fmt.Errorf("%w: %w", ErrSchema, err)
	}
	answer := Message{Role: Assistant, Finish: FinishStop, Usage: first.Usage, Text: picked.Reply}
	var tool *Tool
	for i := range tools {
		if tools[i].Name == picked.Tool {
			tool = &tools[i]
		}
	}
	if tool == nil {
		if say != nil {
			err = say(answer.Text)
		}
		return answer, err
	}
	answer.Text, answer.Finish = "", FinishCall
	args, usage, err := f.arguments(ctx, r, *tool)
	answer.Usage.Calls = max(answer.Usage.Calls, 1)
	answer.Usage = plus(answer.Usage, usage)
	answer.Calls = []Call{{Name: tool.Name, Args: args}}
	return answer, err
}

func (f *formModel) arguments(ctx context.Context, r Request, tool Tool) (json.RawMessage, agent.Usage, error) {
	s, err := schema.ParseLoose(tool.Params)
	if err != nil {
		return nil, agent.Usage{}, fmt.Errorf("%w: %w", ErrBadSchema, err)
	}
	if len(s.Properties) == 0 {
		return json.RawMessage("{}"), agent.Usage{}, nil
	}
	bound := s.Bound()
	text, err := schema.Encode(bound)
	if err != nil {
		return nil, agent.Usage{}, fmt.Errorf("%w: %w", ErrBadSchema, err)
	}
	r.Schema = text
	r.Messages = withNote(r.Messages, "Give the arguments of "+tool.Name+" as JSON: "+bound.Prose()+".")
	answer, err := f.m.Chat(ctx, r, nil)
	if err != nil {
		return nil, agent.Usage{}, err
	}
	args := json.RawMessage(strings.TrimSpace(answer.Text))
	if !json.Valid(args) {
		return nil, answer.Usage, fmt.Errorf("%w: not JSON", ErrSchema)
	}
	usage := answer.Usage
	usage.Calls = max(usage.Calls, 1)
	return args, usage, nil
}

// pickForm is the schema of the first question: reason before decision.
func pickForm(tools []Tool, must bool) json.RawMessage {
	names := []any{}
	for _, t := range tools {
		names = append(names, t.Name)
	}
	if !must {
		names = append(names, "none")
	}
	why, reply := 120, replyLength
	text, _ := schema.Encode(&schema.Schema{Kind: schema.Object, Properties: []schema.Property{
		{Name: "reason", Schema: &schema.Schema{Kind: schema.String, MaxLength: &why}, Required: true},
		{Name: "tool", Schema: &schema.Schema{Kind: schema.String, Enum: names}, Required: true},
		{Name: "reply", Schema: &schema.Schema{Kind: schema.String, MaxLength: &reply, Doc: "what to say if no tool is needed"}, Required: true},
	}})
	return text
}

// toolList tells the tools in words.
func toolList(tools []Tool) string {
	var b strings.Builder
	b.WriteString("Tools:")
	for _, t := range tools {
		fmt.Fprintf(&b, "\n- %s: %s", t.Name, t.Doc)
		if s, err := schema.ParseLoose(t.Params); err == nil && len(s.Properties) > 0 {
			b.WriteString(" Arguments: " + s.Prose())
		}
	}
	b.WriteString("\nAnswer with JSON: reason, then tool (\"none\" to just answer), then reply.")
	return b.String()
}

// flat writes calls and results as words, for a model that knows neither.
func flat(list []Message) []Message {
	out := make([]Message, 0, len(list))
	for _, m := range list {
		switch {
		case m.Role == ToolRole:
			text := "Result of " + m.Name + ": " + m.Text
			if n := len(out); n > 0 && out[n-1].Role == User { // results of one answer are one message
				out[n-1].Text += "\n" + text
				continue
			}
			out = append(out, Message{Role: User, Text: text})
		case len(m.Calls) > 0:
			lines := []string{}
			if m.Text != "" {
				lines = append(lines, m.Text)
			}
			for _, c := range m.Calls {
				lines = append(lines, fmt.Sprintf(`{"tool":%q,"arguments":%s}`, c.Name, c.Args))
			}
			out = append(out, Message{Role: Assistant, Text: strings.Join(lines, "\n")})
		default:
			out = append(out, m)
		}
	}
	return out
}

// withText puts a text at the end of the system's.
func withText(list []Message, text string) []Message {
	out := append([]Message(nil), list...)
	if len(out) > 0 && out[0].Role == System {
		out[0].Text += "\n\n" + text
		return out
	}
	return append([]Message{{Role: System, Text: text}}, out...)
}

// withNote puts a note beside the newest words.
func withNote(list []Message, note string) []Message {
	out := append([]Message(nil), list...)
	last := &out[len(out)-1]
	last.Notes = strings.TrimSpace(last.Notes + "\n" + note)
	return out
}
