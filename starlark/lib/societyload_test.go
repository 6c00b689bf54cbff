package lib_test

import (
	"strings"
	"testing"
)

// TestSocietyLoadErrors: what is wrong is found at load, with both culprits and
// what to do.
func TestSocietyLoadErrors(t *testing.T) {
	const cast = `a, b, j = Agent("a", model = "m"), Agent("b", model = "m"), Agent("j", model = "m")
s = Society("home")
`
	for _, c := range []struct{ name, code, want, hint string }{
		{"no resolve", `Competition()`, "Competition has no resolve", "JudgePicks(judge)"},
		{"no resolve of a coopetition", `Coopetition(compete_on = ["x"])`, "Coopetition has no resolve", "a function"},
		{"nothing to compete on", `Coopetition(cooperate_on = ["x"], resolve = MajorityVote([j]))`, "nothing to compete on", "cooperate"},
		{"both", `s.negotiate([a, b], Coopetition(cooperate_on = ["x"], compete_on = ["x"], resolve = MajorityVote([j])))`, "can't both cooperate and compete on", ""},
		{"binary edge of a group", `s.compete([a, b], Delegation())`, "compete does not take a Delegation", "connect(source, target, Delegation(…)) for each pair of a, b"},
		{"binary edge of a group, oversight", `s.cooperate([a, b, j], Oversight())`, "cooperate does not take an Oversight", "for each pair of a, b, j"},
		{"group edge of two", `s.connect(a, b, Competition(resolve = MajorityVote([j])))`, "a Competition is of a group", "compete([a, b], Competition(…))"},
		{"another method", `s.cooperate([a, b], Competition(resolve = MajorityVote([j])))`, "cooperate does not take a Competition", "compete([a, b], Competition(…))"},
		{"one member", `s.cooperate([a], Cooperation())`, "at least two members", ""},
		{"no member", `s.cooperate([], Cooperation())`, "at least two members", ""},
		{"twice", `s.cooperate([a, b, a], Cooperation())`, `"a" is a member twice`, ""},
		{"self edge", `s.connect(a, a, Oversight())`, `an edge from "a" to itself`, ""},
		{"judge competes", `s.compete([a, j], Competition(resolve = JudgePicks(j)))`, `"j" decides and is a member`, ""},
		{"voter competes", `s.compete([a, b], Competition(resolve = MajorityVote([j, b])))`, `"b" decides and is a member`, ""},
		{"votes twice", `MajorityVote([j, j])`, `"j" votes twice`, ""},
		{"merger is a member", `s.cooperate([a, b], Cooperation(merge = b))`, `"b" decides and is a member`, ""},
		{"one name", `s.connect(a, Agent("a", model = "m", role = "other"), Oversight())`, `two agents are called "a"`, ""},
		{"the person's name", `s.connect(a, Agent("HUMAN", model = "m"), Oversight())`, "an agent is called HUMAN", "something else"},
		{"one name, two edges", `s.connect(a, b, Oversight())
s.connect(b, Agent("a", fn = lambda task: 1), Oversight())`, `two agents are called "a"`, ""},
		{"same edge twice", `s.connect(a, b, Oversight())
s.connect(a, b, Oversight())`, "there is an oversight of these two already", ""},
		{"two societies", `Society("home")`, `the name "home" is taken by the society at box/main.star:2:12`, "another"},
		{"no name", `Society("")`, "a society needs one", ""},
		{"unknown target", `s.connect(a, b, Oversight(on_deadlock = Escalate("lead")))`, `escalates to "lead", whom nobody knows`, ""},
		{"worker decides", `s.connect(a, b, Oversight(on_deadlock = Escalate(a)))`, `"a" would decide about its own work`, "somebody else"},
		{"worker accepts", `s.connect(a, b, Delegation(escalation_policy = "b"))`, `"b" would decide about its own work`, "somebody else"},
		{"competitor picks", `s.compete([a, b], Competition(resolve = Escalate("b")))`, `"b" would decide about its own work`, "somebody else"},
		{"near target", `s.connect(a, b, Oversight(on_deadlock = "aa"))`, `"aa", whom nobody knows`, `did you mean "a"?`},
		{"unknown society target", `Society("other", escalate_to = "lead").connect(a, b, Oversight())`, `escalate_to is "lead", whom nobody knows`, ""},
		{"unknown in an order", `s.cooperate([a, b], Cooperation(protocol = Sequential([a, j])))`, `order names "j", who is not a member`, ""},
		{"order leaves out", `s.cooperate([a, b], Cooperation(protocol = Sequential([a])))`, `leaves out the member "b"`, ""},
		{"unknown moderator", `s.cooperate([a, b], Cooperation(protocol = Broadcast(moderator = j)))`, `moderator "j" is not a member`, ""},
		{"unknown in a budget", `s.compete([a, b], Competition(resolve = BestScore("x"), protocol = Market(budget = {"c": 1})))`, `budget names "c", who is not a member`, ""},
		{"unknown in a queue", `s.cooperate([a, b], Cooperation(protocol = Queue(priority = {"c": 1})))`, `priority names "c", who is not a member`, ""},
		{"unknown member", `s.cooperate([a, b], Cooperation(until = node_reached(j)))`, `node_reached names "j", who is not a member`, ""},
		{"open bids at once", `Market(sealed = False)`, "can't hear each other", "simultaneous = False"},
		{"protocol of a delegation", `s.connect(a, b, Delegation(protocol = Broadcast()))`, "a protocol has nothing to say here", ""},
		{"protocol of a competition", `s.compete([a, b], Competition(resolve = MajorityVote([j]), protocol = Broadcast()))`, "those who compete don't hear each other", ""},
		{"until of an oversight", `s.connect(a, b, Oversight(until = lambda work: True))`, "until has nothing to say here", ""},
		{"node_reached of an oversight", `s.connect(a, b, Oversight(until = node_reached(b)))`, "until has nothing to say here", ""},
		{"until of a competition", `s.compete([a, b], Competition(resolve = MajorityVote([j]), until = lambda work: True))`, "until and max_messages have nothing to say here", "timeout and deadline"},
		{"converged of a competition", `s.compete([a, b], Competition(resolve = MajorityVote([j]), until = converged()))`, "until and max_messages have nothing to say here", ""},
		{"max_messages of a competition", `s.compete([a, b], Competition(resolve = MajorityVote([j]), max_messages = 2))`, "until and max_messages have nothing to say here", ""},
		{"max_messages of nothing to agree on", `s.negotiate([a, b], Coopetition(compete_on = ["x"], resolve = MajorityVote([j]), until = max_messages(2)))`, "until and max_messages have nothing to say here", ""},
		{"watcher of a competition", `s.compete([a, b], Competition(resolve = MajorityVote([j]), watch = ["no_taker", "unmoved:x"]))`, "stalled and unmoved have nothing to watch here", "only no_taker"},
		{"until of one round", `s.cooperate([a, b], Cooperation(merge = "append", until = lambda work: True))`, "until has nothing to say here", "one round settles it"},
		{"market of a cooperation", `s.cooperate([a, b], Cooperation(protocol = Market()))`, "a Market takes bids", "Sequential"},
		{"market of a coopetition", `s.negotiate([a, b], Coopetition(cooperate_on = ["x"], compete_on = ["y"], resolve = MajorityVote([j]), protocol = Market()))`, "a Market takes bids", ""},
		{"protocol of nothing to agree on", `s.negotiate([a, b], Coopetition(compete_on = ["y"], resolve = MajorityVote([j]), protocol = Queue()))`, "there is nothing to agree on", "cooperate_on"},
		{"reroute", `s.connect(a, b, Oversight(guardrails = [Guardrail("g", lambda p: None, on_violation = "reroute", reroute = "x")]))`, "guardrail g reroutes", "revise"},
		{"watcher", `Oversight(watch = ["stuck"])`, `there is no watcher "stuck"`, "stalled"},
		{"watched key", `Oversight(watch = ["unmoved:"])`, `there is no watcher "unmoved:"`, `"unmoved:KEY"`},
		{"policy", `Oversight(on_timeout = "RETRY")`, "on_timeout", ""},
		{"quorum", `s.compete([a, b], Competition(resolve = MajorityVote([j]), quorum = 3))`, "quorum is 3 of 2 members", ""},
		{"judge's form", `JudgePicks(j, output_schema = {"type": "object", "properties": {"best": {"type": "string"}}})`, `no required string "winner"`, "labels"},
		{"artifact", `Artifact("x", schema = {"type": "object", "properties": {"x": {"type": "strin"}}})`, "strin", ""},
		{"artifact twice", `s.connect(a, b, Oversight(artifacts = [Artifact("x"), Artifact("x")]))`, `artifact "x" is there twice`, ""},
		{"kind of turn", `Agent("f", fn = {"bidd": lambda task: 1})`, `there are no turns to "bidd"`, `did you mean "bid"?`},
		{"protocol function", `s.cooperate([a, b], Cooperation(protocol = {"next_speakr": lambda floor: None}))`, `a protocol has no function "next_speakr"`, `did you mean "next_speaker"?`},
		{"resolver wants too much", `Competition(resolve = lambda subs, state, more: None)`, `needs an argument "more"`, ""},
		{"merge of fields without fields", `s.cooperate([a, b], Cooperation(merge = "fields"))`, "needs an artifact whose schema is an object", ""},
		{"two edges of one name", `s.connect(a, b, Oversight(), name = "x")
s.connect(b, a, Oversight(), name = "x")`, `two edges are called "x"`, ""},
		{"edge between", `s.connect(a, b, Oversight())
s.edge_between(b, a)`, `no edge from "b" to "a"`, ""},
		{"no such type between", `s.connect(a, b, Oversight())
s.edge_between(a, b, type = Agent)`, `"Agent" is no type of edge`, "Oversight"},
		{"which edge between", `s.connect(a, b, Oversight())
s.connect(a, b, Cooperation())
s.edge_between(a, b)`, "say which type", ""},
		{"revoke", `s.connect(a, b, Oversight())
s.revoke("c")`, `"c" is not in society home; there are a, b`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			defer r.close()
			_, err := r.try(cast + c.code)
			if err == nil {
				t.Fatal("it loads")
			}
			text := shown(err)
			if !strings.Contains(text, c.want) || !strings.Contains(text, c.hint) || !strings.Contains(text, "main.star:") {
				t.Errorf("got\n%s\nwant %q and %q", text, c.want, c.hint)
			}
		})
	}
}

