package bus_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"edged/bus"
)

// The table of MQTT 3.1.1 section 4.7, and its borders.
func TestMatch(t *testing.T) {
	for _, c := range []struct {
		filter, topic string
		want          bool
	}{
		{"sport/tennis/player1/#", "sport/tennis/player1", true},
		{"sport/tennis/player1/#", "sport/tennis/player1/ranking", true},
		{"sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", true},
		{"sport/#", "sport", true}, {"#", "sport/tennis", true}, {"sport/tennis/+", "sport/tennis/player1", true},
		{"sport/tennis/+", "sport/tennis/player1/ranking", false}, {"sport/+", "sport", false}, {"sport/+", "sport/", true},
		{"+/+", "/finance", true}, {"/+", "/finance", true}, {"+", "/finance", false},
		{"#", "$SYS/x", false}, {"+/monitor/Clients", "$SYS/monitor/Clients", false},
		{"$SYS/#", "$SYS/x", true}, {"$SYS/monitor/+", "$SYS/monitor/Clients", true}, {"*", "$SYS/x", true},
		{"a/+/c", "a//c", true}, {"a/b", "a/B", false}, {"+/#", "a", true}, {"a/#", "ab", false}, {"a/", "a", false},
	} {
		if got := bus.Match(c.filter, c.topic); got != c.want {
			t.Errorf("Match(%q, %q) = %v, want %v", c.filter, c.topic, got, c.want)
		}
		if bus.ValidFilter(c.filter) != nil || bus.ValidTopic(c.topic) != nil {
			t.Errorf("%q or %q is refused", c.filter, c.topic)
		}
	}
}

func TestNames(t *testing.T) {
	for _, bad := range []string{"", "a/+", "#", "a\x00b", "\xff", strings.Repeat("x", 1025)} {
		if bus.ValidTopic(bad) == nil {
			t.Errorf("topic %q is let through", bad)
		}
	}
	for _, bad := range []string{"", "a/#/b", "a#", "a+/b", "+a", "#/a", "\xff", "a\x00", strings.Repeat("x", 1025)} {
		if bus.ValidFilter(bad) == nil {
			t.Errorf("filter %q is let through", bad)
		}
	}
}

// slowMatch is the definition, written for reading.
func slowMatch(f, t []string) bool {
	switch {
	case len(f) == 0:
		return len(t) == 0
	case f[0] == "#":
		return true
	case len(t) == 0:
		return false
	}
	return (f[0] == "+" || f[0] == t[0]) && slowMatch(f[1:], t[1:])
}

func TestMatchAgainstDefinition(t *testing.T) {
	level := rapid.SampledFrom([]string{"a", "b", "", "$x", "é"})
	filter := rapid.SampledFrom([]string{"a", "b", "", "+", "#", "$x"})
	rapid.Check(t, func(t *rapid.T) {
		tl := rapid.SliceOfN(level, 1, 4).Draw(t, "topic")
		fl := rapid.SliceOfN(filter, 1, 4).Draw(t, "filter")
		topic, f := strings.Join(tl, "/"), strings.Join(fl, "/")
		if bus.ValidFilter(f) != nil || bus.ValidTopic(topic) != nil {
			t.Skip()
		}
		want := slowMatch(fl, tl)
		if topic[0] == '$' && (fl[0] == "+" || fl[0] == "#") {
			want = false
		}
		if got := bus.Match(f, topic); got != want {
			t.Fatalf("Match(%q, %q) = %v, want %v", f, topic, got, want)
		}
	})
}

func FuzzMatch(f *testing.F) {
	f.Add("a/+/#", "a/b/c")
	f.Add("*", "$SYS")
	f.Fuzz(func(t *testing.T, filter, topic string) {
		if bus.ValidFilter(filter) != nil || bus.ValidTopic(topic) != nil {
			return
		}
		if got, self := bus.Match(filter, topic), bus.Match(topic, topic); !self && !strings.ContainsAny(topic, "*") {
			t.Errorf("%q does not match itself (and %q: %v)", topic, filter, got)
		}
	})
}
