package lib

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.starlark.net/starlark"

	"edged/agent"
	"edged/starlark/script"
	"edged/starlark/value"
	"edged/workflow"
	"edged/workflow/society"
)

// commune is a society as scripts hold it: its agents are those of the script.
type commune struct {
	b  *Behaviour
	s  *society.Society
	at script.Position

	mu      sync.Mutex // guards the rest
	members map[agent.Agent]*society.Agent
	values  map[string]starlark.Value // of agents, by name
	links   []*link                   // in order
}

// link is an interaction as scripts hold it.
type link struct {
	*society.Interaction
	s     *commune
	value starlark.Value
	at    script.Position
}

var communeKind = &value.Kind[*commune]{
	Name: "society", Doc: "Agents and typed edges between them, see Society.",
	Attrs: []value.Attr[*commune]{
		{Name: "name", Doc: "Its name.", Type: value.String, Get: func(s *commune) (any, error) { return s.s.Name(), nil }},
		{Name: "description", Doc: "What it is for.", Type: value.String, Get: func(s *commune) (any, error) { return s.s.Description(), nil }},
		{Name: "agents", Doc: "All agents, in the order in which they were named.", Get: func(s *commune) (any, error) { return starlark.NewList(s.agentValues()), nil }},
		{Name: "edges", Doc: "The interactions of two.", Get: func(s *commune) (any, error) { return starlark.NewList(s.edgeValues(s.s.Edges())), nil }},
		{Name: "group_edges", Doc: "The interactions of groups.", Get: func(s *commune) (any, error) { return starlark.NewList(s.edgeValues(s.s.GroupEdges())), nil }},
		{Name: "all_edges", Doc: "All interactions.", Get: func(s *commune) (any, error) { return starlark.NewList(s.edgeValues(s.s.AllEdges())), nil }},
	},
	Methods: communeMethods,
	String:  func(s *commune) string { return fmt.Sprintf("<society %s>", s.s.Name()) },
	Key:     func(s *commune) string { return fmt.Sprintf("%s %p", s.s.Name(), s) },
}

var societyRows = []row{
	{value.Func{
		Name: "Society", Doc: "Makes a society: agents, and edges between them that say who sees what, how a conflict is settled, and when it ends. What connect and its siblings give is an agent: run it, put it into a workflow or a graph.",
		Example: "bot = Society(\"kitchen-bot\", escalate_to = HUMAN)\nreview = bot.connect(planner, overseer, Oversight(max_rounds = 3))\n\non(\"voice/goal\", lambda ev: log.info(review.run(ev[\"goal\"]).status))",
		Params: []value.Param{
			{Name: "name", Type: value.String, Required: true, Positional: true, Doc: "Its name."},
			{Name: "description", Type: value.String, Default: "", Doc: "What it is for, for people."},
			{Name: "escalate_to", Type: targetType, Doc: "Who decides when nobody else can: an agent, its name, or HUMAN."},
			{Name: "seed", Type: value.Int, Default: 0, Doc: "Of the order in which judges read submissions."}},
		Returns: "a society",
	}, (*Behaviour).society},
}

func (b *Behaviour) society(c *value.Call) (starlark.Value, error) {
	name := c.String("name")
	if strings.TrimSpace(name) == "" {
		return nil, c.Errorf("name", "argument \"name\": a society needs one")
	}
	s := &commune{b: b, at: where(c), members: make(map[agent.Agent]*society.Agent), values: make(map[string]starlark.Value)}
	up, err := appealOf(c, "escalate_to")
	if err != nil {
		return nil, err
	}
	o := society.Options{
		Description: c.String("description"), Log: b.turnLog(), Lasting: script.Loading(c.Thread), Seed: uint64(c.Int64("seed")),
		Human: &society.Agent{Name: society.HUMAN, Role: "the person", Speaker: b.people(name), Patience: personTime},
		Trace: b.tellTurn(name), Send: b.tellEvent(name), Guarded: b.tellRail(name), Key: b.worldKey, Trusted: b.trusted,
	}
	if up != nil {
		o.EscalateTo = up.To
	}
	s.s = society.New(name, o)
	if _, err := up.in(s); err != nil {
		return nil, err
	}
	if script.Loading(c.Thread) {
		if err := b.noteSociety(s); err != nil {
			return nil, err
		}
	}
	return communeKind.Wrap(s), nil
}

