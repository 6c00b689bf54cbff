package society

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"sync"

	"edged/agent"
	"edged/agent/llm/schema"
)

// A Resolver picks one of the submissions. A verdict without a winner that has
// a Cause goes up the escalation chain. It is called with the run in ctx.
type Resolver interface {
	Resolve(ctx context.Context, subs []Submission) (Verdict, error)
}

// ResolveFunc is a function as resolver: it names the winner, or nobody. State
// is what [Options.State] gave.
type ResolveFunc func(ctx context.Context, subs []Submission, state map[string]any) (winner string, err error)

// Resolve asks the function.
func (f ResolveFunc) Resolve(ctx context.Context, subs []Submission) (Verdict, error) {
	var state map[string]any
	if r := runOf(ctx); r != nil {
		state = r.state
		subs = r.inOrder(r.labelled(subs))
	}
	name, err := f(ctx, subs, state)
	if err != nil {
		return Verdict{}, fmt.Errorf("resolve: %w", err)
	}
	if name == "" {
		return Verdict{Cause: CauseNoWinner}, nil
	}
	return Verdict{Winner: name}, nil
}

// Resolve lets the target decide.
func (e *Escalate) Resolve(context.Context, []Submission) (Verdict, error) {
	return Verdict{Cause: CauseAsked}, nil
}

func escalateOf(r Resolver) *Escalate {
	e, _ := r.(*Escalate)
	return e
}

// plain gives a resolver as a value: pointers to them are resolvers too.
func plain(r Resolver) Resolver {
	switch p := r.(type) {
	case *JudgePicks:
		return *p
	case *MajorityVote:
		return *p
	case *BestScore:
		return *p
	}
	return r
}

func agentsOf(r Resolver) []*Agent {
	switch r := plain(r).(type) {
	case JudgePicks:
		if r.Judge != nil {
			return []*Agent{r.Judge}
		}
	case MajorityVote:
		return r.Voters
	}
	return nil
}

func decidersOf(r Resolver) []string { return names(agentsOf(r)) }

// OnNeither says what follows when a judge picks nobody.
type OnNeither string

// What follows; empty is EscalateNeither.
const (
	EscalateNeither OnNeither = "escalate"
	RetryNeither    OnNeither = "retry" // one more round of submissions, then the best effort
	BestEffort      OnNeither = "best_effort"
)

// JudgePicks lets an agent read the submissions as A, B, C in an order drawn
// by the society's seed, and pick one.
type JudgePicks struct {
	Judge        *Agent
	Criteria     []string
	OutputSchema json.RawMessage // with a string winner; nil = {because, winner}
	OnNeither    OnNeither
	Swap         bool // ask again in the reverse order; if that picks another, it is a tie
}

func (j JudgePicks) check(*competition) error {
	switch j.OnNeither {
	case "", EscalateNeither, RetryNeither, BestEffort:
	default:
		return fmt.Errorf("on_neither is %q; it is \"escalate\", \"retry\" or \"best_effort\"", j.OnNeither)
	}
	if j.Judge == nil {
		return errors.New("JudgePicks needs a judge")
	}
	_, err := j.form([]string{"A"})
	return err
}

// asks is how often the judge is asked about the same submissions.
func (j JudgePicks) asks() int {
	if j.Swap {
		return 2
	}
	return 1
}

// form is the judge's: the winner is a label or none.
func (j JudgePicks) form(labels []string) (*Form, error) {
	winner := oneOf(append(slices.Clone(labels), "none")...)
	if j.OutputSchema == nil {
		return makeForm(field{name: "because", schema: textOf(wordsLength)}, field{name: "winner", schema: winner})
	}
	s, err := schema.Parse(j.OutputSchema)
	if err != nil {
		return nil, fmt.Errorf("output_schema: %w", err)
	}
	p := s.Property("winner")
	if p == nil || !p.Required || p.Schema.Kind != schema.String {
		return nil, errors.New("output_schema needs a required string \"winner\"")
	}
	decision := schema.Property{Name: "winner", Schema: winner, Required: true}
	s.Properties = append(slices.DeleteFunc(s.Properties, func(p schema.Property) bool { return p.Name == "winner" }), decision) // reasons come first
	if s.Bounded() != nil {
		s = s.Bound()
	}
	return newForm(s)
}

// reasonsLast names a field of the author's form that servers which write
// fields in the order of the alphabet have written after the decision; "" is
// none.
func (j JudgePicks) reasonsLast() string {
	if j.OutputSchema == nil {
		return ""
	}
	s, err := schema.Parse(j.OutputSchema)
	if err != nil {
		return ""
	}
	for _, p := range s.Properties {
		if p.Name > "winner" {
			return p.Name
		}
	}
	return ""
}

