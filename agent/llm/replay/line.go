package replay

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"edged/agent/llm"
)

const format = "edged model traffic 1"

// line is one line of a recording; one of Format, Info, Request and Embed is
// set.
type line struct {
	Format  string       `json:"format,omitempty"`
	Model   string       `json:"model,omitempty"`
	Info    *llm.Info    `json:"info,omitempty"`
	Print   string       `json:"print,omitempty"` // fingerprint of the request
	Request *request     `json:"request,omitempty"`
	Pieces  []string     `json:"pieces,omitempty"` // as they were said
	Message *llm.Message `json:"message,omitempty"`
	Error   *failure     `json:"error,omitempty"`
	Millis  int64        `json:"ms,omitempty"` // how long it took
	Embed   *embedding   `json:"embed,omitempty"`
}

type embedding struct {
	Texts   []string    `json:"texts"`
	Vectors [][]float32 `json:"vectors"`
}

// request is what a model is told: an [llm.Request] without what it is not.
type request struct {
	Messages    []llm.Message   `json:"messages"`
	Tools       []tool          `json:"tools,omitempty"`
	Choice      llm.Choice      `json:"choice,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"`
	Temperature *float64        `json:"temperature,omitempty"`
	Seed        *int64          `json:"seed,omitempty"`
	MaxTokens   int             `json:"max_tokens,omitempty"`
	Think       bool            `json:"think,omitempty"`
}

type tool struct {
	Name   string          `json:"name"`
	Doc    string          `json:"doc,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
}

// record keeps of a request what a model is told, in one form: keys of
// objects in order, calls numbered as they come (servers draw their ids by
// lot), nothing that is never sent.
func record(r llm.Request) request {
	q := request{
		Choice: r.Choice, Schema: tidy(r.Schema),
		Temperature: r.Temperature, Seed: r.Seed, MaxTokens: r.MaxTokens, Think: r.Think,
	}
	if q.Choice == llm.ChoiceAuto {
		q.Choice = ""
	}
	for _, t := range r.Tools {
		q.Tools = append(q.Tools, tool{t.Name, t.Doc, tidy(t.Params)})
	}
	ids := map[string]string{}
	number := func(id string) string {
		if id == "" {
			return ""
		}
		if ids[id] == "" {
			ids[id] = "call-" + strconv.Itoa(len(ids)+1)
		}
		return ids[id]
	}
	for _, m := range r.Messages {
		k := llm.Message{Role: m.Role, Text: m.Prompt(), CallID: number(m.CallID), Name: m.Name}
		for _, c := range m.Calls {
			k.Calls = append(k.Calls, llm.Call{ID: number(c.ID), Name: c.Name, Args: tidy(c.Args)})
		}
		q.Messages = append(q.Messages, k)
	}
	return q
}

// tidy writes JSON in one form; what is no JSON becomes a JSON string.
func tidy(b json.RawMessage) json.RawMessage {
	if len(b) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil || d.More() {
		v = string(b)
	}
	out, err := json.Marshal(v)
	if err != nil {
		out = []byte("null")
	}
	return out
}

// fingerprint names a request by what the model is told.
func fingerprint(q request) string {
	for i, t := range q.Tools { // a file may have been written by hand
		q.Tools[i].Params = tidy(t.Params)
	}
	q.Schema = tidy(q.Schema)
	b, err := json.Marshal(q)
	if err != nil {
		b = []byte(err.Error())
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// failure is a recorded error.
type failure struct {
	Kinds  []string `json:"kinds,omitempty"` // the sentinels it wraps
	Text   string   `json:"text"`
	Model  string   `json:"model,omitempty"`
	Remedy string   `json:"remedy,omitempty"`
}

type kind struct {
	name string
	err  error
}

// kinds are the errors that callers decide on, as they are called in files.
func kinds() []kind {
	return []kind{
		{"down", llm.ErrDown},
		{"unknown model", llm.ErrUnknownModel},
		{"no tools", llm.ErrNoTools},
		{"no thinking", llm.ErrNoThinking},
		{"no embeddings", llm.ErrNoEmbedding},
		{"cut off", llm.ErrCutOff},
		{"no done", llm.ErrNoDone},
		{"empty", llm.ErrEmpty},
		{"schema", llm.ErrSchema},
		{"bad schema", llm.ErrBadSchema},
		{"context", llm.ErrContext},
		{"queue full", llm.ErrQueueFull},
		{"memory", llm.ErrMemory},
		{"server", llm.ErrServer},
		{"no match", llm.ErrNoMatch},
		{"differs", llm.ErrDiffers},
		{"cancelled", context.Canceled},
		{"timeout", context.DeadlineExceeded},
	}
}

func failed(err error) *failure {
	f := &failure{Text: err.Error()}
	for _, k := range kinds() {
		if errors.Is(err, k.err) {
			f.Kinds = append(f.Kinds, k.name)
		}
	}
	if t, ok := errors.AsType[*llm.Trouble](err); ok {
		f.Text, f.Model, f.Remedy = t.Err.Error(), t.Model, t.Remedy
	}
	return f
}

// err makes the error again, with the same words and the same sentinels.
func (f *failure) err() error {
	e := &again{text: f.Text}
	for _, k := range kinds() {
		for _, name := range f.Kinds {
			if k.name == name {
				e.is = append(e.is, k.err)
			}
		}
	}
	if f.Model != "" || f.Remedy != "" {
		return &llm.Trouble{Err: e, Model: f.Model, Remedy: f.Remedy}
	}
	return e
}

// again is a recorded error that is returned once more.
type again struct {
	text string
	is   []error
}

func (a *again) Error() string   { return a.text }
func (a *again) Unwrap() []error { return a.is }

// clip quotes the beginning of a text for a message.
func clip(s string) string {
	const most = 60
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return fmt.Sprintf("%q", s)
}
