package workflow

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"edged/agent"
)

// An Outline is a tree as it is drawn: by [Describe] as it was made, by
// [Live.Outline] with the state of its latest run.
type Outline struct {
	Name     string        `json:"name"`
	Kind     string        `json:"kind"` // "sequence", …; "condition", "action", "agent"
	Path     string        `json:"path"`
	Label    string        `json:"label,omitempty"`  // the name of a route or case
	Detail   string        `json:"detail,omitempty"` // "2 of 3", "at most 5 times"
	Guard    string        `json:"guard,omitempty"`
	Effect   string        `json:"effect,omitempty"`
	Durable  bool          `json:"durable,omitempty"`
	State    string        `json:"state,omitempty"` // "running" or a status; empty: did not run
	Reason   string        `json:"reason,omitempty"`
	Stopped  string        `json:"stopped_by,omitempty"` // the guard that stopped it
	Elapsed  time.Duration `json:"elapsed,omitempty"`    // ns
	Children []Outline     `json:"children,omitempty"`
}

// Describe outlines a tree.
func Describe(a agent.Agent) Outline { return describe(a, "", "") }

func describe(a agent.Agent, path, label string) Outline {
	o := Outline{Name: a.Name(), Kind: "agent", Path: path, Label: label, Effect: string(effectOf(a))}
	n := nodeOf(a)
	if n == nil {
		o.Kind = kindOf(a)
		return o
	}
	o.Kind, o.Detail, o.Durable = n.kind, n.detail, n.opt.Checkpoint
	if n.opt.Guard != nil {
		o.Guard = n.opt.Guard.Name
	}
	for i, c := range n.children {
		label, at := "", strconv.Itoa(i)
		if i < len(n.labels) {
			label = n.labels[i]
		}
		if path != "" {
			at = path + "." + at
		}
		o.Children = append(o.Children, describe(c, at, label))
	}
	return o
}

// kindOf is what a leaf is: a "condition", an "action", what it says itself
// with Kind() string, or an "agent".
func kindOf(a agent.Agent) string {
	for a != nil {
		switch x := a.(type) {
		case *Condition:
			return "condition"
		case *Action:
			return "action"
		case interface{ Kind() string }:
			return x.Kind()
		}
		w, ok := a.(Wrapper)
		if !ok {
			break
		}
		a = w.Unwrap()
	}
	return "agent"
}

// words is what stands beside a node's name.
func (o Outline) words() string {
	var b strings.Builder
	b.WriteString(o.Kind)
	for _, w := range []struct{ before, s string }{{" ", o.Detail}, {", guard ", o.Guard}, {", effect ", o.Effect}} {
		if w.s != "" {
			b.WriteString(w.before + w.s)
		}
	}
	if o.Durable {
		b.WriteString(", durable")
	}
	return b.String()
}

func (o Outline) glyph() string {
	switch agent.Status(o.State) {
	case "":
		return "·"
	case agent.Done:
		return "✓"
	case "running":
		return "▶"
	case agent.Cancelled:
		return "■"
	case agent.Timeout:
		return "⏱"
	}
	return "✗"
}

// Text draws the outline with two blanks per level.
func (o Outline) Text() string {
	var b strings.Builder
	o.text(&b, "")
	return b.String()
}

func (o Outline) text(b *strings.Builder, indent string) {
	label := ""
	if o.Label != "" {
		label = o.Label + " → "
	}
	fmt.Fprintf(b, "%s%s %s%s (%s)", indent, o.glyph(), label, o.Name, o.words())
	if o.State != "" {
		fmt.Fprintf(b, " %s", o.State)
		if o.Elapsed > 0 {
			fmt.Fprintf(b, " %v", o.Elapsed.Round(time.Millisecond))
		}
		if o.Reason != "" {
			fmt.Fprintf(b, ": %s", o.Reason)
		}
	}
	b.WriteByte('\n')
	for _, c := range o.Children {
		c.text(b, indent+"  ")
	}
}

func (o Outline) id() string { return "n" + strings.NewReplacer(".", "_").Replace(o.Path) }

// colour is the same in both drawings; the glyph says it without colours.
func (o Outline) colour() string {
	switch agent.Status(o.State) {
	case "":
		return ""
	case agent.Done:
		return "#2e7d32"
	case "running":
		return "#1565c0"
	case agent.Cancelled:
		return "#757575"
	}
	return "#c62828"
}

// Mermaid draws the outline as a Mermaid flow chart.
func (o Outline) Mermaid() string {
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	o.walk(func(n Outline) {
		fmt.Fprintf(&b, "  %s[\"%s %s<br/>%s\"]\n", n.id(), n.glyph(), MermaidText(n.Name), MermaidText(n.words()))
		if c := n.colour(); c != "" {
			fmt.Fprintf(&b, "  style %s stroke:%s,stroke-width:2px\n", n.id(), c)
		}
		for _, c := range n.Children {
			if c.Label != "" {
				fmt.Fprintf(&b, "  %s -->|\"%s\"| %s\n", n.id(), MermaidText(c.Label), c.id())
			} else {
				fmt.Fprintf(&b, "  %s --> %s\n", n.id(), c.id())
			}
		}
	})
	return b.String()
}

// Dot draws the outline for Graphviz.
func (o Outline) Dot() string {
	var b strings.Builder
	b.WriteString("digraph workflow {\n  node [shape=box, fontname=\"sans-serif\"];\n")
	o.walk(func(n Outline) {
		fmt.Fprintf(&b, "  %s [label=%q", n.id(), n.glyph()+" "+n.Name+"\n"+n.words())
		if c := n.colour(); c != "" {
			fmt.Fprintf(&b, ", color=%q", c)
		}
		b.WriteString("];\n")
		for _, c := range n.Children {
			fmt.Fprintf(&b, "  %s -> %s [label=%q];\n", n.id(), c.id(), c.Label)
		}
	})
	b.WriteString("}\n")
	return b.String()
}

func (o Outline) walk(f func(Outline)) {
	f(o)
	for _, c := range o.Children {
		c.walk(f)
	}
}
