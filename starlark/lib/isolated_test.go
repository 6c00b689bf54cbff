package lib_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"edged/bus"
	"edged/starlark/lib"
)

// host builds the child of isolated scripts: without the race detector, which
// asks for more memory than the child may have.
func host(t *testing.T) func() *exec.Cmd {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "host")
	out, err := exec.Command("go", "build", "-race=false", "-o", bin, "../script/testdata/host").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return func() *exec.Cmd { return exec.Command(bin) }
}

// patient lets a busy machine take its time; what comes is heard from now on.
func (r *rig) patient(filter string) (context.Context, *bus.Subscription, func()) {
	r.t.Helper()
	r.host.Limits.Time = 30 * time.Second
	sub, err := r.bus.Subscribe(filter, bus.Queue{})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	return ctx, sub, func() { sub.Close(); cancel() }
}

// isolated runs a folder in a child process: it publishes box/go, and gives what
// comes as box/out.
func (r *rig) isolated(main string) string {
	t := r.t
	t.Helper()
	ctx, sub, end := r.patient("box/out")
	defer end()
	b, err := lib.Load(ctx, r.host, source(main), lib.Options{Grants: lib.Grants{All: true}, Isolated: &lib.Isolation{Command: host(t)}})
	if err != nil {
		t.Fatal(shown(err))
	}
	if err := b.Start(ctx); err != nil {
		t.Fatal(err)
	}
	r.publish("box/go", nil)
	e, err := sub.Next(ctx)
	if err != nil {
		t.Fatal(err, r.errors())
	}
	if err := b.Stop(ctx); err != nil {
		t.Error(err)
	}
	return string(e.Bytes())
}

