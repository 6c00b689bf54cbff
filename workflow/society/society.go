// Package society lets agents work with each other along typed edges:
// delegation, oversight, cooperation, competition and coopetition. An edge says
// who sees what, how a conflict is settled and when it ends; what it gives is
// an agent, that a workflow or a script runs as any other.
//
// Its one rule: an agent knows what is in its prompt, and code puts the prompt
// together from what the edge lets it see. Nobody is asked to look away, and a
// decision is read from a small form or not at all.
//
//	s := society.New("home", society.Options{})
//	review, err := s.Connect(coder, reviewer, &society.Oversight{Shared: society.Shared{MaxRounds: 3}})
//	r, err := agent.Run(ctx, review, agent.Task{Input: "a path to the dock"})
//	fmt.Println(r.Status, r.Output) // done, rejected, deadlock, …
//
// Every turn is one [Turn] in a [Log]: an interaction in a durable workflow that
// is resumed asks nobody a second time.
package society

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"edged/agent/llm"
	"edged/bus/origin"

	"edged/workflow"
)

// Options of a [Society]; the zero value works.
type Options struct {
	Description string
	EscalateTo  string // name of the agent that decides when nobody else can
	Human       *Agent // who stands for the name HUMAN
	Log         *Log   // where turns are kept; nil: the latest, in memory
	Lasting     bool   // its markets go on with the balances that Log has under its name
	// Trace hears of every turn that is over, from several goroutines at once.
	Trace func(ctx context.Context, t Turn)
	// Send hands on an event that an agent sent along an edge.
	Send func(ctx context.Context, edge, from, name string, payload any)
	// Guarded hears of every look of a guardrail; from several goroutines at once.
	Guarded func(ctx context.Context, edge, author, guardrail string, on workflow.Reaction, f workflow.Finding)
	// State is what resolvers, guardrails and watchers know of the world.
	State func(ctx context.Context) map[string]any
	// Key is one entry of that, for watchers, where all of it would be much; of
	// the key "" it is all of it. Nil: State is asked.
	Key func(ctx context.Context, key string) any
	// Trusted says whose tasks are instructions; nil = llm.Trusted.
	Trusted func(origin string) bool
	Seed    uint64 // of the order in which judges read; the same seed, the same order
}

// HUMAN is the name of the person.
const HUMAN = "HUMAN"

// ErrLoad is in every error of a society that can't run as it is written.
var ErrLoad = errors.New("society")

// A Society holds agents and the edges between them. All methods may be called
// concurrently.
type Society struct {
	name string
	o    Options

	mu      sync.Mutex // guards the rest
	agents  []*Agent
	edges   []*Interaction
	shelf   map[string]shelved
	revoked map[string]bool
	live    map[*call]bool // turns under way
}

// New makes a society without agents.
func New(name string, o Options) *Society {
	if o.Log == nil {
		o.Log = NewLog(nil, LogOptions{})
	}
	return &Society{name: name, o: o, shelf: map[string]shelved{}, revoked: map[string]bool{}, live: map[*call]bool{}}
}

// Name is the society's name.
func (s *Society) Name() string { return s.name }

// Description is what it is for.
func (s *Society) Description() string { return s.o.Description }

// Log is where its turns are.
func (s *Society) Log() *Log { return s.o.Log }

// Add makes agents known that are in no edge, as those that things escalate to.
func (s *Society) Add(agents ...*Agent) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range agents {
		if err := s.add(a); err != nil {
			return err
		}
	}
	return nil
}

func (s *Society) add(a *Agent) error {
	switch {
	case a == nil || a.Name == "":
		return fmt.Errorf("%w %s: an agent needs a name", ErrLoad, s.name)
	case a.Speaker == nil:
		return fmt.Errorf("%w %s: agent %q has nothing to answer with: give it a model, a function or a topic", ErrLoad, s.name, a.Name)
	}
	for _, b := range s.agents {
		if b == a {
			return nil
		}
		if b.Name == a.Name {
			return fmt.Errorf("%w %s: two agents are called %q (roles %q and %q): rename one", ErrLoad, s.name, a.Name, b.Role, a.Role)
		}
	}
	s.agents = append(s.agents, a)
	return nil
}

// Connect makes an edge between two: a Delegation from source to target, or an
// Oversight of source by target; a Cooperation of two too.
func (s *Society) Connect(source, target *Agent, r Relation) (*Interaction, error) {
	return s.join([]*Agent{source, target}, r, "Connect")
}

// Cooperate lets two or more make one thing together.
func (s *Society) Cooperate(members []*Agent, r *Cooperation) (*Interaction, error) {
	return s.join(members, r, "Cooperate")
}

