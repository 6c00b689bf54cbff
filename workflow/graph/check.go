package graph

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"edged/agent"
	"edged/workflow"
)

// Severity tells problems that keep a graph from running from those that don't.
type Severity string

// The severities.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

// A Problem is something wrong with a graph.
type Problem struct {
	Severity   Severity
	Code       string // "unreachable", …: the same for the same mistake
	Node, Edge string // where, if it is at one
	Text       string
}

func (p Problem) String() string { return string(p.Severity) + ": " + p.Text }

// Check gives what is wrong with the graph, in the order of its nodes and
// edges. With it the graph is fixed. A graph with errors does not run.
func (g *Graph) Check() []Problem {
	g.fix()
	return slices.Clone(g.problems)
}

func fatal(name string, list []Problem) error {
	var errs []error
	for _, p := range list {
		if p.Severity == Error {
			errs = append(errs, errors.New(p.Text))
		}
	}
	if errs == nil {
		return nil
	}
	return fmt.Errorf("%w: graph %s: %w", agent.ErrFailed, name, errors.Join(errs...))
}

// resolve finds the nodes that edges name, and makes places for what is
// discovered.
func (g *Graph) resolve() {
	for _, e := range g.edges {
		if from, ok := g.index[e.source]; ok {
			e.from = from
			g.nodes[from].out = append(g.nodes[from].out, e)
		}
		if e.kind != TypeDiscovery {
			continue
		}
		e.slot = len(g.nodes)
		g.index[e.place()] = e.slot
		then := &edge{id: e.id, index: -1, source: e.place(), kind: TypeStatic, to: e.to[:1], route: static(e.to[0]), from: e.slot}
		g.nodes = append(g.nodes, &node{id: e.place(), edge: e, out: []*edge{then}})
	}
	for i, n := range g.nodes {
		n.at = i
		if n.opt.Timeout > 0 && n.agent != nil {
			n.timeout = workflow.NewTimeout(n.id, workflow.TimeoutOptions{}, n.opt.Timeout, n.agent)
		}
	}
	g.reach = g.reaches(g.successors())
}

// place is the name of the node where what is discovered runs.
func (e *edge) place() string { return e.id + ":found" }

// asked reports whether leaving the node needs anybody to be asked.
func (n *node) asked() bool {
	return slices.ContainsFunc(n.out, func(e *edge) bool { return e.kind != TypeStatic || len(e.guards) > 0 })
}

// label is what a durable run knows the node by: its edges, too.
func (g *Graph) label(n *node) string {
	var b strings.Builder
	b.WriteString(n.id)
	for _, e := range n.out {
		fmt.Fprintf(&b, " →%s %s", e.kind[:1], strings.Join(e.to, "|"))
	}
	return b.String()
}

// targets lists the nodes that an edge can lead to, reroutes included.
func (e *edge) targets() []string {
	list := e.to
	if e.kind == TypeDiscovery {
		list = append([]string{e.place()}, e.to[1:]...)
	}
	return append(slices.Clip(list), reroutes(e.guards)...)
}

func reroutes(guards []workflow.Guardrail) (list []string) {
	for _, gr := range guards {
		if gr.On == workflow.Reroute && gr.Reroute != "" {
			list = append(list, gr.Reroute)
		}
	}
	return list
}

// successors gives for each node the nodes that come next; the end is after
// the last of them.
func (g *Graph) successors() [][]int {
	next := make([][]int, len(g.nodes)+1)
	to := func(from int, name string) {
		at, ok := g.index[name]
		if name == End {
			at, ok = len(g.nodes), true
		}
		if ok {
			next[from] = append(next[from], at)
		}
	}
	for i, n := range g.nodes {
		for _, r := range reroutes(n.opt.Guardrails) {
			to(i, r)
		}
		for _, e := range n.out {
			for _, t := range e.targets() {
				to(i, t)
			}
		}
	}
	return next
}

// check finds all that is wrong.
func (g *Graph) check() []Problem {
	c := &checker{g: g, next: g.successors(), list: slices.Clone(g.bad)}
	for _, n := range g.nodes {
		c.node(n)
	}
	for _, e := range g.edges {
		c.edge(e)
	}
	c.ways()
	c.cycles()
	c.unguarded()
	c.forks()
	sort.SliceStable(c.list, func(i, j int) bool { return c.list[i].Severity < c.list[j].Severity })
	return c.list
}

type checker struct {
	g    *Graph
	next [][]int
	list []Problem
}

func (c *checker) add(s Severity, code, node, edge, format string, args ...any) {
	c.list = append(c.list, Problem{s, code, node, edge, fmt.Sprintf(format, args...)})
}

func (c *checker) known(what, name, node, edge string) {
	if _, ok := c.g.index[name]; !ok && name != End || name == Start {
		c.add(Error, "unknown target", node, edge, "%s leads to %q, which is no node%s", what, name, c.near(name))
	}
}

// near finds the node that was meant.
func (c *checker) near(name string) string {
	for _, n := range c.g.nodes[1:] {
		if n.edge == nil && strings.EqualFold(n.id, name) || len(name) > 2 && (strings.HasPrefix(n.id, name) || strings.HasPrefix(name, n.id)) {
			return fmt.Sprintf("; did you mean %q?", n.id)
		}
	}
	return ""
}

func (c *checker) node(n *node) {
	if n.opt.Join != "" && n.opt.Join != Any && n.opt.Join != All {
		c.add(Error, "join", n.id, "", "node %s: join %q is none of %q and %q", n.id, n.opt.Join, Any, All)
	}
	c.guards(n.opt.Guardrails, "node "+n.id, n.id, "")
}

