package script_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"go.starlark.net/starlark"

	"edged/starlark/script"
	"edged/starlark/value"
)

const hostEnv = "EDGED_TEST_SCRIPT_HOST=1"

func TestMain(m *testing.M) {
	if os.Getenv("EDGED_TEST_SCRIPT_HOST") == "1" {
		os.Exit(script.HostMain(starlark.StringDict{"json": value.JSON()}))
	}
	os.Exit(m.Run())
}

// hostBinary is the script host: this test binary itself, or, under the race
// detector, a small program built without it.
var hostBinary = sync.OnceValues(func() (string, error) {
	if !raceEnabled {
		return os.Executable()
	}
	dir, err := os.MkdirTemp("", "host")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "host")
	out, err := exec.Command("go", "build", "-race=false", "-o", bin, "./testdata/host").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build host: %w\n%s", err, out)
	}
	return bin, nil
})

func hostCommand(t testing.TB) func() *exec.Cmd {
	t.Helper()
	bin, err := hostBinary()
	if err != nil {
		t.Fatal(err)
	}
	return func() *exec.Cmd {
		c := exec.Command(bin)
		c.Env = []string{hostEnv}
		return c
	}
}

// isolate starts a host with files and returns its program and a way to wait
// for its end.
func isolate(t testing.TB, e *script.Engine, files map[string]string, names starlark.StringDict) (*script.RemoteProgram, func() error, error) {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	type loaded struct {
		p   *script.RemoteProgram
		err error
	}
	ready := make(chan loaded, 2)
	ctx, cancel := context.WithCancel(context.Background())
	i := e.Isolate(script.Isolation{
		Source:  script.Source{Name: "guard", FS: fsys, Predeclared: names},
		Command: hostCommand(t),
		Loaded:  func(p *script.RemoteProgram, err error) { ready <- loaded{p, err} },
	})
	done := make(chan error, 1)
	go func() { done <- i.Serve(ctx) }()
	var once sync.Once
	var end error
	wait := func() error {
		once.Do(func() { end = <-done })
		return end
	}
	t.Cleanup(func() { cancel(); _ = wait() })
	select {
	case l := <-ready:
		if l.err == nil {
			l.p.Start()
		}
		return l.p, wait, l.err
	case err := <-done:
		t.Fatalf("host ended before it loaded: %v", err)
	}
	return nil, wait, nil
}

type robot struct{ name string }

func apiNames(registered *[]starlark.Callable) starlark.StringDict {
	robots := &value.Kind[*robot]{
		Name: "robot",
		Attrs: []value.Attr[*robot]{
			{Name: "name", Get: func(r *robot) (any, error) { return r.name, nil }},
			{Name: "size", Get: func(r *robot) (any, error) { return 3, nil }},
		},
		Methods: []value.Method[*robot]{{
			Func: value.Func{Name: "say", Params: []value.Param{{Name: "text", Type: value.String, Required: true, Positional: true}}},
			Do: func(r *robot, c *value.Call) (starlark.Value, error) {
				return starlark.String(r.name + " says " + c.String("text")), nil
			},
		}},
	}
	on := value.Func{Name: "on", Params: []value.Param{
		{Name: "topic", Type: value.String, Required: true, Positional: true},
		{Name: "handler", Type: value.Callable, Required: true, Positional: true},
	}, Do: func(c *value.Call) (starlark.Value, error) {
		fn := c.Kept("handler")
		script.OnFrozen(c.Thread, func() { *registered = append(*registered, fn) })
		return nil, nil
	}}
	call := value.Func{Name: "call", Params: []value.Param{{Name: "f", Type: value.Callable, Required: true, Positional: true}},
		Blocks: true, Do: func(c *value.Call) (starlark.Value, error) { return c.Run(c.Callable("f"), starlark.MakeInt(20)) }}
	get := value.Func{Name: "get", Do: func(c *value.Call) (starlark.Value, error) { return robots.Wrap(&robot{"rob"}), nil }}
	rename := value.Func{Name: "rename", Params: []value.Param{{Name: "robot", Type: robots.Type(), Required: true, Positional: true}},
		Do: func(c *value.Call) (starlark.Value, error) {
			return starlark.String("was " + robots.Arg(c, "robot").name), nil
		}}
	d := predeclared()
	d["on"], d["call"] = on.Builtin(), call.Builtin()
	d["rob"] = value.NewModule("rob", "Robots.", get, rename).With(starlark.StringDict{"limit": starlark.MakeInt(5)})
	return d
}

