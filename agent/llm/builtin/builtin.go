// Package builtin is the model inside the binary: about a million weights that
// turn one spoken-style command into one call of a tool, or decline. It needs
// no server, no file and no network, and answers in milliseconds.
//
// Its one rule: when in doubt, nothing moves. What it writes is kept within the
// offered tools' schemas; numbers and names are only what was heard; a command
// that is negated, or bound to a condition, is declined by rule before the
// model; and what the model is not sure of is declined too.
//
//	m, err := builtin.New(builtin.Options{})
//	answer, err := m.Chat(ctx, llm.Request{Messages: dialogue, Tools: tools}, nil)
//
// It does not chat, sees only what was said last, and knows only the tools it
// was trained for; package train makes one for other tools.
package builtin

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"edged/agent"
	"edged/agent/llm"
	"edged/agent/llm/builtin/engine"
	"edged/agent/llm/builtin/mask"
)

//go:embed robot-q8.gguf
var robot []byte

// Options sets up a model. The zero value is the embedded one.
type Options struct {
	Name string // as scripts write it; "" = builtin
	Data []byte // a GGUF file made by package train; nil = the embedded one
	// Sure is how likely a call must be, from 0 to 1, to be made; 0 = 0.5, and
	// for tools that move something 0.8.
	Sure, SureMotion float64
}

// Model is a model that is ready. It may be used concurrently; each answer that
// is under way takes about a megabyte.
type Model struct {
	opt      Options
	file     *engine.File
	known    Known
	sessions sync.Pool
}

var (
	_ llm.Model     = (*Model)(nil)
	_ llm.Describer = (*Model)(nil)
)

// The bounds of one answer.
const (
	window      = 256       // tokens that a session holds
	mostWords   = 48        // a command is no longer
	mostAnswer  = 160       // tokens, if the request sets none
	declineTool = "decline" // offered by agents, not by robots
	defaultSure = 0.5
	motionSure  = 0.8
)

// New reads a model.
func New(o Options) (*Model, error) {
	if o.Data == nil {
		o.Data = robot
	}
	if o.Name == "" {
		o.Name = "builtin"
	}
	if o.Sure == 0 {
		o.Sure = defaultSure
	}
	if o.SureMotion == 0 {
		o.SureMotion = motionSure
	}
	f, err := engine.Read(o.Data)
	if err != nil {
		return nil, fmt.Errorf("builtin: new: %w", err)
	}
	o.Data = nil
	m := &Model{opt: o, file: f}
	if text, ok := f.Extra[KnownKey]; ok {
		if err := json.Unmarshal([]byte(text), &m.known); err != nil {
			return nil, fmt.Errorf("builtin: new: %s: %w", KnownKey, err)
		}
	}
	m.sessions.New = func() any { return f.Net.Session(window) }
	return m, nil
}

// Describe says what the model can do.
func (m *Model) Describe(context.Context) (llm.Info, error) {
	return llm.Info{Name: m.opt.Name, Tools: true, Schema: true, Context: window, Warm: true}, nil
}

// Known says what the model was trained for.
func (m *Model) Known() Known { return m.known }

// Chat answers the last message: words of a person with a call, a tool's
// result with a sentence, any words with JSON if the request has a schema.
// Sampling has no effect but for MaxTokens: the likeliest answer is given.
func (m *Model) Chat(ctx context.Context, r llm.Request, say func(string) error) (llm.Message, error) {
	if err := ctx.Err(); err != nil {
		return llm.Message{}, err
	}
	if len(r.Messages) == 0 {
		return llm.Message{}, m.decline("nothing was said")
	}
	last := r.Messages[len(r.Messages)-1]
	switch {
	case r.Schema != nil:
		return m.fill(ctx, r, said(r.Messages), say)
	case last.Role == llm.ToolRole && !strings.HasPrefix(last.CallID, ownCall):
		return llm.Message{}, m.decline("it did not ask for that tool") // another model of a list did, and goes on
	case last.Role == llm.ToolRole:
		return m.close(ctx, last.Text, say)
	case last.Role != llm.User:
		return llm.Message{}, m.decline("nothing was asked")
	case r.Choice == llm.ChoiceNone || len(r.Tools) == 0:
		return llm.Message{}, m.decline("it only calls tools, and has none here")
	}
	return m.call(ctx, r, last.Text)
}

