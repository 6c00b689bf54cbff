package wire

import (
	"encoding/json"
	"net/http"
	"strings"
	"unicode/utf8"

	"edged/agent/llm"
)

// signs are words in the complaints of Ollama (from 0.11 to 0.32), llama.cpp's
// server, vLLM, LM Studio and OpenAI, in the order they are tried.
var signs = []struct {
	words string // lower case
	is    error
}{
	{"does not support tool", llm.ErrNoTools},
	{"tools param requires", llm.ErrNoTools},
	{"requires --jinja", llm.ErrNoTools},
	{"--enable-auto-tool-choice", llm.ErrNoTools},
	{"tool use is not supported", llm.ErrNoTools},
	{"does not support thinking", llm.ErrNoThinking},
	{"does not support reasoning", llm.ErrNoThinking},
	{"does not support embedding", llm.ErrNoEmbedding},
	{"--embeddings", llm.ErrNoEmbedding},
	{"invalid json schema", llm.ErrBadSchema},
	{"invalid format", llm.ErrBadSchema},
	{"invalid schema", llm.ErrBadSchema},
	{"json_schema", llm.ErrBadSchema},
	{"response_format", llm.ErrBadSchema},
	{"grammar", llm.ErrBadSchema},
	{"context length", llm.ErrContext},
	{"context size", llm.ErrContext},
	{"context_length", llm.ErrContext},
	{"context window", llm.ErrContext},
	{"exceed_context", llm.ErrContext},
	{"removed by truncation", llm.ErrContext},
	{"system memory", llm.ErrMemory},
	{"out of memory", llm.ErrMemory},
	{"failed to allocate", llm.ErrMemory},
	{"cannot allocate", llm.ErrMemory},
	{"memory layout cannot", llm.ErrMemory},
	{"signal: killed", llm.ErrMemory},
	{"repeat limit", llm.ErrNoDone},
	{"pending requests", llm.ErrQueueFull},
	{"no slot available", llm.ErrQueueFull},
	{"overloaded", llm.ErrQueueFull},
	{"insufficient_quota", llm.ErrServer},
	{"invalid model name", llm.ErrUnknownModel},
	{"model is required", llm.ErrUnknownModel},
	{"manifest: file does not exist", llm.ErrUnknownModel},
	{"model_not_found", llm.ErrUnknownModel},
	{"loading model", llm.ErrDown},
}

// Classify gives the sentinel of package llm for what a server said.
func Classify(status int, text string) error {
	low := strings.ToLower(text)
	for _, s := range signs {
		if strings.Contains(low, s.words) {
			return s.is
		}
	}
	switch status {
	case http.StatusNotFound:
		if strings.Contains(low, "model") {
			return llm.ErrUnknownModel
		}
	case http.StatusRequestEntityTooLarge:
		return llm.ErrContext
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return llm.ErrQueueFull
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		return llm.ErrDown
	}
	return llm.ErrServer
}

// ErrorText finds the words in the body of an error: {"error":"words"},
// {"error":{"message":"words"}}, {"message":"words"}, or the body itself.
func ErrorText(body []byte, status int) string {
	var e struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  string          `json:"detail"`
	}
	text := strings.TrimSpace(string(body))
	if json.Unmarshal(body, &e) == nil {
		var words string
		var object struct{ Message, Type, Code any }
		switch {
		case json.Unmarshal(e.Error, &words) == nil && words != "":
			text = words
		case json.Unmarshal(e.Error, &object) == nil && len(e.Error) > 0:
			text = phrase(object.Message, object.Type, object.Code)
		case e.Message != "":
			text = e.Message
		case e.Detail != "":
			text = e.Detail
		}
	}
	if text == "" {
		text = http.StatusText(status)
	}
	return Excerpt(text, 300)
}

// phrase joins an error's message with its type or code, if those are words.
func phrase(message, kind, code any) string {
	s, _ := message.(string)
	for _, x := range []any{code, kind} {
		if w, ok := x.(string); ok && w != "" && !strings.Contains(s, w) {
			return strings.TrimSpace(s + " [" + w + "]")
		}
	}
	return s
}

// Excerpt is text on one line, cut at about n bytes.
func Excerpt(text string, n int) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}
