package graph

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"edged/agent"
)

// State is what the nodes of a run know: "input", the entries of the input
// where that is a map, and what nodes have written. Its values are JSON trees,
// to be read only.
type State map[string]any

type stateKey struct{}

// StateOf gives the state that a node, a route or a check runs with.
func StateOf(ctx context.Context) State {
	s, _ := ctx.Value(stateKey{}).(State)
	return s
}

func withState(ctx context.Context, s State) context.Context {
	return context.WithValue(ctx, stateKey{}, s)
}

// A Reducer folds what is written to a key into what is there; old is nil at
// first. Only what a branch wrote is folded where branches join, never what
// was there before they parted.
type Reducer struct {
	Name string
	Fold func(old, written any) (any, error)
}

// Reducers gives the built-in ones by name: last, first, append, merge (deep),
// sum, max and min.
func Reducers() map[string]Reducer {
	list := []Reducer{
		{"last", func(_, v any) (any, error) { return v, nil }},
		{"first", func(old, v any) (any, error) {
			if old != nil {
				return old, nil
			}
			return v, nil
		}},
		{"append", appended},
		{"merge", func(old, v any) (any, error) { return merged(old, v) }},
		{"sum", func(old, v any) (any, error) { return number("sum", old, v) }},
		{"max", func(old, v any) (any, error) { return number("max", old, v) }},
		{"min", func(old, v any) (any, error) { return number("min", old, v) }},
	}
	out := map[string]Reducer{}
	for _, r := range list {
		out[r.Name] = r
	}
	return out
}

// appended adds to a list: the entries of a list, or one entry.
func appended(old, v any) (any, error) {
	var list []any
	switch o := old.(type) {
	case nil:
	case []any:
		list = o
	default:
		return nil, fmt.Errorf("append: %s is no list", kindOf(old))
	}
	if more, ok := v.([]any); ok {
		return append(slices.Clip(list), more...), nil
	}
	return append(slices.Clip(list), v), nil
}

func merged(old, v any) (any, error) {
	o, ok := old.(map[string]any)
	n, also := v.(map[string]any)
	switch {
	case old == nil:
		return v, nil
	case !ok || !also:
		return nil, fmt.Errorf("merge: %s and %s are not both maps", kindOf(old), kindOf(v))
	}
	out := maps.Clone(o)
	for k, x := range n {
		_, a := out[k].(map[string]any)
		_, b := x.(map[string]any)
		if a && b {
			x, _ = merged(out[k], x)
		}
		out[k] = x
	}
	return out, nil
}

func number(how string, old, v any) (any, error) {
	if old == nil {
		old = v
		if how == "sum" {
			if _, _, err := numbers(how, v, v); err != nil {
				return nil, err
			}
		}
		return old, nil
	}
	a, aInt := old.(int64)
	b, bInt := v.(int64)
	if aInt && bInt {
		switch how {
		case "sum":
			return a + b, nil
		case "max":
			return max(a, b), nil
		}
		return min(a, b), nil
	}
	x, y, err := numbers(how, old, v)
	switch {
	case err != nil:
		return nil, err
	case how == "sum":
		return x + y, nil
	case how == "max" && y > x, how == "min" && y < x:
		return v, nil
	}
	return old, nil
}

func numbers(how string, old, v any) (x, y float64, err error) {
	for i, n := range []any{old, v} {
		to := []*float64{&x, &y}[i]
		switch n := n.(type) {
		case int64:
			*to = float64(n)
		case float64:
			*to = n
		case int:
			*to = float64(n)
		default:
			return 0, 0, fmt.Errorf("%s: %s is no number", how, kindOf(n))
		}
	}
	return x, y, nil
}

// past is what has happened to a token: its last event, and what was before.
type past struct {
	prev    *past
	also    []*past // of the other arms of a join
	instead *past   // the event that this one stands for: a guardrail has put something in place of what it wrote
	node    string
	sets    []write
	patch   map[string]any // what whoever forked the run changed; the event has nothing else
}

// write is what an event wrote, before it was folded.
type write struct {
	key string
	v   any
}

// apply folds writes into a copy of a state.
func (g *Graph) apply(s State, sets []write) (State, error) {
	if len(sets) == 0 {
		return s, nil
	}
	s = maps.Clone(s)
	for _, w := range sets {
		v := w.v
		if r, ok := g.opt.State[w.key]; ok && r.Fold != nil {
			err := safely(func() (err error) { v, err = r.Fold(s[w.key], w.v); return err })
			if err != nil {
				return nil, fmt.Errorf("%w: state key %s: %w", agent.ErrFailed, w.key, err)
			}
		}
		s[w.key] = v
	}
	return s, nil
}

// events gives what is in a past and not in seen, causes first, and adds it.
func (p *past) events(seen map[*past]bool) (list []*past) {
	var chain []*past
	for ; p != nil && !seen[p]; p = p.prev {
		seen[p] = true
		if p.instead != nil {
			seen[p.instead] = true
		}
		chain = append(chain, p)
	}
	slices.Reverse(chain)
	for _, e := range chain {
		for _, a := range e.also {
			list = append(list, a.events(seen)...)
		}
		list = append(list, e)
	}
	return list
}

// fold joins tokens, in their order, into one state. A key without reducer
// that two of them wrote after they had parted is an error.
func (g *Graph) fold(tokens []*token) (State, *past, error) {
	first := tokens[0]
	if len(tokens) == 1 {
		return first.state, first.past, nil
	}
	s, seen := first.state, map[*past]bool{}
	first.past.events(seen)
	joined := &past{prev: first.past}
	for _, t := range tokens[1:] {
		own := map[*past]bool{}
		t.past.events(own)
		theirs := map[string]bool{} // what the others wrote and this one does not know
		by := map[string]string{}
		for e := range seen {
			if own[e] {
				continue
			}
			for _, w := range e.sets {
				theirs[w.key], by[w.key] = true, e.node
			}
		}
		var sets []write
		before := maps.Clone(seen)
		for _, e := range t.past.events(seen) {
			for _, w := range writes(e.patch) { // what a branch wrote goes before, and so does what is folded
				if !theirs[w.key] && g.opt.State[w.key].Fold == nil {
					sets = append(sets, w)
				}
			}
			for _, w := range e.sets {
				folds := g.opt.State[w.key].Fold != nil
				if theirs[w.key] && !folds {
					return nil, nil, fmt.Errorf("%w: %s and %s run in parallel and both write %s, which has no reducer", agent.ErrFailed, by[w.key], e.node, w.key)
				}
				if folds && e.instead != nil && before[e.instead] {
					continue // what it stands for is folded already
				}
				sets = append(sets, w)
			}
		}
		var err error
		if s, err = g.apply(s, sets); err != nil {
			return nil, nil, err
		}
		joined.also = append(joined.also, t.past)
	}
	return s, joined, nil
}

// kindOf is what scripts call the type of a JSON tree.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "None"
	case int64, int:
		return "int"
	case float64:
		return "float"
	case []any:
		return "list"
	case map[string]any:
		return "dict"
	}
	return fmt.Sprintf("%T", v)
}

// cycle says in words where a branch went round.
func (t *token) cycle(at string) string {
	list := []string{at}
	for p := t.past; p != nil; p = p.prev {
		if p.node == "" {
			continue
		}
		list = append(list, p.node)
		if p.node == at {
			slices.Reverse(list)
			return "; the cycle " + strings.Join(list, " → ")
		}
	}
	return ""
}
