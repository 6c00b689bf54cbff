// Package stopword knows which texts mean "stop", in which language.
//
// Its one rule: in doubt it is a stop. A robot that halted for nothing is told
// to go on; one that did not halt is not asked again. So a short text with a
// stop word stops, a long one if it begins or ends with it; only a negation
// ("don't stop"), a name ("bus stop") and a question ("did you stop") keep it
// going.
//
//	w, err := stopword.New("en", "de")
//	w.Stops("please stop!")            // true
//	w.Stops("don't stop")              // false
//	w.Stops("can you stop by the kitchen") // false
//
// It is asked for whole texts and for what a recogniser believes so far, on
// whatever goroutine hears them. It allocates nothing, locks nothing, and
// needs no model.
package stopword

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"edged/agent/llm/intent/fold"
)

// Words are the stop words of some languages. They never change; all methods
// may be called concurrently.
type Words struct {
	ids     map[string]int32 // of folded words
	marks   []mark           // what a word is, by id
	stops   [][]phrase       // by the first word
	nevers  [][]phrase
	request [][]phrase // "could you"
}

// A phrase is one or more words.
type phrase struct {
	words []int32
	alone bool // stops only if nothing else is said
	world bool // "stop" itself, known everywhere: a weak negation does not reach it
}

// A mark is what a word is good for.
type mark uint16

const (
	negates  mark = 1 << iota // before a stop word it takes it back
	weak                      // so does this, but it may be a cry, too: "no!"
	after                     // behind a stop word it takes it back: "stopp nicht"
	filler                    // may stand around a stop word
	link                      // may stand between a negation and a stop word
	ending                    // may follow a negation that stands behind
	article                   // makes a name of the word: "the stop"
	asks                      // begins a question
	helps                     // does, did
	before                    // to, will
	subject                   // you, it
	doing                     // do, doing: a question that is over
	travel                    // by, at: "can you stop by"
	requests                  // part of "could you"
)

// Languages lists the languages there are words for.
func Languages() []string { return slices.Sorted(maps.Keys(languages())) }

// New returns the stop words of the languages named, English if none is.
// "en-GB" is "en". An unknown language is an error.
func New(codes ...string) (*Words, error) {
	if len(codes) == 0 {
		codes = []string{"en"}
	}
	all := languages()
	w := &Words{ids: map[string]int32{}}
	for _, code := range codes {
		base, _, _ := strings.Cut(strings.ToLower(strings.ReplaceAll(code, "_", "-")), "-")
		if base == "nb" || base == "nn" {
			base = "no"
		}
		l, ok := all[base]
		if !ok {
			return nil, fmt.Errorf("stopword: no stop words for language %q: there are %s; give your own with With", code, strings.Join(Languages(), " "))
		}
		w.learn(l)
	}
	return w, nil
}

// With returns the words and more that stop, each a word or a phrase.
func (w *Words) With(phrases ...string) (*Words, error) {
	return w.more(phrases, func(c *Words, p phrase) { put(&c.stops, p) })
}

// Except returns the words without those texts that hold one of the phrases
// around a stop word: "stop the music".
func (w *Words) Except(phrases ...string) (*Words, error) {
	return w.more(phrases, func(c *Words, p phrase) { put(&c.nevers, p) })
}

func (w *Words) more(phrases []string, add func(*Words, phrase)) (*Words, error) {
	c := &Words{ids: maps.Clone(w.ids), marks: slices.Clone(w.marks), stops: clone(w.stops), nevers: clone(w.nevers), request: clone(w.request)}
	for _, s := range phrases {
		p := c.phrase(s)
		if len(p.words) == 0 || len(p.words) > maxWords {
			return nil, fmt.Errorf("stopword: %q has %d words: a phrase has 1 to %d", s, len(p.words), maxWords)
		}
		add(c, p)
	}
	return c, nil
}

func clone(in [][]phrase) [][]phrase {
	out := make([][]phrase, len(in))
	for i := range in {
		out[i] = slices.Clone(in[i])
	}
	return out
}

