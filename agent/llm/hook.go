package llm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sort"
	"time"

	"edged/agent"
	"edged/bus/origin"
)

// Point is where in a run a hook is called.
type Point int

// The six points, in the order a run passes them.
const (
	OnRunStart Point = iota
	BeforeModel
	AfterModel
	BeforeTool
	AfterTool
	OnRunEnd
	pointCount
)

func (p Point) String() string {
	return [...]string{"on_run_start", "before_model", "after_model", "before_tool", "after_tool", "on_run_end"}[p]
}

// A Hook looks into a run at some of the six points. A function lets pass by
// returning nil, replaces by changing the step it was given, and ends the run by
// returning an [End]. Hooks are called in order of priority, the highest first,
// then of registration; the agent's own, then those of the run ([WithHooks]).
//
// A hook that returns any other error, or panics, has failed: a Safety hook
// then ends the run as blocked, any other is reported and what it changed is
// undone. The functions are called one at a time within a run, but several
// runs may be under way: what a hook keeps for one run belongs into
// [Turn.Value].
type Hook struct {
	Name     string
	Priority int // 100 safety, 50 repair, 0 observation
	Safety   bool
	Whole    bool // may replace the answer: nothing is said aloud before the run's end

	OnRunStart  func(ctx context.Context, s *Step) error
	BeforeModel func(ctx context.Context, s *Step) error
	AfterModel  func(ctx context.Context, s *Step) error
	BeforeTool  func(ctx context.Context, s *Step) error
	AfterTool   func(ctx context.Context, s *Step) error
	OnRunEnd    func(ctx context.Context, s *Step) error
}

func (h *Hook) at(p Point) func(context.Context, *Step) error {
	return [...]func(context.Context, *Step) error{
		h.OnRunStart, h.BeforeModel, h.AfterModel, h.BeforeTool, h.AfterTool, h.OnRunEnd}[p]
}

// A Step is what a hook sees, and may change; which fields count depends on
// the point.
type Step struct {
	Point   Point
	Turn    *Turn           // the run so far; all points
	Task    agent.Task      // on_run_start
	Request Request         // before_model, after_model; its lists are replaced, never changed in place
	Answer  Message         // after_model
	Tool    Tool            // before_tool, after_tool
	Call    Call            // before_tool, after_tool; arguments changed before are checked again
	Result  json.RawMessage // after_tool; set before_tool, the tool isn't run and this is its result
	Err     error           // like Result
	Ran     bool            // after_tool: the tool was really run
	Final   agent.Result    // on_run_end
	Failure error           // on_run_end; nil = done
}

// A Turn is what hooks know of a run.
type Turn struct {
	Agent    string
	Task     agent.Task
	Hop      int      // requests to the model so far, from 0
	Notes    []string // what the model is told beside the words; filled on_run_start
	Receipts []agent.Receipt
	Usage    agent.Usage
	Started  time.Time

	scope   *origin.Scope
	trusted func(string) bool
	scratch map[any]any
}

// Origin is whose words are in the prompt: the task's, those of the turns that
// are remembered, of notes, of what tools gave and of what led here.
func (t *Turn) Origin() origin.Label {
	if t.scope == nil {
		return t.Task.Origin
	}
	return t.scope.Label()
}

// Tainted reports whether there are words in the prompt that are no orders: no
// Write tool is offered then.
func (t *Turn) Tainted() bool { return !t.Origin().Trusted(t.trusted) }

// Value keeps a value for the length of one run; make makes it when it is
// first asked for.
func (t *Turn) Value(key any, make func() any) any {
	v, ok := t.scratch[key]
	if !ok {
		if t.scratch == nil {
			t.scratch = map[any]any{}
		}
		v = make()
		t.scratch[key] = v
	}
	return v
}

// An End is returned by a hook that ends the run. With Err the run has that
// outcome, and Reply may still say something; without, it is done.
type End struct {
	Reply string
	Err   error // wraps a sentinel of package agent
}

