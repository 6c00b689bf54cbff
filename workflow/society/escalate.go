package society

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"edged/agent"
)

// target finds who decides when nobody else could: whom the edge names, else
// the nearest delegator upstream, else whom the society names. "" is the
// caller.
func (r *run) target() (name string, raw bool) {
	if e := r.rel.escalation(); e != nil && e.To != "" && !r.isRevoked(e.To) {
		return e.To, e.Raw
	}
	for _, n := range r.s.upstream(r.i) {
		if !r.isRevoked(n) {
			return n, false
		}
	}
	if to := r.s.o.EscalateTo; to != "" && !r.isRevoked(to) && !slices.Contains(r.i.members, to) {
		return to, false
	}
	return "", false
}

// upstream names the delegators above an edge's members, the nearest first.
func (s *Society) upstream(i *Interaction) (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := slices.Clone(i.members)
	for k := 0; k < len(seen); k++ {
		for _, e := range s.edges {
			if _, ok := e.r.(*Delegation); !ok || e == i || e.members[1] != seen[k] || slices.Contains(seen, e.members[0]) {
				continue
			}
			seen = append(seen, e.members[0])
			list = append(list, e.members[0])
		}
	}
	return list
}

// escalate lets the target decide, once; without one the caller gets the cause.
func (r *run) escalate(ctx context.Context, why Verdict) (Verdict, error) {
	reason := string(why.Cause)
	if why.Reason != "" && why.Reason != reason {
		reason += ": " + strings.TrimPrefix(reasonOf(errors.New(why.Reason)), reason+": ")
	}
	name, raw := r.target()
	if name == "" || r.escalated { // it is done once in an interaction
		return Verdict{Settled: true, Status: why.Cause.status(), Reason: reason, Output: r.newest(), Ranking: why.Ranking}, nil
	}
	r.escalated = true
	q, subs, err := r.terminal()
	if err != nil {
		return Verdict{}, err
	}
	p := r.dossier(name, q, subs, reason, raw)
	rc, cancel := r.limited(ctx)
	if d := r.patience(name); d > 0 {
		cancel()
		rc, cancel = context.WithTimeoutCause(ctx, d, errRoundOver)
	}
	defer cancel()
	r.degraded = r.degraded || why.Cause != CauseAsked // who was meant to decide is not in anybody's place
	t, _, w := r.speak(rc, name, r.number(), p, func(v map[string]any) (Work, error) { return r.ruling(rc, name, v), nil })
	if ctx.Err() != nil {
		return Verdict{}, context.Cause(ctx)
	}
	if err := r.mishap(t); err != nil {
		return Verdict{}, err
	}
	if t.State != OK {
		reason = fmt.Sprintf("no_answer: %s; %s: %s: %s", reason, name, t.State, t.Why)
		return Verdict{Settled: true, Status: agent.Escalated, Reason: reason, By: name, Output: r.newest(), Ranking: why.Ranking}, nil
	}
	return r.decidedBy(name, reason, w, subs), nil
}

// patience is how long a target may take; 0 is as long as a round.
func (r *run) patience(name string) time.Duration {
	if e := r.rel.escalation(); e != nil && e.To == name && e.Patience > 0 {
		return e.Patience
	}
	return r.s.agent(name).Patience
}

// terminal is the form of a final decision: there is no revise and no none. If
// there is no work to decide about, the target does it.
func (r *run) terminal() (question, []Submission, error) {
	var subs []Submission
	q := question{kind: ToEscalate}
	var err error
	comp, ok := r.edge.(*competition)
	switch {
	case ok:
		subs, _ = comp.submissions(r, r.work) // what was in when the round came to nothing
		if len(subs) > 0 {
			subs = r.labelled(subs)
			q.ask = "They could not decide. Pick one submission; your word is final."
			q.form, err = makeForm(field{name: "because", schema: textOf(wordsLength)}, field{name: "winner", schema: oneOf(labels(subs)...)})
			return q, subs, err
		}
	case r.newest() != nil:
		q.ask = "They could not settle it. Approve the draft or reject it; your word is final."
		yes := "approve"
		if _, ok := r.rel.(*Delegation); ok {
			yes, q.ask = "accept", "They could not settle it. Accept the work or reject it; your word is final."
		}
		q.form, err = makeForm(field{name: "comments", schema: textOf(wordsLength)}, field{name: "verdict", schema: oneOf(yes, "reject")})
		return q, nil, err
	}
	q.ask = "Nobody did the task. Do it."
	q.form, err = r.productForm()
	return q, nil, err
}

