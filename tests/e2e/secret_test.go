package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"edged/agent/llm"
	"edged/agent/llm/mcp"
)

// TestSecrets: a secret gets to the server that it is for, and to nobody else:
// not to where that server sends requests on to, and not into anything that is
// kept, told or logged, even if the server says it aloud.
func TestSecrets(t *testing.T) {
	const key, token, word = "s3cret-key-1", "s3cret-token-2", "s3cret-word-3"
	var mu sync.Mutex
	had := map[string]int{}
	seen := func(who string, r *http.Request) string {
		mu.Lock()
		defer mu.Unlock()
		had[who+" "+r.Header.Get("Authorization")]++
		return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	}
	thief := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { seen("thief", r) }))
	defer thief.Close()
	asked := 0
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		auth := seen("model", r)
		b, _ := io.ReadAll(r.Body)
		switch {
		case strings.HasSuffix(r.URL.Path, "/models"):
			fmt.Fprint(w, `{"data":[{"id":"m"}]}`)
		case strings.Contains(string(b), "send me on"):
			http.Redirect(w, r, thief.URL+"/v1/chat/completions", http.StatusTemporaryRedirect)
		case strings.Contains(string(b), "say it"):
			w.WriteHeader(401)
			fmt.Fprintf(w, `{"error":{"message":"Incorrect API key provided: %s"}}`, auth)
		case asked == 0:
			asked++
			answer(w, b, "tool_calls", `"tool_calls":[{"index":0,"id":"1","type":"function","function":{"name":"whoami","arguments":"{}"}}]`)
		default:
			answer(w, b, "stop", `"content":"Here."`)
		}
	}))
	defer model.Close()
	last := ""
	offer := mcp.Offer{Name: "x", Tools: func() []llm.Tool {
		return []llm.Tool{{Name: "whoami", Doc: "Who am I?", Do: func(context.Context, json.RawMessage) (json.RawMessage, error) {
			return json.Marshal("you are " + last)
		}}}
	}}
	h := offer.Handler()
	tools := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		last = seen("tools", r)
		h.ServeHTTP(w, r)
	}))
	defer tools.Close()
	dir := folder(t, map[string]string{
		"edged.toml": fmt.Sprintf("name = \"bot\"\nlog = \"debug\"\n[secrets]\nkey = \"key\"\ntoken = \"token\"\nword = \"word\"\n[allow]\nall = true\n[models.keys]\n%q = \"secret:word\"\n", strings.TrimPrefix(thief.URL, "http://")),
		"main.star": fmt.Sprintf(`
KEY, TOKEN = secret("key"), secret("token")
a = Agent("a", model = Model("openai:m@%[1]s/v1", key = KEY), tools = [mcp("%[2]s", headers = {"Authorization": TOKEN}, read = ["whoami"])])
b = Agent("b", model = Model("openai:m@%[1]s/v1", key = KEY))
def go(ev):
    r = [a.run("who am I"), b.run("send me on"), b.run("say it")]
    log.info("done", key = KEY, r = str(r))
    print(KEY)
    bus.publish("bot/done", [[x.status, x.reply, x.reason] for x in r])
    bus.publish("bot/never", KEY)
on("bot/go", go)
`, model.URL, tools.URL),
		"key": key, "token": "Bearer " + token, "word": word,
	})
	for _, f := range []string{"key", "token", "word"} {
		if err := os.Chmod(filepath.Join(dir, f), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	record := filepath.Join(t.TempDir(), "record")
	r := start(t, dir, "run", dir, "--record", record)
	r.ready()
	done := r.hears("bot/done")
	r.must("pub", "bot/go")
	out := fmt.Sprint(done())
	for _, want := range []string{"done Here.", "sends requests on to " + thief.URL, "Incorrect API key provided: ***"} {
		if !strings.Contains(out, want) {
			t.Errorf("the runs: %s; want %q in it", out, want)
		}
	}
	mu.Lock()
	for _, want := range []string{"model Bearer " + key, "tools Bearer " + token} {
		if had[want] == 0 {
			t.Errorf("nobody got %q: %v", want, had)
		}
	}
	for who := range had {
		if strings.HasPrefix(who, "thief") {
			t.Errorf("a server that nobody named got %q", who)
		}
	}
	mu.Unlock()
	told := map[string]string{}
	for _, verb := range []string{"status --json", "trace --json -n 0", "config --json", "doctor --no-models", "why bot/done", "graph", "audit", "bb keys"} {
		told[verb], _ = r.edged(strings.Fields(verb)...)
	}
	cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", r.cmd.Process.Pid))
	environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", r.cmd.Process.Pid))
	told["ps"] = string(cmdline) + string(environ)
	// The crash: what Go prints of a process that is told to.
	r.end(syscall.SIGQUIT)
	told["output"] = r.out.String()
	if !strings.Contains(told["output"], "goroutine ") {
		t.Error("it did not crash")
	}
	for _, root := range []string{dir, filepath.Dir(record)} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() || filepath.Dir(path) == dir && (d.Name() == "key" || d.Name() == "token" || d.Name() == "word") {
				return err
			}
			b, err := os.ReadFile(path)
			told[path] = string(b)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(told) < 12 {
		t.Errorf("looked at no more than %d things", len(told))
	}
	for where, text := range told {
		if strings.Contains(text, "s3cret") {
			i := strings.Index(text, "s3cret")
			t.Errorf("%s tells a secret: …%s…", where, text[max(i-80, 0):min(i+40, len(text))])
		}
	}
}

// answer answers a request as it wants it: whole, or as a stream.
func answer(w http.ResponseWriter, request []byte, finish, said string) {
	part, form := "message", "%s"
	w.Header().Set("Content-Type", "application/json")
	if strings.Contains(string(request), `"stream":true`) {
		w.Header().Set("Content-Type", "text/event-stream")
		part, form = "delta", "data: %s\n\ndata: [DONE]\n\n"
	}
	fmt.Fprintf(w, form, fmt.Sprintf(`{"choices":[{"index":0,"finish_reason":%q,%q:{"role":"assistant",%s}}]}`, finish, part, said))
}
