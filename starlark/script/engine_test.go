package script_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"go.starlark.net/starlark"

	"edged/starlark/script"
	"edged/starlark/value"
)

func one(t testing.TB, e *script.Engine, src string, names starlark.StringDict) starlark.StringDict {
	t.Helper()
	p, err := e.Load(context.Background(), script.Source{FS: fstest.MapFS{"main.star": {Data: []byte(src)}}, Predeclared: names})
	if err != nil {
		t.Fatalf("load: %s", text(err))
	}
	return p.Main().Globals
}

func builtin(name string, blocks bool, do func(ctx context.Context) error) starlark.StringDict {
	f := value.Func{Name: name, Blocks: blocks, Do: func(c *value.Call) (starlark.Value, error) { return nil, do(c.Context()) }}
	return starlark.StringDict{name: f.Builtin()}
}

func limitOf(err error) string {
	var l *script.LimitError
	if errors.As(err, &l) {
		return l.Limit
	}
	return fmt.Sprintf("no limit: %v", err)
}

func TestWaitingDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := script.New(script.Options{})
		g := one(t, e, "def f():\n    for i in range(10):\n        wait()\n    return \"done\"\n", builtin("wait", true, func(context.Context) error {
			time.Sleep(time.Hour)
			return nil
		}))
		start := time.Now()
		v, err := e.Call(context.Background(), g["f"], nil, nil, script.Limits{})
		if err != nil || v != starlark.String("done") || time.Since(start) != 10*time.Hour {
			t.Errorf("got %v, %v after %v, want done after 10h", v, err, time.Since(start))
		}
	})
}

// A script that computes lets others have the processor at every look at its
// limits. Who wants it all the time counts how often it got it: left to Go's
// scheduler it would be once in 10 ms.
func TestComputingLetsOthersGoFirst(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	e := script.New(script.Options{})
	g := one(t, e, "def f():\n    for i in range(500000):\n        pass\n", nil)
	var turns atomic.Int64
	over := make(chan struct{})
	var other sync.WaitGroup
	other.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
				turns.Add(1)
				runtime.Gosched()
			}
		}
	})
	_, err := e.Call(context.Background(), g["f"], nil, nil, script.Limits{Steps: 10_000_000, Time: time.Minute})
	got := turns.Load()
	close(over)
	other.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if got < 300 { // 732 looks at the limits
		t.Errorf("the other one got the processor %d times", got)
	}
}

func TestTimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := script.New(script.Options{})
		g := one(t, e, "def f():\n    while True:\n        work()\n", builtin("work", false, func(context.Context) error {
			time.Sleep(10 * time.Millisecond) // work that takes its time and does not say it waits
			return nil
		}))
		start := time.Now()
		_, err := e.Call(context.Background(), g["f"], nil, nil, script.Limits{})
		took := time.Since(start)
		if limitOf(err) != "time" || took < 2*time.Second || took > 2200*time.Millisecond {
			t.Errorf("got %v after %v, want the time limit after 2s", err, took)
		}
		// The next call has its own time.
		_, err = e.Call(context.Background(), g["f"], nil, nil, script.Limits{Time: 100 * time.Millisecond})
		if took := time.Since(start) - took; limitOf(err) != "time" || took > 200*time.Millisecond {
			t.Errorf("got %v after %v, want the time limit after 100ms", err, took)
		}
	})
}

func TestCancelWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := script.New(script.Options{})
		g := one(t, e, "def f():\n    wait()\n", builtin("wait", true, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}))
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_, err := e.Call(ctx, g["f"], nil, nil, script.Limits{})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the context's error", err)
		}
	})
}

func TestCancelWhileComputing(t *testing.T) {
	e := script.New(script.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	g := one(t, e, "def f():\n    attempt(loop)\n    loop()\ndef loop():\n    while True:\n        tick()\n", builtin("tick", false, func(context.Context) error {
		cancel()
		return nil
	}))
	_, err := e.Call(ctx, g["f"], nil, nil, script.Limits{})
	if limitOf(err) != "cancelled" || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want cancelled", err)
	}
	if _, err := e.Call(ctx, g["f"], nil, nil, script.Limits{}); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: got %v, want context.Canceled", err)
	}
}

func TestLimitsAreNotCaught(t *testing.T) {
	e := script.New(script.Options{})
	g := one(t, e, `
def loop():
    while True:
        pass
def deep():
    deep()
def f(g):
    for i in range(100):
        attempt(g)
    return "caught"
def after():
    return "fine"
`, nil)
	for name, want := range map[string]string{"loop": "steps", "deep": "depth"} {
		_, err := e.Call(context.Background(), g["f"], starlark.Tuple{g[name]}, nil, script.Limits{Steps: 100_000})
		if got := limitOf(err); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
		if v, err := e.Call(context.Background(), g["after"], nil, nil, script.Limits{}); err != nil || v != starlark.String("fine") {
			t.Errorf("after %s: got %v, %v, want fine", name, v, err)
		}
	}
}

func TestAttempt(t *testing.T) {
	e := script.New(script.Options{})
	g := one(t, e, `
def bad(x, y = 0):
    x.append(y)
    return [][1]
def good(x, y = 0):
    return [x, y]
def f():
    a = attempt(bad, [], y = 2)
    b = attempt(good, 1, y = 2)
    b.value.append(3) # not frozen
    c = attempt(lambda f: f, f = 7)
    if c.value != 7: fail(c.error)
    return (a.ok, a.value, a.error, bool(a), b.ok, b.value, b.error, bool(b), str(attempt(fail, "no").error))
`, nil)
	v, err := e.Call(context.Background(), g["f"], nil, nil, script.Limits{})
	want := `(False, None, "index 1 out of range: empty list", False, True, [1, 2, 3], None, True, "fail: no")`
	if err != nil || v.String() != want {
		t.Errorf("got %v, %v, want %s", v, err, want)
	}
}

