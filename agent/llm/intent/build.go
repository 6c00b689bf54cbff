package intent

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"edged/agent/llm/intent/fold"
)

// This file turns trees into one graph of fragments: its edges are pieces of
// words, word ends, and slots. What stands between two word ends is a word, so
// "light[s]" gives "light" and "lights".

type edgeKind uint8

const (
	eNone  edgeKind = iota // nothing
	ePart                  // a piece of a word
	eBreak                 // a word ends
	eSlot                  // a slot's value
	eSet                   // the value of a slot that is part of a word
)

type frag struct {
	kind edgeKind
	text string
	slot int32 // eSlot
	id   int32 // eSlot: the list; eSet: the setting
	to   int32
}

type vertex struct {
	edges  []frag
	accept int32 // sentence or value, -1 = none
}

type compiler struct {
	m      *Model
	o      Options
	graph  []vertex
	spread map[int32]*step // what a vertex leads to, word by word
	shared map[string]int32
	slotID map[string]int32
	setID  map[setting]int32
	rules  map[string]*node

	// Of the intent at hand.
	at    Intent
	own   map[string]int32 // its own lists
	slots map[string]bool
	stack []string // rules being expanded
	src   string   // the template that is read, for errors
	limit int      // vertices the template may use
}

const maxVertices = 200_000 // of one template; a quarter of it at one place

func (c *compiler) vertex() int32 {
	c.graph = append(c.graph, vertex{accept: -1})
	return int32(len(c.graph) - 1)
}

func (c *compiler) link(from int32, f frag) int32 {
	c.graph[from].edges = append(c.graph[from].edges, f)
	return f.to
}

func (c *compiler) fail(pos int, format string, args ...any) error {
	return &Error{Intent: c.at.Name, Text: c.src, Pos: pos, Msg: fmt.Sprintf(format, args...)}
}

// intent adds the sentences of an intent and returns where they start.
func (c *compiler) intent(i int32) ([]int32, error) {
	in := c.m.intents[i]
	c.at, c.own, c.slots = in, map[string]int32{}, map[string]bool{}
	switch {
	case in.Name == "":
		return nil, &Error{Msg: fmt.Sprintf("intent %d has no name: give it a Tool or a Name", i+1)}
	case len(in.Sentences) == 0:
		return nil, &Error{Intent: in.Name, Msg: "no sentences: list at least one thing people say"}
	case in.Tool == "" && in.Response == "":
		return nil, &Error{Intent: in.Name, Msg: "it would do nothing: give it a Tool to call or a Response to say"}
	}
	var starts []int32
	for _, s := range in.Sentences {
		start, err := c.template(s, int32(len(c.m.sentences)))
		if err != nil {
			return nil, err
		}
		c.m.sentences = append(c.m.sentences, sentence{i, s})
		starts = append(starts, start)
	}
	for slot := range in.Slots {
		c.slots[slot] = true
	}
	for _, need := range in.Requires {
		if n, ok := need.(Need); ok && n.Slot != "" {
			c.slots[n.Slot] = true
		}
	}
	c.m.fills = append(c.m.fills, slices.Sorted(maps.Keys(c.slots)))
	return starts, c.response(in)
}

// template adds one template; accept is what its end means.
func (c *compiler) template(src string, accept int32) (int32, error) {
	was := c.src
	defer func() { c.src = was }()
	c.src, c.limit = src, len(c.graph)+maxVertices
	tree, err := parse(c.at.Name, src)
	if err != nil {
		return 0, err
	}
	start := c.vertex()
	end, err := c.build(tree, start)
	if err != nil {
		return 0, err
	}
	c.graph[end].accept = accept
	st, err := c.steps(start)
	if err != nil {
		return 0, err
	}
	if len(st.accept) > 0 {
		return 0, c.fail(0, "this fits when nothing is said: a word or slot outside of [ ] is missing")
	}
	return start, nil
}

func (c *compiler) build(n *node, from int32) (int32, error) {
	if len(c.graph) > c.limit {
		return 0, c.fail(n.pos, "this has too many forms: make several sentences of it")
	}
	switch n.kind {
	case kText:
		return c.text(n.text, from), nil
	case kSeq:
		var err error
		for _, it := range n.items {
			if from, err = c.build(it, from); err != nil {
				return 0, err
			}
		}
		return from, nil
	case kAlt:
		end := c.vertex()
		for _, it := range n.items {
			to, err := c.build(it, from)
			if err != nil {
				return 0, err
			}
			c.link(to, frag{to: end})
		}
		return end, nil
	case kPerm:
		return c.permutation(n, from)
	case kList:
		return c.listRef(n, from)
	default:
		return c.ruleRef(n, from)
	}
}

