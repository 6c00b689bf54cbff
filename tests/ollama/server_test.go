// Package ollama runs the clients of agent/llm against a real Ollama server:
// its own API and, as the peer of the OpenAI client, its /v1.
//
// Its one rule: the server is real. It is built by install.sh (`make peers`),
// started on a free loopback port with a folder of its own, and given models
// that the tests write. Where it is missing the tests fail under `make test`
// and are skipped, loudly, by a plain `go test`. EDGED_SKIP_OLLAMA=1 is the one
// way to leave it out.
package ollama

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"edged/agent/llm/builtin/engine"
	"edged/agent/llm/ollama"
	"edged/tests/peer"
)

// program gives the path of the server, or ends the test.
func program(t testing.TB) string {
	t.Helper()
	if os.Getenv("EDGED_SKIP_OLLAMA") == "1" {
		t.Skip("SKIPPED: EDGED_SKIP_OLLAMA=1")
	}
	dir := os.Getenv("EDGED_CACHE")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			t.Fatal(err)
		}
		dir = filepath.Join(home, ".cache", "edged-peers")
	}
	path := filepath.Join(dir, "ollama", "ollama")
	if _, err := os.Stat(path); err != nil {
		peer.Missing(t, path+" (`make peers` builds it)")
	}
	return path
}

// server is a process of Ollama with a folder of its own.
type server struct {
	path, dir, host string
	env             []string
	cmd             *exec.Cmd
	log             *peer.Output
}

// launch starts a server; stop it by the caller.
func launch(t testing.TB, path, dir string, env ...string) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host := l.Addr().String()
	l.Close()
	s := &server{path: path, dir: dir, host: host, env: env, log: &peer.Output{}}
	s.start(t)
	return s
}

func (s *server) environment() []string {
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "TMPDIR=" + os.TempDir(),
		"OLLAMA_HOST=" + s.host, "OLLAMA_MODELS=" + filepath.Join(s.dir, "models"),
		"OLLAMA_NO_CLOUD=1", "OLLAMA_NOPRUNE=1",
	}, s.env...)
}

func (s *server) start(t testing.TB) {
	t.Helper()
	s.cmd = exec.Command(s.path, "serve")
	s.cmd.Env, s.cmd.Dir = s.environment(), s.dir
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, "the server answers", func() bool {
		resp, err := http.Get("http://" + s.host + "/api/version")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return true
	})
}

// stop ends the server and its engines.
func (s *server) stop() {
	if s == nil || s.cmd == nil {
		return
	}
	syscall.Kill(-s.cmd.Process.Pid, syscall.SIGTERM)
	timer := time.AfterFunc(5*time.Second, func() { syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL) })
	s.cmd.Wait()
	timer.Stop()
	syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL) // engines that outlived it
	s.cmd = nil
}

// create runs `ollama create` as a person would.
func (s *server) create(t testing.TB, name, modelfile string) {
	t.Helper()
	modelfile += "PARAMETER num_thread 1\n" // the cores are shared; /v1 has no word for it
	file := filepath.Join(s.dir, name+".Modelfile")
	if err := os.WriteFile(file, []byte(modelfile), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(s.path, "create", name, "-f", file)
	cmd.Env, cmd.Dir = s.environment(), s.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("ollama create %s: %v\n%s\n%s", name, err, out, s.log)
	}
}

// client makes edged's client of it: one thread, since the cores are shared.
func (s *server) client(t testing.TB, o ollama.Options) *ollama.Server {
	t.Helper()
	o.URL, o.Threads = s.host, 1
	c, err := ollama.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// engines gives the server's engine processes.
func (s *server) engines() []int {
	var pids []int
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		_, rest, ok := strings.Cut(string(b), ") ")
		fields := strings.Fields(rest)
		if !ok || len(fields) < 2 || fields[0] == "Z" || fields[1] != strconv.Itoa(s.cmd.Process.Pid) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		pids = append(pids, pid)
	}
	return pids
}

// shared is the server that most tests use.
var shared struct {
	sync.Once
	*server
}

func TestMain(m *testing.M) {
	code := m.Run()
	shared.server.stop()
	if shared.server != nil {
		os.RemoveAll(shared.dir)
	}
	os.Exit(code)
}

// shape is that of the models of random weights: about 200 kB.
var shape = engine.Config{Vocab: 320, Dim: 64, Layers: 2, Heads: 2, FF: 128, Ctx: 2048, Eps: 1e-5, Theta: 1e4}

// tiny gives the server the model "tiny".
func (s *server) tiny(t testing.TB) {
	t.Helper()
	gguf(t, filepath.Join(s.dir, "tiny.gguf"), shape, nil)
	s.create(t, "tiny", engine.Modelfile(filepath.Join(s.dir, "tiny.gguf")))
}

// up gives the shared server with the models "tiny" (random words), "plain"
// (the same without tools), "stuck" (one word for ever) and, where it is,
// "robot" (trained).
func up(t testing.TB) *server {
	t.Helper()
	path := program(t)
	shared.Do(func() {
		dir, err := os.MkdirTemp("", "edged-ollama-")
		if err != nil {
			t.Fatal(err)
		}
		s := launch(t, path, dir)
		shared.server = s
		s.tiny(t)
		gguf(t, filepath.Join(dir, "stuck.gguf"), shape, func(n *engine.Net) { clear(n.Embed.W) })
		s.create(t, "plain", "FROM "+filepath.Join(dir, "tiny.gguf")+"\nTEMPLATE \"\"\"{{ .Prompt }}\"\"\"\n")
		s.create(t, "stuck", engine.Modelfile(filepath.Join(dir, "stuck.gguf")))
		if robot := trained(); robot != "" {
			s.create(t, "robot", engine.Modelfile(robot))
		}
	})
	if shared.server == nil || shared.cmd == nil {
		t.Fatal("the server did not come up; an earlier failure says why")
	}
	return shared.server
}

// trained is the file of the model that ships with edged; empty if there is none.
func trained() string {
	files, _ := filepath.Glob("../../agent/llm/builtin/*.gguf")
	if len(files) == 0 {
		return ""
	}
	path, _ := filepath.Abs(files[0])
	return path
}

// gguf writes a model of random weights: it says anything, but says it.
func gguf(t testing.TB, path string, c engine.Config, change func(*engine.Net)) {
	t.Helper()
	n, err := engine.New(c, 1)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(n)
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	words := []string{"turn left", "go to the kitchen", "stop now", "the door is open"}
	if err := (&engine.File{Net: n, Tokenizer: engine.NewTokenizer(words, c.Vocab), Name: "tiny"}).Write(f, engine.F16); err != nil {
		t.Fatal(err)
	}
}

// eventually waits for something that the server's processes do.
func eventually(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %v it still does not hold that %s", limit, what)
		}
	}
}

func short(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
