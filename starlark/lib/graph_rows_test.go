package lib_test

import (
	"strings"
	"testing"
	"testing/synctest"
)

// What the nodes of the tests below do: they note that they ran.
const noting = `
def note(entry):
    bb.transact(lambda tx: tx.set("box/ran", tx.get("box/ran", []) + [entry]))

def did(name, out = None):
    def run(state):
        note(name)
        return out
    return run
`

// TestGraphHasAParallelsReplies: in the state is what each branch of a
// workflow said, if it put out nothing else.
func TestGraphHasAParallelsReplies(t *testing.T) {
	play(t, `
-- main.star --
g = Graph("g")
g.node("both", Parallel("both", [Agent("a", fn = lambda task: "from a"), Agent("b", fn = lambda task: {"from": "b"})]))
g.edge(START, "both")
g.edge("both", END)
-- main_test.star --
load("main.star", "g")

def test_replies():
    assert.eq(g.run("go").output["both"], ["from a", {"from": "b"}])
`)
}

// TestGraphGuardrails: all five reactions, of nodes and of edges, every time.
func TestGraphGuardrails(t *testing.T) {
	play(t, `
-- main.star --
`+noting+`
def kept(tx):
    tx.set("box/x", 1)

WRITES = {
    "sets": lambda p: bb.set("box/x", p),
    "counts": lambda p: bb.incr("box/x"),
    "transacts": lambda p: bb.transact(kept),
    "asks": lambda p: bb.post_request("box/help", p),
    "publishes": lambda p: bus.publish("box/x", p),
    "remembers": lambda p: remember("x", p),
    "says": lambda p: robot.say("too fast"),
    "rests": lambda p: hw.device("base").rest(),
    "resumes": lambda p: robot.resume(),
    "runs": lambda p: other.run(p),
    "stores": lambda p: store.write("x", "1"),
    "shelves": lambda p: Society("y").put("x", p),
}
other = Agent("other", fn = lambda task: bb.set("box/x", task))

def check(payload, state):
    how = bb.get("box/how")
    if how == "fine":
        return None
    if how == "raises":
        fail("no idea")
    if how == "odd":
        return True
    if how == "declines":
        return Declined("not me")
    if how == "moves":
        hw.device("base").do(linear = 0.1)
    if how in WRITES:
        WRITES[how](payload)
    if how == "tells":
        return "%d of %s" % (payload["v"], state["input"])
    if how == "replaces":
        return replace({"v": 1})
    if how == "fails":
        return payload["nothing"]
    if how == "once" and payload["round"] > 1:
        return None
    return "too fast"

def author(state, ctx):
    r = ctx.revision
    note(["author", r["comment"] if r else None, r["draft"]["round"] if r else None])
    return {"v": 9, "round": r["round"] + 1 if r else 1}

def make(name, on, where):
    rail = [Guardrail("speed", check, on_violation = on, reroute = "slow" if on == "reroute" else None)]
    g = Graph(name)
    g.node("author", author, guardrails = rail if where == "node" else [])
    g.node("drive", lambda state: note(["drive", state["v"]]))
    g.node("slow", did("slow"))
    g.edge(START, "author")
    g.edge("author", "drive", guardrails = rail if where == "edge" else [])
    g.edge("author", "slow") if on != "reroute" else None
    g.edge("drive", END)
    g.edge("slow", END)
    return g

graphs = {(on, where): make(on + "_" + where, on, where) for on in ["block", "reroute", "warn", "sanitize", "revise"] for where in ["node", "edge"]}
-- main_test.star --
load("main.star", "graphs", "WRITES")

def row(on, how):
    "Status, how often the guardrail looked, and what ran; the same of a node and of an edge."
    got = []
    for where in ["node", "edge"]:
        bb.set("box/how", how)
        bb.set("box/ran", [])
        looks = trace("edged/graph/+/guardrail").count("\n")
        r = graphs[on, where].run("go")
        kinds = [e if type(e) == "string" else e[0] if e[0] != "drive" else "drive %d" % e[1] for e in bb.get("box/ran")]
        # slow is a branch of its own but with reroute: whether it got to run is nobody's business
        got.append([r.status, trace("edged/graph/+/guardrail").count("\n") - looks] + [k for k in kinds if k != "slow" or on == "reroute"])
    assert.eq(got[0], got[1])
    return got[0]

def test_fine():
    for on in ["block", "reroute", "warn", "sanitize", "revise"]:
        assert.eq(row(on, "fine"), ["done", 1, "author", "drive 9"])

def test_block():
    assert.eq(row("block", "no"), ["blocked", 1, "author"])
    assert.contains(graphs["block", "edge"].run("go").reason, "guardrail speed: too fast")

def test_reroute():
    assert.eq(row("reroute", "no"), ["done", 1, "author", "slow"])

def test_warn():
    assert.eq(row("warn", "no"), ["done", 1, "author", "drive 9"])
    ev = expect_event("edged/graph/warn_edge/guardrail")
    assert.eq([ev["guardrail"], ev["ok"], ev["violation"], ev["on_violation"]], ["speed", False, "too fast", "warn"])

def test_sanitize():
    assert.eq(row("sanitize", "replaces"), ["done", 1, "author", "drive 1"])
    assert.eq(row("sanitize", "no"), ["blocked", 1, "author"])
    bb.set("box/how", "replaces")
    r = graphs["sanitize", "node"].run("go")
    assert.eq([[c.output, c.reply] for c in r.children if c.by == "author"], [[{"v": 1}, "{\"v\":1}"]])

def test_a_check_that_fails_lets_nothing_on():
    for on in ["block", "warn", "sanitize"]:
        assert.eq(row(on, "fails"), ["blocked", 1, "author"])

def test_revise():
    assert.eq(row("revise", "once"), ["done", 2, "author", "author", "drive 9"])
    assert.eq(row("revise", "no"), ["blocked", 3] + ["author"] * 3)
    bb.set("box/ran", [])
    graphs["revise", "node"].run("go")
    assert.eq([e for e in bb.get("box/ran") if e[0] == "author"], [["author", None, None], ["author", "too fast", 1], ["author", "too fast", 2]])

def test_fails_closed():
    for how in ["raises", "odd", "declines", "moves"]:
        assert.eq(row("block", how), ["blocked", 1, "author"])
    bb.set("box/how", "odd")
    assert.contains(graphs["block", "node"].run("go").reason, "returned True: want None if all is well")
    bb.set("box/how", "raises")
    assert.contains(graphs["block", "node"].run("go").reason, "no idea")
    bb.set("box/how", "moves")
    assert.contains(graphs["block", "node"].run("go").reason, "neither effects nor waits inside a guardrail's check")

def test_a_check_writes_nothing():
    for how in WRITES:
        assert.eq([how] + row("block", how), [how, "blocked", 1, "author"])
        assert.contains(graphs["block", "node"].run("go").reason, "inside a guardrail's check")
    assert.eq(bb.get("box/x"), None)

def test_what_it_sees():
    row("warn", "tells")
    assert.eq(expect_event("edged/graph/warn_node/guardrail")["violation"], "9 of go")
`)
}

