package graph

import (
	"context"
	"errors"
	"fmt"

	"edged/agent"
	"edged/workflow"
)

// revision is the error of a guardrail that sends work back.
type revision struct {
	guard, why string
}

func (r *revision) Error() string { return fmt.Sprintf("blocked: guardrail %s: %s", r.guard, r.why) }
func (r *revision) Unwrap() error { return agent.ErrBlocked }

func revisionIn(err error) (*revision, bool) {
	var r *revision
	return r, errors.As(err, &r)
}

// A Revised is what an author is told whose work was sent back.
type Revised struct {
	Comment string // why
	Draft   any    // what it put out
	Round   int    // 1 for the first time
}

type revisedKey struct{}

// RevisedOf gives what the node that runs in a context is told about its last
// work, if that was sent back.
func RevisedOf(ctx context.Context) (Revised, bool) {
	r, ok := ctx.Value(revisedKey{}).(Revised)
	return r, ok
}

type revisionsKey struct{}

func withRevisions(ctx context.Context, n int) context.Context {
	if n == 0 {
		return ctx
	}
	return context.WithValue(ctx, revisionsKey{}, n)
}

// put tells the author: in the task, and by RevisedOf.
func (r *revision) put(ctx context.Context, t agent.Task, last agent.Result) (context.Context, agent.Task) {
	draft := last.Output
	if draft == nil {
		draft = last.Reply
	}
	round := 1
	of := t.Input
	if before, ok := RevisedOf(ctx); ok {
		round = before.Round + 1
		if m, ok := t.Input.(map[string]any); ok && m["task"] != nil {
			of = m["task"]
		}
	}
	t.Input = map[string]any{"task": of, "draft": draft, "comment": r.why}
	return context.WithValue(ctx, revisedKey{}, Revised{r.why, draft, round}), t
}

// guard asks guardrails one after the other. It gives another target, or what
// is to go on, or the error that ends the run or sends the work back.
func (v *visit) guard(ctx context.Context, list []workflow.Guardrail, where string, payload any, last agent.Result) (to string, out any, changed bool, err error) {
	for i := range list {
		gr := &list[i]
		f, on := gr.Look(ctx, payload, StateOf(ctx)), gr.Reaction()
		if ctx.Err() != nil {
			return "", nil, false, ctx.Err()
		}
		if workflow.Telling(ctx) {
			m := map[string]any{"guardrail": gr.Name, "at": where, "ok": f.Violation == ""}
			if f.Violation != "" {
				m["violation"], m["on_violation"] = f.Violation, string(on)
			}
			if f.Replaced {
				m["replaced"] = true
			}
			v.g.tell(ctx, "guardrail", m)
		}
		if f.Replaced {
			payload, changed = f.By, true
			continue
		}
		if f.Violation == "" {
			continue
		}
		switch on {
		case workflow.Warn:
			if !f.Failed {
				continue
			}
			return "", nil, false, fmt.Errorf("%w: guardrail %s: %s", agent.ErrBlocked, gr.Name, f.Violation)
		case workflow.Reroute:
			return gr.Reroute, payload, changed, nil
		case workflow.Revise:
			return "", nil, false, &revision{gr.Name, f.Violation}
		default: // Block, and Sanitize without anything to put in its place
			return "", nil, false, fmt.Errorf("%w: guardrail %s: %s", agent.ErrBlocked, gr.Name, f.Violation)
		}
	}
	return "", payload, changed, nil
}
