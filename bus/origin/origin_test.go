package origin_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"edged/bus/origin"
)

var who = rapid.SampledFrom([]string{"mqtt", "hw:lidar", "hw:imu", "agent:scout", "mcp:files", "http:example.org", "cli", "voice",
	"script:main.star", "script:lib/a.star", "script:b.star", "script:c.star", "script:d.star", "", "unknown"})

func own(who string) bool {
	kind, _, _ := strings.Cut(who, ":")
	return kind == "cli" || kind == "script" || kind == "voice"
}

// A label is a set: what it is made of and whether that is trusted do not
// depend on the order in which values are combined.
func TestJoinIsUnion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(who, 1, 12).Draw(t, "all")
		order := rapid.Permutation(all).Draw(t, "order")
		fold := func(list []string) origin.Label {
			l := origin.Of(list[0])
			for _, one := range list[1:] {
				l = l.Join(origin.Of(one))
			}
			return l
		}
		at := rapid.IntRange(0, len(all)-1).Draw(t, "at")
		a, b := fold(all), fold(order)
		if at > 0 {
			b = fold(order[:at]).Join(fold(order[at:]))
		}
		set := map[string]bool{}
		trusted := true
		for _, one := range all {
			l := origin.Of(one)
			set[string(l)] = true
			trusted = trusted && own(one)
			if !a.Covers(l) || a.Join(l) != a {
				t.Fatalf("%q does not cover %q", a, l)
			}
		}
		if got := a.Trusted(own); got != trusted {
			t.Fatalf("%q is trusted: %v, want %v: it has the origins %q", a, got, trusted, all)
		}
		if b.Trusted(own) != trusted {
			t.Fatalf("%q is trusted in another order than %q", b, a)
		}
		if len(set) > 8 {
			return // kinds stand for members then
		}
		if a != b || !slices.Equal(slices.Collect(a.All()), slices.Sorted(maps.Keys(set))) {
			t.Fatalf("got %q and %q of %q", a, b, all)
		}
		if origin.Parse(string(a)) != a {
			t.Fatalf("%q reads back as %q", a, origin.Parse(string(a)))
		}
	})
}

func TestMoreThanALabelHolds(t *testing.T) {
	l := origin.Of("cli")
	for i := range 40 {
		l = l.Join(origin.Of(fmt.Sprintf("script:%d.star", i)))
	}
	if l != "cli,script:*" || !l.Trusted(own) || !l.Covers("script:7.star") {
		t.Errorf("got %q, want the kind to stand for the scripts", l)
	}
	for i := range 10 {
		l = l.Join(origin.Of(fmt.Sprintf("kind%d", i)))
	}
	if l != origin.Many || l.Trusted(func(string) bool { return true }) || !l.Covers("mqtt") {
		t.Errorf("got %q, want %q, which nobody trusts", l, origin.Many)
	}
}

func TestNothingInANameEndsIt(t *testing.T) {
	for _, name := range []string{"agent:x,cli", "hw:a\nb", "mqtt\x00", strings.Repeat("ü", 90), "mcp:\xff"} {
		l := origin.Of(name)
		if n := len(slices.Collect(l.All())); n != 1 || len(l) > 80 || strings.ContainsAny(string(l), ",\n\x00") || origin.Parse(string(l)) != l {
			t.Errorf("%q became %q", name, l)
		}
	}
	if origin.Of("") != origin.Unknown || origin.Parse("") != origin.Unknown || origin.Label("").Trusted(own) {
		t.Error("what nobody said is unknown and not trusted")
	}
}

func TestARunReads(t *testing.T) {
	ctx := origin.With(context.Background(), "cli")
	inner := origin.With(ctx, origin.From(ctx))
	origin.Raise(inner, "mqtt")
	if got := origin.From(inner); got != "cli,mqtt" {
		t.Errorf("got %q after reading", got)
	}
	if got := origin.From(ctx); got != "cli" {
		t.Errorf("a run of its own raised its caller to %q", got)
	}
	if was := origin.ScopeOf(inner).Release("cli"); was != "cli,mqtt" || origin.From(inner) != "cli" {
		t.Errorf("released %q, now %q", was, origin.From(inner))
	}
	origin.Raise(context.Background(), "mqtt") // outside of a run nothing holds it
	if got := origin.From(context.Background()); got != "" {
		t.Errorf("got %q outside of a run", got)
	}
}
