package graph

import "slices"

// bits is a set of nodes; the end is the one after the last.
type bits []uint64

func newBits(n int) bits { return make(bits, n/64+1) }

func (b bits) has(i int) bool { return b[i/64]&(1<<(i%64)) != 0 }
func (b bits) set(i int)      { b[i/64] |= 1 << (i % 64) }

func (b bits) add(o bits) {
	for i := range b {
		b[i] |= o[i]
	}
}

// reaches gives for each node what can come after it, in one walk: the parts
// that are cycles have the same (Tarjan 1972).
func (g *Graph) reaches(next [][]int) []bits {
	n := len(next)
	w := &walk{next: next, num: make([]int, n), low: make([]int, n), on: make([]bool, n), reach: make([]bits, n)}
	for i := range next {
		if w.num[i] == 0 {
			w.from(i)
		}
	}
	return w.reach
}

type walk struct {
	next     [][]int
	num, low []int
	on       []bool
	stack    []int
	n        int
	reach    []bits
}

func (w *walk) enter(v int) {
	w.n++
	w.num[v], w.low[v], w.on[v] = w.n, w.n, true
	w.stack = append(w.stack, v)
}

// from walks without recursion: a chain may be long.
func (w *walk) from(root int) {
	type at struct{ v, i int }
	w.enter(root)
	for path := []at{{v: root}}; len(path) > 0; {
		p := &path[len(path)-1]
		if p.i < len(w.next[p.v]) {
			to := w.next[p.v][p.i]
			p.i++
			switch {
			case w.num[to] == 0:
				w.enter(to)
				path = append(path, at{v: to})
			case w.on[to]:
				w.low[p.v] = min(w.low[p.v], w.num[to])
			}
			continue
		}
		v := p.v
		path = path[:len(path)-1]
		if len(path) > 0 {
			up := path[len(path)-1].v
			w.low[up] = min(w.low[up], w.low[v])
		}
		if w.low[v] == w.num[v] {
			w.close(v)
		}
	}
}

// close makes the set of a part whose last node is v.
func (w *walk) close(v int) {
	i := slices.Index(w.stack, v)
	part := slices.Clone(w.stack[i:])
	w.stack = w.stack[:i]
	all := newBits(len(w.next))
	for _, m := range part {
		w.on[m] = false
	}
	for _, m := range part {
		for _, to := range w.next[m] {
			all.set(to)
			if w.reach[to] != nil {
				all.add(w.reach[to])
			}
			if len(part) > 1 {
				all.set(m)
			}
		}
	}
	for _, m := range part {
		w.reach[m] = all
	}
}

// forks warns of nodes where branches meet that run in parallel and that do
// not join there: they run once for each.
func (c *checker) forks() {
	g := c.g
	told := newBits(len(g.nodes) + 1)
	for _, n := range g.nodes {
		if len(n.out) < 2 {
			continue
		}
		branch := make([]bits, len(n.out))
		for i, e := range n.out {
			branch[i] = c.branch(e)
		}
		for i := range branch {
			for j := range branch[:i] {
				c.meet(n, i, j, branch, told)
			}
		}
	}
}

// branch gives what can come after an edge, up to where branches join.
func (c *checker) branch(e *edge) bits {
	b := newBits(len(c.g.nodes) + 1)
	var queue []int
	for _, t := range e.targets() {
		if at, ok := c.g.index[t]; ok {
			queue = append(queue, at)
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if at == len(c.g.nodes) || b.has(at) || c.g.nodes[at].opt.Join == All {
			continue
		}
		b.set(at)
		queue = append(queue, c.next[at]...)
	}
	return b
}

// meet finds the first nodes that two branches of a node have in common.
func (c *checker) meet(from *node, i, j int, branch []bits, told bits) {
	a, b := branch[i], branch[j]
	for w := range a {
		if a[w]&b[w] == 0 {
			continue
		}
		for at := w * 64; at < w*64+64 && at < len(c.g.nodes); at++ {
			if at == 0 || !a.has(at) || !b.has(at) || told.has(at) {
				continue
			}
			if c.enters(from, at, i, a, b) && c.enters(from, at, j, b, a) {
				told.set(at)
				n := c.g.nodes[at]
				c.add(Warning, "missing join", n.id, "", "parallel branches from %s meet at node %s, which runs once for each; say join=\"all\" if it shall wait for them", from.id, n.id)
			}
		}
	}
}

// enters reports whether a branch comes to a node by an edge of its own.
func (c *checker) enters(from *node, at, edge int, own, other bits) bool {
	if slices.Contains(from.out[edge].targets(), c.g.nodes[at].id) {
		return true
	}
	for p, next := range c.next[:len(c.g.nodes)] {
		if own.has(p) && !other.has(p) && slices.Contains(next, at) {
			return true
		}
	}
	return false
}
