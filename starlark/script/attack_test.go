package script_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"go.starlark.net/starlark"

	"edged/starlark/script"
	"edged/starlark/value"
)

// The attack corpus: testdata/attacks/*.star. Each file says what it does and
// what becomes of it in the process (local):
//
//	contained          ends with an error, in time
//	harmless           ends without one: the interpreter makes little of it
//	heavy              ends, but with hundreds of megabytes or long after its limit
//	ends the process   a memory bomb in one operation: only isolation holds it
//	never returns      one operation that nothing in the process can end
//
// Isolated, every one of them is contained.

type attack struct {
	name, local, text string
}

var (
	localLine  = regexp.MustCompile(`(?m)^# local: (.+)$`)
	sourceLine = regexp.MustCompile(`(?m)^# source: repeat (\S+) (\d+) (\S+)$`)
)

func attacks(t *testing.T) []attack {
	t.Helper()
	files, err := filepath.Glob("testdata/attacks/*.star")
	if err != nil || len(files) < 60 {
		t.Fatalf("got %d attacks, %v, want at least 60", len(files), err)
	}
	var out []attack
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		a := attack{name: strings.TrimSuffix(filepath.Base(f), ".star"), text: string(b)}
		m := localLine.FindStringSubmatch(a.text)
		if m == nil {
			t.Fatalf("%s: does not say what it does locally", f)
		}
		a.local = m[1]
		if m := sourceLine.FindStringSubmatch(a.text); m != nil {
			n, _ := strconv.Atoi(m[2])
			a.text = strings.Repeat(unescape(m[1]), n) + unescape(m[3]) + "\n"
		}
		out = append(out, a)
	}
	return out
}

func unescape(s string) string {
	s, err := strconv.Unquote(`"` + strings.ReplaceAll(s, "␣", " ") + `"`)
	if err != nil {
		panic(err)
	}
	return s
}

type thing struct{}

// attackNames is a runtime for attacks: builtins that take data, keep
// functions, wait, call back and break.
func attackNames() starlark.StringDict {
	things := &value.Kind[*thing]{Name: "thing", Methods: []value.Method[*thing]{{
		Func: value.Func{Name: "touch"},
		Do:   func(*thing, *value.Call) (starlark.Value, error) { return nil, nil },
	}}}
	subject := []value.Param{{Name: "x", Required: true, Positional: true}}
	fn := []value.Param{{Name: "f", Type: value.Callable, Required: true, Positional: true}}
	var broken map[string]int
	d := starlark.StringDict{"json": value.JSON()}
	d["base"] = value.NewModule("base", "The base.", driveTo,
		value.Func{Name: "tree", Params: subject, Do: func(c *value.Call) (starlark.Value, error) {
			_, err := c.Tree("x")
			return nil, err
		}},
		value.Func{Name: "broken", Do: func(c *value.Call) (starlark.Value, error) {
			broken["x"] = 1
			return nil, nil
		}},
		value.Func{Name: "wait", Blocks: true, Do: func(c *value.Call) (starlark.Value, error) {
			<-c.Context().Done()
			return nil, c.Context().Err()
		}},
		value.Func{Name: "thing", Do: func(c *value.Call) (starlark.Value, error) { return things.Wrap(&thing{}), nil }},
		value.Func{Name: "keep", Params: fn, Do: func(c *value.Call) (starlark.Value, error) { c.Kept("f"); return nil, nil }},
		value.Func{Name: "call", Params: fn, Do: func(c *value.Call) (starlark.Value, error) { return c.Run(c.Callable("f")) }},
	)
	return d
}

// robotWork is what goes on in the process besides: a beat of 50 Hz and a
// health function of another script.
type robotWork struct {
	beats  atomic.Int64
	engine *script.Engine
	health starlark.Value
}

func startWork(t *testing.T) *robotWork {
	w := &robotWork{engine: script.New(script.Options{})}
	p, err := load(t, w.engine, map[string]string{"main.star": "def health(): return \"ok\"\n"})
	if err != nil {
		t.Fatal(err)
	}
	w.health = p.Main().Globals["health"]
	ticker := time.NewTicker(20 * time.Millisecond)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-ticker.C:
				w.beats.Add(1)
			case <-stop:
				return
			}
		}
	}()
	t.Cleanup(func() { ticker.Stop(); close(stop); <-stopped })
	return w
}

