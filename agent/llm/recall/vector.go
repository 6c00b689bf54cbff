package recall

import (
	"container/list"
	"context"
	"fmt"
	"math"
	"sync"

	"edged/agent/llm"
)

// cache keeps what was made of texts, those used last. It may be used
// concurrently.
type cache[T any] struct {
	limit int
	mu    sync.Mutex // guards the rest
	byKey map[string]*list.Element
	order *list.List // of cached[T], used last in front
}

type cached[T any] struct {
	key   string
	value T
}

func newCache[T any](limit int) *cache[T] {
	return &cache[T]{limit: limit, byKey: map[string]*list.Element{}, order: list.New()}
}

func (c *cache[T]) get(key string) (v T, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byKey[key]
	if e == nil {
		return v, false
	}
	c.order.MoveToFront(e)
	return e.Value.(cached[T]).value, true
}

func (c *cache[T]) put(key string, v T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byKey[key]; e != nil {
		e.Value = cached[T]{key, v}
		c.order.MoveToFront(e)
		return
	}
	c.byKey[key] = c.order.PushFront(cached[T]{key, v})
	if c.order.Len() > c.limit {
		last := c.order.Back()
		c.order.Remove(last)
		delete(c.byKey, last.Value.(cached[T]).key)
	}
}

func (c *cache[T]) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.byKey)
	c.order.Init()
}

// batch is how many texts are sent to an embedder at once.
const batch = 64

// vectors gives one vector of length 1 for each text, from the cache as far as
// it has them.
func vectors(ctx context.Context, e llm.Embedder, c *cache[[]float32], texts []string) ([][]float32, error) {
	for range 2 {
		out, err := lookup(ctx, e, c, texts)
		if err != nil {
			return nil, err
		}
		same := true
		for _, v := range out {
			same = same && len(v) == len(out[0])
		}
		if same {
			return out, nil
		}
		c.clear() // the server has another model now
	}
	return nil, fmt.Errorf("recall: %w: vectors of different lengths", llm.ErrServer)
}

func lookup(ctx context.Context, e llm.Embedder, c *cache[[]float32], texts []string) ([][]float32, error) {
	out := make([][]float32, len(texts))
	var missing []int
	for i, t := range texts {
		v, ok := c.get(t)
		if out[i] = v; !ok {
			missing = append(missing, i)
		}
	}
	for len(missing) > 0 {
		n := min(batch, len(missing))
		ask := make([]string, n)
		for k, i := range missing[:n] {
			ask[k] = texts[i]
		}
		got, err := e.Embed(ctx, ask)
		if err != nil {
			return nil, err
		}
		if len(got) != n {
			return nil, fmt.Errorf("recall: %w: %d vectors for %d texts", llm.ErrServer, len(got), n)
		}
		for k, i := range missing[:n] {
			v := unit(got[k])
			if v == nil {
				return nil, fmt.Errorf("recall: %w: a vector without a direction", llm.ErrServer)
			}
			out[i] = v
			c.put(texts[i], v)
		}
		missing = missing[n:]
	}
	return out, nil
}

// unit gives a vector the length 1; nil if it has none.
func unit(v []float32) []float32 {
	var sum float64
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if sum == 0 || math.IsNaN(sum) || math.IsInf(sum, 0) {
		return nil
	}
	f := float32(1 / math.Sqrt(sum))
	out := make([]float32, len(v))
	for i, x := range v {
		out[i] = x * f
	}
	return out
}

// dot of two vectors of length 1 is how alike they are.
func dot(a, b []float32) float64 {
	var sum float32
	for i := range a {
		sum += a[i] * b[i]
	}
	return float64(sum)
}
