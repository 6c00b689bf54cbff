package bus_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"edged/bus"
	"edged/bus/origin"
)

// What is kept is weighed as it comes and goes: a text of n bytes more weighs
// n more, what is replaced or forgotten weighs nothing.
func TestWeightOfKept(t *testing.T) {
	b := bus.New(bus.Options{})
	defer b.Close(t.Context())
	retain := func(topic string, v any) int64 {
		t.Helper()
		if _, err := b.Retain(t.Context(), "test", topic, v); err != nil {
			t.Fatal(err)
		}
		return b.Stats().RetainedBytes
	}
	one := retain("a", true)
	if one <= 0 || one > 1024 {
		t.Errorf("a truth weighs %d", one)
	}
	for _, row := range []struct {
		v    any
		more int64
	}{{7, 0}, {2.5, 0}, {"", 0}, {"twelve bytes", 12}, {map[string]any{"k": "v"}, int64(len(`{"k":"v"}`))}, {[]byte("xyz"), 3}, {false, 0}} {
		if got := retain("a", row.v); got != one+row.more {
			t.Errorf("%v: %d are kept, want %d", row.v, got, one+row.more)
		}
	}
	if got := retain("abc", true); got != 2*one+2 {
		t.Errorf("two topics, one longer by two: got %d, want %d", got, 2*one+2)
	}
	for range 2 {
		retain("abc", nil)
		if got := retain("a", nil); got != 0 || b.Stats().Retained != 0 {
			t.Errorf("%d bytes in %d topics are left", got, b.Stats().Retained)
		}
		if got := retain("a", true); got != one {
			t.Errorf("kept again: got %d, want %d", got, one)
		}
	}
}

// The bounds of what is kept are exact; what is there can be replaced and
// forgotten when nothing more fits.
func TestBoundsOfKept(t *testing.T) {
	scale := bus.New(bus.Options{})
	defer scale.Close(t.Context())
	if _, err := scale.Retain(t.Context(), "test", "a", "1234"); err != nil {
		t.Fatal(err)
	}
	one := scale.Stats().RetainedBytes
	for name, opt := range map[string]bus.Options{"topics": {Retained: 2}, "bytes": {RetainedBytes: 2 * one}} {
		t.Run(name, func(t *testing.T) {
			b := bus.New(opt)
			defer b.Close(t.Context())
			retain := func(topic string, v any) error {
				_, err := b.Retain(t.Context(), "test", topic, v)
				return err
			}
			if err := errors.Join(retain("a", "1234"), retain("b", "1234"), retain("a", "4321"), retain("b", "")); err != nil {
				t.Fatal(err)
			}
			if err := retain("b", "4321"); err != nil {
				t.Fatal(err)
			}
			heard, err := b.Subscribe("#", bus.Queue{})
			if err != nil {
				t.Fatal(err)
			}
			err = retain("c", "1234")
			if !errors.Is(err, bus.ErrFull) || !strings.Contains(err.Error(), "2 topics with 0 KiB are kept") {
				t.Errorf("got %v, want that it is full", err)
			}
			if _, err := b.Replay(t.Context(), "mqtt", "c", "1234"); !errors.Is(err, bus.ErrFull) {
				t.Errorf("a copy of a broker's: got %v, want that it is full", err)
			}
			if st := b.Stats(); st.Unkept != 2 || st.Retained != 2 || heard.Len() != 0 {
				t.Errorf("%d refused, %d kept, %d heard; want 2, 2, 0", st.Unkept, st.Retained, heard.Len())
			}
			if err := errors.Join(retain("nothing", nil), retain("a", nil), retain("c", "1234")); err != nil {
				t.Error(err)
			}
			if got := topics(b.Retained("#")); !slices.Equal(got, []string{"b", "c"}) {
				t.Errorf("kept %v, want b and c", got)
			}
		})
	}
	b := bus.New(bus.Options{RetainedBytes: one - 1})
	defer b.Close(t.Context())
	if _, err := b.Retain(t.Context(), "test", "a", "1234"); !errors.Is(err, bus.ErrFull) || strings.Contains(err.Error(), "KiB may be") == false {
		t.Errorf("a byte too many: got %v", err)
	}
}

