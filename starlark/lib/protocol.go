package lib

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"

	"edged/agent/llm/schema"
	"edged/starlark/value"
	"edged/workflow/society/protocol"
)

// order says whose turn it is on an edge. It is made anew for each: a market
// belongs to its bidders.
type order struct {
	name string
	spec func(members []string) protocol.Spec
}

var orderKind = &value.Kind[*order]{
	Name: "protocol", Doc: "Who speaks when, and who hears it: Sequential, Broadcast, Market, Queue, or Protocol.",
	String: func(o *order) string { return fmt.Sprintf("<protocol %s>", o.name) },
}

// orderType takes protocols, and what has the functions of one.
var orderType = value.Either(orderKind.Type(), functionsType{})

// functionsType is a struct or a dict of functions.
type functionsType struct{}

func (functionsType) String() string { return "struct or dict of functions" }

// Check implements value.Type.
func (functionsType) Check(v starlark.Value) (starlark.Value, error) {
	switch v.(type) {
	case *starlarkstruct.Struct, *starlark.Dict:
		return v, nil
	}
	return nil, fmt.Errorf("got %s", v.Type())
}

var memberType = value.Either(value.String, agentKind.Type())

// memberNames reads names and agents.
func memberNames(list []starlark.Value) (names []string) {
	for _, v := range list {
		names = append(names, memberName(v))
	}
	return names
}

func memberName(v starlark.Value) string {
	if a, err := agentKind.Unwrap(v); err == nil {
		return a.Name()
	}
	s, _ := starlark.AsString(v)
	return s
}

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

var orderRows = []row{
	{value.Func{
		Name: "Sequential", Doc: "Lets one after the other speak.", Example: "Sequential(order = [mule, scout], sees = \"previous\")",
		Params: []value.Param{
			{Name: "order", Type: value.ListOf(memberType), Positional: true, Doc: "All members, each once; their own order if missing."},
			{Name: "sees", Type: value.OneOf("all", "previous"), Default: "all", Doc: "previous: each hears only the one right before."}},
		Returns: "a protocol",
	}, func(_ *Behaviour, c *value.Call) (starlark.Value, error) {
		return ordered("Sequential", protocol.Sequential{Order: memberNames(c.List("order")), Sees: protocol.Sees(c.String("sees"))})
	}},
	{value.Func{
		Name: "Broadcast", Doc: "Lets everybody hear everybody.", Example: "Broadcast(moderator = chair)",
		Params: []value.Param{
			{Name: "sealed_first", Type: value.Bool, Default: true, Doc: "In the first round all speak at once, and nobody hears another before all have."},
			{Name: "moderator", Type: memberType, Doc: "The member that speaks last in each round."}},
		Returns: "a protocol",
	}, func(_ *Behaviour, c *value.Call) (starlark.Value, error) {
		p := protocol.Broadcast{Turns: !c.Bool("sealed_first")}
		if c.Has("moderator") {
			p.Moderator = memberName(c.Value("moderator"))
		}
		return ordered("Broadcast", p)
	}},
	{value.Func{
		Name: "Market", Doc: "Lets members bid, in a competition. Bidders are told how the last one ended; with a budget the winner pays its bid, or is paid it where the lowest wins.",
		Example: "Market(bid = {\"cost\": \"(int, 0..1000)\", \"eta_s\": \"(int, 0..3600)\"})",
		Params: []value.Param{
			{Name: "bid", Type: outputType, Doc: "The form of a bid; missing: the edge's artifact."},
			{Name: "sealed", Type: value.Bool, Default: true, Doc: "Nobody hears another's bid."},
			{Name: "budget", Type: value.Either(value.Number, value.Dict), Doc: "What each bidder has at first: a number for all, or a dict by name."},
			{Name: "simultaneous", Type: value.Bool, Default: true, Doc: "All bid at once; False: one after the other."}},
		Returns: "a protocol",
	}, (*Behaviour).marketOrder},
	{value.Func{
		Name: "Queue", Doc: "Lets the head of a line speak, who then goes to its end; first in, first out.", Example: "Queue(priority = {\"ambulance\": 10})",
		Params: []value.Param{
			{Name: "priority", Type: value.Either(value.Dict, value.Callable), Doc: "Who has more is in front: a dict of numbers by name, or a function of the name that returns one."}},
		Returns: "a protocol",
	}, (*Behaviour).queueOrder},
	{value.Func{
		Name: "Protocol", Doc: "Makes a protocol of your own functions. They get the floor: .round, .members, .spoken, .last, and .state, a dict of this run. An edge takes a struct or a dict of such functions as well.",
		Example: "def twice(floor):\n    if len(floor.spoken) < 2 * len(floor.members):\n        return floor.members[len(floor.spoken) // 2]\n\nProtocol(next_speaker = twice, listeners = lambda speaker: [\"chair\"])",
		Params:  ownParams(), Returns: "a protocol",
	}, func(b *Behaviour, c *value.Call) (starlark.Value, error) {
		o := &ownOrder{b: b}
		for _, d := range ownDocs {
			if c.Has(d.name) {
				if err := o.take(c, d.name, c.Value(d.name)); err != nil {
					return nil, err
				}
			}
		}
		return ordered("Protocol", o)
	}},
	{value.Func{
		Name: "converged", Doc: "Ends an interaction, as until, when a round brought nothing new.", Example: "converged(lambda before, now: abs(before[0].output - now[0].output) < 1)",
		Params:  []value.Param{{Name: "fn", Type: value.Callable, Positional: true, Doc: "Called with the messages of the round before and of this one; True: nothing new. Missing: all say the same as before."}},
		Returns: "a condition",
	}, (*Behaviour).converged},
	{value.Func{
		Name: "max_messages", Doc: "Ends an interaction, as until, after so many turns: a deadlock, as max_rounds.", Example: "max_messages(20)",
		Params:  []value.Param{{Name: "n", Type: value.Between(value.Int, 1, 10_000), Required: true, Positional: true, Doc: "How many."}},
		Returns: "a condition",
	}, func(_ *Behaviour, c *value.Call) (starlark.Value, error) {
		return stopKind.Wrap(&stop{"max_messages", "", stopAfter(c.Int("n"))}), nil
	}},
	{value.Func{
		Name: "node_reached", Doc: "Ends an interaction, as until, after the round in which a member has spoken.", Example: "node_reached(chair)",
		Params:  []value.Param{{Name: "member", Type: memberType, Required: true, Positional: true, Doc: "Who."}},
		Returns: "a condition",
	}, func(_ *Behaviour, c *value.Call) (starlark.Value, error) {
		name := memberName(c.Value("member"))
		f := protocol.NodeReached(name)
		return stopKind.Wrap(&stop{"node_reached", name, func(_ context.Context, x *protocol.Floor) string { return f(x) }}), nil
	}},
}