func (e *End) Error() string {
	if e.Err != nil {
		return e.Err.Error()
	}
	return "end of run: " + e.Reply
}

func (e *End) Unwrap() error { return e.Err }

type hooksKey struct{}

// WithHooks returns a context in which every run has these hooks after its
// agent's own.
func WithHooks(ctx context.Context, hooks ...Hook) context.Context {
	old, _ := ctx.Value(hooksKey{}).([]Hook)
	return context.WithValue(ctx, hooksKey{}, append(slices.Clip(old), hooks...))
}

// chain is hooks by point, in calling order.
type chain struct {
	at    [pointCount][]*Hook
	whole bool
}

func newChain(hooks []Hook) *chain {
	sorted := slices.Clone(hooks)
	sort.SliceStable(sorted, func(i, j int) bool { return sorted[i].Priority > sorted[j].Priority })
	c := &chain{}
	for i := range sorted {
		h := &sorted[i]
		c.whole = c.whole || h.Whole
		for p := range pointCount {
			if h.at(p) != nil {
				c.at[p] = append(c.at[p], h)
			}
		}
	}
	return c
}

// forRun adds the run's own hooks.
func (c *chain) forRun(ctx context.Context) *chain {
	extra, _ := ctx.Value(hooksKey{}).([]Hook)
	if len(extra) == 0 {
		return c
	}
	more := newChain(extra)
	out := &chain{whole: c.whole || more.whole}
	for p := range pointCount {
		out.at[p] = append(slices.Clip(c.at[p]), more.at[p]...)
	}
	return out
}

// fire calls the hooks of a point; the error is an *End or ctx's.
func (t *turn) fire(ctx context.Context, p Point, s *Step) error {
	s.Point, s.Turn = p, &t.Turn
	for _, h := range t.hooks.at[p] {
		before := *s
		err := call(ctx, h, p, s)
		if err == nil {
			continue
		}
		var end *End
		switch {
		case errors.As(err, &end):
			return end
		case ctx.Err() != nil:
			return ctx.Err()
		case h.Safety:
			return &End{Err: fmt.Errorf("%w: hook %s failed at %s: %w", agent.ErrBlocked, h.Name, p, err)}
		}
		*s = before
		t.a.report(ctx, fmt.Errorf("llm: hook %s at %s: %w", h.Name, p, err))
	}
	return nil
}

func call(ctx context.Context, h *Hook, p Point, s *Step) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &agent.Panic{Value: v, Stack: debug.Stack()}
		}
	}()
	return h.at(p)(ctx, s)
}

// fireEnd calls the hooks at the end of a run. All of them see it: an end given
// by one is the outcome that the next is shown.
func (t *turn) fireEnd(ctx context.Context, r agent.Result, err error) (agent.Result, error) {
	if len(t.hooks.at[OnRunEnd]) == 0 {
		return r, err
	}
	if ctx.Err() != nil { // the log of a cancelled run must still be written
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
	}
	s := Step{Final: r, Failure: err}
	for _, h := range t.hooks.at[OnRunEnd] {
		s.Point, s.Turn = OnRunEnd, &t.Turn
		before := s
		herr := call(ctx, h, OnRunEnd, &s)
		var end *End
		switch {
		case herr == nil:
		case errors.As(herr, &end):
			s = before
			s.Final.Reply, s.Failure = end.Reply, end.Err
			s.Final.Status, s.Final.Reason = "", ""
		case h.Safety:
			s = before
			s.Final.Reply, s.Final.Output, s.Final.Status, s.Final.Reason = "", nil, "", ""
			s.Failure = fmt.Errorf("%w: hook %s failed at %s: %w", agent.ErrBlocked, h.Name, OnRunEnd, herr)
		default:
			s = before
			t.a.report(ctx, fmt.Errorf("llm: hook %s at %s: %w", h.Name, OnRunEnd, herr))
		}
	}
	return s.Final, s.Failure
}
