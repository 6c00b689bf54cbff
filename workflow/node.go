package workflow

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"edged/agent"
	"edged/agent/llm"
)

// Options are what every node may have; the zero value is none of it.
type Options struct {
	// Guard must hold before the node starts and as long as it runs.
	Guard *Guard
	// OnHalt is called when the node was started and then cancelled, after its
	// children have ended, innermost node first. ctx is a fresh one that ends
	// after HaltLimit. An error or a panic is added to the node's reason.
	OnHalt    func(ctx context.Context, why string) error
	HaltLimit time.Duration // 0 is 1 s
	// Effect is what the node does to the world. In a durable run a node that
	// writes is not run again by itself if it was interrupted.
	Effect llm.Effect
	// Checkpoint makes each run of this node durable, and with it all below.
	Checkpoint bool
	// OnInDoubt decides what becomes of a child of the node, or of one below,
	// that was interrupted while it wrote. nil leaves it to a person.
	OnInDoubt func(ctx context.Context, d Doubt) (Decision, error)
}

// A View is what the functions of a node see of its run.
type View struct {
	Task  agent.Task   // the node's
	Last  agent.Result // of the child that ended last
	Count int          // children that have ended
}

// node is what all nodes have in common.
type node struct {
	name, kind string
	opt        Options
	children   []agent.Agent
	labels     []string // of the children, where they have names of their own here
	detail     string   // for the outline
}

// Name is the node's name.
func (n *node) Name() string { return n.name }
func (n *node) self() *node  { return n }

// inner is a node as this package runs it.
type inner interface {
	agent.Agent
	self() *node
	body(ctx context.Context, f *frame, t agent.Task) (agent.Result, error)
}

// nodeOf gives the node that an agent is or wraps, or nil.
func nodeOf(a agent.Agent) *node {
	for a != nil {
		if n, ok := a.(inner); ok {
			return n.self()
		}
		w, ok := a.(Wrapper)
		if !ok {
			return nil
		}
		a = w.Unwrap()
	}
	return nil
}

// A Wrapper is an agent around another one, which it runs as if it were it.
type Wrapper interface{ Unwrap() agent.Agent }

func named(name, kind, child string) string {
	if name == "" {
		return kind + " " + child
	}
	return name
}

// run runs a node. Everything that is not its own business is here: the run it
// belongs to, guard, halting, tracing.
func run(ctx context.Context, n inner, t agent.Task) (agent.Result, error) {
	f := enter(ctx, n, t)
	b := n.self()
	if b.opt.Checkpoint && f.run.journal == nil {
		return f.begin(n, t)
	}
	if b.opt.Guard == nil && b.opt.OnHalt == nil && f.run.rt.Trace == nil {
		return n.body(f, f, t)
	}
	return f.manage(n, t)
}

// manage runs a node with what its options and the runtime ask for.
func (f *frame) manage(n inner, t agent.Task) (r agent.Result, err error) {
	b := n.self()
	start := f.run.since()
	halt := func(error) {}
	if b.opt.Guard != nil || b.opt.OnHalt != nil {
		var guarded context.Context
		guarded, halt = context.WithCancelCause(f.Context)
		defer halt(nil)
		f = f.with(guarded) // the frame itself is what agent.Run judges the outcome by
	}
	f.settle()
	work := f.Context
	f.Context = f.tell(work, Moment{Phase: Started, Name: b.name, Kind: b.kind})
	defer func() {
		f.tell(f.Context, Moment{Phase: Ended, Name: b.name, Kind: b.kind, Elapsed: f.run.since() - start}.of(f, r, err))
	}()
	var g *watch
	if b.opt.Guard != nil {
		if g, err = b.opt.Guard.hold(f, halt); err != nil {
			return agent.Result{}, err
		}
	}
	r, err = protect(f, n, t)
	if g != nil {
		g.close()
	}
	if cause := guardCause(work); cause != nil {
		r.Status, r.Reason, r.Winner = "", "", ""
		err = cause
	}
	if f.up == nil {
		r.RunID = f.run.id
	}
	if b.opt.OnHalt != nil && work.Err() != nil && err != nil {
		r, err = f.halted(b, r, err)
	}
	return r, err
}

