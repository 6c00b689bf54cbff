package lib_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"edged/blackboard"
	"edged/starlark/lib"
)

const echo = `
def f(ev):
    sleep("1s")
    bus.publish("out", [VERSION, ev["n"]])
on("in", f, mode = "parallel", max_parallel = 1000, max_queue = 1000)
def seen(key, old, new):
    bus.publish("seen", [old, new])
    sleep("15ms")
bb.watch("n", seen, max_queue = 1000)
BackgroundAgent(agent = Agent("bg", fn = lambda task: bus.publish("bg", [VERSION, task["n"]])), subscribe_to = "in", max_queue = 1000)
`

// TestSwap reloads again and again in a stream of events: each event is handled
// once, by one of the versions.
func TestSwap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		b := r.start("VERSION = 0" + echo)
		const events, each = 200, 20
		done := make(chan struct{})
		go func() {
			defer close(done)
			for n := range events {
				r.publish("in", map[string]any{"n": n})
				if _, err := r.board.Set(t.Context(), "test", "n", n+1, blackboard.SetOptions{}); err != nil {
					t.Error(err)
				}
				time.Sleep(10 * time.Millisecond)
			}
		}()
		for v := range events / each {
			time.Sleep(each * 10 * time.Millisecond)
			next := r.load(fmt.Sprintf("VERSION = %d", v+1) + echo)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			if err := lib.Swap(ctx, b, next); err != nil {
				t.Fatal(err)
			}
			cancel()
			b = next
		}
		<-done
		time.Sleep(5 * time.Second)
		synctest.Wait()
		var heard []int64
		versions := map[any]bool{}
		for _, p := range r.payloads("out") {
			heard = append(heard, p.([]any)[1].(int64))
			versions[p.([]any)[0]] = true
		}
		slices.Sort(heard)
		if len(heard) != events || len(slices.Compact(heard)) != events {
			t.Errorf("%d of %d events were handled", len(heard), events)
		}
		if len(versions) < 2 {
			t.Errorf("only %v handled anything", versions)
		}
		// Each change is seen once; old and new version may overlap.
		seen := map[any]bool{}
		for _, p := range r.payloads("seen") {
			if seen[p.([]any)[1]] {
				t.Errorf("the change %v was seen twice", p)
			}
			seen[p.([]any)[1]] = true
		}
		if len(seen) != events {
			t.Errorf("%d of %d changes were seen", len(seen), events)
		}
		if bg := r.payloads("bg"); len(bg) > events {
			t.Errorf("the background agent ran %d times for %d events", len(bg), events)
		}
		if e := r.errors(); e != "" {
			t.Error(e)
		}
		r.stop(b)
	})
}

func TestSwapToWhatCannotStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		b := r.start("VERSION = 1" + echo)
		// Two trees can't have one name.
		next := r.load(`
a = BackgroundAgent(agent = Agent("a", fn = lambda task: None), subscribe_to = "in", depends_on = "nobody")
`)
		if err := lib.Swap(t.Context(), b, next); err == nil {
			t.Error("got no error of a behaviour that can't start")
		}
		r.publish("in", map[string]any{"n": 1})
		time.Sleep(2 * time.Second)
		if got := r.payloads("out"); len(got) != 1 {
			t.Errorf("the old behaviour published %v, want one event", got)
		}
		r.stop(b)
	})
}

func TestStopLetsRunsFinish(t *testing.T) {
	for _, c := range []struct {
		limit time.Duration
		want  int
	}{{5 * time.Second, 1}, {100 * time.Millisecond, 0}} {
		t.Run(c.limit.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				defer r.close()
				b := r.start("VERSION = 1" + echo)
				r.publish("in", map[string]any{"n": 1})
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), c.limit)
				defer cancel()
				if err := b.Stop(ctx); err != nil {
					t.Error(err)
				}
				r.publish("in", map[string]any{"n": 2})
				time.Sleep(time.Minute)
				if got := r.payloads("out"); len(got) != c.want {
					t.Errorf("got %v, want %d", got, c.want)
				}
				if e := r.errors(); e != "" {
					t.Error(e)
				}
			})
		})
	}
}

const bell = `
def bell(ev, ctx):
    bus.publish("rang", ctx.resumed)
    first = ctx.wait_for("first", durable = True)
    got = ctx.wait_for("answer", timeout = "1h", durable = True, policy = "%s", where = lambda ev: ev["ok"])
    bus.publish("got", [ev["n"], first["x"], got["who"] if got else None, str(time.now())[11:16]])
on("bell", bell, mode = "parallel")
`

