package bus_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"edged/bus"
)

// The rules of delivery, against a model that says them in a few lines: a
// subscription gets what matches, what Where lets in and what was published
// between its beginning and its end, in order, each once; before that, with
// Replay, the kept ones of its topics; and nothing once it is closed.
func TestDeliveryRules(t *testing.T) {
	topics := []string{"a", "a/b", "a/c", "b"}
	filters := []string{"a", "a/+", "a/#", "#", "b"}
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			b := bus.New(bus.Options{})
			defer b.Close(context.Background())
			type listener struct {
				sub        *bus.Subscription
				want       []string
				got        []string
				closed     bool
				filter     string
				odd, pulls bool
			}
			var mu sync.Mutex // guards got and closed
			var all []*listener
			kept := map[string]int{}
			var order []string // of kept, by time
			show := func(topic string, n int, retained bool) string { return fmt.Sprint(topic, " ", n, " ", retained) }
			lets := func(l *listener, n int) bool { return !l.odd || n%2 == 1 }
			note := func(l *listener, e bus.Event) {
				mu.Lock()
				defer mu.Unlock()
				if l.closed {
					rt.Errorf("%s was given out after Close had returned", e.Topic)
				}
				l.got = append(l.got, show(e.Topic, int(e.Payload().(int64)), e.Retained))
			}
			n := 0
			rt.Repeat(map[string]func(*rapid.T){
				"publish": func(rt *rapid.T) {
					n++
					topic, keep := rapid.SampledFrom(topics).Draw(rt, "topic"), rapid.Bool().Draw(rt, "keep")
					publish := b.Publish
					if keep {
						publish = b.Retain
						kept[topic] = n
						order = append(slices.DeleteFunc(order, func(o string) bool { return o == topic }), topic)
					}
					if _, err := publish(context.Background(), "test", topic, n); err != nil {
						rt.Fatal(err)
					}
					for _, l := range all {
						if !l.closed && bus.Match(l.filter, topic) && lets(l, n) {
							l.want = append(l.want, show(topic, n, false))
						}
					}
				},
				"subscribe": func(rt *rapid.T) {
					l := &listener{filter: rapid.SampledFrom(filters).Draw(rt, "filter"), odd: rapid.Bool().Draw(rt, "odd"), pulls: rapid.Bool().Draw(rt, "pulls")}
					q := bus.Queue{Limit: 1000, Replay: rapid.Bool().Draw(rt, "replay")}
					if l.odd {
						q.Where = func(e bus.Event) bool { return e.Payload().(int64)%2 == 1 }
					}
					if q.Replay {
						for _, topic := range order {
							if bus.Match(l.filter, topic) && lets(l, kept[topic]) {
								l.want = append(l.want, show(topic, kept[topic], true))
							}
						}
					}
					var err error
					if l.pulls {
						if l.sub, err = b.Subscribe(l.filter, q); err == nil {
							go func() {
								for e := range l.sub.All(context.Background()) {
									note(l, e)
								}
							}()
						}
					} else {
						l.sub, err = b.Handle(l.filter, q, func(_ context.Context, e bus.Event) error { note(l, e); return nil })
					}
					if err != nil {
						rt.Fatal(err)
					}
					all = append(all, l)
				},
				"close": func(rt *rapid.T) {
					if len(all) == 0 {
						return
					}
					l := all[rapid.IntRange(0, len(all)-1).Draw(rt, "which")]
					synctest.Wait()
					l.sub.Close()
					mu.Lock()
					l.closed = true
					mu.Unlock()
				},
				"": func(rt *rapid.T) {
					synctest.Wait()
					mu.Lock()
					defer mu.Unlock()
					for i, l := range all {
						if !slices.Equal(l.got, l.want) {
							rt.Fatalf("subscription %d to %s: got %v, want %v", i, l.filter, l.got, l.want)
						}
					}
				},
			})
		})
	})
}

// Where is asked for kept events, while others are published: they come first
// all the same, and the bound of the queue holds for them.
func TestReplayAsksWhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{})
		defer b.Close(t.Context())
		for i := range 5 {
			if _, err := b.Retain(t.Context(), "test", fmt.Sprint("k/", i), i); err != nil {
				t.Fatal(err)
			}
		}
		asked := make(chan struct{})
		free := make(chan struct{})
		var sub *bus.Subscription
		go func() {
			var err error
			sub, err = b.Subscribe("k/#", bus.Queue{Limit: 4, Replay: true, Where: func(e bus.Event) bool {
				if e.Topic == "k/0" && e.Retained {
					close(asked)
					<-free
				}
				return e.Topic != "k/2"
			}})
			if err != nil {
				t.Error(err)
			}
			close(free)
		}()
		<-asked
		if _, err := b.Publish(t.Context(), "test", "k/9", 9); err != nil {
			t.Fatal(err)
		}
		free <- struct{}{}
		<-free
		var got []string
		for _, e := range drainAll(t, sub) {
			got = append(got, fmt.Sprint(e.Topic, " ", e.Retained))
		}
		// 0, 1, 3, 4 and 9 are five for a queue of four.
		if want := []string{"k/1 true", "k/3 true", "k/4 true", "k/9 false"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if st := sub.Stats(); st.Refused != 1 || st.DropOldest != 1 {
			t.Errorf("got %d refused and %d dropped, want 1 and 1", st.Refused, st.DropOldest)
		}
		// With one slot per topic the newer one stands.
		newest, err := b.Subscribe("k/#", bus.Queue{Overflow: bus.Latest, Replay: true, Where: func(e bus.Event) bool {
			if e.Topic == "k/4" && e.Retained {
				_, _ = b.Publish(t.Context(), "test", "k/4", 44)
			}
			return e.Topic == "k/3" || e.Topic == "k/4"
		}})
		if err != nil {
			t.Fatal(err)
		}
		if list := drainAll(t, newest); len(list) != 2 || list[0].Payload() != int64(3) || list[1].Payload() != int64(44) {
			t.Errorf("got %v, want 3 and 44", list)
		}
		if st := newest.Stats(); st.Replaced != 1 || st.Refused != 3 || st.DropOldest != 0 {
			t.Errorf("got %+v, want 1 replaced and 3 refused", st)
		}
	})
}

