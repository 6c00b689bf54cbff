package ollama

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"edged/agent"
	"edged/agent/llm"
	"edged/agent/llm/ollama"
)

// TestAgentTurn: a whole run against the real server with a model that knows
// the tools: call, deed, result, words, and then the next turn.
func TestAgentTurn(t *testing.T) {
	meaning(t)
	m := up(t).client(t, ollama.Options{}).Model("robot")
	var did []string
	offer := tools()
	for i := range offer {
		name := offer[i].Name
		offer[i].Effect = llm.Write
		offer[i].Do = func(_ context.Context, args json.RawMessage) (json.RawMessage, error) {
			did = append(did, name+string(args))
			return json.RawMessage(`"ok"`), nil
		}
	}
	zero := 0.0
	a, err := llm.New(llm.Options{Name: "robot", Model: m, Tools: offer, Preamble: "-", Session: llm.Fresh, Sampling: llm.Sampling{Temperature: &zero}})
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	ctx := agent.WithSay(t.Context(), func(s string) { said = append(said, s) })
	r, err := agent.Run(ctx, a, agent.Task{Input: "turn left ninety degrees", Origin: "cli"})
	if err != nil || len(did) != 1 || did[0] != `turn{"degrees":90,"direction":"left"}` || !r.Did("turn") || r.Usage.OutputTokens == 0 {
		t.Fatalf("got %+v, %v; did %v", r, err, did)
	}
	if r.Reply == "" || strings.Join(said, " ") != r.Reply {
		t.Errorf("said %q, answered %q", said, r.Reply)
	}
	did = nil
	r, err = agent.Run(t.Context(), a, agent.Task{Input: "turn left ninety degrees", Origin: "mqtt"})
	if len(did) > 0 || len(r.Receipts) > 0 {
		t.Errorf("did %v on untrusted words: %+v, %v", did, r, err)
	}
}

// TestAgentOutput: even a model of random words answers in the form it is held
// to, and what doesn't end is a typed failure.
func TestAgentOutput(t *testing.T) {
	m := up(t).client(t, ollama.Options{}).Model("tiny")
	out := json.RawMessage(`{"type":"object","properties":{"action":{"type":"string","enum":["move","turn","stop"]},
		"speed":{"type":"integer","minimum":0,"maximum":100},"ok":{"type":"boolean"}},
		"required":["action","speed","ok"],"additionalProperties":false}`)
	seed := int64(3)
	a, err := llm.New(llm.Options{Name: "judge", Model: m, Output: out, Sampling: llm.Sampling{Seed: &seed, MaxTokens: 200}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := agent.Run(t.Context(), a, agent.Task{Input: "what now?", Origin: "cli"})
	got, _ := r.Output.(map[string]any)
	if err != nil || len(got) != 3 {
		t.Fatalf("got %+v, %v", r, err)
	}
	if speed, ok := got["speed"].(int64); !ok || speed < 0 || speed > 100 {
		t.Errorf("speed %v", got["speed"])
	}
}

// TestAgentForms: a model without tools, of random words, is asked in forms;
// whatever it picks fits the tool's schema.
func TestAgentForms(t *testing.T) {
	m := up(t).client(t, ollama.Options{}).Model("plain")
	var did []string
	offer := tools()[:1]
	offer[0].Do = func(_ context.Context, args json.RawMessage) (json.RawMessage, error) {
		did = append(did, string(args))
		return nil, nil
	}
	whole := 0
	for seed := range int64(6) {
		a, err := llm.New(llm.Options{Name: "plain", Model: m, Tools: offer, ToolChoice: llm.CallFirst, Preamble: "-",
			Sampling: llm.Sampling{Seed: &seed, MaxTokens: 400}, MaxToolHops: 1})
		if err != nil {
			t.Fatal(err)
		}
		r, err := agent.Run(t.Context(), a, agent.Task{Input: "go", Origin: "cli"})
		switch {
		case err == nil, strings.HasPrefix(r.Reason, "declined: "):
			whole++
		case !errors.Is(err, llm.ErrCutOff):
			t.Errorf("seed %d: %v", seed, err)
		}
	}
	if whole == 0 {
		t.Error("all of six runs were cut off")
	}
	for _, args := range did {
		if !json.Valid([]byte(args)) {
			t.Errorf("ran with %s", args)
		}
	}
}
