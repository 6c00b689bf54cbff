package blackboard

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"edged/bus"
)

func post(t testing.TB, d *Board, key string, task any, o PostOptions) *bus.Future {
	t.Helper()
	f, err := d.Post(ctx, "test", key, task, o)
	if err != nil {
		t.Fatalf("post %s: %v", key, err)
	}
	return f
}

func volunteer(t testing.TB, d *Board, key string, o VolunteerOptions, h func(context.Context, *Request) (any, error)) *Volunteer {
	t.Helper()
	v, err := d.Volunteer(key, o, h)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func answer(t testing.TB, f *bus.Future, want any) {
	t.Helper()
	if v, err := f.Result(ctx); err != nil || !reflect.DeepEqual(v, want) {
		t.Errorf("got %v %v, want %v", v, err, want)
	}
}

func echo(_ context.Context, r *Request) (any, error) { return fmt.Sprint(r.Task, "!"), nil }

// bubble runs a test in virtual time on a board in memory.
func bubble(t *testing.T, f func(t *testing.T, d *Board)) {
	synctest.Test(t, func(t *testing.T) { f(t, memory(t)) })
}

func TestRequestsWaitForAVolunteer(t *testing.T) {
	bubble(t, func(t *testing.T, d *Board) {
		f1 := post(t, d, "plan", "a", PostOptions{Timeout: time.Minute})
		f2 := post(t, d, "plan", "b", PostOptions{})
		time.Sleep(59 * time.Second)
		if f1.Done() || f2.Done() || d.Status().Requests != 2 {
			t.Error("a request was answered by nobody")
		}
		volunteer(t, d, "plan", VolunteerOptions{}, echo)
		answer(t, f1, "a!")
		answer(t, f2, "b!")
		answer(t, post(t, d, "plan", "c", PostOptions{Timeout: time.Second}), "c!")
		if s := d.Status(); s.Requests != 0 || s.Keys != 0 {
			t.Errorf("left: %+v", s)
		}
	})
}

// Plain watchers answer too, in the way of the seed.
func TestRequestsGoToWatchers(t *testing.T) {
	for _, how := range []bool{true, false} {
		bubble(t, func(t *testing.T, d *Board) {
			f1 := post(t, d, "plan", "early", PostOptions{})
			_, err := d.Watch("pl*", WatchOptions{Sync: how}, func(ctx context.Context, c Change) error {
				r := c.New.(*Request)
				if c.Key != "plan" || c.Old != nil || c.Writer != "test" || r.Key != "plan" {
					t.Errorf("change %+v", c)
				}
				if !d.Reply(ctx, "me", r, fmt.Sprint(r.Task, "!")) {
					t.Error("the first answer lost")
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			answer(t, f1, "early!")
			answer(t, post(t, d, "plan", "late", PostOptions{}), "late!")
		})
	}
}

// However small a watcher's queue, it loses no request.
func TestRequestsAreNotCollapsed(t *testing.T) {
	bubble(t, func(t *testing.T, d *Board) {
		gate := make(chan struct{})
		_, _ = d.Watch("plan", WatchOptions{Queue: 2}, func(ctx context.Context, c Change) error {
			<-gate
			d.Reply(ctx, "me", c.New.(*Request), c.New.(*Request).Task)
			return nil
		})
		var fs []*bus.Future
		for i := range 50 {
			fs = append(fs, post(t, d, "plan", i, PostOptions{}))
		}
		synctest.Wait()
		close(gate)
		for i, f := range fs {
			answer(t, f, int64(i))
		}
	})
}

func TestRequestTimeout(t *testing.T) {
	bubble(t, func(t *testing.T, d *Board) {
		var late *Request
		_, _ = d.Watch("plan", WatchOptions{Sync: true}, func(_ context.Context, c Change) error { late = c.New.(*Request); return nil })
		begin := time.Now()
		f := post(t, d, "plan", 1, PostOptions{Timeout: 5 * time.Second})
		if at, ok := late.Deadline(); !ok || at.Sub(begin) != 5*time.Second {
			t.Errorf("deadline %v %v", at, ok)
		}
		_, err := f.Result(ctx)
		var te *TimeoutError
		if !errors.As(err, &te) || te.Key != "plan" || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "plan") {
			t.Errorf("got %v, want a timeout that names the key", err)
		}
		if took := time.Since(begin); took < 5*time.Second || took > 5*time.Second+2*time.Millisecond {
			t.Errorf("after %v", took)
		}
		if d.Reply(ctx, "me", late, 1) {
			t.Error("an answer after the timeout counted")
		}
	})
}

func TestRequestCancelled(t *testing.T) {
	bubble(t, func(t *testing.T, d *Board) {
		started, stopped := make(chan struct{}), make(chan error, 1)
		volunteer(t, d, "plan", VolunteerOptions{}, func(ctx context.Context, r *Request) (any, error) {
			close(started)
			<-ctx.Done()
			stopped <- ctx.Err()
			return "too late", nil
		})
		f := post(t, d, "plan", 1, PostOptions{})
		<-started
		f.Cancel()
		if err := <-stopped; !errors.Is(err, context.Canceled) {
			t.Errorf("handler's context: %v", err)
		}
		if _, err := f.Result(ctx); !errors.Is(err, bus.ErrFutureCancelled) {
			t.Errorf("got %v", err)
		}
		if d.Status().Requests != 0 {
			t.Error("the request is still there")
		}
	})
}

func TestFirstAnswerWins(t *testing.T) {
	d := memory(t)
	var wins atomic.Int32
	var wg sync.WaitGroup
	for range 200 {
		var r *Request
		w, _ := d.Watch("plan", WatchOptions{Sync: true}, func(_ context.Context, c Change) error { r = c.New.(*Request); return nil })
		f := post(t, d, "plan", 1, PostOptions{})
		w.Close()
		for i := range 3 {
			wg.Go(func() {
				if i == 2 {
					if d.Fail(ctx, "c", r, "no") {
						wins.Add(1)
					}
				} else if d.Reply(ctx, "ab", r, i) {
					wins.Add(1)
				}
			})
		}
		wg.Wait()
		if !f.Done() {
			t.Fatal("unanswered")
		}
	}
	if wins.Load() != 200 {
		t.Errorf("%d winners of 200", wins.Load())
	}
	if d.Reply(ctx, "x", nil, 1) || d.Fail(ctx, "x", nil, "") {
		t.Error("an answer to no request")
	}
}

func TestFail(t *testing.T) {
	bubble(t, func(t *testing.T, d *Board) {
		_, _ = d.Watch("plan", WatchOptions{}, func(ctx context.Context, c Change) error {
			d.Fail(ctx, "arm", c.New.(*Request), "out of reach")
			return nil
		})
		_, err := post(t, d, "plan", 1, PostOptions{}).Result(ctx)
		var fe *FailedError
		if !errors.As(err, &fe) || fe.Reason != "out of reach" || fe.By != "arm" || fe.Key != "plan" {
			t.Errorf("got %v", err)
		}
	})
}

func TestReplyKey(t *testing.T) {
	bubble(t, func(t *testing.T, d *Board) {
		volunteer(t, d, "plan", VolunteerOptions{Name: "planner"}, echo)
		answer(t, post(t, d, "plan", "a", PostOptions{ReplyKey: "plan/answer"}), "a!")
		want(t, d, "plan/answer", "a!")
		if e, _ := d.Entry("plan/answer"); e.Writer != "planner" {
			t.Errorf("writer %q", e.Writer)
		}
	})
}

func TestVolunteerAccepts(t *testing.T) {
	bubble(t, func(t *testing.T, d *Board) {
		only := func(kind string) VolunteerOptions {
			return VolunteerOptions{Name: kind, Accept: func(task any) (bool, error) {
				if task == "panic" {
					panic("accept")
				}
				return task == kind, nil
			}}
		}
		mine := func(name string) func(context.Context, *Request) (any, error) {
			return func(context.Context, *Request) (any, error) { return name, nil }
		}
		volunteer(t, d, "do", only("x"), mine("x"))
		volunteer(t, d, "do", only("y"), mine("y"))
		fz := post(t, d, "do", "z", PostOptions{})
		fp := post(t, d, "do", "panic", PostOptions{})
		answer(t, post(t, d, "do", "x", PostOptions{}), "x")
		answer(t, post(t, d, "do", "y", PostOptions{}), "y")
		synctest.Wait()
		if fz.Done() || fp.Done() {
			t.Error("answered what nobody accepts")
		}
		volunteer(t, d, "do", VolunteerOptions{}, mine("any"))
		answer(t, fz, "any")
		answer(t, fp, "any")
	})
}

func TestVolunteerPasses(t *testing.T) {
	bubble(t, func(t *testing.T, d *Board) {
		var asked atomic.Int32
		volunteer(t, d, "do", VolunteerOptions{}, func(context.Context, *Request) (any, error) { asked.Add(1); return nil, ErrPass })
		f := post(t, d, "do", 1, PostOptions{})
		time.Sleep(time.Hour)
		if asked.Load() != 1 || f.Done() {
			t.Errorf("asked %d times, done %v", asked.Load(), f.Done())
		}
		volunteer(t, d, "do", VolunteerOptions{}, echo)
		answer(t, f, "1!")
	})
}

func TestVolunteerCrashes(t *testing.T) {
	bubble(t, func(t *testing.T, d *Board) {
		var tries atomic.Int32
		volunteer(t, d, "flaky", VolunteerOptions{}, func(context.Context, *Request) (any, error) {
			if tries.Add(1) < 3 {
				panic("crash")
			}
			return "done", nil
		})
		begin := time.Now()
		answer(t, post(t, d, "flaky", 1, PostOptions{}), "done")
		if took := time.Since(begin); took < 300*time.Millisecond || took > 310*time.Millisecond {
			t.Errorf("two pauses took %v, want 300 ms", took)
		}
		volunteer(t, d, "broken", VolunteerOptions{Name: "b"}, func(context.Context, *Request) (any, error) { return nil, errors.New("motor stuck") })
		_, err := post(t, d, "broken", 1, PostOptions{}).Result(ctx)
		var fe *FailedError
		if !errors.As(err, &fe) || fe.Reason != "motor stuck" || fe.By != "b" {
			t.Errorf("got %v", err)
		}
	})
}

func TestCrashedRequestGoesToAnother(t *testing.T) {
	bubble(t, func(t *testing.T, d *Board) {
		v := volunteer(t, d, "do", VolunteerOptions{}, func(ctx context.Context, _ *Request) (any, error) {
			<-ctx.Done() // it dies with the claim
			return nil, ctx.Err()
		})
		f := post(t, d, "do", 1, PostOptions{})
		synctest.Wait()
		volunteer(t, d, "do", VolunteerOptions{}, echo)
		synctest.Wait()
		if f.Done() {
			t.Error("a claimed request was given to somebody else")
		}
		v.Close()
		v.Close()
		answer(t, f, "1!")
	})
}

// A volunteer that has lost its lease and fails later does not free the claim
// of who has the request now, nor does the end of a lease long over.
func TestOldLeaseFreesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := memory(t)
		var log []string
		var mu sync.Mutex
		note := func(s string) { mu.Lock(); log = append(log, s); mu.Unlock() }
		post(t, d, "do", 1, PostOptions{})
		join := func(name string, wait time.Duration, err error) {
			volunteer(t, d, "do", VolunteerOptions{Name: name, Lease: 10 * time.Second}, func(context.Context, *Request) (any, error) {
				note(name + " begins")
				time.Sleep(wait)
				note(name + " ends")
				return name, err
			})
			time.Sleep(time.Second)
		}
		join("first", 15*time.Second, errors.New("as asked")) // its lease is over at 10 s, it fails at 15 s
		join("second", 9500*time.Millisecond, nil)            // has it from 10 s to 19.5 s
		time.Sleep(10 * time.Second)
		join("third", time.Second, nil)
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if got, want := strings.Join(log, ", "), "first begins, second begins, first ends, second ends"; got != want {
			t.Errorf("got %s; want %s", got, want)
		}
	})
}

