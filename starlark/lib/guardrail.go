package lib

import (
	"context"
	"fmt"

	"go.starlark.net/starlark"

	"edged/starlark/script"
	"edged/starlark/value"
	"edged/workflow"
)

// guardrail is a check of what a node puts out or of what crosses an edge, and
// what is done about a violation. Graphs and societies have the same.
type guardrail struct {
	name    string
	on      string // what is done about a violation
	reroute string // where to, if on is "reroute"
	check   *callback
	at      script.Position
}

var guardrailKind = &value.Kind[*guardrail]{
	Name: "guardrail", Doc: "A check with a reaction, see Guardrail.",
	Attrs: []value.Attr[*guardrail]{
		{Name: "name", Doc: "Its name.", Type: value.String, Get: func(g *guardrail) (any, error) { return g.name, nil }},
		{Name: "on_violation", Doc: "What is done about a violation.", Type: value.String, Get: func(g *guardrail) (any, error) { return g.on, nil }},
		{Name: "reroute", Doc: "Where to, or None.", Get: func(g *guardrail) (any, error) { return orNone(g.reroute), nil }},
	},
	String: func(g *guardrail) string { return fmt.Sprintf("<guardrail %s>", g.name) },
}

// orNone is None for no text.
func orNone(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// replacement is what replace(…) makes.
type replacement struct{ by starlark.Value }

var replacementKind = &value.Kind[replacement]{
	Name: "replacement", Doc: "What a check puts in the place of what it saw, see replace.",
	Attrs:  []value.Attr[replacement]{{Name: "payload", Doc: "What goes on.", Get: func(r replacement) (any, error) { return r.by, nil }}},
	String: func(r replacement) string { return fmt.Sprintf("replace(%s)", shown(r.by)) },
}

var guardrailRows = []row{
	{value.Func{
		Name: "Guardrail", Doc: "Looks at what a node puts out, or at what crosses an edge, every time. A check that fails counts as a violation, and no reaction lets that go on: it fails closed.",
		Example: `def fence(payload, state):
    if payload["x"] > 4.0:
        return "leaves the fence at x = %s" % payload["x"]

rail = Guardrail("fence", fence, on_violation = "reroute", reroute = "ask")`,
		Params: []value.Param{
			{Name: "name", Type: value.String, Required: true, Positional: true, Doc: "Its name, for events and messages."},
			{Name: "check", Type: value.Callable, Required: true, Positional: true, Doc: "Called with the payload, the state and ctx, as far as it takes them. It returns None if all is well, text that says what is wrong, or replace(payload). It looks and decides, and does nothing: what it would write, send, move or wait for is an error, and so a violation."},
			{Name: "on_violation", Type: value.OneOf("block", "reroute", "warn", "sanitize", "revise"), Default: "block", Doc: "block ends the run, reroute goes to another node, warn tells of it and goes on unless the check itself failed, sanitize goes on with what the check put in its place and blocks if that is nothing, revise sends the text back to the author, twice at most."},
			{Name: "reroute", Type: value.String, Doc: "The node to go to, for on_violation = \"reroute\"."}},
		Returns: "a guardrail",
	}, (*Behaviour).guardrail},
	{value.Func{
		Name: "replace", Doc: "What a guardrail's check returns to put something else in the place of what it saw.",
		Example: "Guardrail(\"slow\", lambda p, state: replace({\"v\": min(p[\"v\"], 0.3)}), on_violation = \"sanitize\")",
		Params:  []value.Param{{Name: "payload", Type: value.Data, Required: true, Positional: true, Doc: "What goes on."}},
		Returns: "a value to return",
	}, func(_ *Behaviour, c *value.Call) (starlark.Value, error) {
		tree, err := c.Tree("payload")
		if err != nil {
			return nil, err
		}
		v, err := c.Return(tree)
		if err != nil {
			return nil, err
		}
		return replacementKind.Wrap(replacement{v}), nil
	}},
}

func (b *Behaviour) guardrail(c *value.Call) (starlark.Value, error) {
	g := &guardrail{name: c.String("name"), on: c.String("on_violation"), reroute: c.String("reroute"), at: where(c)}
	if g.name == "" {
		return nil, c.Errorf("name", "argument \"name\": a guardrail needs one: events and messages name it")
	}
	switch {
	case g.on == "reroute" && g.reroute == "":
		return nil, &value.Error{Arg: "reroute", Msg: fmt.Sprintf("guardrail %s reroutes and does not say where", g.name), Hint: "add reroute = \"the name of a node\""}
	case g.on != "reroute" && g.reroute != "":
		return nil, &value.Error{Arg: "reroute", Msg: fmt.Sprintf("guardrail %s has a reroute, and on_violation is %q", g.name, g.on), Hint: "say on_violation = \"reroute\", or leave reroute out"}
	}
	var err error
	if g.check, err = newCallback(c, "check", "payload", "state"); err != nil {
		return nil, err
	}
	return guardrailKind.Wrap(g), nil
}

var guardrailsParam = value.Param{Name: "guardrails", Type: value.ListOf(guardrailKind.Type()), Doc: "Checks of what goes by, Guardrail(…), every time."}

// guardrails reads a list of them. known is what their checks get as state, of
// what they are asked with.
func (b *Behaviour) guardrails(c *value.Call, known func(g *guardrail, state map[string]any) any) (list []workflow.Guardrail, err error) {
	for i, v := range c.List("guardrails") {
		g, err := guardrailKind.Unwrap(v)
		if err != nil {
			return nil, c.Errorf("guardrails", "argument \"guardrails\": element %d: %v", i, err)
		}
		list = append(list, workflow.Guardrail{Name: g.name, On: workflow.Reaction(g.on), Reroute: g.reroute,
			Check: func(ctx context.Context, payload any, state map[string]any) (workflow.Finding, error) {
				return g.look(ctx, b, payload, known(g, state))
			}})
	}
	return list, nil
}

// ofGraph is what checks know in a graph.
func ofGraph(_ *guardrail, state map[string]any) any { return state }

// look asks the check. payload and state are JSON trees, or script values. An
// error, also of a check that returned what is no answer, is a violation to
// whoever asks.
func (g *guardrail) look(ctx context.Context, b *Behaviour, payload, state any) (finding workflow.Finding, err error) {
	p, err := value.FromGo(payload)
	if err != nil {
		return finding, err
	}
	s, err := value.FromGo(state)
	if err != nil {
		return finding, err
	}
	r := &run{Context: ctx, b: b, source: "guardrail:" + g.name, pure: inCheck, more: &more{name: g.name}}
	v, err := b.do(r, g.check, p, s)
	if err != nil {
		return finding, ofDecline(err)
	}
	if v == starlark.None {
		return finding, nil
	}
	if by, err := replacementKind.Unwrap(v); err == nil {
		tree, err := value.ToGo(by.by)
		return workflow.Replace(tree), err
	}
	if d, err := declinedKind.Unwrap(v); err == nil {
		return workflow.Violates(string(d)), nil
	}
	if why, ok := starlark.AsString(v); ok && why != "" {
		return workflow.Violates(why), nil
	}
	return finding, fmt.Errorf("the check %s returned %s: want None if all is well, text that says what is wrong, or replace(…)", g.check.name, shown(v))
}
