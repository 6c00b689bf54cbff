package blackboard

import (
	"context"
	"errors"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"edged/bus"
	"edged/tests/peer"
)

// Tests that fill up a disk of their own must be root.
func TestMain(m *testing.M) {
	if arg := os.Getenv(linearChild); arg != "" {
		os.Exit(runLinearChild(arg))
	}
	if code, ok := peer.AsRoot(); ok {
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}

var ctx = context.Background()

func set(t testing.TB, d *Board, key string, v any, o ...SetOptions) uint64 {
	t.Helper()
	version, err := d.Set(ctx, "test", key, v, append(o, SetOptions{})[0])
	if err != nil {
		t.Fatalf("set %s: %v", key, err)
	}
	return version
}

func want(t testing.TB, d *Board, key string, v any) {
	t.Helper()
	if got, ok := d.Get(key); !ok || !reflect.DeepEqual(got, v) {
		t.Fatalf("%s: got %#v %v, want %#v", key, got, ok, v)
	}
}

func wantAbsent(t testing.TB, d *Board, key string) {
	t.Helper()
	if got, ok := d.Get(key); ok {
		t.Fatalf("%s: got %#v, want nothing", key, got)
	}
}

func TestSetGet(t *testing.T) {
	d := memory(t)
	for _, c := range []struct {
		name      string
		give, get any
	}{
		{"nil", nil, nil},
		{"bool", true, true},
		{"int", 7, int64(7)},
		{"uint8", uint8(7), int64(7)},
		{"float", 0.5, 0.5},
		{"text", "naïve", "naïve"},
		{"empty text", "", ""},
		{"bytes", []byte{0, 255}, []byte{0, 255}},
		{"list", []any{1, "a", nil}, []any{int64(1), "a", nil}},
		{"dict", map[string]any{"x": []any{1.5}}, map[string]any{"x": []any{1.5}}},
		{"struct", struct {
			X int `json:"x"`
		}{3}, map[string]any{"x": int64(3)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			set(t, d, c.name, c.give)
			want(t, d, c.name, c.get)
		})
	}
	wantAbsent(t, d, "nothing")
	if !d.Has("nil") || d.Has("nothing") {
		t.Error("a stored nil and no value are different things")
	}
}

func TestSetCopies(t *testing.T) {
	d := memory(t)
	inner := []any{1}
	v := map[string]any{"l": inner}
	set(t, d, "k", v)
	inner[0], v["new"] = 2, true
	want(t, d, "k", map[string]any{"l": []any{int64(1)}})
}

func TestRefused(t *testing.T) {
	d := open(t, Options{MaxValue: 100})
	deep := any("x")
	for range 80 {
		deep = []any{deep}
	}
	for _, c := range []struct {
		name, key string
		v         any
		err       error
	}{
		{"no key", "", 1, ErrKey},
		{"long key", strings.Repeat("k", 513), 1, ErrKey},
		{"key not UTF-8", "\xff", 1, ErrKey},
		{"key whose topic is too long", strings.Repeat("#", 400), 1, ErrKey},
		{"large text", "k", strings.Repeat("x", 101), ErrValue},
		{"large list", "k", []any{strings.Repeat("x", 60), strings.Repeat("x", 60)}, ErrValue},
		{"text not UTF-8", "k", "\xff", ErrValue},
		{"NaN", "k", math.NaN(), ErrValue},
		{"channel", "k", make(chan int), ErrValue},
		{"deep", "k", deep, ErrValue},
	} {
		if _, err := d.Set(ctx, "test", c.key, c.v, SetOptions{}); !errors.Is(err, c.err) {
			t.Errorf("%s: got error %v, want %v", c.name, err, c.err)
		}
	}
	if k := d.Keys(""); len(k) != 0 {
		t.Errorf("keys %q after refused sets", k)
	}
}

func TestVersions(t *testing.T) {
	d := memory(t)
	set(t, d, "k", 1)
	if v := set(t, d, "k", 2); v != 2 {
		t.Errorf("second change: version %d, want 2", v)
	}
	if v := set(t, d, "k", 2); v != 2 {
		t.Errorf("repeated value: version %d, want 2", v)
	}
	if v := set(t, d, "k", 2.0); v != 3 {
		t.Errorf("2.0 after 2 is a change: version %d, want 3", v)
	}
	if had, err := d.Delete(ctx, "test", "k"); !had || err != nil {
		t.Errorf("delete: %v %v", had, err)
	}
	if had, _ := d.Delete(ctx, "test", "k"); had {
		t.Error("deleted twice")
	}
	if v := set(t, d, "k", 9); v != 5 {
		t.Errorf("a key that came back: version %d, want 5", v)
	}
	e, ok := d.Entry("k")
	if !ok || e.Writer != "test" || e.Time.IsZero() || e.Version != 5 {
		t.Errorf("entry %+v", e)
	}
}

func TestIncr(t *testing.T) {
	d := memory(t)
	for _, c := range []struct{ by, sum any }{{1, int64(1)}, {41, int64(42)}, {-2, int64(40)}, {0.5, 40.5}} {
		if sum, err := d.Incr(ctx, "test", "n", c.by); sum != c.sum || err != nil {
			t.Errorf("incr by %v: got %v %v, want %v", c.by, sum, err, c.sum)
		}
	}
	set(t, d, "max", int64(math.MaxInt64))
	set(t, d, "text", "x")
	for _, k := range []string{"max", "text"} {
		if _, err := d.Incr(ctx, "test", k, 1); !errors.Is(err, ErrNumber) {
			t.Errorf("incr %s: got error %v, want ErrNumber", k, err)
		}
	}
}

// A key that is counted on lives as long as it was to live.
func TestIncrKeepsTheTTL(t *testing.T) {
	for _, o := range []Options{{}, file(t)} {
		for _, mode := range []Mode{Group, Sync} {
			synctest.Test(t, func(t *testing.T) {
				d := open(t, o)
				if err := d.Declare("n", Rule{Mode: mode}); err != nil {
					t.Fatal(err)
				}
				set(t, d, "n", 1, SetOptions{TTL: 10 * time.Second})
				set(t, d, "stays", 1)
				for range 9 {
					time.Sleep(time.Second)
					for _, k := range []string{"n", "stays"} {
						if _, err := d.Incr(ctx, "test", k, 1); err != nil {
							t.Fatal(err)
						}
					}
				}
				time.Sleep(500 * time.Millisecond)
				want(t, d, "n", int64(10))
				time.Sleep(time.Second)
				if v, ok := d.Get("n"); ok {
					t.Errorf("after its time n is %v", v)
				}
				time.Sleep(time.Hour)
				want(t, d, "stays", int64(10))
				if _, err := d.Incr(ctx, "test", "n", 1); err != nil { // begins anew, and stays
					t.Fatal(err)
				}
				time.Sleep(time.Hour)
				want(t, d, "n", int64(1))
				_, _ = d.Delete(ctx, "test", "n")
				_, _ = d.Delete(ctx, "test", "stays")
			})
		}
	}
}

func TestCAS(t *testing.T) {
	d := memory(t)
	zero, one, nine := uint64(0), uint64(1), uint64(9)
	for i, c := range []struct {
		c    Compare
		v    any
		want bool
	}{
		{Compare{Version: &one}, "a", false},
		{Compare{Version: &zero}, "a", true},
		{Compare{Version: &zero}, "b", false},
		{Compare{Old: "x"}, "b", false},
		{Compare{Old: "a"}, "b", true},
		{Compare{Version: &nine}, "c", false},
		{Compare{Old: nil}, "c", false},
	} {
		if ok, err := d.CAS(ctx, "test", "k", c.c, c.v); ok != c.want || err != nil {
			t.Errorf("step %d: got %v %v, want %v", i, ok, err, c.want)
		}
	}
	want(t, d, "k", "b")
}

func TestUpdateIsOneStep(t *testing.T) {
	d := memory(t)
	seen := make(chan map[string]any, 10)
	_, err := d.Watch("p/*", WatchOptions{Sync: true}, func(context.Context, Change) error {
		seen <- d.Snapshot("p/")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Update(ctx, "test", map[string]any{"p/x": 1, "p/y": 2}, SetOptions{}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if s := <-seen; len(s) != 2 {
			t.Errorf("a watcher saw half of an update: %v", s)
		}
	}
	if err := d.Update(ctx, "test", map[string]any{"p/x": 5, "": 1}, SetOptions{}); !errors.Is(err, ErrKey) {
		t.Errorf("bad key in update: %v", err)
	}
	want(t, d, "p/x", int64(1))
}

func TestTransact(t *testing.T) {
	d := memory(t)
	set(t, d, "a", 1)
	tries := 0
	err := d.Transact(ctx, "test", func(x *Tx) error {
		tries++
		v, _ := x.Get("a")
		if tries == 1 {
			set(t, d, "a", 10) // a conflict
		}
		if err := x.Set("b", v.(int64)+1, SetOptions{}); err != nil {
			return err
		}
		if w, ok := x.Get("b"); !ok || w != v.(int64)+1 {
			t.Errorf("own write is not seen: %v", w)
		}
		x.Delete("a")
		return nil
	})
	if err != nil || tries != 2 {
		t.Fatalf("%v after %d tries, want 2", err, tries)
	}
	want(t, d, "b", int64(11))
	wantAbsent(t, d, "a")
	stop := errors.New("no")
	if err := d.Transact(ctx, "test", func(x *Tx) error { _ = x.Set("b", 0, SetOptions{}); return stop }); err != stop {
		t.Errorf("got %v, want fn's error", err)
	}
	want(t, d, "b", int64(11))
	if err := d.Transact(ctx, "test", func(x *Tx) error {
		x.Get("b")
		_, _ = d.Incr(ctx, "other", "b", 1)
		return x.Set("b", 0, SetOptions{})
	}); !errors.Is(err, ErrConflict) {
		t.Errorf("endless conflict: got %v", err)
	}
}

func TestHistory(t *testing.T) {
	d := memory(t)
	if err := d.Declare("t/*", Rule{History: 3}); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		set(t, d, "t/a", i)
	}
	var got []any
	for _, e := range d.History("t/a", 10) {
		got = append(got, e.Value)
	}
	if !reflect.DeepEqual(got, []any{int64(4), int64(3), int64(2)}) {
		t.Errorf("history %v", got)
	}
	if h := d.History("t/a", 1); len(h) != 1 {
		t.Errorf("history of 1: %v", h)
	}
	set(t, d, "other", 1)
	if h := d.History("other", 5); len(h) != 0 {
		t.Errorf("history of an undeclared key: %v", h)
	}
}

func TestTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := memory(t)
		var got []Change
		_, _ = d.Watch("k", WatchOptions{Sync: true}, func(_ context.Context, c Change) error { got = append(got, c); return nil })
		set(t, d, "k", 1, SetOptions{TTL: time.Minute})
		time.Sleep(40 * time.Second)
		set(t, d, "k", 2, SetOptions{TTL: time.Minute}) // lives on
		time.Sleep(59 * time.Second)
		want(t, d, "k", int64(2))
		time.Sleep(time.Second + 10*time.Millisecond)
		synctest.Wait()
		wantAbsent(t, d, "k")
		if n := len(got); n != 3 || !got[2].Deleted || got[2].Old != int64(2) || got[2].Version != 3 || got[2].Writer != "ttl" {
			t.Errorf("changes %+v", got)
		}
		set(t, d, "k", 3, SetOptions{TTL: time.Minute})
		set(t, d, "k", 4) // stays
		time.Sleep(time.Hour)
		want(t, d, "k", int64(4))
		if err := d.Declare("s/*", Rule{TTL: time.Second}); err != nil {
			t.Fatal(err)
		}
		set(t, d, "s/a", 1)
		set(t, d, "s/b", 1, SetOptions{TTL: -1})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		wantAbsent(t, d, "s/a")
		want(t, d, "s/b", int64(1))
	})
}

