package background_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"edged/agent"
	bg "edged/background"
	"edged/bus"
)

func TestOwnEventsDoNotTrigger(t *testing.T) {
	for _, self := range []bool{false, true} {
		filters := []string{"in/#", "other/#", "edged/#"}
		if self {
			filters = filters[:2] // else it would answer its own start
		}
		inRobot(t, bg.AgentOptions{SelfEvents: self, SubscribeTo: filters}, func(r *robot) {
			synctest.Wait()
			if _, err := r.bus.Handle("in/ask", bus.Queue{}, func(ctx context.Context, e bus.Event) error {
				_, err := r.bus.Publish(ctx, "other", "other/said", "indirect")
				return err
			}); err != nil {
				t.Fatal(err)
			}
			r.log.take()
			n := 0
			r.run = func(ctx context.Context, t agent.Task) error {
				if n++; n > 20 {
					return nil
				}
				_, err := r.bus.Publish(ctx, "agent:scout", "in/ask", "direct")
				return err
			}
			r.publish("in/x", "outside")
			synctest.Wait()
			got := r.log.take()
			if !self && got != "outside" {
				t.Errorf("ran %q, want only what came from outside", got)
			}
			if self && (!strings.Contains(got, "direct") || !strings.Contains(got, "indirect")) {
				t.Errorf("with self events: ran %q", got)
			}
			// A sibling's doing on the same outside event is no self event.
			r.run = nil
			r.say("again")
			if got := r.log.take(); !strings.Contains(got, "again") {
				t.Errorf("ran %q", got)
			}
		})
	}
}

func TestWatch(t *testing.T) {
	inRobot(t, bg.AgentOptions{Watch: []string{"plan.*", "mode", "a+b", "50%*"}, SubscribeTo: []string{"board/extra", "in/#"}}, func(r *robot) {
		for _, k := range []string{"plan.a", "plans", "mode", "modes", "extra", "plan.b", "a%2Bb", "50%25 off", "50"} {
			r.publish("board/"+k, k)
		}
		r.want("plan.a mode extra plan.b a%2Bb 50%25 off")
	})
}

func TestAnEventThatMatchesTwiceIsHeardOnce(t *testing.T) {
	inRobot(t, bg.AgentOptions{SubscribeTo: []string{"in/#", "in/x", "+/x"}}, func(r *robot) {
		r.say(1)
		r.want("1")
	})
}

func TestRunsCarryTheirCause(t *testing.T) {
	inRobot(t, bg.AgentOptions{KeepSession: true}, func(r *robot) {
		var task agent.Task
		var cause uint64
		r.run = func(ctx context.Context, t agent.Task) error {
			task = t
			cause, _ = bus.CauseOf(ctx)
			return nil
		}
		e, err := r.bus.Publish(r.Context(), "hw:imu", "in/x", map[string]any{"t": 3})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if cause != e.Seq || task.Origin != "hw:imu" || task.Conversation == "" || task.Text() != `{"t":3}` {
			t.Errorf("got cause %d, task %+v", cause, task)
		}
	})
}

func TestAgentsInATreeShareItsRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{})
		log := &logbook{}
		mk := func(name string, deps ...string) bg.Child {
			a, err := bg.NewAgent(bg.AgentOptions{
				Bus: b, SubscribeTo: []string{"in/" + name}, DependsOn: deps, Backoff: -1,
				Agent: agent.Func(name, func(_ context.Context, task agent.Task) (agent.Result, error) {
					log.add("%s:%s", name, task.Text())
					if task.Text() == "bad" {
						return agent.Result{}, errBoom
					}
					return agent.Result{}, nil
				}),
			})
			if err != nil {
				t.Fatal(err)
			}
			return a.Child()
		}
		tree := bg.NewSupervisor("tree", bg.Options{Bus: b, Strategy: bg.OneForAll, MaxRestarts: 2}, mk("a", "b"), mk("b"))
		if err := tree.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if st := tree.Status(); st.Children[0].Name != "b" || st.Children[0].Kind != "agent" || st.Children[0].Detail == nil {
			t.Errorf("got %+v, want b first: a depends on it", st)
		}
		for _, s := range []string{"a good", "a bad", "b good", "b bad", "a good", "a bad"} {
			name, what, _ := strings.Cut(s, " ")
			if _, err := b.Publish(t.Context(), "test", "in/"+name, what); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if got := log.take(); got != "a:good a:bad b:good b:bad a:good a:bad" {
			t.Errorf("got %q", got)
		}
		if st := tree.Status(); st.State != bg.Failed {
			t.Errorf("the tree is %s, want failed: two restarts were allowed", st.State)
		}
	})
}