const isolatedScript = `
load("lib/x.star", "double")

def near(e):
    return [e["t"] > 30, double(e["t"]), {"k": (1, 2.5, None, b"x")}]

def talk():
    r = rob.get()
    return (r.say("hi"), r.name, r.size, rob.rename(r), rob.limit)

def inner(n):
    return n + 1

def back():
    return call(lambda n: inner(n) * 2)

def wrong():
    return base.drive_to("x", timeot = 3)

def bad_attr():
    return rob.get().nme

def endless():
    while True:
        pass

def give(x):
    return x.say("there")

def caught():
    r = attempt(base.drive_to)
    return (r.ok, r.error)

on("sensor/#", near)
`

func TestIsolated(t *testing.T) {
	var registered []starlark.Callable
	e := script.New(script.Options{Limits: script.Limits{Time: 20 * time.Second, Steps: 1e6}})
	p, _, err := isolate(t, e, map[string]string{"main.star": isolatedScript, "lib/x.star": "def double(x): return x * 2\n"}, apiNames(&registered))
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	call := func(name string, args ...starlark.Value) (starlark.Value, error) {
		return e.Call(ctx, p.Function(name), args, nil, script.Limits{})
	}
	if len(registered) != 1 {
		t.Fatalf("got %d handlers registered, want 1", len(registered))
	}
	ev, _ := value.FromGo(map[string]any{"t": 31.5})
	for _, c := range []struct {
		name, want string
		args       []starlark.Value
	}{
		{"near", `[True, 63.0, {"k": (1, 2.5, None, b"x")}]`, []starlark.Value{ev}},
		{"talk", `("rob says hi", "rob", 3, "was rob", 5)`, nil},
		{"back", "42", nil},
		{"caught", `(False, "base.drive_to: missing argument \"place\" (any) (usage: base.drive_to(place, *, speed=0.5, timeout=\"30s\", mode=\"single\"))")`, nil},
	} {
		v, err := call(c.name, c.args...)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if v.String() != c.want {
			t.Errorf("%s: got %s, want %s", c.name, v, c.want)
		}
	}
	for _, c := range []struct{ name, want string }{
		{"wrong", "guard/main.star:18:31: base.drive_to: unknown argument \"timeot\"\n    return base.drive_to(\"x\", timeot = 3)\n                              ^ did you mean \"timeout\" (duration, default \"30s\")?\n  called from wrong"},
		{"bad_attr", "guard/main.star:21:22: robot: has no \"nme\"\n    return rob.get().nme\n                     ^ did you mean \"name\"?\n  called from bad_attr"},
		{"endless", "step limit: more than 1000000 steps"},
	} {
		_, err := call(c.name)
		var se *script.Error
		if !errors.As(err, &se) || !strings.Contains(se.Text(), c.want) {
			t.Errorf("%s: got %v\n%s\nwant\n%s", c.name, err, text(err), c.want)
		}
	}
	if v, err := e.Call(ctx, registered[0], starlark.Tuple{ev}, nil, script.Limits{}); err != nil || !strings.HasPrefix(v.String(), "[True") {
		t.Errorf("registered handler: got %v, %v", v, err)
	}
}

func text(err error) string {
	if x, ok := err.(interface{ Text() string }); ok {
		return x.Text()
	}
	return fmt.Sprint(err)
}

