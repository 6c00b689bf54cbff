package society

import "slices"

// Calls is the most calls of models that one run can take: every answer of a
// model repaired once, all its tools used, one escalation at the end. Functions,
// peers and persons ask no model here.
func (i *Interaction) Calls() int {
	chain := i.escalation()
	i.s.mu.Lock()
	defer i.s.mu.Unlock()
	rounds, per, extra := i.asks()
	n := rounds*per + extra
	if j, ok := resolverOf(i.r).(JudgePicks); ok && j.OnNeither == RetryNeither {
		_, again, decide := i.competing()
		n += again + decide
	}
	if i.r.shared().policy() == RetryOnce {
		n += rounds * per
	}
	worst := 0
	for _, name := range chain {
		worst = max(worst, i.asking(name, ToEscalate, NoTools))
	}
	return n + worst
}

// asks counts calls of models: in each of how many rounds, and besides. The
// caller holds the society's lock.
func (i *Interaction) asks() (rounds, per, extra int) {
	rounds, _, _ = i.e.calls()
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
		decide = d.calls(0) * i.asking(d.Judge.Name, ToJudge, NoTools)
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
	switch s := s.(type) {
	case nil:
		return 0
	case *modelSpeaker:
		return 2 + s.hops(use)
	case ofAgent:
		if c, ok := s.a.(interface{ ModelCalls() int }); ok {
			return 2 * c.ModelCalls()
		}
	}
	if !repairs(s, k) {
		return 0
	}
	return 2
}

// hops are the calls that it takes to use tools as often as it may, and to say
// that it is done.
func (s *modelSpeaker) hops(use ToolUse) int {
	if use == NoTools || len(s.Tools(Prompt{Tools: use})) == 0 || s.o.MaxToolHops < 0 {
		return 0
	}
	if s.o.MaxToolHops == 0 {
		return defaultHops + 1
	}
	return s.o.MaxToolHops + 1
}

// defaultHops is what package llm takes for no limit.
const defaultHops = 3
