package workflow

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"time"

	"edged/agent"
)

// TickStatus is what a tick of a node gives.
type TickStatus uint8

// The statuses; Idle is a node that was not ticked yet, or was halted.
const (
	Idle TickStatus = iota
	Running
	Success
	Failure
)

func (s TickStatus) String() string { return [...]string{"idle", "running", "success", "failure"}[s&3] }

// Ticked is an agent that can be ticked: a leaf of a classic tree. Ticks is
// asked once per ticking tree, so that what a tick needs is made beforehand;
// the function it gives is called from one goroutine at a time.
type Ticked interface {
	Ticks(ctx context.Context) func() (TickStatus, error)
}

// A Ticking is a tree made ready for ticks: one pass per [Ticking.Tick] from
// the root, in which each node says whether it is still running. It belongs to
// one goroutine. Sequences and fallbacks remember where they were, unless they
// are reactive. Guards are asked in every tick. An agent that can't be ticked
// runs beside until it is done.
type Ticking struct {
	ctx   context.Context
	root  *mark
	task  agent.Task
	trace *frame // nil if nobody listens
	err   error  // why the last node that failed did
	left  int
}

// ticker is a node of a ticking tree.
type ticker interface {
	tick() TickStatus
	halt() // only called while it is running
}

// mark is a place in a ticking tree: it knows the status of its node.
type mark struct {
	n     ticker
	last  TickStatus
	t     *Ticking
	a     agent.Agent
	kind  string
	path  string
	since time.Time
}

func (m *mark) tick() TickStatus {
	s := m.n.tick()
	if s != m.last {
		m.change(s)
	}
	return s
}

func (m *mark) halt() {
	if m.last == Running {
		m.n.halt()
		m.change(Idle)
	}
}

// change is where the tree tells of itself: a tick that changes nothing is
// free.
func (m *mark) change(s TickStatus) {
	was := m.last
	m.last = s
	f := m.t.trace
	if f == nil {
		return
	}
	now := time.Now()
	moment := Moment{Run: f.run.id, Path: m.path, Name: m.a.Name(), Kind: m.kind, Phase: Ended}
	switch s {
	case Running:
		moment.Phase, m.since = Started, now
	case Success:
		moment.Status = agent.Done
	case Failure:
		moment.Status = agent.Failed
		if m.t.err != nil {
			moment.Reason = m.t.err.Error()
		}
	case Idle:
		moment.Status = agent.Cancelled
	}
	if was == Running {
		moment.Elapsed = now.Sub(m.since)
	}
	f.run.rt.Trace.Node(f, moment)
}

// NewTicking makes a tree ready. What its agents and functions do ends with
// ctx.
func NewTicking(ctx context.Context, tree agent.Agent, task agent.Task) *Ticking {
	t := &Ticking{ctx: ctx, task: task}
	path := ""
	if f := frameOf(ctx); f != nil {
		if path = f.path() + ".0"; f.path() == "" {
			path = "0"
		}
		if f.run.rt.Trace != nil {
			t.trace = f
		}
	}
	t.root = t.compile(tree, path)
	return t
}

// Tick goes through the tree once.
func (t *Ticking) Tick() TickStatus { return t.root.tick() }

// Halt halts what is running, innermost first; the next tick begins anew.
func (t *Ticking) Halt() { t.root.halt() }

// Err gives why the tree failed, after a tick that gave Failure.
func (t *Ticking) Err() error { return t.err }

// LeftBehind gives how many agents ignored that they were halted.
func (t *Ticking) LeftBehind() int { return t.left }

func (t *Ticking) fail(err error) TickStatus {
	t.err = err
	return Failure
}

func (t *Ticking) compile(a agent.Agent, path string) *mark {
	m := &mark{t: t, a: a, kind: "agent", path: path}
	n, core := nodeOf(a), a
	for {
		if _, ok := core.(inner); ok {
			break
		}
		if _, ok := core.(Ticked); ok {
			break
		}
		w, ok := core.(Wrapper)
		if !ok {
			break
		}
		core = w.Unwrap()
	}
	if n != nil {
		m.kind = n.kind
	}
	if l, ok := core.(Ticked); ok {
		m.n = &tickLeaf{t: t, a: a, f: l.Ticks(t.ctx)}
		return m
	}
	if m.n = t.node(core, path); m.n == nil {
		m.n = &tickAgent{t: t, a: a}
		return m // it minds its guard itself
	}
	if n.opt.Guard != nil || n.opt.OnHalt != nil {
		m.n = &tickGuard{t: t, opt: n.opt, n: m.n}
	}
	return m
}

