package workflow

import (
	"context"
	"fmt"
	"slices"
	"time"

	"edged/agent"
)

// tickRow is a sequence (it goes on after Success) or a fallback (it goes on
// after Failure).
type tickRow struct {
	ch   []*mark
	goOn TickStatus
	i    int
}

// tickReactive is the same, and begins with its first child in each tick.
type tickReactive struct {
	ch   []*mark
	goOn TickStatus
}

// tickNothing is a node that can't do anything.
type tickNothing struct {
	t   *Ticking
	err error
}

func (n tickNothing) tick() TickStatus { return n.t.fail(n.err) }
func (tickNothing) halt()              {}

func row(ch []*mark, goOn TickStatus, reactive bool, t *Ticking, n *node) ticker {
	switch {
	case len(ch) == 0:
		return tickNothing{t, n.empty()}
	case reactive:
		return &tickReactive{ch, goOn}
	}
	return &tickRow{ch: ch, goOn: goOn}
}

func (r *tickRow) tick() TickStatus {
	for r.i < len(r.ch) {
		s := r.ch[r.i].tick()
		if s == Running {
			return s
		}
		if s != r.goOn {
			r.i = 0
			return s
		}
		r.i++
	}
	r.i = 0
	return r.goOn
}

func (r *tickRow) halt() {
	r.ch[r.i].halt()
	r.i = 0
}

func (r *tickReactive) tick() TickStatus {
	for i, c := range r.ch {
		if s := c.tick(); s != r.goOn {
			for _, c := range r.ch[i+1:] {
				c.halt()
			}
			return s
		}
	}
	return r.goOn
}

func (r *tickReactive) halt() { haltAll(r.ch) }

func haltAll(ch []*mark) {
	for _, c := range ch {
		c.halt()
	}
}

type tickParallel struct {
	t  *Ticking
	p  *Parallel
	ch []*mark
	is []TickStatus // of those that have ended in this run
}

func (p *tickParallel) tick() TickStatus {
	if len(p.ch) == 0 {
		return p.t.fail(p.p.empty())
	}
	if p.is == nil {
		p.is = make([]TickStatus, len(p.ch))
	}
	done, lost := 0, 0
	for i, c := range p.ch {
		if p.is[i] != Success && p.is[i] != Failure {
			p.is[i] = c.tick()
		}
		switch p.is[i] {
		case Success:
			done++
		case Failure:
			lost++
		}
	}
	switch {
	case done >= p.p.opt.Need:
		p.halt()
		return Success
	case lost > len(p.ch)-p.p.opt.Need:
		p.halt()
		return Failure
	}
	return Running
}

func (p *tickParallel) halt() {
	haltAll(p.ch)
	clear(p.is)
}

type tickInvert struct {
	c *mark
	t *Ticking
}

func (n *tickInvert) tick() TickStatus {
	switch s := n.c.tick(); s {
	case Success:
		n.t.err = nil
		return Failure
	case Failure:
		if crashed(n.t.err) {
			return Failure
		}
		return Success
	default:
		return s
	}
}
func (n *tickInvert) halt() { n.c.halt() }

type tickRetry struct {
	t     *Ticking
	c     *mark
	r     *Retry
	tries int
	until time.Time // when the next attempt may begin
	wait  time.Duration
}

func (n *tickRetry) tick() TickStatus {
	if !n.until.IsZero() && time.Now().Before(n.until) {
		return Running
	}
	n.until = time.Time{}
	s := n.c.tick()
	if s == Running {
		return s
	}
	if n.tries++; s == Success || n.tries >= n.r.opt.MaxAttempts {
		n.tries, n.wait = 0, 0
		return s
	}
	if n.wait = min(2*n.wait, maxBackoff); n.wait == 0 {
		n.wait = n.r.opt.Backoff
	}
	n.until = time.Now().Add(n.wait)
	return Running
}

func (n *tickRetry) halt() {
	n.c.halt()
	n.tries, n.wait, n.until = 0, 0, time.Time{}
}

type tickRepeat struct {
	c           *mark
	times, done int
}

func (n *tickRepeat) tick() TickStatus {
	s := n.c.tick()
	if s != Success {
		if s == Failure {
			n.done = 0
		}
		return s
	}
	if n.done++; n.done == n.times {
		n.done = 0
		return Success
	}
	return Running
}

func (n *tickRepeat) halt() {
	n.c.halt()
	n.done = 0
}

type tickLoop struct {
	t     *Ticking
	c     *mark
	l     *Loop
	times int
}

func (n *tickLoop) tick() TickStatus {
	s := n.c.tick()
	if s == Running {
		return s
	}
	n.times++
	end := s == Success
	if n.l.opt.Until != nil {
		last := agent.Result{Status: agent.Done, By: n.c.a.Name()}
		if s == Failure {
			last.Status = agent.Failed
		}
		var err error
		end, err = protected(func() (bool, error) {
			return n.l.opt.Until(n.t.ctx, View{Task: n.t.task, Last: last, Count: n.times})
		})
		if err != nil {
			n.times = 0
			return n.t.fail(fmt.Errorf("until: %w", err))
		}
	}
	switch {
	case end:
		n.times = 0
		return Success
	case n.times >= n.l.opt.MaxIterations:
		n.times = 0
		return n.t.fail(fmt.Errorf("%w: max_iterations", agent.ErrFailed))
	}
	return Running
}

