package llmtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"edged/agent/llm"
)

// Serve starts a server on loopback that answers at a path by a function and
// elsewhere with fixed bodies, and gives its address. It is gone when the test
// ends.
func Serve(t testing.TB, path string, answer http.HandlerFunc, fixed map[string]string) (url string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body) // until then a handler doesn't hear that the client is gone
		r.Body = io.NopCloser(bytes.NewReader(b))
		answer(w, r)
	})
	for at, body := range fixed {
		mux.HandleFunc(at, Body("application/json", body))
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// Status answers with a status and a body.
func Status(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(code); io.WriteString(w, body) }
}

// Body answers in one piece.
func Body(kind, body string) http.HandlerFunc { return Pieces(kind, body) }

// Pieces answers piece by piece.
func Pieces(kind string, pieces ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", kind)
		for _, p := range pieces {
			io.WriteString(w, p)
			w.(http.Flusher).Flush()
		}
	}
}

// Broken sends raw bytes and breaks the connection.
func Broken(raw string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		io.WriteString(c, raw)
		c.Close()
	}
}

// Replies is a transport without a server: each request gets what answer gives,
// the kind of content and its bytes.
type Replies func() (kind string, body []byte)

// RoundTrip implements http.RoundTripper.
func (f Replies) RoundTrip(r *http.Request) (*http.Response, error) {
	kind, body := f()
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(bytes.NewReader(body)), Request: r}, nil
}

// WellBehaved checks an answer to a request of which anything may have come
// back: it is whole or it is one of our errors.
func WellBehaved(t testing.TB, r llm.Request, a llm.Message, err error) {
	t.Helper()
	var trouble *llm.Trouble
	switch {
	case err != nil && (!errors.As(err, &trouble) || a.Text != "" || a.Calls != nil):
		t.Errorf("got %+v, %v", a, err)
	case err == nil && r.Schema != nil && len(a.Calls) == 0 && a.Text != "" && !json.Valid([]byte(a.Text)):
		t.Errorf("got %q under a schema", a.Text)
	}
	for _, c := range a.Calls {
		if !json.Valid(c.Args) || c.Args[0] != '{' || c.ID == "" {
			t.Errorf("got call %+v", c)
		}
	}
}

// SamePrefix checks that what a model's server reads first, the system's text
// and the tools, has the same bytes in every request, whatever the dialogue is:
// the server has read it then. start makes a model whose server answers all
// requests by a function.
func SamePrefix(t *testing.T, start func(answer http.HandlerFunc) llm.Model, answer http.HandlerFunc) {
	t.Helper()
	type read struct {
		Tools    json.RawMessage
		Messages []json.RawMessage
	}
	var got read
	m := start(func(w http.ResponseWriter, r *http.Request) {
		got = read{}
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		answer(w, r)
	})
	params := `{"type":"object","properties":{`
	for i := range 12 { // none of them may change places
		params += fmt.Sprintf(`"p%d":{"type":"integer","minimum":0,"maximum":%d,"default":1},`, i*7%12, i)
	}
	tool := llm.Tool{Name: "turn", Doc: "Turn.", Params: json.RawMessage(params + `"way":{"enum":["left","right"]}},"required":["way"]}`)}
	r := Offer(llm.Request{Messages: []llm.Message{{Role: llm.System, Text: "Be brief."}}}, tool, llm.Tool{Name: "stop"})
	var first read
	for i := range 20 {
		r.Messages = append(r.Messages, llm.Message{Role: llm.User, Text: fmt.Sprint("turn ", i), Notes: fmt.Sprint("note ", i)})
		if _, err := m.Chat(t.Context(), r, nil); err != nil {
			t.Fatal(err)
		}
		if len(got.Messages) != len(r.Messages) || len(got.Tools) == 0 {
			t.Fatalf("%d messages, tools %s", len(got.Messages), got.Tools)
		}
		if i == 0 {
			first = got
		}
		if !bytes.Equal(got.Tools, first.Tools) || !bytes.Equal(got.Messages[0], first.Messages[0]) {
			t.Fatalf("request %d:\n%s\n%s\nthe first:\n%s\n%s", i, got.Messages[0], got.Tools, first.Messages[0], first.Tools)
		}
		for at, x := range first.Messages {
			if !bytes.Equal(got.Messages[at], x) {
				t.Fatalf("request %d: message %d was %s and is %s", i, at, x, got.Messages[at])
			}
		}
		first.Messages = got.Messages
	}
}