// Close may come at any moment of a worker and a publisher: what was taken is
// what the handler saw, the rest is counted as discarded, and at most the one
// that was on its way to the handler gets there.
func TestCloseAtAnyMoment(t *testing.T) {
	for range 2000 {
		b := bus.New(bus.Options{})
		var calls, after atomic.Uint64
		var over atomic.Bool
		s, err := b.Handle("x", bus.Queue{}, func(context.Context, bus.Event) error {
			calls.Add(1)
			if over.Load() {
				after.Add(1)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		var publisher sync.WaitGroup
		publisher.Go(func() {
			for i := range 50 {
				_, _ = b.Publish(context.Background(), "test", "x", i)
			}
		})
		s.Close()
		over.Store(true)
		publisher.Wait()
		if err := b.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		if st := s.Stats(); st.Taken != calls.Load() || after.Load() > 1 || st.Queued != 0 || st.Taken+st.Discarded > 50 {
			t.Fatalf("%d calls, %d of them after Close, and the counters say %+v", calls.Load(), after.Load(), st)
		}
	}
}

// Asking: the answer that comes before Ask has returned counts, also for the
// first of many who ask at the same time; one that comes too late is told to
// whoever answers, counted, and changes nothing.
func TestAskListensFirst(t *testing.T) {
	for range 200 {
		b := bus.New(bus.Options{})
		if _, err := b.Tap("message/cook", func(e bus.Event) { // answers before anybody else runs
			m, _ := bus.MessageOf(e)
			if err := b.Send(context.Background(), bus.Message{From: "cook", To: m.From, CorrelationID: m.CorrelationID, Content: m.Content}); err != nil {
				t.Error(err)
			}
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Subscribe("message/cook", bus.Queue{}); err != nil {
			t.Fatal(err)
		}
		var many sync.WaitGroup
		for i := range 8 {
			many.Go(func() {
				f, err := b.Ask(context.Background(), bus.Message{From: fmt.Sprint("guest", i), To: "cook", Content: i}, time.Minute)
				if err != nil {
					t.Error(err)
					return
				}
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				defer cancel()
				if v, err := f.Result(ctx); err != nil || v != int64(i) {
					t.Errorf("guest %d: got %v, %v", i, v, err)
				}
			})
		}
		many.Wait()
		if n := b.Stats().Timers; n != 0 {
			t.Errorf("%d timers are left", n)
		}
		_ = b.Close(context.Background())
		if t.Failed() {
			return
		}
	}
}

func TestLateAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{})
		defer b.Close(t.Context())
		if _, err := b.Subscribe("message/cook", bus.Queue{}); err != nil {
			t.Fatal(err)
		}
		answer := func(id, content string) error {
			return b.Send(t.Context(), bus.Message{From: "cook", To: "guest", CorrelationID: id, Content: content})
		}
		ask := func(id string) *bus.Future {
			t.Helper()
			f, err := b.Ask(t.Context(), bus.Message{From: "guest", To: "cook", CorrelationID: id}, time.Second)
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
		timeout, twice, given := ask("timeout"), ask("twice"), ask("given up")
		if err := answer("twice", "soup"); err != nil {
			t.Error(err)
		}
		given.Cancel()
		time.Sleep(2 * time.Second)
		for _, id := range []string{"timeout", "twice", "given up"} {
			if err := answer(id, "salad"); !errors.Is(err, bus.ErrLate) {
				t.Errorf("%s: got %v, want that it is too late", id, err)
			}
		}
		if v, err := twice.Result(t.Context()); v != "soup" || err != nil {
			t.Errorf("got %v %v, want the first answer", v, err)
		}
		if _, err := timeout.Result(t.Context()); !errors.Is(err, bus.ErrNoAnswer) {
			t.Errorf("got %v", err)
		}
		if n := b.Stats().Late; n != 3 {
			t.Errorf("%d late answers are counted, want 3", n)
		}
		if err := answer("never asked", "x"); !errors.Is(err, bus.ErrUndeliverable) {
			t.Errorf("got %v: nobody asked that", err)
		}
		if err := b.Send(t.Context(), bus.Message{From: "cook", To: "other", CorrelationID: "twice"}); !errors.Is(err, bus.ErrUndeliverable) {
			t.Errorf("got %v: it is not for who asked", err)
		}
		ask("twice") // the id is free again
		if err := answer("twice", "bread"); err != nil {
			t.Error(err)
		}
		for i := range 5000 { // what is remembered has a bound
			ask(fmt.Sprint("n", i)).Cancel()
		}
		if err := answer("timeout", "x"); !errors.Is(err, bus.ErrUndeliverable) {
			t.Errorf("got %v", err)
		}
	})
}