// noteSociety keeps one that is declared at top level.
func (b *Behaviour) noteSociety(s *commune) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, o := range b.societies {
		if o.s.Name() == s.s.Name() {
			return &value.Error{Arg: "name", Msg: fmt.Sprintf("the name %q is taken by the society at %v", s.s.Name(), o.at), Hint: "their records could not be told apart: give it another"}
		}
	}
	b.societies = append(b.societies, s)
	return nil
}

// Societies gives the societies that scripts declare at top level, in order.
func (b *Behaviour) Societies() []*society.Society {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []*society.Society
	for _, s := range b.societies {
		list = append(list, s.s)
	}
	return list
}

// Turns is where the turns of interactions are kept.
func (b *Behaviour) Turns() *society.Log { return b.turnLog() }

func (b *Behaviour) turnLog() *society.Log {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.record == nil {
		if b.record = b.host.Turns; b.record == nil {
			b.record = society.NewLog(nil, society.LogOptions{})
		}
	}
	return b.record
}

var (
	linkName    = value.Param{Name: "name", Type: value.String, Default: "", Doc: "The interaction's name; made of society, type and members if missing."}
	membersRow  = value.Param{Name: "members", Type: value.ListOf(agentKind.Type()), Required: true, Positional: true, Doc: "The members, two or more, each once."}
	edgeTypeRow = value.Param{Name: "type", Type: edgeKind.Type(), Required: true, Positional: true, Doc: "The edge."}
)

// linkMethod is a method that makes an interaction.
func linkMethod(name, doc, example string, first ...value.Param) value.Method[*commune] {
	params := append(slices.Clone(first), edgeTypeRow, linkName)
	own := slices.Clone(nodeParams)
	for i := range own {
		if p := &own[i]; p.Name == "checkpoint" {
			p.Default, p.Doc = nil, p.Doc+" Missing: where HUMAN may be asked, for a person may take longer than the process lives."
		}
	}
	return value.Method[*commune]{
		Func: value.Func{Name: name, Doc: doc, Example: example, Params: append(params, own...), Returns: "an interaction"},
		Do: func(s *commune, c *value.Call) (starlark.Value, error) {
			if name != "connect" {
				list, err := agentsIn(c, "members")
				if err != nil {
					return nil, err
				}
				return s.join(c, name, list)
			}
			return s.join(c, name, []agent.Agent{agentKind.Arg(c, "source"), agentKind.Arg(c, "target")})
		},
	}
}

