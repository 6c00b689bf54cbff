package lib

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

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
		Name: "Market", Doc: "Lets members bid, in a competition. Bidders are told how the last one ended; with a budget the winner pays its bid, or is paid it where the lowest wins, and what each has lasts through restarts.",
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
		return stopKind.Wrap(&stop{name: "max_messages", messages: c.Int("n")}), nil
	}},
	{value.Func{
		Name: "node_reached", Doc: "Ends an interaction, as until, when a member has spoken.", Example: "node_reached(chair)",
		Params:  []value.Param{{Name: "member", Type: memberType, Required: true, Positional: true, Doc: "Who."}},
		Returns: "a condition",
	}, func(_ *Behaviour, c *value.Call) (starlark.Value, error) {
		name := memberName(c.Value("member"))
		f := protocol.NodeReached(name)
		return stopKind.Wrap(&stop{name: "node_reached", node: name, ask: func(_ context.Context, x *protocol.Floor) string { return f(x) }}), nil
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
			return nil, fmt.Errorf("priority names %q, who is not a member; members are %s", name, strings.Join(members, ", "))
		}
	}
	return protocol.Queue{Priority: func(name string) int { return s.ranks[name] }}.Open(members)
}

// Steady implements protocol.Steady.
func (s *rankSpec) Steady() {}

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
		v, err := s.b.weigh(s.b.contextOr(s.ctx), s.cb, starlark.String(name))
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

// Steady implements protocol.Steady.
func (s *queueSpec) Steady() {}

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

// stop is a condition that ends an interaction.
type stop struct {
	name, node string
	messages   int // after how many it is a deadlock; nothing is asked then
	ask        func(ctx context.Context, f *protocol.Floor) string
}

var stopKind = &value.Kind[*stop]{
	Name: "condition", Doc: "What ends an interaction, see converged, max_messages, node_reached.",
	String: func(s *stop) string { return fmt.Sprintf("<condition %s>", s.name) },
}

func (b *Behaviour) converged(c *value.Call) (starlark.Value, error) {
	cb, err := newCallback(c, "fn", "before", "now")
	if err != nil {
		return nil, err
	}
	return stopKind.Wrap(&stop{name: "converged", ask: func(ctx context.Context, f *protocol.Floor) string {
		return protocol.Converged(func(before, now []protocol.Message) bool {
			if cb == nil {
				return reflect.DeepEqual(spokenBy(before), spokenBy(now))
			}
			v, err := b.weigh(ctx, cb, saidList(before), saidList(now))
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
