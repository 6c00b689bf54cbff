package builtin

import (
	"slices"
	"strings"

	"edged/agent/llm/builtin/mask"
)

// double tells whether a sentence holds two commands, of which a call is only
// one: "turn left and then right". An "and" in words that are spoken, or in the
// name of a thing, is none; nor is "go and fetch …". What stops may always be
// called: half of it is the half that is safe.
func (all *Known) double(h Heard, t mask.Tool, args map[string]any) bool {
	k := all.tool(t.Name)
	if k != nil && k.Sure > 0 && k.Sure < defaultSure {
		return false
	}
	text := " " + h.Text + " "
	for name, a := range args {
		s, ok := a.(string)
		p := t.Params.Prop(name)
		if !ok || p == nil || p.Kind != mask.String {
			continue
		}
		if k != nil && slices.Contains(k.Tails, name) { // it runs to the end: all that follows is spoken
			text = strings.TrimSuffix(text, s+" ")
			continue
		}
		if i := strings.Index(text, " "+s+" "); i >= 0 && !all.joins(strings.Fields(s)) {
			text = text[:i] + " it " + text[i+len(s)+2:]
		}
	}
	w := opened(strings.Fields(text))
	for len(w) > 0 && slices.Contains(fillers(), w[len(w)-1]) {
		w = w[:len(w)-1]
	}
	for i, x := range w {
		if x != "and" && x != "then" || i == 0 {
			continue
		}
		if i == 1 && x == "and" && slices.Contains([]string{"go", "come", "drive", "run", "try", "ahead"}, w[0]) {
			continue
		}
		if i == 2 && x == "and" && w[0] == "go" && w[1] == "ahead" {
			continue
		}
		return true
	}
	return false
}

// joins tells whether a second command begins within a name.
func (all *Known) joins(name []string) bool {
	for i, x := range name {
		if x == "then" || x == "and" && i+1 == len(name) {
			return true
		}
		if x == "and" && (name[i+1] == "then" || slices.ContainsFunc(all.Tools, func(t KnownTool) bool { return slices.Contains(t.Begins, name[i+1]) })) {
			return true
		}
	}
	return false
}

// opened leaves out what only opens a command: "please", "ok robot", "could you".
func opened(w []string) []string {
	for len(w) > 0 {
		switch {
		case slices.Contains(fillers(), w[0]):
			w = w[1:]
		case len(w) > 1 && w[1] == "you" && slices.Contains([]string{"can", "could", "would", "will"}, w[0]):
			w = w[2:]
		case len(w) > 4 && w[0] == "i" && w[2] == "you" && w[3] == "to":
			w = w[4:]
		default:
			return w
		}
	}
	return w
}

// fillers are words before and after a command that mean nothing.
func fillers() []string {
	return strings.Fields("ok okay hey robot please so well um uh now and then yes alright hello hi thanks")
}
