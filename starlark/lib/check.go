package lib

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"edged/background"
	"edged/bus"
	"edged/starlark/script"
)

// A Problem is something in a folder that runs, and is likely not what its
// author meant.
type Problem struct {
	At   script.Position
	Rule string // "unused-agent"
	Msg  string
	Hint string // may be empty
}

func (p Problem) String() string {
	s := fmt.Sprintf("%v: %s [%s]", p.At, p.Msg, p.Rule)
	if p.Hint != "" {
		s += "\n  " + p.Hint
	}
	return s
}

// Check looks over what a loaded folder declares. What is plain wrong has been
// an error of the load; these are warnings, in the order of the files, those of
// [script.Lint] included.
func (b *Behaviour) Check() []Problem {
	var list []Problem
	if b.program != nil {
		for _, e := range b.program.Lint(b.predeclared) {
			list = append(list, Problem{e.Position, e.Rule, e.Msg, e.Hint})
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for p := range b.parts {
		l, ok := p.(*listener)
		if !ok {
			continue
		}
		for _, f := range l.filters {
			if key, is := bus.Match("board/#", f), bus.Match("board/+/#", f); key && !is {
				list = append(list, Problem{l.at, "filter", fmt.Sprintf("%q names no key of the board", f), "board/<key> is a change of a key; bb.watch is for that"})
			}
		}
	}
	for name, n := range b.agents {
		if n > 1 {
			list = append(list, Problem{script.Position{File: b.files()[len(b.files())-1]}, "agent-name", fmt.Sprintf("%d agents are called %q", n, name), "their events can't be told apart"})
		}
	}
	slices.SortStableFunc(list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.At.File, b.At.File), a.At.Line-b.At.Line, a.At.Col-b.At.Col, cmp.Compare(a.Msg, b.Msg))
	})
	return list
}

// A Summary is what a behaviour consists of, and how it is doing. It has a JSON
// form.
type Summary struct {
	Folder     string             `json:"folder"`
	Hash       string             `json:"hash"`
	Files      []string           `json:"files"`
	Handlers   []HandlerSummary   `json:"handlers,omitempty"`
	Agents     []string           `json:"agents,omitempty"`
	Background *background.Status `json:"background,omitempty"`
	Running    int                `json:"running"` // runs of handlers and timers
	Waiting    int                `json:"waiting"` // durable waits
}

// A HandlerSummary is one handler, timer, watcher or volunteer.
type HandlerSummary struct {
	Kind    string   `json:"kind"` // "on", "timer", "watch", "volunteer"
	What    []string `json:"what"` // filters, the interval, the pattern, the key
	Handler string   `json:"handler"`
	At      string   `json:"at"`
	Queued  int      `json:"queued,omitempty"`
	Dropped uint64   `json:"dropped,omitempty"`
	Errors  uint64   `json:"errors,omitempty"`
}

// Summary tells what the behaviour consists of. It may be called at any time.
func (b *Behaviour) Summary() Summary {
	s := Summary{Folder: b.folder, Hash: b.Hash(), Files: b.files(), Running: b.runs.len()}
	b.mu.Lock()
	s.Waiting = len(b.durables)
	s.Agents = slices.Sorted(maps.Keys(b.agents))
	parts := slices.SortedFunc(maps.Keys(b.parts), func(x, y part) int { return b.parts[x] - b.parts[y] })
	b.mu.Unlock()
	for _, p := range parts {
		s.Handlers = append(s.Handlers, p.summary())
	}
	st := b.root.Status()
	if len(st.Children) > 0 {
		s.Background = &st
	}
	return s
}

func (l *listener) summary() HandlerSummary {
	h := HandlerSummary{Kind: "on", What: l.filters, Handler: l.cb.name, At: l.at.String(), Dropped: l.skipped.Load()}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sub != nil {
		st := l.sub.Stats()
		h.Queued, h.Errors = st.Queued, st.Errors
		h.Dropped += l.sub.Dropped()
	}
	return h
}

func (k *ticker) summary() HandlerSummary {
	return HandlerSummary{Kind: "timer", What: []string{k.what}, Handler: k.lane.cb.name, At: k.at.String(), Dropped: k.lane.lost()}
}

func (w *watcher) summary() HandlerSummary {
	return HandlerSummary{Kind: "watch", What: []string{w.pattern}, Handler: w.cb.name, At: w.at.String()}
}

func (v *volunteer) summary() HandlerSummary {
	return HandlerSummary{Kind: "volunteer", What: []string{v.key}, Handler: v.cb.name, At: v.at.String()}
}
