package blackboard_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"edged/blackboard"
	"edged/bus"
)

// board opens a board in memory.
func board() (*bus.Bus, *blackboard.Board) {
	hub := bus.New(bus.Options{})
	b, err := blackboard.Open(hub, blackboard.Options{})
	if err != nil {
		panic(err)
	}
	return hub, b
}

func Example() {
	ctx := context.Background()
	hub, b := board()
	defer hub.Close(ctx)
	defer b.Close()
	b.Watch("battery", blackboard.WatchOptions{Sync: true}, func(_ context.Context, c blackboard.Change) error {
		fmt.Println(c.Key, c.Old, "→", c.New, "by", c.Writer)
		return nil
	})
	b.Set(ctx, "hw:battery", "battery", 0.72, blackboard.SetOptions{})
	b.Set(ctx, "hw:battery", "battery", 0.71, blackboard.SetOptions{})
	e, _ := b.Entry("battery")
	fmt.Println("version", e.Version)
	// Output:
	// battery <nil> → 0.72 by hw:battery
	// battery 0.72 → 0.71 by hw:battery
	// version 2
}

func ExampleBoard_Volunteer() {
	ctx := context.Background()
	hub, b := board()
	defer hub.Close(ctx)
	defer b.Close()
	future, _ := b.Post(ctx, "script:main", "plan", map[string]any{"goal": "cup"}, blackboard.PostOptions{Timeout: 5 * time.Second})
	b.Volunteer("plan", blackboard.VolunteerOptions{Name: "agent:planner"}, func(_ context.Context, r *blackboard.Request) (any, error) {
		return fmt.Sprint("fetch the ", r.Task.(map[string]any)["goal"]), nil
	})
	fmt.Println(future.Result(ctx))
	// Output: fetch the cup <nil>
}

func ExampleBoard_Transact() {
	ctx := context.Background()
	hub, b := board()
	defer hub.Close(ctx)
	defer b.Close()
	b.Set(ctx, "cli", "kitchen", 3, blackboard.SetOptions{})
	err := b.Transact(ctx, "script:tidy", func(t *blackboard.Tx) error {
		n, _ := t.Get("kitchen")
		t.Delete("kitchen")
		return t.Set("shelf", n, blackboard.SetOptions{})
	})
	fmt.Println(b.Snapshot(""), err)
	// Output: map[shelf:3] <nil>
}

func ExampleBoard_CAS() {
	ctx := context.Background()
	hub, b := board()
	defer hub.Close(ctx)
	defer b.Close()
	absent := uint64(0)
	for _, who := range []string{"scout", "mule"} {
		ok, _ := b.CAS(ctx, "agent:"+who, "door", blackboard.Compare{Version: &absent}, who)
		fmt.Println(who, ok)
	}
	// Output:
	// scout true
	// mule false
}

func ExampleBoard_Journal() {
	ctx := context.Background()
	hub := bus.New(bus.Options{})
	defer hub.Close(ctx)
	dir, err := os.MkdirTemp("", "board")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	b, err := blackboard.Open(hub, blackboard.Options{Path: filepath.Join(dir, "robot.db")})
	if err != nil {
		panic(err)
	}
	defer b.Close()
	outbox, _ := b.Journal("mqtt", blackboard.JournalOptions{})
	first, _ := outbox.Append([]byte("first"))
	outbox.Append([]byte("second"))
	outbox.Remove(first)
	for id, rec := range outbox.All() {
		fmt.Println(id, string(rec))
	}
	// Output: 2 second
}
