package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"testing"
	"testing/synctest"
)

// Virtual time for the verb test.

// bubble runs a function in virtual time; what it leaves running is an error.
type bubble func(f func(ctx context.Context) error) error

// virtual runs f, which may run any number of functions in virtual time, and
// ends the process with the status f gives. Bubbles are for tests of Go, so
// this process becomes one, which prints nothing: it ends before that.
func virtual(f func(b bubble) int) {
	testing.Init()
	_ = flag.CommandLine.Parse(nil) // no arguments, no mistakes
	all := func(string, string) (bool, error) { return true, nil }
	testing.Main(all, []testing.InternalTest{{Name: "edged", F: func(t *testing.T) {
		os.Exit(f(func(run func(context.Context) error) error { return inBubble(t, run) }))
	}}}, nil, nil)
}

func inBubble(t *testing.T, run func(context.Context) error) (err error) {
	t.Run("test", func(t *testing.T) {
		defer func() {
			if v := recover(); v != nil {
				err = errors.Join(err, fmt.Errorf("something of the test does not end: %v", v))
			}
		}()
		synctest.Test(t, func(t *testing.T) {
			defer func() {
				if v := recover(); v != nil {
					err = fmt.Errorf("edged itself failed: %v\n%s", v, debug.Stack())
				}
			}()
			err = run(t.Context())
		})
	})
	return err
}
