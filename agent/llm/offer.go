package llm

import (
	"slices"

	"edged/agent/llm/schema"
	"edged/bus/origin"
)

// What a model is offered follows from what it reads. Three rules:
//
// Where words stand in the prompt that are no orders, no tool that acts is
// offered.
//
// What a server says of its tools is such words, and stands in the prompt before
// anything is asked. So a model reads it only where no other tool that acts is
// offered beside it; where one is, the server's tools are there by their names
// and the forms of their arguments. A server's words may lead to its own tools,
// until one has given something: that is of who knows whom.
//
// What others said in earlier turns of a conversation is not shown to a run that
// may act, so that asking for the weather by a server does not cost a person the
// robot's hands for the rest of the talk. That there was such a turn is.

// choose settles which tools are offered from here on.
func (t *turn) choose() {
	barred := t.barred()
	if !barred && !t.from.limited() && t.a.o.Allow == nil && !t.a.servers {
		t.offer = t.a.offer
		return
	}
	own := false // a tool of the author's that acts
	t.offer, t.unsaid = nil, nil
	for _, tool := range t.a.offer {
		if t.allowed(tool, barred) {
			t.offer = append(t.offer, tool)
			own = own || tool.Effect == Write && tool.Origin == ""
		}
	}
	var whose []origin.Label // of those whose words may be read
	for _, tool := range t.offer {
		if tool.Origin != "" && !slices.Contains(whose, tool.Origin) && !tool.Origin.Trusted(t.a.o.Trusted) && !t.a.o.TaintedWrites {
			whose = append(whose, tool.Origin)
		}
	}
	if len(whose) == 0 {
		return
	}
	for i, tool := range t.offer {
		if !slices.Contains(whose, tool.Origin) {
			continue
		}
		if others := own || len(whose) > 1 && t.writes(tool.Origin); others {
			t.offer[i] = t.a.tools[tool.Name].named
			t.unsaid = append(t.unsaid, tool.Name)
		} else {
			t.scope.Raise(tool.Origin)
		}
	}
}

// writes reports whether a tool that acts is offered that is not of an origin.
func (t *turn) writes(than origin.Label) bool {
	return slices.ContainsFunc(t.offer, func(o Tool) bool { return o.Effect == Write && o.Origin != than })
}

func (t *turn) allowed(tool Tool, barred bool) bool {
	own := t.a.tools[tool.Name]
	if own.handoff != nil || own.decline {
		return true
	}
	if tool.Effect == Write && barred && !t.serves(tool.Origin) {
		return false
	}
	return t.allows(tool.Name)
}

// allows reports whether this agent, and all who delegated to it, may use a tool.
func (t *turn) allows(tool string) bool {
	return t.from.allows(tool) && (t.a.o.Allow == nil || t.a.o.Allow(tool))
}

// serves reports whether nothing but a server's descriptions bars its tools.
func (t *turn) serves(server origin.Label) bool {
	if server == "" || t.heard {
		return false
	}
	return t.Origin().Trusted(func(who string) bool { return origin.Label(who) == server || t.a.o.Trusted(who) })
}

// unsay makes of a tool one of which a model reads no words of its server.
func (o *offered) unsay() error {
	o.bare = o.params.Bare()
	text, err := schema.Encode(o.bare)
	o.named = o.Tool
	o.named.Doc, o.named.Params = "A tool of the server "+Line(string(o.Origin))+".", text
	return err
}

// masked is a history without the words that are no orders. Turns stay whole.
func (t *turn) masked(history []Message) []Message {
	policy := t.a.o.Trusted
	var out []Message
	for i := 0; i < len(history); {
		end := i + 1
		whose := history[i].Origin
		for ; end < len(history) && history[end].Role != User; end++ {
			whose = whose.Join(history[end].Origin)
		}
		turn := history[i:end]
		i = end
		if whose.Trusted(policy) {
			if out != nil {
				out = append(out, turn...)
			}
			continue
		}
		if out == nil {
			out = slices.Clone(history[:end-len(turn)])
		}
		asked := turn[0]
		if !asked.Origin.Trusted(policy) {
			asked = Message{Role: User, Text: "(words of " + Line(string(asked.Origin.Untrusted(policy))) + ", not shown here)"}
		}
		asked.Origin = t.Task.Origin
		out = append(out, asked, Message{
			Role: Assistant, Origin: t.Task.Origin,
			Text: "(an answer with words of " + Line(string(whose.Untrusted(policy))) + ", not shown here)",
		})
	}
	if out == nil {
		return history
	}
	return out
}
