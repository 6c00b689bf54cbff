// Package mask keeps what a model writes within a JSON schema: an automaton
// over bytes that says, for each piece of text, whether it may come next.
//
// Its one rule: whatever it lets begin can be ended. From every state that it
// allows, some way leads to a whole value that fits the schema, so a model that
// picks among allowed pieces always ends up valid.
//
//	m, err := mask.Answer(schema, "turn left")
//	s := m.Start()
//	for !m.Done(&s) {
//		s, ok = m.Try(s, bestPiece) // false: try the next best
//	}
//
// Free strings are not made up: they are runs of words of the text that was
// heard, or one of the values named for them. Nor are numbers, in calls.
package mask

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrImpossible is wrapped when no value can be made, as when a string with a
// pattern must be copied from a text where nothing matches.
var ErrImpossible = errors.New("no value fits")

// Tool is a tool that may be called.
type Tool struct {
	Name   string
	Params *Schema
	Values map[string][]string // per parameter: JSON texts that need not be heard
	Tails  []string            // parameters whose text runs to the end of what was heard
}

// Mask is an automaton. It is read only; what changes is a State.
type Mask struct {
	nodes []node
	root  int16
}

// State is where in a value the text stands. Copy it to try something.
type State struct {
	stack [depth]frame
	top   int8
	done  bool
}

const depth = mostDepth + 4

// frame is one value that has begun.
type frame struct {
	node   int16
	phase  uint8
	neg    bool
	frac   int8 // digits after the point
	count  int16
	lo, hi int16 // entries that still fit
	pos    int16 // bytes of them that are written
	seen   uint64
	digits int64
}

type nodeKind uint8

const (
	literal nodeKind = iota + 1 // one of a list of texts
	text                        // a string, in quotes
	numeral
	object
	array
	call
)

type node struct {
	kind    nodeKind
	entries []entry // sorted: texts, keys, or the beginnings of calls
	empty   bool    // a text may have nothing in it
	sub     []int16 // what follows each entry; an array's items
	need    uint64  // entries that an object must have
	least   int16
	most    int16
	lo, hi  int64 // a number's range in units of its last digit
	scale   int8  // digits after the point
}

// entry is a text that may be written; a run of words may end at any word.
type entry struct {
	text  string
	words bool
}

// Answer makes the mask of a value; heard is what free strings copy from.
func Answer(s *Schema, heard string) (*Mask, error) {
	b := &builder{heard: heard}
	root, err := b.value(s, nil, false)
	if err != nil {
		return nil, fmt.Errorf("mask: answer: %w", err)
	}
	return &Mask{b.nodes, root}, nil
}

// Calls makes the mask of one call, {"name":…,"arguments":{…}}, of any of the
// tools. Tools that can't be called with what was heard are left out.
func Calls(tools []Tool, heard string) (*Mask, error) {
	b := &builder{heard: heard, numbers: heardNumbers(heard)}
	n := node{kind: call}
	var why error
	for _, t := range tools {
		b.tails = t.Tails
		sub, err := b.value(t.Params, t.Values, true)
		if err != nil {
			why = err
			continue
		}
		name, err := json.Marshal(t.Name)
		if err != nil {
			return nil, fmt.Errorf("mask: calls: %w", err)
		}
		n.entries = append(n.entries, entry{text: `{"name":` + string(name) + `,"arguments":`})
		n.sub = append(n.sub, sub)
	}
	if len(n.entries) == 0 {
		return nil, fmt.Errorf("mask: calls: %w: %w", ErrImpossible, why)
	}
	n.sort()
	return &Mask{append(b.nodes, n), int16(len(b.nodes))}, nil
}

// sort orders entries, and what belongs to them, by text.
func (n *node) sort() {
	order := make([]int, len(n.entries))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return strings.Compare(n.entries[a].text, n.entries[b].text) })
	entries, need := make([]entry, len(order)), uint64(0)
	var sub []int16
	for to, from := range order {
		entries[to] = n.entries[from]
		if n.sub != nil {
			sub = append(sub, n.sub[from])
		}
		if n.kind == object {
			need |= n.need >> from & 1 << to
		}
	}
	n.entries, n.sub, n.need = entries, sub, need
}

// Start is the state before the first byte.
func (m *Mask) Start() State {
	var s State
	m.push(&s, m.root)
	return s
}

// Done tells whether the value is whole and nothing may follow. A number at
// the top is whole when Whole says so.
func (m *Mask) Done(s *State) bool { return s.done }

// Whole tells whether the text may end here.
func (m *Mask) Whole(s *State) bool { return s.done || s.top == 1 && m.complete(&s.stack[0]) }

// Try gives the state after a piece of text; ok is false if it may not come.
func (m *Mask) Try(s State, piece []byte) (next State, ok bool) {
	ok = m.Advance(&s, piece)
	return s, ok
}

// Advance moves s over a piece. If it returns false, s is spoilt.
func (m *Mask) Advance(s *State, piece []byte) bool {
	if len(piece) == 0 {
		return false
	}
	for _, c := range piece {
		if !m.step(s, c) {
			return false
		}
	}
	return true
}

// Copying tells whether the text stands within a free string.
func (m *Mask) Copying(s *State) bool {
	return s.top > 0 && m.nodes[s.stack[s.top-1].node].kind == text && s.stack[s.top-1].phase > 0
}
