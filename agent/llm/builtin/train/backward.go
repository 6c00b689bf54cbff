package train

import (
	"math"

	"edged/agent/llm/builtin/engine"
)

// rowLen is the length of a row of a batch; the fast kernel wants a multiple of 32.
const rowLen = 128

// example is one row: what is seen, what should follow (negative: no matter),
// the first position that a token may look at, and what it weighs.
type example struct {
	tokens, targets, starts []int
	weight                  []float32
}

func newExample() example {
	e := example{make([]int, rowLen), make([]int, rowLen), make([]int, rowLen), make([]float32, rowLen)}
	for i := range e.targets {
		e.targets[i], e.starts[i] = -1, i
	}
	return e
}

// worker holds the activations and gradients of one share of a batch.
type worker struct {
	n        *engine.Net
	grads    map[*engine.Param][]float32
	wt       map[*engine.Param][]float32 // transposed weights, shared by all workers
	cos, sin []float32
	x        [][]float32 // the residual stream before each half layer
	a        []acts
	xf, rf   []float32 // last normalised state
	logits   []float32
	tmp      []float32
	tmp2     []float32
	dx, dh   []float32
}

// acts is what the way back needs of a layer.
type acts struct {
	h1, q, k, v, o, h2, g, u, s []float32
	r1, r2                      []float32
	p                           []float32 // attention weights, heads × row × row
}

func newWorker(n *engine.Net, wt map[*engine.Param][]float32) *worker {
	c := n.Config
	f := func(k int) []float32 { return make([]float32, k) }
	w := &worker{n: n, wt: wt, grads: map[*engine.Param][]float32{}}
	for _, p := range n.Params {
		w.grads[p] = f(len(p.W))
	}
	w.cos, w.sin = engine.Rotary(c, rowLen)
	d, ff := rowLen*c.Dim, rowLen*c.FF
	for range 2*c.Layers + 1 {
		w.x = append(w.x, f(d))
	}
	for range c.Layers {
		w.a = append(w.a, acts{h1: f(d), q: f(d), k: f(d), v: f(d), o: f(d), h2: f(d), g: f(ff), u: f(ff), s: f(ff),
			r1: f(rowLen), r2: f(rowLen), p: f(c.Heads * rowLen * rowLen)})
	}
	w.xf, w.rf, w.logits = f(d), f(rowLen), f(rowLen*c.Vocab)
	big := max(ff, rowLen*rowLen, d)
	w.tmp, w.tmp2, w.dx, w.dh = f(big), f(big), f(d), f(max(d, ff))
	return w
}

// linear: y = x Wᵀ.
func (w *worker) linear(y, x []float32, p *engine.Param) {
	gemm(y, p.Rows, x, p.Cols, 1, w.wt[p], p.Rows, rowLen, p.Rows, p.Cols, false)
}

// linearBack: dW += dyᵀ x ; dx (+)= dy W.
func (w *worker) linearBack(dx, dy, x []float32, p *engine.Param, acc bool) {
	gemm(w.grads[p], p.Cols, dy, 1, p.Rows, x, p.Cols, p.Rows, p.Cols, rowLen, true)
	gemm(dx, p.Cols, dy, p.Rows, 1, p.W, p.Cols, rowLen, p.Cols, p.Rows, acc)
}

func (w *worker) normRows(out, x []float32, g *engine.Param, r []float32) {
	d := w.n.Config.Dim
	for t := range rowLen {
		r[t] = engine.Normalize(out[t*d:(t+1)*d], x[t*d:(t+1)*d], g.W, w.n.Config.Eps)
	}
}

// normBack adds the gradient through y = x·r·g to dx.
func (w *worker) normBack(dx, dy, x []float32, g *engine.Param, r []float32) {
	d := w.n.Config.Dim
	dg := w.grads[g]
	for t := range rowLen {
		X, Y, D := x[t*d:(t+1)*d], dy[t*d:(t+1)*d], dx[t*d:(t+1)*d]
		var dot float32
		for i := range X {
			dg[i] += Y[i] * X[i] * r[t]
			dot += Y[i] * g.W[i] * X[i]
		}
		k := dot * r[t] * r[t] * r[t] / float32(d)
		for i := range X {
			D[i] += Y[i]*g.W[i]*r[t] - X[i]*k
		}
	}
}

