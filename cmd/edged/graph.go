package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"edged/cmd/edged/internal/config"
	"edged/cmd/edged/internal/control"
	"edged/starlark/lib"
	"edged/workflow"
)

// The verb graph: the trees of workflows, as they are written, or as they stand
// in the robot that runs.

type graphRequest struct {
	Name string `json:"name,omitempty"`
}

func (c *cli) graphVerb() *cobra.Command {
	var dir string
	var mermaid, dot bool
	cmd := verb("graph [NAME]", "Draw the workflows, and how they stand", 0, 1, func(cmd *cobra.Command, args []string) error {
		if mermaid && dot || (mermaid || dot) && c.json {
			return usagef("graph: one of --mermaid, --dot and --json")
		}
		cl, cfg, err := c.meant("graph", dir)
		if err != nil {
			return err
		}
		name := strings.Join(args, "")
		var list []workflow.Outline
		if cl != nil {
			defer cl.Close()
			err = cl.Call(cmd.Context(), "graph", graphRequest{name}, &list)
		} else {
			list, err = folderGraph(cmd.Context(), cfg, name)
		}
		if err != nil {
			return err
		}
		return c.print(list, func(w io.Writer) {
			if len(list) == 0 {
				fmt.Fprintln(w, "the scripts declare no workflows")
			}
			for _, o := range list {
				switch {
				case mermaid:
					fmt.Fprint(w, o.Mermaid())
				case dot:
					fmt.Fprint(w, o.Dot())
				default:
					fmt.Fprint(w, o.Text())
				}
			}
		})
	})
	cmd.Long = "Draws the workflows of a robot, an outline each: what there is of a robot that doesn't run; of one that runs, also how each tree stands or how its latest run ended,\nwhich guard stopped it and how long it took. NAME is a tree or a node in one."
	cmd.Example = "edged graph\nedged graph patrol\nedged graph --mermaid patrol > patrol.mmd\nedged graph --dot | dot -Tsvg > trees.svg"
	cmd.Flags().BoolVar(&mermaid, "mermaid", false, "as a Mermaid flow chart")
	cmd.Flags().BoolVar(&dot, "dot", false, "for Graphviz")
	cmd.Flags().StringVar(&dir, "dir", "", "folder of the robot; the one here, or else the one running")
	return cmd
}

// handleGraph answers graph in the robot.
func (r *robot) handleGraph(_ context.Context, with json.RawMessage, send func(any) error) error {
	var q graphRequest
	if err := json.Unmarshal(with, &q); err != nil {
		return control.Usagef("graph: %v", err)
	}
	running, _ := r.scripts.behaviour()
	list, err := pickTrees(running.Workflows(), q.Name)
	if err != nil {
		return err
	}
	return send(list)
}

// folderGraph loads a folder in memory.
func folderGraph(ctx context.Context, cfg *config.Config, name string) ([]workflow.Outline, error) {
	m, err := openModel(cfg)
	if err != nil {
		return nil, err
	}
	defer m.close()
	b, err := lib.Load(ctx, m.host, m.root.FS(), loadOptions(cfg))
	if err != nil {
		return nil, err
	}
	list, err := pickTrees(b.Workflows(), name)
	if bad := b.Stop(ctx); err == nil {
		err = bad
	}
	return list, err
}

// pickTrees finds a tree, or a node in one, by its name; empty is all.
func pickTrees(all []workflow.Outline, name string) ([]workflow.Outline, error) {
	if name == "" {
		return all, nil
	}
	var names []string
	var hit []workflow.Outline
	for _, tree := range all {
		eachNode(tree, func(o workflow.Outline) {
			if names = append(names, o.Name); o.Name == name {
				hit = append(hit, o)
			}
		})
	}
	if len(hit) == 0 {
		return nil, fmt.Errorf("graph: no workflow is called %q%s", name, perhaps(name, names))
	}
	return hit, nil
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
		if up != nil {
			a.because(up, "state", "%s ended at %s without coming to it: %s", parent.Name, at(up), up.Text(200))
		}
	}
	e.failures(&a)
	if len(a.Reasons) == 0 {
		a.add("nobody-published", "nobody ran it as far back as the record goes")
	}
	return a, true
}
