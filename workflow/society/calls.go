package society

import (
	"slices"

	"edged/workflow"
)

// Calls is the most calls of models that one run can take: every answer of a
// model repaired once, all its tools used, all that guardrails may send back and
// a policy may ask again, one escalation at the end. Functions, peers and
// persons ask no model here.
func (i *Interaction) Calls() int {
	chain := i.escalation()
	i.s.mu.Lock()
	defer i.s.mu.Unlock()
	several, once, decide := i.stages()
	shots, picks := 1, 1
	if i.r.shared().sendsBack() {
		shots = i.r.shared().rounds()
	}
	if j, ok := resolverOf(i.r).(JudgePicks); ok && j.OnNeither == RetryNeither {
		shots, picks = shots+1, 2
	}
	n := several + shots*once + picks*decide
	if i.r.shared().policy() == RetryOnce { // of a round, either its members or those who decide
		n += several + (shots-picks)*once + picks*max(once, decide)
	}
	worst := 0
	for _, name := range chain {
		worst = max(worst, i.asking(name, ToEscalate, NoTools))
	}
	return n + worst
}

// stages counts calls of models: in all rounds where there are several, in the
// one where there is one, and to decide about that.
func (i *Interaction) stages() (several, once, decide int) {
	rounds, per, extra := i.asks()
	if e, ok := i.e.(*coopetition); ok && e.coop != nil {
		_, once, decide = i.competing()
		return rounds * per, once, decide
	}
	if oneShot(i.e) || i.r.kind() == "coopetition" {
		return 0, per, extra
	}
	return rounds * per, 0, extra
}

// roundCalls counts those of the longest round. The caller holds the society's
// lock.
func (i *Interaction) roundCalls() int {
	_, per, extra := i.asks()
	if e, ok := i.e.(*coopetition); ok && e.coop != nil { // they agree in one round and compete in another
		return max(per, extra)
	}
	return per + extra
}

// asks counts calls of models: in each of how many rounds, and besides. The
// caller holds the society's lock.
func (i *Interaction) asks() (rounds, per, extra int) {
	rounds = i.e.rounds()
	switch e := i.e.(type) {
	case *reviewed:
		tools, review := ReadTools, ToReview
		if e.delegation {
			tools, review = AllTools, ToAccept
		}
		per = i.asking(e.worker, ToWork, tools)
		if !e.silent {
			per += i.asking(e.decider, review, NoTools)
		}
	case *cooperation:
		per, extra = i.cooperating(e), i.asking(e.by, ToMerge, NoTools)
	case *competition:
		return i.competing()
	case *coopetition:
		var once int
		_, once, extra = i.competing()
		if extra += once; e.coop == nil {
			return rounds, once, extra - once
		}
		per = i.cooperating(e.coop)
	}
	return rounds, per, extra
}

func (i *Interaction) cooperating(e *cooperation) (n int) {
	for _, m := range e.members {
		first := i.asking(m, ToWork, ReadTools)
		if e.mode == Revise {
			first = max(first, i.asking(m, ToAgree, ReadTools))
		}
		n += first
	}
	return n
}

// competing counts those of a competition: to submit, and to decide.
func (i *Interaction) competing() (rounds, per, decide int) {
	kind := ToSubmit
	if c, ok := i.e.(*competition); ok && c.market != nil {
		kind = ToBid
	}
	for _, m := range i.members {
		per += i.asking(m, kind, ReadTools)
	}
	switch d := resolverOf(i.r).(type) {
	case JudgePicks:
		decide = d.asks() * i.asking(d.Judge.Name, ToJudge, NoTools)
	case MajorityVote:
		voters := decidersOf(d)
		if len(voters) == 0 {
			voters = slices.Clone(i.members)
		}
		for _, v := range voters {
			decide += i.asking(v, ToVote, NoTools)
		}
	}
	return 1, per, decide
}

// asking gives the calls that one turn can take.
func (i *Interaction) asking(who string, k Kind, use ToolUse) int {
	if who == "" {
		return 0
	}
	a := i.s.find(who)
	if a == nil {
		return 0
	}
	s := a.Speaker
	if m, ok := s.(kinds); ok {
		s = m.of(k)
	}
	if c, ok := s.(TurnCaller); ok {
		return c.TurnCalls(Prompt{Kind: k, Tools: use})
	}
	if s == nil || !repairs(s, k) {
		return 0
	}
	return 2
}

// A TurnCaller is a speaker that says how often it asks models at most in a
// turn, repair included. One that doesn't is taken to ask twice; functions and
// peers never do.
type TurnCaller interface{ TurnCalls(p Prompt) int }

var (
	_ TurnCaller = (*modelSpeaker)(nil)
	_ TurnCaller = ofAgent{}
)

// TurnCalls is an answer and its repair, and before these as many as it takes
// to use tools as often as it may and to say that it is done.
func (s *modelSpeaker) TurnCalls(p Prompt) int {
	switch {
	case len(s.Tools(p)) == 0 || s.o.MaxToolHops < 0:
		return 2
	case s.o.MaxToolHops == 0:
		return 2 + defaultHops + 1
	}
	return 2 + s.o.MaxToolHops + 1
}

// TurnCalls is what two runs of the agent take, or its only one.
func (s ofAgent) TurnCalls(Prompt) int {
	n := max(workflow.ModelCalls(s.a), 0)
	if s.once {
		return n
	}
	return 2 * n
}

// defaultHops is what package llm takes for no limit.
const defaultHops = 3

// ModelCalls is [Interaction.Calls], for a graph that has this one as a node.
func (i *Interaction) ModelCalls() int { return i.Calls() }
