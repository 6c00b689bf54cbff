package blackboard

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"edged/bus"
)

func TestThin(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	ctx := context.Background()
	b := bus.New(bus.Options{})
	d, err := Open(b, Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan Change, 100)
	if _, err := d.Watch("a*", WatchOptions{}, func(_ context.Context, c Change) error { got <- c; return nil }); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if v, err := d.Set(ctx, "me", "abc", i, SetOptions{}); v != uint64(i+1) || err != nil {
			t.Fatal(v, err)
		}
	}
	if _, err := d.Set(ctx, "me", "s", "sync", SetOptions{Mode: Sync}); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		c := <-got
		if c.New != int64(i) {
			t.Fatal(c)
		}
	}
	t.Log(d.Status())
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d, err = Open(b, Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	e, _ := d.Entry("abc")
	t.Log(e, d.Snapshot(""))
	d.Close()
}

func TestThinRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		b := bus.New(bus.Options{})
		d, _ := Open(b, Options{})
		f1, _ := d.Post(ctx, "me", "plan", "x", PostOptions{Timeout: time.Second})
		f2, _ := d.Post(ctx, "me", "plan", "y", PostOptions{})
		v, _ := d.Volunteer("plan", VolunteerOptions{}, func(_ context.Context, r *Request) (any, error) { return r.Task.(string) + "!", nil })
		t.Log(f1.Result(ctx))
		t.Log(f2.Result(ctx))
		v.Close()
		f1, _ = d.Post(ctx, "me", "plan", "x", PostOptions{Timeout: time.Second})
		t.Log(f1.Result(ctx))
		d.Set(ctx, "me", "k", 1, SetOptions{TTL: time.Second})
		time.Sleep(999 * time.Millisecond)
		if !d.Has("k") {
			t.Fatal("gone")
		}
		time.Sleep(10 * time.Millisecond)
		if d.Has("k") {
			t.Fatal("there")
		}
		d.Close()
		b.Close(ctx)
	})
}
