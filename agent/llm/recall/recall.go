// Package recall finds the agent, tool or skill that a text asks for.
//
// Its one rule: nothing is a good answer. Who is not near enough is not found,
// so nobody gets a task only because somebody had to.
//
// First those count that declare a capability by exactly the word that was
// asked for; then the vectors of an [llm.Embedder], if there is one and it
// works; else words and groups of letters, compared with the author's example
// tasks. The last needs no server and knows no synonyms: examples make it good.
//
//	f := recall.New(recall.Options{},
//		recall.Item{Name: "cleaner", Tags: []string{"floor"}, Doc: "cleans floors", Examples: []string{"vacuum the hall"}},
//		recall.Item{Name: "guard", Doc: "watches the doors", Examples: []string{"is the front door locked"}},
//	)
//	m, ok, err := f.Find(ctx, recall.Query{Text: "please vacuum the kitchen"})
package recall

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"edged/agent/llm"
)

// An Item is something that can be found.
type Item struct {
	Name     string
	Tags     []string // capabilities
	Doc      string   // what it does, in a line
	Examples []string // tasks for it, in words as people say them
}

// A Query is what is looked for.
type Query struct {
	Text string
	Tags []string // capabilities, all of which are needed; then only those count that have them
}

// How says by what something was found.
type How string

// The ways of finding.
const (
	ByTag    How = "tag"
	ByVector How = "vector"
	ByWords  How = "words"
)

// A Match is an item that was found.
type Match struct {
	Name  string
	Score float64 // 1 is the best; comparable only with those found the same way
	How   How
	Text  string // the example or line that was nearest
}

// Options of a [Finder] and a [Similar]; the zero value compares words.
type Options struct {
	Embedder llm.Embedder // nil: words only
	// Timeout of the embedder; words are compared when it is over. 0 is 2 s.
	Timeout time.Duration
	// Vector and Words are how alike texts must be to be found; 0 is 0.6 and
	// 0.5. What is right for vectors depends on their model: measure it.
	Vector, Words float64
	// Cache is how many texts' vectors are kept; 0 is 1024.
	Cache int
	// Fell is told why words were compared although there is an embedder.
	Fell func(ctx context.Context, err error)
}

func (o Options) filled() Options {
	o.Timeout = cmp.Or(o.Timeout, 2*time.Second)
	o.Vector = cmp.Or(o.Vector, 0.6)
	o.Words = cmp.Or(o.Words, 0.5)
	o.Cache = cmp.Or(o.Cache, 1024)
	return o
}

// A Finder finds items. It may be used concurrently.
type Finder struct {
	opt   Options
	items []item
	rare  map[string]float64 // weights of the words of the items

	cache *cache[[]float32]
}

type item struct {
	Item
	texts []string // Doc and Examples
	words [][]word // of the texts; the last is name and tags
}

// New makes a finder of these items.
func New(o Options, items ...Item) *Finder {
	f := &Finder{opt: o.filled(), rare: map[string]float64{}}
	f.cache = newCache[[]float32](f.opt.Cache)
	in := map[string]int{} // how many items have a word
	for _, i := range items {
		it := item{Item: i}
		seen := map[string]bool{}
		if i.Doc != "" {
			it.texts = append(it.texts, i.Doc)
		}
		it.texts = append(it.texts, i.Examples...)
		for _, t := range append(slices.Clone(it.texts), i.Name+" "+strings.Join(i.Tags, " ")) {
			ws := words(t)
			it.words = append(it.words, ws)
			for _, w := range ws {
				seen[w.text] = true
			}
		}
		for w := range seen {
			in[w]++
		}
		f.items = append(f.items, it)
	}
	all := math.Log(1 + float64(len(items)))
	for w, n := range in {
		f.rare[w] = math.Log(1+float64(len(items))/float64(n)) / all
	}

	return f
}

// weigh is the weight of a word among the items: the rarer the more.
func (f *Finder) weigh(w *word) float64 {
	r, ok := f.rare[w.text]
	if !ok {
		r = 0.5 // no item has it: likely a name, a place, a value
	}
	return w.weight * max(r, 0.2)
}

// Find gives the item that a query asks for, or none if none is near enough.
// Its error is that of ctx.
func (f *Finder) Find(ctx context.Context, q Query) (m Match, ok bool, err error) {
	list, err := f.Rank(ctx, q)
	if err != nil || len(list) == 0 {
		return Match{}, false, err
	}
	return list[0], true, nil
}

