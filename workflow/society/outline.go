package society

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"edged/workflow/society/protocol"
)

// An Outline is a society as an operator looks at it: who is in it, who is told
// what, who speaks to whom, and what is wrong. It is made without asking
// anybody, and has a JSON form.
type Outline struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitempty"`
	EscalateTo  string         `json:"escalateTo,omitempty"`
	Agents      []AgentOutline `json:"agents"`
	Edges       []EdgeOutline  `json:"edges"`
	Problems    []Problem      `json:"problems,omitempty"`
}

// An AgentOutline is one who takes turns.
type AgentOutline struct {
	Name string `json:"name"`
	Role string `json:"role,omitempty"`
	Is   string `json:"is"` // "model", "function", "peer robots/mule/turns", "person"
}

// An EdgeOutline is an interaction.
type EdgeOutline struct {
	Name       string   `json:"name"`
	Type       string   `json:"type"`
	Members    []string `json:"members"` // of a binary edge source, then target
	Deciders   []string `json:"deciders,omitempty"`
	Resolve    string   `json:"resolve,omitempty"`
	Protocol   string   `json:"protocol"`
	Escalation []string `json:"escalation,omitempty"` // who decides if nobody else could, the nearest first; then the caller
	MaxRounds  int      `json:"maxRounds"`
	Timeout    string   `json:"timeout,omitempty"` // of a round
	OnTimeout  string   `json:"onTimeout,omitempty"`
	Deadline   string   `json:"deadline,omitempty"`
	Quorum     int      `json:"quorum,omitempty"`
	Artifacts  []string `json:"artifacts,omitempty"`
	Events     []string `json:"events,omitempty"`
	Guardrails []string `json:"guardrails,omitempty"`
	Watch      []string `json:"watch,omitempty"`
	Sights     []Sight  `json:"sights"`
	Seats      []Seat   `json:"seats"`
	Speakers   []string `json:"speakers"` // of three rounds: "round 1: a → b, c"
	Calls      int      `json:"worstCaseModelCalls"`
}

// Outline describes the society. PerCall is how long a model takes for one
// answer; 0 leaves out the warnings that need it.
func (s *Society) Outline(perCall time.Duration) Outline {
	o := Outline{Name: s.name, Description: s.o.Description, EscalateTo: s.o.EscalateTo, Agents: []AgentOutline{}, Edges: []EdgeOutline{}}
	o.Problems = s.Check(perCall)
	agents := s.Agents()
	if h := s.o.Human; h != nil && !slices.Contains(agents, h) && slices.ContainsFunc(s.AllEdges(), func(i *Interaction) bool {
		return slices.Contains(i.escalation(), h.Name)
	}) {
		agents = append(agents, h)
	}
	for _, a := range agents {
		is := speakerWords(a.Speaker)
		if a == s.o.Human {
			is = "person"
		}
		o.Agents = append(o.Agents, AgentOutline{a.Name, a.Role, is})
	}
	for _, i := range s.AllEdges() {
		e, err := i.outline()
		if err != nil {
			o.Problems = append(o.Problems, Problem{Rule: "rehearsal", Edge: i.name, Text: fmt.Sprintf("%s: %v", i.name, err)})
		}
		o.Edges = append(o.Edges, e)
	}
	return o
}

func speakerWords(s Speaker) string {
	switch s := s.(type) {
	case fmt.Stringer:
		return s.String()
	case *modelSpeaker:
		return "model"
	case funcSpeaker:
		return "function"
	case *peer:
		return "peer " + s.topic
	case ofAgent:
		return "agent " + s.a.Name()
	case kinds:
		var list []string
		for _, k := range slices.Sorted(maps.Keys(s)) {
			is := speakerWords(s[k])
			if k != "" {
				is = string(k) + " " + is
			}
			list = append(list, is)
		}
		return strings.Join(list, ", ")
	}
	return "agent"
}

