package society

import (
	"context"
	"slices"

	"edged/agent"
)

// The law of this file: a peer that proposed is told what came of it, once the
// outcome is final, and is not told more of its rivals than the edge shows.

// award tells the peers that were called for proposals what came of it.
func (r *run) award(ctx context.Context, res agent.Result, err error) {
	comp := r.proposals()
	if comp == nil {
		return
	}
	done := err == nil && (res.Status == agent.Done || res.Status == "")
	winner := ""
	if done {
		winner = res.Winner
	}
	type told struct {
		p *peer
		t Turn
	}
	var all []told
	r.mu.Lock()
	for _, name := range comp.members {
		for _, t := range slices.Backward(r.turns) {
			if t.Speaker == name && called(t.Kind) {
				if p := peerOf(r.s.agent(name), t.Kind); p != nil {
					all = append(all, told{p, t})
				}
				break
			}
		}
	}
	r.mu.Unlock()
	for _, x := range all {
		if m := verdictFor(x.t, winner, res, done); m != nil {
			r.say(ctx, x.p, x.t, m)
		}
	}
	if comp.market == nil {
		return
	}
	outcome := map[string]any{"status": string(res.Status)}
	if res.Status == "" {
		outcome["status"] = string(agent.StatusOf(err))
	}
	if winner != "" {
		outcome["winner"] = winner
		if price, ok := comp.price(r.last[winner].Draft); ok {
			outcome["price"] = price
		}
	}
	for _, x := range all {
		m := map[string]any{"kind": KindResult}
		for k, v := range outcome {
			m[k] = v
		}
		if comp.market.Budget != nil {
			m["balance"] = comp.market.Balance(x.t.Speaker)
		}
		r.say(ctx, x.p, x.t, m)
	}
}

// proposals is the competition in which members were called for proposals.
func (r *run) proposals() *competition {
	switch e := r.i.e.(type) {
	case *competition:
		return e
	case *coopetition:
		return e.comp
	}
	return nil
}

// verdictFor is the answer to a proposal; nil: there was none.
func verdictFor(t Turn, winner string, res agent.Result, done bool) map[string]any {
	reject := map[string]any{"kind": KindReject}
	switch {
	case t.State == OK && t.Speaker == winner:
		return map[string]any{"kind": KindAccept}
	case t.State == OK && done:
		reject["reason"] = "another was picked"
	case t.State == OK:
		reject["reason"] = "nobody was picked"
		if res.Status != "" && res.Status != agent.Failed {
			reject["reason"] = "nobody was picked: " + string(res.Status)
		}
	case t.State == Invalid:
		reject["reason"] = "malformed: " + clip(t.Why, wordsLength)
	case t.State == Late:
		reject["reason"] = "late"
	default:
		return nil
	}
	return reject
}

func (r *run) say(ctx context.Context, p *peer, t Turn, m map[string]any) {
	m["id"], m["from"] = r.wireID(t.N), r.s.name
	p.tell(ctx, m)
}

// peerOf gives the peer that takes an agent's turns of a kind.
func peerOf(a *Agent, k Kind) *peer {
	if a == nil {
		return nil
	}
	s := a.Speaker
	if m, ok := s.(kinds); ok {
		s = m.of(k)
	}
	p, _ := s.(*peer)
	return p
}
