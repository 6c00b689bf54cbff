package hw

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// note is a latch in memory.
type note struct {
	mu   sync.Mutex
	s    *StopRecord
	err  error
	slow time.Duration
}

func (n *note) Save(s *StopRecord) error {
	time.Sleep(n.slow)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.s = s
	return n.err
}

func (n *note) Load() (*StopRecord, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.s, n.err
}

func TestStopByHardwareOutlivesTheProcess(t *testing.T) {
	n := &note{slow: 10 * time.Second} // a slow disk delays nothing
	inBubble(t, Options{Latch: n}, func(r *bench) {
		m := r.add(&motor{name: "m"}, duty)
		if err := r.do("m", map[string]any{"duty": 1}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := r.Stop(r.t.Context(), "hw:estop", "button"); err != nil || time.Since(began) != 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		want(t, "told", m.notes(), `{"duty":1} rest`)
		time.Sleep(time.Minute)
	})
	if n.s == nil || n.s.Source != "hw:estop" {
		t.Fatalf("saved %v", n.s)
	}
	inBubble(t, Options{Latch: n}, func(r *bench) {
		r.add(&motor{name: "m"}, duty)
		if err := r.do("m", map[string]any{"duty": 1}); !errors.Is(err, ErrStopped) || !strings.Contains(err.Error(), "button") {
			t.Errorf("after a restart: %v", err)
		}
		r.Resume(r.t.Context(), "cli")
		if err := r.do("m", map[string]any{"duty": 1}); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
	})
	if n.s != nil {
		t.Errorf("after resume: %v", n.s)
	}
	inBubble(t, Options{Latch: n}, func(r *bench) { // a stop by software ends with the process
		_ = r.Stop(r.t.Context(), "cli", "operator")
		time.Sleep(time.Minute)
	})
	if n.s != nil {
		t.Errorf("saved %v", n.s)
	}
	n.err = errors.New("broken file")
	inBubble(t, Options{Latch: n}, func(r *bench) {
		if s, stopped := r.Stopped(); !stopped || !strings.Contains(s.Reason, "broken file") {
			t.Errorf("a latch that can't be read: %v %v", s, stopped)
		}
	})
}

// A stop by software after one by hardware does not take its place: not in memory,
// not in what is written, whatever is being written when it comes.
func TestSoftwareLeavesTheHardwaresStop(t *testing.T) {
	for _, pause := range []time.Duration{0, time.Second, time.Minute} { // the write takes 10 s
		n := &note{slow: 10 * time.Second}
		inBubble(t, Options{Latch: n}, func(r *bench) {
			ctx := r.t.Context()
			_ = r.Stop(ctx, "cli", "first")
			r.Trip(ctx, "hw:estop", "button")
			time.Sleep(pause)
			_ = r.Stop(ctx, "cli", "operator")
			r.Trip(ctx, "script:main.star", "robot.stop")
			if _, err := r.b.Publish(ctx, "mqtt", StopTopic, "too"); err != nil {
				t.Fatal(err)
			}
			if s, _ := r.Stopped(); s.Source != "hw:estop" || s.Reason != "button" {
				t.Errorf("%v later: stopped by %+v, want the hardware's", pause, s)
			}
			time.Sleep(time.Minute)
		})
		if n.s == nil || n.s.Source != "hw:estop" || n.s.Reason != "button" {
			t.Errorf("%v later: saved %+v, want the hardware's", pause, n.s)
		}
		inBubble(t, Options{Latch: n}, func(r *bench) { // after a restart
			_ = r.Stop(r.t.Context(), "cli", "operator")
			if s, _ := r.Stopped(); s.Source != "hw:estop" {
				t.Errorf("after a restart: stopped by %+v, want the hardware's", s)
			}
			time.Sleep(time.Minute)
		})
		if n.s == nil || n.s.Source != "hw:estop" {
			t.Errorf("after a restart: saved %+v, want the hardware's", n.s)
		}
	}
}

// Who resumes opens the gate, and that is said once.
func TestResumeIsSaidOnce(t *testing.T) {
	inBubble(t, Options{}, func(r *bench) {
		_ = r.Stop(r.t.Context(), "cli", "operator")
		for range 2 { // the second finds nothing
			if err := r.Resume(r.t.Context(), "script:main.star"); err != nil {
				t.Error(err)
			}
		}
		if _, stopped := r.Stopped(); stopped {
			t.Error("still stopped")
		}
		want(t, "events", strings.Join(r.said(ResumeTopic), "\n"), `{"reason":"operator","source":"script:main.star","stopped_by":"cli"}`)
	})
}

// A latch that can't be written is written when it can: after back-off, or at the
// end. It is told of once.
func TestLatchIsWrittenAgain(t *testing.T) {
	for _, atTheEnd := range []bool{false, true} {
		full := errors.New("disk full")
		n := &flaky{err: full}
		inBubble(t, Options{Latch: n}, func(r *bench) {
			r.Trip(r.t.Context(), "hw:estop", "button")
			time.Sleep(10 * time.Second)
			if tries := n.count(); tries < 3 || tries > 8 {
				t.Errorf("%d tries in 10 s, want some with back-off", tries)
			}
			n.heal(nil)
			if atTheEnd {
				return
			}
			time.Sleep(time.Minute)
			was := n.count()
			time.Sleep(time.Minute)
			if n.count() != was {
				t.Errorf("written %d times more once it was written", n.count()-was)
			}
			n.heal(full)
			r.Resume(r.t.Context(), "cli")
			time.Sleep(time.Second)
			if errs := r.said("edged/error"); len(errs) != 2 || !strings.Contains(errs[0], "disk full; it is tried again") {
				t.Errorf("told %q, want each trouble once", errs)
			}
			n.heal(nil)
		})
		if got := n.saved(); (got == "hw:estop") != atTheEnd {
			t.Errorf("at the end %v: saved %q", atTheEnd, got)
		}
	}
}

// flaky is a latch whose disk fails while err is set.
type flaky struct {
	mu    sync.Mutex // guards the rest
	err   error
	tries int
	s     *StopRecord
}

func (f *flaky) Save(s *StopRecord) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tries++
	if f.err == nil {
		f.s = s
	}
	return f.err
}

