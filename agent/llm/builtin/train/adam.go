package train

import (
	"math"

	"edged/agent/llm/builtin/engine"
)

// Spawn runs f for each worker from 0 to n-1, at the same time if it can, and
// returns when all are done. Goroutines are the caller's business.
type Spawn func(n int, f func(worker int))

// InTurn is a Spawn that runs one after the other.
func InTurn(n int, f func(worker int)) {
	for i := range n {
		f(i)
	}
}

// adam changes a network's weights, batch by batch.
type adam struct {
	n       *engine.Net
	spawn   Spawn
	workers []*worker
	wt      map[*engine.Param][]float32
	m, v    map[*engine.Param][]float32
	step    int
}

func newAdam(n *engine.Net, workers int, spawn Spawn) *adam {
	a := &adam{n: n, spawn: spawn, wt: map[*engine.Param][]float32{}, m: map[*engine.Param][]float32{}, v: map[*engine.Param][]float32{}}
	for _, p := range n.Params {
		a.m[p], a.v[p] = make([]float32, len(p.W)), make([]float32, len(p.W))
		if p.Rows > 1 {
			a.wt[p] = make([]float32, len(p.W))
		}
	}
	for range workers {
		a.workers = append(a.workers, newWorker(n, a.wt))
	}
	return a
}

// transpose makes wt of the weights.
func (a *adam) transpose() {
	for p, t := range a.wt {
		for r := range p.Rows {
			for c := range p.Cols {
				t[c*p.Rows+r] = p.W[r*p.Cols+c]
			}
		}
	}
}

// batch learns from some rows and returns their mean loss. Row i always goes
// to worker i mod workers, so that a run can be repeated bit for bit.
func (a *adam) batch(rows []example, rate float64) float64 {
	a.transpose()
	losses, counts := make([]float64, len(a.workers)), make([]float64, len(a.workers))
	a.spawn(len(a.workers), func(i int) {
		w := a.workers[i]
		for _, g := range w.grads {
			clear(g)
		}
		for j := i; j < len(rows); j += len(a.workers) {
			l, c := w.run(rows[j])
			losses[i], counts[i] = losses[i]+l, counts[i]+c
		}
	})
	var loss, count float64
	for i := range losses {
		loss, count = loss+losses[i], count+counts[i]
	}
	a.step++
	norm := a.sum(count)
	clip := float32(1)
	if norm > 1 {
		clip = float32(1 / norm)
	}
	a.move(clip, rate)
	return loss / count
}

// sum adds up the workers' gradients, as means, and gives their norm.
func (a *adam) sum(count float64) float64 {
	norm := 0.0
	for _, p := range a.n.Params {
		g := a.workers[0].grads[p]
		for _, w := range a.workers[1:] {
			for i, x := range w.grads[p] {
				g[i] += x
			}
		}
		for i := range g {
			g[i] /= float32(count)
			norm += float64(g[i]) * float64(g[i])
		}
	}
	return math.Sqrt(norm)
}

func (a *adam) move(clip float32, rate float64) {
	const b1, b2 = 0.9, 0.98
	c1, c2 := 1-math.Pow(b1, float64(a.step)), 1-math.Pow(b2, float64(a.step))
	k, r2 := float32(rate/c1), float32(1/c2)
	for _, p := range a.n.Params {
		decay := float32(rate * 0.05)
		if p.Rows == 1 {
			decay = 0
		}
		g, m, v := a.workers[0].grads[p], a.m[p], a.v[p]
		for i := range g {
			x := g[i] * clip
			m[i] = b1*m[i] + (1-b1)*x
			v[i] = b2*v[i] + (1-b2)*x*x
			p.W[i] -= k*m[i]/(float32(math.Sqrt(float64(v[i]*r2)))+1e-8) + decay*p.W[i]
		}
	}
}
