package blackboard

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Rule says how the keys that match a pattern are kept.
type Rule struct {
	Mode    Mode
	History int           // how many past values [Board.History] can give
	TTL     time.Duration // for sets that don't name one
}

type declared struct {
	pattern string
	rule    *Rule
}

// Declare sets the rule for a key, for the keys with a prefix ("room/*"), or
// for all ("*"). Of several patterns that match, the longest counts; declaring
// one again replaces its rule. It holds from the next change of a key on.
func (b *Board) Declare(pattern string, r Rule) error {
	if err := checkPattern(pattern); err != nil {
		return fmt.Errorf("blackboard: declare: %w", err)
	}
	if r.History < 0 || r.TTL < 0 || r.Mode > Sync {
		return fmt.Errorf("blackboard: declare %s: negative history or ttl, or no such mode", pattern)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rules = slices.DeleteFunc(b.rules, func(d declared) bool { return d.pattern == pattern })
	b.rules = append(b.rules, declared{pattern, &r})
	for k, e := range b.entries {
		if covers(pattern, k) {
			e.rule = b.rule(k)
		}
	}
	return nil
}

// rule finds the rule of a key; the caller holds mu.
func (b *Board) rule(key string) *Rule {
	var best *declared
	for i := range b.rules {
		d := &b.rules[i]
		if covers(d.pattern, key) && (best == nil || len(d.pattern) > len(best.pattern) || d.pattern == key) {
			best = d
		}
	}
	if best == nil {
		return nil
	}
	return best.rule
}

// checkPattern accepts a key, a prefix and a star, or a star.
func checkPattern(p string) error {
	if p == "*" {
		return nil
	}
	return checkKey("pattern", strings.TrimSuffix(p, "*"))
}

func covers(pattern, key string) bool {
	if p, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(key, p)
	}
	return pattern == key
}

// History gives the last n values of a key, newest first, the current one
// included; deletions are left out. It is empty unless the key was declared
// with History.
func (b *Board) History(key string, n int) []Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[key]
	if e == nil {
		return nil
	}
	if d := e.depth(); d > 0 {
		n = min(n, d) // more may be in the file
	}
	var out []Entry
	for _, s := range slices.Backward(e.history) {
		if len(out) == n {
			break
		}
		out = append(out, s.entry(key))
	}
	return out
}

func (e *entry) depth() int {
	if e.rule == nil {
		return 0
	}
	return e.rule.History
}

// remember adds the current state to the history; the caller holds mu.
func (b *Board) remember(e *entry, stored bool) {
	if !e.present {
		return
	}
	e.history = append(e.history, e.state)
	if stored || !e.keep {
		e.unsaved = min(e.unsaved, len(e.history)-1)
	} else {
		e.unsaved++
	}
	e.trim(e.rule.History)
}

// trim keeps the last n of the history and notes what the file needn't keep.
func (e *entry) trim(n int) {
	if over := len(e.history) - n; over > 0 {
		for _, s := range e.history[:over] {
			if s.keep {
				e.forget = append(e.forget, s.version)
			}
		}
		e.history = slices.Delete(e.history, 0, over)
	}
	e.unsaved = min(e.unsaved, len(e.history))
}

// historyToSave lists what a commit adds to and removes from the file.
func (e *entry) historyToSave(n int, staged []state) (saves []state, drops []uint64) {
	e.trim(n) // the file may have held more: what went out last was not yet removed
	saves = slices.Clone(e.history[len(e.history)-e.unsaved:])
	for _, s := range staged {
		if s.present {
			saves = append(saves, s)
		}
	}
	drops, e.forget = e.forget, nil
	if len(saves) > n {
		saves = saves[len(saves)-n:]
	}
	return saves, drops
}

// saved notes that the history up to a version is in the file.
func (e *entry) saved(version uint64) {
	n := 0
	for _, s := range e.history {
		if s.version > version {
			n++
		}
	}
	e.unsaved = n
}

// historyKey is the key of one past value: the board's key and the version.
func historyKey(key string, version uint64) string {
	return string(binary.BigEndian.AppendUint64([]byte(key), version))
}

func splitHistoryKey(k []byte) (key string, version uint64, ok bool) {
	if len(k) <= 8 {
		return "", 0, false
	}
	n := len(k) - 8
	return string(k[:n]), binary.BigEndian.Uint64(k[n:]), true
}

// expire starts, moves or stops the end of a key's life; the caller holds mu.
func (b *Board) expire(e *entry, in time.Duration) {
	if in > 0 {
		e.due = time.Now().Add(in)
	}
	switch {
	case in == 0:
		if e.expiry != nil {
			e.expiry.Stop()
		}
	case e.expiry != nil:
		e.expiry.Reset(in)
	default:
		e.expiry = b.wheel.After(in, func() { b.lapse(e) })
	}
}
