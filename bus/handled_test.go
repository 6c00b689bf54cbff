package bus_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"edged/bus"
)

// An event is handled when no queue has it any more, every handler that took it
// has returned, and what was begun with it has ended; be the subscription ended
// meanwhile or its queue handed to another.
func TestHandled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{})
		defer b.Close(context.Background())
		step := make(chan struct{})
		slow := func(ctx context.Context, e bus.Event) error { <-step; return nil }
		s, err := b.Handle("a", bus.Queue{Limit: 64}, slow)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Handle("#", bus.Queue{}, func(context.Context, bus.Event) error { return nil }); err != nil {
			t.Fatal(err)
		}
		var seqs []uint64
		publish := func(topic string) bus.Event {
			e, err := b.Publish(context.Background(), "test", topic, 1)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return e
		}
		for range 40 { // more than a reader takes in hand
			seqs = append(seqs, publish("a").Seq)
		}
		check := func(what string, want []uint64) {
			t.Helper()
			synctest.Wait()
			if got := b.Handled(seqs); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("%s: handled are %v, want %v", what, got, want)
			}
		}
		check("the first is at it", nil)
		for i := range 35 {
			step <- struct{}{}
			check(fmt.Sprint(i+1, " returned"), seqs[:i+1])
		}
		waiting := s.Hand()
		if len(waiting) != 4 {
			t.Fatalf("%d waited, want 4", len(waiting))
		}
		next, err := b.Handle("a", bus.Queue{}, slow)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range waiting {
			next.Push(e)
		}
		check("the queue is another's, the old worker at its last", seqs[:35])
		step <- struct{}{}
		step <- struct{}{}
		synctest.Wait()
		next.Close()
		step <- struct{}{} // both have one left, or one has two
		select {
		case step <- struct{}{}:
		default:
		}
		check("all are through or discarded", seqs)

		e := publish("b")
		seqs = []uint64{e.Seq}
		end := b.Begin(e)
		other := b.Begin(e)
		end()
		check("one that was begun goes on", nil)
		other()
		check("none does", seqs)
	})
}

// What a full queue gives up is through, and so is what nobody hears.
func TestHandledWithoutHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{})
		defer b.Close(context.Background())
		s, err := b.Subscribe("a", bus.Queue{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		var seqs []uint64
		for _, topic := range []string{"a", "b", "a"} {
			e, err := b.Publish(context.Background(), "test", topic, 1)
			if err != nil {
				t.Fatal(err)
			}
			seqs = append(seqs, e.Seq)
		}
		if got, want := b.Handled(seqs), seqs[:2]; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("handled are %v, want %v", got, want)
		}
		if _, err := s.Next(context.Background()); err != nil {
			t.Fatal(err)
		}
		if got := b.Handled(seqs); len(got) != 2 {
			t.Errorf("handled are %v while the reader is at the last", got)
		}
		s.Close()
	})
}
