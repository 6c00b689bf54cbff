package builtin

import (
	"strconv"
	"strings"
	"unicode"
)

// Heard is a text as the model reads it: lower case, without punctuation,
// numbers as digits. Each word knows where it came from, so that what is
// copied from a text comes out as it was written.
type Heard struct {
	Text  string // the words with one blank between them
	said  string
	words []word
}

type word struct {
	text     string
	from, to int // in said
	at       int // in Text
}

// Hear reads a text as the model will.
func Hear(said string) Heard {
	h := Heard{said: said, words: spell(said)}
	h.words = numbers(h.words)
	var b strings.Builder
	for i := range h.words {
		if i > 0 {
			b.WriteByte(' ')
		}
		h.words[i].at = b.Len()
		b.WriteString(h.words[i].text)
	}
	h.Text = b.String()
	return h
}

// Words is the number of words.
func (h Heard) Words() int { return len(h.words) }

// Original gives how a run of whole words of Text was written; ok is false if s
// is none.
func (h Heard) Original(s string) (string, bool) {
	for from := 0; s != ""; {
		i := strings.Index(h.Text[from:], s)
		if i < 0 {
			return "", false
		}
		i += from
		first, last := -1, -1
		for k, w := range h.words {
			if w.at == i {
				first = k
			}
			if w.at+len(w.text) == i+len(s) {
				last = k
			}
		}
		if first >= 0 && last >= first {
			return strings.TrimSpace(h.said[h.words[first].from:h.words[last].to]), true
		}
		from = i + 1
	}
	return "", false
}

// spell cuts a text into lower-case words; signs between words fall away, but
// for those that belong to a number.
func spell(s string) []word {
	var out []word
	rs := []rune(s)
	offset := 0
	at := make([]int, len(rs)+1)
	for i, r := range rs {
		at[i] = offset
		offset += len(string(r))
	}
	at[len(rs)] = len(s)
	inside := func(i int) bool {
		if i < 0 || i >= len(rs) {
			return false
		}
		r := rs[i]
		if unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r) || r == '_' {
			return true
		}
		digit := func(k int) bool { return k >= 0 && k < len(rs) && rs[k] >= '0' && rs[k] <= '9' }
		letter := func(k int) bool { return k >= 0 && k < len(rs) && unicode.IsLetter(rs[k]) }
		switch r {
		case '\'', '’':
			return letter(i-1) && letter(i+1)
		case '.':
			return digit(i-1) && digit(i+1)
		case '-':
			return digit(i+1) && !digit(i-1) && !letter(i-1)
		}
		return false
	}
	for i := 0; i < len(rs); {
		if !inside(i) {
			i++
			continue
		}
		j := i
		number := unicode.IsDigit(rs[i]) || rs[i] == '-'
		for inside(j) && !(number && unicode.IsLetter(rs[j])) { // "50cm" is two words
			j++
		}
		t := strings.ToLower(strings.ReplaceAll(string(rs[i:j]), "’", "'"))
		out = append(out, word{text: t, from: at[i], to: at[j]})
		i = j
		if i < len(rs) && (rs[i] == '%' || rs[i] == '°') {
			sign := map[rune]string{'%': "percent", '°': "degrees"}[rs[i]]
			out = append(out, word{text: sign, from: at[i], to: at[i+1]})
		}
	}
	return out
}

func ones() []string {
	return strings.Fields("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen")
}

func tens() []string {
	return strings.Fields("zero ten twenty thirty forty fifty sixty seventy eighty ninety")
}

// numbers writes spoken English numbers as digits: "two hundred and seventy",
// "one point five", "half a", "one and a half".
func numbers(in []word) []word {
	small := map[string]float64{}
	for i, w := range ones() {
		small[w] = float64(i)
	}
	for i, w := range tens()[2:] {
		small[w] = float64(10 * (i + 2))
	}
	n := numeral{in, small}
	var out []word
	for i := 0; i < len(in); {
		if half, ok := n.half(i); ok { // "a meter and a half"
			out = append(out, word{text: half, from: in[i].from, to: in[i].to}, in[i+1])
			out[len(out)-1].to = in[i+4].to
			i += 5
			continue
		}
		text, used := n.read(i)
		if used == 0 {
			out = append(out, in[i])
			i++
			continue
		}
		out = append(out, word{text: text, from: in[i].from, to: in[i+used-1].to})
		i += used
	}
	return out
}

