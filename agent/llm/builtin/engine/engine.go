// Package engine runs very small language models of the llama architecture:
// it reads and writes them as GGUF files, cuts text into tokens, and computes
// the next token's scores, one token at a time, in plain Go on one core.
//
// Its one rule: a token costs no allocation. What a [Session] needs it has from
// the start, so a robot that listens all day makes no garbage.
//
//	f, err := engine.Read(data)
//	s := f.Net.Session(256)
//	scores := s.Step(engine.TokenUser)
//	for _, id := range f.Tokenizer.Encode("turn left") {
//		scores = s.Step(id)
//	}
//
// It is no general engine: no grouped heads, no 4-bit weights, no models of
// billions. Those are for a model server.
package engine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
)

// Config is the shape of a network: RMSNorm, rotary positions on interleaved
// pairs, SwiGLU, no biases, output tied to the token embedding.
type Config struct {
	Vocab, Dim, Layers, Heads, FF int
	Ctx                           int     // tokens it was made for
	Eps, Theta                    float64 // of the norms and of the rotary positions
}

// Head is the width of one attention head.
func (c Config) Head() int { return c.Dim / c.Heads }

// check says what is wrong with a shape that comes from a file. Its bounds keep
// a hostile file from asking for more memory than it has itself.
func (c Config) check() error {
	for _, l := range []struct {
		name     string
		is, most int
	}{
		{"vocabulary", c.Vocab, 1 << 15}, {"width", c.Dim, 1 << 12}, {"layers", c.Layers, 64},
		{"heads", c.Heads, 64}, {"feed-forward width", c.FF, 1 << 14}, {"context", c.Ctx, 1 << 20},
	} {
		if l.is < 1 || l.is > l.most {
			return fmt.Errorf("%s of %d; this engine takes 1 to %d", l.name, l.is, l.most)
		}
	}
	switch {
	case c.Dim%32 != 0 || c.FF%32 != 0:
		return fmt.Errorf("widths %d and %d are not multiples of 32", c.Dim, c.FF)
	case c.Dim%c.Heads != 0 || c.Head()%2 != 0:
		return fmt.Errorf("width %d does not split into %d heads", c.Dim, c.Heads)
	case !(c.Eps > 0 && c.Eps < 1) || !(c.Theta >= 1 && c.Theta < 1e9):
		return fmt.Errorf("norm epsilon %v or rotary base %v makes no sense", c.Eps, c.Theta)
	}
	return nil
}

// Param is one weight matrix, row by row: Rows outputs of Cols inputs.
type Param struct {
	Name       string
	Rows, Cols int
	W          []float32
}

// Layer is the weights of one layer, under llama's names.
type Layer struct {
	AttnNorm, Q, K, V, Out *Param
	FFNorm, Gate, Up, Down *Param
}

// Net is a network's weights. Sessions only read them, so any number may run
// at the same time; a trainer changes them when none does.
type Net struct {
	Config Config
	Params []*Param // all of them, in the file's order
	Embed  *Param   // and output
	Norm   *Param
	Layers []Layer
}

// New returns a network of random weights; the same seed gives the same ones.
func New(c Config, seed uint64) (*Net, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("engine: new: %w", err)
	}
	n := build(c)
	rng := rand.New(rand.NewPCG(seed, 7))
	const std = 0.04
	for _, p := range n.Params {
		k := std
		if strings.HasSuffix(p.Name, "attn_output.weight") || strings.HasSuffix(p.Name, "ffn_down.weight") {
			k = std / math.Sqrt(2*float64(c.Layers))
		}
		for i := range p.W {
			p.W[i] = 1
			if p.Rows > 1 {
				p.W[i] = float32(rng.NormFloat64() * k)
			}
		}
	}
	return n, nil
}

// build lays out a network of the shape, all zero.
func build(c Config) *Net {
	n := &Net{Config: c}
	add := func(name string, rows, cols int) *Param {
		p := &Param{Name: name + ".weight", Rows: rows, Cols: cols, W: make([]float32, rows*cols)}
		n.Params = append(n.Params, p)
		return p
	}
	n.Embed = add("token_embd", c.Vocab, c.Dim)
	for i := range c.Layers {
		b := fmt.Sprintf("blk.%d.", i)
		n.Layers = append(n.Layers, Layer{
			AttnNorm: add(b+"attn_norm", 1, c.Dim),
			Q:        add(b+"attn_q", c.Dim, c.Dim), K: add(b+"attn_k", c.Dim, c.Dim),
			V: add(b+"attn_v", c.Dim, c.Dim), Out: add(b+"attn_output", c.Dim, c.Dim),
			FFNorm: add(b+"ffn_norm", 1, c.Dim),
			Gate:   add(b+"ffn_gate", c.FF, c.Dim), Up: add(b+"ffn_up", c.FF, c.Dim),
			Down: add(b+"ffn_down", c.Dim, c.FF),
		})
	}
	n.Norm = add("output_norm", 1, c.Dim)
	return n
}
