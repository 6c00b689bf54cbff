package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"edged/workflow"
	"edged/workflow/society"
)

// How societies are told of: who is in one, who sees what, who speaks to whom,
// what each is told, and what may be wrong with it.

// writeSociety tells all of a society.
func writeSociety(w io.Writer, o society.Outline) {
	fmt.Fprintf(w, "society %s%s\n", o.Name, because(o.Description))
	fmt.Fprintln(w, "  agents")
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, a := range o.Agents {
		fmt.Fprintf(t, "    %s\t%s%s\n", a.Name, a.Is, because(a.Role))
	}
	_ = t.Flush() // who closes the terminal sees no error
	for _, e := range o.Edges {
		writeEdge(w, o, e)
	}
	for _, p := range o.Problems {
		word := "error"
		if p.Warning {
			word = "warning"
		}
		fmt.Fprintf(w, "  %s: %s\n", word, p.Text)
		if p.Hint != "" {
			fmt.Fprintf(w, "    %s\n", p.Hint)
		}
	}
}

func writeEdge(w io.Writer, o society.Outline, e society.EdgeOutline) {
	fmt.Fprintf(w, "  %s: %s\n", e.Name, edgeWords(e))
	for _, line := range edgeFacts(e) {
		fmt.Fprintf(w, "    %s\n", line)
	}
	writeSights(w, e)
	fmt.Fprintln(w, "    who speaks → who hears it")
	for _, line := range e.Speakers {
		fmt.Fprintf(w, "      %s\n", line)
	}
	for _, s := range e.Seats {
		writeSeat(w, s)
	}
}

// edgeWords says who is what to whom.
func edgeWords(e society.EdgeOutline) string {
	switch e.Type {
	case "delegation":
		return fmt.Sprintf("delegation, %s delegates to %s", e.Members[0], e.Members[1])
	case "oversight":
		return fmt.Sprintf("oversight, %s is reviewed by %s", e.Members[0], e.Members[1])
	}
	return e.Type + " of " + strings.Join(e.Members, ", ")
}

// edgeFacts are the fields of an edge in words.
func edgeFacts(e society.EdgeOutline) (list []string) {
	line := "at most " + count(e.MaxRounds, "round")
	if e.Type != "delegation" && e.Type != "oversight" { // these have their order
		line += ", " + e.Protocol
	}
	if e.Timeout != "" {
		line += fmt.Sprintf(", %s each, then %s", e.Timeout, e.OnTimeout)
	}
	if e.Deadline != "" {
		line += fmt.Sprintf(", %s in all", e.Deadline)
	}
	list = append(list, line)
	if e.Resolve != "" {
		line := "resolved by " + e.Resolve
		if e.Quorum > 0 {
			line += fmt.Sprintf(", %d of %d are enough", e.Quorum, len(e.Members))
		}
		list = append(list, line)
	}
	for _, x := range []struct {
		word string
		list []string
	}{{"artifacts", e.Artifacts}, {"guardrails", e.Guardrails}, {"watched for", e.Watch}, {"events", e.Events}} {
		if len(x.list) > 0 {
			list = append(list, x.word+" "+strings.Join(x.list, ", "))
		}
	}
	return append(list,
		"escalates to "+strings.Join(append(slices.Clone(e.Escalation), "the caller"), ", then "),
		fmt.Sprintf("at worst %s", count(e.Calls, "model call")))
}

// writeSights prints the table who sees what: a row for each who sees, a column
// for each whose it is.
func writeSights(w io.Writer, e society.EdgeOutline) {
	var viewers, authors []string
	cell := map[[2]string][]string{}
	for _, s := range e.Sights {
		if !slices.Contains(viewers, s.Viewer) {
			viewers = append(viewers, s.Viewer)
		}
		if !slices.Contains(authors, s.Author) {
			authors = append(authors, s.Author)
		}
		if word := sightWord(e, s); word != "" {
			at := [2]string{s.Viewer, s.Author}
			if !slices.Contains(cell[at], word) {
				cell[at] = append(cell[at], word)
			}
		}
	}
	slices.SortStableFunc(authors, func(a, b string) int { // the caller, then as they are in the edge
		return slices.Index(e.Members, a) - slices.Index(e.Members, b)
	})
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprint(t, "    who sees what")
	for _, a := range authors {
		fmt.Fprintf(t, "\tof %s", cmp.Or(a, "the caller"))
	}
	fmt.Fprintln(t)
	for _, v := range viewers {
		fmt.Fprintf(t, "      %s", v)
		for _, a := range authors {
			words := strings.Join(cell[[2]string{v, a}], ", ")
			if v == a {
				words = "(itself)"
			}
			fmt.Fprintf(t, "\t%s", cmp.Or(words, "nothing"))
		}
		fmt.Fprintln(t)
	}
	_ = t.Flush()
}

