package ollama

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"edged/agent/llm"
	"edged/agent/llm/builtin/engine"
	"edged/agent/llm/ollama"
	"edged/agent/llm/openai"
)

// ear stands between a client and the server and hears when the client hangs
// up its first connection.
type ear struct {
	host string
	hung chan time.Time
}

func listen(t *testing.T, server string) *ear {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &ear{l.Addr().String(), make(chan time.Time, 1)}
	t.Cleanup(func() { l.Close() })
	go func() {
		in, err := l.Accept()
		if err != nil {
			return
		}
		defer in.Close()
		out, err := net.Dial("tcp", server)
		if err != nil {
			return
		}
		go io.Copy(in, out)
		io.Copy(out, in) // ends when the client hangs up
		e.hung <- time.Now()
		out.Close()
	}()
	return e
}

// revive starts the server again if a request that was cancelled has wedged
// it. Ollama 0.24 hands pieces to the request over a channel that nobody reads
// once the client is gone; if a piece is just on its way, the engine's only
// slot is taken for good. About one cancel in some hundred does it when a model
// says a thousand words a second, as these do.
func (s *server) revive(t *testing.T, model string) {
	t.Helper()
	m := s.client(t, ollama.Options{}).Model(model)
	if _, err := m.Chat(short(t, 10*time.Second), drawn(ask("hello"), 0, 1, 1), nil); errors.Is(err, context.DeadlineExceeded) {
		t.Logf("the server was stuck after a cancelled request and is started again")
		s.stop()
		s.start(t)
	}
}