// outline describes the interaction; with an error it lacks what could not be
// rehearsed.
func (i *Interaction) outline() (e EdgeOutline, err error) {
	sh := i.r.shared()
	rounds := i.e.rounds()
	e = EdgeOutline{Name: i.name, Type: i.r.kind(), Members: i.Members(), Deciders: i.r.deciders(),
		Protocol: protocolWords(i.e.order()), Escalation: i.escalation(), MaxRounds: rounds, Events: i.events(),
		Watch: sh.Watch, Sights: i.Sights(), Seats: []Seat{}, Speakers: []string{}, Calls: i.Calls()}
	if sh.Timeout > 0 {
		e.Timeout, e.OnTimeout = sh.Timeout.String(), string(sh.policy())
	}
	if sh.Deadline > 0 {
		e.Deadline = sh.Deadline.String()
	}
	switch r := i.r.(type) {
	case *Competition:
		e.Resolve, e.Quorum = resolverWords(r.Resolve), r.Quorum
	case *Coopetition:
		e.Resolve, e.Quorum = resolverWords(r.Resolve), r.Quorum
		e.Artifacts = append(slices.Clone(r.CooperateOn), r.CompeteOn...)
	}
	for _, a := range sh.Artifacts {
		if !slices.Contains(e.Artifacts, a.Name) {
			e.Artifacts = append(e.Artifacts, a.Name)
		}
	}
	for _, g := range sh.Guardrails {
		e.Guardrails = append(e.Guardrails, g.Name)
	}
	if seats, bad := protected(func() ([]Seat, error) { return i.Seats("‹task›") }); bad != nil {
		err = fmt.Errorf("rehearsal: %w", bad)
	} else {
		e.Seats = seats
	}
	if lines, bad := protected(func() ([]string, error) { return i.Simulate(min(rounds, 3)) }); bad != nil {
		err = fmt.Errorf("protocol: %w", bad)
	} else {
		e.Speakers = lines
	}
	return e, err
}

// MayAsk reports whether somebody may have a turn in it: as a member, a decider,
// or whom it escalates to, as far as the edges that there are tell.
func (i *Interaction) MayAsk(name string) bool {
	return slices.Contains(i.members, name) || slices.Contains(i.r.deciders(), name) || slices.Contains(i.escalation(), name)
}

// escalation is the chain to the caller.
func (i *Interaction) escalation() (list []string) {
	if e := i.r.escalation(); e != nil && e.To != "" {
		list = append(list, e.To)
	}
	list = append(list, i.s.upstream(i)...)
	if to := i.s.o.EscalateTo; to != "" && !slices.Contains(i.members, to) {
		list = append(list, to)
	}
	var once []string
	for _, name := range list {
		if !slices.Contains(once, name) {
			once = append(once, name)
		}
	}
	return once
}

func resolverWords(r Resolver) string {
	switch r := plain(r).(type) {
	case JudgePicks:
		s := "JudgePicks by " + r.Judge.Name
		if r.Swap {
			s += ", asked twice"
		}
		return s
	case MajorityVote:
		if len(r.Voters) == 0 {
			return "MajorityVote of the members"
		}
		return "MajorityVote of " + strings.Join(names(r.Voters), ", ")
	case BestScore:
		if r.Lowest {
			return "BestScore, lowest " + r.Field
		}
		return "BestScore, highest " + r.Field
	case *Escalate:
		return "Escalate"
	case nil:
		return ""
	}
	return "function"
}

func protocolWords(s protocol.Spec) string {
	switch p := s.(type) {
	case protocol.Sequential:
		if p.Sees == protocol.Previous {
			return "Sequential, hears the previous"
		}
		return "Sequential"
	case protocol.Broadcast:
		words := "Broadcast, first round sealed"
		if p.Turns {
			words = "Broadcast"
		}
		if p.Moderator != "" {
			words += ", moderated by " + p.Moderator
		}
		return words
	case *protocol.Market:
		if p.Heard {
			return "Market, bids are heard"
		}
		return "Market, sealed"
	case protocol.Queue:
		return "Queue"
	case protocol.Sealed:
		return "sealed"
	}
	return "own"
}
