package society

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"edged/agent"
	"edged/agent/llm/schema"
	"edged/workflow/society/protocol"
)

// cooperation is one thing made by all.
type cooperation struct {
	members []string
	sh      *Shared
	mode    Merge
	fn      func(ctx context.Context, drafts []Submission) (any, error)
	by      string
	spec    protocol.Spec
	first   *Form // before there is a version
	later   *Form
	whole   *Form    // of what is made
	keys    []string // merge by fields: of the object
	needed  []string // those that have to be there
}

func (d *Cooperation) bind(_ *Society, m []string) (inner, error) {
	e := &cooperation{members: m, sh: &d.Shared, mode: d.Merge, fn: d.MergeFunc, spec: d.Protocol}
	if d.MergeBy != nil {
		e.by = d.MergeBy.Name
	}
	switch {
	case e.fn != nil && e.by != "" || (e.fn != nil || e.by != "") && e.mode != "":
		return nil, errors.New("there are two ways to merge: give one")
	case e.mode == "" && e.fn == nil && e.by == "":
		e.mode = Revise
	case e.mode != "" && e.mode != Revise && e.mode != Fields && e.mode != Append:
		return nil, fmt.Errorf("merge is %q; it is \"revise\", \"fields\", \"append\", a function or an agent", e.mode)
	case oneShot(e) && d.Until != nil:
		return nil, errors.New("until has nothing to say here: with this merge each gives its part once, and one round settles it")
	}
	draft, err := d.product()
	if err != nil {
		return nil, err
	}
	return e, e.forms(draft)
}

func (e *cooperation) forms(draft field) (err error) {
	switch e.spec.(type) {
	case nil:
		e.spec = protocol.Sequential{}
	case *protocol.Market:
		return errors.New("a Market takes bids, and is for those who compete: its protocol is Sequential, Broadcast, Queue, one of your own or none")
	}
	if e.whole, err = makeForm(draft); err != nil {
		return err
	}
	if e.mode == Fields {
		if draft.schema.Kind != schema.Object || len(draft.schema.Properties) == 0 {
			return errors.New("merge \"fields\" needs an artifact whose schema is an object with properties")
		}
		part := *draft.schema
		part.Properties = slices.Clone(part.Properties)
		for i := range part.Properties {
			e.keys = append(e.keys, part.Properties[i].Name)
			if part.Properties[i].Required {
				e.needed = append(e.needed, part.Properties[i].Name)
			}
			part.Properties[i].Required = false
		}
		draft.schema = &part
	}
	if e.first, err = makeForm(draft); err != nil {
		return err
	}
	e.later = e.first
	if e.mode == Revise {
		draft.optional = true
		e.later, err = makeForm(field{name: "agree", schema: &schema.Schema{Kind: schema.Boolean}}, draft)
	}
	return err
}

func (e *cooperation) Members() []string { return slices.Clone(e.members) }

// Sees is everything, for all members alike.
func (e *cooperation) Sees(viewer, author, topic string) View {
	inside := func(name string) bool { return name != "" && name == e.by || slices.Contains(e.members, name) }
	if inside(viewer) && (author == "" || inside(author)) {
		return Full
	}
	return Nothing
}

func (e *cooperation) order() protocol.Spec { return e.spec }
func (e *cooperation) draftTopic() string   { return TopicDraft }
func (e *cooperation) oneVersion() bool     { return e.mode == Revise }

// enough: all agree on the same version, or nothing comes of it any more.
func (e *cooperation) enough(r *run) bool {
	if slices.ContainsFunc(r.work, func(w Work) bool { return w.State == Broken || w.State == Revoked }) {
		return true
	}
	if e.mode != Revise {
		return false
	}
	r.tally()
	if r.version == 0 {
		return false
	}
	for _, m := range e.members {
		if r.agreed[m] != r.version {
			return false
		}
	}
	return true
}

// tally counts who agrees with what: who made a version agrees with it.
func (r *run) tally() {
	for _, w := range r.work {
		if w.State != OK {
			continue
		}
		if !w.Agrees && w.Draft != nil && w.Turn > r.version {
			r.version = w.Turn
		}
		r.agreed[w.Author] = w.Revision
		if !w.Agrees && w.Draft != nil {
			r.agreed[w.Author] = w.Turn
		}
	}
}

// versionText is the version that was made in a turn.
func (r *run) versionText(turn int) string {
	for _, it := range r.items {
		if it.turn == turn && it.topic == r.edge.draftTopic() && it.only == "" {
			return it.text
		}
	}
	return ""
}

