package ollama

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ollama/ollama/api"

	"edged/agent"
	"edged/agent/llm"
	"edged/agent/llm/wire"
)

// maxText bounds an answer of a server that ignores num_predict.
const maxText = 1 << 20

// answer collects the pieces of one answer.
type answer struct {
	wire    *wire.Client
	request llm.Request
	say     func(string) error

	text, thinking strings.Builder
	calls          []llm.Call
}

// piece is one line of the stream.
type piece struct {
	api.ChatResponse
	Error  string `json:"error"`
	Status int    `json:"status"`
}

func (a *answer) read(ctx context.Context, body io.Reader) (llm.Message, error) {
	lines := wire.NewLines(body)
	for {
		line, err := lines.Next()
		switch {
		case ctx.Err() != nil:
			return a.spent(nil), a.wire.Broken(ctx, err)
		case err == io.EOF:
			return a.spent(nil), fmt.Errorf("ollama: %w", llm.ErrNoDone)
		case errors.Is(err, wire.ErrLine):
			return a.spent(nil), fmt.Errorf("ollama: %w: %w", llm.ErrServer, err)
		case err != nil:
			return a.spent(nil), a.wire.Broken(ctx, err)
		}
		var p piece
		if err := json.Unmarshal(line, &p); err != nil {
			return a.spent(nil), fmt.Errorf("ollama: %w: this is no line of an answer: %s", llm.ErrServer, wire.Excerpt(string(line), 80))
		}
		if p.Error != "" {
			return a.spent(nil), a.wire.Refused(p.Status, p.Error)
		}
		if err := a.add(p.Message); err != nil {
			return a.spent(nil), err
		}
		if p.Done {
			return a.finish(&p)
		}
	}
}

func (a *answer) add(m api.Message) error {
	a.thinking.WriteString(m.Thinking)
	a.text.WriteString(m.Content)
	for _, c := range m.ToolCalls {
		args, err := json.Marshal(c.Function.Arguments)
		if err != nil {
			return fmt.Errorf("ollama: %w: arguments of call %s: %w", llm.ErrServer, c.Function.Name, err)
		}
		if string(args) == "null" {
			args = json.RawMessage("{}")
		}
		a.call(c.ID, c.Function.Name, args)
	}
	if a.text.Len()+a.thinking.Len() > maxText || len(a.calls) > 100 {
		return fmt.Errorf("ollama: %w: it doesn't stop", llm.ErrServer)
	}
	if m.Content == "" || a.say == nil || a.required() {
		return nil
	}
	return a.say(m.Content)
}

// call adds a call; ids that a server leaves out are made up from the place in
// the dialogue, so that they are the same when a dialogue is replayed.
func (a *answer) call(id, name string, args json.RawMessage) {
	if id == "" {
		id = fmt.Sprintf("call_%d_%d", len(a.request.Messages), len(a.calls))
	}
	a.calls = append(a.calls, llm.Call{ID: id, Name: name, Args: args})
}

// required reports whether the text is the form of a call: see callSchema.
func (a *answer) required() bool {
	return a.request.Choice == llm.ChoiceRequired && a.request.Schema == nil && len(a.request.Tools) > 0
}

// spent is what goes with an error: no words, but what they cost.
func (a *answer) spent(p *piece) llm.Message {
	m := llm.Message{Role: llm.Assistant, Usage: agent.Usage{Calls: 1}}
	if p != nil {
		m.Usage.PromptTokens, m.Usage.OutputTokens = p.PromptEvalCount, p.EvalCount
	}
	return m
}

// finish judges an answer that is whole.
func (a *answer) finish(p *piece) (llm.Message, error) {
	if p.DoneReason == "length" {
		return a.spent(p), fmt.Errorf("ollama: %w after %d tokens", llm.ErrCutOff, p.EvalCount)
	}
	m := a.spent(p)
	m.Text, m.Thinking, m.Calls = strings.TrimSpace(a.text.String()), strings.TrimSpace(a.thinking.String()), a.calls
	if a.required() && len(m.Calls) == 0 {
		var form struct {
			Name      string
			Arguments json.RawMessage
		}
		offered := func(t llm.Tool) bool { return t.Name == form.Name }
		if err := json.Unmarshal([]byte(m.Text), &form); err != nil || !slices.ContainsFunc(a.request.Tools, offered) {
			return a.spent(p), fmt.Errorf("ollama: %w: it called no tool but said %s", llm.ErrSchema, wire.Excerpt(m.Text, 80))
		}
		if form.Arguments == nil {
			form.Arguments = json.RawMessage("{}")
		}
		var args bytes.Buffer
		_ = json.Compact(&args, form.Arguments) // valid: it was just parsed
		a.call("", form.Name, args.Bytes())
		m.Text, m.Calls = "", a.calls
	}
	m.Finish = llm.FinishStop
	switch {
	case len(m.Calls) > 0:
		m.Finish = llm.FinishCall
	case m.Text == "" && p.EvalCount > 1:
		return a.spent(p), fmt.Errorf("ollama: %w (%d)", llm.ErrEmpty, p.EvalCount)
	case a.request.Schema != nil && !json.Valid([]byte(m.Text)):
		return a.spent(p), fmt.Errorf("ollama: %w: it is no JSON: %s", llm.ErrSchema, wire.Excerpt(m.Text, 80))
	}
	return m, nil
}