func TestLease(t *testing.T) {
	bubble(t, func(t *testing.T, d *Board) {
		release := make(chan struct{})
		volunteer(t, d, "do", VolunteerOptions{Name: "slow", Lease: 10 * time.Second}, func(context.Context, *Request) (any, error) {
			<-release
			return "slow", nil
		})
		f := post(t, d, "do", 1, PostOptions{})
		synctest.Wait()
		var begin = time.Now()
		var at time.Duration
		volunteer(t, d, "do", VolunteerOptions{Name: "quick"}, func(context.Context, *Request) (any, error) {
			at = time.Since(begin)
			return "quick", nil
		})
		answer(t, f, "quick")
		if at < 10*time.Second || at > 10*time.Second+5*time.Millisecond {
			t.Errorf("offered again after %v, want 10 s", at)
		}
		close(release)
		// Alone, who lost the lease may still be the first to answer.
		synctest.Wait()
	})
	bubble(t, func(t *testing.T, d *Board) {
		var runs atomic.Int32
		volunteer(t, d, "do", VolunteerOptions{Lease: time.Second}, func(context.Context, *Request) (any, error) {
			runs.Add(1)
			time.Sleep(time.Minute)
			return "late but first", nil
		})
		answer(t, post(t, d, "do", 1, PostOptions{}), "late but first")
		if runs.Load() != 1 {
			t.Errorf("ran %d times", runs.Load())
		}
	})
}

