package main

import (
	"fmt"
	"slices"
	"strings"

	"edged/workflow"
	"edged/workflow/graph"
)

// How execution graphs are told of in lines: each node with the state of its
// latest run, and under it where its edges lead.

// drawnGraph is a graph as it is drawn; it is drawn where it runs.
type drawnGraph struct {
	graph.Drawing
	Latest  workflow.Outline `json:"latest"` // run, node by node
	Mermaid string           `json:"mermaid"`
	Dot     string           `json:"dot"`
}

func drawGraph(g *graph.Graph, state workflow.Outline) *drawnGraph {
	return &drawnGraph{g.Draw(), state, g.Mermaid(), g.Dot()}
}

// text draws the graph.
func (g *drawnGraph) text() string {
	var b strings.Builder
	top := g.Latest
	top.Name, top.Kind, top.Children = g.Name, "graph", nil
	top.Detail = fmt.Sprintf("of %s", count(len(g.Nodes), "node"))
	if g.MaxSteps > 0 {
		top.Detail += fmt.Sprintf(", at most %s", count(g.MaxSteps, "step"))
	}
	switch {
	case g.Calls > 0:
		top.Detail += ", at worst " + count(g.Calls, "model call")
	case g.Calls < 0:
		top.Detail += ", model calls without bound"
	}
	b.WriteString(top.Text())
	b.WriteString("    START\n")
	g.edgesOf(&b, graph.Start)
	for _, n := range g.Nodes {
		line := workflow.Outline{Name: n.ID, Kind: n.Type, Effect: n.Effect}
		if i := slices.IndexFunc(g.Latest.Children, func(o workflow.Outline) bool { return o.Name == n.ID }); i >= 0 {
			o := g.Latest.Children[i]
			line.State, line.Reason, line.Stopped, line.Elapsed = o.State, o.Reason, o.Stopped, o.Elapsed
		}
		if n.Join == string(graph.All) {
			line.Kind += ", waits for all arms"
		}
		b.WriteString("  " + line.Text())
		if len(n.Writes) > 0 {
			fmt.Fprintf(&b, "      writes %s\n", strings.Join(n.Writes, ", "))
		}
		if n.Guardrail != nil {
			fmt.Fprintf(&b, "      guarded by %s\n", railWords(n.Guardrail))
		}
		g.edgesOf(&b, n.ID)
	}
	return b.String()
}

// edgesOf writes where a node's edges lead. A branch is one edge per target:
// the first tells of all.
func (g *drawnGraph) edgesOf(b *strings.Builder, source string) {
	var told []string
	for _, e := range g.Edges {
		if e.Source != source {
			continue
		}
		branch, _, _ := strings.Cut(e.ID, ".")
		if slices.Contains(told, branch) {
			continue
		}
		told = append(told, branch)
		fmt.Fprintf(b, "      → %s", edgeTarget(e))
		if e.Guardrail != nil {
			fmt.Fprintf(b, ", guarded by %s", railWords(e.Guardrail))
		}
		b.WriteByte('\n')
	}
}

func edgeTarget(e graph.DrawnEdge) string {
	switch {
	case e.Condition != nil:
		return strings.Join(e.Condition.To, " or ") + ", a function says"
	case e.Personality != nil:
		p := e.Personality
		return fmt.Sprintf("%s if %s ≥ %v, else %s", p.Above, p.Trait, p.Threshold, p.Below)
	case e.Type == graph.TypeDiscovery:
		what := "what"
		if e.Kind != string(graph.AnyKind) {
			what = "a " + e.Kind + " that"
		}
		s := fmt.Sprintf("%s is found for %q, then %s", what, e.Query, e.Target)
		if e.Fallback != "" {
			s += "; nothing found: " + e.Fallback
		}
		return s
	}
	return e.Target
}

func railWords(p *graph.GuardrailPolicy) string {
	s := strings.Join(p.Output, ", ") + " (" + p.OnViolation
	if p.Reroute != "" {
		s += " to " + p.Reroute
	}
	return s + ")"
}