// TestGraphWrites: of several keys each gets its entry, and one without any is
// named.
func TestGraphWrites(t *testing.T) {
	play(t, `
-- main.star --
def make(name, node):
    g = Graph(name)
    g.node("a", node, writes = ["x", "y"])
    g.edge(START, "a")
    g.edge("a", END)
    return g

whole = make("whole", lambda state: {"x": 1, "y": None})
half = make("half", lambda state: {"x": 1})
none = make("none", lambda state: None)
agent = make("agent", Agent("who", fn = lambda task: {"y": 1}))
silent = make("silent", Agent("nobody", fn = lambda task: None))
-- main_test.star --
load("main.star", "whole", "half", "none", "agent", "silent")

def test_writes():
    assert.eq([whole.run("go").status, none.run("go").status], ["done", "done"])
    for g, key in [(half, "y"), (agent, "x"), (silent, "x")]:
        r = g.run("go")
        assert.eq([r.status, r.reason], ["failed", "a writes [\"x\" \"y\"] and gave nothing for \"%s\"" % key])
`)
}

// TestGraphTimeouts: a timeout really cancels, and attempts never overlap.
func TestGraphTimeouts(t *testing.T) {
	play(t, `
-- main.star --
`+noting+`
def slow(state):
    n = bb.incr("box/running")
    bb.set("box/most", max(n, bb.get("box/most", 0)))
    note("begins")
    sleep("80s")
    note("ends")
    bb.incr("box/running", -1)

def flaky(state):
    note("flaky")
    if bb.incr("box/tries") < 3:
        fail("not yet")
    return "done it"

once = Graph("once")
once.node("slow", slow, timeout = "20s")
once.edge(START, "slow")
once.edge("slow", END)

thrice = Graph("thrice")
thrice.node("slow", slow, timeout = "20s", retry = Retry(3, backoff = "1s", on = ["timeout"]))
thrice.edge(START, "slow")
thrice.edge("slow", END)

sure = Graph("sure")
sure.node("flaky", flaky, retry = Retry(3, backoff = "2s"))
sure.edge(START, "flaky")
sure.edge("flaky", END)

unsure = Graph("unsure")
unsure.node("flaky", flaky, retry = Retry(3, on = ["timeout"]))
unsure.edge(START, "flaky")
unsure.edge("flaky", END)
-- main_test.star --
load("main.star", "once", "sure", "thrice", "unsure")

def test_cancels():
    begun = clock.now()
    r = once.run("go")
    assert.eq([r.status, clock.now() - begun < time.parse_duration("21s")], ["timeout", True])
    clock.advance("5m")
    assert.eq(bb.get("box/ran"), ["begins"])

def test_attempts_do_not_overlap():
    begun = clock.now()
    r = thrice.run("go")
    assert.eq(r.status, "timeout")
    assert.true(clock.now() - begun >= time.parse_duration("63s"))  # 3 × 20 s, 1 s and 2 s between
    clock.advance("5m")
    assert.eq(bb.get("box/ran"), ["begins"] * 3)

def test_retry():
    r = sure.run("go")
    assert.eq([r.status, r.reply, bb.get("box/tries")], ["done", "done it", 3])

def test_retry_on():
    r = unsure.run("go")
    assert.eq([r.status, bb.get("box/tries")], ["failed", 1])
`)
}

