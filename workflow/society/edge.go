package society

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"edged/agent"
	"edged/workflow"
	"edged/workflow/society/protocol"
)

// A View is how much a viewer gets of something.
type View string

// The views.
const (
	Nothing View = "nothing"
	Summary View = "summary" // made by code: round, progress, tools called, elapsed
	Unnamed View = "unnamed" // all of it, but not whose it is
	Full    View = "full"
)

// The topics an edge is asked about; the name of an event, of a shared topic
// or of an artifact is a topic too.
const (
	TopicTask     = "task"
	TopicCriteria = "criteria" // what decisions are made by
	TopicNote     = "instructions"
	TopicArtifact = "artifact" // what lies on the shelf
	TopicDraft    = "draft"
	TopicAgreed   = "agreed" // of a coopetition, once it competes
	TopicSealed   = "sealed" // a draft that competes
	TopicComments = "comments"
	TopicLog      = "log" // turn records: drafts, tool calls, their results, errors
)

// An Edge answers three questions: who, what may they see, is it settled.
type Edge interface {
	Members() []string
	// Sees says what a viewer gets of an author's topic. The author "" is the
	// caller. The viewer may be no member: a judge, an escalation target.
	Sees(viewer, author, topic string) View
	// Settle says what a round came to. It may ask agents: ctx leads to the run.
	Settle(ctx context.Context, round []Work) (Verdict, error)
}

// Work is what came of a turn, as an edge reads it.
type Work struct {
	Author   string
	Kind     Kind
	State    State
	Draft    any    // nil: none
	Agrees   bool   // with the newest draft it has heard
	Revision int    // that was made, or agreed with
	Decision string // of a reviewer
	Comments string
	Progress string
	Why      string // it is not Usable
	Turn     int    // number of the turn
	sent     string // a guardrail's words: it has to be done again
	blocked  string // a guardrail's words: it ends here
	// cleaned is the answer with what a guardrail put in the place of its draft;
	// nil: nothing was.
	cleaned map[string]any
}

// A Verdict is what a round came to.
type Verdict struct {
	Settled bool         // the interaction is over
	Status  agent.Status // then; "" is done
	Output  any
	Winner  string
	By      string
	Reason  string
	Ranking []string // best first
	Cause   Cause    // nobody could decide: it goes up the escalation chain
	again   bool     // one more round of submissions
}

func (v Verdict) done() bool { return v.Status == "" || v.Status == agent.Done }

// Cause is why an interaction goes up the escalation chain.
type Cause string

// The causes.
const (
	CauseDeadlock Cause = "deadlock"
	CauseTimeout  Cause = "timeout"
	CauseTie      Cause = "tie"
	CauseNoWinner Cause = "no_winner"
	CauseReserve  Cause = "reserve"
	CauseNoTaker  Cause = "no_taker"
	CauseStalled  Cause = "stalled"
	CauseUnmoved  Cause = "unmoved"
	CauseAsked    Cause = "asked" // the resolver is to escalate
)

// status is what the caller gets if nobody is there to decide.
func (c Cause) status() agent.Status {
	switch c {
	case CauseTimeout:
		return agent.Timeout
	case CauseDeadlock, CauseStalled, CauseUnmoved, CauseTie:
		return agent.Deadlock
	}
	return agent.Failed
}

// OnTimeout says what becomes of a round whose time is over.
type OnTimeout string

// The policies; empty is EscalateTimeout.
const (
	EscalateTimeout OnTimeout = "ESCALATE"
	RetryOnce       OnTimeout = "RETRY_ONCE"
	Terminate       OnTimeout = "TERMINATE"
)

// unmoved is the watcher of decisions that stay the same in a world that doesn't.
const unmoved = "unmoved"

// DefaultRounds is what a limit of 0 rounds means.
const DefaultRounds = 8

