package workflow

import (
	"fmt"
	"strings"
)

// An Arrow is a line of a drawing.
type Arrow struct {
	From, To, Words string
	Dashed          bool
}

// NewArrow makes one; the words may be empty.
func NewArrow(from, to, words string, dashed bool) Arrow { return Arrow{from, to, words, dashed} }

// mermaidText is text as Mermaid takes it in quotes.
var mermaidText = strings.NewReplacer(`"`, "#quot;", "\n", " ", "<", "#lt;", ">", "#gt;")

// MermaidText makes text one that Mermaid takes in quotes.
func MermaidText(s string) string { return mermaidText.Replace(s) }

// Mermaid is the arrow as a line of a flow chart whose nodes have ids; empty if
// one of its ends is none of them.
func (a Arrow) Mermaid(ids map[string]string) string {
	from, to := ids[a.From], ids[a.To]
	if from == "" || to == "" {
		return "" // the check says so
	}
	line := "-->"
	if a.Dashed {
		line = "-.->"
	}
	if a.Words != "" {
		line += "|\"" + MermaidText(a.Words) + "\"|"
	}
	return fmt.Sprintf("  %s %s %s\n", from, line, to)
}

// Dot is the arrow as a line for Graphviz.
func (a Arrow) Dot() string {
	style := ""
	if a.Dashed {
		style = ", style=dashed"
	}
	return fmt.Sprintf("  %q -> %q [label=%q%s];\n", a.From, a.To, a.Words, style)
}