// TestGraphDiscovers: what is found runs.
func TestGraphDiscovers(t *testing.T) {
	play(t, `
-- main.star --
`+noting+`
def wave_hand(task):
    """Wave a hand at somebody.

    Args:
      task: whom to wave at
    """
    note("wave " + task)
    return "waved"

def light(task):
    """Switch the light on.

    Args:
      task: which light
    """
    note("light " + task)

Agent("helper", model = "m", tools = [wave_hand, Tool(light, effect = "write")])
Agent("cam", fn = lambda task: note("cam " + task) or "a photo", role = "takes a photo with the camera", capabilities = ["photo"])
Agent("wave_hand", fn = lambda task: note("an agent waves"), role = "waves a flag")
Agent("twin", topic = "fleet/twin", role = "lifts heavy boxes", timeout = "1s")
Sequence("patrol", [lambda task: note("patrol") or "went round"], )

def make(name, query, **more):
    g = Graph(name)
    g.node("a", did("a", "hall"))
    g.node("fb", did("fb"))
    g.node("then", lambda state: note("then " + str(sorted(state))))
    g.edge(START, "a")
    g.discover("a", query, then = "then", **more)
    g.edge("fb", END)
    g.edge("then", END)
    g.edge("a", "fb") if "fallback" not in more else None
    return g

photo = make("photo", "take a photo with the camera", fallback = "fb")
tagged = make("tagged", "", tags = ["photo"], fallback = "fb")
wave = make("wave", "wave a hand", kind = "tool", fallback = "fb")
switch = make("switch", "switch the light on", kind = "tool", fallback = "fb")
rounds = make("rounds", "patrol", kind = "skill", fallback = "fb")
peer = make("peer", "lift heavy boxes", kind = "extension", fallback = "fb")
wrong_kind = make("wrong_kind", "take a photo with the camera", kind = "tool", fallback = "fb")
nothing = make("nothing", "sing an aria", fallback = "fb")

alone = Graph("alone")
alone.discover(START, "sing an aria", min_score = 0.9)

strict = make("strict", "photo graph", min_score = 1.0, fallback = "fb")
-- main_test.star --
load("main.star", "alone", "nothing", "peer", "photo", "rounds", "strict", "switch", "tagged", "wave", "wrong_kind")

def test_found_and_run():
    r = photo.run("go")
    assert.eq([r.status, bb.get("box/ran")], ["done", ["a", "cam hall", 'then ["a", "cam", "input"]']])
    assert.eq(r.output["cam"], "a photo")
    ev = expect_event("edged/graph/photo/discovery")
    assert.eq([ev["query"], ev["found"]], ["take a photo with the camera", "cam"])
    assert.true(ev["candidates"][0]["score"] >= 0.3)

def test_by_tag():
    tagged.run("go")
    assert.eq(bb.get("box/ran")[1], "cam hall")

def test_tools():
    r = wave.run("go")
    assert.eq(bb.get("box/ran"), ["a", "wave hall", 'then ["a", "input", "wave_hand"]'])
    switch.run("go")
    assert.eq(bb.get("box/ran")[3:5], ["a", "light hall"])

def test_foreign_words_lead_to_no_tool_that_acts():
    r = switch.run("go", origin = "mqtt")
    assert.eq([r.status, bb.get("box/ran")], ["blocked", ["a"]])
    assert.eq(wave.run("go", origin = "mqtt").status, "done")

def test_skill():
    r = rounds.run("go")
    assert.eq([r.status, bb.get("box/ran")[:2], r.output["patrol"]], ["done", ["a", "patrol"], "went round"])

def test_peer():
    r = peer.run("go")
    assert.eq([r.status, r.by], ["timeout", "twin"])
    assert.eq(expect_event("fleet/twin")["task"], "hall")

def test_nothing_found():
    r = nothing.run("go")
    assert.eq([r.status, bb.get("box/ran")], ["done", ["a", "fb"]])
    r = wrong_kind.run("go")
    assert.eq(bb.get("box/ran"), ["a", "fb"] * 2)
    strict.run("go")
    assert.eq(bb.get("box/ran"), ["a", "fb"] * 3)

def test_nothing_found_and_no_fallback():
    r = alone.run("go")
    assert.eq(r.status, "failed")
    assert.contains(r.reason, "unresolved")
    assert.contains(r.reason, "sing an aria")
    assert.eq([r.by, r.children], ["alone", []])  # no node has run

def test_names():
    photo.run("go")
    ev = expect_event("edged/graph/photo/crossing", where = lambda e: e["type"] == "discovery")
    assert.eq([ev["source"], ev["target"], ev["reason"]], ["a", "cam", "found cam"])
    assert.eq(expect_event("edged/graph/photo/checkpoint", where = lambda e: e["node"] not in ["a", "then"])["node"], "cam")
    ev = expect_event("edged/graph/photo/crossing", where = lambda e: e["target"] == "then")
    assert.eq(ev["source"], "cam")
    assert.eq([c.by for c in photo.run("go").children], ["a", "cam", "then"])
    assert.eq(photo.fork(photo.run("go").run_id, at = "cam").status, "done")
`)
}