// run does one row there and back. It returns the summed loss and weight;
// gradients are of the sum.
func (w *worker) run(e example) (loss, count float64) {
	n, c := w.n, w.n.Config
	d := c.Dim
	for t, id := range e.tokens {
		copy(w.x[0][t*d:(t+1)*d], n.Embed.W[id*d:(id+1)*d])
	}
	for i := range n.Layers {
		w.forward(i, e.starts)
	}
	last := w.x[2*c.Layers]
	w.normRows(w.xf, last, n.Norm, w.rf)
	w.linear(w.logits, w.xf, n.Embed)
	loss, count = w.loss(e)
	dh := w.dh[:rowLen*d]
	w.linearBack(dh, w.logits, w.xf, n.Embed, false)
	clear(w.dx)
	w.normBack(w.dx, dh, last, n.Norm, w.rf)
	for i := c.Layers - 1; i >= 0; i-- {
		w.back(i, e.starts)
	}
	ge := w.grads[n.Embed]
	for t, id := range e.tokens {
		for i, g := range w.dx[t*d : (t+1)*d] {
			ge[id*d+i] += g
		}
	}
	return loss, count
}

func (w *worker) forward(i int, starts []int) {
	c, l, a := w.n.Config, &w.n.Layers[i], &w.a[i]
	x0, x1, x2 := w.x[2*i], w.x[2*i+1], w.x[2*i+2]
	d := c.Dim
	w.normRows(a.h1, x0, l.AttnNorm, a.r1)
	w.linear(a.q, a.h1, l.Q)
	w.linear(a.k, a.h1, l.K)
	w.linear(a.v, a.h1, l.V)
	w.rotate(a.q, 1)
	w.rotate(a.k, 1)
	for h := range c.Heads {
		w.attend(a, h, starts)
	}
	copy(x1, x0)
	gemm(x1, d, a.o, d, 1, w.wt[l.Out], d, rowLen, d, d, true)
	w.normRows(a.h2, x1, l.FFNorm, a.r2)
	w.linear(a.g, a.h2, l.Gate)
	w.linear(a.u, a.h2, l.Up)
	for i, g := range a.g {
		a.s[i] = g / (1 + engine.Exp(-g)) * a.u[i]
	}
	copy(x2, x1)
	gemm(x2, d, a.s, c.FF, 1, w.wt[l.Down], d, rowLen, d, c.FF, true)
}

func (w *worker) rotate(x []float32, way float32) {
	d, hd := w.n.Config.Dim, w.n.Config.Head()
	for t := range rowLen {
		engine.Rotate(x[t*d:(t+1)*d], w.cos[t*hd/2:], w.sin[t*hd/2:], hd, way)
	}
}

// turned copies one head of x with positions and numbers swapped.
func (w *worker) turned(out, x []float32, h int) {
	d, hd := w.n.Config.Dim, w.n.Config.Head()
	for t := range rowLen {
		for i := range hd {
			out[i*rowLen+t] = x[t*d+h*hd+i]
		}
	}
}

func (w *worker) attend(a *acts, h int, starts []int) {
	d, hd := w.n.Config.Dim, w.n.Config.Head()
	scale := float32(1 / math.Sqrt(float64(hd)))
	kt, p := w.tmp[:hd*rowLen], a.p[h*rowLen*rowLen:(h+1)*rowLen*rowLen]
	w.turned(kt, a.k, h)
	gemm(p, rowLen, a.q[h*hd:], d, 1, kt, rowLen, rowLen, rowLen, hd, false)
	for t := range rowLen {
		row := p[t*rowLen : (t+1)*rowLen]
		seen := row[starts[t] : t+1]
		most := float32(math.Inf(-1))
		for j := range seen {
			seen[j] *= scale
			most = max(most, seen[j])
		}
		var sum float32
		for j := range seen {
			seen[j] = engine.Exp(seen[j] - most)
			sum += seen[j]
		}
		clear(row[:starts[t]])
		clear(row[t+1:])
		for j := range seen {
			seen[j] /= sum
		}
	}
	gemm(a.o[h*hd:], d, p, rowLen, 1, a.v[h*hd:], d, rowLen, hd, rowLen, false)
}

