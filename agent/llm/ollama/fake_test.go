package ollama_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"edged/agent/llm"
	"edged/agent/llm/llmtest"
	"edged/agent/llm/ollama"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a server whose /api/chat is a function.
func fake(t testing.TB, chat http.HandlerFunc) *ollama.Server {
	t.Helper()
	url := llmtest.Serve(t, "/api/chat", chat, map[string]string{
		"/api/show": `{"capabilities":["completion","tools","thinking"],"model_info":{"general.architecture":"qwen2","qwen2.context_length":32768}}`,
		"/api/ps":   `{"models":[{"name":"m:latest"}]}`,
	})
	s, err := ollama.New(ollama.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// says makes a chat of fixed lines.
func says(lines ...string) http.HandlerFunc {
	pieces := make([]string, len(lines))
	for i, l := range lines {
		pieces[i] = l + "\n"
	}
	return llmtest.Pieces("application/x-ndjson", pieces...)
}

func word(s string) string {
	b, _ := json.Marshal(s)
	return `{"message":{"role":"assistant","content":` + string(b) + `},"done":false}`
}

const (
	stop   = `{"message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","prompt_eval_count":10,"eval_count":3}`
	length = `{"message":{"role":"assistant","content":""},"done":true,"done_reason":"length","eval_count":3}`
	called = `{"message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"turn","arguments":{"degrees":90,"direction":"left"}}}]},"done":false}`
)

func hello() llm.Request { return llmtest.Ask("hello") }

func TestWhatServersDo(t *testing.T) {
	schema := llmtest.Under(hello(), `{"type":"object"}`)
	required := llmtest.Offer(hello(), llm.Tool{Name: "turn"})
	required.Choice = llm.ChoiceRequired
	for _, row := range []struct {
		name string
		chat http.HandlerFunc
		ask  llm.Request
		want error
		text string
	}{
		{"an answer", says(word("Hel"), word("lo\n"), stop), hello(), nil, "Hello"},
		{"an answer in one line", says(`{"message":{"content":"Hi"},"done":true,"done_reason":"stop"}`), hello(), nil, "Hi"},
		{"an old server without a reason", says(word("Hi"), `{"done":true}`), hello(), nil, "Hi"},
		{"more after the last word", says(word("Hi"), stop, word("ghost")), hello(), nil, "Hi"},
		{"JSON with blanks around it", says(word(" \n{\"a\": 1}\t\n"), stop), schema, nil, `{"a": 1}`},
		{"the form of a call", says(word(`{"name":"turn","arguments":{ "a": 1 }}`), stop), required, nil, ""},
		{"no last word", says(word("Hel")), hello(), llm.ErrNoDone, ""},
		{"nothing at all", says(), hello(), llm.ErrNoDone, ""},
		{"repeats itself, newer server", says(word("a"), `{"error":"prediction aborted, token repeat limit reached"}`), hello(), llm.ErrNoDone, ""},
		{"cut off", says(word(`{"a":tr`), length), schema, llm.ErrCutOff, ""},
		{"no words", says(stop), hello(), llm.ErrEmpty, ""},
		{"no words but one token", says(`{"done":true,"done_reason":"stop","eval_count":1}`), hello(), nil, ""},
		{"no JSON", says(word("sure: {}"), stop), schema, llm.ErrSchema, ""},
		{"the form of no call", says(word("sure"), stop), required, llm.ErrSchema, ""},
		{"the form of a call of another tool", says(word(`{"name":"sing","arguments":{}}`), stop), required, llm.ErrSchema, ""},
		{"queue full", llmtest.Status(503, `{"error":"server busy, please try again.  maximum pending requests exceeded"}`), hello(), llm.ErrQueueFull, ""},
		{"out of memory", llmtest.Status(500, `{"error":"model requires more system memory (9.1 GiB) than is available (3.0 GiB)"}`), hello(), llm.ErrMemory, ""},
		{"an error in mid-stream", says(word("a"), `{"error":"an error was encountered while running the model: CUDA error"}`), hello(), llm.ErrServer, ""},
		{"context, in mid-stream", says(`{"error":"the input length exceeds the context length","status":400}`), hello(), llm.ErrContext, ""},
		{"a page of something else", llmtest.Status(200, "<html>\n<body>router</body>"), hello(), llm.ErrServer, ""},
		{"not found, as a page", llmtest.Status(404, "404 page not found"), hello(), llm.ErrServer, ""},
		{"a proxy without a server", llmtest.Status(502, "<html>Bad Gateway</html>"), hello(), llm.ErrDown, ""},
		{"a line that is no JSON", says(word("a"), "}{"), hello(), llm.ErrServer, ""},
		{"a line of another shape", says(`{"message":"hello"}`), hello(), llm.ErrServer, ""},
		{"a line of megabytes", says(word(strings.Repeat("x", 2<<20))), hello(), llm.ErrServer, ""},
		{"it never stops", func(w http.ResponseWriter, r *http.Request) {
			for line := word(strings.Repeat("x", 5000)) + "\n"; r.Context().Err() == nil; {
				io.WriteString(w, line)
			}
		}, hello(), llm.ErrServer, ""},
		{"reset before the answer", llmtest.Broken(""), hello(), llm.ErrDown, ""},
		{"reset in mid-answer", llmtest.Broken("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"mes"), hello(), llm.ErrDown, ""},
		{"nothing asked", says(stop), llm.Request{}, llm.ErrEmpty, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			a, err := fake(t, row.chat).Model("m").Chat(t.Context(), row.ask, func(string) error { return nil })
			if !errors.Is(err, row.want) || a.Text != row.text {
				t.Fatalf("got %+v, %v, want %q, %v", a, err, row.text, row.want)
			}
			var trouble *llm.Trouble
			if err != nil && (!errors.As(err, &trouble) || trouble.Remedy == "" || strings.Contains(err.Error(), "\n")) {
				t.Errorf("%q has no remedy or several lines", err)
			}
		})
	}
}

func TestCalls(t *testing.T) {
	m := fake(t, says(word("Turning."), called, called, stop)).Model("m")
	r := llmtest.Offer(hello(), llm.Tool{Name: "turn"})
	a, err := m.Chat(t.Context(), r, nil)
	if err != nil || a.Finish != llm.FinishCall || len(a.Calls) != 2 || a.Text != "Turning." {
		t.Fatalf("got %+v, %v", a, err)
	}
	if a.Calls[0].ID != "call_1_0" || a.Calls[1].ID != "call_1_1" || a.Usage.PromptTokens != 10 || a.Usage.OutputTokens != 3 {
		t.Errorf("got %+v, want ids made from the place in the dialogue", a)
	}
}

// TestRequest is what goes over the wire.
func TestRequest(t *testing.T) {
	var got map[string]any
	m := fake(t, func(w http.ResponseWriter, r *http.Request) {
		got = nil
		json.NewDecoder(r.Body).Decode(&got)
		says(word("ok"), stop)(w, r)
	}).Model("m")
	zero, seed := 0.0, int64(0)
	r := llm.Request{Messages: []llm.Message{
		{Role: llm.System, Text: "Be brief."},
		{Role: llm.User, Text: "left"},
		{Role: llm.Assistant, Thinking: "hm", Calls: []llm.Call{{ID: "c1", Name: "turn", Args: json.RawMessage(`{"b":1,"a":2}`)}}},
		{Role: llm.ToolRole, Name: "turn", CallID: "c1", Text: "ok"},
	}, Sampling: llm.Sampling{Temperature: &zero, Seed: &seed}}
	r = llmtest.Offer(r, llm.Tool{Name: "turn", Doc: "Turn.", Params: json.RawMessage(`{"type":"object","required":["deg"],"properties":{
		"deg":{"type":"integer","description":"angle","minimum":-180,"maximum":180,"default":90},
		"way":{"oneOf":[{"const":"l"},{"const":"r"}]},"s":{"type":"string","maxLength":8,"pattern":"^a"}}}`)}, llm.Tool{Name: "stop"})
	if _, err := m.Chat(t.Context(), r, nil); err != nil {
		t.Fatal(err)
	}
	text := func(path ...any) string {
		var v any = got
		for _, p := range path {
			switch p := p.(type) {
			case string:
				v = v.(map[string]any)[p]
			case int:
				v = v.([]any)[p]
			}
		}
		b, _ := json.Marshal(v)
		return string(b)
	}
	threads := max(1, runtime.NumCPU()-1)
	for _, row := range []struct {
		path []any
		want string
	}{
		{[]any{"model"}, `"m"`},
		{[]any{"think"}, `false`},
		{[]any{"stream"}, `false`},
		{[]any{"truncate"}, `false`},
		{[]any{"shift"}, `false`},
		{[]any{"keep_alive"}, `-1`},
		{[]any{"options"}, fmt.Sprintf(`{"num_ctx":4096,"num_predict":512,"num_thread":%d,"seed":0,"temperature":0}`, threads)},
		{[]any{"messages", 2}, `{"content":"","role":"assistant","tool_calls":[{"function":{"arguments":{"a":2,"b":1},"index":0,"name":"turn"},"id":"c1"}]}`},
		{[]any{"messages", 3}, `{"content":"ok","role":"tool","tool_call_id":"c1","tool_name":"turn"}`},
		{[]any{"tools", 0, "function", "parameters", "properties", "deg"}, `{"description":"angle (-180 to 180, default 90)","type":"integer"}`},
		{[]any{"tools", 0, "function", "parameters", "properties", "way"}, `{"enum":["l","r"]}`},
		{[]any{"tools", 0, "function", "parameters", "properties", "s"}, `{"description":"(at most 8 characters, like ^a)","type":"string"}`},
		{[]any{"tools", 1, "function", "parameters"}, `{"properties":{},"type":"object"}`},
	} {
		if s := text(row.path...); !strings.HasPrefix(s, strings.TrimSuffix(row.want, "1")) && s != row.want {
			t.Errorf("%v: got %s, want %s", row.path, s, row.want)
		}
	}
	if _, err := m.Chat(t.Context(), r, func(string) error { return nil }); err != nil || text("stream") != "true" {
		t.Errorf("with a listener: stream %s, %v", text("stream"), err)
	}
	// A structured turn doesn't think, one that may thinks, and limits are kept.
	under := llmtest.Under(hello(), `{"type":"object"}`)
	under.Think = true
	if _, err := m.Chat(t.Context(), under, nil); !errors.Is(err, llm.ErrSchema) || text("think") != "false" || text("format") != `{"type":"object"}` {
		t.Errorf("structured: think %s, format %s, %v", text("think"), text("format"), err)
	}
	free := hello()
	free.Think, free.MaxTokens = true, 7
	if _, err := m.Chat(t.Context(), free, nil); err != nil || text("think") != "true" || text("options", "num_predict") != "7" {
		t.Errorf("free: think %s, num_predict %s, %v", text("think"), text("options", "num_predict"), err)
	}
	broken := llmtest.Offer(hello(), llm.Tool{Name: "x", Params: json.RawMessage(`{`)})
	if _, err := m.Chat(t.Context(), broken, nil); !errors.Is(err, llm.ErrBadSchema) {
		t.Errorf("parameters that are no JSON: %v", err)
	}
}

// TestCancelIsHeard: the server sees that nobody listens any more.
func TestCancelIsHeard(t *testing.T) {
	gone := make(chan struct{})
	m := fake(t, func(w http.ResponseWriter, r *http.Request) {
		says(word("a"), word("b"), word("c"), word("d"))(w, r)
		<-r.Context().Done()
		close(gone)
	}).Model("m")
	ctx, cancel := context.WithCancel(t.Context())
	said := 0
	_, err := m.Chat(ctx, hello(), func(string) error { said++; cancel(); return nil })
	if !errors.Is(err, context.Canceled) || said != 1 {
		t.Errorf("got %v after %d pieces, want nothing after the first", err, said)
	}
	<-gone
}

// TestSlowDrip: a server that says a word now and then is bounded by the
// caller's deadline, also before it says anything.
func TestSlowDrip(t *testing.T) {
	for _, first := range []string{"", word("a") + "\n"} {
		m := fake(t, func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, first)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}).Model("m")
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		_, err := m.Chat(ctx, hello(), nil)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "more time") {
			t.Errorf("got %v, want the deadline's error and what to try", err)
		}
	}
}

