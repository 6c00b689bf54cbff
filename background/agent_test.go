package background_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"edged/agent"
	bg "edged/background"
	"edged/bus"
)

// robot is a bus and one background agent whose runs are logged.
type robot struct {
	*testing.T
	bus    *bus.Bus
	log    *logbook
	events *logbook
	agent  *bg.Agent
	run    func(ctx context.Context, t agent.Task) error
}

// inRobot runs f in a bubble with an agent made of o; its runs do r.run.
func inRobot(t *testing.T, o bg.AgentOptions, f func(r *robot)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &robot{T: t, bus: bus.New(bus.Options{}), log: &logbook{}, events: &logbook{}}
		if _, err := r.bus.Tap("edged/background/#", func(e bus.Event) {
			r.events.add("%s", strings.TrimPrefix(e.Topic, "edged/background/scout/"))
		}); err != nil {
			t.Fatal(err)
		}
		o.Bus = r.bus
		o.Agent = agent.Func("scout", func(ctx context.Context, task agent.Task) (agent.Result, error) {
			r.log.add("%s", task.Text())
			if r.run != nil {
				return agent.Result{}, r.run(ctx, task)
			}
			return agent.Result{Reply: "ok"}, nil
		})
		if o.SubscribeTo == nil && o.Watch == nil {
			o.SubscribeTo = []string{"in/#"}
		}
		if o.Backoff == 0 {
			o.Backoff = -1
		}
		a, err := bg.NewAgent(o)
		if err != nil {
			t.Fatal(err)
		}
		r.agent = a
		if err := a.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		f(r)
		if err := a.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if err := r.bus.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func (r *robot) publish(topic string, v any) {
	r.Helper()
	if _, err := r.bus.Publish(r.Context(), "test", topic, v); err != nil {
		r.Fatal(err)
	}
}

// say publishes and lets everything settle.
func (r *robot) say(v any) {
	r.Helper()
	r.publish("in/x", v)
	synctest.Wait()
}

func (r *robot) want(log string) {
	r.Helper()
	synctest.Wait()
	if got := r.log.take(); got != log {
		r.Errorf("ran %q, want %q", got, log)
	}
}

func (r *robot) state(want bg.State) {
	r.Helper()
	synctest.Wait()
	if got := r.agent.Status().State; got != want {
		r.Errorf("the agent is %s, want %s", got, want)
	}
}

func TestAgentRunsOneTaskAtATimeInOrder(t *testing.T) {
	inRobot(t, bg.AgentOptions{}, func(r *robot) {
		busy := false
		r.run = func(context.Context, agent.Task) error {
			if busy {
				r.Error("two runs at a time")
			}
			busy = true
			time.Sleep(time.Second)
			busy = false
			return nil
		}
		for i := range 5 {
			r.publish("in/x", i)
		}
		time.Sleep(10 * time.Second)
		r.want("0 1 2 3 4")
		st := r.agent.Status()
		if st.State != bg.Running || st.Runs != 5 || st.LastRun.Status != "done" || st.LastRun.Elapsed != 1 || st.Busy {
			t.Errorf("got %+v", st)
		}
		if b, err := json.Marshal(st); err != nil || !strings.Contains(string(b), `"state":"running"`) {
			t.Errorf("as JSON: %s, %v", b, err)
		}
	})
}

func TestTriggerRunsBeforeTheQueue(t *testing.T) {
	alerts := bg.When(func(_ context.Context, e bus.Event) (any, bool, error) {
		return "alert", e.Payload() == "alert", nil
	})
	inRobot(t, bg.AgentOptions{Trigger: alerts, MaxQueue: 1}, func(r *robot) {
		gate := make(chan bool)
		r.run = func(context.Context, agent.Task) error { <-gate; return nil }
		r.say("alert") // being run
		r.say("alert") // waits
		for range 1000 {
			r.publish("in/x", "noise")
		}
		if st := r.agent.Status(); st.Queue != 1 || len(st.Drops) != 0 {
			t.Errorf("got %+v, want the alert queued and nothing dropped", st)
		}
		close(gate)
		synctest.Wait()
		r.want("alert alert")
	})
}

func TestOverflow(t *testing.T) {
	for _, c := range []struct {
		name  string
		o     bg.Overflow
		want  string
		drops string
	}{
		{"drop_oldest", bg.DropOldest, "0 c3 a4 b5", "map[overflow:3]"},
		{"drop_new", bg.DropNew, "0 a1 b2 c3", "map[overflow:3]"},
		{"latest", bg.Latest, "0 b5 c3 d6", "map[overflow:1 replaced:2]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if o, err := bg.ParseOverflow(c.name); err != nil || o != c.o {
				t.Errorf("ParseOverflow: got %v, %v", o, err)
			}
			inRobot(t, bg.AgentOptions{MaxQueue: 3, Overflow: c.o}, func(r *robot) {
				gate := make(chan bool)
				r.run = func(context.Context, agent.Task) error { <-gate; return nil }
				r.publish("in/x", "0")
				synctest.Wait()
				for _, s := range []string{"a1", "b2", "c3", "a4", "b5"} {
					r.publish("in/"+s[:1], s)
				}
				if c.o == bg.Latest {
					r.publish("in/d", "d6")
				} else {
					r.publish("in/a", c.want[len(c.want)-2:]) // one more loss
				}
				synctest.Wait()
				if got := fmt.Sprint(r.agent.Status().Drops); got != c.drops {
					t.Errorf("got drops %s, want %s", got, c.drops)
				}
				close(gate)
				synctest.Wait()
				if got := r.log.take(); c.o == bg.DropNew && got != c.want || c.o == bg.Latest && got != c.want {
					t.Errorf("ran %q, want %q", got, c.want)
				}
				if got := strings.Count(r.events.take(), "drop"); got != 1 {
					t.Errorf("%d drop events at once, want 1", got)
				}
				time.Sleep(2 * time.Second)
				if got := strings.Count(r.events.take(), "drop"); got < 1 || got > 2 {
					t.Errorf("%d drop events a second later, want the rest in one per cause", got)
				}
			})
		})
	}
}

