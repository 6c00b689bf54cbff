package llm

import (
	"context"
	"strings"
	"unicode"
	"unicode/utf8"

	"edged/agent"
)

// speaker says an answer aloud, sentence by sentence, while it comes. Thoughts
// are not said, nor what looks like JSON or code.
type speaker struct {
	ctx   context.Context
	quiet bool
	think thoughts
	text  string // not said yet
	held  bool   // data, not speech
	began bool
	spoke bool
}

// speaker gives the speaker of one answer; it is quiet where nobody listens,
// and where the answer may still be replaced.
func (t *turn) speaker(ctx context.Context, r Request) *speaker {
	return &speaker{ctx: ctx, quiet: t.hooks.whole || r.Schema != nil || t.a.output != nil || !agent.Listening(ctx)}
}

func (s *speaker) piece() func(string) error {
	if s.quiet {
		return nil
	}
	return func(text string) error {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		s.add(s.think.push(text))
		return nil
	}
}

func (s *speaker) add(text string) {
	s.text += text
	if !s.began {
		s.text = strings.TrimLeftFunc(s.text, unicode.IsSpace)
		if s.text == "" {
			return
		}
		s.began = true
		s.held = strings.ContainsRune("{[`<", rune(s.text[0]))
	}
	if s.held {
		return
	}
	for {
		n := sentenceEnd(s.text, false)
		if n == 0 {
			return
		}
		s.say(s.text[:n])
		s.text = s.text[n:]
	}
}

// end says what is left.
func (s *speaker) end() {
	if s.quiet || s.held {
		return
	}
	s.add(s.think.rest())
	if !s.held {
		s.say(s.text)
	}
	s.text = ""
}

func (s *speaker) say(text string) {
	if text = strings.TrimSpace(text); text != "" && agent.Say(s.ctx, text) {
		s.spoke = true
	}
}

// sayRest says a reply that wasn't said while it came.
func (t *turn) sayRest(ctx context.Context, r agent.Result) {
	if t.spoke || r.Output != nil || !agent.Listening(ctx) {
		return
	}
	for _, one := range Sentences(r.Reply) {
		agent.Say(ctx, one)
	}
}

// Sentences parts a text into pieces that can be spoken one after the other.
func Sentences(text string) []string {
	var out []string
	for text != "" {
		n := sentenceEnd(text, true)
		if n == 0 {
			n = len(text)
		}
		if one := strings.TrimSpace(text[:n]); one != "" {
			out = append(out, one)
		}
		text = text[n:]
	}
	return out
}

const longSentence = 200

// sentenceEnd gives the length of the first sentence, 0 if its end isn't there
// yet. A sentence ends with a new line, with an ideographic stop, or with a
// stop before a blank, but not after an abbreviation, an initial or a number
// that begins a list. A very long one is cut at a comma.
func sentenceEnd(text string, whole bool) int {
	comma := 0
	for i, r := range text {
		next := i + utf8.RuneLen(r)
		if r == utf8.RuneError {
			next = i + 1
		}
		switch r {
		case '\n':
			if strings.TrimSpace(text[:i]) != "" {
				return next
			}
		case '。', '！', '？':
			return next
		case '.', '!', '?', '…':
			if next < len(text) {
				after, _ := utf8.DecodeRuneInString(text[next:])
				if unicode.IsSpace(after) && !(r == '.' && goesOn(text[:i])) {
					return next
				}
			}
		case ',', ';', ':':
			if next < len(text) && text[next] == ' ' {
				comma = next
			}
		}
		if i > longSentence && comma > 0 {
			return comma
		}
	}
	return 0
}

// goesOn reports whether a full stop after this text ends no sentence.
func goesOn(text string) bool {
	start := strings.LastIndexFunc(text, unicode.IsSpace) + 1
	word := text[start:]
	alone := strings.TrimSpace(text[:start]) == ""
	switch strings.ToLower(word) {
	case "mr", "mrs", "ms", "dr", "prof", "st", "vs", "e.g", "i.e", "approx", "z.b", "bzw", "ca", "nr":
		return true
	}
	if alone && word != "" && strings.Trim(word, "0123456789") == "" { // "1. Go to the hall"
		return true
	}
	r, n := utf8.DecodeRuneInString(word)
	return n == len(word) && unicode.IsUpper(r) && word != "I" // "J. Doe"
}

// thoughts takes <think>…</think> out of a text that comes in pieces.
type thoughts struct {
	buf string
	in  bool
}

const (
	thinkOpen  = "<think>"
	thinkClose = "</think>"
)

func (f *thoughts) push(text string) string {
	f.buf += text
	var out strings.Builder
	for {
		tag := thinkOpen
		if f.in {
			tag = thinkClose
		}
		i := strings.Index(f.buf, tag)
		if i < 0 {
			n := tailOf(f.buf, tag)
			if !f.in {
				out.WriteString(f.buf[:len(f.buf)-n])
			}
			f.buf = f.buf[len(f.buf)-n:]
			return out.String()
		}
		if !f.in {
			out.WriteString(f.buf[:i])
		}
		f.buf = f.buf[i+len(tag):]
		f.in = !f.in
	}
}

func (f *thoughts) rest() string {
	defer func() { f.buf = "" }()
	if f.in {
		return ""
	}
	return f.buf
}

// tailOf gives how many bytes at a text's end may be the beginning of a tag.
func tailOf(text, tag string) int {
	for n := min(len(text), len(tag)-1); n > 0; n-- {
		if strings.HasPrefix(tag, text[len(text)-n:]) {
			return n
		}
	}
	return 0
}

// spoken is an answer without thoughts: those in tags, those that were cut off,
// and those whose opening tag the server put into the prompt.
func spoken(text string) string {
	if !strings.Contains(text, "think>") {
		return strings.TrimSpace(text)
	}
	if i := strings.Index(text, thinkClose); i >= 0 && !strings.Contains(text[:i], thinkOpen) {
		text = text[i+len(thinkClose):]
	}
	var f thoughts
	out := f.push(text)
	return strings.TrimSpace(out + f.rest())
}
