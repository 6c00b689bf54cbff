package builtin_test

import (
	"os"
	"testing"

	"edged/agent/llm"
	"edged/agent/llm/builtin"
	"edged/agent/llm/builtin/engine"
	"edged/agent/llm/builtin/train"
)

func file(t testing.TB) *engine.File {
	t.Helper()
	data, err := os.ReadFile("robot-q8.gguf")
	if err != nil {
		t.Fatal(err)
	}
	f, err := engine.Read(data)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// BenchmarkToken is one token, in the middle of a command.
func BenchmarkToken(b *testing.B) {
	s := file(b).Net.Session(64)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if s.Full() {
			s.Reset()
		}
		s.Step(i % 200)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
}

// BenchmarkCommand is a whole command: heard, understood, checked.
func BenchmarkCommand(b *testing.B) {
	m, err := builtin.New(builtin.Options{})
	if err != nil {
		b.Fatal(err)
	}
	r := llm.Request{Messages: []llm.Message{{Role: llm.User, Text: "turn left ninety degrees"}}, Tools: train.Offer(train.Demo())}
	tokens := 0
	for b.Loop() {
		a, err := m.Chat(b.Context(), r, nil)
		if err != nil {
			b.Fatal(err)
		}
		tokens += a.Usage.PromptTokens + a.Usage.OutputTokens
	}
	b.ReportMetric(float64(tokens)/b.Elapsed().Seconds(), "tokens/s")
}

// BenchmarkScore is no figure of speed: it tells how the embedded model does.
// The bar is 97 % seen, 80 % held out, 2 % wrong motion.
func BenchmarkScore(b *testing.B) {
	m, err := builtin.New(builtin.Options{})
	if err != nil {
		b.Fatal(err)
	}
	var r train.Report
	for b.Loop() {
		if r, err = train.Evaluate(b.Context(), m, train.Demo(), 1000, 5, quiet(b)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(r.Seen.Share(r.Seen.Exact), "seen-%")
	b.ReportMetric(r.Held.Share(r.Held.Exact), "held-%")
	b.ReportMetric(r.Quiet.Share(r.Quiet.Motion), "wrong-motion-%")
	b.ReportMetric(r.Quiet.Share(r.Quiet.Wrong), "wrong-call-%")
	b.ReportMetric(float64(r.Quiet.Asked), "quiet-sentences")
	b.ReportMetric(0, "ns/op")
}

func quiet(t testing.TB) []string {
	t.Helper()
	f, err := os.Open("testdata/quiet.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	list, err := train.Sentences(f)
	if err != nil {
		t.Fatal(err)
	}
	return list
}