func TestKeysAndSnapshot(t *testing.T) {
	d := memory(t)
	for _, k := range []string{"b", "a/2", "a/1", "#+%\x00"} {
		set(t, d, k, k)
	}
	if got := d.Keys("a/"); !reflect.DeepEqual(got, []string{"a/1", "a/2"}) {
		t.Errorf("keys %q", got)
	}
	if got := d.Snapshot(""); len(got) != 4 {
		t.Errorf("snapshot %v", got)
	}
}

func TestChangeIsAnEvent(t *testing.T) {
	hub := bus.New(bus.Options{})
	d, err := Open(hub, Options{})
	if err != nil {
		t.Fatal(err)
	}
	sub, err := hub.Subscribe("board/#", bus.Queue{})
	if err != nil {
		t.Fatal(err)
	}
	cause, _ := hub.Publish(ctx, "hw:x", "sensor/x", 1)
	set(t, d, "motor", 1)
	if _, err := d.Set(bus.WithCause(ctx, cause), "script:a", "motor", 2, SetOptions{}); err != nil {
		t.Fatal(err)
	}
	set(t, d, "a+b#c", nil)
	_, _ = d.Delete(ctx, "cli", "motor")
	for i, w := range []struct {
		topic, source string
		payload       map[string]any
	}{
		{"board/motor", "test", map[string]any{"old": nil, "new": int64(1), "version": int64(1), "writer": "test"}},
		{"board/motor", "script:a", map[string]any{"old": int64(1), "new": int64(2), "version": int64(2), "writer": "script:a"}},
		{"board/a%2Bb%23c", "test", map[string]any{"old": nil, "new": nil, "version": int64(1), "writer": "test"}},
		{"board/motor", "cli", map[string]any{"old": int64(2), "new": nil, "version": int64(3), "writer": "cli", "deleted": true}},
	} {
		e, err := sub.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if e.Topic != w.topic || e.Source != w.source || !reflect.DeepEqual(e.Payload(), w.payload) {
			t.Errorf("event %d: got %s by %s: %v, want %v", i, e.Topic, e.Source, e.Payload(), w.payload)
		}
		if i == 1 && (e.Cause != cause.Seq || e.Hops != 1) {
			t.Errorf("cause %d hops %d, want %d 1", e.Cause, e.Hops, cause.Seq)
		}
	}
	sub.Close()
	_ = d.Close()
	_ = hub.Close(ctx)
}

func TestClosed(t *testing.T) {
	d := memory(t)
	set(t, d, "k", 1)
	f, _ := d.Post(ctx, "test", "plan", 1, PostOptions{})
	for range 2 {
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.Result(ctx); !errors.Is(err, ErrClosed) {
		t.Errorf("open request: got %v", err)
	}
	_, err1 := d.Set(ctx, "test", "k", 2, SetOptions{})
	_, err2 := d.Post(ctx, "test", "plan", 1, PostOptions{})
	_, err3 := d.Delete(ctx, "test", "k")
	for i, err := range []error{err1, err2, err3} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("call %d on a closed board: %v", i, err)
		}
	}
}
