package lib

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"edged/starlark/script"
	"edged/starlark/value"
	"edged/workflow/graph"
)

// wrong finishes the graph and gives its errors as one.
func (g *scriptGraph) wrong() error {
	var texts []string
	for _, p := range g.Check() {
		if p.Severity == graph.Error {
			texts = append(texts, fmt.Sprintf("%s (%v)", p.Text, g.place(p)))
		}
	}
	if texts == nil {
		return nil
	}
	return &value.Error{Msg: fmt.Sprintf("graph %s: %s", g.Name(), strings.Join(texts, "; "))}
}

// place is where a problem was written.
func (g *scriptGraph) place(p graph.Problem) script.Position {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, what := range []string{p.Edge, p.Node} {
		if at, ok := g.places[what]; ok && what != "" {
			return at
		}
	}
	return g.at
}

// graphErrors looks over the graphs that the top level made: their errors are
// those of the load, their warnings those of the check.
func (b *Behaviour) graphErrors() (list script.Errors) {
	for _, g := range b.graphs() {
		for _, p := range g.Check() {
			at, text := g.place(p), fmt.Sprintf("graph %s: %s", g.Name(), p.Text)
			if p.Severity == graph.Warning {
				b.warn(Problem{at, "graph-" + strings.ReplaceAll(p.Code, " ", "-"), text, graphHints[p.Code]})
				continue
			}
			list = append(list, &script.Error{Position: at, Code: b.line(at), Msg: text, Hint: graphHints[p.Code]})
		}
	}
	slices.SortStableFunc(list, func(x, y *script.Error) int {
		return cmp.Or(cmp.Compare(x.File, y.File), x.Line-y.Line)
	})
	return list
}

// graphHints say what to write instead, by the code of a problem.
var graphHints = map[string]string{
	"unknown source":  "add the node, or let the edge begin elsewhere",
	"unknown target":  "add the node, or lead elsewhere",
	"no start":        "add an edge from START",
	"no author":       "block, reroute or sanitize what comes in; or put the guardrail on an edge from a node",
	"no end":          "lead an edge to END",
	"unreachable":     "lead an edge to it, or take the node out",
	"dead end":        "lead an edge from it to END, or to a node that goes there",
	"unset trait":     "set it in Agent(…, traits = {…}) or mood = {…}",
	"duplicate node":  "give one of them another name",
	"no targets":      "list all nodes it may lead to",
	"unbounded cycle": "give the graph max_steps",
	"unguarded way":   "give the other edge the same guardrails, or the node itself; or mean it",
}

// line is the code at a place, or empty.
func (b *Behaviour) line(at script.Position) string {
	text, _ := b.Text(at.File)
	lines := strings.Split(text, "\n")
	if at.Line > 0 && at.Line <= len(lines) {
		return lines[at.Line-1]
	}
	return ""
}
