package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"edged/agent"
	"edged/agent/llm"
	"edged/agent/llm/wire"
)

const (
	maxText  = 1 << 20 // of an answer of a server that ignores the limit, bytes
	maxCalls = 100
)

// answer collects the pieces of one answer.
type answer struct {
	wire    *wire.Client
	request llm.Request
	say     func(string) error

	text, thinking strings.Builder
	calls          []call
	reason         string // why it ended; empty while it hasn't
	usage          agent.Usage
}

type call struct {
	index    int
	id, name string
	args     []byte
}

// chunk is a piece of an answer, or all of it where a server doesn't stream.
type chunk struct {
	Choices []struct {
		Delta   part   `json:"delta"`
		Message part   `json:"message"`
		Finish  string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
	} `json:"usage"`
	Error json.RawMessage `json:"error"`
}

type part struct {
	Content   string `json:"content"`
	Reasoning string `json:"reasoning"`         // Ollama, newer vLLM
	Thinking  string `json:"reasoning_content"` // llama.cpp, older vLLM
	Calls     []struct {
		Index    *int   `json:"index"`
		ID       string `json:"id"`
		Function struct {
			Name string          `json:"name"`
			Args json.RawMessage `json:"arguments"` // a string in pieces; some send an object
		} `json:"function"`
	} `json:"tool_calls"`
}

func (a *answer) read(ctx context.Context, resp *http.Response) (llm.Message, error) {
	a.usage.Calls = 1
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		return a.whole(ctx, resp.Body)
	}
	lines := wire.NewLines(resp.Body)
	for {
		line, err := lines.Next()
		switch {
		case ctx.Err() != nil:
			return a.spent(), a.wire.Broken(ctx, err)
		case err == io.EOF:
			return a.finish()
		case errors.Is(err, wire.ErrLine):
			return a.spent(), fmt.Errorf("openai: %w: %w", llm.ErrServer, err)
		case err != nil && a.reason != "": // all was said; only the usage is lost
			return a.finish()
		case err != nil:
			return a.spent(), a.wire.Broken(ctx, err)
		}
		done, err := a.line(line)
		if err != nil {
			return a.spent(), err
		}
		if done {
			return a.finish()
		}
	}
}

// line takes one line of an event stream; done is its last word.
func (a *answer) line(line []byte) (done bool, err error) {
	field, data, _ := bytes.Cut(line, []byte(":"))
	data = bytes.TrimSpace(data)
	switch string(field) {
	case "data":
	case "error": // llama.cpp
		return false, a.wire.Refused(0, wire.ErrorText(data, 0))
	case "", "event", "id", "retry": // comments keep the line alive
		return false, nil
	default:
		return false, fmt.Errorf("openai: %w: this is no event: %s", llm.ErrServer, wire.Excerpt(string(line), 80))
	}
	switch {
	case len(data) == 0:
		return false, nil
	case string(data) == "[DONE]":
		return true, nil
	}
	return false, a.chunk(data)
}

func (a *answer) whole(ctx context.Context, body io.Reader) (llm.Message, error) {
	b, err := io.ReadAll(io.LimitReader(body, maxText+wire.MaxLine))
	if err != nil || ctx.Err() != nil {
		return a.spent(), a.wire.Broken(ctx, err)
	}
	if err := a.chunk(b); err != nil {
		return a.spent(), err
	}
	return a.finish()
}

func (a *answer) chunk(data []byte) error {
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		return fmt.Errorf("openai: %w: this is no piece of an answer: %s", llm.ErrServer, wire.Excerpt(string(data), 80))
	}
	if len(c.Error) > 0 && string(c.Error) != "null" {
		return a.wire.Refused(0, wire.ErrorText(data, 0))
	}
	if c.Usage != nil {
		a.usage.PromptTokens, a.usage.OutputTokens = c.Usage.Prompt, c.Usage.Completion
	}
	if len(c.Choices) == 0 {
		return nil
	}
	x := c.Choices[0]
	if x.Finish != "" {
		a.reason = x.Finish
	}
	if err := a.add(x.Delta); err != nil {
		return err
	}
	return a.add(x.Message)
}

