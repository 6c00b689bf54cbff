package hw

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"edged/bus"
)

// drives makes a motor whose action drives ten times a second, by the wheel.
func drives(r *bench, quit <-chan struct{}) *motor {
	m := &motor{name: "m"}
	m.open = func(g *Goal, action string, args json.RawMessage) error {
		if action != "go" {
			return fmt.Errorf("no action %q", action)
		}
		n := 0
		var turn func()
		turn = func() {
			select {
			case <-g.Context().Done():
				return
			case <-quit:
				return
			default:
			}
			n++
			if err := g.Drive(map[string]any{"duty": 0.1}); err != nil {
				g.Fail(err.Error())
				return
			}
			g.Feedback(map[string]any{"left": 10 - n})
			if n == 10 {
				g.Succeed("there")
				return
			}
			r.b.Timers().After(100*time.Millisecond, turn)
		}
		turn()
		return nil
	}
	return m
}

func TestGoalSucceeds(t *testing.T) {
	inBubble(t, Options{}, func(r *bench) {
		m := r.add(drives(r, nil), duty)
		g, err := r.Start(r.t.Context(), "test", "m", "go", nil)
		if err != nil {
			t.Fatal(err)
		}
		if s := g.State(); s != Running {
			t.Errorf("state %s", s)
		}
		res, err := g.Result(r.t.Context())
		if err != nil || res != "there" {
			t.Errorf("got %v, %v", res, err)
		}
		synctest.Wait()
		if !strings.HasSuffix(m.notes(), "rest") || g.State() != Succeeded {
			t.Errorf("%s, %s", g.State(), m.notes())
		}
		for _, again := range []bool{g.Succeed(1), g.Fail("x"), g.Cancel("x")} {
			if again {
				t.Error("a second terminal state")
			}
		}
		said := r.said("hw/m/goal")
		want(t, "first", said[0], `{"args":{},"goal":"m.go","id":1,"state":"running"}`)
		want(t, "last", said[len(said)-1], `{"goal":"m.go","id":1,"result":"there","state":"succeeded"}`)
	})
}

func TestGoalEnds(t *testing.T) {
	ways := map[string]struct {
		end  func(r *bench, g *Goal)
		want error
		why  string
	}{
		"cancel":    {func(_ *bench, g *Goal) { g.Cancel("enough") }, ErrGoalCancelled, "enough"},
		"new goal":  {func(r *bench, _ *Goal) { _, _ = r.Start(r.t.Context(), "agent:other", "m", "go", nil) }, ErrGoalCancelled, "taken over by agent other"},
		"a command": {func(r *bench, _ *Goal) { _ = r.do("m", map[string]any{"duty": 0}) }, ErrGoalCancelled, "taken over by test"},
		"rest":      {func(r *bench, _ *Goal) { _ = r.Rest(r.t.Context(), "test", "m") }, ErrGoalCancelled, "taken over by test"},
		"stop":      {func(r *bench, _ *Goal) { r.Trip(r.t.Context(), "cli", "operator") }, ErrGoalCancelled, "stop: operator"},
		"safe":      {func(r *bench, _ *Goal) { _ = r.Safe(r.t.Context(), "SIGTERM") }, ErrGoalCancelled, "SIGTERM"},
	}
	for name, c := range ways {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Options{}, func(r *bench) {
				m := r.add(drives(r, nil), duty)
				g, err := r.Start(r.t.Context(), "test", "m", "go", nil)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(250 * time.Millisecond)
				began := time.Now()
				c.end(r, g)
				_, err = g.Result(r.t.Context())
				if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.why) {
					t.Errorf("got %v, want %v: %s", err, c.want, c.why)
				}
				synctest.Wait()
				if d := time.Since(began); d != 0 {
					t.Errorf("took %v", d)
				}
				if !strings.Contains(m.notes(), "rest") {
					t.Errorf("not at rest: %s", m.notes())
				}
				time.Sleep(2 * time.Second)
				if n := len(r.Goals()); n != 0 {
					t.Errorf("%d goals left", n)
				}
			})
		})
	}
}