// Rank gives all items that are near enough, the best first; equal ones stay
// in order. Its error is that of ctx.
func (f *Finder) Rank(ctx context.Context, q Query) ([]Match, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	tagged := f.tagged(q)
	if tagged != nil && (len(tagged) == 1 || strings.TrimSpace(q.Text) == "") || len(q.Tags) > 0 && len(tagged) == 0 {
		return matches(tagged), nil
	}
	among := tagged
	if among == nil {
		for i := range f.items {
			among = append(among, &f.items[i])
		}
	}
	found, err := f.near(ctx, q.Text, among)
	if err != nil || tagged == nil {
		return found, err
	}
	// They all have the tags; the text only orders them.
	rest := slices.DeleteFunc(slices.Clone(tagged), func(it *item) bool {
		return slices.ContainsFunc(found, func(m Match) bool { return m.Name == it.Name })
	})
	for i := range found {
		found[i].How, found[i].Score = ByTag, 1
	}
	return append(found, matches(rest)...), nil
}

func matches(tagged []*item) []Match {
	var out []Match
	for _, it := range tagged {
		out = append(out, Match{Name: it.Name, Score: 1, How: ByTag})
	}
	return out
}

// tagged gives the items that have all tags of the query, or whose name or tag
// is the query's text; nil if nothing was asked for exactly.
func (f *Finder) tagged(q Query) []*item {
	var out []*item
	text := strings.TrimSpace(q.Text)
	for i := range f.items {
		it := &f.items[i]
		has := func(tag string) bool {
			return slices.ContainsFunc(it.Tags, func(t string) bool { return strings.EqualFold(t, tag) })
		}
		exact := text != "" && (strings.EqualFold(it.Name, text) || has(text))
		if len(q.Tags) > 0 {
			exact = !slices.ContainsFunc(q.Tags, func(t string) bool { return !has(t) })
		}
		if exact {
			out = append(out, it)
		}
	}
	return out
}

// near ranks items by how alike their texts are to a text.
func (f *Finder) near(ctx context.Context, text string, among []*item) ([]Match, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	found, done, err := f.byVector(ctx, text, among)
	if err != nil {
		return nil, err
	}
	if !done {
		found = f.byWords(text, among)
	}
	sort.SliceStable(found, func(i, j int) bool { return found[i].Score > found[j].Score })
	return found, nil
}

func (f *Finder) byWords(text string, among []*item) (found []Match) {
	q := words(text)
	for _, it := range among {
		m := Match{Name: it.Name, How: ByWords}
		var all []word
		for i, ws := range it.words {
			all = append(all, ws...)
			if s := likeness(q, ws, f.weigh); s > m.Score {
				m.Score = s
				m.Text = it.Name
				if i < len(it.texts) {
					m.Text = it.texts[i]
				}
			}
		}
		// A task may take its words from several examples.
		m.Score = max(m.Score, 0.8*covered(q, all, f.weigh))
		if m.Score >= f.opt.Words {
			found = append(found, m)
		}
	}
	return found
}

// byVector reports whether there were vectors.
func (f *Finder) byVector(ctx context.Context, text string, among []*item) (found []Match, done bool, err error) {
	if f.opt.Embedder == nil {
		return nil, false, nil
	}
	texts := []string{text}
	for _, it := range among {
		texts = append(texts, it.texts...)
	}
	vs, err := embed(ctx, f.opt, f.cache, texts)
	if vs == nil || err != nil {
		return nil, false, err
	}
	next := vs[1:]
	for _, it := range among {
		m := Match{Name: it.Name, How: ByVector}
		for i, v := range next[:len(it.texts)] {
			if s := dot(vs[0], v); s > m.Score {
				m.Score, m.Text = s, it.texts[i]
			}
		}
		next = next[len(it.texts):]
		if m.Score >= f.opt.Vector {
			found = append(found, m)
		}
	}
	return found, true, nil
}

// embed gives vectors, or none if the embedder fails; the error is that of ctx.
func embed(ctx context.Context, o Options, c *cache[[]float32], texts []string) ([][]float32, error) {
	short, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	vs, err := vectors(short, o.Embedder, c, texts)
	if err == nil {
		return vs, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if o.Fell != nil {
		o.Fell(ctx, err)
	}
	return nil, nil
}
