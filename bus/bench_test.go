package bus_test

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
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
		type msg struct {
			topic string
			v     any
		}
		ch := make(chan msg, limit)
		var n atomic.Int64
		go func() {
			for range ch {
				n.Add(1)
			}
		}()
		run(b, func() { ch <- msg{"home/room7/temp", reading} }, &n)
		close(ch)
	})
	b.Run("edged", func(b *testing.B) {
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
	b.Run("edged-pull", func(b *testing.B) { // the same with a goroutine of the caller's, and no context per event
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
}

// BenchmarkLatency: publish call → handler, one event per 500 µs.
func BenchmarkLatency(b *testing.B) {
	run := func(b *testing.B, pub func(sent int64), heard chan int64) {
		pace := time.NewTicker(500 * time.Microsecond)
		defer pace.Stop()
		base := time.Now()
		var lat []int64
		for b.Loop() {
			<-pace.C
			sent := time.Since(base).Nanoseconds()
			pub(sent)
			<-heard
			lat = append(lat, time.Since(base).Nanoseconds()-sent)
		}
		slices.Sort(lat)
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(float64(lat[len(lat)/2]), "p50-ns")
		b.ReportMetric(float64(lat[len(lat)*99/100]), "p99-ns")
	}
	b.Run("limit", func(b *testing.B) {
		ch, heard := make(chan int64, 1024), make(chan int64, 1)
		go func() {
			for v := range ch {
				heard <- v
			}
		}()
		run(b, func(sent int64) { ch <- sent }, heard)
		close(ch)
	})
	b.Run("edged", func(b *testing.B) {
		x := bus.New(bus.Options{})
		heard := make(chan int64, 1)
		ctx := context.Background()
		x.Handle("t", bus.Queue{Limit: 1024}, func(_ context.Context, e bus.Event) error {
			heard <- e.Payload().(int64)
			return nil
		})
		run(b, func(sent int64) { x.Publish(ctx, "bench", "t", sent) }, heard)
		x.Close(ctx)
	})
}