// productForm is the form of a draft.
func (r *run) productForm() (*Form, error) {
	switch e := r.edge.(type) {
	case *reviewed:
		return e.work, nil
	case *cooperation:
		return e.whole, nil
	case *competition:
		return e.form, nil
	}
	return makeForm(field{name: "draft", schema: textOf(draftLength)})
}

// dossier is all that the target needs to decide.
func (r *run) dossier(who string, q question, subs []Submission, reason string, raw bool) Prompt {
	p := r.deciderPrompt(who, ToEscalate, q.ask, q.form)
	p.Sections = append(p.Sections, plainSection(sectionCause, "Why you are asked", reason))
	switch {
	case raw:
		r.mu.Lock()
		for _, t := range r.turns {
			p.Sections = append(p.Sections, Section{fmt.Sprintf("Turn %d, %s by %s", t.N, t.Kind, t.Speaker), clip(rawTurn(t), 4*logTokens), TopicLog, t.Speaker, nil})
		}
		r.mu.Unlock()
		p.Sections = append(p.Sections, unnamed(subs)...)
		return p
	case len(subs) > 0:
		p.Sections = append(p.Sections, unnamed(subs)...)
	case r.newest() == nil && r.offered != nil && !r.competes(r.edge):
		p.Sections = append(p.Sections, Section{"Last draft, which a guardrail sent back", render(r.offered), "offered", "", r.offered})
	case r.newest() != nil:
		p.Sections = append(p.Sections, Section{"Last draft", render(r.newest()), TopicDraft, "", r.newest()})
	}
	for _, it := range slices.Backward(r.items) {
		if it.topic == TopicComments {
			p.Sections = append(p.Sections, Section{"Last comments", render(it.text), TopicComments, it.author, it.text})
			break
		}
	}
	return p
}

func rawTurn(t Turn) string {
	if t.State != OK {
		return fmt.Sprintf("%s: %s %s", t.State, render(t.Why), render(t.Said))
	}
	return string(t.Answer)
}

// decidedBy reads the target's decision. Whose the output is does not change by
// who approved of it.
func (r *run) decidedBy(name, reason string, w Work, subs []Submission) Verdict {
	reason += ": decided by " + name
	if len(subs) > 0 {
		comp := r.edge.(*competition)
		out := comp.won(Verdict{Winner: named(subs, w.Decision), Reason: reason}, subs)
		if c, ok := r.i.e.(*coopetition); ok {
			out = c.whole(r, out)
		}
		return out
	}
	switch w.Decision {
	case "approve", "accept":
		out := Verdict{Settled: true, Output: r.newest(), Reason: reason}
		if e, ok := r.edge.(*reviewed); ok {
			out.By = e.worker
		}
		return out
	case "reject":
		return Verdict{Settled: true, Status: agent.Rejected, Output: r.newest(), By: name, Reason: reason}
	}
	out := w.given(name)
	out.Reason = cmp.Or(out.Reason, reason)
	return out
}

// watching is what watchers remember of the round before.
type watching struct {
	print string
	draft string
	keys  map[string]string
}

// watchers look at a round that settled nothing.
func (r *run) watchers(ctx context.Context) (Verdict, error) {
	list := r.rel.shared().Watch
	if len(list) == 0 {
		return Verdict{}, nil
	}
	now := watching{draft: render(r.newest()), keys: map[string]string{}}
	now.print = now.draft
	for _, w := range r.work {
		now.print += "\x00" + w.Comments
	}
	if r.s.o.State != nil {
		r.state = r.s.o.State(ctx)
	}
	before := r.watch
	defer func() { r.watch = now }()
	var v Verdict
	for _, w := range list {
		if w == "stalled" && before.print == now.print {
			v = Verdict{Cause: CauseStalled}
		}
		if key, ok := strings.CutPrefix(w, "unmoved:"); ok {
			if r.s.o.Key != nil {
				now.keys[key] = render(r.s.o.Key(ctx, key))
			} else {
				now.keys[key] = render(r.state[key])
			}
		}
		if w == unmoved {
			all := r.state
			if r.s.o.Key != nil {
				all, _ = r.s.o.Key(ctx, "").(map[string]any)
			}
			for key, v := range all {
				now.keys[key] = render(v)
			}
		}
	}
	if before.draft == now.draft {
		for _, key := range slices.Sorted(maps.Keys(now.keys)) {
			if was, known := before.keys[key]; known && was != now.keys[key] {
				v = Verdict{Cause: CauseUnmoved, Reason: key + " has changed, the decision has not"}
				break
			}
		}
	}
	return v, nil
}