// TestDescribeOnce: capabilities are asked for once, and not while it is down.
func TestDescribeOnce(t *testing.T) {
	var shows atomic.Int32
	down := atomic.Bool{}
	down.Store(true)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case down.Load():
			w.WriteHeader(502)
		case r.URL.Path == "/api/show":
			shows.Add(1)
			io.WriteString(w, `{"capabilities":["completion","tools"],"model_info":{"general.architecture":"q","q.context_length":2048}}`)
		default:
			io.WriteString(w, `{"models":[]}`)
		}
	}))
	defer server.Close()
	s, err := ollama.New(ollama.Options{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Model("m").Describe(t.Context()); !errors.Is(err, llm.ErrDown) {
		t.Errorf("down: got %v", err)
	}
	down.Store(false)
	for range 3 {
		i, err := s.Model("m").Describe(t.Context())
		if want := (llm.Info{Name: "ollama:m", Tools: true, Schema: true, Context: 2048}); err != nil || i != want {
			t.Errorf("got %+v, %v, want %+v", i, err, want)
		}
	}
	if shows.Load() != 1 {
		t.Errorf("asked %d times, want once", shows.Load())
	}
}

func TestAddress(t *testing.T) {
	for in, want := range map[string]string{
		"": "http://127.0.0.1:11434", "box": "http://box:11434", "box:1": "http://box:1", ":1": "http://127.0.0.1:1",
		"0.0.0.0": "http://127.0.0.1:11434", "0.0.0.0:5": "http://127.0.0.1:5", "http://box": "http://box:80",
		"https://box/ollama/": "https://box:443/ollama", "[::1]:7": "http://[::1]:7", "::1": "http://[::1]:11434", " box ": "http://box:11434",
	} {
		if u, err := ollama.Address(in); err != nil || u.String() != want {
			t.Errorf("%q: got %v, %v, want %s", in, u, err, want)
		}
	}
	for _, in := range []string{"ftp://box", "a b", "http://box:x"} {
		if u, err := ollama.Address(in); err == nil {
			t.Errorf("%q: got %v, want an error", in, u)
		}
	}
}

func TestPrefix(t *testing.T) {
	llmtest.SamePrefix(t, func(answer http.HandlerFunc) llm.Model { return fake(t, answer).Model("m") }, says(word("ok"), stop))
}

// TestContract runs the suite that every model passes.
func TestContract(t *testing.T) {
	s := fake(t, func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Format json.RawMessage
			Tools  []any
		}
		json.NewDecoder(r.Body).Decode(&q)
		switch {
		case q.Format != nil:
			says(word(`{"ok"`), word(`: true}`), stop)(w, r)
		case q.Tools != nil:
			says(called, stop)(w, r)
		default:
			says(word("Hel"), word("lo"), stop)(w, r)
		}
	})
	llmtest.Run(t, func(*testing.T) llm.Model { return s.Model("m") }, llmtest.Traits{
		Chat: hello(), Pieces: true, Empty: llm.ErrEmpty,
		Call: llmtest.Offer(hello(), llm.Tool{Name: "turn"}),
		Form: llmtest.Under(hello(), `{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}`),
	})
}

