package lib

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/starlark"

	"edged/agent"
	"edged/agent/llm/schema"
	"edged/starlark/value"
	"edged/workflow/society"
)

// resolver picks one of several submissions. It is made for a society when an
// edge is: its agents are those of the society.
type resolver struct {
	name string
	make func(s *commune) (society.Resolver, error)
}

var resolverKind = &value.Kind[*resolver]{
	Name: "resolver", Doc: "What picks one of several submissions: JudgePicks, MajorityVote, BestScore, Escalate, or a function.",
	String: func(r *resolver) string { return fmt.Sprintf("<resolver %s>", r.name) },
}

// appeal is who decides when nobody else can.
type appeal struct {
	to agent.Agent // nil: name
	society.Escalate
}

var appealKind = &value.Kind[*appeal]{
	Name: "escalation", Doc: "Who decides when nobody else can, see Escalate.",
	Attrs: []value.Attr[*appeal]{
		{Name: "to", Doc: "Its name.", Type: value.String, Get: func(e *appeal) (any, error) { return e.To, nil }},
		{Name: "summary", Doc: "Whether it gets a summary, and not the turns as they were.", Type: value.Bool, Get: func(e *appeal) (any, error) { return !e.Raw, nil }},
	},
	String: func(e *appeal) string { return fmt.Sprintf("<escalation to %s>", e.To) },
}

var (
	targetType  = value.Either(value.String, agentKind.Type())
	appealType  = value.Either(appealKind.Type(), targetType)
	resolveType = value.Either(resolverKind.Type(), appealKind.Type(), value.Callable)
)

var appealParams = []value.Param{
	{Name: "to", Type: targetType, Required: true, Positional: true, Doc: "The agent, or its name; HUMAN is the person."},
	{Name: "summary", Type: value.Bool, Default: true, Doc: "It gets a summary made by code: the task, the cause, the last drafts and comments. False: all turns as they were."},
	{Name: "timeout", Type: value.Duration, Doc: "How long it may take. Missing: as long as a round of the edge; a person as long as the person takes."},
}

var resolverRows = []row{
	{value.Func{
		Name: "JudgePicks", Doc: "Lets an agent pick. It reads the submissions as A, B, C in an order that was drawn, without names, and can only answer with one of these or \"none\".",
		Example: "JudgePicks(judge, criteria = [\"keeps 1 m from people\"], swap = True, on_neither = \"best_effort\")",
		Params: []value.Param{
			{Name: "judge", Type: agentKind.Type(), Required: true, Positional: true, Doc: "Who; not one of those who compete."},
			{Name: "criteria", Type: value.ListOf(value.String), Doc: "What the judge goes by."},
			{Name: "output_schema", Type: outputType, Doc: "The form of its answer, with a required string \"winner\"; missing: because and winner."},
			{Name: "on_neither", Type: value.OneOf("escalate", "retry", "best_effort"), Default: "escalate", Doc: "If nobody is picked: escalate; retry is one more round with the judge's reasons, then the best effort; best_effort is the first in member order that passes the guardrails."},
			{Name: "swap", Type: value.Bool, Default: false, Doc: "Ask again in the reverse order; another answer is a tie."}},
		Returns: "a resolver",
	}, (*Behaviour).judgePicks},
	{value.Func{
		Name: "MajorityVote", Doc: "Lets agents vote; most votes win. A vote that can't be read is an abstention.",
		Example: "MajorityVote([anna, ben, carl], tie = \"first\")",
		Params: []value.Param{
			{Name: "voters", Type: value.ListOf(agentKind.Type()), Positional: true, Doc: "Who; if missing the members, but never for themselves: two members always tie."},
			{Name: "tie", Type: value.Either(value.OneOf("escalate", "first"), value.Callable), Default: "escalate", Doc: "escalate, first in member order, or a function of the tied submissions and the state that returns a name."}},
		Returns: "a resolver",
	}, (*Behaviour).majorityVote},
	{value.Func{
		Name: "BestScore", Doc: "Picks by a number in the submissions, without a model. The ranking names the next best.",
		Example: "BestScore(\"cost\", highest = False, reserve = 400, tie = \"eta_s\")",
		Params: []value.Param{
			{Name: "field", Type: value.String, Required: true, Positional: true, Doc: "Where the number is."},
			{Name: "highest", Type: value.Bool, Default: true, Doc: "False: the lowest is the best."},
			{Name: "reserve", Type: value.Number, Doc: "What is worse is not picked."},
			{Name: "tie", Type: value.String, Doc: "The field that decides between equals, in the same direction; then member order."}},
		Returns: "a resolver",
	}, func(_ *Behaviour, c *value.Call) (starlark.Value, error) {
		r := society.BestScore{Field: c.String("field"), Lowest: !c.Bool("highest"), Tie: c.String("tie")}
		if r.Field == "" {
			return nil, c.Errorf("field", "argument \"field\": name the field of the submissions that holds the number")
		}
		if c.Has("reserve") {
			least := c.Float("reserve")
			r.Reserve = &least
		}
		return resolverKind.Wrap(&resolver{c.Name(), func(*commune) (society.Resolver, error) { return r, nil }}), nil
	}},
	{value.Func{
		Name: "Escalate", Doc: "Names who decides when nobody else can. It gives a final answer, once in a run; as resolve it picks every time.",
		Example: "Escalate(HUMAN)", Params: appealParams, Returns: "an escalation",
	}, (*Behaviour).escalate},
	{value.Func{
		Name: "EscalationPolicy", Doc: "The same as Escalate.", Example: "EscalationPolicy(to = \"tech-lead\")", Params: appealParams, Returns: "an escalation",
	}, (*Behaviour).escalate},
}