var communeMethods = []value.Method[*commune]{
	linkMethod("connect", "Makes an edge of two: a Delegation from source to target, an Oversight of the source by the target, or a Cooperation of both.",
		"review = bot.connect(planner, overseer, Oversight(max_rounds = 3))",
		value.Param{Name: "source", Type: agentKind.Type(), Required: true, Positional: true, Doc: "Who delegates, or is reviewed."},
		value.Param{Name: "target", Type: agentKind.Type(), Required: true, Positional: true, Doc: "Who is delegated to, or reviews."}),
	linkMethod("cooperate", "Lets two or more make one thing together.", "pair = team.cooperate([front, back], Cooperation(shared = [\"api\"]))", membersRow),
	linkMethod("compete", "Lets two or more make the same thing apart, and has one picked.", "race = routes.compete([fast, gentle], Competition(resolve = JudgePicks(judge)))", membersRow),
	linkMethod("negotiate", "Lets two or more agree on some topics and compete on others.", "door = halls.negotiate([mule, scout], Coopetition(compete_on = [\"claim\"], resolve = who_first))", membersRow),
	{
		Func: value.Func{Name: "edges_of", Doc: "Returns the interactions of which an agent is a member.", Returns: "a list of agents",
			Params: []value.Param{{Name: "agent", Type: targetType, Required: true, Positional: true, Doc: "The agent, or its name."}}},
		Do: func(s *commune, c *value.Call) (starlark.Value, error) {
			return starlark.NewList(s.edgeValues(s.s.EdgesOf(memberName(c.Value("agent"))))), nil
		},
	},
	{
		Func: value.Func{Name: "edge_between", Doc: "Returns the interaction from one agent to another.", Returns: "an agent", Example: "bot.edge_between(planner, overseer, type = Oversight)",
			Params: []value.Param{
				{Name: "source", Type: targetType, Required: true, Positional: true, Doc: "The agent, or its name."},
				{Name: "target", Type: targetType, Required: true, Positional: true, Doc: "The other."},
				{Name: "type", Type: value.Either(value.String, value.Callable), Doc: "Its type, Oversight or \"Oversight\"; it must be said if there are several."},
				{Name: "name", Type: value.String, Doc: "Its name, where there are several of a type."}}},
		Do: (*commune).between,
	},
	{
		Func: value.Func{Name: "add", Doc: "Makes agents known that are in no edge: those that escalations name.",
			Params: []value.Param{{Name: "agents", Type: value.OneOrMany(agentKind.Type()), Required: true, Positional: true, Doc: "Who."}}},
		Do: func(s *commune, c *value.Call) (starlark.Value, error) {
			list, err := agentsIn(c, "agents")
			for _, a := range list {
				if err == nil {
					_, err = (&appeal{to: a}).in(s)
				}
			}
			return nil, plainSociety(err)
		},
	},
	{
		Func: value.Func{Name: "put", Doc: "Lays something on the shelf, where edges with an artifact of that name find it.",
			Params: []value.Param{
				{Name: "artifact", Type: value.Either(value.String, artifactKind.Type()), Required: true, Positional: true, Doc: "Which, or its name."},
				{Name: "value", Type: value.Data, Required: true, Positional: true, Doc: "What."}}},
		Do: func(s *commune, c *value.Call) (starlark.Value, error) {
			if err := effect(c); err != nil {
				return nil, err
			}
			tree, err := c.Tree("value")
			if err == nil {
				s.s.Put(c.Context(), artifactName(c), tree)
			}
			return nil, err
		},
	},
	{
		Func: value.Func{Name: "get", Doc: "Returns what lies on the shelf: what an interaction made, or put was given; None if there is nothing.", Returns: "a value",
			Params: []value.Param{{Name: "artifact", Type: value.Either(value.String, artifactKind.Type()), Required: true, Positional: true, Doc: "Which, or its name."}}},
		Do: func(s *commune, c *value.Call) (starlark.Value, error) {
			v, _ := s.s.Get(c.Context(), artifactName(c))
			return c.Return(v)
		},
	},
	{
		Func: value.Func{Name: "revoke", Doc: "Takes an agent's turns away: it gets no more, and one that is under way ends.",
			Params: []value.Param{{Name: "agent", Type: targetType, Required: true, Positional: true, Doc: "The agent, or its name."}}},
		Do: func(s *commune, c *value.Call) (starlark.Value, error) { return s.turnsOf(c, s.s.Revoke) },
	},
	{
		Func: value.Func{Name: "restore", Doc: "Gives an agent that was revoked its turns back.",
			Params: []value.Param{{Name: "agent", Type: targetType, Required: true, Positional: true, Doc: "The agent, or its name."}}},
		Do: func(s *commune, c *value.Call) (starlark.Value, error) { return s.turnsOf(c, s.s.Restore) },
	},
}

func artifactName(c *value.Call) string {
	if a, err := artifactKind.Unwrap(c.Value("artifact")); err == nil {
		return a.Name
	}
	return c.String("artifact")
}

