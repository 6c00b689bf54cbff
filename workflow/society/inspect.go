package society

import (
	"slices"

	"edged/agent"
	"edged/workflow/society/protocol"
)

// A Seat is what an agent gets in its first turn on an edge, as the runtime
// compiles it; nobody is asked.
type Seat struct {
	Agent  string
	Kind   Kind
	System string
	Prompt string
	Schema string
	Tools  []string // that it may use, of those that it has
}

// A Sight is a line of the table who sees what.
type Sight struct {
	Viewer, Author, Topic string
	View                  View
}

// Seats compiles the first turn of every member for a task. Of a coopetition
// it is that of the shared half, if it has one.
func (i *Interaction) Seats(task string) (list []Seat, err error) {
	r := &run{i: i, s: i.s, rel: i.r, edge: i.e, task: agent.Task{Input: task}, round: 1, shelf: i.s.shelved(), last: map[string]Work{}, agreed: map[string]int{}}
	if c, ok := i.e.(*coopetition); ok {
		r.edge = c.stage()
	}
	if r.floor, err = protocol.Open(r.edge.order(), i.members); err != nil {
		return nil, err
	}
	for _, who := range i.members {
		q, ok := r.edge.ask(r, who)
		if !ok {
			continue
		}
		p := r.compile(who, q)
		seat := Seat{Agent: who, Kind: p.Kind, System: p.System(), Prompt: p.Text(), Schema: string(p.Form.Schema())}
		if a := i.s.agent(who); a != nil {
			if m, ok := a.Speaker.(*modelSpeaker); ok {
				for _, t := range m.tools(p) {
					seat.Tools = append(seat.Tools, t.Name)
				}
			}
		}
		list = append(list, seat)
	}
	return list, nil
}

// Sights is the table who sees what: every member and decider against what
// every member and the caller ("") have.
func (i *Interaction) Sights() (list []Sight) {
	viewers := append(slices.Clone(i.members), i.r.deciders()...)
	for _, v := range viewers {
		for _, topic := range []string{TopicTask, TopicCriteria, TopicArtifact} {
			list = append(list, Sight{v, "", topic, i.e.Sees(v, "", topic)})
		}
		for _, a := range i.members {
			if a == v {
				continue
			}
			for _, topic := range []string{TopicDraft, TopicSealed, TopicComments, TopicLog} {
				list = append(list, Sight{v, a, topic, i.e.Sees(v, a, topic)})
			}
		}
	}
	return list
}

// Simulate gives who speaks and who listens for some rounds, a line each.
func (i *Interaction) Simulate(rounds int) ([]string, error) {
	return protocol.Simulate(i.e.order(), i.members, rounds)
}