// heardVersion is the turn of the newest version that a member knows.
func (r *run) heardVersion(who string) (turn int) {
	for _, it := range r.items {
		if it.topic == r.edge.draftTopic() && it.only == "" && it.turn > turn && (it.author == who || r.floor.Heard(who, it.turn)) {
			turn = it.turn
		}
	}
	return turn
}

func (e *cooperation) ask(r *run, who string) (question, bool) {
	q := question{kind: ToWork, ask: "Do your part of the task.", form: e.first, tools: ReadTools}
	switch e.mode {
	case Revise:
		if r.heardVersion(who) == 0 {
			q.ask = "Make the first version."
			return q, true
		}
		return question{kind: ToAgree, ask: "If the version is right, agree. If not, give a whole new one as draft.", form: e.later, tools: ReadTools}, true
	case Fields:
		if r.round == 1 {
			q.ask = "Fill in those fields that are yours."
			return q, true
		}
		mine := r.clash[who]
		switch lack := r.lacking(e); {
		case r.last[who].State == Returned:
			q.ask = "Give your fields again with regard to the comments; leave out what is not yours. Those that were not sent back stay."
		case r.sentBack(e):
			return question{}, false
		case len(mine) > 0:
			q.ask = fmt.Sprintf("Several of you filled in %s differently. Give again what of it is yours, and leave out what is not. Your other fields stay.", strings.Join(mine, ", "))
		case len(lack) > 0:
			q.ask = fmt.Sprintf("Nobody filled in %s. Give what of it is yours. Your other fields stay.", strings.Join(lack, ", "))
		default:
			return question{}, false
		}
		return q, true
	}
	return q, true
}

func (e *cooperation) read(r *run, who string, v map[string]any) (Work, error) {
	if agrees, ok := v["agree"].(bool); ok && e.mode == Revise {
		turn := r.heardVersion(who)
		switch given := v["draft"]; {
		case agrees && given != nil && given != "" && render(given) != r.versionText(turn):
			return Work{}, fmt.Errorf("%w: it agrees and gives another version: give agree alone, or agree false with the draft", ErrMalformed)
		case agrees:
			return Work{Agrees: true, Revision: turn}, nil
		}
		if v["draft"] == nil {
			return Work{}, fmt.Errorf("%w: without agreeing it needs a draft", ErrMalformed)
		}
	}
	return Work{Draft: v["draft"]}, nil
}

// part is what counts of a member's work: of fields those that it gives now, and
// those that it gave before, unless another one claims them, too: who leaves out
// one of these gives it up.
func (e *cooperation) part(r *run, w Work) any {
	now, ok := w.Draft.(map[string]any)
	if e.mode != Fields || !ok {
		return w.Draft
	}
	out := maps.Clone(now)
	before, _ := r.last[w.Author].Draft.(map[string]any)
	for key, v := range before {
		if out[key] == nil && !slices.Contains(r.clash[w.Author], key) {
			out[key] = v
		}
	}
	for key, v := range out {
		r.claimed[key] = r.claimed[key] || v != nil
	}
	return out
}

// clashes names for each member the keys that it and another one filled in
// differently.
func (r *run) clashes(e *cooperation) map[string][]string {
	out := map[string][]string{}
	for _, key := range e.keys {
		claims := map[string]string{}
		values := map[string]bool{}
		for _, m := range e.members {
			if d, ok := r.last[m].Draft.(map[string]any); ok && d[key] != nil {
				claims[m] = render(d[key])
				values[claims[m]] = true
			}
		}
		if len(values) > 1 {
			for m := range claims {
				out[m] = append(out[m], key)
			}
		}
	}
	return out
}