func (s *commune) turnsOf(c *value.Call, do func(string)) (starlark.Value, error) {
	if err := effect(c); err != nil {
		return nil, err
	}
	name := memberName(c.Value("agent"))
	if err := s.known(name); err != nil {
		return nil, c.Errorf("agent", "argument \"agent\": %v", err)
	}
	do(name)
	return nil, nil
}

func (s *commune) known(name string) error {
	var all []string
	for _, a := range s.s.Agents() {
		all = append(all, a.Name)
	}
	if slices.Contains(all, name) || name == society.HUMAN {
		return nil
	}
	return fmt.Errorf("%q is not in society %s; there are %s", name, s.s.Name(), strings.Join(all, ", "))
}

// groupOf names the method for a type of edge.
var groupOf = map[string]string{"Cooperation": "cooperate", "Competition": "compete", "Coopetition": "negotiate"}

// fits says why an edge can't be made by a method.
func (e *edge) fits(method string, members []agent.Agent) error {
	if method == "connect" {
		switch e.kind {
		case "Competition", "Coopetition":
			return &value.Error{Arg: "type", Msg: fmt.Sprintf("connect takes a Delegation, an Oversight or a Cooperation; %s is of a group", society.Article(e.kind)),
				Hint: fmt.Sprintf("write %s([%s], %s(…))", groupOf[e.kind], nameList(members), e.kind)}
		}
		return nil
	}
	if groupOf[e.kind] == method {
		return nil
	}
	hint := fmt.Sprintf("write %s([%s], %s(…))", groupOf[e.kind], nameList(members), e.kind)
	if groupOf[e.kind] == "" {
		hint = fmt.Sprintf("write connect(source, target, %s(…)) for each pair of %s", e.kind, nameList(members))
	}
	return &value.Error{Arg: "type", Msg: fmt.Sprintf("%s does not take %s: it is an edge of %s", method, society.Article(e.kind),
		map[bool]string{true: "two", false: "another kind"}[groupOf[e.kind] == ""]), Hint: hint}
}

func nameList(members []agent.Agent) string {
	var names []string
	for _, a := range members {
		names = append(names, a.Name())
	}
	return strings.Join(names, ", ")
}

// join makes an interaction.
func (s *commune) join(c *value.Call, method string, list []agent.Agent) (starlark.Value, error) {
	e := edgeKind.Arg(c, "type")
	if err := e.fits(method, list); err != nil {
		return nil, err
	}
	var members []*society.Agent
	var names []string
	for _, a := range list {
		m, err := s.agentOf(a)
		if err != nil {
			return nil, err
		}
		members, names = append(members, m), append(names, m.Name)
	}
	rel, err := e.in(s, c.String("name"), names)
	if err != nil {
		return nil, plainSociety(err)
	}
	var i *society.Interaction
	if method == "connect" {
		i, err = s.s.Connect(members[0], members[1], rel)
	} else {
		i, err = s.s.Group(members, rel)
	}
	if err != nil {
		return nil, plainSociety(err)
	}
	o, err := s.b.nodeOptions(c, i.Name())
	if err != nil {
		return nil, err
	}
	if !c.Has("checkpoint") && script.Loading(c.Thread) && i.MayAsk(society.HUMAN) {
		o.Checkpoint = true
	}
	return s.declare(c, i, o)
}

// declare gives an interaction to the script, as a node: it is traced, stopped
// and recorded as workflows are.
func (s *commune) declare(c *value.Call, i *society.Interaction, o workflow.Options) (starlark.Value, error) {
	node := workflow.NewCustom(i.Name(), workflow.CustomOptions{Options: o, Kind: i.Kind(), Detail: strings.Join(i.Members(), ", "), Calls: i.Calls},
		func(ctx context.Context, p *workflow.Place, t agent.Task) (agent.Result, error) {
			return i.Run(context.WithValue(ctx, placeKey{}, p), t)
		})
	l := &link{Interaction: i, s: s, at: where(c)}
	made, err := s.b.declareFlow(c, &linkNode{node, l}, o.Checkpoint)
	if err != nil {
		return nil, err
	}
	f, err := agentKind.Unwrap(made)
	if err != nil {
		return nil, err
	}
	v := interactionKind.Wrap(f)
	l.value = v
	s.mu.Lock()
	s.links = append(s.links, l)
	s.mu.Unlock()
	return v, nil
}

