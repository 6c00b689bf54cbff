package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"edged/agent/llm"
	"edged/agent/llm/builtin"
	"edged/agent/llm/ollama"
	"edged/agent/llm/openai"
	"edged/cmd/edged/internal/config"
	"edged/starlark/value"
)

// The models of a robot: one for each name, one queue in front of each server.
// Nothing here is connected before the first request.

// servers makes models by their names. It may be used concurrently.
type servers struct {
	cfg     *config.Config
	traffic *traffic // who listens to what models are asked; nil = nobody can

	mu     sync.Mutex // guards the rest
	ollama *ollama.Server
	queues map[string]*llm.Queue // by the server's address
	models map[string]llm.Model  // by name, and behind a space the key
	keys   map[string]string     // by name: what a script gave last
}

func newServers(cfg *config.Config, t *traffic) *servers {
	return &servers{cfg: cfg, traffic: t, queues: map[string]*llm.Queue{}, models: map[string]llm.Model{}, keys: map[string]string{}}
}

// The kinds of names that models have.
const (
	kindIntent  = "intent"
	kindBuiltin = "builtin"
	kindOllama  = "ollama"
	kindOpenAI  = "openai"
	kindReplay  = "replay"
)

// modelName gives a model's name with its kind in front: a bare name is one of
// Ollama.
func modelName(name string) (string, error) {
	kinds := []string{kindIntent, kindBuiltin, kindOllama, kindOpenAI, kindReplay}
	kind, rest, has := strings.Cut(name, ":")
	switch {
	case strings.TrimSpace(name) == "":
		return "", errors.New("a model needs a name")
	case name == kindIntent, name == kindBuiltin:
		return name, nil
	case has && rest == "":
		return "", fmt.Errorf("%q: there is nothing after the colon", name)
	case kind == kindOllama, kind == kindReplay, kind == kindBuiltin:
		return name, nil
	case kind == kindOpenAI:
		_, err := openai.Parse(rest)
		return name, err
	case has && strings.Contains(rest, ":"): // ollama's own names have one colon
		if near := value.Nearest(kind, kinds); near != "" {
			return "", fmt.Errorf("unknown kind of model %q; did you mean %q?", kind, near+":"+rest)
		}
	}
	return kindOllama + ":" + name, nil
}

// model gives the model of a name that has its kind in front; the same each
// time. It may be called concurrently. Without a key it is the one that a script
// gave for it, or the settings'.
func (s *servers) model(name, key string) (llm.Model, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if key != "" {
		s.keys[name] = key
	}
	key = s.keys[name]
	id := name + " " + key
	if m := s.models[id]; m != nil {
		return m, nil
	}
	m, server, err := s.make(name, key)
	if err != nil {
		return nil, err
	}
	if s.traffic != nil {
		m = s.traffic.listen(name, m)
	}
	if server != "" {
		m = s.queue(server).Front(m)
	}
	s.models[id] = m
	return m, nil
}

// make makes a model and tells the address of its server, if it has one.
func (s *servers) make(name, key string) (m llm.Model, server string, err error) {
	kind, rest, _ := strings.Cut(name, ":")
	switch kind {
	case kindBuiltin:
		var o builtin.Options
		if rest != "" {
			o.Name = name
			if o.Data, err = os.ReadFile(s.cfg.Path(rest)); err != nil {
				return nil, "", &llm.Trouble{Err: fmt.Errorf("%w: %w", llm.ErrUnknownModel, err), Model: name, Remedy: "the file is looked for in the robot's folder; 'edged train' makes one"}
			}
		}
		if m, err = builtin.New(o); err != nil {
			return nil, "", fmt.Errorf("%s: %w", name, err)
		}
		return m, "", nil
	case kindOllama:
		o, err := s.server()
		if err != nil {
			return nil, "", err
		}
		return o.Model(rest), o.URL(), nil
	case kindOpenAI:
		o, err := openai.Parse(rest)
		if err != nil {
			return nil, "", err
		}
		if o.Key = key; key == "" {
			if o.Key, err = s.key(o.URL); err != nil {
				return nil, "", err
			}
		}
		o.MaxTokens = int(s.cfg.Models.Predict)
		return openai.New(o), o.URL, nil
	}
	return nil, "", &llm.Trouble{Err: llm.ErrUnknownModel, Model: name, Remedy: "name builtin, ollama:NAME or openai:NAME@http://host:port/v1"}
}

