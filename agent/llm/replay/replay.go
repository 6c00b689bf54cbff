// Package replay answers from recordings: what a model was asked and said is
// written to a file line by line, and a [Model] says it again.
//
// Its one rule: exactly or not at all. A request gets the answer that was
// recorded for the same request, piece by piece, errors too; any other gets a
// [Differs] that names the first message that is not the same.
//
//	rec := replay.NewRecorder(model, file, replay.RecorderOptions{Name: "ollama:qwen2.5:1.5b"})
//	… // rec is used in place of model
//	again, err := replay.Open("session.jsonl")
//	… // again is used in place of both
//
// A [Script] is the model for tests: its answers are given beforehand, and it
// keeps the prompts it saw.
package replay

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"edged/agent/llm"
)

// Model answers from a recording. Requests may come in any order; equal ones
// get their answers in the order in which they were recorded, each once.
// Vectors of texts are given as often as they are asked for. It may be used
// concurrently.
type Model struct {
	// Pace makes each answer take the time that the recorded one took. Set it
	// before the first request.
	Pace bool

	name string
	info *llm.Info

	mu      sync.Mutex // guards the rest
	chats   []*entry
	byPrint map[string][]*entry // not given yet, oldest first
	vectors map[string][]float32
}

var (
	_ llm.Model     = (*Model)(nil)
	_ llm.Describer = (*Model)(nil)
	_ llm.Embedder  = (*Model)(nil)
)

// entry is a recorded chat and whether its answer was given.
type entry struct {
	line
	given bool
}

// Open reads a recording.
func Open(path string) (*Model, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	defer f.Close()
	return Read(f, path)
}

// maxLine bounds a line of a recording: prompt, answer and all.
const maxLine = 16 << 20

// Read reads a recording that is not a file; name is for messages. Several
// recordings may follow each other.
func Read(r io.Reader, name string) (*Model, error) {
	m := &Model{name: name, byPrint: map[string][]*entry{}, vectors: map[string][]float32{}}
	in := bufio.NewScanner(r)
	in.Buffer(nil, maxLine)
	n := 0
	for in.Scan() {
		n++
		if len(in.Bytes()) == 0 {
			continue
		}
		var l line
		if err := json.Unmarshal(in.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("replay: %s:%d: %w", name, n, err)
		}
		if err := m.add(l); err != nil {
			return nil, fmt.Errorf("replay: %s:%d: %w", name, n, err)
		}
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("replay: %s:%d: %w", name, n+1, err)
	}
	return m, nil
}

func (m *Model) add(l line) error {
	switch {
	case l.Format != "":
		if l.Format != format {
			return fmt.Errorf("it is %q, want %q", l.Format, format)
		}
	case l.Info != nil:
		m.info = l.Info
	case l.Embed != nil:
		if len(l.Embed.Texts) != len(l.Embed.Vectors) {
			return errors.New("texts and vectors do not match")
		}
		for i, t := range l.Embed.Texts {
			m.vectors[t] = l.Embed.Vectors[i]
		}
	case l.Request != nil:
		// The fingerprint in the file is for people and their grep: the
		// request counts, so a file may be edited by hand.
		print := fingerprint(*l.Request)
		e := &entry{line: l}
		m.chats = append(m.chats, e)
		m.byPrint[print] = append(m.byPrint[print], e)
	default:
		return errors.New("neither a format, an info, a request nor an embedding")
	}
	return nil
}

// Chat gives the recorded answer to the same request.
func (m *Model) Chat(ctx context.Context, r llm.Request, say func(string) error) (llm.Message, error) {
	if err := ctx.Err(); err != nil {
		return llm.Message{}, err
	}
	e, err := m.take(r)
	if err != nil {
		return llm.Message{}, err
	}
	if m.Pace {
		if err := wait(ctx, time.Duration(e.Millis)*time.Millisecond); err != nil {
			return llm.Message{}, err
		}
	}
	if e.Error != nil {
		if err := utter(ctx, e.Pieces, say); err != nil {
			return llm.Message{}, err
		}
		return llm.Message{}, e.Error.err()
	}
	if e.Message == nil {
		return llm.Message{}, fmt.Errorf("replay: %s: %w: the line has neither message nor error", m.name, llm.ErrDiffers)
	}
	pieces := e.Pieces
	if len(pieces) == 0 && e.Message.Text != "" { // recorded without a listener
		pieces = []string{e.Message.Text}
	}
	if err := utter(ctx, pieces, say); err != nil {
		return llm.Message{}, err
	}
	a := *e.Message
	a.Calls = slices.Clone(a.Calls)
	return a, nil
}

// utter says the pieces until ctx ends or say fails.
func utter(ctx context.Context, pieces []string, say func(string) error) error {
	for _, p := range pieces {
		if say == nil {
			break
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := say(p); err != nil {
			return fmt.Errorf("replay: listener: %w", err)
		}
	}
	return ctx.Err()
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// take finds the next answer to a request and marks it as given.
func (m *Model) take(r llm.Request) (*entry, error) {
	asked := record(r)
	print := fingerprint(asked)
	m.mu.Lock()
	defer m.mu.Unlock()
	if list := m.byPrint[print]; len(list) > 0 {
		m.byPrint[print] = list[1:]
		list[0].given = true
		return list[0], nil
	}
	return nil, m.differs(asked, print)
}

// Left gives how many recorded answers were not asked for.
func (m *Model) Left() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, e := range m.chats {
		if !e.given {
			n++
		}
	}
	return n
}

// Describe gives what the recorded model said of itself.
func (m *Model) Describe(ctx context.Context) (llm.Info, error) {
	if err := ctx.Err(); err != nil {
		return llm.Info{}, err
	}
	if m.info != nil {
		return *m.info, nil
	}
	return llm.Info{Name: "replay:" + m.name, Tools: true, Thinking: true, Schema: true, Embed: len(m.vectors) > 0}, nil
}

// Embed gives the recorded vectors of the texts.
func (m *Model) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.vectors) == 0 {
		return nil, fmt.Errorf("replay: %s: %w", m.name, llm.ErrNoEmbedding)
	}
	out := make([][]float32, len(texts))
	for i, t := range texts {
		v, ok := m.vectors[t]
		if !ok {
			return nil, fmt.Errorf("replay: %s: %w: no vector of %s", m.name, llm.ErrDiffers, clip(t))
		}
		out[i] = v
	}
	return out, nil
}