// linkNode is the node that an interaction is in trees. It wraps the node and
// is none itself: a tree takes it for what it wraps.
type linkNode struct {
	agent.Agent
	l *link
}

var _ workflow.Wrapper = (*linkNode)(nil)

// Unwrap implements workflow.Wrapper.
func (n *linkNode) Unwrap() agent.Agent { return n.Agent }

// linkOf is the interaction behind a value of interactionKind.
func linkOf(a agent.Agent) *link { return a.(*flow).node.(*linkNode).l }

var interactionKind = &value.Kind[agent.Agent]{
	Name: "interaction", Is: agentKind,
	Doc: "An edge of a society, which is an agent: its task is what the members are to do, its result what came of it. It has all that an agent has, and goes where one can.",
	Attrs: []value.Attr[agent.Agent]{
		{Name: "type", Doc: "The type of the edge: \"Oversight\".", Type: value.String, Get: func(a agent.Agent) (any, error) { return typeNames[linkOf(a).Kind()], nil }},
		{Name: "members", Doc: "The members in order; of an edge of two source, then target.", Get: func(a agent.Agent) (any, error) { return starlark.NewList(linkOf(a).memberValues()), nil }},
		{Name: "calls", Doc: "The most calls of models that one run can take.", Type: value.Int, Get: func(a agent.Agent) (any, error) { return int64(linkOf(a).Calls()), nil }},
	},
	String: agentKind.String, Key: agentKind.Key,
}

// typeNames are the types of edges as scripts write them.
var typeNames = map[string]string{"delegation": "Delegation", "oversight": "Oversight", "cooperation": "Cooperation", "competition": "Competition", "coopetition": "Coopetition"}

func (l *link) memberValues() []starlark.Value {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	out := []starlark.Value{}
	for _, name := range l.Members() {
		out = append(out, l.s.values[name])
	}
	return out
}

// plainSociety is an error of the room as one of a builtin.
func plainSociety(err error) error {
	if err == nil || !errors.Is(err, society.ErrLoad) {
		return err
	}
	msg := err.Error()
	msg, hint, _ := strings.Cut(msg, "; fix: ")
	return &value.Error{Msg: msg, Hint: hint, Err: err}
}

func (s *commune) edgeValues(list []*society.Interaction) []starlark.Value {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []starlark.Value{}
	for _, i := range list {
		for _, l := range s.links {
			if l.Interaction == i {
				out = append(out, l.value)
			}
		}
	}
	return out
}

func (s *commune) agentValues() []starlark.Value {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []starlark.Value{}
	for _, a := range s.s.Agents() {
		if v := s.values[a.Name]; v != nil {
			out = append(out, v)
		}
	}
	return out
}

func (s *commune) between(c *value.Call) (starlark.Value, error) {
	kind := ""
	switch v := c.Value("type").(type) {
	case starlark.String:
		kind = string(v)
	case starlark.Callable:
		kind = v.Name()
	}
	kinds := []string{"Delegation", "Oversight", "Cooperation", "Competition", "Coopetition"}
	if kind != "" && !slices.ContainsFunc(kinds, func(k string) bool { return strings.EqualFold(k, kind) }) {
		return nil, c.Errorf("type", "argument \"type\": %q is no type of edge; there are %s", kind, strings.Join(kinds, ", "))
	}
	i, err := s.s.EdgeBetween(memberName(c.Value("source")), memberName(c.Value("target")), strings.ToLower(kind), c.String("name"))
	if err != nil {
		return nil, plainSociety(err)
	}
	return s.edgeValues([]*society.Interaction{i})[0], nil
}
