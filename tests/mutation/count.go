package main

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
)

// count is what came of the mutants of a room.
type count struct {
	total, killed, survived, accepted, hung, notCovered int

	reasons map[string]string // by key of the mutant: why it may survive
	used    map[string]bool
}

// add counts a mutant, and returns what is to be told of it.
func (c *count) add(m mutant, v verdict) string {
	c.total++
	reason, ok := c.reasons[m.key()]
	if v == killed {
		c.killed++ // if it is accepted all the same, stale tells
		return ""
	}
	if ok {
		if c.used == nil {
			c.used = map[string]bool{}
		}
		c.used[m.key()] = true
		c.accepted++
		return fmt.Sprintf("accepted     %s (%s)", m, reason)
	}
	switch v {
	case hung:
		c.hung++
		return fmt.Sprintf("hung         %s  [%s]", m, m.fn)
	case notCovered:
		c.notCovered++
		return fmt.Sprintf("not covered  %s  [%s]", m, m.fn)
	default:
		c.survived++
		return fmt.Sprintf("survived     %s  [%s]", m, m.fn)
	}
}

// stale names the accepted survivors of a room that are none any more.
func (c *count) stale(r room) []string {
	var keys []string
	for k := range c.reasons {
		file, _, _ := strings.Cut(k, ": ")
		dir, _, _ := cutLast(file, "/")
		if dir == r.pkg && r.wants(file) && !c.used[k] {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

func (c *count) percent() int {
	if c.total == c.accepted {
		return 100
	}
	return 100 * c.killed / (c.total - c.accepted)
}

// good tells whether the room is above the bar.
func (c *count) good() bool { return c.percent() >= bar && c.hung == 0 }

func (c *count) String() string {
	word := "ok  "
	if !c.good() {
		word = "FAIL"
	}
	return fmt.Sprintf("%s %3d %% of %4d: killed %d, survived %d, not covered %d, hung %d, accepted %d",
		word, c.percent(), c.total, c.killed, c.survived, c.notCovered, c.hung, c.accepted)
}

// readAccepted reads the list of mutants that may survive. A line is the file,
// the function, the change as it is printed, and after # the reason.
func readAccepted(name string) (map[string]string, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m := map[string]string{}
	for s := bufio.NewScanner(f); s.Scan(); {
		line := strings.TrimSpace(s.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, reason, ok := cutLast(line, " # ")
		if !ok {
			return nil, fmt.Errorf("%s: no reason: %s", name, line)
		}
		m[strings.TrimSpace(key)] = strings.TrimSpace(reason)
	}
	return m, nil
}
