package blackboard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"edged/bus"
)

func TestWatchPatterns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := memory(t)
		var mu sync.Mutex
		got := map[string][]string{}
		for _, p := range []string{"room/kitchen", "room/k*", "room/*", "*", "r*"} {
			for _, how := range []bool{false, true} {
				name := fmt.Sprint(p, how)
				_, err := d.Watch(p, WatchOptions{Sync: how}, func(_ context.Context, c Change) error {
					mu.Lock()
					got[name] = append(got[name], c.Key)
					mu.Unlock()
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, k := range []string{"room/kitchen", "room/hall", "room/k#1", "x"} {
			set(t, d, k, 1)
		}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		for p, want := range map[string]string{
			"room/kitchen": "room/kitchen", "room/k*": "room/kitchen room/k#1", "room/*": "room/kitchen room/hall room/k#1",
			"*": "room/kitchen room/hall room/k#1 x", "r*": "room/kitchen room/hall room/k#1",
		} {
			for _, how := range []bool{false, true} {
				if s := strings.Join(got[fmt.Sprint(p, how)], " "); s != want {
					t.Errorf("%s sync=%v: got %q, want %q", p, how, s, want)
				}
			}
		}
	})
}

func TestWatchOnChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := memory(t)
		var sets, changes atomic.Int32
		_, _ = d.Watch("k", WatchOptions{}, func(_ context.Context, c Change) error { sets.Add(1); return nil })
		_, _ = d.Watch("k", WatchOptions{On: OnChange}, func(context.Context, Change) error { changes.Add(1); return nil })
		for _, v := range []int{1, 1, 2, 2, 1} {
			set(t, d, "k", v)
		}
		synctest.Wait()
		if sets.Load() != 5 || changes.Load() != 3 {
			t.Errorf("%d sets and %d changes were told, want 5 and 3", sets.Load(), changes.Load())
		}
	})
}

// A slow watcher gets the newest value of every key, with the last delivered
// one as old, and no more than a queue of keys is held.
func TestWatchCollapse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := memory(t)
		gate := make(chan struct{})
		last := map[string]any{}
		told := 0
		w, _ := d.Watch("*", WatchOptions{Queue: 4}, func(_ context.Context, c Change) error {
			<-gate
			if c.Old != last[c.Key] {
				t.Errorf("%s: old %v, but %v was delivered last", c.Key, c.Old, last[c.Key])
			}
			last[c.Key] = c.New
			told++
			return nil
		})
		for i := range 100 {
			set(t, d, fmt.Sprint("k", i%6), i)
		}
		synctest.Wait()
		close(gate)
		synctest.Wait()
		for i := range 6 {
			k := fmt.Sprint("k", i)
			if v, _ := d.Get(k); v != last[k] {
				t.Errorf("%s: last told %v, stored %v", k, last[k], v)
			}
		}
		if n := w.Collapsed(); n == 0 || told+int(n) != 100 {
			t.Errorf("%d told and %d collapsed, want 100 together", told, n)
		}
		if d.Status().Collapsed != w.Collapsed() {
			t.Error("status does not count the collapse")
		}
	})
}

func TestSyncWatchRunsBeforeSetReturns(t *testing.T) {
	d := memory(t)
	n := 0
	_, _ = d.Watch("k", WatchOptions{Sync: true}, func(context.Context, Change) error { n++; return nil })
	_, _ = d.Watch("*", WatchOptions{Sync: true}, func(context.Context, Change) error { n += 10; return nil })
	set(t, d, "k", 1)
	if n != 11 {
		t.Errorf("handlers ran: %d, want 11", n)
	}
}

func TestSyncWatchOrderUnderConcurrency(t *testing.T) {
	d := memory(t)
	var busy atomic.Bool
	var last int64
	var seen atomic.Int64
	_, _ = d.Watch("n", WatchOptions{Sync: true}, func(_ context.Context, c Change) error {
		if busy.Swap(true) {
			t.Error("the handler runs twice at a time")
		}
		if v := c.New.(int64); v != last+1 {
			t.Errorf("told of %d after %d", v, last)
		}
		last = c.New.(int64)
		seen.Add(1)
		busy.Store(false)
		return nil
	})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 500 {
				v, err := d.Incr(ctx, "test", "n", 1)
				if err != nil {
					t.Error(err)
					return
				}
				if seen.Load() < v.(int64) {
					t.Error("Incr returned before its watcher ran")
				}
			}
		})
	}
	wg.Wait()
	if last != 4000 {
		t.Errorf("last told %d, want 4000", last)
	}
}

