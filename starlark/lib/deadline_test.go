package lib_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"edged/starlark/lib"
)

// TestTheEndOfTests: a test that has none is ended, and says what still ran.
func TestTheEndOfTests(t *testing.T) {
	files := folder(`
-- main.star --
low = Condition("low", lambda ctx: False)
life = Tick(Fallback("life", [Sequence("charge", [low, lambda task: "charged"]), Action("go", lambda ctx: "running")]), every = "1s")
-- main_test.star --
load("main.star", "life")

def test_endless():
    life.run("x")
    fail("never")

def test_swallowed():
    life.run("x")
`)
	var asked atomic.Int64
	for _, c := range []struct {
		fn, want string
		o        lib.TestOptions
	}{
		{"test_endless", "main_test.star:5", lib.TestOptions{Life: 50 * time.Minute}},
		{"test_endless", "the test did not end within 50m0s of its own time; what still ran: life", lib.TestOptions{Life: 50 * time.Minute}},
		{"test_swallowed", "the test did not end within 50m0s of its own time; what still ran: life", lib.TestOptions{Life: 50 * time.Minute}},
		{"test_endless", "the test takes too long; ", lib.TestOptions{Late: func() bool { return asked.Add(1) > 10000 }}},
	} {
		synctest.Test(t, func(t *testing.T) {
			o := c.o
			o.Folder, o.Name, o.File, o.Func, o.Settle, o.Grants = files, "box", "main_test.star", c.fn, synctest.Wait, lib.Grants{All: true}
			if got := shown(lib.Test(t.Context(), o)); !strings.Contains(got, c.want) {
				t.Errorf("%s: got %s, want %s", c.fn, got, c.want)
			}
		})
	}
}
