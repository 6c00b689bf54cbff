package society

import (
	"fmt"
	"time"
)

// A Problem is what is wrong with a society, or may be.
type Problem struct {
	Text    string
	Warning bool // it runs all the same
}

// ready says if an interaction can't run: names that nobody has.
func (s *Society) ready(i *Interaction) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.missing(i) {
		return fmt.Errorf("%w %s: %s", ErrLoad, s.name, p)
	}
	return nil
}

func (s *Society) missing(i *Interaction) (list []string) {
	known := func() (out []string) {
		for _, a := range s.agents {
			out = append(out, a.Name)
		}
		return out
	}
	if e := i.r.escalation(); e != nil && (e.To == "" || s.find(e.To) == nil) {
		list = append(list, fmt.Sprintf("%s escalates to %q, whom nobody knows; there are %v", i.name, e.To, known()))
	}
	if to := s.o.EscalateTo; to != "" && s.find(to) == nil {
		list = append(list, fmt.Sprintf("escalate_to is %q, whom nobody knows; there are %v", to, known()))
	}
	return list
}

// Check looks the society over, once all edges are made. PerCall is how long a
// model takes for one answer; 0 leaves out what depends on it.
func (s *Society) Check(perCall time.Duration) (list []Problem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	said := map[string]bool{}
	add := func(warning bool, format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		if !said[text] {
			said[text] = true
			list = append(list, Problem{text, warning})
		}
	}
	for _, i := range s.edges {
		for _, m := range s.missing(i) {
			add(false, "%s", m)
		}
		if v, ok := resolverOf(i.r).(MajorityVote); ok && len(v.Voters) == 0 && len(i.members) == 2 {
			add(true, "%s: two members that vote for each other always tie: name voters", i.name)
		}
		sh := i.r.shared()
		if perCall <= 0 || sh.Timeout <= 0 {
			continue
		}
		_, per, extra := i.e.calls()
		if need := time.Duration(2*(per+extra)) * perCall; need > sh.Timeout {
			add(true, "%s: a round may take %d model calls of %v, which is more than its timeout of %v", i.name, 2*(per+extra), perCall, sh.Timeout)
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

// Calls is the most model calls that one run can take: every answer repaired
// once, one escalation at the end.
func (i *Interaction) Calls() int {
	rounds, per, extra := i.e.calls()
	n := rounds*per + extra + 1
	if j, ok := resolverOf(i.r).(JudgePicks); ok && j.OnNeither == RetryNeither {
		n += per + extra
	}
	if i.r.shared().OnTimeout == RetryOnce {
		n += rounds * per
	}
	return 2 * n
}
