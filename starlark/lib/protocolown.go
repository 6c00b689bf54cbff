package lib

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/starlark"

	"edged/starlark/value"
	"edged/workflow/society/protocol"
)

// Protocols of one's own. Their functions are frozen like all of a script's:
// what they keep in a run is in floor.state.

// ownDocs are the functions of a protocol of one's own; the first name is ours.
var ownDocs = []struct{ name, also, doc string }{
	{"next_speaker", "get_next_speaker", "Called with the floor: who speaks now, a name, or several in a list who don't hear each other; None ends the round. Missing: all in member order."},
	{"listeners", "get_listeners", "Called with the speaker's name and the floor: who hears it, a list of names. Missing: all others."},
	{"route", "route_message", "Called with every message and the floor."},
	{"advance", "", "Called with the floor when the next round begins."},
	{"should_stop", "", "Called with the floor after each round: True, or why in words, ends it with what there is."},
}

var ownOffers = map[string][]string{"next_speaker": {"floor"}, "listeners": {"speaker", "floor"}, "route": {"message", "floor"}, "advance": {"floor"}, "should_stop": {"floor"}}

func ownParams() (list []value.Param) {
	for _, d := range ownDocs {
		p := value.Param{Name: d.name, Type: value.Callable, Doc: d.doc}
		if d.also != "" {
			p.Also = []string{d.also}
		}
		list = append(list, p)
	}
	return list
}

// ownOrder is a protocol of script functions.
type ownOrder struct {
	b   *Behaviour
	fns [5]*callback // as ownDocs
	ctx context.Context
}

const (
	ownNext = iota
	ownListeners
	ownRoute
	ownAdvance
	ownStop
)

func (o *ownOrder) take(c *value.Call, name string, v starlark.Value) error {
	fn, ok := v.(starlark.Callable)
	if !ok {
		return c.Errorf(name, "argument %q: want a function, got %s", name, v.Type())
	}
	keep(c, fn)
	cb, missing := makeCallback(fn, ownOffers[name]...)
	if missing != "" {
		return c.Errorf(name, "argument %q: %s needs an argument %q, but it is called with %v", name, fn.Name(), missing, ownOffers[name])
	}
	for i, d := range ownDocs {
		if d.name == name {
			o.fns[i] = cb
		}
	}
	return nil
}

// In implements protocol.Local.
func (o *ownOrder) In(ctx context.Context) protocol.Spec {
	out := *o
	out.ctx = ctx
	return &out
}

// Open implements protocol.Spec.
func (o *ownOrder) Open(members []string) (protocol.Protocol, error) {
	return &ownRun{ownOrder: o, floor: &floor{members: slices.Clone(members), round: 1, state: new(starlark.Dict)}}, nil
}

// ownTurns bounds a round that its functions never end.
const ownTurns = 200

// ownRun is one run of it.
type ownRun struct {
	*ownOrder
	faults
	floor *floor
	turns int
}

func (r *ownRun) call(which int, offered ...starlark.Value) (starlark.Value, bool) {
	cb := r.fns[which]
	if r.err != nil {
		return nil, false
	}
	v, err := r.b.consult(r.b.contextOr(r.ctx), cb, append(offered, floorKind.Wrap(r.floor))...)
	if err != nil {
		r.note(ownDocs[which].name, err)
		return nil, false
	}
	return v, true
}

// people reads names that a function returned.
func (r *ownRun) people(which int, v starlark.Value) (names []string) {
	list := []starlark.Value{v}
	switch x := v.(type) {
	case starlark.NoneType:
		return nil
	case *starlark.List, starlark.Tuple:
		list = slices.Collect(starlark.Elements(x.(starlark.Iterable)))
	}
	for _, v := range list {
		name := memberName(v)
		if !slices.Contains(r.floor.members, name) {
			r.note(ownDocs[which].name, fmt.Errorf("it returned %s, who is not a member; members are %s", shown(v), strings.Join(r.floor.members, ", ")))
			return nil
		}
		names = append(names, name)
	}
	return names
}

