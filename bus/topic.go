package bus

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Errors for names that MQTT 3.1.1 section 4.7 does not allow.
var (
	ErrTopic  = errors.New("bad topic")
	ErrFilter = errors.New("bad topic filter")
)

const maxTopic = 1024

// ValidTopic checks a topic name: UTF-8, 1 to 1024 bytes, no wildcard, no NUL or
// other control character (MQTT 5 sections 1.5.4 and 4.7): what is printed
// somewhere must not drive a terminal.
func ValidTopic(t string) error {
	switch {
	case t == "":
		return fmt.Errorf("%w: it is empty", ErrTopic)
	case len(t) > maxTopic:
		return fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrTopic, len(t), maxTopic)
	}
	ascii := true
	for i := 0; i < len(t); i++ {
		switch c := t[i]; {
		case c == '+' || c == '#' || c < ' ' || c == 0x7f:
			return fmt.Errorf("%w %q: %q is not allowed in a topic name", ErrTopic, t, c)
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	if !ascii && !utf8.ValidString(t) {
		return fmt.Errorf("%w %q: it is not UTF-8", ErrTopic, t)
	}
	if !ascii && strings.ContainsFunc(t, unicode.IsControl) {
		return fmt.Errorf("%w %q: control characters are not allowed in a topic name", ErrTopic, t)
	}
	return nil
}

// Runtime reports whether a topic is one of the runtime's own, where nobody else
// may speak in its name: board/, edged/, message/ and request/.
func Runtime(topic string) bool {
	first, _, _ := strings.Cut(topic, "/")
	switch first {
	case "board", "edged", "message", "request":
		return true
	}
	return false
}

// ValidFilter checks a topic filter: levels between slashes, + alone in a
// level, # alone in the last one. "*" alone means everything.
func ValidFilter(f string) error {
	switch {
	case f == "*":
		return nil
	case f == "":
		return fmt.Errorf("%w: it is empty", ErrFilter)
	case len(f) > maxTopic:
		return fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrFilter, len(f), maxTopic)
	case !utf8.ValidString(f) || strings.ContainsFunc(f, unicode.IsControl):
		return fmt.Errorf("%w %q: it is not plain UTF-8", ErrFilter, f)
	}
	for rest, more := f, true; more; {
		var level string
		level, rest, more = strings.Cut(rest, "/")
		switch {
		case strings.Contains(level, "#") && (level != "#" || more):
			return fmt.Errorf("%w %q: # must be the whole last level", ErrFilter, f)
		case strings.Contains(level, "+") && level != "+":
			return fmt.Errorf("%w %q: + must be a whole level", ErrFilter, f)
		}
	}
	return nil
}

// Match reports whether a valid filter matches a valid topic name, as MQTT
// 3.1.1 section 4.7 says: a/# matches a, and a wildcard in first place matches
// no topic that begins with $. The filter "*" matches everything.
func Match(filter, topic string) bool {
	if filter == "*" {
		return true
	}
	if topic != "" && topic[0] == '$' && filter != "" && (filter[0] == '+' || filter[0] == '#') {
		return false
	}
	for {
		fl, frest, fmore := strings.Cut(filter, "/")
		if fl == "#" {
			return true
		}
		tl, trest, tmore := strings.Cut(topic, "/")
		if fl != "+" && fl != tl {
			return false
		}
		if !fmore || !tmore {
			return fmore == tmore || fmore && frest == "#"
		}
		filter, topic = frest, trest
	}
}
