package bench_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"edged/agent"
	"edged/agent/llm"
	"edged/agent/llm/bench"
)

// steady says its first word after 2 s and then ten tokens a second; it calls
// a tool that is named in what it hears.
type steady struct{ warmed int }

func (s *steady) Warm(context.Context) error {
	s.warmed++
	time.Sleep(5 * time.Second)
	return nil
}

func (s *steady) Chat(ctx context.Context, r llm.Request, say func(string) error) (llm.Message, error) {
	heard := r.Messages[len(r.Messages)-1].Text
	time.Sleep(2 * time.Second)
	if len(r.Tools) > 0 {
		for _, t := range r.Tools {
			if strings.Contains(heard, t.Name) {
				return llm.Message{Calls: []llm.Call{{Name: t.Name}}, Finish: llm.FinishCall}, nil
			}
		}
		if heard == "mumble" {
			return llm.Message{}, llm.ErrEmpty
		}
		return llm.Message{}, llm.ErrNoMatch
	}
	for range r.MaxTokens {
		if err := say("word "); err != nil {
			return llm.Message{}, err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return llm.Message{Usage: agent.Usage{OutputTokens: r.MaxTokens + 1}}, llm.ErrCutOff
}

func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &steady{}
		f, err := bench.Run(t.Context(), m, bench.Options{Tools: []llm.Tool{{Name: "turn"}, {Name: "stop"}}, Cases: []bench.Case{
			{"turn left", "turn"}, {"stop", "turn"}, {"nice weather", ""}, {"mumble", "stop"}}})
		if err != nil || f.Load != 5*time.Second || f.First != 2*time.Second || f.Rate != 10 || f.Tokens != 3*65 || m.warmed != 1 {
			t.Errorf("got %+v, %v, want 5 s, 2 s, 10 tokens/s", f, err)
		}
		if f.Asked != 4 || f.Right != 2 || f.Median != 2*time.Second {
			t.Errorf("got %d of %d right in %v, want 2 of 4 in 2s", f.Right, f.Asked, f.Median)
		}
		want := `"stop": called "stop", want "turn"|"mumble": ` + llm.ErrEmpty.Error()
		if got := strings.Join(f.Differences, "|"); got != want {
			t.Errorf("got differences %s, want %s", got, want)
		}
	})
}

func TestDown(t *testing.T) {
	f, err := bench.Run(t.Context(), down{}, bench.Options{})
	if !errors.Is(err, llm.ErrDown) {
		t.Errorf("got %+v, %v", f, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := bench.Run(ctx, down{}, bench.Options{}); err == nil {
		t.Error("cancelled: no error")
	}
}

type down struct{}

func (down) Chat(context.Context, llm.Request, func(string) error) (llm.Message, error) {
	return llm.Message{}, fmt.Errorf("x: %w", llm.ErrDown)
}
