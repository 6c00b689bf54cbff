package graph

import (
	"fmt"
	"sort"
	"strings"

	"edged/workflow"
)

// A Drawing is the graph as it is printed: its edges have the shape that
// compiled execution graphs have.
type Drawing struct {
	Name     string      `json:"name"`
	MaxSteps int         `json:"maxSteps"`
	Nodes    []DrawnNode `json:"nodes"`
	Edges    []DrawnEdge `json:"edges"`
	State    []DrawnKey  `json:"state,omitempty"`
	Calls    int         `json:"worstCaseModelCalls"`
}

// A DrawnNode is a node of a [Drawing].
type DrawnNode struct {
	ID        string           `json:"id"`
	Type      string           `json:"type"`
	Effect    string           `json:"effectClass,omitempty"`
	Join      string           `json:"join,omitempty"`
	Writes    []string         `json:"writes,omitempty"`
	Guardrail *GuardrailPolicy `json:"guardrailPolicy,omitempty"`
}

// A DrawnKey is a key of the state with its reducer.
type DrawnKey struct {
	Key     string `json:"key"`
	Reducer string `json:"reducer"`
}

// A DrawnEdge is an edge of a [Drawing]. A branch is an edge to each of its
// targets. The target of a discovery is where it goes on.
type DrawnEdge struct {
	ID          string                `json:"id"`
	Source      string                `json:"source"`
	Target      string                `json:"target"`
	Type        string                `json:"type"`
	Condition   *DrawnCondition       `json:"condition,omitempty"`
	Query       string                `json:"discoveryQuery,omitempty"`
	Kind        string                `json:"discoveryKind,omitempty"`
	Fallback    string                `json:"discoveryFallback,omitempty"`
	Personality *PersonalityCondition `json:"personalityCondition,omitempty"`
	Guardrail   *GuardrailPolicy      `json:"guardrailPolicy,omitempty"`
}

// A DrawnCondition says that a function decides.
type DrawnCondition struct {
	Type string   `json:"type"`
	To   []string `json:"to"`
}

// A PersonalityCondition is what a personality edge asks.
type PersonalityCondition struct {
	Trait     string  `json:"trait"`
	Threshold float64 `json:"threshold"`
	Above     string  `json:"above"`
	Below     string  `json:"below"`
}

// A GuardrailPolicy names guardrails; the reaction is that of the first.
type GuardrailPolicy struct {
	Output      []string `json:"output"`
	OnViolation string   `json:"onViolation"`
	Reroute     string   `json:"rerouteTarget,omitempty"`
}

func policy(list []workflow.Guardrail) *GuardrailPolicy {
	if len(list) == 0 {
		return nil
	}
	p := &GuardrailPolicy{OnViolation: string(list[0].Reaction()), Reroute: list[0].Reroute}
	for _, g := range list {
		p.Output = append(p.Output, g.Name)
	}
	return p
}

// Draw gives the graph as data.
func (g *Graph) Draw() Drawing {
	g.fix()
	d := Drawing{Name: g.name, MaxSteps: g.opt.MaxSteps, Nodes: []DrawnNode{}, Edges: []DrawnEdge{}, Calls: g.WorstCalls()}
	for _, n := range g.nodes[1:] {
		if n.edge != nil {
			continue
		}
		v := &visit{g: g, n: n}
		d.Nodes = append(d.Nodes, DrawnNode{n.id, v.Kind(), string(v.Effect()), string(n.opt.Join), n.opt.Writes, policy(n.opt.Guardrails)})
	}
	for _, e := range g.edges {
		d.Edges = append(d.Edges, e.draw()...)
	}
	for k, r := range g.opt.State {
		d.State = append(d.State, DrawnKey{k, r.Name})
	}
	sort.Slice(d.State, func(i, j int) bool { return d.State[i].Key < d.State[j].Key })
	return d
}

