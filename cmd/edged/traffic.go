package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"edged/agent/llm"
	"edged/agent/llm/replay"
)

// What models are asked and say, for whoever wants it written down: the flag
// --record of run, and the verb record. While nobody does it costs nothing.

// traffic hands the lines of all models to those who listen.
type traffic struct {
	n atomic.Int32 // listeners

	mu    sync.Mutex // guards the rest, and orders the lines
	sinks map[*sink]bool
	head  []byte // first line of every recording
}

// sink is one recording.
type sink struct {
	w     io.Writer
	begun bool
	lines int
	fail  func(error) // is told once, and nothing is written after it
}

func newTraffic() *traffic { return &traffic{sinks: map[*sink]bool{}} }

// add begins a recording; the returned function ends it and gives the number
// of its lines.
func (t *traffic) add(w io.Writer, fail func(error)) (end func() int) {
	s := &sink{w: w, fail: fail}
	t.mu.Lock()
	t.sinks[s] = true
	t.mu.Unlock()
	t.n.Add(1)
	return func() int {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.sinks[s] {
			delete(t.sinks, s)
			t.n.Add(-1)
		}
		return s.lines
	}
}

// Write gives a line to all who listen. A recorder begins its first line with
// the head that each file needs once.
func (t *traffic) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	line := b
	if first, rest, ok := bytes.Cut(b, []byte("\n")); ok && len(rest) > 0 {
		t.head, line = append(bytes.Clone(first), '\n'), rest
	}
	for s := range t.sinks {
		var err error
		if !s.begun {
			_, err = s.w.Write(t.head)
		}
		if err == nil {
			_, err = s.w.Write(line)
		}
		s.begun = true
		s.lines++
		if err != nil {
			delete(t.sinks, s)
			t.n.Add(-1)
			s.fail(err)
		}
	}
	return len(b), nil
}

// listen puts the ear in front of a model.
func (t *traffic) listen(name string, m llm.Model) llm.Model {
	return &heard{t: t, m: m, rec: replay.NewRecorder(m, t, replay.RecorderOptions{Name: name})}
}

// heard is a model that is recorded while somebody listens.
type heard struct {
	t   *traffic
	m   llm.Model
	rec *replay.Recorder
}

var (
	_ llm.Describer = (*heard)(nil)
	_ llm.Embedder  = (*heard)(nil)
	_ llm.Warmer    = (*heard)(nil)
)

func (h *heard) now() llm.Model {
	if h.t.n.Load() > 0 {
		return h.rec
	}
	return h.m
}

func (h *heard) Chat(ctx context.Context, r llm.Request, say func(string) error) (llm.Message, error) {
	return h.now().Chat(ctx, r, say)
}

func (h *heard) Describe(ctx context.Context) (llm.Info, error) { return llm.Describe(ctx, h.now()) }

func (h *heard) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if e, ok := h.now().(llm.Embedder); ok {
		return e.Embed(ctx, texts)
	}
	return nil, llm.ErrNoEmbedding
}

func (h *heard) Warm(ctx context.Context) error {
	if w, ok := h.m.(llm.Warmer); ok {
		return w.Warm(ctx)
	}
	return nil
}

// errEnded is the reason why a recording ends that was ended.
var errEnded = errors.New("the recording has ended")
