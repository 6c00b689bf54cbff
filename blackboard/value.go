package blackboard

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"edged/bus"
)

// freeze makes what the board stores of what a caller gave: a scalar as it is,
// a container copied, so that nobody can change it in place.
func (b *Board) freeze(key string, v any) (any, error) {
	switch x := v.(type) {
	case nil, bool, int64:
		return v, nil
	case string:
		if len(x) > b.opt.MaxValue || !utf8.ValidString(x) {
			return nil, b.refuse(key, x)
		}
		return v, nil
	}
	f, err := bus.Freeze(v)
	if err != nil {
		return nil, fmt.Errorf("blackboard: set %s: %w: %w", key, ErrValue, err)
	}
	if n, ok := size(f); !ok || n > b.opt.MaxValue {
		return nil, b.refuse(key, f)
	}
	return f, nil
}

func (b *Board) refuse(key string, v any) error {
	if n, ok := size(v); ok {
		return fmt.Errorf("blackboard: set %s: %w: %d bytes, at most %d are allowed", key, ErrValue, n, b.opt.MaxValue)
	}
	return fmt.Errorf("blackboard: set %s: %w: text is not UTF-8 (store bytes as bytes)", key, ErrValue)
}

// size is about what a value takes in the file; ok is false if text in it is not UTF-8.
func size(v any) (n int, ok bool) {
	switch x := v.(type) {
	case string:
		return len(x), utf8.ValidString(x)
	case []byte:
		return len(x), true
	case []any:
		for _, e := range x {
			m, ok := size(e)
			if n += m + 1; !ok {
				return n, false
			}
		}
		return n, true
	case map[string]any:
		for k, e := range x {
			m, ok := size(e)
			if n += m + len(k) + 2; !ok || !utf8.ValidString(k) {
				return n, false
			}
		}
		return n, true
	}
	return 8, true
}

// same reports whether two frozen values are equal; 1 and 1.0 are not.
func same(x, y any) bool {
	switch a := x.(type) {
	case []byte:
		b, ok := y.([]byte)
		return ok && bytes.Equal(a, b)
	case []any:
		b, ok := y.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !same(a[i], b[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		b, ok := y.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k, v := range a {
			if w, ok := b[k]; !ok || !same(v, w) {
				return false
			}
		}
		return true
	}
	switch y.(type) {
	case []byte, []any, map[string]any:
		return false
	}
	return x == y
}

func checkKey(op, key string) error {
	switch {
	case key == "":
		return fmt.Errorf("blackboard: %s: %w: it is empty", op, ErrKey)
	case len(key) > maxKey:
		return fmt.Errorf("blackboard: %s: %w: %d bytes, at most %d are allowed", op, ErrKey, len(key), maxKey)
	case !utf8.ValidString(key):
		return fmt.Errorf("blackboard: %s: %w %q: it is not UTF-8", op, ErrKey, key)
	case len(key) > maxTopic/3 && len(topic(requestRoom, key)) > maxTopic:
		return fmt.Errorf("blackboard: %s: %w: too many of the characters + # %% in it", op, ErrKey)
	}
	return nil
}

const (
	maxKey   = 512
	maxTopic = 1024 // of the bus
)

// topic makes the topic name of a key. What MQTT does not allow in a name is
// written as in a URL: + # control characters and the percent sign itself.
func topic(room, key string) string {
	t := make([]byte, 0, len(room)+len(key))
	t = append(t, room...)
	for i := 0; i < len(key); i++ {
		switch c := key[i]; {
		case c == '+', c == '#', c == '%', c < ' ', c == 0x7f:
			t = fmt.Appendf(t, "%%%02X", c)
		case c == 0xc2 && i+1 < len(key) && key[i+1] < 0xa0: // U+0080 to U+009F
			i++
			t = fmt.Appendf(t, "%%C2%%%02X", key[i])
		default:
			t = append(t, c)
		}
	}
	return string(t)
}
