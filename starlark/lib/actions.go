package lib

import (
	"fmt"
	"strings"

	"go.starlark.net/starlark"

	"edged/bus"
	"edged/bus/trace"
	"edged/starlark/value"
)

// What the robot did in a test, as replay compares it.

var actionRows = []testRow{
	{value.Func{
		Name: "actions", Doc: "Returns what the robot has done, one line each: commands of actuators, long actions, events of scripts and agents, changed keys of the blackboard. A state that lasted for less than 20 ms is left out. With golden it is compared with a file beside the test; edged test -update writes it.",
		Example: "actions(golden = \"alarm.golden\")",
		Params:  []value.Param{{Name: "golden", Type: value.String, Default: "", Doc: "The name of a file in testdata/."}},
		Returns: "text",
	}, (*testRobot).actions},
}

func (t *testRobot) actions(c *value.Call) (starlark.Value, error) {
	t.settle(c)
	var out strings.Builder
	if err := trace.WriteActions(&out, trace.Settled(trace.Actions(linesOf(t.log.events()), t.begun))); err != nil {
		return nil, err
	}
	got := out.String()
	return starlark.String(got), t.golden(c.String("golden"), got)
}

// linesOf are events as a record has them.
func linesOf(events []bus.Event) []trace.Line {
	lines := make([]trace.Line, 0, len(events))
	for _, e := range events {
		l := trace.Line{Time: e.Time(), Seq: e.Seq, Cause: e.Cause, Source: e.Source, Topic: e.Topic, Keep: e.Keep}
		if b, err := e.JSON(); err == nil {
			l.Payload = b
		}
		lines = append(lines, l)
	}
	return lines
}

// golden compares text with a golden file, or writes it; no name is none.
func (t *testRobot) golden(name, got string) error {
	switch {
	case name == "":
		return nil
	case t.o.Update != nil:
		return t.o.Update(name, got)
	case t.o.Golden == nil:
		return &value.Error{Arg: "golden", Msg: "there are no golden files here"}
	}
	want, ok := t.o.Golden(name)
	switch {
	case !ok:
		return &value.Error{Arg: "golden", Msg: fmt.Sprintf("no file testdata/%s", name), Hint: "edged test -update writes it"}
	case want != got:
		return &value.Error{Arg: "golden", Msg: fmt.Sprintf("the trace is another than testdata/%s:\n%s", name, difference(want, got)), Hint: "edged test -update takes the new one"}
	}
	return nil
}
