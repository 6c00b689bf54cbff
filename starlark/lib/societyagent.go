package lib

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.starlark.net/starlark"

	"edged/agent"
	"edged/agent/llm"
	"edged/bus"
	"edged/bus/origin"
	"edged/starlark/script"
	"edged/starlark/value"
	"edged/workflow"
	"edged/workflow/society"
)

// agentOf gives an agent as the society knows it; always the same.
func (s *commune) agentOf(a agent.Agent) (*society.Agent, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.members[a]; m != nil {
		return m, nil
	}
	if _, is := a.(*person); is {
		m := &society.Agent{Name: society.HUMAN, Role: "the person", Speaker: s.b.people(s.s.Name()), Patience: personTime}
		s.members[a], s.values[m.Name] = m, agentKind.Wrap(a)
		return m, nil
	}
	if a.Name() == society.HUMAN {
		return nil, &value.Error{Msg: "an agent is called HUMAN, which is the name of the person", Hint: "call it something else; the person is the agent HUMAN without quotation marks"}
	}
	m := &society.Agent{Name: a.Name(), Role: roleOf(a), Speaker: s.b.speaker(a)}
	s.members[a] = m
	if s.values[m.Name] == nil {
		s.values[m.Name] = agentKind.Wrap(a)
	}
	return m, nil
}

// speaker lets an agent take turns.
func (b *Behaviour) speaker(a agent.Agent) society.Speaker {
	switch a := a.(type) {
	case *modelAgent:
		return &modelTurns{a}
	case *scriptAgent:
		return a.turns()
	case *peer:
		return society.Peer(b.host.Bus, a.topic, a.timeout)
	}
	if workflow.ModelCalls(a) == 0 {
		return society.Once(a)
	}
	return society.Of(a)
}

// modelTurns lets an agent with a model take turns. Its tools, hooks, gate and
// audit are those that it has elsewhere; its memory is not, for what it knows in
// a turn is what the edge lets it see.
type modelTurns struct{ a *modelAgent }

var _ society.Toolbox = (*modelTurns)(nil)

// Tools implements society.Toolbox.
func (m *modelTurns) Tools(p society.Prompt) []llm.Tool {
	box, _ := society.Model(m.a.turnOptions()).(society.Toolbox)
	return box.Tools(p)
}

// Speak implements society.Speaker.
func (m *modelTurns) Speak(ctx context.Context, p society.Prompt) (society.Answer, error) {
	a := m.a
	ctx = a.run(ctx, turnTask(p))
	o := a.turnOptions()
	if p.Tools != society.NoTools {
		for _, s := range a.sets {
			list, err := s.tools(ctx, a.b)
			if err != nil {
				return society.Answer{}, err
			}
			o.Tools = append(o.Tools, list...)
		}
	}
	caller, end := ctx, context.CancelFunc(func() {})
	if a.timeout > 0 {
		ctx, end = context.WithTimeout(ctx, a.timeout)
	}
	defer end()
	ans, err := society.Model(o).Speak(ctx, p)
	if err != nil && caller.Err() == nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: no answer within %v", agent.ErrTimeout, a.timeout)
	}
	return ans, err
}

// turnOptions are the agent's, without what is the turn's business.
func (a *modelAgent) turnOptions() llm.Options {
	o := a.o
	remembers := o.Memory != nil
	o.Memory, o.Handoffs, o.Output, o.Timeout = nil, nil, nil, 0
	o.Tools = slices.DeleteFunc(slices.Clone(o.Tools), func(t llm.Tool) bool {
		return remembers && slices.Contains([]string{"remember", "recall", "forget"}, t.Name)
	})
	return o
}

// turnTask is the task of a turn, as what runs in it is told of.
func turnTask(p society.Prompt) agent.Task {
	t := p.Task
	t.Origin = p.Origin
	return t
}

// turnKinds are the kinds of turns that an agent may have a function for.
var turnKinds = []string{"work", "review", "accept", "agree", "submit", "bid", "judge", "vote", "merge", "escalate"}

// turns lets an agent made of functions take turns.
func (a *scriptAgent) turns() society.Speaker {
	if a.kinds == nil {
		return a.turnOf(a.cb)
	}
	m := map[society.Kind]society.Speaker{}
	for name, cb := range a.kinds {
		m[society.Kind(name)] = a.turnOf(cb)
	}
	return society.Kinds(m)
}