// server is the Ollama server; mu is held.
func (s *servers) server() (*ollama.Server, error) {
	if s.ollama != nil {
		return s.ollama, nil
	}
	m := s.cfg.Models
	o, err := ollama.New(ollama.Options{
		URL: cmp.Or(m.Ollama, os.Getenv("OLLAMA_HOST")), Context: int(m.Context), MaxTokens: int(m.Predict),
		Threads: int(m.Threads), KeepAlive: time.Duration(m.KeepAlive),
	})
	s.ollama = o
	return o, err
}

// Ollama is the Ollama server of the settings.
func (s *servers) Ollama() (*ollama.Server, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.server()
}

// queue is the one in front of a server; mu is held.
func (s *servers) queue(server string) *llm.Queue {
	q := s.queues[server]
	if q == nil {
		q = llm.NewQueue(llm.QueueOptions{InFlight: int(s.cfg.Models.InFlight), Limit: int(s.cfg.Models.Queue)})
		s.queues[server] = q
	}
	return q
}

// status tells who waits where, by the server's address.
func (s *servers) status() map[string]llm.QueueStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queues) == 0 {
		return nil
	}
	out := map[string]llm.QueueStatus{}
	for server, q := range s.queues {
		out[server] = q.Status()
	}
	return out
}

// key reads the key of a server, if it has one.
func (s *servers) key(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	file, ok := s.cfg.Models.Keys[u.Host]
	if !ok {
		file, ok = s.cfg.Models.Keys[u.Hostname()]
	}
	if !ok {
		return "", nil
	}
	b, err := readSecret(s.cfg.SecretPath(file))
	if err != nil {
		return "", fmt.Errorf("setting models.keys, %s: %w", u.Host, err)
	}
	return b, nil
}

// readSecret reads a file that only its owner may read.
func readSecret(path string) (string, error) {
	st, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if st.Mode().Perm()&othersMayRead(path) != 0 {
		return "", fmt.Errorf("%s can be read by others: chmod 600 it: %w", path, fs.ErrPermission)
	}
	b, err := os.ReadFile(path)
	return strings.TrimRight(string(b), "\r\n"), err
}

// close ends idle connections.
func (s *servers) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ollama != nil {
		s.ollama.Close()
	}
}

// modelState is a model as it is now.
type modelState struct {
	Name  string   `json:"name"`
	Info  llm.Info `json:"info,omitzero"`
	Error string   `json:"error,omitempty"`
}

func (m modelState) String() string {
	if m.Error != "" {
		return m.Name + " (" + m.Error + ")"
	}
	words := "cold"
	if m.Info.Warm {
		words = "warm"
	}
	if m.Info.Tools {
		words += ", tools yes"
	} else {
		words += ", tools no"
	}
	if m.Info.Context > 0 {
		words += fmt.Sprintf(", context %d", m.Info.Context)
	}
	return m.Name + " (" + words + ")"
}

// look asks all the models what they are, side by side, for at most so long.
func (s *servers) look(ctx context.Context, names []string, limit time.Duration) []modelState {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out := make([]modelState, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() { out[i] = s.lookAt(ctx, name) })
	}
	all.Wait()
	return out
}

func (s *servers) lookAt(ctx context.Context, name string) modelState {
	if name == kindIntent {
		return modelState{Name: name, Info: llm.Info{Name: name, Tools: true, Warm: true}}
	}
	if strings.HasPrefix(name, kindReplay+":") {
		return modelState{Name: name, Info: llm.Info{Name: name, Tools: true, Warm: true}}
	}
	m, err := s.model(name, "")
	var info llm.Info
	if err == nil {
		info, err = llm.Describe(ctx, m)
	}
	if err != nil {
		return modelState{Name: name, Error: short(err)}
	}
	return modelState{Name: name, Info: info}
}

// short is what is wrong with a model, in words that fit beside its name.
func short(err error) string {
	for _, e := range []error{llm.ErrDown, llm.ErrUnknownModel, llm.ErrMemory, llm.ErrServer} {
		if errors.Is(err, e) {
			return map[error]string{llm.ErrDown: "down", llm.ErrUnknownModel: "not there", llm.ErrMemory: "no memory", llm.ErrServer: "fails"}[e]
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "does not answer"
	}
	return err.Error()
}