func ordered(name string, s protocol.Spec) (starlark.Value, error) {
	return orderKind.Wrap(&order{name, func([]string) protocol.Spec { return s }}), nil
}

func (b *Behaviour) marketOrder(c *value.Call) (starlark.Value, error) {
	m := protocol.Market{Heard: !c.Bool("sealed"), Turns: !c.Bool("simultaneous")}
	if m.Heard && !m.Turns {
		return nil, &value.Error{Arg: "sealed", Msg: "bids that are made at the same moment can't hear each other", Hint: "open bids are made one after the other: add simultaneous = False"}
	}
	if c.Has("bid") {
		s, err := formOf(c, "bid")
		if err != nil {
			return nil, err
		}
		if s.Kind != schema.Object {
			return nil, c.Errorf("bid", "argument \"bid\": a bid is an object, not %s", s.Kind)
		}
		if m.Bid, err = schema.Encode(s); err != nil {
			return nil, err
		}
	}
	each, all := 0.0, false
	if f, ok := starlark.AsFloat(c.Value("budget")); ok && c.Has("budget") {
		each, all = f, true
	} else if d, err := c.Dict("budget"); err != nil || d != nil {
		if err != nil {
			return nil, err
		}
		m.Budget = map[string]float64{}
		for name, v := range d {
			n, ok := floatOf(v)
			if !ok {
				return nil, c.Errorf("budget", "argument \"budget\": %s has %v: want a number", name, v)
			}
			m.Budget[name] = n
		}
	}
	return orderKind.Wrap(&order{"Market", func(members []string) protocol.Spec {
		out := &protocol.Market{Bid: m.Bid, Heard: m.Heard, Turns: m.Turns, Budget: m.Budget}
		if all {
			out.Budget = map[string]float64{}
			for _, name := range members {
				out.Budget[name] = each
			}
		}
		return out
	}}), nil
}