func TestAgentOptionsAreChecked(t *testing.T) {
	b := bus.New(bus.Options{})
	a := agent.Func("x", nil)
	for want, o := range map[string]bg.AgentOptions{
		"needs an agent":   {Bus: b},
		"nothing can wake": {Bus: b, Agent: a},
		"filter":           {Bus: b, Agent: a, SubscribeTo: []string{"a/#/b"}},
		"watch":            {Bus: b, Agent: a, Watch: []string{""}},
		"name":             {Bus: b, Agent: agent.Func("a/#", nil), SubscribeTo: []string{"x"}},
	} {
		if _, err := bg.NewAgent(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error about %q", err, want)
		}
	}
}

// A trigger that says exit while its agent waits for a restart ends it; the
// next start knows nothing of that.
func TestExitWhileBackingOff(t *testing.T) {
	tr := bg.When(func(_ context.Context, e bus.Event) (any, bool, error) {
		if e.Payload() == "exit" {
			return nil, false, agent.ErrExit
		}
		return e.Payload(), true, nil
	})
	for _, stop := range []bool{false, true} {
		inRobot(t, bg.AgentOptions{Trigger: tr, Backoff: time.Second}, func(r *robot) {
			r.run = func(_ context.Context, t agent.Task) error {
				if t.Text() == "bad" {
					return errBoom
				}
				return nil
			}
			r.say("bad")
			r.say("exit")
			r.log.take()
			if stop {
				if err := r.agent.Stop(r.Context()); err != nil {
					t.Error(err)
				}
			} else {
				time.Sleep(time.Second)
			}
			r.state(bg.Stopped)
			if err := r.agent.Start(r.Context()); err != nil {
				t.Error(err)
			}
			r.say("good")
			r.want("good")
			r.state(bg.Running)
		})
	}
}

func TestServeIsOneLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{})
		a := must(bg.NewAgent(bg.AgentOptions{
			Bus: b, SubscribeTo: []string{"in"},
			Agent: agent.Func("scout", func(_ context.Context, t agent.Task) (agent.Result, error) {
				switch t.Text() {
				case "bad":
					return agent.Result{}, errBoom
				case "exit":
					return agent.Result{}, agent.ErrExit
				}
				return agent.Result{}, nil
			}),
		}))
		for what, want := range map[string]error{"bad": errBoom, "exit": nil, "": nil} {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- a.Serve(ctx) }()
			synctest.Wait()
			if what == "" {
				cancel()
			} else if _, err := b.Publish(t.Context(), "test", "in", what); err != nil {
				t.Error(err)
			}
			if err := <-done; !errors.Is(err, want) {
				t.Errorf("%q: Serve gave %v, want %v", what, err, want)
			}
			cancel()
		}
	})
}

// A task that has no JSON form is run all the same.
func TestOddTasks(t *testing.T) {
	odd := bg.When(func(context.Context, bus.Event) (any, bool, error) { return make(chan int), true, nil })
	inRobot(t, bg.AgentOptions{Trigger: odd}, func(r *robot) {
		r.say(1)
		if got := r.log.take(); got == "" {
			t.Error("it did not run")
		}
	})
}

// scriptError is an error that knows where it came from.
type scriptError struct{}

func (scriptError) Error() string { return "no such topic" }
func (scriptError) Fields() map[string]any {
	return map[string]any{"script": "main.star", "line": int64(7), "backtrace": "main.star:7: in on_alert"}
}

func TestCrashSaysWhere(t *testing.T) {
	inRobot(t, bg.AgentOptions{}, func(r *robot) {
		var crash map[string]any
		_ = must(r.bus.Tap("edged/background/scout/crash", func(e bus.Event) { crash = e.Payload().(map[string]any) }))
		r.run = func(context.Context, agent.Task) error { return scriptError{} }
		r.say(1)
		if crash["script"] != "main.star" || crash["line"] != int64(7) || crash["error"] != "no such topic" {
			t.Errorf("got %v", crash)
		}
		if st := r.agent.Status(); st.Backtrace != "main.star:7: in on_alert" {
			t.Errorf("got %+v", st)
		}
	})
}
