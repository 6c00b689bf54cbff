package engine

import "math"

// Nothing in this file allocates but Session.

// Session is one run of a network over one text. It belongs to one goroutine
// at a time.
type Session struct {
	n       *Net
	k, v    [][]float32 // what was seen: per layer, context × width
	x, h    []float32
	q, o    []float32
	g, u    []float32
	att     []float32
	scores  []float32
	cos     []float32
	sin     []float32
	pos     int
	context int
}

// Session returns a session for texts of up to context tokens. It holds about
// 8 · layers · width · context bytes.
func (n *Net) Session(context int) *Session {
	c := n.Config
	f := func(k int) []float32 { return make([]float32, k) }
	s := &Session{
		n: n, context: context, x: f(c.Dim), h: f(max(c.Dim, c.FF)), q: f(c.Dim), o: f(c.Dim),
		g: f(c.FF), u: f(c.FF), att: f(context), scores: f(c.Vocab),
	}
	for range c.Layers {
		s.k, s.v = append(s.k, f(context*c.Dim)), append(s.v, f(context*c.Dim))
	}
	s.cos, s.sin = Rotary(c, context)
	return s
}

// Reset forgets the text.
func (s *Session) Reset() { s.pos = 0 }

// Len is the number of tokens fed so far.
func (s *Session) Len() int { return s.pos }

// Full tells that no token fits any more; Step would panic.
func (s *Session) Full() bool { return s.pos >= s.context }

// Feed takes in a token whose successor is known already.
func (s *Session) Feed(token int) { s.run(token) }

// Step takes in a token and returns the scores (logits) of the next one, valid
// until the next Step.
func (s *Session) Step(token int) []float32 {
	s.run(token)
	c := s.n.Config
	h := s.h[:c.Dim]
	Normalize(h, s.x, s.n.Norm.W, c.Eps)
	multiply(s.scores, s.n.Embed, h)
	return s.scores
}

// Hidden is the last token's normalised state, valid until the next Step. It is
// what the trainer's arithmetic is compared with.
func (s *Session) Hidden() []float32 { return s.h[:s.n.Config.Dim] }

func (s *Session) run(token int) {
	n, c := s.n, s.n.Config
	d, hd, at := c.Dim, c.Head(), s.pos
	h := s.h[:d]
	copy(s.x, n.Embed.W[token*d:(token+1)*d])
	for i := range n.Layers {
		l := &n.Layers[i]
		Normalize(h, s.x, l.AttnNorm.W, c.Eps)
		k, v := s.k[i][at*d:(at+1)*d], s.v[i][at*d:(at+1)*d]
		multiply(s.q, l.Q, h)
		multiply(k, l.K, h)
		multiply(v, l.V, h)
		cos, sin := s.cos[at*hd/2:], s.sin[at*hd/2:]
		Rotate(s.q, cos, sin, hd, 1)
		Rotate(k, cos, sin, hd, 1)
		for from := 0; from < d; from += hd {
			s.attend(i, from)
		}
		multiply(h, l.Out, s.o)
		for i := range s.x {
			s.x[i] += h[i]
		}
		Normalize(h, s.x, l.FFNorm.W, c.Eps)
		multiply(s.g, l.Gate, h)
		multiply(s.u, l.Up, h)
		for i, g := range s.g {
			s.g[i] = g / (1 + Exp(-g)) * s.u[i]
		}
		multiply(h, l.Down, s.g)
		for i := range s.x {
			s.x[i] += h[i]
		}
	}
	s.pos++
}

// attend computes one head's output, the one whose numbers start at from.
func (s *Session) attend(layer, from int) {
	d, hd := s.n.Config.Dim, s.n.Config.Head()
	scale := float32(1 / math.Sqrt(float64(hd)))
	q, o, att := s.q[from:from+hd], s.o[from:from+hd], s.att[:s.pos+1]
	keys, values := s.k[layer], s.v[layer]
	most := float32(math.Inf(-1))
	for t := range att {
		a := dot(q, keys[t*d+from:][:hd]) * scale
		att[t] = a
		most = max(most, a)
	}
	var sum float32
	for t, a := range att {
		att[t] = Exp(a - most)
		sum += att[t]
	}
	clear(o)
	for t, a := range att {
		w := a / sum
		for i, x := range values[t*d+from:][:len(o)] {
			o[i] += w * x
		}
	}
}

func dot(a, b []float32) float32 {
	b = b[:len(a)]
	var p, q, r, s float32
	i := 0
	for ; i+3 < len(a); i += 4 {
		p += a[i] * b[i]
		q += a[i+1] * b[i+1]
		r += a[i+2] * b[i+2]
		s += a[i+3] * b[i+3]
	}
	for ; i < len(a); i++ {
		p += a[i] * b[i]
	}
	return p + q + r + s
}

// multiply is out = P·x, four rows at a time so that x is read once for all.
func multiply(out []float32, p *Param, x []float32) {
	k, w := p.Cols, p.W
	x = x[:k]
	r := 0
	for ; r+3 < p.Rows; r += 4 {
		// Of len(x), so that the compiler needs no checks in the loop.
		w0, w1, w2, w3 := w[:len(x)], w[k:k+len(x)], w[2*k:2*k+len(x)], w[3*k:3*k+len(x)]
		var a0, a1, a2, a3 float32
		for i, y := range x {
			a0 += w0[i] * y
			a1 += w1[i] * y
			a2 += w2[i] * y
			a3 += w3[i] * y
		}
		out[r], out[r+1], out[r+2], out[r+3] = a0, a1, a2, a3
		w = w[4*k:]
	}
	for ; r < p.Rows; r++ {
		out[r] = dot(x, w[:k])
		w = w[k:]
	}
}

// Normalize is RMSNorm: out = x·r·g; it returns r.
func Normalize(out, x, g []float32, eps float64) float32 {
	sum := 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	r := float32(1 / math.Sqrt(sum/float64(len(x))+eps))
	for i, v := range x {
		out[i] = v * r * g[i]
	}
	return r
}

// Rotary gives the cosines and sines of the rotary positions, half a head's
// width per position.
func Rotary(c Config, positions int) (cos, sin []float32) {
	half := c.Head() / 2
	cos, sin = make([]float32, 0, positions*half), make([]float32, 0, positions*half)
	for p := range positions {
		for i := range half {
			a := float64(p) * math.Pow(c.Theta, -float64(i)/float64(half))
			cos, sin = append(cos, float32(math.Cos(a))), append(sin, float32(math.Sin(a)))
		}
	}
	return cos, sin
}

// Rotate turns one token's heads to its position; way -1 turns them back.
func Rotate(x, cos, sin []float32, head int, way float32) {
	for ; len(x) >= head; x = x[head:] {
		for i := range head / 2 {
			a, b := x[2*i], x[2*i+1]
			x[2*i], x[2*i+1] = a*cos[i]-way*b*sin[i], way*a*sin[i]+b*cos[i]
		}
	}
}

// Exp is e^x, several times faster than math.Exp; the relative error is 1e-7
// near zero and below 1e-5 everywhere.
func Exp(x float32) float32 {
	if x < -87 {
		return 0
	}
	x = min(x, 88)
	y := x * 1.44269504088896 // 2^y; the whole part goes into the exponent
	k := float32(math.Floor(float64(y) + 0.5))
	f := (y - k) * 0.693147180559945
	p := 1 + f*(1+f*(0.5+f*(0.16666667+f*(0.041666668+f*(0.008333334+f*0.0013888889)))))
	return math.Float32frombits(math.Float32bits(p) + uint32(int32(k))<<23)
}
