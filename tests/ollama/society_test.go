package ollama

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"edged/agent/llm"
	"edged/agent/llm/ollama"
	"edged/agent/llm/schema"
	"edged/blackboard"
	"edged/bus"
	"edged/starlark/lib"
	"edged/workflow/society"
)

// team is a robot whose agents all think with the model of random words.
const team = `
ROUTE = Artifact("route", schema = {"type": "object", "required": ["via"], "properties": {
    "via": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"enum": ["hall", "kitchen", "porch"]}}}})

def thinker(name, role):
    return Agent(name, role = role, model = "ollama:tiny", temperature = 0)

planner, checker = thinker("planner", "plans routes"), thinker("checker", "checks routes")
fast, gentle, judge = thinker("fast", "short routes"), thinker("gentle", "calm routes"), thinker("judge", "picks routes")
home = Society("home")
review = home.connect(planner, checker, Oversight(artifacts = [ROUTE], max_rounds = 2), name = "review")
race = home.compete([fast, gentle], Competition(artifacts = [ROUTE], resolve = JudgePicks(judge, on_neither = "best_effort")), name = "race")

ears = Agent("ears", model = "ollama:tiny", temperature = 0, output = {"intent": "one of move, ask"})
g = Graph("request", checkpoint = "none")
g.node("ears", ears)
g.node("plan", race)
g.node("answer", lambda state: "I only drive")
g.edge(START, "ears")
g.branch("ears", lambda state: "plan" if state["ears"]["intent"] == "move" else "answer", to = ["plan", "answer"])
g.edge("plan", END)
g.edge("answer", END)

def run(ev):
    r = {"review": review, "race": race, "request": g}[ev.payload].run("to the porch please")
    bus.publish("team/ended", {"status": r.status, "output": r.output, "reason": r.reason, "winner": r.winner})

on("team/go", run)
`

// TestSociety runs one oversight, one competition and one graph with the real
// server, from a script: every turn fits its schema, and so do the outputs.
func TestSociety(t *testing.T) {
	server := up(t).client(t, ollama.Options{})
	b := bus.New(bus.Options{})
	board, err := blackboard.Open(b, blackboard.Options{})
	if err != nil {
		t.Fatal(err)
	}
	turns := society.NewLog(nil, society.LogOptions{})
	host := &lib.Host{Name: "team", Bus: b, Board: board, Turns: turns,
		Models: func(name, _ string) (llm.Model, error) { return server.Model(strings.TrimPrefix(name, "ollama:")), nil }}
	robot, err := lib.Load(t.Context(), host, fstest.MapFS{"main.star": {Data: []byte(team)}}, lib.Options{Grants: lib.Grants{All: true}})
	if err != nil {
		t.Fatal(err)
	}
	if err := robot.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		for _, err := range []error{robot.Stop(ctx), board.Close(), b.Close(ctx)} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	ended, err := b.Subscribe("team/ended", bus.Queue{})
	if err != nil {
		t.Fatal(err)
	}
	run := func(what string) map[string]any {
		if _, err := b.Publish(t.Context(), "test", "team/go", what); err != nil {
			t.Fatal(err)
		}
		e, err := ended.Next(short(t, 2*time.Minute))
		if err != nil {
			t.Fatalf("%s did not end: %v", what, err)
		}
		return e.Payload().(map[string]any)
	}
	for what, statuses := range map[string][]string{
		"review": {"done", "rejected", "deadlock"}, "race": {"done"}, "request": {"done"},
	} {
		t.Run(what, func(t *testing.T) {
			r := run(what)
			if !slices.Contains(statuses, fmt.Sprint(r["status"])) {
				t.Fatalf("got %v", r)
			}
			if what == "request" {
				s, _ := r["output"].(map[string]any)
				ears, _ := s["ears"].(map[string]any)
				if intent := ears["intent"]; intent != "move" && intent != "ask" {
					t.Errorf("the ears heard %v", s)
				}
				return
			}
			via, _ := r["output"].(map[string]any)["via"].([]any)
			if len(via) < 1 || len(via) > 3 {
				t.Errorf("got the route %v", r["output"])
			}
			if what == "race" && r["winner"] != "fast" && r["winner"] != "gentle" {
				t.Errorf("%v won", r["winner"])
			}
		})
	}
	count := 0
	for _, id := range turns.Runs() {
		for _, turn := range turns.Turns(id) {
			count++
			if turn.State != society.OK || turn.Usage.Calls == 0 {
				t.Errorf("%s, %s: %s: %s", turn.Speaker, turn.Kind, turn.State, turn.Why)
				continue
			}
			s, err := schema.Parse(turn.Schema)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := s.Accept(turn.Answer); err != nil {
				t.Errorf("%s, %s: %s does not fit %s: %v", turn.Speaker, turn.Kind, turn.Answer, turn.Schema, err)
			}
		}
	}
	if count < 5 {
		t.Errorf("only %d turns", count)
	}
}
