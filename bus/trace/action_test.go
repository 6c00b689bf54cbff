package trace

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var ten = time.Date(2026, 1, 2, 10, 0, 0, 0, time.UTC)

// lineAt is a line so many milliseconds after ten.
func lineAt(ms int, source, topic, payload string) Line {
	l := Line{Time: ten.Add(time.Duration(ms) * time.Millisecond), Seq: uint64(ms + 1), Source: source, Topic: topic}
	if payload != "" {
		l.Payload = []byte(payload)
	}
	return l
}

func ExampleActions() {
	list := Actions([]Line{
		lineAt(0, "mqtt", "home/goto", `{"room":"hall"}`),
		lineAt(10, "hw:goal", "hw/base/goal", `{"id":1,"goal":"base.drive_to","state":"running","args":{"room":"hall"}}`),
		lineAt(20, "hw:base", "hw/base/set", `{"command":{"v":0.4},"goal":1}`),
		lineAt(900, "script:main.star", "home/arrived", `{"room":"hall","n":1.0}`),
	}, ten)
	_ = WriteActions(os.Stdout, list)
	// Output:
	//     0.010s base.drive_to {"room":"hall"}
	//     0.900s publish home/arrived {"n":1,"room":"hall"}
}

func TestWhatIsAnAction(t *testing.T) {
	for _, c := range []struct {
		source, topic, payload, want string
	}{
		{"hw:lamp", "hw/lamp/set", `{"command":{"on":true},"by":"script:main.star"}`, `lamp {"on":true}`},
		{"hw:lamp", "hw/lamp/set", `{"command":{"on":true},"error":"unplugged"}`, `lamp {"on":true} failed: unplugged`},
		{"hw:fan", "hw/fan/set", `{"command":{"duty":0.1},"to":{"duty":0.5}}`, `fan {"duty":0.5}`},
		{"hw:lamp", "hw/lamp/set", `{"rest":true,"why":"asked"}`, "lamp rest"},
		{"hw:lamp", "hw/lamp/set", `{"rest":true,"why":"dead man"}`, ""},
		{"hw:base", "hw/base/set", `{"command":{"v":1},"goal":3}`, ""},
		{"hw:goal", "hw/base/goal", `{"goal":"base.dock","state":"running","args":{}}`, "base.dock {}"},
		{"hw:goal", "hw/base/goal", `{"goal":"base.dock","state":"running","feedback":1}`, ""},
		{"hw:goal", "hw/base/goal", `{"goal":"base.dock","state":"cancelled","reason":"stop"}`, "base.dock cancelled stop"},
		{"hw:goal", "hw/base/goal", `{"goal":"base.dock","state":"succeeded"}`, ""},
		{"hw:temp", "hw/temp", `{"value":1}`, ""},
		{"script:main.star", "home/x", "", "publish home/x"},
		{"agent:cook", "home/x", `"a<b"`, `publish home/x "a<b"`},
		{"mqtt", "home/x", `1`, ""},
		{"script:main.star", "board/k/x", `{"old":1,"new":2}`, "set k/x 2"},
		{"script:main.star", "board/k/x", `{"old":2,"new":2}`, ""},
		{"script:main.star", "board/k/x", `{"old":2,"new":null}`, "set k/x"},
		{"cli", "board/k/x", `{"old":1,"new":2}`, ""},
		{"agent:cook", "message/maid", `{"from":"cook","content":"hi"}`, `message maid "hi"`},
		{"agent:cook", "edged/agent/cook/end", `{"status":"done"}`, ""},
		{"script:main.star", "edged/safety/stop", `{"reason":"x"}`, "robot.stop"},
		{"script:main.star", "request/goto", `{"task":1}`, ""},
		{"hw:lamp", "hw/lamp/set", `nonsense`, ""},
	} {
		got := ""
		for _, a := range Actions([]Line{lineAt(0, c.source, c.topic, c.payload)}, ten) {
			got = a.String()
		}
		if got != c.want {
			t.Errorf("%s %s %s is %q, want %q", c.source, c.topic, c.payload, got, c.want)
		}
	}
}

// A ramp is one action, however many steps it has.
func TestRampIsOneAction(t *testing.T) {
	var lines []Line
	for i := range 5 {
		lines = append(lines, lineAt(20*i, "hw:fan", "hw/fan/set", fmt.Sprintf(`{"command":{"duty":0.%d},"to":{"duty":0.5}}`, i)))
	}
	lines = append(lines, lineAt(100, "hw:fan", "hw/fan/set", `{"command":{"duty":0.5}}`), lineAt(200, "hw:fan", "hw/fan/set", `{"command":{"duty":0.5}}`))
	if got := Actions(lines, ten); len(got) != 2 || got[0].At != 0 || got[1].At != 200*time.Millisecond {
		t.Errorf("got %v, want the ramp and the command after it", got)
	}
}