func (a *scriptAgent) turnOf(cb *callback) society.Speaker {
	return society.Func(func(ctx context.Context, p society.Prompt) (any, error) {
		caller := ctx
		if a.timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, a.timeout)
			defer cancel()
		}
		task, err := value.FromGo(p.Task.Input)
		if err != nil {
			return nil, err
		}
		r := a.run(ctx, turnTask(p))
		r.reads = r.reads || p.Tools != society.AllTools
		r.more.turn = &p
		v, err := a.b.do(r, cb, task, a.b.worldFor(r, cb, 1), turnKind.Wrap(&p))
		if err != nil && caller.Err() == nil && ctx.Err() != nil {
			err = fmt.Errorf("%w: no answer within %v", agent.ErrTimeout, a.timeout)
		}
		out, err := turnAnswer(v, err)
		if err == nil && out != nil && p.Kind == society.ToAgree {
			out = agreeing(&p, out)
		}
		return out, err
	})
}

// agreeing reads what a function said about a version: whether it agrees, or a
// version of its own; the very same one is agreed with.
func agreeing(p *society.Prompt, v any) any {
	if yes, ok := v.(bool); ok {
		return map[string]any{"agree": yes}
	}
	if m, ok := v.(map[string]any); ok {
		if _, said := m["agree"]; said {
			return m
		}
		if d, given := m["draft"]; given && len(m) == 1 {
			v = d
		}
	}
	if reflect.DeepEqual(v, newestOf(p, society.TopicDraft)) {
		return map[string]any{"agree": true}
	}
	return map[string]any{"agree": false, "draft": v}
}

// turnAnswer reads what a function said in its turn.
func turnAnswer(v starlark.Value, err error) (any, error) {
	var no *refusal
	switch {
	case errors.As(err, &no):
		return nil, fmt.Errorf("%w: %s", society.ErrRefused, no.reason)
	case err != nil:
		return nil, err
	case v == starlark.None, v == exitValue, v == passValue:
		return nil, nil
	}
	if d, err := declinedKind.Unwrap(v); err == nil {
		return nil, fmt.Errorf("%w: %s", society.ErrRefused, string(d))
	}
	if r, err := resultKind.Unwrap(v); err == nil {
		if r.err != nil {
			return nil, r.err
		}
		if r.Output != nil {
			return r.Output, nil
		}
		return r.Reply, nil
	}
	return value.ToGo(v)
}

// sectionsOf gives what a prompt holds about a topic.
func sectionsOf(p *society.Prompt, topic string) (list []society.Section) {
	for _, s := range p.Sections {
		if s.Topic == topic {
			list = append(list, s)
		}
	}
	return list
}

// sectionMap gives the values of a topic, by whose they are.
func sectionMap(p *society.Prompt, topic string) map[string]any {
	out := map[string]any{}
	for _, s := range sectionsOf(p, topic) {
		out[s.From] = s.Value
	}
	return out
}

// newestOf is the value of the last section of a topic, or nil.
func newestOf(p *society.Prompt, topic string) any {
	list := sectionsOf(p, topic)
	if len(list) == 0 {
		return nil
	}
	if last := list[len(list)-1]; last.Value != nil {
		return last.Value
	}
	return list[len(list)-1].Text
}

