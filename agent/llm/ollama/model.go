package ollama

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/ollama/ollama/api"

	"edged/agent/llm"
)

// A Model is a model of a server. It may be used concurrently.
type Model struct {
	s    *Server
	name string

	mu    sync.Mutex // guards what follows
	known *llm.Info  // read once
	embed *bool      // tried once
}

var (
	_ llm.Model     = (*Model)(nil)
	_ llm.Describer = (*Model)(nil)
	_ llm.Embedder  = (*Model)(nil)
	_ llm.Warmer    = (*Model)(nil)
)

// Name gives the model's name as scripts write it.
func (m *Model) Name() string { return "ollama:" + m.name }

// Chat asks the model. With an error it gives no words, but what they cost, if
// the server said it. Nothing is said after ctx ends.
func (m *Model) Chat(ctx context.Context, r llm.Request, say func(string) error) (llm.Message, error) {
	if len(r.Messages) == 0 { // Ollama would load the model and say nothing
		return llm.Message{}, &llm.Trouble{Err: fmt.Errorf("ollama: %w: nothing was asked", llm.ErrEmpty), Model: m.Name(), Remedy: "give it a message"}
	}
	req, err := m.request(r, say != nil)
	if err != nil {
		return llm.Message{}, m.trouble(err)
	}
	resp, err := m.s.wire.Do(ctx, "POST", "/api/chat", req)
	if err != nil {
		return llm.Message{}, m.trouble(err)
	}
	defer resp.Body.Close()
	a := answer{wire: m.s.wire, request: r, say: say}
	msg, err := a.read(ctx, resp.Body)
	return msg, m.trouble(err)
}

// Describe tells what the model can do, read from the server once, and whether
// it is in memory, asked each time: an error means it can't be used now.
// Embed is what the server says or, better, what the last Embed showed: old
// servers list it for no model.
func (m *Model) Describe(ctx context.Context) (llm.Info, error) {
	info, err := m.capabilities(ctx)
	if err != nil {
		return llm.Info{}, m.trouble(err)
	}
	var ps api.ProcessResponse
	if err := m.s.wire.JSON(ctx, "GET", "/api/ps", nil, &ps); err != nil {
		return llm.Info{}, m.trouble(err)
	}
	info.Warm = slices.ContainsFunc(ps.Models, func(p api.ProcessModelResponse) bool { return sameModel(p.Name, m.name) })
	return info, nil
}

func (m *Model) capabilities(ctx context.Context) (llm.Info, error) {
	m.mu.Lock()
	known := m.known
	m.mu.Unlock()
	if known == nil {
		d, err := m.s.Show(ctx, m.name)
		if err != nil {
			return llm.Info{}, err
		}
		known = &llm.Info{Name: m.Name(), Schema: true,
			Tools:    slices.Contains(d.Capabilities, "tools"),
			Thinking: slices.Contains(d.Capabilities, "thinking"),
			Embed:    slices.Contains(d.Capabilities, "embedding"),
			Context:  m.s.o.Context}
		if d.Context > 0 {
			known.Context = min(known.Context, d.Context)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known = known
	info := *known
	if m.embed != nil {
		info.Embed = *m.embed
	}
	return info, nil
}

// Embed turns texts into vectors.
func (m *Model) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	var out api.EmbedResponse
	err := m.s.wire.JSON(ctx, "POST", "/api/embed",
		api.EmbedRequest{Model: m.name, Input: texts, KeepAlive: m.s.keepAlive(), Options: m.s.options()}, &out)
	works := err == nil && len(out.Embeddings) == len(texts)
	if err == nil && !works {
		err = fmt.Errorf("ollama: %w: %d vectors for %d texts", llm.ErrServer, len(out.Embeddings), len(texts))
	}
	if works || errors.Is(err, llm.ErrNoEmbedding) {
		m.mu.Lock()
		m.embed = &works
		m.mu.Unlock()
	}
	if err != nil {
		return nil, m.trouble(err)
	}
	return out.Embeddings, nil
}

// Warm loads the model and keeps it in memory.
func (m *Model) Warm(ctx context.Context) error { return m.load(ctx, m.s.keepAlive()) }

// Unload takes the model out of the server's memory.
func (m *Model) Unload(ctx context.Context) error { return m.load(ctx, &api.Duration{}) }

// load asks nothing, which loads a model, or unloads it if keep is zero.
func (m *Model) load(ctx context.Context, keep *api.Duration) error {
	stream := false
	var out api.ChatResponse
	err := m.s.wire.JSON(ctx, "POST", "/api/chat",
		api.ChatRequest{Model: m.name, Stream: &stream, KeepAlive: keep, Options: m.s.options()}, &out)
	if err == nil && !out.Done {
		err = fmt.Errorf("ollama: %w", llm.ErrNoDone)
	}
	return m.trouble(err)
}

// sameModel compares names; one without a tag means the latest.
func sameModel(a, b string) bool {
	full := func(s string) string {
		if i := strings.LastIndexByte(s, ':'); i < 0 || strings.Contains(s[i:], "/") {
			s += ":latest"
		}
		return strings.ToLower(s)
	}
	return full(a) == full(b)
}