func TestVolunteerConcurrency(t *testing.T) {
	bubble(t, func(t *testing.T, d *Board) {
		var now, most atomic.Int32
		volunteer(t, d, "do", VolunteerOptions{Concurrency: 3}, func(context.Context, *Request) (any, error) {
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(time.Second)
			now.Add(-1)
			return nil, nil
		})
		begin := time.Now()
		var fs []*bus.Future
		for i := range 9 {
			fs = append(fs, post(t, d, "do", i, PostOptions{}))
		}
		for _, f := range fs {
			answer(t, f, nil)
		}
		if took := time.Since(begin); most.Load() != 3 || took != 3*time.Second {
			t.Errorf("%d at a time, %v in all, want 3 and 3 s", most.Load(), took)
		}
	})
}

// The volunteer's events name the request as their cause.
func TestRequestIsACause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := bus.New(bus.Options{})
		d, _ := Open(hub, Options{})
		events, _ := hub.Subscribe("#", bus.Queue{})
		volunteer(t, d, "plan", VolunteerOptions{}, func(ctx context.Context, _ *Request) (any, error) {
			_, err := d.Set(ctx, "planner", "motor", 1, SetOptions{})
			return 1, err
		})
		answer(t, post(t, d, "plan", map[string]any{"room": "kitchen"}, PostOptions{Timeout: time.Second}), int64(1))
		r, _ := events.Next(ctx)
		m, _ := events.Next(ctx)
		p, _ := r.Payload().(map[string]any)
		if r.Topic != "request/plan" || p["id"] != int64(1) || p["from"] != "test" || p["deadline"] == nil {
			t.Errorf("event %s %v", r.Topic, r.Payload())
		}
		if m.Topic != "board/motor" || m.Cause != r.Seq {
			t.Errorf("event %s caused by %d, want %d", m.Topic, m.Cause, r.Seq)
		}
		_ = d.Close()
		_ = hub.Close(ctx)
	})
}

func TestDurableRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := file(t)
		hub := bus.New(bus.Options{})
		first, err := Open(hub, o)
		if err != nil {
			t.Fatal(err)
		}
		post(t, first, "plan", map[string]any{"goal": "cup"}, PostOptions{Durable: true, ReplyKey: "answer"})
		post(t, first, "plan", "short", PostOptions{Durable: true, Timeout: time.Minute})
		post(t, first, "plan", "lost", PostOptions{})
		cut := filepath.Join(t.TempDir(), "copy.db")
		if err := copyFile(o.Path, cut); err != nil { // as after a kill
			t.Fatal(err)
		}
		_ = first.Close()
		time.Sleep(time.Hour)
		for _, path := range []string{cut, o.Path} {
			d, err := Open(hub, Options{Path: path})
			if err != nil {
				t.Fatal(err)
			}
			open := d.Pending("")
			if len(open) != 1 || !open[0].Durable || open[0].From != "test" {
				t.Fatalf("%d requests after the restart", len(open))
			}
			done := make(chan any, 1)
			volunteer(t, d, "plan", VolunteerOptions{}, func(_ context.Context, r *Request) (any, error) {
				done <- r.Task
				return "ok", nil
			})
			if task := <-done; !reflect.DeepEqual(task, map[string]any{"goal": "cup"}) {
				t.Errorf("task %v", task)
			}
			synctest.Wait()
			want(t, d, "answer", "ok")
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			d, err = Open(hub, Options{Path: path})
			if err != nil {
				t.Fatal(err)
			}
			if n := len(d.Pending("")); n != 0 {
				t.Errorf("%d requests are left after the answer", n)
			}
			want(t, d, "answer", "ok")
			_ = d.Close()
		}
		_ = hub.Close(ctx)
	})
}