// Resolve asks the judge.
func (j JudgePicks) Resolve(ctx context.Context, subs []Submission) (Verdict, error) {
	r := runOf(ctx)
	subs = r.labelled(subs)
	form, err := j.form(labels(subs))
	if err != nil {
		return Verdict{}, err
	}
	first, because, ok, err := j.ask(ctx, r, "judge", subs, form)
	if err != nil {
		return Verdict{}, err
	}
	if !ok {
		return j.neither(ctx, r, subs, because, CauseNoWinner)
	}
	if !j.Swap {
		return j.picked(ctx, r, subs, first, because)
	}
	again := slices.Clone(subs)
	slices.Reverse(again)
	for i := range again { // the labels stay where they are: who likes an A better likes another one now
		again[i].Label = label(i)
	}
	second, more, ok, err := j.ask(ctx, r, "judge again", again, form)
	switch {
	case err != nil:
		return Verdict{}, err
	case !ok:
		return j.neither(ctx, r, subs, more, CauseNoWinner)
	case named(subs, first) != named(again, second):
		return j.neither(ctx, r, subs, "the judge picked another one in the reverse order", CauseTie)
	}
	return j.picked(ctx, r, subs, first, because)
}

func (j JudgePicks) picked(ctx context.Context, r *run, subs []Submission, label, because string) (Verdict, error) {
	if label == "none" {
		r.reasons, r.judged = because, subs // the judge's own words; why it gave no answer is not for those who compete
		return j.neither(ctx, r, subs, because, CauseNoWinner)
	}
	return Verdict{Winner: named(subs, label), Reason: because}, nil
}

// ask gives the label that the judge picked; ok is false if it can't be read.
func (j JudgePicks) ask(ctx context.Context, r *run, key string, subs []Submission, form *Form) (label, because string, ok bool, err error) {
	d, err := r.decide(ctx, key, r.numberFor(key), j.Judge.Name, j.prompt(r, subs, form))
	if err != nil {
		return "", "", false, err
	}
	if d.turn.State != OK {
		return "", fmt.Sprintf("%s: %s", d.turn.State, d.turn.Why), false, nil
	}
	label, _ = d.v["winner"].(string)
	for _, name := range []string{"because", "rationale", "reason"} { // forms of one's own call it so
		if because == "" {
			because, _ = d.v[name].(string)
		}
	}
	return label, because, true, nil
}

func (j JudgePicks) prompt(r *run, subs []Submission, form *Form) Prompt {
	p := r.deciderPrompt(j.Judge.Name, ToJudge, "Pick the best submission, or none.", form)
	if len(j.Criteria) > 0 {
		p.Sections = append(p.Sections, plainSection(TopicCriteria, "Criteria", strings.Join(j.Criteria, "; ")))
	}
	p.Sections = append(p.Sections, unnamed(subs)...)
	return p
}

// neither is what follows when nobody was picked.
func (j JudgePicks) neither(ctx context.Context, r *run, subs []Submission, because string, cause Cause) (Verdict, error) {
	switch {
	case j.OnNeither == RetryNeither && !r.retried:
		r.retried, r.degraded = true, true
		return Verdict{again: true}, nil
	case j.OnNeither == RetryNeither, j.OnNeither == BestEffort:
		for _, s := range r.inOrder(subs) {
			if r.look(ctx, s.Agent, s.Output, onlyBlock).blocked == "" {
				r.degraded = true
				return Verdict{Winner: s.Agent, Reason: "best effort: " + because}, nil
			}
		}
		return Verdict{Settled: true, Status: agent.Failed, Reason: "no submission passes the guardrails"}, nil
	}
	return Verdict{Cause: cause, Reason: because}, nil
}

// Tie says what follows when votes don't decide.
type Tie string

// What follows; empty is TieEscalate.
const (
	TieEscalate Tie = "escalate"
	TieFirst    Tie = "first" // in member order
)

// MajorityVote lets agents vote; without voters the members do, each for
// another one. Who gives no valid vote abstains.
type MajorityVote struct {
	Voters []*Agent
	Tie    Tie
	// TieFunc breaks a tie in place of Tie; "" leaves it to the escalation chain.
	TieFunc func(ctx context.Context, tied []Submission) (winner string, err error)
}

func (m MajorityVote) check(*competition) error {
	if m.Tie != "" && m.Tie != TieEscalate && m.Tie != TieFirst {
		return fmt.Errorf("tie is %q; it is \"escalate\", \"first\" or a function", m.Tie)
	}
	for i, v := range m.Voters {
		if slices.Contains(m.Voters[:i], v) {
			return fmt.Errorf("%q votes twice: name it once", v.Name)
		}
	}
	return nil
}