// node makes the ticking form of a node, or nil where there is none.
func (t *Ticking) node(a agent.Agent, path string) ticker {
	kids := func() []*mark {
		var list []*mark
		for i, c := range nodeOf(a).children {
			at := strconv.Itoa(i)
			if path != "" {
				at = path + "." + at
			}
			list = append(list, t.compile(c, at))
		}
		return list
	}
	switch a := a.(type) {
	case *Sequence:
		return row(kids(), Success, a.opt.Reactive, t, &a.node)
	case *Fallback:
		return row(kids(), Failure, a.opt.Reactive, t, &a.node)
	case *Parallel:
		return &tickParallel{t: t, p: a, ch: kids()}
	case *Step:
		return kids()[0]
	case *Invert:
		return &tickInvert{kids()[0], t}
	case *Retry:
		return &tickRetry{t: t, c: kids()[0], r: a}
	case *Repeat:
		return &tickRepeat{c: kids()[0], times: a.times}
	case *Loop:
		return &tickLoop{t: t, c: kids()[0], l: a}
	case *RunOnce:
		return &tickOnce{c: kids()[0]}
	case *Delay:
		return &tickDelay{ch: kids(), d: a.d}
	case *Timeout:
		return &tickTimeout{t: t, c: kids()[0], limit: a.limit}
	case *Switch:
		return &tickSwitch{t: t, s: a, ch: kids(), at: -1}
	}
	return nil
}

// tickLeaf is a leaf; what panics in it is a failure.
type tickLeaf struct {
	t *Ticking
	a agent.Agent
	f func() (TickStatus, error)
}

func (l *tickLeaf) tick() (s TickStatus) {
	defer func() {
		if p := recover(); p != nil {
			s = l.t.fail(&agent.Panic{Value: p, Stack: debug.Stack()})
		}
	}()
	s, err := l.f()
	if err != nil {
		return l.t.fail(err)
	}
	switch s {
	case Failure:
		l.t.err = nil
	case Idle:
		return l.t.fail(fmt.Errorf("%w: %s gave no status", agent.ErrFailed, l.a.Name()))
	}
	return s
}

func (l *tickLeaf) halt() {
	if h, ok := l.a.(interface{ Halt(ctx context.Context) }); ok {
		if err := guardedCall(func() error { h.Halt(l.t.ctx); return nil }); err != nil {
			l.t.err = err
		}
	}
}

// tickAgent runs an agent beside the ticks.
type tickAgent struct {
	t      *Ticking
	a      agent.Agent
	cancel context.CancelFunc
	ended  chan error // nil while it does not run
}

func (l *tickAgent) tick() TickStatus {
	if l.ended == nil {
		ctx, cancel := context.WithCancel(l.t.ctx)
		ended := make(chan error, 1)
		l.cancel, l.ended = cancel, ended
		go func() {
			err := errGoexit
			defer func() { ended <- err }()
			_, err = agent.Run(ctx, l.a, l.t.task)
		}()
		return Running
	}
	select {
	case err := <-l.ended:
		l.cancel()
		l.ended = nil
		if err != nil && !errors.Is(err, agent.ErrExit) {
			return l.t.fail(err)
		}
		return Success
	default:
		return Running
	}
}

func (l *tickAgent) halt() {
	l.cancel()
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	select {
	case <-l.ended:
	case <-grace.C:
		l.t.left++
	}
	l.ended = nil
}

// tickGuard asks a guard before each tick and calls on_halt.
type tickGuard struct {
	t   *Ticking
	opt Options
	n   ticker
	on  bool // it is running
}

func (g *tickGuard) tick() TickStatus {
	if g.opt.Guard != nil {
		ok, _, err := g.opt.Guard.ask(g.t.ctx)
		if err == nil && !ok {
			err = &GuardError{g.opt.Guard.Name, g.opt.Guard}
		}
		if err != nil {
			if g.on {
				g.stop(whyOf(err))
			}
			return g.t.fail(err)
		}
	}
	s := g.n.tick()
	g.on = s == Running
	return s
}

func whyOf(err error) string {
	var g *GuardError
	if errors.As(err, &g) {
		return g.reason()
	}
	return err.Error()
}

func (g *tickGuard) halt() { g.stop("cancelled") }

func (g *tickGuard) stop(why string) {
	g.on = false
	g.n.halt()
	if g.opt.OnHalt == nil {
		return
	}
	limit := g.opt.HaltLimit
	if limit <= 0 {
		limit = time.Second
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(g.t.ctx), limit)
	defer cancel()
	if err := guardedCall(func() error { return g.opt.OnHalt(ctx, why) }); err != nil {
		g.t.err = fmt.Errorf("on_halt: %w", err)
	}
}
