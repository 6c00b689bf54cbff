package society_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"edged/agent"
	"edged/agent/llm"
	"edged/bus/origin"
	"edged/workflow/society"
	"edged/workflow/society/protocol"
)

// BenchmarkTurn is what a turn costs besides the model, with 20 artifacts in
// the prompt. At most 100 µs a turn.
func BenchmarkTurn(b *testing.B) {
	const rounds = 8
	var sh society.Shared
	s := society.New("bench", society.Options{})
	for i := range 20 {
		name := fmt.Sprint("artifact", i)
		sh.Artifacts = append(sh.Artifacts, society.Artifact{Name: name, MaxTokens: 200})
		s.Put(origin.With(context.Background(), "test"), name, strings.Repeat("word ", 40))
	}
	model := &speaking{do: func(_ context.Context, r llm.Request) (llm.Message, error) {
		if strings.Contains(string(r.Schema), "verdict") {
			return llm.Message{Text: `{"comments":"a little better please","verdict":"revise"}`}, nil
		}
		return llm.Message{Text: `{"draft":"` + strings.Repeat("text ", 60) + `"}`}, nil
	}}
	speaker := society.Model(llm.Options{Model: model})
	e := must(s.Connect(&society.Agent{Name: "a", Speaker: speaker}, &society.Agent{Name: "b", Speaker: speaker}, &society.Oversight{Shared: sh}))
	b.ReportAllocs()
	for b.Loop() {
		if r, _ := agent.Run(b.Context(), e, agent.Task{Input: "go", Origin: "test"}); r.Usage.Calls != 2*rounds {
			b.Fatalf("got %+v", r)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*2*rounds), "ns/turn")
}

// BenchmarkAuction is one auction among 100 functions. At most 5 ms.
func BenchmarkAuction(b *testing.B) {
	var members list
	for i := range 100 {
		members = append(members, &society.Agent{Name: fmt.Sprint("robot", i), Speaker: society.Func(func(context.Context, society.Prompt) (any, error) {
			return m{"cost": int64(1000 - i), "eta": int64(i)}, nil
		})})
	}
	s := society.New("fleet", society.Options{})
	e := must(s.Compete(members, &society.Competition{Resolve: society.BestScore{Field: "cost", Lowest: true},
		Shared: society.Shared{Protocol: &protocol.Market{Bid: bidSchema}}}))
	b.ReportAllocs()
	for b.Loop() {
		if r, _ := agent.Run(b.Context(), e, agent.Task{Input: "a job", Origin: "test"}); r.Winner != "robot99" {
			b.Fatalf("got %+v", r)
		}
	}
}