func (a *answer) add(p part) error {
	a.thinking.WriteString(p.Reasoning + p.Thinking)
	a.text.WriteString(p.Content)
	size := a.text.Len() + a.thinking.Len()
	for i, c := range p.Calls {
		if c.Index != nil {
			i = *c.Index
		} else if last := len(a.calls) - 1; c.ID == "" && last >= 0 {
			i = a.calls[last].index
		} else {
			i += len(a.calls)
		}
		k := a.at(i)
		if c.ID != "" {
			k.id = c.ID
		}
		if c.Function.Name != "" {
			k.name = c.Function.Name
		}
		var words string
		switch args := c.Function.Args; {
		case len(args) == 0 || string(args) == "null":
		case json.Unmarshal(args, &words) == nil:
			k.args = append(k.args, words...)
		default:
			k.args = append(k.args[:0], args...)
		}
		size += len(k.args)
	}
	if size > maxText || len(a.calls) > maxCalls {
		return fmt.Errorf("openai: %w: it doesn't stop", llm.ErrServer)
	}
	if p.Content == "" || a.say == nil {
		return nil
	}
	return a.say(p.Content)
}

// at finds or adds the call with a number.
func (a *answer) at(index int) *call {
	for i := range a.calls {
		if a.calls[i].index == index {
			return &a.calls[i]
		}
	}
	a.calls = append(a.calls, call{index: index})
	return &a.calls[len(a.calls)-1]
}

// spent is what goes with an error: no words, but what they cost.
func (a *answer) spent() llm.Message { return llm.Message{Role: llm.Assistant, Usage: a.usage} }

// finish judges an answer that is whole, or should be.
func (a *answer) finish() (llm.Message, error) {
	m := a.spent()
	switch a.reason {
	case "":
		return a.spent(), fmt.Errorf("openai: %w", llm.ErrNoDone)
	case "length":
		return a.spent(), fmt.Errorf("openai: %w after %d tokens", llm.ErrCutOff, m.Usage.OutputTokens)
	}
	m.Text, m.Thinking = strings.TrimSpace(a.text.String()), strings.TrimSpace(a.thinking.String())
	for i, c := range a.calls {
		if c.id == "" {
			c.id = fmt.Sprintf("call_%d_%d", len(a.request.Messages), i)
		}
		var args bytes.Buffer
		switch c.args = bytes.TrimSpace(c.args); {
		case len(c.args) == 0 || string(c.args) == "null":
			args.WriteString("{}")
		case c.args[0] != '{' || json.Compact(&args, c.args) != nil:
			return a.spent(), fmt.Errorf("openai: %w: arguments of call %s are no object: %s", llm.ErrSchema, c.name, wire.Excerpt(string(c.args), 80))
		}
		m.Calls = append(m.Calls, llm.Call{ID: c.id, Name: c.name, Args: args.Bytes()})
	}
	m.Finish = llm.FinishStop
	switch {
	case len(m.Calls) > 0:
		m.Finish = llm.FinishCall
	case m.Text == "" && m.Usage.OutputTokens > 1:
		return a.spent(), fmt.Errorf("openai: %w (%d)", llm.ErrEmpty, m.Usage.OutputTokens)
	case a.request.Choice == llm.ChoiceRequired && a.request.Schema == nil && len(a.request.Tools) > 0:
		return a.spent(), fmt.Errorf("openai: %w: it called no tool but said %s", llm.ErrSchema, wire.Excerpt(m.Text, 80))
	case a.request.Schema != nil && !json.Valid([]byte(m.Text)):
		return a.spent(), fmt.Errorf("openai: %w: it is no JSON: %s", llm.ErrSchema, wire.Excerpt(m.Text, 80))
	}
	return m, nil
}
