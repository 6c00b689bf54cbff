package wire_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"edged/agent/llm"
	"edged/agent/llm/wire"
)

func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"version":"0.24.0"}`) }))
	defer server.Close()

	c := wire.New("ollama", server.URL, wire.Options{})
	var v struct{ Version string }
	err := c.JSON(context.Background(), "GET", "/api/version", nil, &v)
	fmt.Println(v.Version, err)
	// Output: 0.24.0 <nil>
}

// TestClassify holds texts that servers really say.
func TestClassify(t *testing.T) {
	for _, row := range []struct {
		status int
		text   string
		want   error
	}{
		// Ollama 0.24, seen.
		{400, "registry.ollama.ai/library/plain:latest does not support tools", llm.ErrNoTools},
		{400, `"tiny" does not support thinking`, llm.ErrNoThinking},
		{404, "model 'nope' not found", llm.ErrUnknownModel},
		{400, "model is required", llm.ErrUnknownModel},
		{500, "invalid JSON schema in format", llm.ErrBadSchema},
		{500, `invalid format: "yaml"; expected "json" or a valid JSON Schema object`, llm.ErrBadSchema},
		{400, "the input length exceeds the context length", llm.ErrContext},
		{503, "server busy, please try again.  maximum pending requests exceeded", llm.ErrQueueFull},
		{500, "model requires more system memory (64.1 GiB) than is available (22.7 GiB)", llm.ErrMemory},
		{500, "llama runner process has terminated: signal: killed", llm.ErrMemory},
		{500, "this model does not support embeddings", llm.ErrNoEmbedding},
		{0, "prediction aborted, token repeat limit reached", llm.ErrNoDone},
		{0, "an error was encountered while running the model: unexpected EOF", llm.ErrServer},
		{500, "model runner has unexpectedly stopped, this may be due to resource limitations", llm.ErrServer},
		{0, "pull model manifest: file does not exist", llm.ErrUnknownModel},
		{500, "pull model manifest: Get \"https://registry.ollama.ai/v2/\": no such host", llm.ErrServer},
		// Others, from their sources and issues.
		{500, "tools param requires --jinja flag", llm.ErrNoTools},
		{400, `"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set`, llm.ErrNoTools},
		{400, "the request exceeds the available context size, try increasing it [exceed_context_size_error]", llm.ErrContext},
		{400, "This model's maximum context length is 4096 tokens. [context_length_exceeded]", llm.ErrContext},
		{503, "Loading model [unavailable_error]", llm.ErrDown},
		{400, "failed to parse grammar", llm.ErrBadSchema},
		{404, "The model `gpt-9` does not exist [model_not_found]", llm.ErrUnknownModel},
		{429, "Rate limit reached", llm.ErrQueueFull},
		{429, "You exceeded your current quota [insufficient_quota]", llm.ErrServer},
		{501, "This server does not support embeddings. Start it with `--embeddings`", llm.ErrNoEmbedding},
		{401, "Invalid API Key", llm.ErrServer},
		{502, "Bad Gateway", llm.ErrDown},
		{404, "404 page not found", llm.ErrServer},
		{413, "Request Entity Too Large", llm.ErrContext},
		{418, "", llm.ErrServer},
	} {
		if got := wire.Classify(row.status, row.text); got != row.want {
			t.Errorf("%d %q: got %q, want %q", row.status, row.text, got, row.want)
		}
	}
}

func TestErrorText(t *testing.T) {
	for _, row := range []struct{ body, want string }{
		{`{"error":"model 'x' not found"}`, "model 'x' not found"},
		{`{"error":{"message":"no","type":"bad","code":"oops"}}`, "no [oops]"},
		{`{"error":{"message":"no","type":"bad","code":400}}`, "no [bad]"},
		{`{"object":"error","message":"no way"}`, "no way"},
		{`{"detail":"Not Found"}`, "Not Found"},
		{"404 page\nnot  found\n", "404 page not found"},
		{"", "Not Found"},
		{`{"error":null}`, "Not Found"},
		{strings.Repeat("é", 200), strings.Repeat("é", 150) + "…"},
	} {
		if got := wire.ErrorText([]byte(row.body), 404); got != row.want {
			t.Errorf("%q: got %q, want %q", row.body, got, row.want)
		}
	}
}

