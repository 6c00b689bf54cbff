package blackboard

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"edged/bus"
)

// reopen opens a copy of the file as it is now, as after a kill.
func reopen(t testing.TB, d *Board) *Board {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy.db")
	if err := copyFile(d.opt.Path, to); err != nil {
		t.Fatal(err)
	}
	return open(t, Options{Path: to})
}

func file(t testing.TB) Options { return Options{Path: filepath.Join(t.TempDir(), "state", "b.db")} }

func TestGroupWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, file(t))
		time.Sleep(time.Hour) // the window begins with the first change, not before
		set(t, d, "a", 1)
		time.Sleep(600 * time.Millisecond)
		for i := range 100 {
			set(t, d, fmt.Sprint("k", i%10), i)
		}
		time.Sleep(399 * time.Millisecond)
		if n := d.Status().Commits; n != 0 {
			t.Errorf("%d commits before the window's end", n)
		}
		wantAbsent(t, reopen(t, d), "a")
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if s := d.Status(); s.Commits != 1 || s.Dirty != 0 || s.Records != 11 {
			t.Errorf("after the window: %+v", s)
		}
		want(t, reopen(t, d), "k9", int64(99))
		time.Sleep(time.Hour)
		if n := d.Status().Commits; n != 1 {
			t.Errorf("%d commits while nothing changed", n)
		}
	})
}

func TestRepeatCostsNoWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, file(t))
		v := map[string]any{"x": []any{1, "a"}, "b": []byte("b")}
		set(t, d, "k", v)
		time.Sleep(2 * time.Second)
		for range 10 {
			set(t, d, "k", v)
			set(t, d, "k", v, SetOptions{Mode: Sync})
			time.Sleep(2 * time.Second)
		}
		if s := d.Status(); s.Commits != 1 || s.Repeats != 20 {
			t.Errorf("%d commits, %d repeats, want 1 and 20", s.Commits, s.Repeats)
		}
	})
}

func TestMemoryModeIsNotOnDisk(t *testing.T) {
	o := file(t)
	d := open(t, o)
	if err := d.Declare("volatile/*", Rule{Mode: Memory}); err != nil {
		t.Fatal(err)
	}
	set(t, d, "volatile/a", 1)
	set(t, d, "m", 1, SetOptions{Mode: Memory})
	set(t, d, "g", 1)
	set(t, d, "was", 1, SetOptions{Mode: Sync})
	set(t, d, "was", 2, SetOptions{Mode: Memory})
	if err := d.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	r := reopen(t, d)
	want(t, r, "g", int64(1))
	for _, k := range []string{"volatile/a", "m", "was"} {
		wantAbsent(t, r, k)
	}
}

func TestSyncIsOnDiskAndCarriesWhatWasBefore(t *testing.T) {
	d := open(t, file(t))
	set(t, d, "group", 1)
	set(t, d, "gone", 1)
	_, _ = d.Delete(ctx, "test", "gone")
	set(t, d, "sync", 1, SetOptions{Mode: Sync})
	r := reopen(t, d)
	want(t, r, "group", int64(1))
	want(t, r, "sync", int64(1))
	wantAbsent(t, r, "gone")
	e, _ := r.Entry("sync")
	if e.Version != 1 || e.Writer != "test" {
		t.Errorf("entry after reopening %+v", e)
	}
}

func TestSyncWritersShareCommits(t *testing.T) {
	d := open(t, file(t))
	if err := d.Declare("n", Rule{Mode: Sync}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for w := range 32 {
		wg.Go(func() {
			for i := range 20 {
				set(t, d, fmt.Sprint("k", w), i, SetOptions{Mode: Sync})
				if _, err := d.Incr(ctx, "test", "n", 1); err != nil {
					t.Error(err)
				}
				if i%5 == 0 {
					set(t, d, "n2", i) // group writers among them
				}
			}
		})
	}
	wg.Wait()
	want(t, d, "n", int64(640))
	if n := d.Status().Commits; n > 640 {
		t.Errorf("%d commits for 1280 sync sets of 32 writers", n)
	}
	r := reopen(t, d)
	want(t, r, "n", int64(640))
	want(t, r, "k31", int64(19))
}

// An entry says whether it will be there after a power cut.
func TestEntriesSayWhetherTheyAreKept(t *testing.T) {
	d := open(t, file(t))
	for mode, kept := range map[Mode]bool{Memory: false, Group: true, Sync: true} {
		set(t, d, "k", int(mode), SetOptions{Mode: mode})
		if e, ok := d.Entry("k"); !ok || e.Durable != kept {
			t.Errorf("mode %v: durable %v, want %v", mode, e.Durable, kept)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	m := open(t, Options{})
	set(t, m, "k", 1, SetOptions{Mode: Sync})
	if e, _ := m.Entry("k"); e.Durable {
		t.Error("a board in memory keeps nothing")
	}
}

// A group writer of a key that is being committed comes after the commit.
func TestModesMixedOnOneKey(t *testing.T) {
	d := open(t, file(t))
	var told []int64
	_, _ = d.Watch("k", WatchOptions{Sync: true}, func(_ context.Context, c Change) error {
		told = append(told, c.New.(int64))
		return nil
	})
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 50 {
				set(t, d, "k", w*1000+i, SetOptions{Mode: []Mode{Group, Sync, Memory, Group}[w]})
			}
		})
	}
	wg.Wait()
	e, _ := d.Entry("k")
	if e.Version != 200 || len(told) != 200 || told[199] != e.Value {
		t.Errorf("version %d, told %d times, last %v, stored %v", e.Version, len(told), told[len(told)-1], e.Value)
	}
	next := map[int64]int64{}
	for _, v := range told {
		if v%1000 != next[v/1000] {
			t.Fatalf("writer %d: told of %d, want %d", v/1000, v%1000, next[v/1000])
		}
		next[v/1000]++
	}
}

func TestEverythingSurvives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := file(t)
		hub := bus.New(bus.Options{})
		d, err := Open(hub, o)
		if err != nil {
			t.Fatal(err)
		}
		_ = d.Declare("h", Rule{History: 3})
		set(t, d, "bytes", []byte{1, 2})
		set(t, d, "nil", nil)
		set(t, d, "dead", 1, SetOptions{TTL: time.Minute})
		set(t, d, "live", 1, SetOptions{TTL: time.Hour})
		for i := range 5 {
			set(t, d, "h", i)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Minute)
		d, err = Open(hub, o)
		if err != nil {
			t.Fatal(err)
		}
		_ = d.Declare("h", Rule{History: 3})
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		want(t, d, "bytes", []byte{1, 2})
		want(t, d, "nil", nil)
		wantAbsent(t, d, "dead")
		want(t, d, "live", int64(1))
		if h := d.History("h", 9); len(h) != 3 || h[0].Value != int64(4) || h[2].Value != int64(2) {
			t.Errorf("history %v", h)
		}
		if v := set(t, d, "h", 9); v != 6 {
			t.Errorf("version goes on at %d, want 6", v)
		}
		time.Sleep(30*time.Minute + time.Second)
		synctest.Wait()
		wantAbsent(t, d, "live")
		_ = d.Close()
		_ = hub.Close(ctx)
	})
}
