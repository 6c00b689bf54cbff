package intent

import (
	"slices"
	"unicode/utf8"
)

// This file walks the automaton. A search is used by one match at a time and
// kept for the next, so that a match allocates little but its result.

const (
	maxPieces = 100    // a longer text is no command
	maxSteps  = 20_000 // of a search; wildcards next to each other can be slow
	memoSize  = 1 << 11
)

// What a difference costs. A match's score is 1 minus the cost per word.
const (
	costNear   = 0.5  // a word that was misheard
	costLike   = 0.3  // a word that sounds the same
	costLost   = 0.5  // a little word that is missing
	costFiller = 0.15 // "um", "please", "could you"
)

// A capture is a slot's value while searching.
type capture struct {
	slot, list int32
	index      int32 // of a list's value
	value      any
	from, to   int // pieces
}

type memo struct {
	state, pos int32
	run        uint32
	cost       float32
}

type search struct {
	m       *Model
	text    string
	context map[string]any
	pieces  []piece
	buf     []byte
	ids     []int32   // of pieces in the vocabulary, -1 = none
	others  [][]int32 // words that a piece may have been
	free    []bool    // the piece may be left out as a filler
	budget  float32   // 0 = word for word
	steps   int
	run     uint32
	failed  [memoSize]memo
	path    []capture
	opening bool // nothing of a sentence was read yet
	numbers []reading

	// The best so far.
	found     bool
	sentence  int32
	best      []capture
	cost      float32
	literal   int32
	wild      int32
	ambiguous bool
}

// startOver forgets what an earlier search found.
func (s *search) startOver(budget float32) {
	s.steps, s.budget, s.found, s.ambiguous = 0, budget, false, false
	s.run++
	s.path = s.path[:0]
}

func (s *search) match(text string, context map[string]any) (Match, bool) {
	if len(text) > 4096 || !utf8.ValidString(text) {
		return Match{}, false
	}
	s.text, s.context = text, context
	s.pieces, s.buf = cut(s.pieces[:0], s.buf, text)
	if len(s.pieces) == 0 || len(s.pieces) > maxPieces {
		return Match{}, false
	}
	s.ids = s.ids[:0]
	for i := range s.pieces {
		id, ok := s.m.vocab[string(s.pieces[i].text)]
		if !ok {
			id = -1
		}
		s.ids = append(s.ids, id)
	}
	s.startOver(0)
	s.from(s.m.root, 0, 0, 0, 0)
	score := 1.0
	if !s.found {
		if s.m.fuzzy >= 1 || !s.guess() {
			return Match{}, false
		}
		s.startOver(float32(1-s.m.fuzzy) * float32(len(s.pieces)+2))
		s.from(s.m.root, 0, 0, 0, 0)
		if !s.found || s.ambiguous {
			return Match{}, false
		}
		if score = s.score(); score < s.m.fuzzy {
			return Match{}, false
		}
	}
	return s.result(score), true
}

func (s *search) result(score float64) Match {
	st := s.m.sentences[s.sentence]
	in := &s.m.intents[st.intent]
	r := Match{
		Intent: in.Name, Tool: in.Tool, Sentence: st.text, Score: score, Response: in.Response,
		Slots: make(map[string]any, len(in.Slots)+len(s.best)),
	}
	for k, v := range in.Slots {
		r.Slots[k] = v
	}
	for k, need := range in.Requires {
		if n, ok := need.(Need); ok && n.Slot != "" {
			r.Slots[n.Slot] = known(s.context[k])
		}
	}
	if len(s.best) > 0 {
		r.Said = make(map[string]string, len(s.best))
	}
	for _, c := range s.best {
		name := s.m.slots[c.slot]
		r.Slots[name], r.Said[name] = c.value, s.said(c)
	}
	return r
}

// said is a slot as it is spoken: a value as its author wrote it, else the
// words of the text.
func (s *search) said(c capture) string {
	if l := &s.m.lists[c.list]; len(l.values) > 0 && plainText(l.values[c.index].In) {
		return l.values[c.index].In
	}
	return s.text[s.pieces[c.from].start:s.pieces[c.to-1].end]
}