var turnKind = &value.Kind[*society.Prompt]{
	Name: "turn", Fixed: true, Doc: "What an agent made of a function gets in a turn: all that it may know.",
	Attrs: []value.Attr[*society.Prompt]{
		{Name: "kind", Doc: "What the turn is for: " + strings.Join(turnKinds, ", ") + ".", Type: value.String, Get: func(p *society.Prompt) (any, error) { return string(p.Kind), nil }},
		{Name: "round", Doc: "The number of the round, from 1.", Type: value.Int, Get: func(p *society.Prompt) (any, error) { return int64(p.Round), nil }},
		{Name: "task", Doc: "What the interaction is to do.", Get: func(p *society.Prompt) (any, error) { return p.Task.Input, nil }},
		{Name: "draft", Doc: "The newest draft or version that it may see, its own last one if it works; else None.", Get: func(p *society.Prompt) (any, error) { return newestOf(p, society.TopicDraft), nil }},
		{Name: "drafts", Doc: "All drafts that it may see, by whose they are.", Get: func(p *society.Prompt) (any, error) { return sectionMap(p, society.TopicDraft), nil }},
		{Name: "comments", Doc: "The latest comments, or None.", Get: func(p *society.Prompt) (any, error) { return newestOf(p, society.TopicComments), nil }},
		{Name: "submissions", Doc: "What is to be picked from, by label.", Get: func(p *society.Prompt) (any, error) { return sectionMap(p, "submission"), nil }},
		{Name: "artifacts", Doc: "What it may see of the shelf, by name.", Get: func(p *society.Prompt) (any, error) { return sectionMap(p, society.TopicArtifact), nil }},
		{Name: "criteria", Doc: "What decisions go by, or None.", Get: func(p *society.Prompt) (any, error) { return newestOf(p, society.TopicCriteria), nil }},
		{Name: "cause", Doc: "Why it is asked to decide, where things were escalated; else None.", Get: func(p *society.Prompt) (any, error) { return newestOf(p, "cause"), nil }},
		{Name: "form", Doc: "What the answer must be, a JSON schema.", Get: func(p *society.Prompt) (any, error) { return decoded(p.Form.Schema()), nil }},
		{Name: "prompt", Doc: "All of it, as a model reads it.", Type: value.String, Get: func(p *society.Prompt) (any, error) { return p.Text(), nil }},
	},
	String: func(p *society.Prompt) string { return fmt.Sprintf("<turn to %s>", p.Kind) },
}

// world is the board as functions of societies see it: the keys that the folder
// may read.
func (b *Behaviour) world() map[string]any {
	all := b.host.Board.Snapshot("")
	if b.grants.All {
		return all
	}
	out := map[string]any{}
	for key, v := range all {
		if b.sees(key) {
			out[key] = v
		}
	}
	return out
}

// sees reports whether the folder may read a key.
func (b *Behaviour) sees(key string) bool {
	return b.grants.All || own(b.folder, "bb", key) || slices.ContainsFunc(b.grants.BB, func(g string) bool { return coversName(g, key) })
}

// worldKey is one key of the world, or nil; "" is all of it.
func (b *Behaviour) worldKey(_ context.Context, key string) any {
	if key == "" {
		return b.world()
	}
	if !b.sees(key) {
		return nil
	}
	v, _ := b.host.Board.Get(key)
	return v
}

// worldWords is whose words stand in the world that the folder sees.
func (b *Behaviour) worldWords() (whose origin.Label) {
	if b.grants.All {
		return b.host.Board.Origin("", true)
	}
	for _, key := range b.host.Board.Keys("") {
		if v, one, ok := b.host.Board.Read(key); ok && b.sees(key) && !origin.Wordless(v) {
			whose = origin.Merge(whose, one)
		}
	}
	return whose
}

// worldFor is the state that a callback is offered at a place; None if it does
// not take it.
func (b *Behaviour) worldFor(ctx context.Context, cb *callback, at int) starlark.Value {
	takes := slices.Contains(cb.place, at)
	for _, p := range cb.named {
		takes = takes || p == at
	}
	if !takes {
		return starlark.None
	}
	if whose := b.worldWords(); whose != "" {
		origin.Raise(ctx, whose)
	}
	v, err := value.FromGo(b.world())
	if err != nil {
		return starlark.None
	}
	return v
}

// turnTold is what is told of a turn, without what was said in it.
type turnTold struct {
	Speaker string  `json:"speaker"`
	Kind    string  `json:"kind"`
	Verdict string  `json:"verdict,omitempty"`
	State   string  `json:"state"`
	Round   int     `json:"round"`
	Why     string  `json:"why,omitempty"`
	Edge    string  `json:"edge"`
	Run     string  `json:"run"`
	Path    string  `json:"path,omitempty"`
	N       int     `json:"n"`
	Asked   int     `json:"asked"`
	Calls   int     `json:"calls"` // of models
	Read    int     `json:"prompt_tokens"`
	Written int     `json:"output_tokens"`
	Elapsed float64 `json:"elapsed"` // seconds
}