type numeral struct {
	in    []word
	small map[string]float64
}

func (n numeral) word(i int) string {
	if i < 0 || i >= len(n.in) {
		return ""
	}
	return n.in[i].text
}

func (n numeral) is(i int, words ...string) bool {
	for k, w := range words {
		if n.word(i+k) != w {
			return false
		}
	}
	return true
}

// read reads a number at word i and says how many words it took; none if there
// is no number, or if it is digits already.
func (n numeral) read(i int) (string, int) {
	if n.is(i, "half", "a") || n.is(i, "half", "an") {
		return "0.5", 2
	}
	if (n.is(i, "a") || n.is(i, "an")) && n.unit(i+1) && !n.is(i+1, "hundred") {
		return "1", 1
	}
	whole, used := n.whole(i)
	if used == 0 {
		if v, err := strconv.ParseFloat(n.word(i), 64); err == nil && n.is(i+1, "and", "a", "half") {
			return strconv.FormatFloat(v+0.5, 'f', -1, 64), 4
		}
		return "", 0
	}
	text := strconv.Itoa(whole)
	if n.is(i+used, "and", "a", "half") {
		return text + ".5", used + 3
	}
	if n.is(i+used, "point") {
		k := i + used + 1
		digits := ""
		for {
			v, ok := n.small[n.word(k)]
			if !ok || v > 9 || len(digits) == 3 {
				break
			}
			digits += strconv.Itoa(int(v))
			k++
		}
		if digits != "" {
			return text + "." + digits, k - i
		}
	}
	// "one" alone is a number before a unit only: "the red one" is none.
	if used == 1 && whole == 1 && !n.unit(i+1) {
		return "", 0
	}
	return text, used
}

// half reads "a meter and a half", "two meters and a half".
func (n numeral) half(i int) (string, bool) {
	if !n.unit(i+1) || !n.is(i+2, "and", "a", "half") {
		return "", false
	}
	v, ok := n.small[n.word(i)]
	if n.is(i, "a") || n.is(i, "an") {
		v, ok = 1, true
	}
	if f, err := strconv.ParseFloat(n.word(i), 64); err == nil {
		v, ok = f, true
	}
	return strconv.FormatFloat(v+0.5, 'f', -1, 64), ok
}

func (n numeral) unit(i int) bool {
	for _, u := range strings.Fields("meter meters metre metres m centimeter centimeters cm degree degrees deg step steps percent second seconds minute minutes hour hours point hundred time times foot feet") {
		if n.word(i) == u {
			return true
		}
	}
	return false
}

// whole reads a whole number below a hundred thousand.
func (n numeral) whole(i int) (value, used int) {
	k := i
	total, part, any := 0, 0, false
	if (n.is(k, "a", "hundred") || n.is(k, "a", "thousand")) && !n.is(k-1, "half") {
		part, any = 1, true
		k++
	}
	for {
		w := n.word(k)
		v, ok := n.small[w]
		switch {
		case ok && v >= 20 && part%100 == 0:
			part, any = part+int(v), true
		case ok && v < 20 && part%100 == 0, ok && v > 0 && v < 10 && part%100 >= 20 && part%10 == 0:
			if any && part == 0 && total == 0 {
				return total + part, k - i // "zero five" is no number
			}
			part, any = part+int(v), true
		case w == "hundred" && any && part > 0 && part < 100:
			part *= 100
		case w == "thousand" && any && part > 0 && total == 0:
			total, part = part*1000, 0
		case w == "and" && any && k > i && (n.is(k-1, "hundred") || n.is(k-1, "thousand")) && n.small[n.word(k+1)] > 0:
		default:
			if !any {
				return 0, 0
			}
			return total + part, k - i
		}
		k++
	}
}
