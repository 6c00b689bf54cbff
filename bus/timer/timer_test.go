package timer_test

import (
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"edged/bus/timer"

	"pgregory.net/rapid"
)

func Example() {
	w := timer.New()
	defer w.Close()
	rang := make(chan struct{})
	w.After(time.Millisecond, func() { close(rang) })
	<-rang
	fmt.Println(w.Len())
	// Output: 0
}

func TestFiresAtItsTick(t *testing.T) {
	for _, d := range []time.Duration{
		-time.Hour, 0, 1, time.Millisecond - 1, time.Millisecond, time.Millisecond + 1,
		63 * time.Millisecond, 64 * time.Millisecond, 65 * time.Millisecond, 4095 * time.Millisecond, 4096 * time.Millisecond,
		time.Hour, 1000 * 24 * time.Hour,
	} {
		synctest.Test(t, func(t *testing.T) {
			w := timer.New()
			start := time.Now()
			at := time.Duration(-1)
			w.After(d, func() { at = time.Since(start) })
			time.Sleep(max(d, 0) + time.Millisecond)
			synctest.Wait()
			want := max(d, 0).Truncate(time.Millisecond)
			if want < d {
				want += time.Millisecond
			}
			if at < want || at > want+1 { // a runtime timer is never set to 0
				t.Errorf("After(%v) fired at %v, want %v", d, at, want)
			}
		})
	}
}

func TestVeryLongWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := timer.New()
		w.After(1<<63-1, func() { t.Error("a wait of 292 years is over") })
		if w.Len() != 1 {
			t.Errorf("Len is %d, want 1", w.Len())
		}
		w.Close()
	})
}

func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := timer.New()
		a := w.After(time.Second, func() { t.Error("a stopped timer fired") })
		if !a.Stop() || a.Stop() {
			t.Error("the first Stop must say true, the second false")
		}
		time.Sleep(2 * time.Second)
		var fired atomic.Int32
		b := w.After(time.Second, func() { fired.Add(1) })
		time.Sleep(2 * time.Second)
		if fired.Load() != 1 || b.Stop() {
			t.Errorf("fired %d times; Stop of a fired timer must say false", fired.Load())
		}
		b.Reset(time.Second)
		time.Sleep(2 * time.Second)
		if fired.Load() != 2 {
			t.Error("a timer that was set again did not fire")
		}
	})
}

func TestCallbacksMayUseTheWheel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := timer.New()
		start := time.Now()
		var log []string
		say := func(s string) { log = append(log, fmt.Sprint(s, "@", time.Since(start).Milliseconds())) }
		var again *timer.Timer
		n := 0
		again = w.After(time.Hour, func() {
			say("again")
			if n++; n < 3 {
				again.Reset(10 * time.Millisecond)
			}
		})
		again.Reset(10 * time.Millisecond)
		victim := w.After(time.Hour, func() { say("victim") })
		w.After(20*time.Millisecond, func() {
			say("killer")
			victim.Stop()
			w.After(0, func() { say("now") })
		})
		victim.Reset(20 * time.Millisecond)
		time.Sleep(time.Second)
		synctest.Wait()
		want := []string{"again@10", "killer@20", "again@20", "now@20", "again@30"}
		if !slices.Equal(log, want) {
			t.Errorf("got %v, want %v", log, want)
		}
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := timer.New()
		a := w.After(time.Second, func() { t.Error("fired after Close") })
		w.Close()
		w.After(time.Second, func() { t.Error("a closed wheel fired") })
		a.Reset(time.Second)
		time.Sleep(time.Minute)
		if w.Len() != 0 {
			t.Errorf("Len is %d, want 0", w.Len())
		}
	})
}

func TestCloseWaitsForTheCallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := timer.New()
		over := false
		w.After(time.Second, func() { time.Sleep(time.Second); over = true })
		time.Sleep(1500 * time.Millisecond)
		w.Close()
		if !over {
			t.Error("Close returned while a callback ran")
		}
	})
}

func TestTenThousandCostNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := timer.New()
		before := runtime.NumGoroutine()
		n := 0
		for i := range 10000 {
			w.After(time.Duration(i%500)*time.Millisecond+time.Hour, func() { n++ })
		}
		if got := runtime.NumGoroutine(); got > before {
			t.Errorf("%d goroutines, want %d", got, before)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if n != 10000 || w.Len() != 0 {
			t.Errorf("%d fired, %d left; want 10000 and 0", n, w.Len())
		}
	})
}

// A step of a random history: wait, then set, reset or stop a timer.
type step struct {
	Wait time.Duration
	Op   string
	ID   int
	For  time.Duration
}