// A goal whose controller hangs: its actuator rests at the end of the command's
// lifetime, once, and the goal fails when it has been missed often enough.
func TestGoalDies(t *testing.T) {
	for _, hold := range []time.Duration{200 * time.Millisecond, 500 * time.Millisecond, 5 * time.Second} {
		inBubble(t, Options{Hold: hold}, func(r *bench) {
			quit := make(chan struct{})
			m := r.add(drives(r, quit), duty)
			g, err := r.Start(r.t.Context(), "test", "m", "go", nil)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(150 * time.Millisecond)
			close(quit)
			began := time.Now().Add(-50 * time.Millisecond) // the last command
			time.Sleep(time.Until(began.Add(hold + 2*time.Millisecond)))
			synctest.Wait()
			want(t, "after "+hold.String(), m.notes(), `{"duty":0.1} {"duty":0.1} rest`)
			if s := g.State(); s != Running {
				t.Errorf("hold %v: %s when it was missed once", hold, s)
			}
			_, err = g.Result(r.t.Context())
			if !errors.Is(err, ErrGoalFailed) || !strings.Contains(err.Error(), "dead man: the goal stopped driving") {
				t.Errorf("got %v", err)
			}
			if d, most := time.Since(began), hold+(mostMissed-1)*missEvery; d < most || d > most+20*time.Millisecond {
				t.Errorf("hold %v: failed %v after its last command, want %v", hold, d, most)
			}
			synctest.Wait()
			want(t, "at the end", m.notes(), `{"duty":0.1} {"duty":0.1} rest rest`)
			if n := len(r.Goals()); n != 0 {
				t.Errorf("%d goals left", n)
			}
		})
	}
}