func TestBroken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := l.Addr().String()
	l.Close()
	err = wire.New("x", "http://"+free, wire.Options{}).JSON(t.Context(), "GET", "/", nil, nil)
	if !errors.Is(err, llm.ErrDown) || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("nobody there: got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := wire.New("x", "http://"+free, wire.Options{}).JSON(ctx, "GET", "/", nil, nil); !errors.Is(err, context.Canceled) || errors.Is(err, llm.ErrDown) {
		t.Errorf("cancelled: got %v", err)
	}
	if err := wire.New("x", "http://no such host", wire.Options{}).JSON(t.Context(), "GET", "/", nil, nil); !errors.Is(err, llm.ErrDown) {
		t.Errorf("bad address: got %v", err)
	}

	talk := func(words string) string { // a server of a single sentence
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			http.ReadRequest(bufio.NewReader(c))
			io.WriteString(c, words)
			c.Close()
		}()
		return "http://" + l.Addr().String()
	}
	for _, row := range []struct {
		name, says string
		want       error
	}{
		{"hangs up", "", llm.ErrDown},
		{"speaks something else", "SSH-2.0-OpenSSH_9.2\r\n", llm.ErrServer},
		{"cut body", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", llm.ErrDown},
		{"garbage", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n?", llm.ErrServer},
	} {
		var v any
		if err := wire.New("x", talk(row.says), wire.Options{}).JSON(t.Context(), "GET", "/", nil, &v); !errors.Is(err, row.want) {
			t.Errorf("%s: got %v, want %q", row.name, err, row.want)
		}
	}
}

func TestLines(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	l := wire.NewLines(iotest.OneByteReader(strings.NewReader("\n a \r\n\r\nb\n" + long + "\nlast")))
	for _, want := range []string{"a", "b", long, "last"} {
		if got, err := l.Next(); err != nil || string(got) != want {
			t.Errorf("got %.20q (%d bytes), %v, want %.20q", got, len(got), err, want)
		}
	}
	for range 2 {
		if _, err := l.Next(); err != io.EOF {
			t.Errorf("got %v, want the end", err)
		}
	}
	if _, err := wire.NewLines(io.LimitReader(zeros{}, 1<<40)).Next(); err != wire.ErrLine {
		t.Errorf("endless line: got %v", err)
	}
	broken := errors.New("broken")
	if got, err := wire.NewLines(io.MultiReader(strings.NewReader("half"), iotest.ErrReader(broken))).Next(); err != broken {
		t.Errorf("got %q, %v, want half a line not to count", got, err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// TestLinesLikeSplit: however the bytes come, the lines are those of a split.
func TestLinesLikeSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.OneOf(rapid.StringMatching(`[a-z {}:"\r]{0,40}`), rapid.Just("\n"), rapid.Just(strings.Repeat("y", 5000)))
		text := strings.Join(rapid.SliceOf(piece).Draw(t, "pieces"), "")
		var want []string
		for _, s := range strings.Split(text, "\n") {
			if s = strings.TrimSpace(s); s != "" {
				want = append(want, s)
			}
		}
		l := wire.NewLines(iotest.HalfReader(strings.NewReader(text)))
		for i := 0; ; i++ {
			got, err := l.Next()
			if err == io.EOF {
				if i != len(want) {
					t.Fatalf("got %d lines, want %d", i, len(want))
				}
				return
			}
			if err != nil || i >= len(want) || !bytes.Equal(got, []byte(want[i])) {
				t.Fatalf("line %d: got %q, %v", i, got, err)
			}
		}
	})
}

// TestSentOn: where a server sends a request on to gets neither the prompt nor
// the key, and the error says what to do.
func TestSentOn(t *testing.T) {
	var got atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { got.Add(1) }))
	defer other.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, to := range []string{other.URL + "/v1", "/elsewhere", "//" + strings.TrimPrefix(other.URL, "http://") + "/v1", ""} {
			asked := 0
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked++
				if to != "" {
					w.Header().Set("Location", to)
				}
				w.WriteHeader(status)
			}))
			c := wire.New("x", web.URL, wire.Options{Header: http.Header{"Authorization": {"Bearer s3cret-key"}}, Secret: "s3cret-key"})
			err := c.JSON(t.Context(), "POST", "/chat", map[string]any{"prompt": "x"}, nil)
			if !errors.Is(err, llm.ErrServer) || !strings.Contains(err.Error(), "sends requests on") || asked != 1 {
				t.Errorf("%d to %q: %v, asked %d times; want an error that names it, and one request", status, to, err, asked)
			}
			web.Close()
		}
	}
	if n := got.Load(); n != 0 {
		t.Errorf("%d requests reached a server that nobody named", n)
	}
}

// TestKeyInErrors: what a server says of a key is told without it.
func TestKeyInErrors(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(401)
		fmt.Fprintf(w, `{"error":{"message":"Incorrect API key provided: %s."}}`, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	}))
	defer web.Close()
	c := wire.New("x", web.URL, wire.Options{Header: http.Header{"Authorization": {"Bearer s3cret-key"}}, Secret: "s3cret-key"})
	err := c.JSON(t.Context(), "POST", "/chat", nil, nil)
	if err == nil || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "Incorrect API key provided: ***") {
		t.Errorf("got %v, want it with *** for the key", err)
	}
}
