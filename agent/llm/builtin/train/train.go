// Package train makes models for the built-in engine: from a robot's tools and
// the phrases people use for them, to a GGUF file with a score.
//
// Its one rule: a run can be repeated. The same robot, seed, steps and workers
// give the same file, bit for bit (on the same build), so a bad model can be
// looked into. Nothing here starts a goroutine: whoever wants two cores passes
// a [Spawn].
//
//	file, err := train.Train(ctx, robot, train.Options{Workers: 2, Spawn: spawn, Progress: tell})
//	err = file.Write(f, engine.Q8)
//
// Training takes about 7 minutes on two cores with AVX2; where there is none,
// on a Pi say, give it fewer steps or a Limit.
package train

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"edged/agent/llm/builtin"
	"edged/agent/llm/builtin/engine"
)

// Options sets how a model is trained. The zero value trains the usual size in
// the usual number of steps, on the caller's goroutine.
type Options struct {
	Seed    uint64 // 0 = 1
	Steps   int    // batches of Rows·128 tokens; 0 = 1800, or what fits into Limit
	Workers int    // shares of a batch; 0 = 1
	Spawn   Spawn  // runs the workers; nil = InTurn
	// Limit bounds the time: the number of steps is set from the speed of the
	// first ones. Such a run does not repeat exactly; Progress tells its steps.
	Limit    time.Duration
	Rows     int           // of a batch; 0 = 32
	Rate     float64       // highest learning rate; 0 = 3e-3
	Config   engine.Config // 0 = 0.87 million weights
	Progress func(Progress)
}

// Progress is how far a training is.
type Progress struct {
	Step, Steps int
	Loss        float64 // smoothed
	Elapsed     time.Duration
	Tokens      int // seen so far
}

func (o Options) withDefaults() Options {
	o.Seed = max(o.Seed, 1)
	o.Workers = max(o.Workers, 1)
	if o.Spawn == nil {
		o.Spawn = InTurn
	}
	if o.Steps <= 0 {
		o.Steps = 1800
	}
	if o.Rows <= 0 {
		o.Rows = 32
	}
	if o.Rate <= 0 {
		o.Rate = 3e-3
	}
	if o.Config.Vocab == 0 {
		o.Config = engine.Config{Vocab: 512, Dim: 128, Layers: 4, Heads: 4, FF: 352, Ctx: 512, Eps: 1e-5, Theta: 10000}
	}
	return o
}

// Train trains a model. It returns soon after ctx ends, with ctx's error and no
// model. Progress is called on the caller's goroutine after each step.
func Train(ctx context.Context, r Robot, o Options) (*engine.File, error) {
	p, err := read(r)
	if err != nil {
		return nil, err
	}
	o = o.withDefaults()
	v := newVoice(p, o.Seed, 11)
	n, err := engine.New(o.Config, o.Seed)
	if err != nil {
		return nil, fmt.Errorf("train: %w", err)
	}
	t := v.vocabulary(o.Config.Vocab)
	if err := v.learn(ctx, n, t, o); err != nil {
		return nil, fmt.Errorf("train: %w", err)
	}
	known, err := json.Marshal(p.known())
	if err != nil {
		return nil, fmt.Errorf("train: %w", err)
	}
	return &engine.File{Net: n, Tokenizer: t, Name: r.Name, Extra: map[string]string{builtin.KnownKey: string(known)}}, nil
}

// learn is the loop: steps with a cosine rate after a short warm-up.
func (v *voice) learn(ctx context.Context, n *engine.Net, t *engine.Tokenizer, o Options) error {
	a := newAdam(n, o.Workers, o.Spawn)
	start, mean := time.Now(), 0.0
	const early = 5
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if a.step == early && o.Limit > 0 {
			each := time.Since(start) / early
			o.Steps = max(early, min(o.Steps, int(o.Limit/max(each, 1))))
		}
		if a.step >= o.Steps {
			return nil
		}
		rows := make([]example, o.Rows)
		for i := range rows {
			rows[i] = v.row(t)
		}
		done := float64(a.step) / float64(o.Steps)
		rate := o.Rate * min(1, float64(a.step+1)/100) * (0.05 + 0.95*0.5*(1+math.Cos(math.Pi*done)))
		loss := a.batch(rows, rate)
		if mean == 0 {
			mean = loss
		}
		mean += 0.05 * (loss - mean)
		if math.IsNaN(mean) {
			return fmt.Errorf("the loss is no number after %d steps; a lower rate than %v may help", a.step, o.Rate)
		}
		if o.Progress != nil {
			o.Progress(Progress{a.step, o.Steps, mean, time.Since(start), a.step * o.Rows * rowLen})
		}
	}
}

// vocabulary learns the tokens from what will be said.
func (v *voice) vocabulary(size int) *engine.Tokenizer {
	var text []string
	for range 4000 {
		s := v.sample(false)
		text = append(text, s.user, s.answer, s.result, s.reply)
	}
	return engine.NewTokenizer(text, size)
}

// known is what the engine is told of the tools the model was trained for.
func (p *plan) known() builtin.Known {
	constants := p.constants()
	k := builtin.Known{Robot: p.robot.Name, Replies: p.robot.Replies, Words: p.words()}
	for i := range p.tools {
		t := &p.tools[i]
		k.Tools = append(k.Tools, builtin.KnownTool{
			Name: t.Name, Doc: t.Doc, Params: t.Params, Motion: t.Motion, Sure: t.Sure,
			Values: constants[t.Name], Begins: t.begins(), Tails: t.tails(), Words: t.words(),
		})
	}
	return k
}
