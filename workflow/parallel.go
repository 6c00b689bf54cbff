package workflow

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"edged/agent"
)

// ParallelOptions of a [Parallel]; the zero value waits for all children.
type ParallelOptions struct {
	// Need is how many children must be done; the rest is cancelled as soon
	// as they are, or as soon as they can't be any more. 0 is all.
	Need int
	// Timeout ends children that are still running; 0 is never.
	Timeout time.Duration
	// MaxConcurrency bounds how many run at a time; 0 is all at once.
	MaxConcurrency int
	// Reduce makes the reply and output of the children's results; nil joins
	// the replies of those done, a line each, and lists their outputs.
	Reduce func(ctx context.Context, results []agent.Result) (agent.Result, error)
}

// A Parallel gives the same task to all its children at once. Its result has
// one child result per child, in order, also for those that crashed, came
// late or were not started.
type Parallel struct {
	name     string
	opt      ParallelOptions
	children []agent.Agent
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
	return &Parallel{name, o, children}
}

// Name is the workflow's name.
func (p *Parallel) Name() string { return p.name }

// Run gives the task to the children and waits for as many as are needed, and
// for the cancelled rest to end.
func (p *Parallel) Run(ctx context.Context, t agent.Task) (agent.Result, error) {
	if len(p.children) == 0 {
		return agent.Result{}, fmt.Errorf("%w: %s has no agents", agent.ErrFailed, p.name)
	}
	results := p.runAll(ctx, t)
	if err := ctx.Err(); err != nil {
		return agent.Result{Children: results}, err
	}
	done, late := 0, 0
	var missing []string
	for _, r := range results {
		switch r.Status {
		case agent.Done:
			done++
		case agent.Timeout:
			late++
			missing = append(missing, r.By+": timeout")
		default:
			missing = append(missing, fmt.Sprintf("%s: %s %s", r.By, r.Status, r.Reason))
		}
	}
	if done < p.opt.Need {
		sentinel := agent.ErrFailed
		if done+late >= p.opt.Need {
			sentinel = agent.ErrTimeout // it was lateness alone that was missing
		}
		return agent.Result{Children: results},
			fmt.Errorf("%w: %d of %d needed are done; %s", sentinel, done, p.opt.Need, strings.Join(missing, "; "))
	}
	reduce := p.opt.Reduce
	if reduce == nil {
		reduce = join
	}
	r, err := reduce(ctx, results)
	r.Children = results
	return r, err
}

func (p *Parallel) runAll(ctx context.Context, t agent.Task) []agent.Result {
	work, cancel := context.WithCancel(ctx)
	defer cancel()
	if p.opt.Timeout > 0 {
		work, cancel = context.WithTimeout(work, p.opt.Timeout)
		defer cancel()
	}
	var (
		mu         sync.Mutex // guards done, lost
		done, lost int
		wg         sync.WaitGroup
	)
	results := make([]agent.Result, len(p.children))
	slots := make(chan struct{}, p.opt.MaxConcurrency)
	for i, c := range p.children {
		wg.Add(1)
		go func() {
			defer wg.Done()
			select {
			case slots <- struct{}{}:
				defer func() { <-slots }()
			case <-work.Done():
			}
			r, _ := agent.Run(work, c, t)
			results[i] = r
			mu.Lock()
			defer mu.Unlock()
			if r.OK() {
				done++
			} else {
				lost++
			}
			if done >= p.opt.Need || lost > len(p.children)-p.opt.Need {
				cancel()
			}
		}()
	}
	wg.Wait()
	return results
}

func join(_ context.Context, results []agent.Result) (agent.Result, error) {
	var replies []string
	var outputs []any
	for _, r := range results {
		if !r.OK() {
			continue
		}
		replies = append(replies, r.Reply)
		outputs = append(outputs, r.Output)
	}
	return agent.Result{Reply: strings.Join(replies, "\n"), Output: outputs}, nil
}
