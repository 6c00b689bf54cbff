package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"edged/bus"
)

// A Node is an event with what it brought about.
type Node struct {
	Line
	Because *Node // nil if nothing recorded brought it about
	Then    []*Node
}

// A Tree is a record as causes and effects. It is read only once built.
type Tree struct {
	Roots []*Node // what came from outside, oldest first
	all   []*Node
	bySeq map[key]*Node
}

type key struct {
	run string
	seq uint64
}

// Build makes a tree of a record.
func Build(lines []Line) *Tree {
	t := &Tree{bySeq: make(map[key]*Node, len(lines))}
	for _, l := range lines {
		k := key{l.Run, l.Seq}
		if t.bySeq[k] != nil {
			continue
		}
		n := &Node{Line: l}
		t.bySeq[k] = n
		t.all = append(t.all, n)
	}
	for _, n := range t.all {
		// A cause is older than its effect, so there are no cycles, whatever
		// the file says.
		if c := t.bySeq[key{n.Run, n.Cause}]; c != nil && n.Cause < n.Seq && n.Cause > 0 {
			n.Because = c
			c.Then = append(c.Then, n)
		} else {
			t.Roots = append(t.Roots, n)
		}
	}
	return t
}

// Len is the number of events.
func (t *Tree) Len() int { return len(t.all) }

// Event finds an event by its number, in the latest run that has it; nil if
// there is none.
func (t *Tree) Event(seq uint64) *Node {
	for i := len(t.all) - 1; i >= 0; i-- {
		if t.all[i].Seq == seq {
			return t.all[i]
		}
	}
	return nil
}

// Match lists the events whose topics match a filter, oldest first.
func (t *Tree) Match(filter string) []*Node {
	var list []*Node
	for _, n := range t.all {
		if bus.Match(filter, n.Topic) {
			list = append(list, n)
		}
	}
	return list
}

// Last is the last event whose topic matches a filter, or nil.
func (t *Tree) Last(filter string) *Node {
	for i := len(t.all) - 1; i >= 0; i-- {
		if bus.Match(filter, t.all[i].Topic) {
			return t.all[i]
		}
	}
	return nil
}

// Topics counts the events of each topic.
func (t *Tree) Topics() map[string]int {
	m := map[string]int{}
	for _, n := range t.all {
		m[n.Topic]++
	}
	return m
}

// Root is the event that everything which led to n began with.
func (n *Node) Root() *Node {
	for n.Because != nil {
		n = n.Because
	}
	return n
}

// Reason is why n happened, as a sentence: hw/motor/set because board/motor
// because sensor/lidar, from mqtt.
func (n *Node) Reason() string {
	var b strings.Builder
	b.WriteString(n.Topic)
	whose := n.Origin
	for n.Because != nil {
		n = n.Because
		b.WriteString(" because " + n.Topic)
	}
	if n.Old != nil {
		b.WriteString(", no order: " + n.Old.Reason)
	}
	if n.Cause != 0 {
		b.WriteString(" because of something that is not in the record any more")
	} else if n.Source != "" {
		b.WriteString(", from " + n.Source)
	}
	if whose != "" && whose != n.Whose() {
		b.WriteString(", with words of " + string(whose))
	}
	return b.String()
}

// Outline writes n and all it brought about, one line an event, indented under
// its cause, with the time since the first.
func (n *Node) Outline(w io.Writer) error {
	return n.outline(w, 0, n.Time)
}

func (n *Node) outline(w io.Writer, depth int, start time.Time) error {
	when := n.Time.Local().Format("15:04:05.000")
	if depth > 0 {
		when = fmt.Sprintf("%12s", "+"+span(n.Time.Sub(start)))
	}
	from := n.Source
	if led := n.Because; n.Origin != "" && (led == nil || led.Whose() != n.Origin) { // else its cause says it
		from += ", with words of " + string(n.Origin)
	}
	if _, err := fmt.Fprintf(w, "%s %s%s %s (%s)\n", when, strings.Repeat("  ", depth), n.Topic, n.Text(60), from); err != nil {
		return err
	}
	if n.Lost > 0 {
		fmt.Fprintf(w, "%12s %s… %d events before it are not in the record\n", "", strings.Repeat("  ", depth), n.Lost)
	}
	for _, c := range n.Then {
		if err := c.outline(w, depth+1, start); err != nil {
			return err
		}
	}
	return nil
}

func span(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	case d < 10*time.Second:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// telling puts what says most of an object to its beginning, and what says
// least to its end.
func telling(payload json.RawMessage) string {
	d := json.NewDecoder(bytes.NewReader(payload))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return string(payload)
	}
	var first, rest, last []string
	for d.More() {
		t, err := d.Token()
		var v json.RawMessage
		if err == nil {
			err = d.Decode(&v)
		}
		if err != nil {
			return string(payload)
		}
		key, _ := t.(string)
		list := &rest
		switch key {
		case "violation", "error", "message", "reason":
			list = &first
		case "run":
			list = &last
		}
		name, _ := json.Marshal(key) // a string
		*list = append(*list, string(name)+":"+string(v))
	}
	return "{" + strings.Join(slices.Concat(first, rest, last), ",") + "}"
}

// Text is the payload, shortened to about so many bytes: of an object what is
// wrong stays, and the id of the run goes.
func (l *Line) Text(limit int) string {
	switch {
	case l.Cut > 0:
		return fmt.Sprintf("… %d bytes", l.Cut)
	case len(l.Payload) <= limit:
		return string(l.Payload)
	}
	s := telling(l.Payload)
	if len(s) <= limit {
		return s
	}
	s = s[:limit]
	for len(s) > 0 && !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s + "…"
}