func TestIsolatedPrintAndCancel(t *testing.T) {
	var mu sync.Mutex
	var printed []string
	e := script.New(script.Options{Print: func(ctx context.Context, at script.Position, text string) {
		mu.Lock()
		defer mu.Unlock()
		printed = append(printed, fmt.Sprintf("%v %s", at, text))
	}})
	waiting := make(chan struct{})
	names := builtin("wait", true, func(ctx context.Context) error {
		close(waiting)
		<-ctx.Done()
		return ctx.Err()
	})
	p, wait, err := isolate(t, e, map[string]string{"main.star": "print(\"loading\")\ndef f():\n    print(\"in f\")\n    wait()\ndef g():\n    return 1\n"}, names)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-waiting; cancel() }()
	if _, err := e.Call(ctx, p.Function("f"), nil, nil, script.Limits{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	// The host lives on.
	if v, err := e.Call(context.Background(), p.Function("g"), nil, nil, script.Limits{}); err != nil || v.String() != "1" {
		t.Errorf("after the cancel: got %v, %v, want 1", v, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if got := fmt.Sprint(printed); got != "[guard/main.star:1:6 loading guard/main.star:3:10 in f]" {
		t.Errorf("printed %s", got)
	}
	_ = wait
}

func TestIsolatedEndsWithItsContextAndItsFunctionsWithIt(t *testing.T) {
	e := script.New(script.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	loaded := make(chan *script.RemoteProgram, 2)
	i := e.Isolate(script.Isolation{
		Source:  script.Source{FS: fstest.MapFS{"main.star": {Data: []byte("def f():\n    return [1, 2]\ndef bomb():\n    return len(\"a\" * 1000000000)\n")}}},
		Command: hostCommand(t),
		Loaded:  func(p *script.RemoteProgram, err error) { loaded <- p },
	})
	done := make(chan error, 1)
	go func() { done <- i.Serve(ctx) }()
	first := <-loaded
	call := func(p *script.RemoteProgram, name string) error {
		_, err := e.Call(context.Background(), p.Function(name), nil, nil, script.Limits{Time: time.Minute}) // a busy machine takes its time
		return err
	}
	if err := call(first, "bomb"); !errors.Is(err, script.ErrHostEnded) || limitOf(err) != "memory" {
		t.Errorf("bomb: got %v, want the memory limit and ErrHostEnded", err)
	}
	if err := <-done; !errors.Is(err, script.ErrHostEnded) {
		t.Errorf("Serve: got %v, want ErrHostEnded", err)
	}
	// As a supervisor does.
	go func() { done <- i.Serve(ctx) }()
	second := <-loaded
	if err := call(second, "f"); err != nil {
		t.Errorf("after the restart: %v", err)
	}
	if err := call(first, "f"); !errors.Is(err, script.ErrHostEnded) {
		t.Errorf("a function of the first host: got %v, want ErrHostEnded", err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Serve with its context ended: got %v, want nil", err)
	}
}

func TestIsolatedCannotReachFiles(t *testing.T) {
	// The host itself checks that it cannot open a file and ends if it can; what
	// is left to a script is load, which asks the runtime.
	e := script.New(script.Options{})
	_, _, err := isolate(t, e, map[string]string{"main.star": "load(\"../../etc/passwd.star\", \"x\")\n"}, nil)
	if err == nil || !strings.Contains(err.Error(), "leaves the robot's folder") {
		t.Errorf("got %v", err)
	}
}

// BenchmarkIsolated is a call to a handler in another process.
func BenchmarkIsolated(b *testing.B) {
	e := script.New(script.Options{})
	p, _, err := isolate(b, e, map[string]string{"main.star": handlers}, nil)
	if err != nil {
		b.Fatal(err)
	}
	ev, _ := value.FromGo(map[string]any{"t": 31.5})
	for b.Loop() {
		if _, err := e.Call(context.Background(), p.Function("on_event"), starlark.Tuple{ev}, nil, script.Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}