// Settle puts what there is together.
func (e *cooperation) Settle(ctx context.Context, round []Work) (Verdict, error) {
	r := runOf(ctx)
	took := func(w Work) bool { return w.State != Refused }
	if e.sh.watches("no_taker") && len(round) > 0 && !slices.ContainsFunc(round, took) {
		return Verdict{Cause: CauseNoTaker}, nil
	}
	for _, w := range round {
		if w.State != OK && w.State != Invalid && w.State != Returned {
			return Verdict{Settled: true, Status: agent.Failed, Reason: fmt.Sprintf("%s: %s: %s", w.Author, w.State, w.Why), Output: r.newest()}, nil
		}
	}
	switch {
	case e.mode == Revise:
		return e.revised(ctx, r, round)
	case e.mode == Fields:
		return e.merged(ctx, r, round)
	}
	var list []any
	var subs []Submission
	for _, m := range e.members {
		w := r.last[m]
		if w.State == "" && r.floor.Stopped() != "" {
			continue
		}
		if w.State == "" {
			return Verdict{Settled: true, Status: agent.Failed, Reason: m + " had no turn, and each has to give its part"}, nil
		}
		if w.State != OK || w.Draft == nil {
			return Verdict{Settled: true, Status: agent.Failed, Reason: fmt.Sprintf("%s: %s: %s", m, w.State, w.Why)}, nil
		}
		list = append(list, w.Draft)
		subs = append(subs, Submission{Agent: m, Output: w.Draft, Turn: w.Turn})
	}
	switch {
	case e.mode == Append:
		return Verdict{Settled: true, Output: list}, nil
	case e.fn != nil:
		out, err := protected(func() (any, error) { return e.fn(ctx, subs) })
		if err != nil {
			return Verdict{}, fmt.Errorf("merge: %w", err)
		}
		if out == nil {
			return Verdict{}, errors.New("merge: it returned nothing")
		}
		return Verdict{Settled: true, Output: out}, nil
	}
	d, err := r.decide(ctx, "merge", r.number(), e.by, e.mergePrompt(r, subs))
	if err != nil {
		return Verdict{}, err
	}
	if d.turn.State != OK {
		return Verdict{Settled: true, Status: agent.Failed, Reason: fmt.Sprintf("%s: %s: %s", e.by, d.turn.State, d.turn.Why)}, nil
	}
	return d.w.given(e.by), nil
}

func (e *cooperation) mergePrompt(r *run, subs []Submission) Prompt {
	p := r.deciderPrompt(e.by, ToMerge, "Put the drafts together into one.", e.first)
	for _, s := range subs {
		p.Sections = append(p.Sections, Section{"Draft of " + s.Agent, render(s.Output), TopicDraft, s.Agent, s.Output})
	}
	return p
}

func (e *cooperation) revised(ctx context.Context, r *run, round []Work) (Verdict, error) {
	if e.enough(r) {
		return Verdict{Settled: true, Output: r.newest()}, nil
	}
	return e.until(ctx, r, round)
}

// until asks the author's condition whether what there is will do.
func (e *cooperation) until(ctx context.Context, r *run, round []Work) (Verdict, error) {
	if e.sh.Until == nil {
		return Verdict{}, nil
	}
	ok, err := protected(func() (bool, error) { return e.sh.Until(ctx, round) })
	if err != nil {
		return Verdict{}, fmt.Errorf("until: %w", err)
	}
	return Verdict{Settled: ok, Output: r.newest(), Reason: map[bool]string{true: "until"}[ok]}, nil
}

// merged settles it if no field was filled in differently by several, and none
// that is needed is missing.
func (e *cooperation) merged(ctx context.Context, r *run, round []Work) (Verdict, error) {
	if r.clash = r.clashes(e); len(r.clash) > 0 || len(r.lacking(e)) > 0 || r.sentBack(e) {
		return e.until(ctx, r, round)
	}
	return Verdict{Settled: true, Output: r.newest()}, nil
}

// sentBack reports whether somebody has to do its part again.
func (r *run) sentBack(e *cooperation) bool {
	return slices.ContainsFunc(e.members, func(m string) bool { return r.last[m].State == Returned })
}

// lacking names the fields that are needed and nobody has filled in, and those
// that all have given up who had.
func (r *run) lacking(e *cooperation) (list []string) {
	all, _ := e.together(r).(map[string]any)
	for _, key := range e.keys {
		if all[key] == nil && (r.claimed[key] || slices.Contains(e.needed, key)) {
			list = append(list, key)
		}
	}
	return list
}

// together is what there is so far: of fields and lists all parts, in member
// order; else the last draft.
func (e *cooperation) together(r *run) any {
	var list []any
	fields := map[string]any{}
	for _, m := range e.members {
		if d := r.last[m].Draft; d != nil {
			list = append(list, d)
			if part, ok := d.(map[string]any); ok {
				maps.Copy(fields, part)
			}
		}
	}
	switch {
	case len(list) == 0, e.mode != Fields && e.mode != Append:
		return r.latest
	case e.mode == Append:
		return list
	}
	return fields
}

func (e *cooperation) rounds() int {
	if oneShot(e) {
		return 1
	}
	return e.sh.rounds()
}
