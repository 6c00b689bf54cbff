package hw

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"edged/bus"
)

// clocked is an actuator that notes when it came to rest.
type clocked struct {
	name string
	at   atomic.Int64
	all  *sync.WaitGroup
}

func (c *clocked) Name() string                              { return c.name }
func (c *clocked) Do(context.Context, json.RawMessage) error { return nil }
func (c *clocked) Rest(context.Context) error {
	if c.at.CompareAndSwap(0, time.Now().UnixNano()) {
		c.all.Done()
	}
	return nil
}

// BenchmarkStop measures from the call of Stop to the last of 20 actuators at
// rest: on an idle machine, and beside goroutines that never stop computing.
// The limit is the same number of bare goroutines.
func BenchmarkStop(b *testing.B) {
	for _, hogs := range []int{0, runtime.GOMAXPROCS(0), 8 * runtime.GOMAXPROCS(0)} {
		b.Run(fmt.Sprintf("edged/hogs=%d", hogs), func(b *testing.B) { benchStop(b, hogs, stopRig) })
		b.Run(fmt.Sprintf("limit/hogs=%d", hogs), func(b *testing.B) { benchStop(b, hogs, stopBare) })
	}
}

func benchStop(b *testing.B, hogs int, prepare func(b *testing.B, all []*clocked) (stop func(), again func())) {
	var done sync.WaitGroup
	var all []*clocked
	for i := range 20 {
		all = append(all, &clocked{name: fmt.Sprint("m", i), all: &done})
	}
	stop, again := prepare(b, all)
	var quit atomic.Bool
	var load sync.WaitGroup
	for range hogs {
		load.Go(func() {
			for x := uint64(1); !quit.Load(); x ^= x << 13 {
				x *= 3
			}
		})
	}
	var took []time.Duration
	for b.Loop() {
		again()
		done.Add(len(all))
		for _, c := range all {
			c.at.Store(0)
		}
		began := time.Now()
		stop()
		done.Wait()
		last := int64(0)
		for _, c := range all {
			last = max(last, c.at.Load())
		}
		took = append(took, time.Duration(last-began.UnixNano()))
	}
	quit.Store(true)
	load.Wait()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

func stopRig(b *testing.B, all []*clocked) (stop, again func()) {
	bs := bus.New(bus.Options{})
	r, err := NewRig(bs, Options{})
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range all {
		if err := r.AddActuator(c, duty); err != nil {
			b.Fatal(err)
		}
	}
	b.Cleanup(func() {
		r.Close()
		_ = bs.Close(context.Background())
	})
	ctx := context.Background()
	return func() { r.Trip(ctx, "bench", "bench") }, func() {
		r.Resume(ctx, "bench")
		for _, c := range all {
			if err := r.Do(ctx, "bench", c.name, map[string]any{"duty": 0.5}); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func stopBare(_ *testing.B, all []*clocked) (stop, again func()) {
	return func() {
		for _, c := range all {
			go func() { _ = c.Rest(context.Background()) }()
		}
	}, func() {}
}
