package lib

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/starlark"

	"edged/agent"
	"edged/starlark/value"
	"edged/workflow/society"
)

// edge is the type of an edge with its fields, as scripts make it: it may be
// used for several.
type edge struct {
	kind   string // as scripts write it: "Oversight"
	common common
	up     *appeal   // who decides when they can't; nil: not said
	how    *resolver // who or what picks one
	by     agent.Agent
	// relation makes it, of the fields that all edges have and of those it names.
	relation func(sh society.Shared, p parties) society.Relation
}

// parties are those whom an edge names besides its members, as a society knows
// them.
type parties struct {
	to      *society.Escalate
	resolve society.Resolver
	by      *society.Agent // who puts drafts together
}

// common are the fields of all edges.
type common struct {
	society.Shared
	order   *order
	reached []string // names in node_reached
}

var edgeKind = &value.Kind[*edge]{
	Name: "edge", Doc: "The type of an edge: Delegation, Oversight, Cooperation, Competition or Coopetition.",
	Attrs: []value.Attr[*edge]{
		{Name: "type", Doc: "Its type: \"Oversight\".", Type: value.String, Get: func(e *edge) (any, error) { return e.kind, nil }},
	},
	String: func(e *edge) string { return fmt.Sprintf("<edge %s>", e.kind) },
}

// The constants of on_timeout.
var timeoutPolicies = []string{string(society.EscalateTimeout), string(society.RetryOnce), string(society.Terminate)}

func timeoutPolicyMembers() starlark.StringDict {
	d := starlark.StringDict{}
	for _, p := range timeoutPolicies {
		d[p] = starlark.String(p)
	}
	return d
}

var edgeParams = []value.Param{
	{Name: "artifacts", Type: value.ListOf(artifactKind.Type()), Doc: "Work products that flow along the edge. The first is what is made here; a draft without one is text."},
	{Name: "events", Type: value.ListOf(value.String), Doc: "Names of events that members may send to each other, besides those of the type, see ctx.emit."},
	{Name: "max_rounds", Type: value.Between(value.Int, 1, 1000), Doc: "After how many rounds it is a deadlock; 8 if missing."},
	{Name: "timeout", Type: value.Duration, Doc: "How long a round may take, waiting for the model included."},
	{Name: "on_timeout", Type: value.OneOf(timeoutPolicies...), Default: string(society.EscalateTimeout), Doc: "What becomes of a round whose time is over: ESCALATE, RETRY_ONCE asks those who are missing exactly once more, TERMINATE ends it."},
	{Name: "protocol", Type: orderType, Doc: "Whose turn it is: Sequential, Broadcast, Market, Queue, or functions of your own, see Protocol. A delegation and an oversight have their order."},
	{Name: "until", Type: value.Either(stopKind.Type(), value.Callable, value.ListOf(value.Either(stopKind.Type(), value.Callable))), Doc: "Ends a cooperation with what there is: a function of the round's work and the state, converged(…), max_messages(…), node_reached(…), or a list. Where a reviewer or a resolver decides there is none."},
	{Name: "max_messages", Type: value.Between(value.Int, 1, 10_000), Doc: "After how many turns it is a deadlock, looked at after each. Of a Coopetition it bounds what is agreed on; a Competition has none."},
	{Name: "guardrails", Type: value.ListOf(guardrailKind.Type()), Doc: "Checks of every draft, Guardrail(…), before others see it. On edges of a society there is no reroute."},
	{Name: "watch", Type: value.ListOf(value.String), Doc: "What to escalate at once: \"stalled\", drafts and comments stay the same for two rounds; \"no_taker\", nobody wants the task; \"unmoved:KEY\", the draft stays the same though a key of the board changed, \"unmoved\", though any did."},
	{Name: "deadline", Type: value.Duration, Doc: "How long all of it may take; then it is a timeout."},
}

