package intent

import (
	"encoding/json"
	"testing"

	"edged/agent/llm"
	"edged/agent/llm/llmtest"
)

// TestConforms: it is a model as any other.
func TestConforms(t *testing.T) {
	place := llm.Tool{Name: "go_to", Doc: "Drive to a room.", Params: json.RawMessage(`{"type":"object","properties":{"place":{"type":"string","enum":["kitchen","living room","hall","dock"]}},"required":["place"],"additionalProperties":false}`)}
	m := robot(t)
	llmtest.Run(t, func(*testing.T) llm.Model { return m }, llmtest.Traits{
		Chat:    llmtest.Ask("Who are you?"),
		Call:    llmtest.Offer(llmtest.Ask("go to the kitchen"), place),
		Refuses: llm.ErrNoMatch,
		Empty:   llm.ErrNoMatch,
		Fails: []llmtest.Failure{
			{Name: "no sentence", Request: llmtest.Ask("what is the capital of France"), Want: llm.ErrNoMatch},
			{Name: "negated", Request: llmtest.Offer(llmtest.Ask("do not go to the kitchen"), place), Want: llm.ErrNoMatch},
		},
	})
}
