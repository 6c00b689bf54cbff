package society

import (
	"slices"

	"edged/agent"
)

// proceedings are how the run went, for its result.
func (r *run) proceedings(v Verdict, done bool) *agent.Proceedings {
	p := &agent.Proceedings{Rounds: r.rounds, Degraded: done && r.degraded}
	r.mu.Lock()
	for _, t := range r.turns {
		if t.Kind == toEvent {
			continue
		}
		p.Turns = append(p.Turns, agent.Turn{N: t.N, Round: t.Round, Speaker: t.Speaker, Kind: string(t.Kind), State: string(t.State), Verdict: t.Verdict, Why: t.Why, Asked: t.Asked})
		switch t.Kind {
		case ToReview, ToAccept, ToJudge, ToEscalate:
			if t.State == OK {
				p.Verdict = t.Verdict
			}
		}
	}
	r.mu.Unlock()
	if v.Winner != "" {
		p.Verdict = v.Winner
		p.Ranking = r.ranking(v)
	}
	for _, m := range r.i.members {
		if w, ok := r.last[m]; ok && done && w.State != OK && w.State != Returned {
			p.Degraded = true
		}
	}
	return p
}

// ranking is who is next if the winner fails: as the resolver ranked them; where
// it named one alone, the others that submitted follow in member order.
func (r *run) ranking(v Verdict) []string {
	if len(v.Ranking) > 1 || resolverRanks(resolverOf(r.rel)) {
		return v.Ranking
	}
	list := []string{v.Winner}
	for _, m := range r.i.members {
		if r.last[m].State == OK && !slices.Contains(list, m) {
			list = append(list, m)
		}
	}
	return list
}

func resolverRanks(res Resolver) bool {
	_, ok := res.(BestScore)
	return ok
}
