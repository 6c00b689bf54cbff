package graph

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"edged/agent"
	"edged/workflow"
)

// Resume goes on with a run that was interrupted, that was stopped or that
// waits. answer is for the only question that it waits with, see
// [Graph.Answer]; "" is none.
func (g *Graph) Resume(ctx context.Context, runs *workflow.Runs, id, answer string) (agent.Result, error) {
	if answer != "" {
		if err := g.Answer(ctx, runs, id, "", answer); err != nil {
			return agent.Result{RunID: id}, err
		}
	}
	return runs.Resume(ctx, id, g)
}

// Answer stores the answer to a question of a run, which is then resumed. at is
// the node that asked, or the path of its step; with "" the only question is
// meant, and it is an error if there are several. The answer must be one of the
// question's options.
func (g *Graph) Answer(ctx context.Context, runs *workflow.Runs, id, at, answer string) error {
	if info, err := runs.Get(id); err == nil && info.Workflow != g.name {
		return fmt.Errorf("graph: run %s is one of %s, not of %s", id, info.Workflow, g.name)
	}
	list, err := runs.Questions(id)
	if err != nil {
		return err
	}
	var open []Question
	for _, q := range list {
		var about asked
		text, err := json.Marshal(q.About)
		if err == nil {
			err = json.Unmarshal(text, &about)
		}
		if err != nil {
			return fmt.Errorf("graph: question %s of run %s: %w", q.Path, id, err)
		}
		open = append(open, Question{Run: id, Path: q.Path, Node: about.Node, Prompt: about.Prompt, Options: about.Options})
	}
	q, err := g.Meant(id, at, open)
	if err != nil {
		return err
	}
	said, ok := Pick(answer, q.Options)
	if !ok {
		return fmt.Errorf("graph: answer %q to %q is none of %q", answer, q.Prompt, q.Options)
	}
	return runs.Answer(ctx, id, q.Path, said)
}

// Meant finds the question that an answer is for among the open ones of a run:
// by the node that asks, be it of this graph or of one within, or by the path of
// its step; "" is the only one there is. Nobody's word is taken for an answer to
// another question.
func (g *Graph) Meant(run, at string, open []Question) (Question, error) {
	hits := open
	if at != "" {
		hits = nil
		for _, is := range []func(q Question) bool{
			func(q Question) bool { return q.Path == at },
			func(q Question) bool { return g.holder(q.Path) == at },
			func(q Question) bool { return q.Node == at },
		} {
			if hits = slices.DeleteFunc(slices.Clone(open), func(q Question) bool { return !is(q) }); len(hits) > 0 {
				break
			}
		}
	}
	switch {
	case len(hits) == 1:
		return hits[0], nil
	case len(open) == 0:
		return Question{}, fmt.Errorf("graph: run %s has no open question", run)
	case len(hits) == 0:
		return Question{}, fmt.Errorf("graph: run %s has no open question at %q; there is %s", run, at, g.choices(open))
	}
	return Question{}, fmt.Errorf("graph: run %s waits with %d questions; say which one with at: %s", run, len(hits), g.choices(hits))
}

// holder is the node of this graph that a step belongs to; empty if that is not
// known.
func (g *Graph) holder(path string) string {
	first, _, _ := strings.Cut(path, ".")
	number, _, _ := strings.Cut(first, "~")
	g.fix()
	if at, err := strconv.Atoi(number); err == nil && at > 0 && at < len(g.nodes) {
		return g.nodes[at].id
	}
	return ""
}

// choices names questions, by their paths where a node has several.
func (g *Graph) choices(list []Question) string {
	var out []string
	for _, q := range list {
		name := g.holder(q.Path)
		if name == "" || slices.ContainsFunc(list, func(x Question) bool { return x.Path != q.Path && g.holder(x.Path) == name }) {
			name = q.Path
		}
		out = append(out, fmt.Sprintf("%q (%s)", name, q.Prompt))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// Fork makes a new run of an old one, with the outcomes that it had before a
// step; the old one stays as it is. at is the path of the step, the number it
// has in the run (from 1), or the name of a node, whose first run is meant.
// patch is put into the state that this step begins with. The new run is then
// resumed.
func (g *Graph) Fork(ctx context.Context, runs *workflow.Runs, id, at string, patch map[string]any) (string, error) {
	info, err := runs.Get(id)
	if err != nil {
		return "", err
	}
	var steps []string
	for _, s := range info.Steps {
		if strings.ContainsAny(s.Path, "./") {
			continue // of a workflow in a node
		}
		n := strconv.Itoa(len(steps) + 1)
		steps = append(steps, n+" "+s.Name)
		if s.Path != at && s.Name != at && n != at {
			continue
		}
		return runs.ForkWith(ctx, id, s.Path, patch)
	}
	return "", fmt.Errorf("graph: fork %s: there is no step %q, only %s", id, at, cmp.Or(strings.Join(steps, ", "), "none"))
}
