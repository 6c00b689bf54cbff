package lib_test

import (
	"context"
	"encoding/json"
	"testing"

	"edged/agent"
	"edged/agent/llm"
	"edged/blackboard"
	"edged/bus"
	"edged/starlark/lib"
)

// instant is a model that calls its first tool once, and answers at once.
type instant struct{ tool bool }

func (m instant) Chat(_ context.Context, r llm.Request, _ func(string) error) (llm.Message, error) {
	if last := r.Messages[len(r.Messages)-1]; m.tool && last.Role == llm.User {
		return llm.Message{Calls: []llm.Call{{ID: "1", Name: "add", Args: json.RawMessage(`{"n":1}`)}}}, nil
	}
	return llm.Message{Text: "done"}, nil
}

// BenchmarkTurn is what a turn costs besides its model: an answer, and an
// answer after a tool written in Starlark.
func BenchmarkTurn(b *testing.B) {
	for _, row := range []struct {
		name string
		tool bool
	}{{"answer", false}, {"tool", true}} {
		b.Run(row.name, func(b *testing.B) {
			events := bus.New(bus.Options{})
			board, err := blackboard.Open(events, blackboard.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer board.Close()
			h := &lib.Host{Name: "box", Bus: events, Board: board, Models: func(string, string) (llm.Model, error) { return instant{row.tool}, nil }}
			folder := source("def add(n):\n    \"\"\"Add.\n\n    Args:\n      n (int, 0..9): number\n    \"\"\"\n    return n + 1\n\na = Agent(\"a\", model = \"m\", tools = [add])\n")
			box, err := lib.Load(b.Context(), h, folder, lib.Options{Grants: lib.Grants{All: true}})
			if err != nil {
				b.Fatal(err)
			}
			if err := box.Start(b.Context()); err != nil {
				b.Fatal(err)
			}
			defer box.Stop(context.Background())
			a := box.Agents()[0]
			b.ReportAllocs()
			for b.Loop() {
				if res, err := agent.Run(b.Context(), a, agent.Task{Input: "go"}); err != nil || res.Reply != "done" {
					b.Fatal(res, err)
				}
			}
		})
	}
}
