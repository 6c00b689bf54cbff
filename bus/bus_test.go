package bus_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"edged/bus"
)

func topics(events []bus.Event) []string {
	var out []string
	for _, e := range events {
		out = append(out, e.Topic)
	}
	return out
}

// next takes one event, and waits for it with an end.
func next(t testing.TB, s *bus.Subscription) bus.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	e, err := s.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// drainAll takes what is queued now.
func drainAll(t testing.TB, s *bus.Subscription) []bus.Event {
	t.Helper()
	var out []bus.Event
	for s.Len() > 0 {
		out = append(out, next(t, s))
	}
	return out
}

func TestOneOrderForAll(t *testing.T) {
	b := bus.New(bus.Options{})
	const publishers, each = 8, 500
	var heard [3][]uint64
	var mu sync.Mutex
	var done sync.WaitGroup
	for i := range heard {
		done.Add(publishers * each)
		b.Handle("n/#", bus.Queue{Limit: publishers * each}, func(_ context.Context, e bus.Event) error {
			mu.Lock()
			heard[i] = append(heard[i], e.Seq)
			mu.Unlock()
			done.Done()
			return nil
		})
	}
	var wg sync.WaitGroup
	for p := range publishers {
		wg.Go(func() {
			last := uint64(0)
			for i := range each {
				e, err := b.Publish(context.Background(), "test", fmt.Sprintf("n/%d", p), i)
				if err != nil {
					t.Error(err)
				}
				if e.Seq <= last {
					t.Errorf("seq %d after %d", e.Seq, last)
				}
				last = e.Seq
			}
		})
	}
	wg.Wait()
	heardAll := make(chan struct{})
	go func() { done.Wait(); close(heardAll) }()
	select {
	case <-heardAll:
	case <-time.After(5 * time.Second): // not all was heard; what was is told below
	}
	mu.Lock()
	defer mu.Unlock()
	for i := range heard {
		if !slices.IsSorted(heard[i]) || len(heard[i]) != publishers*each {
			t.Errorf("subscription %d heard %d events, sorted %v; want %d in order", i, len(heard[i]), slices.IsSorted(heard[i]), publishers*each)
		}
		if !slices.Equal(heard[i], heard[0]) {
			t.Errorf("subscriptions 0 and %d heard different orders", i)
		}
	}
}