// tellTurn tells of every turn that is over.
func (b *Behaviour) tellTurn(name string) func(context.Context, society.Turn) {
	topic := "edged/society/" + topicLevel(name) + "/turn"
	return func(ctx context.Context, t society.Turn) {
		text, err := json.Marshal(turnTold{t.Speaker, string(t.Kind), t.Verdict, string(t.State), t.Round, t.Why, t.Edge, t.Run, t.Path, t.N,
			t.Asked, t.Usage.Calls, t.Usage.PromptTokens, t.Usage.OutputTokens, t.Elapsed.Seconds()})
		if err == nil {
			_, _ = b.host.Bus.Publish(ctx, "society:"+name, topic, bus.RawJSON(text)) // nobody to tell that the bus is closed
		}
	}
}

// tellEvent tells of an event that a member sent along an edge.
func (b *Behaviour) tellEvent(name string) func(ctx context.Context, edge, from, event string, payload any) {
	topic := "edged/society/" + topicLevel(name) + "/event"
	return func(ctx context.Context, edge, from, event string, payload any) {
		b.tell(ctx, "society:"+name, topic, map[string]any{"edge": edge, "from": from, "event": event, "payload": payload})
	}
}

// topicLevel makes a name one level of a topic.
func topicLevel(name string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("/+#\x00", r) {
			return '_'
		}
		return r
	}, name)
}

// turnOffers are what functions of agents are called with.
var turnOffers = []string{"task", "state", "turn"}

// turnCallback makes a callback that may take the turn in the second place.
func turnCallback(c *value.Call, arg string, fn starlark.Callable) (*callback, error) {
	keep(c, fn)
	cb, missing := makeCallback(fn, turnOffers...)
	if missing != "" {
		return nil, c.Errorf(arg, "argument %q: %s needs an argument %q, but it is called with (task, state, turn, ctx)", arg, fn.Name(), missing)
	}
	f, ok := script.SignatureOf(fn)
	if !ok {
		cb.place = cb.place[:1] // a builtin gets the task
	}
	param := func(i int) string {
		if !ok {
			return ""
		}
		name, _ := f.Param(i)
		return name
	}
	for i, at := range cb.place { // by name where the name says it
		if name := param(i); at != ctxAt && slices.Contains(turnOffers, name) {
			cb.place[i] = slices.Index(turnOffers, name)
		}
	}
	return cb, nil
}

// newKindedAgent makes an agent of functions by kind of turn.
func newKindedAgent(c *value.Call, id identity, m starlark.IterableMapping) (agent.Agent, error) {
	a := &scriptAgent{identity: id, kinds: map[string]*callback{}}
	for _, kv := range m.Items() {
		name, _ := starlark.AsString(kv[0])
		if !slices.Contains(turnKinds, name) {
			hint := "there are " + strings.Join(turnKinds, ", ")
			if near := value.Nearest(name, turnKinds); near != "" {
				hint = fmt.Sprintf("did you mean %q?", near)
			}
			return nil, &value.Error{Func: c.Name(), Arg: "fn", Msg: fmt.Sprintf("argument \"fn\": there are no turns to %s", kv[0]), Hint: hint}
		}
		fn, ok := kv[1].(starlark.Callable)
		if !ok {
			return nil, c.Errorf("fn", "argument \"fn\": %s: want a function, got %s", name, kv[1].Type())
		}
		cb, err := turnCallback(c, "fn", fn)
		if err != nil {
			return nil, err
		}
		a.kinds[name] = cb
	}
	if len(a.kinds) == 0 {
		return nil, c.Errorf("fn", "argument \"fn\": the dict has no function")
	}
	a.cb = a.kinds["work"]
	return a, nil
}

// tellRail tells of what a guardrail found; that all is well is not told.
func (b *Behaviour) tellRail(name string) func(ctx context.Context, edge, author, guardrail string, on workflow.Reaction, f workflow.Finding) {
	topic := "edged/society/" + topicLevel(name) + "/guardrail"
	return func(ctx context.Context, edge, author, guardrail string, on workflow.Reaction, f workflow.Finding) {
		if f.Violation == "" && !f.Replaced {
			return
		}
		m := map[string]any{"edge": edge, "guardrail": guardrail, "speaker": author, "on_violation": string(on)}
		if f.Violation != "" {
			m["violation"] = f.Violation
		}
		if f.Replaced {
			m["replaced"] = true
		}
		b.tell(ctx, "society:"+name, topic, m)
	}
}
