package train

import (
	"maps"
	"slices"
	"strings"
)

// lexicon is the English that is not the robot's own.
type lexicon struct {
	verbs      map[string][2]string // what a command may start with: its past and -ing forms
	units      map[string][]string
	alike      map[string]string
	small      map[string]bool
	plain      []string
	nouns      []string
	adjectives []string
	lines      []string
	fillers    []string
	tails      []string
	polite     []string
	people     []string
	others     []string // verbs
	wrap, held []string // make something of a command that is none
	chat       []string
	chatHeld   []string
}

func list(s string) []string {
	var out []string
	for l := range strings.SplitSeq(strings.TrimSpace(s), "\n") {
		if l = strings.TrimSpace(l); l != "" {
			out = append(out, l)
		}
	}
	return out
}

func english() lexicon {
	l := lexicon{
		verbs: map[string][2]string{},
		units: map[string][]string{
			"meters": {"meters", "meter", "metres", "m"}, "degrees": {"degrees", "degrees", "deg"},
			"percent": {"percent", "percent", "per cent"}, "brightness": {"percent", "percent", "per cent"},
			"seconds": {"seconds", "second", "s"}, "minutes": {"minutes", "minute"}, "celsius": {"degrees", "degrees celsius"},
			"centimeters": {"centimeters", "cm", "centimetres"},
		},
		alike: map[string]string{
			"to": "two", "the": "da", "for": "four", "right": "write", "hall": "hole", "dock": "doc", "turn": "tern", "light": "lite",
			"go": "goal", "drive": "dive", "stop": "stomp", "read": "reed", "by": "buy", "your": "you're", "led": "lead", "put": "but",
			"pick": "big", "lift": "left", "say": "they", "head": "ahead", "roll": "role", "speed": "speeds", "set": "said", "back": "bag",
			"lamp": "lamb", "brake": "break", "halt": "hold", "move": "moved", "rotate": "rotates", "grab": "crab", "drop": "drops",
		},
		small: map[string]bool{},
	}
	for _, w := range strings.Fields("the a an to your please at in of it is") {
		l.small[w] = true
	}
	for _, v := range list(verbForms) {
		f := strings.Fields(v)
		l.verbs[f[0]] = [2]string{f[1], f[2]}
	}
	l.plain = strings.Fields(plainWords)
	l.nouns, l.adjectives, l.people = strings.Fields(nouns), strings.Fields(adjectives), strings.Fields(people)
	l.lines, l.others = list(lines), strings.Fields(otherVerbs)
	l.fillers = []string{"please", "robot", "hey robot", "ok", "now", "um", "hey", "ok robot", "so", "alright", "uh", "well", "robot please", "hey", "yes", "and now", "then"}
	l.tails = []string{"please", "now", "thanks", "robot", "ok", "right now", "for me", "thank you", "would you", "will you", "if you can", "quickly"}
	l.polite = []string{"could you", "can you", "would you", "i want you to", "i need you to", "could you please", "you should", "will you", "go ahead and", "i would like you to", "you can", "please", "can you please", "would you please", "i'd like you to", "you need to", "your job is to", "time to"}
	l.wrap, l.held = list(wraps), list(wrapsHeld)
	l.chat, l.chatHeld = list(chat), list(chatHeld)
	return l
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