// from searches on from a state at a piece. It reports whether an end was
// reached, so that places that lead nowhere are entered only once.
func (s *search) from(at int32, pos int, cost float32, literal, wild int32) bool {
	if s.steps++; s.steps > maxSteps {
		return false
	}
	slot := &s.failed[(uint32(at)*31+uint32(pos)*2654435761)%memoSize]
	if slot.run == s.run && slot.state == at && slot.pos == int32(pos) && cost >= slot.cost {
		return false
	}
	st := &s.m.states[at]
	ok := false
	if pos == len(s.pieces) {
		ok = s.end(st, cost, literal, wild)
	} else {
		ok = s.literals(st, pos, cost, literal, wild)
		for i := range st.slots {
			ok = s.slot(&st.slots[i], pos, cost, literal, wild) || ok
		}
		for _, skip := range s.m.skips {
			if n := len(skip); pos+n <= len(s.ids) && slices.Equal(skip, s.ids[pos:pos+n]) {
				ok = s.from(at, pos+n, cost, literal, wild) || ok
			}
		}
	}
	if s.budget > 0 {
		ok = s.bend(at, st, pos, cost, literal, wild) || ok
	}
	if !ok {
		*slot = memo{at, int32(pos), s.run, cost}
	}
	return ok
}

// literals follows the words of sentences.
func (s *search) literals(st *state, pos int, cost float32, literal, wild int32) bool {
	ok := false
	if id := s.ids[pos]; id >= 0 {
		ok = s.word(st, id, pos, cost, literal, wild)
	}
	if s.budget > 0 {
		for i, id := range s.others[pos] {
			c := cost + costNear
			if s.ids[pos] >= 0 || i < len(s.m.lang.like[string(s.pieces[pos].text)]) {
				c = cost + costLike
			}
			if c <= s.budget && s.mayBe(st, pos, id) {
				ok = s.word(st, id, pos, c, literal, wild) || ok
			}
		}
	}
	return ok
}

func (s *search) word(st *state, id int32, pos int, cost float32, literal, wild int32) bool {
	i := firstWord(st.words, id)
	ok := false
	for ; i < len(st.words) && st.words[i].word == id; i++ {
		e := st.words[i]
		n := len(s.path)
		if e.set >= 0 {
			set := s.m.sets[e.set]
			v := s.m.lists[set.list].values[set.value]
			s.path = append(s.path, capture{set.slot, set.list, set.value, valueOf(v), pos, pos + 1})
		}
		ok = s.from(e.to, pos+1, cost, literal+s.m.words[id].chars, wild) || ok
		s.path = s.path[:n]
	}
	return ok
}

