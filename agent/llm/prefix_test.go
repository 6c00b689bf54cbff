package llm_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"edged/agent"
	"edged/agent/llm"
)

// prefixOf is what a server reads before the dialogue: the system's text and
// the tools, as bytes.
func prefixOf(t *testing.T, r llm.Request) string {
	t.Helper()
	if len(r.Messages) == 0 || r.Messages[0].Role != llm.System {
		t.Fatalf("the system's text is not first: %+v", r.Messages)
	}
	text := r.Messages[0].Prompt()
	for _, tool := range r.Tools {
		text += "\n" + asTold(tool)
	}
	return text
}

func asTold(t llm.Tool) string { return fmt.Sprintf("%s: %s %s", t.Name, t.Doc, t.Params) }

// A server keeps what it has read of the last request and reads only what is
// new. So an agent's system text and tools are the same, byte for byte, in all
// requests of all its turns, and within a turn each request is the one before
// and more. What belongs to one turn (facts it remembers, what a hook notes, the
// words) stands behind.
//
// The tools are missing where they may not be called: when the rounds of a turn
// are spent, when words of others came in that may not lead to a write, and
// where the answer is held to a form. Of an earlier turn the notes are not kept.
func TestThePrefixOfAnAgentNeverChanges(t *testing.T) {
	for name, info := range map[string]llm.Info{"tools": {Tools: true, Schema: true}, "forms": {Schema: true}} {
		t.Run(name, func(t *testing.T) {
			var log []string
			m := &script{info: &info}
			turns := 6
			for i := range turns {
				if info.Tools {
					m.steps = append(m.steps, call("light", `{"room":"hall"}`), call("look", `{}`), fmt.Sprint("lit ", i))
				} else {
					m.steps = append(m.steps, `{"reason":"","tool":"light","reply":""}`, `{"room":"hall"}`, `{"reason":"","tool":"none","reply":"lit"}`)
				}
			}
			n := 0
			a := build(t, llm.Options{
				Model: m, Role: "a butler", Instructions: "Be kind.",
				Tools:    []llm.Tool{lamp(&log), tool("look", func(context.Context) (string, error) { return fmt.Sprint("dark ", n), nil })},
				Handoffs: []agent.Agent{agent.Func("cook", nil)},
				Memory: func(context.Context, agent.Task) (string, error) {
					n++
					return fmt.Sprint("fact ", n), nil
				},
			})
			for i := range turns {
				if r, err := agent.Run(t.Context(), a, agent.Task{Input: fmt.Sprint("errand ", i), Conversation: fmt.Sprint("c", i%2), Origin: "test"}); err != nil {
					t.Fatal(r, err)
				}
			}
			if len(m.asked) != 3*turns {
				t.Fatalf("%d requests", len(m.asked))
			}
			first := prefixOf(t, m.asked[0])
			for i, r := range m.asked {
				if got := prefixOf(t, r); got != first {
					t.Errorf("request %d:\n got %s\nwant %s", i, got, first)
				}
				for _, particular := range []string{"fact", "errand", "dark"} {
					if strings.Contains(r.Messages[0].Prompt(), particular) {
						t.Errorf("request %d: the system's text has what is of this turn: %s", i, r.Messages[0].Prompt())
					}
				}
				if i%3 == 0 || !info.Tools {
					continue // a turn begins; a form's question is asked beside the newest words
				}
				before := m.asked[i-1].Messages
				if len(r.Messages) <= len(before) || fmt.Sprint(r.Messages[:len(before)]) != fmt.Sprint(before) {
					t.Errorf("request %d does not go on from the one before:\n%v\n%v", i, before, r.Messages)
				}
			}
			if len(m.asked[len(m.asked)-1].Messages) < 8 {
				t.Error("the conversation has no past: nothing was tested")
			}
		})
	}
}

// Agents of a robot share the preamble, which is in front of all, and nothing
// of one of them stands in it; a tool that several have is told in the same
// words to each. Their roles, instructions and choice of tools differ, and so
// does all that comes behind them.
func TestAgentsShareThePreamble(t *testing.T) {
	var log []string
	system := map[string]string{}
	told := map[string]string{}
	for _, name := range []string{"butler", "cook"} {
		m := says("yes")
		a := build(t, llm.Options{Name: name, Model: m, Role: "role of " + name, Instructions: "do as a " + name, Tools: []llm.Tool{lamp(&log)}})
		if _, err := agent.Run(t.Context(), a, agent.Task{Input: "hello", Origin: "test"}); err != nil {
			t.Fatal(err)
		}
		system[name] = m.asked[0].Messages[0].Prompt()
		told[name] = asTold(m.asked[0].Tools[0])
	}
	shared := 0
	for shared < len(system["butler"]) && system["butler"][shared] == system["cook"][shared] {
		shared++
	}
	preamble, _, _ := strings.Cut(system["butler"], "You are butler")
	if len(preamble) < 100 || shared < len(preamble) || strings.Contains(preamble, "role of") {
		t.Errorf("they share %d bytes, the preamble is %q", shared, preamble)
	}
	if told["butler"] != told["cook"] {
		t.Errorf("one tool in two forms:\n%s\n%s", told["butler"], told["cook"])
	}
}