// text adds literal text: pieces of words, and breaks for what is between.
func (c *compiler) text(s string, from int32) int32 {
	at := -1
	flush := func(end int) {
		if at >= 0 {
			from = c.link(from, frag{kind: ePart, text: s[at:end], to: c.vertex()})
		}
		at = -1
	}
	for i, r := range s {
		f := fold.Rune(r)
		in := f == 0 || fold.Letter(f) || isDigit(f) || f == '\'' || isSymbol(f) ||
			(r == '.' || r == ',') && i > 0 && i+1 < len(s) && isDigit(rune(s[i-1])) && isDigit(rune(s[i+1]))
		switch {
		case in && at < 0:
			at = i
		case !in:
			flush(i)
			from = c.link(from, frag{kind: eBreak, to: c.vertex()})
		}
	}
	flush(len(s))
	return from
}

// permutation adds all orders of its items: one vertex for each set of items
// already said.
func (c *compiler) permutation(n *node, from int32) (int32, error) {
	k := len(n.items)
	at := make([]int32, 1<<k)
	for i := range at {
		at[i] = c.vertex()
	}
	c.link(from, frag{kind: eBreak, to: at[0]})
	for set := range at {
		for i, it := range n.items {
			if set&(1<<i) != 0 {
				continue
			}
			to, err := c.build(it, at[set])
			if err != nil {
				return 0, err
			}
			c.link(to, frag{kind: eBreak, to: at[set|1<<i]})
		}
	}
	return at[len(at)-1], nil
}

func (c *compiler) ruleRef(n *node, from int32) (int32, error) {
	src, ok := c.at.Rules[n.text]
	if !ok {
		src, ok = c.o.Rules[n.text]
	}
	if !ok {
		known := slices.Concat(slices.Collect(maps.Keys(c.at.Rules)), slices.Collect(maps.Keys(c.o.Rules)))
		return 0, c.fail(n.pos, "no rule <%s>%s", n.text, meant(n.text, known, "<", ">", "give it in Rules"))
	}
	if slices.Contains(c.stack, n.text) {
		return 0, c.fail(n.pos, "rule <%s> contains itself: %s", n.text, strings.Join(append(c.stack, n.text), " → "))
	}
	if len(c.stack) > 16 {
		return 0, c.fail(n.pos, "rules are nested deeper than 16")
	}
	tree := c.rules[src]
	if tree == nil {
		var err error
		if tree, err = parse(c.at.Name, src); err != nil {
			return 0, err
		}
		c.rules[src] = tree
	}
	was := c.src
	c.src, c.stack = src, append(c.stack, n.text)
	to, err := c.build(tree, from)
	c.src, c.stack = was, c.stack[:len(c.stack)-1]
	return to, err
}

func (c *compiler) listRef(n *node, from int32) (int32, error) {
	if c.own == nil {
		return 0, c.fail(n.pos, "{%s}: a value of a list has no slots", n.text)
	}
	id, err := c.list(n)
	if err != nil {
		return 0, err
	}
	c.slots[n.slot] = true
	slot, ok := c.slotID[n.slot]
	if !ok {
		slot = int32(len(c.m.slots))
		c.m.slots = append(c.m.slots, n.slot)
		c.slotID[n.slot] = slot
	}
	l := &c.m.lists[id]
	if !n.glued || len(l.values) == 0 {
		from = c.link(from, frag{kind: eBreak, to: c.vertex()})
		from = c.link(from, frag{kind: eSlot, slot: slot, id: id, to: c.vertex()})
		return c.link(from, frag{kind: eBreak, to: c.vertex()}), nil
	}
	// Letters touch it: the values become part of the sentence's words.
	end := c.vertex()
	for i, v := range l.values {
		set := setting{slot, id, int32(i)}
		if _, ok := c.setID[set]; !ok {
			c.setID[set] = int32(len(c.m.sets))
			c.m.sets = append(c.m.sets, set)
		}
		at := c.link(from, frag{kind: eSet, id: c.setID[set], to: c.vertex()})
		tree, err := parse(c.at.Name, v.In)
		if err != nil {
			return 0, err
		}
		if at, err = c.build(tree, at); err != nil {
			return 0, err
		}
		c.link(at, frag{to: end})
	}
	to := c.link(end, frag{to: c.vertex()})
	c.link(end, frag{kind: eBreak, to: to})
	return to, nil
}

