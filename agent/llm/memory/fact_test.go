package memory_test

import (
	"errors"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"edged/agent/llm/memory"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// Two times: when it was so, and when we knew it.
func TestTwoTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := open(t, newShelf(), memory.Options{})
		hour := func(h float64) time.Time { return time.Now().Add(time.Duration(h * float64(time.Hour))) }
		start := time.Now()
		at := func(valid, known time.Time) any {
			t.Helper()
			hits := must[[]memory.Hit](t)(m.Recall(t.Context(), memory.Query{Scope: "home", Key: "cup", At: valid, Known: known}))
			if len(hits) == 0 {
				return nil
			}
			return hits[0].Value
		}
		remember := func(value any, from time.Time) {
			t.Helper()
			must[memory.Fact](t)(m.Remember(t.Context(), memory.Fact{Key: "cup", Value: value, From: from}))
		}
		remember("kitchen", time.Time{}) // 0 h
		time.Sleep(2 * time.Hour)
		remember("hall", hour(-1)) // at 2 h: in the hall since 1 h
		time.Sleep(2 * time.Hour)
		if err := m.Forget(t.Context(), "", "cup"); err != nil { // at 4 h: gone
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		h := func(n float64) time.Time { return start.Add(time.Duration(n * float64(time.Hour))) }
		for _, row := range []struct {
			valid, known float64
			want         any
		}{
			{-1, 5, nil},
			{0.5, 5, "kitchen"},
			{1.5, 5, "hall"},
			{1.5, 1.5, "kitchen"}, // what we believed then
			{3, 3, "hall"},
			{4.5, 3, "hall"}, // what we would have said of the future
			{4.5, 5, nil},
			{3, 5, "hall"}, // it was so, though it is not now
		} {
			if got := at(h(row.valid), h(row.known)); got != row.want {
				t.Errorf("at %v h, known at %v h: got %v, want %v", row.valid, row.known, got, row.want)
			}
		}
		if got := at(time.Time{}, time.Time{}); got != nil {
			t.Errorf("now: got %v, want nothing", got)
		}
		hits := must[[]memory.Hit](t)(m.Recall(t.Context(), memory.Query{Key: "cup", At: h(0.5)}))
		if f := hits[0].Fact; !f.From.Equal(h(0)) || !f.Until.Equal(h(1)) {
			t.Errorf("in the kitchen from %v until %v, want the first hour", f.From.Sub(start), f.Until.Sub(start))
		}
		var said []any
		for _, f := range m.History(t.Context(), "home", "cup") {
			said = append(said, f.Value)
		}
		if want := []any{"kitchen", "hall", nil}; !reflect.DeepEqual(said, want) {
			t.Errorf("history is %v, want %v", said, want)
		}
	})
}

// A correction for a while in the past leaves what is around it.
func TestSpan(t *testing.T) {
	m := open(t, newShelf(), memory.Options{})
	for _, f := range []memory.Fact{
		{Key: "door", Value: "closed", From: noon},
		{Key: "door", Value: "open", From: noon.Add(time.Hour), Until: noon.Add(2 * time.Hour)},
	} {
		must[memory.Fact](t)(m.Remember(t.Context(), f))
	}
	for h, want := range []string{"closed", "open", "closed"} {
		hits := must[[]memory.Hit](t)(m.Recall(t.Context(), memory.Query{Key: "door", At: noon.Add(time.Duration(h)*time.Hour + time.Minute)}))
		if len(hits) != 1 || hits[0].Value != want {
			t.Errorf("after %d h: got %v, want %s", h, hits, want)
		}
	}
	if _, err := m.Remember(t.Context(), memory.Fact{Key: "door", Value: 1, From: noon, Until: noon}); !errors.Is(err, memory.ErrTime) {
		t.Errorf("got error %v, want %v", err, memory.ErrTime)
	}
}

func TestSameAgain(t *testing.T) {
	s := newShelf()
	m := open(t, s, memory.Options{})
	for range 5 {
		must[memory.Fact](t)(m.Remember(t.Context(), memory.Fact{Key: "cup", Value: map[string]any{"b": int64(1), "a": nil}, Tags: []string{"Dishes"}}))
	}
	if n := len(m.History(t.Context(), "home", "cup")); n != 1 || len(s.sync) != 1 {
		t.Errorf("%d versions and %d writes, want one of each", n, len(s.sync))
	}
}

// The two times are compared with a table of everything that was said.
func TestAgainstTable(t *testing.T) {
	type say struct {
		from, until int
		value       any
	}
	rapid.Check(t, func(rt *rapid.T) {
		said := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) say {
			from := rapid.IntRange(0, 9).Draw(rt, "from")
			until := rapid.SampledFrom([]int{0, from + 1, from + 3}).Draw(rt, "until")
			return say{from, until, rapid.SampledFrom([]any{"a", "b"}).Draw(rt, "value")}
		}), 1, 8).Draw(rt, "said")
		synctest.Test(t, func(t *testing.T) {
			s := newShelf()
			m := open(t, s, memory.Options{})
			hour := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Hour) }
			var known []time.Time
			for _, x := range said {
				f := memory.Fact{Key: "k", Value: x.value, From: hour(x.from)}
				if x.until > 0 {
					f.Until = hour(x.until)
				}
				must[memory.Fact](t)(m.Remember(t.Context(), f))
				known = append(known, time.Now())
				time.Sleep(time.Second)
			}
			m = open(t, s, memory.Options{})
			for k := range said {
				for h := range 14 {
					var want any
					for _, x := range said[:k+1] {
						if h >= x.from && (x.until == 0 || h < x.until) {
							want = x.value
						}
					}
					hits := must[[]memory.Hit](t)(m.Recall(t.Context(), memory.Query{Key: "k", At: hour(h), Known: known[k]}))
					var got any
					if len(hits) == 1 {
						got = hits[0].Value
						if f := hits[0].Fact; f.From.After(hour(h)) || !f.Until.IsZero() && !f.Until.After(hour(h)) {
							t.Errorf("hour %d is not within %v and %v", h, f.From, f.Until)
						}
					}
					if got != want {
						t.Errorf("said %v: hour %d as known after %d: got %v, want %v", said, h, k+1, got, want)
					}
				}
			}
		})
		if t.Failed() {
			rt.Fatalf("failed")
		}
	})
}
