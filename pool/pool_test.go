package pool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"edged/agent"
	"edged/background"
	"edged/blackboard"
	"edged/bus"
	"edged/pool"
)

// skilled is an agent that declares what it can do.
type skilled struct {
	agent.Agent
	skills []string
}

func (s skilled) Capabilities() []string { return s.skills }

func echo(name string) agent.Agent {
	return agent.Func(name, func(_ context.Context, t agent.Task) (agent.Result, error) {
		return agent.Result{Reply: name + ": " + t.Text()}, nil
	})
}

// waits is an agent that works until it is told to stop.
func waits(name string, ended *atomic.Int32) agent.Agent {
	return agent.Func(name, func(ctx context.Context, _ agent.Task) (agent.Result, error) {
		<-ctx.Done()
		ended.Add(1)
		return agent.Result{}, ctx.Err()
	})
}

func inPool(t *testing.T, f func(t *testing.T, p *pool.Pool, b *bus.Bus)) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{})
		board, err := blackboard.Open(b, blackboard.Options{})
		if err != nil {
			t.Fatal(err)
		}
		p, err := pool.New(pool.Options{Bus: b, Board: board})
		if err != nil {
			t.Fatal(err)
		}
		f(t, p, b)
		if err := errors.Join(p.Close(t.Context()), board.Close(), b.Close(t.Context())); err != nil {
			t.Error(err)
		}
	})
}

func register(t *testing.T, p *pool.Pool, agents ...agent.Agent) {
	t.Helper()
	for _, a := range agents {
		if err := p.Register(a); err != nil {
			t.Fatal(err)
		}
	}
}

func Example() {
	b := bus.New(bus.Options{})
	p, err := pool.New(pool.Options{Bus: b})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	defer p.Close(ctx)
	err = p.Register(agent.Func("greeter", func(_ context.Context, t agent.Task) (agent.Result, error) {
		return agent.Result{Reply: "hello " + t.Text()}, nil
	}))
	fmt.Println(err)
	r, err := p.Run(ctx, "greeter", agent.Task{Input: "kitchen", Origin: "test"})
	fmt.Println(r.Status, r.Reply, err)
	// Output:
	// <nil>
	// done hello kitchen <nil>
}

func TestNamesAreUnique(t *testing.T) {
	inPool(t, func(t *testing.T, p *pool.Pool, _ *bus.Bus) {
		register(t, p, echo("b"), echo("a"))
		if err := p.Register(echo("b")); !errors.Is(err, pool.ErrTaken) {
			t.Errorf("got %v", err)
		}
		if err := p.Register(echo("")); err == nil {
			t.Error("an agent without a name was taken in")
		}
		if got := p.Names(); !slices.Equal(got, []string{"b", "a"}) {
			t.Errorf("got %v", got)
		}
		if a, ok := p.Get("a"); !ok || a.Name() != "a" {
			t.Errorf("got %v, %v", a, ok)
		}
		if _, ok := p.Get("c"); ok {
			t.Error("found an agent that is not there")
		}
	})
}

func TestRun(t *testing.T) {
	inPool(t, func(t *testing.T, p *pool.Pool, b *bus.Bus) {
		register(t, p, echo("echo"),
			agent.Func("decline", func(context.Context, agent.Task) (agent.Result, error) {
				return agent.Result{}, agent.Declined("busy")
			}),
			agent.Func("panic", func(context.Context, agent.Task) (agent.Result, error) { panic("ouch") }))
		var events []string
		if _, err := b.Tap("edged/agent/#", func(e bus.Event) { events = append(events, e.Topic[len("edged/agent/"):]) }); err != nil {
			t.Fatal(err)
		}
		if r, err := p.Run(t.Context(), "echo", agent.Task{Input: 7, Origin: "test"}); err != nil || r.Reply != "echo: 7" || !r.OK() {
			t.Errorf("got %+v, %v", r, err)
		}
		if r, err := p.Run(t.Context(), "decline", agent.Task{}); err != nil || r.Status != agent.Failed || !strings.Contains(r.Reason, "busy") {
			t.Errorf("got %+v, %v", r, err)
		}
		var crash *agent.Panic
		if r, err := p.Run(t.Context(), "panic", agent.Task{}); !errors.As(err, &crash) || r.Status != agent.Failed {
			t.Errorf("got %+v, %v", r, err)
		}
		if r, err := p.Run(t.Context(), "nobody", agent.Task{}); !errors.Is(err, pool.ErrUnknown) || r.OK() {
			t.Errorf("got %+v, %v", r, err)
		}
		if got, want := strings.Join(events, " "), "echo/start echo/end decline/start decline/end panic/start panic/end"; got != want {
			t.Errorf("got events %q, want %q", got, want)
		}
	})
}