// Resolve counts votes.
func (m MajorityVote) Resolve(ctx context.Context, subs []Submission) (Verdict, error) {
	r := runOf(ctx)
	voters := decidersOf(m)
	if len(voters) == 0 {
		voters = r.i.Members()
	}
	subs = r.labelled(subs)
	votes := make([]vote, len(voters))
	errs := make([]error, len(voters))
	var ballots []func()
	for k, v := range voters {
		mine := slices.DeleteFunc(slices.Clone(subs), func(s Submission) bool { return s.Agent == v })
		votes[k].by = v
		if len(mine) == 0 {
			continue
		}
		n := r.numberFor("vote " + v)
		p, err := m.prompt(r, v, mine)
		if err != nil {
			return Verdict{}, err
		}
		votes[k].missing = "no vote"
		ballots = append(ballots, func() {
			d, err := r.decide(ctx, "vote "+v, n, v, p)
			if errs[k] = err; err != nil {
				return
			}
			if votes[k].missing = fmt.Sprintf("%s: %s", d.turn.State, d.turn.Why); d.turn.State == OK {
				votes[k].of, votes[k].missing = named(mine, d.w.Decision), ""
			}
		})
	}
	var wg sync.WaitGroup
	for _, b := range ballots {
		wg.Go(b)
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return Verdict{}, err
	}
	return m.count(ctx, r, subs, votes)
}

// A vote is what came of a ballot.
type vote struct {
	by, of  string
	missing string // why there is none, of somebody who was asked
}

func (m MajorityVote) prompt(r *run, voter string, subs []Submission) (Prompt, error) {
	form, err := makeForm(field{name: "because", schema: textOf(wordsLength)}, field{name: "winner", schema: oneOf(labels(subs)...)})
	if err != nil {
		return Prompt{}, err
	}
	p := r.deciderPrompt(voter, ToVote, "Vote for the best submission.", form)
	p.Sections = append(p.Sections, unnamed(subs)...)
	return p, nil
}

// count takes the one with the most votes. Whose own ballot is missing does not
// win by that: it could have gone to the next one, and then they would be level.
func (m MajorityVote) count(ctx context.Context, r *run, subs []Submission, votes []vote) (Verdict, error) {
	r.inOrder(subs)
	counts, silent := map[string]int{}, map[string]string{}
	for _, v := range votes {
		if v.of != "" {
			counts[v.of]++
		}
		if v.missing != "" {
			silent[v.by], r.degraded = v.missing, true
		}
	}
	sort.SliceStable(subs, func(i, j int) bool { return counts[subs[i].Agent] > counts[subs[j].Agent] })
	first := subs[0].Agent
	top, level := counts[first], counts[first]
	why := fmt.Sprintf("%d of %d votes", top, len(votes))
	alone := len(subs) < 2 || counts[subs[1].Agent] < top
	if alone && silent[first] != "" {
		level--
	}
	tied := subs[:0:0]
	for _, s := range subs {
		if counts[s.Agent] >= level {
			tied = append(tied, s)
		}
	}
	r.inOrder(tied)
	v := Verdict{Winner: first, Reason: why}
	for _, s := range subs {
		v.Ranking = append(v.Ranking, s.Agent)
	}
	switch {
	case len(tied) == 1 && top > 0:
		return v, nil
	case m.TieFunc != nil:
		name, err := m.TieFunc(ctx, tied)
		if err != nil {
			return Verdict{}, fmt.Errorf("tie: %w", err)
		}
		if name != "" {
			v.Winner, v.Ranking, v.Reason = name, nil, "tie: "+v.Reason
			return v, nil
		}
	case m.Tie == TieFirst:
		r.degraded = true
		v.Winner, v.Reason = tied[0].Agent, "tie: "+v.Reason
		return v, nil
	}
	if level < top {
		return Verdict{Cause: CauseTie, Reason: fmt.Sprintf("%s has %s, and its own is missing: %s", first, why, silent[first])}, nil
	}
	return Verdict{Cause: CauseTie, Reason: fmt.Sprintf("%d submissions with %d votes", len(tied), top)}, nil
}

// BestScore picks by a number in the submission, without a model.
type BestScore struct {
	Field   string
	Lowest  bool     // the lowest is the best
	Reserve *float64 // what is worse than this is not picked
	Tie     string   // field that decides between equals, in the same direction; then member order
}

