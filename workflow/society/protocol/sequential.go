package protocol

import (
	"fmt"
	"slices"
	"strings"
)

// Sees says how much of a round a speaker in a row hears.
type Sees string

// What those in a row hear; empty is All.
const (
	All      Sees = "all"      // of everybody
	Previous Sees = "previous" // of the one right before
)

// Sequential lets one after the other speak.
type Sequential struct {
	Order []string // empty: that of the members
	Sees  Sees
}

// Open checks the order.
func (s Sequential) Open(members []string) (Protocol, error) {
	order, err := ordered(s.Order, members)
	if err != nil {
		return nil, err
	}
	if s.Sees != "" && s.Sees != All && s.Sees != Previous {
		return nil, fmt.Errorf("protocol: sees is %q; it is \"all\" or \"previous\"", s.Sees)
	}
	return &sequential{order: order, previous: s.Sees == Previous}, nil
}

// Steady says that the order stays.
func (Sequential) Steady() {}

type sequential struct {
	order    []string
	previous bool
	at       int
}

func (s *sequential) Next() []string {
	if s.at >= len(s.order) {
		return nil
	}
	s.at++
	return s.order[s.at-1 : s.at]
}

func (s *sequential) Listeners(speaker string) []string {
	if s.previous {
		i := slices.Index(s.order, speaker)
		return []string{s.order[(i+1)%len(s.order)]}
	}
	return others(s.order, speaker)
}

func (s *sequential) Route(Message) {}
func (s *sequential) Advance()      { s.at = 0 }
func (s *sequential) Stop() string  { return "" }

// Sealed lets all speak at once, and nobody hear anybody.
type Sealed struct{}

// Open never fails.
func (Sealed) Open(members []string) (Protocol, error) {
	return &together{members: slices.Clone(members), sealed: func(int) bool { return true }, mute: true}, nil
}

// Steady says that nobody ever hears anybody.
func (Sealed) Steady() {}

// Broadcast lets everybody hear everybody.
type Broadcast struct {
	// Turns lets them speak one after the other also in the first round, so
	// that who comes later hears the ones before. Without it the first round is
	// sealed: all speak at once.
	Turns     bool
	Moderator string // speaks last in each round; "" is nobody
}

// Open checks the moderator.
func (b Broadcast) Open(members []string) (Protocol, error) {
	if b.Moderator != "" && !slices.Contains(members, b.Moderator) {
		return nil, fmt.Errorf("protocol: moderator %q is not a member; members are %s", b.Moderator, strings.Join(members, ", "))
	}
	t := &together{members: slices.Clone(members), last: b.Moderator}
	t.sealed = func(round int) bool { return round == 1 && !b.Turns }
	return t, nil
}

// Steady says that all always hear all.
func (Broadcast) Steady() {}

// together lets the members speak at once or one by one, depending on the
// round.
type together struct {
	members []string
	last    string
	sealed  func(round int) bool
	mute    bool
	before  int // rounds
	at      int
}

func (t *together) Next() []string {
	row := t.members
	if t.last != "" {
		row = append(others(t.members, t.last), t.last)
	}
	if t.at >= len(row) {
		return nil
	}
	from := t.at
	t.at++
	if t.sealed(t.before + 1) {
		for t.at < len(row) && row[t.at] != t.last {
			t.at++
		}
	}
	return slices.Clone(row[from:t.at])
}

func (t *together) Listeners(speaker string) []string {
	if t.mute {
		return nil
	}
	return others(t.members, speaker)
}

func (t *together) Route(Message) {}
func (t *together) Advance()      { t.at = 0; t.before++ }
func (t *together) Stop() string  { return "" }
