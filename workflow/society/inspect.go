package society

import (
	"encoding/json"
	"slices"
	"time"

	"edged/agent"
	"edged/workflow/society/protocol"
)

// A Seat is a turn as the runtime compiles it; nobody is asked. What others
// would have said stands in it as ‹draft of coder›.
type Seat struct {
	Agent  string   `json:"agent"`
	Kind   Kind     `json:"kind"`
	Round  int      `json:"round"`
	System string   `json:"system"`
	Prompt string   `json:"prompt"`
	Schema string   `json:"schema"`
	Tools  []string `json:"tools,omitempty"` // that it may use, of those that it has
}

// A Sight is a line of the table who sees what.
type Sight struct {
	Viewer string `json:"viewer"`
	Author string `json:"author"` // "" is the caller
	Topic  string `json:"topic"`
	View   View   `json:"view"`
}

// rounds that are rehearsed: in the second one there is something to go by.
const rehearsed = 2

// Seats rehearses an interaction for a task, in the order in which its agents
// would speak: each gets each kind of question once. Those who decide come
// next, and last who decides if nobody else could.
func (i *Interaction) Seats(task string) ([]Seat, error) {
	h := &rehearsal{r: &run{i: i, s: i.s, rel: i.r, edge: i.e, task: agent.Task{Input: task}, start: time.Now(), round: 1,
		shelf: i.s.shelved(), last: map[string]Work{}, agreed: map[string]int{}, memo: map[string]decided{}}}
	stages := []inner{i.e}
	if c, ok := i.e.(*coopetition); ok {
		stages = []inner{c.comp}
		if c.coop != nil {
			stages = []inner{c.coop, c.comp}
		}
	}
	for _, e := range stages {
		if err := h.stage(e); err != nil {
			return nil, err
		}
		if len(stages) > 1 {
			h.r.coop = Verdict{Settled: true, Output: "‹agreed›"}
		}
	}
	if err := h.decide(); err != nil {
		return nil, err
	}
	return h.seats, nil
}

// rehearsal goes through the rounds of an interaction with words in place of
// what agents say.
type rehearsal struct {
	r     *run
	seats []Seat
	asked map[[2]string]bool // by agent and question
}

func (h *rehearsal) stage(e inner) (err error) {
	r := h.r
	r.edge, r.round, h.asked = e, 0, map[[2]string]bool{}
	if r.floor, err = protocol.Open(e.order(), e.Members()); err != nil {
		return err
	}
	most := e.rounds()
	for r.round < min(most, rehearsed) && r.floor.Begin() {
		r.round++
		r.work = nil
		for turns := 0; turns < 4*len(e.Members()) && !e.enough(r); turns++ {
			batch := r.floor.Next()
			if len(batch) == 0 {
				break
			}
			var spoke []Work
			for _, who := range batch {
				if q, ok := e.ask(r, who); ok {
					h.seat(r.compile(who, q), q.ask)
					spoke = append(spoke, h.words(who, q.kind))
				}
			}
			for _, w := range spoke {
				h.hear(w)
			}
			r.settleBatch()
		}
	}
	for _, who := range e.Members() { // whose turn depends on what is said
		if slices.ContainsFunc(h.seats, func(s Seat) bool { return s.Agent == who }) {
			continue
		}
		if q, ok := e.ask(r, who); ok {
			h.seat(r.compile(who, q), q.ask)
		}
	}
	return nil
}

// words stand for what an agent says.
func (h *rehearsal) words(who string, k Kind) Work {
	w := Work{Author: who, Kind: k, State: OK, Turn: h.r.number()}
	switch k {
	case ToReview, ToAccept:
		w.Comments = "‹comments of " + who + "›"
	case ToSubmit, ToBid:
		w.Draft = "‹submission›"
	default:
		w.Draft = "‹draft of " + who + "›"
	}
	return w
}

func (h *rehearsal) hear(w Work) {
	t := Turn{N: w.Turn, Round: h.r.round, Speaker: w.Author, Kind: w.Kind, State: OK, Sealed: w.Kind == ToSubmit || w.Kind == ToBid}
	said := map[string]any{"draft": w.Draft}
	if w.Draft == nil {
		said = map[string]any{"comments": w.Comments}
	}
	t.Answer, _ = json.Marshal(said) // text
	h.r.note(t)
	h.r.work, h.r.fresh = append(h.r.work, w), append(h.r.fresh, t)
	h.r.keep(w)
}