// TestDurableWait stops the behaviour in the middle of a wait and starts it
// anew half an hour later.
func TestDurableWait(t *testing.T) {
	for _, c := range []struct {
		policy string
		off    time.Duration
		answer bool
		want   string
	}{
		{"resume", 30 * time.Minute, true, "[[7 1 Ada 00:50]]"},
		{"resume", 30 * time.Minute, false, "[[7 1 <nil> 01:10]]"},
		{"resume", 2 * time.Hour, false, "[[7 1 <nil> 02:10]]"},
		{"drop", 30 * time.Minute, true, "[]"},
		{"fire", 30 * time.Minute, false, "[[7 1 <nil> 00:40]]"},
	} {
		t.Run(fmt.Sprint(c.policy, c.off, c.answer), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				defer r.close()
				main := fmt.Sprintf(bell, c.policy)
				b := r.start(main)
				r.publish("bell", map[string]any{"n": 7})
				time.Sleep(10 * time.Minute)
				r.publish("first", map[string]any{"x": 1})
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				defer cancel()
				if err := b.Stop(ctx); err != nil {
					t.Fatal(err)
				}
				time.Sleep(c.off - time.Millisecond)
				b = r.start(main)
				if c.answer {
					time.Sleep(10 * time.Minute)
					r.publish("answer", map[string]any{"ok": false})
					r.publish("answer", map[string]any{"ok": true, "who": "Ada"})
				}
				time.Sleep(2 * time.Hour)
				if got := fmt.Sprint(r.payloads("got")); got != c.want {
					t.Errorf("got %s, want %s", got, c.want)
				}
				if e := r.errors(); e != "" {
					t.Error(e)
				}
				if n := b.Summary().Waiting; n != 0 {
					t.Errorf("%d waits are left", n)
				}
				r.stop(b)
				count := 0
				for range r.board.Records("script/box/runs").All() {
					count++
				}
				if count != 0 {
					t.Errorf("%d records are left", count)
				}
			})
		})
	}
}

// TestDurableWaitGoesOverInASwap publishes the answer right after a reload.
func TestDurableWaitGoesOverInASwap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		main := fmt.Sprintf(bell, "resume")
		b := r.start(main)
		for n := range 3 {
			r.publish("bell", map[string]any{"n": n})
		}
		synctest.Wait()
		r.publish("first", map[string]any{"x": 1})
		synctest.Wait()
		next := r.load(main + "\n# edited\n")
		if err := lib.Swap(t.Context(), b, next); err != nil {
			t.Fatal(err)
		}
		r.publish("answer", map[string]any{"ok": true, "who": "Ada"})
		synctest.Wait()
		if got := r.payloads("got"); len(got) != 3 {
			t.Errorf("got %v, want three", got)
		}
		if e := r.errors(); e != "" {
			t.Error(e)
		}
		r.stop(next)
	})
}

func TestDurableTimer(t *testing.T) {
	const main = `
def off(task):
    bus.publish("off", [task, str(time.now())[11:16]])
on("on", lambda ev: after("1h", off, task = ev.payload, durable = True, policy = "%s", name = "lamp"))
%s
`
	for _, c := range []struct {
		policy, top string
		off         time.Duration
		want        string
	}{
		{"resume", "", 10 * time.Minute, "[[hall 01:00]]"},
		{"resume", "", 3 * time.Hour, "[[hall 03:00]]"},
		{"drop", "", 10 * time.Minute, "[[hall 01:00]]"},
		{"drop", "", 3 * time.Hour, "[]"},
		{"fire", "", 10 * time.Minute, "[[hall 00:10]]"},
		{"resume", `after("30m", off, task = "top", durable = True)`, 10 * time.Minute, "[[top 00:30] [hall 01:00]]"},
	} {
		t.Run(fmt.Sprint(c.policy, c.off, c.top), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				defer r.close()
				text := fmt.Sprintf(main, c.policy, c.top)
				b := r.start(text)
				r.publish("on", "hall")
				synctest.Wait()
				r.stop(b)
				time.Sleep(c.off)
				b = r.start(text)
				time.Sleep(2 * time.Hour)
				if got := fmt.Sprint(r.payloads("off")); got != c.want {
					t.Errorf("got %s, want %s", got, c.want)
				}
				if e := r.errors(); e != "" {
					t.Error(e)
				}
				r.stop(b)
			})
		})
	}
}