// Compete lets two or more make the same thing apart.
func (s *Society) Compete(members []*Agent, r *Competition) (*Interaction, error) {
	return s.join(members, r, "Compete")
}

// Negotiate lets two or more agree on some topics and compete on others.
func (s *Society) Negotiate(members []*Agent, r *Coopetition) (*Interaction, error) {
	return s.join(members, r, "Negotiate")
}

// Group makes a group edge of any type that has one; it is what refuses the
// others.
func (s *Society) Group(members []*Agent, r Relation) (*Interaction, error) {
	if r.binary() {
		return nil, fmt.Errorf("%w %s: %s is between two: use Connect(source, target, …) for each pair of %v", ErrLoad, s.name, r.kind(), names(members))
	}
	return s.join(members, r, "Group")
}

func names(list []*Agent) (out []string) {
	for _, a := range list {
		if a == nil {
			out = append(out, "nobody")
			continue
		}
		out = append(out, a.Name)
	}
	return out
}

func (s *Society) join(members []*Agent, r Relation, call string) (*Interaction, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ns := names(members)
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%w %s: %s of %s: %s", ErrLoad, s.name, r.kind(), strings.Join(ns, ", "), fmt.Sprintf(format, args...))
	}
	if len(members) < 2 {
		return nil, fail("it takes at least two members: name %s", map[int]string{0: "them", 1: "another one"}[len(members)])
	}
	for i, n := range ns {
		if j := slices.Index(ns[:i], n); j >= 0 && members[i] == members[j] {
			if r.binary() {
				return nil, fail("an edge from %q to itself: name another agent", n)
			}
			return nil, fail("%q is a member twice: name it once", n)
		}
	}
	if call == "Connect" {
		switch r.(type) {
		case *Competition, *Coopetition:
			return nil, fail("it is a group edge: use %s", map[string]string{"competition": "Compete", "coopetition": "Negotiate"}[r.kind()])
		}
	}
	for _, d := range r.deciders() {
		if slices.Contains(ns, d) {
			return nil, fail("%q decides and is a member: name somebody else to decide", d)
		}
	}
	if e := r.escalation(); e != nil && slices.Contains(ns, e.To) && !mayDecide(r, ns, e.To) {
		return nil, fail("%q would decide about its own work: escalate to somebody else", e.To)
	}
	before := slices.Clone(s.agents)
	for _, a := range append(slices.Clone(members), extras(r)...) {
		if err := s.add(a); err != nil {
			s.agents = before
			return nil, err
		}
	}
	i, err := s.make(ns, r)
	if err != nil {
		s.agents = before
		return nil, fail("%v", err)
	}
	i.directed = call == "Connect"
	s.edges = append(s.edges, i)
	return i, nil
}

// mayDecide reports whether a member may be an edge's escalation target: who
// delegates or reviews has no work of its own in it.
func mayDecide(r Relation, members []string, name string) bool {
	switch r.(type) {
	case *Delegation:
		return name == members[0]
	case *Oversight:
		return name == members[1]
	}
	return false
}

// extras are the agents that an edge names besides its members.
func extras(r Relation) []*Agent {
	switch r := r.(type) {
	case *Cooperation:
		if r.MergeBy != nil {
			return []*Agent{r.MergeBy}
		}
	case *Competition:
		return agentsOf(r.Resolve)
	case *Coopetition:
		return agentsOf(r.Resolve)
	}
	return nil
}

func (s *Society) make(members []string, r Relation) (*Interaction, error) {
	sh := r.shared()
	if err := sh.check(); err != nil {
		return nil, err
	}
	e, err := r.bind(s, members)
	if err != nil {
		return nil, err
	}
	if p := e.order(); p != nil {
		if _, err := p.Open(members); err != nil {
			return nil, err
		}
	}
	i := &Interaction{s: s, r: r, e: e, members: members, name: sh.Name}
	if i.name == "" {
		i.name = s.name + "/" + r.kind() + "(" + strings.Join(members, ",") + ")"
	}
	if c, ok := e.(*competition); ok && c.market != nil && s.o.Lasting {
		c.market.Ledger = s.o.Log.ledger(s.name + "/" + i.name)
	}
	for _, other := range s.edges {
		switch same := r.binary() && other.r.kind() == r.kind() && slices.Equal(other.members, members); {
		case same && sh.Name == "":
			return nil, fmt.Errorf("there is %s of these two already, %s: run that one, make an edge of another type, or give this one a name", Article(r.kind()), other.name)
		case other.name == i.name:
			return nil, fmt.Errorf("two edges are called %q: give one a name of its own", i.name)
		}
	}
	return i, nil
}

