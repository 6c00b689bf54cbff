package recall

import "context"

// A Similar says how alike texts are to a query, by the vectors of an embedder
// or else by words. It may be used concurrently.
type Similar struct {
	opt     Options
	vectors *cache[[]float32]
	words   *cache[[]word]
}

// NewSimilar makes one; Options.Cache should be as many as there are texts.
func NewSimilar(o Options) *Similar {
	o = o.filled()
	return &Similar{o, newCache[[]float32](o.Cache), newCache[[]word](o.Cache)}
}

// Scores gives for each text how alike it is to the query, 0 to 1, and how
// much is enough. Its error is that of ctx.
func (s *Similar) Scores(ctx context.Context, query string, texts []string) (scores []float64, enough float64, err error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	scores = make([]float64, len(texts))
	if s.opt.Embedder != nil && len(texts) > 0 {
		vs, err := embed(ctx, s.opt, s.vectors, append([]string{query}, texts...))
		if err != nil {
			return nil, 0, err
		}
		for i := range vs[min(1, len(vs)):] {
			scores[i] = max(0, dot(vs[0], vs[i+1]))
		}
		if vs != nil {
			return scores, s.opt.Vector, nil
		}
	}
	q := words(query)
	weigh := func(w *word) float64 { return w.weight }
	for i, t := range texts {
		ws, ok := s.words.get(t)
		if !ok {
			ws = words(t)
			s.words.put(t, ws)
		}
		scores[i] = likeness(q, ws, weigh)
	}
	return scores, s.opt.Words, nil
}