// Two that are let in while there is room for one, and are delivered later: one
// is kept, the other is heard and counted.
func TestKeptByWhoComesFirst(t *testing.T) {
	b := bus.New(bus.Options{Retained: 1})
	defer b.Close(t.Context())
	heard, err := b.Subscribe("#", bus.Queue{})
	if err != nil {
		t.Fatal(err)
	}
	resume := b.Pause()
	for _, topic := range []string{"a", "b"} {
		if _, err := b.Retain(t.Context(), "test", topic, 1); err != nil {
			t.Fatal(err)
		}
	}
	resume()
	if got := topics(b.Retained("#")); !slices.Equal(got, []string{"a"}) || heard.Len() != 2 || b.Stats().Unkept != 1 {
		t.Errorf("kept %v, %d heard, %d counted; want a, 2, 1", got, heard.Len(), b.Stats().Unkept)
	}
}

// A kept copy is marked, and knows its origin but not its causes: whoever comes
// later is not within the run that left it.
func TestKeptCopyForgetsItsCauses(t *testing.T) {
	b := bus.New(bus.Options{})
	defer b.Close(t.Context())
	ctx := bus.WithOld(bus.WithRun(t.Context(), "patrol"), bus.Old{Reason: "it waited"})
	if e, err := b.Retain(ctx, "agent:scout", "mode", "away"); err != nil || !e.Queued || !e.Within("patrol") {
		t.Fatalf("%+v %v", e, err)
	}
	k := b.Retained("mode")[0]
	if !k.Retained || !k.Keep || k.Queued || k.Within("patrol") || k.Origin() != origin.Of("agent:scout") {
		t.Errorf("got %+v, want a copy without causes", k)
	}
	if o := k.Old(); o == nil || !strings.Contains(o.Reason, "retained copy") {
		t.Errorf("got %v, want that it is a copy", o)
	}
}