// TestGraphReducers: each folds what branches wrote, never what was there
// before; two writers without one are an error; so is a broken condition.
func TestGraphReducers(t *testing.T) {
	play(t, `
-- main.star --
def fan(name, one, two, base, **state):
    g = Graph(name, state = state)
    g.node("base", lambda state: {"k": base} if base != None else None)
    g.node("x", lambda state: {"k": one})
    g.node("y", lambda state: {"k": two})
    g.node("j", lambda state: None, join = "all")
    g.edge(START, "base")
    g.edge("base", "x")
    g.edge("base", "y")
    g.edge("x", "j")
    g.edge("y", "j")
    g.edge("j", END)
    return g

def longest(old, new):
    return new if old == None or len(new) > len(old) else old

graphs = {
    "last": (fan("last", 1, 2, 0, k = "last"), 2),
    "first": (fan("first", 1, 2, None, k = "first"), 1),
    "append": (fan("append", [2], 3, [1], k = "append"), [1, 2, 3]),
    "merge": (fan("merge", {"a": {"x": 1}}, {"a": {"y": 2}}, {"b": 0}, k = "merge"), {"b": 0, "a": {"x": 1, "y": 2}}),
    "sum": (fan("sum", 4, 5, 1, k = "sum"), 10),
    "max": (fan("max", 4, 5, 9, k = "max"), 9),
    "min": (fan("min", 4, 5, 9, k = "min"), 4),
    "fn": (fan("fn", "aaa", "bb", None, k = longest), "aaa"),
}
clash = fan("clash", 1, 2, 0)
wrong = fan("wrong", "one", "two", None, k = "sum")
broken = fan("broken", 1, 2, None, k = lambda old, new: old["x"])

def make(name, fn):
    g = Graph(name)
    g.node("a", lambda state: None)
    g.edge(START, "a")
    g.branch("a", fn, to = [END])
    return g

conditions = [make("raises", lambda state: state["nowhere"]), make("none", lambda state: None), make("elsewhere", lambda state: "b")]
-- main_test.star --
load("main.star", "broken", "clash", "conditions", "graphs", "wrong")

def test_reducers():
    for name, (g, want) in graphs.items():
        assert.eq([name, g.run("go").output["k"]], [name, want])

def test_two_writers():
    r = clash.run("go")
    assert.eq(r.status, "failed")
    assert.contains(r.reason, "x and y run in parallel and both write k, which has no reducer")

def test_wrong_reducer():
    for g in [wrong, broken]:
        r = g.run("go")
        assert.eq(r.status, "failed")
        assert.contains(r.reason, "state key k")

def test_broken_condition():
    for g, why in zip(conditions, ["key \"nowhere\" not in dict", "returned None: want one of", "which is none of"]):
        r = g.run("go")
        assert.eq([g.name, r.status], [g.name, "failed"])
        assert.contains(r.reason, "edge e2 from a")
        assert.contains(r.reason, why)
`)
}

