package graph

import (
	"slices"

	"edged/workflow"
)

// WorstCalls gives how often a run asks models at most: by the ways that a
// branch can take, where there is no cycle, and else by the number of steps.
// Revisions by guardrails count, and so do retries; -1 is no bound. It knows
// of the calls that nodes declare.
func (g *Graph) WorstCalls() int {
	g.fix()
	cost, most := make([]int, len(g.nodes)), 0
	cyclic, some := false, false
	for i, n := range g.nodes {
		if cost[i] = n.calls(); cost[i] < 0 {
			return -1
		}
		most = max(most, cost[i])
		some = some || cost[i] > 0
		cyclic = cyclic || g.reach[i].has(i)
	}
	switch {
	case !some:
		return 0
	case cyclic && g.opt.MaxSteps < 0:
		return -1
	case cyclic:
		return most * g.opt.MaxSteps
	}
	total := 0
	for i, times := range g.visits() { // counts what of a branch can't all come
		total += times * cost[i]
	}
	total = min(total, g.longest(cost)) // counts joins once for each arm
	if g.opt.MaxSteps > 0 {
		total = min(total, most*g.opt.MaxSteps)
	}
	return total
}

// longest gives the cost of the dearest way through a graph without cycles,
// with all branches that run in parallel.
func (g *Graph) longest(cost []int) int {
	const enough = 1 << 28
	known := map[int]int{len(g.nodes): 0}
	var of func(at int) int
	dearest := func(targets []string) (most int) {
		for _, t := range targets {
			if at, ok := g.index[t]; ok {
				most = max(most, of(at))
			}
		}
		return most
	}
	of = func(at int) int {
		if c, ok := known[at]; ok {
			return c
		}
		sum := 0
		for _, e := range g.nodes[at].out {
			sum = min(sum+dearest(e.targets()), enough)
		}
		known[at] = cost[at] + max(sum, dearest(reroutes(g.nodes[at].opt.Guardrails)))
		return known[at]
	}
	return of(0)
}

// calls gives how often one visit asks models at most.
func (n *node) calls() int {
	calls := n.opt.Calls
	if calls == 0 && n.agent != nil {
		calls = workflow.ModelCalls(n.agent)
	}
	if calls < 0 {
		return calls // without bound
	}
	if r := n.opt.Retry; r != nil {
		tries := r.MaxAttempts
		if tries <= 0 {
			tries = 3
		}
		calls *= tries
	}
	revises := func(gr workflow.Guardrail) bool { return gr.On == workflow.Revise }
	if slices.ContainsFunc(n.opt.Guardrails, revises) || slices.ContainsFunc(n.out, func(e *edge) bool { return slices.ContainsFunc(e.guards, revises) }) {
		calls *= 1 + maxRevisions
	}
	return calls
}

// ModelCalls is [Graph.WorstCalls], for a graph that has this one as a node.
func (g *Graph) ModelCalls() int { return g.WorstCalls() }

// visits gives how often each node of a graph without cycles runs at most.
func (g *Graph) visits() []int {
	times := make([]int, len(g.nodes))
	next := g.successors()
	indeg := make([]int, len(next))
	for _, list := range next {
		for _, to := range list {
			indeg[to]++
		}
	}
	var queue []int
	for i := range g.nodes {
		if indeg[i] == 0 {
			queue = append(queue, i)
		}
	}
	times[0] = 1
	const enough = 1 << 20
	for ; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if at == len(g.nodes) {
			continue
		}
		if g.nodes[at].opt.Join == All {
			times[at] = min(times[at], 1)
		}
		for _, to := range next[at] {
			if to < len(times) {
				times[to] = min(times[to]+times[at], enough)
			}
			if indeg[to]--; indeg[to] == 0 {
				queue = append(queue, to)
			}
		}
	}
	return times
}