// Next implements protocol.Protocol.
func (r *ownRun) Next() []string {
	if r.turns++; r.turns > ownTurns {
		r.note("next_speaker", errors.New("it never ends the round: return None when all have spoken"))
	}
	if r.err != nil {
		return nil
	}
	if r.fns[ownNext] == nil {
		if n := len(r.floor.spoken); n < len(r.floor.members) {
			return r.floor.members[n : n+1]
		}
		return nil
	}
	v, ok := r.call(ownNext)
	if !ok {
		return nil
	}
	return r.people(ownNext, v)
}

// Listeners implements protocol.Protocol.
func (r *ownRun) Listeners(speaker string) []string {
	if r.fns[ownListeners] == nil {
		return slices.DeleteFunc(slices.Clone(r.floor.members), func(m string) bool { return m == speaker })
	}
	v, ok := r.call(ownListeners, starlark.String(speaker))
	if !ok {
		return nil
	}
	return r.people(ownListeners, v)
}

// Route implements protocol.Protocol.
func (r *ownRun) Route(m protocol.Message) {
	r.floor.spoken = append(r.floor.spoken, m.From)
	r.floor.messages = append(r.floor.messages, m)
	if r.fns[ownRoute] != nil {
		_, _ = r.call(ownRoute, saidKind.Wrap(&m))
	}
}

// Advance implements protocol.Protocol.
func (r *ownRun) Advance() {
	r.turns, r.floor.round = 0, r.floor.round+1
	r.floor.spoken, r.floor.messages = nil, nil
	if r.fns[ownAdvance] != nil {
		_, _ = r.call(ownAdvance)
	}
}

// Stop implements protocol.Protocol.
func (r *ownRun) Stop() string {
	if r.fns[ownStop] == nil {
		return ""
	}
	v, ok := r.call(ownStop)
	switch why, text := starlark.AsString(v); {
	case !ok, !bool(v.Truth()):
		return ""
	case text:
		return why
	}
	return "should_stop"
}

// floor is what the functions of a protocol see of a run.
type floor struct {
	members  []string
	round    int
	spoken   []string
	messages []protocol.Message
	state    *starlark.Dict // of the goroutine that runs the interaction
}

var floorKind = &value.Kind[*floor]{
	Name: "floor", Doc: "A run as the functions of a protocol see it.",
	Attrs: []value.Attr[*floor]{
		{Name: "members", Doc: "Their names, in order.", Get: func(f *floor) (any, error) { return f.members, nil }},
		{Name: "round", Doc: "The number of the round, from 1.", Type: value.Int, Get: func(f *floor) (any, error) { return int64(f.round), nil }},
		{Name: "spoken", Doc: "Who has spoken in this round, in order.", Get: func(f *floor) (any, error) { return f.spoken, nil }},
		{Name: "messages", Doc: "What was said in this round, in order.", Get: func(f *floor) (any, error) { return saidList(f.messages), nil }},
		{Name: "last", Doc: "What was said last in this round, or None.", Get: func(f *floor) (any, error) {
			if len(f.messages) == 0 {
				return nil, nil
			}
			return saidKind.Wrap(&f.messages[len(f.messages)-1]), nil
		}},
		{Name: "state", Doc: "A dict of this run, to write into.", Get: func(f *floor) (any, error) { return f.state, nil }},
	},
}

var saidKind = &value.Kind[*protocol.Message]{
	Name: "said", Fixed: true, Doc: "A message between members, as protocols and conditions see it.",
	Attrs: []value.Attr[*protocol.Message]{
		{Name: "sender", Doc: "Who said it.", Type: value.String, Get: func(m *protocol.Message) (any, error) { return m.From, nil }},
		{Name: "receivers", Doc: "Who hears it.", Get: func(m *protocol.Message) (any, error) { return m.To, nil }},
		{Name: "output", Doc: "The draft that it brings, or None.", Get: func(m *protocol.Message) (any, error) { return m.Content, nil }},
		{Name: "round", Doc: "In which round.", Type: value.Int, Get: func(m *protocol.Message) (any, error) { return int64(m.Round), nil }},
	},
	String: func(m *protocol.Message) string { return fmt.Sprintf("<said by %s>", m.From) },
}

func saidList(list []protocol.Message) starlark.Value {
	out := make([]starlark.Value, len(list))
	for i := range list {
		out[i] = saidKind.Wrap(&list[i])
	}
	l := starlark.NewList(out)
	l.Freeze()
	return l
}
