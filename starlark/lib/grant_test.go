package lib

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"edged/bus"
)

// TestCovers: what a granted filter covers, it matches: whatever topic the
// covered filter could bring in.
func TestCovers(t *testing.T) {
	level := rapid.SampledFrom([]string{"a", "b", "", "$x", "+", "#"})
	filters := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(level, 1, 4).Draw(t, "levels"), "/")
	}).Filter(func(f string) bool { return bus.ValidFilter(f) == nil })
	topics := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "", "$x"}), 1, 5).Draw(t, "levels"), "/")
	}).Filter(func(f string) bool { return bus.ValidTopic(f) == nil })
	rapid.Check(t, func(t *rapid.T) {
		g, f, topic := filters.Draw(t, "granted"), filters.Draw(t, "filter"), topics.Draw(t, "topic")
		if covers(g, f) && bus.Match(f, topic) && !bus.Match(g, topic) {
			t.Fatalf("%q is said to cover %q, but %q gets in", g, f, topic)
		}
		if !covers(g, g) {
			t.Fatalf("%q does not cover itself", g)
		}
		if covers(f, topic) != bus.Match(f, topic) && topic != "" {
			t.Fatalf("covers(%q, %q) = %v, match %v", f, topic, covers(f, topic), bus.Match(f, topic))
		}
	})
}

func TestOwn(t *testing.T) {
	for _, c := range []struct {
		capability, what string
		want             bool
	}{
		{"bus.pub", "guard/x", true}, {"bus.sub", "guard/#", true}, {"bus.sub", "guard", true}, {"bus.sub", "+/x", false}, {"bus.sub", "#", false},
		{"bus.pub", "guard2/x", false}, {"bb", "guard/x", true}, {"bb", "guard.x", true}, {"bb", "guardian", false}, {"bb", "*", false}, {"bb", "guard*", false},
		{"hw.write", "guard/x", false},
	} {
		if got := own("guard", c.capability, c.what); got != c.want {
			t.Errorf("own(%s, %q) = %v", c.capability, c.what, got)
		}
	}
}
