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
		_ = r.Stop(r.t.Context(), "cli", "too") // does not take the hardware's place
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
