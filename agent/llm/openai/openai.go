// Package openai makes models of any server that speaks OpenAI's chat
// completions: llama.cpp's server, llamafile, LM Studio, vLLM, Ollama's /v1.
//
// Its one rule: what differs from server to server stays in here. Arguments
// that come in pieces, words for thoughts, shapes of errors, streams that are
// none: package llm sees one kind of answer.
//
//	m, err := openai.Parse("qwen2.5@http://127.0.0.1:8080/v1")
//	answer, err := openai.New(m).Chat(ctx, llm.Request{Messages: dialogue}, nil)
package openai

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"edged/agent/llm"
	"edged/agent/llm/wire"
)

// Options of a model. Name and URL are needed.
type Options struct {
	Name      string         // as the server knows it
	URL       string         // up to and with /v1
	Key       string         // sent as bearer token, if any
	Context   int            // tokens, if known; 0: what the server says
	MaxTokens int            // of requests that don't say; 0: 512
	Extra     map[string]any // more fields of a request: "top_k", "chat_template_kwargs", …
	Transport http.RoundTripper
}

// Parse reads NAME@http://host:port/v1.
func Parse(spec string) (Options, error) {
	name, address, ok := strings.Cut(spec, "@")
	if !ok || name == "" {
		return Options{}, fmt.Errorf("openai: %q: write NAME@http://host:port/v1", spec)
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return Options{}, fmt.Errorf("openai: %q is no address: write NAME@http://host:port/v1", address)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return Options{}, fmt.Errorf("openai: %q: only host, port and path are meant here; a key goes elsewhere", u.Redacted())
	}
	return Options{Name: name, URL: address}, nil
}

// A Model is a model of a server. It may be used concurrently.
type Model struct {
	o    Options
	wire *wire.Client

	mu    sync.Mutex // guards what follows: what the server taught us
	embed *bool      // tried once
	tools bool       // it refused them
	newer bool       // it wants max_completion_tokens
}

var (
	_ llm.Model     = (*Model)(nil)
	_ llm.Describer = (*Model)(nil)
	_ llm.Embedder  = (*Model)(nil)
)

// New makes a model of options. It makes no connection.
func New(o Options) *Model {
	if o.MaxTokens == 0 {
		o.MaxTokens = 512
	}
	o.Extra = maps.Clone(o.Extra)
	h := http.Header{}
	if o.Key != "" {
		h.Set("Authorization", "Bearer "+o.Key)
	}
	return &Model{o: o, wire: wire.New("openai", o.URL, wire.Options{Header: h, Secret: o.Key, Transport: o.Transport})}
}

// Name gives the model's name as scripts write it.
func (m *Model) Name() string { return "openai:" + m.o.Name + "@" + m.o.URL }

// Close ends idle connections.
func (m *Model) Close() { m.wire.Close() }

// Chat asks the model. With an error it gives no words, but what they cost, if
// the server said it. Nothing is said after ctx ends.
func (m *Model) Chat(ctx context.Context, r llm.Request, say func(string) error) (llm.Message, error) {
	if err := check(r); err != nil {
		return llm.Message{}, m.trouble(err)
	}
	m.mu.Lock()
	newer := m.newer
	m.mu.Unlock()
	resp, err := m.wire.Do(ctx, "POST", "/chat/completions", m.request(r, say != nil, newer))
	if err != nil && !newer && strings.Contains(err.Error(), "max_completion_tokens") {
		m.mu.Lock()
		m.newer = true
		m.mu.Unlock()
		resp, err = m.wire.Do(ctx, "POST", "/chat/completions", m.request(r, say != nil, true))
	}
	if err != nil {
		return llm.Message{}, m.trouble(err)
	}
	defer resp.Body.Close()
	a := answer{wire: m.wire, request: r, say: say}
	msg, err := a.read(ctx, resp)
	return msg, m.trouble(err)
}

// Describe tells what the model can do: the server's list says whether it is
// there, which is asked each time, and perhaps its context. Nobody says whether
// a model has tools: it is believed to, until the server refuses them. A server
// with a single model answers to any name.
func (m *Model) Describe(ctx context.Context) (llm.Info, error) {
	list, err := m.List(ctx)
	if err != nil {
		return llm.Info{}, err
	}
	i := slices.IndexFunc(list, func(x Listed) bool { return x.Name == m.o.Name || x.Name == m.o.Name+":latest" })
	if i < 0 && len(list) != 1 {
		var names []string
		for _, x := range list {
			names = append(names, x.Name)
		}
		return llm.Info{}, m.trouble(fmt.Errorf("openai: %w: the server has %s", llm.ErrUnknownModel, wire.Excerpt(strings.Join(names, ", "), 200)))
	}
	info := llm.Info{Name: m.Name(), Schema: true, Warm: true, Context: list[max(i, 0)].Context}
	if m.o.Context > 0 {
		info.Context = m.o.Context
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	info.Tools = !m.tools
	info.Embed = m.embed != nil && *m.embed
	return info, nil
}

// Listed is a model in the server's list.
type Listed struct {
	Name    string
	Context int // tokens, 0 = not said
}

// List gives the server's models.
func (m *Model) List(ctx context.Context) ([]Listed, error) {
	var out struct {
		Data []struct {
			ID     string `json:"id"`
			Length int    `json:"max_model_len"` // vLLM
			Meta   struct {
				Train int `json:"n_ctx_train"` // llama.cpp
				Used  int `json:"n_ctx"`
			} `json:"meta"`
		} `json:"data"`
	}
	if err := m.wire.JSON(ctx, "GET", "/models", nil, &out); err != nil {
		return nil, m.trouble(err)
	}
	list := make([]Listed, 0, len(out.Data))
	for _, d := range out.Data {
		n := d.Length
		if n == 0 {
			n = d.Meta.Used
		}
		if n == 0 {
			n = d.Meta.Train
		}
		list = append(list, Listed{d.ID, n})
	}
	return list, nil
}

// Embed turns texts into vectors.
func (m *Model) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	var out struct {
		Data []struct {
			Index     int       `json:"index"`
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
	}
	err := m.wire.JSON(ctx, "POST", "/embeddings", map[string]any{"model": m.o.Name, "input": texts, "encoding_format": "float"}, &out)
	if err != nil {
		if no := false; errors.Is(err, llm.ErrNoEmbedding) {
			m.mu.Lock()
			m.embed = &no
			m.mu.Unlock()
		}
		return nil, m.trouble(err)
	}
	vectors := make([][]float32, len(texts))
	for _, d := range out.Data {
		if d.Index < 0 || d.Index >= len(texts) || vectors[d.Index] != nil {
			return nil, m.trouble(fmt.Errorf("openai: %w: its vectors are numbered wrongly", llm.ErrServer))
		}
		vectors[d.Index] = d.Embedding
	}
	works := !slices.ContainsFunc(vectors, func(v []float32) bool { return len(v) == 0 || len(v) != len(vectors[0]) })
	m.mu.Lock()
	m.embed = &works
	m.mu.Unlock()
	if !works {
		return nil, m.trouble(fmt.Errorf("openai: %w: not a vector of one length for each of %d texts", llm.ErrServer, len(texts)))
	}
	return vectors, nil
}