func TestLoadErrors(t *testing.T) {
	for _, c := range []struct{ main, want string }{
		{`on("a/#/b", lambda ev: None)`, "filter"},
		{`on("a", lambda x, y, z: None)`, `lambda needs an argument "y"`},
		{`on("a", handlr = 1)`, `did you mean "handler"`},
		{`Agent("a")`, "one of fn, model and topic"},
		{`Agent("a", fn = lambda t: t, model = "m")`, "one of fn, model and topic"},
		{`Agent("a", fn = lambda t: t, tools = [])`, "for agents with a model"},
		{`Agent("a", model = "openai:x")`, "write NAME@http://host:port/v1"},
		{`Agent("a", model = "intent")`, "has no sentences"},
		{`Agent("a", model = [])`, "the list is empty"},
		{`Agent("a", model = "m", tools = [lambda x: x])`, "a tool needs a name"},
		{`Agent("a", model = "m", tools = [3])`, "want a function, Tool(…), an agent or mcp(…)"},
		{`Agent("a", model = "m", traits = {"openess": 0.5})`, "did you mean \"openness\"?"},
		{`Agent("a", model = "m", mood = {"arousal": 2})`, "arousal is a number from -1 to 1"},
		{`Agent("a", model = "m", hooks = ["token_budgt"])`, "did you mean \"token_budget\"?"},
		{`Agent("a", model = "m", output = {"n": "in, 0..3", "x": "list"})`, "x"},
		{"def f(n):\n    \"\"\"F.\n\n    Args:\n      m: what\n    \"\"\"\nTool(f)", "Args tells of \"m\", which is not a parameter"},
		{"def f(n):\n    pass\nTool(f, limits = {\"m\": (0, 1)})", "limits: no parameter \"m\""},
		{"def f(*n):\n    pass\nTool(f)", "*args"},
		{`mcp("ftp://x")`, "stdio:COMMAND"},
		{`Intents([Intent("go to {place}", tool = "go")])`, "place"},
		{`Hook()`, "one of the points"},
		{`Agent("a", llm = "m")`, "here it is \"model\""},
		{`Agent("a", model = "m", system_prompt = "x")`, "here it is \"instructions\""},
		{`Agent("a", model = "m", description = "x")`, "here it is \"role\""},
		{`model.ask("x", model = "m")`, "the top level declares"},
		{`remember("x", 1)`, "the top level declares"},
		{"def f(n):\n    pass\nTool(f, limits = {\"n\": (0, 1)})", "n is not a number"},
		{"def f(n):\n    pass\nTool(f, limits = {\"n\": (0, 1, -1)})", "most change a second"},
		{`Agent("a/b", fn = lambda: 1)`, "one topic level"},
		{`Agent("a", fn = lambda: 1).run("x")`, "the top level declares"},
		{`BackgroundAgent(Agent("a", fn = lambda: 1))`, "nothing can wake"},
		{`BackgroundAgent(Agent("a", fn = lambda: 1), subscribe_to = "x", restart = "always")`, `"permanent" | "transient" | "temporary"`},
		{`every("0s", lambda: 1)`, "interval"},
		{`cron("99 * * * *", lambda: 1)`, "spec"},
		{`debounce_trigger(lambda ev: 1)`, "interval"},
		{`hw.device("x")`, "no devices"},
		{`secret("x")`, "[secrets]"},
		{`env("x")`, "[env]"},
		{`after("1s", lambda: 1, durable = True)`, "lambda"},
		{`bb.volunter("x", lambda r: 1)`, "volunteer"},
		{`SupervisionTree("t", children = [1])`, "want a background agent"},
		{"a = BackgroundAgent(Agent('a', fn = lambda: 1), subscribe_to = 'x')\nSupervisionTree('t', children = [a])\nSupervisionTree('u', children = [a])", "in the tree \"t\" already"},
	} {
		r := newRig(t)
		_, err := r.try(c.main)
		if got := shown(err); !strings.Contains(got, c.want) || !strings.Contains(got, "box/main.star:") {
			t.Errorf("%s\ngot  %s\nwant %s", c.main, got, c.want)
		}
		r.close()
	}
}

func TestStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		dir := t.TempDir()
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		r.host.Data = root
		b := r.start("")
		defer r.stop(b)
		s := b.NewSession()
		for _, c := range []struct{ line, want string }{
			{`store.write("a/b.txt", "x")`, ""},
			{`store.append("a/b.txt", "yz")`, ""},
			{`store.read("a/b.txt")`, `"xyz"`},
			{`store.write("raw", b"\xff")`, ""},
			{`store.read("raw")`, `b"\xff"`},
			{`store.list()`, `["a/b.txt", "raw"]`},
			{`store.list("none")`, `[]`},
			{`store.delete("raw"), store.delete("raw")`, `(True, False)`},
			{`store.read("raw", default = 1)`, `1`},
			{`attempt(store.read, "../x").error`, `"store.read: argument \"path\": \"../x\" is not a plain path inside the data folder"`},
			{`attempt(store.read, "raw").error`, `"store.read: raw: no such file or directory"`},
		} {
			got, err := s.Eval(t.Context(), c.line)
			if err != nil || got != c.want {
				t.Errorf("%s: got %s %v, want %s", c.line, got, err, c.want)
			}
		}
	})
}

func TestSecretsDoNotShow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		var out bytes.Buffer
		r.host.Log = slog.New(slog.NewTextHandler(&out, nil))
		r.host.Secret = func(name string) (string, error) {
			if name == "token" {
				return "hunter2", nil
			}
			return "", errors.New("no such file")
		}
		r.host.Env = func(name string) (string, bool) { return "hall", name == "DOCK" }
		b := r.start(`
T = secret("token")
DOCK = env("DOCK", "kitchen")
def f(ev):
    log.info("t", T, t = T, dock = DOCK)
    print(T, [T])
    for g in [lambda: bus.publish("x", T), lambda: bb.set("x", {"t": T}), lambda: json.encode(T), lambda: "%s" % T + T]:
        bus.publish("tried", str(attempt(g).error))
on("go", f)
`)
		r.publish("go", nil)
		synctest.Wait()
		if got := len(r.payloads("tried")); got != 4 {
			t.Errorf("got %d tries, want 4: %s", got, r.errors())
		}
		all := out.String()
		for _, e := range r.all() {
			all += string(e.Bytes())
		}
		if strings.Contains(all, "hunter2") || !strings.Contains(all, "***") || !strings.Contains(all, "dock=hall") {
			t.Errorf("the secret shows: %s", all)
		}
		r.stop(b)
	})
}

func TestSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		b := r.start("def double(x): return 2 * x\nX = 4\n")
		defer r.stop(b)
		s := b.NewSession()
		for _, c := range []struct{ line, want, err string }{
			{"1 + 1", "2", ""},
			{"y = double(X)", "", ""},
			{"y", "8", ""},
			{"bb.set('anything', y)", "1", ""},
			{"def f(): return y + 1", "", ""},
			{"f()", "9", ""},
			{"nothing", "", "undefined: nothing"},
			{"1 +", "", "want primary expression"},
			{"fail('oh')", "", "oh"},
			{"on('x', lambda ev: bus.publish('got', y))", "<subscription>", ""},
		} {
			got, err := s.Eval(t.Context(), c.line)
			if got != c.want || !strings.Contains(shown(err), c.err) || (err != nil) != (c.err != "") {
				t.Errorf("%s: got %q, %v; want %q, %q", c.line, got, err, c.want, c.err)
			}
		}
		r.publish("x", nil)
		synctest.Wait()
		if got := r.payloads("got"); len(got) != 1 {
			t.Errorf("a handler of the prompt published %v; %s", got, r.errors())
		}
	})
}

func TestSummaryAndCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		b := r.start(`
def f(ev): pass
on("a", f)
every("1s", lambda: None)
bb.watch("k", lambda k, o, n: None)
bb.volunteer("k", lambda q: None)
BackgroundAgent(agent = Agent("x", fn = f), subscribe_to = "b")
Agent("x", fn = f)
`)
		s := b.Summary()
		var kinds []string
		for _, h := range s.Handlers {
			kinds = append(kinds, h.Kind)
		}
		if got := fmt.Sprint(kinds, s.Agents, s.Files, len(s.Background.Children)); got != "[on timer watch volunteer] [x] [box/main.star] 1" {
			t.Error(got)
		}
		if got := fmt.Sprint(b.Check()); !strings.Contains(got, "agent-name") {
			t.Error(got)
		}
		r.stop(b)
		if err := b.Start(t.Context()); err == nil {
			t.Error("a behaviour was started twice")
		}
	})
}
