package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"edged/agent/llm"
)

// Differs is the error of a request that was not recorded. It wraps
// [llm.ErrDiffers].
type Differs struct {
	File  string
	Times int // > 0: the request was recorded, but only so often
	// The nearest recorded request: where it is not the same, and what it
	// says there. Where is empty if nothing was recorded.
	Where    string // "message 3 (user)", "tools", "schema", "sampling"
	Recorded string
	Asked    string
}

func (d *Differs) Error() string {
	s := "replay: " + d.File + ": " + llm.ErrDiffers.Error()
	switch {
	case d.Times > 0:
		return fmt.Sprintf("%s: it was recorded %s, and asked once more", s, times(d.Times))
	case d.Where == "":
		return s + ": every recorded answer was given"
	}
	return fmt.Sprintf("%s: %s: recorded %s, asked %s", s, d.Where, d.Recorded, d.Asked)
}

func (d *Differs) Unwrap() error { return llm.ErrDiffers }

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// differs says what is not the same in the nearest recorded request. m.mu is
// held.
func (m *Model) differs(asked request, print string) error {
	d := &Differs{File: m.name}
	var nearest *entry
	best := -1
	for _, e := range m.chats {
		if fingerprint(*e.Request) == print {
			d.Times++
			continue
		}
		n := 4 * alike(asked, *e.Request)
		if len(asked.Messages) == len(e.Request.Messages) {
			n += 2
		}
		if !e.given {
			n++
		}
		if n > best {
			nearest, best = e, n
		}
	}
	if d.Times == 0 && nearest != nil {
		d.Where, d.Recorded, d.Asked = first(*nearest.Request, asked)
	}
	return d
}

// alike counts the messages that two requests begin with alike.
func alike(a, b request) int {
	n := 0
	for n < len(a.Messages) && n < len(b.Messages) && same(a.Messages[n], b.Messages[n]) {
		n++
	}
	return n
}

func same(a, b llm.Message) bool { return bytes.Equal(asJSON(a), asJSON(b)) }

func asJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return []byte(err.Error())
	}
	return b
}

// first finds the first thing that is not the same.
func first(was, is request) (where, recorded, asked string) {
	if i := alike(was, is); i < max(len(was.Messages), len(is.Messages)) {
		switch {
		case i == len(was.Messages):
			return fmt.Sprintf("message %d (%s)", i+1, is.Messages[i].Role), "no more messages", show(is.Messages[i])
		case i == len(is.Messages):
			return fmt.Sprintf("message %d (%s)", i+1, was.Messages[i].Role), show(was.Messages[i]), "no more messages"
		}
		a, b := was.Messages[i], is.Messages[i]
		where = fmt.Sprintf("message %d (%s)", i+1, b.Role)
		if a.Role == b.Role && a.Text != b.Text {
			recorded, asked = diff(a.Text, b.Text)
			return where, recorded, asked
		}
		recorded, asked = diff(string(asJSON(a)), string(asJSON(b)))
		return where, recorded, asked
	}
	names := func(q request) (list []string) {
		for _, t := range q.Tools {
			list = append(list, t.Name)
		}
		return list
	}
	if a, b := names(was), names(is); !slices.Equal(a, b) {
		return "tools", fmt.Sprint(a), fmt.Sprint(b)
	}
	for i := range was.Tools {
		if a, b := asJSON(was.Tools[i]), asJSON(is.Tools[i]); !bytes.Equal(a, b) {
			recorded, asked = diff(string(a), string(b))
			return "tool " + is.Tools[i].Name, recorded, asked
		}
	}
	if !bytes.Equal(was.Schema, is.Schema) {
		recorded, asked = diff(string(was.Schema), string(is.Schema))
		return "schema", recorded, asked
	}
	was.Messages, is.Messages, was.Tools, is.Tools, was.Schema, is.Schema = nil, nil, nil, nil, nil, nil
	recorded, asked = diff(string(asJSON(was)), string(asJSON(is)))
	return "sampling", recorded, asked
}

func show(m llm.Message) string {
	if m.Text != "" || len(m.Calls) == 0 {
		return clip(m.Text)
	}
	return clip(string(asJSON(m.Calls)))
}

// diff gives what two texts have at the place where they part, with a little
// of what they share before it.
func diff(was, is string) (string, string) {
	a, b := []rune(was), []rune(is)
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	const before = 16
	from := max(0, i-before)
	if from > 0 { // begin with a word
		if sp := strings.IndexByte(string(a[from:i]), ' '); sp >= 0 {
			from += len([]rune(string(a[from:i])[:sp])) + 1
		}
	}
	cut := func(r []rune) string {
		s := clip(string(r[min(from, len(r)):]))
		if from > 0 {
			s = "…" + s
		}
		return s
	}
	return cut(a), cut(b)
}
