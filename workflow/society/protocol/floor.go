package protocol

import (
	"fmt"
	"slices"
)

// inboxLimit bounds what waits for one agent; the oldest go first.
const inboxLimit = 256

// A Floor runs a protocol and keeps its inboxes. It is used by one goroutine
// at a time.
type Floor struct {
	p       Protocol
	members []string
	stops   []StopCondition

	round   int
	count   int
	spoken  map[string]int
	inbox   map[string][]Message
	kept    []Message // of this round and the one before
	batch   []Message // said at once, not heard yet
	waiting int       // of the batch that have not spoken
	between bool      // no round is under way
	stopped string
	dropped int
	err     error
}

// Open begins a run of a protocol.
func Open(s Spec, members []string, stops ...StopCondition) (*Floor, error) {
	p, err := s.Open(members)
	if err != nil {
		return nil, err
	}
	return &Floor{p: p, members: slices.Clone(members), stops: stops,
		spoken: map[string]int{}, inbox: map[string][]Message{}}, nil
}

// Over ends the round, and reports whether there is no other one.
func (f *Floor) Over() bool {
	f.hear()
	if f.round > 0 && !f.between {
		if f.between = true; f.stopped == "" {
			f.stopped = f.p.Stop()
		}
		f.ask()
	}
	return f.stopped != "" || f.Err() != nil
}

// Begin starts the next round, unless the protocol or a condition says that
// there is none.
func (f *Floor) Begin() bool {
	if f.Over() {
		return false
	}
	if f.round > 0 {
		f.p.Advance()
	}
	f.between = false
	f.round++
	f.kept = slices.DeleteFunc(f.kept, func(m Message) bool { return m.Round < f.round-1 })
	return true
}

// ask asks the conditions whether the run is over.
func (f *Floor) ask() {
	for _, s := range f.stops {
		if f.stopped == "" {
			f.stopped = s(f)
		}
	}
}

// Next gives those who speak now; none: the round is over. What the ones
// before said is heard by then.
func (f *Floor) Next() []string {
	f.hear()
	batch := f.p.Next()
	f.waiting = len(batch)
	return batch
}

// Say takes what a speaker said. Nobody hears it before the next call of Next
// or Begin.
func (f *Floor) Say(m Message) error {
	if !slices.Contains(f.members, m.From) {
		return fmt.Errorf("protocol: %q is not a member", m.From)
	}
	m.Round = f.round
	m.To = nil
	for _, name := range f.p.Listeners(m.From) {
		if name != m.From && slices.Contains(f.members, name) && !slices.Contains(m.To, name) {
			m.To = append(m.To, name)
		}
	}
	f.count++
	f.spoken[m.From]++
	f.batch = append(f.batch, m)
	f.kept = append(f.kept, m)
	f.ask()
	return nil
}

// hear delivers what was said.
func (f *Floor) hear() {
	for _, m := range f.batch {
		for _, name := range m.To {
			box := append(f.inbox[name], m)
			if n := len(box) - inboxLimit; n > 0 {
				box = slices.Delete(box, 0, n)
				f.dropped += n
			}
			f.inbox[name] = box
		}
		f.p.Route(m)
	}
	f.batch = f.batch[:0]
}

// Inbox gives what an agent has heard, oldest first. The list is read-only.
func (f *Floor) Inbox(name string) []Message { return slices.Clip(f.inbox[name]) }

// Heard reports whether an agent got the message of a turn.
func (f *Floor) Heard(name string, turn int) bool {
	return slices.ContainsFunc(f.inbox[name], func(m Message) bool { return m.Turn == turn })
}

// Fail notes that a function of the protocol, or a condition, has failed.
func (f *Floor) Fail(err error) {
	if f.err == nil {
		f.err = err
	}
}

// Err is the first failure of a function of the protocol or of a condition.
func (f *Floor) Err() error {
	if p, ok := f.p.(Faulty); ok && f.err == nil {
		f.err = p.Err()
	}
	return f.err
}

// Round is the number of the round, from 1.
func (f *Floor) Round() int { return f.round }

// Stopped says why nobody speaks any more; "" goes on. A protocol is asked
// between rounds, conditions after every message, too.
func (f *Floor) Stopped() string { return f.stopped }

func (f *Floor) said(round int) (list []Message) {
	for _, m := range f.kept {
		if m.Round == round {
			list = append(list, m)
		}
	}
	return list
}

// Simulate gives who speaks and who listens for some rounds, a line each:
// "round 1: a → b, c". Nobody is asked anything.
func Simulate(s Spec, members []string, rounds int) ([]string, error) {
	f, err := Open(s, members)
	if err != nil {
		return nil, err
	}
	var lines []string
	for f.Begin() && f.Round() <= rounds {
		for batch, most := f.Next(), 0; len(batch) > 0 && most < 1000; batch, most = f.Next(), most+1 {
			for _, name := range batch {
				if err := f.Say(Message{From: name}); err != nil {
					return nil, err
				}
				to := f.batch[len(f.batch)-1].To
				word := "nobody"
				if len(to) > 0 {
					word = fmt.Sprint(to)
					word = word[1 : len(word)-1]
				}
				lines = append(lines, fmt.Sprintf("round %d: %s → %s", f.round, name, word))
			}
		}
	}
	return lines, nil
}
