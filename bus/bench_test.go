package bus_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"edged/bus"
)

// cow is the limit: topic → callbacks behind one atomic pointer, called inline.
type cow struct {
	m atomic.Pointer[map[string][]func(string, any)]
}

func (c *cow) sub(topic string, fn func(string, any)) {
	n := map[string][]func(string, any){}
	if o := c.m.Load(); o != nil {
		for k, v := range *o {
			n[k] = v
		}
	}
	n[topic] = append(n[topic], fn)
	c.m.Store(&n)
}

func (c *cow) pub(topic string, v any) {
	for _, fn := range (*c.m.Load())[topic] {
		fn(topic, v)
	}
}

// channels is the limit for queues: topic → bounded channels, each with a
// goroutine that calls the handler.
type channels map[string][]chan message

type message struct {
	topic string
	v     any
}

func (c channels) sub(topic string, limit int, fn func(string, any)) {
	ch := make(chan message, limit)
	c[topic] = append(c[topic], ch)
	go func() {
		for m := range ch {
			fn(m.topic, m.v)
		}
	}()
}

func (c channels) pub(topic string, v any) {
	for _, ch := range c[topic] {
		ch <- message{topic, v}
	}
}

func (c channels) close() {
	for _, chs := range c {
		for _, ch := range chs {
			close(ch)
		}
	}
}

var reading any = 31.5

// BenchmarkPublish: publish → one handler inside the bus, exact topic.
func BenchmarkPublish(b *testing.B) {
	ctx := context.Background()
	b.Run("limit", func(b *testing.B) {
		var c cow
		var n atomic.Int64
		for i := range 64 {
			c.sub(fmt.Sprintf("home/room%d/temp", i), func(string, any) { n.Add(1) })
		}
		b.ReportAllocs()
		for b.Loop() {
			c.pub("home/room7/temp", reading)
		}
	})
	b.Run("edged", func(b *testing.B) {
		x := bus.New(bus.Options{})
		var n atomic.Int64
		for i := range 64 {
			x.Tap(fmt.Sprintf("home/room%d/temp", i), func(bus.Event) { n.Add(1) })
		}
		b.ReportAllocs()
		for b.Loop() {
			x.Publish(ctx, "bench", "home/room7/temp", reading)
		}
		if n.Load() == 0 {
			b.Fatal("nothing was delivered")
		}
	})
	b.Run("edged-wildcard-1-of-1000", func(b *testing.B) {
		x := bus.New(bus.Options{})
		var n atomic.Int64
		for i := range 1000 {
			x.Tap(fmt.Sprintf("home/+/s%d", i), func(bus.Event) { n.Add(1) })
		}
		topics := make([]string, 64)
		for i := range topics {
			topics[i] = fmt.Sprintf("home/room%d/s%d", i%8, i*13)
		}
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			x.Publish(ctx, "bench", topics[i&63], reading)
			i++
		}
	})
}

// BenchmarkQueue: publish → bounded queue → handler on its own goroutine. At
// most 1,024 events are outstanding, so that neither side hides a backlog.
func BenchmarkQueue(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // as the program does at start
	const limit = 1024
	run := func(b *testing.B, pub func(), n *atomic.Int64) {
		b.ReportAllocs()
		var sent int64
		for b.Loop() {
			for sent&127 == 0 && sent-n.Load() > limit-256 {
				runtime.Gosched()
			}
			pub()
			sent++
		}
		for n.Load() < sent {
			runtime.Gosched()
		}
	}
	b.Run("limit", func(b *testing.B) {
		c := channels{}
		var n atomic.Int64
		c.sub("home/room7/temp", limit, func(string, any) { n.Add(1) })
		run(b, func() { c.pub("home/room7/temp", reading) }, &n)
		c.close()
	})
	b.Run("edged", func(b *testing.B) {
		x := bus.New(bus.Options{})
		var n atomic.Int64
		ctx := context.Background()
		s, _ := x.Subscribe("home/room7/temp", bus.Queue{Limit: limit})
		go func() {
			for range s.All(ctx) {
				n.Add(1)
			}
		}()
		run(b, func() { x.Publish(ctx, "bench", "home/room7/temp", reading) }, &n)
		x.Close(ctx)
	})
	b.Run("edged-handle", func(b *testing.B) { // the same with a context per event, which names the cause
		x := bus.New(bus.Options{})
		var n atomic.Int64
		x.Handle("home/room7/temp", bus.Queue{Limit: limit}, func(context.Context, bus.Event) error {
			n.Add(1)
			return nil
		})
		ctx := context.Background()
		run(b, func() { x.Publish(ctx, "bench", "home/room7/temp", reading) }, &n)
		x.Close(ctx)
	})
}

// BenchmarkLatency: publish call → handler entry, one event per 500 µs. The
// channel and the bus take turns, for the machine's mood changes by the second.
func BenchmarkLatency(b *testing.B) {
	base := time.Now()
	now := func() int64 { return time.Since(base).Nanoseconds() }
	var (
		edged, limit []int64
		left         sync.WaitGroup
	)
	c := channels{}
	c.sub("t", 1024, func(_ string, v any) {
		limit = append(limit, now()-v.(int64))
		left.Done()
	})
	x := bus.New(bus.Options{})
	x.Handle("t", bus.Queue{Limit: 1024}, func(_ context.Context, e bus.Event) error {
		edged = append(edged, now()-e.Payload().(int64))
		left.Done()
		return nil
	})
	ctx := context.Background()
	for b.Loop() {
		left.Add(1)
		time.Sleep(500 * time.Microsecond)
		if rand.IntN(2) == 0 {
			c.pub("t", now())
		} else {
			x.Publish(ctx, "bench", "t", now())
		}
	}
	left.Wait()
	x.Close(ctx)
	c.close()
	at := func(l []int64, percent int) float64 {
		slices.Sort(l)
		return float64(l[len(l)*percent/100])
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(at(edged, 50), "p50-ns")
	b.ReportMetric(at(edged, 99), "p99-ns")
	b.ReportMetric(at(limit, 50), "limit-p50-ns")
	b.ReportMetric(at(limit, 99), "limit-p99-ns")
}
