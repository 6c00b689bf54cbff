package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"edged/agent/llm"
	"edged/agent/llm/llmtest"
	"edged/agent/llm/openai"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a model on a server whose /chat/completions is a function.
func fake(t testing.TB, chat http.HandlerFunc) *openai.Model {
	t.Helper()
	url := llmtest.Serve(t, "/v1/chat/completions", chat, map[string]string{
		"/v1/models": `{"data":[{"id":"/models/qwen.gguf","meta":{"n_ctx_train":32768}}]}`,
	})
	o, err := openai.Parse("m@" + url + "/v1")
	if err != nil {
		t.Fatal(err)
	}
	return openai.New(o)
}

// says makes an event stream of fixed lines.
func says(lines ...string) http.HandlerFunc {
	pieces := make([]string, len(lines))
	for i, l := range lines {
		pieces[i] = l + "\n\n"
	}
	return llmtest.Pieces("text/event-stream", pieces...)
}

func whole(body string) http.HandlerFunc {
	return llmtest.Body("application/json; charset=utf-8", body)
}

func delta(fields string) string {
	return `data: {"choices":[{"index":0,"delta":{` + fields + `},"finish_reason":null}]}`
}

func word(s string) string { b, _ := json.Marshal(s); return delta(`"content":` + string(b)) }

func end(reason string) string {
	return `data: {"choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}`
}

