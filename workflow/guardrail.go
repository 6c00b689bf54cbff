package workflow

import (
	"context"
	"fmt"
	"slices"
)

// Reaction is what a guardrail does about a violation.
type Reaction string

// The reactions; empty is Block.
const (
	Block    Reaction = "block"    // it ends blocked
	Reroute  Reaction = "reroute"  // on to another node of a graph
	Warn     Reaction = "warn"     // it is told, and goes on
	Sanitize Reaction = "sanitize" // on with what the check put in its place; blocked if it gave nothing
	Revise   Reaction = "revise"   // back to the author with the words of the check; in a graph twice at most, then blocked
)

// A Guardrail looks at what goes by, each time: in a graph at what a node puts
// out or what crosses an edge, in a society at every draft before anybody else
// sees it. State is what the graph or the society knows; it is read-only.
type Guardrail struct {
	Name    string
	Check   func(ctx context.Context, payload any, state map[string]any) (Finding, error)
	On      Reaction
	Reroute string // where to, for Reroute
}

// A Finding is what a check says: nothing, a violation in words, or what to
// put in place of what it saw.
type Finding struct {
	Violation string
	Failed    bool // the check itself did, so that nobody knows: not even Warn lets that go on
	Replaced  bool
	By        any
}

// Violates says what is wrong.
func Violates(why string) Finding { return Finding{Violation: why} }

// Replace puts something in place of the payload, under any reaction.
func Replace(by any) Finding { return Finding{Replaced: true, By: by} }

// Reaction is what the guardrail does about a violation.
func (g *Guardrail) Reaction() Reaction {
	if g.On == "" {
		return Block
	}
	return g.On
}

// Look asks the check. It fails closed: an error or a panic of the check is a
// violation, and one that no reaction lets go on.
func (g *Guardrail) Look(ctx context.Context, payload any, state map[string]any) Finding {
	f, err := protected(func() (Finding, error) { return g.Check(ctx, payload, state) })
	if err != nil {
		return Finding{Violation: err.Error(), Failed: true}
	}
	return f
}

// Valid says what is wrong with how the guardrail is written.
func (g *Guardrail) Valid() error {
	switch {
	case !slices.Contains([]Reaction{Block, Reroute, Warn, Sanitize, Revise}, g.Reaction()):
		return fmt.Errorf("guardrail %s: on_violation %q is none of block, reroute, warn, sanitize and revise", g.Name, g.On)
	case g.Check == nil:
		return fmt.Errorf("guardrail %s has no check", g.Name)
	}
	return nil
}
