// Package ollama makes models of an Ollama server.
//
// Its one rule: the server is never believed to be there or to be done. No
// call is made before the first request, an answer counts only with its last
// word, and everything else is an error with a remedy.
//
//	s, err := ollama.New(ollama.Options{})
//	m := s.Model("qwen2.5:1.5b")
//	answer, err := m.Chat(ctx, llm.Request{Messages: []llm.Message{{Role: llm.User, Text: "hello"}}}, nil)
//
// The wire's types are those of Ollama's own api package; its client isn't
// used: it holds 8 MiB for each answer, takes a stream without an end for an
// answer, and delivers what it had buffered after it was cancelled.
package ollama

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/ollama/ollama/api"

	"edged/agent/llm/wire"
)

// Forever is a KeepAlive that keeps a model in memory until it is unloaded.
const Forever time.Duration = -1

// Options of a server; the zero value is Ollama on this machine, with settings
// for a small board.
type Options struct {
	URL       string         // as in OLLAMA_HOST: "", "box", "box:11434", "http://box:11434"
	Context   int            // num_ctx, tokens; 0: 4096, which is Ollama's own, less saves memory
	MaxTokens int            // num_predict of requests that don't say; 0: 512
	Threads   int            // num_thread; 0: cores - 1 if the server is on this machine, else the server's own
	KeepAlive time.Duration  // how long a model stays in memory after a request; 0: Forever
	Extra     map[string]any // more of Ollama's options: top_k, repeat_penalty, num_gpu, …
	Transport http.RoundTripper
}

// A Server is an Ollama server, up or down. It may be used concurrently.
type Server struct {
	o    Options
	wire *wire.Client

	mu     sync.Mutex // guards models
	models map[string]*Model
}

// New makes a server of options. It makes no connection.
func New(o Options) (*Server, error) {
	u, err := Address(o.URL)
	if err != nil {
		return nil, err
	}
	if o.Context == 0 {
		o.Context = 4096
	}
	if o.MaxTokens == 0 {
		o.MaxTokens = 512
	}
	if o.KeepAlive == 0 {
		o.KeepAlive = Forever
	}
	if o.Threads == 0 && local(u) {
		// The engine's threads spin while they wait for each other: with all
		// cores taken an answer of milliseconds takes seconds.
		o.Threads = max(1, runtime.NumCPU()-1)
	}
	o.Extra = maps.Clone(o.Extra)
	return &Server{o: o, wire: wire.New("ollama", u.String(), wire.Options{Transport: o.Transport}), models: map[string]*Model{}}, nil
}

// URL gives the server's address.
func (s *Server) URL() string { return s.wire.Base() }

// Close ends idle connections.
func (s *Server) Close() { s.wire.Close() }

// Model gives a model of the server by the name Ollama knows it by, the same
// each time. Whether it is there is seen when it is used.
func (s *Server) Model(name string) *Model {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.models[name]
	if m == nil {
		m = &Model{s: s, name: name}
		s.models[name] = m
	}
	return m
}

// options are the same for every request, since a change of the context or of
// the threads makes the server load the model again.
func (s *Server) options() map[string]any {
	o := map[string]any{"num_ctx": s.o.Context}
	if s.o.Threads > 0 {
		o["num_thread"] = s.o.Threads
	}
	maps.Copy(o, s.o.Extra)
	return o
}

func (s *Server) keepAlive() *api.Duration { return &api.Duration{Duration: s.o.KeepAlive} }

// Address makes a URL of what OLLAMA_HOST may hold.
func Address(host string) (*url.URL, error) {
	scheme, rest, named := strings.Cut(strings.TrimSpace(host), "://")
	port := "11434"
	switch {
	case !named:
		scheme, rest = "http", scheme
	case scheme == "http":
		port = "80"
	case scheme == "https":
		port = "443"
	default:
		return nil, fmt.Errorf("ollama: %q: an address starts with http:// or https://", host)
	}
	rest, path, _ := strings.Cut(rest, "/")
	name, p, err := net.SplitHostPort(rest)
	if err != nil {
		name, p = strings.Trim(rest, "[]"), port
	}
	if name == "" || name == "0.0.0.0" || name == "::" {
		name = "127.0.0.1" // those are for listening
	}
	u, err := url.Parse(scheme + "://" + net.JoinHostPort(name, p))
	if err != nil {
		return nil, fmt.Errorf("ollama: %q is no address: %w", host, err)
	}
	if path = strings.Trim(path, "/"); path != "" {
		u.Path = "/" + path
	}
	return u, nil
}

func local(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