func (c *checker) guards(list []workflow.Guardrail, where, node, edge string) {
	for _, gr := range list {
		if err := gr.Valid(); err != nil {
			c.add(Error, "guardrail", node, edge, "%s: %v", where, err)
		} else if gr.On == workflow.Reroute {
			c.known(fmt.Sprintf("%s: guardrail %s", where, gr.Name), gr.Reroute, node, edge)
		}
	}
}

func (c *checker) edge(e *edge) {
	where := fmt.Sprintf("edge %s from %s", e.id, e.source)
	if _, ok := c.g.index[e.source]; !ok {
		c.add(Error, "unknown source", "", e.id, "edge %s begins at %q, which is no node%s", e.id, e.source, c.near(e.source))
	}
	if len(e.to) == 0 {
		c.add(Error, "no targets", "", e.id, "%s lists no targets", where)
	}
	for _, t := range e.to {
		c.known(where, t, "", e.id)
	}
	c.guards(e.guards, where, "", e.id)
	for _, gr := range e.guards {
		if e.source == Start && gr.On == workflow.Revise {
			c.add(Error, "no author", "", e.id, "%s: guardrail %s sends back what no node has made: nobody is there to revise it", where, gr.Name)
		}
	}
	switch {
	case e.kind == TypeConditional && (e.route == nil || isNil(e.route)):
		c.add(Error, "no function", "", e.id, "%s has no function", where)
	case e.kind == TypeDiscovery:
		d := e.discovery
		if d.Query == "" && len(d.Tags) == 0 {
			c.add(Error, "no query", "", e.id, "%s looks for nothing", where)
		}
		if !slices.Contains([]Kind{"", ToolKind, SkillKind, Extension, AnyKind}, d.Kind) {
			c.add(Error, "kind", "", e.id, "%s: kind %q is none of tool, skill, extension and any", where, d.Kind)
		}
		if d.MinScore < 0 || d.MinScore > 1 {
			c.add(Error, "min score", "", e.id, "%s: min_score is %v; it is a number from 0 to 1", where, d.MinScore)
		}
	case e.kind == TypePersonality:
		c.personality(where, e)
	}
}

func isNil(r Route) bool {
	f, ok := r.(conditional)
	return ok && f == nil
}

func (c *checker) personality(where string, e *edge) {
	p := e.personality
	_, ok := bounds(p.Trait)
	switch {
	case p.Of == nil:
		c.add(Error, "no character", "", e.id, "%s asks for the %s of nobody", where, p.Trait)
	case !ok:
		c.add(Error, "unknown trait", "", e.id, "%s: %q is no trait; there are %s", where, p.Trait, strings.Join(append(Traits(), Moods()...), " "))
	case !p.Of.has(p.Trait):
		c.add(Error, "unset trait", "", e.id, "%s: %s has no %s", where, p.Of.Name(), p.Trait)
	default:
		if err := within(p.Trait, p.Threshold); err != nil {
			c.add(Error, "threshold", "", e.id, "%s: threshold of %v", where, err)
		}
	}
}

// ways finds what can't be reached, and what does not reach the end.
func (c *checker) ways() {
	g := c.g
	if len(g.nodes[0].out) == 0 {
		c.add(Error, "no start", "", "", "no edge leads from START")
	}
	end := len(g.nodes)
	if len(g.nodes[0].out) > 0 && !g.reach[0].has(end) {
		c.add(Error, "no end", "", "", "no way leads to END")
	}
	for _, n := range g.nodes[1:] {
		if n.edge != nil {
			continue
		}
		switch {
		case !g.reach[0].has(n.at):
			c.add(Error, "unreachable", n.id, "", "no way leads to node %s", n.id)
		case !g.reach[n.at].has(end) && g.reach[0].has(end):
			c.add(Error, "dead end", n.id, "", "no way leads from node %s to END", n.id)
		}
	}
}

// cycles finds one that nothing bounds.
func (c *checker) cycles() {
	if c.g.opt.MaxSteps > 0 {
		return
	}
	for _, n := range c.g.nodes {
		if c.g.reach[n.at].has(n.at) {
			c.add(Error, "unbounded cycle", n.id, "", "the cycle %s has no bound: max_steps is off", c.cycle(n.at))
			return
		}
	}
}

// cycle gives the shortest way round in words.
func (c *checker) cycle(at int) string {
	before := map[int]int{}
	for queue := []int{at}; len(queue) > 0; queue = queue[1:] {
		for _, n := range c.next[queue[0]] {
			if _, seen := before[n]; seen || n == len(c.g.nodes) {
				continue
			}
			before[n] = queue[0]
			queue = append(queue, n)
		}
		if _, round := before[at]; round {
			break
		}
	}
	list := []string{c.g.nodes[at].id}
	for n := before[at]; n != at; n = before[n] {
		list = append(list, c.g.nodes[n].id)
	}
	list = append(list, c.g.nodes[at].id)
	slices.Reverse(list)
	return strings.Join(list, " → ")
}

// unguarded finds nodes that one edge guards and another one does not.
func (c *checker) unguarded() {
	guarded := map[string]string{}
	for _, e := range c.g.edges {
		if len(e.guards) > 0 {
			for _, t := range e.to {
				guarded[t] = e.source
			}
		}
	}
	for _, e := range c.g.edges {
		if len(e.guards) > 0 {
			continue
		}
		for _, t := range e.to {
			if by, ok := guarded[t]; ok && t != End {
				c.add(Warning, "unguarded way", t, e.id, "node %s is guarded from %s and has an unguarded way in from %s", t, by, e.source)
			}
		}
	}
}