func (b BestScore) check(e *competition) error {
	if b.Field == "" {
		return errors.New("BestScore needs the field of the score")
	}
	return nil
}

// unread says which field the submissions of an edge can't have; "" is none.
func (b BestScore) unread(i *Interaction) string {
	var form *Form
	switch e := i.e.(type) {
	case *competition:
		form = e.form
	case *coopetition:
		form = e.comp.form
	}
	if form == nil {
		return ""
	}
	s := form.s
	if p := s.Property("draft"); p != nil && len(s.Properties) == 1 {
		s = p.Schema
	}
	scores := func(s *schema.Schema) bool { return s.Kind == schema.Integer || s.Kind == schema.Number }
	if scores(s) {
		return ""
	}
	for _, name := range []string{b.Field, b.Tie} {
		if p := s.Property(name); name != "" && (p == nil || !scores(p.Schema)) {
			return fmt.Sprintf("BestScore compares %q, and submissions have no such number: they are %s", name, s.Prose())
		}
	}
	return ""
}

// Resolve compares.
func (b BestScore) Resolve(ctx context.Context, subs []Submission) (Verdict, error) {
	better := func(x, y float64) bool { return x > y }
	if b.Lowest {
		better = func(x, y float64) bool { return x < y }
	}
	type scored struct {
		Submission
		score, second float64
		has           bool
	}
	var list []scored
	below := 0
	for _, s := range subs {
		x, ok := number(s.Output, b.Field)
		if !ok {
			continue
		}
		if b.Reserve != nil && better(*b.Reserve, x) {
			below++
			continue
		}
		y, has := number(s.Output, b.Tie)
		list = append(list, scored{s, x, y, has})
	}
	if len(list) == 0 {
		if below > 0 {
			return Verdict{Cause: CauseReserve, Reason: fmt.Sprintf("none of %d reaches %v", below, *b.Reserve)}, nil
		}
		return Verdict{Settled: true, Status: agent.Failed, Reason: fmt.Sprintf("no submission has a number in %q", b.Field)}, nil
	}
	sort.SliceStable(list, func(i, j int) bool {
		x, y := &list[i], &list[j]
		return better(x.score, y.score) || !better(y.score, x.score) && x.has && y.has && better(x.second, y.second)
	})
	v := Verdict{Winner: list[0].Agent, Reason: fmt.Sprintf("%s is %v", b.Field, list[0].score)}
	for _, s := range list {
		v.Ranking = append(v.Ranking, s.Agent)
	}
	return v, nil
}

// labelled gives the submissions their labels, in the order of the draw.
func (r *run) labelled(subs []Submission) []Submission {
	out := slices.Clone(subs)
	h := uint64(14695981039346656037)
	for _, c := range []byte(r.task.Text() + "\x00" + r.i.name) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	draw := rand.New(rand.NewPCG(r.s.o.Seed, h))
	draw.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	for i := range out {
		out[i].Label = label(i)
	}
	return out
}

// inOrder sorts submissions in member order, where they are.
func (r *run) inOrder(subs []Submission) []Submission {
	sort.Slice(subs, func(i, j int) bool {
		return slices.Index(r.i.members, subs[i].Agent) < slices.Index(r.i.members, subs[j].Agent)
	})
	return subs
}

// label is A, B, … Z, A2, B2, …
func label(i int) string {
	s := string(rune('A' + i%26))
	if i >= 26 {
		s += fmt.Sprint(i/26 + 1)
	}
	return s
}

func labels(subs []Submission) (list []string) {
	for _, s := range subs {
		list = append(list, s.Label)
	}
	slices.Sort(list)
	return list
}

func named(subs []Submission, label string) string {
	for _, s := range subs {
		if s.Label == label {
			return s.Agent
		}
	}
	return ""
}

func unnamed(subs []Submission) (list []Section) {
	for _, s := range subs {
		list = append(list, Section{"Submission " + s.Label, render(s.Output), sectionSubmission, s.Label, s.Output})
	}
	return list
}

// deciderPrompt begins what somebody who decides is told.
func (r *run) deciderPrompt(who string, k Kind, ask string, form *Form) Prompt {
	p := Prompt{Kind: k, To: who, Round: r.round, Task: r.task, Ask: ask, Form: form, Origin: r.whose()}
	if a := r.s.agent(who); a != nil {
		p.Role = a.Role
	}
	p.Sections = []Section{r.taskSection()}
	return p
}

func (r *run) isRevoked(name string) bool { return r.s.isRevoked(name) }

// numberFor gives a question its number, and none to one that was answered.
func (r *run) numberFor(key string) int {
	if _, ok := r.remember(key); ok {
		return 0
	}
	return r.number()
}