// TestGraphErrors: what is wrong with a graph stops the load, where it is
// written, and is what check() says.
func TestGraphErrors(t *testing.T) {
	const head = "f = lambda state: None\nbody = Agent(\"body\", fn = lambda task: None, traits = {\"openness\": 0.5}, mood = {\"valence\": 0.1})\nchain = Sequence(\"chain\", [f])\ng = Graph(\"g\")\n"
	const good = "g.node(\"a\", f)\ng.edge(START, \"a\")\ng.edge(\"a\", END)\n"
	for _, c := range []struct{ name, text, want string }{
		{"orphan", good + "g.node(\"lost\", f)\ng.edge(\"lost\", END)\n", "8|graph g: no way leads to node lost"},
		{"unknown source", good + "g.edge(\"nowhere\", \"a\")\n", "8|edge e3 begins at \"nowhere\", which is no node"},
		{"unknown target", good + "g.node(\"b\", f)\ng.edge(\"a\", \"bb\")\ng.edge(\"a\", \"b\")\ng.edge(\"b\", END)\n", "9|edge e3 from a leads to \"bb\", which is no node"},
		{"nothing at all", "", "4|no edge leads from START"},
		{"no start", "g.node(\"a\", f)\ng.edge(\"a\", END)\n", "4|no edge leads from START"},
		{"no end", "g.node(\"a\", f)\ng.edge(START, \"a\")\n", "4|no way leads to END"},
		{"dead end", good + "g.node(\"b\", f)\ng.edge(\"a\", \"b\")\n", "8|no way leads from node b to END"},
		{"duplicate", good + "g.node(\"a\", f)\n", "8|there are two nodes a"},
		{"reserved", good + "g.node(\"END\", f)\n", "8|\"END\" can't be the name of a node"},
		{"unknown reroute of an edge", good + "g.node(\"b\", f)\ng.edge(\"a\", \"b\", guardrails = [Guardrail(\"r\", lambda p: None, on_violation = \"reroute\", reroute = \"x\")])\ng.edge(\"b\", END)\n", "9|guardrail r leads to \"x\", which is no node"},
		{"unknown reroute of a node", good + "g.node(\"b\", f, guardrails = [Guardrail(\"r\", lambda p: None, on_violation = \"reroute\", reroute = \"x\")])\ng.edge(\"a\", \"b\")\ng.edge(\"b\", END)\n", "8|guardrail r leads to \"x\", which is no node"},
		{"nobody revises", "g.node(\"a\", f)\ng.edge(START, \"a\", guardrails = [Guardrail(\"r\", lambda p: None, on_violation = \"revise\")])\ng.edge(\"a\", END)\n", "6|guardrail r sends back what no node has made"},
		{"unknown fallback", good + "g.discover(\"a\", \"sing\", fallback = \"x\")\n", "8|leads to \"x\", which is no node"},
		{"unknown then", good + "g.discover(\"a\", \"sing\", then = \"x\")\n", "8|leads to \"x\", which is no node"},
		{"no query", good + "g.discover(\"a\", \"\")\n", "8|looks for nothing"},
		{"branch to nowhere", good + "g.branch(\"a\", f, to = [])\n", "8|lists no targets"},
		{"unset trait", good + "g.personality(\"a\", agent = body, trait = \"honesty\", threshold = 0.5, above = \"a\", below = END)\n", "8|body has no honesty"},
		{"unset mood", good + "g.personality(\"a\", agent = body, trait = \"arousal\", threshold = 0.5, above = \"a\", below = END)\n", "8|body has no arousal"},
		{"unknown trait", good + "g.personality(\"a\", agent = body, trait = \"grit\", threshold = 0.5, above = \"a\", below = END)\n", "8|\"grit\" is no trait"},
		{"threshold", good + "g.personality(\"a\", agent = body, trait = \"openness\", threshold = -0.5, above = \"a\", below = END)\n", "8|threshold of openness is -0.5"},
		{"threshold of a mood", good + "g.personality(\"a\", agent = body, trait = \"valence\", threshold = 1.5, above = \"a\", below = END)\n", "8|threshold of valence is 1.5"},
		{"nobody's character", good + "g.personality(\"a\", agent = chain, trait = \"openness\", threshold = 0.5, above = \"a\", below = END)\n", "8|chain has no character"},
		{"retried on a typo", "Retry(2, on = [\"tiemout\"])\n", "5|element 0: got string \"tiemout\""},
		{"itself", "g.node(\"a\", g)\n", "5|graph g can't be a node of itself"},
		{"finished", good + "g.check()\ng.node(\"b\", f)\n", "9|graph g is finished"},
		{"nested first", "s = Sequence(\"s\", [g])\n" + good, "6|graph g is finished"},
		{"reducer", "Graph(\"h\", state = {\"k\": \"lasst\"})\n", "5|state key k: no reducer \"lasst\""},
		{"guardrail without a way", "Guardrail(\"r\", lambda p: None, on_violation = \"reroute\")\n", "5|guardrail r reroutes and does not say where"},
		{"a way without a guardrail", "Guardrail(\"r\", lambda p: None, reroute = \"x\")\n", "5|has a reroute, and on_violation is \"block\""},
		{"unknown reaction", "Guardrail(\"r\", lambda p: None, on_violation = \"stop\")\n", "5|want \"block\""},
		{"human: no default", "Human(\"Well?\", timeout = \"3s\")\n", "5|the question has a timeout and no answer for it"},
		{"human: unknown default", "Human(\"Well?\", [\"yes\", \"no\"], timeout = \"3s\", on_timeout = \"maybe\")\n", "5|on_timeout \"maybe\" is none of the options"},
		{"human: default and no timeout", "Human(\"Well?\", [\"yes\", \"no\"], on_timeout = \"no\")\n", "5|the question has an on_timeout and waits for ever"},
		{"two graphs of a name", good + "h = Graph(\"g\")\n", "8|the name \"g\" is taken"},
		{"policy with an effect", "Retry(2, effect = \"write\")\n", "5|a policy has none"},
		{"a policy as a child", "Sequence(\"s\", [Retry(2)])\n", "5|element 0: got retry"},
		{"a node of nothing", "g.node(\"a\", 3)\n", "5|want agent or tool or human or function"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				defer r.close()
				_, err := r.try(head + c.text)
				line, want, _ := strings.Cut(c.want, "|")
				if got := shown(err); !strings.Contains(got, want) || !strings.Contains(got, "box/main.star:"+line+":") {
					t.Errorf("got %s\nwant %q at line %s", got, want, line)
				}
				b := r.start("def f(state):\n    pass\ndef all():\n" + indented(strings.ReplaceAll(head, "f = lambda state: None\n", "")+c.text+"g.check()\n") + "on(\"box/go\", lambda ev: all())\n")
				defer r.stop(b)
				r.publish("box/go", nil)
				synctest.Wait()
				if got := r.errors(); !strings.Contains(got, strings.ReplaceAll(want, `"`, `\"`)) {
					t.Errorf("check() in a handler: got %s, want %q", got, want)
				}
			})
		})
	}
}

func indented(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    ") + "\n"
}