// TestIsolated runs a folder in a child process: handlers, board, agents and
// timers work, a memory bomb ends the child and nothing else, and the folder
// can be loaded again and take over.
func TestIsolated(t *testing.T) {
	r := newRig(t)
	defer r.close()
	ctx, sub, end := r.patient("out/#")
	defer end()
	next := func(want string) {
		t.Helper()
		e, err := sub.Next(ctx)
		if err != nil {
			t.Fatalf("%s: %v; %s", want, err, r.errors())
		}
		if got := e.Topic + " " + string(e.Bytes()); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
	const main = `
def on_in(ev):
    bus.publish("out/in", {"n": ev["n"], "sum": bb.incr("sum", ev["n"])})

def bomb(ev):
    return len("x" * 1000000000)  # at once, so that the host has no time to see it coming

on("in", on_in, where = lambda ev: ev["n"] > 0)
on("bomb", bomb)
bb.watch("sum", lambda key, old, new: bus.publish("out/sum", [old, new]))
BackgroundAgent(agent = Agent("bg", fn = lambda task: bus.publish("out/bg", task)), subscribe_to = "wake", trigger = lambda ev: ev["say"])
`
	gone := make(chan error, 1)
	iso := &lib.Isolation{Command: host(t)}
	load := func(main string) (*lib.Behaviour, error) {
		return lib.Load(ctx, r.host, source(main), lib.Options{Grants: lib.Grants{All: true}, Isolated: iso})
	}
	if _, err := load("on('x')"); err == nil || !strings.Contains(shown(err), "handler") {
		t.Fatalf("got %v, want the error of the load", shown(err))
	}
	b, err := load(main)
	if err != nil {
		t.Fatal(shown(err))
	}
	if err := b.Start(ctx); err != nil {
		t.Fatal(err)
	}
	go func() { gone <- b.ServeHost(ctx) }()
	r.publish("in", map[string]any{"n": -1})
	r.publish("in", map[string]any{"n": 2})
	seen := map[string]bool{}
	for range 2 { // the handler's event and the watcher's, in whatever order
		e, err := sub.Next(ctx)
		if err != nil {
			t.Fatal(err, r.errors())
		}
		seen[e.Topic+" "+string(e.Bytes())] = true
	}
	if !seen[`out/in {"n":2,"sum":2}`] || !seen[`out/sum [null,2]`] {
		t.Errorf("got %v", seen)
	}
	r.publish("wake", map[string]any{"say": "hello"})
	next(`out/bg hello`)
	if s := b.Summary(); len(s.Handlers) != 3 || len(s.Files) != 1 {
		t.Errorf("%+v", s)
	}
	r.publish("bomb", nil)
	select {
	case err := <-gone:
		if err == nil {
			t.Error("the child ended without an error")
		}
	case <-ctx.Done():
		t.Fatal("the bomb did not end the child")
	}
	again, err := load(main)
	if err != nil {
		t.Fatal(shown(err))
	}
	if err := lib.Swap(ctx, b, again); err != nil {
		t.Error(err)
	}
	r.publish("wake", map[string]any{"say": "again"})
	next(`out/bg again`)
	go func() { gone <- again.ServeHost(ctx) }()
	if err := again.Stop(ctx); err != nil {
		t.Error(err)
	}
	if err := <-gone; err != nil {
		t.Errorf("a stop was told as an end: %v", err)
	}
}

// TestIsolatedIsTheSame: what a script sees of the runtime is what it sees in the
// process: signatures, ctx wherever it stands, structs, modules, attributes as
// they are now.
func TestIsolatedIsTheSame(t *testing.T) {
	r := newRig(t)
	defer r.close()
	got := r.isolated(`
def light(room, on = True, level = 50):
    """Switch a lamp.

    Args:
      room: one of kitchen, hall
      level (int, 0..100): percent
    """
    return struct(room = room, on = on, level = level).level

lamp = Tool(light)
board = Blackboard()

def named(ctx, task):
    return [ctx.name, task]

a = Agent("a", fn = named)

def go(ev, ctx):
    board.set("box/x", 3)
    ctx.state["n"] = ctx.state.get("n", 1) + 1
    ctx.state["f"] = lambda: ctx.state["n"]
    first = a.run("t").output
    bus.publish("box/out", [first, type(ctx), ctx.event.topic, ctx.blackboard.get("box/x"), ctx.state["f"](), lamp.name, struct(a = 1).a, attempt(lambda: light("hall")).value])

on("box/go", go)
`)
	if got != `[["a","t"],"ctx","box/go",3,2,"light",1,50]` {
		t.Errorf("got %s: %s", got, r.errors())
	}
}

// TestIsolatedSeesChanges: an attribute is what it is now, not what it was when
// the object came.
func TestIsolatedSeesChanges(t *testing.T) {
	r := newRig(t)
	defer r.close()
	got := r.isolated(`
a = Agent("a", fn = lambda task: 1, mood = {"valence": 0.25})

def go(ev):
    was = a.mood["valence"]
    a.set_mood(valence = 0.75)
    bus.publish("box/out", [was, a.mood["valence"]])

on("box/go", go)
`)
	if got != `[0.25,0.75]` {
		t.Errorf("got %s: %s", got, r.errors())
	}
}

// TestIsolatedBoard: an isolated folder keeps so much on the board and no more,
// and is told; what it deletes makes room.
func TestIsolatedBoard(t *testing.T) {
	r := newRig(t)
	defer r.close()
	got := r.isolated(`
def go(ev):
    text = "x" * 100000
    n = 0
    for i in range(400):
        r = attempt(bb.set, "box/k%d" % i, text + str(i))
        if not r.ok:
            break
        n += 1
    why = r.error
    for i in range(10):
        bb.delete("box/k%d" % i)
    again = attempt(bb.update, {"box/a": text, "box/b": text}).ok
    many = attempt(bb.transact, lambda v: [v.set("box/t%d" % i, text) for i in range(20)]).ok
    bus.publish("box/out", [n, "isolated scripts may keep" in why, again, many])

on("box/go", go)
`)
	if got != `[167,true,true,false]` {
		t.Errorf("got %s: %s", got, r.errors())
	}
	if n := len(r.board.Keys("box/")); n != 159 {
		t.Errorf("%d keys are on the board", n)
	}
}
