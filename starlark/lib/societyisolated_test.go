package lib_test

import (
	"context"
	"testing"
	"time"

	"edged/bus"
	"edged/starlark/lib"
)

// TestIsolatedSociety: societies work for scripts in a child process.
func TestIsolatedSociety(t *testing.T) {
	r := newRig(t)
	defer r.close()
	r.host.Limits.Time = 30 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b, err := lib.Load(ctx, r.host, source(`
def check(draft, state):
    return "too long" if len(draft) > 5 else None

def review(task, state, turn):
    return "approve" if turn.draft == "short" else "reject"

def best(subs, state):
    return [s.agent for s in subs if s.output == "short"][0]

def one(task):
    return "short"

a, b, c = Agent("a", fn = one), Agent("b", fn = review), Agent("c", fn = lambda task: "other")
s = Society("home")
e = s.connect(a, b, Oversight(guardrails = [Guardrail("short", check)]))
f = s.compete([a, c], Competition(resolve = best))
g = s.cooperate([a, c], Cooperation(merge = "append", protocol = {"next_speaker": lambda floor: None if floor.spoken else ["a", "c"]}))

def go(ev):
    bus.publish("out", [e.run("x").status, f.run("x").winner, g.run("x").output, [m.name for m in e.members]])

on("go", go)
`), lib.Options{Grants: lib.Grants{All: true}, Isolated: &lib.Isolation{Command: host(t)}})
	if err != nil {
		t.Fatal(shown(err))
	}
	sub, err := r.bus.Subscribe("out", bus.Queue{})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	if err := b.Start(ctx); err != nil {
		t.Fatal(err)
	}
	r.publish("go", nil)
	e, err := sub.Next(ctx)
	if err != nil {
		t.Fatal(err, r.errors())
	}
	if got := string(e.Bytes()); got != `["done","a",["short","other"],["a","b"]]` {
		t.Errorf("got %s: %s", got, r.errors())
	}
	if err := b.Stop(ctx); err != nil {
		t.Error(err)
	}
}