// Shared are the fields of every edge; the zero value works.
type Shared struct {
	Name      string // of the interaction; "" is made of type and members
	Artifacts []Artifact
	Events    []string // that members may send, besides the built-in ones
	MaxRounds int      // 0 = 8
	Timeout   time.Duration
	OnTimeout OnTimeout
	Deadline  time.Duration // of the whole interaction; 0 = none
	// Protocol says whose turn it is where the type leaves that open.
	Protocol protocol.Spec
	// Until ends rounds of cooperation with what there is.
	Until func(ctx context.Context, round []Work) (bool, error)
	// Stops end it with what there is: see [protocol.StopCondition].
	Stops []func(ctx context.Context, f *protocol.Floor) string
	// MaxMessages is after how many turns it is a deadlock; 0 = no limit. Those
	// that are taken at once are all heard.
	MaxMessages int
	// Guardrails look at every draft before anybody else sees it, and at what the
	// interaction is about to give; their state is what [Options.State] gave. None
	// reroutes.
	Guardrails []workflow.Guardrail
	Watch      []string // "stalled", "no_taker", "unmoved" though anything of the state changed, "unmoved:<key of the state>"
}

// Escalate names who decides when nobody else could. It is also a resolver.
type Escalate struct {
	To  string // name of an agent of the society
	Raw bool   // it gets the turns as they were, not a summary
	// Patience is how long it may take; 0 is its own, or else the edge's timeout.
	Patience time.Duration
}

// A Relation is the type of an edge with its fields.
type Relation interface {
	shared() *Shared
	kind() string
	binary() bool
	// bind gives it members: for a binary edge source, then target.
	bind(s *Society, members []string) (inner, error)
	// deciders names the agents besides the members.
	deciders() []string
	escalation() *Escalate
}

// inner is an edge as this package runs it.
type inner interface {
	Edge
	order() protocol.Spec
	// ask says what a member is asked now; false: it has no turn.
	ask(r *run, who string) (question, bool)
	// read makes work of an answer that fits its form; an error is malformed.
	read(r *run, who string, v map[string]any) (Work, error)
	// enough reports that the round needs no further turns.
	enough(r *run) bool
	draftTopic() string
	rounds() int // the most of them
}

type question struct {
	kind  Kind
	ask   string
	form  *Form
	tools ToolUse
}

// Delegation: the source gives a task to the target, and accepts or rejects.
type Delegation struct {
	Shared
	Instructions string // of the delegator to the worker
	NoReview     bool   // it ends when the worker is done
	Escalation   *Escalate
}

// Oversight: the source works, the target reviews.
type Oversight struct {
	Shared
	OnDeadlock *Escalate
	Criteria   []string
}

// Cooperation: all make one thing together.
type Cooperation struct {
	Shared
	SharedTopics []string // artifacts on the shelf that all see
	Merge        Merge    // "" = Revise
	MergeFunc    func(ctx context.Context, drafts []Submission) (any, error)
	MergeBy      *Agent // puts the drafts together
}

// Competition: all make the same thing apart, and one is picked.
type Competition struct {
	Shared
	Resolve Resolver
	Quorum  int // submissions that are enough when the time is over; 0 = all
}

// Coopetition: all agree on some topics, and compete on others.
type Coopetition struct {
	Shared
	CooperateOn []string
	CompeteOn   []string
	Resolve     Resolver
	Quorum      int
}

// Merge is how drafts become one.
type Merge string

// The ways to merge; empty is Revise.
const (
	Revise Merge = "revise" // one text; each makes a whole new one, or agrees
	Fields Merge = "fields" // an object; a key that two claim goes back to both
	Append Merge = "append" // a list in member order
)

func (d *Delegation) shared() *Shared  { return &d.Shared }
func (d *Oversight) shared() *Shared   { return &d.Shared }
func (d *Cooperation) shared() *Shared { return &d.Shared }
func (d *Competition) shared() *Shared { return &d.Shared }
func (d *Coopetition) shared() *Shared { return &d.Shared }

func (d *Delegation) kind() string  { return "delegation" }
func (d *Oversight) kind() string   { return "oversight" }
func (d *Cooperation) kind() string { return "cooperation" }
func (d *Competition) kind() string { return "competition" }
func (d *Coopetition) kind() string { return "coopetition" }

