package train

import (
	"math/rand/v2"
	"slices"
	"strings"

	"edged/agent/llm/builtin"
	"edged/agent/llm/builtin/engine"
)

// sample is one thing a person says and the wanted answer: a call as compact
// JSON, or a plain sentence when there is nothing to do.
type sample struct {
	user   string
	answer string
	tool   *tool  // nil: nothing to do
	result string // what the tool gave back, when the sample goes on that far
	reply  string // the closing sentence then
}

func newVoice(p *plan, seed, stream uint64) *voice {
	v := &voice{Rand: rand.New(rand.NewPCG(seed, stream)), plan: p, words: english()}
	var own []string
	for i := range p.tools {
		own = append(own, p.tools[i].begins()...)
	}
	v.words.others = slices.DeleteFunc(v.words.others, func(w string) bool { return slices.Contains(own, w) })
	return v
}

// sample makes one up. With held it uses the phrasings kept out of training,
// and does without noise.
func (v *voice) sample(held bool) sample {
	if v.IntN(100) < 32 {
		return v.nothing(held)
	}
	t := &v.plan.tools[v.IntN(len(v.plan.tools))]
	from := t.say
	if held {
		if from = t.held; len(from) == 0 {
			return v.nothing(held)
		}
	}
	s := v.fill(t, pick(v.Rand, from), !held)
	text := s.text
	last := ""
	if f := strings.Fields(text); len(f) > 0 {
		last = f[len(f)-1]
	}
	free := t.speaks(s) // a tail would be part of what is said
	if !free && last != "please" && v.IntN(4) == 0 {
		text += " " + pick(v.Rand, v.words.tails)
	}
	if !held && s.verb && v.IntN(4) == 0 {
		text = pick(v.Rand, v.words.polite) + " " + text
	}
	if v.IntN(4) == 0 {
		text = pick(v.Rand, v.words.fillers) + " " + text
	}
	out := sample{user: v.write(text, free), answer: s.call(t), tool: t}
	if !held && v.IntN(6) == 0 {
		out.result, out.reply = v.result()
	}
	return out
}

// speaks tells whether a phrase ends with free text of any length.
func (t *tool) speaks(s said) bool {
	for _, p := range t.schema.Props {
		if p.MaxLength > longName && s.args[p.Name] != "" {
			return true
		}
	}
	return false
}

// write puts words as they are written: most as the built-in engine hears them,
// some as people type, for servers that take the text as it is.
func (v *voice) write(text string, plain bool) string {
	switch k := v.IntN(10); {
	case k == 0 && !plain:
		return strings.ToUpper(text[:1]) + text[1:] + "."
	case k == 1:
		return strings.ToUpper(text[:1]) + text[1:]
	case k == 2 || plain && k < 4:
		return text
	}
	return builtin.Hear(text).Text
}

// nothing makes up what must not be acted on.
func (v *voice) nothing(held bool) sample {
	chat, wrap, deny := v.words.chat, v.words.wrap, v.plan.deny
	if held {
		chat, wrap, deny = v.words.chatHeld, v.words.held, v.plan.held
	}
	var text string
	switch k := v.IntN(10); {
	case k < 2 && len(deny) > 0:
		text = pick(v.Rand, deny)
	case k < 4:
		text = v.replace(pick(v.Rand, chat), said{})
	case k < 5 && !held:
		text = v.other()
	default:
		text = v.wrapped(wrap, held)
	}
	if v.IntN(6) == 0 {
		text = pick(v.Rand, v.words.fillers) + " " + text
	}
	return sample{user: v.write(text, false), answer: refusal}
}

// other asks for what no tool does.
func (v *voice) other() string {
	text := pick(v.Rand, v.words.others) + " " + pick(v.Rand, []string{"the {x}", "a {x}", "my {x}", "{x}", "the {x} for {who}", "a {x} to {who}", "{x} to {who}", "the {x} in the {x}", "it", "me a {x}", "the {x} with a {x}"})
	if v.IntN(3) == 0 {
		text = pick(v.Rand, v.words.polite) + " " + text
	}
	return v.replace(text, said{})
}

