package workflow

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"edged/agent"
)

// LoopOptions of a [Loop].
type LoopOptions struct {
	Options
	// Until ends the loop; View.Last is what the child just gave. nil is: the
	// child is done.
	Until         func(ctx context.Context, v View) (bool, error)
	MaxIterations int  // 0 is 5
	PassTask      bool // every time the loop's own task, not the last reply
}

// A Loop runs its child until a condition holds: then it is done, with the
// child's reply. It is failed with the reason max_iterations where that does
// not come about, and where the condition can't be asked.
type Loop struct {
	node
	opt LoopOptions
}

var _ agent.Agent = (*Loop)(nil)

// NewLoop makes a loop around a child.
func NewLoop(name string, o LoopOptions, child agent.Agent) *Loop {
	if o.MaxIterations <= 0 {
		o.MaxIterations = 5
	}
	return &Loop{node{name: name, kind: "loop", opt: o.Options, children: []agent.Agent{child}, detail: fmt.Sprintf("at most %d times", o.MaxIterations)}, o}
}

// Run runs the child until the condition holds.
func (l *Loop) Run(ctx context.Context, t agent.Task) (agent.Result, error) { return run(ctx, l, t) }

func (l *Loop) body(ctx context.Context, f *frame, t agent.Task) (agent.Result, error) {
	out := agent.Result{}
	task := t
	for i := range l.opt.MaxIterations {
		r, err := f.step(ctx, 0, i, l.children[0], task)
		add(&out.Usage, r)
		out.Children = append(out.Children, r)
		if final(ctx, r, err) || r.Status == agent.Cancelled {
			r.Children, r.Usage = out.Children, out.Usage
			return r, err
		}
		end, err := decide(f, fmt.Sprintf("until~%d", i), func() (bool, error) {
			if l.opt.Until == nil {
				return r.OK(), nil
			}
			return l.opt.Until(ctx, View{Task: t, Last: r, Count: i + 1})
		})
		if err != nil {
			return out, fmt.Errorf("%w: until: %w", agent.ErrFailed, noStatus{err})
		}
		if end {
			r.Status, r.Reason, r.Children, r.Usage = agent.Done, "", out.Children, out.Usage
			return r, nil
		}
		if !l.opt.PassTask && r.OK() && (r.Reply != "" || r.Output != nil) {
			task = next(task, r)
		}
	}
	return out, fmt.Errorf("%w: max_iterations", agent.ErrFailed)
}

// RetryOptions of a [Retry].
type RetryOptions struct {
	Options
	MaxAttempts int            // 0 is 3
	Backoff     time.Duration  // before the second attempt, then doubled up to 30 s; 0 is 200 ms, less is none
	On          []agent.Status // what is tried again; nil is failed and timeout
}

// A Retry runs its child again while it fails. Its outcome is the last one's.
type Retry struct {
	node
	opt RetryOptions
}

var _ agent.Agent = (*Retry)(nil)

const maxBackoff = 30 * time.Second

// NewRetry makes a retry of a child; an empty name is "retry <child>".
func NewRetry(name string, o RetryOptions, child agent.Agent) *Retry {
	if o.MaxAttempts <= 0 {
		o.MaxAttempts = 3
	}
	if o.Backoff == 0 {
		o.Backoff = 200 * time.Millisecond
	}
	if o.On == nil {
		o.On = []agent.Status{agent.Failed, agent.Timeout}
	}
	return &Retry{node{name: named(name, "retry", child.Name()), kind: "retry", opt: o.Options, children: []agent.Agent{child},
		detail: fmt.Sprintf("at most %d attempts", o.MaxAttempts)}, o}
}

// Run tries the child.
func (b *Retry) Run(ctx context.Context, t agent.Task) (agent.Result, error) { return run(ctx, b, t) }

func (b *Retry) body(ctx context.Context, f *frame, t agent.Task) (agent.Result, error) {
	var list []agent.Result
	var used agent.Usage
	wait := b.opt.Backoff
	for i := 0; ; i++ {
		r, err := f.step(ctx, 0, i, b.children[0], t)
		add(&used, r)
		list = append(list, r)
		if r.OK() || final(ctx, r, err) || i+1 >= b.opt.MaxAttempts || !slices.Contains(b.opt.On, r.Status) {
			r.Children, r.Usage = list, used
			return r, err
		}
		if !f.recorded(0, i+1) { // on the way back to where it was nothing is waited for
			if err := sleep(ctx, wait); err != nil {
				return agent.Result{Children: list, Usage: used}, err
			}
		}
		wait = min(2*wait, maxBackoff)
	}
}

// sleep waits, or gives the error of a context that ends before.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A Repeat runs its child again while it is done.
type Repeat struct {
	node
	times int
}

var _ agent.Agent = (*Repeat)(nil)

// NewRepeat makes a repeat of a child, so many times; 0 is for ever. It stops
// at the first outcome that is not done and has it. An empty name is "repeat
// <child>".
func NewRepeat(name string, o Options, times int, child agent.Agent) *Repeat {
	detail := "for ever"
	if times > 0 {
		detail = fmt.Sprintf("%d times", times)
	}
	return &Repeat{node{name: named(name, "repeat", child.Name()), kind: "repeat", opt: o, children: []agent.Agent{child}, detail: detail}, times}
}

// Run repeats the child.
func (b *Repeat) Run(ctx context.Context, t agent.Task) (agent.Result, error) { return run(ctx, b, t) }

func (b *Repeat) body(ctx context.Context, f *frame, t agent.Task) (agent.Result, error) {
	var used agent.Usage
	for i := f.counted(); ; i++ {
		r, err := f.step(ctx, 0, i, b.children[0], t)
		add(&used, r)
		if err != nil || i+1 == b.times {
			r.Children, r.Usage = []agent.Result{r}, used // the last one alone: for ever is long
			return r, err
		}
		if err := f.count(0, i); err != nil {
			return r, err
		}
	}
}

// A RunOnce runs its child once in its life and has that outcome ever after.
// A run that was cancelled does not count.
type RunOnce struct {
	node
	mu   sync.Mutex    // guards the rest
	turn chan struct{} // closed when the run under way has ended; nil is none
	over bool
	r    agent.Result
	err  error
}

var _ agent.Agent = (*RunOnce)(nil)

// NewRunOnce makes a run-once of a child; an empty name is "once <child>".
func NewRunOnce(name string, o Options, child agent.Agent) *RunOnce {
	return &RunOnce{node: node{name: named(name, "once", child.Name()), kind: "once", opt: o, children: []agent.Agent{child}}}
}

// Run runs the child if it was not run; whoever comes meanwhile waits.
func (b *RunOnce) Run(ctx context.Context, t agent.Task) (agent.Result, error) { return run(ctx, b, t) }

func (b *RunOnce) body(ctx context.Context, f *frame, t agent.Task) (agent.Result, error) {
	for {
		b.mu.Lock()
		turn := b.turn
		switch {
		case b.over:
			b.mu.Unlock()
			return b.r, b.err
		case turn == nil:
			b.turn = make(chan struct{})
			b.mu.Unlock()
			return b.first(ctx, f, t)
		}
		b.mu.Unlock()
		select {
		case <-turn:
		case <-ctx.Done():
			return agent.Result{}, ctx.Err()
		}
	}
}

func (b *RunOnce) first(ctx context.Context, f *frame, t agent.Task) (agent.Result, error) {
	r, err := f.step(ctx, 0, 0, b.children[0], t)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !final(ctx, r, err) && r.Status != agent.Cancelled {
		b.over, b.r, b.err = true, r, err
	}
	close(b.turn)
	b.turn = nil
	return r, err
}
