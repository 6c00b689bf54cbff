package lib

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"
	"time"

	"edged/background"
	"edged/bus"
	"edged/starlark/script"
	"edged/workflow"
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
func (b *Behaviour) Check() []Problem { return b.CheckTimed(0) }

// CheckTimed is Check for models that take so long for an answer: it also warns
// of rounds of societies that can't end in time. 0 leaves that out.
func (b *Behaviour) CheckTimed(perCall time.Duration) []Problem {
	list := b.societyWarnings(perCall)
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
	list = append(list, b.warnings...)
	list = slices.DeleteFunc(list, func(p Problem) bool { return script.Allows(b.line(p.At), p.Rule) })
	sort.SliceStable(list, func(i, j int) bool {
		a, b := &list[i], &list[j]
		return cmp.Or(cmp.Compare(a.At.File, b.At.File), a.At.Line-b.At.Line, a.At.Col-b.At.Col, cmp.Compare(a.Msg, b.Msg)) < 0
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
	Triggers   []TriggerSummary   `json:"triggers,omitempty"` // what wakes background agents
	Background *background.Status `json:"background,omitempty"`
	Workflows  []workflow.Outline `json:"workflows,omitempty"` // trees, with the state of their latest runs
	Places     map[string]string  `json:"places,omitempty"`    // of agents and nodes, by name: file:line:column
	Running    int                `json:"running"`             // runs of handlers and timers
	Waiting    int                `json:"waiting"`             // durable waits
	Lost       uint64             `json:"lost,omitempty"`      // what waited when a version was replaced, and the next did not take over
	Full       uint64             `json:"full,omitempty"`      // writes to the board that were refused, because the folder is isolated and keeps enough
}

// A HandlerSummary is one handler, timer, watcher or volunteer.
type HandlerSummary struct {
	Kind    string   `json:"kind"` // "on", "timer", "watch", "volunteer"
	What    []string `json:"what"` // filters, the interval, the pattern, the key
	Handler string   `json:"handler"`
	At      string   `json:"at"`

	Listens   bool   `json:"listens,omitempty"` // the counters mean something
	Since     uint64 `json:"since,omitempty"`   // number of the last event before it began to
	Runs      uint64 `json:"runs,omitempty"`
	Queued    int    `json:"queued,omitempty"`    // events, changes or requests that wait
	Refused   uint64 `json:"refused,omitempty"`   // where= or accept= said no
	Skipped   uint64 `json:"skipped,omitempty"`   // came while it ran, and its mode ignores those
	Dropped   uint64 `json:"dropped,omitempty"`   // lost by a full queue, or skipped
	Collapsed uint64 `json:"collapsed,omitempty"` // merged into a newer one by a full queue
	Errors    uint64 `json:"errors,omitempty"`
}

// A TriggerSummary is what wakes a background agent.
type TriggerSummary struct {
	Agent   string   `json:"agent"`
	Hears   []string `json:"hears,omitempty"` // topic filters; board/<pattern> are keys
	Trigger string   `json:"trigger"`
	At      string   `json:"at"`
}

// Summary tells what the behaviour consists of. It may be called at any time.
func (b *Behaviour) Summary() Summary {
	s := Summary{Folder: b.folder, Hash: b.Hash(), Files: b.files(), Running: b.runs.len(), Full: b.kept.count()}
	b.mu.Lock()
	s.Waiting, s.Lost = len(b.durables), b.lost
	s.Agents, s.Triggers = slices.Sorted(maps.Keys(b.agents)), slices.Clone(b.wakers)
	parts := slices.Collect(maps.Keys(b.parts))
	sort.Slice(parts, func(i, j int) bool { return b.parts[parts[i]] < b.parts[parts[j]] })
	b.mu.Unlock()
	for _, p := range parts {
		s.Handlers = append(s.Handlers, p.summary())
	}
	s.Workflows, s.Places = b.Workflows(), b.places()
	st := b.root.Status()
	if len(st.Children) > 0 {
		s.Background = &st
	}
	return s
}

func (l *listener) summary() HandlerSummary {
	h := HandlerSummary{Kind: "on", What: l.filters, Handler: l.cb.name, At: l.at.String(), Skipped: l.skipped.Load()}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sub != nil {
		st := l.sub.Stats()
		h.Listens, h.Since, h.Runs, h.Queued, h.Errors, h.Collapsed = true, st.Since, st.Taken, st.Queued, st.Errors, st.Replaced
		h.Refused = st.Refused - min(st.Refused, h.Skipped) // it is the predicate that skips
		h.Dropped = st.DropOldest + st.DropNew + h.Skipped
	}
	return h
}

func (k *ticker) summary() HandlerSummary {
	h := HandlerSummary{Kind: "timer", What: []string{k.what}, Handler: k.lane.cb.name, At: k.at.String()}
	h.Runs, h.Skipped = k.lane.counts()
	h.Dropped = h.Skipped
	return h
}

func (w *watcher) summary() HandlerSummary {
	h := HandlerSummary{Kind: "watch", What: []string{w.pattern}, Handler: w.cb.name, At: w.at.String(), Runs: w.runs.Load(), Errors: w.errors.Load()}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watch != nil {
		h.Listens, h.Since, h.Collapsed = true, w.since, w.watch.Collapsed()
	}
	return h
}

func (v *volunteer) summary() HandlerSummary {
	h := HandlerSummary{
		Kind: "volunteer", What: []string{v.key}, Handler: v.cb.name, At: v.at.String(),
		Runs: v.runs.Load(), Refused: v.refused.Load(), Errors: v.errors.Load(),
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.v != nil {
		h.Listens, h.Since, h.Queued = true, v.since, len(v.b.host.Board.Pending(v.key))
	}
	return h
}