func TestAgentCrashesAndRecovers(t *testing.T) {
	for name, crash := range map[string]func() error{
		"error":  func() error { return errBoom },
		"panic":  func() error { panic("ouch") },
		"goexit": func() error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			inRobot(t, bg.AgentOptions{Backoff: time.Second}, func(r *robot) {
				r.run = func(_ context.Context, t agent.Task) error {
					if t.Text() == "bad" {
						return crash()
					}
					return nil
				}
				r.say("bad")
				st := r.agent.Status()
				if st.State != bg.BackingOff || st.NextRetry == nil || st.LastError == "" || st.Restarts != 1 {
					t.Errorf("got %+v, want it backing off", st)
				}
				if name == "panic" && !strings.Contains(st.Backtrace, "agent_test.go") {
					t.Errorf("got backtrace %q", st.Backtrace)
				}
				r.say("good") // heard while it waits
				r.want("bad")
				time.Sleep(time.Second)
				r.want("good")
				r.state(bg.Running)
				if got := fmt.Sprint(r.agent.Status().Drops); got != "map[crash:1]" {
					t.Errorf("got drops %s", got)
				}
				if got := r.events.take(); got != "start crash drop restart start" && got != "start drop crash restart start" {
					t.Errorf("got events %q", got)
				}
			})
		})
	}
}

func TestOrderlyOutcomesAreNoCrash(t *testing.T) {
	inRobot(t, bg.AgentOptions{MaxRestarts: bg.NoRestarts}, func(r *robot) {
		r.run = func(context.Context, agent.Task) error { return agent.Declined("not my job") }
		r.say(1)
		r.state(bg.Running)
		if l := r.agent.Status().LastRun; l.Status != "failed" || !strings.Contains(l.Reason, "not my job") {
			t.Errorf("got %+v", l)
		}
	})
}

func TestRetryIsOfferedThreeTimes(t *testing.T) {
	inRobot(t, bg.AgentOptions{OnCrash: bg.RetryTask, MaxRestarts: 10}, func(r *robot) {
		r.run = func(_ context.Context, t agent.Task) error {
			if t.Text() == "bad" {
				return errBoom
			}
			return nil
		}
		r.say("bad")
		r.say("good")
		r.want("bad bad bad bad good")
		if got := fmt.Sprint(r.agent.Status().Drops); got != "map[crash:1]" {
			t.Errorf("got drops %s", got)
		}
	})
}

func TestRetryComesBeforeTheQueue(t *testing.T) {
	inRobot(t, bg.AgentOptions{OnCrash: bg.RetryTask, MaxQueue: 2}, func(r *robot) {
		n := 0
		r.run = func(_ context.Context, t agent.Task) error {
			time.Sleep(time.Second)
			if n++; n == 1 {
				return errBoom
			}
			return nil
		}
		r.publish("in/x", "1")
		synctest.Wait()
		r.publish("in/x", "2")
		r.publish("in/x", "3")
		time.Sleep(10 * time.Second)
		r.want("1 1 2 3")
	})
}

func TestGivingUp(t *testing.T) {
	inRobot(t, bg.AgentOptions{MaxRestarts: 2, RestartWindow: time.Minute}, func(r *robot) {
		r.run = func(context.Context, agent.Task) error { return errBoom }
		r.say(1)
		r.say(2)
		r.state(bg.Running)
		r.say(3)
		r.state(bg.Failed)
		if got := r.events.take(); strings.Count(got, "gave_up") != 1 {
			t.Errorf("got events %q", got)
		}
		r.log.take()
		r.say(4)
		r.want("") // unsubscribed
		var e *bg.GaveUpError
		if err := r.agent.Tree().Wait(); !errors.As(err, &e) {
			t.Errorf("the supervisor above is told %v", err)
		}
		// Start after that has a fresh window.
		if err := r.agent.Start(r.Context()); err != nil {
			t.Fatal(err)
		}
		r.say(5)
		r.say(6)
		r.want("5 6")
		r.state(bg.Running)
	})
}

