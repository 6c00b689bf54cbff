package train

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"edged/agent/llm"
	"edged/agent/llm/builtin"
	"edged/agent/llm/builtin/mask"
)

// Robot is what a model is trained for: a robot's tools and how people ask for
// them. It is plain data, so it can be kept in a file.
type Robot struct {
	Name    string          `json:"name"`
	Tools   []Tool          `json:"tools"`
	Decline []string        `json:"decline,omitempty"` // sentences it must not act on
	Replies builtin.Replies `json:"replies,omitzero"`  // what it says of results
}

// Tool is one tool. Phrases may hold (one|of these), [optional] words and
// {slots} named as parameters; a slot of a number stands for the number with
// its unit if the parameter is named for one (meters, degrees, percent, ...).
type Tool struct {
	Name   string          `json:"name"`
	Doc    string          `json:"doc"`
	Params json.RawMessage `json:"params,omitempty"` // JSON schema of the arguments
	Motion bool            `json:"motion,omitempty"` // it moves something: mistakes are counted apart
	Sure   float64         `json:"sure,omitempty"`   // how likely a call must be to be made, if not as usual
	Say    []Phrase        `json:"say"`
	// Held phrases are kept out of training and show how the model does with
	// words it has not seen. If there are none, every sixth of Say is held.
	Held []Phrase `json:"held,omitempty"`
	// Spoken gives words for a parameter's values: {"place": {"living": ["living room", "lounge"]}}.
	// The parameters of free text learn their usual values from it.
	Spoken map[string]map[string][]string `json:"spoken,omitempty"`
}

// FromTool takes over what a script's tool says of itself; its phrases, and
// what its values are called, are to be added.
func FromTool(t llm.Tool) Tool {
	return Tool{Name: t.Name, Doc: t.Doc, Params: t.Params, Motion: t.Effect == llm.Write}
}

// Phrase is one way to ask for a tool, and the arguments that it implies
// without naming them: {"text": "turn around", "args": {"degrees": 180}}. A
// phrase that implies none may be written as a string.
type Phrase struct {
	Text string         `json:"text"`
	Args map[string]any `json:"args,omitempty"`
}

// UnmarshalJSON takes a string or an object.
func (p *Phrase) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, &p.Text) == nil {
		return nil
	}
	type plain Phrase
	return json.Unmarshal(b, (*plain)(p))
}

// plan is a robot, read and checked.
type plan struct {
	robot Robot
	tools []tool
	held  []string // of Decline: every fourth
	deny  []string
}

type tool struct {
	Tool
	schema *mask.Schema
	say    []template
	held   []template
}

// template is a phrase, parsed.
type template struct {
	parts []part
	args  map[string]any
	first string // its first word, to see what may stand before it
}

// part is words, a slot, or a choice of sequences.
type part struct {
	words string
	slot  string
	any   [][]part
}

const heldEach = 6

func read(r Robot) (*plan, error) {
	p := &plan{robot: r}
	if len(r.Tools) == 0 {
		return nil, fmt.Errorf("train: robot %q has no tools", r.Name)
	}
	for _, t := range r.Tools {
		one, err := readTool(t)
		if err != nil {
			return nil, fmt.Errorf("train: tool %s: %w", t.Name, err)
		}
		p.tools = append(p.tools, one)
	}
	for i, s := range r.Decline {
		if i%4 == 3 {
			p.held = append(p.held, s)
		} else {
			p.deny = append(p.deny, s)
		}
	}
	return p, nil
}

func readTool(t Tool) (tool, error) {
	out := tool{Tool: t}
	s, err := mask.Read(t.Params)
	if err != nil {
		return out, err
	}
	if s.Kind != mask.Object {
		return out, fmt.Errorf("parameters are no object")
	}
	out.schema = s
	if len(t.Say) == 0 {
		return out, fmt.Errorf("no example phrases")
	}
	for i, list := range [][]Phrase{t.Say, t.Held} {
		for k, ph := range list {
			one, err := out.template(ph)
			if err != nil {
				return out, fmt.Errorf("phrase %q: %w", ph.Text, err)
			}
			if i == 1 || len(t.Held) == 0 && len(t.Say) >= heldEach && k%heldEach == heldEach-1 {
				out.held = append(out.held, one)
			} else {
				out.say = append(out.say, one)
			}
		}
	}
	return out, nil
}

