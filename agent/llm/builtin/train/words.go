package train

import (
	"encoding/json"
	"slices"
	"strings"

	"edged/agent/llm/builtin"
	"edged/agent/llm/builtin/mask"
)

// words lists what the phrases of a tool are about.
func (t *tool) words() []string {
	var out []string
	for _, s := range t.phrases() {
		out = append(out, builtin.Content(s)...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// words lists all words that are said to the robot: its phrases, what it must
// not act on, and what stands around a command.
func (p *plan) words() []string {
	l := english()
	all := slices.Concat(p.deny, l.fillers, l.tails, l.polite)
	for i := range p.tools {
		all = append(all, p.tools[i].phrases()...)
	}
	for _, u := range l.units {
		all = append(all, u...)
	}
	for _, w := range l.alike {
		all = append(all, w)
	}
	out := strings.Fields(builtin.Hear(strings.Join(all, " ; ")).Text)
	out = slices.DeleteFunc(out, func(w string) bool { return w == "_" || w[0] >= '0' && w[0] <= '9' })
	slices.Sort(out)
	return slices.Compact(out)
}

// phrases gives all that a tool's phrases can be, "_" standing for numbers and
// for names that are copied.
func (t *tool) phrases() []string {
	var out []string
	for _, tm := range t.say {
		out = append(out, t.spread(tm.parts)...)
	}
	return out
}

func (t *tool) spread(parts []part) []string {
	out := []string{""}
	for _, p := range parts {
		var ways []string
		switch {
		case p.slot != "":
			ways = t.values(t.schema.Prop(p.slot))
		case p.any != nil:
			for _, a := range p.any {
				ways = append(ways, t.spread(a)...)
			}
		default:
			ways = []string{p.words}
		}
		var next []string
		for _, o := range out {
			for _, w := range ways {
				next = append(next, strings.TrimSpace(o+" "+w))
			}
		}
		slices.Sort(next)
		out = slices.Compact(next)
	}
	return out
}

// values gives how the values of a parameter are said.
func (t *tool) values(p *mask.Prop) []string {
	spoken := t.Spoken[p.Name]
	out := []string{"_"}
	for _, u := range english().units[p.Name] {
		out = append(out, "_ "+u)
	}
	for _, value := range sortedKeys(spoken) {
		out = append(out, spoken[value]...)
	}
	for _, c := range p.Choices {
		var s string
		if p.Kind == mask.Choice && json.Unmarshal([]byte(c), &s) == nil && spoken[s] == nil {
			out = append(out, strings.ReplaceAll(s, "_", " "))
		}
	}
	return out
}