// TestAgainstModel compares the wheel with a plain list of deadlines. Sets
// happen between ticks, so that no two things happen at one instant.
func TestAgainstModel(t *testing.T) {
	ms := time.Millisecond
	border := rapid.SampledFrom([]time.Duration{0, ms, 2 * ms, 63 * ms, 64 * ms, 65 * ms, 128 * ms, 4095 * ms, 4096 * ms, 4097 * ms, 262143 * ms, 262144 * ms, 262145 * ms, 16777216 * ms})
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
			return step{
				border.Draw(rt, "wait"), rapid.SampledFrom([]string{"set", "set", "reset", "stop"}).Draw(rt, "op"),
				rapid.IntRange(0, 5).Draw(rt, "id"), border.Draw(rt, "for") + time.Duration(rapid.IntRange(0, 2).Draw(rt, "more"))*ms,
			}
		}), 1, 60).Draw(rt, "steps")
		var got, want []string
		synctest.Test(t, func(t *testing.T) { got = onWheel(steps) })
		want = onList(steps)
		if !slices.Equal(got, want) {
			rt.Fatalf("the wheel fired %v\nthe model says %v", got, want)
		}
	})
}

func onWheel(steps []step) (log []string) {
	w := timer.New()
	start := time.Now()
	time.Sleep(time.Millisecond / 2)
	var timers [6]*timer.Timer
	for _, s := range steps {
		time.Sleep(s.Wait)
		synctest.Wait()
		switch t := timers[s.ID]; {
		case t == nil && s.Op != "stop":
			timers[s.ID] = w.After(s.For, func() { log = append(log, fmt.Sprint(s.ID, "@", time.Since(start).Milliseconds())) })
		case t != nil && s.Op == "stop":
			t.Stop()
		case t != nil:
			t.Reset(s.For)
		}
	}
	time.Sleep(24 * time.Hour)
	synctest.Wait()
	return log
}

func onList(steps []step) (log []string) {
	type deadline struct {
		id    int
		due   time.Duration
		order int
	}
	var list []deadline
	made := map[int]bool{}
	now := time.Millisecond / 2
	pass := func(to time.Duration) {
		slices.SortFunc(list, func(a, b deadline) int {
			if a.due != b.due {
				return int(a.due - b.due)
			}
			return a.order - b.order
		})
		for len(list) > 0 && list[0].due <= to {
			log = append(log, fmt.Sprint(list[0].id, "@", list[0].due.Milliseconds()))
			list = list[1:]
		}
		now = to
	}
	for i, s := range steps {
		pass(now + s.Wait)
		if s.Op == "stop" && !made[s.ID] {
			continue
		}
		made[s.ID] = true
		list = slices.DeleteFunc(list, func(d deadline) bool { return d.id == s.ID })
		if s.Op != "stop" {
			list = append(list, deadline{s.ID, (now + s.For + time.Millisecond/2).Round(time.Millisecond), i})
		}
	}
	pass(now + 24*time.Hour)
	return log
}

// BenchmarkAddStop is a deadline that is met: set, then stopped.
func BenchmarkAddStop(b *testing.B) {
	b.Run("edged", func(b *testing.B) {
		w := timer.New()
		defer w.Close()
		b.ReportAllocs()
		for b.Loop() {
			w.After(5*time.Second, func() {}).Stop()
		}
	})
	b.Run("limit", func(b *testing.B) { // time.AfterFunc
		b.ReportAllocs()
		for b.Loop() {
			time.AfterFunc(5*time.Second, func() {}).Stop()
		}
	})
}

// BenchmarkAddStopAmong10000 is the same with many others waiting.
func BenchmarkAddStopAmong10000(b *testing.B) {
	b.Run("edged", func(b *testing.B) {
		w := timer.New()
		defer w.Close()
		for i := range 10000 {
			w.After(time.Hour+time.Duration(i)*time.Second, func() {})
		}
		for b.Loop() {
			w.After(5*time.Second, func() {}).Stop()
		}
	})
	b.Run("limit", func(b *testing.B) {
		for i := range 10000 {
			defer time.AfterFunc(time.Hour+time.Duration(i)*time.Second, func() {}).Stop()
		}
		for b.Loop() {
			time.AfterFunc(5*time.Second, func() {}).Stop()
		}
	})
}

// BenchmarkReset is a debounce that is pushed back by every event.
func BenchmarkReset(b *testing.B) {
	b.Run("edged", func(b *testing.B) {
		w := timer.New()
		defer w.Close()
		t := w.After(time.Hour, func() {})
		for b.Loop() {
			t.Reset(time.Hour)
		}
	})
	b.Run("limit", func(b *testing.B) {
		t := time.AfterFunc(time.Hour, func() {})
		defer t.Stop()
		for b.Loop() {
			t.Reset(time.Hour)
		}
	})
}

// BenchmarkFire is 1,000 deadlines spread over 10 ms that all pass.
func BenchmarkFire(b *testing.B) {
	var n atomic.Int64
	all := make(chan struct{})
	ring := func() {
		if n.Add(1)%1000 == 0 {
			all <- struct{}{}
		}
	}
	b.Run("edged", func(b *testing.B) {
		w := timer.New()
		defer w.Close()
		for b.Loop() {
			for i := range 1000 {
				w.After(time.Duration(i)*10*time.Microsecond, ring)
			}
			<-all
		}
	})
	b.Run("limit", func(b *testing.B) {
		for b.Loop() {
			for i := range 1000 {
				time.AfterFunc(time.Duration(i)*10*time.Microsecond, ring)
			}
			<-all
		}
	})
}
