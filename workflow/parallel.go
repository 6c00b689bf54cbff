package workflow

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"edged/agent"
	"edged/bus/origin"
)

// ParallelOptions of a [Parallel]; the zero value waits for all children.
type ParallelOptions struct {
	Options
	// Need is how many children must be done; the rest is cancelled as soon
	// as they are, or as soon as they can't be any more. 0 is all.
	Need int
	// Gather lets all children run to their end, or to Timeout, whatever becomes
	// of the others, and is done if one of them is. Need says nothing then.
	Gather bool
	// Timeout ends children that are still running; 0 is never.
	Timeout time.Duration
	// MaxConcurrency bounds how many run at a time; 0 is all at once.
	MaxConcurrency int
	// Reduce makes the reply and output of the children's results; nil joins
	// the replies of those done, a line each, and lists their outputs.
	Reduce func(ctx context.Context, results []agent.Result) (agent.Result, error)
	// Grace is how long cancelled children may take to end; 0 is 200 ms. When
	// the node itself is cancelled it is 40 ms at most.
	Grace time.Duration
}

// A Parallel gives the same task to all its children at once, each in a
// conversation of its own. Its result has one child result per child, in
// order, also for those that crashed, came late or were not started. A child
// that ignores its cancellation is left behind and counted.
type Parallel struct {
	node
	opt  ParallelOptions
	left atomic.Int32
	all  atomic.Uint64
}

var _ agent.Agent = (*Parallel)(nil)

// NewParallel makes a parallel workflow of the children.
func NewParallel(name string, o ParallelOptions, children ...agent.Agent) *Parallel {
	if o.Need <= 0 || o.Need > len(children) {
		o.Need = len(children)
	}
	if o.MaxConcurrency <= 0 {
		o.MaxConcurrency = len(children)
	}
	if o.Grace <= 0 {
		o.Grace = defaultGrace
	}
	var detail []string
	switch {
	case o.Gather:
		detail = append(detail, "gather")
	case o.Need < len(children):
		detail = append(detail, fmt.Sprintf("%d of %d", o.Need, len(children)))
	}
	if o.Timeout > 0 {
		detail = append(detail, o.Timeout.String())
	}
	return &Parallel{node: node{name: name, kind: "parallel", opt: o.Options, children: children, detail: strings.Join(detail, ", ")}, opt: o}
}

// LeftBehind gives how many children were ever left behind, and how many of
// them still run.
func (p *Parallel) LeftBehind() (ever uint64, now int) { return p.all.Load(), int(p.left.Load()) }

func (p *Parallel) note(n int) {
	p.left.Add(int32(n))
	if n > 0 {
		p.all.Add(uint64(n))
	}
}

// Run gives the task to the children and waits for as many as are needed, and
// for the cancelled rest to end.
func (p *Parallel) Run(ctx context.Context, t agent.Task) (agent.Result, error) {
	return run(ctx, p, t)
}

func (p *Parallel) body(ctx context.Context, f *frame, t agent.Task) (agent.Result, error) {
	if len(p.children) == 0 {
		return agent.Result{}, p.empty()
	}
	if n := p.left.Load(); n >= int32(maxLeft+len(p.children)) {
		return agent.Result{}, fmt.Errorf("%w: %d agents of %s were left behind and still run", agent.ErrFailed, n, p.name)
	}
	results, stop := p.runAll(ctx, f, t)
	out := agent.Result{Children: results}
	done, late := 0, 0
	var missing []string
	for _, r := range results {
		add(&out.Usage, r)
		out.Origin = origin.Merge(out.Origin, r.Origin)
		switch r.Status {
		case agent.Done:
			done++
			if p.opt.Need == 1 && !p.opt.Gather {
				out.Winner = r.By
			}
		case agent.Timeout:
			late++
			missing = append(missing, r.By+": timeout")
		default:
			missing = append(missing, fmt.Sprintf("%s: %s %s", r.By, r.Status, r.Reason))
		}
	}
	if err := ctx.Err(); err != nil {
		return out, err
	}
	if stop != nil {
		return out, stop
	}
	need := p.opt.Need
	if p.opt.Gather {
		need = 1
	}
	if done < need {
		sentinel := agent.ErrFailed
		if done+late >= need {
			sentinel = agent.ErrTimeout // it was lateness alone that was missing
		}
		return out, fmt.Errorf("%w: %d of %d needed are done; %s", sentinel, done, need, strings.Join(missing, "; "))
	}
	reduce := p.opt.Reduce
	if reduce == nil {
		reduce = join
	}
	r, err := reduce(ctx, results)
	r.Children, r.Usage, r.Origin = results, out.Usage, origin.Merge(r.Origin, out.Origin)
	if r.Winner == "" {
		r.Winner = out.Winner
	}
	return r, err
}

// runAll gives the children's results, and the error that nothing may go on
// after: of a step in doubt, or a record that could not be written.
func (p *Parallel) runAll(ctx context.Context, f *frame, t agent.Task) (results []agent.Result, stop error) {
	work, cancel := context.WithCancel(mute(ctx))
	defer cancel()
	if p.opt.Timeout > 0 {
		work, cancel = context.WithTimeout(work, p.opt.Timeout)
		defer cancel()
	}
	results = make([]agent.Result, len(p.children))
	over := make([]bool, len(p.children))
	w := newWorkers(f, len(p.children))
	started, running, done, lost := 0, 0, 0, 0
	for running > 0 || started < len(p.children) {
		for started < len(p.children) && running < p.opt.MaxConcurrency && work.Err() == nil {
			w.start(work, outcome{i: started}, p.children[started], p.own(t, started))
			started++
			running++
		}
		if running == 0 {
			break
		}
		var o outcome
		select {
		case o = <-w.ended:
		case <-work.Done():
			var ok bool
			if o, ok = w.await(ctx, p.opt.Grace); !ok {
				p.leaveRest(w, work, results[:started], over)
				running = 0
				continue
			}
		}
		running--
		results[o.i], over[o.i] = o.r, true
		if o.r.OK() {
			done++
		} else {
			lost++
			if stop == nil && ctx.Err() == nil && unsettled(o.err) {
				stop = o.err
				w.lost.Store(true)
				cancel()
			}
		}
		if !p.opt.Gather && (done >= p.opt.Need || lost > len(p.children)-p.opt.Need) {
			cancel()
		}
	}
	for i := started; i < len(p.children); i++ {
		results[i], _ = agent.Run(work, p.children[i], t) // only says that it is too late
	}
	return results, stop
}

func (p *Parallel) leaveRest(w *workers, work context.Context, results []agent.Result, over []bool) {
	w.leave(p.note)
	for i := range results {
		if !over[i] {
			results[i] = agent.Result{By: p.children[i].Name(), Status: agent.StatusOf(work.Err()), Reason: leftBehind}
			w.tellLeft(i, p.children[i])
		}
	}
}

// own is the task in a conversation of the child's own.
func (p *Parallel) own(t agent.Task, i int) agent.Task {
	if t.Conversation != "" {
		t.Conversation += "/" + p.name + "/" + strconv.Itoa(i)
	}
	return t
}

func join(_ context.Context, results []agent.Result) (agent.Result, error) {
	var replies []string
	var outputs []any
	for _, r := range results {
		if !r.OK() {
			continue
		}
		replies = append(replies, r.Reply)
		if r.Output == nil && r.Reply != "" {
			r.Output = r.Reply // what a node of a graph writes to the state
		}
		outputs = append(outputs, r.Output)
	}
	return agent.Result{Reply: strings.Join(replies, "\n"), Output: outputs}, nil
}
