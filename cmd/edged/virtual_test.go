package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// TestBubble: a bubble's testing.T is one that nobody runs, which only this
// test shows to be enough for synctest.
func TestBubble(t *testing.T) {
	failed := errors.New("failed")
	for _, c := range []struct {
		name string
		run  func(ctx context.Context) error
		want string
	}{
		{"returns", func(context.Context) error { return failed }, "failed"},
		{"panics", func(context.Context) error { panic("oh") }, "edged itself failed: oh"},
		{"leaves something", func(context.Context) error {
			go func() { <-make(chan int) }()
			return nil
		}, "something of the test does not end"},
		{"hangs", func(context.Context) error { <-make(chan int); return nil }, "something of the test does not end"},
		{"sleeps", func(ctx context.Context) error {
			wait, cancel := context.WithTimeout(ctx, 1000*time.Hour)
			defer cancel()
			<-wait.Done()
			return nil
		}, ""},
	} {
		err := inBubble(c.run)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}