// protect runs a node's body; what panics in there is a failure.
func protect(f *frame, n inner, t agent.Task) (r agent.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			r, err = agent.Result{}, &agent.Panic{Value: p, Stack: debug.Stack()}
		}
	}()
	return n.body(f, f, t)
}

// halted calls a node's OnHalt.
func (f *frame) halted(b *node, r agent.Result, err error) (agent.Result, error) {
	limit := b.opt.HaltLimit
	if limit <= 0 {
		limit = time.Second
	}
	why := whyEnded(f)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.Context), limit)
	defer cancel()
	bad := guardedCall(func() error { return b.opt.OnHalt(ctx, why) })
	if bad == nil {
		return r, err
	}
	status := agent.StatusOf(err)
	if status == agent.Failed {
		status = agent.StatusOf(f.Err())
	}
	r.Status, r.Reason = "", ""
	return r, fmt.Errorf("%w: %s; on_halt: %w", sentinel(status), why, noStatus{bad})
}

// noStatus is an error that has a text and a backtrace but decides no outcome.
type noStatus struct{ error }

// Is lets a record that could not be written be known even in there.
func (e noStatus) Is(target error) bool {
	return target == errJournal && errors.Is(e.error, errJournal)
}

func (e noStatus) Fields() map[string]any {
	var f interface{ Fields() map[string]any }
	if errors.As(e.error, &f) {
		return f.Fields()
	}
	return nil
}

// guardedCall runs a function of the author's; a panic is an error.
func guardedCall(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &agent.Panic{Value: p, Stack: debug.Stack()}
		}
	}()
	return f()
}

// whyEnded says in words why a context is over.
func whyEnded(ctx context.Context) string {
	cause := context.Cause(ctx)
	var g *GuardError
	switch {
	case cause == nil:
		return ""
	case errors.As(cause, &g):
		return g.reason()
	case cause == context.Canceled:
		return "cancelled"
	case cause == context.DeadlineExceeded:
		return "timeout"
	}
	return strings.TrimSuffix(cause.Error(), ": "+context.Canceled.Error())
}

// sentinel is the error of an outcome; nil for done.
func sentinel(s agent.Status) error {
	switch s {
	case agent.Done:
		return nil
	case agent.Timeout:
		return agent.ErrTimeout
	case agent.Cancelled:
		return agent.ErrCancelled
	case agent.Blocked:
		return agent.ErrBlocked
	case agent.Rejected:
		return agent.ErrRejected
	case agent.Deadlock:
		return agent.ErrDeadlock
	case agent.Escalated:
		return agent.ErrEscalated
	}
	return agent.ErrFailed
}

// crashed reports whether an error is a crash and not an orderly failure.
func crashed(err error) bool {
	var f interface{ Fields() map[string]any }
	if !errors.As(err, &f) {
		return false
	}
	_, ok := f.Fields()["backtrace"]
	return ok
}

func (n *node) empty() error {
	return fmt.Errorf("%w: %s has no agents", agent.ErrFailed, n.name)
}

func add(u *agent.Usage, r agent.Result) {
	u.Calls += r.Usage.Calls
	u.PromptTokens += r.Usage.PromptTokens
	u.OutputTokens += r.Usage.OutputTokens
}

// next makes a child's answer the following child's task: what it said, or its
// output where it said nothing else.
func next(t agent.Task, r agent.Result) agent.Task {
	t.Input = r.Reply
	if r.Output != nil && (r.Reply == "" || r.Reply == (agent.Task{Input: r.Output}).Text()) {
		t.Input = r.Output
	}
	if r.Origin != "" {
		t.Origin = r.Origin
	}
	return t
}

// final reports whether an outcome ends whatever node it comes up in: nothing
// else may be tried after a stop, or while a step is in doubt.
func final(ctx context.Context, r agent.Result, err error) bool {
	if ctx.Err() != nil || errors.Is(err, agent.ErrExit) || unsettled(err) {
		return true
	}
	var g *GuardError
	return r.Status == agent.Cancelled && !errors.As(err, &g)
}

// unsettled reports whether an error is of a durable run that can't go on.
func unsettled(err error) bool {
	var d *InDoubtError
	var w *WaitError
	return errors.As(err, &d) || errors.As(err, &w) || errors.Is(err, errJournal)
}