// during runs f and checks that the beat missed at most 5 meanwhile. The
// machine has other work too, so f gets a second and a third chance: an attack
// that does hold up the process does it every time.
func (w *robotWork) during(t *testing.T, f func()) {
	t.Helper()
	for try := 1; ; try++ {
		before, start := w.beats.Load(), time.Now()
		f()
		elapsed := time.Since(start)
		missed := int64(elapsed/(20*time.Millisecond)) - (w.beats.Load() - before)
		if missed <= 5 || t.Failed() {
			return
		}
		if try == 3 {
			t.Errorf("the 50 Hz work missed %d beats in %v, want at most 5", missed, elapsed)
			return
		}
		t.Logf("missed %d beats in %v: again", missed, elapsed)
	}
}

// answers checks that health answers within 100 ms.
func (w *robotWork) answers(t *testing.T) {
	t.Helper()
	start := time.Now()
	v, err := w.engine.Call(context.Background(), w.health, nil, nil, script.Limits{})
	if took := time.Since(start); err != nil || v != starlark.String("ok") || took > 100*time.Millisecond {
		t.Errorf("health: got %v, %v after %v, want ok within 100 ms", v, err, took)
	}
}

func attackEngine() *script.Engine {
	return script.New(script.Options{
		Limits: script.Limits{Time: 200 * time.Millisecond, Steps: 1_500_000},
		Heap:   96 << 20,
	})
}

func TestAttacksIsolated(t *testing.T) {
	hostCommand(t) // built before the clock runs
	work := startWork(t)
	var outcomes [3]atomic.Int64
	t.Run("all", func(t *testing.T) {
		for _, a := range attacks(t) {
			t.Run(a.name, func(t *testing.T) {
				t.Parallel()
				work.during(t, func() { attackIsolated(t, a, &outcomes) })
				work.answers(t)
			})
		}
	})
	t.Logf("of the attacks, %d ended with an error, %d returned, %d were killed", outcomes[0].Load(), outcomes[1].Load(), outcomes[2].Load())
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.HeapAlloc > 64<<20 {
		t.Errorf("got %d MiB on the heap afterwards, want at most 64", m.HeapAlloc>>20)
	}
}

func attackIsolated(t *testing.T, a attack, outcomes *[3]atomic.Int64) {
	e := attackEngine()
	start := time.Now()
	p, wait, err := isolate(t, e, map[string]string{"main.star": a.text}, attackNames())
	if err == nil && p.Function("attack") != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err = e.Call(ctx, p.Function("attack"), nil, nil, script.Limits{})
	}
	took := time.Since(start)
	switch {
	case err == nil:
		outcomes[1].Add(1)
	case strings.Contains(err.Error(), "script host"):
		outcomes[2].Add(1)
		if err := wait(); err == nil {
			t.Errorf("the host was killed and Serve returned no error")
		}
	default:
		outcomes[0].Add(1)
	}
	// The load and the call may each take their time, and the grace of it.
	if took > time.Minute { // a busy machine and the race detector make seconds of one
		t.Errorf("took %v, want it ended by its limits", took)
	}
	if testing.Verbose() {
		t.Logf("%v: %.150v", took.Round(time.Millisecond), err)
	}
}

func TestAttacksLocal(t *testing.T) {
	work := startWork(t)
	for _, a := range attacks(t) {
		switch a.local {
		case "contained", "harmless":
		case "heavy", "ends the process", "never returns":
			continue
		default:
			t.Errorf("%s: what is %q?", a.name, a.local)
			continue
		}
		t.Run(a.name, func(t *testing.T) {
			e := attackEngine()
			start := time.Now()
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			p, err := e.Load(ctx, script.Source{FS: fstest.MapFS{"main.star": {Data: []byte(a.text)}}, Predeclared: attackNames()})
			if err == nil && p.Main().Globals["attack"] != nil {
				_, err = e.Call(ctx, p.Main().Globals["attack"], nil, nil, script.Limits{})
			}
			took := time.Since(start)
			if took > 20*time.Second { // a busy machine and the race detector make seconds of one
				t.Errorf("took %v, want it ended by its limits", took)
			}
			if failed := err != nil; failed != (a.local == "contained") {
				t.Errorf("it is %s and ended with %v", a.local, err)
			}
			if testing.Verbose() {
				t.Logf("%v: %.150v", took.Round(time.Millisecond), err)
			}
			work.answers(t)
			runtime.GC()
		})
	}
}
