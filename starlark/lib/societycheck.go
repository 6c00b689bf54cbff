package lib

import (
	"fmt"
	"slices"
	"time"

	"edged/starlark/script"
	"edged/starlark/value"
	"edged/workflow/society"
)

// societyErrors looks over the societies that the top level made, when all
// their agents are there.
func (b *Behaviour) societyErrors() (list script.Errors) {
	for _, s := range b.communes() {
		s.invite()
		for _, p := range s.s.Check(0) {
			if p.Warning {
				continue
			}
			at, hint := s.place(p), p.Hint
			if near := value.Nearest(p.Name, s.names()); near != "" {
				hint = fmt.Sprintf("did you mean %q?", near)
			}
			list = append(list, &script.Error{Position: at, Code: b.line(at), Msg: fmt.Sprintf("society %s: %s", s.s.Name(), p.Text), Hint: hint})
		}
	}
	return list
}

// invite adds those agents of the script that escalations name and that are in
// no edge.
func (s *commune) invite() {
	for _, p := range s.s.Check(0) {
		for _, a := range s.b.Agents() {
			if p.Name != "" && a.Name() == p.Name {
				_, _ = (&appeal{to: a}).in(s) // who can't be added is unknown
				break
			}
		}
	}
}

// societyWarnings are those of the check.
func (b *Behaviour) societyWarnings(perCall time.Duration) (list []Problem) {
	for _, s := range b.communes() {
		for _, p := range s.s.Check(perCall) {
			if p.Warning {
				list = append(list, Problem{s.place(p), "society-" + p.Rule, fmt.Sprintf("society %s: %s", s.s.Name(), p.Text), p.Hint})
			}
		}
	}
	return list
}

func (b *Behaviour) communes() []*commune {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.societies)
}

// place is where a problem was written.
func (s *commune) place(p society.Problem) script.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.links {
		if l.Name() == p.Edge && p.Edge != "" {
			return l.at
		}
	}
	return s.at
}

func (s *commune) names() (list []string) {
	for _, a := range s.s.Agents() {
		list = append(list, a.Name)
	}
	return append(list, society.HUMAN)
}