func (b *Behaviour) escalate(c *value.Call) (starlark.Value, error) {
	e, err := appealTo(c, "to", c.Value("to"))
	if err != nil {
		return nil, err
	}
	e.Raw, e.Patience = !c.Bool("summary"), c.Duration("timeout")
	return appealKind.Wrap(e), nil
}

// appealTo makes one of a name, an agent or an escalation.
func appealTo(c *value.Call, arg string, v starlark.Value) (*appeal, error) {
	if e, err := appealKind.Unwrap(v); err == nil {
		return e, nil
	}
	if a, err := agentKind.Unwrap(v); err == nil {
		return &appeal{to: a, Escalate: society.Escalate{To: a.Name()}}, nil
	}
	name, _ := starlark.AsString(v)
	if name == "" {
		return nil, c.Errorf(arg, "argument %q: it names nobody", arg)
	}
	return &appeal{Escalate: society.Escalate{To: name}}, nil
}

// appealOf reads an argument; nil if it was not given.
func appealOf(c *value.Call, arg string) (*appeal, error) {
	if !c.Has(arg) {
		return nil, nil
	}
	return appealTo(c, arg, c.Value(arg))
}

// in gives the escalation to a society, which knows its target from then on.
func (e *appeal) in(s *commune) (*society.Escalate, error) {
	if e == nil {
		return nil, nil
	}
	out := e.Escalate
	if e.to != nil {
		a, err := s.agentOf(e.to)
		if err != nil {
			return nil, err
		}
		if a.Name != society.HUMAN {
			if err := s.s.Add(a); err != nil {
				return nil, err
			}
		}
	}
	return &out, nil
}

func (b *Behaviour) judgePicks(c *value.Call) (starlark.Value, error) {
	judge := agentKind.Arg(c, "judge")
	r := society.JudgePicks{Criteria: c.Strings("criteria"), OnNeither: society.OnNeither(c.String("on_neither")), Swap: c.Bool("swap")}
	if c.Has("output_schema") {
		s, err := formOf(c, "output_schema")
		if err == nil {
			if p := s.Property("winner"); p == nil || !p.Required || p.Schema.Kind != schema.String {
				err = &value.Error{Arg: "output_schema", Msg: "output_schema has no required string \"winner\"", Hint: "it becomes one of the labels A, B, C or none: {\"type\": \"object\", \"required\": [\"because\", \"winner\"], \"properties\": {…}}"}
			}
		}
		if err != nil {
			return nil, err
		}
		if r.OutputSchema, err = schema.Encode(s); err != nil {
			return nil, err
		}
	}
	return resolverKind.Wrap(&resolver{c.Name(), func(s *commune) (society.Resolver, error) {
		a, err := s.agentOf(judge)
		out := r
		out.Judge = a
		return out, err
	}}), nil
}

func (b *Behaviour) majorityVote(c *value.Call) (starlark.Value, error) {
	r := society.MajorityVote{}
	voters, err := agentsIn(c, "voters")
	if err != nil {
		return nil, err
	}
	for i, v := range voters {
		if slices.Contains(voters[:i], v) {
			return nil, c.Errorf("voters", "argument \"voters\": %q votes twice: name it once", v.Name())
		}
	}
	if fn, is := c.Value("tie").(starlark.Callable); is {
		keep(c, fn)
		cb, missing := makeCallback(fn, "submissions", "state")
		if missing != "" {
			return nil, c.Errorf("tie", "argument \"tie\": %s needs an argument %q, but it is called with (submissions, state, ctx)", fn.Name(), missing)
		}
		r.TieFunc = func(ctx context.Context, tied []society.Submission) (string, error) { return b.pickOne(ctx, cb, tied) }
	} else {
		r.Tie = society.Tie(c.String("tie"))
	}
	return resolverKind.Wrap(&resolver{c.Name(), func(s *commune) (society.Resolver, error) {
		out := r
		for _, v := range voters {
			a, err := s.agentOf(v)
			if err != nil {
				return nil, err
			}
			out.Voters = append(out.Voters, a)
		}
		return out, nil
	}}), nil
}