func TestPanicHasBacktrace(t *testing.T) {
	e := script.New(script.Options{})
	g := one(t, e, "def inner():\n    boom()\ndef f():\n    inner()\n", builtin("boom", false, func(context.Context) error {
		panic("the driver is gone")
	}))
	_, err := e.Call(context.Background(), g["f"], nil, nil, script.Limits{})
	want := "main.star:2:9: boom: internal fault: the driver is gone\n    boom()\n        ^\n  called from inner\n  called from f at main.star:4:10"
	if got := text(err); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	var p *value.PanicError
	if !errors.As(err, &p) || !strings.Contains(string(p.Stack), "engine_test.go") {
		t.Errorf("got %v, want a PanicError with the Go stack", err)
	}
}

func TestFields(t *testing.T) {
	e := script.New(script.Options{})
	g := one(t, e, "def f():\n    return {}[\"x\"]\n", nil)
	_, err := e.Call(script.WithRole(context.Background(), "handler of on(\"sensor/#\")"), g["f"], nil, nil, script.Limits{})
	var f interface{ Fields() map[string]any }
	if !errors.As(err, &f) {
		t.Fatalf("got %T, want Fields", err)
	}
	got := fmt.Sprint(f.Fields())
	want := `map[backtrace:[called from f (handler of on("sensor/#"))] code:return {}["x"] column:14 hint:use .get("x", default) where the key may be missing line:2 message:key "x" not in dict script:main.star]`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestPrint(t *testing.T) {
	var got []string
	e := script.New(script.Options{Print: func(ctx context.Context, at script.Position, text string) {
		got = append(got, fmt.Sprintf("%v %s", at, text))
	}})
	g := one(t, e, "print(\"load\")\ndef f():\n    print(\"a\", 1)\n", nil)
	if _, err := e.Call(context.Background(), g["f"], nil, nil, script.Limits{}); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got) != "[main.star:1:6 load main.star:3:10 a 1]" {
		t.Errorf("got %v", got)
	}
}

// TestParallel runs one frozen program from many goroutines; the race detector
// watches.
func TestParallel(t *testing.T) {
	e := script.New(script.Options{})
	g := one(t, e, "TABLE = {\"a\": [1, 2]}\ndef f(e):\n    x = [e[\"t\"]] + TABLE[\"a\"]\n    return sorted(x)[-1] > 30\n", nil)
	ev, _ := value.FromGo(map[string]any{"t": 31.5})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				if v, err := e.Call(context.Background(), g["f"], starlark.Tuple{ev}, nil, script.Limits{}); err != nil || v != starlark.True {
					t.Errorf("got %v, %v, want True", v, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestMemoryLimitEndsTheGrowingCall(t *testing.T) {
	e := script.New(script.Options{Heap: 32 << 20})
	g := one(t, e, "def f():\n    x = []\n    while True:\n        x.append(\"y\" * 10000 + str(len(x)))\n", nil)
	_, err := e.Call(context.Background(), g["f"], nil, nil, script.Limits{Time: time.Minute, Steps: 1e9})
	if limitOf(err) != "memory" {
		t.Errorf("got %v, want the memory limit", err)
	}
}

func TestChunk(t *testing.T) {
	e := script.New(script.Options{})
	names := script.Universe()
	for k, v := range predeclared() {
		names[k] = v
	}
	for _, c := range []struct{ in, want string }{
		{"x = [1]", "None"},
		{"x.append(2)", "None"},
		{"def f(y):\n    return y + len(x)\n\n", "None"},
		{"f(1)", "3"},
		{"f(\n    2)", "4"},
		{"f(", "typed:1:3: got end of file, want ')' (is a bracket left open, or a comma missing?)"},
		{"basee.drive_to(1)", "typed:1:1: undefined: basee (did you mean \"base\"?)"},
		{"base.drive_to(1)", "True"},
		{"x.nope", "typed:1:2: list has no .nope field or method"},
	} {
		fn := starlark.NewBuiltin("prompt", func(t *starlark.Thread, _ *starlark.Builtin, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
			chunk, err := e.Chunk("typed", c.in, names)
			if err != nil {
				return nil, err
			}
			v, defined, err := chunk.Run(t)
			for k, d := range defined {
				names[k] = d
			}
			return v, err
		})
		v, err := e.Call(context.Background(), fn, nil, nil, script.Limits{})
		got := fmt.Sprint(v)
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%q: got %s, want %s", c.in, got, c.want)
		}
	}
}

func TestNeedsMore(t *testing.T) {
	for in, want := range map[string]bool{
		"f(": true, "f(\n    2)": false, "f(\n    2)\n": false, "x = [\n  1,\n": true, "x = [\n  1,\n  ]": false,
		"def f():": true, "def f():\n    return 1": true, "def f():\n    return g(\n        2)": true, "def f():\n    return 1\n\n": false,
		"if x:\n    y = 1": true, "if x:\n    y = 1\n\n": false, "x = 1": false, "x = = 1": false, "": false, "# note": false, "x = \"\"\"a": true,
	} {
		if got := script.NeedsMore(in); got != want {
			t.Errorf("NeedsMore(%q): got %v, want %v", in, got, want)
		}
	}
}