func TestBackground(t *testing.T) {
	inPool(t, func(t *testing.T, p *pool.Pool, b *bus.Bus) {
		var ran atomic.Int32
		register(t, p, agent.Func("guard", func(_ context.Context, task agent.Task) (agent.Result, error) {
			if ran.Add(1); task.Text() == "bad" {
				return agent.Result{}, errors.New("boom")
			}
			return agent.Result{}, nil
		}), echo("helper"))
		o := background.AgentOptions{SubscribeTo: []string{"in"}, DependsOn: []string{"helper"}, MaxRestarts: background.NoRestarts}
		start := func() error { return p.StartBackground(t.Context(), "guard", o) }
		say := func(s string) {
			if _, err := b.Publish(t.Context(), "test", "in", s); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		if err := start(); err == nil || !strings.Contains(err.Error(), `"helper"`) {
			t.Errorf("got %v, want an error that names what is missing", err)
		}
		if err := p.StartBackground(t.Context(), "helper", background.AgentOptions{SubscribeTo: []string{"x"}}); err != nil {
			t.Error(err)
		}
		if err := start(); err != nil {
			t.Error(err)
		}
		if err := start(); !errors.Is(err, pool.ErrRunning) {
			t.Errorf("second start: got %v", err)
		}
		say("good")
		st := p.Status()
		if g := st.Agents[0]; ran.Load() != 1 || g.Name != "guard" || g.Background.State != background.Running || g.Background.Runs != 1 {
			t.Errorf("ran %d, status %+v", ran.Load(), st)
		}
		if _, err := json.Marshal(st); err != nil {
			t.Error(err)
		}
		if err := p.StopBackground(t.Context(), "guard"); err != nil {
			t.Error(err)
		}
		say("unheard")
		if err := p.StopBackground(t.Context(), "guard"); !errors.Is(err, pool.ErrStopped) {
			t.Errorf("second stop: got %v", err)
		}
		if err := start(); err != nil {
			t.Error(err)
		}
		say("bad") // one crash is one too many
		if g := p.Status().Agents[0]; ran.Load() != 2 || g.Background.State != background.Failed {
			t.Errorf("ran %d, %+v", ran.Load(), g.Background)
		}
		if err := start(); err != nil { // one that gave up may be started again
			t.Error(err)
		}
		say("good")
		if ran.Load() != 3 {
			t.Errorf("ran %d times, want 3", ran.Load())
		}
		if err := p.StartBackground(t.Context(), "nobody", o); !errors.Is(err, pool.ErrUnknown) {
			t.Errorf("got %v", err)
		}
		if err := p.StartBackground(t.Context(), "helper", background.AgentOptions{}); !errors.Is(err, pool.ErrRunning) {
			t.Errorf("got %v", err)
		}
	})
}

func TestBackgroundInATreeThatStartsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{})
		tree := background.NewSupervisor("robot", background.Options{Bus: b})
		p, err := pool.New(pool.Options{Bus: b, Tree: tree})
		if err != nil {
			t.Fatal(err)
		}
		register(t, p, echo("a"))
		o := background.AgentOptions{SubscribeTo: []string{"in"}}
		if err := p.StartBackground(t.Context(), "a", o); err != nil {
			t.Fatal(err)
		}
		if err := p.StartBackground(t.Context(), "a", o); !errors.Is(err, pool.ErrRunning) {
			t.Errorf("second start: got %v", err)
		}
		if err := tree.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if st := tree.Status(); len(st.Children) != 1 || st.Children[0].Children[0].Kind != "agent" || p.Status().Agents[0].Background.State != background.Running {
			t.Errorf("got %+v", st)
		}
		if err := tree.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := p.Request(t.Context(), "test", "x", nil, 0); !errors.Is(err, pool.ErrNoBoard) {
			t.Errorf("got %v", err)
		}
	})
}