// agentsIn reads a list of agents.
func agentsIn(c *value.Call, arg string) (list []agent.Agent, err error) {
	for i, v := range c.List(arg) {
		a, err := agentKind.Unwrap(v)
		if err != nil {
			return nil, c.Errorf(arg, "argument %q: element %d: %v", arg, i, err)
		}
		list = append(list, a)
	}
	return list, nil
}

// resolveOf reads the argument resolve; nil if it was not given.
func (b *Behaviour) resolveOf(c *value.Call) (*resolver, error) {
	if !c.Has("resolve") {
		return nil, &value.Error{Arg: "resolve", Msg: c.Name() + " has no resolve: nobody would say who wins",
			Hint: "give it JudgePicks(judge), MajorityVote(voters), BestScore(\"field\"), Escalate(to), or a function (submissions, state) that returns a name or None"}
	}
	v := c.Value("resolve")
	if r, err := resolverKind.Unwrap(v); err == nil {
		return r, nil
	}
	if e, err := appealKind.Unwrap(v); err == nil {
		return &resolver{"Escalate", func(s *commune) (society.Resolver, error) { return e.in(s) }}, nil
	}
	cb, err := newCallback(c, "resolve", "submissions", "state")
	if err != nil {
		return nil, err
	}
	f := society.ResolveFunc(func(ctx context.Context, subs []society.Submission, _ map[string]any) (string, error) {
		return b.pickOne(ctx, cb, subs)
	})
	return &resolver{cb.name, func(*commune) (society.Resolver, error) { return f, nil }}, nil
}

// pickOne asks a function for one of the submissions, or nobody.
func (b *Behaviour) pickOne(ctx context.Context, cb *callback, subs []society.Submission) (string, error) {
	v, err := b.consult(ctx, cb, submissionList(subs), b.worldFor(ctx, cb, 1))
	if err != nil || v == starlark.None {
		return "", err
	}
	name, text := starlark.AsString(v)
	if s, err := submissionKind.Unwrap(v); err == nil {
		name, text = s.Agent, true
	} else if a, err := agentKind.Unwrap(v); err == nil {
		name, text = a.Name(), true
	}
	var known []string
	for _, s := range subs {
		known = append(known, s.Agent)
	}
	if !text || !slices.Contains(known, name) {
		return "", fmt.Errorf("%s returned %s: want one of %s, or None", cb.name, shown(v), strings.Join(known, ", "))
	}
	return name, nil
}

// consult runs a function that looks and decides, and moves nothing.
func (b *Behaviour) consult(ctx context.Context, cb *callback, offered ...starlark.Value) (starlark.Value, error) {
	r := &run{Context: ctx, b: b, source: "society:" + cb.name, reads: true, more: &more{name: cb.name}}
	return b.do(r, cb, offered...)
}

// weigh runs a condition, which does nothing at all.
func (b *Behaviour) weigh(ctx context.Context, cb *callback, offered ...starlark.Value) (starlark.Value, error) {
	r := &run{Context: ctx, b: b, source: "society:" + cb.name, pure: inGuard, more: &more{name: cb.name}}
	return b.do(r, cb, offered...)
}

var submissionKind = &value.Kind[*society.Submission]{
	Name: "submission", Fixed: true, Doc: "What a member gave, as functions see it that resolve or merge.",
	Attrs: []value.Attr[*society.Submission]{
		{Name: "agent", Doc: "Who gave it.", Type: value.String, Get: func(s *society.Submission) (any, error) { return s.Agent, nil }},
		{Name: "output", Doc: "What was given.", Get: func(s *society.Submission) (any, error) { return s.Output, nil }},
		{Name: "label", Doc: "What a judge reads in place of the name, if one was asked.", Type: value.String, Get: func(s *society.Submission) (any, error) { return s.Label, nil }},
	},
	String: func(s *society.Submission) string { return fmt.Sprintf("<submission of %s>", s.Agent) },
	Key:    func(s *society.Submission) string { return fmt.Sprintf("%s %d", s.Agent, s.Turn) },
}

func submissionList(subs []society.Submission) starlark.Value {
	list := make([]starlark.Value, len(subs))
	for i := range subs {
		list[i] = submissionKind.Wrap(&subs[i])
	}
	out := starlark.NewList(list)
	out.Freeze()
	return out
}