func floatOf(v any) (float64, bool) {
	switch n := v.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

func (b *Behaviour) queueOrder(c *value.Call) (starlark.Value, error) {
	if !c.Has("priority") {
		return ordered("Queue", protocol.Queue{})
	}
	if _, is := c.Value("priority").(starlark.Callable); is {
		cb, err := newCallback(c, "priority", "name")
		return orderKind.Wrap(&order{"Queue", func([]string) protocol.Spec { return &queueSpec{b, cb, nil} }}), err
	}
	m, err := c.Dict("priority")
	if err != nil {
		return nil, err
	}
	ranks := map[string]int{}
	for name, v := range m {
		n, ok := floatOf(v)
		if !ok {
			return nil, c.Errorf("priority", "argument \"priority\": %s has %v: want a number", name, v)
		}
		ranks[name] = int(n)
	}
	return orderKind.Wrap(&order{"Queue", func(members []string) protocol.Spec { return &rankSpec{ranks} }}), nil
}

// rankSpec is a queue with priorities by name.
type rankSpec struct{ ranks map[string]int }

// Open implements protocol.Spec.
func (s *rankSpec) Open(members []string) (protocol.Protocol, error) {
	for name := range s.ranks {
		if !slices.Contains(members, name) {
			return nil, fmt.Errorf("priority names %q, who is not a member; members are %v", name, members)
		}
	}
	return protocol.Queue{Priority: func(name string) int { return s.ranks[name] }}.Open(members)
}

// queueSpec is a queue whose priorities a function gives.
type queueSpec struct {
	b   *Behaviour
	cb  *callback
	ctx context.Context
}

// In implements protocol.Local.
func (s *queueSpec) In(ctx context.Context) protocol.Spec { return &queueSpec{s.b, s.cb, ctx} }

// Open implements protocol.Spec.
func (s *queueSpec) Open(members []string) (protocol.Protocol, error) {
	f := &faults{}
	p, err := protocol.Queue{Priority: func(name string) int {
		v, err := s.b.consult(s.b.contextOr(s.ctx), s.cb, starlark.String(name))
		if err == nil {
			if n, ok := starlark.AsFloat(v); ok {
				return int(n)
			}
			err = fmt.Errorf("%s returned %s: want a number", s.cb.name, shown(v))
		}
		f.note("priority", err)
		return 0
	}}.Open(members)
	return &faulty{p, f}, err
}

// faults keeps the first error of a protocol's functions.
type faults struct{ err error }

func (f *faults) note(what string, err error) {
	if f.err == nil && err != nil {
		f.err = fmt.Errorf("%s: %w", what, err)
	}
}

// Err implements protocol.Faulty.
func (f *faults) Err() error { return f.err }

type faulty struct {
	protocol.Protocol
	*faults
}

// contextOr is a context, or the behaviour's life.
func (b *Behaviour) contextOr(ctx context.Context) context.Context {
	if ctx == nil {
		return b.life
	}
	return ctx
}

// orderOf reads the argument protocol; nil if it was not given.
func (b *Behaviour) orderOf(c *value.Call, arg string) (*order, error) {
	if !c.Has(arg) {
		return nil, nil
	}
	v := c.Value(arg)
	if o, err := orderKind.Unwrap(v); err == nil {
		return o, nil
	}
	get := func(name string) starlark.Value { return nil }
	var names []string
	switch x := v.(type) {
	case *starlarkstruct.Struct:
		names = x.AttrNames()
		get = func(name string) starlark.Value { f, _ := x.Attr(name); return f }
	case *starlark.Dict:
		for _, k := range x.Keys() {
			s, _ := starlark.AsString(k)
			names = append(names, s)
		}
		get = func(name string) starlark.Value { f, _, _ := x.Get(starlark.String(name)); return f }
	}
	o := &ownOrder{b: b}
	for _, name := range names {
		known := ""
		for _, d := range ownDocs {
			if name == d.name || name == d.also {
				known = d.name
			}
		}
		if known == "" {
			if _, is := get(name).(starlark.Callable); !is {
				continue // data of its own
			}
			var all []string
			for _, d := range ownDocs {
				all = append(all, d.name)
			}
			hint := fmt.Sprintf("there are %v", all)
			if near := value.Nearest(name, all); near != "" {
				hint = fmt.Sprintf("did you mean %q?", near)
			}
			return nil, &value.Error{Arg: arg, Msg: fmt.Sprintf("argument %q: a protocol has no function %q", arg, name), Hint: hint}
		}
		if err := o.take(c, known, get(name)); err != nil {
			return nil, err
		}
	}
	return &order{"own", func([]string) protocol.Spec { return o }}, nil
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
			r.note(ownDocs[which].name, fmt.Errorf("it returned %s, who is not a member; members are %v", shown(v), r.floor.members))
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
	Name: "said", Doc: "A message between members, as protocols and conditions see it.",
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

// stop is a condition that ends an interaction.
type stop struct {
	name, node string
	ask        func(ctx context.Context, f *protocol.Floor) string
}

var stopKind = &value.Kind[*stop]{
	Name: "condition", Doc: "What ends an interaction, see converged, max_messages, node_reached.",
	String: func(s *stop) string { return fmt.Sprintf("<condition %s>", s.name) },
}

func stopAfter(n int) func(context.Context, *protocol.Floor) string {
	f := protocol.MaxMessages(n)
	return func(_ context.Context, x *protocol.Floor) string { return f(x) }
}

func (b *Behaviour) converged(c *value.Call) (starlark.Value, error) {
	cb, err := newCallback(c, "fn", "before", "now")
	if err != nil {
		return nil, err
	}
	return stopKind.Wrap(&stop{"converged", "", func(ctx context.Context, f *protocol.Floor) string {
		return protocol.Converged(func(before, now []protocol.Message) bool {
			if cb == nil {
				return reflect.DeepEqual(spokenBy(before), spokenBy(now))
			}
			v, err := b.consult(ctx, cb, saidList(before), saidList(now))
			if err != nil {
				f.Fail(fmt.Errorf("converged: %w", err))
				return true
			}
			return bool(v.Truth())
		})(f)
	}}), nil
}

// spokenBy is what each said.
func spokenBy(list []protocol.Message) map[string]any {
	out := map[string]any{}
	for _, m := range list {
		out[m.From] = m.Content
	}
	return out
}
