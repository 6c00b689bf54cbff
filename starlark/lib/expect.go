package lib

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.starlark.net/starlark"

	"edged/bus"
	"edged/bus/origin"
	"edged/starlark/value"
)

// testRow is a builtin of tests.
type testRow struct {
	value.Func
	do func(t *testRobot, c *value.Call) (starlark.Value, error)
}

var msgParam = value.Param{Name: "msg", Type: value.String, Default: "", Doc: "What to say if it is not so."}

var whereParam = value.Param{Name: "where", Type: value.Callable, Doc: "Asked with each event of the filter."}

var filterParam = value.Param{Name: "filter", Type: value.String, Required: true, Positional: true, Doc: "An MQTT topic filter."}

var testRows = []testRow{
	{value.Func{
		Name: "assert.eq", Doc: "Fails if two values differ.", Example: "assert.eq(bb.get(\"guard/armed\"), True)",
		Params: []value.Param{
			{Name: "got", Required: true, Positional: true, Doc: "What there is."},
			{Name: "want", Required: true, Positional: true, Doc: "What there should be."}, msgParam},
	}, assertEq(true)},
	{value.Func{
		Name: "assert.ne", Doc: "Fails if two values are equal.", Example: "assert.ne(bb.get(\"guard/n\"), 0)",
		Params: []value.Param{
			{Name: "got", Required: true, Positional: true, Doc: "What there is."},
			{Name: "other", Required: true, Positional: true, Doc: "What it should not be."}, msgParam},
	}, assertEq(false)},
	{value.Func{
		Name: "assert.true", Doc: "Fails if a value is not true.", Example: "assert.true(hw.sim.battery() > 50)",
		Params: []value.Param{{Name: "got", Required: true, Positional: true, Doc: "The value."}, msgParam},
	}, func(t *testRobot, c *value.Call) (starlark.Value, error) {
		if c.Value("got").Truth() {
			return nil, nil
		}
		return nil, notSo(c, "got %s, want it true", shown(c.Value("got")))
	}},
	{value.Func{
		Name: "assert.contains", Doc: "Fails if a text, list or dict does not contain something.", Example: "assert.contains(r.reason, \"closed\")",
		Params: []value.Param{
			{Name: "whole", Required: true, Positional: true, Doc: "Text, list or dict."},
			{Name: "part", Required: true, Positional: true, Doc: "What it should contain."}, msgParam},
	}, assertContains},
	{value.Func{
		Name: "assert.fails", Doc: "Calls a function and fails if it does not fail.", Example: "assert.fails(lambda: bb.incr(\"guard/name\"), contains = \"not a number\")",
		Params: []value.Param{
			{Name: "fn", Type: value.Callable, Required: true, Positional: true, Doc: "The function."},
			{Name: "contains", Type: value.String, Default: "", Doc: "What its error must say."}, msgParam},
		Rest: "args", Returns: "the error's text",
	}, assertFails},
	{value.Func{
		Name: "publish", Doc: "Publishes as somebody outside does, and lets all that follows at once happen.", Example: "publish(\"guard/motion/hall\")",
		Params: []value.Param{
			{Name: "topic", Type: value.String, Required: true, Positional: true, Doc: "The MQTT topic."},
			{Name: "payload", Type: value.Data, Positional: true, Doc: "A JSON value, text or bytes."},
			{Name: "retain", Type: value.Bool, Default: false, Doc: "Keep it as the last of its topic."},
			{Name: "source", Type: value.String, Default: "test", Doc: "Who publishes it, and whose words it is: \"mqtt\", \"hw:lidar\". What comes from the test itself is trusted like a script."}},
	}, (*testRobot).publish},
	{value.Func{
		Name: "say", Doc: "Says something to the robot, as if it had heard it: the event voice/utterance.", Example: "say(\"go to the kitchen\")",
		Params: []value.Param{{Name: "text", Type: value.String, Required: true, Positional: true, Doc: "The words."}},
	}, (*testRobot).say},
	{value.Func{
		Name: "expect_event", Doc: "Waits for an event and returns it. It looks at what happened since the test last did something to the robot, and finds each event once.",
		Example: "ev = expect_event(\"guard/alarm\", within = \"1s\")",
		Params:  []value.Param{filterParam, {Name: "within", Type: value.Duration, Default: "1s", Doc: "How long to wait."}, whereParam},
		Returns: "the event", Blocks: true,
	}, (*testRobot).expectEvent},
	{value.Func{
		Name: "expect_no_event", Doc: "Fails if an event comes within a time from now, or has come since the test last did or expected something. After it, expect_event of the same finds only what is new.",
		Example: "expect_no_event(\"guard/alarm\", within = \"1m\")",
		Params:  []value.Param{filterParam, {Name: "within", Type: value.Duration, Default: "1s", Doc: "How long to wait."}, whereParam},
		Blocks:  true,
	}, (*testRobot).expectNoEvent},
	{value.Func{
		Name: "trace", Doc: "Returns what has happened, one line an event: time, source, topic, payload, and the topic of its cause. With golden it is compared with a file beside the test; edged test -update writes it.",
		Example: "trace(\"guard/#\", golden = \"alarm.golden\")",
		Params: []value.Param{
			{Name: "filter", Type: value.String, Default: "*", Positional: true, Doc: "Which events."},
			{Name: "golden", Type: value.String, Default: "", Doc: "The name of a file in testdata/."}},
		Returns: "text",
	}, (*testRobot).trace},
	{value.Func{
		Name: "clock.advance", Doc: "Lets time pass. It takes none.", Example: "clock.advance(\"1h\")", Blocks: true,
		Params: []value.Param{{Name: "duration", Type: value.Duration, Required: true, Positional: true, Doc: "How long."}},
	}, func(t *testRobot, c *value.Call) (starlark.Value, error) {
		err := sleep(c.Context(), c.Duration("duration"))
		t.settle(c)
		return nil, err
	}},
	{value.Func{
		Name: "clock.now", Doc: "Returns the time, which is virtual.", Returns: "a time", Example: "t = clock.now()",
	}, func(t *testRobot, c *value.Call) (starlark.Value, error) { return c.Return(time.Now()) }},
}

