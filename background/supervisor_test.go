package background_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"edged/agent"
	bg "edged/background"
	"edged/bus"
)

// The twenty-five scenarios that any implementation of OTP's supervisor must
// pass; times are those of a fake clock.

var errBoom = errors.New("boom")

// logbook is what happened, in order.
type logbook struct {
	mu    sync.Mutex
	lines []string
}

func (l *logbook) add(format string, a ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, a...))
}

func (l *logbook) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := strings.Join(l.lines, " ")
	l.lines = nil
	return s
}

// worker is a service that a test tells what to do.
type worker struct {
	name     string
	log      *logbook
	commands chan func(ctx context.Context) error
	failing  error // of Start
	starts   int
	slow     time.Duration // to stop
}

func newWorker(name string, log *logbook) *worker {
	return &worker{name: name, log: log, commands: make(chan func(context.Context) error)}
}

func (w *worker) Start(context.Context) error {
	w.starts++
	if w.failing != nil {
		w.log.add("fail:%s", w.name)
		return w.failing
	}
	w.log.add("start:%s", w.name)
	return nil
}

func (w *worker) Serve(ctx context.Context) error {
	select {
	case f := <-w.commands:
		return f(ctx)
	case <-ctx.Done():
		if w.slow > 0 {
			time.Sleep(w.slow)
		}
		w.log.add("stop:%s", w.name)
		return ctx.Err()
	}
}

// does makes the worker end in some way and lets everything settle.
func (w *worker) does(f func(ctx context.Context) error) {
	w.commands <- f
	synctest.Wait()
}

func (w *worker) crash() { w.does(func(context.Context) error { return errBoom }) }
func (w *worker) leave() { w.does(func(context.Context) error { return nil }) }

// stage is one supervisor with workers a, b, c. A goroutine that is left over
// at the end fails the test: the bubble can't be left.
type stage struct {
	t       *testing.T
	log     *logbook
	workers map[string]*worker
	sup     *bg.Supervisor
	events  *logbook
}

