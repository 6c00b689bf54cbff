// Package intent is a model that is no model: it understands the sentences its
// author listed, at once, exactly, without a server.
//
// Its one rule: in doubt it declines. What is not one of its sentences, or so
// near to one that only a listening error can be between, is left to the next
// model; a sentence that holds a negation, a question or a condition is never
// bent into a command.
//
// Sentences are templates in the language of Home Assistant's hassil:
//
//	m, err := intent.Compile([]intent.Intent{{
//		Name:      "GoTo",
//		Tool:      "go_to",
//		Sentences: []string{"(go|drive) to [the] {place}"},
//		Lists:     map[string]intent.List{"place": intent.Words("kitchen", "hall")},
//		Response:  "Going to the {place}.",
//	}}, intent.Options{})
//	match, ok := m.Match("Drive to the kitchen!")
//	// match.Tool "go_to", match.Slots {"place": "kitchen"}
package intent

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// An Intent is something people say in several ways, and what to do then.
type Intent struct {
	Name      string         // for people and traces; the tool's name if empty
	Tool      string         // the tool to call with the slots; empty: Response is all there is
	Sentences []string       // templates
	Slots     map[string]any // fixed values, given to the tool unless the sentence says otherwise
	Lists     map[string]List
	Rules     map[string]string // <name> in sentences; these come before those of Options
	Response  string            // answer when the tool is done: "{place}" as it was said, "{place.value}", "{result}", "{result.key}"
	Requires  map[string]any    // context this intent needs: a value, a []any of values, nil for any value, or a Need
	Excludes  map[string]any    // context in which it does not apply
}

// A Need is a required piece of context that becomes a slot.
type Need struct {
	Value any    // as in Intent.Requires
	Slot  string // the slot that gets the context's value; empty: none
}

// A List says what a slot may hold: one of Values, a number in Range, or, as a
// Wildcard, any words.
type List struct {
	Values   []Value
	Range    *Range
	Wildcard bool
}

// A Value is one entry of a list.
type Value struct {
	In      string         // what is said; a template without slots
	Out     any            // what the tool gets; nil: In as it is
	Context map[string]any // what is known once this value was said, for Requires and Excludes
}

// Words makes a list of values that are given to the tool as they are said.
func Words(words ...string) List {
	l := List{Values: make([]Value, len(words))}
	for i, w := range words {
		l.Values[i].In = w
	}
	return l
}

// A Range is numbers from From to To, both included.
type Range struct {
	From, To   float64
	Step       float64 // 0 = 1, whole numbers; 0.5 allows halves
	Multiplier float64 // the tool gets the number times this; 0 = 1
	NoDigits   bool    // "90" is not understood
	NoWords    bool    // "ninety" is not understood
}

// Options are what intents share.
type Options struct {
	Language  string            // "en" if empty; whose number words, fillers, negations and questions
	Lists     map[string]List   // for all intents
	Rules     map[string]string // for all intents
	SkipWords []string          // words and phrases that may be left unread anywhere: "please"
	// Fuzzy is how sure a match must be that is not word for word, above 0 and
	// up to 1. 0 means 0.8; 1 allows no difference.
	Fuzzy float64
}

// A Match is a sentence that was understood. Slots is the caller's own.
type Match struct {
	Intent   string
	Tool     string
	Slots    map[string]any // string, int64, float64, bool, or what Out says
	Said     map[string]string
	Sentence string  // the template
	Score    float64 // 1 = word for word
	Response string  // the answer's template
}

// A Model understands the sentences it was compiled from. All its methods may
// be called concurrently.
type Model struct {
	intents   []Intent
	fills     [][]string // the slots that each intent may fill
	sentences []sentence
	states    []state
	lists     []list
	slots     []string
	sets      []setting
	vocab     map[string]int32
	words     []word
	near      map[nearKey][]int32 // words of the vocabulary by first letter and length
	skips     [][]int32           // skip phrases as word ids
	lang      *language
	fuzzy     float64
	root      int32
	pool      sync.Pool
}

type sentence struct {
	intent int32
	text   string
}

// A word of the vocabulary and what may be done to it.
type word struct {
	text  string
	chars int32
	drop  bool // a recogniser may have lost it
	block bool // negation, question, condition: never guessed
}

// A setting is a slot value that comes with a word.
type setting struct {
	slot, list, value int32
}

type list struct {
	name     string
	values   []Value
	rng      *Range
	wildcard bool
	root     int32 // of text values
}

// An Error says what is wrong in which sentence.
type Error struct {
	Intent string // whose sentence or list, if it is one's own
	Text   string // the sentence
	Pos    int    // byte in it
	Msg    string // what is wrong and what to write instead
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("intent: ")
	if e.Intent != "" {
		b.WriteString(e.Intent + ": ")
	}
	b.WriteString(e.Msg)
	if e.Text != "" {
		fmt.Fprintf(&b, "\n    %s\n    %s^", e.Text, strings.Repeat(" ", len([]rune(e.Text[:min(e.Pos, len(e.Text))]))))
	}
	return b.String()
}

// Compile makes a model of intents. What is wrong is an [*Error] that names
// the sentence, the place in it and the way out.
func Compile(intents []Intent, o Options) (*Model, error) {
	if o.Fuzzy < 0 || o.Fuzzy > 1 {
		return nil, &Error{Msg: fmt.Sprintf("fuzzy threshold %g: it is between 0 and 1, 1 allows no difference", o.Fuzzy)}
	}
	if o.Fuzzy == 0 {
		o.Fuzzy = 0.8
	}
	lang, err := languageOf(o.Language)
	if err != nil {
		return nil, err
	}
	m := &Model{vocab: map[string]int32{}, lang: lang, fuzzy: o.Fuzzy, near: map[nearKey][]int32{}}
	c := &compiler{m: m, o: o, shared: map[string]int32{}, slotID: map[string]int32{}, setID: map[setting]int32{}, rules: map[string]*node{}}
	var starts []int32
	for i, in := range intents {
		if in.Name == "" {
			in.Name = in.Tool
		}
		m.intents = append(m.intents, in)
		from, err := c.intent(int32(i))
		if err != nil {
			return nil, err
		}
		starts = append(starts, from...)
	}
	if m.root, err = c.determine(starts); err != nil {
		return nil, err
	}
	if err := c.skipWords(); err != nil {
		return nil, err
	}
	c.index()
	m.pool.New = func() any { return &search{m: m} }
	return m, nil
}

// Tools lists the tools that sentences call, sorted.
func (m *Model) Tools() []string {
	set := map[string]bool{}
	for _, in := range m.intents {
		if in.Tool != "" {
			set[in.Tool] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// Match finds the sentence that text is. Of several the one wins that shares
// the most letters with text, then the one with the fewest wildcards, then the
// first listed.
func (m *Model) Match(text string) (Match, bool) {
	return m.MatchIn(text, nil)
}

// MatchIn is Match in a situation: context is what is known beyond the words,
// such as the room they were said in; see Intent.Requires.
func (m *Model) MatchIn(text string, context map[string]any) (Match, bool) {
	s := m.pool.Get().(*search)
	defer m.pool.Put(s)
	return s.match(text, context)
}