// TestSocietyNames: an agent that is only named is found among those of the
// script.
func TestSocietyNames(t *testing.T) {
	play(t, `
-- main.star --
coder = Agent("coder", model = "coder")
reviewer = Agent("reviewer", model = "reviewer")
s = Society("team")
e = s.connect(coder, reviewer, Oversight(max_rounds = 1, on_deadlock = Escalate(to = "tech-lead")))
lead = Agent("tech-lead", model = "lead")
-- main_test.star --
load("main.star", "e", "s", "coder", "reviewer", "lead")

def test_lead():
    model.says(json.encode({"draft": "x"}), model = "coder")
    model.says(json.encode({"comments": "no", "verdict": "revise"}), model = "reviewer")
    model.says(json.encode({"comments": "yes", "verdict": "approve"}), model = "lead")
    r = e.run("go")
    assert.eq([r.status, r.by, r.verdict, r.rounds, r.degraded], ["done", "coder", "approve", 1, True])
    assert.eq([t["speaker"] + " " + t["kind"] for t in r.turns], ["coder work", "reviewer review", "tech-lead escalate"])
    assert.eq(s.agents, [coder, reviewer, lead])
    assert.eq([e.type, e.members, e.calls, e.name, type(e)], ["Oversight", [coder, reviewer], 6, "team/oversight(coder,reviewer)", "interaction"])
    assert.eq([s.edges, s.group_edges, s.all_edges, s.edges_of(coder), s.edges_of("tech-lead")], [[e], [], [e], [e], []])
`)
}