func TestStopAllIsParallelAndComplete(t *testing.T) {
	inPool(t, func(t *testing.T, p *pool.Pool, b *bus.Bus) {
		var ended atomic.Int32
		for i := range 10 {
			name := fmt.Sprint("slow", i)
			register(t, p, agent.Func(name, func(ctx context.Context, _ agent.Task) (agent.Result, error) {
				<-ctx.Done()
				time.Sleep(time.Second)
				ended.Add(1)
				return agent.Result{}, ctx.Err()
			}))
			if err := p.StartBackground(t.Context(), name, background.AgentOptions{SubscribeTo: []string{"in"}}); err != nil {
				t.Fatal(err)
			}
		}
		register(t, p, waits("run", &ended), skilled{waits("answer", &ended), []string{"wait"}})
		go func() { _, _ = p.Run(context.Background(), "run", agent.Task{}) }()
		f, err := p.Request(t.Context(), "test", "wait", nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Publish(t.Context(), "test", "in", 1); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := p.Status().Running; n != 2 {
			t.Errorf("%d runs in progress, want 2", n)
		}
		start := time.Now()
		if err := p.StopAll(t.Context()); err != nil {
			t.Error(err)
		}
		if d := time.Since(start); d != time.Second || ended.Load() != 12 {
			t.Errorf("%d of 12 ended after %v, want all after 1s", ended.Load(), d)
		}
		if v, err := f.Result(t.Context()); err != nil || pool.ResultOf(v).Status != agent.Cancelled {
			t.Errorf("the request gave %v, %v", v, err)
		}
		// The pool is as it was: agents may be started and run again.
		if err := p.StartBackground(t.Context(), "slow0", background.AgentOptions{SubscribeTo: []string{"in"}}); err != nil {
			t.Error(err)
		}
	})
}

func TestStopAllHasADeadline(t *testing.T) {
	inPool(t, func(t *testing.T, p *pool.Pool, b *bus.Bus) {
		for _, name := range []string{"deaf", "deafer"} {
			register(t, p, agent.Func(name, func(context.Context, agent.Task) (agent.Result, error) {
				time.Sleep(time.Minute)
				return agent.Result{}, nil
			}))
		}
		if err := p.StartBackground(t.Context(), "deaf", background.AgentOptions{SubscribeTo: []string{"in"}, Shutdown: time.Hour}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Publish(t.Context(), "test", "in", 1); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = p.Run(context.Background(), "deafer", agent.Task{}) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		start := time.Now()
		err := p.StopAll(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "deaf") || time.Since(start) != 100*time.Millisecond {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
	})
}

func TestRequestsByCapability(t *testing.T) {
	inPool(t, func(t *testing.T, p *pool.Pool, _ *bus.Bus) {
		ask := func(capability string, task any) agent.Result {
			f, err := p.Request(t.Context(), "test", capability, task, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			v, err := f.Result(t.Context())
			if err != nil {
				return agent.Result{Status: agent.Timeout, Reason: err.Error()}
			}
			return pool.ResultOf(v)
		}
		crashes := 0
		register(t, p, skilled{echo("cook"), []string{"cooking", "cleaning"}},
			skilled{agent.Func("picky", func(context.Context, agent.Task) (agent.Result, error) {
				return agent.Result{Output: map[string]any{"n": 1}}, agent.Declined("not today")
			}), []string{"singing"}},
			skilled{agent.Func("shaky", func(context.Context, agent.Task) (agent.Result, error) {
				if crashes++; crashes < 3 {
					panic("ouch")
				}
				return agent.Result{Output: []any{int64(1)}}, nil
			}), []string{"balancing"}})
		if r := ask("cooking", "soup"); r.Reply != "cook: soup" || r.By != "cook" || !r.OK() {
			t.Errorf("got %+v", r)
		}
		if r := ask("cleaning", map[string]any{"room": "hall"}); r.Reply != `cook: {"room":"hall"}` {
			t.Errorf("got %+v", r)
		}
		if r := ask("singing", nil); r.Status != agent.Failed || !strings.Contains(r.Reason, "not today") {
			t.Errorf("got %+v", r)
		}
		if r := ask("balancing", nil); !r.OK() || crashes != 3 || fmt.Sprint(r.Output) != "[1]" {
			t.Errorf("got %+v after %d crashes", r, crashes)
		}
		if r := ask("flying", nil); r.Status != agent.Timeout {
			t.Errorf("got %+v", r)
		}
		// One that comes later takes what waits.
		f, err := p.Request(t.Context(), "test", "diving", "deep", 0)
		if err != nil {
			t.Fatal(err)
		}
		register(t, p, skilled{echo("diver"), []string{"diving"}})
		if v, err := f.Result(t.Context()); err != nil || pool.ResultOf(v).Reply != "diver: deep" {
			t.Errorf("got %v, %v", v, err)
		}
		if st := p.Status(); fmt.Sprint(st.Agents[0].Capabilities) != "[cooking cleaning]" {
			t.Errorf("got %+v", st)
		}
	})
}

func TestResultOf(t *testing.T) {
	if r := pool.ResultOf("just words"); r.Status != agent.Done || r.Output != "just words" {
		t.Errorf("got %+v", r)
	}
}
