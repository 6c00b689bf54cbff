package lib

import (
	"sync"

	"edged/agent"
	"edged/agent/llm"
)

// Sessions are the conversations of a robot's agents. Made once for a robot
// and given to every behaviour of it, they outlive a reload. It may be used
// concurrently.
type Sessions struct {
	mu sync.Mutex // guards of
	of map[string]*llm.Sessions
}

// NewSessions makes an empty set.
func NewSessions() *Sessions { return &Sessions{of: make(map[string]*llm.Sessions)} }

// Of gives the conversations of an agent.
func (s *Sessions) Of(name string) *llm.Sessions {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.of[name]
	if list == nil {
		list = llm.NewSessions(llm.SessionOptions{})
		s.of[name] = list
	}
	return list
}

// sessions are the host's, or the behaviour's own.
func (b *Behaviour) sessions() *Sessions {
	if b.host.Sessions != nil {
		return b.host.Sessions
	}
	return b.ownSessions
}

// Agents are those that the folder's scripts made with Agent, in that order.
// Those with a model have Role() string, Capabilities() []string and Models()
// []string besides.
func (b *Behaviour) Agents() []agent.Agent {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]agent.Agent(nil), b.made...)
}

func (b *Behaviour) noteMade(a agent.Agent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.made = append(b.made, a)
}