// A controller that is late, again and again, is not one that hangs: the actuator
// rests while it is away, and drives on when it comes back.
func TestGoalIsLate(t *testing.T) {
	inBubble(t, Options{}, func(r *bench) {
		m := &motor{name: "m"}
		m.open = func(g *Goal, _ string, _ json.RawMessage) error {
			go func() {
				for range 5 {
					if err := g.Drive(map[string]any{"duty": 0.1}); err != nil {
						t.Errorf("drive: %v", err)
					}
					time.Sleep(4900 * time.Millisecond) // nine misses, at 0.5, 1 … 4.5 s
				}
				g.Succeed("there")
			}()
			return nil
		}
		r.add(m, duty)
		g, err := r.Start(r.t.Context(), "test", "m", "go", nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(600 * time.Millisecond)
		if s := r.Devices()[0]; !s.AtRest || s.Goal != "m.go" {
			t.Errorf("while its controller is away: %+v, want at rest with its goal", s)
		}
		if res, err := g.Result(r.t.Context()); err != nil || res != "there" {
			t.Errorf("got %v, %v", res, err)
		}
		synctest.Wait()
		want(t, "told", m.notes(), strings.Repeat(`{"duty":0.1} rest `, 5)+"rest")
		if n := strings.Count(strings.Join(r.said("hw/m/set"), ""), "dead man"); n != 5 {
			t.Errorf("the dead man is told of %d times, want once a pause", n)
		}
	})
}

// A new goal has its own patience: what the one before missed is forgotten.
func TestGoalBeginsAnew(t *testing.T) {
	inBubble(t, Options{}, func(r *bench) {
		m := &motor{name: "m", open: func(g *Goal, _ string, _ json.RawMessage) error {
			return g.Drive(map[string]any{"duty": 0.1}) // once
		}}
		r.add(m, duty)
		for range 2 {
			g, err := r.Start(r.t.Context(), "test", "m", "go", nil)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(4 * time.Second)
			if s := g.State(); s != Running {
				t.Errorf("%s after 4 s: %s", s, g.Reason())
			}
		}
	})
}

// Who holds up the wheel, on which the timers of scripts run, does not hold up
// what protects: the dead man, a Rest that is tried again, a fence without a place.
func TestTimersThatProtectWaitForNobody(t *testing.T) {
	inBubble(t, Options{}, func(r *bench) {
		free := make(chan struct{})
		defer close(free)
		var broken atomic.Bool
		m := fenced(r)
		n := r.add(&motor{name: "n", rest: func(context.Context) error {
			if broken.Load() {
				return errors.New("stuck")
			}
			return nil
		}}, duty)
		at(r, 2, 2)
		broken.Store(true)
		_ = r.Rest(r.t.Context(), "test", "n") // it fails
		broken.Store(false)
		n.log = nil
		r.b.Timers().After(time.Millisecond, func() { <-free })
		time.Sleep(2 * time.Millisecond)
		if err := r.do("m", map[string]any{"duty": 1}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(503 * time.Millisecond)
		synctest.Wait()
		want(t, "m", m.notes(), `{"duty":1} rest`)
		want(t, "n", n.notes(), "rest")
		if err := r.do("m", map[string]any{"duty": 1, "hold": 5}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		want(t, "m", m.notes(), `{"duty":1} rest {"duty":1} rest`)
		if said := strings.Join(r.said(FenceTopic), ""); !strings.Contains(said, "nobody knows where it is") {
			t.Errorf("the fence said %q", said)
		}
	})
}

func TestGoalRefused(t *testing.T) {
	inBubble(t, Options{}, func(r *bench) {
		r.add(drives(r, nil), duty)
		if _, err := r.Start(r.t.Context(), "test", "m", "fly", nil); err == nil || !strings.Contains(err.Error(), `no action "fly"`) {
			t.Errorf("got %v", err)
		}
		if _, err := r.Start(r.t.Context(), "test", "x", "go", nil); !errors.Is(err, ErrUnknown) {
			t.Errorf("got %v", err)
		}
		if _, err := r.Start(r.t.Context(), "test", "m", "go", func() {}); err == nil {
			t.Error("arguments without a JSON form: no error")
		}
		r.Trip(r.t.Context(), "cli", "operator")
		if _, err := r.Start(r.t.Context(), "test", "m", "go", nil); !errors.Is(err, ErrStopped) {
			t.Errorf("got %v", err)
		}
		if _, err := r.NewGoal(r.t.Context(), "script:x", "tidy"); !errors.Is(err, ErrStopped) {
			t.Errorf("got %v", err)
		}
	})
}

// A script's own long action is a goal too.
func TestGoalOfAScript(t *testing.T) {
	inBubble(t, Options{}, func(r *bench) {
		g, err := r.NewGoal(r.t.Context(), "script:x", "tidy")
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan time.Duration, 1)
		go func() { // a plain loop
			for range 100 {
				select {
				case <-g.Context().Done():
				case <-time.After(time.Second):
				}
				if g.Context().Err() != nil {
					break
				}
			}
			ended <- 0
		}()
		time.Sleep(1500 * time.Millisecond)
		began := time.Now()
		r.Trip(r.t.Context(), "cli", "operator")
		<-ended
		if d := time.Since(began); d > 0 || g.State() != Cancelled {
			t.Errorf("%s after %v", g.State(), d)
		}
		if err := g.Drive(1); err == nil {
			t.Error("Drive without an actuator: no error")
		}
		short, cancel := context.WithCancel(r.t.Context())
		cancel()
		if _, err := g.Result(short); err == nil {
			t.Error("no error")
		}
	})
}

func TestGoalAsJSON(t *testing.T) {
	inBubble(t, Options{}, func(r *bench) {
		g, err := r.NewGoal(r.t.Context(), "script:x", "tidy")
		if err != nil {
			t.Fatal(err)
		}
		g.Feedback(map[string]any{"left": 2})
		g.Fail("no broom")
		j, err := json.Marshal(g)
		if err != nil {
			t.Fatal(err)
		}
		want(t, "goal", string(j), `{"id":1,"goal":"tidy","state":"failed","feedback":{"left":2},"reason":"no broom"}`)
		want(t, "events", strings.Join(r.said("hw/goal/tidy"), "\n"), `{"goal":"tidy","id":1,"state":"running"}
{"feedback":{"left":2},"goal":"tidy","id":1,"state":"running"}
{"goal":"tidy","id":1,"reason":"no broom","state":"failed"}`)
	})
}

// Who waited for a goal speaks after its end, and finds the actuator free.
func TestWaiterComesAfterTheEnd(t *testing.T) {
	inBubble(t, Options{}, func(r *bench) {
		r.add(drives(r, nil), duty)
		g, err := r.Start(r.t.Context(), "test", "m", "go", nil)
		if err != nil {
			t.Fatal(err)
		}
		var end uint64
		if _, err := r.b.Tap("hw/m/goal", func(e bus.Event) { end = e.Seq }); err != nil {
			t.Fatal(err)
		}
		if _, err := g.Result(r.t.Context()); err != nil {
			t.Fatal(err)
		}
		busy := r.Devices()[0].Goal
		e, err := r.b.Publish(r.t.Context(), "test", "arrived", nil)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if busy != "" || end == 0 || end > e.Seq {
			t.Errorf("the goal ended as event %d, its waiter spoke as %d, and found the goal %q", end, e.Seq, busy)
		}
	})
}