// edgeRow is the row of a type of edge: own fields first.
func edgeRow(f value.Func, make func(b *Behaviour, c *value.Call, e *edge) error) row {
	f.Params, f.Returns = append(f.Params, edgeParams...), "an edge"
	return row{f, func(b *Behaviour, c *value.Call) (starlark.Value, error) {
		e := &edge{kind: f.Name}
		if err := b.commonOf(c, &e.common); err != nil {
			return nil, err
		}
		if err := make(b, c, e); err != nil {
			return nil, err
		}
		return edgeKind.Wrap(e), nil
	}}
}

var resolveParam = value.Param{Name: "resolve", Type: resolveType, Doc: "Who or what picks one: JudgePicks, MajorityVote, BestScore, Escalate, or a function of the submissions and the state that returns a name or None. It must be given."}
var quorumParam = value.Param{Name: "quorum", Type: value.Between(value.Int, 1, 1000), Doc: "How many submissions are enough when the time of the round is over; all if missing."}

var edgeRows = []row{
	edgeRow(value.Func{
		Name: "Delegation", Doc: "The source gives a task to the target, and accepts or rejects what comes of it; rejected work is done again. The worker sees all of the task, the delegator a summary of the progress.",
		Example: "job = fleet.connect(dispatch, mule, Delegation(instructions = \"mind the stairs\", max_rounds = 2))",
		Params: []value.Param{
			{Name: "instructions", Type: value.String, Default: "", Doc: "What the delegator tells the worker."},
			{Name: "review", Type: value.Bool, Default: true, Doc: "False: it ends when the worker is done."},
			{Name: "escalation_policy", Type: appealType, Doc: "Who decides when the two could not: Escalate(…), an agent, or a name."}},
	}, func(_ *Behaviour, c *value.Call, e *edge) (err error) {
		e.up, err = appealOf(c, "escalation_policy")
		note, silent := c.String("instructions"), !c.Bool("review")
		e.relation = func(sh society.Shared, p parties) society.Relation {
			return &society.Delegation{Shared: sh, Instructions: note, NoReview: silent, Escalation: p.to}
		}
		return err
	}),
	edgeRow(value.Func{
		Name: "Oversight", Doc: "The source works, and the target reviews: it approves, asks for a revision, or rejects for good. The reviewer sees drafts and work log; the other its own draft and the comments.",
		Example: "review = bot.connect(planner, overseer, Oversight(max_rounds = 3, criteria = [\"stays inside the fence\"], on_deadlock = Escalate(HUMAN)))",
		Params: []value.Param{
			{Name: "criteria", Type: value.ListOf(value.String), Doc: "What the reviewer goes by."},
			{Name: "on_deadlock", Type: appealType, Doc: "Who decides when the rounds are over: Escalate(…), an agent, or a name."}},
	}, func(_ *Behaviour, c *value.Call, e *edge) (err error) {
		e.up, err = appealOf(c, "on_deadlock")
		criteria := c.Strings("criteria")
		e.relation = func(sh society.Shared, p parties) society.Relation {
			return &society.Oversight{Shared: sh, Criteria: criteria, OnDeadlock: p.to}
		}
		return err
	}),
	edgeRow(value.Func{
		Name: "Cooperation", Doc: "All make one thing together and see everything. It ends when all agree on the same version.",
		Example: "pair = team.cooperate([front, back], Cooperation(shared = [\"api-contract\"]))",
		Params: []value.Param{
			{Name: "shared", Type: value.ListOf(value.String), Doc: "Names of artifacts on the shelf that all see."},
			{Name: "merge", Type: value.Either(value.OneOf("revise", "fields", "append"), value.Callable, agentKind.Type()), Doc: "How drafts become one. revise: one version, each gives a whole new one or agrees; fields: an object, a field that two fill in differently goes back to both; append: a list; a function of the drafts and the state; or an agent. revise if missing."}},
	}, (*Behaviour).cooperation),
	edgeRow(value.Func{
		Name: "Competition", Doc: "All make the same thing apart, and one is picked. Who competes sees the task, and not even that there are others.",
		Example: "race = routes.compete([fast, gentle], Competition(resolve = JudgePicks(judge), quorum = 1, timeout = \"45s\", on_timeout = TERMINATE))",
		Params:  []value.Param{resolveParam, quorumParam},
	}, func(b *Behaviour, c *value.Call, e *edge) (err error) {
		e.how, err = b.resolveOf(c)
		quorum := c.Int("quorum")
		e.relation = func(sh society.Shared, p parties) society.Relation {
			return &society.Competition{Shared: sh, Resolve: p.resolve, Quorum: quorum}
		}
		return err
	}),
	edgeRow(value.Func{
		Name: "Coopetition", Doc: "All agree on some topics, seen by all, and compete on others, sealed until one is picked. The output is a dict of shared and won.",
		Example: "door = halls.negotiate([mule, scout], Coopetition(cooperate_on = [\"door_state\"], compete_on = [\"claim\"], resolve = MajorityVote([judge])))",
		Params: []value.Param{
			{Name: "cooperate_on", Type: value.ListOf(value.String), Doc: "Topics, or artifacts by name, that they agree on."},
			{Name: "compete_on", Type: value.ListOf(value.String), Doc: "Those that each keeps sealed."},
			resolveParam, quorumParam},
	}, func(b *Behaviour, c *value.Call, e *edge) (err error) {
		e.how, err = b.resolveOf(c)
		quorum, with, on := c.Int("quorum"), c.Strings("cooperate_on"), c.Strings("compete_on")
		if err == nil && len(on) == 0 {
			err = &value.Error{Arg: "compete_on", Msg: "Coopetition has nothing to compete on", Hint: "name topics: compete_on = [\"claim\"]; or cooperate, with a Cooperation"}
		}
		e.relation = func(sh society.Shared, p parties) society.Relation {
			return &society.Coopetition{Shared: sh, Resolve: p.resolve, Quorum: quorum, CooperateOn: with, CompeteOn: on}
		}
		return err
	}),
}