func (t *tool) template(ph Phrase) (template, error) {
	parts, rest, err := parse(ph.Text)
	if err == nil && rest != "" {
		err = fmt.Errorf("%q closes nothing", rest)
	}
	if err != nil {
		return template{}, err
	}
	out := template{parts: parts, args: ph.Args}
	var check func(parts []part) error
	check = func(parts []part) error {
		for _, p := range parts {
			if p.slot != "" && t.schema.Prop(p.slot) == nil {
				return fmt.Errorf("slot {%s} is no parameter", p.slot)
			}
			for _, a := range p.any {
				if err := check(a); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := check(parts); err != nil {
		return out, err
	}
	for name := range ph.Args {
		if t.schema.Prop(name) == nil {
			return out, fmt.Errorf("argument %s is no parameter", name)
		}
	}
	for _, p := range t.schema.Props {
		if _, fixed := ph.Args[p.Name]; p.Required && !fixed && !strings.Contains(ph.Text, "{"+p.Name+"}") {
			return out, fmt.Errorf("it does not say what %s is: name it as {%s}, or give it in args", p.Name, p.Name)
		}
	}
	return out, nil
}

// parse reads a phrase up to a sign that closes or separates; rest begins with it.
func parse(s string) (parts []part, rest string, err error) {
	for s != "" {
		i := strings.IndexAny(s, "([{}])|")
		if i < 0 {
			i = len(s)
		}
		if w := strings.TrimSpace(s[:i]); w != "" {
			parts = append(parts, part{words: w})
		}
		if s = s[i:]; s == "" {
			break
		}
		switch s[0] {
		case '{':
			name, after, ok := strings.Cut(s[1:], "}")
			if !ok {
				return nil, "", fmt.Errorf("%q is not closed", s)
			}
			parts, s = append(parts, part{slot: name}), after
		case '(', '[':
			var p part
			if p, s, err = choice(s); err != nil {
				return nil, "", err
			}
			parts = append(parts, p)
		default:
			return parts, s, nil
		}
	}
	return parts, "", nil
}

// choice reads (a|b) or [a|b]; the second may also be nothing.
func choice(s string) (part, string, error) {
	var p part
	closing := byte(')')
	if s[0] == '[' {
		closing, p.any = ']', append(p.any, nil)
	}
	for {
		one, rest, err := parse(s[1:])
		if err != nil {
			return p, "", err
		}
		if rest == "" || rest[0] != '|' && rest[0] != closing {
			return p, "", fmt.Errorf("%q is not closed", s)
		}
		p.any = append(p.any, one)
		if rest[0] == closing {
			return p, rest[1:], nil
		}
		s = rest
	}
}

// constants lists per tool and parameter the values that phrases imply or
// spoken words stand for, as JSON texts: what may be said without being heard.
func (p *plan) constants() map[string]map[string][]string {
	out := map[string]map[string][]string{}
	for _, t := range p.tools {
		add := func(param string, v any) {
			if out[t.Name] == nil {
				out[t.Name] = map[string][]string{}
			}
			if b, err := json.Marshal(v); err == nil && !slices.Contains(out[t.Name][param], string(b)) {
				out[t.Name][param] = append(out[t.Name][param], string(b))
			}
		}
		for _, ph := range append(slices.Clone(t.Say), t.Held...) {
			for k, v := range ph.Args {
				if pr := t.schema.Prop(k); pr.Kind != mask.Choice && pr.Kind != mask.Boolean {
					add(k, v)
				}
			}
		}
		for _, pr := range t.schema.Props {
			if pr.Kind == mask.String {
				for value := range t.Spoken[pr.Name] {
					add(pr.Name, value)
				}
			}
		}
		for _, list := range out[t.Name] {
			slices.Sort(list)
		}
	}
	return out
}

// begins lists the words that a tool's phrases begin with.
func (t *tool) begins() []string {
	var out []string
	var walk func(parts []part) (empty bool)
	walk = func(parts []part) bool {
		for _, p := range parts {
			switch {
			case p.words != "":
				w, _, _ := strings.Cut(p.words, " ")
				out = append(out, w)
				return false
			case p.slot != "":
				return false
			}
			empty := false
			for _, a := range p.any {
				if walk(a) {
					empty = true
				}
			}
			if !empty {
				return false
			}
		}
		return true
	}
	for _, tm := range t.say {
		walk(tm.parts)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// tails lists the free texts that always run to the end of what is said.
func (t *tool) tails() []string {
	var out []string
	for _, p := range t.schema.Props {
		if p.Kind == mask.String && p.MaxLength > longName && !slices.ContainsFunc(t.Say, func(ph Phrase) bool { return !strings.HasSuffix(ph.Text, "{"+p.Name+"}") }) {
			out = append(out, p.Name)
		}
	}
	return out
}

// longName is what a name may have in characters; a longer text is a sentence.
const longName = 40

// number writes a number as JSON does.
func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
