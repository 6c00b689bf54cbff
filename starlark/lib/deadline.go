package lib

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"edged/bus"
	"edged/starlark/script"
)

// A test has an end, in the time of its robot and in that of the people who
// wait for it.

// TestLife is how much time passes in a test at most, where nobody says else.
const TestLife = 1000 * 24 * time.Hour

// lateCheck is how often a test looks at [TestOptions.Late], in its own time;
// each event makes it look, too.
const lateCheck = 10 * time.Minute

// A TestTooLong is the cause of the end of a test that has none of its own.
type TestTooLong struct {
	Why     string
	Running []string // agents and workflows
}

func (e *TestTooLong) Error() string {
	if len(e.Running) == 0 {
		return e.Why
	}
	return e.Why + "; what still ran: " + strings.Join(e.Running, ", ")
}

// limited gives a test's context, which ends when it has run for too long.
func (t *testRobot) limited(ctx context.Context) (_ context.Context, release func()) {
	ctx, end := context.WithCancelCause(ctx)
	life := cmp.Or(t.o.Life, TestLife)
	limit := time.AfterFunc(life, func() {
		end(&TestTooLong{fmt.Sprintf("the test did not end within %s of its own time", days(life)), t.log.running()})
	})
	release = func() {
		limit.Stop()
		end(nil)
	}
	if t.o.Late == nil {
		return ctx, release
	}
	look := func() {
		if ctx.Err() == nil && t.o.Late() {
			end(&TestTooLong{fmt.Sprintf("the test takes too long; %s of its own time have passed", days(time.Since(t.begun))), t.log.running()})
		}
	}
	var again func()
	again = func() {
		if look(); ctx.Err() == nil {
			time.AfterFunc(lateCheck, again)
		}
	}
	again()
	if _, err := t.bus.Tap("*", func(bus.Event) { look() }); err != nil {
		end(err)
	}
	return ctx, release
}

// tooLong gives the error of a test that was ended, at the place where it was.
func tooLong(ctx context.Context, err error) error {
	var late *TestTooLong
	if !errors.As(context.Cause(ctx), &late) {
		return err
	}
	var at *script.Error
	if !errors.As(err, &at) {
		return late
	}
	told := *at
	told.Msg, told.Hint = late.Error(), ""
	return &told
}

// days is a time as people say it, if it is long.
func days(d time.Duration) string {
	if day := 24 * time.Hour; d >= 3*day {
		return fmt.Sprintf("%d days", d/day)
	}
	return d.Round(time.Millisecond).String()
}
