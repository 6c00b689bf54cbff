package bus

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// DecodeJSON reads one JSON text into the tree that events carry: whole
// numbers are int64 where they fit, others float64. A key that comes twice has
// its last value. It reads what encoding/json reads, up to 64 levels deep, at
// a fraction of the price, because every sensor reading goes through it.
func DecodeJSON(text []byte) (any, error) {
	d := decoder{text: text}
	v, err := d.value(0)
	if err == nil {
		if d.space(); d.at < len(d.text) {
			err = errors.New("more than one JSON value")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("JSON at byte %d: %w", d.at, err)
	}
	return v, nil
}

var (
	errEnd    = errors.New("unexpected end")
	errSyntax = errors.New("not what can stand here")
)

type decoder struct {
	text []byte
	at   int
}

func (d *decoder) space() {
	for d.at < len(d.text) {
		switch d.text[d.at] {
		case ' ', '\t', '\n', '\r':
			d.at++
		default:
			return
		}
	}
}

// next skips space and gives the byte there, 0 at the end.
func (d *decoder) next() byte {
	d.space()
	if d.at < len(d.text) {
		return d.text[d.at]
	}
	return 0
}

func (d *decoder) value(depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("more than %d levels deep", maxDepth)
	}
	switch c := d.next(); c {
	case '{':
		return d.object(depth)
	case '[':
		return d.array(depth)
	case '"':
		return d.str()
	case 't':
		return true, d.word("true")
	case 'f':
		return false, d.word("false")
	case 'n':
		return nil, d.word("null")
	case 0:
		if d.at == len(d.text) {
			return nil, errEnd
		}
		return nil, errSyntax
	}
	return d.number()
}

func (d *decoder) word(w string) error {
	if !bytes.HasPrefix(d.text[d.at:], []byte(w)) {
		return errSyntax
	}
	d.at += len(w)
	return nil
}

func (d *decoder) object(depth int) (any, error) {
	m := map[string]any{}
	d.at++
	if d.next() == '}' {
		d.at++
		return m, nil
	}
	for {
		if d.next() != '"' {
			return nil, errSyntax
		}
		k, err := d.str()
		if err != nil {
			return nil, err
		}
		if d.next() != ':' {
			return nil, errSyntax
		}
		d.at++
		if m[k], err = d.value(depth + 1); err != nil {
			return nil, err
		}
		if more, err := d.more('}'); !more {
			return m, err
		}
	}
}

func (d *decoder) array(depth int) (any, error) {
	l := []any{}
	d.at++
	if d.next() == ']' {
		d.at++
		return l, nil
	}
	for {
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		l = append(l, v)
		if more, err := d.more(']'); !more {
			return l, err
		}
	}
}

// more reads a comma, or the end of the container.
func (d *decoder) more(end byte) (bool, error) {
	switch d.next() {
	case ',':
		d.at++
		return true, nil
	case end:
		d.at++
		return false, nil
	}
	return false, errSyntax
}

// str reads a string; escapes and broken UTF-8 are left to encoding/json.
func (d *decoder) str() (string, error) {
	from, plain := d.at, true
	for d.at++; d.at < len(d.text); d.at++ {
		switch c := d.text[d.at]; {
		case c == '"':
			d.at++
			if token := d.text[from:d.at]; plain {
				return string(token[1 : len(token)-1]), nil
			} else {
				var s string
				err := json.Unmarshal(token, &s)
				return s, err
			}
		case c == '\\':
			plain = false
			d.at++
		case c < ' ':
			return "", errSyntax
		case c >= utf8.RuneSelf:
			plain = plain && d.rune()
		}
	}
	d.at = len(d.text)
	return "", errEnd
}

// rune passes one rune of several bytes and reports whether it is whole.
func (d *decoder) rune() bool {
	r, n := utf8.DecodeRune(d.text[d.at:])
	d.at += n - 1
	return r != utf8.RuneError || n > 1
}

// number reads -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?.
func (d *decoder) number() (any, error) {
	from := d.at
	digits := func() int {
		n := d.at
		for d.at < len(d.text) && d.text[d.at]-'0' <= 9 {
			d.at++
		}
		return d.at - n
	}
	is := func(set string) bool {
		return d.at < len(d.text) && bytes.IndexByte([]byte(set), d.text[d.at]) >= 0
	}
	if is("-") {
		d.at++
	}
	first := d.at
	if n := digits(); n == 0 || n > 1 && d.text[first] == '0' {
		return nil, errSyntax
	}
	whole := true
	if is(".") {
		whole = false
		d.at++
		if digits() == 0 {
			return nil, errSyntax
		}
	}
	if is("eE") {
		whole = false
		d.at++
		if is("+-") {
			d.at++
		}
		if digits() == 0 {
			return nil, errSyntax
		}
	}
	token := string(d.text[from:d.at])
	if whole {
		if i, err := strconv.ParseInt(token, 10, 64); err == nil {
			return i, nil
		}
	}
	f, err := strconv.ParseFloat(token, 64)
	if err != nil || math.IsInf(f, 0) {
		return nil, fmt.Errorf("the number %s is too large", token)
	}
	return f, nil
}

// EncodeJSON writes such a tree as encoding/json does, byte for byte, at a
// fraction of the price. What is not plain it leaves to the library, as it does
// anything that is no part of a tree.
func EncodeJSON(tree any) ([]byte, error) { return appendJSON(make([]byte, 0, 64), tree) }

func appendJSON(b []byte, v any) ([]byte, error) {
	switch x := v.(type) {
	case nil:
		return append(b, "null"...), nil
	case bool:
		return strconv.AppendBool(b, x), nil
	case int64:
		return strconv.AppendInt(b, x, 10), nil
	case float64:
		if a := math.Abs(x); a == 0 || a >= 1e-6 && a < 1e21 {
			return strconv.AppendFloat(b, x, 'f', -1, 64), nil
		}
	case string:
		return appendText(b, x), nil
	case []any:
		if x != nil {
			return appendList(b, x)
		}
	case map[string]any:
		if x != nil {
			return appendObject(b, x)
		}
	}
	text, err := json.Marshal(v)
	return append(b, text...), err
}

func appendList(b []byte, l []any) (_ []byte, err error) {
	b = append(b, '[')
	for i, v := range l {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendJSON(b, v); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

func appendObject(b []byte, m map[string]any) (_ []byte, err error) {
	var few [8]string
	keys := few[:0]
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	b = append(b, '{')
	for i, k := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendText(b, k), ':')
		if b, err = appendJSON(b, m[k]); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// appendText writes a string. encoding/json escapes what could end a script in
// a page, too.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			text, _ := json.Marshal(s) // every string has a JSON form
			return append(b, text...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}
