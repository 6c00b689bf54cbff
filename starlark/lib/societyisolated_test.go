package lib_test

import "testing"

// TestIsolatedSociety: societies work for scripts in a child process.
func TestIsolatedSociety(t *testing.T) {
	r := newRig(t)
	defer r.close()
	got := r.isolated(`
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
    bus.publish("box/out", [e.run("x").status, f.run("x").winner, g.run("x").output, [m.name for m in e.members]])

on("box/go", go)
`)
	if got != `["done","a",["short","other"],["a","b"]]` {
		t.Errorf("got %s: %s", got, r.errors())
	}
}