// firstWord is where the edges for a word begin, if there are any.
func firstWord(edges []wordEdge, id int32) int {
	lo, hi := 0, len(edges)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if edges[mid].word < id {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// valueOf is what a tool gets for a value.
func valueOf(v Value) any {
	if v.Out != nil {
		return v.Out
	}
	return v.In
}

// slot reads a slot's value.
func (s *search) slot(e *slotEdge, pos int, cost float32, literal, wild int32) bool {
	l := &s.m.lists[e.list]
	n := len(s.path)
	ok := false
	take := func(index int32, value any, end int, cost float32, wild int32) {
		s.path = append(s.path, capture{e.slot, e.list, index, value, pos, end})
		ok = s.from(e.to, end, cost, literal, wild) || ok
		s.path = s.path[:n]
	}
	switch {
	case l.wildcard:
		for end := pos + 1; end <= len(s.pieces); end++ {
			value := s.text[s.pieces[pos].start:s.pieces[end-1].end]
			take(0, value, end, cost, wild+1)
		}
	case l.rng != nil:
		from := len(s.numbers)
		s.numbers = s.m.lang.readings(s.numbers, s.pieces, pos)
		for i := from; i < len(s.numbers); i++ {
			if v, fits := l.rng.fits(s.numbers[i]); fits {
				take(0, v, s.numbers[i].end, cost, wild)
			}
		}
		s.numbers = s.numbers[:from]
	default:
		s.value(l, l.root, pos, cost, func(i int32, end int, cost float32) {
			take(i, valueOf(l.values[i]), end, cost, wild)
		})
	}
	return ok
}

// value finds the values of a list that the words from pos on are.
func (s *search) value(l *list, at int32, pos int, cost float32, take func(value int32, end int, cost float32)) {
	if s.steps++; s.steps > maxSteps {
		return
	}
	st := &s.m.states[at]
	for _, v := range st.accept {
		take(v, pos, cost)
	}
	if pos == len(s.pieces) {
		return
	}
	follow := func(id int32, cost float32) {
		for i := firstWord(st.words, id); i < len(st.words) && st.words[i].word == id; i++ {
			s.value(l, st.words[i].to, pos+1, cost, take)
		}
	}
	if id := s.ids[pos]; id >= 0 {
		follow(id, cost)
	}
	if s.budget > 0 && cost+costNear <= s.budget {
		for _, id := range s.others[pos] {
			follow(id, cost+costNear)
		}
	}
}

// end looks at a complete reading of the text.
func (s *search) end(st *state, cost float32, literal, wild int32) bool {
	for _, id := range st.accept {
		in := &s.m.intents[s.m.sentences[id].intent]
		if !s.holds(in) || s.negated() {
			continue
		}
		if s.found {
			switch {
			case cost != s.cost:
				if cost > s.cost {
					continue
				}
			case literal != s.literal:
				if literal < s.literal {
					continue
				}
			case wild != s.wild:
				if wild > s.wild {
					continue
				}
			case id >= s.sentence:
				if s.budget > 0 && !s.same(in) {
					s.ambiguous = true
				}
				continue
			}
		}
		s.ambiguous = s.found && s.budget > 0 && cost == s.cost && literal == s.literal && wild == s.wild && !s.same(in)
		s.found, s.sentence, s.cost, s.literal, s.wild = true, id, cost, literal, wild
		s.best = append(s.best[:0], s.path...)
	}
	return len(st.accept) > 0
}

// same reports whether the path and the best so far would do the same.
func (s *search) same(in *Intent) bool {
	if in != &s.m.intents[s.m.sentences[s.sentence].intent] || len(s.path) != len(s.best) {
		return false
	}
	for i, c := range s.path {
		if b := s.best[i]; b.slot != c.slot || !equal(b.value, c.value) {
			return false
		}
	}
	return true
}

// negated reports whether a wildcard before the first word of the sentence
// holds a negation: "do not" in "{anything} go to the kitchen".
func (s *search) negated() bool {
	for _, c := range s.path {
		if !s.m.lists[c.list].wildcard || c.from != 0 {
			continue
		}
		for _, p := range s.pieces[:c.to] {
			if s.m.lang.not[string(p.text)] {
				return true
			}
		}
	}
	return false
}

// holds reports whether the context is as an intent wants it.
func (s *search) holds(in *Intent) bool {
	for key, want := range in.Requires {
		if n, ok := want.(Need); ok {
			want = n.Value
		}
		if has, ok := s.lookup(key); !ok || want != nil && !oneOf(has, want) {
			return false
		}
	}
	for key, bad := range in.Excludes {
		if has, ok := s.lookup(key); ok && (bad == nil || oneOf(has, bad)) {
			return false
		}
	}
	return true
}

// lookup finds a piece of context: what the values said bring along comes
// before what the caller knows.
func (s *search) lookup(key string) (any, bool) {
	for i := len(s.path) - 1; i >= 0; i-- {
		if l := &s.m.lists[s.path[i].list]; len(l.values) > 0 {
			if has, ok := l.values[s.path[i].index].Context[key]; ok {
				return has, true
			}
		}
	}
	v, ok := s.context[key]
	return known(v), ok
}

// known takes the value out of a piece of context with more to it.
func known(v any) any {
	if m, ok := v.(map[string]any); ok {
		if inner, ok := m["value"]; ok {
			return inner
		}
	}
	return v
}

func oneOf(has, want any) bool {
	if list, ok := want.([]any); ok {
		return slices.ContainsFunc(list, func(w any) bool { return equal(has, w) })
	}
	return equal(has, want)
}

// equal compares scalars; other values are never equal.
func equal(a, b any) bool {
	switch a.(type) {
	case nil, string, bool, int, int64, float64:
	default:
		return false
	}
	switch b.(type) {
	case nil, string, bool, int, int64, float64:
		return a == b
	}
	return false
}
