package intent

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// This file makes the automaton: the graph of all sentences, word by word,
// with what they begin alike shared. Slots are letters of its alphabet; what
// they stand for is an automaton of its own in the same table.

// A state is a place between two words of some sentences.
type state struct {
	words  []wordEdge // by word
	slots  []slotEdge
	drops  []wordEdge // words that a recogniser may have lost
	accept []int32    // sentences, or values of a list, that end here
}

type wordEdge struct {
	word, set, to int32 // set -1 = no slot is set
}

type slotEdge struct {
	slot, list, to int32
}

// A step is what can follow a vertex of the graph.
type step struct {
	words  []wordEdge // to: a vertex
	slots  []slotEdge
	accept []int32
}

type walk struct {
	at   int32
	part string
	set  int32
}

// steps finds the words, slots and ends that can follow vertex v.
func (c *compiler) steps(v int32) (*step, error) {
	if c.spread == nil {
		c.spread = map[int32]*step{}
	}
	if st := c.spread[v]; st != nil {
		return st, nil
	}
	st := &step{}
	c.spread[v] = st
	todo := []walk{{v, "", -1}}
	var seen map[walk]bool
	for n := 0; len(todo) > 0; n++ {
		w := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if n > 8 { // most places are simple
			if seen == nil {
				seen = map[walk]bool{}
			}
			if seen[w] {
				continue
			}
			seen[w] = true
		}
		if n > maxVertices/4 {
			return nil, c.fail(0, "too many words can follow each other without a space: make several sentences of it")
		}
		x := &c.graph[w.at]
		if x.accept >= 0 {
			if w.part != "" && c.emit(st, w, w.at) {
				x = &c.graph[w.at]
			} else if !slices.Contains(st.accept, x.accept) {
				st.accept = append(st.accept, x.accept)
			}
		}
		for _, f := range x.edges {
			switch {
			case f.kind == eNone:
				todo = append(todo, walk{f.to, w.part, w.set})
			case f.kind == ePart:
				todo = append(todo, walk{f.to, w.part + f.text, w.set})
			case f.kind == eSet:
				todo = append(todo, walk{f.to, w.part, f.id})
			case f.kind == eBreak && w.part == "":
				todo = append(todo, walk{f.to, "", w.set})
			case f.kind == eBreak:
				if !c.emit(st, w, f.to) {
					todo = append(todo, walk{f.to, "", w.set})
				}
			case f.kind == eSlot:
				st.slots = append(st.slots, slotEdge{f.slot, f.id, f.to})
			}
		}
	}
	return st, nil
}

// emit adds the word that w has gathered, which leads to vertex to. Cut as a
// text is cut, it may be several ("mp3"), or none ("'").
func (c *compiler) emit(st *step, w walk, to int32) bool {
	ps, _ := cut(nil, nil, w.part)
	set := w.set
	for i, p := range ps {
		e := wordEdge{c.word(string(p.text)), set, to}
		set = -1
		if i < len(ps)-1 {
			e.to = c.vertex()
		}
		if !slices.Contains(st.words, e) {
			st.words = append(st.words, e)
		}
		if i < len(ps)-1 {
			st = &step{}
			c.spread[e.to] = st
		}
	}
	return len(ps) > 0
}

// determine makes states of everything reachable from starts and returns the
// first. Vertices that the same words lead to become one state.
func (c *compiler) determine(starts []int32) (int32, error) {
	type pending struct {
		id  int32
		set []int32
	}
	known := map[string]int32{}
	var todo []pending
	var key []byte
	intern := func(set []int32) int32 {
		slices.Sort(set)
		set = slices.Compact(set)
		key = key[:0]
		for _, v := range set {
			key = binary.LittleEndian.AppendUint32(key, uint32(v))
		}
		if id, ok := known[string(key)]; ok {
			return id
		}
		id := int32(len(c.m.states))
		c.m.states = append(c.m.states, state{})
		known[string(key)] = id
		todo = append(todo, pending{id, set})
		return id
	}
	root := intern(slices.Clone(starts))
	for len(todo) > 0 {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		var s state
		for _, v := range p.set {
			st, err := c.steps(v)
			if err != nil {
				return 0, err
			}
			s.words = append(s.words, st.words...)
			s.slots = append(s.slots, st.slots...)
			s.accept = append(s.accept, st.accept...)
		}
		slices.Sort(s.accept)
		s.accept = slices.Compact(s.accept)
		// Where sharing would make more states than there are places, stop
		// sharing: edges then go to one place each.
		share := len(c.m.states) < 4*len(c.graph)+1000
		s.words = merge(s.words, share, intern, func(a, b wordEdge) int {
			return cmp.Or(cmp.Compare(a.word, b.word), cmp.Compare(a.set, b.set))
		}, func(e *wordEdge) *int32 { return &e.to })
		s.slots = merge(s.slots, share, intern, func(a, b slotEdge) int {
			return cmp.Or(cmp.Compare(a.slot, b.slot), cmp.Compare(a.list, b.list))
		}, func(e *slotEdge) *int32 { return &e.to })
		c.m.states[p.id] = s
	}
	return root, nil
}

// merge sorts edges and joins those that read the same.
func merge[E any](edges []E, share bool, intern func([]int32) int32, order func(a, b E) int, to func(*E) *int32) []E {
	slices.SortStableFunc(edges, order)
	out := edges[:0]
	for i := 0; i < len(edges); {
		j := i + 1
		if share {
			for j < len(edges) && order(edges[i], edges[j]) == 0 {
				j++
			}
		}
		set := make([]int32, 0, j-i)
		for k := i; k < j; k++ {
			set = append(set, *to(&edges[k]))
		}
		e := edges[i]
		*to(&e) = intern(set)
		out = append(out, e)
		i = j
	}
	return slices.Clip(out)
}

type nearKey struct {
	first rune
	chars int32
}

// index prepares what fuzzy matching looks up.
func (c *compiler) index() {
	for i := range c.m.states {
		s := &c.m.states[i]
		for _, e := range s.words {
			if c.m.words[e.word].drop && e.set < 0 {
				s.drops = append(s.drops, e)
			}
		}
	}
	for id, w := range c.m.words {
		if w.chars < 4 || w.block || w.drop {
			continue
		}
		k := nearKey{[]rune(w.text)[0], w.chars}
		c.m.near[k] = append(c.m.near[k], int32(id))
	}
}