// A handler that sets its own key goes round until the storm guard stops it;
// the last value told is the one stored.
func TestWatcherThatWritesItsOwnKey(t *testing.T) {
	for _, how := range []bool{true, false} {
		t.Run(fmt.Sprint("sync=", how), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hub := bus.New(bus.Options{})
				d, _ := Open(hub, Options{})
				errs, _ := hub.Subscribe(bus.ErrorTopic, bus.Queue{})
				var last atomic.Int64
				_, _ = d.Watch("k", WatchOptions{Sync: how}, func(ctx context.Context, c Change) error {
					last.Store(c.New.(int64))
					_, err := d.Set(ctx, "loop", "k", c.New.(int64)+1, SetOptions{})
					return err
				})
				set(t, d, "k", 1)
				synctest.Wait()
				v, _ := d.Get("k")
				if v != last.Load() || v.(int64) < 30 || v.(int64) > 40 {
					t.Errorf("stored %v, last told %d, want the same, about 32", v, last.Load())
				}
				e, err := errs.Next(ctx)
				if err != nil || !strings.Contains(fmt.Sprint(e.Payload()), "storm guard") {
					t.Errorf("report: %v %v", e.Payload(), err)
				}
				set(t, d, "other", 1) // and it goes on
				_ = d.Close()
				_ = hub.Close(ctx)
			})
		})
	}
}

// Two sync watches whose handlers set each other's key, from two goroutines.
func TestSyncWatchesCrosswise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := memory(t)
		cross := func(from, to string) {
			_, _ = d.Watch(from, WatchOptions{Sync: true}, func(ctx context.Context, c Change) error {
				if n := c.New.(int64); n < 5 {
					_, err := d.Set(ctx, "x", to, n+1, SetOptions{})
					return err
				}
				return nil
			})
		}
		cross("a", "b")
		cross("b", "a")
		var wg sync.WaitGroup
		for i := range 50 {
			k := []string{"a", "b"}[i%2]
			wg.Go(func() { set(t, d, k, i%3) })
		}
		wg.Wait()
		if n := d.Status().Late; n != 0 {
			t.Errorf("%d setters ran out of patience", n)
		}
	})
}

func TestHandlerErrorsAndPanics(t *testing.T) {
	for _, how := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			hub := bus.New(bus.Options{})
			d, _ := Open(hub, Options{})
			errs, _ := hub.Subscribe(bus.ErrorTopic, bus.Queue{})
			var calls atomic.Int32
			_, _ = d.Watch("k", WatchOptions{Sync: how, Name: "script:x"}, func(_ context.Context, c Change) error {
				calls.Add(1)
				if c.New == int64(1) {
					panic("boom")
				}
				return errors.New("no good")
			})
			set(t, d, "k", 1)
			set(t, d, "k", 2)
			synctest.Wait()
			if calls.Load() != 2 {
				t.Errorf("sync=%v: %d calls, want 2", how, calls.Load())
			}
			for _, what := range []string{"panic: boom", "no good"} {
				e, _ := errs.Next(ctx)
				p := e.Payload().(map[string]any)
				if p["error"] != what || p["source"] != "script:x" || p["topic"] != "board/k" {
					t.Errorf("sync=%v: report %v, want %q", how, p, what)
				}
			}
			_ = d.Close()
			_ = hub.Close(ctx)
		})
	}
}

func TestWatchClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := memory(t)
		for _, how := range []bool{true, false} {
			var n atomic.Int32
			w, _ := d.Watch("k", WatchOptions{Sync: how}, func(context.Context, Change) error { n.Add(1); return nil })
			set(t, d, "k", 1)
			synctest.Wait()
			w.Close()
			w.Close()
			set(t, d, "k", 2)
			synctest.Wait()
			if n.Load() != 1 {
				t.Errorf("sync=%v: %d calls, want 1", how, n.Load())
			}
		}
		if s := d.Status(); s.Watches != 0 {
			t.Errorf("%d watches left", s.Watches)
		}
	})
}

// A setter does not wait for ever for somebody else's handler.
func TestSyncWatchHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := memory(t)
		gate := make(chan struct{})
		_, _ = d.Watch("k", WatchOptions{Sync: true}, func(context.Context, Change) error { <-gate; return nil })
		go func() { _, _ = d.Set(ctx, "test", "k", 1, SetOptions{}) }()
		synctest.Wait()
		begin := time.Now()
		set(t, d, "k", 2)
		if took := time.Since(begin); took != syncWait {
			t.Errorf("waited %v, want %v", took, syncWait)
		}
		if d.Status().Late != 1 {
			t.Error("it is not counted")
		}
		close(gate)
		synctest.Wait()
	})
}
