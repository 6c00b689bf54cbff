package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"edged/cmd/edged/internal/config"
	"edged/cmd/edged/internal/control"
	"edged/starlark/lib"
	"edged/workflow"
	"edged/workflow/graph"
	"edged/workflow/society"
)

// The verb graph: workflows, execution graphs and societies, as they are
// written, or as they stand in the robot that runs.

// picture is one of the three.
type picture struct {
	Workflow *workflow.Outline `json:"workflow,omitempty"`
	Graph    *drawnGraph       `json:"graph,omitempty"`
	Society  *drawnSociety     `json:"society,omitempty"`
}

// drawnSociety is a society with the latest runs of its interactions, by name.
type drawnSociety struct {
	society.Outline
	Latest map[string]workflow.Outline `json:"latest,omitempty"`
}

// plain is what --json prints: edges of graphs have the shape of compiled
// execution graphs.
func (p picture) plain() any {
	switch {
	case p.Graph != nil:
		out := struct {
			Kind string `json:"kind"`
			graph.Drawing
			Latest *workflow.Outline `json:"latest,omitempty"`
		}{Kind: "graph", Drawing: p.Graph.Drawing}
		if p.Graph.Latest.State != "" {
			out.Latest = &p.Graph.Latest
		}
		return out
	case p.Society != nil:
		return struct {
			Kind string `json:"kind"`
			*drawnSociety
		}{"society", p.Society}
	}
	return p.Workflow
}

func plainPictures(list []picture) []any {
	plain := make([]any, len(list))
	for i, p := range list {
		plain[i] = p.plain()
	}
	return plain
}

func (p picture) text() string {
	switch {
	case p.Graph != nil:
		return p.Graph.text()
	case p.Society != nil:
		return societyText(p.Society.Outline, p.Society.Latest)
	}
	return p.Workflow.Text()
}

func (p picture) mermaid() string {
	switch {
	case p.Graph != nil:
		return p.Graph.Mermaid
	case p.Society != nil:
		return societyMermaid(p.Society.Outline)
	}
	return p.Workflow.Mermaid()
}

func (p picture) dot() string {
	switch {
	case p.Graph != nil:
		return p.Graph.Dot
	case p.Society != nil:
		return societyDot(p.Society.Outline)
	}
	return p.Workflow.Dot()
}

type graphRequest struct {
	Name string `json:"name,omitempty"`
}

func (c *cli) graphVerb() *cobra.Command {
	var dir string
	var mermaid, dot bool
	cmd := verb("graph [NAME]", "Draw workflows, graphs and societies, and how they stand", 0, 1, func(cmd *cobra.Command, args []string) error {
		if mermaid && dot || (mermaid || dot) && c.json {
			return usagef("graph: one of --mermaid, --dot and --json")
		}
		cl, cfg, err := c.meant("graph", dir)
		if err != nil {
			return err
		}
		name := strings.Join(args, "")
		var list []picture
		if cl != nil {
			defer cl.Close()
			err = cl.Call(cmd.Context(), "graph", graphRequest{name}, &list)
		} else {
			list, err = folderGraph(cmd.Context(), cfg, name)
		}
		if err != nil {
			return err
		}
		return c.print(plainPictures(list), func(w io.Writer) {
			if len(list) == 0 {
				fmt.Fprintln(w, "the scripts declare no workflows, graphs or societies")
			}
			for _, p := range list {
				switch {
				case mermaid:
					fmt.Fprint(w, p.mermaid())
				case dot:
					fmt.Fprint(w, p.dot())
				default:
					fmt.Fprint(w, p.text())
				}
			}
		})
	})
	cmd.Long = "Draws the workflows, graphs and societies of a robot: what there is of a robot that doesn't run; of one that runs, also how each stands or how its latest run ended,\nwhich guard stopped it and how long it took. NAME is a tree or a node in one, a graph, a society or one of its edges."
	cmd.Example = "edged graph\nedged graph patrol\nedged graph --mermaid patrol > patrol.mmd\nedged graph --dot | dot -Tsvg > trees.svg"
	cmd.Flags().BoolVar(&mermaid, "mermaid", false, "as a Mermaid flow chart")
	cmd.Flags().BoolVar(&dot, "dot", false, "for Graphviz")
	cmd.Flags().StringVar(&dir, "dir", "", "folder of the robot; the one here, or else the one running")
	return cmd
}

// handleGraph answers graph in the robot.
func (r *robot) handleGraph(_ context.Context, with json.RawMessage, send func(any) error) error {
	list, err := r.pictures(with)
	if err != nil {
		return err
	}
	return send(list)
}

// pictures are those that a request asks for.
func (r *robot) pictures(with json.RawMessage) ([]picture, error) {
	var q graphRequest
	if err := json.Unmarshal(with, &q); err != nil {
		return nil, control.Usagef("graph: %v", err)
	}
	running, _ := r.scripts.behaviour()
	return pictures(running, q.Name)
}

// folderGraph loads a folder in memory.
func folderGraph(ctx context.Context, cfg *config.Config, name string) ([]picture, error) {
	m, err := openModel(cfg)
	if err != nil {
		return nil, err
	}
	defer m.close()
	b, err := lib.Load(ctx, m.host, m.root.FS(), loadOptions(cfg))
	if err != nil {
		return nil, err
	}
	list, err := pictures(b, name)
	if bad := b.Stop(ctx); err == nil {
		err = bad
	}
	return list, err
}

