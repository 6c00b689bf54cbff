package workflow

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"edged/agent"
)

// Phase is what a [Moment] tells of.
type Phase string

// The phases.
const (
	Started Phase = "start"
	Ended   Phase = "end"
	Left    Phase = "left"     // behind: it ignores that its time is over
	Back    Phase = "returned" // at last, after it was left behind
)

// A Moment is something that happened to a node or to an agent in a tree.
type Moment struct {
	Phase   Phase
	Run     string // id of the run
	Path    string // place in the tree, as [RunOf] gives it
	Name    string
	Kind    string // "sequence", …; "agent" for what is no node
	Status  agent.Status
	Reason  string
	Guard   string // the guard that stopped it
	By      string
	Elapsed time.Duration
}

// of fills in how a run ended.
func (m Moment) of(f *frame, r agent.Result, err error) Moment {
	m.Status, m.Reason, m.By = agent.StatusOf(err), r.Reason, r.By
	if err == nil {
		if m.Status = agent.Done; r.Status != "" {
			m.Status = r.Status
		}
	} else if m.Status == agent.Failed && f.Err() != nil {
		m.Status = agent.StatusOf(f.Err())
	}
	if m.Reason == "" && err != nil {
		m.Reason = err.Error()
	}
	var g *GuardError
	if errors.As(err, &g) {
		m.Guard = g.Name
		if m.Reason == g.Error() {
			m.Reason = g.reason()
		}
	}
	return m
}

// A Trace hears of every node of every run, from several goroutines at once.
// The context it returns for a start is the one that the node runs with; it
// must come from ctx.
type Trace interface {
	Node(ctx context.Context, m Moment) context.Context
}

// Traces makes one trace of several; each start's context goes through all.
func Traces(list ...Trace) Trace { return traces(list) }

type traces []Trace

func (l traces) Node(ctx context.Context, m Moment) context.Context {
	for _, t := range l {
		if t != nil {
			ctx = t.Node(ctx, m)
		}
	}
	return ctx
}

func (f *frame) tell(ctx context.Context, m Moment) context.Context {
	if f.run.rt.Trace == nil {
		return ctx
	}
	m.Run, m.Path = f.run.id, f.path()
	return f.run.rt.Trace.Node(ctx, m)
}

// Live is a trace that remembers how each tree stands: for the page and for
// edged graph. It holds the latest run of each tree, by the name of its root.
type Live struct {
	mu    sync.Mutex        // guards both
	roots map[string]string // name of a tree: its latest run
	runs  map[string]map[string]Moment
}

// NewLive makes a Live that has heard of nothing.
func NewLive() *Live {
	return &Live{roots: map[string]string{}, runs: map[string]map[string]Moment{}}
}

// Node notes the moment.
func (l *Live) Node(ctx context.Context, m Moment) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m.Path == "" && m.Phase == Started {
		delete(l.runs, l.roots[m.Name])
		l.roots[m.Name] = m.Run
		l.runs[m.Run] = map[string]Moment{}
	}
	if places := l.runs[m.Run]; places != nil {
		places[plain(m.Path)] = m
	}
	return ctx
}

// plain is a path without the counts of repeated runs: a place in the outline.
func plain(path string) string {
	out := make([]byte, 0, len(path))
	skip := false
	for i := range len(path) {
		switch c := path[i]; {
		case c == '~':
			skip = true
		case c == '.' || c == '/':
			skip = false
			fallthrough
		default:
			if !skip {
				out = append(out, c)
			}
		}
	}
	return string(out)
}

// Outline draws a tree with the state of its latest run.
func (l *Live) Outline(a agent.Agent) Outline {
	o := Describe(a)
	l.mu.Lock()
	places := maps.Clone(l.runs[l.roots[o.Name]])
	l.mu.Unlock()
	o.fill(places)
	return o
}

func (o *Outline) fill(places map[string]Moment) {
	if m, ok := places[o.Path]; ok {
		o.State = "running"
		switch m.Phase {
		case Ended:
			o.State = string(m.Status)
		case Left:
			o.State = "left behind"
		}
		o.Reason, o.Elapsed, o.Stopped = m.Reason, m.Elapsed, m.Guard
	}
	for i := range o.Children {
		o.Children[i].fill(places)
	}
}
