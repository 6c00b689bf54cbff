package society

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"edged/agent"
	"edged/agent/llm/schema"
	"edged/workflow/society/protocol"
)

// A Submission is what a competitor gave.
type Submission struct {
	Agent  string
	Label  string // what a judge reads in place of the name
	Output any
	Turn   int
}

// competition is the same thing made apart.
type competition struct {
	members []string
	sh      *Shared
	resolve Resolver
	quorum  int
	market  *protocol.Market
	form    *Form
	whole   bool // the form is the output, not its draft
	negot   *Coopetition
	inside  map[string]bool // members
	decide  []string        // who is no member
}

func (d *Competition) bind(_ *Society, m []string) (inner, error) {
	e := &competition{members: m, sh: &d.Shared, resolve: plain(d.Resolve), quorum: d.Quorum}
	draft, err := d.product()
	if err == nil {
		err = e.check()
	}
	if err != nil {
		return nil, err
	}
	if e.market != nil && e.market.Bid != nil {
		e.whole = true
		if e.form, err = boundForm(e.market.Bid); err != nil {
			return nil, fmt.Errorf("bid: %w", err)
		}
		return e, nil
	}
	e.form, err = makeForm(draft)
	return e, err
}

func boundForm(text []byte) (*Form, error) {
	s, err := schema.Parse(text)
	if err != nil {
		return nil, err
	}
	if s.Kind != schema.Object {
		return nil, fmt.Errorf("it is of %s, and a form is an object", s.Kind)
	}
	if s.Bounded() != nil {
		s = s.Bound()
	}
	return newForm(s)
}

// check looks at what both competitions need.
func (e *competition) check() error {
	e.inside, e.decide = map[string]bool{}, decidersOf(e.resolve)
	for _, m := range e.members {
		e.inside[m] = true
	}
	switch {
	case e.resolve == nil:
		return errors.New("it has no resolve: give it JudgePicks, MajorityVote, BestScore, Escalate or a function")
	case e.quorum < 0 || e.quorum > len(e.members):
		return fmt.Errorf("quorum is %d of %d members: it can be 1 to %d, or left out", e.quorum, len(e.members), len(e.members))
	case e.agrees():
	case e.sh.ends() || e.sh.MaxMessages > 0:
		return errors.New("until and max_messages have nothing to say here, for each submits once: the resolver decides; timeout and deadline bound it")
	case slices.ContainsFunc(e.sh.Watch, func(w string) bool { return w != "no_taker" }):
		return errors.New("stalled and unmoved have nothing to watch here, for each submits once: only no_taker can happen")
	case e.negot != nil && e.sh.Protocol != nil:
		return errors.New("a protocol has nothing to say here, for there is nothing to agree on: name topics in cooperate_on, or leave it out")
	}
	if c, ok := e.resolve.(interface{ check(e *competition) error }); ok {
		if err := c.check(e); err != nil {
			return err
		}
	}
	if e.negot != nil || e.sh.Protocol == nil {
		return nil
	}
	switch p := e.sh.Protocol.(type) {
	case *protocol.Market:
		e.market = p
	case protocol.Sealed:
	default:
		return fmt.Errorf("those who compete don't hear each other: its protocol is Market or none, not %T", p)
	}
	return nil
}

// agrees reports whether it is the second half of a coopetition, of which the
// conditions, the watchers and the protocol are for the first.
func (e *competition) agrees() bool { return e.negot != nil && len(e.negot.CooperateOn) > 0 }

func (e *competition) Members() []string { return slices.Clone(e.members) }

// Sees is the task and one's own; those who decide see all without names.
func (e *competition) Sees(viewer, author, topic string) View {
	member := e.inside[viewer]
	switch {
	case viewer == author && member:
		return Full
	case member && author == "" && (topic == TopicTask || topic == TopicComments):
		return Full
	case member && e.market != nil && e.market.Heard && topic == TopicSealed:
		return Full
	case member:
		return Nothing
	case !slices.Contains(e.decide, viewer):
		return Nothing
	case topic == TopicTask, topic == TopicCriteria:
		return Full
	case topic == TopicSealed:
		return Unnamed
	}
	return Nothing
}

func (e *competition) order() protocol.Spec {
	if e.market != nil {
		return e.market
	}
	return protocol.Sealed{}
}

func (e *competition) draftTopic() string { return TopicSealed }
func (e *competition) enough(*run) bool   { return false }

func (e *competition) ask(r *run, who string) (question, bool) {
	q := question{kind: ToSubmit, ask: "Do the task.", form: e.form, tools: ReadTools}
	switch {
	case e.market != nil:
		q.kind, q.ask = ToBid, "Make an offer for the task."
	case e.negot != nil:
		q.ask = "Give your own " + strings.Join(e.negot.CompeteOn, " and ") + "; the others don't see it."
	}
	return q, true
}