// settle lets everything happen that needs no time. Only the test itself may
// wait for that, not a handler of its.
func (t *testRobot) settle(c *value.Call) {
	if r := runOf(c.Context()); r != nil && r.main {
		t.o.Settle()
	}
}

// shown is a value as an assertion shows it.
func shown(v starlark.Value) string {
	const most = 2000
	if err := value.Measure(v, most, most); err != nil {
		return "a large " + v.Type()
	}
	return v.String()
}

func notSo(c *value.Call, format string, a ...any) error {
	text := fmt.Sprintf(format, a...)
	if m := c.String("msg"); m != "" {
		text = m + ": " + text
	}
	return &value.Error{Msg: text}
}

func assertEq(want bool) func(*testRobot, *value.Call) (starlark.Value, error) {
	return func(_ *testRobot, c *value.Call) (starlark.Value, error) {
		name := "other"
		if want {
			name = "want"
		}
		got, other := c.Value("got"), c.Value(name)
		same, err := starlark.EqualDepth(got, other, value.MaxDepth)
		switch {
		case err != nil:
			return nil, err
		case same && !want:
			return nil, notSo(c, "got %s, want something else", shown(got))
		case !same && want:
			return nil, notSo(c, "got %s, want %s", shown(got), shown(other))
		}
		return nil, nil
	}
}

func assertContains(_ *testRobot, c *value.Call) (starlark.Value, error) {
	whole, part := c.Value("whole"), c.Value("part")
	found := false
	switch w := whole.(type) {
	case starlark.String:
		s, ok := starlark.AsString(part)
		if !ok {
			return nil, c.Errorf("part", "argument \"part\": want string, got %s", part.Type())
		}
		found = strings.Contains(string(w), s)
	case starlark.Mapping:
		_, ok, err := w.Get(part)
		if err != nil {
			return nil, err
		}
		found = ok
	case starlark.Iterable:
		for v := range starlark.Elements(w) {
			same, err := starlark.EqualDepth(v, part, value.MaxDepth)
			if err != nil {
				return nil, err
			}
			found = found || same
		}
	default:
		return nil, c.Errorf("whole", "argument \"whole\": want text, list or dict, got %s", whole.Type())
	}
	if !found {
		return nil, notSo(c, "%s is not in %s", shown(part), shown(whole))
	}
	return nil, nil
}

