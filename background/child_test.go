package background_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	bg "edged/background"
)

func TestChildrenAreChecked(t *testing.T) {
	idle := bg.Func(func(ctx context.Context) error { <-ctx.Done(); return nil })
	ok := bg.Child{Name: "a", Service: idle}
	for want, children := range map[string][]bg.Child{
		"name is taken": {ok, ok},
		"no service":    {{Name: "a"}},
		"wildcards":     {{Name: "a/#", Service: idle}},
		"empty":         {{Service: idle}},
		"unknown":       {{Name: "a", Service: idle, Restart: 9}},
		"significant":   {{Name: "a", Service: idle, Restart: bg.Permanent, Significant: true}},
		"depends on":    {{Name: "a", Service: idle, DependsOn: []string{"b"}}},
		"each other":    {{Name: "a", Service: idle, DependsOn: []string{"b"}}, {Name: "b", Service: idle, DependsOn: []string{"a"}}},
	} {
		s := bg.NewSupervisor("sup", bg.Options{}, children...)
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
		if err := s.Start(t.Context()); !errors.Is(err, s.Check()) {
			t.Errorf("Start gave %v", err)
		}
	}
}

func TestAddAndRemove(t *testing.T) {
	perform(t, bg.Options{}, func(s *stage) {
		ctx := s.t.Context()
		b := newWorker("b", s.log)
		if err := s.sup.Add(ctx, bg.Child{Name: "b", Service: b, DependsOn: []string{"x"}}); err == nil {
			s.t.Error("a child was added that depends on one that is not there")
		}
		if err := s.sup.Add(ctx, bg.Child{Name: "b", Service: b}); err != nil { // before the start
			s.t.Error(err)
		}
		if err := s.sup.StartChild(ctx, "b"); !errors.Is(err, bg.ErrStopped) {
			s.t.Errorf("got %v", err)
		}
		s.start()
		c := newWorker("c", s.log)
		c.failing = errBoom
		var e *bg.StartError
		if err := s.sup.Add(ctx, bg.Child{Name: "c", Service: c}); !errors.As(err, &e) || s.child("c") != nil {
			s.t.Errorf("got %v; a child that can't be started must not be taken in", err)
		}
		c.failing = nil
		if err := s.sup.Add(ctx, bg.Child{Name: "c", Service: c, DependsOn: []string{"a"}}); err != nil {
			s.t.Error(err)
		}
		s.want("fail:c start:c")
		if err := s.sup.StartChild(ctx, "c"); !errors.Is(err, bg.ErrRunning) {
			s.t.Errorf("got %v", err)
		}
		if err := s.sup.Remove(ctx, "b"); err != nil {
			s.t.Error(err)
		}
		if err := s.sup.Remove(ctx, "b"); !errors.Is(err, bg.ErrUnknown) {
			s.t.Errorf("got %v", err)
		}
		if err := s.sup.Stop(ctx); err != nil {
			s.t.Error(err)
		}
		s.want("stop:b stop:c stop:a")
		if err := s.sup.Start(ctx); err != nil { // what was added stays, what was removed is gone
			s.t.Error(err)
		}
		s.want("start:a start:c")
	}, kid("a", bg.Permanent))
}

func TestStoppedByHand(t *testing.T) {
	perform(t, bg.Options{Strategy: bg.OneForAll, MaxRestarts: 1}, func(s *stage) {
		s.start()
		if err := s.sup.StopChild(s.t.Context(), "b"); err != nil {
			s.t.Error(err)
		}
		s.want("stop:b")
		s.workers["c"].leave() // finished by itself
		s.workers["a"].crash()
		s.want("start:a start:c") // c comes back with its group, b does not
		if err := s.sup.StartChild(s.t.Context(), "b"); err != nil {
			s.t.Error(err)
		}
		s.want("start:b")
		s.state(bg.Running) // stopping and starting by hand counted nothing
	}, abc(bg.Transient)...)
}

func TestBackoffDoublesAndStartsOver(t *testing.T) {
	perform(t, bg.Options{MaxRestarts: 100, Window: time.Minute}, func(s *stage) {
		s.start()
		wait := func() time.Duration {
			s.workers["a"].crash()
			c := s.child("a")
			if c.State != bg.BackingOff {
				s.t.Fatalf("it is %s", c.State)
			}
			d := time.Until(*c.NextRetry)
			time.Sleep(d - 1)
			synctest.Wait()
			s.want("")
			time.Sleep(1)
			synctest.Wait()
			s.want("start:a")
			return d
		}
		for i, most := range []time.Duration{1, 2, 4, 8, 10, 10} {
			if d := wait(); d > most*time.Second || d < most*time.Second*4/5 {
				s.t.Errorf("wait %d is %v, want %v less up to a fifth", i, d, most*time.Second)
			}
		}
		time.Sleep(time.Minute) // a run as long as the window
		if d := wait(); d > time.Second {
			s.t.Errorf("the wait after a long run is %v, want it to start over", d)
		}
		s.workers["a"].crash() // by hand there is no wait
		if err := s.sup.StartChild(s.t.Context(), "a"); err != nil {
			s.t.Error(err)
		}
		s.want("start:a")
	}, bg.Child{Name: "a", Restart: bg.Transient, Backoff: time.Second, MaxBackoff: 10 * time.Second})
}

func TestServeReturnsTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := newWorker("a", &logbook{})
		s := bg.NewSupervisor("sup", bg.Options{MaxRestarts: bg.NoRestarts}, bg.Child{Name: "a", Service: w})
		done := make(chan error)
		serve := func() { done <- s.Serve(ctx) }
		go serve()
		synctest.Wait()
		if err := s.Start(ctx); !errors.Is(err, bg.ErrRunning) {
			t.Errorf("second start: got %v", err)
		}
		w.commands <- ends("crash")
		if err := <-done; !errors.Is(err, errBoom) || !errors.Is(err, bg.ErrShutdown) {
			t.Errorf("got %v, want that it gave up", err)
		}
		go serve()
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("got %v, want nil: it was told to stop", err)
		}
		if err := s.Start(ctx); err == nil {
			t.Error("it started under a context that is over")
		}
		w.failing = errBoom
		ctx = t.Context()
		go serve()
		if err := <-done; !errors.Is(err, errBoom) {
			t.Errorf("got %v, want the error of the start", err)
		}
	})
}

// A start that hangs is no reason not to stop.
func TestStopDuringAStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := bg.NewSupervisor("inner", bg.Options{}, bg.Child{Name: "slow", Service: hangs{}})
		s := bg.NewSupervisor("outer", bg.Options{}, bg.Child{Name: "inner", Service: inner})
		done := make(chan error)
		go func() { done <- s.Start(t.Context()) }()
		synctest.Wait()
		if err := s.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, bg.ErrStopped) {
			t.Errorf("Start gave %v", err)
		}
	})
}

type hangs struct{}

func (hangs) Start(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
func (hangs) Serve(context.Context) error     { return nil }
