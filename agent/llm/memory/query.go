package memory

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"edged/bus/origin"
)

// A Query says which facts are wanted: those that fit everything that is set.
type Query struct {
	Scope string    // empty: all scopes
	Key   string    // exactly
	Tags  []string  // all of them
	Text  string    // facts that are like it, the likest first; else the newest come first
	At    time.Time // what held then; zero is now
	Known time.Time // as it was known then; zero is now
	Since time.Time // known since then, or later
	Limit int       // 0 is 10
	// Enough is how alike a fact must be to Text; 0 is what the memory was
	// opened with, below 0 gives all, ranked.
	Enough float64
}

// A Hit is a fact that fits a query.
type Hit struct {
	Fact
	Score float64 `json:"score,omitempty"` // how alike it is to the query's text
}

// before is the order of hits: the likest first, then the newest.
func (h *Hit) before(o *Hit) bool {
	return cmp.Or(cmp.Compare(o.Score, h.Score), o.Known.Compare(h.Known), cmp.Compare(h.Scope, o.Scope), cmp.Compare(h.Key, o.Key)) < 0
}

// Recall gives the facts that fit. Its error is that of ctx; that nothing fits
// is no error.
func (m *Memory) Recall(ctx context.Context, q Query) ([]Hit, error) {
	hits := m.matching(q)
	if q.Text == "" {
		sort.Slice(hits, func(i, j int) bool { return hits[i].before(&hits[j]) })
		return heard(ctx, hits[:min(len(hits), cmp.Or(q.Limit, 10))]), ctx.Err()
	}
	// Everything else was asked first: what is forgotten or of another scope
	// takes nobody's place among the likest.
	texts := make([]string, len(hits))
	for i := range hits {
		texts[i] = hits[i].Text()
	}
	scores, enough, err := m.similar.Scores(ctx, q.Text, texts)
	if err != nil {
		return nil, err
	}
	if q.Enough != 0 {
		enough = q.Enough
	}
	for i := range hits {
		hits[i].Score = scores[i]
	}
	hits = slices.DeleteFunc(hits, func(h Hit) bool { return h.Score < enough })
	sort.Slice(hits, func(i, j int) bool { return hits[i].before(&hits[j]) })
	return heard(ctx, hits[:min(len(hits), cmp.Or(q.Limit, 10))]), nil
}

// heard gives facts to the run that ctx belongs to: it is of their words, too.
func heard(ctx context.Context, hits []Hit) []Hit {
	for _, h := range hits {
		origin.Raise(ctx, h.Origin)
	}
	return hits
}

// matching gives the facts that fit all but the text.
func (m *Memory) matching(q Query) (hits []Hit) {
	now := time.Now()
	// What was said while the clock was ahead is known too.
	known, at := q.Known, q.At
	if known.IsZero() {
		known = time.Unix(1<<40, 0)
	}
	if at.IsZero() {
		at = now
	}
	m.mu.RLock()
	var list []*history
	if q.Key != "" && q.Scope != "" {
		if h := m.keys[name(roomFact, q.Scope, q.Key)]; h != nil {
			list = append(list, h)
		}
	} else {
		for n, h := range m.keys {
			if strings.HasPrefix(n, roomFact+"/") && (q.Scope == "" || q.Scope == h.Scope) && (q.Key == "" || q.Key == h.Key) {
				list = append(list, h)
			}
		}
	}
	m.mu.RUnlock()
	for _, h := range list {
		v := h.at(at, known)
		if v == nil || !q.Since.IsZero() && v.Known.Before(q.Since) {
			continue
		}
		if slices.ContainsFunc(q.Tags, func(t string) bool { return !slices.Contains(v.Tags, strings.ToLower(t)) }) {
			continue
		}
		from, until := h.span(at, known)
		hits = append(hits, Hit{Fact: h.fact(v, from, until)})
	}
	return hits
}

// Text is the fact in words, for comparing and for prompts: "cup: kitchen".
func (f Fact) Text() string {
	if s, ok := f.Value.(string); ok {
		return f.Key + ": " + s
	}
	b, err := json.Marshal(f.Value)
	if err != nil {
		return f.Key + ": " + fmt.Sprint(f.Value)
	}
	return f.Key + ": " + string(b)
}

// Prefer keeps what somebody likes: Prefer(ctx, "anna", "volume", 0.3). It is
// on disk when Prefer returns.
func (m *Memory) Prefer(ctx context.Context, who, key string, value any) error {
	_, err := m.remember(ctx, roomPrefer, Fact{Scope: who, Key: key, Value: value})
	return err
}

// Preference gives what somebody likes. Like all that is read here it is on
// behalf of the run that ctx belongs to.
func (m *Memory) Preference(ctx context.Context, who, key string) (any, bool) {
	m.mu.RLock()
	h := m.keys[name(roomPrefer, who, key)]
	m.mu.RUnlock()
	if h == nil {
		return nil, false
	}
	v := &h.Versions[len(h.Versions)-1]
	if v.Value == nil {
		return nil, false
	}
	f := h.fact(v, v.From, v.Until)
	if !origin.Wordless(f.Value) {
		origin.Raise(ctx, f.Origin)
	}
	return f.Value, true
}

// Preferences gives all that somebody likes, by key.
func (m *Memory) Preferences(ctx context.Context, who string) map[string]any {
	out := map[string]any{}
	m.mu.RLock()
	var keys []string
	for n := range m.keys {
		if key, ok := strings.CutPrefix(n, name(roomPrefer, who, "")); ok {
			keys = append(keys, key)
		}
	}
	m.mu.RUnlock()
	for _, k := range keys {
		if v, ok := m.Preference(ctx, who, k); ok {
			out[k] = v
		}
	}
	return out
}

// ForgetPreference takes a preference away, and what it was.
func (m *Memory) ForgetPreference(ctx context.Context, who, key string) error {
	if err := valid("name", who); err != nil {
		return err
	}
	if err := valid("key", key); err != nil {
		return err
	}
	return m.drop(ctx, roomPrefer, name(roomPrefer, who, key), key)
}