// loss turns the logits into their gradient.
func (w *worker) loss(e example) (loss, count float64) {
	v := w.n.Config.Vocab
	for t := range rowLen {
		row := w.logits[t*v : (t+1)*v]
		if e.targets[t] < 0 {
			clear(row)
			continue
		}
		most := float32(math.Inf(-1))
		for _, x := range row {
			most = max(most, x)
		}
		var sum float32
		for i, x := range row {
			row[i] = engine.Exp(x - most)
			sum += row[i]
		}
		loss += -math.Log(float64(row[e.targets[t]]/sum)+1e-30) * float64(e.weight[t])
		count += float64(e.weight[t])
		k := e.weight[t] / sum
		for i := range row {
			row[i] *= k
		}
		row[e.targets[t]] -= e.weight[t]
	}
	return loss, count
}

func (w *worker) back(i int, starts []int) {
	c, l, a := w.n.Config, &w.n.Layers[i], &w.a[i]
	x0, x1 := w.x[2*i], w.x[2*i+1]
	d := c.Dim
	dh, ds := w.dh[:rowLen*d], w.tmp[:rowLen*c.FF]
	w.linearBack(ds, w.dx, a.s, l.Down, false)
	for i, g := range a.g {
		sg := 1 / (1 + engine.Exp(-g))
		du := ds[i] * g * sg
		ds[i] *= a.u[i] * sg * (1 + g*(1-sg))
		a.u[i] = du // u is used up
	}
	w.linearBack(dh, ds, a.h2, l.Gate, false)
	w.linearBack(dh, a.u, a.h2, l.Up, true)
	w.normBack(w.dx, dh, x1, l.FFNorm, a.r2)
	do := w.tmp2[:rowLen*d]
	w.linearBack(do, w.dx, a.o, l.Out, false)
	// g, u and s have done their work: they take the gradients of q, k and v.
	dq, dk, dv := a.g[:rowLen*d], a.u[:rowLen*d], a.s[:rowLen*d]
	for h := range c.Heads {
		w.attendBack(a, h, starts, do, dq, dk, dv)
	}
	w.rotate(dq, -1)
	w.rotate(dk, -1)
	w.linearBack(dh, dq, a.h1, l.Q, false)
	w.linearBack(dh, dk, a.h1, l.K, true)
	w.linearBack(dh, dv, a.h1, l.V, true)
	w.normBack(w.dx, dh, x0, l.AttnNorm, a.r1)
}

func (w *worker) attendBack(a *acts, h int, starts []int, do, dq, dk, dv []float32) {
	d, hd := w.n.Config.Dim, w.n.Config.Head()
	scale := float32(1 / math.Sqrt(float64(hd)))
	p := a.p[h*rowLen*rowLen : (h+1)*rowLen*rowLen]
	vt, dp := w.dh[:hd*rowLen], w.tmp[:rowLen*rowLen]
	w.turned(vt, a.v, h)
	gemm(dp, rowLen, do[h*hd:], d, 1, vt, rowLen, rowLen, rowLen, hd, false)
	gemm(dv[h*hd:], d, p, 1, rowLen, do[h*hd:], d, rowLen, hd, rowLen, false)
	for t := range rowLen {
		p, g := p[t*rowLen:(t+1)*rowLen], dp[t*rowLen:(t+1)*rowLen]
		var dot float32
		for j := starts[t]; j <= t; j++ {
			dot += p[j] * g[j]
		}
		clear(g[:starts[t]])
		clear(g[t+1:])
		for j := starts[t]; j <= t; j++ {
			g[j] = p[j] * (g[j] - dot) * scale
		}
	}
	gemm(dq[h*hd:], d, dp, rowLen, 1, a.k[h*hd:], d, rowLen, hd, rowLen, false)
	gemm(dk[h*hd:], d, dp, 1, rowLen, a.q[h*hd:], d, rowLen, hd, rowLen, false)
}
