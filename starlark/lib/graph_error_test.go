package lib_test

import "testing"

// TestGraphErrorEvent: what ended a graph's run badly is told once, with the
// node that it came from.
func TestGraphErrorEvent(t *testing.T) {
	play(t, `
-- main.star --
def boom(state):
    fail("no arm")

g = Graph("job")
g.node("a", lambda state: "a")
g.node("b", boom)
g.edge(START, "a")
g.edge("a", "b")
g.edge("b", END)
on("box/go", lambda ev: g.run("x"))
-- main_test.star --
def test_told_once():
    publish("box/go")
    e = expect_event("edged/graph/job/error", within = "1s")
    assert.eq([e["node"], e["status"]], ["b", "failed"])
    assert.contains(e["reason"], "no arm")
    expect_no_event("edged/graph/job/error", within = "1s")
`)
}
