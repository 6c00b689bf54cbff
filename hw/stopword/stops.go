package stopword

import "unicode/utf8"

// This file decides. Nothing in it allocates or blocks.

const (
	maxWords = 128 // of a text that is looked at in one piece
	maxBytes = 512
	short    = 4 // words: a text that short stops wherever the stop word is
	reach    = 6 // words between a negation and what it negates
)

// A said is a word of a text.
type said struct {
	id     int32 // -1 = of no interest
	mark   mark
	broken bool // punctuation before it
	never  bool // part of a phrase that never stops
}

// Stops reports whether text means that everything has to stop now. It does if
// it holds a stop word that nothing takes back, and has at most four words, or
// begins or ends with it but for words such as "please", "robot" and "now".
// The same holds for what is only the beginning of what somebody is saying.
func (w *Words) Stops(text string) bool {
	if w == nil || len(text) == 0 {
		return false
	}
	var words [maxWords]said
	if len(text) <= maxBytes {
		n, whole := w.read(&words, text)
		if whole {
			return w.anyMeant(words[:n], true, true, n <= short)
		}
	}
	// A speech: its beginning and its end are looked at.
	half := min(maxBytes/2, len(text))
	n, _ := w.read(&words, text[:half])
	if w.anyMeant(words[:n], true, false, false) {
		return true
	}
	from := len(text) - half
	for from < len(text) && !utf8.RuneStart(text[from]) {
		from++
	}
	n, _ = w.read(&words, text[from:])
	return w.anyMeant(words[:n], false, true, false)
}

// read numbers the words of a text; whole reports that all fit.
func (w *Words) read(words *[maxWords]said, text string) (n int, whole bool) {
	var buf [64]byte
	for len(text) > 0 {
		word, rest, broken := next(buf[:0], text)
		if len(word) == 0 {
			break
		}
		if n == maxWords {
			return n, false
		}
		id, ok := w.ids[string(word)]
		s := said{id: -1, broken: broken}
		if ok {
			s.id, s.mark = id, w.marks[id]
		}
		words[n] = s
		n++
		text = rest
	}
	for i := range n {
		for _, p := range starting(w.nevers, words[i].id) {
			if matches(words[:n], i, p) {
				for j := range p.words {
					words[i+j].never = true
				}
				break
			}
		}
	}
	return n, true
}

func starting(lists [][]phrase, id int32) []phrase {
	if id < 0 || int(id) >= len(lists) {
		return nil
	}
	return lists[id]
}

func matches(words []said, i int, p phrase) bool {
	if i+len(p.words) > len(words) {
		return false
	}
	for j, id := range p.words {
		if words[i+j].id != id || j > 0 && words[i+j].broken {
			return false
		}
	}
	return true
}

func (w *Words) anyMeant(words []said, begins, ends, short bool) bool {
	for i := range words {
		for _, p := range starting(w.stops, words[i].id) {
			if matches(words, i, p) && w.means(words, i, p, begins, ends, short) {
				return true
			}
		}
	}
	return false
}

// means reports whether the stop phrase p at i is meant as one.
func (w *Words) means(words []said, i int, p phrase, begins, ends, short bool) bool {
	end := i + len(p.words)
	for j := i; j < end; j++ {
		if words[j].never {
			return false
		}
	}
	first, last := w.leads(words[:i]), w.trails(words[end:])
	if p.alone && !(first && last) {
		return false
	}
	if w.takenBack(words, i, p.world) || denied(words[end:]) {
		for j := i; j < end; j++ {
			words[j].never = true // the "stop" in "no emergency stop", too
		}
		return false
	}
	if named(words, i, p) || asked(words, i) {
		return false
	}
	if i > 0 && words[i-1].mark&requests != 0 && end < len(words)-1 && words[end].mark&travel != 0 && !words[end].broken {
		return false // "can you stop by the kitchen"
	}
	return short || begins && first || ends && last
}

// leads reports whether words are what may stand before a command.
func (w *Words) leads(words []said) bool {
	for i := 0; i < len(words); {
		n := w.passes(words, i)
		if n == 0 {
			for _, p := range starting(w.request, words[i].id) {
				if matches(words, i, p) {
					n = len(p.words)
					break
				}
			}
		}
		if n == 0 {
			return false
		}
		i += n
	}
	return true
}

// trails reports whether words are what may stand behind one.
func (w *Words) trails(words []said) bool {
	for i := 0; i < len(words); {
		n := w.passes(words, i)
		if n == 0 {
			return false
		}
		i += n
	}
	return true
}

// passes is how many words at i are a filler or another stop phrase.
func (w *Words) passes(words []said, i int) int {
	if words[i].mark&filler != 0 {
		return 1
	}
	for _, p := range starting(w.stops, words[i].id) {
		if matches(words, i, p) {
			return len(p.words)
		}
	}
	return 0
}

// takenBack reports whether a negation before i reaches it. Punctuation and
// any word with a meaning of its own end its reach: "don't move, stop".
func (w *Words) takenBack(words []said, i int, world bool) bool {
	for j := i - 1; j >= 0 && j >= i-1-reach; j-- {
		if words[j+1].broken {
			return false
		}
		m := words[j].mark
		if m&negates != 0 {
			cry := m&weak != 0 && (world || j > 0 && words[j-1].id == words[j].id) // "no no stop"
			return !cry
		}
		if m&(link|filler|requests) == 0 {
			return false
		}
	}
	return false
}

// denied reports whether a negation follows and ends the text: "halt nicht an".
func denied(rest []said) bool {
	if len(rest) == 0 || rest[0].broken || rest[0].mark&after == 0 {
		return false
	}
	for _, s := range rest[1:] {
		if s.mark&(ending|filler) == 0 {
			return false
		}
	}
	return true
}

// named reports whether the word is the name of a place: "we made a stop". The
// two words alone may be a cry that was misheard: "ah, stop".
func named(words []said, i int, p phrase) bool {
	return p.world && i > 0 && len(words) > 2 && !words[i].broken && words[i-1].mark&article != 0
}

// asked reports whether the word is part of a question: "why did you stop",
// "when does the rain stop"; but not "what are you doing stop".
func asked(words []said, i int) bool {
	from := 0
	for from < i && words[from].mark&filler != 0 && words[from].mark&asks == 0 {
		from++
	}
	if from == i || words[from].mark&asks == 0 {
		return false
	}
	for j := from + 1; j <= i; j++ {
		if words[j].broken {
			return false
		}
	}
	last := words[i-1].mark
	if last&before != 0 && last&doing == 0 {
		return true // "how to stop"
	}
	if last&subject != 0 && i >= 2 && words[i-2].mark&(helps|before) != 0 {
		return true
	}
	if i >= 3 && words[i-3].mark&helps != 0 && (words[i-2].mark|last)&doing == 0 {
		return true
	}
	return false
}
