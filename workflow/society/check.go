package society

import (
	"fmt"
	"strings"
	"time"
)

// A Problem is what is wrong with a society, or may be.
type Problem struct {
	Rule    string `json:"rule"`           // "unknown-name", "vote-tie", "no-score", "reasons-last", "timeout", "rehearsal"
	Edge    string `json:"edge,omitempty"` // name of the interaction it is with
	Name    string `json:"name,omitempty"` // that nobody has
	Text    string `json:"text"`
	Hint    string `json:"hint,omitempty"` // what to do about it
	Warning bool   `json:"warning"`        // it runs all the same
}

// ready says if an interaction can't run: names that nobody has.
func (s *Society) ready(i *Interaction) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.missing(i) {
		return fmt.Errorf("%w %s: %s", ErrLoad, s.name, p.Text)
	}
	return nil
}

func (s *Society) missing(i *Interaction) (list []Problem) {
	known := func() string { return strings.Join(names(s.agents), ", ") }
	if e := i.r.escalation(); e != nil && (e.To == "" || s.find(e.To) == nil) {
		list = append(list, Problem{Edge: i.name, Name: e.To, Text: fmt.Sprintf("%s escalates to %q, whom nobody knows; there are %s", i.name, e.To, known())})
	}
	if to := s.o.EscalateTo; to != "" && s.find(to) == nil {
		list = append(list, Problem{Name: to, Text: fmt.Sprintf("escalate_to is %q, whom nobody knows; there are %s", to, known())})
	}
	return list
}

// Check looks the society over, once all edges are made. PerCall is how long a
// model takes for one answer; 0 leaves out what depends on it.
func (s *Society) Check(perCall time.Duration) (list []Problem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	said := map[string]bool{}
	add := func(p Problem) {
		if !said[p.Text] {
			said[p.Text] = true
			list = append(list, p)
		}
	}
	for _, i := range s.edges {
		for _, m := range s.missing(i) {
			m.Rule, m.Hint = "unknown-name", "name an agent of this society or HUMAN, or leave it out: then the caller decides"
			add(m)
		}
		if v, ok := resolverOf(i.r).(MajorityVote); ok && len(v.Voters) == 0 && len(i.members) == 2 {
			add(Problem{Rule: "vote-tie", Edge: i.name, Text: i.name + ": two members that vote for each other always tie", Hint: "name voters who are no members, or say what a tie means", Warning: true})
		}
		if b, ok := resolverOf(i.r).(BestScore); ok {
			if why := b.unread(i); why != "" {
				add(Problem{Rule: "no-score", Edge: i.name, Text: i.name + ": " + why, Hint: "name a number of an artifact, or of the bid of a Market", Warning: true})
			}
		}
		if j, ok := resolverOf(i.r).(JudgePicks); ok {
			if name := j.reasonsLast(); name != "" {
				add(Problem{Rule: "reasons-last", Edge: i.name, Text: fmt.Sprintf("%s: %q of the output_schema comes after \"winner\" in the alphabet: where fields are written in that order, %s decides before it gives reasons", i.name, name, j.Judge.Name),
					Hint: "call it because or rationale", Warning: true})
			}
		}
		sh := i.r.shared()
		if perCall <= 0 || sh.Timeout <= 0 {
			continue
		}
		n := i.roundCalls()
		if need := time.Duration(n) * perCall; need > sh.Timeout {
			add(Problem{Rule: "timeout", Edge: i.name, Text: fmt.Sprintf("%s: a round may take %d model calls of %v, which is more than its timeout of %v", i.name, n, perCall, sh.Timeout),
				Hint: fmt.Sprintf("give it %v, or fewer who are asked", need), Warning: true})
		}
	}
	return list
}

func resolverOf(r Relation) Resolver {
	switch r := r.(type) {
	case *Competition:
		return plain(r.Resolve)
	case *Coopetition:
		return plain(r.Resolve)
	}
	return nil
}
