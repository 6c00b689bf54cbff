package llm_test

import (
	"encoding/json"
	"testing"

	"edged/agent/llm"
)

func TestModelCallsOfOptions(t *testing.T) {
	form, tool := json.RawMessage(`{"type":"string","maxLength":9}`), []llm.Tool{{Name: "look"}}
	for _, c := range []struct {
		name string
		o    llm.Options
		want int
	}{
		{"words", llm.Options{}, 1},
		{"a form, repaired", llm.Options{Output: form}, 2},
		{"tools", llm.Options{Tools: tool}, 1 + 3 + 1},
		{"one round of tools", llm.Options{Tools: tool, MaxToolHops: 1}, 1 + 1 + 1},
		{"tools, then a form", llm.Options{Tools: tool, Output: form, MaxToolHops: 2}, 1 + 2 + 1 + 2},
	} {
		if got := c.o.ModelCalls(); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}