func TestTooManyRequests(t *testing.T) {
	d := open(t, Options{MaxRequests: 2})
	post(t, d, "a", 1, PostOptions{})
	f := post(t, d, "b", 1, PostOptions{})
	if _, err := d.Post(ctx, "test", "c", 1, PostOptions{}); !errors.Is(err, ErrBusy) {
		t.Errorf("got %v", err)
	}
	f.Cancel()
	post(t, d, "c", 1, PostOptions{})
}

func TestNothingLeftAfter100000Rounds(t *testing.T) {
	hub := bus.New(bus.Options{})
	d, _ := Open(hub, Options{})
	w, _ := d.Watch("plan*", WatchOptions{Sync: true}, func(ctx context.Context, c Change) error {
		if r := c.New.(*Request); r.ID%3 != 0 {
			d.Reply(ctx, "me", r, r.Task)
		}
		return nil
	})
	before := runtime.NumGoroutine()
	for i := range 100_000 {
		f := post(t, d, fmt.Sprint("plan", i%1000), i, PostOptions{Timeout: time.Hour})
		if !f.Done() {
			f.Cancel()
		}
	}
	if n := runtime.NumGoroutine(); n > before {
		t.Errorf("%d goroutines, %d before", n, before)
	}
	d.mu.Lock()
	lines := len(d.reqs.lines)
	d.mu.Unlock()
	s := d.Status()
	if s.Requests != 0 || s.Keys != 0 || lines > idleLines || hub.Timers().Len() != 0 {
		t.Errorf("left: %d requests, %d keys, %d lines, %d timers", s.Requests, s.Keys, lines, hub.Timers().Len())
	}
	w.Close()
	if n := len(hub.Stats().Subscriptions); n != 0 {
		t.Errorf("%d subscriptions left", n)
	}
	_ = d.Close()
	_ = hub.Close(ctx)
}

func TestTenThousandPendingCostNoGoroutine(t *testing.T) {
	d := memory(t)
	before := runtime.NumGoroutine()
	for i := range 10_000 {
		post(t, d, "plan", i, PostOptions{Timeout: time.Hour})
	}
	if n := runtime.NumGoroutine(); n > before+1 {
		t.Errorf("%d goroutines, %d before", n, before)
	}
}
