package llm_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"edged/agent"
	"edged/agent/llm"
	"edged/agent/llm/builtin"
	"edged/bus/origin"
)

// TestWithTheModelInside: an agent on the model that is in the binary, alone and
// as the first of a chain.
func TestWithTheModelInside(t *testing.T) {
	inside, err := builtin.New(builtin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var log []string
	drive := llm.Tool{Name: "go_to", Doc: "Drive to a place.", Effect: llm.Write,
		Params: json.RawMessage(`{"type":"object","properties":{"place":{"type":"string","enum":["kitchen","bedroom"]}},"required":["place"],"additionalProperties":false}`),
		Do: func(_ context.Context, args json.RawMessage) (json.RawMessage, error) {
			log = append(log, string(args))
			return json.RawMessage(`"ok"`), nil
		}}
	a := build(t, llm.Options{Model: inside, Tools: []llm.Tool{drive}})
	for _, c := range []struct {
		text   string
		origin origin.Label
		status agent.Status
		runs   int
	}{
		{"go to the kitchen", "cli", agent.Done, 1},
		{"and now please drive to the bedroom", "cli", agent.Done, 1},
		{"don't go to the kitchen", "cli", agent.Failed, 0},
		{"what is the capital of France", "cli", agent.Failed, 0},
		{"go to the kitchen", "mqtt", agent.Failed, 0},
	} {
		log = nil
		r, err := agent.Run(t.Context(), a, agent.Task{Input: c.text, Origin: c.origin, Conversation: "c"})
		if r.Status != c.status || len(log) != c.runs || err != nil && !errors.Is(err, llm.ErrNoMatch) {
			t.Errorf("%q from %s: got %s %q (%v), ran %v", c.text, c.origin, r.Status, r.Reply, err, log)
		}
	}
	big := says("Paris.")
	a = build(t, llm.Options{Tools: []llm.Tool{drive}, Model: llm.NewChain(llm.ChainOptions{},
		llm.Link{Name: "builtin", Model: inside}, llm.Link{Name: "big", Model: llm.Forms(big)})})
	r, _ := agent.Run(t.Context(), a, agent.Task{Input: "what is the capital of France", Origin: "test"})
	want(t, r, agent.Done, "Paris.", "")
}