// FuzzStream: whatever a server sends, the answer is one of ours.
func FuzzStream(f *testing.F) {
	f.Add([]byte(word("a")+"\n"+stop), false)
	f.Add([]byte(called+"\n"+stop), true)
	f.Add([]byte(`{"error":"x","status":500}`), false)
	f.Add([]byte(`{"message":{"tool_calls":[{"function":{"arguments":null}}]},"done":true}`), true)
	var body []byte
	s, err := ollama.New(ollama.Options{Transport: llmtest.Replies(func() (string, []byte) { return "", body })})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte, form bool) {
		body = b
		r := hello()
		if form {
			r = llmtest.Under(r, `{}`)
		}
		a, err := s.Model("m").Chat(t.Context(), r, func(piece string) error {
			if piece == "" {
				t.Error("an empty piece was said")
			}
			return nil
		})
		llmtest.WellBehaved(t, r, a, err)
	})
}

// BenchmarkAnswer: what an answer of 64 words costs beside the model. Ollama's
// own client takes 8 MiB for it.
func BenchmarkAnswer(b *testing.B) {
	lines := []byte(strings.Repeat(word("word ")+"\n", 64) + stop)
	s, err := ollama.New(ollama.Options{Transport: llmtest.Replies(func() (string, []byte) { return "", lines })})
	if err != nil {
		b.Fatal(err)
	}
	m := s.Model("m")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Chat(b.Context(), hello(), nil); err != nil {
			b.Fatal(err)
		}
	}
}

func Example() {
	s, err := ollama.New(ollama.Options{URL: os.Getenv("OLLAMA_HOST"), Context: 2048})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	answer, err := s.Model("qwen2.5:1.5b").Chat(ctx, llm.Request{
		Messages: []llm.Message{{Role: llm.User, Text: "hello"}},
	}, func(words string) error { fmt.Print(words); return nil })
	if errors.Is(err, llm.ErrDown) {
		fmt.Println("no model server; going on without")
	}
	fmt.Println(answer.Usage.OutputTokens)
}