// put files a phrase under its first word.
func put(lists *[][]phrase, p phrase) {
	for len(*lists) <= int(p.words[0]) {
		*lists = append(*lists, nil)
	}
	at := &(*lists)[p.words[0]]
	*at = append(*at, p)
	sort.SliceStable(*at, func(i, j int) bool { return len((*at)[i].words) > len((*at)[j].words) })
}

// phrase gives the words of s numbers.
func (w *Words) phrase(s string) phrase {
	var p phrase
	for len(s) > 0 {
		var buf [256]byte
		var word []byte
		word, s, _ = next(buf[:0], s)
		if len(word) == 0 {
			break
		}
		p.words = append(p.words, w.id(string(word)))
	}
	return p
}

func (w *Words) id(word string) int32 {
	id, ok := w.ids[word]
	if !ok {
		id = int32(len(w.marks))
		w.ids[word] = id
		w.marks = append(w.marks, 0)
	}
	return id
}

func (w *Words) learn(l language) {
	each := func(list string, f func(phrase)) {
		for _, s := range strings.Split(list, "|") {
			if p := w.phrase(s); len(p.words) > 0 {
				f(p)
			}
		}
	}
	for _, of := range []struct {
		list string
		mark mark
	}{
		{l.not, negates}, {l.weak, negates | weak}, {l.after, after}, {l.filler, filler}, {l.link, link}, {l.ending, ending}, {l.article, article},
		{l.asks, asks}, {l.helps, helps}, {l.before, before}, {l.subject, subject}, {l.doing, doing}, {l.travel, travel},
	} {
		each(strings.ReplaceAll(of.list, " ", "|"), func(p phrase) {
			for _, id := range p.words {
				w.marks[id] |= of.mark
			}
		})
	}
	each(l.stop, func(p phrase) {
		s := w.ids
		p.world = len(p.words) == 1 && (p.words[0] == at(s, "stop") || p.words[0] == at(s, "stopp") || p.words[0] == at(s, "halt"))
		put(&w.stops, p)
	})
	each(l.alone, func(p phrase) { p.alone = true; put(&w.stops, p) })
	each(l.never, func(p phrase) { put(&w.nevers, p) })
	each(l.request, func(p phrase) {
		for _, id := range p.words {
			w.marks[id] |= requests
		}
		put(&w.request, p)
	})
}

func at(ids map[string]int32, word string) int32 {
	if id, ok := ids[word]; ok {
		return id
	}
	return -1
}

// next reads the first word of s, folded, into buf. broken reports whether
// punctuation stood before it. A letter of a script without spaces is a word.
// Three and more of a letter are one: "stooop".
func next(buf []byte, s string) (word []byte, rest string, broken bool) {
	var last rune
	run := 0
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		f := fold.Rune(r)
		switch {
		case f == 0 || f == '\'' && len(buf) > 0 && letterAt(s, i+n):
			// belongs to the word and says nothing
		case fold.Own(f):
			if len(buf) > 0 {
				return buf, s[i:], broken
			}
			return utf8.AppendRune(buf, f), s[i+n:], broken
		case fold.Letter(f) || '0' <= f && f <= '9':
			if f == last {
				run++
			} else {
				last, run = f, 1
			}
			switch {
			case len(buf) >= cap(buf)-2*utf8.UTFMax:
			case run == 3 && fold.Letter(f):
				buf = buf[:len(buf)-utf8.RuneLen(f)]
			case run < 3 || !fold.Letter(f):
				buf = utf8.AppendRune(buf, f)
			}
		default:
			if len(buf) > 0 {
				return buf, s[i:], broken
			}
			switch f {
			case ' ', '\t', '\n', '\r', '-', '_', '"', '*', '(', ')', '\'', 0xA0, 0x3000:
			default:
				broken = true
			}
		}
		i += n
	}
	return buf, "", broken
}

func letterAt(s string, i int) bool {
	r, _ := utf8.DecodeRuneInString(s[i:])
	return fold.Letter(r)
}
