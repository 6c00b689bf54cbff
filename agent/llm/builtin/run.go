package builtin

import (
	"context"
	"fmt"
	"math"

	"edged/agent"
	"edged/agent/llm"
	"edged/agent/llm/builtin/engine"
	"edged/agent/llm/builtin/mask"
)

// run is one answer being made.
type run struct {
	ctx    context.Context
	tok    *engine.Tokenizer
	s      *engine.Session
	scores []float32 // of the next token
	prompt int
	err    error
}

// made is a call's text, empty if there is none, and how sure the model is.
type made struct {
	text string
	sure float64
}

// begin feeds what was heard.
func (m *Model) begin(ctx context.Context, heard string) *run {
	r := &run{ctx: ctx, tok: m.file.Tokenizer, s: m.sessions.Get().(*engine.Session)}
	r.s.Reset()
	ids := append([]int{engine.TokenUser}, r.tok.Encode(heard)...)
	if len(ids) > window/2 {
		r.err = fmt.Errorf("%w: %d tokens; %d is what fits", llm.ErrContext, len(ids), window/2)
		return r
	}
	for _, id := range ids {
		if r.err = ctx.Err(); r.err != nil {
			return r
		}
		r.s.Feed(id)
	}
	r.scores = r.s.Step(engine.TokenAssistant)
	r.prompt = r.s.Len()
	return r
}

func (m *Model) end(r *run) { m.sessions.Put(r.s) }

func (r *run) usage() agent.Usage {
	return agent.Usage{Calls: 1, PromptTokens: r.prompt, OutputTokens: r.s.Len() - r.prompt}
}

// call writes one call, if the model wants to make one at all.
func (r *run) call(m *mask.Mask, limit int) (made, error) {
	if r.err != nil {
		return made{}, r.err
	}
	sure := r.chance(engine.TokenCall)
	if sure < 0.05 { // far from it: no need to see the rest
		return made{}, nil
	}
	r.scores = r.s.Step(engine.TokenCall)
	least := 1.0
	text, err := r.writeMasked(m, limit, nil, func(s *mask.State, p float64) {
		if !m.Copying(s) {
			least = min(least, p)
		}
	})
	return made{text, sure * least}, err
}

// write writes a value.
func (r *run) write(m *mask.Mask, limit int, say func(string) error) (string, error) {
	if r.err != nil {
		return "", r.err
	}
	return r.writeMasked(m, limit, say, nil)
}

// writeMasked writes the likeliest text that the mask lets through. sure hears
// how likely each piece was.
func (r *run) writeMasked(m *mask.Mask, limit int, say func(string) error, sure func(before *mask.State, p float64)) (string, error) {
	if limit <= 0 {
		limit = mostAnswer
	}
	var out []byte
	s := m.Start()
	for n := 0; !m.Done(&s); n++ {
		if err := r.ctx.Err(); err != nil {
			return "", err
		}
		if m.Whole(&s) && r.best() == engine.TokenEnd {
			break
		}
		id, next := r.pick(m, &s)
		if id < 0 {
			if m.Whole(&s) {
				break
			}
			return "", fmt.Errorf("builtin: no token goes on after %q", out)
		}
		if n >= limit || r.s.Full() {
			return "", llm.ErrCutOff
		}
		if sure != nil {
			sure(&s, r.chance(id))
		}
		piece := r.tok.Bytes(id)
		out = append(out, piece...)
		if say != nil {
			if err := say(string(piece)); err != nil {
				return "", err
			}
		}
		s = next
		r.scores = r.s.Step(id)
	}
	return string(out), nil
}

// pick finds the likeliest token that may come next; -1 if there is none.
func (r *run) pick(m *mask.Mask, s *mask.State) (int, mask.State) {
	best, most := -1, float32(math.Inf(-1))
	var after mask.State
	for id, x := range r.scores {
		if best >= 0 && !(x > most) || !r.tok.Text(id) {
			continue
		}
		if next, ok := m.Try(*s, r.tok.Bytes(id)); ok {
			best, most, after = id, x, next
		}
	}
	return best, after
}

func (r *run) best() int {
	best := 0
	for id, x := range r.scores {
		if x > r.scores[best] {
			best = id
		}
	}
	return best
}

// chance is how likely a token is, among all there are.
func (r *run) chance(id int) float64 {
	most := float32(math.Inf(-1))
	for _, x := range r.scores {
		most = max(most, x)
	}
	var sum float32
	for _, x := range r.scores {
		sum += engine.Exp(x - most)
	}
	return float64(engine.Exp(r.scores[id]-most) / sum)
}