func perform(t *testing.T, o bg.Options, f func(s *stage), children ...bg.Child) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{t: t, log: &logbook{}, workers: map[string]*worker{}, events: &logbook{}}
		b := bus.New(bus.Options{})
		if _, err := b.Tap("edged/background/#", func(e bus.Event) {
			s.events.add("%s", strings.TrimPrefix(e.Topic, "edged/background/"))
		}); err != nil {
			t.Fatal(err)
		}
		o.Bus = b
		for i, c := range children {
			if c.Service == nil {
				w := newWorker(c.Name, s.log)
				s.workers[c.Name] = w
				children[i].Service = w
			}
		}
		s.sup = bg.NewSupervisor("sup", o, children...)
		f(s)
		if err := s.sup.Stop(s.t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func (s *stage) start() {
	s.t.Helper()
	if err := s.sup.Start(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	s.log.take()
}

func (s *stage) want(log string) {
	s.t.Helper()
	if got := s.log.take(); got != log {
		s.t.Errorf("got %q, want %q", got, log)
	}
}

func (s *stage) state(want bg.State) {
	s.t.Helper()
	if got := s.sup.Status().State; got != want {
		s.t.Errorf("the supervisor is %s, want %s", got, want)
	}
}

func (s *stage) child(name string) *bg.Status {
	for _, c := range s.sup.Status().Children {
		if c.Name == name {
			return &c
		}
	}
	return nil
}

func kid(name string, r bg.Restart) bg.Child { return bg.Child{Name: name, Restart: r} }

func abc(r bg.Restart) []bg.Child { return []bg.Child{kid("a", r), kid("b", r), kid("c", r)} }

func Test01PermanentReturnsCleanly(t *testing.T) {
	perform(t, bg.Options{MaxRestarts: 1}, func(s *stage) {
		s.start()
		s.workers["a"].leave()
		s.want("start:a")
		s.workers["a"].leave() // it counted
		s.state(bg.Failed)
	}, kid("a", bg.Permanent))
}

func Test02PermanentShutdown(t *testing.T) {
	perform(t, bg.Options{MaxRestarts: 1}, func(s *stage) {
		s.start()
		down := func(context.Context) error { return fmt.Errorf("enough: %w", bg.ErrShutdown) }
		s.workers["a"].does(down)
		s.want("start:a")
		s.workers["a"].does(down)
		s.state(bg.Failed)
	}, kid("a", bg.Permanent))
}

func Test03TransientReturnsCleanly(t *testing.T) {
	for _, reason := range []error{nil, bg.ErrShutdown, agent.ErrExit} {
		perform(t, bg.Options{}, func(s *stage) {
			s.start()
			s.workers["a"].does(func(context.Context) error { return reason })
			s.want("")
			if c := s.child("a"); c == nil || c.State != bg.Stopped {
				t.Errorf("got %+v, want it listed as stopped", c)
			}
			if err := s.sup.StartChild(s.t.Context(), "a"); err != nil {
				t.Error(err)
			}
			s.want("start:a")
			s.state(bg.Running)
		}, kid("a", bg.Transient))
	}
}

func Test04TransientCrashes(t *testing.T) {
	perform(t, bg.Options{MaxRestarts: 2}, func(s *stage) {
		s.start()
		s.workers["a"].crash()
		s.want("start:a")
		s.workers["a"].does(func(context.Context) error { panic("ouch") })
		s.want("start:a")
		s.workers["a"].crash() // both counted
		s.state(bg.Failed)
	}, kid("a", bg.Transient))
}

func Test05TemporaryIsNeverRestarted(t *testing.T) {
	for _, reason := range []error{nil, bg.ErrShutdown, errBoom} {
		perform(t, bg.Options{}, func(s *stage) {
			s.start()
			s.workers["a"].does(func(context.Context) error { return reason })
			s.want("")
			if c := s.child("a"); c != nil {
				t.Errorf("it is still listed: %+v", c)
			}
			s.state(bg.Running)
		}, kid("a", bg.Temporary))
	}
}

func Test06PanicIsACrash(t *testing.T) {
	for _, f := range []func(context.Context) error{
		func(context.Context) error { var m map[string]int; m["x"] = 1; return nil },
		func(context.Context) error { var l []int; return fmt.Errorf("%d", l[len(l)]) },
	} {
		perform(t, bg.Options{}, func(s *stage) {
			s.start()
			s.workers["a"].does(f)
			s.want("start:a")
			c := s.child("a")
			if !strings.Contains(c.LastError, "panic: ") || !strings.Contains(c.Backtrace, "supervisor_test.go") {
				t.Errorf("got error %q and backtrace %q", c.LastError, c.Backtrace)
			}
			if got := s.events.take(); strings.Count(got, "a/crash") != 1 || strings.Contains(got, "b/crash") {
				t.Errorf("got events %q", got)
			}
		}, kid("a", bg.Transient), kid("b", bg.Transient))
	}
}

func Test07GoexitIsACrash(t *testing.T) {
	perform(t, bg.Options{}, func(s *stage) {
		s.start()
		s.workers["a"].does(func(context.Context) error { runtime.Goexit(); return nil })
		s.want("start:a")
		if c := s.child("a"); !strings.Contains(c.LastError, "Goexit") || c.Restarts != 1 {
			t.Errorf("got %+v", c)
		}
	}, kid("a", bg.Transient))
}

func crashEvery(s *stage, name string, times ...time.Duration) {
	start := time.Now()
	for _, at := range times {
		time.Sleep(at - time.Since(start))
		s.workers[name].crash()
	}
}

func Test08WithinTheLimit(t *testing.T) {
	perform(t, bg.Options{MaxRestarts: 3, Window: time.Second}, func(s *stage) {
		s.start()
		crashEvery(s, "a", 0, 300*time.Millisecond, 600*time.Millisecond)
		s.want("start:a start:a start:a")
		s.state(bg.Running)
	}, kid("a", bg.Transient))
}

func Test09OneTooMany(t *testing.T) {
	var hook *bg.GaveUpError
	perform(t, bg.Options{MaxRestarts: 3, Window: time.Second, OnGiveUp: func(e *bg.GaveUpError) { hook = e }}, func(s *stage) {
		s.start()
		crashEvery(s, "b", 0, 300*time.Millisecond, 600*time.Millisecond, 900*time.Millisecond)
		s.want("start:b start:b start:b stop:c stop:a")
		s.state(bg.Failed)
		var e *bg.GaveUpError
		if err := s.sup.Wait(); !errors.As(err, &e) || e.Child != "b" || !errors.Is(err, errBoom) || hook != e {
			t.Errorf("got reason %v, hook %v", err, hook)
		}
		if got := s.events.take(); !strings.HasSuffix(got, "sup/gave_up") {
			t.Errorf("got events %q", got)
		}
	}, abc(bg.Transient)...)
}

func Test10NoRestarts(t *testing.T) {
	perform(t, bg.Options{MaxRestarts: bg.NoRestarts}, func(s *stage) {
		s.start()
		s.workers["a"].crash()
		s.want("")
		s.state(bg.Failed)
	}, kid("a", bg.Transient))
}

func Test11TheWindowIsShared(t *testing.T) {
	perform(t, bg.Options{MaxRestarts: 3}, func(s *stage) {
		s.start()
		s.workers["a"].crash()
		s.workers["b"].crash()
		s.workers["a"].crash()
		s.state(bg.Running)
		s.workers["b"].crash()
		s.state(bg.Failed)
	}, abc(bg.Transient)[:2]...)
}

func Test12TheFirstHasLeftTheWindow(t *testing.T) {
	perform(t, bg.Options{MaxRestarts: 5, Window: time.Minute}, func(s *stage) {
		s.start()
		crashEvery(s, "a", 0, 12*time.Second, 24*time.Second, 36*time.Second, 48*time.Second, 60001*time.Millisecond)
		s.want("start:a start:a start:a start:a start:a start:a")
		s.state(bg.Running)
	}, kid("a", bg.Transient))
}

func Test13TheFirstIsStillInTheWindow(t *testing.T) {
	perform(t, bg.Options{MaxRestarts: 5, Window: time.Minute}, func(s *stage) {
		s.start()
		crashEvery(s, "a", 0, 12*time.Second, 24*time.Second, 36*time.Second, 48*time.Second, 59999*time.Millisecond)
		s.want("start:a start:a start:a start:a start:a")
		s.state(bg.Failed)
	}, kid("a", bg.Transient))
}

func Test14NestedSupervisor(t *testing.T) {
	for _, r := range []bg.Restart{bg.DefaultRestart, bg.Transient} {
		log := &logbook{}
		var x, y *worker
		synctest.Test(t, func(t *testing.T) {
			x, y = newWorker("x", log), newWorker("y", log)
			inner := bg.NewSupervisor("inner", bg.Options{MaxRestarts: 1},
				bg.Child{Name: "x", Service: x}, bg.Child{Name: "y", Service: y})
			outer := bg.NewSupervisor("outer", bg.Options{MaxRestarts: 1}, bg.Child{Name: "inner", Service: inner, Restart: r})
			if err := outer.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			x.crash()
			log.take()
			x.crash()
			st := outer.Status()
			if r == bg.Transient { // its reason is a shutdown
				if got := log.take(); got != "stop:y" || st.State != bg.Running || st.Children[0].State != bg.Failed {
					t.Errorf("got %q, %+v; want the transient inner one down and the outer one up", got, st)
				}
			} else {
				if got := log.take(); got != "stop:y start:x start:y" || st.Restarts != 1 {
					t.Errorf("got %q and %d restarts; want fresh children and one restart", got, st.Restarts)
				}
				x.crash() // the inner window is fresh
				if st := outer.Status(); st.State != bg.Running || st.Restarts != 1 {
					t.Errorf("got %+v", st)
				}
				x.crash() // now the outer one has had enough too
				if st := outer.Status(); st.State != bg.Failed {
					t.Errorf("the outer one is %s, want failed", st.State)
				}
			}
			if err := outer.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func Test15OneForOne(t *testing.T) {
	perform(t, bg.Options{}, func(s *stage) {
		s.start()
		s.workers["b"].crash()
		s.want("start:b")
	}, abc(bg.Permanent)...)
}

func Test16OneForAll(t *testing.T) {
	perform(t, bg.Options{Strategy: bg.OneForAll, MaxRestarts: 1}, func(s *stage) {
		s.start()
		s.workers["b"].crash()
		s.want("stop:c stop:a start:a start:b start:c")
		s.state(bg.Running) // it counted once
		s.workers["a"].crash()
		s.state(bg.Failed)
	}, abc(bg.Permanent)...)
}

func Test17RestForOne(t *testing.T) {
	perform(t, bg.Options{Strategy: bg.RestForOne}, func(s *stage) {
		s.start()
		s.workers["b"].crash()
		s.want("stop:c start:b start:c")
	}, abc(bg.Permanent)...)
}

func Test18GroupRestartLeavesTemporaryOut(t *testing.T) {
	perform(t, bg.Options{Strategy: bg.OneForAll}, func(s *stage) {
		s.start()
		s.workers["a"].crash()
		s.want("stop:c stop:b start:a start:c")
		if s.child("b") != nil {
			t.Error("b is still listed")
		}
	}, kid("a", bg.Permanent), kid("b", bg.Temporary), kid("c", bg.Transient))
}

func Test19TemporaryDisturbsNobody(t *testing.T) {
	perform(t, bg.Options{Strategy: bg.OneForAll}, func(s *stage) {
		s.start()
		s.workers["b"].crash()
		s.want("")
		s.state(bg.Running)
	}, kid("a", bg.Permanent), kid("b", bg.Temporary), kid("c", bg.Transient))
}

func Test20StopInReverse(t *testing.T) {
	children := abc(bg.Permanent)
	for i, d := range []time.Duration{1, 2, 3} {
		children[i].Shutdown = (2*d + 1) * time.Second
	}
	perform(t, bg.Options{}, func(s *stage) {
		s.start()
		for i, n := range []string{"a", "b", "c"} {
			s.workers[n].slow = time.Duration(2*i+2) * time.Second // just inside its own time
		}
		start := time.Now()
		if err := s.sup.Stop(s.t.Context()); err != nil {
			t.Error(err)
		}
		s.want("stop:c stop:b stop:a")
		if got := time.Since(start); got != 12*time.Second {
			t.Errorf("it took %v, want 12s: one after the other", got)
		}
		if n := s.sup.Status().Abandoned; n != 0 {
			t.Errorf("%d abandoned, want 0", n)
		}
	}, children...)
}

// stubborn ignores its stop for a while.
type stubborn struct {
	*worker
	revoked bool
}

func (s *stubborn) Revoke() { s.revoked = true }

func Test21StubbornChildIsAbandoned(t *testing.T) {
	b := &stubborn{}
	perform(t, bg.Options{}, func(s *stage) {
		b.worker = newWorker("b", s.log)
		b.slow = time.Hour
		s.start()
		start := time.Now()
		if err := s.sup.Stop(s.t.Context()); err != nil {
			t.Error(err)
		}
		if got := time.Since(start); got != 300*time.Millisecond {
			t.Errorf("the stop took %v, want 300ms", got)
		}
		s.want("stop:c stop:a")
		if st := s.sup.Status(); st.Abandoned != 1 || !s.child("b").Lingering || !b.revoked {
			t.Errorf("got %+v, revoked %v; want one abandoned and revoked", st, b.revoked)
		}
		if got := s.events.take(); !strings.Contains(got, "b/abandoned") {
			t.Errorf("got events %q", got)
		}
		// It is not started beside itself.
		if err := s.sup.Start(s.t.Context()); err == nil || !strings.Contains(err.Error(), "ignores its stop") {
			t.Errorf("got %v, want an error about the run before", err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if st := s.sup.Status(); st.Children[1].Lingering {
			t.Error("it is gone but still listed as lingering")
		}
		s.log.take()
		b.slow = 0
		if err := s.sup.Start(s.t.Context()); err != nil {
			t.Error(err)
		}
		s.want("start:a start:b start:c")
	}, kid("a", bg.Permanent), bg.Child{Name: "b", Service: b, Shutdown: 300 * time.Millisecond}, kid("c", bg.Permanent))
}

func Test22FailingRestartCounts(t *testing.T) {
	for _, strategy := range []bg.Strategy{bg.OneForOne, bg.OneForAll, bg.RestForOne} {
		perform(t, bg.Options{Strategy: strategy, MaxRestarts: 3}, func(s *stage) {
			s.start()
			b := s.workers["b"]
			b.failing = errBoom
			b.starts = 0
			b.crash()
			s.state(bg.Failed)
			if b.starts != 3 {
				t.Errorf("%s: %d starts, want 3: one per allowed restart", strategy, b.starts)
			}
			if log := s.log.take(); !strings.HasSuffix(log, "stop:a") {
				t.Errorf("%s: got %q, want a stopped at last", strategy, log)
			}
		}, abc(bg.Transient)...)
	}
}

func Test23FirstStartFails(t *testing.T) {
	perform(t, bg.Options{}, func(s *stage) {
		s.workers["b"].failing = errBoom
		err := s.sup.Start(s.t.Context())
		var e *bg.StartError
		if !errors.As(err, &e) || e.Child != "b" || !errors.Is(err, errBoom) {
			t.Errorf("got %v, want an error that names b", err)
		}
		s.want("start:a fail:b stop:a")
		if err := s.sup.Wait(); !errors.Is(err, errBoom) {
			t.Errorf("Wait gave %v", err)
		}
	}, abc(bg.Permanent)...)
}

func Test24SignificantChild(t *testing.T) {
	children := func() []bg.Child {
		c := abc(bg.Transient)
		c[1].Significant = true
		return c
	}
	perform(t, bg.Options{AutoShutdown: bg.AnySignificant}, func(s *stage) {
		s.start()
		s.workers["b"].crash()
		s.want("start:b")
		s.workers["a"].leave() // not significant
		s.state(bg.Running)
		s.workers["b"].leave()
		s.want("stop:c")
		if err := s.sup.Wait(); !errors.Is(err, bg.ErrShutdown) {
			t.Errorf("got %v, want a shutdown", err)
		}
	}, children()...)
	temporary := children()
	temporary[1].Restart = bg.Temporary
	perform(t, bg.Options{AutoShutdown: bg.AnySignificant}, func(s *stage) {
		s.start()
		s.workers["b"].crash()
		s.want("stop:c stop:a")
	}, temporary...)
	both := children()
	both[0].Significant = true
	perform(t, bg.Options{AutoShutdown: bg.AllSignificant}, func(s *stage) {
		s.start()
		s.workers["b"].leave()
		s.state(bg.Running)
		s.workers["a"].leave()
		s.want("stop:c")
	}, both...)
}

func Test25StopDuringBackoff(t *testing.T) {
	children := abc(bg.Transient)
	children[1].Backoff = time.Minute
	for _, strategy := range []bg.Strategy{bg.OneForOne, bg.OneForAll, bg.RestForOne} {
		perform(t, bg.Options{Strategy: strategy}, func(s *stage) {
			s.start()
			s.workers["b"].crash()
			if c := s.child("b"); c.State != bg.BackingOff || c.NextRetry == nil {
				t.Errorf("got %+v, want it backing off", c)
			}
			start := time.Now()
			s.log.take()
			if err := s.sup.Stop(s.t.Context()); err != nil {
				t.Error(err)
			}
			if got := time.Since(start); got > 50*time.Millisecond {
				t.Errorf("the stop took %v", got)
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			if log := s.log.take(); strings.Contains(log, "start") {
				t.Errorf("started after the stop: %q", log)
			}
		}, slices.Clone(children)...)
		for i := range children {
			children[i].Service = nil
		}
	}
}