// said gives what a person said last.
func said(dialogue []llm.Message) string {
	for _, d := range slices.Backward(dialogue) {
		if d.Role == llm.User {
			return d.Text
		}
	}
	return ""
}

func (m *Model) decline(why string) error {
	return &llm.Trouble{Err: fmt.Errorf("%w: %s", llm.ErrNoMatch, why), Model: m.opt.Name}
}

// call finds the call that a command asks for.
func (m *Model) call(ctx context.Context, r llm.Request, text string) (llm.Message, error) {
	h := Hear(text)
	switch n := h.Words(); {
	case n == 0:
		return llm.Message{}, m.decline("nothing was said")
	case n > mostWords:
		return llm.Message{}, m.decline(fmt.Sprintf("%d words are no command", n))
	}
	tools, err := m.able(r.Tools, h)
	if err != nil {
		return llm.Message{}, err
	}
	calls, err := mask.Calls(tools, h.Text)
	if errors.Is(err, mask.ErrImpossible) {
		return llm.Message{}, m.decline("what was said has nothing in it that these tools need")
	} else if err != nil {
		return llm.Message{}, err
	}
	run := m.begin(ctx, h.Text)
	defer m.end(run)
	made, err := run.call(calls, r.MaxTokens)
	if err != nil {
		return llm.Message{}, m.trouble(err)
	}
	if made.text == "" {
		return llm.Message{}, m.decline("no tool fits what was said")
	}
	var c struct {
		Name      string
		Arguments map[string]any
	}
	if err := json.Unmarshal([]byte(made.text), &c); err != nil {
		return llm.Message{}, fmt.Errorf("builtin: call: %w", err)
	}
	t := tools[slices.IndexFunc(tools, func(t mask.Tool) bool { return t.Name == c.Name })]
	if err := m.doubt(t, c.Arguments, h, made.sure); err != nil {
		return llm.Message{}, err
	}
	h.restore(t, c.Arguments)
	args, err := json.Marshal(c.Arguments)
	if err != nil {
		return llm.Message{}, fmt.Errorf("builtin: call: %w", err)
	}
	return llm.Message{
		Role: llm.Assistant, Finish: llm.FinishCall, Usage: run.usage(),
		Calls: []llm.Call{{ID: callID(r.Messages), Name: c.Name, Args: args}},
	}, nil
}

// ownCall begins the ids of this model's calls.
const ownCall = "builtin-"

// callID numbers the calls of a dialogue.
func callID(dialogue []llm.Message) string {
	n := 1
	for _, d := range dialogue {
		n += len(d.Calls)
	}
	return fmt.Sprintf("%s%d", ownCall, n)
}

// able picks the offered tools that the model knows and that the words may call.
func (m *Model) able(offered []llm.Tool, h Heard) ([]mask.Tool, error) {
	var out []mask.Tool
	var names, unknown []string
	for _, t := range offered {
		k := m.known.tool(t.Name)
		if k == nil && m.known.Tools != nil {
			if t.Name != declineTool {
				unknown = append(unknown, t.Name)
			}
			continue
		}
		names = append(names, t.Name)
		s, err := mask.Read(t.Params)
		if err != nil {
			return nil, &llm.Trouble{Err: fmt.Errorf("%w: tool %s: %w", llm.ErrBadSchema, t.Name, err), Model: m.opt.Name}
		}
		one := mask.Tool{Name: t.Name, Params: s}
		if k != nil {
			one.Values, one.Tails = k.Values, k.Tails
		}
		out = append(out, one)
	}
	if names == nil {
		var known []string
		for _, t := range m.known.Tools {
			known = append(known, t.Name)
		}
		err := fmt.Errorf("%w: it was offered no tool that it knows", llm.ErrNoMatch)
		if unknown != nil {
			err = fmt.Errorf("%w (only %s)", err, strings.Join(unknown, ", "))
		}
		return nil, &llm.Trouble{
			Err:    err,
			Model:  m.opt.Name,
			Remedy: "it knows " + strings.Join(known, ", ") + "; train one for these tools",
		}
	}
	if negated(h) > 0 { // only what carries the words along may still be meant
		out = slices.DeleteFunc(out, func(t mask.Tool) bool { return !carries(t.Params) })
		if len(out) == 0 {
			return nil, m.decline("it is told what not to do")
		}
	}
	return out, nil
}

