package society

import (
	"cmp"
	"context"
	"fmt"
	"maps"

	"edged/agent"
	"edged/workflow"
)

// The law of this file: nobody but its author sees a draft that a guardrail
// has not let pass. Of those that compete a violation that blocks counts only
// against the one that is picked.

// looked is what guardrails made of a draft.
type looked struct {
	out      any    // what is to go on
	replaced bool   // that is something else than what was made
	sent     string // why its author has to do it again
	blocked  string // why nothing goes on
}

// look asks those guardrails whose reaction is meant, each about what those
// before left.
func (r *run) look(ctx context.Context, who string, output any, meant func(workflow.Reaction) bool) looked {
	l := looked{out: output}
	list := r.guards()
	for i := range list {
		g := &list[i]
		on := g.Reaction()
		if !meant(on) {
			continue
		}
		f := g.Look(ctx, l.out, r.state)
		if r.s.o.Guarded != nil {
			r.s.o.Guarded(ctx, r.i.name, who, g.Name, on, f)
		}
		switch {
		case f.Replaced:
			l.out, l.replaced = f.By, true
		case f.Violation == "", on == workflow.Warn && !f.Failed:
		case on == workflow.Revise:
			l.sent = f.Violation
			return l
		default: // Block, Sanitize without anything to put in its place, and a check that failed
			l.blocked = g.Name + ": " + f.Violation
			return l
		}
	}
	return l
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

// guarded asks the guardrails about what somebody just made; answer is what it
// said.
func (r *run) guarded(ctx context.Context, e inner, who string, answer map[string]any, w Work) Work {
	if len(r.guards()) == 0 || w.Draft == nil || w.Agrees {
		return w
	}
	l := r.look(ctx, who, w.Draft, r.early(e))
	w.Draft, w.sent, w.blocked = l.out, l.sent, l.blocked
	if l.replaced {
		w.cleaned = holding(answer, w.Draft)
	}
	if l.sent+l.blocked == "" {
		r.mu.Lock()
		r.passed[render(w.Draft)] = true
		r.mu.Unlock()
	}
	return w
}

// holding is an answer with another draft in it; one that is the draft as a
// whole, a bid, is that.
func holding(answer map[string]any, draft any) map[string]any {
	if _, part := answer["draft"]; !part {
		if whole, ok := draft.(map[string]any); ok {
			return whole
		}
	}
	out := maps.Clone(answer)
	out["draft"] = draft
	return out
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
	l := r.look(ctx, v.By, output, meant)
	if why := cmp.Or(l.sent, l.blocked); why != "" { // there is no further round
		v.Status, v.Reason = agent.Blocked, why
		return
	}
	if m, ok := v.Output.(map[string]any); ok && r.coop.Settled && r.competes(r.edge) {
		m["won"] = l.out
		return
	}
	v.Output = l.out
}

// given is the verdict of work that nobody else decides about.
func (w Work) given(by string) Verdict {
	v := Verdict{Settled: true, Output: w.Draft, By: by}
	if why := cmp.Or(w.sent, w.blocked); why != "" { // there is no further round
		v.Status, v.Reason = agent.Blocked, why
	}
	return v
}

// blockedError ends an interaction whose draft a guardrail has blocked.
func blockedError(why string) error { return fmt.Errorf("%w: %s", agent.ErrBlocked, why) }
