package society

import (
	"context"
	"fmt"

	"edged/agent"
	"edged/workflow"
)

// The law of this file: nobody but its author sees a draft that a guardrail
// has not let pass. Of those that compete a violation that blocks counts only
// against the one that is picked.

// look asks those guardrails whose reaction is meant. It gives what is to go
// on, and why the author has to do it again, or why nothing goes on.
func (r *run) look(ctx context.Context, who string, output any, meant func(workflow.Reaction) bool) (out any, sent, blocked string) {
	list := r.guards()
	for i := range list {
		g := &list[i]
		on := g.Reaction()
		if !meant(on) {
			continue
		}
		f := g.Look(ctx, output, r.state)
		if r.s.o.Guarded != nil {
			r.s.o.Guarded(ctx, r.i.name, who, g.Name, on, f)
		}
		switch {
		case f.Replaced:
			output = f.By
		case f.Violation == "", on == workflow.Warn:
		case on == workflow.Revise:
			return output, f.Violation, ""
		default: // Block, and Sanitize without anything to put in its place
			return output, "", g.Name + ": " + f.Violation
		}
	}
	return output, "", ""
}

func always(workflow.Reaction) bool         { return true }
func onlyBlock(on workflow.Reaction) bool   { return on == workflow.Block }
func allButBlock(on workflow.Reaction) bool { return on != workflow.Block }
func (r *run) guards() []workflow.Guardrail { return r.rel.shared().Guardrails }
func (r *run) competes(e inner) bool        { _, ok := e.(*competition); return ok }

// early says which reactions a draft meets as it is made.
func (r *run) early(e inner) func(workflow.Reaction) bool {
	if r.competes(e) {
		return allButBlock
	}
	return always
}

// guarded asks the guardrails about what a member just made.
func (r *run) guarded(ctx context.Context, e inner, who string, w Work) Work {
	if len(r.guards()) == 0 || w.Draft == nil || w.Agrees {
		return w
	}
	w.Draft, w.sent, w.blocked = r.look(ctx, who, w.Draft, r.early(e))
	if w.sent == "" && w.blocked == "" {
		r.mu.Lock()
		r.passed[render(w.Draft)] = true
		r.mu.Unlock()
	}
	return w
}

// sendBack notes work that its author has to do again.
func (r *run) sendBack(w Work) {
	draft := w.Draft
	r.offered = draft
	w.Draft = r.last[w.Author].Draft
	r.last[w.Author] = w
	r.items = append(r.items,
		item{author: w.Author, topic: r.edge.draftTopic(), text: render(draft), turn: w.Turn, value: draft, only: w.Author},
		item{topic: TopicComments, text: w.Why, turn: w.Turn, only: w.Author})
}

// oneShot reports whether an edge has one round: who has to do it again has
// another one alone.
func oneShot(e inner) bool {
	switch e := e.(type) {
	case *competition:
		return true
	case *cooperation:
		return e.mode != Revise && e.mode != Fields
	}
	return false
}

// another says whether those whose work was sent back have one more round, and
// keeps what the others did.
func (r *run) another(e inner) bool {
	if !oneShot(e) || r.round >= r.rel.shared().rounds() {
		return false
	}
	var good []Work
	back := false
	for _, w := range r.work {
		back = back || w.State == Returned
		if w.State != Returned {
			good = append(good, w)
		}
	}
	if back {
		r.carry = good
	}
	return back
}

// carried reports whether a member's work is from the round before.
func (r *run) carried(who string) bool {
	for _, w := range r.carry {
		if w.Author == who {
			return true
		}
	}
	return false
}

// final asks the guardrails about what is about to be given, as far as they
// have not seen it.
func (r *run) final(ctx context.Context, v *Verdict) {
	meant := always
	output := v.Output
	switch e := r.edge.(type) {
	case *competition:
		meant = onlyBlock
		if m, ok := v.Output.(map[string]any); ok && e.negot != nil && r.coop.Settled {
			output = m["won"]
		}
	case *cooperation:
		if e.mode == Append {
			return
		}
	}
	r.mu.Lock()
	seen := r.passed[render(output)] && !r.competes(r.edge)
	r.mu.Unlock()
	if len(r.guards()) == 0 || seen {
		return
	}
	out, sent, blocked := r.look(ctx, v.By, output, meant)
	if sent != "" { // there is no further round
		blocked = sent
	}
	if blocked != "" {
		v.Status, v.Reason = agent.Blocked, blocked
		return
	}
	if m, ok := v.Output.(map[string]any); ok && r.coop.Settled && r.competes(r.edge) {
		m["won"] = out
		return
	}
	v.Output = out
}

// blockedError ends an interaction whose draft a guardrail has blocked.
func blockedError(why string) error { return fmt.Errorf("%w: %s", agent.ErrBlocked, why) }