func TestPublishInTapComesAfter(t *testing.T) {
	b := bus.New(bus.Options{})
	var got []string
	b.Tap("a", func(e bus.Event) {
		b.Publish(bus.WithCause(t.Context(), e), "test", "b", nil)
		got = append(got, "first:a")
	})
	b.Tap("+", func(e bus.Event) { got = append(got, "second:"+e.Topic) })
	e, _ := b.Publish(t.Context(), "test", "a", nil)
	want := []string{"first:a", "second:a", "second:b"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if e.Seq != 1 || b.Seq() != 2 {
		t.Errorf("seq of a is %d and the last %d; want 1 and 2", e.Seq, b.Seq())
	}
}

func TestStageKeepsOrder(t *testing.T) {
	b := bus.New(bus.Options{})
	var got []string
	b.Tap("#", func(e bus.Event) { got = append(got, e.Topic) })
	b.Stage(t.Context(), "test", "one", nil)
	b.Stage(t.Context(), "test", "two", nil)
	if len(got) != 0 {
		t.Fatalf("staged events were delivered: %v", got)
	}
	b.Publish(t.Context(), "test", "three", nil)
	b.Stage(t.Context(), "test", "four", nil)
	b.Deliver()
	b.Deliver()
	if want := []string{"one", "two", "three", "four"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestOverflow(t *testing.T) {
	sum := func(q, n bus.Event) bus.Event { return n }
	for _, c := range []struct {
		name    string
		q       bus.Queue
		publish string
		want    string
		lost    uint64
		merged  uint64
	}{
		{"drop oldest", bus.Queue{Limit: 3}, "a b c d e", "c d e", 2, 0},
		{"drop new", bus.Queue{Limit: 3, Overflow: bus.DropNew}, "a b c d e", "a b c", 2, 0},
		{"latest keeps place", bus.Queue{Limit: 3, Overflow: bus.Latest}, "a b a c b", "a b c", 0, 2},
		{"latest drops oldest topic", bus.Queue{Limit: 2, Overflow: bus.Latest}, "a b c a", "c a", 2, 0},
		{"collapse only when full", bus.Queue{Limit: 3, Overflow: bus.Collapse, Merge: sum}, "a a b a b", "a a b", 0, 2},
		{"collapse loses no topic", bus.Queue{Limit: 1, Overflow: bus.Collapse, Merge: sum}, "a b c a", "a b c", 0, 1},
		{"predicate before queue", bus.Queue{Limit: 2, Where: func(e bus.Event) bool { return e.Topic != "x" }}, "a x x x x x b", "a b", 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := bus.New(bus.Options{})
			s, err := b.Subscribe("+", c.q)
			if err != nil {
				t.Fatal(err)
			}
			for _, topic := range strings.Fields(c.publish) {
				b.Publish(t.Context(), "test", topic, nil)
			}
			st := s.Stats()
			if got := strings.Join(topics(drainAll(t, s)), " "); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if s.Dropped() != c.lost || st.Replaced != c.merged {
				t.Errorf("dropped %d, replaced %d; want %d, %d", s.Dropped(), st.Replaced, c.lost, c.merged)
			}
		})
	}
}

// TestQueueModel draws random queues and holds them against slices.
func TestQueueModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 5).Draw(t, "limit")
		policy := rapid.SampledFrom([]bus.Overflow{bus.DropOldest, bus.DropNew, bus.Latest}).Draw(t, "policy")
		b := bus.New(bus.Options{})
		s, _ := b.Subscribe("+", bus.Queue{Limit: limit, Overflow: policy})
		soon := func() bus.Event {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			e, err := s.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		var model []bus.Event
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "take") && len(model) > 0 {
				if e := soon(); e.Seq != model[0].Seq {
					t.Fatalf("took seq %d, want %d", e.Seq, model[0].Seq)
				}
				model = model[1:]
				continue
			}
			e, _ := b.Publish(context.Background(), "t", rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "topic"), nil)
			at := slices.IndexFunc(model, func(q bus.Event) bool { return policy == bus.Latest && q.Topic == e.Topic })
			switch {
			case at >= 0:
				model[at] = e
			case len(model) < limit:
				model = append(model, e)
			case policy != bus.DropNew:
				model = append(model[1:], e)
			}
		}
		if s.Len() != len(model) {
			t.Fatalf("%d queued, want %d", s.Len(), len(model))
		}
		for _, want := range model {
			if e := soon(); e.Seq != want.Seq {
				t.Fatalf("took seq %d, want %d", e.Seq, want.Seq)
			}
		}
	})
}

func TestRetainedAndReplay(t *testing.T) {
	b := bus.New(bus.Options{})
	b.Retain(t.Context(), "test", "lamp/a", "on")
	b.Retain(t.Context(), "test", "lamp/b", "on")
	b.Retain(t.Context(), "test", "lamp/a", "off")
	b.Retain(t.Context(), "test", "lamp/b", nil)
	b.Publish(t.Context(), "test", "lamp/c", "on")
	s, _ := b.Subscribe("lamp/#", bus.Queue{Replay: true})
	live, _ := b.Subscribe("lamp/#", bus.Queue{})
	b.Publish(t.Context(), "test", "lamp/a", "dim")
	var got []string
	for _, e := range drainAll(t, s) {
		got = append(got, fmt.Sprint(e.Topic, "=", e.Payload(), " ", e.Retained))
	}
	if want := []string{"lamp/a=off true", "lamp/a=dim false"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if live.Len() != 1 {
		t.Errorf("a subscription without replay has %d events, want 1", live.Len())
	}
	if r := b.Retained("#"); len(r) != 1 || r[0].Payload() != "off" {
		t.Errorf("retained %v, want lamp/a=off alone", r)
	}
}

func TestCauseHopsAndTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{})
		defer b.Close(t.Context())
		got := make(chan bus.Event, 1)
		b.Handle("a", bus.Queue{}, func(ctx context.Context, e bus.Event) error {
			_, err := b.Publish(ctx, "one", "b", nil)
			return err
		})
		b.Handle("b", bus.Queue{}, func(ctx context.Context, e bus.Event) error {
			_, err := b.Publish(ctx, "two", "c", nil)
			return err
		})
		b.Handle("c", bus.Queue{}, func(_ context.Context, e bus.Event) error { got <- e; return nil })
		time.Sleep(90 * time.Minute)
		first, _ := b.Publish(t.Context(), "test", "a", nil)
		synctest.Wait()
		if len(got) == 0 {
			t.Fatal("the last of the chain did not come")
		}
		e := <-got
		if e.Cause != first.Seq+1 || e.Hops != 2 || e.Source != "two" {
			t.Errorf("cause %d hops %d source %s; want %d 2 two", e.Cause, e.Hops, e.Source, first.Seq+1)
		}
		if want := time.Date(2000, 1, 1, 1, 30, 0, 0, time.UTC); !e.Time().Equal(want) {
			t.Errorf("time %v, want %v", e.Time(), want)
		}
	})
}

func TestHandlerFailureIsAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{})
		defer b.Close(t.Context())
		errs, _ := b.Subscribe(bus.ErrorTopic, bus.Queue{})
		ok := 0
		b.Handle("t", bus.Queue{Name: "fragile"}, func(_ context.Context, e bus.Event) error {
			switch e.Payload() {
			case "fail":
				return errors.New("no")
			case "panic":
				panic("oh")
			}
			ok++
			return nil
		})
		b.Tap("t", func(e bus.Event) {
			if e.Payload() == "tap" {
				panic("in tap")
			}
		})
		for _, p := range []string{"fail", "panic", "tap", "fine"} {
			b.Publish(t.Context(), "test", "t", p)
			synctest.Wait()
		}
		var got []string
		for _, e := range drainAll(t, errs) {
			m := e.Payload().(map[string]any)
			got = append(got, fmt.Sprintf("%v %v %v", m["source"], m["error"], m["backtrace"] != nil))
		}
		want := []string{"fragile no false", "fragile panic: oh true", " panic: in tap true"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if ok != 2 {
			t.Errorf("%d events were handled after failures, want 2", ok)
		}
	})
}

func TestClose(t *testing.T) {
	t.Run("unsubscribe twice, from the handler", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := bus.New(bus.Options{})
			n := 0
			var s *bus.Subscription
			s, _ = b.Handle("t", bus.Queue{}, func(context.Context, bus.Event) error { n++; s.Close(); s.Close(); return nil })
			for range 3 {
				b.Publish(t.Context(), "test", "t", nil)
			}
			synctest.Wait()
			if n != 1 || len(b.Stats().Subscriptions) != 0 {
				t.Errorf("%d calls and %d subscriptions, want 1 and 0", n, len(b.Stats().Subscriptions))
			}
			b.Close(t.Context())
		})
	})
	t.Run("drain", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := bus.New(bus.Options{})
			n := 0
			b.Handle("t", bus.Queue{}, func(context.Context, bus.Event) error { time.Sleep(time.Second); n++; return nil })
			for range 5 {
				b.Publish(t.Context(), "test", "t", nil)
			}
			if err := b.Close(t.Context()); err != nil || n != 5 {
				t.Errorf("closed with %v after %d of 5", err, n)
			}
			if _, err := b.Publish(t.Context(), "test", "t", nil); !errors.Is(err, bus.ErrClosed) {
				t.Errorf("publish after close: %v, want ErrClosed", err)
			}
		})
	})
	t.Run("deadline", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := bus.New(bus.Options{})
			n := 0
			b.Handle("t", bus.Queue{}, func(ctx context.Context, _ bus.Event) error {
				n++
				<-ctx.Done()
				return nil
			})
			for range 5 {
				b.Publish(t.Context(), "test", "t", nil)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			start := time.Now()
			if err := b.Close(ctx); err != nil || n != 1 || time.Since(start) != 2*time.Second {
				t.Errorf("closed with %v after %d events and %v; want nil, 1, 2s", err, n, time.Since(start))
			}
		})
	})
}

func TestPublishNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{Pending: 10})
		release := make(chan bool)
		b.Tap("slow", func(bus.Event) { <-release }) // a tap that breaks its promise
		go b.Publish(t.Context(), "test", "slow", nil)
		synctest.Wait()
		var err error
		n := 0
		for ; err == nil; n++ {
			_, err = b.Publish(t.Context(), "test", "x", nil)
		}
		if n != 11 || !errors.Is(err, bus.ErrOverload) {
			t.Errorf("publish %d gave %v, want ErrOverload at 11", n, err)
		}
		got, _ := b.Subscribe("x", bus.Queue{})
		close(release)
		synctest.Wait()
		if got.Len() != 10 || b.Stats().Overload != 1 {
			t.Errorf("%d delivered, %d refused; want 10, 1", got.Len(), b.Stats().Overload)
		}
		b.Close(t.Context())
	})
}

func TestWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{})
		defer b.Close(t.Context())
		b.Handle("a", bus.Queue{}, func(ctx context.Context, e bus.Event) error {
			_, err := b.Publish(ctx, "x", "b", nil)
			return err
		})
		s, _ := b.Subscribe("+", bus.Queue{})
		b.Publish(bus.WithRun(t.Context(), "scout"), "x", "a", nil)
		b.Publish(t.Context(), "x", "c", nil)
		synctest.Wait()
		for _, e := range drainAll(t, s) {
			if got, want := e.Within("scout"), e.Topic != "c"; got != want || e.Within("other") {
				t.Errorf("%s within scout: %v, want %v", e.Topic, got, want)
			}
		}
	})
}

func TestNoAllocation(t *testing.T) {
	b := bus.New(bus.Options{})
	b.Tap("home/+/temp", func(bus.Event) {})
	b.Tap("home/kitchen/temp", func(bus.Event) {})
	var v any = 31.5
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() { b.Publish(ctx, "test", "home/kitchen/temp", v) }); n != 0 {
		t.Errorf("%v allocations per publish, want 0", n)
	}
}

func TestManyTopicsStayBounded(t *testing.T) {
	b := bus.New(bus.Options{Topics: 64})
	n := 0
	b.Tap("net/#", func(bus.Event) { n++ })
	for i := range 1000 {
		b.Publish(t.Context(), "test", fmt.Sprintf("net/%d", i), nil)
		b.Publish(t.Context(), "test", "net/hot", nil)
	}
	if n != 2000 {
		t.Errorf("%d delivered, want 2000", n)
	}
}

// TestPauseLosesNothing swaps a subscription under load: each event is heard
// by exactly one of the two.
func TestPauseLosesNothing(t *testing.T) {
	b := bus.New(bus.Options{})
	const n = 20000
	var heard [2 * n]atomic.Int32
	listen := func() *bus.Subscription {
		s, _ := b.Tap("t", func(e bus.Event) { heard[e.Payload().(int64)].Add(1) })
		return s
	}
	s := listen()
	var wg sync.WaitGroup
	for p := range 2 {
		wg.Go(func() {
			for i := range n {
				if _, err := b.Publish(context.Background(), "test", "t", p*n+i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 50 {
		resume := b.Pause()
		s.Close()
		s = listen()
		resume()
		resume()
	}
	wg.Wait()
	b.Close(t.Context())
	for i := range heard {
		if got := heard[i].Load(); got != 1 {
			t.Fatalf("event %d was heard %d times", i, got)
		}
	}
}

// TestStageUnderALock is the law that the blackboard stands on: who stages
// under a lock and delivers after it gives events in the order of the lock,
// however many publish beside.
func TestStageUnderALock(t *testing.T) {
	b := bus.New(bus.Options{})
	var got []int64
	b.Tap("n", func(e bus.Event) { got = append(got, e.Payload().(int64)) })
	others := 0
	b.Tap("other", func(bus.Event) { others++ })
	var mu sync.Mutex
	n, each := int64(0), 2000
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range each {
				mu.Lock()
				n++
				b.Stage(context.Background(), "test", "n", n)
				if n%7 == 0 {
					n++
					b.Stage(context.Background(), "test", "n", n)
				}
				mu.Unlock()
				b.Deliver()
				b.Publish(context.Background(), "test", "other", nil)
			}
		})
	}
	for range 20 {
		b.Pause()()
	}
	wg.Wait()
	b.Close(t.Context())
	if int64(len(got)) != n || !slices.IsSorted(got) || others != 4*each {
		t.Errorf("%d of %d staged events, sorted %v, %d of %d others", len(got), n, slices.IsSorted(got), others, 4*each)
	}
}