// wrapped makes a command and turns it into something that is none.
func (v *voice) wrapped(wrap []string, held bool) string {
	for range 20 {
		t := &v.plan.tools[v.IntN(len(v.plan.tools))]
		s := v.fill(t, pick(v.Rand, t.say), false)
		if s.verb {
			return v.replace(pick(v.Rand, wrap), s)
		}
	}
	return v.replace(pick(v.Rand, v.words.chat), said{})
}

func (v *voice) replace(text string, s said) string {
	verb, rest, _ := strings.Cut(s.text, " ")
	forms := v.words.verbs[verb]
	text = strings.Replace(text, "{do}", s.text, 1)
	text = strings.Replace(text, "{did}", strings.TrimSpace(forms[0]+" "+rest), 1)
	text = strings.Replace(text, "{doing}", strings.TrimSpace(forms[1]+" "+rest), 1)
	for strings.Contains(text, "{who}") {
		text = strings.Replace(text, "{who}", v.who(), 1)
	}
	for strings.Contains(text, "{x}") {
		x := v.name()
		if v.IntN(3) == 0 {
			x = v.babble(1 + v.IntN(2))
		}
		text = strings.Replace(text, "{x}", x, 1)
	}
	return text
}

func (v *voice) who() string {
	switch v.IntN(6) {
	case 0:
		return "the " + pick(v.Rand, []string{"dog", "cat", "car", "boy", "girl", "man", "woman", "bus", "train", "other robot", "teacher", "doctor", "driver", "ball", "neighbor", "baby"})
	case 1:
		return pick(v.Rand, []string{"my", "his", "your", "our"}) + " " + pick(v.Rand, []string{"brother", "sister", "mother", "father", "friend", "dog", "cat", "boss", "car", "son", "daughter", "wife", "husband"})
	case 2:
		return pick(v.Rand, []string{"he", "she", "somebody", "everybody", "nobody"})
	case 3:
		return v.invent()
	}
	return pick(v.Rand, v.words.people)
}

const refusal = "I have no tool for that."

// result makes up what a tool gave back and the sentence to close with.
func (v *voice) result() (result, reply string) {
	switch v.IntN(5) {
	case 0:
		result = "error: " + pick(v.Rand, []string{"blocked", "no path", "low battery", "timeout", "not found", "too far", "busy", v.invent()})
	case 1, 2:
		result = number(float64(v.IntN(2000))/10) + pick(v.Rand, []string{" %", " cm", " C", " lux", " V", ""})
	default:
		result = "ok"
	}
	return result, v.plan.robot.Replies.Sentence(result)
}

// tokens is <|user|>text<|assistant|>answer<|end|>.
func (s sample) tokens(t *engine.Tokenizer) []int {
	ids := append([]int{engine.TokenUser}, t.Encode(s.user)...)
	ids = append(ids, engine.TokenAssistant)
	if s.tool != nil {
		ids = append(append(append(ids, engine.TokenCall), t.Encode(s.answer)...), engine.TokenCallEnd)
	} else {
		ids = append(ids, t.Encode(s.answer)...)
	}
	ids = append(ids, engine.TokenEnd)
	if s.reply != "" {
		ids = append(append(ids, engine.TokenTool), t.Encode(s.result)...)
		ids = append(append(append(ids, engine.TokenAssistant), t.Encode(s.reply)...), engine.TokenEnd)
	}
	return ids
}

// row packs samples into one row of a batch; a sample sees only itself.
func (v *voice) row(t *engine.Tokenizer) example {
	e := newExample()
	for i := 0; ; {
		ids := v.sample(false).tokens(t)
		if len(ids) > rowLen {
			continue
		}
		if i+len(ids) > rowLen {
			return e
		}
		speaks, first := false, false
		for j, id := range ids {
			e.tokens[i+j], e.starts[i+j] = id, i
			if id == engine.TokenAssistant {
				speaks, first = true, true
			}
			if j+1 < len(ids) {
				e.targets[i+j], e.weight[i+j] = ids[j+1], 0.05 // other words teach a little
				if speaks {
					e.weight[i+j] = 1
				}
				if first { // to act or not: what matters most
					e.weight[i+j], first = 2, false
				}
			}
			if id == engine.TokenEnd {
				speaks = false
			}
		}
		i += len(ids)
	}
}
