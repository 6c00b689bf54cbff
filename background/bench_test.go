package background_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"edged/agent"
	bg "edged/background"
	"edged/bus"
	"edged/bus/timer"
)

func memory() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// cpu is the time that the process has used so far.
func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkIdleAgents reports what an idle background agent costs: bytes of
// heap and stack, and the processor over a second in which nothing happens.
// The limit is a goroutine with a channel of 32 tasks.
func BenchmarkIdleAgents(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		b.Run(fmt.Sprint(n, "/edged"), func(b *testing.B) {
			for b.Loop() {
				eb := bus.New(bus.Options{})
				before := memory()
				agents := make([]*bg.Agent, n)
				for i := range agents {
					agents[i] = idle(b, eb, i)
				}
				report(b, n, before)
				for _, a := range agents {
					if err := a.Stop(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
		b.Run(fmt.Sprint(n, "/edged_in_one_tree"), func(b *testing.B) {
			for b.Loop() {
				eb := bus.New(bus.Options{})
				before := memory()
				var children []bg.Child
				for i := range n {
					a, err := bg.NewAgent(options(eb, i))
					if err != nil {
						b.Fatal(err)
					}
					children = append(children, a.Child())
				}
				tree := bg.NewSupervisor("tree", bg.Options{}, children...)
				if err := tree.Start(b.Context()); err != nil {
					b.Fatal(err)
				}
				report(b, n, before)
				if err := tree.Stop(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprint(n, "/limit"), func(b *testing.B) {
			for b.Loop() {
				before := memory()
				queues := make([]chan agent.Task, n)
				for i := range queues {
					queues[i] = make(chan agent.Task, 32)
					go func() {
						for range queues[i] {
							runtime.Gosched()
						}
					}()
				}
				report(b, n, before)
				for _, q := range queues {
					close(q)
				}
			}
		})
	}
}

func options(eb *bus.Bus, i int) bg.AgentOptions {
	topic := fmt.Sprint("sensor/", i)
	return bg.AgentOptions{
		Bus: eb, SubscribeTo: []string{topic},
		Agent:   agent.Func(fmt.Sprint("agent", i), func(context.Context, agent.Task) (agent.Result, error) { return agent.Result{}, nil }),
		Trigger: bg.When(func(_ context.Context, e bus.Event) (any, bool, error) { return e.Payload(), true, nil }),
	}
}

func idle(b *testing.B, eb *bus.Bus, i int) *bg.Agent {
	a, err := bg.NewAgent(options(eb, i))
	if err != nil {
		b.Fatal(err)
	}
	if err := a.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	return a
}

func report(b *testing.B, n int, before uint64) {
	b.StopTimer()
	<-time.After(50 * time.Millisecond) // whatever was started comes to rest
	b.ReportMetric(float64(int64(memory()-before))/float64(n), "B/agent")
	used := cpu()
	<-time.After(time.Second)
	b.ReportMetric(float64(cpu()-used)/float64(time.Second)*100, "%cpu-idle")
	b.ReportMetric(float64(runtime.NumGoroutine()), "goroutines")
	b.StartTimer()
}

// BenchmarkTask is an event that a trigger makes a task of, to the end of the
// agent's run. The limit is a channel and a goroutine.
func BenchmarkTask(b *testing.B) {
	done := make(chan bool)
	b.Run("edged", func(b *testing.B) {
		eb := bus.New(bus.Options{})
		o := options(eb, 0)
		o.Agent = agent.Func("a", func(context.Context, agent.Task) (agent.Result, error) { done <- true; return agent.Result{}, nil })
		a, err := bg.NewAgent(o)
		if err != nil {
			b.Fatal(err)
		}
		if err := a.Start(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			if _, err := eb.Publish(b.Context(), "test", "sensor/0", true); err != nil {
				b.Fatal(err)
			}
			<-done
		}
		if err := a.Stop(b.Context()); err != nil {
			b.Fatal(err)
		}
	})
	b.Run("limit", func(b *testing.B) {
		tasks := make(chan any, 32)
		go func() {
			for range tasks {
				done <- true
			}
		}()
		b.ReportAllocs()
		for b.Loop() {
			tasks <- true
			<-done
		}
		close(tasks)
	})
}

// BenchmarkIgnored is an event that the trigger looks at and ignores.
func BenchmarkIgnored(b *testing.B) {
	eb := bus.New(bus.Options{})
	o := options(eb, 0)
	o.Trigger = bg.When(func(_ context.Context, e bus.Event) (any, bool, error) { return nil, false, nil })
	a, err := bg.NewAgent(o)
	if err != nil {
		b.Fatal(err)
	}
	if err := a.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := eb.Publish(b.Context(), "test", "sensor/0", true); err != nil {
			b.Fatal(err)
		}
	}
	if err := a.Stop(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkDebounce is an event of one of 100 sensors that a keyed debounce
// looks at. The limit is a map of times under a mutex.
func BenchmarkDebounce(b *testing.B) {
	events := make([]bus.Event, 100)
	for i := range events {
		events[i] = bus.Event{Topic: fmt.Sprint("sensor/", i), Seq: uint64(i + 1)}
	}
	fire := bg.When(func(context.Context, bus.Event) (any, bool, error) { return true, true, nil })
	for _, edge := range []string{"leading", "trailing", "both"} {
		b.Run("edged/"+edge, func(b *testing.B) {
			w := timer.New()
			defer w.Close()
			t := must(bg.Debounce(fire, time.Hour, bg.DebounceOptions{Edge: must(bg.ParseEdge(edge)), Key: bg.ByTopic}))
			hear, stop := t.Open(bg.Outlet{Timers: w, Emit: func(bus.Event, any) {}})
			defer stop()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				hear(b.Context(), events[i%100])
			}
		})
	}
	b.Run("limit", func(b *testing.B) {
		var mu sync.Mutex
		last := map[string]time.Time{}
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			now, key := time.Now(), events[i%100].Topic
			mu.Lock()
			if now.Sub(last[key]) >= time.Hour {
				last[key] = now
			}
			mu.Unlock()
		}
	})
}