// seat notes a turn, each question once.
func (h *rehearsal) seat(p Prompt, ask string) {
	key := [2]string{p.To, ask}
	if h.asked[key] {
		return
	}
	h.asked[key] = true
	s := Seat{Agent: p.To, Kind: p.Kind, Round: p.Round, System: p.System(), Prompt: p.Text(), Schema: string(p.Form.Schema())}
	if a := h.r.s.agent(p.To); a != nil {
		speaker := a.Speaker
		if m, ok := speaker.(kinds); ok {
			speaker = m.of(p.Kind)
		}
		if m, ok := speaker.(interface{ System(p Prompt) string }); ok {
			s.System = m.System(p)
		}
		if m, ok := speaker.(Toolbox); ok {
			for _, t := range m.Tools(p) {
				s.Tools = append(s.Tools, t.Name)
			}
		}
	}
	h.seats = append(h.seats, s)
}

// decide seats those who decide about what was submitted or made, and who
// decides if nobody else could.
func (h *rehearsal) decide() error {
	r := h.r
	var subs []Submission
	if c, ok := r.edge.(*competition); ok {
		subs, _ = c.submissions(r, r.work)
		subs = r.labelled(subs)
	}
	switch d := resolverOf(r.rel).(type) {
	case JudgePicks:
		form, err := d.form(labels(subs))
		if err != nil {
			return err
		}
		p := d.prompt(r, subs, form)
		h.seat(p, p.Ask)
	case MajorityVote:
		voters := decidersOf(d)
		if len(voters) == 0 {
			voters = r.i.members
		}
		for _, v := range voters {
			p, err := d.prompt(r, v, slices.DeleteFunc(slices.Clone(subs), func(s Submission) bool { return s.Agent == v }))
			if err != nil {
				return err
			}
			h.seat(p, p.Ask)
		}
	}
	if c, ok := r.edge.(*cooperation); ok && c.by != "" {
		for _, w := range r.work {
			subs = append(subs, Submission{Agent: w.Author, Output: w.Draft})
		}
		p := c.mergePrompt(r, subs)
		h.seat(p, p.Ask)
	}
	name, raw := r.target()
	if name == "" || r.s.agent(name) == nil {
		return nil
	}
	q, subs, err := r.terminal()
	if err != nil {
		return err
	}
	h.seat(r.dossier(name, q, subs, string(CauseDeadlock), raw), q.ask)
	return nil
}

// Sights is the table who sees what: every member and decider against what
// every member and the caller ("") have. What a member says is nothing for
// those whom the protocol never lets listen.
func (i *Interaction) Sights() (list []Sight) {
	viewers := append(slices.Clone(i.members), i.r.deciders()...)
	heard := i.heard()
	for _, v := range viewers {
		for _, topic := range []string{TopicTask, TopicCriteria, TopicArtifact} {
			list = append(list, Sight{v, "", topic, i.e.Sees(v, "", topic)})
		}
		for _, a := range i.members {
			if a == v {
				continue
			}
			for _, topic := range []string{TopicDraft, TopicSealed, TopicComments, TopicLog} {
				s := Sight{v, a, topic, i.e.Sees(v, a, topic)}
				if s.View == Full && slices.Contains(i.members, v) && !heard[[2]string{v, a}] {
					s.View = Nothing
				}
				list = append(list, s)
			}
		}
	}
	return list
}

// heard says who hears whom in three rounds, by viewer and author.
func (i *Interaction) heard() map[[2]string]bool {
	out := map[[2]string]bool{}
	f, err := protected(func() (*protocol.Floor, error) { return protocol.Open(i.e.order(), i.members) })
	if err != nil {
		return out
	}
	_, _ = protected(func() (any, error) { // a protocol of the author's may not get far without what is said
		for f.Begin() && f.Round() <= 3 {
			for turns := 0; turns < 4*len(i.members); turns++ {
				batch := f.Next()
				if len(batch) == 0 {
					break
				}
				for _, name := range batch {
					if err := f.Say(protocol.Message{From: name}); err != nil {
						return nil, err
					}
				}
			}
		}
		return nil, nil
	})
	for _, v := range i.members {
		for _, m := range f.Inbox(v) {
			out[[2]string{v, m.From}] = true
		}
	}
	return out
}

// Simulate gives who speaks and who listens for some rounds, a line each.
func (i *Interaction) Simulate(rounds int) ([]string, error) {
	return protocol.Simulate(i.e.order(), i.members, rounds)
}
