// Package bench measures a model: how soon it speaks, how fast, and how often
// it calls the right tool.
//
// Its one rule: it asks like an agent does, through [llm.Model], so that what
// is measured is what a robot gets.
//
//	f, err := bench.Run(ctx, model, bench.Options{Tools: tools, Cases: []bench.Case{{Say: "turn left", Tool: "turn"}}})
//	fmt.Printf("%.1f tokens/s, first word after %v, %d of %d calls right\n", f.Rate, f.First, f.Right, f.Asked)
package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"edged/agent/llm"
)

// Options of a measurement; the zero value measures speed only.
type Options struct {
	Prompt    string // what is asked for speed; empty: a question that any model answers
	MaxTokens int    // of that answer; 0: 64
	Runs      int    // of that question; the median counts; 0: 3
	System    string // instructions the cases go with
	Tools     []llm.Tool
	Cases     []Case
}

// A Case is something to say, and the tool that must be called; empty is none.
type Case struct{ Say, Tool string }

// Figures are what was measured.
type Figures struct {
	Load        time.Duration `json:"load"`  // until the model was in memory; 0 where it can't be told
	First       time.Duration `json:"first"` // from asking to the first word
	Rate        float64       `json:"rate"`  // tokens a second after it; 0 if the answer was too short
	Tokens      int           `json:"tokens"`
	Asked       int           `json:"asked"` // cases
	Right       int           `json:"right"`
	Median      time.Duration `json:"median"` // of a case
	Differences []string      `json:"differences,omitempty"`
}

// Run measures a model. It fails only if the model doesn't answer at all.
func Run(ctx context.Context, m llm.Model, o Options) (Figures, error) {
	if o.Prompt == "" {
		o.Prompt = "Describe a kitchen."
	}
	if o.MaxTokens == 0 {
		o.MaxTokens = 64
	}
	if o.Runs == 0 {
		o.Runs = 3
	}
	var f Figures
	if w, ok := m.(llm.Warmer); ok {
		start := time.Now()
		if err := w.Warm(ctx); err != nil {
			return f, fmt.Errorf("bench: %w", err)
		}
		f.Load = time.Since(start)
	}
	var firsts []time.Duration
	var rates []float64
	for range o.Runs {
		first, rate, tokens, err := speed(ctx, m, o)
		if err != nil {
			return f, fmt.Errorf("bench: %w", err)
		}
		firsts, rates = append(firsts, first), append(rates, rate)
		f.Tokens += tokens
	}
	f.First, f.Rate = median(firsts), median(rates)
	return f, f.cases(ctx, m, o)
}

// speed asks once. An answer that was cut off is as good as any here.
func speed(ctx context.Context, m llm.Model, o Options) (first time.Duration, rate float64, tokens int, err error) {
	zero := 0.0
	start := time.Now()
	a, err := m.Chat(ctx, llm.Request{
		Messages: []llm.Message{{Role: llm.User, Text: o.Prompt}},
		Sampling: llm.Sampling{Temperature: &zero, MaxTokens: o.MaxTokens},
	}, func(string) error {
		if first == 0 {
			first = time.Since(start)
		}
		return nil
	})
	all := time.Since(start)
	if err != nil && !errors.Is(err, llm.ErrCutOff) && !errors.Is(err, llm.ErrEmpty) && !errors.Is(err, llm.ErrNoMatch) {
		return 0, 0, 0, err
	}
	if first == 0 {
		first = all
	}
	tokens = a.Usage.OutputTokens
	if tokens > 1 && all > first {
		rate = float64(tokens-1) / (all - first).Seconds()
	}
	return first, rate, tokens, nil
}

func (f *Figures) cases(ctx context.Context, m llm.Model, o Options) error {
	var times []time.Duration
	zero := 0.0
	for _, c := range o.Cases {
		r := llm.Request{Tools: o.Tools, Sampling: llm.Sampling{Temperature: &zero}}
		if o.System != "" {
			r.Messages = append(r.Messages, llm.Message{Role: llm.System, Text: o.System})
		}
		r.Messages = append(r.Messages, llm.Message{Role: llm.User, Text: c.Say})
		start := time.Now()
		a, err := m.Chat(ctx, r, nil)
		if ctx.Err() != nil {
			return fmt.Errorf("bench: %w", ctx.Err())
		}
		times = append(times, time.Since(start))
		f.Asked++
		got := ""
		if len(a.Calls) > 0 {
			got = a.Calls[0].Name
		}
		switch {
		case got == c.Tool && (err == nil || errors.Is(err, llm.ErrNoMatch)):
			f.Right++
		case err != nil:
			f.Differences = append(f.Differences, fmt.Sprintf("%q: %v", c.Say, err))
		default:
			f.Differences = append(f.Differences, fmt.Sprintf("%q: called %q, want %q", c.Say, got, c.Tool))
		}
	}
	f.Median = median(times)
	return nil
}

func median[T int64 | float64 | time.Duration](list []T) T {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[len(list)/2]
}