func TestExit(t *testing.T) {
	exits := bg.When(func(_ context.Context, e bus.Event) (any, bool, error) {
		if e.Payload() == "exit" {
			return nil, false, agent.ErrExit
		}
		return e.Payload(), true, nil
	})
	for _, by := range []string{"trigger", "agent"} {
		for _, policy := range []bg.Restart{bg.Transient, bg.Permanent, bg.Temporary} {
			t.Run(by+" "+policy.String(), func(t *testing.T) {
				o := bg.AgentOptions{Restart: policy}
				if by == "trigger" {
					o.Trigger = exits
				}
				inRobot(t, o, func(r *robot) {
					r.run = func(_ context.Context, t agent.Task) error {
						if t.Text() == "exit" {
							return fmt.Errorf("done here: %w", agent.ErrExit)
						}
						return nil
					}
					r.say("1")
					r.say("exit")
					want, log := bg.Stopped, ""
					if policy == bg.Permanent {
						want, log = bg.Running, "2"
					}
					r.state(want)
					r.log.take()
					r.say("2")
					r.want(log)
					if got := r.events.take(); strings.Contains(got, "crash") || strings.Contains(got, "gave_up") {
						t.Errorf("got events %q", got)
					}
				})
			})
		}
	}
}

func TestTriggerCrash(t *testing.T) {
	bad := bg.When(func(_ context.Context, e bus.Event) (any, bool, error) {
		switch e.Payload() {
		case "error":
			return nil, false, errBoom
		case "panic":
			panic("ouch")
		}
		return e.Payload(), true, nil
	})
	inRobot(t, bg.AgentOptions{Trigger: bad, Backoff: time.Second, MaxRestarts: 2}, func(r *robot) {
		for i, s := range []string{"error", "panic"} {
			r.say(s)
			if st := r.agent.Status(); st.State != bg.BackingOff || st.Restarts != i+1 {
				t.Errorf("got %+v", st)
			}
			r.say("error") // while it is down it is only counted
			time.Sleep(3 * time.Second)
			r.say("good")
			r.want("good")
		}
		if got := fmt.Sprint(r.agent.Status().Drops); got != "map[trigger:2]" {
			t.Errorf("got drops %s", got)
		}
		r.say("error")
		r.state(bg.Failed)
	})
}

func TestTriggerCrashEndsTheRunToo(t *testing.T) {
	bad := bg.When(func(_ context.Context, e bus.Event) (any, bool, error) {
		if e.Payload() == "bad" {
			return nil, false, errBoom
		}
		return e.Payload(), true, nil
	})
	for _, c := range []bg.OnCrash{bg.DropTask, bg.RetryTask} {
		inRobot(t, bg.AgentOptions{Trigger: bad, OnCrash: c}, func(r *robot) {
			n := 0
			r.run = func(ctx context.Context, _ agent.Task) error {
				if n++; n > 1 {
					return nil
				}
				<-ctx.Done()
				return ctx.Err()
			}
			r.say("work")
			r.say("bad")
			r.state(bg.Running)
			if c == bg.DropTask {
				r.want("work")
			} else {
				r.want("work work")
			}
		})
	}
}

func TestStopDropsTheBacklogAndCancelsTheRun(t *testing.T) {
	inRobot(t, bg.AgentOptions{}, func(r *robot) {
		r.run = func(ctx context.Context, t agent.Task) error {
			if t.Text() == "after" {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}
		r.say("first")
		r.say("second")
		if err := r.agent.Start(r.Context()); !errors.Is(err, bg.ErrRunning) {
			t.Errorf("second start: got %v", err)
		}
		start := time.Now()
		if err := r.agent.Stop(r.Context()); err != nil || time.Since(start) != 0 {
			t.Errorf("stop: %v after %v", err, time.Since(start))
		}
		r.state(bg.Stopped)
		r.say("unheard")
		if got := fmt.Sprint(r.agent.Status().Drops); got != "map[stop:1]" {
			t.Errorf("got drops %s", got)
		}
		if err := r.agent.Start(r.Context()); err != nil {
			t.Error(err)
		}
		r.say("after")
		r.want("first after")
	})
}

func TestStopOfAStubbornRun(t *testing.T) {
	inRobot(t, bg.AgentOptions{Shutdown: time.Second}, func(r *robot) {
		r.run = func(context.Context, agent.Task) error { time.Sleep(time.Hour); return nil }
		r.say(1)
		ctx, cancel := context.WithTimeout(r.Context(), 100*time.Millisecond)
		defer cancel()
		if err := r.agent.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if err := r.agent.Stop(r.Context()); err != nil {
			t.Error(err)
		}
		if st := r.agent.Status(); !st.Lingering || r.agent.Tree().Status().Abandoned != 1 {
			t.Errorf("got %+v", st)
		}
		if err := r.agent.Start(r.Context()); err == nil {
			t.Error("started beside an abandoned run")
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if err := r.agent.Start(r.Context()); err != nil {
			t.Error(err)
		}
		r.run = nil
		r.log.take()
		r.say(2)
		r.want("2")
	})
}