// TestSocietyWarnings: what runs and is likely not what is meant.
func TestSocietyWarnings(t *testing.T) {
	r := newRig(t)
	defer r.close()
	b, err := r.try(`a, b, j = Agent("a", model = "m"), Agent("b", model = "m"), Agent("j", model = "m")
s = Society("home")
s.compete([a, b], Competition(resolve = MajorityVote()))
on("box/go", lambda ev: s.edges[0].run("x"))
s.compete([a, j], Competition(resolve = BestScore("cost"), artifacts = [Artifact("eta", schema = {"eta": "(int)", "cost": "(str)"})]))
s.compete([b, j], Competition(resolve = BestScore("cost", tie = "eta"), protocol = Market(bid = {"cost": "(int)"})))
s.compete([b, a, j], Competition(resolve = BestScore("cost", tie = "eta"), protocol = Market(bid = {"cost": "(number)", "eta": "(int)"})))
s.connect(a, b, Oversight(timeout = "30s"))
s.negotiate([a, b], Coopetition(cooperate_on = ["x"], compete_on = ["y"], resolve = JudgePicks(j), timeout = "2m"), name = "enough")
s.negotiate([a, b], Coopetition(cooperate_on = ["x"], compete_on = ["y"], resolve = JudgePicks(j), timeout = "100s"), name = "short")
`)
	if err != nil {
		t.Fatal(shown(err))
	}
	var list []string
	for _, p := range b.CheckTimed(20e9) {
		list = append(list, p.String())
	}
	text := strings.Join(list, "\n")
	for _, want := range []string{"box/main.star:3:10", "always tie", "box/main.star:5:10", `BestScore compares "cost", and submissions have no such number: they are eta (`,
		"box/main.star:6:10", `BestScore compares "eta"`, "box/main.star:8:10", "a round may take 4 model calls of 20s, which is more than its timeout of 30s"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if !strings.Contains(text, "short: a round may take 6 model calls of 20s") || strings.Contains(text, "enough: ") {
		t.Errorf("a round of a coopetition agrees, or competes: got\n%s", text)
	}
	if len(b.Societies()) != 1 || b.Societies()[0].Name() != "home" {
		t.Errorf("got %v", b.Societies())
	}
}