func (e *edge) draw() []DrawnEdge {
	one := DrawnEdge{ID: e.id, Source: e.source, Type: e.kind, Guardrail: policy(e.guards)}
	if len(e.to) > 0 {
		one.Target = e.to[0]
	}
	switch e.kind {
	case TypeDiscovery:
		one.Query, one.Kind, one.Fallback = e.discovery.Query, string(e.discovery.Kind), e.discovery.Fallback
		if one.Kind == "" {
			one.Kind = string(AnyKind)
		}
	case TypePersonality:
		p := e.personality
		one.Personality = &PersonalityCondition{p.Trait, p.Threshold, p.Above, p.Below}
	case TypeConditional:
		var list []DrawnEdge
		for i, t := range e.to {
			b := one
			b.Target, b.Condition = t, &DrawnCondition{"function", e.to}
			if len(e.to) > 1 {
				b.ID = fmt.Sprintf("%s.%d", e.id, i+1)
			}
			list = append(list, b)
		}
		return list
	}
	return []DrawnEdge{one}
}

func (g *Graph) arrows() (list []workflow.Arrow) {
	for _, e := range g.edges {
		guards := ""
		for _, gr := range e.guards {
			guards += " ⛨ " + gr.Name
		}
		switch e.kind {
		case TypePersonality:
			p := e.personality
			list = append(list, workflow.NewArrow(e.source, p.Above, fmt.Sprintf("%s ≥ %v%s", p.Trait, p.Threshold, guards), true),
				workflow.NewArrow(e.source, p.Below, fmt.Sprintf("%s < %v%s", p.Trait, p.Threshold, guards), true))
		case TypeDiscovery:
			list = append(list, workflow.NewArrow(e.source, e.discovery.Then, fmt.Sprintf("find: %s%s", e.discovery.Query, guards), true))
			if e.discovery.Fallback != "" {
				list = append(list, workflow.NewArrow(e.source, e.discovery.Fallback, "nothing found", true))
			}
		default:
			for _, t := range e.to {
				list = append(list, workflow.NewArrow(e.source, t, strings.TrimSpace(guards), e.kind != TypeStatic))
			}
		}
		list = append(list, rerouted(e.source, e.guards)...)
	}
	for _, n := range g.nodes {
		list = append(list, rerouted(n.id, n.opt.Guardrails)...)
	}
	return list
}

func rerouted(from string, guards []workflow.Guardrail) (list []workflow.Arrow) {
	for _, gr := range guards {
		if gr.On == workflow.Reroute {
			list = append(list, workflow.NewArrow(from, gr.Reroute, "if "+gr.Name+" says no", true))
		}
	}
	return list
}

func (g *Graph) pictured() (names []string, kinds map[string]string) {
	kinds = map[string]string{Start: "", End: ""}
	names = []string{Start}
	for _, n := range g.nodes[1:] {
		if n.edge == nil {
			names = append(names, n.id)
			kinds[n.id] = (&visit{g: g, n: n}).Kind()
		}
	}
	return append(names, End), kinds
}

// Mermaid draws the graph as a Mermaid flow chart.
func (g *Graph) Mermaid() string {
	g.fix()
	names, kinds := g.pictured()
	id := map[string]string{}
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	for i, n := range names {
		id[n] = fmt.Sprintf("n%d", i)
		if kinds[n] == "" {
			fmt.Fprintf(&b, "  n%d([%s])\n", i, n)
		} else {
			fmt.Fprintf(&b, "  n%d[\"%s<br/>%s\"]\n", i, workflow.MermaidText(n), kinds[n])
		}
	}
	for _, a := range g.arrows() {
		b.WriteString(a.Mermaid(id))
	}
	return b.String()
}

// Dot draws the graph for Graphviz.
func (g *Graph) Dot() string {
	g.fix()
	names, kinds := g.pictured()
	var b strings.Builder
	b.WriteString("digraph graph_ {\n  node [shape=box, fontname=\"sans-serif\"];\n")
	for _, n := range names {
		if kinds[n] == "" {
			fmt.Fprintf(&b, "  %q [shape=oval];\n", n)
		} else {
			fmt.Fprintf(&b, "  %q [label=%q];\n", n, n+"\n"+kinds[n])
		}
	}
	for _, a := range g.arrows() {
		b.WriteString(a.Dot())
	}
	b.WriteString("}\n")
	return b.String()
}
