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
// waits. answer is for the question that it says it waits for; "" is none.
func (g *Graph) Resume(ctx context.Context, runs *workflow.Runs, id, answer string) (agent.Result, error) {
	if answer != "" {
		if info, err := runs.Get(id); err == nil && info.Workflow != g.name {
			return agent.Result{RunID: id}, fmt.Errorf("graph: run %s is one of %s, not of %s", id, info.Workflow, g.name)
		}
		if err := Answer(ctx, runs, id, "", answer); err != nil {
			return agent.Result{RunID: id}, err
		}
	}
	return runs.Resume(ctx, id, g)
}

// Answer stores the answer to the question at a step of a run; an empty path is
// the one that the run says it waits for. It must be one of the question's options.
func Answer(ctx context.Context, runs *workflow.Runs, id, path, answer string) error {
	open, err := runs.Questions(id)
	if err != nil {
		return err
	}
	if info, err := runs.Get(id); err == nil && path == "" {
		// branches side by side ask in any order
		slices.SortStableFunc(open, func(a, b workflow.OpenQuestion) int { return told(info, b) - told(info, a) })
	}
	for _, q := range open {
		if path != "" && q.Path != path {
			continue
		}
		var about asked
		text, err := json.Marshal(q.About)
		if err == nil {
			err = json.Unmarshal(text, &about)
		}
		if err != nil {
			return fmt.Errorf("graph: question %s of run %s: %w", q.Path, id, err)
		}
		said, ok := Pick(answer, about.Options)
		if !ok {
			return fmt.Errorf("graph: answer %q to %q is none of %q", answer, about.Prompt, about.Options)
		}
		return runs.Answer(ctx, id, q.Path, said)
	}
	if path == "" {
		return fmt.Errorf("graph: run %s has no open question", id)
	}
	return fmt.Errorf("graph: run %s has no open question %s", id, path)
}

// told is 1 if a question is the one that a run says it waits with.
func told(run workflow.RunInfo, q workflow.OpenQuestion) int {
	if m, ok := q.About.(map[string]any); ok && run.State == workflow.StateWaiting && m["prompt"] == run.Reason {
		return 1
	}
	return 0
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
