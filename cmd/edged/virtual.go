package main

import (
	"context"
	"errors"
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
// ends the process with the status f gives.
func virtual(f func(b bubble) int) { os.Exit(f(inBubble)) }

// inBubble is a bubble. Bubbles are for tests of Go: this one belongs to a test
// that nobody runs, since what runs tests is large and would be in the binary.
func inBubble(run func(context.Context) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = errors.Join(err, fmt.Errorf("something of the test does not end: %v", v))
		}
	}()
	synctest.Test(new(testing.T), func(t *testing.T) {
		defer func() {
			if v := recover(); v != nil {
				err = fmt.Errorf("edged itself failed: %v\n%s", v, debug.Stack())
			}
		}()
		err = run(t.Context())
	})
	return err
}