// doubt declines a call that is not to be made after all.
func (m *Model) doubt(t mask.Tool, args map[string]any, h Heard, sure float64) error {
	k := m.known.tool(t.Name)
	moves := k != nil && k.Motion
	if n := negated(h); n > 0 && (moves || n > carried(args, negated)) {
		return m.decline("it is told what not to do")
	}
	least := m.opt.Sure
	if moves {
		least = m.opt.SureMotion
		if conditional(h) > 0 {
			return m.decline("it can't wait for a time or a condition")
		}
		if w := statement(h); w != "" && !slices.Contains(k.Begins, w) {
			return m.decline("that is a question or a statement")
		}
		if m.known.loose(h, k, args) {
			return m.decline("it leaves open where to, or how far")
		}
	}
	if k != nil && k.Sure > 0 {
		least = k.Sure
	}
	if m.known.foreign(h, args) {
		return m.decline("most of its words are unknown")
	}
	if k != nil && !k.about(h, args) {
		return m.decline(fmt.Sprintf("nothing in it is about %s", t.Name))
	}
	if m.known.double(h, t, args) {
		return m.decline("one thing at a time")
	}
	if sure < least {
		return m.decline(fmt.Sprintf("it is not sure (%.2f) that %s was meant", sure, t.Name))
	}
	return nil
}

// fill answers with JSON that fits the request's schema.
func (m *Model) fill(ctx context.Context, r llm.Request, text string, say func(string) error) (llm.Message, error) {
	s, err := mask.Read(r.Schema)
	var answer *mask.Mask
	h := Hear(text)
	if h.Words() > mostWords {
		h = Hear(strings.Join(strings.Fields(h.Text)[:mostWords], " "))
	}
	if err == nil {
		answer, err = mask.Answer(s, h.Text)
	}
	if err != nil {
		return llm.Message{}, &llm.Trouble{Err: fmt.Errorf("%w: %w", llm.ErrBadSchema, err), Model: m.opt.Name}
	}
	run := m.begin(ctx, h.Text)
	defer m.end(run)
	made, err := run.write(answer, r.MaxTokens, say)
	if err != nil {
		return llm.Message{}, m.trouble(err)
	}
	return llm.Message{Role: llm.Assistant, Text: made, Finish: llm.FinishStop, Usage: run.usage()}, nil
}

// close says in a sentence what a tool gave, word by word.
func (m *Model) close(ctx context.Context, result string, say func(string) error) (llm.Message, error) {
	text := m.known.Replies.Sentence(result)
	if why, failed := failure(result); failed {
		return llm.Message{}, &llm.End{Reply: text, Err: fmt.Errorf("%w: %s", agent.ErrFailed, why)}
	}
	for _, piece := range strings.SplitAfter(text, " ") {
		if err := ctx.Err(); err != nil {
			return llm.Message{}, err
		}
		if say == nil {
			break
		}
		if err := say(piece); err != nil {
			return llm.Message{}, err
		}
	}
	return llm.Message{Role: llm.Assistant, Text: text, Finish: llm.FinishStop, Usage: agent.Usage{Calls: 1}}, nil
}

// trouble names the model in an error of its own.
func (m *Model) trouble(err error) error {
	if errors.Is(err, llm.ErrCutOff) {
		return &llm.Trouble{Err: err, Model: m.opt.Name, Remedy: "allow more tokens, or make the schema smaller"}
	}
	return err
}