// What an earlier process kept comes back as it was, and to nobody as news.
func TestRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{Retained: 3})
		defer b.Close(t.Context())
		live, err := b.Subscribe("#", bus.Queue{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Retain(t.Context(), "cli", "now", "new"); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		restore := func(topic string, v any, ago time.Duration) error {
			return b.Restore(topic, "mqtt", "agent:scout", v, began.Add(-ago))
		}
		if err := errors.Join(restore("late", 1, time.Hour), restore("early", 2, 2*time.Hour), restore("now", "old", time.Hour), restore("late", 3, 0)); err != nil {
			t.Fatal(err)
		}
		if err := restore("more", 1, 0); !errors.Is(err, bus.ErrFull) {
			t.Errorf("beyond the bound: got %v", err)
		}
		if err := restore("a/+", 1, 0); err == nil {
			t.Error("a filter is no topic")
		}
		if err := restore("bad", func() {}, 0); !errors.Is(err, bus.ErrPayload) {
			t.Errorf("no payload: got %v", err)
		}
		var got []string
		for _, e := range b.Retained("#") {
			got = append(got, fmt.Sprint(e.Topic, " ", e.Payload(), " ", e.Source, " ", e.Origin(), " ", e.Keep, " ", began.Sub(e.Time())))
		}
		want := []string{"early 2 mqtt agent:scout true 2h0m0s", "late 1 mqtt agent:scout true 1h0m0s", "now new cli cli true 0s"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := topics(drainAll(t, live)); !slices.Equal(got, []string{"now"}) {
			t.Errorf("heard %v, want what was published alone", got)
		}
		s, err := b.Subscribe("#", bus.Queue{Replay: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := topics(drainAll(t, s)); !slices.Equal(got, []string{"early", "late", "now"}) {
			t.Errorf("replayed %v", got)
		}
	})
}

// What is old says how, by the units that people look at.
func TestOldAsASentence(t *testing.T) {
	for _, row := range []struct {
		age    time.Duration
		remedy string
		want   string
	}{
		{0, "", "t: it waited"},
		{1, "", "t is 0s old: it waited"},
		{1234567 * time.Nanosecond, "", "t is 1ms old: it waited"},
		{1987654321 * time.Nanosecond, "", "t is 2s old: it waited"},
		{1345 * time.Millisecond, "", "t is 1.3s old: it waited"},
		{90*time.Second + 400*time.Millisecond, "act_on_queued", "t is 1m30s old: it waited (act_on_queued)"},
	} {
		o := bus.Old{Topic: "t", Reason: "it waited", Age: row.age, Remedy: row.remedy}
		if got := o.String(); got != row.want {
			t.Errorf("got %q, want %q", got, row.want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{})
		defer b.Close(t.Context())
		if _, err := b.Retain(t.Context(), "test", "t", 1); err != nil {
			t.Fatal(err)
		}
		if o := b.Retained("t")[0].Old(); o.Age != 0 {
			t.Errorf("what was kept just now is %v old", o.Age)
		}
		e := bus.Event{Topic: "t", Retained: true}
		if got, want := e.Old().String(), "t: it is a retained copy, not news (act_on_retained lets those of a broker act)"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if (bus.Event{Topic: "t"}).Old() != nil || bus.OldOf(t.Context()) != nil {
			t.Error("news is taken for old")
		}
	})
}

// A context of what is old is in all else the one that it was made from: of the
// same cause, the same run, and the same reading.
func TestOldKeepsTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{})
		defer b.Close(t.Context())
		first, err := b.Publish(bus.WithRun(t.Context(), "patrol"), "hw:imu", "first", nil)
		if err != nil {
			t.Fatal(err)
		}
		outer := bus.WithCause(t.Context(), first)
		for _, old := range []bus.Old{{Reason: "it waited"}, {Topic: "before", Reason: "it waited"}} {
			ctx := bus.WithOld(outer, old)
			if seq, hops := bus.CauseOf(ctx); seq != first.Seq || hops != 0 {
				t.Errorf("got cause %d after %d hops", seq, hops)
			}
			e, err := b.Publish(ctx, "script:a", "second", nil)
			if err != nil {
				t.Fatal(err)
			}
			if e.Cause != first.Seq || e.Hops != 1 || !e.Within("patrol") || e.Queued != (old.Topic == "") {
				t.Errorf("got %+v", e)
			}
			if o := e.Old(); o == nil || o.Topic != map[bool]string{true: "second", false: "before"}[old.Topic == ""] {
				t.Errorf("got %v", o)
			}
			if o := bus.OldOf(bus.WithRun(ctx, "inner")); o == nil || o.Reason != old.Reason {
				t.Errorf("in a run of its own: got %v", o)
			}
			third, err := b.Publish(bus.WithCause(t.Context(), e), "script:a", "third", nil)
			if err != nil || third.Cause != e.Seq || third.Hops != 2 || third.Queued || third.Old() == nil || !third.Within("patrol") {
				t.Errorf("%+v %v", third, err)
			}
		}
		origin.Raise(bus.WithOld(outer, bus.Old{Reason: "it waited"}), "mcp:files")
		e, err := b.Publish(outer, "script:a", "after", nil)
		if err != nil || !e.Origin().Covers("mcp:files") {
			t.Errorf("got %s %v: what was read there was read here", e.Origin(), err)
		}
	})
}

// An old event in a loop is a storm as any other is.
func TestOldLoopIsAStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{})
		defer b.Close(t.Context())
		n := 0
		if _, err := b.Handle("t", bus.Queue{}, func(ctx context.Context, e bus.Event) error {
			if n++; n < 300 {
				_, _ = b.Publish(bus.WithOld(ctx, bus.Old{Reason: "it waited"}), "test", "t", nil)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Publish(t.Context(), "test", "t", nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n != bus.MaxHops+1 || b.Stats().Storms != 1 {
			t.Errorf("%d rounds, %d storms; want %d, 1", n, b.Stats().Storms, bus.MaxHops+1)
		}
	})
}
