package llm_test

import (
	"context"
	"strings"
	"testing"

	"edged/agent"
	"edged/agent/llm"
	"edged/bus/origin"
)

// What is offered at the beginning, and whose words a model reads of it.
func TestOffer(t *testing.T) {
	of := func(name string, whose origin.Label, effect llm.Effect) llm.Tool {
		o := tool(name, func(context.Context) (string, error) { return "", nil })
		o.Origin, o.Effect = whose, effect
		return o
	}
	lamp, look := of("lamp", "", llm.Write), of("look", "", llm.Read)
	web, post := of("web", "mcp:web", llm.Read), of("post", "mcp:web", llm.Write)
	mail, send := of("mail", "mcp:mail", llm.Read), of("send", "mcp:mail", llm.Write)
	for _, c := range []struct {
		name  string
		tools []llm.Tool
		by    origin.Label
		o     llm.Options
		want  string // "-" before a tool that has not its server's words
	}{
		{"own", []llm.Tool{lamp, look}, "cli", llm.Options{}, "lamp look"},
		{"a stranger asks", []llm.Tool{lamp, look}, "mqtt", llm.Options{}, "look"},
		{"a stranger may", []llm.Tool{lamp, look}, "mqtt", llm.Options{TaintedWrites: true}, "lamp look"},
		{"a list", []llm.Tool{lamp, look}, "cli", llm.Options{Allow: func(name string) bool { return name == "look" }}, "look"},
		{"a server beside what acts", []llm.Tool{lamp, web}, "cli", llm.Options{}, "lamp -web"},
		{"a server beside what looks", []llm.Tool{look, web}, "cli", llm.Options{}, "look web"},
		{"a server alone acts", []llm.Tool{look, web, post}, "cli", llm.Options{}, "look web post"},
		{"but not for a stranger", []llm.Tool{look, web, post}, "mqtt", llm.Options{}, "look web"},
		{"one of two acts", []llm.Tool{web, mail, send}, "cli", llm.Options{}, "-web mail send"},
		{"both act", []llm.Tool{web, post, mail, send}, "cli", llm.Options{}, "-web -post -mail -send"},
		{"none acts", []llm.Tool{web, mail}, "cli", llm.Options{}, "web mail"},
		{"a server may", []llm.Tool{lamp, web}, "cli", llm.Options{TaintedWrites: true}, "lamp web"},
	} {
		m := says("Ok.")
		c.o.Model, c.o.Tools = m, c.tools
		if _, err := agent.Run(t.Context(), build(t, c.o), agent.Task{Input: "x", Origin: c.by}); err != nil {
			t.Fatal(c.name, err)
		}
		var got []string
		for _, o := range m.asked[0].Tools {
			switch {
			case o.Name == "decline":
			case o.Doc == o.Name+" it.":
				got = append(got, o.Name)
			case o.Doc == "A tool of the server "+string(o.Origin)+".":
				got = append(got, "-"+o.Name)
			default:
				t.Errorf("%s: %s is %q", c.name, o.Name, o.Doc)
			}
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}