func (d *Delegation) binary() bool  { return true }
func (d *Oversight) binary() bool   { return true }
func (d *Cooperation) binary() bool { return false }
func (d *Competition) binary() bool { return false }
func (d *Coopetition) binary() bool { return false }

func (d *Delegation) escalation() *Escalate  { return d.Escalation }
func (d *Oversight) escalation() *Escalate   { return d.OnDeadlock }
func (d *Cooperation) escalation() *Escalate { return nil }
func (d *Competition) escalation() *Escalate { return escalateOf(d.Resolve) }
func (d *Coopetition) escalation() *Escalate { return escalateOf(d.Resolve) }

func (d *Delegation) deciders() []string { return nil }
func (d *Oversight) deciders() []string  { return nil }
func (d *Cooperation) deciders() []string {
	if d.MergeBy != nil {
		return []string{d.MergeBy.Name}
	}
	return nil
}
func (d *Competition) deciders() []string { return decidersOf(d.Resolve) }
func (d *Coopetition) deciders() []string { return decidersOf(d.Resolve) }

// product is what a draft on this edge is: the first artifact, or text.
func (s *Shared) product() (field, error) {
	if len(s.Artifacts) == 0 {
		return field{name: "draft", schema: textOf(draftLength)}, nil
	}
	return s.Artifacts[0].draft()
}

func (s *Shared) rounds() int {
	if s.MaxRounds <= 0 {
		return DefaultRounds
	}
	return s.MaxRounds
}

// ends reports whether a condition may end it with what there is.
func (s *Shared) ends() bool { return s.Until != nil || len(s.Stops) > 0 }

func (s *Shared) watches(what string) bool { return slices.Contains(s.Watch, what) }

// sendsBack reports whether a guardrail may ask for more rounds.
func (s *Shared) sendsBack() bool {
	return slices.ContainsFunc(s.Guardrails, func(g workflow.Guardrail) bool { return g.On == workflow.Revise })
}

func (s *Shared) policy() OnTimeout {
	if s.OnTimeout == "" {
		return EscalateTimeout
	}
	return s.OnTimeout
}

// artifact finds one by name.
func (s *Shared) artifact(name string) (Artifact, bool) {
	i := slices.IndexFunc(s.Artifacts, func(a Artifact) bool { return a.Name == name })
	if i < 0 {
		return Artifact{Name: name}, false
	}
	return s.Artifacts[i], true
}

// check looks at the fields that all types have.
func (s *Shared) check() error {
	for i, a := range s.Artifacts {
		if _, err := a.schema(); err != nil {
			return err
		}
		for _, b := range s.Artifacts[:i] {
			if a.Name == b.Name {
				return fmt.Errorf("society: artifact %q is there twice", a.Name)
			}
		}
	}
	switch s.policy() {
	case EscalateTimeout, RetryOnce, Terminate:
	default:
		return fmt.Errorf("society: on_timeout is %q; it is ESCALATE, RETRY_ONCE or TERMINATE", s.OnTimeout)
	}
	if s.MaxRounds < 0 || s.MaxMessages < 0 || s.Timeout < 0 || s.Deadline < 0 {
		return fmt.Errorf("society: max_rounds, max_messages, timeout and deadline can't be below 0")
	}
	for _, g := range s.Guardrails {
		if err := g.Valid(); err != nil {
			return err
		}
		if g.On == workflow.Reroute {
			return fmt.Errorf("guardrail %s reroutes, and an edge of a society has no other way; fix: use \"revise\", \"block\", \"warn\" or \"sanitize\"; reroute is for edges of graphs", g.Name)
		}
	}
	for _, w := range s.Watch {
		if key, named := strings.CutPrefix(w, unmoved+":"); w != "stalled" && w != "no_taker" && w != unmoved && (!named || key == "") {
			return fmt.Errorf("society: watch is %q; it is \"stalled\", \"no_taker\", \"unmoved\" or \"unmoved:<key>\"", w)
		}
	}
	return nil
}