// Article puts "a" or "an" in front of the type of an edge.
func Article(kind string) string {
	if strings.HasPrefix(strings.ToLower(kind), "o") {
		return "an " + kind
	}
	return "a " + kind
}

// agent finds one by name.
func (s *Society) agent(name string) *Agent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(name)
}

func (s *Society) find(name string) *Agent {
	if name == HUMAN && s.o.Human != nil {
		return s.o.Human
	}
	if i := slices.IndexFunc(s.agents, func(a *Agent) bool { return a.Name == name }); i >= 0 {
		return s.agents[i]
	}
	return nil
}

// Agents gives all agents, in the order in which they were named.
func (s *Society) Agents() []*Agent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.agents)
}

// Edges gives the edges from one to another, that Connect made.
func (s *Society) Edges() []*Interaction {
	return s.pick(func(i *Interaction) bool { return i.directed })
}

// GroupEdges gives the edges of groups.
func (s *Society) GroupEdges() []*Interaction {
	return s.pick(func(i *Interaction) bool { return !i.directed })
}

// AllEdges gives all edges.
func (s *Society) AllEdges() []*Interaction { return s.pick(func(*Interaction) bool { return true }) }

// EdgesOf gives the edges of which an agent is a member.
func (s *Society) EdgesOf(name string) []*Interaction {
	return s.pick(func(i *Interaction) bool { return slices.Contains(i.members, name) })
}

func (s *Society) pick(keep func(*Interaction) bool) (list []*Interaction) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.edges {
		if keep(i) {
			list = append(list, i)
		}
	}
	return list
}

// EdgeBetween gives the edge from a to b, of a type ("oversight") if kind is
// not empty, and of a name if that isn't. It fails if there is none or more than
// one.
func (s *Society) EdgeBetween(a, b, kind, name string) (*Interaction, error) {
	list := s.pick(func(i *Interaction) bool {
		return slices.Equal(i.members, []string{a, b}) && (kind == "" || i.r.kind() == kind) && (name == "" || i.name == name)
	})
	switch len(list) {
	case 0:
		if back := s.pick(func(i *Interaction) bool { return slices.Equal(i.members, []string{b, a}) }); len(back) > 0 {
			return nil, fmt.Errorf("%w %s: no edge from %q to %q; %s is from %q to %q", ErrLoad, s.name, a, b, back[0].name, b, a)
		}
		return nil, fmt.Errorf("%w %s: no edge from %q to %q", ErrLoad, s.name, a, b)
	case 1:
		return list[0], nil
	}
	var kinds, named []string
	for _, i := range list {
		if !slices.Contains(kinds, i.r.kind()) {
			kinds = append(kinds, i.r.kind())
		}
		named = append(named, i.name)
	}
	if len(kinds) == 1 {
		return nil, fmt.Errorf("%w %s: from %q to %q there are %q: say which by its name", ErrLoad, s.name, a, b, named)
	}
	return nil, fmt.Errorf("%w %s: from %q to %q there are %v: say which type", ErrLoad, s.name, a, b, kinds)
}

// trusted is the policy: whose words are orders.
func (s *Society) trusted() func(who string) bool {
	if s.o.Trusted == nil {
		return llm.Trusted
	}
	return s.o.Trusted
}

// shelved is something on the shelf.
type shelved struct {
	v     any
	whose origin.Label
}

// Put lays something on the shelf, where edges with an artifact of that name
// find it. A JSON tree, read-only from then on, of the run that ctx belongs to.
func (s *Society) Put(ctx context.Context, artifact string, v any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shelf[artifact] = shelved{v, origin.From(ctx)}
}

// Get takes a look at the shelf, on behalf of the run that ctx belongs to.
func (s *Society) Get(ctx context.Context, artifact string) (any, bool) {
	s.mu.Lock()
	x, ok := s.shelf[artifact]
	s.mu.Unlock()
	if ok {
		origin.Raise(ctx, x.whose)
	}
	return x.v, ok
}

func (s *Society) shelved() map[string]shelved {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.shelf)
}

// Revoke takes an agent's turns away: it gets no more of them, and one that is
// under way ends.
func (s *Society) Revoke(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revoked[name] = true
	for c := range s.live {
		if c.who == name {
			c.end(errRevoked)
		}
	}
}

// Restore gives an agent its turns back.
func (s *Society) Restore(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.revoked, name)
}

// call is a turn under way.
type call struct {
	who string
	end context.CancelCauseFunc
}

var errRevoked = errors.New("society: agent was revoked")

// enlist notes a turn under way; false: its agent is revoked.
func (s *Society) enlist(c *call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.revoked[c.who] {
		return false
	}
	s.live[c] = true
	return true
}

func (s *Society) delist(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, c)
}

func (s *Society) isRevoked(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revoked[name]
}