func (f *flaky) Load() (*StopRecord, error) { return nil, nil }

func (f *flaky) heal(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *flaky) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tries
}

func (f *flaky) saved() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.s == nil {
		return ""
	}
	return f.s.Source
}

// The end of the supervision tree leaves the robot safe; a new start opens
// the gate again.
func TestServicesKeepSafe(t *testing.T) {
	inBubble(t, Options{}, func(r *bench) {
		m := r.add(&motor{name: "m"}, duty)
		stop := r.serve()
		want(t, "at the start", m.notes(), "rest")
		if err := r.do("m", map[string]any{"duty": 1, "hold": 5}); err != nil {
			t.Fatal(err)
		}
		stop()
		want(t, "at the end", m.notes(), `rest {"duty":1} rest`)
		if err := r.do("m", map[string]any{"duty": 1}); !errors.Is(err, ErrOff) {
			t.Errorf("after the end: %v", err)
		}
		if _, stopped := r.Stopped(); stopped {
			t.Error("Safe has latched")
		}
		stop = r.serve()
		if err := r.do("m", map[string]any{"duty": 1}); err != nil {
			t.Errorf("started again: %v", err)
		}
		stop()
	})
}

// Safe works while a driver's goroutine panics and another hangs.
func TestSafeInTrouble(t *testing.T) {
	inBubble(t, Options{}, func(r *bench) {
		m := r.add(&motor{name: "m"}, duty)
		r.add(&motor{name: "p", rest: func(context.Context) error { panic("driver") }}, duty)
		if err := r.do("m", map[string]any{"duty": 1}); err != nil {
			t.Fatal(err)
		}
		err := r.Safe(r.t.Context(), "panic")
		if err == nil || !strings.Contains(err.Error(), "p: rest") {
			t.Errorf("got %v", err)
		}
		want(t, "m", m.notes(), `{"duty":1} rest`)
		synctest.Wait()
	})
}