func act(ms int, do, value string) Action {
	return Action{At: time.Duration(ms) * time.Millisecond, Do: do, Value: value}
}

func TestCompare(t *testing.T) {
	state := func(ms int, value string) Action {
		a := act(ms, "set k", value)
		a.State = true
		return a
	}
	for name, c := range map[string]struct {
		was, is []Action
		want    string
	}{
		"equal":          {[]Action{act(0, "a", "1")}, []Action{act(5, "a", "1")}, ""},
		"other order":    {[]Action{act(0, "a", "1"), act(0, "b", "1")}, []Action{act(0, "b", "1"), act(0, "a", "1")}, ""},
		"missing":        {[]Action{act(0, "a", "1"), act(10, "a", "2")}, []Action{act(10, "a", "2")}, "-     0.000s a 1\n"},
		"new":            {nil, []Action{act(7, "a", "1")}, "+     0.007s a 1\n"},
		"another value":  {[]Action{act(0, "a", "1")}, []Action{act(1, "a", "2")}, "-     0.000s a 1\n+     0.001s a 2\n"},
		"in between":     {[]Action{act(0, "a", "1"), act(9, "a", "3")}, []Action{act(0, "a", "1"), act(4, "a", "2"), act(9, "a", "3")}, "+     0.004s a 2\n"},
		"later":          {[]Action{act(0, "a", "1")}, []Action{act(150, "a", "1")}, "~     0.150s a 1: 150ms later\n"},
		"earlier":        {[]Action{act(200, "a", "1")}, []Action{act(0, "a", "1")}, "~     0.000s a 1: 200ms earlier\n"},
		"after the end":  {nil, []Action{act(1001, "a", "1")}, ""},
		"a short state":  {[]Action{state(0, "1"), state(5, "2")}, []Action{state(5, "2")}, ""},
		"a lasting one":  {[]Action{state(0, "1"), state(500, "2")}, []Action{state(500, "2")}, "-     0.000s set k 1\n"},
		"the last state": {[]Action{state(0, "1")}, []Action{state(0, "1"), state(5, "2")}, "+     0.005s set k 2\n"},
	} {
		var w strings.Builder
		if err := WriteDifferences(&w, Compare(c.was, c.is, 100*time.Millisecond, time.Second)); err != nil {
			t.Fatal(err)
		}
		if w.String() != c.want {
			t.Errorf("%s:\n got %q\nwant %q", name, w.String(), c.want)
		}
	}
}

func actions() *rapid.Generator[[]Action] {
	return rapid.SliceOf(rapid.Custom(func(t *rapid.T) Action {
		return Action{
			At: time.Duration(rapid.IntRange(0, 300).Draw(t, "at")) * time.Millisecond,
			Do: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "do"), Value: rapid.SampledFrom([]string{"1", "2", "3"}).Draw(t, "value"),
			State: rapid.Bool().Draw(t, "state"),
		}
	}))
}

func inTime(list []Action) []Action {
	slices.SortStableFunc(list, func(a, b Action) int { return int(a.At - b.At) })
	return list
}

// A run does not differ from itself, and without states the two sides differ by
// at least what one has more of.
func TestCompareLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := inTime(actions().Draw(t, "a")), inTime(actions().Draw(t, "b"))
		if d := Compare(a, a, 0, time.Hour); len(d) > 0 {
			t.Fatalf("a run differs from itself: %v", d)
		}
		for i := range a {
			a[i].State = false
		}
		for i := range b {
			b[i].State = false
		}
		missing, added := 0, 0
		for _, d := range Compare(a, b, time.Hour, time.Hour) {
			if d.Was != nil {
				missing++
			}
			if d.Is != nil {
				added++
			}
		}
		if len(a)-missing != len(b)-added {
			t.Fatalf("%d of %d are missing, %d of %d new", missing, len(a), added, len(b))
		}
	})
}

// Settled is stable: nothing more goes when it is done again to states that last.
func TestSettled(t *testing.T) {
	list := []Action{
		{At: 0, Do: "set k", Value: "1", State: true},
		{At: time.Second, Do: "set k", Value: "2", State: true},
		{At: time.Second + time.Millisecond, Do: "set k", Value: "1", State: true},
		{At: 2 * time.Second, Do: "publish x", Value: "1"},
		{At: 2 * time.Second, Do: "publish x", Value: "1"},
	}
	got := Settled(list)
	if len(got) != 3 || got[0].Value != "1" || got[1].Do != "publish x" {
		t.Errorf("got %v; want the state that lasts, once, and both events", got)
	}
	if again := Settled(got); !slices.Equal(again, got) {
		t.Errorf("again %v", again)
	}
}