func (n *tickLoop) halt() {
	n.c.halt()
	n.times = 0
}

type tickOnce struct {
	c    *mark
	over TickStatus
}

func (n *tickOnce) tick() TickStatus {
	if n.over != Idle {
		return n.over
	}
	s := n.c.tick()
	if s != Running {
		n.over = s
	}
	return s
}
func (n *tickOnce) halt() { n.c.halt() }

type tickDelay struct {
	ch    []*mark
	d     time.Duration
	until time.Time
}

func (n *tickDelay) tick() TickStatus {
	if n.until.IsZero() {
		n.until = time.Now().Add(n.d)
	}
	if time.Now().Before(n.until) {
		return Running
	}
	s := Success
	if len(n.ch) > 0 {
		s = n.ch[0].tick()
	}
	if s != Running {
		n.until = time.Time{}
	}
	return s
}

func (n *tickDelay) halt() {
	haltAll(n.ch)
	n.until = time.Time{}
}

type tickTimeout struct {
	t     *Ticking
	c     *mark
	limit time.Duration
	until time.Time
}

func (n *tickTimeout) tick() TickStatus {
	now := time.Now()
	if n.until.IsZero() {
		n.until = now.Add(n.limit)
	}
	if now.Before(n.until) {
		s := n.c.tick()
		if s != Running {
			n.until = time.Time{}
		}
		return s
	}
	n.halt()
	return n.t.fail(fmt.Errorf("%w: %s took longer than %v", agent.ErrTimeout, n.c.a.Name(), n.limit))
}

func (n *tickTimeout) halt() {
	n.c.halt()
	n.until = time.Time{}
}

type tickSwitch struct {
	t  *Ticking
	s  *Switch
	ch []*mark
	at int // the case that runs, -1 for none
}

func (n *tickSwitch) tick() TickStatus {
	if n.at < 0 {
		if n.s.opt.Value == nil {
			return n.t.fail(fmt.Errorf("%w: %s has nothing to switch on", agent.ErrFailed, n.s.name))
		}
		v, err := protected(func() (string, error) { return n.s.opt.Value(n.t.ctx, View{Task: n.t.task}) })
		if err != nil {
			return n.t.fail(fmt.Errorf("value: %w", err))
		}
		n.at = slices.IndexFunc(n.s.cases, func(r Route) bool { return r.Name == v })
		if n.at < 0 && n.s.opt.Default == nil {
			return n.t.fail(fmt.Errorf("%w: no case for %q", agent.ErrFailed, v))
		} else if n.at < 0 {
			n.at = len(n.s.cases)
		}
	}
	s := n.ch[n.at].tick()
	if s != Running {
		n.at = -1
	}
	return s
}

func (n *tickSwitch) halt() {
	n.ch[n.at].halt()
	n.at = -1
}

// An Action is a leaf for ticks: it says in each tick whether it is still
// running. Outside of a [Tick] it can only be done or fail at once.
type Action struct {
	name string
	do   func(ctx context.Context) (TickStatus, error)
	stop func(ctx context.Context)
}

var (
	_ agent.Agent = (*Action)(nil)
	_ Ticked      = (*Action)(nil)
	_ Ticked      = (*Condition)(nil)
)

// NewAction makes an action. halt is called when it is cancelled while it is
// running; it may be nil.
func NewAction(name string, do func(ctx context.Context) (TickStatus, error), halt func(ctx context.Context)) *Action {
	return &Action{name, do, halt}
}

// Name is the action's name.
func (a *Action) Name() string { return a.name }

// Ticks gives the action's function.
func (a *Action) Ticks(ctx context.Context) func() (TickStatus, error) {
	return func() (TickStatus, error) { return a.do(ctx) }
}

// Halt tells the action that it was cancelled.
func (a *Action) Halt(ctx context.Context) {
	if a.stop != nil {
		a.stop(context.WithoutCancel(ctx))
	}
}

// Run does the action once.
func (a *Action) Run(ctx context.Context, _ agent.Task) (agent.Result, error) {
	s, err := a.do(ctx)
	switch {
	case err != nil:
		return agent.Result{}, err
	case s == Running:
		a.Halt(ctx)
		return agent.Result{}, fmt.Errorf("%w: %s is still running after one tick; it needs Tick", agent.ErrFailed, a.name)
	case s == Success:
		return agent.Result{}, nil
	}
	return agent.Result{}, fmt.Errorf("%w: %s gave %v", agent.ErrFailed, a.name, s)
}

// Ticks gives the condition's function.
func (c *Condition) Ticks(ctx context.Context) func() (TickStatus, error) {
	return func() (TickStatus, error) {
		ok, err := c.g.Check(ctx)
		if ok && err == nil {
			return Success, nil
		}
		return Failure, err
	}
}