func (e *competition) read(r *run, who string, v map[string]any) (Work, error) {
	w := Work{Draft: v["draft"]}
	if e.whole {
		w.Draft = v
	}
	if err := e.afford(r, who, w.Draft); err != nil {
		return Work{}, err
	}
	return w, nil
}

// afford keeps what is bid until the run is over: who bids in several at once may
// win them all.
func (e *competition) afford(r *run, who string, bid any) error {
	if e.market == nil || e.paid() < 0 {
		return nil
	}
	price, ok := e.price(bid)
	if !ok {
		return nil
	}
	if err := e.market.Hold(r.key, who, price); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}

// price is what a bid offers or asks.
func (e *competition) price(bid any) (float64, bool) {
	if b, ok := e.resolve.(BestScore); ok {
		return number(bid, b.Field)
	}
	for _, name := range []string{"price", "cost"} {
		if p, ok := number(bid, name); ok {
			return p, true
		}
	}
	return 0, false
}

// paid is 1 where the winner pays its bid, and -1 where it is paid it.
func (e *competition) paid() float64 {
	if b, ok := e.resolve.(BestScore); ok && b.Lowest {
		return -1
	}
	return 1
}

func number(v any, field string) (float64, bool) {
	if m, ok := v.(map[string]any); ok && field != "" {
		v = m[field]
	}
	switch n := v.(type) {
	case int64:
		return float64(n), true
	case int:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

// standing is what a market tells its bidders: how the last one went, and what
// they have.
func (e *competition) standing(r *run, who string) (list []Section) {
	if !e.inside[who] {
		return nil
	}
	if all := e.market.Outcomes(); len(all) > 0 {
		o := all[len(all)-1]
		text := "nobody won"
		if o.Winner != "" {
			text = fmt.Sprintf("%s won with %v", o.Winner, max(o.Price, -o.Price))
		}
		list = append(list, plainSection("last", "Last time", text))
	}
	if e.market.Budget != nil {
		list = append(list, plainSection("balance", "Your balance", fmt.Sprint(e.market.Free(r.key, who))))
	}
	return list
}

// Settle picks one of those that submitted.
func (e *competition) Settle(ctx context.Context, round []Work) (Verdict, error) {
	r := runOf(ctx)
	subs, why := e.submissions(r, round)
	if len(subs) == 0 {
		v := Verdict{Settled: true, Status: agent.Failed, Reason: "no submission: " + strings.Join(why, "; ")}
		if slices.ContainsFunc(e.members, func(m string) bool { return r.last[m].State == Refused }) {
			v.Reason = string(CauseNoTaker)
			if e.sh.watches("no_taker") {
				return Verdict{Cause: CauseNoTaker}, nil
			}
		}
		if slices.ContainsFunc(round, func(w Work) bool { return w.blocked != "" }) {
			v.Status = agent.Blocked
		}
		return v, nil
	}
	if len(subs) < e.quorum {
		return Verdict{Settled: true, Status: agent.Failed, Reason: fmt.Sprintf("quorum: %d of %d: %s", len(subs), e.quorum, strings.Join(why, "; "))}, nil
	}
	v, err := protected(func() (Verdict, error) { return e.resolve.Resolve(ctx, subs) })
	if err != nil {
		return v, err
	}
	if v.Winner == "" {
		return v, nil
	}
	return e.won(v, subs), nil
}

// won fills in what a winner's verdict has.
func (e *competition) won(v Verdict, subs []Submission) Verdict {
	i := slices.IndexFunc(subs, func(s Submission) bool { return s.Agent == v.Winner })
	if i < 0 {
		return Verdict{Settled: true, Status: agent.Failed, Reason: fmt.Sprintf("%q was picked and has no submission", v.Winner)}
	}
	v.Settled, v.By, v.Output = true, v.Winner, subs[i].Output
	if len(v.Ranking) == 0 {
		v.Ranking = []string{v.Winner}
	}
	return v
}

// clear notes how a market ended, once nothing can change it any more: who won
// pays or is paid, and a market without a winner is an outcome, too.
func (r *run) clear(ctx context.Context, res agent.Result, err error) error {
	e, ok := r.i.e.(*competition)
	if !ok || e.market == nil || agent.StatusOf(err) == agent.Cancelled {
		return nil
	}
	if err != nil || res.Status != "" && res.Status != agent.Done || res.Winner == "" {
		e.market.Settle(r.key, "", 0)
	} else {
		price, _ := e.price(r.last[res.Winner].Draft)
		e.market.Settle(r.key, res.Winner, e.paid()*price)
	}
	return r.s.o.Log.keep(ctx, e.market.Ledger)
}

// submissions gives those that count, in member order, and says of the others
// why not.
func (e *competition) submissions(r *run, round []Work) (subs []Submission, why []string) {
	for _, m := range e.members {
		i := slices.IndexFunc(round, func(w Work) bool { return w.Author == m })
		switch {
		case i < 0:
			why = append(why, fmt.Sprintf("%s: %s", m, r.last[m].State))
		case round[i].State == OK:
			subs = append(subs, Submission{Agent: m, Output: round[i].Draft, Turn: round[i].Turn})
		default:
			why = append(why, fmt.Sprintf("%s: %s: %s", m, round[i].State, round[i].Why))
		}
	}
	return subs, why
}

func (e *competition) rounds() int { return 1 }

// coopetition is a cooperation, then a competition.
type coopetition struct {
	d    *Coopetition
	coop *cooperation // nil: there is nothing to agree on
	comp *competition
}

func (d *Coopetition) bind(_ *Society, m []string) (inner, error) {
	if len(d.CompeteOn) == 0 && d.Resolve != nil {
		return nil, errors.New("compete_on is empty: use Cooperate")
	}
	for _, t := range d.CooperateOn {
		if slices.Contains(d.CompeteOn, t) {
			return nil, fmt.Errorf("they can't both cooperate and compete on %q: name it in one of the two lists", t)
		}
	}
	e := &coopetition{d: d, comp: &competition{members: m, sh: &d.Shared, resolve: plain(d.Resolve), quorum: d.Quorum, negot: d}}
	if err := e.comp.check(); err != nil {
		return nil, err
	}
	draft, err := d.draft(d.CompeteOn)
	if err != nil {
		return nil, err
	}
	if e.comp.form, err = makeForm(draft); err != nil {
		return nil, err
	}
	if len(d.CooperateOn) == 0 {
		return e, nil
	}
	e.coop = &cooperation{members: m, sh: &d.Shared, mode: Revise, spec: d.Protocol}
	object, err := d.object(d.CooperateOn)
	if err != nil {
		return nil, err
	}
	return e, e.coop.forms(object)
}

// draft is one topic as it is, or several as an object.
func (d *Coopetition) draft(topics []string) (field, error) {
	if len(topics) == 1 {
		a, _ := d.artifact(topics[0])
		return a.draft()
	}
	return d.object(topics)
}

func (d *Coopetition) object(topics []string) (field, error) {
	s := &schema.Schema{Kind: schema.Object}
	f := field{name: "draft", schema: s}
	for _, t := range topics {
		a, ok := d.artifact(t)
		if !ok {
			a.MaxTokens = wordsLength / 4
		}
		p, err := a.schema()
		if err != nil {
			return f, err
		}
		f.caps = append(f.caps, limit{"draft", t, a.MaxTokens})
		s.Properties = append(s.Properties, schema.Property{Name: t, Schema: p, Required: true})
	}
	return f, nil
}

func (e *coopetition) Members() []string { return e.comp.Members() }

// Sees goes by topic: what they cooperate on like a cooperation, what they
// compete on like a competition.
func (e *coopetition) Sees(viewer, author, topic string) View {
	if !slices.Contains(e.comp.members, viewer) || viewer == author {
		return e.comp.Sees(viewer, author, topic)
	}
	switch {
	case topic == TopicSealed, slices.Contains(e.d.CompeteOn, topic), author != "" && !slices.Contains(e.comp.members, author):
		return Nothing
	case author == "" && topic == TopicCriteria:
		return Nothing
	}
	return Full
}

// both lets them agree, then compete.
func (e *coopetition) both(ctx context.Context, r *run) (Verdict, error) {
	if e.coop != nil {
		v, err := r.loop(ctx, e.coop)
		if err == nil && v.Cause != "" {
			v, err = r.escalate(ctx, v)
		}
		if err == nil && v.done() {
			r.final(ctx, &v)
		}
		if err != nil || !v.done() {
			return v, err
		}
		r.coop = v
	}
	v, err := r.loop(ctx, e.comp)
	return e.whole(r, v), err
}

// whole puts what was agreed beside what won.
func (e *coopetition) whole(r *run, v Verdict) Verdict {
	if e.coop != nil && v.Settled && v.Winner != "" {
		v.Output = map[string]any{"shared": r.coop.Output, "won": v.Output}
	}
	return v
}

func (e *coopetition) stage() inner {
	if e.coop != nil {
		return e.coop
	}
	return e.comp
}

func (e *coopetition) order() protocol.Spec                    { return e.stage().order() }
func (e *coopetition) draftTopic() string                      { return e.stage().draftTopic() }
func (e *coopetition) enough(r *run) bool                      { return e.stage().enough(r) }
func (e *coopetition) ask(r *run, who string) (question, bool) { return e.stage().ask(r, who) }
func (e *coopetition) read(r *run, who string, v map[string]any) (Work, error) {
	return e.stage().read(r, who, v)
}

// Settle settles what is competed on.
func (e *coopetition) Settle(ctx context.Context, round []Work) (Verdict, error) {
	return e.comp.Settle(ctx, round)
}

func (e *coopetition) rounds() int { return e.stage().rounds() }