// TestCancel: the request is closed within 50 ms, nothing more is said, and
// the engine is free for the next.
func TestCancel(t *testing.T) {
	s := up(t)
	long := drawn(ask("hello"), 1, 3, 1900)
	for _, row := range []struct {
		name  string
		model func(host string) llm.Model
	}{
		{"ollama", func(host string) llm.Model {
			c, err := ollama.New(ollama.Options{URL: host, Threads: 1})
			if err != nil {
				t.Fatal(err)
			}
			return c.Model("tiny")
		}},
		{"openai", func(host string) llm.Model {
			return openai.New(openai.Options{Name: "tiny", URL: "http://" + host + "/v1"})
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			e := listen(t, s.host)
			ctx, cancel := context.WithCancel(short(t, time.Minute))
			said := 0
			var at time.Time
			_, err := row.model(e.host).Chat(ctx, long, func(string) error {
				if said++; said == 3 {
					at = time.Now()
					cancel()
				}
				return nil
			})
			back := time.Since(at)
			if !errors.Is(err, context.Canceled) || said != 3 {
				t.Fatalf("got error %v after %d pieces, want it cancelled after 3", err, said)
			}
			select {
			case hung := <-e.hung:
				t.Logf("Chat was back after %v, the request was closed after %v", back, hung.Sub(at))
				if d := hung.Sub(at); d > 50*time.Millisecond {
					t.Errorf("the request was closed after %v, want 50 ms at most", d)
				}
			case <-time.After(5 * time.Second):
				t.Error("the request was not closed")
			}
			s.revive(t, "tiny")
			if _, err := row.model(s.host).Chat(short(t, time.Minute), under(drawn(ask("hello"), 0, 1, 400), bounded), nil); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestCancelUnheard: where nobody listens no stream is asked for, and then no
// number of cancelled requests wedges the server.
func TestCancelUnheard(t *testing.T) {
	s := up(t)
	for _, m := range []llm.Model{s.client(t, ollama.Options{}).Model("tiny"), v1(t, "tiny")} {
		if _, err := m.Chat(short(t, time.Minute), under(drawn(ask("hello"), 0, 1, 400), bounded), nil); err != nil {
			t.Fatal(err)
		}
		cancelled := 0
		for i := range 150 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(5+i%40)*time.Millisecond)
			if _, err := m.Chat(ctx, drawn(ask("hello"), 1, int64(i), 1900), nil); errors.Is(err, context.DeadlineExceeded) {
				cancelled++
			}
			cancel()
		}
		if _, err := m.Chat(short(t, time.Minute), under(drawn(ask("hello"), 0, 1, 400), bounded), nil); err != nil || cancelled < 100 {
			t.Errorf("after %d cancelled requests: %v", cancelled, err)
		}
	}
}

// TestTimeout: a deadline that passes while the answer comes.
func TestTimeout(t *testing.T) {
	m := up(t).client(t, ollama.Options{}).Model("tiny")
	if err := m.Warm(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	ctx, stop := context.WithTimeout(ctx, 20*time.Millisecond)
	defer stop()
	_, err := m.Chat(ctx, drawn(ask("hello"), 1, 3, 1900), func(string) error { return nil })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got error %v, want the deadline's", err)
	}
	up(t).revive(t, "tiny")
}

func TestKeepAlive(t *testing.T) {
	s := up(t)
	m := s.client(t, ollama.Options{}).Model("tiny")
	warm := func() bool {
		i, err := m.Describe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return i.Warm
	}
	if err := m.Unload(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "the model is unloaded", func() bool { return !warm() })
	if err := m.Warm(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !warm() {
		t.Error("the model is not in memory after Warm")
	}
	loads := strings.Count(s.log.String(), "llama runner started")
	if _, err := m.Chat(t.Context(), under(drawn(ask("hello"), 0, 1, 400), bounded), nil); err != nil {
		t.Error(err)
	}
	if _, err := m.Embed(t.Context(), []string{"hello"}); err != nil {
		t.Error(err)
	}
	if n := strings.Count(s.log.String(), "llama runner started"); n != loads {
		t.Errorf("the model was loaded %d times more after Warm: settings differ between requests", n-loads)
	}
}

// TestRestart: the server goes away in mid-conversation and comes back.
func TestRestart(t *testing.T) {
	path := program(t)
	dir := t.TempDir()
	s := launch(t, path, dir)
	defer s.stop()
	s.tiny(t)
	for _, m := range []llm.Model{
		s.client(t, ollama.Options{}).Model("tiny"),
		openai.New(openai.Options{Name: "tiny", URL: "http://" + s.host + "/v1"}),
	} {
		r := under(drawn(ask("hello"), 0, 1, 400), bounded)
		a, err := m.Chat(t.Context(), r, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.Chat(t.Context(), drawn(ask("hello"), 1, 3, 1900), func(string) error { s.stop(); return nil })
		if !errors.Is(err, llm.ErrDown) && !errors.Is(err, llm.ErrNoDone) && !errors.Is(err, llm.ErrServer) {
			t.Errorf("stopped in mid-answer: got error %v", err)
		}
		t.Logf("stopped in mid-answer: %v", err)
		r.Messages = append(r.Messages, a, llm.Message{Role: llm.User, Text: "and now?"})
		_, err = m.Chat(t.Context(), r, nil)
		is(t, err, llm.ErrDown)
		_, err = m.(llm.Describer).Describe(t.Context())
		is(t, err, llm.ErrDown)
		s.start(t)
		if _, err = m.Chat(t.Context(), r, nil); err != nil {
			t.Errorf("after the restart: %v", err)
		}
	}
}

// TestEngineDied: the process that computes is killed, as the kernel does when
// memory runs out; the server stays.
func TestEngineDied(t *testing.T) {
	s := up(t)
	m := s.client(t, ollama.Options{}).Model("tiny")
	if err := m.Warm(t.Context()); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	_, err := m.Chat(t.Context(), drawn(ask("hello"), 1, 3, 1900), func(string) error {
		once.Do(func() {
			pids := s.engines()
			if len(pids) == 0 {
				t.Error("no engine process was found")
			}
			for _, pid := range pids {
				syscall.Kill(pid, syscall.SIGKILL)
			}
		})
		return nil
	})
	if !errors.Is(err, llm.ErrServer) && !errors.Is(err, llm.ErrNoDone) && !errors.Is(err, llm.ErrMemory) {
		t.Errorf("got error %v, want one that says that the server failed", err)
	}
	t.Logf("killed in mid-answer: %v", err)
	// The server notices by itself; until then it says that the engine is gone.
	eventually(t, 20*time.Second, "the engine is loaded again", func() bool {
		_, err := m.Chat(t.Context(), under(drawn(ask("hello"), 0, 1, 400), bounded), nil)
		if err != nil {
			t.Logf("afterwards: %v", err)
		}
		return err == nil
	})
}

// TestQueueFull: more requests than the server lets wait.
func TestQueueFull(t *testing.T) {
	path := program(t)
	dir := t.TempDir()
	s := launch(t, path, dir, "OLLAMA_MAX_QUEUE=1", "OLLAMA_NUM_PARALLEL=1")
	defer s.stop()
	s.tiny(t)
	m := s.client(t, ollama.Options{}).Model("tiny")
	var wg sync.WaitGroup
	var mu sync.Mutex
	full, fine := 0, 0
	for range 40 { // while the model loads
		wg.Go(func() {
			_, err := m.Chat(t.Context(), under(drawn(ask("hello"), 0, 1, 400), bounded), nil)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				fine++
			case errors.Is(err, llm.ErrQueueFull):
				if full++; full == 1 {
					is(t, err, llm.ErrQueueFull)
				}
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	t.Logf("%d answered, %d turned away", fine, full)
	if full == 0 || fine == 0 {
		t.Errorf("%d answered, %d turned away; want some of both", fine, full)
	}
}

// TestMemory: a context whose cache is larger than the machine.
func TestMemory(t *testing.T) {
	s := up(t)
	file := filepath.Join(s.dir, "vast.gguf")
	gguf(t, file, engine.Config{Vocab: 320, Dim: 256, Layers: 64, Heads: 2, FF: 32, Ctx: 1 << 20, Eps: 1e-5, Theta: 1e4}, nil)
	s.create(t, "vast", engine.Modelfile(file))
	defer os.Remove(file)
	m := s.client(t, ollama.Options{Context: 1 << 20}).Model("vast")
	_, err := m.Chat(short(t, time.Minute), drawn(ask("hello"), 0, 1, 4), nil)
	is(t, err, llm.ErrMemory)
	t.Log(err)
}

// TestNoEmbedding: the server's newer engine has none for this architecture,
// and says so only when asked.
func TestNoEmbedding(t *testing.T) {
	path := program(t)
	dir := t.TempDir()
	s := launch(t, path, dir, "OLLAMA_NEW_ENGINE=1")
	defer s.stop()
	s.tiny(t)
	m := s.client(t, ollama.Options{}).Model("tiny")
	_, err := m.Embed(t.Context(), []string{"kitchen"})
	is(t, err, llm.ErrNoEmbedding)
	if i, err := m.Describe(t.Context()); err != nil || i.Embed {
		t.Errorf("got %+v, %v, want no embeddings", i, err)
	}
	if _, err := m.Chat(t.Context(), under(drawn(ask("hello"), 0, 1, 400), bounded), nil); err != nil {
		t.Errorf("its newer engine: %v", err)
	}
	_, err = openai.New(openai.Options{Name: "tiny", URL: "http://" + s.host + "/v1"}).Embed(t.Context(), []string{"kitchen"})
	is(t, err, llm.ErrNoEmbedding)
}
