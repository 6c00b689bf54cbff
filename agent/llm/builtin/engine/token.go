package engine

import (
	"fmt"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The tokens that every model of ours starts with. Text never contains them.
const (
	TokenEnd = iota
	TokenSystem
	TokenUser
	TokenAssistant
	TokenTool
	TokenCall
	TokenCallEnd
	specialTokens
)

// The kinds of token in a GGUF file.
const (
	kindNormal  = 1
	kindControl = 3 // never shows up in text that the model writes
	kindMark    = 4 // does: a server must see where a call starts
)

// specials gives the texts and kinds of the first tokens.
func specials() ([]string, []int32) {
	return []string{"<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>", "<tool_call>", "</tool_call>"},
		[]int32{kindControl, kindControl, kindControl, kindControl, kindControl, kindMark, kindMark}
}

// Tokenizer is a byte-level BPE in the layout that GGUF calls "gpt2": tokens
// and merges are kept in GPT-2's printable byte alphabet, and text is first cut
// by the "qwen2" rule, which llama.cpp and both of Ollama's engines carry, so
// all of them cut a text alike. It is read only and may be shared.
type Tokenizer struct {
	Tokens []string // printable form; specials first
	Kinds  []int32
	Merges [][2]string // in rank order
	ids    map[string]int
	rank   map[[2]string]int
	bytes  [][]byte // what a token stands for; nil for control tokens
}

// NewTokenizer makes a vocabulary of exactly size tokens from text samples:
// the specials, the 256 bytes, the most frequent merges; slots that remain are
// reserved and never produced by text.
func NewTokenizer(samples []string, size int) *Tokenizer {
	t := &Tokenizer{}
	t.Tokens, t.Kinds = specials()
	letters := alphabet()
	for b := range 256 {
		t.add(string(letters[b]), kindNormal)
	}
	words := map[string]int{}
	for _, s := range samples {
		for _, w := range cut(s) {
			words[printable(w, &letters)]++
		}
	}
	var list []counted
	for w, n := range words {
		list = append(list, counted{strings.Split(w, ""), w, n})
	}
	sort.Slice(list, func(i, j int) bool { return list[i].word < list[j].word })
	for len(t.Tokens) < size {
		m, n := mostFrequent(list)
		if n < 2 {
			break
		}
		t.Merges = append(t.Merges, m)
		t.add(m[0]+m[1], kindNormal)
		for i := range list {
			list[i].parts = merge(list[i].parts, m)
		}
	}
	for n := 0; len(t.Tokens) < size; n++ {
		t.add(fmt.Sprintf("<|reserved%d|>", n), kindControl)
	}
	t.index()
	return t
}

type counted struct {
	parts []string
	word  string
	n     int
}

func (t *Tokenizer) add(s string, kind int32) {
	t.Tokens, t.Kinds = append(t.Tokens, s), append(t.Kinds, kind)
}

func mostFrequent(list []counted) (best [2]string, most int) {
	count := map[[2]string]int{}
	for _, e := range list {
		for i := 0; i+1 < len(e.parts); i++ {
			count[[2]string{e.parts[i], e.parts[i+1]}] += e.n
		}
	}
	for p, n := range count {
		if n > most || n == most && (p[0] < best[0] || p[0] == best[0] && p[1] < best[1]) {
			best, most = p, n
		}
	}
	return best, most
}

// index fills what is looked up while working.
func (t *Tokenizer) index() {
	letters := alphabet()
	back := make(map[rune]byte, 256)
	for b, r := range letters {
		back[r] = byte(b)
	}
	t.ids, t.rank = make(map[string]int, len(t.Tokens)), make(map[[2]string]int, len(t.Merges))
	t.bytes = make([][]byte, len(t.Tokens))
	for i, s := range t.Tokens {
		t.ids[s] = i
		switch t.Kinds[i] {
		case kindNormal:
			b := make([]byte, 0, len(s))
			for _, r := range s {
				b = append(b, back[r])
			}
			t.bytes[i] = b
		case kindMark:
			t.bytes[i] = []byte(s)
		}
	}
	for i, m := range t.Merges {
		t.rank[m] = i
	}
}

// merge joins each pair m in p; p's memory is used again.
func merge(p []string, m [2]string) []string {
	out := p[:0]
	for i := 0; i < len(p); i++ {
		if i+1 < len(p) && p[i] == m[0] && p[i+1] == m[1] {
			out = append(out, m[0]+m[1])
			i++
		} else {
			out = append(out, p[i])
		}
	}
	return out
}

// Encode turns plain text into tokens.
func (t *Tokenizer) Encode(s string) []int {
	var ids []int
	letters := alphabet()
	for _, w := range cut(s) {
		p := strings.Split(printable(w, &letters), "")
		for len(p) > 1 {
			best := -1
			var pair [2]string
			for i := 0; i+1 < len(p); i++ {
				m := [2]string{p[i], p[i+1]}
				if r, ok := t.rank[m]; ok && (best < 0 || r < best) {
					best, pair = r, m
				}
			}
			if best < 0 {
				break
			}
			p = merge(p, pair)
		}
		for _, x := range p {
			if id, ok := t.ids[x]; ok { // a file may lack single bytes
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// Bytes is what a token stands for; control tokens stand for nothing. The
// slice must not be changed.
func (t *Tokenizer) Bytes(id int) []byte { return t.bytes[id] }

// Text tells whether a token is a piece of ordinary text.
func (t *Tokenizer) Text(id int) bool { return t.Kinds[id] == kindNormal }

// alphabet is GPT-2's printable rune for each byte.
func alphabet() [256]rune {
	var f [256]rune
	next := rune(256)
	for b := range f {
		f[b] = rune(b)
		if !(b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE) {
			f[b] = next
			next++
		}
	}
	return f
}

func printable(s string, letters *[256]rune) string {
	var sb strings.Builder
	for i := range len(s) {
		sb.WriteRune(letters[s[i]])
	}
	return sb.String()
}

// cut is the "qwen2" rule:
// contraction | [^\r\n\p{L}\p{N}]?\p{L}+ | \p{N} | ' '?[^\s\p{L}\p{N}]+[\r\n]* | \s*[\r\n]+ | \s+(?!\S) | \s+
func cut(s string) []string {
	var out []string
	rs := []rune(s)
	letter := func(i int) bool { return i < len(rs) && unicode.IsLetter(rs[i]) }
	number := func(i int) bool { return i < len(rs) && unicode.IsNumber(rs[i]) }
	space := func(i int) bool { return i < len(rs) && unicode.IsSpace(rs[i]) }
	newline := func(i int) bool { return i < len(rs) && (rs[i] == '\r' || rs[i] == '\n') }
	other := func(i int) bool { return i < len(rs) && !letter(i) && !number(i) && !space(i) }
	for i := 0; i < len(rs); {
		j := i + 1
		switch {
		case rs[i] == '\'' && contraction(rs[i+1:]) > 0:
			j += contraction(rs[i+1:])
		case letter(i) || !newline(i) && !number(i) && letter(i+1):
			for ; letter(j); j++ {
			}
		case number(i):
		case other(i) || rs[i] == ' ' && other(i+1):
			for ; other(j); j++ {
			}
			for ; newline(j); j++ {
			}
		default:
			j = blank(rs, i, newline, space)
		}
		out = append(out, string(rs[i:j]))
		i = j
	}
	return out
}

// blank gives the end of the white space at i: after its last line break, else
// before the blank that belongs to the next word.
func blank(rs []rune, i int, newline, space func(int) bool) int {
	j, last := i, -1
	for ; space(j); j++ {
		if newline(j) {
			last = j
		}
	}
	switch {
	case last >= 0:
		return last + 1
	case j < len(rs) && j-i > 1:
		return j - 1
	}
	return j
}

func contraction(r []rune) int {
	for _, c := range []string{"re", "ve", "ll", "s", "t", "m", "d"} {
		if n := utf8.RuneCountInString(c); len(r) >= n && strings.EqualFold(string(r[:n]), c) {
			return n
		}
	}
	return 0
}
