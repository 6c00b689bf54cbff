package workflow

import (
	"context"
	"errors"
	"strings"
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
	// Recalled is an end of before, of a run that is resumed: it is no news.
	Recalled bool
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
		if m.Reason = err.Error(); err == context.Canceled && f.Err() != nil {
			m.Reason = whyEnded(f) // says more
		}
	}
	if g := guardOf(err); g != nil {
		m.Guard = g.Name
		if m.Reason == g.Error() {
			m.Reason = g.reason()
		}
	}
	return m
}

// guardOf gives the guard that an error is of, or nil.
func guardOf(err error) *GuardError {
	if err == nil {
		return nil
	}
	var g *GuardError
	errors.As(err, &g)
	return g
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
	mu    sync.Mutex // guards both
	roots map[string]*standing
	runs  map[string]*standing
}

// standing is how a tree stands. The next run of the tree takes its memory.
type standing struct {
	run    string
	n      int // of the run, among those that had this memory
	places map[string]*place
}

// place is what a node told last.
type place struct {
	n       int // of the run
	phase   Phase
	status  agent.Status
	reason  string
	guard   string
	elapsed time.Duration
}

// maxPlaces is how many places are kept from run to run.
const maxPlaces = 1024

// NewLive makes a Live that has heard of nothing.
func NewLive() *Live {
	return &Live{roots: map[string]*standing{}, runs: map[string]*standing{}}
}

// Node notes the moment.
func (l *Live) Node(ctx context.Context, m Moment) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m.Path == "" && m.Phase == Started {
		l.begin(m.Name, m.Run)
	}
	if s := l.runs[m.Run]; s != nil {
		s.note(&m)
	}
	return ctx
}

// begin makes a run the latest one of its tree; what others that still go on
// tell is no longer heard. The caller holds mu.
func (l *Live) begin(root, run string) {
	s := l.roots[root]
	if s == nil {
		s = &standing{}
		l.roots[root] = s
	}
	delete(l.runs, s.run)
	if s.places == nil || len(s.places) > maxPlaces {
		s.places = map[string]*place{}
	}
	s.run, s.n = run, s.n+1
	l.runs[run] = s
}

func (s *standing) note(m *Moment) {
	path := plain(m.Path)
	p := s.places[path]
	if p == nil {
		p = &place{}
		s.places[path] = p
	}
	*p = place{n: s.n, phase: m.Phase, status: m.Status, reason: m.Reason, guard: m.Guard, elapsed: m.Elapsed}
}

// plain is a path without the counts of repeated runs: a place in the outline.
func plain(path string) string {
	if strings.IndexByte(path, '~') < 0 {
		return path
	}
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
	defer l.mu.Unlock()
	if s := l.roots[o.Name]; s != nil {
		o.fill(s)
	}
	return o
}

func (o *Outline) fill(s *standing) {
	if p := s.places[o.Path]; p != nil && p.n == s.n {
		o.State = "running"
		switch p.phase {
		case Ended:
			o.State = string(p.status)
		case Left:
			o.State = "left behind"
		}
		o.Reason, o.Elapsed, o.Stopped = p.reason, p.elapsed, p.guard
	}
	for i := range o.Children {
		o.Children[i].fill(s)
	}
}