// list finds or makes the list that a reference names.
func (c *compiler) list(n *node) (int32, error) {
	l, own := c.at.Lists[n.text]
	ids := c.own
	if !own {
		var ok bool
		if l, ok = c.o.Lists[n.text]; !ok {
			known := slices.Concat(slices.Collect(maps.Keys(c.at.Lists)), slices.Collect(maps.Keys(c.o.Lists)))
			return 0, c.fail(n.pos, "no list {%s}%s", n.text, meant(n.text, known, "{", "}", "give it in Lists"))
		}
		ids = c.shared
	}
	if id, ok := ids[n.text]; ok {
		return id, nil
	}
	out := list{name: n.text, values: l.Values, rng: l.Range, wildcard: l.Wildcard}
	if err := c.checkList(n, l); err != nil {
		return 0, err
	}
	if len(l.Values) > 0 {
		// A value is a template of its own, without slots.
		slots, limit := c.own, c.limit
		c.own = nil
		var starts []int32
		for i, v := range l.Values {
			start, err := c.template(v.In, int32(i))
			if err != nil {
				if e, ok := err.(*Error); ok {
					e.Msg = fmt.Sprintf("list {%s}: %s", n.text, e.Msg)
				}
				return 0, err
			}
			starts = append(starts, start)
		}
		c.own = slots
		var err error
		if out.root, err = c.determine(starts); err != nil {
			return 0, err
		}
		c.limit = max(limit, len(c.graph)+maxVertices)
	}
	id := int32(len(c.m.lists))
	c.m.lists = append(c.m.lists, out)
	ids[n.text] = id
	return id, nil
}

func (c *compiler) checkList(n *node, l List) error {
	kinds := 0
	for _, is := range []bool{len(l.Values) > 0, l.Range != nil, l.Wildcard} {
		if is {
			kinds++
		}
	}
	switch {
	case kinds == 0:
		return c.fail(n.pos, "list {%s} is empty: give it Values, a Range, or make it a Wildcard", n.text)
	case kinds > 1:
		return c.fail(n.pos, "list {%s} is several things: it has either Values or a Range or is a Wildcard", n.text)
	}
	if r := l.Range; r != nil {
		switch {
		case r.To < r.From || r.From != r.From || r.To != r.To:
			return c.fail(n.pos, "range {%s} goes from %g to %g: from is the smaller one", n.text, r.From, r.To)
		case r.Step < 0:
			return c.fail(n.pos, "range {%s} has step %g: it is more than 0", n.text, r.Step)
		case r.NoDigits && r.NoWords:
			return c.fail(n.pos, "range {%s} has neither digits nor words: nothing fits it", n.text)
		}
	}
	return nil
}

// skipWords makes sequences of words of the skip phrases.
func (c *compiler) skipWords() error {
	for _, s := range c.o.SkipWords {
		if !plainText(s) {
			return &Error{Text: s, Msg: "skip words are plain words: make several of it"}
		}
		ps, _ := cut(nil, nil, s)
		var ids []int32
		for _, p := range ps {
			id := c.word(string(p.text))
			if c.m.words[id].block && c.m.lang.negation(string(p.text)) {
				return &Error{Text: s, Pos: p.start, Msg: fmt.Sprintf("%q turns a sentence around, it can't be skipped: take it out", p.text)}
			}
			ids = append(ids, id)
		}
		if len(ids) > 0 {
			c.m.skips = append(c.m.skips, ids)
		}
	}
	sort.Slice(c.m.skips, func(i, j int) bool { return len(c.m.skips[i]) > len(c.m.skips[j]) })
	return nil
}

// word gives the number of a folded word.
func (c *compiler) word(s string) int32 {
	if id, ok := c.m.vocab[s]; ok {
		return id
	}
	id := int32(len(c.m.words))
	c.m.vocab[s] = id
	l := c.m.lang
	c.m.words = append(c.m.words, word{text: s, chars: int32(utf8.RuneCountInString(s)), drop: l.lost[s], block: l.block[s]})
	return id
}

// meant is the end of an error about an unknown name.
func meant(name string, known []string, open, closer, else_ string) string {
	best, dist := "", 3
	for _, k := range known {
		if d := distance([]rune(name), []rune(k), 3); d < dist {
			best, dist = k, d
		}
	}
	if best == "" {
		return ": " + else_
	}
	return ": did you mean " + open + best + closer + "?"
}
