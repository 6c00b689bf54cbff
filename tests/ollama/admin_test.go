package ollama

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"edged/agent/llm"
	"edged/agent/llm/bench"
	"edged/agent/llm/builtin/engine"
	"edged/agent/llm/llmtest"
	"edged/agent/llm/ollama"
)

func TestListAndShow(t *testing.T) {
	s := up(t)
	c := s.client(t, ollama.Options{})
	list, err := c.List(t.Context())
	i := slices.IndexFunc(list, func(x ollama.Installed) bool { return x.Name == "tiny:latest" })
	if err != nil || i < 0 || list[i].Size < 1000 || list[i].Family != "llama" || list[i].Quantization != "F16" || list[i].Modified.IsZero() {
		t.Errorf("got %+v, %v", list, err)
	}
	d, err := c.Show(t.Context(), "tiny")
	if err != nil || d.Context != 2048 || !slices.Contains(d.Capabilities, "tools") || !strings.Contains(d.Template, "<|user|>") || !strings.Contains(d.Settings, "num_ctx") {
		t.Errorf("got %+v, %v", d, err)
	}
	_, err = c.Show(t.Context(), "nope")
	is(t, err, llm.ErrUnknownModel)
	is(t, c.Remove(t.Context(), "nope"), llm.ErrUnknownModel)
}

// TestPull: a server fetches a model from a registry, which is the model
// folder of another; it is used, removed, and gone.
func TestPull(t *testing.T) {
	path := program(t)
	from := up(t)
	models := filepath.Join(from.dir, "models")
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, filepath.Join(models, "blobs", strings.Replace(filepath.Base(r.URL.Path), ":", "-", 1)))
	}))
	defer store.Close()
	elsewhere := strings.Replace(store.URL, "127.0.0.1", "localhost", 1) // Ollama wants another host for the weights
	registry := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/library/tiny/manifests/latest"):
			http.ServeFile(w, r, filepath.Join(models, "manifests/registry.ollama.ai/library/tiny/latest"))
		case strings.Contains(r.URL.Path, "/blobs/sha256:"):
			http.Redirect(w, r, elsewhere+"/"+filepath.Base(r.URL.Path), http.StatusTemporaryRedirect)
		default:
			http.NotFound(w, r)
		}
	}))
	defer registry.Close()
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: registry.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	s := launch(t, path, dir, "SSL_CERT_FILE="+ca)
	defer s.stop()
	c := s.client(t, ollama.Options{})
	name := strings.TrimPrefix(registry.URL, "https://") + "/library/tiny"

	enough := errors.New("enough seen")
	if err := c.Pull(t.Context(), name, func(ollama.Progress) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("got error %v, want that of the progress", err)
	}
	var steps []string
	var bytes int64
	err := c.Pull(t.Context(), name, func(p ollama.Progress) error {
		if !slices.Contains(steps, p.Status) {
			steps = append(steps, p.Status)
		}
		bytes = max(bytes, p.Completed)
		return nil
	})
	if err != nil || bytes < 1000 || !slices.Contains(steps, "success") {
		t.Fatalf("got %v, steps %q, %d bytes", err, steps, bytes)
	}
	if a, err := c.Model(name).Chat(t.Context(), under(drawn(ask("hello"), 0, 1, 400), bounded), nil); err != nil {
		t.Errorf("the pulled model: %+v, %v", a, err)
	}
	if i, err := c.Model(name).Describe(t.Context()); err != nil || !i.Warm {
		t.Errorf("got %+v, %v, want it warm", i, err)
	}
	if err := c.Remove(t.Context(), name); err != nil {
		t.Error(err)
	}
	if list, err := c.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("got %v, %v after it was removed", list, err)
	}
	is(t, c.Pull(t.Context(), strings.Replace(name, "tiny", "nope", 1), nil), llm.ErrUnknownModel)
}

// TestPullOffline: the registry is out of reach, as on most robots.
func TestPullOffline(t *testing.T) {
	path := program(t)
	s := launch(t, path, t.TempDir(), "HTTPS_PROXY=http://127.0.0.1:1")
	defer s.stop()
	err := s.client(t, ollama.Options{}).Pull(short(t, 30*time.Second), "qwen2.5:0.5b", nil)
	is(t, err, llm.ErrServer)
	if !strings.Contains(err.Error(), "no way to the registry") {
		t.Errorf("got %v", err)
	}
}

func TestBench(t *testing.T) {
	meaning(t)
	m := up(t).client(t, ollama.Options{}).Model("robot")
	f, err := bench.Run(t.Context(), m, bench.Options{Prompt: "say the door is open", Tools: tools(), Cases: []bench.Case{
		{Say: "turn left ninety degrees", Tool: "turn"}, {Say: "go forward 2.5 meters", Tool: "move"}, {Say: "what is the capital of france"}}})
	if err != nil || f.Asked != 3 || f.Right < 2 || f.Rate < 10 || f.First <= 0 || f.Load <= 0 {
		t.Errorf("got %+v, %v", f, err)
	}
	t.Logf("%+v", f)
}

// TestContract runs the suite that every model passes.
func TestContract(t *testing.T) {
	s := up(t)
	c := s.client(t, ollama.Options{})
	unknown := func(m llm.Model) []llmtest.Failure {
		return []llmtest.Failure{{Name: "unknown", Model: func(*testing.T) llm.Model { return m }, Want: llm.ErrUnknownModel}}
	}
	traits := func(nope llm.Model) llmtest.Traits {
		traits := llmtest.Traits{
			Chat:   drawn(ask("what is the capital of france"), 0, 1, 100),
			Pieces: true,
			Form:   under(drawn(ask("hello"), 0, 1, 400), bounded),
			Embeds: true, Parallel: 4, Patience: 30 * time.Second, Fails: unknown(nope),
		}
		if trained() != "" {
			traits.Call = drawn(ask("turn left ninety degrees"), 0, 1, 60)
			traits.Call.Tools = tools()
			traits.Refuses = llm.ErrEmpty
		}
		return traits
	}
	name := "robot"
	if trained() == "" {
		name = "ends" // random, but it may end at once
		gguf(t, filepath.Join(s.dir, "ends.gguf"), shape, nil)
		s.create(t, name, engine.Modelfile(filepath.Join(s.dir, "ends.gguf")))
	}
	t.Run("ollama", func(t *testing.T) {
		llmtest.Run(t, func(t *testing.T) llm.Model {
			s.revive(t, name) // the check before may have cancelled
			m := c.Model(name)
			if _, err := m.Embed(t.Context(), []string{"x"}); err != nil { // by which it learns that it can
				t.Fatal(err)
			}
			return m
		}, traits(c.Model("nope")))
	})
	t.Run("openai", func(t *testing.T) {
		llmtest.Run(t, func(t *testing.T) llm.Model {
			s.revive(t, name)
			m := v1(t, name)
			if _, err := m.Embed(t.Context(), []string{"x"}); err != nil {
				t.Fatal(err)
			}
			return m
		}, traits(v1(t, "nope")))
	})
}