const (
	usage = `data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":3}}`
	done  = "data: [DONE]"
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
		{"an answer", says(word("Hel"), word("lo\n"), end("stop"), usage, done), hello(), nil, "Hello"},
		{"no blank after the colon, comments", says(": ping", "event: message", "data:"+strings.TrimPrefix(word("Hi"), "data: "), "data:", end("stop"), "data:[DONE]"), hello(), nil, "Hi"},
		{"no [DONE]", says(word("Hi"), end("stop")), hello(), nil, "Hi"},
		{"more after the last word", says(word("Hi"), end("stop"), done, word("ghost")), hello(), nil, "Hi"},
		{"a server that doesn't stream", whole(`{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}]}`), hello(), nil, "Hi"},
		{"JSON with blanks around it", says(word(" {}\n"), end("stop"), done), schema, nil, "{}"},
		{"no last word", says(word("Hel")), hello(), llm.ErrNoDone, ""},
		{"no last word but [DONE]", says(word("Hel"), done), hello(), llm.ErrNoDone, ""},
		{"cut off", says(word(`{"a":tr`), end("length"), done), schema, llm.ErrCutOff, ""},
		{"no words", says(end("stop"), usage, done), hello(), llm.ErrEmpty, ""},
		{"no JSON", says(word("```json"), end("stop"), done), schema, llm.ErrSchema, ""},
		{"words instead of a call", says(word("sure"), end("stop"), done), required, llm.ErrSchema, ""},
		{"arguments that are none", says(delta(`"tool_calls":[{"index":0,"id":"a","function":{"name":"turn","arguments":"left"}}]`), end("tool_calls"), done), hello(), llm.ErrSchema, ""},
		{"arguments cut short", says(delta(`"tool_calls":[{"index":0,"id":"a","function":{"name":"turn","arguments":"{\"a\":"}}]`), end("tool_calls"), done), hello(), llm.ErrSchema, ""},
		{"an error in mid-stream", says(word("a"), `data: {"error":{"message":"slot died","type":"server_error"}}`), hello(), llm.ErrServer, ""},
		{"an error in mid-stream, llama.cpp", says(word("a"), `error: {"code":500,"message":"context size exceeded","type":"exceed_context_size_error"}`), hello(), llm.ErrContext, ""},
		{"still loading", llmtest.Status(503, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`), hello(), llm.ErrDown, ""},
		{"too many", llmtest.Status(429, `{"error":{"message":"slow down","type":"rate_limit"}}`), hello(), llm.ErrQueueFull, ""},
		{"no slot", llmtest.Status(503, `{"error":{"message":"no slot available"}}`), hello(), llm.ErrQueueFull, ""},
		{"a key is wanted", llmtest.Status(401, `{"error":{"message":"Invalid API Key","type":"authentication_error"}}`), hello(), llm.ErrServer, ""},
		{"unknown model, vLLM", llmtest.Status(404, `{"object":"error","message":"The model `+"`m`"+` does not exist."}`), hello(), llm.ErrUnknownModel, ""},
		{"no /v1", llmtest.Status(404, "404 page not found"), hello(), llm.ErrServer, ""},
		{"no tools, llama.cpp", llmtest.Status(500, `{"error":{"message":"tools param requires --jinja flag"}}`), required, llm.ErrNoTools, ""},
		{"a page", llmtest.Status(200, "<html>\n</html>"), hello(), llm.ErrServer, ""},
		{"an event that is no JSON", says("data: }{"), hello(), llm.ErrServer, ""},
		{"a line of megabytes", says(word(strings.Repeat("x", 2<<20))), hello(), llm.ErrServer, ""},
		{"it never stops", func(w http.ResponseWriter, r *http.Request) {
			for line := word(strings.Repeat("x", 5000)) + "\n"; r.Context().Err() == nil; {
				io.WriteString(w, line)
			}
		}, hello(), llm.ErrServer, ""},
		{"reset in mid-answer", func(w http.ResponseWriter, r *http.Request) {
			says(word("a"))(w, r)
			panic(http.ErrAbortHandler)
		}, hello(), llm.ErrDown, ""},
		{"reset after the last word", func(w http.ResponseWriter, r *http.Request) {
			says(word("Hi"), end("stop"))(w, r)
			panic(http.ErrAbortHandler)
		}, hello(), nil, "Hi"},
	} {
		t.Run(row.name, func(t *testing.T) {
			a, err := fake(t, row.chat).Chat(t.Context(), row.ask, func(string) error { return nil })
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

// TestCalls: the shapes in which servers deliver calls.
func TestCalls(t *testing.T) {
	for _, row := range []struct {
		name string
		chat http.HandlerFunc
		want string // id name args, …
	}{
		{"in pieces, two side by side", says(
			delta(`"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"turn","arguments":""}}]`),
			delta(`"tool_calls":[{"index":0,"function":{"arguments":"{\"deg"}}]`),
			delta(`"tool_calls":[{"index":1,"id":"b","function":{"name":"stop","arguments":"{}"}}]`),
			delta(`"tool_calls":[{"index":0,"function":{"arguments":"\":90}"}}]`),
			end("tool_calls"), done), `a turn {"deg":90}, b stop {}`},
		{"in pieces without numbers", says(
			delta(`"tool_calls":[{"id":"a","function":{"name":"turn","arguments":"{\"deg"}}]`),
			delta(`"tool_calls":[{"function":{"arguments":"\":90}"}}]`),
			end("tool_calls"), done), `a turn {"deg":90}`},
		{"arguments as an object", says(delta(`"tool_calls":[{"index":0,"id":"a","function":{"name":"turn","arguments":{"deg": 90}}}]`), end("stop"), done), `a turn {"deg":90}`},
		{"no arguments, no ids", says(delta(`"tool_calls":[{"index":0,"function":{"name":"stop"}},{"index":1,"function":{"name":"go","arguments":null}}]`), end("tool_calls"), done), `call_1_0 stop {}, call_1_1 go {}`},
		{"in one piece", whole(`{"choices":[{"message":{"content":null,"tool_calls":[{"id":"a","function":{"name":"turn","arguments":"{}"}},{"id":"b","function":{"name":"turn","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`), `a turn {}, b turn {}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			a, err := fake(t, row.chat).Chat(t.Context(), llmtest.Offer(hello(), llm.Tool{Name: "turn"}), nil)
			var got []string
			for _, c := range a.Calls {
				got = append(got, c.ID+" "+c.Name+" "+string(c.Args))
			}
			if s := strings.Join(got, ", "); err != nil || s != row.want || a.Finish != llm.FinishCall {
				t.Errorf("got %s (%s), %v, want %s", s, a.Finish, err, row.want)
			}
		})
	}
}

func TestThoughts(t *testing.T) {
	var said []string
	a, err := fake(t, says(delta(`"reasoning_content":"hm "`), delta(`"reasoning":"well"`), word("Yes."), end("stop"), done)).
		Chat(t.Context(), hello(), func(s string) error { said = append(said, s); return nil })
	if err != nil || a.Thinking != "hm well" || a.Text != "Yes." || len(said) != 1 {
		t.Errorf("got %+v, said %q, %v", a, said, err)
	}
}

// TestRequest is what goes over the wire.
func TestRequest(t *testing.T) {
	var got map[string]json.RawMessage
	var key string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, key = nil, r.Header.Get("Authorization")
		json.NewDecoder(r.Body).Decode(&got)
		if got["max_tokens"] != nil && strings.HasPrefix(r.URL.Path, "/new") {
			llmtest.Status(400, `{"error":{"message":"Unsupported parameter: use 'max_completion_tokens' instead."}}`)(w, r)
			return
		}
		says(word("{}"), end("stop"), done)(w, r)
	}))
	defer server.Close()
	m := openai.New(openai.Options{Name: "m", URL: server.URL + "/v1/", Key: "secret", Extra: map[string]any{"top_k": 3}})
	r := llm.Request{Messages: []llm.Message{
		{Role: llm.User, Text: "left"},
		{Role: llm.Assistant, Thinking: "hm", Calls: []llm.Call{{ID: "c1", Name: "turn", Args: json.RawMessage(`{"a":2}`)}}},
		{Role: llm.ToolRole, Name: "turn", CallID: "c1", Text: "ok"},
	}}
	r = llmtest.Offer(r, llm.Tool{Name: "turn", Doc: "Turn.", Params: json.RawMessage(`{"type":"object","properties":{"d":{"type":"integer","maximum":9}}}`)})
	if _, err := m.Chat(t.Context(), r, nil); err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]string{
		"model": `"m"`, "stream": `false`, "stream_options": "", "top_k": `3`, "max_tokens": `512`, "tool_choice": "", "temperature": "",
		"messages": `[{"content":"left","role":"user"},{"content":"","role":"assistant","tool_calls":[{"function":{"arguments":"{\"a\":2}","name":"turn"},"id":"c1","type":"function"}]},{"content":"ok","role":"tool","tool_call_id":"c1"}]`,
		"tools":    `[{"function":{"description":"Turn.","name":"turn","parameters":{"type":"object","properties":{"d":{"type":"integer","maximum":9}}}},"type":"function"}]`,
	} {
		if s := string(got[field]); s != want {
			t.Errorf("%s: got %s, want %s", field, s, want)
		}
	}
	if _, err := m.Chat(t.Context(), r, func(string) error { return nil }); err != nil || string(got["stream"]) != "true" || string(got["stream_options"]) != `{"include_usage":true}` {
		t.Errorf("with a listener: stream %s, %s, %v", got["stream"], got["stream_options"], err)
	}
	if key != "Bearer secret" {
		t.Errorf("got key %q", key)
	}
	under := llmtest.Under(hello(), `{"type":"object"}`)
	if _, err := m.Chat(t.Context(), under, nil); err != nil ||
		string(got["response_format"]) != `{"json_schema":{"name":"answer","schema":{"type":"object"},"strict":true},"type":"json_schema"}` {
		t.Errorf("schema: got %s, %v", got["response_format"], err)
	}
	newer := openai.New(openai.Options{Name: "m", URL: server.URL + "/new/v1"})
	for range 2 {
		if _, err := newer.Chat(t.Context(), under, nil); err != nil || string(got["max_completion_tokens"]) != "512" || got["max_tokens"] != nil {
			t.Errorf("newer word for the limit: %v, %v", got, err)
		}
	}
}

// TestSecretStays: no error shows the key.
func TestSecretStays(t *testing.T) {
	server := httptest.NewServer(llmtest.Status(401, `{"error":"who are you?"}`))
	defer server.Close()
	_, err := openai.New(openai.Options{Name: "m", URL: server.URL, Key: "secret"}).Chat(t.Context(), hello(), nil)
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

func TestCancelIsHeard(t *testing.T) {
	gone := make(chan struct{})
	m := fake(t, func(w http.ResponseWriter, r *http.Request) {
		says(word("a"), word("b"), word("c"))(w, r)
		<-r.Context().Done()
		close(gone)
	})
	ctx, cancel := context.WithCancel(t.Context())
	said := 0
	_, err := m.Chat(ctx, hello(), func(string) error { said++; cancel(); return nil })
	if !errors.Is(err, context.Canceled) || said != 1 {
		t.Errorf("got %v after %d pieces, want nothing after the first", err, said)
	}
	<-gone
}

// TestLearns: tools that were refused are not claimed again.
func TestLearns(t *testing.T) {
	m := fake(t, llmtest.Status(500, `{"error":{"message":"tools param requires --jinja flag"}}`))
	i, err := m.Describe(t.Context()) // one model on the server: its name doesn't matter
	if err != nil || !i.Tools || i.Context != 32768 {
		t.Errorf("got %+v, %v", i, err)
	}
	if _, err := m.Chat(t.Context(), llmtest.Offer(hello(), llm.Tool{Name: "x"}), nil); !errors.Is(err, llm.ErrNoTools) {
		t.Errorf("got %v", err)
	}
	if i, err := m.Describe(t.Context()); err != nil || i.Tools {
		t.Errorf("got %+v, %v, want no tools", i, err)
	}
}

func TestEmbed(t *testing.T) {
	for _, row := range []struct {
		name, body string
		want       error
	}{
		{"in any order", `{"data":[{"index":1,"embedding":[3,4]},{"index":0,"embedding":[1,2]}]}`, nil},
		{"one is missing", `{"data":[{"index":0,"embedding":[1,2]}]}`, llm.ErrServer},
		{"twice the same", `{"data":[{"index":0,"embedding":[1,2]},{"index":0,"embedding":[1,2]}]}`, llm.ErrServer},
		{"out of range", `{"data":[{"index":7,"embedding":[1,2]}]}`, llm.ErrServer},
		{"of two lengths", `{"data":[{"index":0,"embedding":[1,2]},{"index":1,"embedding":[1]}]}`, llm.ErrServer},
	} {
		server := httptest.NewServer(whole(row.body))
		v, err := openai.New(openai.Options{Name: "m", URL: server.URL}).Embed(t.Context(), []string{"a", "b"})
		if !errors.Is(err, row.want) || err == nil && fmt.Sprint(v) != "[[1 2] [3 4]]" {
			t.Errorf("%s: got %v, %v", row.name, v, err)
		}
		server.Close()
	}
}

func TestParse(t *testing.T) {
	o, err := openai.Parse("qwen@2.5@http://box:8080/v1")
	if err == nil {
		t.Errorf("got %+v, want an error: an address starts with http", o)
	}
	if o, err := openai.Parse("qwen2.5:1.5b@http://box:8080/v1"); err != nil || o.Name != "qwen2.5:1.5b" || o.URL != "http://box:8080/v1" {
		t.Errorf("got %+v, %v", o, err)
	}
	for _, s := range []string{"", "m", "@http://box/v1", "m@box:80", "m@http://", "m@http://u:secret@box/v1", "m@http://box/v1?key=secret"} {
		if o, err := openai.Parse(s); err == nil || strings.Contains(err.Error(), "u:secret") {
			t.Errorf("%q: got %+v, %v, want an error", s, o, err)
		}
	}
}

func TestPrefix(t *testing.T) {
	llmtest.SamePrefix(t, func(answer http.HandlerFunc) llm.Model { return fake(t, answer) }, says(word("ok"), end("stop"), done))
}

func TestContract(t *testing.T) {
	m := fake(t, func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Format json.RawMessage `json:"response_format"`
			Tools  []any           `json:"tools"`
		}
		json.NewDecoder(r.Body).Decode(&q)
		switch {
		case q.Format != nil:
			says(word(`{"ok"`), word(`: true}`), end("stop"), usage, done)(w, r)
		case q.Tools != nil:
			says(delta(`"tool_calls":[{"index":0,"id":"a","function":{"name":"turn","arguments":"{}"}}]`), end("tool_calls"), usage, done)(w, r)
		default:
			says(word("Hel"), word("lo"), end("stop"), usage, done)(w, r)
		}
	})
	llmtest.Run(t, func(*testing.T) llm.Model { return m }, llmtest.Traits{
		Chat: hello(), Pieces: true,
		Call: llmtest.Offer(hello(), llm.Tool{Name: "turn"}),
		Form: llmtest.Under(hello(), `{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}`),
	})
}

// FuzzStream: whatever a server sends, the answer is one of ours.
func FuzzStream(f *testing.F) {
	f.Add([]byte(word("a")+"\n\n"+end("stop")+"\n\n"+done), false, false)
	f.Add([]byte(delta(`"tool_calls":[{"index":-5,"function":{"arguments":"{\"a\":"}}]`)+"\n"+end("tool_calls")), false, true)
	f.Add([]byte(`{"choices":[{"message":{"tool_calls":[{"function":{"arguments":7}}]},"finish_reason":"stop"}]}`), true, false)
	f.Add([]byte("error: x\ndata:\n:\n"), false, false)
	var body []byte
	var kind string
	m := openai.New(openai.Options{Name: "m", URL: "http://x/v1", Transport: llmtest.Replies(func() (string, []byte) { return kind, body })})
	f.Fuzz(func(t *testing.T, b []byte, one, form bool) {
		body, kind = b, "text/event-stream"
		if one {
			kind = "application/json"
		}
		r := hello()
		if form {
			r = llmtest.Under(r, `{}`)
		}
		a, err := m.Chat(t.Context(), r, func(piece string) error {
			if piece == "" {
				t.Error("an empty piece was said")
			}
			return nil
		})
		llmtest.WellBehaved(t, r, a, err)
	})
}

func Example() {
	o, err := openai.Parse("qwen2.5@http://127.0.0.1:8080/v1")
	if err != nil {
		fmt.Println(err)
		return
	}
	m := openai.New(o)
	_, err = m.Chat(context.Background(), llm.Request{Messages: []llm.Message{{Role: llm.User, Text: "hello"}}}, nil)
	if errors.Is(err, llm.ErrDown) {
		fmt.Println("no model server; going on without")
	}
}