func (b *Behaviour) cooperation(c *value.Call, e *edge) error {
	out := society.Cooperation{SharedTopics: c.Strings("shared")}
	switch v := c.Value("merge").(type) {
	case starlark.String:
		out.Merge = society.Merge(v)
	case starlark.Callable:
		cb, err := newCallback(c, "merge", "drafts", "state")
		if err != nil {
			return err
		}
		out.MergeFunc = func(ctx context.Context, drafts []society.Submission) (any, error) {
			v, err := b.consult(ctx, cb, submissionList(drafts), b.worldFor(ctx, cb, 1))
			if err != nil {
				return nil, err
			}
			return value.ToGo(v)
		}
	default:
		e.by, _ = agentKind.Unwrap(v)
	}
	e.relation = func(sh society.Shared, p parties) society.Relation {
		r := out
		r.Shared, r.MergeBy = sh, p.by
		return &r
	}
	return nil
}

// commonOf reads the fields that all edges have.
func (b *Behaviour) commonOf(c *value.Call, e *common) (err error) {
	for _, v := range c.List("artifacts") {
		a, err := artifactKind.Unwrap(v)
		if err != nil {
			return err
		}
		e.Artifacts = append(e.Artifacts, *a)
	}
	e.Events, e.MaxRounds, e.Timeout = c.Strings("events"), c.Int("max_rounds"), c.Duration("timeout")
	e.OnTimeout, e.Deadline = society.OnTimeout(c.String("on_timeout")), c.Duration("deadline")
	for _, w := range c.Strings("watch") {
		key, named := strings.CutPrefix(w, "unmoved:")
		if w != "stalled" && w != "no_taker" && w != "unmoved" && (!named || key == "") {
			hint := "there are \"stalled\", \"no_taker\", \"unmoved\" and \"unmoved:KEY\", with a key of the board"
			return &value.Error{Arg: "watch", Msg: fmt.Sprintf("argument \"watch\": there is no watcher %q", w), Hint: hint}
		}
		e.Watch = append(e.Watch, w)
	}
	if e.order, err = b.orderOf(c, "protocol"); err != nil {
		return err
	}
	e.MaxMessages = c.Int("max_messages")
	if err := b.untilOf(c, e); err != nil {
		return err
	}
	e.Guardrails, err = b.guardrails(c, func(g *guardrail, _ map[string]any) any { return b.worldFor(b.life, g.check, 1) })
	return err
}

