package background_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"edged/agent"
	bg "edged/background"
	"edged/bus"
)

// TestNoTaskIsLostUncounted gives agents random tasks and random trouble. Every
// task that the trigger made has been run, or is counted as lost, or waits.
func TestNoTaskIsLostUncounted(t *testing.T) {
	for seed := range seeds(500) {
		synctest.Test(t, func(t *testing.T) { accounts(t, seed) })
		if t.Failed() {
			t.Fatalf("with seed %d", seed)
		}
	}
}

func accounts(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	b := bus.New(bus.Options{})
	var mu sync.Mutex
	ran := map[int64]int{}
	var emitted int
	var running atomic.Int32
	trouble := rand.New(rand.NewPCG(seed, 2))
	onCrash := bg.OnCrash(r.IntN(2))
	_ = must(b.Tap("edged/agent/scout/start", func(e bus.Event) {
		mu.Lock()
		defer mu.Unlock()
		ran[e.Payload().(map[string]any)["task"].(int64)]++
	}))
	a := must(bg.NewAgent(bg.AgentOptions{
		Bus: b, SubscribeTo: []string{"in/#"},
		MaxQueue: 1 + r.IntN(4), Overflow: bg.Overflow(r.IntN(3)), OnCrash: onCrash,
		Restart: bg.Restart(r.IntN(4)), MaxRestarts: r.IntN(6) - 1, RestartWindow: time.Duration(1+r.IntN(20)) * time.Second,
		Backoff: time.Duration(r.IntN(3)-1) * time.Second, Shutdown: time.Second,
		Trigger: bg.When(func(_ context.Context, e bus.Event) (any, bool, error) {
			switch n := e.Payload().(int64); n % 23 {
			case 20:
				return nil, false, errBoom
			case 21:
				return nil, false, agent.ErrExit
			case 22:
				return nil, false, nil
			}
			emitted++
			return e.Payload(), true, nil
		}),
		Agent: agent.Func("scout", func(ctx context.Context, task agent.Task) (agent.Result, error) {
			if running.Add(1) > 1 {
				t.Error("two runs at a time")
			}
			defer running.Add(-1)
			mu.Lock()
			what, wait := trouble.IntN(10), time.Duration(trouble.IntN(3000))*ms
			mu.Unlock()
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return agent.Result{}, ctx.Err()
			}
			switch what {
			case 0:
				return agent.Result{}, errBoom
			case 1:
				panic("ouch")
			case 2:
				runtime.Goexit()
			case 3:
				return agent.Result{}, agent.ErrExit
			}
			return agent.Result{}, nil
		}),
	}))
	for range 3 {
		if err := a.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range r.IntN(40) {
			if r.IntN(3) == 0 {
				time.Sleep(time.Duration(r.IntN(2000)) * ms)
			}
			synctest.Wait()
			_ = must(b.Publish(t.Context(), "test", fmt.Sprint("in/", r.IntN(3)), int64(r.IntN(1<<40))))
			synctest.Wait()
			a.Status()
		}
		check := func(when string) {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			st := a.Status()
			lost := 0
			for cause, n := range st.Drops {
				if cause != "crash" && cause != "trigger" { // those ran, or never were tasks
					lost += int(n)
				}
			}
			// A task that is tried again has been run and waits, or may be lost later.
			if got := len(ran) + lost + st.Queue; got < emitted || got > emitted && onCrash == bg.DropTask {
				t.Errorf("%s: %d tasks, but %d run, %d lost (%v), %d wait", when, emitted, len(ran), lost, st.Drops, st.Queue)
			}
			for task, n := range ran {
				if n > 4 {
					t.Errorf("task %d was run %d times", task, n)
				}
			}
		}
		check("before the stop")
		if err := a.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		check("after the stop")
		if running.Load() != 0 {
			t.Error("it runs after the stop")
		}
	}
	if err := b.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestManyHands has several goroutines work on one tree at the same time.
func TestManyHands(t *testing.T) {
	for seed := range seeds(100) {
		synctest.Test(t, func(t *testing.T) {
			var total atomic.Int32
			var broken atomic.Bool
			tree := bg.NewSupervisor("root", bg.Options{Strategy: bg.Strategy(seed % 3), MaxRestarts: 50})
			ctx, cancel := context.WithCancel(t.Context())
			if err := tree.Start(ctx); err != nil {
				t.Fatal(err)
			}
			var hands sync.WaitGroup
			for hand := range uint64(4) {
				hands.Go(func() {
					r := rand.New(rand.NewPCG(seed, hand))
					for i := range 20 {
						name := fmt.Sprint("c", r.IntN(4))
						switch r.IntN(6) { // any of these may fail
						case 0, 1:
							_ = tree.Add(ctx, bg.Child{Name: name, Restart: bg.Restart(r.IntN(4)), Service: &chaos{seed: seed*1000 + hand*100 + uint64(i), total: &total, broken: &broken}})
						case 2:
							_ = tree.Remove(ctx, name)
						case 3:
							_ = tree.StopChild(ctx, name)
						case 4:
							_ = tree.StartChild(ctx, name)
						case 5:
							tree.Status()
							time.Sleep(time.Duration(r.IntN(1000)) * ms)
						}
					}
				})
			}
			if seed%2 == 0 {
				time.Sleep(2 * time.Second)
				cancel()
			}
			hands.Wait()
			cancel()
			_ = tree.Wait()
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if total.Load() != 0 || broken.Load() {
				t.Errorf("%d services are left; ran twice at a time: %v", total.Load(), broken.Load())
			}
		})
		if t.Failed() {
			t.Fatalf("with seed %d", seed)
		}
	}
}
