package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"edged/bus"
	"edged/bus/trace"
	"edged/starlark/value"
)

// What the verb trace writes: a record as it is, or a test made of it.

func (c *cli) saveTrace(lines []trace.Line, file string) (err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	e := json.NewEncoder(f)
	for _, l := range lines {
		if err := e.Encode(l); err != nil {
			return fmt.Errorf("trace: save: %w", err)
		}
	}
	return c.print(map[string]any{"file": file, "events": len(lines)}, func(w io.Writer) {
		fmt.Fprintf(w, "saved %s in %s\n", count(len(lines), "event"), file)
	})
}

// saveTest writes a test that does again what came in and expects what the
// scripts and agents published. What the blackboard held before is not in it.
func (c *cli) saveTest(t *trace.Tree, lines []trace.Line, file string) error {
	if !strings.HasSuffix(file, "_test.star") {
		return usagef("trace: %s: the name of a test ends in _test.star", file)
	}
	var b strings.Builder
	b.WriteString("\"\"\"Saved from a record: what came in, and what was published then.\"\"\"\n\ndef test_saved():\n")
	var last time.Time
	did, expected := 0, 0
	for _, l := range lines {
		gap := time.Duration(0)
		if !last.IsZero() {
			gap = l.Time.Sub(last).Round(time.Millisecond)
		}
		switch step := stimulus(t.Event(l.Seq)); {
		case step != "":
			if gap > 0 {
				fmt.Fprintf(&b, "    clock.advance(%q)\n", gap)
			}
			fmt.Fprintf(&b, "    %s\n", step)
			did++
		case did > 0 && said(l):
			fmt.Fprintf(&b, "    expect_event(%q, within = %q)\n", l.Topic, gap+time.Second)
			expected++
		default:
			continue
		}
		last = l.Time
	}
	if did == 0 {
		return errors.New("trace: nothing came in from outside, so there is nothing to test")
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	_, err = f.WriteString(b.String())
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	return c.print(map[string]any{"file": file, "steps": did, "expected": expected}, func(w io.Writer) {
		fmt.Fprintf(w, "saved %s and %s in %s\n", count(did, "step"), count(expected, "expected event"), file)
	})
}

// said reports whether scripts or agents published an event as their own.
func said(l trace.Line) bool {
	return (strings.HasPrefix(l.Source, "script:") || strings.HasPrefix(l.Source, "agent:")) && !ours(l.Topic)
}

// ours reports whether a topic is one that only the runtime publishes.
func ours(topic string) bool {
	first, _, _ := strings.Cut(topic, "/")
	switch first {
	case "edged", "board", "request", "message":
		return true
	}
	return false
}

// stimulus is the line of a test that brings an event about again, empty for
// what didn't come from outside.
func stimulus(n *trace.Node) string {
	kind, _, _ := strings.Cut(n.Source, ":")
	switch {
	case n.Cause != 0, kind == "script", kind == "agent", kind == "background", kind == "hw" && len(n.Then) == 0:
		return ""
	case strings.HasPrefix(n.Topic, "board/") && n.Source == "cli":
		var change struct{ New json.RawMessage }
		if json.Unmarshal(n.Payload, &change) != nil {
			return ""
		}
		return fmt.Sprintf("bb.set(%q, %s)", strings.TrimPrefix(n.Topic, "board/"), literal(change.New))
	case ours(n.Topic):
		return ""
	case n.Cut > 0:
		return fmt.Sprintf("publish(%q)  # its payload of %d bytes is not in the record", n.Topic, n.Cut)
	}
	return fmt.Sprintf("publish(%q, %s)", n.Topic, literal(n.Payload))
}

// literal is JSON as scripts write it.
func literal(b json.RawMessage) string {
	v, err := bus.DecodeJSON(b)
	if err != nil {
		return "None"
	}
	s, err := value.FromGo(v)
	if err != nil {
		return "None"
	}
	return s.String()
}