// untilOf reads what ends an interaction early.
func (b *Behaviour) untilOf(c *value.Call, e *common) error {
	if !c.Has("until") {
		return nil
	}
	list := []starlark.Value{c.Value("until")}
	if many, ok := list[0].(starlark.Tuple); ok {
		list = many
	}
	var asked []*callback
	for _, v := range list {
		if s, err := stopKind.Unwrap(v); err == nil {
			switch {
			case s.messages > 0 && (e.MaxMessages == 0 || s.messages < e.MaxMessages):
				e.MaxMessages = s.messages
			case s.node != "":
				e.reached = append(e.reached, s.node)
			}
			if s.ask != nil {
				e.Stops = append(e.Stops, s.ask)
			}
			continue
		}
		fn := v.(starlark.Callable)
		keep(c, fn)
		cb, missing := makeCallback(fn, "work", "state")
		if missing != "" {
			return c.Errorf("until", "argument \"until\": %s needs an argument %q, but it is called with (work, state, ctx)", fn.Name(), missing)
		}
		asked = append(asked, cb)
	}
	if len(asked) == 0 {
		return nil
	}
	e.Until = func(ctx context.Context, round []society.Work) (bool, error) {
		for _, cb := range asked {
			v, err := b.weigh(ctx, cb, workList(round), b.worldFor(ctx, cb, 1))
			if err != nil || v.Truth() == starlark.True {
				return err == nil, err
			}
		}
		return false, nil
	}
	return nil
}

var workKind = &value.Kind[*society.Work]{
	Name: "work", Fixed: true, Doc: "What came of a turn, as until sees it.",
	Attrs: []value.Attr[*society.Work]{
		{Name: "agent", Doc: "Whose turn it was.", Type: value.String, Get: func(w *society.Work) (any, error) { return w.Author, nil }},
		{Name: "output", Doc: "The draft, or None.", Get: func(w *society.Work) (any, error) { return w.Draft, nil }},
		{Name: "agrees", Doc: "Whether it agreed with the newest version.", Type: value.Bool, Get: func(w *society.Work) (any, error) { return w.Agrees, nil }},
		{Name: "state", Doc: "How the turn ended: \"ok\", \"invalid\".", Type: value.String, Get: func(w *society.Work) (any, error) { return string(w.State), nil }},
	},
	String: func(w *society.Work) string { return fmt.Sprintf("<work of %s>", w.Author) },
}

func workList(round []society.Work) starlark.Value {
	list := make([]starlark.Value, len(round))
	for i := range round {
		list[i] = workKind.Wrap(&round[i])
	}
	out := starlark.NewList(list)
	out.Freeze()
	return out
}

// in makes the edge for members of a society.
func (e *edge) in(s *commune, name string, members []string) (society.Relation, error) {
	sh := e.common.Shared
	sh.Name = name
	sh.Artifacts = slices.Clone(sh.Artifacts)
	if e.common.order != nil {
		sh.Protocol = e.common.order.spec(members)
	}
	for _, who := range e.common.reached {
		if !slices.Contains(members, who) {
			return nil, &value.Error{Arg: "type", Msg: fmt.Sprintf("%s of %s: node_reached names %q, who is not a member", e.kind, strings.Join(members, ", "), who)}
		}
	}
	var p parties
	var err error
	if p.to, err = e.up.in(s); err != nil {
		return nil, err
	}
	if e.how != nil {
		if p.resolve, err = e.how.make(s); err != nil {
			return nil, err
		}
	}
	if e.by != nil {
		if p.by, err = s.agentOf(e.by); err != nil {
			return nil, err
		}
	}
	return e.relation(sh, p), nil
}
