package graph

import (
	"slices"

	"edged/bus/origin"
)

// join starts the joins that no branch can come to any more, and reports
// whether it started any.
func (x *run) join() bool {
	if len(x.waiting) == 0 {
		return false
	}
	for _, at := range x.joins() {
		if x.busy[at] == nil && !x.coming(at, false) {
			x.merge(x.take(at))
			return true
		}
	}
	return false
}

// joins lists the nodes where tokens wait: those first that no other waiting
// token can come to, then in the order in which they were declared.
func (x *run) joins() []int {
	var list, late []int
	for _, t := range x.waiting {
		if slices.Contains(list, t.at) || slices.Contains(late, t.at) {
			continue
		}
		if x.coming(t.at, true) {
			late = append(late, t.at)
		} else {
			list = append(list, t.at)
		}
	}
	slices.Sort(list)
	slices.Sort(late)
	if len(list) == 0 && len(x.busy) == 0 && len(x.ready) == 0 && len(late) > 0 {
		return late[:1] // they wait for each other
	}
	return list
}

// coming reports whether a branch that runs or waits for a person, or one at
// another join, can still come to a node.
func (x *run) coming(at int, joins bool) bool {
	for n := range x.busy {
		if x.g.reach[n].has(at) {
			return true
		}
	}
	for _, t := range append(slices.Clip(x.ready), x.held...) {
		if t.at == at || x.g.reach[t.at].has(at) {
			return true
		}
	}
	if joins {
		for _, t := range x.waiting {
			if t.at != at && x.g.reach[t.at].has(at) {
				return true
			}
		}
	}
	return false
}

// take removes the tokens that wait at a node, in order.
func (x *run) take(at int) (here []*token) {
	x.waiting = slices.DeleteFunc(x.waiting, func(t *token) bool {
		if t.at == at {
			here = append(here, t)
		}
		return t.at == at
	})
	slices.SortFunc(here, byRank)
	return here
}

// merge makes one token of several and starts it.
func (x *run) merge(here []*token) {
	t := *here[0]
	var err error
	if t.state, t.past, err = x.g.fold(here); err != nil {
		x.lost(ended{t: &t, v: &visit{g: x.g, n: x.g.nodes[t.at]}, err: err})
		return
	}
	if len(here) > 1 {
		inputs := map[string]any{}
		for _, o := range here {
			inputs[o.from] = o.input
			t.depth = max(t.depth, o.depth)
			t.whose, t.words = origin.Merge(t.whose, o.whose), origin.Merge(t.words, o.words)
		}
		t.input = inputs
	}
	x.start(&t)
}
