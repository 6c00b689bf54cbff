package background_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	bg "edged/background"
	"edged/bus"
)

// chaos is a service that does, at random, whatever a service can do wrong.
type chaos struct {
	seed    uint64
	runs    atomic.Int32
	running atomic.Int32
	total   *atomic.Int32
	broken  *atomic.Bool // the rule that it runs once at a time
}

func (c *chaos) random() *rand.Rand {
	return rand.New(rand.NewPCG(c.seed, uint64(c.runs.Add(1))))
}

func (c *chaos) Start(ctx context.Context) error {
	r := c.random()
	if c.runs.Load() == 1 && r.IntN(8) > 0 {
		return nil // most trees get to live
	}
	switch r.IntN(12) {
	case 0:
		return errBoom
	case 1:
		panic("in Start")
	case 2:
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(r.IntN(2000)) * time.Millisecond):
		}
	}
	return nil
}

func (c *chaos) Serve(ctx context.Context) error {
	if c.running.Add(1) > 1 {
		c.broken.Store(true)
	}
	c.total.Add(1)
	defer c.total.Add(-1)
	defer c.running.Add(-1)
	r := c.random()
	select {
	case <-ctx.Done():
		if r.IntN(4) == 0 { // takes its time, at times more than it has
			time.Sleep(time.Duration(r.IntN(1500)) * time.Millisecond)
		}
		return ctx.Err()
	case <-time.After(time.Duration(r.IntN(5000)) * time.Millisecond):
	}
	switch r.IntN(6) {
	case 0:
		return nil
	case 1:
		panic("in Serve")
	case 2:
		runtime.Goexit()
	case 3:
		return bg.ErrShutdown
	}
	return errBoom
}

// grow makes a random tree and counts its services.
func grow(r *rand.Rand, b *bus.Bus, name string, depth int, mk func() *chaos) *bg.Supervisor {
	o := bg.Options{
		Strategy: bg.Strategy(r.IntN(3)), MaxRestarts: r.IntN(6) - 1, Window: time.Duration(1+r.IntN(10)) * time.Second,
		AutoShutdown: bg.AutoShutdown(r.IntN(3)), Bus: b,
	}
	var children []bg.Child
	for i := range 1 + r.IntN(4) {
		c := bg.Child{
			Name: fmt.Sprint(name, ".", i), Restart: bg.Restart(r.IntN(4)), Shutdown: time.Second,
			Backoff: time.Duration(r.IntN(3)) * 200 * time.Millisecond, MaxBackoff: time.Second,
		}
		if depth > 0 && r.IntN(3) == 0 {
			c.Service = grow(r, nil, c.Name, depth-1, mk)
		} else {
			c.Service = mk()
			c.Significant = c.Restart != bg.Permanent && r.IntN(4) == 0
		}
		children = append(children, c)
	}
	return bg.NewSupervisor(name, o, children...)
}

// seeds is how many random runs to make: many more in a slow run.
func seeds(n uint64) uint64 {
	if os.Getenv("EDGED_SLOW") == "1" {
		return 20 * n
	}
	return n
}

// TestRandomTrees lets random trees with random faults live for a while and
// stops them. A goroutine that is left over keeps its bubble from ending and
// fails the test.
func TestRandomTrees(t *testing.T) {
	for seed := range seeds(1000) {
		synctest.Test(t, func(t *testing.T) { randomTree(t, seed) })
		if t.Failed() {
			t.Fatalf("with seed %d", seed)
		}
	}
}

func randomTree(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0))
	var total atomic.Int32
	var broken atomic.Bool
	b := bus.New(bus.Options{})
	services := uint64(0)
	tree := grow(r, b, "root", 3, func() *chaos {
		services++
		return &chaos{seed: seed<<16 + services, total: &total, broken: &broken}
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 1 + r.IntN(2) { // one life or two
		_ = tree.Start(ctx) // it may fail; then it is down
		for range r.IntN(4) {
			time.Sleep(time.Duration(r.IntN(4000)) * time.Millisecond)
			name := fmt.Sprint("root.", r.IntN(4))
			switch r.IntN(4) { // by hand; any of these may fail
			case 0:
				_ = tree.StopChild(ctx, name)
			case 1:
				_ = tree.StartChild(ctx, name)
			case 2:
				_ = tree.Remove(ctx, name)
			case 3:
				_ = tree.Add(ctx, bg.Child{Name: name, Service: &chaos{seed: seed<<16 + 1<<15, total: &total, broken: &broken}})
			}
			tree.Status()
		}
		if r.IntN(3) == 0 {
			cancel()
		}
		if err := tree.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if st := tree.Status().State; st != bg.Stopped && st != bg.Failed {
			t.Errorf("after the stop the tree is %s", st)
		}
	}
	time.Sleep(10 * time.Second) // longer than anybody ignores a stop
	synctest.Wait()
	if n := total.Load(); n != 0 {
		t.Errorf("%d services run after the stop", n)
	}
	if broken.Load() {
		t.Error("a service ran twice at a time")
	}
	if err := b.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