// sightWord is what of a topic is seen; drafts are sealed where one competes,
// and nowhere else.
func sightWord(e society.EdgeOutline, s society.Sight) string {
	sealed := e.Type == "competition" || e.Type == "coopetition"
	if s.Topic == society.TopicSealed && !sealed || s.Topic == society.TopicDraft && e.Type == "competition" {
		return ""
	}
	switch s.View {
	case society.Full:
		return s.Topic
	case society.Summary:
		return "a summary"
	case society.Unnamed:
		return s.Topic + " without names"
	}
	return ""
}

// writeSeat prints what an agent is told.
func writeSeat(w io.Writer, s society.Seat) {
	fmt.Fprintf(w, "    %s, turn to %s, round %d", s.Agent, s.Kind, s.Round)
	if len(s.Tools) > 0 {
		fmt.Fprintf(w, ", tools %s", strings.Join(s.Tools, " "))
	}
	fmt.Fprintln(w)
	for _, x := range []struct{ word, text string }{{"system", s.System}, {"prompt", s.Prompt}, {"schema", s.Schema}} {
		block(w, "      ", x.word, x.text)
	}
}

// block prints text of several lines beside a word.
func block(w io.Writer, indent, word, text string) {
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		fmt.Fprintf(w, "%s%-7s %s\n", indent, word, line)
		word = ""
	}
}

// societyText draws a society in a few lines; states are those of the latest
// runs, by the name of the interaction.
func societyText(o society.Outline, states map[string]workflow.Outline) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (society of %s)\n", o.Name, count(len(o.Agents), "agent"))
	for _, e := range o.Edges {
		s, ok := states[e.Name]
		if !ok {
			s = workflow.Outline{Name: e.Name, Kind: e.Type}
		}
		s.Children, s.Kind, s.Detail = nil, edgeWords(e), fmt.Sprintf("at most %s", count(e.MaxRounds, "round"))
		fmt.Fprint(&b, "  ", strings.Replace(s.Text(), " at most", ", at most", 1))
		if e.Resolve != "" {
			fmt.Fprintf(&b, "      resolved by %s\n", e.Resolve)
		}
		if len(e.Escalation) > 0 {
			fmt.Fprintf(&b, "      escalates to %s\n", strings.Join(e.Escalation, ", then "))
		}
	}
	return b.String()
}

// links are the lines of a society: a binary edge is an arrow, a group a node
// of its own.
func links(o society.Outline) (groups []society.EdgeOutline, list []workflow.Arrow) {
	for _, e := range o.Edges {
		if e.Type == "delegation" || e.Type == "oversight" {
			list = append(list, workflow.NewArrow(e.Members[0], e.Members[1], e.Type, false))
			if len(e.Escalation) > 0 {
				list = append(list, workflow.NewArrow(e.Members[1], e.Escalation[0], "escalates", true))
			}
			continue
		}
		groups = append(groups, e)
		for _, m := range e.Members {
			list = append(list, workflow.NewArrow(m, e.Name, "", false))
		}
		for _, d := range e.Deciders {
			list = append(list, workflow.NewArrow(e.Name, d, "decided by", true))
		}
		if len(e.Escalation) > 0 {
			list = append(list, workflow.NewArrow(e.Name, e.Escalation[0], "escalates", true))
		}
	}
	return groups, list
}

// societyMermaid draws a society as a Mermaid flow chart.
func societyMermaid(o society.Outline) string {
	id := map[string]string{}
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	for i, a := range o.Agents {
		id[a.Name] = fmt.Sprintf("a%d", i)
		fmt.Fprintf(&b, "  a%d([\"%s<br/>%s\"])\n", i, workflow.MermaidText(a.Name), workflow.MermaidText(a.Is))
	}
	groups, list := links(o)
	for i, e := range groups {
		id[e.Name] = fmt.Sprintf("g%d", i)
		fmt.Fprintf(&b, "  g%d{{\"%s<br/>%s\"}}\n", i, workflow.MermaidText(e.Name), e.Type)
	}
	for _, l := range list {
		b.WriteString(l.Mermaid(id))
	}
	return b.String()
}

// societyDot draws a society for Graphviz.
func societyDot(o society.Outline) string {
	var b strings.Builder
	b.WriteString("digraph society {\n  rankdir=LR;\n  node [shape=oval, fontname=\"sans-serif\"];\n")
	for _, a := range o.Agents {
		fmt.Fprintf(&b, "  %q [label=%q];\n", a.Name, a.Name+"\n"+a.Is)
	}
	groups, list := links(o)
	for _, e := range groups {
		fmt.Fprintf(&b, "  %q [shape=hexagon, label=%q];\n", e.Name, e.Name+"\n"+e.Type)
	}
	for _, l := range list {
		b.WriteString(l.Dot())
	}
	b.WriteString("}\n")
	return b.String()
}