func assertFails(_ *testRobot, c *value.Call) (starlark.Value, error) {
	_, err := starlark.Call(c.Thread, c.Callable("fn"), c.Rest(), nil)
	if err == nil {
		return nil, notSo(c, "%s did not fail", c.Callable("fn").Name())
	}
	if cerr := c.Context().Err(); cerr != nil {
		return nil, cerr
	}
	text := err.Error()
	if ve, ok := value.AsError(err); ok {
		text = ve.Error()
	}
	if want := c.String("contains"); !strings.Contains(text, want) {
		return nil, notSo(c, "it failed with %q, want %q in that", text, want)
	}
	return starlark.String(text), nil
}

func (t *testRobot) publish(c *value.Call) (starlark.Value, error) {
	payload, err := c.Tree("payload")
	if err != nil {
		return nil, err
	}
	t.log.stimulus()
	say := t.bus.Publish
	if c.Bool("retain") {
		say = t.bus.Retain
	}
	source := c.String("source") // whose words it is: not the test's, though the test brings it about
	if _, err := say(origin.With(c.Context(), origin.Of(source)), source, c.String("topic"), payload); err != nil {
		return nil, err
	}
	t.settle(c)
	return nil, nil
}

func (t *testRobot) say(c *value.Call) (starlark.Value, error) {
	t.log.stimulus()
	_, err := t.bus.Publish(c.Context(), "test", "voice/utterance", map[string]any{"text": c.String("text"), "confidence": 1.0, "engine": "test"})
	t.settle(c)
	return nil, err
}

// matcher is what an expectation looks for.
func (t *testRobot) matcher(c *value.Call) (func(bus.Event) (bool, error), error) {
	filter := c.String("filter")
	if err := bus.ValidFilter(filter); err != nil {
		return nil, c.Errorf("filter", "argument \"filter\": %v", err)
	}
	fn := c.Callable("where")
	return func(e bus.Event) (bool, error) {
		if !bus.Match(filter, e.Topic) {
			return false, nil
		}
		if fn == nil {
			return true, nil
		}
		v, err := c.Run(fn, eventValue(e))
		return err == nil && bool(v.Truth()), err
	}, nil
}

func (t *testRobot) expectEvent(c *value.Call) (starlark.Value, error) {
	match, err := t.matcher(c)
	if err != nil {
		return nil, err
	}
	e, ok, err := t.log.next(c.Context(), c.Duration("within"), match)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, &value.Error{Msg: fmt.Sprintf("no event %s within %v", c.String("filter"), c.Duration("within")), Hint: t.instead()}
	}
	t.settle(c)
	return eventValue(e), nil
}

func (t *testRobot) expectNoEvent(c *value.Call) (starlark.Value, error) {
	match, err := t.matcher(c)
	if err != nil {
		return nil, err
	}
	at := t.log.fresh()
	if err := sleep(c.Context(), c.Duration("within")); err != nil {
		return nil, err
	}
	t.settle(c)
	list, _ := t.log.from(at)
	for _, e := range list {
		hit, err := match(e.Event)
		if err != nil {
			return nil, err
		}
		if hit {
			return nil, &value.Error{Msg: fmt.Sprintf("got the event %s %s after %v", e.Topic, literal(e.Event), e.Time().Sub(t.begun).Round(time.Millisecond))}
		}
	}
	return nil, t.log.without(match)
}

// instead says what did happen.
func (t *testRobot) instead() string {
	list, _ := t.log.from(t.log.since())
	var topics []string
	for _, e := range list {
		if e.Topic == bus.ErrorTopic {
			return "there was an error: " + string(e.Bytes())
		}
		if !slices.Contains(topics, e.Topic) && len(topics) < 12 {
			topics = append(topics, e.Topic)
		}
	}
	if len(topics) == 0 {
		return "nothing happened"
	}
	return "there were " + strings.Join(topics, ", ")
}

func (t *testRobot) trace(c *value.Call) (starlark.Value, error) {
	if err := bus.ValidFilter(c.String("filter")); err != nil {
		return nil, c.Errorf("filter", "argument \"filter\": %v", err)
	}
	t.settle(c)
	got := canonical(t.log.events(), c.String("filter"), t.begun)
	return starlark.String(got), t.golden(c.String("golden"), got)
}

// difference shows the first lines that differ.
func difference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	var out []string
	for i := range max(len(w), len(g)) {
		a, b := "", ""
		if i < len(w) {
			a = w[i]
		}
		if i < len(g) {
			b = g[i]
		}
		if a == b {
			continue
		}
		out = append(out, fmt.Sprintf("  line %d", i+1), "  - "+a, "  + "+b)
		if len(out) >= 9 {
			break
		}
	}
	return strings.Join(out, "\n")
}
