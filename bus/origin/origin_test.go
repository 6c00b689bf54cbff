package origin_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
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

// What a name becomes in a label, letter by letter.
func TestOf(t *testing.T) {
	long := strings.Repeat("x", 80)
	for who, want := range map[string]origin.Label{
		"hw:lidar 2~": "hw:lidar 2~", "agent:Bücher": "agent:Bücher", "a,b": "a_b", "a\x1fb": "a_b", "a\x7fb": "a_b", "a\uFFFDb": "a_b", "mcp:\xff": "mcp:_",
		long: origin.Label(long), long + "y": origin.Label(long), long[:79] + "ü": origin.Label(long[:79]), long[:78] + "ü": origin.Label(long[:78] + "ü"),
	} {
		if got := origin.Of(who); got != want {
			t.Errorf("%q became %q, want %q", who, got, want)
		}
	}
}

func TestMerge(t *testing.T) {
	for _, c := range []struct {
		list []origin.Label
		want origin.Label
	}{
		{nil, ""}, {[]origin.Label{"", ""}, ""}, {[]origin.Label{"", "mqtt", ""}, "mqtt"}, {[]origin.Label{"mqtt", "", "cli"}, "cli,mqtt"},
	} {
		if got := origin.Merge(c.list...); got != c.want {
			t.Errorf("%q merge to %q, want %q", c.list, got, c.want)
		}
	}
}

func TestNobodySaid(t *testing.T) {
	none := origin.Label("")
	if got := none.Join(""); got != origin.Unknown {
		t.Errorf("nobody and nobody are %q", got)
	}
	if a, b := none.Join("mqtt"), origin.Label("mqtt").Join(""); a != "mqtt,unknown" || b != a {
		t.Errorf("got %q and %q", a, b)
	}
	if got := slices.Collect(none.All()); !slices.Equal(got, []string{"unknown"}) {
		t.Errorf("got %q", got)
	}
	asked := ""
	if none.Trusted(func(who string) bool { asked = who; return false }); asked != "unknown" {
		t.Errorf("a policy was asked about %q", asked)
	}
}

func TestCovers(t *testing.T) {
	for _, c := range []struct {
		l, m origin.Label
		want bool
	}{
		{"cli,mqtt", "mqtt", true}, {"mqtt", "cli,mqtt", false}, {"hw:a", "hw:b", false}, {"hw:*", "hw:b", true}, {"hw:*", "hw", false}, {"hw", "hw:b", false},
		{"x", "hw:b", false}, {"cli,hw:*", "hw:a,hw:b", true}, {"cli,hw:*", "hw:a,mqtt", false}, {origin.Many, "mqtt", true}, {"mqtt", origin.Many, false},
	} {
		if got := c.l.Covers(c.m); got != c.want {
			t.Errorf("%q covers %q: %v", c.l, c.m, got)
		}
	}
}

// Eight origins are told one by one; a ninth makes kinds of them.
func TestEightStandByName(t *testing.T) {
	l := origin.Of("hw:0")
	for i := range 7 {
		l = l.Join(origin.Of(fmt.Sprintf("hw:%d", i+1)))
	}
	if l != "hw:0,hw:1,hw:2,hw:3,hw:4,hw:5,hw:6,hw:7" {
		t.Errorf("got %q of eight", l)
	}
	if l = l.Join("mqtt"); l != "hw:*,mqtt" {
		t.Errorf("got %q of nine", l)
	}
	kinds := origin.Of("k0")
	for i := range 6 {
		kinds = kinds.Join(origin.Of(fmt.Sprintf("k%d", i+1)))
	}
	if got := kinds.Join("hw:1,hw:2"); got != "hw:*,k0,k1,k2,k3,k4,k5,k6" {
		t.Errorf("got %q of eight kinds", got)
	}
	if got := kinds.Join("hw:1,hw:2").Join("k7"); got != origin.Many {
		t.Errorf("got %q of nine kinds", got)
	}
}

func TestWordless(t *testing.T) {
	for _, v := range []any{nil, true, int64(3), 2.5, 7, []any{}, []any{int64(1), []any{false}}} {
		if !origin.Wordless(v) {
			t.Errorf("%v says something", v)
		}
	}
	for _, v := range []any{"", "go", []any{int64(1), "go"}, []any{[]any{"go"}, int64(1)}, map[string]any{}, map[string]any{"x": 1}} {
		if origin.Wordless(v) {
			t.Errorf("%v says nothing", v)
		}
	}
}

func TestUntrusted(t *testing.T) {
	for l, want := range map[origin.Label]origin.Label{
		"cli,hw:lidar,mqtt": "hw:lidar,mqtt", "cli,mqtt": "mqtt", "cli": origin.Unknown, "": origin.Unknown,
	} {
		if got := l.Untrusted(own); got != want {
			t.Errorf("of %q untrusted is %q, want %q", l, got, want)
		}
	}
}

func TestRaise(t *testing.T) {
	for _, c := range []struct {
		start origin.Label
		reads []origin.Label
		want  origin.Label
	}{
		{"", nil, ""}, {"", []origin.Label{""}, origin.Unknown}, {"", []origin.Label{"mqtt"}, "mqtt"}, {"", []origin.Label{"mqtt", "cli"}, "cli,mqtt"},
		{"cli", []origin.Label{""}, "cli,unknown"}, {"cli", []origin.Label{"mqtt", "hw:a", "mqtt"}, "cli,hw:a,mqtt"},
	} {
		ctx := origin.With(context.Background(), c.start)
		for _, l := range c.reads {
			origin.Raise(ctx, l)
		}
		if got := origin.From(ctx); got != c.want {
			t.Errorf("%q that reads %q is %q, want %q", c.start, c.reads, got, c.want)
		}
	}
	ctx := origin.Fixed(context.Background(), "script:a_test.star")
	if origin.Raise(ctx, "mqtt"); origin.From(ctx) != "script:a_test.star" {
		t.Errorf("a test that reads became %q", origin.From(ctx))
	}
}

// Whoever reads at the same time is counted, too.
func TestRaiseTogether(t *testing.T) {
	for range 300 {
		ctx := origin.With(context.Background(), "a")
		var start, done sync.WaitGroup
		start.Add(1)
		for _, l := range []origin.Label{"b", "c", "d", "e", "f", "g"} {
			done.Go(func() { start.Wait(); origin.Raise(ctx, l) })
		}
		start.Done()
		done.Wait()
		if got := origin.From(ctx); got != "a,b,c,d,e,f,g" {
			t.Fatalf("got %q", got)
		}
	}
}

// outside is a context of somebody else that a run began in.
type outside struct {
	context.Context
	scope origin.Scope
}

func (o *outside) Scope() *origin.Scope { return &o.scope }
func (o *outside) Value(key any) any {
	if key == (origin.Key{}) {
		return o
	}
	return o.Context.Value(key)
}

// A run in a run still knows whose it is, and what its context holds besides.
func TestOuter(t *testing.T) {
	type name struct{}
	out := &outside{Context: context.WithValue(context.Background(), name{}, "x")}
	ctx := origin.With(origin.With(out, "cli"), "mqtt")
	if c, ok := ctx.Value(origin.Key{}).(*origin.Context); !ok || c.Outer != origin.Carrier(out) {
		t.Errorf("the outer one is lost: %v", ctx.Value(origin.Key{}))
	}
	if ctx.Value(name{}) != "x" {
		t.Error("the context's own values are lost")
	}
	if origin.From(ctx) != "mqtt" || origin.From(out) != "" {
		t.Errorf("got %q in %q", origin.From(ctx), origin.From(out))
	}
}