// pictures finds what is called so; empty is all.
func pictures(b *lib.Behaviour, name string) ([]picture, error) {
	trees := neat(b.Workflows())
	latest := map[string]workflow.Outline{} // graphs and interactions, by name
	var names []string
	var nodes []workflow.Outline
	for _, tree := range trees {
		eachNode(tree, func(o workflow.Outline) {
			if names = append(names, o.Name); o.Name == name {
				nodes = append(nodes, o)
			}
			if _, known := latest[o.Name]; !known && (o.Kind == "graph" || isEdge(o.Kind)) {
				latest[o.Name] = o
			}
		})
	}
	graphs := map[string]*graph.Graph{}
	for _, g := range b.Graphs() {
		graphs[g.Name()] = g
		names = append(names, g.Name())
	}
	var all, hit []picture
	for _, tree := range trees {
		switch g := graphs[tree.Name]; {
		case tree.Kind == "graph" && g != nil:
			all = append(all, picture{Graph: drawGraph(g, tree)})
		case !isEdge(tree.Kind): // those are drawn with their societies
			all = append(all, picture{Workflow: &tree})
		}
	}
	for _, s := range b.Societies() {
		o := s.Outline(0)
		d := &drawnSociety{o, map[string]workflow.Outline{}}
		for i, e := range o.Edges {
			if was, ok := latest[e.Name]; ok {
				d.Latest[e.Name] = was
			}
			if names = append(names, e.Name); e.Name == name {
				one := o
				one.Edges = o.Edges[i : i+1]
				hit = append(hit, picture{Society: &drawnSociety{one, d.Latest}})
			}
		}
		all = append(all, picture{Society: d})
		if names = append(names, o.Name); o.Name == name {
			hit = append(hit, picture{Society: d})
		}
	}
	switch g := graphs[name]; {
	case name == "":
		return append([]picture{}, all...), nil
	case g != nil:
		hit = append(hit, picture{Graph: drawGraph(g, latest[name])})
	case len(hit) == 0:
		for _, o := range nodes {
			hit = append(hit, picture{Workflow: &o})
		}
	}
	if len(hit) == 0 {
		return nil, fmt.Errorf("graph: no workflow, graph or society is called %q%s", name, perhaps(name, names))
	}
	return hit, nil
}

// neat leaves out what nodes of graphs are called in records, and the places
// that only those have.
func neat(list []workflow.Outline) []workflow.Outline {
	out := slices.Clone(list)
	for i := range out {
		o := &out[i]
		o.Children = neat(o.Children)
		if o.Kind != "graph" {
			continue
		}
		o.Children = slices.DeleteFunc(o.Children, func(c workflow.Outline) bool { return c.Kind == "edge" })
		for k := range o.Children {
			o.Children[k].Label = ""
		}
	}
	return out
}

// isEdge reports whether an outline is that of an interaction.
func isEdge(kind string) bool {
	return slices.Contains([]string{"delegation", "oversight", "cooperation", "competition", "coopetition"}, kind)
}

func eachNode(o workflow.Outline, f func(workflow.Outline)) {
	f(o)
	for _, c := range o.Children {
		eachNode(c, f)
	}
}

// node answers why for a node of a workflow.
func (e *evidence) node(name string) (answer, bool) {
	var found, parent *workflow.Outline
	var look func(o workflow.Outline, up *workflow.Outline)
	look = func(o workflow.Outline, up *workflow.Outline) {
		if found == nil && o.Name == name && o.Kind != "agent" {
			found, parent = &o, up
		}
		for _, c := range o.Children {
			look(c, &o)
		}
	}
	for _, tree := range e.scripts.Workflows {
		look(tree, nil)
	}
	if found == nil {
		return answer{}, false
	}
	a := answer{Name: name, Kind: found.Kind}
	if parent != nil {
		a.What = "in " + parent.Name
	}
	topic := "edged/workflow/" + strings.NewReplacer("/", "_", "+", "_", "#", "_").Replace(name) + "/"
	start, end := e.tree.Last(topic+"start"), e.tree.Last(topic+"end")
	if start != nil {
		a.because(start, "ran", "it ran, last at %s, %s", at(start), strings.TrimPrefix(start.Reason(), start.Topic+" "))
	}
	var said struct {
		Status, Reason, Guard string
		Elapsed               float64
	}
	if end != nil && json.Unmarshal(end.Payload, &said) == nil {
		switch {
		case said.Guard != "":
			a.because(end, "guard", "it was %s at %s: its guard %s was false", said.Status, at(end), said.Guard)
		case said.Status != "done":
			a.because(end, "failed", "it ended %s at %s after %.3f s%s", said.Status, at(end), said.Elapsed, because(said.Reason))
		default:
			a.because(end, "state", "it was done at %s after %.3f s", at(end), said.Elapsed)
		}
	}
	if start == nil && parent != nil {
		up := e.tree.Last("edged/workflow/" + parent.Name + "/end")
		switch {
		case found.State != "": // it tells of itself under a name of its own
			a.add("state", "in the latest run of %s it was %s after %.3f s%s", parent.Name, found.State, found.Elapsed.Seconds(), because(found.Reason))
		case up != nil:
			a.because(up, "state", "%s ended at %s without coming to it: %s", parent.Name, at(up), up.Text(200))
		}
	}
	if isEdge(found.Kind) {
		e.turns(&a, func(t turnTold) bool { return t.Edge == name })
	}
	e.failures(&a)
	if len(a.Reasons) == 0 {
		a.add("nobody-published", "nobody ran it as far back as the record goes")
	}
	return a, true
}
