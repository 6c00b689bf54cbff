package lib

import (
	"strings"

	"edged/agent/llm"
	"edged/workflow/society"
)

// What is told of agents before anybody runs: how often they ask models, and
// what those are told in a society.

// ModelCalls is how often a run asks models at most.
func (a *modelAgent) ModelCalls() int {
	o := a.o
	if len(a.sets) > 0 {
		o.Tools = append(o.Tools[:len(o.Tools):len(o.Tools)], llm.Tool{Effect: llm.Read}) // of servers, which are not asked here
	}
	return o.ModelCalls()
}

var (
	_ society.TurnCaller = (*modelTurns)(nil)
)

// TurnCalls implements society.TurnCaller.
func (m *modelTurns) TurnCalls(p society.Prompt) int {
	o := m.a.turnOptions()
	if len(m.a.sets) > 0 {
		o.Tools = append(o.Tools, llm.Tool{Effect: llm.Read})
	}
	c, _ := society.Model(o).(society.TurnCaller)
	return c.TurnCalls(p)
}

// System is what the model is told to be.
func (m *modelTurns) System(p society.Prompt) string {
	s, _ := society.Model(m.a.turnOptions()).(interface {
		System(p society.Prompt) string
	})
	return s.System(p)
}

// String is what inspectors say of it.
func (m *modelTurns) String() string { return "model " + strings.Join(m.a.Models(), ", ") }
